package replay_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestCausesOfParts: sums over some indices, results of sections that are joined wrongly, runs and parts that are read
// elsewhere, other rules of integrals, means and gradients. Wrong elements that are random have none of these causes.
func TestCausesOfParts(t *testing.T) {
	shorttest.Computes(t)
	r := rand.New(rand.NewPCG(11, 4))
	opt := options(t)
	m, rows := normal(r, []int{11, 30}), normal(r, []int{4, 64})
	b1, b2 := normal(r, []int{3, 6, 8}), normal(r, []int{3, 8, 5})
	long := tensor.New(tensor.BFloat16, []int{4, 24}, make([]float64, 96))
	brain := make([]float64, 96)
	for i := range brain {
		brain[i] = tensor.BFloat16.Round(r.NormFloat64())
	}
	long = tensor.New(tensor.BFloat16, long.Shape, brain)
	image, kernel := normal(r, []int{1, 3, 9, 8}), normal(r, []int{4, 3, 3, 3})
	logs, classes := normal(r, []int{3, 5, 4, 6}), make([]int64, 72)
	for i := range classes {
		classes[i] = int64(r.IntN(5))
	}
	target := tensor.New(tensor.Int64, []int{3, 4, 6}, classes)
	counted := make([]int64, 50)
	for i := range counted {
		counted[i] = int64(r.IntN(10))
	}
	quarters := make([]float64, 330)
	for i := range quarters {
		quarters[i] = float64(r.IntN(40)-20) / 4
	}
	halves := tensor.New(tensor.Float32, []int{11, 30}, quarters)
	mask, square, other := tensor.New(tensor.Bool, []int{7}, []int64{1, 0, 0, 1, 1, 0, 1}), normal(r, []int{7, 7}),
		normal(r, []int{7, 7})
	at := func(x *tensor.Tensor, i ...int) float64 { return tensor.At[float64](x, tensor.Ravel(i, x.Shape)) }
	for _, tc := range []struct {
		want string
		op   string
		args []value.Value
		gave func(i int, due []float64) float64
	}{
		{"of dimension 1 of self, only the first 16 of each 32 of 64 count", "torch.sum", []value.Value{rows, int64(1)},
			func(i int, _ []float64) (sum float64) {
				for k := range 64 {
					sum += at(rows, i, k) * float64((k/16+1)%2)
				}
				return sum
			}},
		{"of dimension 1 of self, only the first 7 of 30 count", "torch.sum", []value.Value{m, int64(1)},
			func(i int, _ []float64) (sum float64) {
				for k := range 7 {
					sum += at(m, i, k)
				}
				return sum
			}},
		{"each 16 indices of dimension 1 of x are reduced by themselves, and the results are added",
			"torch.linalg.vector_norm", []value.Value{m, int64(2), int64(1)}, func(i int, _ []float64) float64 {
				var squares [2]float64
				for k := range 30 {
					squares[k/16] += at(m, i, k) * at(m, i, k)
				}
				return math.Sqrt(squares[0]) + math.Sqrt(squares[1])
			}},
		{"each 16 indices of dimension 0 of self are reduced by themselves, and the largest of the results is taken",
			"torch.bincount", []value.Value{tensor.New(tensor.Int64, []int{50}, counted)},
			func(i int, _ []float64) (most float64) {
				for part := range slices.Chunk(counted, 16) {
					n := 0
					for _, v := range part {
						if int(v) == i {
							n++
						}
					}
					most = max(most, float64(n))
				}
				return most
			}},
		{"elements 32 to 47 hold what is due at 16 to 31", "torch.exp", []value.Value{long},
			func(i int, due []float64) float64 { return due[i-16*max(0, 1-abs(i/16-2))] }},
		{"from index 1 of dimension 0 on, self is read one index of dimension 1 further in memory", "torch.bmm",
			[]value.Value{b1, b2}, func(i int, _ []float64) (sum float64) {
				batch, row, col := i/30, i/5%6, i%5
				for k := range 8 {
					from := (batch*48 + row*8 + k + 8*min(batch, 1)) % 144
					sum += tensor.At[float64](b1, from) * at(b2, batch, k, col)
				}
				return sum
			}},
		{"in dimension 2, all of input's padding is before it", "torch.nn.functional.conv2d",
			[]value.Value{image, kernel, nil, int64(2), int64(1)}, func(i int, _ []float64) (sum float64) {
				for k := range 27 {
					y, x := 2*(i/4%5)-2+k/3%3, 2*(i%4)-1+k%3
					if y >= 0 && y < 9 && x >= 0 && x < 8 {
						sum += at(image, 0, k/9, y, x) * at(kernel, i/20, k/9, k/3%3, k%3)
					}
				}
				return sum
			}},
		{"it is the rectangle rule with the right values", "torch.trapezoid", []value.Value{m},
			func(i int, _ []float64) (sum float64) {
				for k := 1; k < 30; k++ {
					sum += at(m, i, k)
				}
				return sum
			}},
		{"halves are rounded away from zero", "torch.round", []value.Value{halves},
			func(i int, _ []float64) float64 { return math.Round(tensor.At[float64](halves, i)) }},
		{"condition is read each element 7 times in a row", "torch.where", []value.Value{mask, square, other},
			func(i int, _ []float64) float64 {
				if tensor.At[int64](mask, i/7) != 0 {
					return tensor.At[float64](square, i)
				}
				return tensor.At[float64](other, i)
			}},
		{"it is computed as 2^n * p(f), where n is the whole part of self/ln 2 and f the rest: p is a polynomial of degree " +
			"2, about 1 + 0.6565*x + 0.3435*x^2", "torch.exp", []value.Value{m}, func(i int, _ []float64) float64 {
			x := tensor.At[float64](m, i) * math.Log2E
			f := x - math.Floor(x)
			return math.Exp2(math.Floor(x)) * (1 + f*(0.6565+0.3435*f))
		}},
		{"of dimension 1 of self, only the first 1 of each 2 of 30 are looked at", "torch.prod",
			[]value.Value{m, int64(1)}, func(i int, _ []float64) float64 {
				product := 1.0
				for k := 0; k < 30; k += 2 {
					product *= at(m, i, k)
				}
				return product
			}},
		{"each result is read with neighbours exchanged along dimension 0", "torch.cumsum",
			[]value.Value{normal(r, []int{30}), int64(0)}, func(i int, due []float64) float64 { return due[i^1] }},
		{"it is divided by the number of images", "torch.nn.functional.nll_loss", []value.Value{logs, target},
			func(_ int, due []float64) float64 { return due[0] * 24 }},
	} {
		t.Run(tc.want, func(t *testing.T) {
			call, err := opt.Registry.Bind(tc.op, tc.args, nil)
			if err != nil {
				t.Fatal(err)
			}
			f, err := call.Forward()
			if err != nil {
				t.Fatal(err)
			}
			y := f.Outs[0]
			due, wrong, random := make([]float64, y.Numel()), make([]float64, y.Numel()), make([]float64, y.Numel())
			tensor.Load(y, 0, due)
			for i := range due {
				if wrong[i] = tc.gave(i, due); y.DType.IsFloat() && math.Abs(wrong[i]-due[i]) > 1e-4*math.Abs(due[i]) {
					random[i] = due[i] + (wrong[i]-due[i])*(0.3+r.Float64())
				} else if random[i] = wrong[i]; wrong[i] != due[i] && !y.DType.IsFloat() {
					random[i] = float64(3 + r.IntN(20))
				}
			}
			causes := func(v []float64) []string {
				gave := tensor.New(y.DType, y.Shape, v).Rounded()
				var texts []string
				for _, k := range explain(entries(t, record(t, tc.op, tc.args, gave))[0], opt) {
					if !k.Pattern {
						texts = append(texts, k.Text)
					}
				}
				return texts
			}
			if found := causes(wrong); len(found) == 0 || found[0] != tc.want {
				t.Errorf("causes %q, want first %q", found, tc.want)
			}
			if found := causes(random); found != nil {
				t.Errorf("random elements have causes %q", found)
			}
		})
	}
}

func abs(i int) int { return max(i, -i) }
