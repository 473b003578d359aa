package metric

import (
	"context"
	"math"
	"slices"

	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// leak says what the tokens of a run read though they must not: padding, or tokens behind them. It runs the program
// exactly with other embeddings there and looks whether log-probabilities change. It is empty if they do not.
func (s *Scores) leak(ctx context.Context, opt step.Options) (string, error) {
	if s.read == nil || len(s.read.Shape) == 0 {
		return "", nil
	}
	ids, row := s.read.Whole(opt), s.read.Shape[len(s.read.Shape)-1]
	if len(ids) == 0 {
		return "", nil
	}
	pad := padding(s.Rows)
	padded, last := make([]bool, len(ids)), make([]bool, len(ids))
	for at := 0; at < len(ids); at += row {
		first, end := unpadded(row, func(k int) bool { return ids[at+k] == pad })
		for k := range row {
			padded[at+k] = k < first || k >= end
			last[at+k] = k == end-1
		}
	}
	carried, err := (&step.Carry{Of: s.Of, Variations: []step.Variation{{Replace: s.perturb(padded)},
		{Replace: s.perturb(last)}}}).Run(ctx, opt)
	if err != nil {
		return "", err
	}
	exact := s.LogProbs(carried.Exact)
	changes := func(k, without int) bool {
		now := s.LogProbs(carried.With[k])
		for _, r := range trimmed(s.Rows, pad) {
			for _, t := range r[:max(0, len(r)-without)] {
				if d := now[t.at] - exact[t.at]; math.Abs(d) > sameProgram {
					return true
				}
			}
		}
		return false
	}
	switch {
	case slices.Contains(padded, true) && changes(0, 0):
		return "its log-probabilities depend on padding, so its mask leaks", nil
	case !s.decodes() && changes(1, 1):
		return "its log-probabilities depend on tokens behind them, so its mask leaks", nil
	}
	return "", nil
}

// perturb gives the embedding of the tokens that the first pass reads other rows, where at says so.
func (s *Scores) perturb(at []bool) func(c *step.Call, args, exact []*tensor.Tensor) []*tensor.Tensor {
	return func(c *step.Call, _, exact []*tensor.Tensor) []*tensor.Tensor {
		if c != s.read.Call || len(exact) != 1 || exact[0] == nil || exact[0].Numel()%len(at) != 0 {
			return nil
		}
		x := slices.Clone(float64s(exact[0]))
		n := len(x) / len(at)
		for i, changes := range at {
			for k := 0; changes && k < n; k++ {
				x[i*n+k] = weightOf(k) - x[i*n+k]
			}
		}
		return []*tensor.Tensor{tensor.New(exact[0].DType, exact[0].Shape, x)}
	}
}

// decodes reports whether the run reads tokens more than once: it decodes them one after the other.
func (s *Scores) decodes() bool {
	n := 0
	for _, in := range inputs(s.Calls) {
		if sameWeights(in.value.Call, s.read.Call) {
			n++
		}
	}
	return n > 1
}
