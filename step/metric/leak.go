package metric

import (
	"context"
	"math"
	"slices"

	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// A probe gives some tokens that a run reads other embeddings: log-probabilities of others must not change.
type probe struct {
	changed []bool // by place in Scores.read
	checked []int  // places in the results
	what    string
}

// leak says what the tokens of a side read though they must not: padding, tokens behind them, or another sequence that
// is packed with theirs. It runs the program exactly with other embeddings there and looks whether log-probabilities
// change. It is empty if they do not.
func (p *Pair) leak(ctx context.Context, i int, opt step.Options) (string, error) {
	s := p.Sides[i]
	if s.read == nil || len(s.read.Shape) == 0 {
		return "", nil
	}
	ids := s.read.Whole(opt)
	if len(ids) == 0 {
		return "", nil
	}
	probes := s.probes(ids, padding(p.Sides[0].Rows, p.Sides[1].Rows))
	if packed := p.packed(i, len(ids)); packed != nil {
		probes = append(probes, packed)
	}
	run := &step.Carry{Of: s.Of, Decisions: len(p.Strays) > 0}
	for _, x := range probes {
		run.Variations = append(run.Variations, step.Variation{Replace: s.perturb(x.changed)})
	}
	carried, err := run.Run(ctx, opt)
	if err != nil || slices.Contains(carried.Exact, nil) {
		return "", err
	}
	exact := s.LogProbs(carried.Exact)
	for k, x := range probes {
		now := s.LogProbs(carried.With[k])
		if slices.ContainsFunc(x.checked, func(at int) bool { return math.Abs(now[at]-exact[at]) > sameProgram }) {
			return "its log-probabilities depend on " + x.what + ", so its mask leaks", nil
		}
	}
	return "", nil
}

// probes are those of padding, and of the last token of each row where one pass reads all.
func (s *Scores) probes(ids []int64, pad int64) []*probe {
	n := s.read.Shape[len(s.read.Shape)-1]
	padded := &probe{changed: make([]bool, len(ids)), what: "padding"}
	last := &probe{changed: make([]bool, len(ids)), what: "tokens behind them"}
	for at := 0; at < len(ids); at += n {
		first, end := unpadded(n, func(k int) bool { return ids[at+k] == pad })
		for k := range n {
			padded.changed[at+k] = k < first || k >= end
			last.changed[at+k] = k == end-1
		}
	}
	for _, r := range trimmed(s.Rows, pad) {
		for _, t := range r {
			if t.reads == 0 || !padded.changed[t.reads-1] {
				padded.checked = append(padded.checked, t.at)
			}
			if t.reads > 0 && !last.changed[t.reads-1] {
				last.checked = append(last.checked, t.at)
			}
		}
	}
	return []*probe{padded, last}
}

// packed is the probe of the first of the sequences that a row packs, by the rows of the other side; nil if there is
// no such row.
func (p *Pair) packed(i, n int) *probe {
	rowOf := func(s *Scores) map[int]int {
		out := map[int]int{}
		for r, row := range s.Rows {
			for _, t := range row {
				out[t.at] = r
			}
		}
		return out
	}
	own, other := rowOf(p.Sides[i]), rowOf(p.Sides[1-i])
	out := &probe{changed: make([]bool, n), what: "another sequence"}
	first := map[int]int{} // row of the other side, by own row
	for _, t := range p.Tokens {
		a, b := t.This, t.Other
		if i == 1 {
			a, b = b, a
		}
		r, begun := first[own[a.at]]
		if !begun {
			r = other[b.at]
			first[own[a.at]] = r
		}
		switch {
		case r != other[b.at]:
			out.checked = append(out.checked, a.at)
		case a.reads > 0:
			out.changed[a.reads-1] = true
		}
	}
	if len(out.checked) == 0 || !slices.Contains(out.changed, true) {
		return nil
	}
	return out
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
