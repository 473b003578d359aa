package runs

import (
	"github.com/optool/optool/tensor"
)

// largestTurns is the number of runs up to which their turns are counted.
const largestTurns = 1 << 20

// Turns are, of each run, how many begin where it begins and are not behind it: 1 for the first that is written to a
// place. They are nil for runs that overlap otherwise, or are too many.
func (r Runs) Turns() []int {
	if r.Count > largestTurns || r.Len == 0 {
		return nil
	}
	seen, turns := make(map[int]int, r.Count), make([]int, 0, r.Count)
	if !r.cells(func(k int) {
		seen[k]++
		turns = append(turns, seen[k])
	}) {
		return nil
	}
	return turns
}

// Without is src with 0 in place of the runs of which lost says so by their turn. turns are those of the runs.
func Without(src *tensor.Tensor, r Runs, turns []int, lost func(turn int) bool) *tensor.Tensor {
	x := append([]float64(nil), tensor.Data[float64](src)...)
	for i, turn := range turns {
		if lost(turn) {
			clear(x[i*r.Len : (i+1)*r.Len])
		}
	}
	return tensor.New(src.DType, src.Shape, x)
}
