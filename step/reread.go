package step

import (
	"cmp"
	"fmt"
)

// A use is where the program reads parameters.
type use struct {
	op string
	site
	parameters string // their addresses
}

// use is where the program makes the call, and with which parameters; ok is false if it reads none.
func (c *Call) use() (u use, ok bool) {
	u = use{op: c.Op, site: c.place()}
	for _, v := range c.Inputs {
		if v.Address != 0 && v.isParameter() {
			u.parameters += fmt.Sprintf("%d ", v.Address)
		}
	}
	return u, u.parameters != ""
}

// findReread finds what a reentrant checkpoint, which runs calls again within the backward pass, gives a call with
// parameters to read, where no call of the forward pass on the same line and with the same parameters read that.
func (p *Process) findReread() {
	for _, s := range p.Steps {
		end := s.backwardEnd()
		var before map[use][]*Call
		for _, c := range s.Tail {
			of, ok := c.use()
			if !ok || !c.HasBackward() || c.Entry.Order >= end {
				continue
			}
			if before == nil {
				before = s.uses()
			}
			for _, v := range c.Inputs {
				if v.telling() && !v.isParameter() && v.From.How != IsChanged && !v.fromRerun() {
					v.rereads(before[of])
				}
			}
		}
	}
}

// uses are the calls of the forward pass that read parameters.
func (s *Step) uses() map[use][]*Call {
	all := map[use][]*Call{}
	for _, c := range s.Calls {
		if of, ok := c.use(); ok {
			all[of] = append(all[of], c)
		}
	}
	return all
}

// fromRerun reports whether a call that a checkpoint ran again made the input: that call is judged.
func (v *Value) fromRerun() bool {
	w := v.From.Value
	return w != nil && w.Call.phase() == v.Call.phase() && w.Call.HasBackward() && w.Kind == outputKind
}

// rereads makes an input changed that none of the calls of the forward pass read.
func (v *Value) rereads(before []*Call) {
	var then *Value
	for _, c := range before {
		w := c.Value(v.Target)
		if w == nil || !w.like(v) || w.equals(v) {
			return
		}
		then = w
	}
	if then == nil {
		return
	}
	w := cmp.Or(then.From.Value, then)
	v.unlink()
	v.From = Link{How: IsChanged, Value: w}
	v.reason = fmt.Sprintf("checkpointing ran %s again, which had read %s of %s: the gradients belong to another forward "+
		"pass than the loss", then.Call, w.Target, w.Call)
	w.readers = append(w.readers, v)
}
