package metric

import (
	"context"
	"strings"
	"testing"
)

func compareRows(t *testing.T, a, b string) *Rows {
	t.Helper()
	r, err := CompareRows(context.Background(), open(t, a), open(t, b), options(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRows: one row of three, by kernels that do not depend on the batch, and by such that split sums for few rows.
func TestRows(t *testing.T) {
	r := compareRows(t, "same_one", "same_three")
	if r.Compared != r.Calls || r.Calls == 0 || len(r.Differ) > 0 {
		t.Errorf("%d of %d calls compared, %d differ", r.Compared, r.Calls, len(r.Differ))
	}
	r = compareRows(t, "parts_one", "parts_three")
	d := r.First()
	if d == nil {
		t.Fatal("no call differs")
	}
	const why = "this one splits the sum in 2 parts and rounds each, the other rounds its sum once"
	if d.A.Op != "torch.nn.functional.linear" || !d.Origin || d.Within == nil || !*d.Within || d.Why != why {
		t.Errorf("first is %s: %+v", d.A, d)
	}
	if r.Logits == nil || r.Logits.KL == 0 {
		t.Errorf("the logits change by %+v", r.Logits)
	}
	if later := r.Differ[1]; later.Origin || !strings.Contains(later.Why, "differs already") {
		t.Errorf("second is %s: %+v", later.A, later)
	}
}

// TestRowsSwapped: the larger batch first.
func TestRowsSwapped(t *testing.T) {
	if r := compareRows(t, "same_three", "same_one"); len(r.Differ) > 0 || r.Compared != r.Calls {
		t.Errorf("%d of %d calls compared, %d differ", r.Compared, r.Calls, len(r.Differ))
	}
}

// TestRowsOfOthers: other tokens are in no row.
func TestRowsOfOthers(t *testing.T) {
	r := compareRows(t, "logits", "routed")
	if r.Compared > 0 {
		t.Errorf("%d calls compared", r.Compared)
	}
}
