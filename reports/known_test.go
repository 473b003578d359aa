package reports

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/compare/verdict"
)

// failing is a value of a call that is this wrong.
func failing(op, target string, call int, ratio float64) *Result {
	return &Result{Capture: "10-2026-11-29-01-23-13/" + op, Op: op, Phase: "forward", Target: target, Occurrence: &call,
		Verdict: verdict.Fail, BoundRatio: Num(ratio), MaxAbs: Num(ratio), Reason: "off"}
}

// TestKnown: a failure of the list is known, unless it is another one, far worse, of another kind, or too late.
func TestKnown(t *testing.T) {
	k, err := ParseKnown("k.txt", []byte(`# what everybody knows
torch.mm output[0] call=1 bound_ratio=5 max_abs_diff=5 issue=https://x/1 slow fix
torch.mm grad*
torch.nn.* call verdict=crash until=2026-03-01
torch.add output[0] until=2026-02-27
torch.sub output[0]
torch.mul output[0]
`), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	crash := failing("torch.nn.gelu", "", 1, 1)
	crash.Verdict = verdict.Crash
	pass := failing("torch.sub", "output[0]", 1, 1)
	pass.Verdict = verdict.Pass
	for _, c := range []struct {
		r            *Result
		want         verdict.Verdict
		reasonEnding string
	}{
		{failing("torch.mm", "output[0]", 1, 20), verdict.Known, "known (k.txt:2 slow fix https://x/1): off"},
		{failing("torch.mm", "output[0]", 2, 5), verdict.Fail, "off; k.txt:2 knows another call only"},
		{failing("torch.mm", "output[0]", 1, 60), verdict.Fail, "off; k.txt:2: known, but 12 times worse"},
		{failing("torch.mm", "grad[1]", 7, 1e9), verdict.Known, "known (k.txt:3): off"},
		{failing("torch.mm2", "grad[1]", 7, 1), verdict.Fail, "off"},
		{crash, verdict.Known, "known (k.txt:4): off"},
		{failing("torch.nn.gelu", "", 2, 1), verdict.Fail,
			"off; k.txt:4: known as crash, and this is fail"},
		{failing("torch.add", "output[0]", 1, 1), verdict.Fail, "known until 2026-02-27, expired (k.txt:5): off"},
		{pass, verdict.Pass, "off"},
	} {
		k.Mark(c.r)
		if c.r.Verdict != c.want || c.r.Reason != c.reasonEnding || c.r.Finding() != (c.want == verdict.Fail) {
			t.Errorf("%s %s: got %s, %q, want %s, %q", c.r.Op, c.r.Target, c.r.Verdict, c.r.Reason, c.want,
				c.reasonEnding)
		}
	}
	want := []string{"3 failing values known (k.txt): that does not change the exit code",
		"k.txt:6: torch.sub output[0] no longer fails: remove line 6", "k.txt: no value of this run is that of line 7",
		"k.txt: other calls fail where line 2 names one call or rank: leave out call= and rank= if the fault is the same",
		"k.txt: the last day (until=) of line 5 has passed, so 1 value fails again: repair what is wrong, or set a later day"}
	if diff := cmp.Diff(want, k.Told(true)); diff != "" {
		t.Error(diff)
	}
}

// TestKnownOfTwo: of two recordings, a failure that is still wrong is known, by how wrong it is in the new one. One
// that is repaired no longer fails, but of one that passes that is only known if it was judged by itself.
func TestKnownOfTwo(t *testing.T) {
	list := func() *KnownList {
		k, err := ParseKnown("k.txt", []byte("torch.mm output[0] max_abs_diff=2"), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		k.OfTwo = true
		return k
	}
	near, far := Extent{abs: 3}, Extent{abs: 30}
	for name, c := range map[string]struct {
		v      verdict.Verdict
		in     WrongIn
		bySelf *Extent
		want   verdict.Verdict
		told   string
	}{
		"still wrong": {verdict.StillWrong, WrongInBoth, &near, verdict.Known, "1 failing value known (k.txt): that does not " +
			"change the exit code"},
		"far worse": {verdict.StillWrong, WrongInBoth, &far, verdict.StillWrong, ""},
		"further apart": {verdict.Fail, WrongInBoth, &near, verdict.Known, "1 failing value known (k.txt): that does not " +
			"change the exit code"},
		"not told": {verdict.StillWrong, WrongInBoth, nil, verdict.Known, "1 failing value known (k.txt): that does not " +
			"change the exit code"},
		"repaired": {verdict.Repaired, WrongInSecond, &Extent{}, verdict.Repaired, "k.txt:1: torch.mm output[0] no longer " +
			"fails: remove line 1"},
		"right":      {verdict.Pass, "", &Extent{}, verdict.Pass, "k.txt:1: torch.mm output[0] no longer fails: remove line 1"},
		"not judged": {verdict.Pass, "", nil, verdict.Pass, ""},
	} {
		k := list()
		r := failing("torch.mm", "output[0]", 1, 500)
		if r.Verdict, r.WrongIn = c.v, c.in; c.bySelf != nil {
			r.BySelf(*c.bySelf)
		}
		if k.Mark(r); r.Verdict != c.want || strings.Join(k.Told(true), "; ") != c.told {
			t.Errorf("%s: %s, %q", name, r.Verdict, k.Told(true))
		}
		if r.Unmark(); r.Verdict != c.v {
			t.Errorf("%s: %s without the list", name, r.Verdict)
		}
	}
}

// TestKnownErrors: an error names the line.
func TestKnownErrors(t *testing.T) {
	for _, line := range []string{"torch.mm", "a b until=tomorrow", "a b untill=2026-01-01", "a b call=0", "a b rank=x",
		"a b bound_ratio=nan", "a b wrong=-1%", "a b verdict=pass", "a b finite=yes", "a b issue=7", `"a b`} {
		_, err := ParseKnown("k.txt", []byte("# x\n"+line), time.Now())
		if err == nil || !strings.HasPrefix(err.Error(), "k.txt:2: ") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestWriteKnown: what is written is read again and knows the same failures; a list that a run was given keeps its
// words, and loses the lines that are not needed.
func TestWriteKnown(t *testing.T) {
	run := func(k *KnownList, results ...*Result) (text string, s *Summary) {
		var b, out bytes.Buffer
		j, s := NewJSONLines(&b), NewSummary()
		err := j.Run(Run{})
		s.Known = k
		for _, r := range results {
			k.Mark(r)
			s.Add(r)
			err = errors.Join(err, j.Result(r))
		}
		err = errors.Join(err, j.Summary(s))
		rec := readRecorded(t, b.String())
		if err := errors.Join(err, WriteKnown(&out, rec)); err != nil {
			t.Fatal(err)
		}
		return out.String(), rec.Summary
	}
	odd := failing("an op # with", `"x" y`, 3, 1)
	text, _ := run(nil, failing("torch.mm", "output[0]", 1, 5), odd, failing("torch.mm", "output[0]", 1, 5))
	if n := strings.Count(text, "\n"); n != 3 {
		t.Errorf("%d lines, want a comment and two:\n%s", n, text)
	}
	text = strings.Replace(text, "max_abs_diff=5\n", "max_abs_diff=5 until=2027-01-31 a reason\n", 1)
	read := func() *KnownList {
		k, err := ParseKnown("k.txt", []byte(text), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	again, s := run(read(), failing("torch.mm", "output[0]", 1, 6), failing("an op # with", `"x" y`, 3, 1))
	if again != text || s.Line() != "2 captures: 2 known" || s.Differs() || s.Compared() != 2 {
		t.Errorf("got %s, differs %v, %d compared\n%q, want\n%q", s.Line(), s.Differs(), s.Compared(), again, text)
	}
	passed := failing("torch.mm", "output[0]", 1, 6)
	passed.Verdict = verdict.Pass
	again, _ = run(read(), passed, failing("torch.new", "output[0]", 2, 4))
	want := text[:strings.Index(text, "\n")+1] + text[strings.Index(text, `"an op`):] +
		"torch.new output[0] bound_ratio=4 max_abs_diff=4\n"
	if again != want {
		t.Errorf("got\n%s, want\n%s", again, want)
	}
}

// TestWriteKnownCalls: a value that fails in all calls of its operator has one line, which holds for the next recording
// with more calls; where some calls are right, each line names its call. Ranks are treated alike. Calls inside of
// another one do not count.
func TestWriteKnownCalls(t *testing.T) {
	value := func(op string, call int, ratio float64, rank int, v verdict.Verdict) *Result {
		r := failing(op, "output[0]", call, ratio)
		if r.Verdict, r.Rank = v, &rank; v == verdict.Known {
			r.Default = verdict.Fail
		}
		return r
	}
	inner := value("torch.all", 3, 1, 0, verdict.Pass)
	inner.Within = new(1)
	crash := value("torch.all", 4, 1, 0, verdict.Crash)
	var b, out bytes.Buffer
	j, s := NewJSONLines(&b), NewSummary()
	err := j.Run(Run{})
	for _, r := range []*Result{value("torch.all", 1, 4, 0, verdict.Fail), value("torch.all", 2, 7, 1, verdict.Fail),
		inner, crash, value("torch.some", 1, 5, 0, verdict.Fail), value("torch.some", 2, 6, 0, verdict.Fail),
		value("torch.some", 3, 0, 0, verdict.Warn), value("torch.some", 1, 8, 1, verdict.Fail),
		value("torch.some", 2, 9, 1, verdict.Known)} {
		s.Add(r)
		err = errors.Join(err, j.Result(r))
	}
	err = errors.Join(err, j.Summary(s))
	if err := errors.Join(err, WriteKnown(&out, readRecorded(t, b.String()))); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(out.String(), "\n")
	want := `torch.all output[0] bound_ratio=7 max_abs_diff=7
torch.all output[0] verdict=crash bound_ratio=1 max_abs_diff=1
torch.some output[0] call=1 rank=0 bound_ratio=5 max_abs_diff=5
torch.some output[0] call=2 rank=0 bound_ratio=6 max_abs_diff=6
torch.some output[0] rank=1 bound_ratio=9 max_abs_diff=9
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestKnownFolders: a list of a run of several folders has them in its lines, so that a failure that moves to another
// folder is new. Lines without a folder are about all. The names of test cases have the folders too.
func TestKnownFolders(t *testing.T) {
	at := func(capture string) *Result {
		r := failing("torch.mm", "output[0]", 1, 5)
		r.Capture = capture
		return r
	}
	var b, out bytes.Buffer
	j, s := NewJSONLines(&b), NewSummary()
	err := errors.Join(j.Run(Run{}), j.Result(at("x/rank0/10-2026-11-29-01-23-13/torch.mm.4")), j.Summary(s))
	if err := errors.Join(err, WriteKnown(&out, readRecorded(t, b.String()))); err != nil {
		t.Fatal(err)
	}
	written := out.String()
	if !strings.HasSuffix(written, "\ntorch.mm output[0] folder=x bound_ratio=5 max_abs_diff=5\n") {
		t.Errorf("wrote %s", written)
	}
	for _, c := range []struct {
		text, capture string
		want          verdict.Verdict
	}{
		{written, "x/rank0/7-2026-11-30-01-23-13/torch.mm.4", verdict.Known},
		{written, "y/rank0/10-2026-11-30-01-23-13/torch.mm.4", verdict.Fail},
		{"torch.mm output[0] call=1", "y/rank0/10-2026-11-30-01-23-13/torch.mm.4", verdict.Known},
		{"torch.mm output[0] folder=.", "rank0/10-2026-11-30-01-23-13/torch.mm.4", verdict.Known},
		{"torch.mm output[0] folder=.", "y/rank0/10-2026-11-30-01-23-13/torch.mm.4", verdict.Fail},
		{"torch.mm output[0] capture=x*mm.4", "x/rank0/7-2026-11-30-01-23-13/torch.mm.4", verdict.Known},
		{"torch.mm output[0] capture=x*", "y/rank0/7-2026-11-30-01-23-13/torch.mm.4", verdict.Fail},
	} {
		k, err := ParseKnown("k.txt", []byte(c.text), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		r := at(c.capture)
		if k.Mark(r); r.Verdict != c.want {
			t.Errorf("%s, %s: got %s, want %s", c.text, c.capture, r.Verdict, c.want)
		}
	}
	if got := at("y/rank0/7-2026-11-30-01-23-13/torch.mm.4").call(); got != "y call 1" {
		t.Errorf("the test case is %q", got)
	}
	if got := at("rank0/7-2026-11-30-01-23-13/torch.mm.4").call(); got != "call 1" {
		t.Errorf("the test case of a single directory is %q", got)
	}
}

// TestKnownTwice: a list says why a failure is not known once, also in a comparison of runs that were made with it.
func TestKnownTwice(t *testing.T) {
	k, err := ParseKnown("k.txt", []byte("torch.mm output[0] bound_ratio=5 max_abs_diff=5"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := failing("torch.mm", "output[0]", 1, 60)
	k.Mark(r)
	if k.Mark(r); r.Reason != "off; k.txt:1: known, but 12 times worse" {
		t.Error(r.Reason)
	}
}

// TestKnownStale: a line that no longer fails fails the run if that is asked for, and is a test case. A run that did
// not look at all calls, or could not read all, says of no line that it is not needed.
func TestKnownStale(t *testing.T) {
	var unread []UnreadFile
	run := func(fail, part bool) (*Recording, string) {
		k, err := ParseKnown("k.txt", []byte("torch.mm output[0]\ntorch.mv output[0]\n"), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var b, xml bytes.Buffer
		j, s := NewJSONLines(&b), NewSummary()
		s.Known, k.FailStale = k, fail
		r := failing("torch.mm", "output[0]", 1, 5)
		r.Verdict = verdict.Pass
		k.Mark(r)
		s.Add(r)
		s.Unread = unread
		s.LookedAtPart(part)
		err = errors.Join(j.Run(Run{}), j.Result(r), j.Summary(s))
		rec := readRecorded(t, b.String())
		if err := errors.Join(err, WriteJUnit(&xml, rec)); err != nil {
			t.Fatal(err)
		}
		return rec, xml.String()
	}
	for _, c := range []struct{ fail, part, unwanted bool }{{false, false, false}, {true, false, true},
		{true, true, false}} {
		rec, xml := run(c.fail, c.part)
		told := strings.Join(rec.Summary.ToldKnown(), "; ")
		failure := strings.Contains(xml, `<failure message="no longer fails`)
		if rec.Summary.Unwanted() != c.unwanted || failure != c.unwanted ||
			strings.Contains(told, "--fail-on stale") != c.unwanted || (told == "") != c.part {
			t.Errorf("%+v: unwanted %t, told %q\n%s", c, rec.Summary.Unwanted(), told, xml)
		}
	}
	unread = []UnreadFile{{File: "calls.jsonl", Reason: "calls after id 9 are lost", Cut: true}}
	if rec, xml := run(true, false); rec.Summary.Unwanted() || strings.Contains(xml, "no longer fails") ||
		len(rec.Summary.ToldKnown()) > 0 {
		t.Errorf("a recording that is not whole: %q\n%s", rec.Summary.ToldKnown(), xml)
	}
	unread = nil
	rec, _ := run(false, false)
	rec.Summary.Settings = Settings{{Kind: "flag", Name: "--op", Effect: Selects, Hidden: 1}}
	if told := strings.Join(rec.Summary.ToldKnown(), "; "); strings.Contains(told, "no value") {
		t.Error(told)
	}
}

// TestKnownFolderNames: the folder of a line is that of a value also if one has more directories in front.
func TestKnownFolderNames(t *testing.T) {
	for _, c := range []struct {
		line, folder string
		want         bool
	}{
		{"lm", "lm", true}, {"/nights/1/lm", "lm", true}, {"lm", "/nights/2/lm", true}, {"lm", "big-lm", false},
		{"/nights/1/lm", "m", false}, {"lm", ".", false}, {".", "lm", false}, {".", ".", true},
		{"l*", "nights/lm", true}, {"a/lm", "b/lm", false},
	} {
		if got := (&KnownLine{folder: c.line}).inFolder(c.folder); got != c.want {
			t.Errorf("line %s, folder %s: %v, want %v", c.line, c.folder, got, c.want)
		}
	}
}
