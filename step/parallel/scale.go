package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// scales finds ranks of one program whose backward pass began with another gradient of the loss than that of the
// others, or than that of the first rank where they are as many: with another loss scale, say.
func scales(stage []*step.Process) []*violation {
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
