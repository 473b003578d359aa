package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/devicebridge/diopi/mapping"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/devicecheck"
	"github.com/optool/optool/replay/ondevice"
	"github.com/optool/optool/reports"
)

type deviceOptions struct {
	selection
	deviceFlags
	captures []string
	json     bool
	missing  bool
	check    bool
	build    bool
}

func newDeviceCmd(a *app) *cobra.Command {
	var o deviceOptions
	cmd := &cobra.Command{
		Use:   "device LIBRARY",
		Short: "Say what a device library offers",
		Long: `Load a DIOPI library (or host, the built-in one) in a process of its own and
print vendor, versions and which functions of DIOPI's interface it exports. With
--captures: which recorded calls it can run, op by op, weighted by calls.`,
		Example: `  optool device host
  optool device --missing ./libdiopi_impl.so
  optool device --captures op_tools_results ./libdiopi_impl.so
  optool device --check ./libdiopi_impl.so`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.build && len(args) == 0 {
				return nil
			}
			if len(args) != 1 {
				return usageError("device: want one LIBRARY, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.build {
				dir, err := devicebridge.Build(cmd.Context())
				if err != nil {
					return failed(err)
				}
				fmt.Fprintf(a.Err, "the worker and the built-in device are in %s\n", dir)
			}
			if len(args) == 0 {
				return nil
			}
			o.device = args[0]
			return runDevice(cmd, a, &o)
		},
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.adaptor, "adaptor", "", "shared library with the vendor's device functions, if `LIBRARY` has none")
	f.StringArrayVar(&o.captures, "captures", nil,
		"say which recorded calls under `PATH` the library can run; may be repeated")
	f.BoolVar(&o.check, "check", false,
		"run every operator the library can run on generated arguments, and compare with the reference")
	f.BoolVar(&o.build, "build-worker", false,
		"build what devices need with g++, once for a user, where optool was built without (go install)")
	f.BoolVar(&o.missing, "missing", false, "list the functions it does not export")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	o.devices, o.repeat = 1, 1
	return cmd
}

// A deviceReport is what optool device prints.
type deviceReport struct {
	Library      string         `json:"library"`
	Vendor       string         `json:"vendor"`
	Version      string         `json:"version"`
	Remarks      []string       `json:"remarks,omitempty"` // what is wrong with vendor and version
	Interface    int            `json:"diopi_version"`     // of the headers optool knows
	LastError    bool           `json:"has_last_error_string"`
	DeviceMemory bool           `json:"has_device_functions"`
	Groups       []*deviceGroup `json:"groups"`
	Exported     []string       `json:"exported"`
	Missing      []string       `json:"missing"`
	Ops          []*deviceOp    `json:"ops,omitempty"`
}

type deviceGroup struct {
	Name     string `json:"name"`
	Exported int    `json:"exported"`
	Total    int    `json:"total"`
}

// A deviceOp is a recorded op: how many of its calls the library can run.
type deviceOp struct {
	Op        string   `json:"op"`
	Calls     int      `json:"calls"`
	Runnable  int      `json:"runnable"`
	Functions []string `json:"functions"`
	Reason    string   `json:"reason"` // of the first call that it cannot run
}

func runDevice(cmd *cobra.Command, a *app, o *deviceOptions) error {
	if err := o.parse(cmd, a, "CAPTURE"); err != nil {
		return err
	}
	lib, err := o.open(cmd.Context())
	if err != nil {
		return err
	}
	defer lib.Close()
	if o.check {
		return o.runChecks(cmd.Context(), a, lib)
	}
	r := newDeviceReport(o.device, lib.Info())
	var t tally
	if len(o.captures) > 0 {
		if r.Ops, err = o.coverage(cmd.Context(), a, lib.Info(), &t); err != nil {
			return err
		}
		if err := o.found(cmd.Context(), t, o.captures); err != nil {
			return err
		}
	}
	if o.json {
		if err := reports.NewJSONLines(a.Out).Write(r); err != nil {
			return failed(err)
		}
	} else if err := r.print(a, o.missing); err != nil {
		return failed(err)
	}
	t.end(a)
	return exitWith(t.code())
}

func newDeviceReport(name string, i devicebridge.Info) *deviceReport {
	r := &deviceReport{
		Library: name, Vendor: i.Vendor, Version: i.Version, Remarks: i.Remarks,
		Interface: diopi.Version(), LastError: i.LastError,
		DeviceMemory: i.Adaptor,
		Exported:     i.Functions, Missing: i.Missing,
	}
	exported := map[string]bool{}
	for _, f := range i.Functions {
		exported[f] = true
	}
	groups := map[string]*deviceGroup{}
	for _, f := range diopi.Functions() {
		if f.Group == "runtime" {
			continue
		}
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

// coverage asks of every recorded call which functions it would take.
func (o *deviceOptions) coverage(ctx context.Context, a *app, info devicebridge.Info, t *tally) ([]*deviceOp, error) {
	exported := map[string]bool{}
	for _, f := range info.Functions {
		exported[f] = true
	}
	byOp := map[string]*deviceOp{}
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
		op := f.entry.Op
		functions, err := within(ctx, lim, f.entry.Bytes(), func() (functions []string, err error) {
			op, functions, err = deviceFunctionsOf(f.entry, opt)
			return functions, err
		})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d := byOp[op]
		if d == nil {
			d = &deviceOp{Op: op, Functions: []string{}}
			byOp[op] = d
		}
		d.Calls++
		if err == nil {
			if i := slices.IndexFunc(functions, func(f string) bool { return !exported[f] }); i >= 0 {
				err = fmt.Errorf("the library has no %s", functions[i])
			}
		}
		if err != nil {
			d.Reason = cmp.Or(d.Reason, err.Error())
			continue
		}
		d.Runnable++
		for _, f := range functions {
			if !slices.Contains(d.Functions, f) {
				d.Functions = append(d.Functions, f)
			}
		}
	}
	return slices.SortedFunc(maps.Values(byOp), func(x, y *deviceOp) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), cmp.Compare(x.Op, y.Op))
	}), failed(ctx.Err())
}

// deviceFunctionsOf are the functions that the forward pass of a recorded call
// would take on a device. The error says why none can.
func deviceFunctionsOf(e *capture.Entry, opt replay.Options) (op string, functions []string, err error) {
	c := replay.Open(e, opt)
	defer c.Close()
	if err := c.Err(); err != nil {
		return e.Op, nil, err
	}
	if err := c.Start(); err != nil {
		return c.Op, nil, err
	}
	err = replay.Guard(func() (err error) {
		functions, err = ondevice.Functions(c.DeviceCall(false))
		return err
	})
	return c.Op, functions, err
}

func (r *deviceReport) print(a *app, missing bool) error {
	none := func(s string) string { return cmp.Or(s, "not given") }
	memory := "host memory"
	if r.DeviceMemory {
		memory = "the device's own, through its device functions"
	}
	fmt.Fprintf(a.Out, "library  %s\nvendor   %s\nversion  %s\nmemory   %s\n", r.Library, none(r.Vendor),
		none(r.Version), memory)
	for _, remark := range r.Remarks {
		fmt.Fprintf(a.Out, "remark   %s\n", remark)
	}
	fmt.Fprintln(a.Out)
	l := reports.NewListing(a.Out, a.outputWidth(), "header", "exported", "of")
	l.Right(1)
	l.Right(2)
	for _, g := range r.Groups {
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
	if len(r.Ops) == 0 {
		return nil
	}
	calls, runnable := 0, 0
	fmt.Fprintln(a.Out)
	l = reports.NewListing(a.Out, a.outputWidth(), "op", "calls", "can run", "functions", "why not")
	l.Right(1)
	l.Right(2)
	for _, d := range r.Ops {
		calls += d.Calls
		runnable += d.Runnable
		if err := l.Add(d.Op, strconv.Itoa(d.Calls), strconv.Itoa(d.Runnable), strings.Join(d.Functions, " "),
			d.Reason); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Out, "\n%d of %d recorded calls (%.1f %%) can run on it\n", runnable, calls,
		100*float64(runnable)/float64(max(calls, 1)))
	return err
}

// runChecks prints every way in which the library breaks a check of package opcheck.
func (o *deviceOptions) runChecks(ctx context.Context, a *app, lib *devicebridge.Device) error {
	suite := devicecheck.Suite(ondevice.New(ctx, lib, ondevice.Options{}), a.known())
	operators, findings := 0, 0
	for _, e := range a.known().Entries() {
		if _, err := mapping.Of(e); err != nil {
			continue
		}
		operators++
		for _, f := range suite.Entry(e) {
			findings++
			if _, err := fmt.Fprintln(a.Out, f); err != nil {
				return failed(err)
			}
		}
		if ctx.Err() != nil {
			return failed(ctx.Err())
		}
	}
	if _, err := fmt.Fprintf(a.Out, "%d operators, %d findings\n", operators, findings); err != nil {
		return failed(err)
	}
	if findings > 0 {
		return exitWith(1)
	}
	return nil
}
