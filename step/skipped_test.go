package step

import (
	"context"
	"strings"
	"testing"
)

// TestSkippedForFault: an update that was skipped for a NaN that no call made did not overflow, and what it would have
// done is not known.
func TestSkippedForFault(t *testing.T) {
	tr := analyse(t, unpack(t, "scaler-nan"))
	if s := tr.Skipped(); len(s) > 0 {
		t.Errorf("step %d is said to have overflowed", s[0].Number)
	}
	for _, c := range tr.Processes[0].Calls { // as if the recorder had begun later
		c.Entry.Step += 5
	}
	m := tr.Without(context.Background(), options(t))
	if m.Loss == m.Loss || !strings.Contains(m.Why, "the update of step 5 was skipped for it") {
		t.Errorf("the loss without the fault is %v, %q", m.Loss, m.Why)
	}
}
