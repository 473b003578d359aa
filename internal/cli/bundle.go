package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/internal/wholefile"
	"github.com/optool/optool/ops/custom"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/bundle"
	"github.com/optool/optool/reports/explanation"
	"github.com/optool/optool/reports/results"
)

type bundleOptions struct {
	selection
	deviceFlags
	tolerances toleranceFile
	out        string
}

func newBundleCmd(a *app) *cobra.Command {
	var o bundleOptions
	cmd := &cobra.Command{
		Use:   "bundle PATH",
		Short: "Pack a wrong call for a vendor: data, expected results, programs that repeat it",
		Long: `bundle packs one wrong call into a zip file for the people who repair it. The zip
holds the call as .pth files, the expected results in float64 and rounded, a README
with the verdict and pictures, and a Python script that repeats the call with PyTorch
on any device. If DIOPI computes the operator, it also holds a C program that repeats
the call on a library. Of several calls bundle takes the first wrong one.

The same call gives the same bytes. The exit codes are those of replay.`,
		Example: `  optool bundle op_tools_results -o bug.zip
  optool bundle --device ./libdiopi_impl.so -o device.zip op_tools_results`,
		Args: onePath,
		RunE: func(cmd *cobra.Command, paths []string) error { return runBundle(cmd, a, &o, paths) },
	}
	o.addFlags(cmd)
	o.deviceFlags.addWhich(cmd, "none",
		"what the verdict is about: none, the recorded results; host, the built-in device; a DIOPI `LIBRARY`; or "+
			"torch:DEVICE, a device of PyTorch")
	o.addReplay(cmd)
	addTimeoutFlag(cmd, &o.timeout, "one call", deviceAndReference)
	f := cmd.Flags()
	o.tolerances.addFlag(cmd)
	f.StringVarP(&o.out, "out", "o", "", "write the bundle to `FILE` (default: bug.zip, or bug-2.zip and so on if there is one)")
	return cmd
}

func runBundle(cmd *cobra.Command, a *app, o *bundleOptions, paths []string) error {
	opt, err := o.judging(cmd, a, o.tolerances)
	if err != nil {
		return err
	}
	ctx, lim := cmd.Context(), o.limits()
	report := bundle.Report{Versions: []string{strings.TrimSpace(versionLine())},
		Settings: variables(os.Environ(), "AUTOCOMPARE")}
	if o.tolerances != "" {
		report.Settings = append(report.Settings, "--tolerances "+filepath.Base(string(o.tolerances)))
	}
	report.Directories = o.directories(a.own, paths)
	if report.Operators, err = packed(a.own); err != nil {
		return failed(err)
	}
	if !o.none() {
		report.Imports = o.torch.imports
		dev, err := o.checked(cmd, a)
		if err != nil {
			return err
		}
		defer dev.release()
		described, err := dev.ready(a.say)
		if err != nil {
			return err
		}
		report.Versions = append(report.Versions, described)
		opt.Device = dev.Device
	}
	e, err := o.firstWrong(ctx, a, "bundle", lim, opt, paths)
	if err != nil || e == nil {
		return err
	}
	exit, err := within(ctx, lim, e.Bytes(), func() (int, error) { return o.write(ctx, a, e, opt, report, paths) })
	if err != nil {
		return failed(err)
	}
	return exitWith(exit)
}

// maxReduction is the size of what reduce says of a call, in bytes.
const maxReduction = 1 << 16

// freeName is a name in the working directory that no file has: bug.zip, bug-2.zip, ...
func freeName(name, ext string) string {
	free := name + ext
	for i := 2; ; i++ {
		if _, err := os.Lstat(free); err != nil {
			return free
		}
		free = fmt.Sprintf("%s-%d%s", name, i, ext)
	}
}

// write writes the zip of a capture and returns the exit code.
func (o *bundleOptions) write(ctx context.Context, a *app, e *capture.Entry, opt replay.Options, report bundle.Report,
	paths []string) (int, error) {
	call := replay.Open(e, opt)
	defer call.Close()
	if err := call.Record.Err(capture.Input); err != nil {
		return 0, fmt.Errorf("%s: %w", e.Rel, err)
	}
	if e.Replaced != "" {
		report.Replaced = reports.OneLine(reports.ReplacedText(call.Op, e.Replaced, e.ReplacedAt))
		report.Function = reports.FunctionPath(e.Replaced, e.ReplacedAt)
	}
	if function := o.torch.maps[call.Op]; function != "" {
		report.Replaced = cmp.Or(report.Replaced, fmt.Sprintf("The verdict is about %s", function))
		report.Function = function
	}
	outcome := call.Compare()
	found := results.OfReplay(e, outcome, "", "")
	summary := reports.NewSummary()
	all, err := new(searches).causesOf(ctx, paths, e, call, outcome, &causes.Allowance{})
	if err != nil {
		return 0, err
	}
	for i, r := range found.Results {
		summary.Add(r)
		v := valueOf(inFull(call, &outcome.Results[i], anonymous(r), all))
		if of := &outcome.Results[i]; r.Verdict == verdict.Fail && !call.ByElement(of) {
			v.Unseen = of.Compared == nil || of.Compared.Together == nil
		}
		report.Values = append(report.Values, v)
	}
	if summary.Compared() == 0 && !summary.Differs() {
		return 0, o.unjudged(e, call.Op, found.Results)
	}
	known := func(r *reports.Result) bool { return r.RecordedOn != "" }
	if i := slices.IndexFunc(found.Results, known); i >= 0 && o.none() {
		report.Versions = append(report.Versions, "recorded on "+reports.OneLine(found.Results[i].RecordedOn))
	}
	text, err := smallfile.Read(filepath.Join(e.Dir, reductionFile), maxReduction)
	if err == nil && capture.Marked(e.Dir) {
		report.Reduction = string(text)
	}
	report.Again, report.Outcome = o.repro(report.Operators), outcome
	if o.out == "" {
		o.out = freeName("bug", ".zip")
	}
	_, before := os.Stat(o.out)
	if err := wholefile.Write(o.out, func(f *os.File) error { return bundle.Write(f, call, report) }); err != nil {
		return 0, err
	}
	replaced := ""
	if before == nil {
		replaced = ", in place of the file that was there"
	}
	fmt.Fprintf(a.Out, "%s%s: %s\nwritten to %s%s\n", reports.Name(call.Op), inTree(e), outcome.Verdict(),
		reports.OneLine(o.out), replaced)
	return comparisonExit(summary, 0), nil
}

// directories are those that flags and arguments name, with the user's.
func (o *bundleOptions) directories(own []ownOperators, paths []string) (all []string) {
	files := append(slices.Clone(paths), string(o.tolerances), o.device, o.against, o.adaptor, o.convert,
		o.torch.python)
	for _, f := range own {
		files = append(files, f.path)
	}
	for _, f := range files {
		if abs, err := filepath.Abs(f); err == nil { // of "", the working directory
			all = append(all, abs, filepath.Dir(abs))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		all = append(all, home)
	}
	return all
}

// unjudged says that a call is not packed because nothing of it was compared. It says why, and what to do.
func (o *bundleOptions) unjudged(e *capture.Entry, op string, rs []*reports.Result) error {
	why := "nothing was compared"
	if len(rs) > 0 && rs[0].Reason != "" {
		why = fmt.Sprintf("%s: %s", rs[0].Verdict, rs[0].Reason)
	}
	if o.none() {
		why += "; if a device gives the wrong values, name it: --device"
	}
	return fmt.Errorf("%s%s: nothing is written, there is no verdict: %s", op, inTree(e), why)
}

// anonymous is a result without what a vendor need not know: the process, and the directory of the source.
func anonymous(r *reports.Result) *reports.Result {
	a := *r
	a.PID, a.Location = nil, r.Location[strings.LastIndexAny(r.Location, `/\`)+1:]
	return &a
}

// valueOf is what the bundle says about a value: everything about a wrong value, one line about a right one.
func valueOf(x *explanation.Explanation) bundle.Value {
	plain := reports.Style{Width: 80} // the same call gives the same bytes
	v := bundle.Value{Target: x.Result.Target, Text: x.Line()}
	if f := x.Result.Verdict; f.Finding() || f.Wrong() || f == verdict.Warn {
		v.Wrong, v.Text, v.Errors, v.Profile = true, x.Judgement(plain), x.Errors(plain), x.Profile
	}
	return v
}

// packed are the user's files of operators. No two have the same name.
func packed(own []ownOperators) ([]bundle.Operators, error) {
	var all []bundle.Operators
	for _, o := range own {
		files, err := custom.Files(o.path)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			text, err := smallfile.Read(f, custom.MaxSize)
			if err != nil {
				return nil, err
			}
			base, ext := filepath.Base(f), filepath.Ext(f)
			name := base
			for i := 2; slices.ContainsFunc(all, func(o bundle.Operators) bool { return o.Name == name }); i++ {
				name = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(base, ext), i, ext)
			}
			all = append(all, bundle.Operators{Name: name, Text: text})
		}
	}
	return all, nil
}

// repro is the command that judges the call, in the directory of the zip's files. The bundle names files without their
// directories. It names the Python only if that is a name without a directory.
func (o *bundleOptions) repro(operators []bundle.Operators) string {
	args := []string{"optool", "replay", "--tables"}
	for _, f := range operators {
		args = append(args, "--ops", quote(f.Name))
	}
	there := o.deviceFlags
	for _, python := range []*string{&there.torch.python, &there.againstPython} {
		if strings.ContainsRune(*python, filepath.Separator) {
			*python = ""
		}
	}
	return strings.Join(append(append(args, there.repro()...), "call"), " ")
}
