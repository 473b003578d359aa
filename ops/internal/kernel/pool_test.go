package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMax compares with a plain search of every window: the first of equal
// elements, the last NaN, -1 for an empty window.
func TestMax(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	few := []float64{math.Inf(-1), -1, math.Copysign(0, -1), 0, 1, math.Inf(1)}
	for trial := range 300 {
		w := &Windows{In: [3]int{1 + r.IntN(2), 1 + r.IntN(4), 1 + r.IntN(6)}}
		for d := range w.In {
			w.Step[d] = 1 + r.IntN(2)
			for range 1 + r.IntN(4) {
				lo := r.IntN(w.In[d])
				w.Lo[d], w.Hi[d] = append(w.Lo[d], lo), append(w.Hi[d], lo+r.IntN(w.In[d]-lo+1))
			}
		}
		x := make([]float64, w.In[0]*w.In[1]*w.In[2])
		for i := range x {
			x[i] = few[r.IntN(len(few))]
			if trial%3 == 0 && r.IntN(4) == 0 {
				x[i] = math.NaN()
			}
		}
		keys, ints := make([]int64, len(x)), make([]int64, len(x))
		Keys(keys, x)
		for i, v := range x {
			ints[i] = max(math.MinInt64, min(math.MaxInt64, int64(v)))
			if math.IsInf(v, -1) {
				ints[i] = math.MinInt64
			}
		}
		out := w.Out()
		got, gotInts := make([]int, out[0]*out[1]*out[2]), make([]int, out[0]*out[1]*out[2])
		Max(w, keys, true, got)
		Max(w, ints, false, gotInts)
		for o := range got {
			lo, hi := w.corner(o/(out[1]*out[2]), o/out[2]%out[1], o%out[2])
			want, wantInt := -1, -1
			for a := lo[0]; a < hi[0]; a += w.Step[0] {
				for b := lo[1]; b < hi[1]; b += w.Step[1] {
					for c := lo[2]; c < hi[2]; c += w.Step[2] {
						i := (a*w.In[1]+b)*w.In[2] + c
						if want < 0 || x[i] > x[want] || x[i] != x[i] {
							want = i
						}
						if wantInt < 0 || ints[i] > ints[wantInt] {
							wantInt = i
						}
					}
				}
			}
			if got[o] != want || gotInts[o] != wantInt {
				t.Fatalf("trial %d, window %d: got %d and, of integers, %d; want %d and %d", trial, o, got[o],
					gotInts[o], want, wantInt)
			}
		}
	}
}
