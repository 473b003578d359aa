package reports

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/timing"
)

// recorded is the JSON lines of a comparison with one finding, whose names try
// to break out of every format.
func recorded(t testing.TB) string {
	t.Helper()
	var b bytes.Buffer
	j := NewJSONLines(&b)
	s := NewSummary()
	if err := j.Run(Run{Command: []string{"optool", "replay", "x"}, Version: "v1",
		Start: time.Unix(0, 0)}); err != nil {
		t.Fatal(err)
	}
	id, n, bad, yes, rule, repro, dtype := 3, 4, 1, false, "1 ulp", "optool replay '<x>' ```", "float32"
	for _, r := range []*Result{
		{Capture: "a/1", Op: "torch.add", Phase: "forward", Target: "output[0]", Verdict: verdict.Pass},
		{
			Capture: "<b>|`@x`\x1b[31m", Op: "=torch.mul", ForwardID: &id, Phase: "forward", Target: "output[0]",
			Verdict: verdict.Fail, Reason: "wrong & \"bad\"",
			Allclose: &yes, Cosine: Num(math.NaN()), MaxAbs: Num(math.Inf(1)), MaxRel: Num(-0.5), MaxULP: Num(7),
			ATol: Num(1e-5), RTol: Num(1e-5),
			Mismatch: &bad, Numel: &n, Rule: &rule, Worst: []int{1, 0}, Actual: json.RawMessage(`"-inf"`),
			Expected: json.RawMessage("2.5"), DType: &dtype, Shape: []int{2, 2}, Repro: &repro, Label: "output",
		},
		{Capture: "<b>|`@x`\x1b[31m", Op: "=torch.mul", Phase: "backward", Verdict: verdict.Skipped,
			Reason: "random op"},
	} {
		s.Add(r)
		if err := j.Result(r); err != nil {
			t.Fatal(err)
		}
	}
	s.Elapsed, s.Exit = 1500*time.Millisecond, 1
	if err := j.Summary(s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func readRecorded(t *testing.T, text string) *Recording {
	t.Helper()
	rec, err := ReadRecording(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestRecordingRoundTrip(t *testing.T) {
	text := recorded(t)
	rec := readRecorded(t, text)
	var b bytes.Buffer
	j := NewJSONLines(&b)
	if err := j.Run(rec.Run); err != nil {
		t.Fatal(err)
	}
	for r := range rec.Results.All() {
		if err := j.Result(r); err != nil {
			t.Fatal(err)
		}
	}
	rec.Summary.Exit = *rec.Exit
	if err := j.Summary(rec.Summary); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(text, "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("written, read and written again:\n%s", diff)
	}
	var shown strings.Builder
	for f := range rec.Findings() {
		if f.Bad() {
			if err := f.Write(&shown, Style{Tables: true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, want := range []string{"FAIL  =torch.mul, id 3\n  capture  <b>|`@x`\\x1b[31m\n",
		"  output[0] fail, float32 [2, 2]: wrong & \"bad\"\n", "  again    optool replay '<x>' ```\n", "| =torch.mul output "} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("finding lacks %q:\n%s", want, shown.String())
		}
	}
}

func TestRecordingThatDidNotEnd(t *testing.T) {
	text := recorded(t)
	cut := text[:strings.LastIndex(strings.TrimSpace(text), "\n")-5] // within the last result
	rec := readRecorded(t, cut)
	if rec.Summary.Total() != 2 || rec.Last != nil || rec.Exit != nil || !rec.Summary.Interrupted {
		t.Errorf("got %d results, last %s, interrupted %v", rec.Summary.Total(), rec.Last, rec.Summary.Interrupted)
	}
}

func TestRecordingErrors(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "line 1: want the line of kind \"run\""},
		{"hello", "line 1: no JSON object"},
		{`{"kind":"result"}`, `line 1: want the line of kind "run" that --json FILE begins with, found kind "result"`},
		{`{"kind":"run","schema":2}`, "line 1: schema: want 1, found 2"},
		{"{\"kind\":\"run\",\"schema\":1}\n{\"kind\":\"result\",\"verdict\":\"good\"}\n",
			`line 2: verdict: unknown "good"`},
		{"{\"kind\":\"run\",\"schema\":1}\n{\n{}\n", "line 2: no JSON object"},
		{recorded(t) + recorded(t), "another run begins"}, // of which the last would give the exit code
		{"{\"kind\":\"run\",\"schema\":1}\n{\"kind\":\"result\",\"verdict\":\"pass\",\"atol\":\"many\"}\n",
			"line 2: want a number"},
		{"{\"kind\":\"run\",\"schema\":1}\n{\"kind\":\"result\",\n{}\n", "line 2: no JSON object"},
	} {
		_, err := ReadRecording(strings.NewReader(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got error %v, want %q", tc.text, err, tc.want)
		}
	}
}

func TestRecordedTimings(t *testing.T) {
	id := 4
	want := &Timing{
		Capture: "a", Op: "torch.add", ForwardID: &id, Phase: "forward", Shapes: "float32[2]", Calls: 2, Bytes: 24,
		Flops: 2, Peak: Peak{Bandwidth: 1e9},
		Series: &timing.Series{Cache: timing.Hot, Clock: timing.HostClock, Samples: timing.Samples(30, 10, 20),
			Warmup: 1, Stop: timing.StopRuns},
	}
	var b bytes.Buffer
	j := NewJSONLines(&b)
	if err := j.Run(Run{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one is another series of the same call
		if err := j.Timing(want); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Write(timingSample{timingHead: timingHead{Kind: "timing", Op: "torch.mul"}, Run: 1,
		Elapsed: 5}); err != nil {
		t.Fatal(err)
	}
	rec := readRecorded(t, b.String())
	if len(rec.Timings) != 3 {
		t.Fatalf("%d series, want 3", len(rec.Timings))
	}
	for _, got := range rec.Timings[:2] {
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(timing.Series{})); diff != "" {
			t.Error(diff)
		}
	}
	if last := rec.Timings[2]; last.Series.Stop != timing.StopCanceled || len(last.Series.Samples) != 1 {
		t.Errorf("series without summary: %+v", last.Series)
	}
	rows := slices.Collect(rec.ResultSheet().Rows)
	if got := rows[0][slices.Index(rec.ResultSheet().Columns, "median_ns")]; got != 20 {
		t.Errorf("median_ns: got %v, want 20", got)
	}
}

func TestWriteCSV(t *testing.T) {
	rec := readRecorded(t, recorded(t))
	var b bytes.Buffer
	if err := WriteCSV(&b, rec.ResultSheet()); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, error %v", len(rows), err)
	}
	at := func(name string) string { return rows[2][slices.Index(rows[0], name)] }
	for name, want := range map[string]string{
		"op": "'=torch.mul", "cosine_similarity": "nan", "max_abs_diff": "inf", "max_relative_diff": "-0.5",
		"worst_index": "[1, 0]",
		"actual":      "-inf", "expected": "2.5", "shape": "[2, 2]", "allclose": "false", "forward_id": "3",
		"reason": `wrong & "bad"`,
	} {
		if at(name) != want {
			t.Errorf("%s: got %q, want %q", name, at(name), want)
		}
	}
	var first map[string]any
	line := strings.Split(recorded(t), "\n")[1]
	if err := json.Unmarshal([]byte(line), &first); err != nil {
		t.Fatal(err)
	}
	for name := range first {
		if name != "kind" && !slices.Contains(rows[0], name) {
			t.Errorf("no column for the field %s", name)
		}
	}
}

func TestWriteJUnit(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJUnit(&b, readRecorded(t, recorded(t))); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Cases []junitCase `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 3 || got.Failures != 1 || got.Skipped != 1 || got.Errors != 0 || len(got.Suites) != 2 {
		t.Errorf("got %+v", got)
	}
	f := got.Suites[1].Cases[0].Failure
	if f == nil || f.Message != `wrong & "bad"` ||
		!strings.Contains(f.Text, "worst element: [1, 0]\nactual: -inf\nexpected: 2.5\nmismatched: 1 of 4\n") {
		t.Errorf("failure %+v", f)
	}
}

// TestJUnitNames: a case has the same name in two runs of a program, whose directories have another process number and
// date, and two values of one run have two names.
func TestJUnitNames(t *testing.T) {
	names := func(dir string, pid int) (all []string) {
		var lines, out bytes.Buffer
		j := NewJSONLines(&lines)
		err := j.Run(Run{})
		for i, target := range []string{"output[0]", "grad[0]", "output[0]", "output[0]"} {
			n, path := i/2+1, fmt.Sprintf("%s/%d", dir, i/2)
			if i == 3 { // another process
				n, path = 2, dir+"/other"
			}
			err = errors.Join(err, j.Result(&Result{Capture: path, Op: "torch.mm", Phase: "forward", Target: target,
				Verdict: verdict.Fail, PID: &pid, Occurrence: &n}))
		}
		rec := readRecorded(t, lines.String())
		rec.Summary.Interrupted = false // as the run's last line is missing
		if err := errors.Join(err, WriteJUnit(&out, rec)); err != nil {
			t.Fatal(err)
		}
		for _, c := range strings.Split(out.String(), "<testcase ")[1:] {
			name, rest, _ := strings.Cut(c, ">")
			all = append(all, name)
			if want := `<property name="capture" value="` + dir; !strings.Contains(rest, want) {
				t.Errorf("%s: no %s", name, want)
			}
		}
		return all
	}
	one, two := names("10-2026-01-01", 10), names("11-2026-01-02", 11)
	want := []string{`classname="torch.mm" name="call 1 forward output[0]"`,
		`classname="torch.mm" name="call 1 forward grad[0]"`,
		`classname="torch.mm" name="call 2 forward output[0]"`, `classname="torch.mm" name="call 2 forward output[0] (2)"`}
	if !slices.Equal(one, want) || !slices.Equal(two, want) {
		t.Errorf("got\n%q and\n%q, want\n%q", one, two, want)
	}
}

// TestColons: a colon is a reference only where it would begin an emoji or belong to an address.
func TestColons(t *testing.T) {
	for text, want := range map[string]string{
		"train.py:29, output[0]: off": "train.py:29, output\\[0\\]: off",
		"train.py:100: off":           "train.py&#58;100: off",
		"softmax/8 > add/9":           "softmax/8 > add/9",
		"> quoted":                    "&#62; quoted",
		":smile:":                     "&#58;smile:",
		"https://x":                   "https&#58;//x",
	} {
		if got := escapeMarkdown(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestWriteMarkdown(t *testing.T) {
	var b strings.Builder
	if err := WriteMarkdown(&b, readRecorded(t, recorded(t))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"### ❌ 1 of 2 calls fail, 1 pass.\n", "\n2 captures: 1 pass, 1 fail, 1.50 s\n", "\n| op | pass | fail | worst |\n",
		"capture &#60;b&#62;&#124;\\`&#64;x\\`\\\\x1b\\[31m\n",
		"````sh\noptool replay '<x>' ```\n````\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "<b>") || strings.Contains(b.String(), "torch.add") {
		t.Errorf("a name is not escaped, or an op that passed is in the table:\n%s", b.String())
	}
}

// TestCausesInReports: what a reader of a pipeline sees of a finding has its cause, or what its
// errors depend on.
// TestManyCauses: those that no run writes, since it explains few findings, are not held, and that is said.
func TestManyCauses(t *testing.T) {
	const line = `{"kind":"cause","capture":"c/1","op":"torch.exp","targets":["output[0]"],"text":"eps is 0"}` + "\n"
	const fit = maxExplanations / len(line)
	for _, n := range []int{fit, 4 * fit} {
		rec := readRecorded(t, `{"kind":"run","schema":1,"command":["optool","replay"]}
{"kind":"result","capture":"c/1","op":"torch.exp","forward_id":3,"phase":"forward","target":"output[0]","verdict":"fail","reason":"off","order":1}
`+strings.Repeat(line, n))
		if len(rec.Causes) != fit || rec.LeftOut != n-fit {
			t.Errorf("%d of %d causes are held, %d left out; want %d held", len(rec.Causes), n, rec.LeftOut, fit)
		}
		var b strings.Builder
		if err := WriteMarkdown(&b, rec); err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(b.String(), "are left out: the first 4.0 MiB are shown"); said != (n > fit) {
			t.Errorf("of %d causes %d are held, that the others are left out is said: %v", n, len(rec.Causes), said)
		}
	}
}

func TestCausesInReports(t *testing.T) {
	rec := readRecorded(t, `{"kind":"run","schema":1,"command":["optool","replay"]}
{"kind":"result","capture":"c/1","op":"torch.exp","forward_id":3,"phase":"forward","target":"output[0]","verdict":"fail","reason":"off","order":1}
{"kind":"result","capture":"c/2","op":"torch.sin","forward_id":4,"phase":"forward","target":"output[0]","verdict":"fail","reason":"off too","order":2}
{"kind":"cause","capture":"c/1","op":"torch.exp","forward_id":3,"targets":["output[0]"],"text":"self is limited","exact":true}
{"kind":"cause","capture":"c/2","op":"torch.sin","forward_id":4,"targets":["output[0]"],"text":"wrong only where self is above 3","exact":false,"pattern":true}
`)
	digest := NewDigest(nil)
	for f := range rec.Findings() {
		digest.Add(f)
	}
	for _, tc := range []struct {
		name  string
		write func(io.Writer) error
		want  []string
	}{
		{"markdown", func(w io.Writer) error { return WriteMarkdown(w, rec) }, []string{
			"- cause: **output\\[0\\] reproduced exactly if self is limited**\n",
			"- pattern: **output\\[0\\] is wrong only where self is above 3**\n"}},
		{"junit", func(w io.Writer) error { return WriteJUnit(w, rec) }, []string{
			"cause: output[0] reproduced exactly if self is limited", "pattern: output[0] is wrong only where self is above 3"}},
		{"annotations", digest.WriteAnnotations, []string{
			"::output[0] fail: off%0Acause: output[0] reproduced exactly if self is limited\n",
			"::output[0] fail: off too%0Apattern: output[0] is wrong only where self is above 3\n"}},
		{"text", func(w io.Writer) error { return digest.Write(w, Style{}) }, []string{
			"\n  cause    output[0] reproduced exactly if self is limited\n",
			"\n  pattern  output[0] is wrong only where self is above 3\n"}},
	} {
		var b strings.Builder
		if err := tc.write(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s lacks %q:\n%s", tc.name, want, b.String())
			}
		}
	}
}
