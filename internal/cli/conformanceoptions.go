package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/reports"
)

// conformanceOptions are the flags of conformance; those that DIOPI's main.py
// has have its names.
type conformanceOptions struct {
	mode, model, cacheDir, configs, implFolder, device string
	adaptor, convert                                   string
	cotangents, errorReport                            string
	records                                            outputs
	keep                                               runFlags
	failOn                                             verdicts
	fname, filterDtype, caseNames                      []string
	modelList, strict                                  bool
	debugLevel                                         int
	torch                                              torchFlags
	seed                                               uint64
	shuffle                                            bool
	variant                                            conformance.Variant
	caseDir, casesPath                                 string
	timeout                                            time.Duration
	memory                                             int64
	html, xlsx, dbPath                                 string
	database                                           string // the file, "" without useDB
	useDB                                              bool
}

// kitWorkbook is the workbook that diopi_test writes after each run of tests.
const kitWorkbook = "report.xlsx"

var conformanceModes = []string{"gen_data", "gen_case", "run_test", "utest"}

// dtypeNames are what --filter_dtype takes.
var dtypeNames = []string{"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
	"float32", "float64", "bool"}

func (o *conformanceOptions) check() error {
	for _, dt := range o.filterDtype {
		if !slices.Contains(dtypeNames, dt) {
			return usageError("--filter_dtype: dtype %q is not known%s", dt, conformance.Nearest(dt, dtypeNames))
		}
	}
	if o.debugLevel < 0 || o.debugLevel > 2 {
		return usageError("--failure_debug_level: want 0, 1 or 2, got %d", o.debugLevel)
	}
	if o.variant.MinDim < 3 || o.variant.MinDim > 5 {
		return usageError("--nhwc_min_dim: want 3 to 5, got %d", o.variant.MinDim)
	}
	if o.cotangents != "ones" && o.cotangents != "random" {
		return usageError("--cotangents: want ones or random, got %q", o.cotangents)
	}
	if o.useDB {
		otherwise := filepath.Join(o.cacheDir, kitDatabase)
		if o.keep.dir != "" {
			otherwise = kitDatabase // there
		}
		o.database = databasePath(o.dbPath, otherwise)
	}
	return nil
}

// leftOutBy is the flag that leaves a case out, "" if it is selected.
func (o *conformanceOptions) leftOutBy(c *configs.Case) string {
	if !slices.Contains(o.fname, "all_ops") && !slices.Contains(o.fname, c.Function()) {
		return "--fname"
	}
	if o.caseNames != nil && !slices.Contains(o.caseNames, c.Name) {
		return "--case"
	}
	for _, arg := range c.Args() {
		if slices.Contains(o.filterDtype, arg.DType.String()) {
			return "--filter_dtype"
		}
	}
	return ""
}

// settings are what run_test was told about which cases to run, and how strictly.
func (o *conformanceOptions) settings() reports.Settings {
	var all reports.Settings
	add := func(kind, name, value, effect string, given bool) {
		if given {
			all = append(all, &reports.Setting{Kind: kind, Name: name, Value: value, Effect: effect})
		}
	}
	add(byFlag, "--fname", strings.Join(o.fname, ","), reports.Selects, !slices.Contains(o.fname, "all_ops"))
	add(byFlag, "--case", strings.Join(o.caseNames, ","), reports.Selects, o.caseNames != nil)
	add(byFlag, "--filter_dtype", strings.Join(o.filterDtype, ","), reports.Selects, o.filterDtype != nil)
	rules, convert := o.implFile(rulesFile), o.convertFile()
	add(byFile, "--impl_folder", rules, reports.Tolerates, rules != "")
	add(byFile, "--test_cases_path", o.casesPath, reports.Tolerates, o.casesPath != "")
	add(byFile, convertFlag, convert, reports.Converts, convert != "" && o.device != noDevice)
	return all
}

// pick returns the cases that are selected. A name of --fname or --case that
// none of them has is refused.
func (o *conformanceOptions) pick(cases []*configs.Case, settings reports.Settings) ([]*configs.Case, error) {
	functions := functionsOf(cases)
	for _, f := range o.fname {
		if f != "all_ops" && !slices.Contains(functions, f) {
			return nil, usageError("--fname: function %q has no cases%s", f,
				cmp.Or(callers(f, functions), conformance.Nearest(f, functions)))
		}
	}
	for i, name := range o.caseNames {
		if !strings.HasSuffix(name, ".pth") {
			name += ".pth"
		}
		o.caseNames[i] = name
		if !slices.ContainsFunc(cases, func(c *configs.Case) bool { return c.Name == name }) {
			var names []string
			for _, c := range cases {
				names = append(names, c.Name)
			}
			return nil, usageError("--case: there is no case %q%s", name, conformance.Nearest(name, names))
		}
	}
	picked := slices.DeleteFunc(slices.Clone(cases), func(c *configs.Case) bool {
		by := o.leftOutBy(c)
		settings.Hide(by)
		return by != ""
	})
	if len(picked) == 0 {
		return nil, usageError("no case is left: see --fname, --case and --filter_dtype")
	}
	return picked, nil
}

// limits are those of each case's reference.
func (o *conformanceOptions) limits() *limits {
	timeout := cmp.Or(o.timeout, referenceTimeout)
	if o.mode == "run_test" { // a call on the device has a deadline of its own
		timeout = max(timeout, referenceTimeout)
	}
	return limitsOf(o.memory, timeout)
}

// log writes a line in the form of the kit's log.
func (o *conformanceOptions) log(a *app, bar *progress, level, format string, args ...any) {
	_ = bar.print(func() error {
		_, err := fmt.Fprintf(a.Err, "%s - ConformanceTest - %s - %s\n",
			time.Now().Format("2006-01-02 15:04:05,000"), level, fmt.Sprintf(format, args...))
		return err
	})
}

// kitDatabase is the database of --use_db, in the cache directory.
const kitDatabase = "diopi_testrecord.db"

// databasePath is the file of --db_path, which the kit takes as an address.
func databasePath(address, otherwise string) string {
	return strings.TrimPrefix(cmp.Or(address, otherwise), "sqlite:///")
}

// functionsOf are the functions of cases, sorted.
func functionsOf(cases []*configs.Case) []string {
	var names []string
	for _, c := range cases {
		names = append(names, c.Function())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Files of --impl_folder. A vendor may have either alone.
const (
	rulesFile   = "device_configs.py"
	convertFile = "convert_config.yaml"
)

// implFile is the path of a file of --impl_folder, or "" if it has none.
func (o *conformanceOptions) implFile(name string) string {
	path := filepath.Join(o.implFolder, name)
	if _, err := os.Stat(path); o.implFolder == "" || err != nil {
		return ""
	}
	return path
}

// convertFile is the file with the conversions that the device wants, "" if there is
// none.
func (o *conformanceOptions) convertFile() string {
	switch o.convert {
	case "":
		return o.implFile(convertFile)
	case "none":
		return ""
	}
	return o.convert
}

// readList reads --test_cases_path, if it is given. The list says which suite and
// which variant to run.
func (o *conformanceOptions) readList() (*conformance.CaseList, error) {
	if o.casesPath == "" {
		return nil, nil
	}
	if info, err := os.Stat(o.casesPath); err == nil && info.IsDir() {
		o.casesPath = filepath.Join(o.casesPath, listName(o.model))
	}
	list, err := conformance.ReadCaseList(o.casesPath)
	if err != nil {
		return nil, failed(err)
	}
	if o.model != "" && o.model != list.Model() {
		return nil, usageError("--test_cases_path: the cases are of %s, not of --model_name %s", list.Suite, o.model)
	}
	o.model = list.Model()
	v := list.Variant()
	if v.ChannelsLast {
		o.variant.ChannelsLast, o.variant.MinDim = true, v.MinDim
	}
	o.variant.FourBytes = o.variant.FourBytes || v.FourBytes
	return list, nil
}

// callers says which of the functions of the kit call a function of DIOPI, "" if none does.
func callers(name string, functions []string) string {
	var found []string
	for _, r := range diopi.Recipes() {
		if slices.Contains(functions, r.Function) && slices.Contains(r.Functions(), name) {
			found = append(found, r.Function)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return "; the cases of " + strings.Join(found, ", ") + " call it"
}
