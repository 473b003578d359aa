package replay_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCausesOfSingleElements: one element of each window, or of each kernel, counts; positions are scaled by the size
// of another dimension; a limit is one-sided; a result of float64 is computed in float32.
func TestCausesOfSingleElements(t *testing.T) {
	opt, r := options(t), rand.New(rand.NewPCG(35, 6))
	random := func(shape ...int) *tensor.Tensor { return normal(r, shape) }
	first := func(op string, args ...value.Value) *tensor.Tensor { return resultsOf(t, opt, op, args...)[0] }
	edited := func(x *tensor.Tensor, f func(i int, x float64) float64) *tensor.Tensor {
		return opdef.ZipAt(x.DType, x.Shape, func(lo int, dst []float64, src [][]float64) {
			for i := range dst {
				dst[i] = f(lo+i, src[0][i])
			}
		}, x).Rounded()
	}
	row, image, kernel := random(2, 3, 12), random(2, 3, 6, 10), random(4, 3, 2, 2)
	grid := edited(random(2, 5, 7, 2), func(_ int, x float64) float64 { return math.Tanh(x) })
	scaled := edited(grid, func(i int, x float64) float64 { // x by 6, y by 10
		return (x+1)*[]float64{0.6, 1 / 0.6}[i%2] - 1
	})
	rates := edited(random(20, 12), func(_ int, x float64) float64 { return 1 / (1 + math.Exp(-x)) })
	long := opdef.Map(tensor.Float64, random(12, 40), func(x float64) float64 { return x * (1 + 1e-10) })
	wide := opdef.Map(tensor.Float64, random(40, 16), func(x float64) float64 { return x * (1 - 1e-10) })
	single := make([]float64, 12*16)
	for i := range single {
		sum := float32(0)
		for k := range 40 {
			sum += float32(tensor.At[float64](long, i/16*40+k)) * float32(tensor.At[float64](wide, k*16+i%16))
		}
		single[i] = float64(sum)
	}
	batch := random(5, 3, 12)
	sums, squares := make([]float64, 3), make([]float64, 3) // of the first four of the batch
	for i := range 4 * 36 {
		x := tensor.At[float64](batch, i)
		sums[i/12%3], squares[i/12%3] = sums[i/12%3]+x/48, squares[i/12%3]+x*x/48
	}
	for _, tc := range []struct {
		op   string
		args []value.Value
		gave *tensor.Tensor
		want string
	}{
		{"torch.nn.functional.avg_pool1d", []value.Value{row, int64(3)},
			edited(first("torch.nn.functional.avg_pool1d", row, int64(3)), func(i int, _ float64) float64 {
				return tensor.At[float64](row, 3*i+2) / 3
			}), "of dimension -1 of each window only the last counts"},
		{"torch.nn.functional.conv2d", []value.Value{image, kernel}, first("torch.nn.functional.conv2d", image,
			edited(kernel, func(i int, x float64) float64 { return x * float64((4-i%4)/4) })),
			"of the dimensions from 2 on of weight, only the first of each counts"},
		{"torch.nn.functional.grid_sample", []value.Value{image, grid, "bilinear", "border", false},
			first("torch.nn.functional.grid_sample", image, scaled, "bilinear", "border", false),
			"positions along dimensions -2 and -1 are scaled by the size of the other"},
		{"torch.nn.functional.batch_norm", []value.Value{batch, nil, nil, nil, nil, true},
			edited(batch, func(i int, x float64) float64 {
				c := i / 12 % 3
				return (x - sums[c]) / math.Sqrt(squares[c]-sums[c]*sums[c]+1e-5)
			}), "the statistics leave out the last 1 of 5 indices of dimension 0"},
		{"torch.logit", []value.Value{rates, 0.25}, edited(rates, func(_ int, x float64) float64 {
			x = max(x, 0.25)
			return math.Log(x / (1 - x))
		}), "self is limited from below alone"},
		{"torch.matmul", []value.Value{long, wide}, tensor.New(tensor.Float64, []int{12, 16}, single),
			"it is computed in float32: all elements are numbers of that"},
	} {
		causes := explain(entries(t, record(t, tc.op, tc.args, tc.gave))[0], opt)
		if len(causes) == 0 || !says(causes[0], tc.want) {
			t.Errorf("%s: causes %+v, want first %q", tc.op, causes, tc.want)
		}
	}
}
