package reduction

import (
	"slices"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// TestScanMistakes: what scans get wrong at the edges of tiles of two.
func TestScanMistakes(t *testing.T) {
	x := tensor.New(tensor.Float64, []int{6}, []float64{1, 2, 3, 4, 5, 6})
	s := &scan{&CumulativeArgs{Self: x}, RunningSum[float64], 0}
	got := map[string][]float64{}
	for _, m := range s.Mistakes() {
		p, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		outs, err := p.(*scan).running(p.(*scan).right, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got[m.Text] = tensor.Data[float64](opdef.Cast(outs[0], tensor.Float64))
	}
	for text, want := range map[string][]float64{
		"it begins anew after every 2 elements":                                  {1, 3, 3, 7, 5, 11},
		"of what is before a tile of 2 elements it carries only the tile before": {1, 3, 6, 10, 12, 18},
		"the first of each 2 elements is left out of its own tile":               {0, 3, 3, 10, 10, 21},
	} {
		if !slices.Equal(got[text], want) {
			t.Errorf("%s: got %v, want %v", text, got[text], want)
		}
	}
}

// TestLongTiles: scans that begin anew after more elements than one block of threads has.
func TestLongTiles(t *testing.T) {
	x := tensor.Full(tensor.Float32, []int{5000}, 1.0)
	s := &scan{&CumulativeArgs{Self: x}, RunningSum[float64], 0}
	for _, m := range s.Mistakes() {
		if m.Text != "it begins anew after every 4096 elements" {
			continue
		}
		p, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		outs, err := p.(*scan).running(RunningSum[float64], nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.Data[float64](opdef.Cast(outs[0], tensor.Float64)); got[4095] != 4096 || got[4096] != 1 {
			t.Errorf("got %v and %v", got[4095], got[4096])
		}
		return
	}
	t.Error("not found")
}
