package replay_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A naiveAttention is flash_attn_func written down element by element.
type naiveAttention struct {
	scale float64
	seen  int                // query r sees keys up to r + seen
	head  func(h, n int) int // the head of k and v that serves head h, of n heads each
}

// run returns the result and the gradients of q, k and v for the gradient up, of
// one batch item [length, heads, size].
func (at naiveAttention) run(q, k, v, up []float64, l, s, heads, few, size int) (out, dq, dk, dv []float64) {
	out, dq = make([]float64, len(q)), make([]float64, len(q))
	dk, dv = make([]float64, len(k)), make([]float64, len(v))
	for h := range heads {
		for r := range l {
			from := (r*heads + h) * size
			key := func(c int) int { return (c*few + at.head(h, heads/few)) * size }
			p, sum := make([]float64, s), 0.0
			for c := 0; c < min(s, r+at.seen+1); c++ {
				for d := range size {
					p[c] += at.scale * q[from+d] * k[key(c)+d]
				}
				p[c] = math.Exp(p[c])
				sum += p[c]
			}
			dp, mean := make([]float64, s), 0.0
			for c := range p {
				p[c] /= sum
				for d := range size {
					out[from+d] += p[c] * v[key(c)+d]
					dv[key(c)+d] += p[c] * up[from+d]
					dp[c] += up[from+d] * v[key(c)+d]
				}
				mean += p[c] * dp[c]
			}
			for c := range p {
				for d := range size {
					dq[from+d] += at.scale * p[c] * (dp[c] - mean) * k[key(c)+d]
					dk[key(c)+d] += at.scale * p[c] * (dp[c] - mean) * q[from+d]
				}
			}
		}
	}
	return out, dq, dk, dv
}

// TestFlashAttention replays captures of flash_attn, of which all but the first are
// what wrong implementations give.
func TestFlashAttention(t *testing.T) {
	const l, s, heads, few, size = 3, 5, 4, 2, 8
	right := naiveAttention{1 / math.Sqrt(size), s - l, func(h, n int) int { return h / n }}
	early, ahead, larger, interleaved := right, right, right, right
	early.seen--
	ahead.seen = s
	larger.scale *= 1.25
	interleaved.head = func(h, _ int) int { return h % few }
	for _, tc := range []struct {
		name string
		at   naiveAttention
		want verdict.Verdict
	}{
		{"right", right, verdict.Pass}, {"causal one key early", early, verdict.Fail},
		{"not causal", ahead, verdict.Fail}, {"scale a quarter too large", larger, verdict.Fail},
		{"heads interleaved", interleaved, verdict.Fail},
	} {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			t.Run(tc.name+"/"+dt.String(), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, 2))
				draw := func(shape ...int) *tensor.Tensor {
					v := make([]float64, tensor.Numel(shape))
					for i := range v {
						v[i] = r.NormFloat64()
					}
					return needsGrad(stored(dt, shape, v...))
				}
				q, k, v, up := draw(1, l, heads, size), draw(1, s, few, size), draw(1, s, few, size),
					draw(1, l, heads, size)
				data := tensor.Data[float64]
				out, dq, dk, dv := tc.at.run(data(q), data(k), data(v), data(up), l, s, heads, few, size)
				dir := record(t, "flash_attn.flash_attn_func", []value.Value{q, k, v, 0.0, nil, true},
					stored(dt, q.Shape, out...), value.NewTuple(stored(dt, q.Shape, dq...), stored(dt, k.Shape, dk...),
						stored(dt, v.Shape, dv...)), value.NewTuple(up))
				o := replay.Run(entries(t, dir)[0], options(t))
				if o.Verdict() != tc.want || len(o.Results) != 4 {
					t.Fatalf("got %s, want %s and 4 results: %+v", o.Verdict(), tc.want, o.Results)
				}
			})
		}
	}
}

// TestBoxes replays captures of torchvision.
func TestBoxes(t *testing.T) {
	const f32 = tensor.Float32
	ints := func(v ...int64) *tensor.Tensor { return tensor.New(tensor.Int64, []int{len(v)}, v).Rounded() }
	// The first two overlap by half of their union.
	boxes := stored(f32, []int{4, 4}, 0, 0, 4, 3, 0, 1, 4, 4, 8, 8, 9, 9, 8, 8, 9, 9)
	scores := stored(f32, []int{4}, 0.5, 0.75, 0.25, 0.25)
	for _, op := range []string{"torchvision.ops.nms", "torch.ops.torchvision.nms"} {
		for _, tc := range []struct {
			limit float64
			kept  *tensor.Tensor
			want  verdict.Verdict
		}{
			{0.25, ints(1, 2), verdict.Pass}, {0.25, ints(1, 3), verdict.Pass}, {0.625, ints(1, 0, 2), verdict.Pass},
			{0.25, ints(0, 2), verdict.Fail}, {0.25, ints(2, 1), verdict.Fail}, {0.25, ints(1), verdict.Fail},
			{0.25, ints(1, 0, 2), verdict.Fail}, {0.625, ints(1, 2), verdict.Fail},
		} {
			o := replay.Run(entries(t, record(t, op, []value.Value{boxes, scores, tc.limit}, tc.kept))[0], options(t))
			if o.Verdict() != tc.want {
				t.Errorf("%s: %v of limit %g: got %s, want %s: %+v", op, tensor.Data[int64](tc.kept), tc.limit,
					o.Verdict(), tc.want, o.Results)
			}
		}
	}
	// On a ramp each bin is the position of its centre; one sample per bin lies
	// between four pixels, of which each gets a quarter of the gradient.
	ramp, grad := make([]float64, 25), make([]float64, 25)
	for i := range ramp {
		ramp[i] = float64(i % 5)
	}
	for i, g := range []float64{1, 2, 3, 4} {
		for _, p := range []int{0, 1, 5, 6} {
			grad[(i/2)*10+i%2*2+p] += g / 4
		}
	}
	for _, tc := range []struct {
		shift float64
		want  verdict.Verdict
	}{{0, verdict.Pass}, {0.5, verdict.Fail}, {1e-3, verdict.Fail}} {
		dir := record(t, "torchvision.ops.roi_align", []value.Value{needsGrad(stored(f32, []int{1, 1, 5, 5}, ramp...)),
			stored(f32, []int{1, 5}, 0, 0.5, 0.5, 4.5, 4.5), int64(2), 1.0, int64(1), true},
			stored(f32, []int{1, 1, 2, 2}, 1+tc.shift, 3+tc.shift, 1+tc.shift, 3+tc.shift))
		if o := replay.Run(entries(t, dir)[0], options(t)); o.Verdict() != tc.want {
			t.Errorf("roi_align off by %g: got %s, want %s: %+v", tc.shift, o.Verdict(), tc.want, o.Results)
		}
	}
	// A point that is rounded to just above a pixel without a value takes a little of the next one.
	for _, tc := range []struct {
		got  float64
		want verdict.Verdict
	}{{0, verdict.Mistrusted}, {1e-6, verdict.Mistrusted}, {1e-3, verdict.Fail}} {
		dir := record(t, "torchvision.ops.roi_align", []value.Value{stored(f32, []int{1, 1, 1, 3}, 0, 0, 1),
			stored(f32, []int{1, 5}, 0, 0, 0, 2, 1), int64(1), 1.0, int64(1), false},
			stored(f32, []int{1, 1, 1, 1}, tc.got))
		if o := replay.Run(entries(t, dir)[0], options(t)); o.Results[0].Verdict != tc.want {
			t.Errorf("roi_align next to a pixel, off by %g: got %+v, want %s", tc.got, o.Results, tc.want)
		}
	}
	dir := record(t, "torchvision.ops.roi_align", []value.Value{needsGrad(stored(f32, []int{1, 1, 5, 5}, ramp...)),
		stored(f32, []int{1, 5}, 0, 0, 0, 4, 4), int64(2), 1.0, int64(1), true},
		stored(f32, []int{1, 1, 2, 2}, 0.5, 2.5, 0.5, 2.5), value.NewTuple(stored(f32, []int{1, 1, 5, 5}, grad...)),
		value.NewTuple(stored(f32, []int{1, 1, 2, 2}, 1, 2, 3, 4)))
	if o := replay.Run(entries(t, dir)[0], options(t)); o.Verdict() != verdict.Pass || len(o.Results) != 2 {
		t.Errorf("roi_align and its gradient: %+v", o.Results)
	}
}
