package cli

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/run/shard"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/rundir"
)

// A runFlags is the flags of a run that is kept in a directory.
type runFlags struct {
	dir      string
	resume   bool
	shard    string
	exitZero bool
}

func (r *runFlags) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.dir, "run", "",
		"keep the run in `DIR`. A killed run loses nothing that was finished; reports without a directory go "+
			"there")
	f.BoolVar(&r.resume, "resume", false, "with --run: continue a run that was stopped, or begin one")
	f.StringVar(&r.shard, "shard", "",
		"with --run: do part `I/N` of the calls, the same parts on every host; auto/N takes I from Slurm or "+
			"Kubernetes")
	f.BoolVar(&r.exitZero, "exit-zero", false,
		"with --run: exit with 0 when the run has ended, whatever it found, for jobs that are retried on "+
			"failure")
}

// indifferent are flags that do not decide what a run finds: it may go on with others.
var indifferent = []string{"run", "resume", "shard", "jobs", "quiet", "color", "read", "memory", "devices", "json",
	"exit-zero", "budget", "sort", "tables", "all", "acc_check", "python", "html_report", "test_result_path", "use_db",
	"db_path", "error_report", "failure_debug_level"}

// fileFlags name files that decide results.
var fileFlags = []string{"tolerances", "convert-config", "device", "against-device", "adaptor",
	"configs", "impl_folder", "test_cases_path"}

// A runDir is the directory of a run in work; nil for a run without. It is the journal's
// side of a walk: it leaves out calls of other parts and calls that were finished before.
type runDir struct {
	*rundir.Dir
	app      *app
	part     *rundir.Part
	finished map[string]int // by capture: how often it was done before
	calls    int            // finished before
}

// openRun opens the directory that the flags name. Each call that was finished before is
// handed to recall. tool selects op_tools' variables that decide.
func (a *app) openRun(cmd *cobra.Command, r runFlags, paths []string, tool string,
	recall func(*reports.JournalCall) error) (*runDir, error) {
	switch {
	case r.dir == "" && r.resume:
		return nil, usageError("--resume needs --run")
	case r.dir == "" && r.shard != "":
		return nil, usageError("--shard needs --run")
	case r.dir == "" && r.exitZero:
		return nil, usageError("--exit-zero needs --run")
	case r.dir == "":
		return nil, nil
	}
	d := &runDir{app: a, finished: map[string]int{}}
	if r.shard != "" {
		text, err := fromScheduler(r.shard)
		if err != nil {
			return nil, usageError("--shard %s: %w", r.shard, err)
		}
		p, err := rundir.ParsePart(text)
		if err != nil {
			return nil, usageError("--shard: %w", err)
		}
		d.part = &p
	}
	s, err := a.runSettings(cmd, paths, tool)
	if err != nil {
		return nil, failed(err)
	}
	d.Dir, err = rundir.Open(r.dir, s, rundir.Options{Part: d.part, Resume: r.resume,
		Told: func(s string) { a.warn("%s", s) },
		Call: func(c *reports.JournalCall) error {
			d.finished[c.Capture]++
			d.calls++
			return recall(c)
		}})
	if err != nil {
		return nil, failed(err)
	}
	if d.Journal != nil && !d.Ended() {
		a.warn("%s: %s finished before are kept", d.Path, reports.Count(d.calls, "call"))
		if n := len(d.InFlight); n > 0 {
			a.warn("in work when it was stopped, and done again: %s%s",
				strings.Join(d.InFlight[:min(n, shownInFlight)], ", "), more(n-shownInFlight))
		}
	}
	return d, nil
}

// fromScheduler puts the number that a scheduler gave this process in place of auto:
// Slurm's task of an array, or Kubernetes' index of a job, which counts from 0.
func fromScheduler(part string) (string, error) {
	n, ok := strings.CutPrefix(part, "auto/")
	if !ok {
		return part, nil
	}
	const kubernetes, slurm = "JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID"
	for _, by := range []struct {
		name  string
		first int
	}{{kubernetes, 0}, {slurm, 1}} {
		text := os.Getenv(by.name)
		if text == "" {
			continue
		}
		i, err := strconv.Atoi(text)
		if err != nil {
			return "", fmt.Errorf("%s: want a number, got %q", by.name, text)
		}
		return fmt.Sprintf("%d/%s", i-by.first+1, n), nil
	}
	return "", fmt.Errorf("neither %s (of a Slurm array) nor %s (of an indexed Kubernetes job) is set; outside of them "+
		"name the part, such as 1/%s", slurm, kubernetes, n)
}

// exit is the error that a run ends with, as --exit-zero says: a run that has ended is done.
func (r *runFlags) exit(err error) error {
	if r.exitZero && (exitCode(err) == ExitDiffers || exitCode(err) == ExitFailed && err.Error() == "") {
		return nil
	}
	return err
}

const shownInFlight = 8

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// runSettings are what decides the results of this command.
func (a *app) runSettings(cmd *cobra.Command, paths []string, tool string) (*rundir.Settings, error) {
	host, _ := os.Hostname()
	s := &rundir.Settings{Command: cmd.Name(), Version: version(), Paths: paths, Flags: map[string]string{},
		Environment: map[string]string{}, Files: map[string]string{}, Host: host, PID: os.Getpid(),
		Start: time.Now().Round(time.Second)}
	var err error
	digest := func(name, path string) {
		if info, e := os.Stat(path); e != nil || !info.Mode().IsRegular() && !info.IsDir() {
			return // a word such as host
		}
		text, e := rundir.Digest(path)
		if e != nil && err == nil {
			err = e
		}
		s.Files[name] = text
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		report := slices.ContainsFunc(reportFormats, func(x reportFormat) bool { return x.name == f.Name })
		if !report && !slices.Contains(indifferent, f.Name) {
			s.Flags["--"+f.Name] = f.Value.String()
		}
		if slices.Contains(fileFlags, f.Name) {
			digest("--"+f.Name, f.Value.String())
		}
	})
	for _, o := range a.own {
		digest(o.name+" "+o.path, o.path)
	}
	for _, v := range variables(os.Environ(), tool) {
		name, value, _ := strings.Cut(v, "=")
		s.Environment[name] = value
	}
	for _, name := range []string{"OPTOOL_BLAS", operatorsVariable, blockEnv} {
		if v, ok := os.LookupEnv(name); ok {
			s.Environment[name] = v
		}
	}
	return s, err
}

// journal opens the journal to grow it; nil without a directory.
func (d *runDir) journal() (*rundir.Journal, error) {
	if d == nil {
		return nil, nil
	}
	j, err := d.Continue()
	return j, failed(err)
}

// close gives the directory back.
func (d *runDir) close() {
	if d != nil {
		d.Dir.Close()
	}
}

// again reports a run that ended before.
func (d *runDir) again(a *app, o *reportOptions) error {
	a.warn("%s: the run has ended, this is its report", d.Path)
	o.files = d.placed(o.files)
	if err := a.report(o, d.Path); err != nil && err.Error() != "" {
		return err
	} else if e := d.end(true); e != nil {
		return failed(e)
	} else {
		return err
	}
}

// end notes that the run has come to its end, if it has.
func (d *runDir) end(ended bool) error {
	if d == nil || !ended {
		return nil
	}
	return d.End()
}

// placed are the files of reports, those whose name has no directory in that of the run.
func (d *runDir) placed(files reportFiles) reportFiles {
	files = slices.Clone(files)
	for i, f := range files {
		path := d.place(*f.path)
		files[i].path = &path
	}
	return files
}

// place is where a report goes: into the directory of the run if its name has no directory.
func (d *runDir) place(path string) string {
	if d == nil || path == "" || path == "-" || filepath.Base(path) != path {
		return path
	}
	return d.File(path)
}

// scan walks the paths as scan does, but lists all before it yields any: with the index of
// the tree that the directory keeps, and to know what there is to do. It leaves out calls of
// other parts; those that were finished before are yielded as such.
func (d *runDir) scan(ctx context.Context, paths []string, opt capture.Options, bar *progress) iter.Seq[found] {
	if d == nil {
		bar.index(ctx, paths)
		return scan(ctx, paths, opt)
	}
	return func(yield func(found) bool) {
		list, err := d.list(ctx, paths, opt)
		if err == nil && d.part != nil {
			list, err = d.share(list)
		}
		if err != nil {
			yield(found{err: &stopError{err}})
			return
		}
		bar.expect(len(list), 0)
		for _, f := range list {
			f.finished = f.entry != nil && d.done(f.entry.Rel)
			if ctx.Err() != nil || !yield(f) {
				return
			}
		}
	}
}

// done reports whether a call was finished before, of several of one name as often as it was.
func (d *runDir) done(name string) bool {
	if d.finished[name] == 0 {
		return false
	}
	d.finished[name]--
	return true
}

// list lists the tree, and keeps its index.
func (d *runDir) list(ctx context.Context, paths []string, opt capture.Options) (list []found, err error) {
	if opt.Index, err = capture.ReadIndex(d.Index()); err != nil {
		return nil, err
	}
	for f := range scan(ctx, paths, opt) {
		list = append(list, f)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return list, opt.Index.Write(d.Index())
}

// share is what of a list belongs to this part. What cannot be read belongs to the first.
func (d *runDir) share(list []found) (own []found, err error) {
	_, calls := costs(list)
	mine, err := d.mine(calls)
	for i, f := range list {
		if err == nil && (f.entry == nil && d.part.I == 1 || f.entry != nil && mine[i]) {
			own = append(own, f)
		}
	}
	return own, err
}

// mine says which calls belong to this part.
func (d *runDir) mine(calls []shard.Call) ([]bool, error) {
	if err := d.Plan(shard.Digest(calls, d.part.N)); err != nil {
		return nil, err
	}
	mine := make([]bool, len(calls))
	for i, of := range shard.Assign(calls, d.part.N) {
		mine[i] = of == d.part.I-1
	}
	return mine, nil
}

// A stopError ends a walk.
type stopError struct{ error }

func (e *stopError) Unwrap() error { return e.error }

// costs are the sizes of calls and what they are estimated to cost. Their files are examined
// side by side.
func costs(list []found) (sizes []int64, calls []shard.Call) {
	sizes, calls = make([]int64, len(list)), make([]shard.Call, len(list))
	var g errgroup.Group
	workers := 4 * runtime.GOMAXPROCS(0) // they wait for the file system
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(list); i += workers {
				if e := list[i].entry; e != nil {
					sizes[i] = e.Bytes()
					calls[i] = shard.Call{Name: e.Rel, Cost: shard.Estimate(e.Op, sizes[i])}
				}
			}
			return nil
		})
	}
	_ = g.Wait() // none fails
	return sizes, calls
}

// begin notes that a call is worked on.
func (d *runDir) begin(j *jsonOutput, name string) error {
	if d == nil {
		return nil
	}
	if err := j.journal.Begin(name); err != nil {
		return &stopError{err}
	}
	return nil
}

// recording reads what the run has so far.
func (d *runDir) recording() (*reports.Recording, error) {
	rec, _, err := rundir.Read(d.Path)
	return rec, err
}
