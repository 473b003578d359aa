package pairs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
)

// Steps are the numbers of steps that two recordings have, the first one's and the second one's. Calls of no known step
// are not in it.
type Steps [2]map[int]bool

// Add adds a step of one recording, -1 for none.
func (s *Steps) Add(of, step int) {
	if s[of] == nil {
		s[of] = map[int]bool{}
	}
	if step >= 0 {
		s[of][step] = true
	}
}

// Apart reports whether both recordings number their steps and have none in common.
func (s *Steps) Apart() bool {
	for n := range s[0] {
		if s[1][n] {
			return false
		}
	}
	return len(s[0]) > 0 && len(s[1]) > 0
}

// String says that two recordings have no step in common, and what that means; "" if they do. They have these names.
func (s *Steps) String(names [2]string) string {
	if !s.Apart() {
		return ""
	}
	var of [2]string
	for i, name := range names {
		of[i] = fmt.Sprintf("%s in %s", capture.StepWords(slices.Sorted(maps.Keys(s[i]))), name)
	}
	return fmt.Sprintf("note: the recordings have no step in common: %s, %s. Another step reads other data and other "+
		"weights, so its values differ without a fault. To see where two runs part, record the same steps in both",
		of[0], of[1])
}

// Versions are the versions of torch of two recordings, the first one's and the second one's.
type Versions [2]map[string]bool

// Add takes note of the versions of a pair.
func (v *Versions) Add(p Pair) {
	if p.B == nil {
		return
	}
	for i, e := range []*capture.Entry{p.A, p.B} {
		if v[i] == nil {
			v[i] = map[string]bool{}
		}
		v[i][e.Torch] = true
	}
}

// String says that the versions differ, and what that means; "" if they do not, or are not known. alone counts the
// calls of one recording only.
func (v *Versions) String(alone [2]int) string {
	var of [2]string
	for i := range v {
		of[i] = strings.Join(slices.Sorted(maps.Keys(v[i])), ", ")
		if of[i] == "" || v[i][""] {
			return ""
		}
	}
	if of[0] == of[1] {
		return ""
	}
	s := fmt.Sprintf("The versions of torch differ, %s in the new recording and %s in the old one", of[0], of[1])
	if alone != [2]int{} {
		s += fmt.Sprintf("; versions make other calls inside torch: %s %s in the new recording only, %d in the old one "+
			"only", reports.Count(alone[0], "call"), reports.Plural(alone[0], "is", "are"), alone[1])
	}
	return s + "."
}

// places numbers the steps of each recording by their order if the two have none in common, so that the first of one
// belongs to the first of the other.
func (s *Steps) places() (out [2]map[int]int) {
	if !s.Apart() {
		return out
	}
	for i := range s {
		out[i] = map[int]int{}
		for k, n := range slices.Sorted(maps.Keys(s[i])) {
			out[i][n] = k
		}
	}
	return out
}
