package step

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
)

// TestReadAfter: the result of a functional collective is what the first call finds that reads its elements, and not
// what lies in its memory later.
func TestReadAfter(t *testing.T) {
	p := &Process{}
	call := func(op string, reads, makes uint64, at uint64) *Call {
		c := &Call{Op: op, Order: len(p.Calls), Process: p}
		c.Entry = &capture.Entry{Order: len(p.Calls), BackwardOrder: -1}
		value := func(sum, at uint64) []*Value {
			if sum == 0 {
				return nil
			}
			return []*Value{{Call: c, DType: tensor.Float32, Shape: []int{1}, Stride: []int{1}, Address: at,
				content: fingerprint{sum: sum}}}
		}
		c.Inputs, c.Outputs = value(reads, 64), value(makes, at)
		p.Calls = append(p.Calls, c)
		return c
	}
	for _, early := range []uint64{5, 4} { // the result is there when the collective returns, or not
		p.Calls = nil
		c := call("torch.ops._c10d_functional.all_reduce", 0, early, 64)
		if early == 4 {
			call("torch.Tensor.view_as", early, early, 64)
		}
		call("torch.Tensor.__pow__", 5, 6, 128)
		call("torch.Tensor.mul", 9, 10, 192) // of another tensor, which got the memory
		if got := c.Outputs[0].readAfter(); got == nil || got.content.sum != 5 {
			t.Errorf("early %d: got %+v, want what pow reads", early, got)
		}
	}
}
