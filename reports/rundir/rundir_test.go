package rundir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/filelock"
	"github.com/optool/optool/reports"
)

func settings() *Settings {
	return &Settings{Command: "replay", Version: "1", Paths: []string{"tree"}, Host: "here", Start: time.Now()}
}

func noCalls(*reports.JournalCall) error { return nil }

// begin writes a run of so many finished calls, and one that was begun.
func begin(t *testing.T, root string, part *Part, calls ...int) {
	t.Helper()
	d, err := Open(root, settings(), Options{Part: part})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	j, err := d.Continue()
	if err != nil {
		t.Fatal(err)
	}
	lines := reports.NewJSONLines(j)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(lines.Run(reports.Run{Command: []string{"optool", "replay", "--shard", "x"}, Start: time.Now()}))
	for _, i := range calls {
		finish(t, j, i)
	}
	check(j.Begin(call(99)))
	check(lines.Result(result(99))) // what is not done is lost
	check(j.Flush())
	check(j.Close())
}

func call(i int) string { return fmt.Sprint("call", i) }

func result(i int) *reports.Result {
	return &reports.Result{Capture: call(i), Op: "torch.add", Phase: "forward", Target: "output[0]",
		Verdict: verdict.Pass}
}

func finish(t *testing.T, j *Journal, i int) {
	t.Helper()
	if err := j.Begin(call(i)); err != nil {
		t.Fatal(err)
	}
	lines := reports.NewJSONLines(j)
	done := &reports.Done{Capture: call(i), Index: i, Results: 1}
	for _, err := range []error{lines.Result(result(i)), lines.Done(done), j.Flush()} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Wherever a journal is cut off, the finished calls before are kept and the run goes on
// after the last of them.
func TestResumeAfterAnyCut(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "run")
	begin(t, whole, nil, 0, 1, 2)
	text, err := os.ReadFile(filepath.Join(whole, journalFile))
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{} // of the lines that end a call
	for i := range text {
		if text[i] == '\n' {
			from := strings.LastIndexByte(string(text[:i]), '\n') + 1
			if strings.HasPrefix(string(text[from:]), `{"kind":"done"`) {
				ends = append(ends, i+1)
			}
		}
	}
	if len(ends) != 3 {
		t.Fatalf("%d calls in the journal, want 3", len(ends))
	}
	first := strings.IndexByte(string(text), '\n') + 1
	for _, tail := range []string{"", "\x00\x00\x00\x00", "{\"kind\":\"res"} {
		for cut := first; cut <= len(text); cut += 1 + cut%13 {
			err := os.WriteFile(filepath.Join(whole, journalFile), append(text[:cut:cut], tail...), 0o666)
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			for _, end := range ends {
				if cut >= end {
					want++
				}
			}
			var got []string
			keep := func(c *reports.JournalCall) error {
				got = append(got, c.Capture)
				return nil
			}
			d, err := Open(whole, settings(), Options{Resume: true, Call: keep})
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			if len(got) != want || len(d.InFlight) != 3-want+1 {
				t.Errorf("cut at %d: %d calls finished, in flight %v; want %d finished", cut, len(got), d.InFlight,
					want)
			}
			d.Close()
		}
	}

	// It goes on, and what is read is each call once.
	d, err := Open(whole, settings(), Options{Resume: true, Call: noCalls})
	if err != nil {
		t.Fatal(err)
	}
	j, err := d.Continue()
	if err != nil {
		t.Fatal(err)
	}
	finish(t, j, 3)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	d.Close()
	rec, lacks, err := Read(whole)
	if err != nil || len(lacks) > 0 {
		t.Fatal(lacks, err)
	}
	if n := rec.Summary.Total(); n != 4 || !rec.Summary.Interrupted {
		t.Errorf("%d results, interrupted %v; want 4 of a run that did not end", n, rec.Summary.Interrupted)
	}
}

// What a directory is opened for has to be what it holds.
func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, root string)
		with func(s *Settings, o *Options)
		want string
	}{
		{"a run", func(t *testing.T, root string) { begin(t, root, nil, 0) }, nil, "--resume goes on with it"},
		{"another dtype", func(t *testing.T, root string) { begin(t, root, nil, 0) },
			func(s *Settings, o *Options) { o.Resume, s.Flags = true, map[string]string{"--dtype": "float16"} },
			`begun without --dtype, now it is "float16"`},
		{"another version", func(t *testing.T, root string) { begin(t, root, nil, 0) },
			func(s *Settings, o *Options) { o.Resume, s.Version = true, "2" }, `begun with optool "1", now it is "2"`},
		{"other files", func(t *testing.T, root string) {
			if err := os.WriteFile(filepath.Join(root, "mine"), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}, nil, "not empty and no run directory: it has mine"},
		{"parts of another number", func(t *testing.T, root string) { begin(t, root, &Part{1, 8}, 0) },
			func(s *Settings, o *Options) { o.Part = &Part{1, 4} }, "parts of a run in 8, not in 4"},
		{"parts", func(t *testing.T, root string) { begin(t, root, &Part{1, 8}, 0) }, nil, "--shard I/8"},
		{"a run without parts", func(t *testing.T, root string) { begin(t, root, nil, 0) },
			func(s *Settings, o *Options) { o.Part = &Part{1, 4} }, "without parts"},
		{"in use", func(t *testing.T, root string) {
			l, err := acquire(root, "here", nil)
			if err != nil {
				t.Fatal(err)
			}
			os.WriteFile(filepath.Join(root, "written-by-optool"), nil, 0o666)
			t.Cleanup(l.release)
		}, nil, fmt.Sprintf("in use by process %d on here", os.Getpid())},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, s, o := t.TempDir(), settings(), Options{Call: noCalls}
			c.make(t, root)
			if c.with != nil {
				c.with(s, &o)
			}
			d, err := Open(root, s, o)
			if err == nil {
				d.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// A lock that nobody holds is taken over, whatever its file says; one of another host only
// if it is not renewed.
func TestStaleLock(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, lockFile)
	write := func(host string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(name, fmt.Appendf(nil, `{"host":%q,"pid":%d}`, host, os.Getpid()), 0o600); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(name, then, then); err != nil {
			t.Fatal(err)
		}
	}
	write("here", 0) // killed: this host's locks end with the process
	l, err := acquire(dir, "here", nil)
	if err != nil {
		t.Fatal(err)
	}
	l.release()
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the lock's file is left: %v", err)
	}
	write("there", time.Hour)
	if l, err = acquire(dir, "here", func(s string) { t.Errorf("waits: %s", s) }); err != nil {
		t.Fatal(err)
	}
	l.release()

	write("there", 0)
	told := ""
	_, err = acquire(dir, "here", func(s string) {
		told = s
		go func() { // it lives
			time.Sleep(watchEvery)
			now := time.Now().Add(time.Second)
			os.Chtimes(name, now, now)
		}()
	})
	if err == nil || !strings.Contains(err.Error(), "in use by process") || !strings.Contains(told, "on there") {
		t.Errorf("a live lock of another host: error %v, told %q", err, told)
	}
	if h := readHolder(name); h == nil || h.Host != "there" {
		t.Errorf("its file was changed to %v", h)
	}
	held, err := filelock.Try(name, true)
	if err != nil {
		t.Fatalf("its file is locked: %v", err)
	}
	held.Release()
}

// Parts are one run, in its order; what is missing is said.
func TestReadParts(t *testing.T) {
	root := filepath.Join(t.TempDir(), "run")
	begin(t, root, &Part{1, 4}, 0, 5)
	begin(t, root, &Part{3, 4}, 2, 4)
	begin(t, root, &Part{2, 4})
	if err := os.Truncate(filepath.Join(root, shardsDir, "2-of-4", journalFile), 3); err != nil {
		t.Fatal(err)
	}
	rec, lacks, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := range rec.Results.All() {
		got = append(got, r.Capture)
	}
	if fmt.Sprint(got) != "[call0 call2 call4 call5]" || !rec.Summary.Interrupted {
		t.Errorf("results of %v, interrupted %v", got, rec.Summary.Interrupted)
	}
	want := "part 1/4 did not end: 2 calls finished; part 2/4 is missing: it has begun nothing; " +
		"part 3/4 did not end: 2 calls finished; part 4/4 is missing"
	if s := strings.Join(lacks, "; "); s != want {
		t.Errorf("lacks %q,\nwant  %q", s, want)
	}
	many := filepath.Join(t.TempDir(), "run")
	begin(t, many, &Part{5, 1e9}, 0)
	if _, lacks, err = Read(many); err != nil {
		t.Fatal(err)
	}
	want = "part 5/1000000000 did not end: 1 call finished; parts 1 to 4/1000000000 are missing; " +
		"parts 6 to 1000000000/1000000000 are missing"
	if s := strings.Join(lacks, "; "); s != want {
		t.Errorf("lacks %q,\nwant  %q", s, want)
	}
	if c := strings.Join(rec.Run.Command, " "); c != "optool replay" {
		t.Errorf("command %q, want it without its part", c)
	}

	begin(t, filepath.Join(t.TempDir(), "run"), nil, 1)
	other := filepath.Join(t.TempDir(), "run")
	begin(t, other, &Part{4, 4}, 5)
	if _, _, err = Read(root, other); err == nil || !strings.Contains(err.Error(), "two parts have call 5") {
		t.Errorf("parts that overlap: error %v", err)
	}
	if _, _, err = Read(root, root); err == nil || !strings.Contains(err.Error(), "there twice") {
		t.Errorf("the same directory twice: error %v", err)
	}
}

// TestPartsAtOnce: parts that begin at the same time do not take each other's beginnings for
// something else.
func TestPartsAtOnce(t *testing.T) {
	for range 50 {
		root := filepath.Join(t.TempDir(), "run")
		if err := os.MkdirAll(filepath.Join(root, logsDir), 0o777); err != nil {
			t.Fatal(err)
		}
		start, errs := make(chan struct{}), make(chan error)
		const n = 16
		for i := range n {
			go func() {
				<-start
				d, err := Open(root, settings(), Options{Part: &Part{i + 1, n}, Call: noCalls})
				if err == nil {
					d.Close()
				}
				errs <- err
			}()
		}
		close(start)
		for range n {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
}

// What a process that died has left is removed by the next.
func TestTemporaryFiles(t *testing.T) {
	root := filepath.Join(t.TempDir(), "run")
	begin(t, root, nil, 0)
	for _, name := range []string{".run.html.123", "run.sqlite.77.tmp", "run.html"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(root, settings(), Options{Resume: true, Call: noCalls})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	names, err := filepath.Glob(filepath.Join(root, "*run.*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	if fmt.Sprint(names) != "[run.html run.jsonl]" {
		t.Errorf("left are %v", names)
	}
}

func TestParsePart(t *testing.T) {
	for s, ok := range map[string]bool{"1/1": true, "3/8": true, "8/8": true, "0/8": false, "9/8": false, "": false,
		"1": false, "1/8/9": false, "a/8": false, "-1/8": false} {
		if p, err := ParsePart(s); (err == nil) != ok || ok && p.String() != s {
			t.Errorf("%q: part %v, error %v", s, p, err)
		}
	}
}
