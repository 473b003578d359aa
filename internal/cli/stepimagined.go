package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// An imaginedRun is the step with some ops computed otherwise.
type imaginedRun struct {
	text  string // "torch.matmul exact"
	list  string // "torch.matmul"
	flag  string
	ops   *capture.Patterns
	how   step.Choice
	dtype tensor.DType
}

// imagined are the runs that --exact and --in ask for.
func (o *stepOptions) imagined() ([]imaginedRun, error) {
	var out []imaginedRun
	add := func(flag, list, text string, how step.Choice, dt tensor.DType) error {
		p, err := capture.ParsePatterns(list)
		if err != nil {
			return usageError("--%s: %w", flag, err)
		}
		out = append(out, imaginedRun{list + text, list, flag, p, how, dt})
		return nil
	}
	if len(o.exact) > 0 {
		if err := add("exact", strings.Join(o.exact, ","), " exact", step.AsExact, tensor.Invalid); err != nil {
			return nil, err
		}
	}
	for _, arg := range o.in {
		name, list, ok := strings.Cut(arg, "=")
		dt, known := tensor.ParseDType(name)
		if !ok || !known || !dt.IsFloat() || strings.Trim(list, ",") == "" {
			return nil, usageError("--in: want DTYPE=OP[,OP] with a floating dtype, got %q", arg)
		}
		if err := add("in", list, " in "+dt.String(), step.InDType, dt); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// met reports operators that are to be computed otherwise and of which the recording has no call.
func met(runs []imaginedRun, t *step.Trace) error {
	for _, w := range runs {
		for _, c := range t.Calls() {
			w.ops.Match(c.Op)
		}
		if missing := w.ops.Unmet(); len(missing) > 0 {
			return usageError("--%s: the recording has no call of %s", w.flag, strings.Join(missing, ", "))
		}
	}
	return nil
}

// whatIf is the run.
func (w imaginedRun) whatIf() step.WhatIf {
	return step.WhatIf{Choose: func(c *step.Call) (step.Choice, tensor.DType) {
		if !w.ops.Match(c.Op) {
			return step.AsRecorded, tensor.Invalid
		}
		return w.how, w.dtype
	}}
}

// keptWeights says of a step behind the first one what its imagined run does not compute anew.
const keptWeights = ". This step begins with its recorded weights: what the steps before did to them with %s is not undone"

// lines say what the losses would have been.
func (w imaginedRun) lines(cmd *cobra.Command, t *step.Trace, opt step.Options) ([]string, error) {
	var out []string
	for _, p := range t.Processes {
		losses, err := p.Losses(cmd.Context(), w.whatIf(), opt)
		if err != nil {
			return nil, err
		}
		for i, s := range p.Steps {
			l := losses[i]
			if l.Why != "" {
				out = append(out, fmt.Sprintf("what the loss of %s would have been with %s cannot be told: %s", s.Loss,
					w.text, l.Why))
				continue
			}
			line := fmt.Sprintf("with %s the loss of %s would have been %.9g: %+.3g", w.text, s.Loss, l.Loss,
				l.Loss-s.Captured)
			if n := len(l.Averaged); n > 0 && l.Loss != s.Captured {
				line += fmt.Sprintf(", on average of the random numbers that %s drew inside, first %s",
					reports.Count(n, "call"), l.Averaged[0])
			}
			if i > 0 {
				line += fmt.Sprintf(keptWeights, "the recorded "+w.list)
			}
			out = append(out, line)
		}
	}
	return out, nil
}
