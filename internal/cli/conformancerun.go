package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/devicebridge/torchbridge"
	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/numpypickle"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/replay/ontorch"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/tensor/value"
)

// A tested case is what run_test found.
type tested struct {
	c       listedCase
	results []conformance.Result
	leftOut string                    // why the device leaves it out
	by      string                    // the setting that leaves it out, or changes its tolerances
	plain   []conformance.Result      // with the suite's own tolerances, where they were changed
	called  map[string]reports.Called // functions of the device
	stop    error                     // why the run cannot go on
}

// test is the mode run_test.
func (o *conformanceOptions) test(cmd *cobra.Command, a *app) error {
	ctx := cmd.Context()
	run := &testRun{conformanceOptions: o, app: a, report: newConformanceReport(o), before: map[string]reports.Called{},
		lacking: map[string]bool{}}
	run.report.Settings = o.settings()
	var err error
	if run.dir, err = a.openRun(cmd, o.keep, []string{o.cacheDir}, "", run.recall); err != nil {
		return err
	}
	defer run.dir.close()
	if run.dir != nil && run.dir.Ended() {
		return run.dir.again(a, &reportOptions{files: o.records.files})
	}
	cases, err := run.choose()
	if err != nil {
		return err
	}
	end, err := run.prepare(ctx)
	if err != nil {
		return err
	}
	defer end()
	if run.json, err = a.openRecordsIn(run.dir, o.records, a.run(o.device, run.report.Settings...)); err != nil {
		return err
	}
	defer run.json.close()
	start := time.Now()
	lim := o.limits()
	run.bar = a.newProgress("run_test", "case")
	run.bar.expect(len(cases), 0)
	err = ordered(ctx, a.jobs, slices.Values(cases),
		func(c listedCase) tested { return run.testOne(ctx, lim, c) }, run.emit)
	run.bar.end()
	if err != nil && ctx.Err() == nil {
		return failed(err)
	}
	run.report.Interrupted, run.report.empty = ctx.Err() != nil, len(cases) == 0
	run.report.unwritten = o.writeErrors(run.dir.place(o.errorReport), run.failures)
	return run.report.finish(a, run.json, start)
}

// recall counts a case that was finished before.
func (run *testRun) recall(c *reports.JournalCall) error {
	records, err := c.Results()
	if err != nil || len(records) == 0 {
		return err
	}
	recordSettings(run.report.Settings, c.Hidden, c.Changed)
	run.count(records, len(c.Hidden) > 0, len(c.Changed) > 0)
	for f, n := range c.Called {
		run.before[f] = run.before[f].And(n)
	}
	return nil
}

// count counts a case by its results.
func (run *testRun) count(records []*reports.Result, leftOut, converted bool) {
	run.report.add(records, leftOut)
	if converted {
		run.report.converted++
	}
	if worst := firstUnwanted(records); worst != nil && worst.Verdict != verdict.Unsupported {
		run.failures = append(run.failures, fmt.Sprintf("%s,%s,%s", worst.Capture, worst.Op,
			strings.ReplaceAll(worst.Reason, ",", ";")))
	}
}

// firstUnwanted is the first result of a case that did not pass, and was not skipped.
func firstUnwanted(records []*reports.Result) *reports.Result {
	for _, r := range records {
		if r.Verdict != verdict.Pass && r.Verdict != verdict.Skipped {
			return r
		}
	}
	return nil
}

// A testRun is one run of the mode run_test.
type testRun struct {
	*conformanceOptions
	app    *app
	store  *conformance.Store
	list   *conformance.CaseList // of --test_cases_path, nil if there is none
	rules  *configs.Rules        // of --impl_folder
	check  func(c *configs.Case) ([]conformance.Result, map[string]reports.Called)
	report *conformanceReport
	dir    *runDir                   // nil unless --run is given
	before map[string]reports.Called // functions that cases called which were finished before
	json   *jsonOutput
	bar    *progress

	failures []string        // lines of the file of errors
	lacking  map[string]bool // reasons why cases of functions are not implemented that were logged
}

// choose reads the recorded cases and drops those that were not asked for, or belong to
// another part of the run.
func (run *testRun) choose() ([]listedCase, error) {
	var err error
	if run.list, err = run.readList(); err != nil {
		return nil, err
	}
	var cases []*configs.Case
	if run.store, cases, err = run.recorded(); err != nil {
		return nil, err
	}
	if run.list != nil {
		if cases, err = run.list.Select(cases); err != nil {
			return nil, failed(fmt.Errorf("%s: %w", run.casesPath, err))
		}
	}
	settings := run.report.Settings
	if !run.dir.whole() { // the first part says what flags left out
		settings = nil
	}
	if cases, err = run.pick(cases, settings); err != nil {
		return nil, err
	}
	if run.list == nil && run.caseNames == nil && slices.Contains(run.fname, "all_ops") {
		all := len(cases)
		cases = slices.DeleteFunc(cases, func(c *configs.Case) bool { return !run.store.Has(c.Name) })
		if n := all - len(cases); n > 0 {
			run.app.warn("%d of %d cases have no data below %s: they are left out until --mode gen_data makes it", n,
				all, run.store.Dir)
		}
	}
	if run.shuffle {
		rng := rand.New(rand.NewPCG(run.seed, 0))
		rng.Shuffle(len(cases), func(i, k int) { cases[i], cases[k] = cases[k], cases[i] })
	}
	return run.dir.cases(cases)
}

// prepare reads the rules and opens the device; end closes it.
func (run *testRun) prepare(ctx context.Context) (end func(), err error) {
	if run.rules, err = run.conformanceOptions.rules(); err != nil {
		return nil, err
	}
	opt := conformance.CheckOptions{Strict: run.strict, Variant: run.variant}
	if opt.Convert, err = run.conversions(); err != nil {
		return nil, failed(err)
	}
	if run.device == noDevice {
		run.check = func(c *configs.Case) ([]conformance.Result, map[string]reports.Called) {
			return run.store.CheckRecorded(c, opt), nil
		}
		return func() {}, nil
	}
	if name, ok := strings.CutPrefix(run.device, torchbridge.Prefix); ok {
		return run.prepareTorch(ctx, name, opt)
	}
	dev, err := run.open(ctx, run.app)
	if err != nil {
		return nil, err
	}
	run.report.coverage = newFunctionCounts(dev)
	run.report.coverage.add(run.before)
	opt.Exports = run.report.coverage.has
	run.check = func(c *configs.Case) ([]conformance.Result, map[string]reports.Called) {
		counted := run.report.coverage.another()
		return run.store.CheckDevice(ctx, counted, c, opt), counted.counts()
	}
	return func() { dev.Close() }, nil
}

// prepareTorch opens a device of PyTorch.
func (run *testRun) prepareTorch(ctx context.Context, name string, opt conformance.CheckOptions) (end func(),
	err error) {
	for flag, given := range map[string]bool{"--adaptor": run.adaptor != "", "--nhwc": run.variant.ChannelsLast,
		"--four_bytes": run.variant.FourBytes, convertFlag: opt.Convert != nil} {
		if given {
			return nil, usageError("%s: it is for libraries, and --device is %s", flag, run.device)
		}
	}
	d := deviceFlags{device: run.device, devices: run.app.jobs, timeout: run.timeout, torch: run.torch}
	dev, err := d.openTorch(ctx, name)
	if err != nil {
		return nil, err
	}
	run.app.say(describeTorch(run.device, dev.Info()))
	operators := ontorch.New(ctx, dev, ontorch.Options{})
	run.check = func(c *configs.Case) ([]conformance.Result, map[string]reports.Called) {
		return run.store.CheckOperators(operators, c, opt), nil
	}
	return func() { dev.Close() }, nil
}

// testOne runs a case, as the rules and the list of cases change it, unless it is finished.
func (run *testRun) testOne(ctx context.Context, lim *limits, of listedCase) tested {
	t, c := tested{c: of, by: "--impl_folder"}, of.Case
	if of.finished {
		return t
	}
	if t.stop = run.dir.begin(run.json, c.Name); t.stop != nil {
		return t
	}
	changed, why := run.rules.Apply(c)
	if why == "" && run.list != nil {
		if changed == c {
			t.by = "--test_cases_path"
		}
		changed, why = run.list.Apply(changed)
		if why != "" {
			t.by = "--test_cases_path"
		}
	}
	if why != "" {
		t.leftOut = why
		return t
	}
	type outcome struct {
		results []conformance.Result
		called  map[string]reports.Called
	}
	check := func(c *configs.Case) outcome {
		out, err := within(ctx, lim, c.Bytes(), func() (out outcome, err error) {
			out.results, out.called = run.check(c)
			return out, nil
		})
		if err != nil {
			out.results = []conformance.Result{conformance.NotDone(err)}
		}
		return out
	}
	out := check(changed)
	if t.results, t.called = out.results, out.called; changed != c {
		t.plain = check(c).results
	}
	return t
}

// emit reports a case.
func (run *testRun) emit(t tested) error {
	if t.c.finished || t.stop != nil {
		run.bar.add(false, 0)
		return t.stop
	}
	records := run.reports(t)
	for _, r := range records {
		if err := run.json.result(r); err != nil {
			return err
		}
	}
	done := &reports.Done{Capture: t.c.Name, Index: t.c.index, Results: len(records), Called: t.called}
	if t.leftOut != "" {
		done.Hidden = []string{t.by}
	}
	if slices.ContainsFunc(t.results, func(r conformance.Result) bool { return r.Converted != "" }) {
		done.Changed = []string{convertFlag}
	}
	if err := run.json.done(done); err != nil {
		return err
	}
	recordSettings(run.report.Settings, done.Hidden, done.Changed)
	run.count(records, t.leftOut != "", done.Changed != nil)
	if run.report.coverage != nil {
		run.report.coverage.add(t.called)
	}
	worst := firstUnwanted(records)
	run.bar.add(worst != nil, 0)
	switch {
	case worst != nil && worst.Verdict == verdict.Unsupported:
		if alike := t.c.Function() + ": " + worst.Reason; !run.lacking[alike] {
			run.lacking[alike] = true
			run.log(run.app, run.bar, "INFO", "Run diopi_functions.%s [%s] not implemented: %s (and cases like it)",
				t.c.Function(), t.c.Name, worst.Reason)
		}
	case worst != nil:
		run.failure(run.app, run.bar, t.c.Case, run.store, records)
	case !run.app.quiet && !run.bar.drawn() && ran(records):
		run.log(run.app, run.bar, "INFO", "Run diopi_functions.%s succeed: %s", t.c.Function(), t.c.Name)
	}
	return nil
}

// open loads the device.
func (o *conformanceOptions) open(ctx context.Context, a *app) (*devicebridge.Device, error) {
	if isTorch(o.device) {
		return nil, usageError("%s: --mode %s wants a library", o.device, o.mode)
	}
	dev, err := devicebridge.Open(ctx, devicebridge.Config{Library: o.device, Adaptor: o.adaptor, Workers: a.jobs,
		Timeout: cmp.Or(o.timeout, deviceTimeout)})
	return dev, failed(err)
}

// recorded is the suite's data in the cache directory.
func (o *conformanceOptions) recorded() (*conformance.Store, []*configs.Case, error) {
	store := conformance.NewStore(o.cacheDir, o.model)
	cases, err := store.Cases()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, failed(fmt.Errorf("%w: run --mode gen_data first, or name the directory with --cache_dir",
			err))
	}
	return store, cases, failed(err)
}

// ran reports whether any result of a case says more than that it was skipped.
func ran(results []*reports.Result) bool {
	return slices.ContainsFunc(results, func(r *reports.Result) bool { return r.Verdict != verdict.Skipped })
}

// rules are the cases that the device of --impl_folder leaves out and its
// tolerances.
func (o *conformanceOptions) rules() (*configs.Rules, error) {
	path := o.implFile(rulesFile)
	if path == "" {
		if o.implFolder != "" && o.implFile(convertFile) == "" {
			return nil, usageError("--impl_folder: %s has neither a %s nor a %s", o.implFolder, rulesFile, convertFile)
		}
		return configs.NoRules(), nil
	}
	entries, err := configs.Load(path, "device_configs")
	if err != nil {
		return nil, failed(err)
	}
	rules, err := configs.NewRules(entries)
	return rules, failed(err)
}

// conversions are the dtypes and layouts that the device wants; nil is any.
func (o *conformanceOptions) conversions() (*diopi.ConvertConfig, error) {
	path := o.convertFile()
	if path == "" || o.device == noDevice {
		return nil, nil
	}
	return diopi.LoadConvertConfig(path)
}

// reports are the results of a case as records.
func (o *conformanceOptions) reports(t tested) []*reports.Result {
	form := results.Conformance{Source: "device", Strict: o.strict, Repro: o.repro(t.c.Case)}
	if o.device == noDevice {
		form.Source = "captured"
	}
	if t.leftOut != "" {
		return []*reports.Result{form.LeftOut(t.c.Case, t.leftOut)}
	}
	records := form.Of(t.c.Case, t.results)
	if len(t.plain) == len(records) {
		for i, r := range records {
			if plain := t.plain[i].Verdict; plain != r.Verdict {
				r.Default, r.Setting = plain, t.by
			}
		}
	}
	return records
}

// repro is the command that runs a case again.
func (o *conformanceOptions) repro(c *configs.Case) string {
	s := program() + " conformance --mode run_test --cache_dir " + quotePath(o.cacheDir) + " --case " + quote(c.Name)
	if o.model != "" {
		s += " --model_name " + quote(o.model)
	}
	if o.device != devicebridge.Host {
		s += " --device " + quoteDevice(o.device)
	}
	if o.timeout != 0 {
		s += " --timeout " + o.timeout.String()
	}
	if o.memory != 0 {
		s += fmt.Sprintf(" --memory %d", o.memory)
	}
	if o.adaptor != "" {
		s += " --adaptor " + quotePath(o.adaptor)
	}
	if o.implFolder != "" {
		s += " --impl_folder " + quotePath(o.implFolder)
	}
	if o.convert != "" {
		s += " --convert-config " + convertArg(o.convert)
	}
	if o.casesPath != "" {
		s += " --test_cases_path " + quotePath(o.casesPath)
	} else {
		if o.variant.ChannelsLast {
			s += fmt.Sprintf(" --nhwc --nhwc_min_dim %d", o.variant.MinDim)
		}
		if o.variant.FourBytes {
			s += " --four_bytes"
		}
	}
	if o.strict {
		s += " --strict"
	}
	return s
}

// convertArg quotes the value of --convert-config: none, or a path.
func convertArg(s string) string {
	if s == "none" {
		return s
	}
	return quotePath(s)
}

// failure logs a case that did not pass, and as --failure_debug_level says what
// it was and what came out.
func (o *conformanceOptions) failure(a *app, bar *progress, c *configs.Case, store *conformance.Store,
	results []*reports.Result) {
	for _, r := range results {
		if r.Finding() {
			o.log(a, bar, "ERROR", "Run diopi_functions.%s [%s] failed: %s", c.Function(), c.Name,
				strings.Join(strings.Fields(r.Phase+" "+r.Target+" "+r.Reason), " "))
		}
	}
	if o.debugLevel >= 1 {
		fmt.Fprintf(a.Err, "config: %s\n", value.Str(c.Item))
	}
	if o.debugLevel < 2 {
		return
	}
	for _, path := range []string{store.InputPath(c.Name), store.OutputPath(c.Name), store.GradPath(c.Name)} {
		if v, err := numpypickle.ReadFile(path); err == nil {
			fmt.Fprintf(a.Err, "%s: %s\n", path, value.Str(v))
		}
	}
	for _, r := range results {
		if r.Worst != nil {
			fmt.Fprintf(a.Err, "%s %s at %v: got %s, want %s, %d of %d elements differ\n", r.Phase, r.Target, r.Worst,
				r.Actual, r.Expected, *r.Mismatch, *r.Numel)
		}
	}
}

// errorReportTitle is the first line of the kit's report of failures.
const errorReportTitle = "Conformance-Test Error Report"

// writeErrors writes the kit's report of failures to a file, or removes that of an earlier
// run if there are none.
func (o *conformanceOptions) writeErrors(path string, failures []string) error {
	if path == "" {
		return nil
	}
	if len(failures) == 0 {
		was, _ := smallfile.Read(path, smallfile.Most) // of a longer file the beginning
		if !strings.HasPrefix(string(was), errorReportTitle+"\n") {
			return nil
		}
		return os.Remove(path)
	}
	text := fmt.Sprintf("%s\n---------------------------------\n%d Tests failed:\n%s\n", errorReportTitle,
		len(failures), strings.Join(failures, "\n"))
	return os.WriteFile(path, []byte(text), 0o644)
}
