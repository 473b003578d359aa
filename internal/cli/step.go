package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/collector"
	"github.com/optool/optool/internal/rss"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/metric"
	"github.com/optool/optool/step/parallel"
	"github.com/optool/optool/step/view"
)

func newStepCmd(a *app) *cobra.Command {
	var o stepOptions
	cmd := &cobra.Command{
		Use:   "step PATH",
		Short: "Find what broke a whole training step, and what it does to the loss",
		Long: `step treats the calls under PATH as one program. It finds the call that went wrong
first and values that changed between two calls. It prints the way from there to the
loss, the loss without the fault, and the calls whose errors move the loss most.

If folders of PATH hold the recordings of several programs, each is judged by itself,
and the worst comes first.

Recordings without gradients have no loss: --of measures effects on logits instead.
With --device, step also runs each call on that device, on the recorded inputs. It
says which faults the device repeats, and what only the device gets wrong.`,
		Example: `  optool step op_tools_results
  optool step --json step.jsonl op_tools_results
  optool step --against run1/op_tools_results run2/op_tools_results
  optool step --html step.html op_tools_results
  optool step --device torch:cuda:0 op_tools_results
  optool step --exact torch.nn.functional.softmax op_tools_results
  optool step --in float32=torch.nn.functional.linear,torch.matmul op_tools_results
  optool step --of last captures
  optool step --of last --exact torch.nn.functional.linear captures
  optool step --against train rollout`,
		Args: onePath,
		RunE: func(cmd *cobra.Command, paths []string) error { return runStep(cmd, a, &o, paths[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.html, "html", "", "write the dataflow as an HTML page to `FILE`")
	o.records.addFlags(cmd)
	o.failOn.addFlag(cmd)
	o.deviceFlags.add(cmd, noDevice, "also run each call on this device: host (built in), the path of a DIOPI "+
		"`LIBRARY`, or torch:DEVICE (PyTorch, such as torch:cuda:0)")
	o.addReplay(cmd)
	o.tolerances.addFlag(cmd)
	f.StringVar(&o.against, "against", "", "compare with the run under `PATH2`, and find where the two diverge first")
	f.StringVar(&o.layout, "layout", "", "where parameters of several ranks lie: a `FILE`, or its text: "+
		"\"mesh dp=2 tp=4; *.up.weight tp=S(0); * R\"")
	f.StringVar(&o.graph, "graph", "", "write the graph as JSON to `FILE`")
	f.StringVar(&o.dot, "dot", "", "write the calls around the first finding, or before the loss, for Graphviz to `FILE`")
	f.StringVar(&o.mermaid, "mermaid", "", "write the same calls for Mermaid to `FILE`")
	f.IntVar(&o.around, "around", 12, "how many calls to each side --dot and --mermaid show")
	o.metricFlags.add(cmd)
	f.StringSliceVar(&o.exact, "exact", nil, "print the loss (or the measure of --of) as it would be with the ops of this `LIST` "+
		"computed exactly")
	f.StringArrayVar(&o.in, "in", nil, "print it as it would be with ops computed in another dtype: `DTYPE=OP[,OP]`")
	return cmd
}

// A stepRun is one run of step.
type stepRun struct {
	cmd      *cobra.Command
	a        *app
	o        *stepOptions
	path     string
	limits   *limits
	opt      step.Options
	plan     *parallel.Plan
	imagined []imaginedRun
	settings reports.Settings
	json     *jsonOutput
	shown    view.Extra // what was said beside the trace
}

func runStep(cmd *cobra.Command, a *app, o *stepOptions, path string) (err error) {
	o.own = a.own
	if o.read, err = a.readMode(); err != nil {
		return err
	}
	r := &stepRun{cmd: cmd, a: a, o: o, path: path}
	tol, err := o.tolerances.load(a.known())
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"of": o.of, "exact": strings.Join(o.exact, "")} {
		if text == "" && cmd.Flags().Changed(name) {
			return usageError("--%s is empty", name)
		}
	}
	if r.imagined, err = o.imagined(); err != nil {
		return err
	}
	if r.plan, err = o.plan(); err != nil {
		return err
	}
	if err := cmp.Or(o.check(), failed(o.drawings(nil).writable())); err != nil {
		return err
	}
	if d := openDump(path, o.read); d != nil {
		return o.runDump(a, d)
	}
	if err := o.ofOneProgram(cmd, a, path); err != nil {
		return err
	}
	start := time.Now()
	collector.Keep()
	r.limits = o.limits()
	r.opt = r.options(tol)
	r.settings = append(a.operatorSettings(), o.tolerances.settings(tol)...)
	if !o.none() {
		dev, err := o.checked(cmd, a)
		if err != nil {
			return err
		}
		defer dev.release()
		o.starting = []readiness{dev.ready}
		r.opt.Rerun, r.settings = dev.Device, append(r.settings, dev.told...)
	}
	if r.json, err = a.openRecords(o.records, a.run(o.device, r.settings...)); err != nil {
		return err
	}
	defer r.json.close()
	list, refused, err := r.analyze()
	if err != nil {
		return err
	}
	if len(list) > 1 {
		return r.several(list, refused, start)
	}
	t := list[0].trace
	o.tellEffects(t, r.settings)
	rec, err := o.recording(a, r.settings, list)
	if err != nil {
		return failed(err)
	}
	if err := r.write(t, rec); err != nil {
		return err
	}
	graph := sync.OnceValue(func() *view.Graph { return o.graphOf(t, r.shown, rec, path) })
	failures := o.drawings(graph).writeAll()
	if failures == nil && o.html != "" {
		a.tellPage(o.html)
	}
	failures = errors.Join(failures, r.json.close())
	rec.Summary.Elapsed, rec.Summary.PeakRSS = time.Since(start), rss.Peak()
	*rec.Exit = stepExit(list, rec.Summary, refused)
	if *rec.Exit == ExitOK && o.unknown() {
		*rec.Exit = ExitFailed
	}
	rec.Summary.Exit = *rec.Exit
	failures = errors.Join(failures, writeReports(a.Out, rec, nil, r.json.files, func(string) {}))
	return a.unwritten(*rec.Exit, failures)
}

// options are those of the step: each call keeps within the limits.
func (r *stepRun) options(tol *compare.Tolerances) step.Options {
	var shared searches
	return step.Options{Options: replay.Options{Registry: r.a.known(), Tolerances: tol, Read: r.o.read},
		Within: func(bytes int64, f func() error) error {
			_, err := within(r.cmd.Context(), r.limits, bytes, func() (struct{}, error) { return struct{}{}, f() })
			return err
		},
		Causes: func(e *capture.Entry, call *replay.Call, out *replay.Outcome, a *causes.Allowance) ([]reports.Cause,
			error) {
			return shared.causesOf(r.cmd.Context(), []string{r.path}, e, call, out, a)
		}}
}

// analyze reads the programs and looks for what went wrong in each; so many captures could not be read in whole.
func (r *stepRun) analyze() (list []*recordedProgram, refused int, err error) {
	if list, refused, err = r.a.readPrograms(r.cmd, r.path, r.limits, r.opt, &r.o.starting); err != nil {
		return nil, 0, err
	}
	for _, p := range list {
		more, err := r.analyzeProgram(p.trace)
		if err != nil {
			return nil, 0, err
		}
		refused += more
	}
	return list, refused, nil
}

// analyzeProgram looks for what went wrong in one program.
func (r *stepRun) analyzeProgram(t *step.Trace) (refused int, err error) {
	ctx := r.cmd.Context()
	if err := t.Analyze(ctx, r.opt); err != nil {
		return 0, failed(err)
	}
	if err := met(r.imagined, t); err != nil {
		return 0, err
	}
	if err := r.o.measure(ctx, t, r.opt, r.imagined); err != nil {
		return 0, err
	}
	unjoined := 0
	switch err := parallel.Check(ctx, t, r.opt, r.plan); {
	case errors.As(err, new(*replay.InternalError)):
		r.a.warn("the ranks were not judged as one program: %v%s", err, traceHint())
		unjoined = 1
	case err != nil:
		return 0, failed(err)
	}
	if r.o.against != "" {
		if refused, err = r.o.diverge(r.cmd, r.a, t, r.limits, r.opt); err != nil {
			return 0, err
		}
	}
	return unjoined + refused + r.a.sayDamaged(t) + len(t.GivenUp()), nil
}

// write writes the records and the screen.
func (r *stepRun) write(t *step.Trace, rec *reports.Recording) error {
	if err := writeStep(r.json, t, r.o.measured, rec.Summary); err != nil {
		return failed(err)
	}
	w := r.json.text()
	var err error
	if r.shown, err = r.o.shown(r.cmd, r.a, t, r.opt, r.imagined, r.path); err != nil {
		return failed(err)
	}
	rec.Summary.Facts = view.Facts(t, r.shown)
	if err := view.Screen(w, t, r.shown); err != nil {
		return failed(err)
	}
	return failed(r.writeSettings(w, rec))
}

// graphOf is the graph of the step, with what was measured.
func (o *stepOptions) graphOf(t *step.Trace, shown view.Extra, rec *reports.Recording, path string) *view.Graph {
	g := view.NewGraph(t, func(c *step.Call) string { return o.repro(t, c, false, path) })
	g.Title = "optool step " + reports.OneLine(filepath.Base(absolute(path))) + ": " + g.Judgement
	g.AddMoved(t, shown)
	g.AddRecording(rec)
	if o.metric != nil {
		g.AddMetric(o.metric)
	}
	if o.pair != nil {
		g.AddPair(o.pair)
	}
	return g
}

// writeTold prints the calls for which --fail-on makes the run fail, and what was not judged.
func (a *app) writeTold(w io.Writer, rec *reports.Recording) error {
	failing := reports.NewDigest(rec.Summary.FailOn)
	for f := range rec.Findings() {
		if !f.Bad() { // others are findings of the step
			failing.Add(f)
		}
	}
	for i, text := range rec.Summary.Told() {
		if i == 0 {
			fmt.Fprintln(w)
			if err := failing.Write(w, a.style()); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w, a.style().Wrap(text, 2)); err != nil {
			return err
		}
	}
	return nil
}

// diverge compares the step with the other one; refused are captures of that.
func (o *stepOptions) diverge(cmd *cobra.Command, a *app, t *step.Trace, lim *limits, opt step.Options) (refused int,
	err error) {
	if d := openDump(o.against, o.read); d != nil {
		return 0, o.againstDump(cmd, t, d, opt)
	}
	alone := opt
	alone.Rerun = nil
	other, refused, err := a.readStep(cmd, o.against, lim, alone, &o.starting)
	if err != nil {
		return refused, err
	}
	refused += a.sayDamaged(other) + len(other.GivenUp())
	if o.pair, err = metric.NewPair(cmd.Context(), t, other, o.of, opt); err != nil {
		return refused, failed(err)
	}
	if o.pair != nil {
		o.pair.Merge(t)
		return refused, nil
	}
	// What is wrong with the other run by itself tells a repaired fault from a new one.
	if err := other.Analyze(cmd.Context(), alone); err != nil {
		return refused, failed(err)
	}
	return refused, failed(t.Against(cmd.Context(), other, opt))
}

// sayDamaged names the captures that could not be read in whole, and counts them.
func (a *app) sayDamaged(t *step.Trace) (n int) {
	for _, c := range t.Damaged() {
		n++
		a.warn("%s", c.Damaged)
	}
	return n
}

// tellEffects says in the settings what calls were run with.
func (o *stepOptions) tellEffects(t *step.Trace, settings reports.Settings) {
	for _, c := range t.Calls() {
		for name, excused := range c.Changed {
			settings.Change(name, excused)
		}
		if c.Rerun != nil {
			hidden, changed := o.effects(c.Rerun)
			recordSettings(settings, hidden, changed)
		}
	}
}

// shown is what the screen and the reports of a step say beside its trace.
func (o *stepOptions) shown(cmd *cobra.Command, a *app, t *step.Trace, opt step.Options, imagined []imaginedRun,
	path string) (view.Extra, error) {
	extra := view.Extra{Style: a.style(), Without: step.Moved{Loss: math.NaN()}, Next: o.next(t, path),
		Device: o.device}
	if i := slices.IndexFunc(t.Findings, (*step.Finding).IsWrong); i >= 0 {
		extra.Send = o.command("bundle", quotePath(pathOf(t.Findings[i].Call.Entry)))
	}
	if f := t.FirstFault(); f != nil || t.First() != nil && t.First().Rule == verdict.Parallel {
		if first := t.First(); f != nil && first.Rule == verdict.Diverged {
			extra.Fault = "the fault of " + f.Call.String()
		}
		extra.Without = t.Without(cmd.Context(), opt)
		extra.Together, extra.Faults = t.Together(cmd.Context(), extra.Without, opt)
		extra.Shares = t.Shares(cmd.Context(), extra.Without, view.MostSteps, opt)
	}
	for _, i := range imagined {
		if o.metric != nil {
			break // it says what the metric would have been
		}
		lines, err := i.lines(cmd, t, opt)
		if err != nil {
			return extra, err
		}
		extra.Imagine = append(extra.Imagine, lines...)
	}
	extra.More = func(w io.Writer) error { return o.tell(w, extra.Style) }
	return extra, nil
}

// stepExit is the exit code of the steps of programs, of which so many captures could not be read.
func stepExit(list []*recordedProgram, s *reports.Summary, refused int) int {
	wrong, judged := s.Unwanted(), false
	for _, p := range list {
		t := p.trace
		_, device := t.Reruns()
		if device == nil {
			device = &step.Reruns{}
		}
		refused += device.Errors
		judged = judged || t.Judged() > 0 || t.Runs != nil && t.Runs.Compared > 0 || device.Run > 0
		wrong = wrong || t.First() != nil || len(t.SavedWrong()) > 0 || device.Wrong > 0
	}
	switch {
	case wrong:
		return ExitDiffers
	case refused > 0 || !judged:
		return ExitFailed
	}
	return ExitOK
}

// writeStep writes the records of a step.
func writeStep(j *jsonOutput, t *step.Trace, m measured, counted *reports.Summary) error {
	if j.lines == nil {
		return nil
	}
	if err := t.Nodes(func(n *step.Node) error { return j.write(n) }); err != nil {
		return err
	}
	if m.pair != nil {
		for _, k := range m.pair.Tokens {
			if err := j.write(k.Record()); err != nil {
				return err
			}
		}
	}
	if err := writeFindings(j, t); err != nil {
		return err
	}
	s := t.Summary()
	s.Judged, s.Unjudged, s.Settings = counted.Judged(), counted.Unjudged, counted.Settings
	if m.metric != nil {
		s.Metric = m.metric.Record()
	}
	if m.pair != nil {
		s.Tokens = m.pair.Record()
	}
	return j.write(s)
}

// writeFindings writes the records of findings.
func writeFindings(j *jsonOutput, t *step.Trace) error {
	for _, f := range t.Findings {
		if err := j.write(f.Record()); err != nil {
			return err
		}
		for i := range f.Causes {
			if err := j.cause(&f.Causes[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
