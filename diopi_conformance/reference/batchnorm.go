package reference

import (
	"math"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// batchNormFunctions are the parts of batch normalization over several devices
// (synchronized batch norm). Channels are dimension 1.
//
// Source: aten/src/ATen/native/cuda/Normalization.cuh, by formula.
var batchNormFunctions = map[string]function{
	"batch_norm_stats":                    batchNormStats,
	"batch_norm_gather_stats_with_counts": batchNormGatherStats,
	"batch_norm_elemt":                    batchNormElemt,
	"batch_norm_backward_reduce":          batchNormBackwardReduce,
	"batch_norm_backward_elemt":           batchNormBackwardElemt,
}

// channels calls f with the channel and position of every element of t.
func channels(t *tensor.Tensor, f func(c, i int)) {
	n, inner := 1, 1
	if t.Dim() > 1 {
		n, inner = t.Shape[1], tensor.Numel(t.Shape[2:])
	}
	for i := range t.Numel() {
		f(i/inner%n, i)
	}
}

// accumulator is the dtype of statistics of t: at least float32.
func accumulator(t *tensor.Tensor) tensor.DType {
	if t.DType == tensor.Float64 {
		return tensor.Float64
	}
	return tensor.Float32
}

func perChannel(dt tensor.DType, v []float64) *tensor.Tensor {
	return tensor.New(dt, []int{len(v)}, v)
}

// batchNormStats returns mean and 1/sqrt(variance + eps) of each channel.
func batchNormStats(t *Tape, a *arguments) value.Value {
	x := a.tensor("input")
	if x.Dim() < 2 {
		t.fail("argument input: want at least 2 dimensions, got shape %s", tensor.ShapeString(x.Shape))
		return nil
	}
	n := float64(x.Numel()) / float64(x.Shape[1])
	data := tensor.Data[float64](x)
	mean, variance := make([]float64, x.Shape[1]), make([]float64, x.Shape[1])
	channels(x, func(c, i int) { mean[c] += data[i] / n })
	channels(x, func(c, i int) { variance[c] += (data[i] - mean[c]) * (data[i] - mean[c]) / n })
	for c, v := range variance {
		variance[c] = 1 / math.Sqrt(v+a.float("eps"))
	}
	return list(perChannel(accumulator(x), mean), perChannel(accumulator(x), variance))
}

// batchNormGatherStats merges the statistics of several devices, each with its
// number of elements.
func batchNormGatherStats(t *Tape, a *arguments) value.Value {
	means, invs, counts := a.tensor("mean_all"), a.tensor("invstd_all"), tensor.Data[float64](a.tensor("count_all"))
	eps := a.float("eps")
	if means.Dim() != 2 || len(counts) != means.Shape[0] {
		t.fail("argument mean_all: want one row per count, got shape %s and %d counts", tensor.ShapeString(means.Shape),
			len(counts))
		return nil
	}
	width := means.Shape[1]
	m, s := tensor.Data[float64](means), tensor.Data[float64](invs)
	mean, inv := make([]float64, width), make([]float64, width)
	total := 0.0
	for _, n := range counts {
		total += n
	}
	for c := range width {
		for w, n := range counts {
			mean[c] += n * m[w*width+c] / total
		}
		variance := 0.0
		for w, n := range counts {
			d := m[w*width+c] - mean[c]
			variance += n * (1/(s[w*width+c]*s[w*width+c]) - eps + d*d) / total
		}
		inv[c] = 1 / math.Sqrt(variance+eps)
	}
	return list(perChannel(accumulator(means), mean), perChannel(accumulator(means), inv))
}

// vector is the data of a per-channel argument, or fallback everywhere if it
// is None.
func (a *arguments) vector(name string, n int, fallback float64) []float64 {
	if t := a.optional(name); t != nil {
		return tensor.Data[float64](t)
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = fallback
	}
	return v
}

func batchNormElemt(_ *Tape, a *arguments) value.Value {
	x := a.tensor("input")
	mean, inv := tensor.Data[float64](a.tensor("mean")), tensor.Data[float64](a.tensor("invstd"))
	weight, bias := a.vector("weight", len(mean), 1), a.vector("bias", len(mean), 0)
	out := copied(x)
	channels(x, func(c, i int) { out[i] = (out[i]-mean[c])*inv[c]*weight[c] + bias[c] })
	return tensor.New(x.DType, x.Shape, out)
}

// batchNormBackwardReduce sums, for each channel, dy and dy*(x-mean), and makes
// the gradients of weight and bias of them. What is not wanted is None.
func batchNormBackwardReduce(_ *Tape, a *arguments) value.Value {
	x, dy := a.tensor("input"), tensor.Data[float64](a.tensor("grad_output"))
	mean, inv := tensor.Data[float64](a.tensor("mean")), tensor.Data[float64](a.tensor("invstd"))
	data := tensor.Data[float64](x)
	sum, sumX, weight := make([]float64, len(mean)), make([]float64, len(mean)), make([]float64, len(mean))
	channels(x, func(c, i int) {
		sum[c] += dy[i]
		sumX[c] += dy[i] * (data[i] - mean[c])
	})
	for c := range weight {
		weight[c] = sumX[c] * inv[c]
	}
	wide, narrow := accumulator(x), accumulator(x)
	if w := a.optional("weight"); w != nil {
		narrow = w.DType
	}
	out := make([]*tensor.Tensor, 4)
	if a.bool("input_g") {
		out[0], out[1] = perChannel(wide, sum), perChannel(wide, sumX)
	}
	if a.bool("weight_g") {
		out[2] = perChannel(narrow, weight)
	}
	if a.bool("bias_g") {
		out[3] = perChannel(narrow, sum)
	}
	return list(out...)
}

func batchNormBackwardElemt(_ *Tape, a *arguments) value.Value {
	x, dy := a.tensor("input"), copied(a.tensor("grad_out"))
	mean, inv := tensor.Data[float64](a.tensor("mean")), tensor.Data[float64](a.tensor("invstd"))
	weight := a.vector("weight", len(mean), 1)
	sum, sumX := tensor.Data[float64](a.tensor("sum_dy")), tensor.Data[float64](a.tensor("sum_dy_xmu"))
	n := 0.0
	for _, c := range tensor.Data[float64](a.tensor("count")) {
		n += c
	}
	data := tensor.Data[float64](x)
	channels(x, func(c, i int) {
		dy[i] = (dy[i] - sum[c]/n - (data[i]-mean[c])*inv[c]*inv[c]*sumX[c]/n) * inv[c] * weight[c]
	})
	return tensor.New(x.DType, x.Shape, dy)
}
