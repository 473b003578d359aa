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

func TestAccuracyChange(t *testing.T) {
	for _, c := range [][3]string{{"pass", "pass", "pass"}, {"pass", "fail", "pass -> fail"}, {"", "fail", ""}} {
		if got := accuracyChange(verdict.Verdict(c[0]), verdict.Verdict(c[1])); got != c[2] {
			t.Errorf("%s, %s: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
