package kernel

import (
	"math"

	"github.com/optool/optool/internal/quota"
)

// Windows are the input ranges that pooling reduces: output o of dimension d
// covers Lo[d][o], Lo[d][o]+Step[d], ... below Hi[d][o].
type Windows struct {
	In, Step [3]int
	Lo, Hi   [3][]int
}

// Out is the number of outputs in each dimension.
func (w *Windows) Out() [3]int { return [3]int{len(w.Lo[0]), len(w.Lo[1]), len(w.Lo[2])} }

// nanKey is the key of NaN, larger than that of every number.
const nanKey = math.MaxInt64

// Keys stores integers that have the order of x, in which both zeros are equal
// and NaN is the largest.
func Keys(dst []int64, x []float64) {
	dst = dst[:len(x)]
	for i, v := range x {
		b := int64(math.Float64bits(v + 0)) // -0 becomes 0
		b ^= b >> 63 & math.MaxInt64
		if v != v {
			b = nanKey
		}
		dst[i] = b
	}
}

// Max stores in at, for every window of plane x, the index of its largest
// element: the first of equal ones, -1 if the window is empty (all of it in
// dilated padding). Of floats x holds Keys, and the last NaN wins.
//
// Keys are compared because the compiler makes conditional moves of integers
// alone: which of two elements is larger cannot be predicted.
func Max(w *Windows, x []int64, floats bool, at []int) {
	width := len(w.Lo[2])
	top := quota.Make[int64](width)
	for i := range w.Lo[0] {
		for j := range w.Lo[1] {
			best := at[:width]
			at = at[width:]
			for k := range best {
				best[k], top[k] = -1, math.MinInt64
			}
			for a := w.Lo[0][i]; a < w.Hi[0][i]; a += w.Step[0] {
				for b := w.Lo[1][j]; b < w.Hi[1][j]; b += w.Step[1] {
					from := (a*w.In[1] + b) * w.In[2]
					w.maxRow(x[from:from+w.In[2]], from, best, top)
				}
			}
			for k, p := range best {
				if p >= 0 && !(floats && top[k] == nanKey) {
					continue
				}
				switch lo, hi := w.corner(i, j, k); {
				case p >= 0:
					best[k] = w.lastNaN(x, lo, hi)
				case lo[0] < hi[0] && lo[1] < hi[1] && lo[2] < hi[2]: // the smallest integer alone
					best[k] = (lo[0]*w.In[1]+lo[1])*w.In[2] + lo[2]
				}
			}
		}
	}
}

// maxRow brings best and top, the indices of the largest elements so far of a
// row of windows and their keys, up to date with one row of the input, which
// begins at index from.
func (w *Windows) maxRow(row []int64, from int, best []int, top []int64) {
	los, his, step := w.Lo[2][:len(best)], w.Hi[2][:len(best)], w.Step[2]
	top = top[:len(best)]
	for k, p := range best {
		t := top[k]
		for c := los[k]; c < his[k]; c += step {
			v := row[c]
			at := p
			if v > t {
				at = from + c
			}
			p, t = at, max(t, v)
		}
		best[k], top[k] = p, t
	}
}

// corner is where window (i, j, k) begins and ends.
func (w *Windows) corner(i, j, k int) (lo, hi [3]int) {
	return [3]int{w.Lo[0][i], w.Lo[1][j], w.Lo[2][k]}, [3]int{w.Hi[0][i], w.Hi[1][j], w.Hi[2][k]}
}

func (w *Windows) lastNaN(x []int64, lo, hi [3]int) (at int) {
	for a := lo[0]; a < hi[0]; a += w.Step[0] {
		for b := lo[1]; b < hi[1]; b += w.Step[1] {
			row := (a*w.In[1] + b) * w.In[2]
			for c := row + lo[2]; c < row+hi[2]; c += w.Step[2] {
				if x[c] == nanKey {
					at = c
				}
			}
		}
	}
	return at
}
