package cli

import (
	"github.com/optool/optool/capture"
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
