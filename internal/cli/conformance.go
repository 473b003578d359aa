package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/numpypickle"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/value"
)

// conformanceOptions are the flags of conformance; those that DIOPI's main.py
// has have its names.
type conformanceOptions struct {
	mode, model, cacheDir, configs, implFolder, device string
	adaptor                                            string
	cotangents, json, errorReport                      string
	fname, filterDtype                                 []string
	modelList, resume, strict                          bool
	debugLevel                                         int
	seed                                               uint64
}

// listFlags are the flags of conformance that take several values in a row, as
// Python's argparse does with nargs="*".
var listFlags = map[string]bool{"--fname": true, "--filter_dtype": true}

// repeatListFlags rewrites "conformance --fname add relu" to "conformance
// --fname=add --fname=relu", which is how the command line's parser takes
// several values.
func repeatListFlags(args []string) []string {
	if !slices.Contains(args, "conformance") {
		return args
	}
	var out []string
	for i := 0; i < len(args); i++ {
		if !listFlags[args[i]] {
			out = append(out, args[i])
			continue
		}
		flag := args[i]
		for ; i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"); i++ {
			out = append(out, flag+"="+args[i+1])
		}
	}
	return out
}

func newConformanceCmd(a *app) *cobra.Command {
	o := &conformanceOptions{}
	cmd := &cobra.Command{
		Use:   "conformance --mode gen_data|run_test",
		Short: "Generate and check DIOPI's baseline data",
		Long: `conformance does the work of DIOPI's diopi_test: it draws the inputs of every
case, computes results and gradients in float64 and writes them as the kit's
files (gen_data), and runs the cases on a device and compares (run_test). Files are
interchangeable with those of the kit.

Cases come from optool's own suite or DIOPI's configuration files (--configs);
in run_test from the cache directory.`,
		Example: `  optool conformance --mode gen_data --configs DIOPI/diopi_test/python/configs --fname add relu
  optool conformance --mode run_test --fname add --filter_dtype float64 int64
  optool conformance --get_model_list --configs DIOPI/diopi_test/python/configs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runConformance(cmd, a, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.mode, "mode", "", "gen_data: make inputs and results; run_test: check a device with them")
	f.StringSliceVar(&o.fname, "fname", []string{"all_ops"}, "functions, several in a row")
	f.StringVar(&o.model, "model_name", "", "the suite of a model instead of that of all functions")
	f.BoolVar(&o.modelList, "get_model_list", false, "list the models and their functions")
	f.StringSliceVar(&o.filterDtype, "filter_dtype", nil, "leave out cases with a tensor of these dtypes, several in a row")
	f.StringVar(&o.implFolder, "impl_folder", "", "`DIR` of a device: its device_configs.py leaves out cases and sets tolerances")
	f.StringVar(&o.configs, "configs", "", "`DIR` with DIOPI's diopi_configs.py and model_config; without it gen_data makes optool's own suite")
	f.StringVar(&o.cacheDir, "cache_dir", "cache", "`DIR` of the data")
	f.StringVar(&o.device, "device", devicebridge.Host, "what run_test checks: host, the built-in device; the path of a libdiopi_impl.so; or none, the recorded results themselves")
	f.StringVar(&o.adaptor, "adaptor", "", "`LIBRARY` with the vendor's device functions (device_malloc, ...)")
	f.IntVar(&o.debugLevel, "failure_debug_level", 0, "1: print the configuration of failing cases; 2: also inputs and results")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the inputs")
	f.BoolVar(&o.resume, "resume", false, "gen_data: keep the data of cases that are complete")
	f.StringVar(&o.cotangents, "cotangents", "ones", "gradients of the results in gen_data: ones, as the kit has them, or random")
	f.BoolVar(&o.strict, "strict", false, "no element may be wrong; dtypes and shapes must agree")
	f.StringVar(&o.errorReport, "error_report", "error_report.csv", "`FILE` for the failures of run_test; nothing is written without any")
	addJSONFlag(cmd, &o.json)
	return cmd
}

// noDevice is the --device that checks what is recorded.
const noDevice = "none"

// dtypeNames are what --filter_dtype takes.
var dtypeNames = []string{"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "bool"}

func (o *conformanceOptions) check() error {
	for _, dt := range o.filterDtype {
		if !slices.Contains(dtypeNames, dt) {
			return usageError("--filter_dtype: dtype %q is not known%s", dt, conformance.Nearest(dt, dtypeNames))
		}
	}
	if o.cotangents != "ones" && o.cotangents != "random" {
		return usageError("--cotangents: want ones or random, got %q", o.cotangents)
	}
	return nil
}

func runConformance(cmd *cobra.Command, a *app, o *conformanceOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	o.model = strings.ToLower(o.model)
	if o.modelList {
		return o.listModels(a.Out)
	}
	switch o.mode {
	case "gen_data":
		return o.generate(cmd.Context(), a)
	case "run_test":
		return o.test(cmd.Context(), a)
	}
	modes := []string{"gen_data", "run_test"}
	return usageError("--mode: want one of %s, got %q%s", strings.Join(modes, ", "), o.mode, conformance.Nearest(o.mode, modes))
}

func (o *conformanceOptions) listModels(w io.Writer) error {
	src := conformance.Source{Dir: o.configs}
	models, err := src.Models()
	if err != nil {
		return failed(err)
	}
	fmt.Fprintf(w, "The supported model_list: %s\n", strings.Join(models, ", "))
	for _, m := range models {
		entries, err := src.Entries(m)
		if err != nil {
			return failed(err)
		}
		fmt.Fprintf(w, "The model %s's reference op_list: %s\n", m, strings.Join(conformance.Functions(entries), ", "))
	}
	return nil
}

// wants reports whether a case is selected by --fname and --filter_dtype.
func (o *conformanceOptions) wants(c *configs.Case) bool {
	if !o.wantsFunction(c.Function()) {
		return false
	}
	for _, arg := range c.Args() {
		if slices.Contains(o.filterDtype, arg.DType.String()) {
			return false
		}
	}
	return true
}

func (o *conformanceOptions) wantsFunction(name string) bool {
	return slices.Contains(o.fname, "all_ops") || slices.Contains(o.fname, name)
}

// checkNames refuses functions that known does not list.
func (o *conformanceOptions) checkNames(known []string) error {
	for _, f := range o.fname {
		if f != "all_ops" && !slices.Contains(known, f) {
			return usageError("--fname: function %q has no cases%s", f, conformance.Nearest(f, known))
		}
	}
	return nil
}

// generate is the mode gen_data.
func (o *conformanceOptions) generate(ctx context.Context, a *app) error {
	src := conformance.Source{Dir: o.configs}
	entries, err := src.Entries(o.model)
	if err != nil {
		return failed(err)
	}
	if err := o.checkNames(conformance.Functions(entries)); err != nil {
		return err
	}
	all, err := configs.Expand(entries, nil)
	if err != nil {
		return failed(err)
	}
	store := conformance.NewStore(o.cacheDir, o.model)
	if err := store.WriteItems(all); err != nil {
		return failed(err)
	}
	cases := slices.DeleteFunc(slices.Clone(all), func(c *configs.Case) bool { return !o.wants(c) })
	opt := conformance.GenerateOptions{Seed: o.seed, RandomCotangents: o.cotangents == "random", Resume: o.resume}
	start := time.Now()
	var inputs, outputs, kept, failures int
	done := map[string]bool{} // functions named in the log
	bar := a.newProgress("gen_data")
	err = ordered(ctx, a.jobs, slices.Values(cases), func(c *configs.Case) conformance.Made { return store.Generate(c, opt) },
		func(m conformance.Made) error {
			bar.add(m.Err != nil)
			fn := m.Case.Function()
			switch {
			case m.Kept:
				kept++
			case m.Err != nil && !m.Input:
				failures++
				o.log(a, bar, "ERROR", "Generate input data for diopi_functions.%s [%s] failed, cause by %v", fn, m.Case.Name, m.Err)
				return nil
			case m.Err != nil:
				inputs++
				failures++
				o.log(a, bar, "ERROR", "Generate output data for diopi_functions.%s [%s] failed, cause by %v", fn, m.Case.Name, m.Err)
			default:
				inputs++
				if m.Output {
					outputs++
				}
				if !done[fn] && !a.quiet {
					done[fn] = true
					o.log(a, bar, "INFO", "Generate benchmark data for diopi_functions.%s", fn)
				}
			}
			return nil
		})
	bar.end()
	fmt.Fprintf(a.Out, "%d cases: %d inputs and %d outputs written, %d kept, %d failed, %.2f s\n", len(cases), inputs, outputs, kept, failures, time.Since(start).Seconds())
	switch {
	case ctx.Err() != nil:
		return context.Canceled
	case err != nil:
		return failed(err)
	case inputs+kept == 0, failures > 0:
		return exitWith(ExitFailed)
	}
	return nil
}

// log writes a line in the form of the kit's log.
func (o *conformanceOptions) log(a *app, bar *progress, level, format string, args ...any) {
	bar.pause()
	fmt.Fprintf(a.Err, "%s - ConformanceTest - %s - %s\n", time.Now().Format("2006-01-02 15:04:05,000"), level, fmt.Sprintf(format, args...))
}

// A tested case is what run_test found.
type tested struct {
	c       *configs.Case
	results []conformance.Result
	leftOut string // why the device leaves it out
}

// test is the mode run_test.
func (o *conformanceOptions) test(ctx context.Context, a *app) error {
	store := conformance.NewStore(o.cacheDir, o.model)
	cases, err := store.Cases()
	if errors.Is(err, fs.ErrNotExist) {
		return failed(fmt.Errorf("%w: run --mode gen_data first, or name the directory with --cache_dir", err))
	}
	if err != nil {
		return failed(err)
	}
	var known []string
	for _, c := range cases {
		known = append(known, c.Function())
	}
	slices.Sort(known)
	if err := o.checkNames(slices.Compact(known)); err != nil {
		return err
	}
	rules, err := o.rules()
	if err != nil {
		return failed(err)
	}
	cases = slices.DeleteFunc(cases, func(c *configs.Case) bool { return !o.wants(c) })

	opt := conformance.CheckOptions{Strict: o.strict}
	check := func(c *configs.Case) []conformance.Result { return store.CheckRecorded(c, opt) }
	if o.device != noDevice {
		dev, err := devicebridge.Open(ctx, devicebridge.Config{Library: o.device, Adaptor: o.adaptor, Workers: a.jobs})
		if err != nil {
			return failed(err)
		}
		defer dev.Close()
		check = func(c *configs.Case) []conformance.Result { return store.CheckDevice(ctx, dev, c, opt) }
	}
	j, err := a.openJSON(o.json, o.device)
	if err != nil {
		return err
	}
	defer j.close()
	start := time.Now()
	summary := reports.NewSummary()
	var failures []string
	bar := a.newProgress("run_test")
	err = ordered(ctx, a.jobs, slices.Values(cases), func(c *configs.Case) tested {
		changed, why := rules.Apply(c)
		if why != "" {
			return tested{c: c, leftOut: why}
		}
		return tested{c: c, results: check(changed)}
	}, func(t tested) error {
		var worst *reports.Result
		for _, r := range o.reports(t) {
			summary.Add(r)
			if err := j.result(r); err != nil {
				return err
			}
			if worst == nil && !slices.Contains([]string{reports.Pass, reports.Skipped}, r.Verdict) {
				worst = r
			}
		}
		bar.add(worst != nil)
		if worst != nil {
			o.failure(a, bar, t.c, store, worst)
			failures = append(failures, fmt.Sprintf("%s,%s,%s", t.c.Name, t.c.Function(), strings.ReplaceAll(worst.Reason, ",", ";")))
		} else if !a.quiet && t.leftOut == "" {
			o.log(a, bar, "INFO", "Run diopi_functions.%s succeed", t.c.Function())
		}
		return nil
	})
	bar.end()
	if err != nil && ctx.Err() == nil {
		return failed(err)
	}
	summary.Interrupted = ctx.Err() != nil
	if err := o.writeErrors(failures); err != nil {
		return failed(err)
	}
	return a.finish(j, summary, tally{captures: len(cases)}, start)
}

func (o *conformanceOptions) rules() (*configs.Rules, error) {
	if o.implFolder == "" {
		return configs.NoRules(), nil
	}
	path := filepath.Join(o.implFolder, "device_configs.py")
	entries, err := configs.Load(path, "device_configs")
	if err != nil {
		return nil, err
	}
	return configs.NewRules(entries)
}

// reports are the results of a case as records.
func (o *conformanceOptions) reports(t tested) []*reports.Result {
	source, repro := "device", o.repro(t.c)
	if o.device == noDevice {
		source = "captured"
	}
	if t.leftOut != "" {
		return []*reports.Result{{Capture: t.c.Name, Op: t.c.Function(), Phase: "forward", Verdict: reports.Skipped, Reason: t.leftOut, Source: &source, Repro: &repro}}
	}
	var out []*reports.Result
	for _, r := range t.results {
		rec := &reports.Result{
			Capture: t.c.Name, Op: t.c.Function(), Phase: r.Phase, Target: r.Target, Verdict: string(r.Verdict), Reason: r.Reason,
			Source: &source, Repro: &repro,
		}
		if r.Want != nil {
			dt, rule := r.Want.DType.String(), "kit"
			if o.strict {
				rule = "strict"
			}
			n, bad := r.Numel, r.Mismatched
			rec.DType, rec.Shape, rec.Numel, rec.Mismatch, rec.Rule = &dt, nonNil(r.Want.Shape), &n, &bad, &rule
			rec.ATol, rec.RTol, rec.MaxAbs, rec.MaxRel = reports.Num(r.Atol), reports.Num(r.Rtol), reports.Num(r.MaxAbs), reports.Num(r.MaxRelative)
			if r.WorstIndex >= 0 {
				rec.Worst = []int{r.WorstIndex}
				rec.Actual, rec.Expected = jsonValue(r.Actual), jsonValue(r.Expected)
			}
		}
		out = append(out, rec)
	}
	return out
}

// repro is the command that runs a function's cases again.
func (o *conformanceOptions) repro(c *configs.Case) string {
	s := program() + " conformance --mode run_test --cache_dir " + quote(o.cacheDir) + " --fname " + c.Function()
	if o.model != "" {
		s += " --model_name " + quote(o.model)
	}
	if o.device != devicebridge.Host {
		s += " --device " + quote(o.device)
	}
	if o.adaptor != "" {
		s += " --adaptor " + quote(o.adaptor)
	}
	if o.implFolder != "" {
		s += " --impl_folder " + quote(o.implFolder)
	}
	if o.strict {
		s += " --strict"
	}
	return s
}

// failure logs a case that did not pass.
func (o *conformanceOptions) failure(a *app, bar *progress, c *configs.Case, store *conformance.Store, r *reports.Result) {
	o.log(a, bar, "ERROR", "Run diopi_functions.%s [%s] failed: %s %s", c.Function(), c.Name, r.Target, r.Reason)
	if o.debugLevel >= 1 {
		fmt.Fprintf(a.Err, "config: %s\n", value.Str(c.Item))
	}
	if o.debugLevel < 2 {
		return
	}
	for _, path := range []string{store.InputPath(c.Name), store.OutputPath(c.Name)} {
		if v, err := numpypickle.ReadFile(path); err == nil {
			fmt.Fprintf(a.Err, "%s: %s\n", path, value.Str(v))
		}
	}
}

// writeErrors writes the kit's report of failures.
func (o *conformanceOptions) writeErrors(failures []string) error {
	if len(failures) == 0 || o.errorReport == "" {
		return nil
	}
	text := fmt.Sprintf("Conformance-Test Error Report\n---------------------------------\n%d Tests failed:\n%s\n", len(failures), strings.Join(failures, "\n"))
	return os.WriteFile(o.errorReport, []byte(text), 0o644)
}
