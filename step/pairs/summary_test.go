package pairs

import (
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

func described(t *testing.T, dt tensor.DType, n int, s tensor.Summary) *tensor.Tensor {
	t.Helper()
	x, err := tensor.Summarised(dt, []int{n}, s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestSummaries: statistics pass if tensors that pass could have them.
func TestSummaries(t *testing.T) {
	p := func(x float64) *float64 { return &x }
	f32 := func(most, least, mean, norm float64, sum string) *tensor.Tensor {
		return described(t, tensor.Float32, 4, tensor.Summary{Max: &most, Min: &least, Mean: &mean, Norm: &norm,
			Checksum: sum})
	}
	full := tensor.New(tensor.Float32, []int{4}, []float64{1, -2, 3, 4})
	norm := math.Sqrt(30)
	for _, tc := range []struct {
		name string
		a, b *tensor.Tensor
		want verdict.Verdict
		why  string
	}{
		{"equal", f32(4, -2, 1.5, norm, ""), f32(4, -2, 1.5, norm, ""), verdict.Pass, ""},
		{"rounding", f32(4.00001, -2, 1.50001, norm, ""), f32(4, -2, 1.5, norm, ""), verdict.Pass, ""},
		{"mean beyond", f32(4, -2, 1.501, norm, ""), f32(4, -2, 1.5, norm, ""), verdict.Fail, "mean 1.501 against 1.5"},
		{"norm beyond", f32(4, -2, 1.5, norm+0.01, ""), f32(4, -2, 1.5, norm, ""), verdict.Fail, "norm"},
		{"nan against a number", f32(math.NaN(), -2, 1.5, norm, ""), f32(4, -2, 1.5, norm, ""), verdict.Fail,
			"max NaN"},
		{"nan on both sides", f32(math.NaN(), -2, 1.5, norm, ""), f32(math.NaN(), -2, 1.5, norm, ""), verdict.Pass, ""},
		{"inf against a number", f32(math.Inf(1), -2, 1.5, norm, ""), f32(4, -2, 1.5, norm, ""), verdict.Fail, "+Inf"},
		{"checksum", f32(4, -2, 1.5, norm, "ab"), f32(9, -2, 1.5, norm, "AB"), verdict.Pass, ""},
		{"checksum differs in rounding", f32(4, -2, 1.5, norm, "ab"), f32(4, -2, 1.5, norm, "ac"), verdict.Mistrusted,
			"within rounding"},
		{"checksum alone", described(t, tensor.Float32, 4, tensor.Summary{Checksum: "0x1"}),
			described(t, tensor.Float32, 4, tensor.Summary{Checksum: "0x2"}), verdict.Fail, "by how much"},
		{"nothing", described(t, tensor.Float32, 4, tensor.Summary{}),
			described(t, tensor.Float32, 4, tensor.Summary{}), verdict.Unsupported, "neither"},
		{"integers are exact", described(t, tensor.Int64, 4, tensor.Summary{Max: p(100000)}),
			described(t, tensor.Int64, 4, tensor.Summary{Max: p(100001)}), verdict.Fail, "max"},
		{"shape", f32(4, -2, 1.5, norm, ""), described(t, tensor.Float32, 5, tensor.Summary{}), verdict.Fail,
			"float32[4] against float32[5]"},
		{"elements against statistics", full, f32(4, -2, 1.5, norm, ""), verdict.Pass, ""},
		{"other elements", full, f32(4, -2, 1.6, norm, ""), verdict.Fail, "mean"},
		{"elements against a CRC-32", full, described(t, tensor.Float32, 4, tensor.Summary{Checksum: "3d2b2d25"}),
			verdict.Fail, "checksums differ"},
	} {
		got := summaries(tc.a, tc.b, compare.Tolerance{Atol: 1e-5, Rtol: 1e-5})
		if got.Verdict != tc.want || !strings.Contains(got.Reason, tc.why) {
			t.Errorf("%s: %s %q, want %s %q", tc.name, got.Verdict, got.Reason, tc.want, tc.why)
		}
	}
	s, err := Summarise(full, &tensor.Summary{Checksum: "0"})
	if err != nil {
		t.Fatal(err)
	}
	if got := summaries(full, described(t, tensor.Float32, 4, tensor.Summary{Checksum: s.Checksum}),
		compare.Tolerance{}); got.Verdict != verdict.Pass || got.Rule != ruleChecksum {
		t.Errorf("its own CRC-32: %s %q", got.Verdict, got.Rule)
	}
}

// TestDivergence finds the first call, in order of execution, whose inputs agree
// and whose result does not.
func TestDivergence(t *testing.T) {
	entry := func(order, backward int) *capture.Entry {
		e := &capture.Entry{Rel: string(rune('a' + order)), Order: order, BackwardOrder: backward, Step: -1}
		return e
	}
	result := func(phase, target string, v verdict.Verdict) *reports.Result {
		dtype := "float32"
		return &reports.Result{Phase: phase, Target: target, Verdict: v, Reason: "why", DType: &dtype}
	}
	in, out, grad, arrived := "input[0]", "output[0]", "grad[0]", "grad_output[0]"
	pass, fail := verdict.Pass, verdict.Fail
	for _, tc := range []struct {
		name    string
		results map[int][]*reports.Result // by order
		want    string                    // capture and target
	}{
		{"none", map[int][]*reports.Result{0: {result("input", in, pass), result("forward", out, pass)}}, ""},
		{"inherited", map[int][]*reports.Result{0: {result("input", in, fail), result("forward", out, fail)}}, "a input[0]"},
		{"the first in order", map[int][]*reports.Result{
			4: {result("input", in, pass), result("forward", out, fail)},
			2: {result("input", in, pass), result("forward", out, fail)},
			1: {result("input", in, fail), result("forward", out, fail)}}, "c output[0]"},
		{"forward before backward", map[int][]*reports.Result{
			1: {result("input", in, pass), result("forward", out, pass), result("backward", grad, fail),
				result("backward", arrived, pass)},
			2: {result("input", in, pass), result("forward", out, fail), result("backward", grad, fail)}}, "c output[0]"},
		{"backward", map[int][]*reports.Result{
			1: {result("input", in, pass), result("backward", grad, fail), result("backward", arrived, fail)},
			2: {result("input", in, pass), result("backward", grad, fail), result("backward", arrived, pass)}}, "c grad[0]"},
	} {
		var d Divergence
		for order := range 6 {
			if rs, ok := tc.results[order]; ok {
				e := entry(order, -1)
				d.Add(Pair{A: e, B: e}, rs, nil)
			}
		}
		got := ""
		if p := d.First(); p != nil {
			got = p.Capture + " " + p.Target
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	var small Divergence // op_tools' tolerance passes a gradient that arrives, though it differs
	g, a := result("backward", grad, fail), result("backward", arrived, pass)
	e1 := entry(0, -1)
	small.Add(Pair{A: e1, B: e1}, []*reports.Result{result("input", in, pass), g, a}, map[*reports.Result]*Difference{
		g: {Relative: 9500, DTypes: [2]tensor.DType{tensor.Float32, tensor.Float32}},
		a: {Relative: 0.55, DTypes: [2]tensor.DType{tensor.Float32, tensor.Float32}}})
	if fs := small.Findings(); len(fs) != 1 || !strings.HasPrefix(fs[0].Reason, "what arrives differs by 0.55, the gradient by 9.5e+03") {
		t.Errorf("a small gradient that arrives differs: %+v", fs)
	}
	var other Divergence // arguments of other shapes: another program, of which nothing is said
	x := result("input", in, fail)
	e := entry(0, -1)
	other.Add(Pair{A: e, B: e}, []*reports.Result{x, result("forward", out, fail)},
		map[*reports.Result]*Difference{x: {Relative: math.NaN(), Unlike: true}})
	if p := other.First(); p != nil {
		t.Errorf("other shapes: %+v", p)
	}
	var d Divergence
	d.Add(Pair{A: entry(1, -1), only: "only in b", inserted: true}, nil, nil)
	d.Add(Pair{A: entry(2, -1), only: "only in a"}, nil, nil)
	fs := d.Findings()
	if len(fs) != 2 || fs[0].Rule != verdict.Inserted || fs[1].Rule != verdict.Missing || d.First() != nil {
		t.Errorf("calls of one side: %+v", fs)
	}
}
