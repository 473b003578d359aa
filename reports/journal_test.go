package reports_test

import (
	"strings"
	"testing"

	"github.com/optool/optool/reports"
)

// TestJournalThatContradictsItself: lines that were edited by hand are refused, with their numbers.
func TestJournalThatContradictsItself(t *testing.T) {
	const run = `{"kind":"run","schema":1}`
	result := func(capture string) string {
		return `{"kind":"result","capture":"` + capture + `","op":"torch.add","phase":"forward","verdict":"pass"}`
	}
	counted := func(counts string) string { return strings.TrimSuffix(result("a"), "}") + "," + counts + "}" }
	const one, two = `{"kind":"done","capture":"a","results":1}`, `{"kind":"done","capture":"a","results":2}`
	for _, tc := range []struct {
		name, want string // "" if nothing is wrong
		lines      []string
	}{
		{"sound", "", []string{run, result("a"), one}},
		{"a result of another call", `line 2: capture: b, want a, of which the line of kind "done" is`,
			[]string{run, result("b"), one}},
		{"a result too few", "line 3: a has 1 result, want 2", []string{run, result("a"), two}},
		{"a result too many", "line 4: a has 2 results, want 1", []string{run, result("a"), result("a"), one}},
		{"all elements wrong", "", []string{run, counted(`"mismatched":4,"numel":4`), one}},
		{"more elements wrong than there are", "line 2: mismatched: 5 of 4 elements",
			[]string{run, counted(`"mismatched":5,"numel":4`), one}},
		{"fewer than none", "line 2: mismatched: -1 of 4 elements",
			[]string{run, counted(`"mismatched":-1,"numel":4`), one}},
		{"done twice", "line 4: a has 0 results, want 1", []string{run, result("a"), one, one}},
		{"no run", `line 1: want the line of kind "run"`, []string{result("a"), one}},
	} {
		_, err := reports.ReadJournal(strings.NewReader(strings.Join(tc.lines, "\n")+"\n"),
			func(c *reports.JournalCall) error {
				_, err := c.Results()
				return err
			})
		if got := errorText(err); got != tc.want && (tc.want == "" || !strings.HasPrefix(got, tc.want)) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
