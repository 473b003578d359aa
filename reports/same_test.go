package reports

import "testing"

// TestSame: calls that gave the same and were not judged are counted, with their operators.
func TestSame(t *testing.T) {
	var n Same
	n.Add("torch.add", true)
	if got := n.String(); got != "" {
		t.Errorf("all were judged: %q", got)
	}
	n.Add("torch.randint", false)
	const want = "1 of 2 calls that gave the same in both recordings: 1 torch.randint"
	if got := n.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
