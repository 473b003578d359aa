package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// scales finds ranks of one program whose loss counts with another weight than that of the others: only they multiply
// it, or their backward pass began with another gradient of the loss than that of the others, or than that of the first
// rank where they are as many: with another loss scale, say.
func scales(stage []*step.Process) []*violation {
	if v := multiplied(stage); v != nil {
		return []*violation{v}
	}
	for n := range stage[0].Steps {
		count := map[float64]int{}
		for _, p := range stage {
			if len(p.Steps) <= n || p.Steps[n].Loss.Op != stage[0].Steps[n].Loss.Op {
				return nil
			}
			count[p.Steps[n].Scale]++
		}
		usual := stage[0]
		for _, p := range stage {
			if count[p.Steps[n].Scale] > count[usual.Steps[n].Scale] {
				usual = p
			}
		}
		scale := usual.Steps[n].Scale
		at := slices.IndexFunc(stage, func(p *step.Process) bool { return p.Steps[n].Scale != scale })
		if at < 0 || scale-scale != 0 {
			continue
		}
		odd := stage[at].Steps[n]
		var ranks []int
		for _, p := range stage {
			if p.Steps[n].Scale != scale {
				ranks = append(ranks, p.Rank)
			}
		}
		return []*violation{{kind: "scale", call: odd.Root(), ranks: ranks, target: "grad_output[0]", backward: true,
			reason: fmt.Sprintf("the gradient of the loss is %g on rank %d and %g on rank %d: their losses do not count "+
				"alike", odd.Scale, stage[at].Rank, scale, usual.Rank)}}
	}
	return nil
}

// multiplied finds a number of the forward pass that only some ranks multiply or divide; nil if there is none.
func multiplied(stage []*step.Process) *violation {
	own := map[string][]int{} // the ranks, by operator and line of the call
	factors := map[string]*step.Call{}
	var order []string
	for _, p := range stage {
		for _, call := range p.Calls {
			if call.Entry.Within >= 0 || !multiplies(call.Op) || len(call.Outputs) != 1 ||
				numel(call.Outputs[0].Shape) != 1 || widens(p, call) {
				continue
			}
			k := call.Op + "|" + call.Entry.Location
			if factors[k] == nil && call.Entry.BackwardOrder >= 0 { // elsewhere no loss can read it
				factors[k] = call
				order = append(order, k)
			}
			if !slices.Contains(own[k], p.Rank) {
				own[k] = append(own[k], p.Rank)
			}
		}
	}
	for _, k := range order {
		var others []int
		for _, p := range stage {
			if !slices.Contains(own[k], p.Rank) {
				others = append(others, p.Rank)
			}
		}
		if len(others) > 0 {
			return &violation{kind: "scale", call: factors[k], ranks: own[k], target: "output[0]",
				reason: fmt.Sprintf("it scales the loss on %s, and no such call was recorded on %s: the gradients of "+
					"the ranks count with different weights", ranksText(own[k]), ranksText(others))}
		}
	}
	return nil
}

// widens reports whether a process makes more than one number of the result of a call: it is no loss.
func widens(p *step.Process, call *step.Call) bool {
	from := map[*step.Call]bool{call: true}
	for _, c := range p.Calls {
		if c.Entry.BackwardOrder < 0 || !slices.ContainsFunc(c.Inputs, func(v *step.Value) bool {
			return v.From.Value != nil && from[v.From.Value.Call]
		}) {
			continue
		}
		if slices.ContainsFunc(c.Outputs, func(v *step.Value) bool { return numel(v.Shape) > 1 }) {
			return true
		}
		from[c] = true
	}
	return false
}

func numel(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
