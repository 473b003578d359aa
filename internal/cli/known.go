package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/reports"
)

// A knownFile is the flag --known, "" if it is not given.
type knownFile string

func (f *knownFile) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(f), "known", "", "do not fail for the known failures that this `FILE` lists, unless "+
		"they got far worse; --write-known writes one")
}

// load reads the list, nil if none is given. failStale makes the run fail for its lines that no longer fail.
func (f knownFile) load(failStale bool) (*reports.KnownList, error) {
	if f == "" && failStale {
		return nil, usageError("--fail-on %s needs --known", stale)
	}
	if f == "" {
		return nil, nil
	}
	text, err := smallfile.Read(string(f), smallfile.Most)
	if err != nil {
		return nil, usageError("--known: %w", err)
	}
	list, err := reports.ParseKnown(string(f), text, time.Now())
	if err != nil {
		return nil, usageError("--known: %w", err)
	}
	list.FailStale = failStale
	return list, nil
}

// settings say that a list is in force.
func (f knownFile) settings() reports.Settings {
	if f == "" {
		return nil
	}
	return reports.Settings{{Kind: byFile, Name: reports.KnownSetting, Value: string(f), Effect: reports.Tolerates}}
}
