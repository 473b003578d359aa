package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/optool/optool/step"
	"github.com/optool/optool/step/metric"
)

// metricFlags say which result the effects of errors are measured on, and how.
type metricFlags struct {
	of string
}

func (m *metricFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.of, "of", "", "measure effects on the logits that `CALL` gives, not on the loss: OP/ID, as step prints it, "+
		"or last")
}

// measured is what was measured on results that are no losses.
type measured struct {
	metric *metric.Metric // nil without --of
	pair   *metric.Pair   // nil unless two runs of the same tokens are compared
}

// measure measures what --of asks for.
func (o *stepOptions) measure(ctx context.Context, t *step.Trace, opt step.Options) error {
	if o.of == "" {
		return nil
	}
	of, err := metric.Find(t, o.of)
	if err != nil {
		return usageError("--of: %w", err)
	}
	o.metric, err = metric.Measure(ctx, of, metric.Options{Options: opt})
	return failed(err)
}
