package parallel

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// A multiple is a number by which a program multiplies all its gradients.
type multiple struct {
	k    float64
	call *step.Call // that does it
	// doubt is whether nothing says that it should be this number: the loss is a sum, and is divided by some count.
	doubt bool
	of    map[string]bool // the parameters; nil for all
}

// meant is k if a program can mean all its gradients to be k times those of its loss: it divides them by the number of
// its losses, by the loss scale or by what it multiplied the loss by, or the loss is a sum. It is nil if it cannot.
func (p *part) meant(k float64) *multiple {
	losses, calls := p.losses(), p.lossCalls()
	if len(calls) == 0 || !(k > 0) {
		return nil
	}
	d, err := p.checker.load(calls[0])
	if err != nil {
		return nil
	}
	weight := 1.0
	if len(losses) > 0 {
		weight = p.weight(losses[0])
	}
	if p.countsAll(k, calls) {
		return &multiple{k: k}
	}
	numbers := []float64{1, d.call.Step.LossScale()}
	switch {
	case d.sums():
		if k < 1 {
			return &multiple{k: k, doubt: math.Abs(k*float64(len(calls))-1) > 2e-3}
		}
		return nil
	case !multiplies(d.call.Op) || len(d.rec.Args) != 2:
		numbers = append(numbers, float64(len(calls)))
	case method(d.call.Op) == "mul":
		if k, ok := d.operand(); ok && k > 0 {
			numbers = append(numbers, k)
		}
		numbers = append(numbers, weight)
	default:
		if n, _ := numberOf(d.rec.Args[1]); n > 1 && len(losses) > 0 && n == float64(losses[0].in[0].terms()) {
			numbers = append(numbers, weight)
		}
	}
	for _, n := range numbers {
		for _, o := range numbers {
			if math.Abs(k*n*o-1) < 2e-3 || math.Abs(k*n-1) < 2e-3 {
				return &multiple{k: k}
			}
		}
	}
	return nil
}

// sums reports whether a loss adds up what it is made of, and takes no mean.
func (d *side) sums() bool {
	way, _ := d.rec.Kwargs.Get("reduction")
	return method(d.call.Op) == "sum" || way == "sum"
}

// lossCalls are the losses of the first rank in a step; those of another stage where a pipeline ends there.
func (p *part) lossCalls() (out []*step.Call) {
	for _, s := range p.losses() {
		out = append(out, s.first(p.ranks))
	}
	if len(out) > 0 || !p.partial {
		return out
	}
	number := p.checker.numbers
	now := slices.IndexFunc(p.sites, func(s *site) bool { return s.first(p.ranks) != nil })
	for _, q := range p.checker.trace.Processes {
		for _, s := range q.Steps {
			if now >= 0 && number[s.Loss] == number[p.sites[now].first(p.ranks)] {
				out = append(out, s.Loss)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// countsAll reports whether gradients that are k times those of a loss are those of a mean over all terms: what the
// losses of all ranks add up is divided, in the loss and by k together, by the number of terms. So a loss that divides
// by the mean of the ranks' counts has its gradients averaged over the ranks.
func (p *part) countsAll(k float64, losses []*step.Call) bool {
	if d := p.checker.reducing(losses[0]); d == nil || !d.sums() {
		return false
	}
	divisor, weight := p.checker.divisor(losses[0]), 1.0
	for _, f := range p.lossFactor() {
		weight *= f
	}
	return slices.ContainsFunc(p.terms(losses), func(n float64) bool {
		return n > 1 && math.Abs(k*n/(weight*divisor)-1) < 2e-3
	})
}

// terms are the numbers of elements, of rows, and of labels that count, that the losses of all ranks add up: of all
// steps that were recorded, which accumulate gradients or do not, and of the first. Behind them are the counts that the
// ranks added up.
func (p *part) terms(losses []*step.Call) []float64 {
	all := p.termsOf(losses, func(*step.Call) bool { return true })
	number := p.checker.numbers
	first := p.termsOf(losses, func(loss *step.Call) bool { return number[loss] == number[losses[0]] })
	return slices.Concat(all, first, p.totals)
}

// termsOf are the numbers of terms of some of the losses of all ranks.
func (p *part) termsOf(losses []*step.Call, of func(loss *step.Call) bool) []float64 {
	out := make([]float64, 3)
	for _, q := range p.checker.trace.Processes {
		for _, s := range q.Steps {
			if s.Loss.Op != losses[0].Op || !of(s.Loss) {
				continue
			}
			d := p.checker.reducing(s.Loss)
			if d == nil {
				continue
			}
			for i, n := range d.counts() {
				out[i] += n
			}
		}
	}
	for _, s := range p.losses()[:min(1, len(p.losses()))] {
		if len(s.out) == 0 || !s.out[0].sound() {
			break
		}
		for m, q := range s.out[0].places {
			for i := range out {
				if q.kind == replicated { // all have the same terms
					out[i] /= float64(p.dims[m].size)
				}
			}
		}
	}
	return out
}

// terms is the number of values that were added up to make one.
func (n *info) terms() (all int) {
	if n == nil || n.made == nil || method(n.made.op) != "add" {
		return 1
	}
	for _, in := range n.made.in {
		all += in.terms()
	}
	return all
}

// weight is how much smaller a loss is if the number that it was multiplied by averages over ranks, than if it is a
// weight of the program's own; 1 if that is clear.
func (p *part) weight(s *site) float64 {
	w := 1.0
	if len(s.out) == 1 && s.out[0].sound() && s.out[0].also != nil {
		for m, q := range s.out[0].also {
			w *= q.factor / s.out[0].places[m].factor
		}
	}
	return w
}

// divided is what is not known of the number by which gradients of a sum are divided.
func (p *part) divided() []step.Gap {
	if p.by == nil || !p.by.doubt {
		return nil
	}
	return []step.Gap{{N: 1, What: reports.Count(1, "loss") + fmt.Sprintf(" that is a sum: nothing says that its gradients "+
		"are to be divided by %.4g, as they are on %s", 1/p.by.k, ranksText(p.ranks)), First: p.by.call.String()}}
}

// unlike finds stages of a pipeline that multiply their gradients by different numbers.
func unlike(parts []*part) []*violation {
	for _, p := range parts {
		for _, q := range parts {
			other := 1.0
			if q.by != nil {
				other = q.by.k
			}
			known := slices.Contains(slices.Collect(maps.Values(q.compared)), true)
			if p.by == nil || !known || math.Abs(p.by.k/other-1) < 2e-3 {
				continue
			}
			return []*violation{{kind: "scale", call: p.by.call, ranks: []int{p.ranks[0], q.ranks[0]}, target: "output[0]",
				reason: fmt.Sprintf("the gradients of the stage of rank %d are %.4g times those of the loss, and those of "+
					"rank %d's %.4g times", p.ranks[0], p.by.k, q.ranks[0], other)}}
		}
	}
	return nil
}
