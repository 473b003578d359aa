package replay_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// gradientOf is what replay says of the recorded gradient of the first of a call's tensors.
func gradientOf(t *testing.T, name string, args []value.Value, out, up, grad value.Value) replay.Result {
	t.Helper()
	grads := make([]value.Value, len(args)) // None for the others
	grads[0] = grad
	made := map[capture.Kind]*capture.Record{
		capture.Input: {Args: args}, capture.Output: {Args: []value.Value{out}},
		capture.GradOutputs: {Args: []value.Value{up}}, capture.GradInputs: {Args: grads},
	}
	for k, rec := range made {
		rec.Name, rec.Identifier, rec.Kwargs = name, name+"/"+k.String(), &value.Dict{}
	}
	for _, r := range replay.Of(capture.Made(made), options(t)).Compare().Results {
		if r.Target == "grad[0]" {
			return r
		}
	}
	t.Fatalf("%s: no gradient was judged", name)
	return replay.Result{}
}

// TestGradientOfRoundedLogarithms has the gradients of cross_entropy from the logarithms of
// probabilities rounded to 16 bits, as torch saves them: far below the largest score they are percents off.
func TestGradientOfRoundedLogarithms(t *testing.T) {
	shorttest.Computes(t)
	const rows, classes = 32, 211
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		for seed := range uint64(8) {
			for _, size := range []float64{1, 20, 60} {
				r := rand.New(rand.NewPCG(3, seed))
				var x, grad []float64
				var target []int64
				for range rows {
					row, sum := make([]float64, classes), 0.0
					for c := range row {
						row[c] = dt.Round(size * r.NormFloat64())
						sum += math.Exp(row[c])
					}
					picked := r.Int64N(classes)
					target = append(target, picked)
					for c, v := range row {
						p := math.Exp(dt.Round(v - math.Log(sum)))
						if int64(c) == picked {
							p--
						}
						grad = append(grad, p/rows)
					}
					x = append(x, row...)
				}
				shape := []int{rows, classes}
				args := []value.Value{needsGrad(stored(dt, shape, x...)),
					tensor.New(tensor.Int64, []int{rows}, target).Rounded()}
				loss, up := stored(dt, nil, 1), stored(dt, nil, 1)
				judged := func(grad []float64) replay.Result {
					return gradientOf(t, "torch.nn.functional.cross_entropy", args, loss, up,
						stored(dt, shape, grad...))
				}
				if res := judged(grad); res.Verdict != verdict.Pass && res.Verdict != verdict.Warn {
					t.Errorf("%s, scores of %g, seed %d: %s: %s", dt, size, seed, res.Verdict, res.Reason)
				}
				at := int(target[5]) + 5*classes
				grad[at] *= 1.2
				if res := judged(grad); res.Verdict != verdict.Fail {
					t.Errorf("%s, scores of %g, seed %d, one element 20 %% off: %s", dt, size, seed, res.Verdict)
				}
			}
		}
	}
}

// TestGradientByAddedWeights has gradients that are divided by weights added one after the other, or
// in 16 bits as torch's CPU kernels add them.
func TestGradientByAddedWeights(t *testing.T) {
	for _, tc := range []struct {
		name      string
		dt        tensor.DType
		positions int
		factor    float64
		want      verdict.Verdict
	}{
		{"added in float32", tensor.Float32, 60000, 1 + 2e-6, verdict.Pass},
		{"off by a hundredth", tensor.Float32, 60000, 1.01, verdict.Fail},
		{"added in float16", tensor.Float16, 128, 0, verdict.Pass},
		{"off by a hundredth", tensor.Float16, 128, 1.01, verdict.Fail},
	} {
		r := rand.New(rand.NewPCG(5, 5))
		weights := []float64{tc.dt.Round(0.3), tc.dt.Round(0.7), tc.dt.Round(1.1)}
		target, sum, added := make([]int64, tc.positions), 0.0, [3]float64{}
		for i := range target {
			target[i] = r.Int64N(3)
			w := weights[target[i]]
			sum += w
			if added[0] = tc.dt.Round(added[0] + w); i%16 == 0 {
				added[1], added[0] = tc.dt.Round(added[1]+added[0]), 0
			}
			if i%256 == 0 {
				added[2], added[1] = tc.dt.Round(added[2]+added[1]), 0
			}
		}
		if tc.factor == 0 {
			tc.factor = sum / tc.dt.Round(tc.dt.Round(added[0]+added[1])+added[2])
		}
		grad := make([]float64, 3*tc.positions)
		for i, c := range target {
			grad[3*i+int(c)] = -weights[c] / sum * tc.factor
		}
		shape := []int{tc.positions, 3}
		x := needsGrad(stored(tc.dt, shape, make([]float64, len(grad))...))
		res := gradientOf(t, "torch.nn.functional.nll_loss", []value.Value{x,
			tensor.New(tensor.Int64, shape[:1], target).Rounded(), stored(tc.dt, []int{3}, weights...)},
			stored(tc.dt, nil, 0), stored(tc.dt, nil, 1), stored(tc.dt, shape, grad...))
		if res.Verdict != tc.want {
			t.Errorf("%s, %s, factor %v: %s: %s", tc.dt, tc.name, tc.factor, res.Verdict, res.Reason)
		}
	}
}
