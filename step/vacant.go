package step

import (
	"bytes"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// findVacant finds the calls that make uninitialised memory, and those that compute with it though nothing was written
// there. What stands in such memory stays unwritten where a call moves it.
func (p *Process) findVacant() {
	p.allocated = map[uint64][]*Value{}
	for _, c := range p.Calls {
		if c.random == opdef.Uninitialised {
			for _, v := range c.Outputs {
				p.allocated[v.Address] = append(p.allocated[v.Address], v)
			}
		}
		reads := func(v *Value) bool {
			w := v.From.Value
			return w != nil && w.Call.vacant && w.Call != c && v.From.How != IsChanged && !v.From.written
		}
		c.vacant = c.random == opdef.Uninitialised || c.computes() && slices.ContainsFunc(c.Inputs, reads)
		c.spreadUnwritten()
	}
}

// computes reports whether the results of a call follow from the elements of its arguments: it does not fill one, and
// takes more of them than their shape.
func (c *Call) computes() bool {
	name := c.Op[strings.LastIndexByte(c.Op, '.')+1:]
	return c.collective() == "" && !strings.HasSuffix(name, "_") && !strings.HasSuffix(name, "_like") &&
		!strings.HasPrefix(name, "new_") && !slices.ContainsFunc(c.Inputs, func(v *Value) bool {
		return v.after != nil || v.isOut()
	})
}

// spreadUnwritten marks the results of a call that makes unwritten memory, or moves what stands in it.
func (c *Call) spreadUnwritten() {
	if c.random == opdef.Uninitialised || c.moves && slices.ContainsFunc(c.Inputs, (*Value).isUnwritten) {
		for _, v := range c.Outputs {
			v.unwritten = true
		}
	}
}

// isUnwritten reports whether no recorded call is known to have written the memory of an argument.
func (v *Value) isUnwritten() bool {
	w := v.From.Value
	return v.unwritten || w != nil && w.unwritten && v.From.How != IsChanged && !v.From.written
}

// readsUnwritten reports whether a call computes with memory that nothing wrote.
func (c *Call) readsUnwritten() bool {
	return c.computes() && !c.moves && slices.ContainsFunc(c.Inputs, (*Value).isUnwritten)
}

// madeUnwritten is the result of a call before v that lies where v does, unwritten, and has its form; nil if there is
// none.
func (v *Value) madeUnwritten() *Value {
	if v.Address == 0 {
		return nil
	}
	for _, w := range slices.Backward(v.Call.Process.allocated[v.Address]) {
		if w.Call.Order < v.Call.Order && w.like(v) {
			return w
		}
	}
	return nil
}

// differsInUnwritten reports whether a value of two runs differs only in elements that no call wrote, where it lies.
func (v *Value) differsInUnwritten(w *Value, opt Options) (yes bool, err error) {
	if v.isUnwritten() && w.isUnwritten() {
		return sameShape(v.Shape, w.Shape), nil
	}
	all := []*Value{v.madeUnwritten(), v, w.madeUnwritten(), w}
	if all[0] == nil || all[2] == nil || !v.like(w) {
		return false, nil
	}
	var elements [4][]byte
	for i, x := range all {
		if x.summary != nil {
			return false, nil
		}
		if err := x.with(opt, func(t *tensor.Tensor) { elements[i] = t.AppendBytes(nil) }); err != nil {
			return false, err
		}
	}
	size := v.DType.Size()
	for i := 0; i < len(elements[1]); i += size {
		same := func(a, b int) bool { return bytes.Equal(elements[a][i:i+size], elements[b][i:i+size]) }
		if !same(1, 3) && !(same(0, 1) && same(2, 3)) {
			return false, nil
		}
	}
	v.unwritten, w.unwritten = true, true
	return true, nil
}
