package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/devicebridge/diopi/mapping"
	"github.com/optool/optool/devicebridge/torchbridge"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/coverage"
	"github.com/optool/optool/replay/ondevice"
	"github.com/optool/optool/replay/ontorch"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/webpage"
)

type deviceOptions struct {
	selection
	deviceFlags
	captures []string
	json     bool
	missing  bool
	dtypes   bool
	check    bool
	only     int // the case of --check that is run, -1 for all
	build    bool
	csv      string
	html     string
}

func newDeviceCmd(a *app) *cobra.Command {
	var o deviceOptions
	cmd := &cobra.Command{
		Use:   "device LIBRARY|torch:DEVICE",
		Short: "Show what a device or DIOPI library supports",
		Long: `device loads a DIOPI library (or host, the built-in one) in a process of its own. It
prints the vendor, the versions, and which functions of DIOPI's interface the library
exports. For torch:DEVICE it starts Python and prints versions and how many operators
run a small example in each dtype; --dtypes does the same for libraries.

--captures says which recorded calls the device can run, by op and dtype. --csv and
--html write the table to files.`,
		Example: `  optool device host
  optool device --missing ./libdiopi_impl.so
  optool device --captures op_tools_results --html coverage.html ./libdiopi_impl.so
  optool device --check ./libdiopi_impl.so
  optool device --missing --op 'torch.nn.functional.*' torch:cuda:0`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.build && len(args) == 0 {
				return nil
			}
			if len(args) != 1 {
				return usageError("device: want one LIBRARY or torch:DEVICE, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.build {
				dir, err := devicebridge.Build(cmd.Context())
				if err != nil {
					return failed(err)
				}
				fmt.Fprintf(a.Err, "the worker and the built-in device are in %s\n", reports.OneLine(dir))
			}
			if len(args) == 0 {
				return nil
			}
			o.device = args[0]
			return runDevice(cmd, a, &o)
		},
	}
	o.selection.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.adaptor, "adaptor", "",
		"load the vendor's device functions from `LIBRARY`, if the device's library has none")
	o.torch.add(cmd)
	addTimeoutFlag(cmd, &o.timeout, "one call", deviceAndReference)
	f.StringArrayVar(&o.captures, "captures", nil,
		"say which recorded calls under `PATH` the device can run; repeatable")
	f.BoolVar(&o.dtypes, "dtypes", false, "run a small example of every operator with every dtype")
	f.BoolVar(&o.check, "check", false,
		"run every function of the device on generated arguments, and compare with the reference; "+
			"--json prints everything")
	f.IntVar(&o.only, "case", -1, "with --check and --op: run the case of this `NUMBER` alone, such as one of a finding")
	f.BoolVar(&o.build, "build-worker", false,
		"build device support with g++, once per user, for an optool that was installed without it (go "+
			"install)")
	f.BoolVar(&o.missing, "missing", false,
		"list the functions that the library does not export, and the operators that do not run with every "+
			"dtype")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	f.StringVar(&o.csv, "csv", "", "write a row for each operator and dtype to `FILE`")
	f.StringVar(&o.html, "html", "", "write operators and dtypes as a self-contained HTML page to `FILE`")
	o.devices, o.repeat = 1, 1
	return cmd
}

// A deviceReport is what optool device prints: of a library or of a device of PyTorch, then
// of operators.
type deviceReport struct {
	*libraryReport
	*torchReport
	Ops   []*reports.CoverageRow `json:"ops,omitempty"`
	Check *checkReport           `json:"check,omitempty"`
}

type libraryReport struct {
	Library      string         `json:"library"`
	Vendor       string         `json:"vendor"`
	Version      string         `json:"version"`
	Remarks      []string       `json:"remarks,omitempty"` // what is wrong with vendor and version
	Isolation    []string       `json:"isolation"`         // what keeps the library away from optool
	Interface    int            `json:"diopi_version"`     // of the headers optool knows
	LastError    bool           `json:"has_last_error_string"`
	DeviceMemory bool           `json:"has_device_functions"`
	Groups       []*deviceGroup `json:"groups"`
	Exported     []string       `json:"exported"`
	Missing      []string       `json:"missing"`
}

type torchReport struct {
	Device string           `json:"device"`
	Torch  torchbridge.Info `json:"torch"`
}

type deviceGroup struct {
	Name     string `json:"name"`
	Exported int    `json:"exported"`
	Total    int    `json:"total"`
}

// A target is the device that the command is about.
type target struct {
	replay.Device
	report deviceReport
	// canRun returns the functions that a recorded call takes, or why it cannot run.
	canRun func(c *replay.DeviceCall) ([]string, error)
	// may reports whether the device may have an operator, has whether it has a function.
	may     func(e *opdef.Entry) bool
	has     func(function string) bool
	release func()
}

// target opens the device.
func (o *deviceOptions) target(ctx context.Context, a *app) (*target, error) {
	if name, ok := strings.CutPrefix(o.device, torchbridge.Prefix); ok {
		dev, err := o.openTorch(ctx, name)
		if err != nil {
			return nil, err
		}
		d := ontorch.New(ctx, dev, ontorch.Options{})
		return &target{Device: d, report: deviceReport{torchReport: &torchReport{o.device, dev.Info()}},
			canRun:  func(c *replay.DeviceCall) ([]string, error) { return coverage.Run(d, c) },
			may:     func(*opdef.Entry) bool { return true },
			has:     func(string) bool { return true },
			release: func() { dev.Close() }}, nil
	}
	lib, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	exported := map[string]bool{}
	for _, f := range lib.Info().Functions {
		exported[f] = true
	}
	d := ondevice.New(ctx, lib, ondevice.Options{})
	return &target{Device: d,
		report: deviceReport{libraryReport: newLibraryReport(o.device, lib.Info())},
		canRun: func(c *replay.DeviceCall) ([]string, error) {
			functions, err := ondevice.Functions(c)
			if i := slices.IndexFunc(functions, func(f string) bool { return !exported[f] }); err == nil && i >= 0 {
				err = fmt.Errorf("the library has no %s", functions[i])
			}
			if err == nil { // it may refuse the dtype
				_, err = coverage.Run(d, c)
			}
			return functions, err
		},
		may: func(e *opdef.Entry) bool {
			_, err := mapping.Of(e)
			return err == nil
		},
		has:     func(f string) bool { return exported[f] },
		release: func() { lib.Close() }}, nil
}

func runDevice(cmd *cobra.Command, a *app, o *deviceOptions) error {
	if err := o.parse(cmd, a, "CAPTURE"); err != nil {
		return err
	}
	if err := o.excluded(cmd); err != nil {
		return err
	}
	if err := o.files(nil, nil).writable(); err != nil {
		return failed(err)
	}
	d, err := o.target(cmd.Context(), a)
	if err != nil {
		return err
	}
	defer d.release()
	if o.check {
		return o.runChecks(cmd.Context(), a, d)
	}
	var t tally
	var covered *reports.Coverage
	r := d.report
	switch {
	case len(o.captures) > 0:
		if covered, err = o.recorded(cmd.Context(), a, d, &t); err != nil {
			return err
		}
		if err := o.found(t, o.captures); err != nil {
			return err
		}
	case o.dtypes || o.csv != "" || o.html != "" || r.torchReport != nil:
		if covered, err = o.samples(cmd.Context(), a, d); err != nil {
			return err
		}
	}
	if covered != nil {
		r.Ops = covered.Rows()
	}
	if o.json {
		err = reports.NewJSONLines(a.Out).Write(r)
	} else {
		err = o.print(a, &r, covered)
	}
	if err == nil {
		err = o.files(&r, covered).writeAll()
	}
	if err != nil {
		return failed(err)
	}
	t.end(a)
	return exitWith(t.code())
}

// excluded refuses flags that would do nothing.
func (o *deviceOptions) excluded(cmd *cobra.Command) error {
	refuse := func(why string, flags ...string) error {
		for _, f := range flags {
			if cmd.Flags().Changed(f) {
				return usageError("--%s: %s", f, why)
			}
		}
		return nil
	}
	if o.check {
		err := refuse("--check writes text or --json alone", "csv", "html", "captures", "dtypes", "missing")
		if err != nil {
			return err
		}
	}
	if cmd.Flags().Changed("case") && (!o.check || o.filter.Ops == nil || o.only < 0) {
		return usageError("--case: it is the number of a case of --check --op NAME, such as --case 8")
	}
	if len(o.captures) == 0 {
		return refuse("it selects recorded calls, so it needs --captures", "dtype", "where")
	}
	return nil
}

// files are those that are asked for.
func (o *deviceOptions) files(r *deviceReport, covered *reports.Coverage) artifacts {
	return artifacts{
		{"csv", o.csv, func(w io.Writer) error { return reports.WriteCSV(w, covered.Sheet()) }},
		{"html", o.html, func(w io.Writer) error {
			return webpage.WriteCoverage(w, "optool device "+o.device, r.facts(), o.sentence(covered), covered)
		}},
	}
}

func newLibraryReport(name string, i devicebridge.Info) *libraryReport {
	r := &libraryReport{
		Library: name, Vendor: i.Vendor, Version: i.Version, Remarks: i.Remarks,
		Isolation: i.Isolation,
		Interface: diopi.Version(), LastError: i.LastError,
		DeviceMemory: i.Adaptor,
		Exported:     i.Functions, Missing: i.Missing,
	}
	exported := map[string]bool{}
	for _, f := range i.Functions {
		exported[f] = true
	}
	groups := map[string]*deviceGroup{}
	for _, f := range diopi.Operators() {
		g := groups[f.Group]
		if g == nil {
			g = &deviceGroup{Name: f.Group}
			groups[f.Group] = g
			r.Groups = append(r.Groups, g)
		}
		g.Total++
		if exported[f.Name] {
			g.Exported++
		}
	}
	return r
}

// recorded asks of every recorded call whether the device can run it.
func (o *deviceOptions) recorded(ctx context.Context, a *app, d *target, t *tally) (*reports.Coverage, error) {
	covered := reports.NewCoverage()
	opt := replay.Options{Registry: a.known(), Read: o.read}
	lim := newLimits(0, referenceTimeout)
	for f := range scan(ctx, o.captures, capture.Options{}) {
		t.walked++
		ok, err := false, f.err
		if err == nil {
			ok, err = o.filter.Match(f.entry, o.read)
		}
		if err != nil {
			t.refuse(a, []error{err})
		}
		if err != nil || !ok {
			continue
		}
		t.captures++
		c, err := within(ctx, lim, f.entry.Bytes(), func() (asked, error) {
			return ask(f.entry, opt, d.canRun)
		})
		if ctx.Err() != nil {
			return nil, failed(ctx.Err())
		}
		if c.unread != nil {
			t.refuse(a, []error{c.unread})
		}
		covered.Add(cmp.Or(c.op, f.entry.Op), cmp.Or(c.dtype, dtypeUnknown), c.functions, err)
	}
	return covered, failed(ctx.Err())
}

// dtypeUnknown is the dtype of a call that cannot be read.
const dtypeUnknown = "not known"

// An asked call is a recorded one and the functions that it takes.
type asked struct {
	op, dtype string
	functions []string
	unread    error // why its file cannot be read
}

// ask finds out what the forward pass of a recorded call takes on a device. The error says
// why it cannot run.
func ask(e *capture.Entry, opt replay.Options, canRun func(*replay.DeviceCall) ([]string, error)) (asked, error) {
	c := replay.Open(e, opt)
	defer c.Close()
	a := asked{op: cmp.Or(c.Op, e.Op)}
	err := c.Err()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		if unread := c.Record.Err(capture.Input); !errors.Is(unread, capture.ErrNoFile) {
			a.unread = unread
		}
		return a, err
	}
	err = replay.Guard(func() (err error) {
		dc := c.DeviceCall(false)
		a.dtype = coverage.DTypeOf(dc.Call, dc.Forward)
		a.functions, err = canRun(dc)
		return err
	})
	return a, err
}

// operators are those that --op and --not-op select, by a name of theirs or of a function of DIOPI that computes them.
func (o *deviceOptions) operators(a *app, d *target) ([]*opdef.Entry, error) {
	names := func(e *opdef.Entry) []string {
		if m, err := mapping.Of(e); err == nil && d.report.libraryReport != nil {
			return slices.Concat(e.Names, m.Recipe.Functions())
		}
		return e.Names
	}
	var chosen []*opdef.Entry
	for _, e := range a.known().Entries() {
		if (o.filter.Ops == nil || slices.ContainsFunc(names(e), o.filter.Ops.Match)) &&
			(o.filter.NotOps == nil || !slices.ContainsFunc(names(e), o.filter.NotOps.Match)) {
			chosen = append(chosen, e)
		}
	}
	if o.filter.Ops == nil {
		return chosen, nil
	}
	unknown := hints(o.filter.Ops, "operator")
	if len(chosen) == 0 && len(unknown) == 0 {
		return nil, usageError("--op and --not-op together select no operator")
	}
	if len(chosen) == 0 {
		return nil, usageError("--op: %s", strings.Join(unknown, "; "))
	}
	for _, text := range unknown {
		a.warn("--op: %s", text)
	}
	return chosen, nil
}

// samples tries a small call of every operator with every dtype.
func (o *deviceOptions) samples(ctx context.Context, a *app, d *target) (*reports.Coverage, error) {
	covered := reports.NewCoverage()
	bar := a.newProgress("device", "operator")
	entries, err := o.operators(a, d)
	if err != nil {
		return nil, err
	}
	bar.expect(len(entries), 0)
	defer bar.end()
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, failed(ctx.Err())
		}
		for _, t := range coverage.Try(d, e) {
			covered.Add(e.Op(), t.DType, t.Functions, t.Err)
		}
		bar.add(false, 0)
	}
	return covered, nil
}

// facts are what is known of the device without trying it.
func (r *deviceReport) facts() [][2]string {
	given := func(s string) string { return cmp.Or(s, "not given") }
	if r.torchReport != nil {
		i := r.Torch
		facts := [][2]string{{"device", r.Device}, {"name", given(i.Name)}, {"torch", i.Torch}}
		for _, m := range slices.Sorted(maps.Keys(i.Plugins)) {
			facts = append(facts, [2]string{m, given(i.Plugins[m])})
		}
		if i.Driver != "" {
			facts = append(facts, [2]string{"CUDA", i.Driver})
		}
		clock := "the host's"
		if i.Events {
			clock = "the device's"
		}
		return append(facts, [2]string{"Python", i.Python + " (" + i.Executable + ")"}, [2]string{"clock", clock},
			[2]string{"threads", strconv.Itoa(i.Threads)})
	}
	memory := "host memory"
	if r.DeviceMemory {
		memory = "the device's own, through its device functions"
	}
	facts := [][2]string{{"library", r.Library}, {"vendor", given(r.Vendor)}, {"version", given(r.Version)},
		{"memory", memory}, {"isolation", cmp.Or(strings.Join(r.Isolation, ", "), "none")}}
	for _, remark := range r.Remarks {
		facts = append(facts, [2]string{"remark", remark})
	}
	return facts
}

// sentence says in short what a device covers.
func (o *deviceOptions) sentence(c *reports.Coverage) string {
	n := c.Total()
	what := "recorded calls"
	if len(o.captures) == 0 {
		what = "pairs of operator and dtype"
	}
	return fmt.Sprintf("%d of %d %s (%.1f %%) can run on it", n.Runnable, n.Calls, what,
		100*float64(n.Runnable)/float64(max(n.Calls, 1)))
}

func (o *deviceOptions) print(a *app, r *deviceReport, covered *reports.Coverage) error {
	for _, f := range r.facts() {
		fmt.Fprintf(a.Out, "%-10s %s\n", f[0], f[1])
	}
	if r.libraryReport != nil {
		if err := r.printFunctions(a, o.missing); err != nil {
			return err
		}
	}
	if covered == nil || len(r.Ops) == 0 {
		return nil
	}
	fmt.Fprintln(a.Out)
	var err error
	if len(o.captures) == 0 {
		if err = covered.WriteDTypes(a.Out, a.outputWidth()); err != nil {
			return err
		}
	}
	n := covered.Total()
	switch {
	case len(o.captures) > 0:
		err = covered.Write(a.Out, a.outputWidth(), false)
	case o.missing && n.Runnable < n.Calls:
		fmt.Fprintln(a.Out)
		err = covered.Write(a.Out, a.outputWidth(), true)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "\n%s\n", o.sentence(covered))
	return err
}

// printFunctions prints which functions the library exports.
func (r *libraryReport) printFunctions(a *app, missing bool) error {
	fmt.Fprintln(a.Out)
	l := reports.NewListing(a.Out, a.outputWidth(), "header", "exported", "of")
	l.Right(1)
	l.Right(2)
	all := append(slices.Clone(r.Groups), &deviceGroup{Name: "total", Exported: len(r.Exported),
		Total: len(r.Exported) + len(r.Missing)})
	for _, g := range all {
		if err := l.Add(g.Name, strconv.Itoa(g.Exported), strconv.Itoa(g.Total)); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	if missing {
		fmt.Fprintf(a.Out, "\nnot exported:\n%s\n", strings.Join(r.Missing, "\n"))
	}
	return nil
}
