package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/step/pairs"
)

type compareOptions struct {
	selection
	records    outputs
	failOn     failing
	known      knownFile
	results    bool
	rows       bool
	tolerances toleranceFile
	names      string   // --map
	unshard    []string // rules
	tables     bool
	sort       order
	times      bool
	threshold  float64
	resolution float64
	clock      clock
}

// A failing is the flag --fail-on of commands with --known: it names verdicts, lines of that list that no longer fail
// and, in compare --results, changes.
type failing struct {
	verdicts verdicts
	stale    bool
	changes  []reports.Change
	unsure   bool // ambiguous was named: see ambiguous
}

// ambiguous is the word of --fail-on for times of which compare --time cannot tell whether they changed.
const ambiguous = "ambiguous"

// stale is the word of --fail-on for lines of --known that no longer fail.
const stale = "stale"

// failingChanges are the changes that it may name.
var failingChanges = []reports.Change{reports.Worse, reports.Gone}

// addFlag adds the flag; more is what else than verdicts and stale it may name.
func (v *failing) addFlag(cmd *cobra.Command, more string) {
	cmd.Flags().Var(v, "fail-on", "exit with 1 also for these `VERDICTS`: unsupported, mistrusted, skipped, warn; "+
		"with --known for "+stale+" (lines of the list that no longer fail, or that no value is about)"+more)
}

func (v *failing) String() string {
	text := v.verdicts.String()
	if v.stale {
		text += "," + stale
	}
	if v.unsure {
		text += "," + ambiguous
	}
	return strings.TrimPrefix(text, ",")
}

// Type names the flag's values in the help.
func (v *failing) Type() string { return "VERDICTS" }

func (v *failing) Set(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		if c := reports.Change(name); slices.Contains(failingChanges, c) {
			v.changes = append(v.changes, c)
		} else if name == stale {
			v.stale = true
		} else if name == ambiguous {
			v.unsure = true
		} else if err := v.verdicts.Set(name); err != nil {
			return fmt.Errorf("%w, with --known %s or, with compare --results, %v", err, stale, failingChanges)
		}
	}
	return nil
}

// on reports whether a number of such changes makes the run fail.
func (v *failing) on(c reports.Change, n int) bool { return n > 0 && slices.Contains(v.changes, c) }

// repro is the command line that compares one pair.
func (o *compareOptions) repro(p pairs.Pair) string {
	args := append(o.command("compare", "--tables"), o.tolerances.repro()...)
	args = append(args, quotePath(pathOf(p.A)))
	if p.B != nil && p.B != p.A {
		args = append(args, quotePath(pathOf(p.B)))
	}
	return strings.Join(args, " ")
}

// check refuses paths and flags that do not go together.
func (o *compareOptions) check(cmd *cobra.Command, paths []string) error {
	if o.results && len(paths) < 2 {
		return usageError("compare --results: want OLD and NEW, got %d paths", len(paths))
	}
	if len(paths) < 1 || len(paths) > 2 && !o.results {
		return usageError("compare: want A or A and B, got %d paths", len(paths))
	}
	two := func(is bool, flag, want string) error {
		if is && len(paths) != 2 {
			return usageError("compare %s: want %s, got %d paths", flag, want, len(paths))
		}
		return nil
	}
	switch {
	case o.failOn.unsure && !o.times:
		return usageError("--fail-on %s needs --time", ambiguous)
	case slices.Contains(o.failOn.changes, reports.Worse) && o.times:
		return usageError("--fail-on %s needs --results; with --time, SLOWER makes the exit code 1", reports.Worse)
	case len(o.failOn.changes) > 0 && !o.results && !o.times:
		return usageError("--fail-on %s needs --results", o.failOn.changes[0])
	case o.rows && (o.results || o.times):
		return usageError("--rows, --results and --time exclude each other")
	case o.results && o.times:
		return usageError("--results and --time exclude each other")
	}
	if err := cmp.Or(two(o.times, "--time", "OLD and NEW"), two(o.rows, "--rows", "A and B")); err != nil {
		return err
	}
	switch {
	case o.threshold < 0:
		return usageError("--threshold: want at least 0, got %v", o.threshold)
	case cmd.Flags().Changed("threshold") && !o.times:
		return usageError("--threshold needs --time")
	case o.resolution <= 0:
		return usageError("--resolution: want more than 0, got %v", o.resolution)
	case cmd.Flags().Changed("resolution") && !o.times:
		return usageError("--resolution needs --time")
	}
	return nil
}
