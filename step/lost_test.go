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

// TestLostRun: a sum that lacks parts lacks those that stand together; a sum of all, and anything else, lacks none.
func TestLostRun(t *testing.T) {
	a, b, c := floats(1, 2, 3, 4, 5), floats(7, -1, 2, 6, 3), floats(-2, 8, 1, 1, 4)
	d := floats(3, 3, -1, 9, 2)
	for _, tc := range []struct {
		name     string
		sum      *Value
		parts    [][]*Value
		first, n int
	}{
		{"all", floats(6, 9, 6, 11, 12), [][]*Value{{a}, {b}, {c}}, 0, 0},
		{"without the second", floats(-1, 10, 4, 5, 9), [][]*Value{{a}, {b}, {c}}, 1, 1},
		{"without a part of two", a, [][]*Value{{a}, {b, c}}, 1, 1},
		{"the last of three", c, [][]*Value{{a}, {b}, {c}}, 0, 2},
		{"the last two of four", floats(1, 11, 0, 10, 6), [][]*Value{{a}, {b}, {c}, {d}}, 0, 2},
		{"the first two of four", floats(8, 1, 5, 10, 8), [][]*Value{{a}, {b}, {c}, {d}}, 2, 2},
		{"the first and the last", floats(4, 5, 2, 13, 7), [][]*Value{{a}, {b}, {c}, {d}}, 1, 2},
		{"the first and the third", floats(-1, 10, 4, 5, 9), [][]*Value{{a}, {b}, {c}, {d}}, 0, 0},
		{"something else", floats(1, 1, 1, 1, 2), [][]*Value{{a}, {b}}, 0, 0},
		{"one part", a, [][]*Value{{b}}, 0, 0},
		{"parts of another size", a, [][]*Value{{a}, {floats(1)}}, 0, 0},
	} {
		if first, n := lostRun(tc.sum, tc.parts); first != tc.first || n != tc.n {
			t.Errorf("%s: got %d from %d on, want %d from %d on", tc.name, n, first, tc.n, tc.first)
		}
	}
}

// TestTwin: two calls may make the same value, as two views of key and value do. A call that returns its argument makes
// none.
func TestTwin(t *testing.T) {
	made, view, same, other := floats(1, 2, 3, 4), floats(1, 2, 3, 4), floats(1, 2, 3, 4), floats(4, 3, 2, 1)
	for i, v := range []*Value{made, view, same, other} {
		v.Address, v.content.sum, v.Stride = 64, 7, []int{1}
		v.Call = &Call{Op: "permute", Order: i, Outputs: []*Value{v}}
	}
	other.content.sum = 8
	same.Call.Inputs = []*Value{made} // contiguous()
	for _, tc := range []struct {
		name   string
		beside *Value
		want   bool
	}{{"another view", view, true}, {"handed on", same, false}, {"another value", other, false}} {
		if got := (&Step{Calls: []*Call{made.Call, tc.beside.Call}}).twin(made); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestLostGradients: gradients that lack those of a loss are changed if something shows that the program did not set
// them to zero; if every update lacks the same, the program is made so, and if there is only one update, it is a gap.
func TestLostGradients(t *testing.T) {
	whole := [2]int{0, 0}
	for _, tc := range []struct {
		name    string
		updates [][2]int // of the four losses of each, the first that is lost, and how many are
		batches int      // that each loss was divided by
		place   string   // of the losses
		want    string   // c for changed, g for a gap, - for neither, by update
	}{
		{"the first, another update has all", [][2]int{whole, {0, 1}}, 1, "", "-c"},
		{"the first of the only update", [][2]int{{0, 1}}, 1, "x.py:3", "g"},
		{"the first of every update", [][2]int{{0, 1}, {0, 1}}, 1, "x.py:3", "--"},
		{"the first of every update, of losses that were divided", [][2]int{{0, 1}, {0, 1}}, 4, "", "cc"},
		{"all but one, of losses that were divided by two", [][2]int{{0, 2}}, 2, "", "g"},
		{"one between, on the same line", [][2]int{{1, 1}}, 1, "x.py:3", "c"},
		{"one between, nobody knows which line", [][2]int{{1, 1}}, 1, "", "g"},
		{"one between in every update", [][2]int{{1, 1}, {1, 1}}, 1, "x.py:3", "--"},
		{"the last, on the same line", [][2]int{{3, 1}}, 1, "x.py:3", "c"},
	} {
		l := losses{whole: map[cycle]bool{}, have: map[*Step]bool{}}
		var vs []*Value
		for i, u := range tc.updates {
			x := lostGradient{v: floats(float64(i), 1, 2, 3), first: u[0], n: u[1], of: cycle{at: 64}}
			vs = append(vs, x.v)
			for range 4 {
				loss := &Call{Op: "cross_entropy", Entry: &capture.Entry{Location: tc.place}}
				c := &Call{Op: "linear", Entry: &capture.Entry{}, Step: &Step{Loss: loss, batches: tc.batches}}
				x.parts = append(x.parts, []*Value{{Call: c, Target: "grad[1]"}})
			}
			if u == whole {
				l.whole[x.of] = true
			} else {
				l.lost = append(l.lost, x)
			}
		}
		l.settle(nil)
		got := ""
		for _, v := range vs {
			switch {
			case v.From.How == IsChanged:
				got += "c"
			case v.lacks:
				got += "g"
			default:
				got += "-"
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestUsualFactor: the factor that most gradients have.
func TestUsualFactor(t *testing.T) {
	for _, tc := range []struct {
		times  []float64
		factor float64
		n      int
	}{
		{[]float64{1, 1024, 1, 1.001, 1}, 1, 4},
		{[]float64{0.125, 128, 0.125}, 0.125, 2},
		{[]float64{3}, 3, 1},
		{nil, 0, 0},
	} {
		var all []scaledGradient
		for _, x := range tc.times {
			all = append(all, scaledGradient{times: x})
		}
		if factor, n := usualFactor(all); factor != tc.factor || n != tc.n {
			t.Errorf("%v: %g of %d, want %g of %d", tc.times, factor, n, tc.factor, tc.n)
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

// TestTimes: the factor between two values, also below 0, exactly if it is a power of two; 0 if there is none.
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
		{floats(-1, 2, -3, -0.25, -5), -1},
		{floats(-3, 6, -9, -0.75, 15), 0},
		{floats(0, 0, 0, 0, 0), 0},
	} {
		if got := tc.v.timesLeft(w); math.Abs(got-tc.want) > 1e-6*math.Abs(tc.want) {
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
		u := newUnlike(map[argument]*count{})
		var odd []*Value
		for i := range tc.explained + tc.off {
			v, r := floats(1, 2, 3, 4), floats(1, 2, 3, 4)
			v.From.How, v.Call = IsLeaf, &Call{Op: "torch._foreach_norm", Entry: &capture.Entry{}}
			r.Call, r.Address = &Call{Op: "torch.nn.functional.linear"}, uint64(64+i)
			r.Call.Inputs, r.Call.Grads = []*Value{r}, []*Value{{Call: r.Call, Shape: r.Shape, leaf: 0, Target: "grad[0]"}}
			if tc.mistrusted {
				r.Call.Results = []Result{{Phase: replay.Backward, Target: "grad[0]",
					Verdict: verdict.Mistrusted, Reason: "within rounding of zero"}}
			}
			v.Target, v.leaf, v.item = fmt.Sprintf("input[%d]", i), i, i
			off := "all elements are 2 times as large"
			if i < tc.explained {
				off, v.From.Role = "", "gradient"
			} else {
				odd = append(odd, v)
			}
			u.add(v, []*Value{r}, off, nil)
		}
		u.sort()
		u.settle()
		for _, v := range odd {
			if got := v.From.How == IsChanged; got != tc.want {
				t.Errorf("%d explained, %d not: changed %v, want %v", tc.explained, tc.off, got, tc.want)
			}
			if got := v.From.How == IsOutside; got == tc.want {
				t.Errorf("%d explained, %d not: outside %v", tc.explained, tc.off, got)
			}
		}
	}
}

// TestReordered: elements at other places are the same elements; others are not, and in 16 bits nobody knows.
func TestReordered(t *testing.T) {
	y := []float64{1, -2, 3, 0.5, 7}
	for _, tc := range []struct {
		x    []float64
		dt   tensor.DType
		want bool
	}{
		{[]float64{7, 1, -2, 3, 0.5}, tensor.Float32, true},
		{[]float64{7, 1.0000001, -2, 3, 0.5}, tensor.Float32, true},
		{[]float64{7, 1.01, -2, 3, 0.5}, tensor.Float32, false},
		{[]float64{2, -4, 6, 1, 14}, tensor.Float32, false},
		{[]float64{7, 1, -2, 3, 0.5}, tensor.BFloat16, false},
	} {
		if got := reordered(tc.x, y, tc.dt); got != tc.want {
			t.Errorf("%v in %v: got %v", tc.x, tc.dt, got)
		}
	}
}

// TestExchanged: a gradient that the calls give for another parameter is changed, however many others are right.
func TestExchanged(t *testing.T) {
	a, b, c := floats(1, 2, 3, 4, 5), floats(7, -1, 2, 6, 3), floats(2, 2, 9, 1, 4)
	u := newUnlike(map[argument]*count{})
	var vs []*Value
	for i, is := range [][2]*Value{{b, a}, {a, b}, {floats(8, 8, 8, 1, 1), c}} { // what it holds, what the calls give
		v, r := *is[0], floats(0, 1, 2, 3, 4)
		v.Call = &Call{Op: "torch.Tensor.add_", Entry: &capture.Entry{}}
		r.Call, r.Address = &Call{Op: "torch.nn.functional.linear"}, uint64(64+i)
		u.add(&v, []*Value{r}, "it differs", is[1])
		vs = append(vs, &v)
	}
	u.sort()
	u.settle()
	for i, want := range []bool{true, true, false} {
		if got := vs[i].From.How == IsChanged; got != want {
			t.Errorf("gradient %d: changed %v, want %v", i, got, want)
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
		{"torch.mm", "input.out", true},
		{"torch.svd", "input.out[1]", true},
		{"torch.mm", "input.other", false},
		{"torch.distributed.Reducer.finalize_backward", "input[7]", true},
	} {
		v := floats(1, 2)
		v.Target, v.Call, v.after = tc.target, &Call{Op: tc.op}, &fingerprint{}
		if got := v.refilled(); got != tc.want {
			t.Errorf("%s of %s: got %v, want %v", tc.target, tc.op, got, tc.want)
		}
	}
}

// TestSharedMemory: parameters that lay at one address in turn are told apart by their names; names under which the
// same elements were read are of one.
func TestSharedMemory(t *testing.T) {
	read := func(name string, sum uint64) *Value {
		v := floats(1, 2, 3, 4, 5)
		v.Address, v.named, v.RequiresGrad, v.content.sum = 64, name, true, sum
		v.Call = &Call{Inputs: []*Value{v}}
		return v
	}
	for _, tc := range []struct {
		name     string
		readings []*Value
		parts    int // of the gradient of the first reading
	}{
		{"in turn", []*Value{read("a", 1), read("b", 2), read("a", 1)}, 2},
		{"one with two names", []*Value{read("a", 1), read("b", 1), read("a", 2), read("b", 2)}, 4},
		{"some without a name", []*Value{read("a", 1), read("b", 2), read("", 3)}, 3},
	} {
		u := &updater{parameters: map[uint64][]*Value{}, shared: sharedMemory{}, known: map[*Value]uint64{}}
		for _, r := range tc.readings {
			u.shared.note(r)
		}
		for _, r := range tc.readings {
			u.parameters[u.shared.key(r)] = append(u.parameters[u.shared.key(r)], r)
		}
		g := floats(1, 1, 1, 1, 1)
		g.Kind, g.Target, g.Call = capture.GradInputs, "grad[0]", tc.readings[0].Call
		v := floats(1, 1, 1, 1, 1)
		v.From.Value, v.Call = g, &Call{}
		if got := len(u.parameters[u.gradientOf(v)]); got != tc.parts {
			t.Errorf("%s: %d readings of the parameter, want %d", tc.name, got, tc.parts)
		}
	}
}
