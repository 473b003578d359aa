package cli

import (
	"cmp"
	"strings"

	"github.com/optool/optool/step/pairs"
	"github.com/spf13/cobra"
)

type compareOptions struct {
	selection
	records    outputs
	failOn     verdicts
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
	if len(paths) < 1 || len(paths) > 2 {
		return usageError("compare: want A or A and B, got %d paths", len(paths))
	}
	two := func(is bool, flag, want string) error {
		if is && len(paths) != 2 {
			return usageError("compare %s: want %s, got %d paths", flag, want, len(paths))
		}
		return nil
	}
	if err := cmp.Or(two(o.results, "--results", "OLD and NEW"), two(o.rows, "--rows", "A and B")); err != nil {
		return err
	}
	switch {
	case o.rows && (o.results || o.times):
		return usageError("--rows, --results and --time exclude each other")
	case o.results && o.times:
		return usageError("--results and --time exclude each other")
	}
	if err := two(o.times, "--time", "OLD and NEW"); err != nil {
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
