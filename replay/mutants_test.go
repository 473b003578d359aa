package replay_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports/overflow"
)

// TestMutants replays and checks damaged captures: nothing dies, hangs or takes the
// memory of the machine, every error is a result, and no value of a damaged file passes
// that did not pass before. OPTOOL_MUTANTS is the number of them, 400 if it is not set.
func TestMutants(t *testing.T) {
	n := fuzzcheck.Mutants(t, 400)
	quota.SetMemory(1 << 30)
	defer quota.SetMemory(0)
	dirs := sound(t)
	passed := make([]map[string]bool, len(dirs)) // of the sound captures, by need
	r := rand.New(rand.NewPCG(7+fuzzcheck.Seed(t), uint64(n)))
	counts := map[verdict.Verdict]int{}
	work := t.TempDir()
	for i := range n {
		k := r.IntN(len(dirs))
		if passed[k] == nil {
			passed[k] = passes(run(t, "the sound "+dirs[k], dirs[k]))
		}
		dir := filepath.Join(work, strconv.Itoa(i))
		if err := os.CopyFS(dir, os.DirFS(dirs[k])); err != nil {
			t.Fatal(err)
		}
		rel, how := fuzzcheck.MutateFile(t, r, dir, ".pth")
		what := rel + ": " + how
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
	o := &replay.Outcome{}
	fuzzcheck.Returns(t, what, func() {
		for e, err := range capture.Scan(t.Context(), []string{dir}, capture.Options{}) {
			if err == nil {
				o = replay.Run(e, replay.Options{Registry: ops.Default()})
				err = replay.Guard(func() error { overflow.New(e).Check(e, pthformat.Mmap); return nil })
			}
			if err != nil && !strings.Contains(err.Error(), "memory") {
				o.Results = append(o.Results, replay.Result{Verdict: verdict.Error, Reason: err.Error()})
			}
			break
		}
	})
	return o
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
