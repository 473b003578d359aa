package step

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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

// reverses reports whether an input is what a call of the backward pass computed again, up to rounding, of what the
// forward pass read in w. Reversible layers do so: they keep their result and subtract from it what was added.
func (v *Value) reverses(w *Value) bool {
	made := v.computedAgain()
	if made == nil {
		return false
	}
	squares := func(x []float64) (sum float64) {
		for _, x := range x {
			sum += x * x
		}
		return sum / float64(max(1, len(x)))
	}
	now, then := v.content.numbers(v.DType), w.content.numbers(w.DType)
	dt, size := v.DType, squares(then)
	for _, u := range made.Inputs {
		if !u.DType.IsFloat() {
			continue
		}
		size = max(size, squares(u.content.numbers(u.DType)))
		if u.DType.Eps() > dt.Eps() {
			dt = u.DType
		}
	}
	for i := range now {
		now[i] -= then[i]
	}
	// Layer by layer, the roundings of one are in what the next is computed of.
	return math.Sqrt(squares(now)) <= min(512*dt.Eps(), 0.125)*math.Sqrt(size)+2*dt.ULP(0)
}

// computedAgain is the call of the backward pass that computed an input, of which it may be a view or a copy; nil if
// the input is older.
func (v *Value) computedAgain() *Call {
	for w := v.From.Value; w != nil && w.Kind == outputKind && w.Call.phase() == v.Call.phase(); {
		i := slices.IndexFunc(w.Call.Inputs, func(u *Value) bool {
			return u.flatKey() == w.flatKey() || u.Address != 0 && w.Address != 0 && u.covers(w) && !w.Call.writes
		})
		if i < 0 {
			return w.Call
		}
		w = w.Call.Inputs[i].From.Value
	}
	return nil
}

// rereads makes an input changed that none of the calls of the forward pass read.
func (v *Value) rereads(before []*Call) {
	var then *Value
	for _, c := range before {
		w := c.Value(v.Target)
		if w == nil || !w.like(v) || w.equals(v) || v.reverses(w) {
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
