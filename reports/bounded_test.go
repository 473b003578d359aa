package reports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// manyOps are JSON lines of a run whose values are all of another op, as those of a file of values are.
func manyOps(t *testing.T, n int, capture func(i int) string, v verdict.Verdict) string {
	t.Helper()
	var b strings.Builder
	lines := NewJSONLines(&b)
	err := lines.Run(Run{})
	for i := 0; i < n && err == nil; i++ {
		dtype := "float32"
		err = lines.Result(&Result{Capture: capture(i), Op: fmt.Sprintf("op%d", i), Phase: "forward", Target: "output[0]",
			Verdict: v, Reason: "off by much", DType: &dtype, Errors: &Errors{Factor: Num(1), FactorError: Num(1)}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestManyOps: a run with more ops than are told apart counts the others together, in all that reports are made of.
func TestManyOps(t *testing.T) {
	const n = maxOps + 100
	each := func(i int) string { return fmt.Sprintf("op%d/%d", i, i) }
	for _, v := range []verdict.Verdict{verdict.Pass, verdict.Fail, verdict.Mistrusted} {
		rec := readRecorded(t, manyOps(t, n, each, v))
		s := rec.Summary
		ops := s.Ops()
		counted := 0
		for _, o := range ops {
			counted += o.Counts[v]
		}
		if len(ops) != maxOps+1 || counted != n || s.ops[otherOps].Counts[v] != 100 {
			t.Errorf("%s: %d ops with %d captures, %v of the others; want %d, %d and 100", v, len(ops), counted,
				s.ops[otherOps], maxOps+1, n)
		}
		if len(s.pools) > maxOps {
			t.Errorf("%s: %d pools of errors, want at most %d", v, len(s.pools), maxOps)
		}
		for why, of := range s.Unjudged.ops {
			if len(of) > maxOps || s.Unjudged.Reasons[why] != n || s.Unjudged.of(why) != "" {
				t.Errorf("%s: %q: %d ops, %d values, %q", v, why, len(of), s.Unjudged.Reasons[why], s.Unjudged.of(why))
			}
		}
		dtypes := NewDTypeCount()
		for f := range rec.Findings() {
			dtypes.Add(f, rec.Summary)
		}
		if rows := len(dtypes.Matrix().Rows); rows != maxOps+1 {
			t.Errorf("%s: %d rows by dtype, want %d", v, rows, maxOps+1)
		}
		var junit strings.Builder
		s.Interrupted = false // as the run's last line is missing
		if err := WriteJUnit(&junit, rec); err != nil {
			t.Fatal(err)
		}
		suites, cases := strings.Count(junit.String(), "<testsuite "), strings.Count(junit.String(), "<testcase ")
		if suites != maxOps+1 || cases != n {
			t.Errorf("%s: %d suites and %d cases, want %d and %d", v, suites, cases, maxOps+1, n)
		}
	}
}

// TestManyResults: results of one capture are looked at in parts, and a digest keeps the first of each part.
func TestManyResults(t *testing.T) {
	const n = 2*maxResults + 7
	var b strings.Builder
	lines := NewJSONLines(&b)
	err := lines.Run(Run{})
	for i := 0; i < n && err == nil; i++ {
		r := &Result{Capture: "a.pth", Op: "a", Phase: "forward", Target: fmt.Sprintf("v%d", i), Verdict: verdict.Fail,
			Reason: "off"}
		if i == 100 {
			r.Verdict = verdict.Crash
		}
		err = lines.Result(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	rec := readRecorded(t, b.String())
	digest, parts, results := NewDigest(nil), 0, 0
	for f := range rec.Findings() {
		parts++
		results += len(f.Results)
		digest.Add(f)
	}
	if parts != 3 || results != n {
		t.Errorf("%d parts with %d results, want 3 with %d", parts, results, n)
	}
	first := digest.First()
	if len(first.Results) != keptResults+1 || first.Worst() != verdict.Crash ||
		first.More() != fmt.Sprintf("%d more values of this call", maxResults-keptResults-1) {
		t.Errorf("kept %d results, the worst %s, and %q", len(first.Results), first.Worst(), first.More())
	}
	var text strings.Builder
	if err := digest.Write(&text, Style{}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("and      %d more values of this call", maxResults-shownValues)
	if !strings.Contains(text.String(), want) {
		t.Errorf("lacks %q:\n%s", want, &text)
	}
	for _, captures := range rec.Summary.Captures {
		if captures != 1 {
			t.Errorf("%v captures, want 1", rec.Summary.Captures)
		}
	}
}
