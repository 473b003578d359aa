package replay

import (
	"testing"

	"github.com/optool/optool/tensor"
)

// TestGlanceAtWrongElements: few elements of a large value are wrong. A mistake that leaves them wrong is refuted by a
// look at these, although it may leave some and nearly all others are right. One that mends them is not.
func TestGlanceAtWrongElements(t *testing.T) {
	const n, wrong = 1 << 16, 1 << 10
	got, due, mended := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range got {
		due[i] = float64(i%97) / 97
		if got[i] = due[i]; i >= n/2 && i < n/2+wrong {
			got[i] += 1
		}
		mended[i] = got[i]
	}
	of := func(v []float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{n}, v) }
	f := faultIn(of(got), of(due), 1, n/2)
	g := &glance{rounds: true}
	if !g.far(f, of(got), of(due)) {
		t.Error("a mistake that mends no wrong element is not refuted")
	}
	mended[n/2] -= 1 // is rounded to another value
	if g.far(f, of(got), of(mended)) {
		t.Error("a mistake that mends nearly all wrong elements is refuted")
	}
}
