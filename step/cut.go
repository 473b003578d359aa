package step

import (
	"slices"
	"strings"
)

// isCut reports whether an input that is read as it was recorded comes from a call, recorded or not.
func (x *rerun) isCut(v *Value) bool {
	w := v.From.origin()
	return v.DType.IsFloat() && (v.From.unknown() || w != nil && !x.carried(v, w) && x.value(w) != nil)
}

// soon is how many calls after the last use of a result the program goes on with what calls that were not recorded
// made of it.
const soon = 8

// detached are the values that calls read from outside, or made of no tensor, where the program may have gone on with a
// result of the same shape that no later call reads. A call between them was not recorded then.
func detached(calls []*Call, keep []*Value) (out []*Value) {
	if len(calls) == 0 {
		return nil
	}
	ends := endsOf(calls[len(calls)-1].Process.Calls, keep)
	for _, c := range calls {
		for _, v := range c.Inputs {
			if v.From.How == IsLeaf && v.From.first == nil && !v.Parameter && v.goesOn(ends, false) {
				out = append(out, v)
			}
		}
		if len(c.Inputs) > 0 || c.random != "" {
			continue
		}
		for _, v := range c.Outputs {
			if !v.content.plain && v.goesOn(ends, true) {
				out = append(out, v)
			}
		}
	}
	return out
}

// endsOf are the floating results that no call reads, except those that give the program the elements, and which are
// not kept.
func endsOf(calls []*Call, keep []*Value) (ends []*Value) {
	for _, c := range calls {
		for _, v := range c.Outputs {
			if v.DType.IsFloat() && v.Numel() > few && !slices.Contains(keep, v) && v.isEnd() {
				ends = append(ends, v)
			}
		}
	}
	return ends
}

// goesOn reports whether a value has the shape of an end that is soon before it, given to the program if given says so.
func (v *Value) goesOn(ends []*Value, given bool) bool {
	return v.DType.IsFloat() && slices.ContainsFunc(ends, func(e *Value) bool {
		last := e.Call.Order
		for _, r := range e.readers {
			last = max(last, r.Call.Order)
		}
		return last < v.Call.Order && v.Call.Order-last <= soon && sameShape(e.Shape, v.Shape) &&
			(!given || len(e.readers) > 0)
	})
}

// isEnd reports whether no call reads a value, except those that give the program its elements.
func (v *Value) isEnd() bool {
	return !slices.ContainsFunc(v.readers, func(r *Value) bool {
		return !handing[r.Call.Op[strings.LastIndexByte(r.Call.Op, '.')+1:]]
	})
}
