package replay_test

import (
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestLastNodes records gradients of operators that torch composes of others: what the last of these received, and
// those of the arguments, right and wrong.
func TestLastNodes(t *testing.T) {
	const f32, c64 = tensor.Float32, tensor.Complex64
	row := func(v ...float64) *tensor.Tensor { return stored(f32, []int{len(v)}, v...) }
	spectrum := func(v ...complex128) *tensor.Tensor { return tensor.New(c64, []int{len(v)}, v).Rounded() }
	x := func(v ...float64) []value.Value { return []value.Value{needsGrad(row(v...))} }
	three := func() []value.Value { return x(1, 3, 6) }
	square := func(v ...float64) *tensor.Tensor { return stored(f32, []int{2, 2}, v...) }
	power := func() []value.Value { return []value.Value{needsGrad(square(1, 2, 0, 1)), int64(2)} }
	const softsign = "torch.nn.functional.softsign"
	for _, tc := range []judged{
		{"difference", "torch.diff", three(), row(2, 3), []value.Value{row(1, 2), row(-1, -2)}, row(1, 2),
			verdict.Mistrusted},
		{"difference, of the argument", "torch.diff", three(), row(2, 3), []value.Value{row(-1, -1, 2)}, row(1, 2),
			verdict.Pass},
		{"difference, wrong of the argument", "torch.diff", three(), row(2, 3), []value.Value{row(0, 1, 2)}, row(1, 2),
			verdict.Fail},
		{"transform", "torch.fft.rfft", x(1, 2), spectrum(3, -1), []value.Value{row(3, -1)}, spectrum(1, 2),
			verdict.Pass},
		{"transform, wrong", "torch.fft.rfft", x(1, 2), spectrum(3, -1), []value.Value{row(3, 1)}, spectrum(1, 2),
			verdict.Fail},
		{"transform of what is extended", "torch.fft.rfft", append(x(1), int64(2)), spectrum(1, 1),
			[]value.Value{row(3, -1)}, spectrum(1, 2), verdict.Pass},
		{"transform of what is extended, wrong", "torch.fft.rfft", append(x(1), int64(2)), spectrum(1, 1),
			[]value.Value{row(3, 1)}, spectrum(1, 2), verdict.Fail},
		{"quotient", softsign, x(1, -3), row(.5, -.75), []value.Value{row(1, 1), row(-.5, .75)}, row(2, 4),
			verdict.Pass},
		{"quotient, wrong", softsign, x(1, -3), row(.5, -.75), []value.Value{row(1, 1), row(.5, .75)}, row(2, 4),
			verdict.Fail},
		{"divided sum", "torch.nanmean", three(), stored(f32, nil, 10./3), []value.Value{stored(f32, nil, 1), nil},
			stored(f32, nil, 3), verdict.Pass},
		{"divided sum, wrong", "torch.nanmean", three(), stored(f32, nil, 10./3),
			[]value.Value{stored(f32, nil, 3), nil}, stored(f32, nil, 3), verdict.Fail},
		{"one of two", "torch.matrix_power", power(), square(1, 4, 0, 1), []value.Value{square(2, 2, 4, 2)},
			square(1, 1, 1, 1), verdict.Fail},
		{"view", "torch.atleast_3d", x(1, 2), stored(f32, []int{1, 2, 1}, 1, 2), []value.Value{row(3, 4)},
			stored(f32, []int{1, 2, 1}, 5, 6), verdict.Fail},
	} {
		tc.run(t, func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}

// TestWrongCell: wrong gradients of all arguments of a cell are those of no last operator, and no reading of the call
// under which there are none to compare explains them.
func TestWrongCell(t *testing.T) {
	const f32 = tensor.Float32
	one := func(v float64) *tensor.Tensor { return needsGrad(stored(f32, []int{1, 1}, v)) }
	bias := func() *tensor.Tensor { return needsGrad(stored(f32, []int{1}, 0)) }
	h := math.Tanh(1.5)
	slope := 1 - h*h
	at := func(v float64) value.Value { return stored(f32, []int{1, 1}, v) }
	for _, tc := range []struct {
		name string
		b    float64
		want verdict.Verdict
	}{{"right", slope, verdict.Pass}, {"wrong", 0, verdict.Fail}} {
		(&judged{tc.name, "torch.rnn_tanh_cell", []value.Value{one(1), one(.5), one(1), one(1), bias(), bias()}, at(h),
			[]value.Value{at(slope), at(slope), at(slope), at(slope / 2), stored(f32, []int{1}, slope),
				stored(f32, []int{1}, tc.b)}, stored(f32, []int{1, 1}, 1), tc.want}).run(t,
			func(r replay.Result) bool { return r.Phase == replay.Backward })
	}
}

// TestNearestNode: gradients of cross_entropy that are wrong are compared with those of the scores if they are nearer
// to these than to those of their logarithms, and the other way round.
func TestNearestNode(t *testing.T) {
	const f32 = tensor.Float32
	scores := needsGrad(stored(f32, []int{2, 3}, 0, 0, 0, 0, 0, 0))
	target := tensor.New(tensor.Int64, []int{2}, []int64{0, 1}).Rounded()
	const p = 1. / 3
	for _, tc := range []struct {
		name string
		grad []float64
		want string
	}{
		{"of the scores", []float64{p/2 - .5, p / 2, p / 2, p / 2, p/2 - .5, .5}, "1 of 6 elements"},
		{"of the logarithms", []float64{-.5, 0, 0, 0, -.5, .25}, "1 of 6 elements"},
	} {
		o := replay.Run(entries(t, record(t, "torch.nn.functional.cross_entropy", []value.Value{scores, target},
			stored(f32, nil, math.Log(3)), value.NewTuple(stored(f32, []int{2, 3}, tc.grad...)),
			value.NewTuple(stored(f32, nil, 1))))[0], options(t))
		r := o.Results[len(o.Results)-1]
		if r.Verdict != verdict.Fail || !strings.Contains(r.Reason, tc.want) {
			t.Errorf("%s: got %s, %q, want %q", tc.name, r.Verdict, r.Reason, tc.want)
		}
	}
}
