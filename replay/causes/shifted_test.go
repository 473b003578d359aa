package causes

import (
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestMoved: indices that are one too high stay at the end; a sort works along the other dimension; a tile holds what
// is due in another.
func TestMoved(t *testing.T) {
	x := rows(3, 11, 40)
	at := tensor.New(tensor.Int64, []int{4}, []int64{0, 3, 10, 7})
	c, outs := searched(t, "torch.index_select", x, int64(0), at)
	right := elements(outs[0])
	got := made(t, c.shifted(), "index is one too high, but for 10, the last", "output[0]", outs[0])
	want := slices.Concat(elements(x)[40:80], elements(x)[160:200], elements(x)[400:440], elements(x)[320:360])
	same64(t, "index", got, want)

	c, outs = searched(t, "torch.msort", x)
	fails := []Wrong{{Target: "output[0]", Got: outs[0], Want: outs[0]}}
	for m := range c.transposed(fails) {
		way, err := m.Make()
		if err != nil {
			t.Fatal(err)
		}
		row := elements(way.Alter("output[0]", outs[0]))[:40]
		if !slices.IsSorted(row) {
			t.Errorf("%s: %v", m.Text, row)
		}
	}

	tile := tensor.Full(tensor.Float32, []int{4, 40}, 0.0)
	v := slices.Clone(right)
	for i := range 2 {
		copy(v[(2+i)*40+36:(3+i)*40], right[i*40:i*40+4])
	}
	due := tensor.New(tensor.Float32, tile.Shape, right)
	fails = []Wrong{{Target: "output[0]", Got: tensor.New(tensor.Float32, tile.Shape, v), Want: due}}
	text := "at indices 2 to 3 of dimension 0, indices 36 to 39 of dimension 1: it holds what is due in the part " +
		"that begins at index [0, 0]"
	same64(t, "tile", made(t, c.copiedTiles(fails), text, "output[0]", due), v)
}

// TestAreCounts: sums have whole numbers of terms, and weights are none.
func TestAreCounts(t *testing.T) {
	for _, tc := range []struct {
		v    []float64
		want bool
	}{{[]float64{1, 2, 0}, true}, {[]float64{1, 1}, false}, {[]float64{0.25, 0.25}, false}, {[]float64{-2, 2}, false}} {
		if got := areCounts(tc.v); got != tc.want {
			t.Errorf("%v: %t", tc.v, got)
		}
	}
}
