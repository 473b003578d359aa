package parallel

import (
	"fmt"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// A recording does not name a parameter of a module that is never called, or of none. It is told by where it lies, and
// is the same on all ranks as the one that they first read as often. So are parameters that have one name in the
// recording, as those of two modules can: a call that reads both says that they are two.

// nameParameters gives those parameters a name each.
func (c *checker) nameParameters() {
	c.unnamed = map[*step.Process]map[uint64]string{}
	twins := map[string]bool{}
	for _, p := range c.trace.Processes {
		noteTwins(p, twins)
	}
	for _, p := range c.trace.Processes {
		names, at := map[uint64]string{}, map[string][]uint64{}
		c.unnamed[p] = names
		for _, call := range p.Calls {
			for _, v := range call.Inputs {
				n := v.Name()
				switch {
				case !v.Parameter || v.Address == 0 || names[v.Address] != "":
				case n == "" && v.RequiresGrad && call.Entry.BackwardOrder >= 0:
					at[n] = append(at[n], v.Address)
					names[v.Address] = fmt.Sprintf("unnamed parameter %d", len(at[n]))
				case twins[n]:
					if at[n] = append(at[n], v.Address); len(at[n]) > 1 {
						n = fmt.Sprintf("%s (number %d)", n, len(at[n]))
					}
					names[v.Address] = n
				}
			}
		}
	}
}

// noteTwins notes the names that two parameters of a process have: a call reads both.
func noteTwins(p *step.Process, twins map[string]bool) {
	for _, call := range p.Calls {
		at := map[string]uint64{}
		for _, v := range call.Inputs {
			n := v.Name()
			if !v.Parameter || n == "" || v.Address == 0 {
				continue
			}
			if other, has := at[n]; has && other != v.Address {
				twins[n] = true
			}
			at[n] = v.Address
		}
	}
}

// nameOf is the name of tensor i of the arguments of a call; "" if it is no parameter that is known.
func (c *checker) nameOf(call *step.Call, rec *capture.Call, t *tensor.Tensor, i, all int) string {
	if t.Parameter && len(call.Inputs) == all {
		if n := c.unnamed[call.Process][call.Inputs[i].Address]; n != "" {
			return n
		}
	}
	return rec.Names[t]
}
