package reports_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// spent is a summary of a run with a budget: so many calls of mm looked at, of which some
// failed, of 100, and none of the 10 of add.
func spent(looked, failed int) *reports.Summary {
	s := reports.NewSummary()
	for i := range looked {
		v, numel := verdict.Pass, 1000
		if i < failed {
			v = verdict.Fail
		}
		s.Add(&reports.Result{Capture: string(rune('a' + i)), Op: "mm", Verdict: v, Numel: &numel,
			Coverage: reports.Num(0.5)})
	}
	s.Spend(time.Minute, map[string]*reports.Spent{
		"mm":  {Calls: 100, CheckedCalls: looked, Bytes: 1e6, CheckedBytes: int64(looked) * 1e4},
		"add": {Calls: 10, Bytes: 1e5},
	})
	return s
}

func TestBudget(t *testing.T) {
	for _, x := range []struct {
		looked, failed  int
		elements, whole int64
		text            string
	}{
		{20, 0, 110_000, 10_000, "budget of 1m0s: 20 of 110 calls looked at (18.2 %), about 9.09 % of their " +
			"elements; 90 calls not looked at, of which at most 14 % are wrong (at 95 %, if they are like the 20 compared, " +
			"of which none is)\n"},
		{20, 1, 110_000, 10_000, "of which at most 22 % are wrong (at 95 %, if they are like the 20 compared, of which " +
			"1 is)\n"},
		{0, 0, 110_000, 0, "budget of 1m0s: 0 of 110 calls looked at (0 %), about 0 % of their elements; 110 calls " +
			"not looked at, of which nothing is known\n"},
	} {
		s := spent(x.looked, x.failed)
		b := s.Budget
		if b.Elements != x.elements || b.CheckedElements != x.whole || s.Left() != 110-x.looked {
			t.Errorf("%d of 110: got %d of %d elements and %d calls left, want %d of %d", x.looked,
				b.CheckedElements, b.Elements, s.Left(), x.whole, x.elements)
		}
		var out bytes.Buffer
		if err := s.Write(&out, reports.Style{Quiet: true}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), x.text) {
			t.Errorf("got %swant %s", out.String(), x.text)
		}
	}
}

func TestInParts(t *testing.T) {
	numel := 100
	value := func(coverage float64, projected *reports.Number) *reports.Result {
		return &reports.Result{Capture: "a", Op: "mm", Verdict: verdict.Pass, Numel: &numel,
			Coverage: reports.Num(coverage), Projected: projected}
	}
	whole, projected, alone := value(1, nil), value(0.25, reports.Num(0.5)), value(0.25, nil)
	for _, x := range []struct {
		values []*reports.Result
		want   string
	}{
		{[]*reports.Result{projected}, "1 value of large calls compared in part, and all of each by random projections\n"},
		{[]*reports.Result{alone, whole, alone}, "2 values of large calls compared in part alone\n"},
		{[]*reports.Result{alone, projected}, "by random projections; 1 value of large calls compared in part alone\n"},
		{[]*reports.Result{whole}, ""},
	} {
		s := reports.NewSummary()
		for _, r := range x.values {
			s.Add(r)
		}
		var out bytes.Buffer
		if err := s.Write(&out, reports.Style{Quiet: true}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), x.want) || x.want == "" && strings.Contains(out.String(), "in part") {
			t.Errorf("got %swant %s", out.String(), x.want)
		}
	}
}
