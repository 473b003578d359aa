package normalization

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// TestRowsAndColumns holds the gradients of layer_norm and their magnitudes against the formulas,
// also where there are several bands of rows and strips of columns.
func TestRowsAndColumns(t *testing.T) {
	for _, size := range [][2]int{{1, 16}, {3, 17}, {65, 40}, {70, sumTile + 600}, {2, 3*sumTile + 1}} {
		rows, length := size[0], size[1]
		gen := opdef.Gen{R: rand.New(rand.NewPCG(1, uint64(length)))}
		x, up := gen.Normal(tensor.Float64, rows, length), gen.Normal(tensor.Float64, rows, length)
		w, b := gen.Normal(tensor.Float64, length), gen.Normal(tensor.Float64, length)
		n, err := (&layerNormArgs{Input: x, NormalizedShape: []int{length}, Weight: w, Bias: b, Eps: 1e-5}).norm()
		if err != nil {
			t.Fatal(err)
		}
		if _, k, shared := n.run(); k != length || shared {
			t.Fatalf("%v: a run has %d elements", size, k)
		}
		for _, magnitudes := range []bool{false, true} {
			got := n.grads(opdef.NewGrad(nil, []*tensor.Tensor{up}, nil), magnitudes)
			for name, want := range formulas(x, up, w, 1e-5, magnitudes) {
				v := tensor.Data[float64](got[name][0])
				if len(v) != len(want) {
					t.Fatalf("%v: %d gradients of %s, want %d", size, len(v), name, len(want))
				}
				for i, g := range v {
					if math.Abs(g-want[i]) > 1e-10*(1+math.Abs(want[i])) {
						t.Fatalf("%v, magnitudes %v: gradient %d of %s is %v, want %v", size, magnitudes, i, name, g,
							want[i])
					}
				}
			}
		}
	}
}

// formulas are the gradients of layer_norm without a thought of speed; see grads.
func formulas(x, up, w *tensor.Tensor, eps float64, magnitudes bool) map[string][]float64 {
	rows, length := x.Shape[0], x.Shape[1]
	xs, ups, ws := tensor.Data[float64](x), tensor.Data[float64](up), tensor.Data[float64](w)
	input, weight, bias := make([]float64, len(xs)), make([]float64, length), make([]float64, length)
	size := func(v float64) float64 {
		if magnitudes {
			return math.Abs(v)
		}
		return v
	}
	for r := range rows {
		row, ups, out := xs[r*length:(r+1)*length], ups[r*length:(r+1)*length], input[r*length:(r+1)*length]
		var mean, vari, square float64
		for _, v := range row {
			mean += v / float64(length)
			square += v * v / float64(length)
		}
		for _, v := range row {
			vari += (v - mean) * (v - mean) / float64(length)
		}
		rstd, rms := 1/math.Sqrt(vari+eps), math.Sqrt(square)
		var h, hx, he float64
		for i, v := range row {
			xhat, e := size((v-mean)*rstd), (math.Abs(v)+rms)*rstd
			g, of := size(ups[i]), size(ups[i]*ws[i])
			h, hx, he = h+of/float64(length), hx+of*xhat/float64(length), he+of*e/float64(length)
			bias[i] += g
			weight[i] += g * xhat
			if magnitudes {
				weight[i] += g * (e + xhat*rms*rstd)
			}
		}
		for i, v := range row {
			xhat, e := size((v-mean)*rstd), (math.Abs(v)+rms)*rstd
			of := size(ups[i] * ws[i])
			out[i] = rstd * (of - h - xhat*hx)
			if magnitudes {
				out[i] = rstd * (1 + rms*rstd) * (of + h + xhat*(hx+he) + e*hx)
			}
		}
	}
	return map[string][]float64{"input": input, "weight": weight, "bias": bias}
}

// TestMovedInBFloat16: torch's CPU kernel rounds each step of a running mean to bfloat16, which shows where both terms
// nearly cancel. The values are torch's.
func TestMovedInBFloat16(t *testing.T) {
	bf := func(shape []int, v ...float64) *tensor.Tensor { return tensor.New(tensor.BFloat16, shape, v) }
	n, err := (&batchNormArgs{Input: bf([]int{2, 1}, 0.03466796875, -0.035400390625),
		RunningMean: bf([]int{1}, 4.887580871582031e-05), Training: true, Momentum: 0.1, Eps: 1e-5}).norm()
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	for _, other := range n.AfterElse()["running_mean"][0] {
		got = append(got, tensor.At[float64](other, 0))
	}
	if want := 7.152557373046875e-06; len(got) != 2 || tensor.BFloat16.Round(got[1]) != want {
		t.Errorf("other running means %v, want %v", got, want)
	}
}
