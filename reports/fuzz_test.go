package reports

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/timing"
)

// FuzzReadRecording reads JSON lines of runs. What was read is shown in every
// format, and written again as lines that read as the same.
func FuzzReadRecording(f *testing.F) {
	const run = `{"kind":"run","schema":1,"command":["optool"]}` + "\n"
	for _, lines := range []string{
		"", "{}", run, run + "{", run + `{"kind":"new"}`, run + `{"kind":"result","verdict":"good"}` + "\n\n",
		run + `{"kind":"result","verdict":"fail","capture":"a","op":"torch.add","max_ulp":"inf","worst_index":[1],` +
			`"actual":"nan","expected":[],"shape":[-1],"nan":1,"functions":["diopiAdd"]}` + "\n" +
			`{"kind":"summary","elapsed_s":1e300,"exit_code":1}`,
		run + `{"kind":"timing","op":"torch.add","phase":"forward","cache":"hot","clock":"host","run":1,` +
			`"elapsed_ns":-5,"round":-1}` + "\n" + `{"kind":"timing_summary","op":"torch.add","phase":"forward",` +
			`"cache":"hot","bytes":1e308,"peak_bytes_per_s":1e-308,"calls":-1,"stop_reason":"settled"}`,
		run + `{"kind":"timing","cache":"cold","run":1,"elapsed_ns":9223372036854775807}` + "\n" +
			`{"kind":"timing","cache":"cold","run":2,"elapsed_ns":9223372036854775807}`,
	} {
		f.Add([]byte(lines))
	}
	f.Add([]byte(recorded(f)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var rec *Recording
		var err error
		fuzzcheck.Bounded(t, len(data), 1<<13, func() { rec, err = ReadRecording(bytes.NewReader(data)) })
		fuzzcheck.Sentence(t, err)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") && !strings.HasPrefix(err.Error(), "summary: ") {
				t.Errorf("the error names no line: %v", err)
			}
			return
		}
		fuzzcheck.Bounded(t, len(data), 1<<16, func() { show(t, rec) })
		once := rewritten(t, rec)
		again, err := ReadRecording(bytes.NewReader(once))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, once)
		}
		if twice := rewritten(t, again); !bytes.Equal(once, twice) {
			t.Errorf("read, written and read again, the run changes:\n%s\n%s", once, twice)
		}
	})
}

// show writes rec in the formats of this package.
func show(t *testing.T, rec *Recording) {
	write := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for f := range rec.Findings() {
		write(f.Write(io.Discard, Style{Width: 80, TableWidth: 80, Tables: true}))
	}
	write(rec.Summary.Write(io.Discard, Style{Width: 80}))
	write(WriteCSV(io.Discard, rec.ResultSheet()))
	write(WriteCSV(io.Discard, rec.OpSheet()))
	write(WriteCSV(io.Discard, rec.SummarySheet()))
	write(WriteJUnit(io.Discard, rec))
	write(WriteMarkdown(io.Discard, rec))
	write(Trace(io.Discard, "host", rec.Timings))
	write(GoBenchmark(io.Discard, "host", rec.Timings))
	for _, cache := range []timing.Cache{timing.Cold, timing.Hot} {
		write(WriteAverages(io.Discard, 80, Averages(rec.Timings, cache, true, "self", nil), true, 10))
	}
	for _, s := range rec.Timings {
		write(Histogram(io.Discard, 80, s.Series))
	}
}

func rewritten(t *testing.T, rec *Recording) []byte {
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
	for _, s := range rec.Timings {
		if err := j.Timing(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Summary(rec.Summary); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
