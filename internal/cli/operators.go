package cli

import (
	"os"
	"path/filepath"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/custom"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/reports"
)

// operatorsVariable names files of operators, as --ops does, separated as in PATH.
const operatorsVariable = "OPTOOL_OPS"

// known are optool's operators and those of --ops and OPTOOL_OPS.
func (a *app) known() *opdef.Registry {
	if a.registry != nil {
		return a.registry
	}
	return ops.Default()
}

// useOperators reads the files of --ops and OPTOOL_OPS.
func (a *app) useOperators() error {
	for _, p := range filepath.SplitList(os.Getenv(operatorsVariable)) {
		if p != "" {
			a.own = append(a.own, ownOperators{byVariable, operatorsVariable, p})
		}
	}
	for _, p := range a.operators {
		a.own = append(a.own, ownOperators{byFile, "--ops", p})
	}
	seen := map[string]bool{}
	for _, o := range a.own {
		if at, err := filepath.Abs(o.path); err != nil || seen[at] {
			continue
		} else {
			seen[at] = true
		}
		entries, err := custom.Load(o.path)
		if err != nil {
			return usageError("%s: %v", o.name, err)
		}
		if a.registry, err = a.known().With(entries); err != nil {
			return usageError("%s: %v", o.name, err)
		}
	}
	return nil
}

// operatorSettings are the files of operators that are in force.
func (a *app) operatorSettings() reports.Settings {
	var all reports.Settings
	for _, o := range a.own {
		all = append(all, &reports.Setting{Kind: o.kind, Name: o.name, Value: o.path, Effect: reports.Declares})
	}
	return all
}
