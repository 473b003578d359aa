package step

import (
	"fmt"
	"math"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// floats is a value of float32 with elements.
func floats(xs ...float64) *Value {
	v := &Value{DType: tensor.Float32, Shape: []int{len(xs)}, Stride: []int{1}, Kind: inputKind, item: -1}
	for _, x := range xs {
		v.content.samples = append(v.content.samples, uint64(math.Float32bits(float32(x))))
	}
	return v
}

// TestLostPart: a sum that lacks one of its parts lacks that one; a sum of all, and anything else, lacks none.
func TestLostPart(t *testing.T) {
	a, b, c := floats(1, 2, 3, 4, 5), floats(7, -1, 2, 6, 3), floats(-2, 8, 1, 1, 4)
	for _, tc := range []struct {
		name  string
		sum   *Value
		parts [][]*Value
		want  int
	}{
		{"all", floats(6, 9, 6, 11, 12), [][]*Value{{a}, {b}, {c}}, -1},
		{"without the second", floats(-1, 10, 4, 5, 9), [][]*Value{{a}, {b}, {c}}, 1},
		{"without a part of two", a, [][]*Value{{a}, {b, c}}, 1},
		{"only the last of three", c, [][]*Value{{a}, {b}, {c}}, -1},
		{"something else", floats(1, 1, 1, 1, 2), [][]*Value{{a}, {b}}, -1},
		{"one part", a, [][]*Value{{b}}, -1},
		{"parts of another size", a, [][]*Value{{a}, {floats(1)}}, -1},
	} {
		if got := lostPart(tc.sum, tc.parts); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestLostBefore: how many of the first parts a sum lacks, and whether the program may have dropped them.
func TestLostBefore(t *testing.T) {
	a, b, c, d := floats(1, 2, 3, 4, 5), floats(7, -1, 2, 6, 3), floats(-2, 8, 1, 1, 4), floats(3, 3, -1, 9, 2)
	parts := [][]*Value{{a}, {b}, {c}, {d}}
	for _, tc := range []struct {
		name    string
		sum     *Value
		want    int
		batches int
		excused bool
	}{
		{"the last two", floats(1, 11, 0, 10, 6), 2, 4, false},
		{"the last", d, 3, 4, false},
		{"the last two of two batches", floats(1, 11, 0, 10, 6), 2, 2, true},
		{"losses that were not divided", d, 3, 1, true},
		{"the first and the last", floats(4, 5, 2, 13, 7), 0, 0, false},
	} {
		n := lostBefore(tc.sum, parts)
		if n != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, n, tc.want)
		}
		a.Call = &Call{Step: &Step{batches: tc.batches}}
		if got := (lostGradient{tc.sum, parts[0], n, len(parts) - n}).excused(); n > 0 && got != tc.excused {
			t.Errorf("%s: excused %v", tc.name, got)
		}
	}
}

// TestOverflowed: gradients that are infinite near the largest number of their dtype overflowed; others are wrong.
func TestOverflowed(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, tc := range []struct {
		phase     replay.Phase
		dt        tensor.DType
		got, want float64
		is        bool
	}{
		{replay.Backward, tensor.Float16, inf, 59584, true},
		{replay.Backward, tensor.Float16, -inf, -59584, true},
		{replay.Backward, tensor.Float16, inf, 1000, false},
		{replay.Backward, tensor.Float16, nan, 59584, false},
		{replay.Backward, tensor.Float16, 60000, 59584, false},
		{replay.Backward, tensor.Float32, inf, 59584, false},
		{replay.Forward, tensor.Float16, inf, 59584, false},
	} {
		v := floats(1)
		v.DType = tc.dt
		c := &Call{Outputs: []*Value{v},
			Results: []Result{{Phase: tc.phase, Verdict: verdict.Fail}},
			Checks:  []Check{{Phase: tc.phase, Verdict: verdict.Fail, Actual: tc.got, Expected: tc.want}}}
		if got := c.overflowed(); got != tc.is {
			t.Errorf("%s of %s, %v instead of %v: got %v", tc.phase, tc.dt, tc.got, tc.want, got)
		}
		c.Results = append(c.Results, c.Results[0])
		if c.overflowed() {
			t.Errorf("%v instead of %v: another value fails too", tc.got, tc.want)
		}
	}
}

// TestTimes: the factor between two values, exactly if it is a power of two; 0 if there is none.
func TestTimes(t *testing.T) {
	w := floats(1, -2, 3, 0.25, 5)
	for _, tc := range []struct {
		v    *Value
		want float64
	}{
		{floats(1024, -2048, 3072, 256, 5120), 1024},
		{floats(0.0009765625, -0.001953125, 0.0029296875, 0.000244140625, 0.0048828125), 1.0 / 1024},
		{floats(3, -6, 9, 0.75, 15), 3},
		{floats(3, -6, 9, 0.75, 14), 0},
		{floats(-1, 2, -3, -0.25, -5), 0},
		{floats(0, 0, 0, 0, 0), 0},
	} {
		if got := tc.v.times(&w.content, w); math.Abs(got-tc.want) > 1e-6*tc.want {
			t.Errorf("%v: got %v, want %v", tc.v.content.samples, got, tc.want)
		}
	}
}

// TestUnlike: a gradient that the calls do not give is changed where those of most other parameters are given; where
// few are, calls that were not recorded made them.
func TestUnlike(t *testing.T) {
	for _, tc := range []struct {
		explained, off int
		mistrusted     bool // the calls' gradients that differ agree with the reference by chance
		want           bool
	}{{8, 1, false, true}, {8, 1, true, false}, {8, 2, false, true}, {8, 3, false, false}, {3, 0, false, false},
		{3, 1, false, false}, {0, 4, false, false}} {
		u := newUnlike()
		var odd []*Value
		for i := range tc.explained + tc.off {
			v, r := floats(1, 2, 3, 4), floats(1, 2, 3, 4)
			v.From.How, v.Call = IsLeaf, &Call{Op: "torch._foreach_norm", Entry: &capture.Entry{}}
			r.Call, r.Address = &Call{Op: "torch.nn.functional.linear"}, uint64(64+i)
			r.Call.Inputs, r.Call.Grads = []*Value{r}, []*Value{{Call: r.Call, Shape: r.Shape, leaf: 0, Target: "grad[0]"}}
			if tc.mistrusted {
				r.Call.Results = []Result{{replay.Backward, "grad[0]", verdict.Mistrusted, "within rounding of zero"}}
			}
			v.Target, v.leaf, v.item = fmt.Sprintf("input[%d]", i), i, i
			off := "all elements are 2 times as large"
			if i < tc.explained {
				off, v.From.Role = "", "gradient"
			} else {
				odd = append(odd, v)
			}
			u.add(v, []*Value{r}, off)
		}
		u.settle()
		for _, v := range odd {
			if got := v.From.How == IsChanged; got != tc.want {
				t.Errorf("%d explained, %d not: changed %v, want %v", tc.explained, tc.off, got, tc.want)
			}
			if got := v.From.How == IsOutside; got != (tc.explained > 0 && !tc.want) {
				t.Errorf("%d explained, %d not: outside %v", tc.explained, tc.off, got)
			}
		}
	}
}

// TestRefilled: what a call only writes may have held anything.
func TestRefilled(t *testing.T) {
	for _, tc := range []struct {
		op, target string
		want       bool
	}{
		{"torch.Tensor.copy_", "input[0]", true},
		{"torch.Tensor.copy_", "input[1]", false},
		{"torch.Tensor.add_", "input[0]", false},
		{"torch._foreach_lerp_", "input[0]", false},
		{"torch._foreach_zero_", "input[3]", true},
	} {
		v := floats(1, 2)
		v.Target, v.Call, v.after = tc.target, &Call{Op: tc.op}, &fingerprint{}
		if got := v.refilled(); got != tc.want {
			t.Errorf("%s of %s: got %v, want %v", tc.target, tc.op, got, tc.want)
		}
	}
}
