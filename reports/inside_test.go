package reports

import (
	"bytes"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestInside: wrong calls that a function in the place of torch's made are listed with that, which comes first.
func TestInside(t *testing.T) {
	d := NewDigest(nil)
	for _, c := range []struct {
		op, replaced string
		id, within   int
	}{{"torch.nn.functional.gelu", "mymod.fast_gelu", 3, -1}, {"torch.sigmoid", "", 4, 3}, {"torch.exp", "", 5, 4},
		{"torch.mm", "", 6, -1}} {
		pid, within := 7, &c.within
		if c.within < 0 {
			within = nil
		}
		d.Add(NewFinding([]*Result{{Capture: "a/" + c.op, Op: c.op, ForwardID: &c.id, Order: &c.id, PID: &pid,
			Within: within, Replaced: c.replaced, Phase: "forward", Target: "output[0]", Verdict: verdict.Fail,
			Reason: "off"}}))
	}
	var b bytes.Buffer
	if err := d.Write(&b, Style{}); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	if want := "  note     torch.nn.functional.gelu is not torch's own here: replaced by mymod.fast_gelu\n  note     calls inside " +
		"it fail too: torch.sigmoid/4, torch.exp/5\n"; !strings.Contains(got, want) {
		t.Errorf("%q is missing in\n%s", want, got)
	}
	if n := strings.Count(got, "FAIL  "); n != 2 || !strings.Contains(got, "FAIL  torch.mm, id 6") {
		t.Errorf("%d findings in\n%s", n, got)
	}
}
