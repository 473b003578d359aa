package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/ondevice"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/plots"
	"github.com/optool/optool/timing"
)

type timeOptions struct {
	selection
	deviceFlags
	runTimes    int
	forwardOnly bool
	sync        bool
	json        string
	out         string
	cache       string
	maxTime     time.Duration
	budget      time.Duration
	interleave  bool
	each        bool
	byShape     bool
	sortBy      string
	rowLimit    int
	bench       string
	trace       string
	plot        string
	histogram   bool
	calibrate   bool
	bandwidth   float64
	flops       float64
	seed        uint64

	caches []timing.Cache
	peak   reports.Peak
}

func newTimeCmd(a *app) *cobra.Command {
	var o timeOptions
	cmd := &cobra.Command{
		Use:   "time PATH...",
		Short: "Measure recorded calls",
		Long: `Run each recorded call under PATH again and again and say how long it takes,
forward and backward, with cold caches (evicted before each run, outside of the
measured time) and with hot ones.

Calls that do the same work (op, dtypes, shapes, strides, other arguments) are
measured once and count as often as they were recorded; --all measures each.
Runs stop when the relative noise is below 0.5 %, no longer changes, or --max-time
is spent; --run_times N takes exactly N. No run is left out. What is printed is
the median with the quartiles.

op_tools' CSV file goes to op_tools_results under the working directory or --out;
it holds hot runs unless only cold ones were asked for.`,
		Example: `  optool time op_tools_results
  optool time --run_times 3 --sync_time_measure op_tools_results
  optool time --op torch.matmul --cache cold --histogram op_tools_results
  optool time --budget 10m --json new.jsonl op_tools_results && optool compare --time old.jsonl new.jsonl
  optool time --calibrate`,
		RunE: func(cmd *cobra.Command, paths []string) error { return runTime(cmd, a, &o, paths) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&o.runTimes, "run_times", 0, "measure exactly `N` runs of each; 0: until the numbers hold")
	f.BoolVar(&o.forwardOnly, "only_run_forward", false, "do not measure the backward pass")
	f.BoolVar(&o.sync, "sync_time_measure", false, "print op_tools' tables of every run")
	o.deviceFlags.add(cmd, "none", "what to measure: none, the float64 reference on this machine; host, the built-in device; or the path of a DIOPI `LIBRARY`")
	addJSONFlag(cmd, &o.json)
	f.StringVar(&o.out, "out", ".", "write op_tools_results below `DIR`")
	f.StringVar(&o.cache, "cache", "both", "state of the caches: cold, hot or both")
	f.DurationVar(&o.maxTime, "max-time", time.Second, "most time to spend on the runs of one phase and state of the caches")
	f.DurationVar(&o.budget, "budget", 0, "most time to spend on everything: each op and dtype first, then what weighs most")
	f.BoolVar(&o.interleave, "interleave", false, "take the runs in several rounds over all calls, in random order")
	f.BoolVar(&o.each, "all", false, "measure every recorded call, also those that do the same work")
	f.BoolVar(&o.byShape, "group_by_input_shape", false, "one row per op and input shapes in the table of averages")
	f.StringVar(&o.sortBy, "sort_by", "self", "order of the table of averages: self, avg, calls or name")
	f.IntVar(&o.rowLimit, "row_limit", 100, "most `ROWS` of the table of averages; 0: all")
	f.StringVar(&o.bench, "bench", "", "also write Go's benchmark format, which benchstat reads, to `FILE`")
	f.StringVar(&o.trace, "trace", "", "also write a trace for chrome://tracing or Perfetto to `FILE`")
	f.StringVar(&o.plot, "plot", "", "also draw the medians into `FILE`, .svg or .png")
	f.BoolVar(&o.histogram, "histogram", false, "print a histogram of the runs of each")
	f.BoolVar(&o.calibrate, "calibrate", false, "measure this machine first: clock, memory and arithmetic at their peak")
	f.Float64Var(&o.bandwidth, "peak-bandwidth", 0, "peak of memory in `GB/s`, for the share that is reached")
	f.Float64Var(&o.flops, "peak-flops", 0, "peak of arithmetic in `GFLOP/s`")
	f.Uint64Var(&o.seed, "seed", 1, "of the random order of --interleave")
	return cmd
}

func (o *timeOptions) check(paths []string) error {
	switch {
	case o.runTimes < 0:
		return usageError("--run_times: want a number of runs, got %d", o.runTimes)
	case o.maxTime <= 0:
		return usageError("--max-time: want more than 0, got %v", o.maxTime)
	case o.budget < 0:
		return usageError("--budget: want more than 0, got %v", o.budget)
	case !slices.Contains([]string{"self", "avg", "calls", "name"}, o.sortBy):
		return usageError("--sort_by: want self, avg, calls or name, got %q", o.sortBy)
	case o.rowLimit < 0:
		return usageError("--row_limit: want a number of rows, got %d", o.rowLimit)
	case o.bandwidth < 0 || o.flops < 0:
		return usageError("--peak-bandwidth, --peak-flops: want more than 0")
	case o.plot != "" && !strings.HasSuffix(o.plot, ".svg") && !strings.HasSuffix(o.plot, ".png"):
		return usageError("--plot: want a name ending in .svg or .png, got %q", o.plot)
	case len(paths) == 0 && !o.calibrate:
		return usageError("time: want at least one PATH")
	}
	switch o.cache {
	case "both":
		o.caches = []timing.Cache{timing.Cold, timing.Hot}
	case "cold", "hot":
		o.caches = []timing.Cache{timing.Cache(o.cache)}
	default:
		return usageError("--cache: want cold, hot or both, got %q", o.cache)
	}
	return o.deviceFlags.check()
}

// A task is a call to measure, and what was measured of it.
type task struct {
	entry  *capture.Entry
	op     string
	dtype  string
	shapes string
	calls  int     // recorded calls that do the same work
	bytes  float64 // of their inputs, all together
	series []*reports.Timing
	why    string // why there is no backward pass
}

// A timer measures tasks and reports them.
type timer struct {
	*app
	o     *timeOptions
	opt   replay.Options
	evict *timing.Evictor
	on    *ondevice.Device // nil: the reference
	end   time.Time        // of the budget; zero for none
	json  *jsonOutput
	csv   *timeCSV
	list  *reports.Listing
	tally tally
	done  []*reports.Timing
}

func runTime(cmd *cobra.Command, a *app, o *timeOptions, paths []string) error {
	if err := o.check(paths); err != nil {
		return err
	}
	if err := o.parse(cmd, a, "TIME_MEASURE"); err != nil {
		return err
	}
	start := time.Now()
	newMemoryBudget()
	j, err := a.openJSON(o.json, o.device)
	if err != nil {
		return err
	}
	defer j.close()
	o.peak = reports.Peak{Bandwidth: o.bandwidth * 1e9, Flops: o.flops * 1e9}
	if o.calibrate {
		if err := o.measurePeak(j); err != nil {
			return failed(err)
		}
		if len(paths) == 0 {
			return nil
		}
	}
	t := &timer{
		app: a, o: o, json: j, evict: timing.NewEvictor(0), csv: &timeCSV{dir: o.out, ids: map[string]int{}},
		opt: replay.Options{Registry: ops.Default(), ForwardOnly: o.forwardOnly, Read: o.read},
	}
	defer t.csv.close()
	if !o.none() {
		release, err := lockDevice(cmd.Context(), a, o.device, true)
		if err != nil {
			return failed(err)
		}
		defer release()
		lib, err := o.open(cmd.Context())
		if err != nil {
			return err
		}
		defer lib.Close()
		if !a.quiet {
			fmt.Fprintln(a.Err, describeDevice(o.device, lib.Info()))
		}
		t.on = ondevice.New(cmd.Context(), lib, ondevice.Options{})
	}
	tasks, err := t.collect(cmd.Context(), paths)
	if err != nil {
		return err
	}
	if o.budget > 0 {
		t.end = start.Add(o.budget)
		tasks = byWeight(tasks)
	}
	err = t.measureAll(cmd.Context(), tasks)
	interrupted := cmd.Context().Err() != nil
	if err != nil && !interrupted {
		return failed(err)
	}
	return t.finish(tasks, start, interrupted)
}

// collect finds the calls to measure, each kind of work once, without reading
// payloads.
func (t *timer) collect(ctx context.Context, paths []string) ([]*task, error) {
	var tasks []*task
	byKey := map[string]*task{}
	for f := range scan(ctx, paths, capture.Options{}) {
		t.tally.walked++
		if f.err != nil {
			t.refuse(f.err)
			continue
		}
		ok, err := t.o.filter.Match(f.entry, t.o.read)
		if err != nil {
			t.refuse(err)
		}
		if err != nil || !ok {
			continue
		}
		t.tally.captures++
		p, err := replay.Prepare(f.entry, t.opt)
		if err != nil {
			t.refuse(fmt.Errorf("%s: %w", f.entry.Rel, err))
			continue
		}
		key, bytes := p.Key(), p.InputBytes()
		if k := byKey[key]; k != nil && !t.o.each {
			k.calls++
			k.bytes += bytes
		} else {
			k = &task{entry: f.entry, op: p.Op, dtype: p.DType(), shapes: p.Shapes(), calls: 1, bytes: bytes}
			byKey[key] = k
			tasks = append(tasks, k)
		}
		p.Close()
	}
	if ctx.Err() != nil {
		return nil, failed(ctx.Err())
	}
	return tasks, t.o.found(ctx, t.tally, paths)
}

func (t *timer) refuse(err error) {
	t.tally.refused++
	t.warn("%v", err)
}

// byWeight orders tasks for a budget: the heaviest of each op and dtype, then
// all others, by the bytes of their calls.
func byWeight(tasks []*task) []*task {
	heavy := func(a, b *task) int {
		switch {
		case a.bytes > b.bytes:
			return -1
		case a.bytes < b.bytes:
			return 1
		}
		return 0
	}
	sorted := slices.Clone(tasks)
	slices.SortStableFunc(sorted, heavy)
	var first, rest []*task
	seen := map[string]bool{}
	for _, k := range sorted {
		if kind := k.op + " " + k.dtype; !seen[kind] {
			seen[kind] = true
			first = append(first, k)
		} else {
			rest = append(rest, k)
		}
	}
	return append(first, rest...)
}

// measureAll measures the tasks one after the other: nothing else runs, since
// it would be measured too.
func (t *timer) measureAll(ctx context.Context, tasks []*task) error {
	bar := t.newProgress("time")
	defer bar.end()
	rounds := t.rounds()
	r := rand.New(rand.NewPCG(t.o.seed, 0))
	for round := range rounds {
		order := slices.Clone(tasks)
		if rounds > 1 {
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		for _, k := range order {
			if !t.end.IsZero() && time.Now().After(t.end) {
				return nil
			}
			if err := t.measure(ctx, k, round, rounds); err != nil {
				return err
			}
			if rounds == 1 {
				bar.add(false)
				bar.pause()
				if err := t.report(k); err != nil {
					return err
				}
			}
			if ctx.Err() != nil {
				break
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	if rounds > 1 {
		bar.pause()
		for _, k := range tasks {
			if err := t.report(k); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// rounds is how many times the tasks are gone through.
func (t *timer) rounds() int {
	switch {
	case !t.o.interleave:
		return 1
	case t.o.runTimes > 0:
		return min(t.o.runTimes, interleaveRounds)
	}
	return interleaveRounds
}

const interleaveRounds = 5

// share is the part of n that falls to a round, so that the parts sum up to n.
func share(n, round, rounds int) int { return n*(round+1)/rounds - n*round/rounds }

// measure takes the samples of one round of a task. What cannot be run is a
// warning; the error is that of ctx.
func (t *timer) measure(ctx context.Context, k *task, round, rounds int) error {
	p, err := replay.Prepare(k.entry, t.opt)
	if err == nil {
		defer p.Close()
		err = p.Start()
	}
	if err != nil {
		t.refuse(fmt.Errorf("%s: %w", k.entry.Rel, err))
		return nil
	}
	phases, err := t.phases(k, p)
	if err != nil {
		t.refuse(fmt.Errorf("%s: %w", k.entry.Rel, err))
		return nil
	}
	opt := timing.Options{Runs: share(t.o.runTimes, round, rounds), MaxTime: t.o.maxTime / time.Duration(rounds)}
	at := 0
	for _, ph := range phases {
		for _, c := range t.o.caches {
			s, err := timing.Measure(ctx, ph.runner, c, opt)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.refuse(fmt.Errorf("%s: %s: %w", k.entry.Rel, ph.name, err))
				return nil
			}
			if s == nil {
				return err
			}
			if at == len(k.series) {
				k.series = append(k.series, t.newTiming(k, ph.name, ph.work, s))
			} else {
				k.series[at].Series.Add(s)
			}
			if err != nil {
				return err
			}
			at++
		}
	}
	return nil
}

// A phase is a pass of a call to measure.
type phase struct {
	name   string
	runner timing.Runner
	work   replay.Work
}

// phases are the passes of a started call. A backward pass that a device does
// not have is left out.
func (t *timer) phases(k *task, p *replay.Prepared) ([]phase, error) {
	k.why = p.NoBackward()
	if t.on == nil {
		ps := []phase{{"forward", &timing.HostFunc{Run: p.Forward, Caches: t.evict}, p.ForwardWork()}}
		if k.why == "" {
			ps = append(ps, phase{"backward", &timing.HostFunc{Run: p.Backward, Caches: t.evict}, p.BackwardWork()})
		}
		return ps, nil
	}
	flush := int64(t.evict.Size())
	f, err := t.on.NewTimer(p.DeviceCall(false), flush)
	if err != nil {
		return nil, err
	}
	ps := []phase{{"forward", f, p.ForwardWork()}}
	if k.why == "" {
		b, err := t.on.NewTimer(p.DeviceCall(true), flush)
		if err == nil {
			ps = append(ps, phase{"backward", b, p.BackwardWork()})
		} else {
			k.why = err.Error()
		}
	}
	return ps, nil
}

func (t *timer) newTiming(k *task, phase string, w replay.Work, s *timing.Series) *reports.Timing {
	r := &reports.Timing{
		Capture: k.entry.Rel, Op: k.op, Phase: phase, Shapes: k.shapes, Calls: k.calls, Series: s,
		Bytes: w.Bytes, Flops: w.Flops, Peak: t.o.peak,
	}
	if k.entry.ID >= 0 {
		r.ForwardID = &k.entry.ID
	}
	return r
}

// report prints and writes what was measured of a task.
func (t *timer) report(k *task) error {
	if len(k.series) == 0 {
		return nil
	}
	if t.o.sync {
		if err := t.opToolsTables(k); err != nil {
			return err
		}
	}
	if err := t.csv.add(t, k); err != nil {
		return err
	}
	if t.list == nil {
		t.list = newTimeListing(t.json.text(), t.outputWidth(), t.o.peak)
	}
	for _, r := range k.series {
		t.done = append(t.done, r)
		if t.json.lines != nil {
			if err := t.json.lines.Timing(r); err != nil {
				return err
			}
		}
		if err := addTiming(t.list, r); err != nil {
			return err
		}
		if t.o.histogram {
			if err := t.list.Flush(); err != nil {
				return err
			}
			if err := reports.Histogram(t.json.text(), t.outputWidth(), r.Series); err != nil {
				return err
			}
		}
	}
	return t.list.Flush()
}

// finish prints the tables over all calls, writes the files and gives the exit
// code.
func (t *timer) finish(tasks []*task, start time.Time, interrupted bool) error {
	w := t.json.text()
	if len(t.done) > 0 && !t.quiet {
		cache := t.o.caches[len(t.o.caches)-1]
		if err := t.printAverages(w, t.done, cache, t.o.byShape, t.o.sortBy, t.o.rowLimit); err != nil {
			return failed(err)
		}
	}
	s := summarize(tasks, time.Since(start))
	s.Interrupted, s.EvictedMiB = interrupted, t.evict.Size()>>20
	switch {
	case interrupted:
		s.Exit = ExitInterrupted
	case len(t.done) == 0:
		s.Exit = ExitFailed
	default:
		s.Exit = t.tally.code()
	}
	fmt.Fprintln(w, s.text())
	cold := fmt.Sprintf("%d MiB written before each run", s.EvictedMiB)
	if t.on != nil {
		cold = "a call's tensors evicted before each run"
	}
	fmt.Fprintln(w, clockText(cold))
	if err := t.json.write(s); err != nil {
		return failed(err)
	}
	if err := t.export(); err != nil {
		return failed(err)
	}
	if t.csv.path != "" && !t.quiet {
		fmt.Fprintf(t.Err, "op elasped info saved to %s\n", t.csv.path)
	}
	if s.Exit == ExitFailed && len(t.done) == 0 {
		return &exitError{s.Exit, errors.New("nothing was measured")}
	}
	return exitWith(s.Exit)
}

// printAverages prints the times by op.
func (a *app) printAverages(w io.Writer, ts []*reports.Timing, cache timing.Cache, byShape bool, column string, limit int) error {
	fmt.Fprintf(w, "\nby op, %s caches, median time of a call times the calls recorded\n", cache)
	return reports.WriteAverages(w, a.outputWidth(), reports.Averages(ts, cache, byShape, column), byShape, limit)
}

// export writes the files of --bench, --trace and --plot.
func (t *timer) export() error {
	device := t.o.device
	if device == "none" {
		device = "reference"
	}
	for _, x := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{t.o.bench, func(f io.Writer) error { return reports.GoBenchmark(f, device, t.done) }},
		{t.o.trace, func(f io.Writer) error { return reports.Trace(f, device, t.done) }},
		{t.o.plot, func(f io.Writer) error {
			return plots.Timings(f, t.o.plot[strings.LastIndexByte(t.o.plot, '.')+1:], t.done)
		}},
	} {
		if x.path == "" {
			continue
		}
		if err := writeFile(x.path, x.write); err != nil {
			return err
		}
	}
	return nil
}

// A timeSummary is the last line of a run of time: what share of the recorded
// calls, and of the bytes of their inputs, the measured ones stand for.
type timeSummary struct {
	Kind          string  `json:"kind"`
	Captures      int     `json:"captures"`       // selected and understood
	Distinct      int     `json:"distinct"`       // kinds of work among them
	Measured      int     `json:"measured"`       // of the distinct
	MeasuredCalls int     `json:"measured_calls"` // recorded calls they stand for
	ShareOfCalls  float64 `json:"share_of_calls"`
	ShareOfBytes  float64 `json:"share_of_bytes"`
	Interrupted   bool    `json:"interrupted"`
	Elapsed       float64 `json:"elapsed_s"`
	PeakRSS       int64   `json:"peak_rss_bytes"`
	EvictedMiB    int     `json:"evicted_mib"` // written before each cold run
	Exit          int     `json:"exit_code"`
}

func summarize(tasks []*task, elapsed time.Duration) timeSummary {
	s := timeSummary{Kind: "summary", Distinct: len(tasks), Elapsed: elapsed.Seconds(), PeakRSS: peakRSS()}
	var bytes, measured float64
	for _, k := range tasks {
		s.Captures += k.calls
		bytes += k.bytes
		if len(k.series) > 0 {
			s.Measured++
			s.MeasuredCalls += k.calls
			measured += k.bytes
		}
	}
	if s.Captures > 0 {
		s.ShareOfCalls = float64(s.MeasuredCalls) / float64(s.Captures)
	}
	if bytes > 0 {
		s.ShareOfBytes = measured / bytes
	}
	return s
}

func (s timeSummary) text() string {
	return fmt.Sprintf("%d of %d distinct calls measured: %.1f %% of %d calls, %.1f %% of their bytes",
		s.Measured, s.Distinct, 100*s.ShareOfCalls, s.Captures, 100*s.ShareOfBytes)
}

// clockText describes the host's clock, and how cold runs came about.
func clockText(cold string) string {
	overhead, resolution := timing.ClockOverhead()
	return fmt.Sprintf("host clock: reading it adds %s to a run, it ticks every %s; cold: %s",
		timing.Format(overhead), timing.Format(resolution), cold)
}

// A timeCSV is op_tools' file of times, created with its first row.
type timeCSV struct {
	dir  string
	path string
	file *os.File
	csv  *reports.CSV
	ids  map[string]int // runs so far, by op
}

// add writes the runs of a task; op_tools numbers the calls of each op.
func (c *timeCSV) add(t *timer, k *task) error {
	if c.csv == nil {
		f, err := reports.CreateTimeCSV(c.dir, time.Now())
		if err != nil {
			return err
		}
		block, _ := strconv.Atoi(os.Getenv("OP_TOOLS_MAX_CACHE_SIZE"))
		c.file, c.path, c.csv = f, f.Name(), reports.NewTimeCSV(f, block)
	}
	rows, err := t.timeRows(k)
	if err != nil {
		return err
	}
	for _, r := range rows {
		c.ids[k.op]++
		r.ForwardID = c.ids[k.op]
		if err := c.csv.Time(r); err != nil {
			return err
		}
	}
	return nil
}

func (c *timeCSV) close() {
	if c.file != nil {
		c.file.Close()
	}
}
