package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/timing"
)

// steady is a recording of series of 25 runs in nine rounds, which take as long as said.
func steady(capture string, elapsed ...time.Duration) *Recording {
	rec := &Recording{}
	for i, d := range elapsed {
		s := &timing.Series{Cache: timing.Hot}
		for k := range 25 {
			s.Samples = append(s.Samples, timing.Sample{Elapsed: d + time.Duration(k), Round: k / 3})
		}
		rec.Timings = append(rec.Timings, &Timing{Capture: capture + string(rune('0'+i)), Op: "torch.add",
			Phase: "forward", Series: s})
	}
	return rec
}

// TestTimingChanges compares what both runs measured.
func TestTimingChanges(t *testing.T) {
	old := steady("add/", time.Millisecond, 2*time.Millisecond, time.Millisecond)
	cur := steady("add/", time.Millisecond, 3*time.Millisecond)
	changes := TimingChanges(old, cur, timing.Resolution)
	if len(changes) != 2 || changes[0].Verdict != timing.Same || changes[1].Verdict != timing.Slower {
		t.Fatalf("%+v", changes)
	}
	if got := strings.Join(changes[1].Cells()[:3], " "); got != "2.000 ms 3.000 ms +50.0 %" {
		t.Errorf("cells %q", got)
	}
	text, err := json.Marshal(&changes[1])
	for _, want := range []string{`{"kind":"timing_change","capture":"add/1","op":"torch.add"`, `"verdict":"SLOWER"`,
		`"old_median_ns":2000012`, `"accuracy":""`} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s, %v: want %s", text, err, want)
		}
	}
	var read TimingChange
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(read.Cells(), " "), strings.Join(changes[1].Cells(), " "); got != want {
		t.Errorf("cells %q, want those of what was written, %q", got, want)
	}
	ops := ByOp(changes)
	if len(ops) != 1 || ops[0].Captures != 2 || ops[0].Change() != "+33.3 %" || ops[0].Verdicts[timing.Slower] != 1 {
		t.Errorf("%+v", ops[0])
	}
	if ops := ByOp(changes[:1]); len(ops) != 0 {
		t.Errorf("an op of one capture is summed up: %+v", ops[0])
	}
}

// TestTimingsOfTwoDays: two recordings of one program have other process numbers and dates in their paths. What one of
// them measured more often is not compared.
func TestTimingsOfTwoDays(t *testing.T) {
	run := func(process string, elapsed ...time.Duration) *Recording {
		rec := steady("", elapsed...)
		for i, s := range rec.Timings {
			id := 10 * i
			s.Capture, s.ForwardID, s.Shapes = fmt.Sprintf("gpt/rank0/%s/torch.add.%d", process, id), &id, "float32[2]"
			if i == 3 {
				s.Shapes = "float32[3]"
			}
		}
		return rec
	}
	const ms = time.Millisecond
	monday := run("4711-2026-11-30-02-00-00", ms, 2*ms, 3*ms, 5*ms)
	tuesday := run("4812-2026-12-01-02-00-00", ms, 4*ms, 3*ms, 5*ms)
	slices.Reverse(tuesday.Timings)
	var got []string
	for _, c := range TimingChanges(monday, tuesday, timing.Resolution) {
		got = append(got, string(c.Verdict))
	}
	if d := cmp.Diff([]string{"SAME", "SLOWER", "SAME", "SAME"}, got); d != "" {
		t.Error(d)
	}
	tuesday.Timings = tuesday.Timings[1:]
	if n := len(TimingChanges(monday, tuesday, timing.Resolution)); n != 3 {
		t.Errorf("%d compared, want 3: nothing else has the shape of the fourth", n)
	}
	tuesday.Timings = tuesday.Timings[1:]
	if n := len(TimingChanges(monday, tuesday, timing.Resolution)); n != 0 {
		t.Errorf("%d compared, want none: three calls of a shape against two", n)
	}
}

// TestPairedChange writes and reads what ComparePair tells.
func TestPairedChange(t *testing.T) {
	var old, cur []timing.Sample
	for round := range 20 {
		old = append(old, timing.Sample{Elapsed: time.Duration(1000 + round), Round: round})
		cur = append(cur, timing.Sample{Elapsed: time.Duration(1100 + round), Round: round})
	}
	c := TimingChange{TimingKey: TimingKey{Op: "torch.add"}, Change: timing.ComparePair(old, cur, timing.Resolution)}
	if got := strings.Join(c.Cells(), " "); got != "1.010 us 1.110 us +9.9 % +9.8 % to +10.0 % SLOWER " {
		t.Errorf("cells %q", got)
	}
	text, err := json.Marshal(&c)
	var read TimingChange
	if err = errors.Join(err, json.Unmarshal(text, &read)); err != nil || *read.Interval != *c.Interval ||
		!slices.Equal(read.Cells(), c.Cells()) {
		t.Errorf("%v: %+v of %s", err, read, text)
	}
	few := TimingChange{Change: timing.ComparePair(old[:3], cur[:3], timing.Resolution)}
	text, err = json.Marshal(&few)
	if err != nil || !strings.Contains(string(text), `"interval":[0,"inf"]`) || few.Cells()[3] != "-" {
		t.Errorf("three rounds: %s, %v", text, err)
	}
	if err := json.Unmarshal([]byte(`{"interval":[1]}`), &read); err == nil {
		t.Error("an interval of one number is read")
	}
}

// TestRivals: devices are named by their files, and by as many folders as tell them apart; the change that is printed
// follows from the times that are, and each side's doubt is said.
func TestRivals(t *testing.T) {
	for _, c := range [][4]string{
		{"./new/libdiopi_impl.so", "torch:cpu", "torch:cpu", "libdiopi_impl.so"},
		{"new/libdiopi_impl.so", "old/libdiopi_impl.so", "old/libdiopi_impl.so", "new/libdiopi_impl.so"},
		{"host", "host", "old", "new"},
	} {
		run := Run{Device: c[0], Against: c[1]}
		if got := run.Rivals(); got != [2]string{c[2], c[3]} {
			t.Errorf("%s against %s: %q", c[0], c[1], got)
		}
	}
	change := TimingChange{TimingKey: TimingKey{Op: "torch.add", Phase: "forward", Cache: "hot"},
		Change: timing.Change{Verdict: timing.Ambiguous, Ratio: 0.024,
			Interval: &timing.Interval{Low: 0.001, High: 0.946}, OldRound: 54210, NewRound: 9694}, Doubts: [2]string{"noisy: it varies", ""}}
	if got := strings.Join(change.Cells()[:4], " "); got != "54.21 us 9.694 us -82.1 % -99.9 % to -5.4 %" {
		t.Errorf("cells %q", got)
	}
	if got := change.DoubtText([2]string{"torch:cpu", "lib.so"}); got != "torch:cpu noisy" {
		t.Errorf("doubt %q", got)
	}
	rec := steady("add/", time.Millisecond)
	rec.Run = Run{Device: "lib.so", Against: "torch:cpu"}
	rec.Changes, rec.Summary, rec.Results = []TimingChange{change}, NewSummary(), &Results{}
	var b strings.Builder
	if err := WriteMarkdown(&b, rec); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| torch&#58;cpu | lib.so | change |", "| 54.21 us | 9.694 us | -82.1 % |", "AMBIGUOUS",
		"of torch&#58;cpu, 1 of 1 measurement is in doubt: 1 noisy"} {
		if !strings.Contains(b.String(), want) &&
			!strings.Contains(b.String(), strings.ReplaceAll(want, "&#58;", ":")) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	if sheets := rec.ChangeSheets(); len(sheets) != 1 || !slices.Contains(sheets[0].Columns, "torch:cpu_ns") {
		t.Errorf("sheets %v", sheets)
	}
}

func TestAccuracyChange(t *testing.T) {
	for _, c := range [][3]string{{"pass", "pass", "pass"}, {"pass", "fail", "pass -> fail"}, {"", "fail", ""}} {
		if got := accuracyChange(verdict.Verdict(c[0]), verdict.Verdict(c[1])); got != c[2] {
			t.Errorf("%s, %s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
