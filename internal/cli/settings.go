package cli

import (
	"github.com/optool/optool/reports"
)

// Kinds of settings.
const (
	byVariable = "variable"
	byFile     = "file"
	byFlag     = "flag"
)

// forwardAlone is the setting of --only_run_forward.
func forwardAlone() *reports.Setting {
	return &reports.Setting{Kind: byFlag, Name: "--only_run_forward", Effect: reports.OmitsGradients}
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
