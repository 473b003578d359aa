package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/optool/optool/diopi_conformance"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/reports"
)

// listName is the file of a suite's list of cases.
func listName(model string) string { return cmp.Or(model, "diopi") + "_cases.yaml" }

// listCases is the mode gen_case.
func (o *conformanceOptions) listCases(a *app) error {
	cases, err := o.suite()
	if err != nil {
		return err
	}
	if cases, err = o.pick(cases, nil); err != nil {
		return err
	}
	rules, err := o.rules()
	if err != nil {
		return err
	}
	list, kept := conformance.NewCaseList(cmp.Or(o.model, "diopi"), o.variant, cases, rules)
	if err := os.MkdirAll(o.caseDir, 0o755); err != nil {
		return failed(err)
	}
	path := filepath.Join(o.caseDir, listName(o.model))
	if _, err := os.Stat(path); err == nil { // perhaps somebody has edited it
		if err := os.Rename(path, path+".old"); err != nil {
			return failed(err)
		}
		a.warn("%s was there and is now %s.old", path, path)
	}
	if err := writeFile(path, func(w io.Writer) error { return list.Write(w, cases) }); err != nil {
		return failed(err)
	}
	fmt.Fprintf(a.Out, "%s: %s of %s, %d left out\n", path, reports.Count(len(kept), "case"),
		reports.Count(len(functionsOf(kept)), "function"), len(list.LeftOut))
	return nil
}

// suite is what gen_case lists: the cases of --configs, of the data, or of the
// embedded suite if there are none of both.
func (o *conformanceOptions) suite() ([]*configs.Case, error) {
	if o.configs == "" {
		cases, err := conformance.NewStore(o.cacheDir, o.model).Cases()
		if !errors.Is(err, fs.ErrNotExist) {
			return cases, failed(err)
		}
	}
	entries, err := conformance.Source{Dir: o.configs}.Entries(o.model)
	if err != nil {
		return nil, failed(err)
	}
	cases, err := configs.Expand(entries, nil)
	return cases, failed(err)
}
