package xlsx

import "testing"

// TestBelow: a second chart begins a line below the first one, whose rows may be higher than others.
func TestBelow(t *testing.T) {
	for _, c := range []struct {
		heights []float64
		want    int
	}{{nil, 18}, {[]float64{15, 15, 195}, 6}, {[]float64{300}, 4}} {
		if got := (&extent{heights: c.heights}).below(300); got != c.want {
			t.Errorf("%v: row %d, want %d", c.heights, got, c.want)
		}
	}
}
