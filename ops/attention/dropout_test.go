package attention_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestMultiheadDropout judges results of one head whose projections are the identity: of
// weights that are dropped as they should be, and otherwise.
func TestMultiheadDropout(t *testing.T) {
	const l, n, e, p = 40, 8, 16, 0.25
	r := rand.New(rand.NewPCG(5, 6))
	x := make([]float64, l*n*e)
	for i := range x {
		x[i] = tensor.Float32.Round(r.NormFloat64())
	}
	eye, three := make([]float64, e*e), make([]float64, 0, 3*e*e)
	for i := range e {
		eye[i*e+i] = 1
	}
	three = append(append(append(three, eye...), eye...), eye...)
	f32 := func(v []float64, shape ...int) *tensor.Tensor { return tensor.New(tensor.Float32, shape, v).Rounded() }
	row := func(i, b int) []float64 { return x[(i*n+b)*e:][:e] }
	in := f32(x, l, n, e)
	c, err := ops.Default().Bind("torch.nn.functional.multi_head_attention_forward", []value.Value{in, in, in, int64(e),
		int64(1), f32(three, 3*e, e), nil, nil, nil, false, p, f32(eye, e, e), nil}, &value.Dict{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Random() == "" {
		t.Fatal("a call in training draws no random numbers")
	}
	for _, tc := range []struct {
		name  string
		kept  func() float64 // what a weight is multiplied by
		after func(out, weights []float64)
		sound bool
	}{
		{"sound", nil, nil, true},
		{"not divided", func() float64 { return math.Floor(r.Float64() + 1 - p) }, nil, false},
		{"nothing dropped", func() float64 { return 1 }, nil, false},
		{"another rate", func() float64 { return 2 * math.Floor(r.Float64()+0.5) }, nil, false},
		{"weights once more", nil, func(_, weights []float64) {
			for i := range weights {
				weights[i] *= 1 - p
			}
		}, false},
		{"queries one further", nil, func(out, _ []float64) { copy(out, out[n*e:]) }, false},
	} {
		kept := tc.kept
		if kept == nil {
			kept = func() float64 { return math.Floor(r.Float64()+1-p) / (1 - p) }
		}
		out, weights := make([]float64, l*n*e), make([]float64, n*l*l)
		for b := range n {
			for i := range l {
				w, sum := make([]float64, l), 0.0
				for k := range w {
					for j, v := range row(k, b) {
						w[k] += v * row(i, b)[j] / math.Sqrt(e)
					}
					w[k] = math.Exp(w[k])
					sum += w[k]
				}
				for k := range w {
					w[k] *= kept() / sum
					weights[(b*l+i)*l+k] = w[k]
					for j, v := range row(k, b) {
						out[(i*n+b)*e+j] += w[k] * v
					}
				}
			}
		}
		if tc.after != nil {
			tc.after(out, weights)
		}
		d := c.Drawn([]*tensor.Tensor{f32(out, l, n, e), f32(weights, n, l, l)})
		if (d.Wrong == "") != tc.sound || d.Wrong == "" && d.Checked == "" {
			t.Errorf("%s: %+v", tc.name, d)
		}
	}
}
