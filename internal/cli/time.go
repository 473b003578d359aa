package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/torchbridge"
	"github.com/optool/optool/internal/rss"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/ondevice"
	"github.com/optool/optool/replay/ontorch"
	"github.com/optool/optool/replay/timed"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/charts"
	"github.com/optool/optool/timing"
)

func newTimeCmd(a *app) *cobra.Command {
	var o timeOptions
	cmd := &cobra.Command{
		Use:   "time PATH...",
		Short: "Measure how long recorded calls take",
		Long: `time runs each recorded call many times and prints how long it takes, forward and
backward, with cold caches (emptied before each run) and with hot caches. Without
--device it measures optool's own float64 reference on this CPU.

It measures calls that do the same work (op, dtypes, shapes, strides, other arguments)
once and counts how often they were recorded; --all measures each of them. It repeats
until the relative noise is below 0.5 % or stays the same, until --max-time, or 2000
times; --run_times N runs exactly N times. It prints the median and the quartiles of
all runs. The runs are spread over 7 to 25 rounds, on a device each in a new process,
so that compare --time can tell a difference from what the machine did for a while.

--against-device measures two devices in turn, for example a library before and after
a change, and prints which calls got slower. The exit code is 1 if one is slower by
more than --threshold percent.

--acc_check first compares each call with the reference, as replay does.

op_tools' CSV file is written to op_tools_results below --out. It holds the hot runs,
each run with --run_times, otherwise the medians.`,
		Example: `  optool time op_tools_results
  optool time --run_times 3 --sync_time_measure op_tools_results
  optool time --op torch.matmul --cache cold --histogram op_tools_results
  optool time --budget 10m --json new.jsonl op_tools_results && optool compare --time old.jsonl new.jsonl
  optool time --device ./new/libdiopi_impl.so --against-device ./old/libdiopi_impl.so op_tools_results
  optool time --calibrate`,
		RunE: func(cmd *cobra.Command, paths []string) error { return runTime(cmd, a, &o, paths) },
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.IntVar(&o.runTimes, "run_times", 0,
		"measure exactly `N` runs of each call; 0 repeats until the timing is stable")
	f.BoolVar(&o.accCheck, "acc_check", false,
		"also compare the results of each measured call with the reference, as replay does")
	f.StringVar((*string)(&o.tolerances), "tolerances", "", "with --acc_check: read tolerances from this YAML `FILE`")
	f.BoolVar(&o.forwardOnly, "only_run_forward", false, "do not measure the backward pass")
	f.BoolVar(&o.sync, "sync_time_measure", false, "print op_tools' tables of times")
	o.deviceFlags.add(cmd, "none",
		"measure this device: none (the float64 reference), host (built in), the path of a DIOPI "+
			"`LIBRARY`, or torch:DEVICE (PyTorch, such as torch:cuda:0)")
	o.addAgainst(cmd, "measure in turn with a second `DEVICE`, such as the library before a change")
	f.Float64Var(&o.threshold, "threshold", 0,
		"with --against-device: allowed slowdown in percent before the exit code is 1")
	o.records.addFlags(cmd)
	f.StringVar(&o.out, "out", "", "write op_tools' tables below `DIR` (default: the working directory; "+ownResults+
		" there if its recordings are read)")
	f.StringVar(&o.cache, "cache", "both", "measure with cold caches, hot caches, or both")
	f.DurationVar(&o.maxTime, "max-time", time.Second,
		"spend at most this time on one call, phase (forward, backward) and state of the caches")
	f.DurationVar(&o.budget, "budget", 0,
		"spend at most this time in total; begins with each op and dtype, then the calls that take longest")
	f.BoolVar(&o.interleave, "interleave", true,
		"measure all calls in turn in each round, in random order (off with --budget unless it is given)")
	f.Float64Var(&o.resolution, "resolution", 100*timing.Resolution,
		"measure rounds until a slowdown of this `PERCENT` can be told from noise")
	f.BoolVar(&o.each, "all", false, "measure every recorded call, also repeated ones that do the same work")
	f.BoolVar(&o.byShape, "group_by_input_shape", false,
		"print one row per op and input shapes in the table of averages")
	f.StringVar(&o.sortBy, "sort_by", "self", "order of the table of averages: "+strings.Join(reports.AverageColumns, ", "))
	f.IntVar(&o.rowLimit, "row_limit", 100, "print at most this many `ROWS` of the table of averages; 0 prints all")
	f.StringVar(&o.bench, "bench", "", "write Go's benchmark format to `FILE`, for benchstat")
	f.StringVar(&o.trace, "trace", "", "write a trace for Perfetto or chrome://tracing to `FILE`")
	f.StringVar(&o.plot, "plot", "", "draw medians and quartiles into `FILE.svg`")
	f.BoolVar(&o.histogram, "histogram", false, "print a histogram of the runs of each call")
	f.BoolVar(&o.calibrate, "calibrate", false,
		"first measure the peak clock, memory bandwidth and arithmetic of the device, or of this machine for "+
			"the reference")
	f.Float64Var(&o.bandwidth, "peak-bandwidth", 0,
		"peak memory bandwidth in `GB/s`; the tables show the share that is reached")
	f.Float64Var(&o.flops, "peak-flops", 0, "peak arithmetic in `GFLOP/s`")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the random order of --interleave")
	return cmd
}

func runTime(cmd *cobra.Command, a *app, o *timeOptions, paths []string) error {
	if err := o.check(paths); err != nil {
		return err
	}
	if err := o.parse(cmd, a, "TIME_MEASURE"); err != nil {
		return err
	}
	start := time.Now()
	run := a.run(o.device)
	run.TimingMethod, run.Against = timing.Method, o.against
	if !o.none() {
		run.LibrarySHA256, _ = devicebridge.Digest(o.device) // opening it will say what is wrong with it
	}
	run.Settings = o.settings()
	j, err := a.openRecords(o.records, run)
	if err != nil {
		return err
	}
	defer j.close()
	o.out = cmp.Or(o.out, resultsDir(paths))
	t := &timer{
		app: a, o: o, json: j, settings: run.Settings, digest: run.LibrarySHA256,
		csv: &timeCSV{dir: o.out, block: o.csvBlock, ids: map[string]int{}},
		measuring: timed.Timer{
			Replay: replay.Options{Registry: a.known(), ForwardOnly: o.forwardOnly, Read: o.read},
			Evict:  timing.NewEvictor(0), Caches: o.caches(), Runs: o.runTimes, MaxTime: o.maxTime,
			Resolution: o.resolution / 100,
		},
		limits: o.limits(),
		peaks:  timed.Peaks{Given: reports.Peak{Bandwidth: o.bandwidth * 1e9, Flops: o.flops * 1e9}},
	}
	if o.interleave && (o.budget == 0 || cmd.Flags().Changed("interleave")) {
		t.measuring.Order = rand.New(rand.NewPCG(o.seed, 0))
	}
	defer t.csv.close()
	if err := t.exports().writable(); err != nil {
		return failed(err)
	}
	if !o.none() {
		release, err := t.open(cmd.Context())
		if err != nil {
			return err
		}
		defer release()
	}
	if o.calibrate {
		if err := t.calibrate(cmd.Context()); err != nil {
			return failed(err)
		}
		if len(paths) == 0 {
			return t.showPeaks()
		}
	}
	if o.accCheck {
		if t.check, err = t.newAccuracy(start); err != nil {
			return err
		}
		t.measuring.Before = func(ctx context.Context, k *timed.Task) error { return t.check.look(ctx, t, k) }
		defer t.check.csv.close()
	}
	return t.run(cmd.Context(), paths, start)
}

// open opens what is measured.
func (t *timer) open(ctx context.Context) (release func(), err error) {
	m := &t.measuring
	device, renew, release, err := t.openDevice(ctx, &t.o.deviceFlags)
	m.Device, m.Renew = device, renew
	if err != nil || t.o.against == "" {
		return release, err
	}
	against, renewAgainst, releaseAgainst, err := t.openDevice(ctx, t.o.second())
	if err != nil {
		release()
		return nil, err
	}
	m.Against, m.Renew = against, both(renew, renewAgainst)
	return both(releaseAgainst, release), nil
}

// both are two functions, one after the other.
func both(f, g func()) func() {
	return func() {
		f()
		g()
	}
}

// openDevice opens a device to measure it alone. Renew gives it a new process.
func (t *timer) openDevice(ctx context.Context, d *deviceFlags) (dev timed.Device, renew, release func(), err error) {
	if name, ok := strings.CutPrefix(d.device, torchbridge.Prefix); ok {
		if t.o.calibrate {
			return nil, nil, nil, usageError("--calibrate: it is for libraries, and --device is %s", d.device)
		}
		dev, ready, release, err := d.useTorch(ctx, t.app, name, true, ontorch.Options{})
		if err != nil {
			return nil, nil, nil, err
		}
		if _, err := ready(t.app.say); err != nil {
			release()
			return nil, nil, nil, err
		}
		return dev, func() {}, release, nil
	}
	lib, release, err := d.use(ctx, t.app, true)
	if err != nil {
		return nil, nil, nil, err
	}
	library := ondevice.New(ctx, lib, ondevice.Options{})
	if t.library == nil {
		t.library = library
	}
	return library, lib.Renew, release, nil
}

// run measures what is below paths.
func (t *timer) run(ctx context.Context, paths []string, start time.Time) error {
	tasks, err := t.collect(ctx, paths)
	if err != nil {
		return err
	}
	if t.o.budget > 0 {
		rounds := 0
		if t.measuring.Order != nil {
			rounds = t.measuring.Rounds()
		}
		t.measuring.Budget, tasks = timed.NewBudget(start.Add(t.o.budget), tasks, rounds)
	}
	if t.o.none() {
		fmt.Fprintln(t.json.text(), t.style().Wrap(onReference, 2))
	}
	err = t.measureAll(ctx, tasks)
	interrupted := ctx.Err() != nil
	if err != nil && !interrupted {
		return failed(err)
	}
	return t.finish(tasks, start, interrupted)
}

// onReference says what is measured without a device.
const onReference = "measures optool's own float64 reference on this CPU: it says nothing about your device. To time a " +
	"device: --device torch:cuda:0 (PyTorch), --device LIBRARY (DIOPI)"

// finish prints the tables over all calls, writes the files and gives the exit
// code.
func (t *timer) finish(tasks []*timed.Task, start time.Time, interrupted bool) error {
	s := timeSummary{Kind: "summary", Measured: timed.Covered(tasks), Interrupted: interrupted, Settings: t.settings}
	if err := t.printTables(&s, start); err != nil {
		return failed(err)
	}
	t.printMeasuring(s)
	if err := t.json.write(t.last(s)); err != nil {
		return failed(err)
	}
	unwritten := errors.Join(t.export(), t.json.end(t.app))
	if t.csv.path != "" && !t.quiet {
		fmt.Fprintf(t.Err, "op elasped info saved to %s\n", reports.OneLine(t.csv.path))
	}
	if len(t.done) == 0 && !interrupted {
		return &exitError{s.Exit, errors.Join(unwritten, errors.New("nothing was measured"))}
	}
	return t.unwritten(s.Exit, unwritten)
}

// printTables prints the tables over all calls and the totals, and completes the summary.
func (t *timer) printTables(s *timeSummary, start time.Time) error {
	w := t.json.text()
	if t.table != nil {
		if err := t.table.legend(); err != nil {
			return err
		}
	}
	if err := t.against(w); err != nil {
		return err
	}
	if len(t.done) > 0 && !t.quiet {
		cache := t.measuring.Caches[len(t.measuring.Caches)-1]
		if err := t.printAverages(w, t.done, s.Measured, cache, t.o.byShape, t.o.sortBy, t.o.rowLimit); err != nil {
			return err
		}
	}
	if err := t.left.print(w, t.outputWidth()); err != nil {
		return err
	}
	s.Elapsed, s.PeakRSS = time.Since(start).Seconds(), rss.Peak()
	s.EvictedMiB, s.ChangeCounts, s.Exit = t.measuring.Evict.Size()>>20, t.compared, t.exit(s.Interrupted)
	if err := t.settings.Write(w, t.outputWidth()); err != nil {
		return err
	}
	if t.check != nil {
		fmt.Fprintln(w)
		if err := t.check.summary.Write(w, t.style()); err != nil {
			return err
		}
	}
	return t.printMeasured(w, &s.Measured, t.done)
}

// exit is the exit code of the run.
func (t *timer) exit(interrupted bool) int {
	switch {
	case interrupted:
		return ExitInterrupted
	case t.compared != nil && t.compared.Beyond > 0 || t.left.failed || t.check != nil && t.check.summary.Differs():
		return ExitDiffers
	case len(t.done) == 0 || t.check != nil && t.check.summary.Refused():
		return ExitFailed
	}
	return t.tally.code()
}

// printMeasuring prints how and on what was measured.
func (t *timer) printMeasuring(s timeSummary) {
	w := t.json.text()
	if t.left.forward > 0 {
		fmt.Fprintf(w, "%d of them forward only: the device has no backward pass for them\n", t.left.forward)
	}
	cold := fmt.Sprintf("%d MiB written before each run", s.EvictedMiB)
	if t.library != nil {
		cold = "a call's tensors evicted before each run"
	}
	for _, text := range t.insteads() {
		fmt.Fprintln(w, t.style().Wrap("note: "+reports.OneLine(text), 2))
	}
	if t.quiet {
		return
	}
	fmt.Fprintln(w, clockText())
	if slices.Contains(t.measuring.Caches, timing.Cold) {
		fmt.Fprintln(w, "cold: "+cold)
	}
	fmt.Fprintln(w, machineText(machine()))
}

// printAverages prints the times by op.
func (a *app) printAverages(w io.Writer, ts []*reports.Timing, m reports.Measured, cache timing.Cache, byShape bool,
	column string, limit int) error {
	fmt.Fprintf(w, "\nby op, %s caches, measured calls only: median time of a call times its calls\n", cache)
	return reports.WriteAverages(w, a.outputWidth(), reports.Averages(ts, cache, byShape, column, m.Recorded), byShape,
		limit)
}

// printMeasured prints what was measured, and what is in doubt.
func (a *app) printMeasured(w io.Writer, m *reports.Measured, ts []*reports.Timing) error {
	lines := []string{m.String()}
	if left := m.Left(); left != "" {
		lines = append(lines, "not measured: "+left)
	}
	if text := reports.Doubted(ts); text != "" {
		lines = append(lines, "warning: "+text)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, a.style().Wrap(line, 2)); err != nil {
			return err
		}
	}
	return nil
}

// exports are the files of --bench, --trace and --plot.
func (t *timer) exports() artifacts {
	device := t.o.device
	if device == "none" {
		device = "reference"
	}
	return artifacts{
		{"bench", t.o.bench, func(w io.Writer) error { return reports.GoBenchmark(w, device, t.done) }},
		{"trace", t.o.trace, func(w io.Writer) error { return reports.Trace(w, device, t.done) }},
		{"plot", t.o.plot, func(w io.Writer) error {
			_, err := w.Write(charts.File(charts.Quartiles(t.done)))
			return err
		}},
	}
}

// export writes what was measured to the files, if anything was.
func (t *timer) export() error {
	if len(t.done) == 0 {
		return nil
	}
	return t.exports().writeAll()
}

// A timeSummary is the last line of a run of time.
type timeSummary struct {
	Kind string `json:"kind"`
	reports.Measured
	Interrupted   bool    `json:"interrupted"`
	Elapsed       float64 `json:"elapsed_s"`
	PeakRSS       int64   `json:"peak_rss_bytes"`
	EvictedMiB    int     `json:"evicted_mib"` // written before each cold run
	Exit          int     `json:"exit_code"`
	*ChangeCounts         // with --against-device
	// Settings are what the run was told about what to measure, and what to compare.
	Settings reports.Settings `json:"settings,omitempty"`
}

// last is the last line, with the verdicts on the results if they were looked at.
func (t *timer) last(s timeSummary) any {
	if t.check == nil {
		return s
	}
	s.Settings = append(slices.Clip(s.Settings), t.check.summary.Settings...)
	text, _ := json.Marshal(s)
	all := t.check.summary.Counts()
	_ = json.Unmarshal(text, &all)
	return all
}

// clockText describes the host's clock.
func clockText() string {
	overhead, resolution := timing.ClockOverhead()
	return fmt.Sprintf("host clock: reading it adds %s to a run, it ticks every %s", timing.Format(overhead),
		timing.Format(resolution))
}
