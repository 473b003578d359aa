package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/reports"
)

// Kinds of settings.
const (
	byVariable = "variable"
	byFile     = "file"
	byFlag     = "flag"
)

// settings are those of the filters, in the order in which they are asked.
func (s *selection) settings() reports.Settings {
	var all reports.Settings
	for _, part := range capture.Parts() {
		if x := s.sources[part]; x != nil {
			all = append(all, x)
		}
	}
	return all
}

// hides is the name of the setting that leaves a capture out, "" if none does.
func (s *selection) hides(e *capture.Entry) (name string, err error) {
	part, err := s.filter.Excludes(e, s.read)
	if x := s.sources[part]; x != nil {
		return x.Name, err
	}
	return "", err
}

// toleranceSettings are the tolerances that were asked for.
func toleranceSettings(t *compare.Tolerances, file string) reports.Settings {
	var all reports.Settings
	for _, v := range t.Variables() {
		all = append(all, &reports.Setting{Kind: byVariable, Name: v.Setting, Value: os.Getenv(v.Setting),
			Effect: reports.Tolerates})
	}
	if file != "" {
		all = append(all, &reports.Setting{Kind: byFile, Name: compare.FileSetting, Value: file,
			Effect: reports.Tolerates})
	}
	return all
}

// forwardAlone is the setting of --only_run_forward.
func forwardAlone() *reports.Setting {
	return &reports.Setting{Kind: byFlag, Name: "--only_run_forward", Effect: reports.OmitsGradients}
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

// didYouMean proposes at most three names.
func didYouMean(names []string) string {
	text := ""
	for i, n := range names {
		switch i {
		case 0:
			text = "; did you mean " + n
		case 3:
			return text + ", ...?"
		default:
			text += ", " + n
		}
	}
	if text != "" {
		text += "?"
	}
	return text
}
