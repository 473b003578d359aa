package parallel

import "testing"

// TestMeshText: a mesh of many ranks fits on a screen.
func TestMeshText(t *testing.T) {
	var ranks []int
	var groups [][]int
	for r := range 64 {
		ranks = append(ranks, r)
		if r%2 == 0 {
			groups = append(groups, []int{r, r + 1})
		}
	}
	const want = "2 x 32 (ranks 0-1 2-3 ... 62-63 | 0,2,...,62 1,3,...,63)"
	if got := newMesh(ranks, groups).String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
