package parallel

import (
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// apartOnPurpose reports whether nothing says that ranks should add up gradients before each update: they average
// parameters later, or no gradient of any parameter is added up, and none belongs to a wrapper that would do so,
// such as DistributedDataParallel. A recording of one step does not show when ranks that train by themselves meet.
func (p *part) apartOnPurpose(verdicts map[string]*judged) bool {
	if p.averaged() {
		return true
	}
	for _, v := range verdicts {
		if !v.alone {
			return false
		}
	}
	return !slices.ContainsFunc(p.checker.trace.Processes, func(q *step.Process) bool {
		return slices.ContainsFunc(q.Calls, func(c *step.Call) bool {
			return wrapped(c) || isExchange(c.Op)
		})
	})
}

// movedApart reports whether replicas can hold different values on purpose.
func (p *part) movedApart() bool { return p.checker.apart || p.averaged() }

// averaged reports whether the ranks average parameters after they updated them, or what the updates changed of
// them: as local SGD and DiLoCo do. Then each rank updates with its own gradients, and replicas move apart until
// then.
func (p *part) averaged() bool {
	if p.meets == nil {
		all := !slices.ContainsFunc(p.checker.trace.Processes, func(q *step.Process) bool {
			return slices.Contains(p.ranks, q.Rank) && !averages(q)
		})
		p.meets = &all
	}
	return *p.meets
}

// averages reports whether a process adds up parameters with other ranks, as they are behind an update.
func averages(q *step.Process) bool {
	parameters, updated := map[uint64]bool{}, map[uint64]bool{}
	trained := func(v *step.Value) bool { return v.Parameter && v.RequiresGrad && v.Address != 0 }
	for _, c := range q.Calls {
		for _, v := range c.Inputs {
			if trained(v) && c.Entry.BackwardOrder >= 0 {
				parameters[v.Address] = true
			}
		}
	}
	var made func(v *step.Value, depth int) bool
	made = func(v *step.Value, depth int) bool {
		if updated[v.Address] {
			return true
		}
		from := v.From.Value
		if from == nil || depth == 0 || from.Kind != capture.Output || !carries[method(from.Call.Op)] {
			return false
		}
		return slices.ContainsFunc(from.Call.Inputs, func(v *step.Value) bool { return made(v, depth-1) })
	}
	for _, c := range q.Calls {
		switch {
		case c.Entry.BackwardOrder >= 0:
		case isExchange(c.Op):
			if name := collective.Name(c.Op); (name == "all_reduce" || name == "all_reduce_coalesced") &&
				slices.ContainsFunc(c.Inputs, func(v *step.Value) bool { return made(v, 4) }) {
				return true
			}
		case strings.HasSuffix(c.Op, "_"):
			for _, v := range c.Inputs {
				if parameters[v.Address] {
					updated[v.Address] = true
				}
			}
		}
	}
	return false
}

// carries are operators whose result is a parameter, or what an update changed of it, if an argument is one.
var carries = setOf("sub", "detach", "clone", "view", "reshape", "flatten", "cat", "stack", "div", "mul", "to", "neg",
	"flatten_dense_tensors", "parameters_to_vector", "contiguous", "float", "copy")

// wrapped reports whether a module around the others made a call, such as DistributedDataParallel, whose reduction of
// gradients is no recorded call. Modules that are called without the one around them have such a name, too.
func wrapped(c *step.Call) bool { return strings.HasPrefix(c.Entry.Module, "module.") }

// bypassed says why a module around the others did not reduce the gradients of a call; "" if there is none, or if it
// reduced others.
func (p *part) bypassed(s *site) string {
	if !wrapped(s.first(p.ranks)) || slices.ContainsFunc(p.tail, func(s *site) bool {
		return strings.HasSuffix(s.op, ".finalize_backward")
	}) {
		return ""
	}
	return ". No backward pass of DistributedDataParallel was recorded: it only reduces the gradients of its own call, " +
		"outside of no_sync(), and not those of its .module"
}
