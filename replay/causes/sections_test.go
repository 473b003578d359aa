package causes

import (
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestMergedSections: each half of a row gives one of its two largest elements, and these are joined in order.
func TestMergedSections(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{1, 6}, []float64{1, 2, 3, 9, 8, 7})
	c, due := searched(t, "torch.topk", x, int64(2))
	fails := []Wrong{{Target: "output[0]", Got: due[0], Want: due[0]}}
	text := "each 3 indices of dimension 1 give 1 of the 2"
	var all [][]float64
	for m := range c.mergedSections(fails) {
		way, err := m.Make()
		if err != nil || m.Text != text {
			t.Fatal(m.Text, err)
		}
		all = append(all, elements(way.Alter("output[0]", due[0])), elements(way.Alter("output[1]", due[1])))
	}
	want := [][]float64{{3, 9}, {2, 3}, {9, 3}, {3, 2}, {3, 9}, {2, 3}}
	if !slices.EqualFunc(all, want, slices.Equal) {
		t.Errorf("got %v, want %v", all, want)
	}
}

// TestUnfinished: a sort of the first four of six elements leaves the others and their positions. A recorded position
// of an equal element stays.
func TestUnfinished(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{1, 6}, []float64{5, 2, 5, 1, 0, -1})
	c, due := searched(t, "torch.sort", x)
	c.Recorded = []*tensor.Tensor{nil, tensor.New(tensor.Int64, []int{1, 6}, []int64{3, 1, 2, 0, 4, 5})}
	fails := []Wrong{{Target: "output[0]", Got: due[0], Want: due[0]}}
	text := "only the first 4 of 6 indices of dimension 1 are taken, and the others stay as in self"
	got := made(t, c.unfinished(fails), text, "output[0]", due[0])
	if want := []float64{1, 2, 5, 5, 0, -1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got = made(t, c.unfinished(fails), text, "output[1]", due[1])
	if want := []float64{3, 1, 2, 0, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("positions: got %v, want %v", got, want)
	}
	c, due = searched(t, "torch.argsort", x)
	fails = []Wrong{{Target: "output[0]", Got: due[0], Want: due[0]}}
	got = made(t, c.unfinished(fails), text, "output[0]", due[0])
	if want := []float64{3, 1, 0, 2, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("positions alone: got %v, want %v", got, want)
	}
}

// TestSlidInMemory: elements read further in memory come from the next row, at the end from the first one or none.
func TestSlidInMemory(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{2, 2}, []float64{1, 2, 3, 4})
	all := slidInMemory(x)
	for i, want := range [][]float64{{2, 3, 4, 1}, {2, 3, 4, 0}, {4, 1, 2, 3}, {0, 1, 2, 3}} {
		if got := elements(all[i].of(x)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", all[i].text, got, want)
		}
	}
	if slidInMemory(tensor.New(tensor.Float32, []int{1, 4}, []float64{1, 2, 3, 4})) != nil {
		t.Error("one row has no ends within")
	}
}

// TestStridesBeyondMemory: strides of a wider operand reach beyond the memory of a narrow one.
func TestStridesBeyondMemory(t *testing.T) {
	wide := tensor.New(tensor.Float32, []int{2, 3}, []float64{1, 2, 3, 4, 5, 6})
	x := tensor.New(tensor.Float32, []int{2, 2}, []float64{1, 2, 3, 4})
	c, _ := searched(t, "torch.cat", value.NewList(wide, x), int64(1))
	all := c.inOtherStrides()(x)
	for i, want := range [][]float64{{1, 2, 4, 1}, {1, 2, 4, 0}} {
		if i >= len(all) {
			t.Fatal("not read by other strides")
		}
		if got := elements(all[i].of(x)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", all[i].text, got, want)
		}
	}
}

// TestLimitsShowPlaces: three elements of 1,000 that hold one plain number explain little by that. That they are those
// beyond it says more; not so where another element beyond it is right.
func TestLimitsShowPlaces(t *testing.T) {
	due, got := make([]float64, 1000), make([]float64, 1000)
	for i := range due {
		due[i] = float64(i) / 16
		got[i] = min(due[i], 62.25)
	}
	as := func(v []float64) *tensor.Tensor { return tensor.New(tensor.Float16, []int{1000}, v) }
	limited := as(slices.Clone(got))
	m := Mistake{Limits: true}
	if bits := m.Evidence(as(got), as(due), limited); bits < Required(100) {
		t.Errorf("a limit explains %.3g bits", bits)
	}
	got[999] = due[999]
	if bits := m.Evidence(as(got), as(due), limited); bits >= Required(100) {
		t.Errorf("no limit explains %.3g bits", bits)
	}
}

// TestIndicesWithinBlocks: two of 40 indices that count twice, in two blocks, are found one by one.
func TestIndicesWithinBlocks(t *testing.T) {
	x := make([][]float64, 10)
	y := make([]float64, 40)
	for b := range x {
		x[b] = make([]float64, 40)
		for k := range 4 {
			x[b][4*b+k] = 1
		}
	}
	y[19], y[20] = 1, 1
	if from, to := blockOf(x, y, 4, 40); from != 16 || to != 24 {
		t.Errorf("got %d to %d, want 16 to 24", from, to)
	}
}
