package reports

import (
	"strings"
	"testing"
)

// TestSidesOfManyCalls: of calls whose sides hold different arguments the line names the earliest, and counts the
// others. They come in any order, and none of them needs a value that is not finite.
func TestSidesOfManyCalls(t *testing.T) {
	var s apartSides
	for _, order := range []int{7, 3, 5} {
		s.add(&Finding{Results: []*Result{{Op: "torch.add", Order: &order, Sides: []string{"input differs"}}}})
	}
	if s.first == nil || *s.first.Order != 3 {
		t.Errorf("the first is %v", s.first)
	}
	if got := s.text(); !strings.Contains(got, "input differs. So it is with 2 more calls.") {
		t.Errorf("text is %q", got)
	}
}
