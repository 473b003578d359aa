package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/tensor"
)

// carried are values in which each index of a dimension also holds the value of the index before it, or of all
// before it. An accumulator was not cleared between batches, or the carry of a scan went on from row to row.
func (c *Search) carried(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.Pair()
			if !ok || got.DType.IsComplex() || got.DType == tensor.Bool || !slices.Equal(got.Shape, want.Shape) ||
				got.Numel() > largestOperand {
				continue
			}
			for _, m := range carries(got.Shape) {
				if !yield(Mistake{Text: m.text, Rounds: true, Make: c.altering(
					func(target string, t *tensor.Tensor) *tensor.Tensor {
						if target != r.Target || !slices.Equal(t.Shape, got.Shape) {
							return t
						}
						v := elements(t)
						out := slices.Clone(v)
						m.of(v, out)
						if t.DType.IsIntegral() {
							return tensor.New(t.DType, t.Shape, wholes(out))
						}
						return tensor.New(t.DType, t.Shape, out)
					})}) {
					return
				}
			}
		}
	}
}

// wholes are numbers as whole ones.
func wholes(v []float64) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

// A carry computes a value in which something is carried on from index to index.
type carry struct {
	text string
	of   func(due, out []float64) // out holds what is due
}

// carries are the carries along each dimension of a shape.
func carries(shape []int) (all []carry) {
	for d, n := range shape {
		if n < 2 {
			continue
		}
		inner := tensor.Numel(shape[d+1:])
		for _, join := range []struct {
			one, all string
			f        func(x, y float64) float64
		}{
			{"to each index of dimension %d is added what is due at the index before it, as if that were not cleared",
				"each index of dimension %d holds the sum of what is due there and at all indices before it, " +
					"as if nothing were cleared", func(x, y float64) float64 { return x + y }},
			{"each index of dimension %d holds the larger of what is due there and at the index before it",
				"each index of dimension %d holds the largest of what is due there and at all indices before it, " +
					"as if nothing were cleared", math.Max},
		} {
			all = append(all, carry{fmt.Sprintf(join.one, d), func(due, out []float64) {
				for i := range out {
					if i/inner%n > 0 {
						out[i] = join.f(due[i], due[i-inner])
					}
				}
			}}, carry{fmt.Sprintf(join.all, d), func(due, out []float64) {
				for i := range out {
					if i/inner%n > 0 {
						out[i] = join.f(due[i], out[i-inner])
					}
				}
			}})
		}
	}
	for d, n := range shape { // rows of a scan along d, one after the other
		inner, rows := tensor.Numel(shape[d+1:]), tensor.Numel(shape)/max(n, 1)
		if n < 2 || rows < 2 {
			continue
		}
		at := func(row, k int) int { return row/inner*n*inner + k*inner + row%inner }
		for _, dir := range []struct {
			begins, before string
			row            func(i int) int // the rows in the order in which they are scanned
			end            int
		}{
			{"begins", "before", func(i int) int { return i }, n - 1},
			{"ends", "behind", func(i int) int { return rows - 1 - i }, 0},
		} {
			carried := func(due bool) func(due, out []float64) {
				return func(v, out []float64) {
					from := out
					if due {
						from = v
					}
					for i := 1; i < rows; i++ {
						carry := from[at(dir.row(i-1), dir.end)]
						for k := range n {
							out[at(dir.row(i), k)] += carry
						}
					}
				}
			}
			all = append(all,
				carry{fmt.Sprintf("each row of dimension %d %s with what is due for the whole row %s it", d, dir.begins,
					dir.before), carried(true)},
				carry{fmt.Sprintf("each row of dimension %d %s with the sum of all rows %s it, as if the carry were not "+
					"cleared", d, dir.begins, dir.before), carried(false)})
		}
	}
	return all
}
