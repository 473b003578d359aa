package parallel

import (
	"fmt"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// A recording does not name a parameter of a module that is never called, or of none. It is told by where it lies, and
// is the same on all ranks as the one that they first read as often.

// nameUnnamed gives the parameters that calls of the backward pass read, and that have no name, one each.
func (c *checker) nameUnnamed() {
	c.unnamed = map[*step.Process]map[uint64]string{}
	for _, p := range c.trace.Processes {
		names := map[uint64]string{}
		c.unnamed[p] = names
		for _, call := range p.Calls {
			if call.Entry.BackwardOrder < 0 {
				continue
			}
			for _, v := range call.Inputs {
				if v.Parameter && v.RequiresGrad && v.Address != 0 && v.Name() == "" && names[v.Address] == "" {
					names[v.Address] = fmt.Sprintf("unnamed parameter %d", len(names)+1)
				}
			}
		}
	}
}

// nameOf is the name of tensor i of the arguments of a call; "" if it is no parameter that is known.
func (c *checker) nameOf(call *step.Call, rec *capture.Call, t *tensor.Tensor, i, all int) string {
	if n := rec.Names[t]; n != "" || !t.Parameter || len(call.Inputs) != all {
		return n
	}
	return c.unnamed[call.Process][call.Inputs[i].Address]
}
