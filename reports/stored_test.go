package reports

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
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

// TestAppend: results that are appended come back in their order and as they were, those beyond the first from a file.
func TestAppend(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var r Results
	defer r.Close()
	const n = 2*maxResults + 3
	for i := range n {
		r.Append(&Result{Capture: "a", Op: fmt.Sprint(i), Verdict: verdict.Fail, Numel: &i, Label: "x",
			Stats: &Stats{NaN: i, Max: Num(math.Inf(1))}})
		if i == maxResults && len(slices.Collect(r.All())) != i+1 { // reading does not end it
			t.Fatal("results are missing")
		}
	}
	next := 0
	var sizes []int
	for part := range r.Parts() {
		sizes = append(sizes, len(part))
		for _, x := range part {
			if x.Op != fmt.Sprint(next) || *x.Numel != next || x.NaN != next || !math.IsInf(float64(*x.Max), 1) ||
				x.Label != "x" {
				t.Fatalf("result %d is %+v", next, x)
			}
			next++
		}
	}
	if r.Err() != nil || r.Len() != n || len(r.Kept()) != maxResults || !slices.Equal(sizes, []int{maxResults,
		maxResults, 3}) {
		t.Errorf("%d results, %d in memory, parts of %v, %v", r.Len(), len(r.Kept()), sizes, r.Err())
	}
}

// TestAppendWithoutRoom: results that cannot be stored are an error, not lost.
func TestAppendWithoutRoom(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	var r Results
	defer r.Close()
	for range maxResults + 2 {
		r.Append(&Result{Verdict: verdict.Pass})
	}
	if n := len(slices.Collect(r.All())); n != maxResults || r.Err() == nil {
		t.Errorf("%d results and error %v", n, r.Err())
	}
}
