package replay_test

import (
	"math"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestWrittenZeros: zeros prove something where they replace other numbers.
func TestWrittenZeros(t *testing.T) {
	numbers := func(v ...float64) *tensor.Tensor { return stored(tensor.Float32, []int{len(v)}, v...) }
	inf := math.Inf(1)
	for _, tc := range []struct {
		op     string
		args   []value.Value
		result value.Value
		want   verdict.Verdict
	}{
		{"torch.Tensor.mul_", []value.Value{numbers(1, 2), numbers(0, 0)}, numbers(0, 0), verdict.Pass},
		{"torch.Tensor.mul_", []value.Value{numbers(0, 0), numbers(3, 0)}, numbers(0, 0), verdict.Mistrusted},
		{"torch.mul", []value.Value{numbers(1, 2), numbers(0, 0)}, numbers(0, 0), verdict.Mistrusted},
		{"torch._foreach_reciprocal_", []value.Value{value.NewList(numbers(inf, -inf), numbers(inf))},
			value.NewList(numbers(0, math.Copysign(0, -1)), numbers(0)), verdict.Pass},
	} {
		o := replay.Run(entries(t, record(t, tc.op, tc.args, tc.result))[0], options(t))
		if o.Verdict() != tc.want {
			t.Errorf("%s of %v: got %s, want %s: %+v", tc.op, tc.args, o.Verdict(), tc.want, o.Results)
		}
	}
}

// TestGivenTwice: the gradients of one tensor that was given for two arguments are recorded for neither.
func TestGivenTwice(t *testing.T) {
	numbers := func(v ...float64) *tensor.Tensor { return needsGrad(stored(tensor.Float32, []int{len(v)}, v...)) }
	for _, tc := range []struct {
		other *tensor.Tensor
		want  verdict.Verdict
	}{{numbers(1, 2), verdict.Skipped}, {numbers(3, 2), verdict.Fail}} {
		other := tensor.Data[float64](tc.other)
		o := replay.Run(entries(t, recordAs(t, "torch.mul/", "torch.mul", []value.Value{numbers(1, 2), tc.other},
			stored(tensor.Float32, []int{2}, other[0], 2*other[1]), value.NewTuple(nil, nil),
			value.NewTuple(numbers(1, 1))))[0], options(t))
		if got := o.Results[len(o.Results)-1].Verdict; got != tc.want {
			t.Errorf("times %v: got %s, want %s: %+v", other, got, tc.want, o.Results)
		}
	}
}
