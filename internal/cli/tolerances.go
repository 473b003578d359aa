package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
)

// A toleranceFile is the flag --tolerances, "" if it is not given.
type toleranceFile string

func (f *toleranceFile) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(f), "tolerances", "", "read tolerances from this YAML `FILE`")
}

// repro is what a command line that comes to the same verdicts has of it.
func (f toleranceFile) repro() []string {
	if f == "" {
		return nil
	}
	return []string{"--tolerances", quotePath(string(f))}
}

// load reads the file, if one is given, and op_tools' variables. With a registry, the ops
// that the file names have to be known to it.
func (f toleranceFile) load(reg *opdef.Registry) (*compare.Tolerances, error) {
	var file *compare.ToleranceFile
	if f != "" {
		var err error
		if file, err = compare.LoadToleranceFile(string(f)); err != nil {
			return nil, usageError("--tolerances: %w", err)
		}
		if reg != nil {
			if err := checkLayers(file, reg); err != nil {
				return nil, err
			}
		}
	}
	t, err := compare.NewTolerances(os.Environ(), file)
	if err != nil {
		return nil, usageError("%w", err)
	}
	return t, nil
}

// judging reads the selection, and says how the reference judges the calls in it.
func (s *selection) judging(cmd *cobra.Command, a *app, f toleranceFile) (replay.Options, error) {
	if err := s.parse(cmd, a, "AUTOCOMPARE"); err != nil {
		return replay.Options{}, err
	}
	tol, err := f.load(a.known())
	return replay.Options{Registry: a.known(), Tolerances: tol, Read: s.read}, err
}

// settings are the tolerances that were asked for.
func (f toleranceFile) settings(t *compare.Tolerances) reports.Settings {
	var all reports.Settings
	for _, v := range t.Variables() {
		all = append(all, &reports.Setting{Kind: byVariable, Name: v.Setting, Value: os.Getenv(v.Setting),
			Effect: reports.Tolerates})
	}
	if f != "" {
		all = append(all, &reports.Setting{Kind: byFile, Name: compare.FileSetting, Value: string(f),
			Effect: reports.Tolerates})
	}
	return all
}

// checkLayers refuses a tolerance file about operators or classes that are not known.
func checkLayers(file *compare.ToleranceFile, reg *opdef.Registry) error {
	for _, l := range file.Layers() {
		switch {
		case l.Class:
			if _, ok := opdef.ParseClass(l.Name); !ok {
				return usageError("--tolerances: %s: unknown class %q, want %s", l.Place, l.Name,
					strings.Join(opdef.ClassNames(), ", "))
			}
		case !reg.Knows(l.Name):
			return usageError("--tolerances: %s: unknown op %q%s", l.Place, l.Name, didYouMean(reg.Similar(l.Name)))
		}
	}
	return nil
}

// unused says of which ops a tolerance file speaks that are neither known nor among
// those of the calls that were compared.
func unused(file *compare.ToleranceFile, reg *opdef.Registry, compared []*reports.OpSummary) []error {
	var errs []error
	for _, l := range file.Layers() {
		is := func(o *reports.OpSummary) bool { return o.Op == l.Name || strings.HasSuffix(o.Op, "."+l.Name) }
		if !l.Class && !reg.Knows(l.Name) && !slices.ContainsFunc(compared, is) {
			errs = append(errs, fmt.Errorf("--tolerances: %s: no call of an op %q was compared", l.Place, l.Name))
		}
	}
	return errs
}
