package reports

import (
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestPartlyImplemented: results that are right are said, also where the case as a whole is not implemented.
func TestPartlyImplemented(t *testing.T) {
	result := func(v verdict.Verdict, reason string) *Result { return &Result{Op: "relu", Verdict: v, Reason: reason} }
	lacks := result(verdict.Unsupported, "the library has no diopiReluInp")
	for _, tc := range []struct {
		name  string
		cases [][]*Result
		want  string
	}{
		{"in part", [][]*Result{{result(verdict.Unsupported, "returned 1000")}, {result(verdict.Pass, ""), lacks}},
			"relu: 1 of 2 cases not implemented passed in part (1 result), first: the library has no diopiReluInp\n"},
		{"not at all", [][]*Result{{lacks}}, ""},
		{"wrong as well", [][]*Result{{result(verdict.Fail, "wrong"), lacks}}, ""},
	} {
		table := NewCaseTable()
		for _, results := range tc.cases {
			table.Add("relu", []string{"float32"}, results, false)
		}
		var b strings.Builder
		if err := table.Write(&b, 0); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); tc.name == "in part" && !strings.Contains(got, "relu          2         2                       1") {
			t.Errorf("the row of relu does not say that a case is right in part:\n%s", got)
		}
		if got := b.String(); !strings.Contains(got, tc.want) || strings.Contains(got, "in part") != (tc.want != "") {
			t.Errorf("%s: got\n%s", tc.name, got)
		}
	}
}
