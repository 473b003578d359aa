package cli

import (
	"strings"

	"github.com/optool/optool/compare/pairs"
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
