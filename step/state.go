package step

import (
	"slices"
	"strings"
)

// A StateWrite is a line of the program that writes the state of an optimizer outside of the optimizer.
type StateWrite struct {
	Location   string
	Parameters []string // whose state it is
}

// StateWrites are the lines of the program that write state between two updates which read it, in order. The calls of
// an update have its line, also those that make new state: a recorded write at another line is the program's.
func (t *Trace) StateWrites() (all []*StateWrite) {
	type state struct{ op, parameter, target string }
	for _, p := range t.Processes {
		read := map[state]*Call{} // by which update last
		for _, c := range p.Calls {
			if !c.isUpdate() {
				continue
			}
			for _, v := range c.Inputs {
				if v.item < 0 || v.RequiresGrad || v.Parameter || !v.DType.IsFloat() || !c.leavesState(v) {
					continue
				}
				of := state{c.Op, v.parameterName(), v.Target}
				before := read[of]
				if read[of] = c; before == nil || of.parameter == "" {
					continue
				}
				by := v.writer()
				if by == nil || by.Order <= before.Order || by.Entry.Location == "" || c.Entry.Location == "" ||
					by.Entry.Location == c.Entry.Location || by.Entry.Location == before.Entry.Location {
					continue
				}
				all = addStateWrite(all, by.Entry.Location, of.parameter)
			}
		}
	}
	return all
}

// isUpdate reports whether a call of the program is the update of an optimizer of torch.
func (c *Call) isUpdate() bool { return c.outer == nil && c.isOptimizer() }

// isOptimizer reports whether a call is a function of torch.optim, or a fused optimizer.
func (c *Call) isOptimizer() bool {
	return strings.HasPrefix(c.Op, "torch.optim.") || strings.Contains(c.Op, "_fused_")
}

// writer is the outermost call that made or wrote what an input holds, nil if it is not known. Another name of the
// memory is no write.
func (v *Value) writer() *Call {
	w := v.From.Value
	if v.From.How == IsChanged || v.From.How == IsOutside {
		return nil
	}
	for w != nil {
		u := w.namedAnew()
		if u == nil {
			break
		}
		w = u.From.Value
	}
	if w == nil {
		return nil
	}
	c := w.Call
	for c.outer != nil {
		c = c.outer
	}
	return c
}

// addStateWrite adds that a line writes the state of a parameter.
func addStateWrite(all []*StateWrite, line, parameter string) []*StateWrite {
	i := slices.IndexFunc(all, func(w *StateWrite) bool { return w.Location == line })
	if i < 0 {
		return append(all, &StateWrite{line, []string{parameter}})
	}
	if w := all[i]; !slices.Contains(w.Parameters, parameter) {
		w.Parameters = append(w.Parameters, parameter)
	}
	return all
}
