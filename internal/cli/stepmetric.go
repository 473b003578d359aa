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

// measure measures what --of asks for, nil if it asks for nothing.
func (m *metricFlags) measure(ctx context.Context, t *step.Trace, opt step.Options) (*metric.Metric, error) {
	if m.of == "" {
		return nil, nil
	}
	of, err := metric.Find(t, m.of)
	if err != nil {
		return nil, usageError("--of: %w", err)
	}
	out, err := metric.Measure(ctx, of, metric.Options{Options: opt})
	return out, failed(err)
}
