package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// eachProduct calls f for every product of a convolution, with its elements of input, weight and output; -1 for
// input beside which there is none.
func (c *Conv) eachProduct(f func(x, w, y int)) {
	ig, og := c.InC/c.Groups, c.OutC/c.Groups
	for n := range c.Batch {
		for o := range c.OutC {
			for p := range volume(c.Out) {
				for ch := range ig {
					c.eachTap(func(t int, k [3]int) {
						at, rest, in := 0, p, true
						var i [3]int
						for d := 2; d >= 0; d-- {
							i[d] = rest%c.Out[d]*c.Stride[d] - c.Pad[d] + k[d]*c.Dilation[d]
							rest /= c.Out[d]
							in = in && i[d] >= 0 && i[d] < c.In[d]
						}
						if at = -1; in {
							at = (n*c.InC+o/og*ig+ch)*volume(c.In) + (i[0]*c.In[1]+i[1])*c.In[2] + i[2]
						}
						f(at, (o*ig+ch)*volume(c.Kernel)+t, (n*c.OutC+o)*volume(c.Out)+p)
					})
				}
			}
		}
	}
}

// TestConv compares the three passes with sums over all products.
func TestConv(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	one := [3]int{1, 1, 1}
	for _, c := range []Conv{
		{2, 1, 5, 9, [3]int{1, 9, 11}, [3]int{}, [3]int{1, 3, 3}, one, one, [3]int{0, 1, 1}},
		{2, 1, 3, 16, [3]int{1, 31, 30}, [3]int{}, [3]int{1, 7, 7}, [3]int{1, 2, 2}, one, [3]int{0, 3, 3}},
		{1, 1, 12, 8, [3]int{1, 40, 50}, [3]int{}, [3]int{1, 3, 5}, [3]int{1, 1, 3}, [3]int{1, 2, 2}, [3]int{0, 0, 2}},
		{9, 1, 20, 21, [3]int{1, 14, 14}, [3]int{}, one, [3]int{1, 2, 2}, one, [3]int{}},
		{3, 2, 8, 20, [3]int{6, 7, 8}, [3]int{}, [3]int{3, 2, 3}, [3]int{2, 1, 2}, [3]int{1, 3, 1}, [3]int{1, 1, 1}},
		{1, 1, 2, 130, [3]int{1, 1, 2000}, [3]int{}, [3]int{1, 1, 8}, [3]int{1, 1, 4}, one, [3]int{0, 0, 9}},
		{5, 6, 6, 6, [3]int{1, 7, 7}, [3]int{}, [3]int{1, 3, 3}, one, one, [3]int{0, 1, 1}},
		{2, 3, 3, 6, [3]int{1, 56, 57}, [3]int{}, [3]int{1, 3, 3}, [3]int{1, 2, 2}, one, [3]int{0, 1, 1}},
		{3, 1, 30, 8, [3]int{1, 16, 16}, [3]int{}, [3]int{1, 4, 4}, [3]int{1, 4, 4}, one, [3]int{}},
		{2, 1, 8, 9, [3]int{1, 5, 5}, [3]int{}, [3]int{1, 5, 5}, one, one, [3]int{}},
		{2, 1, 8, 9, [3]int{1, 4, 5}, [3]int{}, one, [3]int{1, 1 << 40, 1 << 50}, one, [3]int{}},
		{2, 1, 8, 9, [3]int{1, 5, 4}, [3]int{}, [3]int{1, 2, 1}, one, [3]int{1, 1 << 62, 1}, [3]int{0, 1 << 61, 0}},
	} {
		for d := range 3 {
			c.Out[d] = (c.In[d]+2*c.Pad[d]-c.Dilation[d]*(c.Kernel[d]-1)-1)/c.Stride[d] + 1
		}
		fill := func(n int) []float64 {
			x := make([]float64, n)
			for i := range x {
				x[i] = r.NormFloat64()
			}
			return x
		}
		x, w, y := fill(c.Batch*c.InC*volume(c.In)), fill(c.OutC*c.Patch()), fill(c.Batch*c.OutC*volume(c.Out))
		wantX, wantW, wantY := make([]float64, len(x)), make([]float64, len(w)), make([]float64, len(y))
		c.eachProduct(func(i, j, k int) {
			if i >= 0 {
				wantX[i] += w[j] * y[k]
				wantW[j] += x[i] * y[k]
				wantY[k] += x[i] * w[j]
			}
		})
		gotX, gotW, gotY := make([]float64, len(x)), make([]float64, len(w)), fill(len(y))
		Forward(&c, onAllCores, x, w, gotY)
		InputGrad(&c, onAllCores, gotX, w, y)
		WeightGrad(&c, onAllCores, x, gotW, y)
		for _, pass := range []struct {
			name      string
			got, want []float64
		}{{"output", gotY, wantY}, {"input's gradient", gotX, wantX}, {"weight's gradient", gotW, wantW}} {
			for i, v := range pass.got {
				if !(math.Abs(v-pass.want[i]) <= 1e-11) {
					t.Fatalf("%+v: element %d of %s is %v, want %v", c, i, pass.name, v, pass.want[i])
				}
			}
		}
	}
}

// TestConvInfinite: padding takes part in no product of the gradient of the input, nor of a depthwise output, and
// what lies between rows of windows in none at all.
func TestConvInfinite(t *testing.T) {
	one := [3]int{1, 1, 1}
	for _, groups := range []int{1, 8} {
		c := Conv{2, groups, 8, 8, [3]int{1, 9, 10}, [3]int{1, 9, 10}, [3]int{1, 3, 3}, one, one, [3]int{0, 1, 1}}
		x, w, y := make([]float64, 16*90), make([]float64, c.OutC*c.Patch()), make([]float64, 16*90)
		for _, s := range [][]float64{x, w, y} {
			for i := range s {
				s[i] = 1 + float64(i%7)
			}
		}
		check := func(name string, got []float64, at func(x, w, y int) (int, float64)) {
			t.Helper()
			want := make([]float64, len(got))
			c.eachProduct(func(i, j, k int) {
				if i >= 0 {
					e, v := at(i, j, k)
					want[e] += v
				}
			})
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d groups: %s differs", groups, name)
			}
		}
		x[33], y[95] = math.Inf(1), math.Inf(1)
		dw := make([]float64, len(w))
		if groups > 1 { // elsewhere padding times infinity is NaN, as in torch's unfolded products
			WeightGrad(&c, onAllCores, x, dw, y)
			check("the weight's gradient", dw, func(i, j, k int) (int, float64) { return j, x[i] * y[k] })
		}
		x[33], y[95] = 1, 1
		x[0] = math.Inf(1)
		WeightGrad(&c, onAllCores, x, clearOf(dw), y)
		check("the weight's gradient", dw, func(i, j, k int) (int, float64) { return j, x[i] * y[k] })
		x[0] = 1
		w[2] = math.Inf(1)
		dx := make([]float64, len(x))
		InputGrad(&c, onAllCores, dx, w, y)
		check("the input's gradient", dx, func(i, j, k int) (int, float64) { return i, w[j] * y[k] })
		if groups > 1 {
			got := make([]float64, len(y))
			Forward(&c, onAllCores, x, w, got)
			check("the output", got, func(i, j, k int) (int, float64) { return k, x[i] * w[j] })
		}
	}
}

func clearOf(x []float64) []float64 {
	clear(x)
	return x
}
