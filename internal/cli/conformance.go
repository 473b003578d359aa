package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/diopi_conformance"
)

// listFlags are the flags of conformance that take several values in a row, as
// Python's argparse does with nargs="*".
var listFlags = map[string]bool{"--fname": true, "--filter_dtype": true, "--case": true}

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
		Use:   "conformance --mode gen_data|gen_case|run_test|utest",
		Short: "Generate and check DIOPI's baseline data",
		Long: `conformance does the work of DIOPI's diopi_test:

  gen_data  make the inputs of each case, compute results and gradients in
            float64, and write them as the kit's files
  gen_case  write the list of cases for a device, to be edited
  run_test  run cases on a device and compare with the recorded results
  utest     check the rest of the interface: vendor, errors, copies, streams,
            generators

The files are interchangeable with the kit's. gen_data takes cases from optool's own
suite or from DIOPI's configuration files (--configs). run_test takes them from the
cache directory or from a list that gen_case wrote (--test_cases_path).`,
		Example: `  optool conformance --mode gen_data --fname add relu
  optool conformance --mode run_test --fname add --filter_dtype float64 int64
  optool conformance --mode gen_case --impl_folder DIOPI/impl/camb
  optool conformance --mode run_test --device ./libdiopi_impl.so --test_cases_path gencases/diopi_cases.yaml \
      --html_report --test_result_path report.xlsx
  optool conformance --mode utest --device ./libdiopi_impl.so
  optool conformance --mode gen_data --model_name resnet50
  optool conformance --get_model_list --configs DIOPI/diopi_test/python/configs`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("conformance: unexpected argument %q; several values follow --fname, "+
					"--filter_dtype and --case alone", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.keep.exit(runConformance(cmd, a, o)) },
	}
	o.addFlags(cmd)
	return cmd
}

func (o *conformanceOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.mode, "mode", "", "what to do: gen_data, gen_case, run_test or utest")
	completed(cmd, "mode", func() []string { return conformanceModes })
	f.StringSliceVar(&o.fname, "fname", []string{"all_ops"}, "only these functions; several may follow")
	f.StringArrayVar(&o.caseNames, "case", nil,
		"only these cases, by name (relu::relu_0, with or without .pth); several may follow")
	f.StringVar(&o.model, "model_name", "", "use the suite of this model, not the suite of all functions")
	f.BoolVar(&o.modelList, "get_model_list", false, "list the models and their functions")
	f.StringSliceVar(&o.filterDtype, "filter_dtype", nil,
		"leave out cases that have a tensor of these dtypes; several may follow")
	f.StringVar(&o.implFolder, "impl_folder", "",
		"the `DIR` of a device. Its device_configs.py leaves out cases and sets tolerances; its "+
			"convert_config.yaml sets the dtypes and layouts of run_test")
	f.StringVar(&o.convert, "convert-config", "",
		"run_test: convert tensors as this convert_config.yaml (`FILE`) says, not as that of --impl_folder; "+
			"none converts nothing")
	f.StringVar(&o.configs, "configs", "",
		"read cases from the `DIR` with DIOPI's diopi_configs.py and model_config; by default gen_data makes "+
			"optool's own suite")
	f.StringVar(&o.cacheDir, "cache_dir", "cache", "keep the data in `DIR`")
	f.StringVar(&o.device, "device", devicebridge.Host,
		"check this device: host (built in), the path of a libdiopi_impl.so, torch:DEVICE (PyTorch), or none "+
			"(the recorded results themselves)")
	o.torch.add(cmd)
	f.StringVar(&o.adaptor, "adaptor", "", "load the vendor's device functions (device_malloc, ...) from `LIBRARY`")
	addTimeoutFlag(cmd, &o.timeout, "one call", deviceAndReference)
	addMemoryFlag(cmd, &o.memory)
	f.IntVar(&o.debugLevel, "failure_debug_level", 0,
		"1 prints the configuration of failing cases, 2 also inputs and results")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the random inputs")
	f.StringVar(&o.cotangents, "cotangents", "ones",
		"gradients of the results in gen_data: ones (as DIOPI's kit) or random")
	f.BoolVar(&o.strict, "strict", false, "fail a case if one element is wrong, or a dtype or shape differs")
	f.StringVar(&o.errorReport, "error_report", "error_report.csv",
		"write the failures of run_test to `FILE`; a run without failures removes it")
	f.BoolVar(&o.shuffle, "shuffle", false, "run_test: run the cases in a random order (--seed)")
	f.BoolVar(&o.variant.ChannelsLast, "nhwc", false,
		"lay out images with channels last, for the functions in DIOPI's table")
	f.IntVar(&o.variant.MinDim, "nhwc_min_dim", 3, "least number of dimensions that --nhwc lays out")
	f.BoolVar(&o.variant.FourBytes, "four_bytes", false, "pass indices as int32, and scalars as int32 or float32")
	f.StringVar(&o.caseDir, "case_output_dir", "gencases", "gen_case: write the list of cases to `DIR`")
	f.StringVar(&o.casesPath, "test_cases_path", "",
		"run_test: run the cases in this `FILE` of gen_case, or in its directory; by default all data")
	f.StringVar(&o.html, "html_report", "",
		"write a self-contained HTML page to `FILE` (report.html if no file is given: --html_report=FILE)")
	f.Lookup("html_report").NoOptDefVal = "report.html"
	f.StringVar(&o.xlsx, "test_result_path", "",
		"write a workbook to `FILE`.xlsx (run_test: "+kitWorkbook+" by default; an empty FILE writes none)")
	f.BoolVar(&o.useDB, "use_db", false, "write the tables to an SQLite database (--db_path)")
	f.StringVar(&o.dbPath, "db_path", "",
		"write the database to `FILE` or sqlite:///FILE (default diopi_testrecord.db in the cache directory "+
			"or in that of --run)")
	o.records.files.add("html", &o.html) // flags with the kit's names
	o.records.files.add("xlsx", &o.xlsx)
	o.records.files.add("sqlite", &o.database)
	o.records.addFlags(cmd)
	o.failOn.addFlag(cmd)
	o.keep.addFlags(cmd)
	f.Lookup("resume").Usage += "; gen_data without --run: keep the data of cases that are complete"
}

func runConformance(cmd *cobra.Command, a *app, o *conformanceOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	o.model = strings.ToLower(o.model)
	if o.modelList {
		return o.listModels(a.Out)
	}
	if o.mode == "utest_diopi_test" { // as diopi_test's own scripts call it
		o.mode = "utest"
	}
	if o.mode != "gen_data" && o.mode != "run_test" && o.keep != (runFlags{}) {
		return usageError("--run, --resume, --shard, --exit-zero: --mode %s is not kept in a directory", o.mode)
	}
	switch o.mode {
	case "gen_data":
		return o.generate(cmd, a)
	case "gen_case":
		return o.listCases(a)
	case "run_test":
		if !cmd.Flags().Changed("test_result_path") {
			o.xlsx = kitWorkbook
		}
		return o.test(cmd, a)
	case "utest":
		return o.testRuntime(cmd.Context(), a)
	}
	return usageError("--mode: want one of %s, got %q%s", strings.Join(conformanceModes, ", "), o.mode,
		conformance.Nearest(o.mode, conformanceModes))
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
