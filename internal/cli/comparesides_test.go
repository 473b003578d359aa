package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/reports"
)

// TestNewAndOld: what is compared is named with its dates, and a new one that is older than the old one is odd.
func TestNewAndOld(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 11, 30, hour, 0, 0, 0, time.UTC) }
	const odd = "order: a was recorded before b. Is it the old one? Then take optool compare b a"
	for _, c := range []struct {
		now, old dated
		want     []string
	}{
		{dated{name: "a"}, dated{name: "b"}, []string{"new: a", "old: b"}},
		{dated{name: "a", recorded: at(3)}, dated{name: "b", recorded: at(2)},
			[]string{"new: a (recorded 2026-11-30 03:00:00)", "old: b (recorded 2026-11-30 02:00:00)"}},
		{dated{name: "a", recorded: at(1)}, dated{name: "b", recorded: at(2)},
			[]string{"new: a (recorded 2026-11-30 01:00:00)", "old: b (recorded 2026-11-30 02:00:00)", odd}},
		{dated{name: "a", recorded: at(1)}, dated{name: "b"}, []string{"new: a (recorded 2026-11-30 01:00:00)", "old: b"}},
		// The old recording may be judged later.
		{dated{"a", at(3), at(4)}, dated{"b", at(2), at(5)}, []string{
			"new: a (recorded 2026-11-30 03:00:00, judged 2026-11-30 04:00:00)",
			"old: b (recorded 2026-11-30 02:00:00, judged 2026-11-30 05:00:00)"}},
		{dated{name: "a", judged: at(4)}, dated{"b", at(2), at(5)}, []string{"new: a (judged 2026-11-30 04:00:00)",
			"old: b (recorded 2026-11-30 02:00:00, judged 2026-11-30 05:00:00)",
			"order: a was judged before b. Is it the old one? Then take optool compare b a"}},
	} {
		s := newAndOld{c.now, c.old, "optool compare b a"}
		if diff := cmp.Diff(c.want, linesOf(s.facts())); diff != "" {
			t.Error(diff)
		}
	}
}

// TestOrderIsOneCommand: at 80 columns the command that takes two recordings the other way round has a line of its own.
func TestOrderIsOneCommand(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	const command = "optool compare /data/run/before/op_tools_results /data/run/after/op_tools_results"
	at := time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC)
	s := newAndOld{dated{name: "after", recorded: at}, dated{name: "before", recorded: at.Add(time.Hour)}, command}
	var b strings.Builder
	s.tell(&app{}, &b)
	if !strings.Contains(b.String(), "Is it the old one? Then take\n  "+command+"\n") {
		t.Errorf("the command is broken:\n%s", b.String())
	}
}

func linesOf(facts []reports.Fact) (lines []string) {
	for _, f := range facts {
		lines = append(lines, f.Name+": "+f.Text)
	}
	return lines
}
