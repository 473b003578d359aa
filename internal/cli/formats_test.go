package cli

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// A fullDisk takes so many bytes and no more.
type fullDisk int

var errFull = errors.New("no space left on device")

func (d *fullDisk) Write(b []byte) (int, error) {
	if *d -= fullDisk(len(b)); *d < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// TestReportFormats: each format writes a run, says where it could not, and is in the
// documents.
func TestReportFormats(t *testing.T) {
	result := &reports.Result{Capture: "a/b", Op: "torch.add", Phase: "forward", Target: "output[0]",
		Verdict: verdict.Fail, Reason: "all of them"}
	exit := 1
	rec := &reports.Recording{Results: reports.ResultsOf(result), Last: []byte("{}"), Summary: reports.NewSummary(),
		Exit: &exit}
	rec.Summary.Add(result)
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range reportFormats {
		t.Run(f.name, func(t *testing.T) {
			if !strings.Contains(string(doc), "| `--"+f.name+"` |") {
				t.Error("docs/formats.md has no row for it")
			}
			if f.file != nil {
				path := filepath.Join(t.TempDir(), "report")
				if err := f.file(path, rec, nil); err != nil {
					t.Fatal(err)
				}
				if info, err := os.Stat(path); err != nil || info.Size() == 0 {
					t.Errorf("%v, %v: nothing was written", info, err)
				}
				if err := f.file(filepath.Join(path, "below", "a file"), rec, nil); err == nil {
					t.Error("a file below a file: no error")
				}
				return
			}
			var b bytes.Buffer
			if err := f.write(&b, rec, nil); err != nil {
				t.Fatal(err)
			}
			if b.Len() == 0 {
				t.Error("nothing was written")
			}
			for _, room := range []fullDisk{0, 100} {
				if err := f.write(&room, rec, nil); !errors.Is(err, errFull) {
					t.Errorf("a full disk: %v", err)
				}
			}
		})
	}
}

// recordingOf is what optool report reads of these lines.
func recordingOf(t *testing.T, lines ...string) *reports.Recording {
	t.Helper()
	rec, err := reports.ReadRecording(strings.NewReader(`{"kind":"run","schema":1,"command":["optool"]}` + "\n" +
		strings.Join(lines, "\n") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// textOf is what a report holds, unpacked if it is an archive.
func textOf(t *testing.T, f *reportFormat, rec *reports.Recording) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report")
	if err := writeReports(nil, rec, nil, reportFiles{{f, &path}}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return html.UnescapeString(string(b))
	}
	var text strings.Builder
	for _, file := range archive.File {
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&text, r); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	return html.UnescapeString(text.String())
}

// TestReportsAreWhole: a report has what a recording is made of: results, causes of findings, what the
// calls of an operator say together, and series of measurements, but for what is named here.
func TestReportsAreWhole(t *testing.T) {
	const place = `"op":"torch.exp","forward_id":3,"phase":"forward"`
	judged := []string{
		`{"kind":"result","capture":"c/failed",` + place + `,"target":"output[0]","verdict":"fail",` +
			`"reason":"far off","order":1}`,
		`{"kind":"cause","capture":"c/failed",` + place + `,"targets":["output[0]"],` +
			`"text":"self is limited","exact":true}`,
	}
	for i := range 100 {
		judged = append(judged, fmt.Sprintf(`{"kind":"result","capture":"c/%d","op":"torch.tanh","phase":"forward",`+
			`"target":"output","dtype":"float32","verdict":"pass","order":%d,`+
			`"errors":{"factor":%g,"factor_error":%g}}`, i, i+2, 0x1p-22, 0x1p-23))
	}
	const series = `"capture":"c/measured","op":"torch.sin","phase":"forward","cache":"hot","clock":"host"`
	measured := []string{
		`{"kind":"timing",` + series + `,"run":1,"elapsed_ns":10000,"round":0}`,
		`{"kind":"timing_summary",` + series + `,"n":1,"calls":1,"stop_reason":"run_times"}`,
	}
	const cause, together = "a cause", "what calls say together"
	lacks := map[string][]string{"csv": {together}, "csv-bom": {together}, // of results alone, without a summary
		"write-known": {"a reason", cause, together, "a series"}} // names and sizes of failures
	for i := range reportFormats {
		f := &reportFormats[i]
		judgement, times := textOf(t, f, recordingOf(t, judged...)), textOf(t, f, recordingOf(t, measured...))
		for _, tc := range []struct{ what, text, want string }{
			{"a result", judgement, "torch.exp"},
			{"a reason", judgement, "far off"},
			{cause, judgement, "self is limited"},
			{together, judgement, "all together"},
			{"a series", times, "torch.sin"},
		} {
			has, may := strings.Contains(tc.text, tc.want), slices.Contains(lacks[f.name], tc.what)
			if has == may {
				t.Errorf("--%s: it has %s (%q): %t; lacks of this test permits it to have none: %t", f.name, tc.what,
					tc.want, has, may)
			}
		}
	}
}

// A repeated is lines after the first, as often as times says. It notes how much is held while it is read.
type repeated struct {
	first, line string
	times       int64
	reads       int
	most        uint64 // bytes
}

func (r *repeated) ReadAt(b []byte, at int64) (n int, err error) {
	if r.reads++; r.reads%10 == 0 {
		r.most = max(r.most, heapInUse())
	}
	for n < len(b) {
		rest := r.first
		if at >= int64(len(r.first)) {
			if at-int64(len(r.first)) >= r.times*int64(len(r.line)) {
				return n, io.EOF
			}
			rest = r.line[(at-int64(len(r.first)))%int64(len(r.line)):]
		} else {
			rest = rest[at:]
		}
		k := copy(b[n:], rest)
		n, at = n+k, at+int64(k)
	}
	return n, nil
}

// TestMemoryOfReports: what is held while results are written does not grow with their number. It runs in a process of
// its own: calls that other tests gave up still hold and free memory here.
func TestMemoryOfReports(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector holds memory too")
	}
	const alone = "OPTOOL_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "^TestMemoryOfReports$")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	line := func(i int) string {
		return fmt.Sprintf(`{"kind":"result","capture":"call%d","op":"torch.add","verdict":"pass","order":%d,`+
			`"reason":"%s"}`+"\n", i, i, strings.Repeat("x", 200))
	}
	const n = 25000
	file := &repeated{first: `{"kind":"run","schema":1}` + "\n", line: line(0) + line(1), times: n}
	rec, err := reports.ReadRecording(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range reportFormats {
		f := &reportFormats[i]
		before := heapInUse()
		file.reads, file.most = 0, 0
		path := filepath.Join(t.TempDir(), "report")
		if err := writeReports(nil, rec, nil, reportFiles{{f, &path}}, func(string) {}); err != nil {
			t.Fatal(err)
		}
		room := uint64(16 << 20)
		if f.name == "xlsx" {
			room *= 6 // its library has each of three sheets in a buffer of up to 32 MiB before it takes a file
		}
		if file.most == 0 || file.most > before+room {
			t.Errorf("%s: %s are held before, %s while %s are read", f.name, reports.Bytes(int64(before)),
				reports.Bytes(int64(file.most)), reports.Bytes(n*int64(len(file.line))))
		}
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
