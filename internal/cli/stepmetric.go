package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/optool/optool/capture/checkpoint"
	"github.com/optool/optool/internal/smallfile"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/custom"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/metric"
	"github.com/optool/optool/step/view"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// metricFlags say which result the effects of errors are measured on, and how.
type metricFlags struct {
	of       string
	tokens   string
	function string
}

func (m *metricFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.of, "of", "", "measure effects on the logits of a `CALL` (OP/ID, as step prints it, or last), not on the loss")
	f.StringVar(&m.tokens, "tokens", "", "with --of, the token that each position predicts, from `FILE` (JSON, .npy, .pth); "+
		"-100 for none. Default: the next token of the input")
	f.StringVar(&m.function, "metric", "", "with --of, also evaluate the function metric(exact, recorded) of the Starlark `FILE`")
}

// measured is what was measured on results that are no losses.
type measured struct {
	metric *metric.Metric // nil without --of
	pair   *metric.Pair   // nil unless two runs of the same tokens are compared
}

// tell writes the tables.
func (m *measured) tell(w io.Writer, st reports.Style) error {
	if m.metric != nil {
		if err := view.Metric(w, m.metric, st); err != nil {
			return err
		}
	}
	if m.pair != nil {
		return view.Tokens(w, m.pair, st)
	}
	return nil
}

// measure measures what --of asks for.
func (o *stepOptions) measure(ctx context.Context, t *step.Trace, opt step.Options, imagined []imaginedRun) error {
	if o.of == "" {
		if o.tokens != "" || o.function != "" {
			return usageError("--tokens and --metric need --of")
		}
		return nil
	}
	of, err := metric.Find(t, o.of)
	if err != nil {
		return usageError("--of: %w", err)
	}
	m := metric.Options{Options: opt}
	if o.tokens != "" {
		if m.Tokens, err = o.readTokens(ctx); err == nil {
			err = checkTokens(m.Tokens, of)
		}
		if err != nil {
			return usageError("--tokens: %w", err)
		}
	}
	if o.function != "" {
		if m.Function, err = readMetric(o.function); err != nil {
			return usageError("--metric: %w", err)
		}
	}
	if o.metric, err = metric.Measure(ctx, of, m); err != nil {
		return failed(err)
	}
	o.metric.Mark()
	o.metric.Merge(t)
	for _, i := range imagined {
		if err := o.metric.Imagine(ctx, i.text, i.whatIf(), m); err != nil {
			return failed(err)
		}
	}
	return nil
}

// unknown reports whether a part of what was to be measured has no finite value.
func (m *measured) unknown() bool {
	return m.metric != nil && m.metric.NonFinite() > 0 || m.pair != nil && m.pair.NonFinite() > 0
}

// checkTokens reports tokens that the vocabulary of the logits does not have.
func checkTokens(tokens []int64, of *step.Value) error {
	vocabulary := of.Shape[len(of.Shape)-1]
	for _, id := range tokens {
		if id != noToken && (id < 0 || id >= int64(vocabulary)) {
			return fmt.Errorf("%d is no token of a vocabulary of %d (%d is for none)", id, vocabulary, noToken)
		}
	}
	if len(tokens) == 0 {
		return errors.New("the list is empty")
	}
	return nil
}

// noToken stands for no token in --tokens.
const noToken = -100

// readTokens reads the tokens of --tokens: whole numbers, in any shape.
func (o *stepOptions) readTokens(ctx context.Context) ([]int64, error) {
	if filepath.Ext(o.tokens) == ".json" {
		raw, err := smallfile.Read(o.tokens, smallfile.Most)
		if err != nil {
			return nil, err
		}
		var all any
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, err
		}
		return numbersIn(all)
	}
	set, err := checkpoint.Open(ctx, o.tokens, o.read, false)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	for _, n := range set.Values {
		if t, ok := n.Value.(*tensor.Tensor); ok && t.DType.IsIntegral() {
			return append([]int64(nil), tensor.Data[int64](t)...), nil
		}
	}
	return nil, fmt.Errorf("%s holds no whole numbers", o.tokens)
}

// numbersIn are the numbers of a list, or of lists in it.
func numbersIn(v any) ([]int64, error) {
	switch v := v.(type) {
	case float64:
		if v != math.Trunc(v) {
			return nil, fmt.Errorf("want whole numbers, got %v", v)
		}
		return []int64{int64(v)}, nil
	case []any:
		var out []int64
		for _, it := range v {
			n, err := numbersIn(it)
			if err != nil {
				return nil, err
			}
			out = append(out, n...)
		}
		return out, nil
	}
	return nil, fmt.Errorf("want a list of numbers, got %T", v)
}

// readMetric reads a function metric(exact, recorded) of two tensors that gives one with a single element. It has
// what operators of one's own have.
func readMetric(path string) (func(exact, result *tensor.Tensor) (float64, error), error) {
	src, err := smallfile.Read(path, custom.MaxSize)
	if err != nil {
		return nil, err
	}
	const name = "user.metric"
	entries, err := custom.Parse(path, append(src, "\nop(\""+name+"(Tensor exact, Tensor recorded) -> Tensor\", metric)\n"...))
	if err != nil {
		return nil, err
	}
	reg, err := ops.Default().With(entries)
	if err != nil {
		return nil, err
	}
	return func(exact, result *tensor.Tensor) (float64, error) {
		c, err := reg.Bind(name, []value.Value{exact, result}, nil)
		if err != nil {
			return 0, err
		}
		f, err := c.Forward()
		switch {
		case err != nil:
			return 0, err
		case len(f.Outs) != 1 || f.Outs[0].Numel() != 1:
			return 0, fmt.Errorf("%s: metric gives no tensor with one element", path)
		}
		return f.Outs[0].Item(), nil
	}, nil
}
