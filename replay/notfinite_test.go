package replay_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestNotFinite: the first element of a call that is not finite is said, also of an operator that nobody knows, with
// whether its arguments are, and what it is without rounding.
func TestNotFinite(t *testing.T) {
	const f16, f32 = tensor.Float16, tensor.Float32
	inf := math.Inf(1)
	large := stored(f16, []int{2, 2}, 1, 2, 20, 3)
	with := needsGrad(stored(f32, []int{2}, 0, 4))
	for _, tc := range []struct {
		op    string
		args  []value.Value
		out   value.Value
		grads []value.Value
		want  string
		made  bool
	}{
		{"torch.exp", []value.Value{large}, stored(f16, []int{2, 2}, 2.71875, 7.390625, inf, 20.09375), nil,
			"output[0] at [1, 0] is inf, all inputs are finite; the exact value is 4.85165e+08, and float16 ends at 65504",
			true},
		{"mylib.fancy", []value.Value{large}, stored(f16, []int{2}, 1, math.NaN()), nil,
			"output[0] at [1] is nan, all inputs are finite", true},
		{"torch.neg", []value.Value{stored(f32, []int{2}, 1, inf)}, stored(f32, []int{2}, -1, -inf), nil,
			"output[0] at [1] is -inf; the exact value is -inf, too", false},
		{"torch.sqrt", []value.Value{with}, stored(f32, []int{2}, 0, 2), []value.Value{
			value.NewTuple(stored(f32, []int{2}, inf, 0.25)), value.NewTuple(stored(f32, []int{2}, 1, 1))},
			"grad[0] at [0] is inf, all inputs are finite and so is the incoming gradient; the exact value is inf, too",
			true},
		{"torch.log", []value.Value{stored(f32, []int{3}, 0, 1, -1)}, stored(f32, []int{3}, -inf, 0, math.NaN()), nil,
			"output[0] at [2] is nan, all inputs are finite; the exact value is nan, too", true},
		{"mylib.fancy", []value.Value{stored(f32, []int{2}, -inf, 1)}, stored(f32, []int{2}, 0, math.NaN()), nil,
			"output[0] at [1] is nan, its inputs are finite or -inf", false},
		{"torch.empty_like", []value.Value{large}, stored(f16, []int{2, 2}, 1, math.NaN(), 0, 0), nil, "", false},
		{"torch.neg", []value.Value{stored(f32, []int{2}, 1, 2)}, stored(f32, []int{2}, -1, -2), nil, "", false},
	} {
		n := replay.Run(entries(t, record(t, tc.op, tc.args, tc.out, tc.grads...))[0], options(t)).NotFinite
		switch {
		case n == nil:
			if tc.want != "" {
				t.Errorf("%s: none, want %q", tc.op, tc.want)
			}
		case n.String() != tc.want || n.Made != tc.made:
			t.Errorf("%s: %q, made %t, want %q, %t", tc.op, n, n.Made, tc.want, tc.made)
		}
	}
}

// TestNotFiniteAfter: what a call leaves in an argument that it does not return is looked at, too.
func TestNotFiniteAfter(t *testing.T) {
	pair := func(x, y float64) value.Value { return value.NewTuple(stored(tensor.Float32, []int{2}, x, y)) }
	nan := math.NaN()
	for name, tc := range map[string]struct {
		before, after value.Value
		want          string
		made          bool
	}{
		"finite": {pair(1, 2), pair(2, 4), "", false},
		"made": {pair(1, 2), pair(2, nan), "input[0] at [1] is nan, all inputs are finite; the exact value is 4",
			true},
		"kept": {pair(nan, nan), pair(nan, nan), "input[0] at [0] is nan; the exact value is nan, too", false},
	} {
		dir := record(t, "torch._foreach_mul_", []value.Value{tc.before, 2.0}, nil)
		write(t, filepath.Join(dir, "after.pth"), "torch._foreach_mul_", []value.Value{tc.after, 2.0})
		c := replay.Open(entries(t, dir)[0], options(t))
		c.Compare()
		got, made := "", false
		if n := c.NotFiniteAfter(); n != nil {
			got, made = n.String(), n.Made
		}
		if got != tc.want || made != tc.made {
			t.Errorf("%s: %q, made %t, want %q, %t", name, got, made, tc.want, tc.made)
		}
		c.Close()
	}
}
