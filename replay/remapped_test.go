package replay_test

import (
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCausesOfPlaces: indices that are read at others, sums that are not cleared, windows of which one contribution
// counts.
func TestCausesOfPlaces(t *testing.T) {
	opt, r := options(t), rand.New(rand.NewPCG(35, 7))
	random := func(shape ...int) *tensor.Tensor { return normal(r, shape) }
	first := func(op string, args ...value.Value) *tensor.Tensor { return resultsOf(t, opt, op, args...)[0] }
	// part(i, v) is where element i is taken from
	moved := func(x *tensor.Tensor, from func(i int) int) *tensor.Tensor {
		v, out := make([]float64, x.Numel()), make([]float64, x.Numel())
		tensor.Load(x, 0, v)
		for i := range out {
			out[i] = v[from(i)]
		}
		return tensor.New(x.DType, x.Shape, out).Rounded()
	}
	added := func(x *tensor.Tensor, of func(i int, v []float64) float64) *tensor.Tensor {
		v, out := make([]float64, x.Numel()), make([]float64, x.Numel())
		tensor.Load(x, 0, v)
		for i := range out {
			out[i] = of(i, v)
		}
		return tensor.New(x.DType, x.Shape, out).Rounded()
	}
	left, right, tall, wide := random(3, 9, 12), random(3, 12, 7), random(8, 20), random(20, 11)
	image, kernel, bias := random(2, 3, 5, 4), random(3, 2, 3, 3), random(2)
	table, at := random(80, 6), make([]int64, 50)
	for i := range at {
		at[i] = int64(r.IntN(70))
	}
	ids := tensor.New(tensor.Int64, []int{50}, at)
	up := []value.Value{image, kernel, bias, int64(2)}
	due := first("torch.nn.functional.conv_transpose2d", up...)
	bare := first("torch.nn.functional.conv_transpose2d", image, kernel, nil, int64(2))
	ones := tensor.Full(tensor.Float32, []int{1, 1, 5, 4}, 1.0).Rounded()
	each := tensor.Full(tensor.Float32, []int{1, 1, 3, 3}, 1.0).Rounded()
	counts := first("torch.nn.functional.conv_transpose2d", ones, each, nil, int64(2))
	seen := make([]int64, 35) // of 5 x 7, some
	for i := range seen {
		seen[i] = int64(i*i%3) % 2
	}
	found := first("torch.nonzero", tensor.New(tensor.Int64, []int{5, 7}, seen))
	split := make([]int64, found.Numel())
	tensor.Load(found, 0, split)
	for i := 0; i < len(split); i += 2 {
		p := split[i]*7 + split[i+1]
		split[i], split[i+1] = p/5, p%5
	}
	chosen := []int64{3, -1, 5, 0, -2, 7, 2}
	clamped := []int64{3, 0, 5, 0, 0, 7, 2}
	index := func(v []int64) value.Value { return tensor.New(tensor.Int64, []int{len(v)}, v) }
	even := random(4, 3, 2, 2)
	for _, tc := range []struct {
		op   string
		args []value.Value
		gave *tensor.Tensor
		want string
	}{
		{"torch.matmul", []value.Value{tall, wide}, first("torch.matmul", moved(tall, func(i int) int {
			return i - i%20/16*8
		}), wide), "self is read 8 back from index 16 on, along dimension 1"},
		{"torch.bmm", []value.Value{left, right}, first("torch.bmm", moved(left, func(i int) int {
			return i - i%4 + 3 - i%4
		}), right), "self is read backwards within each 4, along dimension 2"},
		{"torch.bmm", []value.Value{left, right}, added(first("torch.bmm", left, right), func(i int,
			v []float64) float64 {
			if i < 63 {
				return v[i]
			}
			return v[i] + v[i-63]
		}), "to each index of dimension 0 is added what is due at the index before it, as if that were not cleared"},
		{"torch.cumsum", []value.Value{tall, int64(1)}, added(first("torch.cumsum", tall, int64(1)),
			func(i int, v []float64) float64 {
				sum := v[i]
				for row := range i / 20 {
					sum += v[row*20+19]
				}
				return sum
			}), "each row of dimension 1 begins with the sum of all rows before it, as if the carry were not cleared"},
		{"torch.nn.functional.embedding", []value.Value{ids, table}, added(first("torch.nn.functional.embedding", ids,
			table), func(i int, v []float64) float64 {
			if at[i/6] < 32 {
				return v[i]
			}
			return tensor.At[float64](table, int(at[i/6]+1)*6+i%6)
		}), "elements of input from 32 on are one too high"},
		{"torch.nn.functional.conv_transpose2d", up, added(due, func(i int, v []float64) float64 {
			n := tensor.At[float64](counts, i%99)
			return v[i] + (n-1)*tensor.At[float64](bias, i/99%2)
		}), "what is added besides, such as a bias, is added once for each of the places in dimensions 2, 3 of input " +
			"that add to one element"},
		{"torch.nn.functional.conv_transpose2d", []value.Value{image, kernel, nil, int64(2)},
			added(bare, func(i int, v []float64) float64 { return v[i] / tensor.At[float64](counts, i%99) }),
			"the sum over places in dimensions 2, 3 of input that add to one element is divided by their number"},
		{"torch.nn.functional.pad", []value.Value{image, value.NewTuple(int64(1), int64(2), int64(3), int64(0))},
			first("torch.nn.functional.pad", image, value.NewTuple(int64(3), int64(0), int64(1), int64(2))),
			"pad is [3, 0, 1, 2], not [1, 2, 3, 0]"},
		{"torch.nn.functional.conv2d", []value.Value{image, even, nil, int64(1), "same"},
			first("torch.nn.functional.conv2d", first("torch.nn.functional.pad", image,
				value.NewTuple(int64(1), int64(0), int64(1), int64(0))), even),
			"the padding that is one more on one side is one more before the input, not behind it"},
		{"torch.nonzero", []value.Value{tensor.New(tensor.Int64, []int{5, 7}, seen)},
			tensor.New(tensor.Int64, found.Shape, split), "the position of each element is split by 5, the length of " +
				"dimension 0 of self, not by that of the last"},
		{"torch.Tensor.__getitem__", []value.Value{table, index(chosen)},
			first("torch.Tensor.__getitem__", table, index(clamped)), "negative elements of index[0] are set to 0"},
	} {
		causes := explain(entries(t, record(t, tc.op, tc.args, tc.gave))[0], opt)
		if len(causes) == 0 || !says(causes[0], tc.want) {
			t.Errorf("%s: causes %+v, want first %q", tc.op, causes, tc.want)
		}
	}
}
