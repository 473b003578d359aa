package indexing

import (
	"math"
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

// TestBagsOfOtherWeights: samples have the weights of the first bag, and means are divided by other numbers.
func TestBagsOfOtherWeights(t *testing.T) {
	bags := func(mode string, weights *tensor.Tensor) *bagged {
		b, err := (&embeddingBagArgs{Input: tensor.New(tensor.Int64, []int{5}, []int64{0, 1, 2, 1, 0}),
			Weight:  tensor.New(tensor.Float64, []int{3, 1}, []float64{8, 2, 4}),
			Offsets: tensor.New(tensor.Int64, []int{2}, []int64{0, 2}), Mode: mode, PerSampleWeights: weights}).bags()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	weights := tensor.New(tensor.Float64, []int{5}, []float64{1, 2, 3, 5, 7})
	for _, tc := range []struct {
		b    *bagged
		text string
		want []float64
	}{
		{bags("sum", weights), "per_sample_weights are read from the first one on in each bag", []float64{12, 32}},
		{bags("mean", nil), "all bags are divided by the size of the largest", []float64{10. / 3, 14. / 3}},
		{bags("mean", nil), "all bags are divided by the number of all indices", []float64{2, 2.8}},
		{bags("mean", nil), "bags are divided by the number of indices from their first one on, up to the end of all",
			[]float64{2, 14. / 3}},
	} {
		all := tc.b.Mistakes()
		i := slices.IndexFunc(all, func(m opdef.Mistake[any]) bool { return m.Text == tc.text })
		if i < 0 {
			t.Errorf("%q is not found", tc.text)
			continue
		}
		p, err := all[i].Plan()
		if err != nil {
			t.Fatal(err)
		}
		w := p.(*bagged)
		got := tensor.Data[float64](opdef.Cast(w.reduce(w.table, w.scale), tensor.Float64))
		if !slices.EqualFunc(got, tc.want, func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }) {
			t.Errorf("%s: got %v, want %v", tc.text, got, tc.want)
		}
	}
}
