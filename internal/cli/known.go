package cli

import (
	"os"
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

// keepsWords refuses to write a new list over one that people added words to: these go only into a list that extends
// the one of --known.
func (f knownFile) keepsWords(files reportFiles) error {
	path := files.path("write-known")
	text, err := smallfile.Read(path, smallfile.Most)
	if path == "" || path == "-" || err != nil || isFile(path, string(f)) {
		return nil // a file that cannot be read is none, or the error of writing it
	}
	const advice = "give it as --known, too, or write another file"
	list, err := reports.ParseKnown(path, text, time.Now())
	if err != nil {
		return usageError("--write-known: %w: it is no list of known failures; write another file", err)
	}
	if l := list.Remarked(); l != nil {
		return usageError("--write-known: line %d of %s has words that a new list would lose: %s", l.Number, path,
			advice)
	}
	return nil
}

// isFile reports whether two paths are of one file.
func isFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// settings say that a list is in force.
func (f knownFile) settings() reports.Settings {
	if f == "" {
		return nil
	}
	return reports.Settings{{Kind: byFile, Name: reports.KnownSetting, Value: string(f), Effect: reports.Tolerates}}
}
