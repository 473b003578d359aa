package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/bundle"
	"github.com/optool/optool/reports/results"
)

type replayOptions struct {
	selection
	deviceFlags
	searches    *searches // for causes
	stress      bool
	accCheck    bool
	runTimes    int
	forwardOnly bool
	records     outputs
	keep        runFlags
	budget      timeBudget
	sample      sampling
	full        bool
	failOn      failing
	known       knownFile
	out         string
	tolerances  toleranceFile
	tables      bool
	sort        order
	saveRef     string
	fuse        fusion
	paths       []string
	starting    []readiness // of the devices
}

func newReplayCmd(a *app) *cobra.Command {
	o := replayOptions{searches: &searches{}}
	cmd := &cobra.Command{
		Use:   "replay PATH...",
		Short: "Compute recorded calls again in float64, and find the wrong ones",
		Long: `replay computes each recorded call under PATH again on the CPU, in float64, forward
and backward. It compares the recorded results and gradients with that, and tells
rounding from bugs.

The first wrong call is printed first, then the others in the order of the program.
Each comes with the command that repeats it. op_tools' CSV file and the failing calls
(.pth) go to op_tools_results below --out. PATH may be s3://BUCKET/PREFIX.`,
		Example: `  optool replay op_tools_results
  optool replay --op torch.matmul,'*softmax' --json result.jsonl op_tools_results
  optool replay --html report.html --xlsx report.xlsx op_tools_results
  optool replay --device ./libdiopi_impl.so op_tools_results
  optool replay --run checked --resume op_tools_results`,
		Args: somePaths,
		RunE: func(cmd *cobra.Command, paths []string) error { return o.keep.exit(runReplay(cmd, a, &o, paths)) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.accCheck, "acc_check", false,
		"compare with the reference (the default; accepted for op_tools' scripts)")
	f.IntVar(&o.runTimes, "run_times", 1, "run each call `N` times; all runs must give the same")
	f.BoolVar(&o.forwardOnly, "only_run_forward", false, "do not compare gradients")
	o.deviceFlags.add(cmd, "none",
		"check this device: none (the recorded results), host (built in), the path of a DIOPI "+
			"`LIBRARY`, or torch:DEVICE (PyTorch, such as torch:cuda:0)")
	o.addReplay(cmd)
	o.addAgainst(cmd,
		"also run each call on a second `DEVICE`, and say which is nearer to the reference")
	f.BoolVar(&o.stress, "stress", false, "also run each device call with other memory layouts")
	o.records.addFlags(cmd)
	o.keep.addFlags(cmd)
	o.budget.addFlag(cmd)
	o.sample.addFlag(cmd)
	f.BoolVar(&o.full, "full", false, "with --budget: check large calls completely")
	o.failOn.addFlag(cmd, "")
	o.known.addFlag(cmd)
	f.StringVar(&o.out, "out", "", "write op_tools' CSV file and failing calls below `DIR` (default: the directory of "+
		"--run, else the working directory; "+ownResults+" there if its recordings are read)")
	o.tolerances.addFlag(cmd)
	f.BoolVar(&o.tables, "tables", false, "print every call, with op_tools' comparison table")
	o.sort.addFlag(cmd)
	f.Var(&o.fuse, "fuse",
		"compare the calls with the ids `FROM..TO` as one fused call, only by what leaves it; FROM..TO=OP "+
			"computes it with that operator")
	f.StringVar(&o.saveRef, "save-reference", "", "write the unrounded results of the reference below `DIR`")
	return cmd
}

func (o *replayOptions) check() error {
	switch {
	case len(o.failOn.changes) > 0:
		return usageError("--fail-on %s is for compare --results", o.failOn.changes[0])
	case o.runTimes < 1:
		return usageError("--run_times: want at least 1, got %d", o.runTimes)
	case o.full && o.sample > 0:
		return usageError("--full and --sample exclude each other")
	case o.sample > 0 && !o.none():
		return usageError("--sample checks what was recorded: it does not go with --device")
	case o.stress && o.none():
		return usageError("--stress needs --device")
	}
	if err := o.fuse.check(o.device, o.none()); err != nil {
		return err
	}
	return o.deviceFlags.check()
}

// A replayed is what one capture gave.
type replayed struct {
	of      found
	found   *reports.Finding // nil if not selected, or finished before
	bytes   int64
	err     error
	unsaved error // why results could not be written below --out
	// Names of settings that hid the call or a part of it, and that had its arguments
	// converted or spared it.
	hidden, changed []string
	cut             bool    // it was not done when the time of the run was over
	work            float64 // of comparing the call: see causes.Budget
	sampled         bool    // it was checked in parts: what explains findings needs the whole
}

// prepare reads the tolerances and opens the device, which release gives back. The
// settings are those in force.
func (o *replayOptions) prepare(cmd *cobra.Command, a *app) (opt replay.Options, settings reports.Settings,
	release func(), err error) {
	tol, err := o.tolerances.load(a.known())
	if err != nil {
		return opt, nil, nil, err
	}
	settings = append(append(a.operatorSettings(), o.settings()...), o.tolerances.settings(tol)...)
	settings = append(settings, o.known.settings()...)
	if o.forwardOnly {
		settings = append(settings, forwardAlone())
	}
	if len(o.fuse.ranges) > 0 {
		settings = append(settings, o.fuse.setting())
	}
	if o.budget > 0 {
		settings = append(settings, o.budget.setting())
	}
	opt = replay.Options{Registry: a.known(), Tolerances: tol, ForwardOnly: o.forwardOnly, Read: o.read,
		Runs: o.runTimes, Sample: o.sampling()}
	if o.none() {
		opt.Ranks = collective.NewIndex(capture.Scan(cmd.Context(), o.paths, capture.Options{}), o.read)
		return opt, settings, func() {}, nil
	}
	dev, err := o.checked(cmd, a)
	if err != nil {
		return opt, nil, nil, err
	}
	o.starting = []readiness{dev.ready}
	opt.Device, opt.Stress, settings = dev.Device, o.stress, append(settings, dev.told...)
	if o.against == "" {
		return opt, settings, dev.release, nil
	}
	other, err := o.second().checked(cmd, a)
	if err != nil {
		dev.release()
		return opt, nil, nil, err
	}
	o.starting = append(o.starting, other.ready)
	opt.Against = &replay.Rival{Device: other.Device, Name: o.rivalName()}
	return opt, settings, func() {
		other.release()
		dev.release()
	}, nil
}

func runReplay(cmd *cobra.Command, a *app, o *replayOptions, paths []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := o.parse(cmd, a, "AUTOCOMPARE"); err != nil {
		return err
	}
	o.paths = paths
	known, err := o.known.load(o.failOn.stale)
	if err != nil {
		return err
	}
	opt, settings, release, err := o.prepare(cmd, a)
	if err != nil {
		return err
	}
	defer release()
	if err := o.fuse.link(cmd, a, paths, o.limits(), opt); err != nil {
		return err
	}
	r := &replayRun{replayOptions: o, app: a, start: time.Now(), opt: opt, settings: settings,
		comparison: a.compare("replay", "capture", o.sort, o.tables, o.failOn.verdicts, nil),
		explain:    map[string]*reports.Finding{}}
	defer r.bar.end()
	r.Settings, r.Known = settings, known
	r.dir, err = a.openRun(cmd, o.keep, paths, "AUTOCOMPARE", r.recall)
	if err != nil {
		return err
	}
	defer r.dir.close()
	if err := o.known.keepsWords(r.dir.placed(o.records.files)); err != nil {
		return err
	}
	r.part = r.dir != nil && r.dir.part != nil
	if o.saveRef != "" {
		if err := mark(o.saveRef); err != nil {
			return failed(fmt.Errorf("--save-reference: %w", err))
		}
	}
	if r.dir != nil && r.dir.Ended() {
		return r.dir.again(a, &reportOptions{tables: o.tables, sort: o.sort, files: o.records.files})
	}
	if r.json, err = a.openRecordsIn(r.dir, o.records, a.run(o.device, settings...)); err != nil {
		return err
	}
	defer r.json.close()
	r.setOutputDirs(cmd.Flags().Changed("out"))
	defer r.csv.close()
	return r.run(cmd.Context(), paths)
}

// A replayRun is a run of replay in work.
type replayRun struct {
	*replayOptions
	*app
	*comparison
	dir      *runDir // nil unless --run is given
	start    time.Time
	opt      replay.Options
	settings reports.Settings
	limits   *limits
	spending *spending // nil without a budget
	csv      *lazyCSV
	saver    *failureSaver
	tally    tally
	unsaved  bool
	wrong    string // the path of the first wrong call
	program  string // the folder of its program, below the PATH given
	folders  map[string]bool
	pair     bool // which is a pair of results, and no call of a step
	step     bool // calls were recorded in order, with their backward passes: what changed between them can be seen
	// explain are findings that were made before the run was stopped and are printed with
	// all they say, by capture.
	explain map[string]*reports.Finding
}

// recall counts a call that was finished before.
func (r *replayRun) recall(c *reports.JournalCall) error {
	results, err := c.Results()
	if err != nil {
		return err
	}
	r.tally.walked++
	r.tally.captures++
	recordSettings(r.settings, c.Hidden, c.Changed)
	for _, x := range results {
		r.Known.Mark(x)
		r.Summary.Add(x)
	}
	if len(results) > 0 {
		if ops := r.filter.Ops; ops != nil {
			ops.Match(results[0].Op)
		}
		r.digest.Add(reports.NewFinding(results))
	}
	return nil
}

// setOutputDirs says where op_tools' file and failing calls go: below --out if that was given, else
// into the directory of the run, where all of its parts save calls in one place.
func (r *replayRun) setOutputDirs(out bool) {
	r.out = cmp.Or(r.out, resultsDir(r.paths))
	r.csv = &lazyCSV{dir: r.out, block: r.csvBlock}
	r.saver = &failureSaver{dir: r.out, now: r.start, pid: os.Getpid()}
	if r.dir == nil {
		return
	}
	r.saver.now, r.saver.pid, r.saver.apart = r.dir.Began(), 0, true
	if !out {
		r.csv.dir, r.saver.dir = r.dir.Path, r.dir.Root
	}
	if r.dir.Journal != nil {
		r.csv.from = r.dir.Journal.CSV
	}
	r.json.journal.Before = r.csv.sync
	for f := range r.digest.Kinds() {
		r.explain[f.Results[0].Capture] = f
	}
}

// run replays the captures below the paths.
func (r *replayRun) run(ctx context.Context, paths []string) error {
	r.limits = r.replayOptions.limits()
	calls := r.dir.scan(ctx, paths, capture.Options{}, r.bar)
	if r.budget > 0 {
		var err error
		if r.spending, err = r.plan(ctx, calls); err != nil {
			return failed(err)
		}
		defer r.spending.timer.Stop()
		calls, r.limits.over, r.json.marked = r.spending.calls, r.spending.over, true
		r.digest.ExplainIn = r.budget.grace()
	}
	calls = readAhead(ctx, calls, r.limits.ahead(), func(e *capture.Entry) bool {
		return r.filter.Surely(e)
	})
	err := ordered(ctx, r.jobs, calls,
		func(f found) replayed { return r.replayOne(ctx, f) }, func(x replayed) error { return r.emit(ctx, x) })
	r.bar.end()
	if err != nil && ctx.Err() == nil {
		return failed(err)
	}
	r.limits.over = nil
	r.spending.told(r.Summary)
	if err == nil && r.Left() == 0 && !r.part { // what a part has not, others may have
		if err := r.found(r.tally, paths); err != nil {
			return r.nothing(err, paths)
		}
	}
	r.Interrupted = ctx.Err() != nil
	if err := r.problem(r.csv.close()); err != nil {
		return failed(err)
	}
	if r.unsaved {
		r.tally.refused++
	}
	if r.csv.path != "" && !r.quiet {
		fmt.Fprintf(r.Err, "op autocompare result saved to %s\n", reports.OneLine(r.csv.path))
	}
	if c := r.Summary.Against; c != nil {
		run := reports.Run{Device: r.device, Against: r.against}
		names := run.Rivals()
		if names == reports.OldAndNew {
			names = [2]string{"the second", "the first"}
		}
		c.Ran = r.ranInstead(names, func(op string) bool { return c.ByOp[op] != nil })
	}
	r.digest.Next, r.digest.Sound = r.next(paths), r.between(paths)
	return r.finish(r.app, r.tally, r.start)
}

// nothing ends a run that found nothing to judge. The reports say so: a pipeline looks for them.
func (r *replayRun) nothing(why error, paths []string) error {
	if !r.json.files.any() && r.json.lines == nil {
		return why
	}
	where := strings.Join(paths, ", ")
	r.tally.refused++
	r.Summary.Unread = append(r.Summary.Unread, reports.UnreadFile{File: where,
		Reason: strings.TrimPrefix(why.Error(), where+": "), Absent: true})
	if err := r.finish(r.app, r.tally, r.start); exitCode(err) != ExitFailed || err.Error() != "" {
		return err
	}
	return why
}

// next are commands that show more of what is wrong, each behind what it shows; "" for none.
func (r *replayRun) next(paths []string) string {
	if !r.none() || !r.Differs() || r.wrong == "" {
		return ""
	}
	var next []string
	if r.tally.captures > 1 && !r.pair {
		about := "what this did to the later calls and to the loss"
		if f := r.digest.First(); f != nil && f.OnlyGradients() {
			about = "whether a value was overwritten before the backward pass, and what this did to the loss"
		}
		next = append(next, about+":\n  "+
			strings.Join(r.command("step", quotePath(r.stepOf(paths))), " "))
	}
	if f := r.digest.First(); f != nil && collective.Name(f.Results[0].Op) == "" &&
		len(r.fuse.ranges) == 0 {
		args := append(r.command("explain"), r.tolerances.repro()...)
		next = append(next, "the errors of the first wrong call in full:\n  "+
			strings.Join(append(args, quotePath(r.wrong)), " "))
	}
	if f := r.digest.First(); f != nil && len(r.fuse.ranges) == 0 {
		if again := r.onDevice(f.Results[0]); again != "" {
			where := ""
			if strings.Contains(again, "="+reports.AnyModule) || strings.Contains(again, " "+importsAny+" ") {
				where = " (MODULE is the Python module that has the function)"
			}
			next = append(next, "this call computed anew, after a change of its code"+where+":\n  "+again)
		}
	}
	if r.step && len(r.folders) > 1 && len(paths) == 1 {
		next = append(next, "values that changed between the calls of any program:\n  "+
			strings.Join(r.command("step", quotePath(paths[0])), " "))
	}
	return strings.Join(next, "\nand ")
}

// onDevice is the command that runs a call, whose recorded results were judged, where it was recorded; "" where that is
// not known, or the function that the program had in the place of torch's cannot be imported.
func (r *replayRun) onDevice(of *reports.Result) string {
	on, _, _ := strings.Cut(of.RecordedOn, " ")
	if on == "" || collective.Name(of.Op) != "" {
		return ""
	}
	args := append(r.command("replay"), "--device", "torch:"+on)
	if isOtherPython(of.Python) {
		args = append(args, "--python", quotePath(of.Python))
	}
	args = append(args, r.modulesOf(of)...)
	if of.Replaced != "" {
		function := reports.FunctionPath(of.Replaced, of.ReplacedAt)
		if function == "" || strings.HasPrefix(function, reports.AnyModule) {
			return ""
		}
		args = append(args, "--map-function", quote(of.Op+"="+function))
		dir := reports.ImportDir(function, of.ReplacedAt)
		if info, err := os.Stat(dir); err == nil && info.IsDir() { // the program was recorded here
			args = slices.Insert(args, 0, "PYTHONPATH="+quotePath(dir))
		}
	}
	return strings.Join(append(append(args, r.tolerances.repro()...), quotePath(r.wrong)), " ")
}

// importsAny imports a module that the user knows.
const importsAny = "--torch-import MODULE"

// modulesOf are the flags of a device that bring the function of a call: those of this run or, if an operator's name
// does not say which module has it, some with MODULE in its place.
func (r *replayRun) modulesOf(of *reports.Result) []string {
	known := torchFlags{imports: r.torch.imports, maps: r.torch.maps}
	args := known.repro()
	function, inProgram := strings.CutPrefix(of.Op, "__main__.")
	switch {
	case len(args) > 0 || of.Replaced != "":
	case inProgram:
		args = mapped("--map-function", map[string]string{of.Op: reports.AnyModule + function})
	case bundle.Unnamed(of.Op):
		args = []string{importsAny}
	}
	return args
}

// between says that values between calls were not looked at, and the command that does; "" where something is wrong
// already, or the calls are not those of one recorded program.
func (r *replayRun) between(paths []string) string {
	if !r.none() || !r.step || r.tally.captures < 2 || r.Differs() || r.Compared() == 0 || len(paths) != 1 {
		return ""
	}
	return "each call was judged by what it read; values that changed between calls are found by: " +
		strings.Join(r.command("step", quotePath(paths[0])), " ")
}

// replayOne replays a capture, unless that is finished.
func (r *replayRun) replayOne(ctx context.Context, f found) replayed {
	if f.finished {
		return replayed{of: f}
	}
	if r.spending.past() {
		return replayed{of: f, cut: true}
	}
	if f.entry != nil {
		r.bar.begin(f.entry.Op)
	}
	x := r.replayWithin(ctx, r.limits, f, r.opt, r.saver, func() error { return r.dir.begin(r.json, f.entry.Rel) })
	x.of = f
	return x
}

// emit counts and writes what a capture gave.
func (r *replayRun) emit(ctx context.Context, x replayed) error {
	if err := started(&r.starting, r.app, r.bar); err != nil {
		return err
	}
	if x.of.finished {
		if f := r.explain[x.of.entry.Rel]; f != nil && f.Bad() && r.explainable(f) {
			f.Explain = func(until time.Time, turn reports.Turn) reports.Explained {
				return r.explained(ctx, r.limits, x.of.entry, r.opt, until, turn)
			}
		}
		r.point(x.of.entry)
		r.step = r.step || x.of.entry.BackwardOrder >= 0
		r.bar.add(false, 0)
		return nil
	}
	if stop := new(stopError); errors.As(cmp.Or(x.err, x.of.err), &stop) {
		return stop.error
	}
	r.tally.walked++
	if x.cut {
		return nil
	}
	r.spending.took(x)
	r.searches.budget.Compared(x.work)
	if x.err != nil {
		if x.found != nil && r.dir != nil { // it is not finished
			return x.err
		}
		r.tally.refused++
		r.unread(x.err)
		r.bar.warn(r.app, x.err)
	}
	r.bar.add(x.found != nil && x.found.Bad(), x.bytes)
	recordSettings(r.settings, x.hidden, x.changed)
	if x.found == nil {
		return nil
	}
	r.tally.captures++
	if err := errors.Join(r.problem(x.unsaved), r.problem(r.csv.rows(x.found.Rows))); err != nil {
		return err
	}
	if err := r.add(x.found, false); err != nil {
		return err
	}
	r.point(x.of.entry)
	r.step = r.step || x.of.entry != nil && x.of.entry.BackwardOrder >= 0
	return r.json.done(&reports.Done{Capture: x.of.entry.Rel, Index: x.of.index, Results: len(x.found.Results),
		Hidden: x.hidden, Changed: x.changed, CSV: r.csv.pos()})
}

// point takes note where the first wrong call lies, if that is a call of e.
func (r *replayRun) point(e *capture.Entry) {
	if f := r.digest.First(); f != nil && e != nil && f.Results[0].Capture == e.Rel {
		r.wrong, r.pair, r.program = pathOf(e), e.IsPair(), programOf(e)
	}
	if e != nil {
		if r.folders == nil {
			r.folders = map[string]bool{}
		}
		r.folders[programOf(e)] = true
	}
}

// stepOf is the path given that holds the first wrong call or, if it holds the recordings of several programs, the
// directory of that program.
func (r *replayRun) stepOf(paths []string) string {
	wrong, err := files.Abs(r.wrong)
	for _, p := range paths {
		abs, failed := files.Abs(p)
		if err == nil && failed == nil && strings.HasPrefix(wrong+"/", strings.TrimSuffix(abs, "/")+"/") {
			if in := filepath.Join(p, r.program); len(paths) == 1 && len(r.folders) > 1 {
				if info, err := files.Stat(in); err == nil && info.IsDir() {
					return in
				}
			}
			return p
		}
	}
	return paths[0]
}

// recordSettings counts what settings did to a call.
func recordSettings(s reports.Settings, hidden, changed []string) {
	for _, name := range hidden {
		s.Hide(name)
	}
	for _, name := range changed {
		s.Change(name, false)
	}
}

// problem is what is done about something that could not be saved: a run in a directory
// stops, to go on when there is room again, any other says so once.
func (r *replayRun) problem(err error) error {
	switch {
	case r.dir != nil:
		return err
	case err == nil || r.unsaved:
		return nil
	}
	r.unsaved = true
	hint := ""
	if errors.As(err, new(*fs.PathError)) {
		hint = "; --out DIR saves it below another directory"
	}
	r.warn("%v: not everything is saved%s", err, hint)
	return nil
}

// replayWithin runs one capture, if it is selected, within the limits. It calls begin before.
func (o *replayOptions) replayWithin(ctx context.Context, lim *limits, f found, opt replay.Options,
	saver *failureSaver, begin func() error) replayed {
	if f.err != nil {
		return replayed{err: f.err}
	}
	region, last := o.fuse.of(f.entry)
	if region != nil && !last {
		return replayed{bytes: f.entry.Bytes(), hidden: []string{o.fuse.setting().Name}}
	}
	bytes, name := o.fuse.bytes(f.entry), f.hidden
	if !f.planned {
		var err error
		if name, err = o.hides(f.entry); err != nil {
			return replayed{bytes: bytes, err: err}
		}
	}
	if name != "" {
		return replayed{bytes: bytes, hidden: []string{name}}
	}
	if err := begin(); err != nil {
		return replayed{bytes: bytes, err: err}
	}
	r, err := within(ctx, lim, bytes, func() (replayed, error) { return o.replay(ctx, f, opt, saver) })
	if errors.Is(err, errOver) {
		return replayed{bytes: bytes, cut: true}
	}
	if err != nil && r.found == nil {
		e := o.fuse.entry(f.entry)
		r.found = results.OfReplay(e, replay.NotDone(e.Op, err), o.repro(f.entry), "")
	}
	r.bytes = bytes
	if r.found != nil && r.found.Bad() && !r.sampled && o.explainable(r.found) {
		r.found.Explain = func(until time.Time, turn reports.Turn) reports.Explained {
			return o.explained(ctx, lim, f.entry, opt, until, turn)
		}
	}
	return r
}

// explainable reports whether the cause of a finding can be looked for: not of a call that a
// device did not live through, nor of one that ran out of time or memory.
func (o *replayOptions) explainable(f *reports.Finding) bool {
	return o.none() && f.Compared() || o.sound(f)
}

// sound reports whether the device came back from a call and will again.
func (o *replayOptions) sound(f *reports.Finding) bool {
	return !slices.ContainsFunc(f.Results, func(r *reports.Result) bool {
		return r.Verdict == verdict.Crash || r.Verdict == verdict.Timeout || r.Verdict == verdict.Error
	})
}

// explained looks for what went wrong in a call that failed, whose turn it is, and where its errors lie. It ends
// soon after until, or when the memory does not suffice, with what was found by then.
func (o *replayOptions) explained(ctx context.Context, lim *limits, e *capture.Entry, opt replay.Options,
	until time.Time, turn reports.Turn) reports.Explained {
	if o.searches.spent(turn) {
		return reports.Explained{Unsought: true}
	}
	f, err := within(ctx, lim.by(until), o.fuse.bytes(e), func() (f reports.Explained, _ error) {
		call, closed, err := o.fuse.open(ctx, e, opt)
		if err != nil {
			return f, err
		}
		defer closed()
		e := o.fuse.entry(e)
		outcome := call.Compare()
		for i := range outcome.Results {
			r := &outcome.Results[i]
			if r.Verdict != verdict.Fail || r.Device != "" || len(f.Profiles) == maxProfiles || turn.Further {
				continue
			}
			if p := call.Profile(r); p != nil {
				f.Profiles = append(f.Profiles, results.OfProfile(e, r, p))
			}
		}
		err = o.searches.explain(ctx, o.paths, e, call, outcome, until, turn, &f)
		f.Kept = f.Kept && o.none()
		return f, err
	})
	f.Short = f.Short || err != nil
	return f
}

// maxProfiles is how many values of a finding are profiled.
const maxProfiles = 4

// replay runs one capture. The error says that the memory did not suffice, or that
// computing was stopped.
func (o *replayOptions) replay(ctx context.Context, f found, opt replay.Options,
	saver *failureSaver) (replayed, error) {
	call, closed, err := o.fuse.open(ctx, f.entry, opt)
	if err != nil {
		return replayed{}, err
	}
	defer closed()
	entry := o.fuse.entry(f.entry)
	outcome := call.Compare()
	if quota.Stopped() {
		return replayed{}, quota.ErrStopped
	}
	r := replayed{work: call.SearchWork()}
	if o.saveRef != "" {
		dir := filepath.Join(o.saveRef, filepath.FromSlash(f.entry.Rel))
		r.err = replay.Guard(func() error { return saveReference(dir, call) })
	}
	saved := ""
	failed := call.Bound() != nil && (outcome.FailedForward() || outcome.FailedBackward())
	if r.err == nil && failed && !outcome.Sampled() {
		r.unsaved = replay.Guard(func() (err error) {
			saved, err = saver.save(entry, call, outcome.FailedBackward())
			return err
		})
	}
	r.found, r.sampled = results.OfReplay(entry, outcome, o.repro(f.entry), saved), outcome.Sampled()
	o.settingsOf(&r, f.entry, outcome)
	return r, outcome.TooLarge
}

// settingsOf says which settings hid a part of a call, had it converted or spared it.
func (o *replayOptions) settingsOf(r *replayed, e *capture.Entry, outcome *replay.Outcome) {
	if o.forwardOnly && e.Has(capture.Device, capture.GradInputs) {
		r.hidden = append(r.hidden, forwardAlone().Name)
	}
	if !o.none() {
		hidden, changed := o.effects(outcome)
		r.hidden, r.changed = append(r.hidden, hidden...), append(r.changed, changed...)
	}
}

// repro is the command line that replays one capture.
func (o *replayOptions) repro(e *capture.Entry) string {
	args := o.command("replay", "--tables")
	if o.runTimes > 1 {
		args = append(args, "--run_times", strconv.Itoa(o.runTimes))
	}
	if o.forwardOnly {
		args = append(args, "--only_run_forward")
	}
	args = append(append(args, o.tolerances.repro()...), o.deviceFlags.repro()...)
	if o.stress {
		args = append(args, "--stress")
	}
	if collective.Name(e.Op) != "" && len(e.Group) > 1 { // the other ranks decide its result
		args = append(args, "--op", quote(e.Op))
		for _, p := range o.paths {
			args = append(args, quotePath(p))
		}
		return o.withModules(args)
	}
	if _, last := o.fuse.of(e); last { // what leaves it is known from all calls
		args = append(args, o.fuse.repro()...)
		for _, p := range o.paths {
			args = append(args, quotePath(p))
		}
		return o.withModules(args)
	}
	return o.withModules(append(args, quotePath(pathOf(e))))
}

// lazyCSV creates op_tools' comparison file when the first row is known, or goes on with
// one. After an error it writes nothing more.
type lazyCSV struct {
	dir   string
	block int             // see selection.csvBlock
	from  reports.FilePos // where a file that was begun before is whole; zero if there is none
	path  string
	file  *os.File
	csv   *reports.CSV
	err   error
}

func (l *lazyCSV) rows(rows []reports.CompareRow) error {
	for _, r := range rows {
		if l.err == nil {
			l.err = l.row(r)
		}
	}
	return l.err
}

func (l *lazyCSV) row(r reports.CompareRow) error {
	if l.csv == nil {
		f, err := l.open()
		if err != nil {
			return err
		}
		l.file, l.path = f, f.Name()
		l.csv = reports.NewCompareCSV(f, l.block)
		l.csv.Continue(l.from)
	}
	return l.csv.Compare(r)
}

func (l *lazyCSV) open() (*os.File, error) {
	if l.from.Name == "" {
		return reports.CreateCompareCSV(l.dir, time.Now())
	}
	f, err := os.OpenFile(filepath.Join(l.dir, l.from.Name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err = f.Truncate(l.from.Bytes); err == nil {
		_, err = f.Seek(l.from.Bytes, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// pos is how much of the file was written.
func (l *lazyCSV) pos() reports.FilePos {
	if l.csv == nil {
		return l.from
	}
	name, err := filepath.Rel(l.dir, l.path)
	if err != nil {
		name = l.path
	}
	bytes, rows := l.csv.Written()
	return reports.FilePos{Name: filepath.ToSlash(name), Bytes: bytes, Rows: rows}
}

// sync makes sure that what was written lasts.
func (l *lazyCSV) sync() error {
	if l.file == nil {
		return nil
	}
	return l.file.Sync()
}

// close closes the file; the second time it does nothing.
func (l *lazyCSV) close() error {
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}
