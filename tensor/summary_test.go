package tensor

import (
	"errors"
	"math"
	"testing"
)

func TestSummarised(t *testing.T) {
	most := 3.0
	x, err := Summarised(Float32, []int{2, 3}, Summary{Max: &most, Checksum: "0a"})
	if err != nil {
		t.Fatal(err)
	}
	if x.Meta() != "float32[2, 3]" || *x.Summary().Max != 3 || x.Summary().Checksum != "0a" {
		t.Errorf("got %s, %+v", x.Meta(), x.Summary())
	}
	if _, err := x.Storage().Load(); !errors.Is(err, ErrNotRecorded) {
		t.Errorf("its elements: %v, want ErrNotRecorded", err)
	}
	for _, shape := range [][]int{{-1}, {math.MaxInt, 2}, {1 << 31, 1 << 31, 4}} {
		if _, err := Summarised(Float32, shape, Summary{}); !errors.Is(err, ErrOverflow) {
			t.Errorf("shape %v: %v, want ErrOverflow", shape, err)
		}
	}
	if empty, err := Summarised(Float32, []int{0, 4}, Summary{Max: &most}); err != nil || empty.Summary() != nil {
		t.Errorf("an empty tensor has all its elements: %v", err)
	}
	if New(Float32, []int{1}, []float64{1}).Summary() != nil {
		t.Error("a computed tensor has a summary")
	}
}
