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
		due := call.DueOutputs()[0]
		got := compare.Beyond(matrix(c.out).(*tensor.Tensor), due.Want, due.Allowed)
		if got != c.beyond || due.Name != "output[0]" {
			t.Errorf("%s: %d elements of %s are wrong, want %d", c.name, got, due.Name, c.beyond)
		}
	}
}
