package cli

import (
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/internal/run/shard"
)

// A listedCase is a case that is to be looked at.
type listedCase struct {
	*configs.Case
	index    int  // in the order of the whole run
	finished bool // before this process
}

// whole reports whether this process tells what is said once of all parts of a run.
func (d *runDir) whole() bool { return d == nil || d.part == nil || d.part.I == 1 }

// cases are those of a list that belong to this part of the run.
func (d *runDir) cases(list []*configs.Case) (own []listedCase, err error) {
	mine := make([]bool, len(list))
	if d != nil && d.part != nil {
		if mine, err = d.mine(caseCosts(list)); err != nil {
			return nil, failed(err)
		}
	}
	for i, c := range list {
		if d == nil || d.part == nil || mine[i] {
			own = append(own, listedCase{c, i, d != nil && d.done(c.Name)})
		}
	}
	return own, nil
}

// caseCosts are what cases are estimated to cost.
func caseCosts(list []*configs.Case) []shard.Call {
	calls := make([]shard.Call, len(list))
	for i, c := range list {
		bytes := 2 * c.Bytes() // and as much of results
		calls[i] = shard.Call{Name: c.Name, Cost: shard.Estimate(c.Function(), bytes)}
		if flops := c.ConvolutionFlops(); flops > 0 {
			calls[i].Cost = shard.EstimateWork(bytes, 3*flops) // forward, and two gradients
		}
	}
	return calls
}
