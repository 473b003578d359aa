package replay_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/overflow"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/verdict"
)

// TestMutants replays and checks damaged captures: nothing dies, hangs or takes the
// memory of the machine, every error is a result, and no value of a damaged file passes
// that did not pass before. OPTOOL_MUTANTS is the number of them, 400 if it is not set.
func TestMutants(t *testing.T) {
	n := 400
	if env := os.Getenv("OPTOOL_MUTANTS"); env != "" {
		var err error
		if n, err = strconv.Atoi(env); err != nil {
			t.Fatalf("OPTOOL_MUTANTS: %v", err)
		}
	}
	quota.SetMemory(1 << 30)
	defer quota.SetMemory(0)
	dirs := sound(t)
	passed := make([]map[string]bool, len(dirs)) // of the sound captures, by need
	r := rand.New(rand.NewPCG(7, uint64(n)))
	counts := map[verdict.Verdict]int{}
	work := t.TempDir()
	for i := range n {
		k := r.IntN(len(dirs))
		if passed[k] == nil {
			passed[k] = passes(run(t, "the sound "+dirs[k], dirs[k]))
		}
		dir := filepath.Join(work, strconv.Itoa(i))
		what := damage(t, r, dirs[k], dir)
		o := run(t, fmt.Sprintf("mutant %d of %d: %s: %s", i, n, dirs[k], what), dir)
		counts[o.Verdict()]++
		for target := range passes(o) {
			if !passed[k][target] {
				t.Errorf("mutant %d of %d: %s: %s: %s passes, as it did not before", i, n, dirs[k], what, target)
			}
		}
		for _, res := range o.Results {
			if strings.Contains(res.Reason, "internal error") || strings.Contains(res.Reason, "\n") {
				t.Errorf("mutant %d of %d: %s: %s: %s", i, n, dirs[k], what, res.Reason)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d mutants: %v", n, counts)
}

// sound are directories of single captures of several kinds.
func sound(t *testing.T) []string {
	var dirs []string
	for _, tree := range []string{"autocompare", "corners", "legacy", "lm-bf16", "detection", "v1", "variants"} {
		for e, err := range capture.Scan(t.Context(), []string{"../fixtures/captures/" + tree}, capture.Options{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Layout != capture.File {
				dirs = append(dirs, e.Dir)
			}
		}
	}
	return dirs
}

// run replays and checks the first capture of a directory.
func run(t *testing.T, what, dir string) *replay.Outcome {
	t.Helper()
	done := make(chan *replay.Outcome, 1)
	go func() {
		o := &replay.Outcome{}
		for e, err := range capture.Scan(t.Context(), []string{dir}, capture.Options{}) {
			if err == nil {
				o = replay.Run(e, replay.Options{Registry: ops.Default()})
				err = replay.Guard(func() error { overflow.Check(e, pthformat.Mmap); return nil })
			}
			if err != nil && !strings.Contains(err.Error(), "memory") {
				o.Results = append(o.Results, replay.Result{Verdict: verdict.Error, Reason: err.Error()})
			}
			break
		}
		done <- o
	}()
	const patience = 2 * time.Minute // on a busy machine
	select {
	case o := <-done:
		return o
	case <-time.After(patience):
		t.Fatalf("%s: not done after %v", what, patience)
	}
	return nil
}

// passes are the values that passed.
func passes(o *replay.Outcome) map[string]bool {
	set := map[string]bool{}
	for _, r := range o.Results {
		if r.Verdict == verdict.Pass && r.Target != "" {
			set[r.Target] = true
		}
	}
	return set
}

// damage copies a capture and damages one of its files, and says how.
func damage(t *testing.T, r *rand.Rand, from, to string) string {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	var files []string
	err := filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".pth") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: files %v, %v", from, files, err)
	}
	path := files[r.IntN(len(files))]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	how, b := mutate(r, b)
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(path, to+"/") + ": " + how
}

// mutate damages the bytes of a file, or those of a record of a zip, whose checksum is
// then right again.
func mutate(r *rand.Rand, b []byte) (how string, mutant []byte) {
	if r.IntN(2) == 0 {
		if mutant, ok := rezipped(r, b); ok {
			return "a record", mutant
		}
	}
	return damaged(r, b)
}

func damaged(r *rand.Rand, b []byte) (string, []byte) {
	b = bytes.Clone(b)
	if len(b) == 0 {
		return "nothing", b
	}
	at := r.IntN(len(b))
	to := min(len(b), at+1+r.IntN(64))
	switch r.IntN(6) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
		return fmt.Sprintf("a bit of byte %d", at), b
	case 1:
		for range 1 + r.IntN(8) {
			b[r.IntN(len(b))] = byte(r.IntN(256))
		}
		return "some bytes", b
	case 2:
		return fmt.Sprintf("cut at %d", at), b[:at]
	case 3:
		return fmt.Sprintf("without %d to %d", at, to), append(b[:at], b[to:]...)
	case 4:
		return fmt.Sprintf("%d to %d twice", at, to), append(b[:to:to], b[at:]...)
	}
	for i := at; i < to; i++ {
		b[i] = [...]byte{0, 0xff, 0x7f, 0x80}[r.IntN(4)]
	}
	return fmt.Sprintf("%d to %d extreme", at, to), b
}

// rezipped damages a record and zips all of them again.
func rezipped(r *rand.Rand, b []byte) ([]byte, bool) {
	in, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(in.File) == 0 {
		return nil, false
	}
	k := r.IntN(len(in.File))
	if r.IntN(2) == 0 { // the structure more often than elements
		for i, f := range in.File {
			if strings.HasSuffix(f.Name, "data.pkl") {
				k = i
			}
		}
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i, f := range in.File {
		c, err := f.Open()
		if err != nil {
			return nil, false
		}
		content, err := io.ReadAll(c)
		if err != nil {
			return nil, false
		}
		if i == k {
			_, content = damaged(r, content)
		}
		to, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Store})
		if err == nil {
			_, err = to.Write(content)
		}
		if err != nil {
			return nil, false
		}
	}
	if err := w.Close(); err != nil {
		return nil, false
	}
	return out.Bytes(), true
}
