package indexing

import (
	"slices"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// TestPaddingCounted: the mean of bags of which the padding counts in the number by which is divided.
func TestPaddingCounted(t *testing.T) {
	pad := 0
	a := &embeddingBagArgs{Input: tensor.New(tensor.Int64, []int{2, 2}, []int64{0, 1, 2, 1}),
		Weight: tensor.New(tensor.Float64, []int{3, 1}, []float64{8, 2, 4}), Mode: "mean", PaddingIdx: &pad}
	b, err := a.bags()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range b.Mistakes() {
		if m.Text != "indices that equal padding_idx count in the number by which is divided" {
			continue
		}
		p, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		w := p.(*bagged)
		got := tensor.Data[float64](opdef.Cast(w.reduce(w.table, w.scale), tensor.Float64))
		if !slices.Equal(got, []float64{1, 3}) {
			t.Error(got)
		}
		return
	}
	t.Error("not found")
}
