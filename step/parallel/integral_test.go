package parallel

import "testing"

// TestIntegral: factors that a number of ranks makes, up to rounding; no factor of a clipped gradient.
func TestIntegral(t *testing.T) {
	for _, tc := range []struct {
		k, slack float64
		want     bool
	}{{1, 1e-3, true}, {2, 1e-3, true}, {1. / 3, 1e-3, true}, {1.01, 1e-3, false}, {1.01, 0.016, true},
		{0.7, 0.016, false}, {0.04515, 0.016, false}} {
		if got := integral(tc.k, tc.slack); got != tc.want {
			t.Errorf("%g within %g: got %v", tc.k, tc.slack, got)
		}
	}
}
