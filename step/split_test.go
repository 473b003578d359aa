package step

import "testing"

// TestPartOf: a few equal elements of a small tensor are equal by chance, unless most are.
func TestPartOf(t *testing.T) {
	was := floats(1, 2, 3, 4, 5, 6, 7, 8)
	for _, tc := range []struct {
		now  *Value
		part bool
	}{
		{floats(1, 9, 9, 9, 9, 9, 9, 9), false},
		{floats(1, 2, 3, 9, 9, 9, 9, 9), false},
		{floats(1, 2, 3, 4, 9, 9, 9, 9), true},
		{floats(0, 0, 0, 0, 0, 0, 7, 8), false},
	} {
		if got := tc.now.partOf(was, (*agreement).share); got != tc.part {
			t.Errorf("%v: %t, want %t", tc.now.content.numbers(tc.now.DType), got, tc.part)
		}
	}
	if now := floats(1, 2, 9); !now.partOf(floats(1, 2, 3), (*agreement).share) {
		t.Error("two of three elements are the same")
	}
}
