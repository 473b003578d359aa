package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestAxes: maps that grow, shrink and keep dimensions, with outputs of none to four inputs, and their
// transposes give what the sums over all elements give.
func TestAxes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for _, c := range []struct{ in, out [3]int }{
		{[3]int{1, 1, 7}, [3]int{1, 1, 3}}, {[3]int{1, 1, 3}, [3]int{1, 1, 9}}, {[3]int{1, 6, 5}, [3]int{1, 3, 9}},
		{[3]int{1, 3, 9}, [3]int{1, 8, 4}}, {[3]int{2, 3, 4}, [3]int{5, 4, 3}}, {[3]int{4, 3, 2}, [3]int{3, 5, 6}},
		{[3]int{1, 2, 3}, [3]int{1, 2, 3}},
	} {
		m := &Axes{}
		var dense [3][][]float64
		for d := range m {
			m[d].In = c.in[d]
			dense[d] = make([][]float64, c.out[d])
			for o := range dense[d] {
				dense[d][o] = make([]float64, c.in[d])
				n := r.IntN(5)
				if c.in[d] == c.out[d] {
					n = 1
				}
				m[d].Add(n, func(int) (int, float64) {
					i, w := o, 1.0
					if c.in[d] != c.out[d] {
						i, w = r.IntN(c.in[d]), r.NormFloat64()
					}
					dense[d][o][i] += w
					return i, w
				})
			}
		}
		for _, transposed := range []bool{false, true} {
			in, out, weight := c.in, c.out, func(o, i [3]int) float64 {
				return dense[0][o[0]][i[0]] * dense[1][o[1]][i[1]] * dense[2][o[2]][i[2]]
			}
			maps := m
			if transposed {
				maps, in, out = m.Transposed(), c.out, c.in
				forward := weight
				weight = func(o, i [3]int) float64 { return forward(i, o) }
			}
			x, y := make([]float64, volume(in)), make([]float64, volume(out))
			for i := range x {
				x[i] = r.NormFloat64()
			}
			maps.Apply(x, y, [2][]float64{make([]float64, m.Scratch()), make([]float64, m.Scratch())})
			at := func(k int, size [3]int) [3]int {
				return [3]int{k / size[2] / size[1], k / size[2] % size[1], k % size[2]}
			}
			for k, got := range y {
				want := 0.0
				for j, v := range x {
					want += v * weight(at(k, out), at(j, in))
				}
				if math.Abs(got-want) > 1e-13 {
					t.Fatalf("%v to %v, transposed %v: element %d is %v, not %v", c.in, c.out, transposed, k, got, want)
				}
			}
		}
	}
}
