package replay_test

import (
	"math"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestByElement: of a product whose elements are all scaled a little none is wrong by itself; of one with a single
// wrong element that element is. What is due says so, too.
func TestByElement(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 64
	a, b := make([]float64, n*n), make([]float64, n*n)
	for i := range a {
		a[i], b[i] = float64(float32(math.Sin(float64(i*i)))), float64(float32(math.Cos(float64(i*i+i/2))))
	}
	scaled, single := make([]float64, n*n), make([]float64, n*n)
	for i := range scaled {
		sum := 0.
		for k := range n {
			sum += a[i/n*n+k] * b[k*n+i%n]
		}
		scaled[i], single[i] = sum*(1+24*0x1p-23), sum
	}
	single[7]++
	matrix := func(v []float64) value.Value { return tensor.New(tensor.Float32, []int{n, n}, v).Rounded() }
	rec := func(vs ...value.Value) *capture.Record {
		return &capture.Record{Name: "torch.mm", Kwargs: &value.Dict{}, Identifier: "torch.mm/0", Args: vs}
	}
	for _, c := range []struct {
		name   string
		out    []float64
		want   bool
		beyond int
	}{{"scaled", scaled, false, 0}, {"single", single, true, 1}} {
		call := replay.Of(capture.Made(map[capture.Kind]*capture.Record{capture.Input: rec(matrix(a), matrix(b)),
			capture.Output: rec(matrix(c.out))}), replay.Options{Registry: ops.Default(), Tolerances: tol})
		r := &call.Compare().Results[0]
		if got := call.ByElement(r); r.Verdict != verdict.Fail || got != c.want {
			t.Errorf("%s: %s (%s), an element is wrong by itself: %t, want %t", c.name, r.Verdict, r.Reason, got,
				c.want)
		}
		due := call.DueOutputs(nil)[0]
		got := compare.Beyond(matrix(c.out).(*tensor.Tensor), due.Want, due.Allowed)
		if got != c.beyond || due.Name != "output[0]" {
			t.Errorf("%s: %d elements of %s are wrong, want %d", c.name, got, due.Name, c.beyond)
		}
	}
}

// TestDueOfFailing: what a value may be off by is what its verdict goes by. A softmax in bfloat16 that is 1.03 times
// too large is within what an accumulator of bfloat16 explains, but not computed by one: its elements are wrong. One
// that is 1.0078 times too large is wrong only as a whole, and so are the bounds.
func TestDueOfFailing(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const rows, n = 128, 32
	x := make([]float64, rows*n)
	for i := range x {
		x[i] = tensor.BFloat16.Round(2 * math.Sin(float64(i*i)))
	}
	softmax := func(factor float64) []float64 {
		y := make([]float64, len(x))
		for r := range rows {
			sum := 0.
			for _, v := range x[r*n : (r+1)*n] {
				sum += math.Exp(v)
			}
			for i, v := range x[r*n : (r+1)*n] {
				y[r*n+i] = tensor.BFloat16.Round(factor * tensor.BFloat16.Round(math.Exp(v)/sum))
			}
		}
		return y
	}
	for _, c := range []struct {
		factor           float64
		wrong            verdict.Verdict
		elements, common bool
	}{{1, verdict.Pass, false, false}, {1.03125, verdict.Fail, true, false}, {1.0078125, verdict.Fail, false, true}} {
		of := func(v []float64) *tensor.Tensor {
			return tensor.New(tensor.BFloat16, []int{rows, n}, v).Rounded()
		}
		call := replay.Of(capture.Made(map[capture.Kind]*capture.Record{
			capture.Input: {Name: "torch.softmax", Kwargs: &value.Dict{}, Identifier: "torch.softmax/0",
				Args: []value.Value{of(x), int64(-1)}},
			capture.Output: {Name: "torch.softmax", Kwargs: &value.Dict{}, Identifier: "torch.softmax/0",
				Args: []value.Value{of(softmax(c.factor))}}}),
			replay.Options{Registry: ops.Default(), Tolerances: tol})
		outcome := call.Compare()
		r, due := &outcome.Results[0], call.DueOutputs(outcome)[0]
		beyond := compare.Beyond(of(softmax(c.factor)), due.Want, due.Allowed)
		if r.Verdict != c.wrong || beyond > 0 != c.elements || (due.Together != nil) != c.common ||
			c.elements && beyond != r.Compared.Mismatched {
			t.Errorf("softmax times %g: %s (%s), %d elements are wrong, bounds of all %v", c.factor, r.Verdict,
				r.Reason, beyond, due.Together)
		}
	}
}
