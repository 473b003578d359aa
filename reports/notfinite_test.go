package reports

import "testing"

// TestFirstNotFinite: the first value that is not finite is that of the call that made it of finite values, forward
// passes before backward passes. What masks hold counts only where NaN follows.
func TestFirstNotFinite(t *testing.T) {
	result := func(op string, order int, n NotFinite) *Finding {
		n.Text = "output[0] at [0] is inf"
		return &Finding{Results: []*Result{{Op: op, Order: &order, NotFinite: &n}}}
	}
	made := NotFinite{Phase: "forward", Made: true}
	passed := NotFinite{Phase: "forward"}
	backward := NotFinite{Phase: "backward", Made: true}
	mask := NotFinite{Phase: "forward", Made: true, Mask: true}
	due := NotFinite{Phase: "forward", Made: true, Mask: true, Due: true}
	ofMask := NotFinite{Phase: "forward", OfMask: true}
	for name, tc := range map[string]struct {
		findings []*Finding
		want     string
	}{
		"none": {nil, ""},
		"one":  {[]*Finding{result("exp", 3, made)}, "First value that is not finite: exp: output[0] at [0] is inf."},
		"made before passed on": {
			[]*Finding{result("mul", 4, passed), result("exp", 3, made), result("add", 5, passed)},
			"First value that is not finite: exp: output[0] at [0] is inf. 2 calls after it have such values, the last " +
				"is add."},
		"forward first": {[]*Finding{result("div", 1, backward), result("exp", 3, made)},
			"First value that is not finite: exp: output[0] at [0] is inf. 1 call after it has such values, the last " +
				"is div."},
		"the last call's backward pass first": {[]*Finding{result("div", 1, backward), result("exp", 3, backward)},
			"First value that is not finite: exp: output[0] at [0] is inf. 1 call after it has such values, the last " +
				"is div."},
		"a mask": {[]*Finding{result("masked_fill", 1, mask)}, ""},
		"a mask and what follows": {[]*Finding{result("log", 1, mask), result("mul", 2, passed)},
			"First value that is not finite: log: output[0] at [0] is inf. 1 call after it has such values, the last " +
				"is mul."},
		"a mask that is due and what follows": {[]*Finding{result("log", 1, due), result("softmax", 2, ofMask),
			result("mul", 3, passed)},
			"First value that is not finite: softmax: output[0] at [0] is inf. 1 call after it has such values, the " +
				"last is mul."},
		"a mask that is given and what follows": {[]*Finding{result("softmax", 2, ofMask)},
			"First value that is not finite: softmax: output[0] at [0] is inf."},
	} {
		d := NewDigest(nil)
		for _, f := range tc.findings {
			d.Add(f)
		}
		if got := d.NotFinite(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
