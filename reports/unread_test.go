package reports

import (
	"bytes"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestUnread: a damaged file makes its calls neither wrong nor gone nor new, and is one error of JUnit. A list of calls
// that was cut does the same.
func TestUnread(t *testing.T) {
	result := func(run string, id int, v verdict.Verdict, target string) *Result {
		return &Result{Capture: "m/rank0/" + run + "/torch.mm." + string(rune('0'+id)), Op: "torch.mm", ForwardID: &id,
			Phase: "forward", Target: target, Verdict: v}
	}
	night := func(run string, invalid func(id int) bool) (results []*Result) {
		for id := 1; id <= 4; id++ {
			if invalid(id) {
				r := result(run, id, verdict.Invalid, "")
				r.File, r.Reason = "m/rank0/"+run+"/t.safetensors", r.Capture+"/input: t.safetensors: it is too short"
				results = append(results, r)
				continue
			}
			results = append(results, result(run, id, verdict.Pass, "output[0]"), result(run, id, verdict.Pass, "grad[0]"))
		}
		return results
	}
	whole := night("1-2026-01-01-00-00-00", func(int) bool { return false })
	broken := night("2-2026-01-02-00-00-00", func(id int) bool { return id > 2 })
	changes := ResultChanges(whole, broken)
	if got := CountCalls(changes, 4); got != "4 calls: 2 could not be read, 2 as good as before" {
		t.Error(got)
	}
	if n := CountChanges(changes, len(broken)); n != (ChangeCount{Unread: 2, Same: 4}) {
		t.Errorf("%+v", n)
	}
	if facts := ChangedOps(changes); len(facts) > 0 {
		t.Errorf("%v", facts)
	}
	if got := CountCalls(ResultChanges(broken, whole), 4); got != "4 calls: 2 readable again, 2 as good as before" {
		t.Error(got)
	}
	wrong := night("1-2026-01-01-00-00-00", func(int) bool { return false })
	wrong[len(wrong)-1].Verdict = verdict.Fail
	if got := CountCalls(ResultChanges(broken, wrong), 4); !strings.HasPrefix(got, "4 calls: 1 newly wrong, ") {
		t.Error(got)
	}

	s := NewSummary()
	for _, r := range broken {
		s.Add(r)
	}
	s.Unread = []UnreadFile{{File: "n/rank0/3-2026-01-02-00-00-00/calls.jsonl", Reason: "it was cut"}}
	var lines []string
	for _, f := range s.UnreadFacts() {
		lines = append(lines, f.Text)
	}
	if got := strings.Join(lines, "; "); got != "m/rank0/2-2026-01-02-00-00-00/t.safetensors, 2 calls: it is too short; "+
		"n/rank0/3-2026-01-02-00-00-00/calls.jsonl: it was cut" {
		t.Error(got)
	}
	s.Unread = append(s.Unread, UnreadFile{File: "n/calls.jsonl", Reason: "it was killed", Cut: true})
	want := "\nthe recording is not whole: n/calls.jsonl: it was killed\n"
	counts := "1 file could not be read to the end, 1 recording is not whole"
	if got := strings.Join(s.Told(), "\n"); !strings.Contains(got, want) ||
		strings.Join(s.unreadParts(), ", ") != counts {
		t.Errorf("%q is missing in %q", want, got)
	}
	s.Unread = append(s.Unread, UnreadFile{File: "o", Reason: "no such directory", Absent: true})
	counts = "1 file could not be read to the end, 1 path gave no call, 1 recording is not whole"
	if got := strings.Join(s.unreadParts(), ", "); got != counts {
		t.Error(got)
	}
	s.Unread = s.Unread[:1]
	rec := &Recording{Summary: s, Results: ResultsOf(broken...)}
	var junit bytes.Buffer
	if err := WriteJUnit(&junit, rec); err != nil {
		t.Fatal(err)
	}
	for text, n := range map[string]int{"<error": 2, `/t.safetensors" `: 0, `name="m/t.safetensors"`: 1,
		`name="n/calls.jsonl"`: 1} {
		if got := strings.Count(junit.String(), text); got != n {
			t.Errorf("%d times %s, want %d: %s", got, text, n, junit.String())
		}
	}

	cut := &Recording{Summary: NewSummary()}
	cut.Summary.Unread = []UnreadFile{{File: "m/rank0/2-2026-01-02-00-00-00/calls.jsonl", Reason: "it was cut"}}
	changes = ResultChanges(whole, broken[:4])
	NotLookedAt(changes, cut)
	if n := CountChanges(changes, 4); n.Gone != 0 || n.Unread != 4 || n.Same != 4 {
		t.Errorf("%+v", n)
	}
	cut.Summary.Unread[0].File = "other/rank0/2-2026-01-02-00-00-00/calls.jsonl"
	changes = ResultChanges(whole, broken[:4])
	NotLookedAt(changes, cut)
	if n := CountChanges(changes, 4); n.Gone != 4 {
		t.Errorf("of another folder: %+v", n)
	}
}

// TestJUnitUnended: a run that was interrupted has an error in JUnit. So has each missing part of a run.
func TestJUnitUnended(t *testing.T) {
	for _, c := range []struct {
		interrupted bool
		missing     []string
		want        []string
	}{{false, nil, nil}, {true, nil, []string{"interrupted: calls that are not listed here were not judged"}},
		{true, []string{"part 2/3 is missing", "part 3/3 is missing"},
			[]string{"part 2/3 is missing", "part 3/3 is missing"}}} {
		s := NewSummary()
		r := &Result{Capture: "a", Op: "torch.mm", Target: "output[0]", Verdict: verdict.Pass}
		s.Add(r)
		s.Interrupted, s.Missing = c.interrupted, c.missing
		var xml bytes.Buffer
		if err := WriteJUnit(&xml, &Recording{Summary: s, Results: ResultsOf(r)}); err != nil {
			t.Fatal(err)
		}
		for _, text := range c.want {
			if !strings.Contains(xml.String(), `<error type="interrupted" message="`+text) {
				t.Errorf("%q is missing in\n%s", text, xml.String())
			}
		}
		if n := strings.Count(xml.String(), "<error"); n != len(c.want) {
			t.Errorf("%d errors, want %d:\n%s", n, len(c.want), xml.String())
		}
	}
}

// TestTitleOfNumber: the module of a torch.nn.Sequential, which is a number, is not taken for one of the process.
func TestTitleOfNumber(t *testing.T) {
	for module, want := range map[string]string{"5": "torch.mm, module 5, a.py:1", "n.5": "torch.mm, n.5, a.py:1"} {
		if got := (&Result{Op: "torch.mm", Module: module, Location: "a.py:1"}).Title(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
