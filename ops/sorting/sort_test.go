package sorting

import (
	"slices"
	"testing"
)

// TestHeap selects from rows long enough for the heap of topk and, with all
// elements, for radix sort.
func TestHeap(t *testing.T) {
	row := make([]uint64, 1000)
	for i := range row {
		row[i] = uint64(i*7919%101) * 0x0123456789abcdef
	}
	for _, descending := range []bool{false, true} {
		all := lowestKeys(row, len(row), descending, nil)
		if got := lowestKeys(row, 40, descending, nil); !slices.Equal(got, all[:40]) {
			t.Errorf("descending %v: got %v, want %v", descending, got, all[:40])
		}
	}
}
