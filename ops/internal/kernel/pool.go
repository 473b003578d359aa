package kernel

// Windows are the input ranges that pooling reduces: output o of dimension d
// covers Lo[d][o], Lo[d][o]+Step[d], ... below Hi[d][o].
type Windows struct {
	In, Step [3]int
	Lo, Hi   [3][]int
}

// Out is the number of outputs in each dimension.
func (w *Windows) Out() [3]int { return [3]int{len(w.Lo[0]), len(w.Lo[1]), len(w.Lo[2])} }

// Max stores in at, for every window of plane x, the index of its largest
// element: the first of equal ones, the last NaN if there is any, -1 if the
// window is empty (all of it in dilated padding).
func Max[T float64 | int64](w *Windows, x []T, at []int) {
	o := 0
	for i := range w.Lo[0] {
		for j := range w.Lo[1] {
			for k := range w.Lo[2] {
				best := -1
				for a := w.Lo[0][i]; a < w.Hi[0][i]; a += w.Step[0] {
					for b := w.Lo[1][j]; b < w.Hi[1][j]; b += w.Step[1] {
						row := (a*w.In[1] + b) * w.In[2]
						for c := w.Lo[2][k]; c < w.Hi[2][k]; c += w.Step[2] {
							if v := x[row+c]; best < 0 || v > x[best] || v != v {
								best = row + c
							}
						}
					}
				}
				at[o] = best
				o++
			}
		}
	}
}
