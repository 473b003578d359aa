package pairs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
)

// TestOtherSteps: calls of two recordings that have no step in common are paired by the order of their steps, and that
// is said. If they have one, the others have no partner.
func TestOtherSteps(t *testing.T) {
	call := func(step int) *capture.Entry {
		return &capture.Entry{Rel: fmt.Sprint(step), Name: capture.Name{Op: "torch.add", ID: step}, Step: step,
			Order: step, BackwardOrder: -1, Within: -1, WithinBackward: -1}
	}
	for _, tc := range []struct {
		a, b  []int
		pairs int
		says  string
	}{
		{[]int{2}, []int{1}, 1, "note: the recordings have no step in common: step 2 in new, step 1 in old. "},
		{[]int{3, 4}, []int{1, 2}, 2, "steps 3-4 in new, steps 1-2 in old"},
		{[]int{1, 2}, []int{1}, 1, ""},
		{[]int{-1}, []int{1}, 0, ""},
	} {
		var steps Steps
		var of [2][]*capture.Entry
		for i, numbers := range [2][]int{tc.a, tc.b} {
			for _, n := range numbers {
				steps.Add(i, n)
				of[i] = append(of[i], call(n))
			}
		}
		if got := len(partners(of[0], of[1])); got != tc.pairs {
			t.Errorf("%v and %v: %d pairs, want %d", tc.a, tc.b, got, tc.pairs)
		}
		if got := steps.String([2]string{"new", "old"}); !strings.Contains(got, tc.says) || (got == "") != (tc.says == "") {
			t.Errorf("%v and %v: %q, want %q", tc.a, tc.b, got, tc.says)
		}
	}
}

// TestVersions: that two recordings are of two versions of torch is said, with the calls that only one has. It is not
// if the versions are the same, or one is not known.
func TestVersions(t *testing.T) {
	for _, tc := range []struct {
		a, b  string
		alone [2]int
		want  string
	}{
		{"2.9.0", "2.9.0", [2]int{1, 1}, ""},
		{"", "2.9.0", [2]int{}, ""},
		{"1.13.0", "2.9.0", [2]int{},
			"The versions of torch differ, 1.13.0 in the new recording and 2.9.0 in the old one."},
		{"1.13.0", "2.9.0", [2]int{1, 2},
			"The versions of torch differ, 1.13.0 in the new recording and 2.9.0 in the " +
				"old one; versions make other calls inside torch: 1 call is in the new recording only, 2 in the old one " +
				"only."},
	} {
		var v Versions
		v.Add(Pair{A: &capture.Entry{Torch: tc.a}, B: &capture.Entry{Torch: tc.b}})
		v.Add(Pair{A: &capture.Entry{Torch: "3"}})
		if got := v.String(tc.alone); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
