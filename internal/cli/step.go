package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/rss"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/metric"
	"github.com/optool/optool/step/parallel"
	"github.com/optool/optool/step/view"
	"github.com/optool/optool/tensor"
)

type stepOptions struct {
	selection
	deviceFlags
	records    outputs
	tolerances toleranceFile
	against    string
	html       string
	layout     string
	graph      string
	dot        string
	mermaid    string
	around     int
	failOn     verdicts
	exact      []string
	in         []string
	metricFlags
	measured
	starting []readiness // of the device
}

func newStepCmd(a *app) *cobra.Command {
	var o stepOptions
	cmd := &cobra.Command{
		Use:   "step PATH",
		Short: "Find what broke a whole training step, and what it does to the loss",
		Long: `Take all calls under PATH as one program: which call produced what another read,
which call went wrong first, what changed between a producer and its reader, and
what each call's error does to the loss, recorded and exact. With --device each call
is also run again on that device, on what was recorded: which wrong calls it repeats,
which it does not, and what it gets wrong that was recorded right.`,
		Example: `  optool step op_tools_results
  optool step --json step.jsonl op_tools_results
  optool step --against run1/op_tools_results run2/op_tools_results
  optool step --html step.html op_tools_results
  optool step --device torch:cuda:0 op_tools_results
  optool step --exact torch.nn.functional.softmax op_tools_results
  optool step --in float32=torch.nn.functional.linear,torch.matmul op_tools_results
  optool step --of last captures
  optool step --of last --exact torch.Tensor.cos captures
  optool step --against train rollout`,
		Args: onePath,
		RunE: func(cmd *cobra.Command, paths []string) error { return runStep(cmd, a, &o, paths[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.html, "html", "", "also write the dataflow as a page to `FILE`")
	o.records.addFlags(cmd)
	o.failOn.addFlag(cmd)
	o.deviceFlags.add(cmd, noDevice, "run each call again on a device beside: host, the built-in one; the path of a DIOPI "+
		"`LIBRARY`; or torch:DEVICE, a device of PyTorch (torch:cuda:0)")
	o.addReplay(cmd)
	o.tolerances.addFlag(cmd)
	f.StringVar(&o.against, "against", "", "compare with the run under `PATH2`: where the two diverge first")
	f.StringVar(&o.layout, "layout", "", "where parameters of several ranks lie: a `FILE`, or its text: "+
		"\"mesh dp=2 tp=4; *.up.weight tp=S(0); * R\"")
	f.StringVar(&o.graph, "graph", "", "also write the graph as JSON to `FILE`")
	f.StringVar(&o.dot, "dot", "", "also write what is around the first finding, or before the loss, for Graphviz to `FILE`")
	f.StringVar(&o.mermaid, "mermaid", "", "the same for Mermaid")
	f.IntVar(&o.around, "around", 12, "how many calls to each side --dot and --mermaid show")
	o.metricFlags.add(cmd)
	f.StringSliceVar(&o.exact, "exact", nil, "the loss, or what --of measures, as it would have been with the ops of this list "+
		"computed exactly")
	f.StringArrayVar(&o.in, "in", nil, "the same with ops in another dtype: `DTYPE=OP[,OP]`")
	return cmd
}

func runStep(cmd *cobra.Command, a *app, o *stepOptions, path string) error {
	var err error
	o.own = a.own
	if o.read, err = a.readMode(); err != nil {
		return err
	}
	reg := a.known()
	tol, err := o.tolerances.load(reg)
	if err != nil {
		return err
	}
	imagined, err := o.imagined()
	if err != nil {
		return err
	}
	plan, err := o.plan()
	if err != nil {
		return err
	}
	if err := cmp.Or(o.check(), failed(o.drawings(nil).writable())); err != nil {
		return err
	}
	start := time.Now()
	lim := o.limits()
	var seen pastResults
	opt := step.Options{Options: replay.Options{Registry: reg, Tolerances: tol, Read: o.read},
		Within: func(bytes int64, f func() error) error {
			_, err := within(cmd.Context(), lim, bytes, func() (struct{}, error) { return struct{}{}, f() })
			return err
		},
		Causes: func(e *capture.Entry, call *replay.Call, out *replay.Outcome, until time.Time) ([]reports.Cause,
			error) {
			return causesOf(cmd.Context(), &seen, []string{path}, e, call, out, until)
		}}
	settings := append(a.operatorSettings(), o.tolerances.settings(tol)...)
	if !o.none() {
		dev, err := o.checked(cmd, a)
		if err != nil {
			return err
		}
		defer dev.release()
		o.starting = []readiness{dev.ready}
		opt.Rerun, settings = dev.Device, append(settings, dev.told...)
	}
	j, err := a.openRecords(o.records, a.run(o.device, settings...))
	if err != nil {
		return err
	}
	defer j.close()
	t, refused, err := a.readStep(cmd, path, lim, opt, &o.starting)
	if err != nil {
		return err
	}
	if err := t.Analyze(cmd.Context(), opt); err != nil {
		return failed(err)
	}
	if err := o.measure(cmd.Context(), t, opt, imagined); err != nil {
		return err
	}
	if err := parallel.Check(cmd.Context(), t, opt, plan); err != nil {
		return failed(err)
	}
	if o.against != "" {
		more, err := o.diverge(cmd, a, t, lim, opt)
		if err != nil {
			return err
		}
		refused += more
	}
	refused += a.sayDamaged(t) + len(t.GivenUp())
	o.tellEffects(t, settings)
	rec := o.recording(a, t, settings)
	if err := writeStep(j, t, o.measured, rec.Summary); err != nil {
		return failed(err)
	}
	if err := o.show(cmd, a, j.text(), t, opt, imagined, path); err != nil {
		return failed(err)
	}
	if err := a.writeTold(j.text(), rec); err != nil {
		return failed(err)
	}
	if len(settings) > 0 {
		fmt.Fprintln(j.text())
		if err := settings.Write(j.text(), a.outputWidth()); err != nil {
			return failed(err)
		}
	}
	graph := sync.OnceValue(func() *view.Graph {
		g := view.NewGraph(t, func(c *step.Call) string { return o.repro(t, c, false) })
		if o.metric != nil {
			g.AddMetric(o.metric)
		}
		if o.pair != nil {
			g.AddPair(o.pair)
		}
		return g
	})
	failures := errors.Join(o.drawings(graph).writeAll(), j.close())
	rec.Summary.Elapsed, rec.Summary.PeakRSS = time.Since(start), rss.Peak()
	*rec.Exit = stepExit(t, rec.Summary, refused)
	rec.Summary.Exit = *rec.Exit
	failures = errors.Join(failures, writeReports(a.Out, rec, nil, j.files, func(string) {}))
	return a.unwritten(*rec.Exit, failures)
}

// plan reads the layout that the flags give; nil without one.
func (o *stepOptions) plan() (*parallel.Plan, error) {
	text := o.layout
	switch {
	case text == "":
		return nil, nil
	case !strings.HasPrefix(strings.TrimSpace(text), "mesh "):
		b, err := smallfile.Read(text, smallfile.Most)
		if err != nil {
			return nil, failed(err)
		}
		text = string(b)
	}
	p, err := parallel.ParsePlan(text)
	if err != nil {
		return nil, usageError("--layout: %w", err)
	}
	return p, nil
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
			told(settings, hidden, changed)
		}
	}
}

// show writes the screen of a step.
func (o *stepOptions) show(cmd *cobra.Command, a *app, w io.Writer, t *step.Trace, opt step.Options,
	imagined []imaginedRun, path string) error {
	extra := view.Extra{Style: a.style(), Without: step.Moved{Loss: math.NaN()}, Next: o.next(t, path),
		Device: o.device}
	if f := t.First(); f != nil && f.Rule != verdict.Diverged {
		extra.Without = f.Without(cmd.Context(), opt)
	}
	for _, i := range imagined {
		if o.metric != nil {
			break // it says what the metric would have been
		}
		lines, err := i.lines(cmd, t, opt)
		if err != nil {
			return err
		}
		extra.Imagine = append(extra.Imagine, lines...)
	}
	extra.More = func(w io.Writer) error { return o.tell(w, extra.Style) }
	return view.Screen(w, t, extra)
}

// stepExit is the exit code of a step of which so many captures could not be read.
func stepExit(t *step.Trace, s *reports.Summary, refused int) int {
	_, device := t.Reruns()
	if device == nil {
		device = &step.Reruns{}
	}
	judged := t.Judged() > 0 || t.Runs != nil && t.Runs.Compared > 0 || device.Run > 0
	switch {
	case t.First() != nil || device.Wrong > 0 || s.Unwanted():
		return ExitDiffers
	case refused > 0 || device.Errors > 0 || !judged:
		return ExitFailed
	}
	return ExitOK
}

// recording is what reports are made of.
func (o *stepOptions) recording(a *app, t *step.Trace, settings reports.Settings) *reports.Recording {
	rec := &reports.Recording{Run: a.run(o.device, settings...), Last: []byte("{}"), Summary: reports.NewSummary(),
		Exit: new(int)}
	rec.Results = reports.ResultsOf(t.Results(func(c *step.Call, onDevice bool) string {
		return o.repro(t, c, onDevice)
	})...)
	for r := range rec.Results.All() {
		rec.Summary.Add(r)
	}
	if n := t.Unrecorded(); n > 0 {
		rec.Summary.Unjudged.Count("weight gradients were not recorded", "", n)
	}
	rec.Summary.Settings, rec.Summary.FailOn = settings, o.failOn
	return rec
}

// drawings are the pictures that the flags name, of the graph that of makes.
func (o *stepOptions) drawings(of func() *view.Graph) artifacts {
	return artifacts{
		{"html", o.html, func(w io.Writer) error { return of().WriteHTML(w) }},
		{"graph", o.graph, func(w io.Writer) error { return of().WriteJSON(w) }},
		{"dot", o.dot, func(w io.Writer) error { return of().WriteDot(w, of().RegionAround(o.around)) }},
		{"mermaid", o.mermaid, func(w io.Writer) error { return of().WriteMermaid(w, of().RegionAround(o.around)) }},
	}
}

// A stepCall is what one capture gave: nothing, if it is no call of the step.
type stepCall struct {
	call  *step.Call
	bytes int64
	err   error
}

// readStep reads all calls below a path and links them; devices are starting.
func (a *app) readStep(cmd *cobra.Command, path string, lim *limits, opt step.Options, devices *[]readiness) (
	t *step.Trace, refused int, err error) {
	return a.readCalls(cmd, []string{path}, lim, opt, devices, step.Read)
}

// readCalls reads all calls under the paths, each by read, and links them.
func (a *app) readCalls(cmd *cobra.Command, paths []string, lim *limits, opt step.Options, devices *[]readiness,
	read func(*capture.Entry, step.Options) *step.Call) (t *step.Trace, refused int, err error) {
	bar := a.newProgress("step", "capture")
	bar.index(cmd.Context(), paths)
	defer bar.end()
	var calls []*step.Call
	coming := readAhead(cmd.Context(), scan(cmd.Context(), paths, capture.Options{}), lim.ahead(),
		func(e *capture.Entry) bool { return e.NotRun() == "" && !e.IsPair() })
	err = ordered(cmd.Context(), a.jobs, coming,
		func(f found) *stepCall {
			switch {
			case f.entry == nil:
				return &stepCall{err: f.err}
			case f.entry.NotRun() != "" || f.entry.IsPair(): // operators' calls, and only those of one run
				return &stepCall{}
			}
			bar.begin(f.entry.Op)
			bytes := f.entry.Bytes()
			call, err := within(cmd.Context(), lim, bytes, func() (*step.Call, error) {
				c := read(f.entry, opt)
				return c, c.TooLarge
			})
			if err != nil && cmd.Context().Err() == nil {
				call, _ = within(cmd.Context(), lim, bytes, func() (*step.Call, error) {
					return step.NotRun(f.entry, err, opt), nil
				})
				err = fmt.Errorf("%s: %w", f.entry.Rel, err)
			}
			return &stepCall{call, bytes, err}
		},
		func(c *stepCall) error {
			if err := started(devices, a, bar); err != nil {
				return err
			}
			if c.err != nil {
				refused++
				bar.warn(a, c.err)
			}
			bar.add(false, c.bytes)
			if c.call != nil {
				calls = append(calls, c.call)
			}
			return nil
		})
	if err != nil {
		return nil, refused, failed(err)
	}
	if len(calls) == 0 {
		return nil, refused, &exitError{ExitFailed, fmt.Errorf("%s: no captures found", strings.Join(paths, ", "))}
	}
	return step.New(calls), refused, nil
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
	s := t.Summary()
	s.Unjudged, s.Settings = counted.Unjudged, counted.Settings
	if m.metric != nil {
		s.Metric = m.metric.Record()
	}
	if m.pair != nil {
		s.Tokens = m.pair.Record()
	}
	return j.write(s)
}

// An imaginedRun is the step with some ops computed otherwise.
type imaginedRun struct {
	text  string // "torch.matmul exact"
	ops   *capture.Patterns
	how   step.Choice
	dtype tensor.DType
}

// imagined are the runs that --exact and --in ask for.
func (o *stepOptions) imagined() ([]imaginedRun, error) {
	var out []imaginedRun
	add := func(flag, list, text string, how step.Choice, dt tensor.DType) error {
		p, err := capture.ParsePatterns(list)
		if err != nil {
			return usageError("--%s: %w", flag, err)
		}
		out = append(out, imaginedRun{list + text, p, how, dt})
		return nil
	}
	if len(o.exact) > 0 {
		if err := add("exact", strings.Join(o.exact, ","), " exact", step.AsExact, tensor.Invalid); err != nil {
			return nil, err
		}
	}
	for _, arg := range o.in {
		name, list, ok := strings.Cut(arg, "=")
		dt, known := tensor.ParseDType(name)
		if !ok || !known || !dt.IsFloat() {
			return nil, usageError("--in: want DTYPE=OP[,OP] with a floating dtype, got %q", arg)
		}
		if err := add("in", list, " in "+dt.String(), step.InDType, dt); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// whatIf is the run; n, if not nil, counts the calls that are computed otherwise.
func (w imaginedRun) whatIf(n *int) step.WhatIf {
	return step.WhatIf{Choose: func(c *step.Call) (step.Choice, tensor.DType) {
		if !w.ops.Match(c.Op) {
			return step.AsRecorded, tensor.Invalid
		}
		if n != nil {
			*n++
		}
		return w.how, w.dtype
	}}
}

// lines say what the losses would have been.
func (w imaginedRun) lines(cmd *cobra.Command, t *step.Trace, opt step.Options) ([]string, error) {
	var out []string
	n := 0
	what := w.whatIf(&n)
	for _, p := range t.Processes {
		losses, err := p.Losses(cmd.Context(), what, opt)
		if err != nil {
			return nil, err
		}
		for i, s := range p.Steps {
			out = append(out, fmt.Sprintf("with %s the loss of %s would have been %.9g: %+.3g", w.text, s.Loss,
				losses[i], losses[i]-s.Captured))
		}
	}
	if n == 0 {
		return []string{w.text + ": no such call"}, nil
	}
	return out, nil
}

// command is a command of this program, with what decides about verdicts.
func (o *stepOptions) command(args ...string) string {
	args = o.selection.command(args[0], args[1:]...)
	return strings.Join(slices.Insert(args, len(args)-1, o.tolerances.repro()...), " ")
}

// repro is the command that runs a call again: a collective with those of the other ranks.
func (o *stepOptions) repro(t *step.Trace, c *step.Call, onDevice bool) string {
	args := []string{"replay", "--tables"}
	if onDevice {
		args = append(args, o.deviceFlags.repro()...)
	}
	var paths []string
	for _, e := range t.Exchange(c) {
		paths = append(paths, quotePath(pathOf(e)))
	}
	return o.command(append(args, strings.Join(paths, " "))...)
}

// next are commands that show more.
func (o *stepOptions) next(t *step.Trace, path string) []string {
	var out []string
	if len(t.Findings) > 0 {
		f := t.Findings[0]
		at := quotePath(pathOf(f.Call.Entry))
		if f.Rule == verdict.Diverged && f.Peer != nil {
			out = append(out, o.command("compare", "--tables", quotePath(pathOf(f.Peer.Entry)), at))
		} else {
			out = append(out, o.repro(t, f.Call, false))
		}
		if f.Rule == verdict.Wrong && len(t.Exchange(f.Call)) == 1 {
			out = append(out, o.command("explain", at))
		}
	}
	wrong, _ := t.Reruns()
	if i := slices.IndexFunc(wrong, func(r *step.Rerun) bool { return r.Standing != step.NotRepeated }); i >= 0 {
		out = append(out, o.repro(t, wrong[i].Call, true))
	}
	if o.html == "" {
		out = append(out, o.command("step", "--html", "step.html", quotePath(path)))
	}
	return out
}
