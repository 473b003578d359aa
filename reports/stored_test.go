package reports

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/verdict"
)

// numbered is JSON lines of n results that say which they are, with texts of this length.
func numbered(t *testing.T, n, length int) string {
	t.Helper()
	var b bytes.Buffer
	j := NewJSONLines(&b)
	if err := j.Run(Run{}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := j.Result(&Result{Capture: fmt.Sprint("call", i), Op: "torch.add", Order: &i, Verdict: verdict.Pass,
			Reason: strings.Repeat("x", i%7*length)}); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// TestResultsInOrder: many blocks are decoded side by side, lines longer than a block among
// them; as often as one looks, and up to where one stops.
func TestResultsInOrder(t *testing.T) {
	for _, length := range []int{10, blockSize} {
		n := 400000 / (length + 40)
		rec := readRecorded(t, numbered(t, max(n, 20), length))
		for _, stop := range []int{1, max(n, 20) / 2, max(n, 20)} {
			i := 0
			for r := range rec.Results.All() {
				if *r.Order != i || len(r.Reason) != i%7*length {
					t.Fatalf("result %d is number %d with %d characters", i, *r.Order, len(r.Reason))
				}
				if i++; i == stop {
					break
				}
			}
			if i != stop || rec.Results.Err() != nil {
				t.Errorf("%d results, error %v; want %d", i, rec.Results.Err(), stop)
			}
		}
	}
}

// TestRecordingOutOfOrder: calls that were finished in another order than that of the run are
// put in order; those that nothing says are finished come last.
func TestRecordingOutOfOrder(t *testing.T) {
	lines := strings.SplitAfter(numbered(t, 6, 3), "\n")
	done := func(i int) string { return fmt.Sprintf("{\"kind\":\"done\",\"index\":%d,\"results\":1}\n", i) }
	text := lines[0] + lines[3] + done(2) + lines[1] + lines[2] + done(0) + lines[6] + done(5) + lines[4] + lines[5]
	var got []int
	for r := range readRecorded(t, text).Results.All() {
		got = append(got, *r.Order)
	}
	if want := []int{0, 1, 2, 5, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestResultThatDoesNotRead(t *testing.T) {
	text := numbered(t, 5000, 30)
	at := strings.Index(text, `"capture":"call4000"`)
	text = text[:at] + "x" + text[at+1:]
	if _, err := ReadRecording(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), "line 4002: ") {
		t.Errorf("got error %v, want one of line 4002", err)
	}
}

// A fading reads as text until it is told to fail.
type fading struct {
	*strings.Reader
	err error
}

func (f *fading) ReadAt(b []byte, at int64) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.Reader.ReadAt(b, at)
}

// TestResultsThatCannotBeReadAgain: writers do not take what is left for all.
func TestResultsThatCannotBeReadAgain(t *testing.T) {
	f := &fading{Reader: strings.NewReader(numbered(t, 100, 30))}
	rec, err := ReadRecording(f)
	if err != nil {
		t.Fatal(err)
	}
	f.err = errors.New("the disk is gone")
	for r := range rec.Results.All() {
		t.Fatalf("%s was read", r.Capture)
	}
	if !errors.Is(rec.Results.Err(), f.err) {
		t.Errorf("got error %v, want %v", rec.Results.Err(), f.err)
	}
}

// TestResultsOfAFileThatShrinks: what is gone is not taken for nothing.
func TestResultsOfAFileThatShrinks(t *testing.T) {
	text := numbered(t, 100, 30)
	f := &fading{Reader: strings.NewReader(text)}
	rec, err := ReadRecording(f)
	if err != nil {
		t.Fatal(err)
	}
	f.Reader = strings.NewReader(text[:len(text)/2])
	for r := range rec.Results.All() {
		t.Fatalf("%s was read", r.Capture)
	}
	if err := rec.Results.Err(); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("got error %v, want one that says that the file is shorter", err)
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
	if r.reads++; r.reads%50 == 0 {
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

// TestMemoryOfReports: what is held while results are written does not grow with their number.
func TestMemoryOfReports(t *testing.T) {
	lines := strings.SplitAfter(numbered(t, 2, 0), "\n")
	const n = 25000
	file := &repeated{first: lines[0], line: lines[1] + lines[2], times: n}
	rec, err := ReadRecording(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(io.Writer) error{
		"csv":      func(w io.Writer) error { return WriteCSV(w, rec.ResultSheet()) },
		"junit":    func(w io.Writer) error { return WriteJUnit(w, rec) },
		"markdown": func(w io.Writer) error { return WriteMarkdown(w, rec) },
	} {
		before := heapInUse()
		file.reads, file.most = 0, 0
		if err := write(io.Discard); err != nil {
			t.Fatal(err)
		}
		if file.most == 0 || file.most > before+16<<20 {
			t.Errorf("%s: %s are held before, %s while %s are read", name, Bytes(int64(before)),
				Bytes(int64(file.most)), Bytes(n*int64(len(file.line))))
		}
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
