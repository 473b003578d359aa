package replay_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// An attended is attention of several heads with dropout, forward and backward, as a kernel
// in float64 computes it. A mask is what each weight is multiplied by.
type attended struct {
	heads, n, size           int
	q, k, v, up              []float64
	mask, backwardMask       []float64
	out, gradQ, gradK, gradV []float64
}

func (a *attended) run() {
	n, size, scale := a.n, a.size, 1/math.Sqrt(float64(a.size))
	zeros := func() []float64 { return make([]float64, len(a.q)) }
	a.out, a.gradQ, a.gradK, a.gradV = zeros(), zeros(), zeros(), zeros()
	at := func(x []float64, h, i int) []float64 { return x[(h*n+i)*size:][:size] }
	dot := func(x, y []float64) (s float64) {
		for j := range x {
			s += x[j] * y[j]
		}
		return s
	}
	add := func(dst []float64, s float64, x []float64) {
		for j := range dst {
			dst[j] += s * x[j]
		}
	}
	for h := range a.heads {
		for i := range n {
			w, sum := make([]float64, n), 0.0
			for c := range w {
				w[c] = math.Exp(scale * dot(at(a.q, h, i), at(a.k, h, c)))
				sum += w[c]
			}
			grads, mean := make([]float64, n), 0.0
			for c := range w {
				w[c] /= sum
				m := a.backwardMask[(h*n+i)*n+c]
				add(at(a.out, h, i), w[c]*a.mask[(h*n+i)*n+c], at(a.v, h, c))
				add(at(a.gradV, h, c), w[c]*m, at(a.up, h, i))
				grads[c] = m * dot(at(a.up, h, i), at(a.v, h, c))
				mean += w[c] * grads[c]
			}
			for c := range w {
				add(at(a.gradQ, h, i), scale*w[c]*(grads[c]-mean), at(a.k, h, c))
				add(at(a.gradK, h, c), scale*w[c]*(grads[c]-mean), at(a.q, h, i))
			}
		}
	}
}

// TestAttentionDropout records attention whose weights are dropped: with few keys, where
// the results show the mask, and with more than a value has elements.
func TestAttentionDropout(t *testing.T) {
	// Heads stand before positions, or behind them.
	testAttentionDropout(t, "torch.nn.functional.scaled_dot_product_attention",
		func(x *tensor.Tensor) *tensor.Tensor { return x })
	testAttentionDropout(t, "flash_attn.flash_attn_func",
		func(x *tensor.Tensor) *tensor.Tensor { return x.Transpose(1, 2).Rounded() })
}

func testAttentionDropout(t *testing.T, name string, laid func(x *tensor.Tensor) *tensor.Tensor) {
	const p = 0.2
	const autocast = "query cast to bfloat16 by autocast"
	times := func(x []float64, s float64) []float64 {
		for i := range x {
			x[i] *= s
		}
		return x
	}
	draw := func(r *rand.Rand, n int) []float64 {
		mask := make([]float64, n)
		for i := range mask {
			if r.Float64() >= p {
				mask[i] = 1 / (1 - p)
			}
		}
		return mask
	}
	for _, keys := range []int{6, 40} {
		for _, tc := range []struct {
			name   string
			before func(a *attended, r *rand.Rand)
			after  func(a *attended)
			says   string // of what is wrong; "" if nothing is
		}{
			{"sound", nil, nil, ""},
			{"kept weights not divided", func(a *attended, _ *rand.Rand) { times(a.mask, 1-p) }, nil, "output"},
			{"nothing dropped", func(a *attended, _ *rand.Rand) {
				for i := range a.mask {
					a.mask[i] = 1
				}
			}, nil, "output"},
			{"another mask backward", func(a *attended, r *rand.Rand) { a.backwardMask = draw(r, len(a.mask)) }, nil,
				"grad"},
			{"gradient of value half", nil, func(a *attended) { times(a.gradV, 0.5) }, "grad"},
			{"gradient of query without scale", nil, func(a *attended) { times(a.gradQ, 4) }, "grad"},
			{"gradient of key negated", nil, func(a *attended) { times(a.gradK, -1) }, "grad"},
			{autocast, nil, nil, ""},
			{autocast + ", gradient of query without scale", nil, func(a *attended) { times(a.gradQ, 4) }, "grad"},
		} {
			r := rand.New(rand.NewPCG(7, uint64(keys)))
			a := &attended{heads: 8, n: keys, size: 16}
			shape := []int{1, a.heads, a.n, a.size}
			dt, cast := tensor.Float32, strings.HasPrefix(tc.name, autocast)
			if cast && !strings.HasPrefix(name, "torch.") {
				continue // which autocast does not know
			}
			if cast {
				dt = tensor.BFloat16
			}
			normal := func() []float64 {
				x := make([]float64, tensor.Numel(shape))
				for i := range x {
					x[i] = dt.Round(r.NormFloat64())
				}
				return x
			}
			a.q, a.k, a.v, a.up = normal(), normal(), normal(), normal()
			a.mask = draw(r, a.heads*keys*keys)
			a.backwardMask = a.mask
			if tc.before != nil {
				tc.before(a, r)
			}
			if a.run(); tc.after != nil {
				tc.after(a)
			}
			of := func(x []float64) value.Value { return needsGrad(laid(stored(dt, shape, x...))) }
			f32 := func(x []float64) value.Value { return needsGrad(laid(stored(tensor.Float32, shape, x...))) }
			made := map[capture.Kind]*capture.Record{
				capture.Input: {Args: []value.Value{f32(a.q), of(a.k), of(a.v)}, Kwargs: &value.Dict{
					Items: []value.Item{{Key: "dropout_p", Value: p}}}},
				capture.Output:      {Args: []value.Value{of(a.out)}},
				capture.GradOutputs: {Args: []value.Value{of(a.up)}},
				capture.GradInputs:  {Args: []value.Value{f32(a.gradQ), of(a.gradK), of(a.gradV)}},
			}
			for k, rec := range made {
				if rec.Name, rec.Identifier = name, name+"/"+k.String(); rec.Kwargs == nil {
					rec.Kwargs = &value.Dict{}
				}
			}
			found := false
			o := replay.Of(capture.Made(made), options(t)).Compare()
			for _, res := range o.Results {
				failed := res.Verdict == verdict.Fail
				if res.Verdict != verdict.Pass && tc.says == "" {
					t.Errorf("%s: %s, %d keys: %s of %s: %s", name, tc.name, keys, res.Verdict, res.Target, res.Reason)
				}
				found = found || failed && strings.HasPrefix(res.Target, tc.says)
			}
			if tc.says != "" && !found || len(o.Results) < 2 {
				t.Errorf("%s: %s, %d keys: want a failure of %s: %+v", name, tc.name, keys, tc.says, o.Results)
			}
		}
	}
}
