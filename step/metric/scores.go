package metric

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/optool/optool/step"
	"github.com/optool/optool/step/pairs"
	"github.com/optool/optool/tensor"
)

// Scores are the log-probabilities that a run gave its tokens.
type Scores struct {
	Of    []*step.Value // the results that give them, one for each pass of the model
	Calls []*step.Call  // that they depend on
	// Rows are the sequences; in each, tokens in order.
	Rows   [][]Score
	Breaks []step.Break
	// Strays are the calls where exact arithmetic takes another way through the program than was recorded.
	Strays []step.Break
	// Cuts are inputs that the exact run takes as they were recorded, because calls that were not recorded made them.
	Cuts []*step.Value

	read   *step.Value         // the tokens that the first pass reads; nil if that is not known
	exact  []float64           // of the results, one after the other
	logits *Distribution       // nil where the result is log-probabilities
	values map[*step.Call]rows // of the exact results of each call
	told   map[*step.Call]bool // calls whose values are one number for each token
}

// A Score is one token of a sequence.
type Score struct {
	ID             int64
	LogProb, Exact float64
	at             int   // in the results
	reads          int   // place of the token behind which it is told, in Scores.read, plus one; 0 if not known
	before, target int64 // the token there and the one behind it, where reads is known
}

// masked reports that a program left a token out: it multiplied its log-probability by 0 or put a 0 in its place.
func (s *Score) masked() bool { return s.ID == 0 && s.LogProb == 0 && s.Exact == 0 }

// token is the token that is told, even if it is masked.
func (s *Score) token() int64 {
	if s.reads > 0 {
		return s.target
	}
	return s.ID
}

// ScoresOf finds the log-probabilities in the last result of a run: one for each token, as gather or a cross
// entropy picks them, or logits of the tokens that an embedding read. A rollout has such a result for each token
// that it decodes. It is nil if the result is neither. Exact values keep the recorded decisions if decisions says so.
func ScoresOf(ctx context.Context, t *step.Trace, of string, decisions bool, opt step.Options) (*Scores, error) {
	if v := single(t); v != nil && (of == "" || of == "last") {
		if passes := passesOf(v); len(passes) > 1 {
			if s, err := scoresOf(ctx, passes, decisions, opt); s != nil || err != nil {
				return s, err
			}
		}
	}
	v, err := Find(t, cmp.Or(of, "last"))
	if err != nil || len(v.Shape) == 0 {
		return nil, err
	}
	if op := pairs.Operator(v.Call.Op); op == "softmax" && v.Call.Inputs[0].From.Value != nil {
		v = v.Call.Inputs[0].From.Value // probabilities that a rollout draws from
	}
	return scoresOf(ctx, passesOf(v), decisions, opt)
}

// scoresOf finds the log-probabilities in the results of passes.
func scoresOf(ctx context.Context, passes []*pass, decisions bool, opt step.Options) (*Scores, error) {
	s := &Scores{values: map[*step.Call]rows{}, read: passes[0].read}
	var recorded []float64
	for _, p := range passes {
		s.Of = append(s.Of, p.of)
		x := p.of.Floats(opt)
		if x == nil {
			return nil, nil
		}
		recorded = append(recorded, x...)
	}
	picks := map[*step.Call]bool{}
	carried, err := (&step.Carry{Of: s.Of, Variations: []step.Variation{{Replace: chosenTokens(1, picks, opt)},
		{Replace: chosenTokens(2, picks, opt)}}, Decisions: decisions,
		Each: func(c *step.Call, exact []*tensor.Tensor) { s.values[c] = newRows(c, exact) }}).Run(ctx, opt)
	if err != nil || slices.Contains(carried.Exact, nil) {
		return nil, err
	}
	s.Calls, s.Breaks, s.Strays, s.Cuts = carried.Calls, carried.Breaks, carried.Strays, carried.Cuts
	s.exact = joined(carried.Exact)
	if ids := wholeIDs(joined(carried.With[0]), joined(carried.With[1]), s.exact); ids != nil {
		s.ofIDs(passes, ids, recorded)
		s.told = behind(s.Of, picks)
	} else if !s.ofLogits(passes, recorded, carried.Exact[0].DType, opt) {
		return nil, nil
	}
	s.placed(opt)
	return s, nil
}

// behind are the calls from those that pick the tokens to the results: their values are one number for each token.
func behind(of []*step.Value, picks map[*step.Call]bool) map[*step.Call]bool {
	out := map[*step.Call]bool{}
	todo := make([]*step.Call, 0, len(of))
	for _, v := range of {
		todo = append(todo, v.Call)
	}
	for len(todo) > 0 {
		c := todo[len(todo)-1]
		if todo = todo[:len(todo)-1]; out[c] {
			continue
		}
		out[c] = true
		for _, v := range c.Inputs {
			if w := v.From.Value; w != nil && !picks[c] {
				todo = append(todo, w.Call)
			}
		}
	}
	return out
}

// ofIDs sets the rows where the results are the log-probabilities of tokens.
func (s *Scores) ofIDs(passes []*pass, ids []int64, recorded []float64) {
	first := 0 // row of the pass
	at := 0
	for _, p := range passes {
		n := p.sequences()
		each := p.of.Numel() / n
		if len(s.Rows)-first != n || !p.joins && each > 1 {
			first = len(s.Rows)
			s.Rows = append(s.Rows, make([][]Score, n)...)
		}
		for i := range n * each {
			r := first + i/each
			s.Rows[r] = append(s.Rows[r], Score{ID: ids[at], LogProb: recorded[at], Exact: s.exact[at], at: at})
			at++
		}
	}
}

// ofLogits sets the rows where the results are logits, of the tokens that the passes read; ok is false if they are
// not.
func (s *Scores) ofLogits(passes []*pass, recorded []float64, dtype tensor.DType, opt step.Options) (ok bool) {
	told, n := sequences(passes, opt)
	if told == nil || len(s.exact)%n != 0 {
		return false
	}
	tokens := slices.Repeat([]int64{none}, n)
	for _, row := range told {
		for _, p := range row {
			tokens[p.at] = p.id
		}
	}
	logits, err := NewDistribution(tensor.New(dtype, []int{n, len(s.exact) / n}, s.exact), tokens)
	if err != nil {
		return false
	}
	s.logits = logits
	is, was := s.logits.of(recorded), s.logits.LogProbs()
	for _, row := range told {
		var scores []Score
		for _, p := range row {
			scores = append(scores, Score{ID: p.id, LogProb: is[p.at], Exact: was[p.at], at: p.at})
		}
		s.Rows = append(s.Rows, scores)
	}
	return true
}

// placed finds the token behind which each one is told: all that the first pass reads, or some of them in their order.
func (s *Scores) placed(opt step.Options) {
	if s.read == nil || len(s.read.Shape) == 0 || s.read.Numel() == 0 {
		return
	}
	ids, n := s.read.Whole(opt), s.read.Shape[len(s.read.Shape)-1]
	var targets []int // places of tokens that have one before them
	for k := range ids {
		if k%n != 0 {
			targets = append(targets, k)
		}
	}
	if len(s.Rows) == 1 {
		place(s.Rows[0], targets, ids)
	}
	if len(s.Rows) == 1 || len(ids) != len(s.Rows)*n {
		return
	}
	for r, row := range s.Rows {
		if len(row) >= n || !begins(row, targets[r*(n-1):], ids) {
			return
		}
	}
	for r, row := range s.Rows {
		place(row, targets[r*(n-1):(r+1)*(n-1)], ids)
	}
}

// begins reports whether a row tells the first of the targets, but those that are masked.
func begins(row []Score, targets []int, ids []int64) bool {
	for i, x := range row {
		if !x.masked() && x.ID != ids[targets[i]] {
			return false
		}
	}
	return true
}

// place notes where the tokens of a row are read: at the first targets, or else, in their order, at those where it is
// certain. ids are the tokens by place.
func place(row []Score, targets []int, ids []int64) {
	n := len(row)
	if n > len(targets) {
		return
	}
	at := targets[:n]
	if !begins(row, targets, ids) {
		last := make([]int, n) // the last place where each can be
		for i, k := n-1, len(targets)-1; i >= 0; i, k = i-1, k-1 {
			for k >= 0 && ids[targets[k]] != row[i].ID {
				k--
			}
			if k < 0 {
				return // it tells other tokens
			}
			last[i] = targets[k]
		}
		at = make([]int, n)
		k := 0
		for i := range row {
			for ids[targets[k]] != row[i].ID {
				k++
			}
			if at[i] = targets[k]; at[i] != last[i] {
				at[i] = 0
			}
			k++
		}
	}
	for i, k := range at {
		if k > 0 {
			row[i].reads, row[i].before, row[i].target = k, ids[k-1], ids[k]
		}
	}
}

// unknownPadding reports whether some log-probabilities are NaN or Inf, and all of these are told behind padding.
func (s *Scores) unknownPadding() bool {
	return onlyPadding(len(s.Rows), func(r int) int { return len(s.Rows[r]) }, func(r, k int) (int64, bool) {
		x := s.Rows[r][k]
		if x.reads == 0 {
			return int64(-1 - k), x.LogProb-x.LogProb != 0 // what it reads is not known: no padding
		}
		return x.before, x.LogProb-x.LogProb != 0
	})
}

// reaching are calls without those before the first one that depends on tokens, unless it depends on them: masks and
// positions have other shapes where a run passes tokens in other parts.
func (s *Scores) reaching(calls []*step.Call) []*step.Call {
	depends := map[*step.Call]bool{}
	for _, in := range inputs(s.Calls) {
		depends[in.value.Call] = true
	}
	for _, c := range s.Calls {
		depends[c] = depends[c] || slices.ContainsFunc(c.Inputs, func(v *step.Value) bool {
			return v.From.Value != nil && depends[v.From.Value.Call]
		})
	}
	i := slices.IndexFunc(calls, func(c *step.Call) bool { return depends[c] })
	if i < 0 {
		return calls
	}
	cone := map[*step.Call]bool{}
	for _, c := range step.Cone(calls[i].Outputs...) {
		cone[c] = true
	}
	return append(slices.DeleteFunc(slices.Clone(calls[:i]), func(c *step.Call) bool { return !cone[c] }), calls[i:]...)
}

// inexact reports that the exact values of a run depend on what it recorded: its rounding is in them.
func (s *Scores) inexact() bool { return len(s.Cuts)+len(s.Breaks) > 0 }

// ends reports whether a call gives one of the results.
func (s *Scores) ends(c *step.Call) bool {
	return slices.ContainsFunc(s.Of, func(v *step.Value) bool { return v.Call == c })
}

// joined are the elements of results, one after the other.
func joined(ts []*tensor.Tensor) (out []float64) {
	for _, t := range ts {
		out = append(out, float64s(t)...)
	}
	return out
}

// of are the log-probabilities that other logits give the tokens.
func (d *Distribution) of(logits []float64) []float64 {
	logp := make([]float64, len(logits))
	for t := range d.Positions {
		logSoftmax(d.row(logp, t), d.row(logits, t))
	}
	return d.logProbs(logp)
}

// LogProbs are the log-probabilities that other values of the results give, by place in the results.
func (s *Scores) LogProbs(results []*tensor.Tensor) []float64 {
	if s.logits != nil {
		return s.logits.of(joined(results))
	}
	return joined(results)
}

// chosenTokens gives calls that pick the probability of a token the number of the token as their result, or a power of
// it, so that the program itself brings the numbers to where it brings the log-probabilities. It notes such calls.
func chosenTokens(power float64, picks map[*step.Call]bool, opt step.Options) func(c *step.Call, args,
	exact []*tensor.Tensor) []*tensor.Tensor {
	carries := map[*step.Call]bool{} // calls whose result is numbers of tokens
	return func(c *step.Call, args, exact []*tensor.Tensor) []*tensor.Tensor {
		if slices.ContainsFunc(c.Inputs, func(v *step.Value) bool {
			return v.From.Value != nil && carries[v.From.Value.Call] && arranges(c, v)
		}) {
			carries[c] = true
			return nil
		}
		if len(exact) != 1 || !exact[0].DType.IsFloat() {
			return nil
		}
		out := make([]float64, exact[0].Numel())
		switch op := pairs.Operator(c.Op); op {
		case "gather", "take_along_dim", "cross_entropy", "nll_loss", "__getitem__", "cross_entropy_loss":
			var ids []int64
			for _, t := range args { // the last index is that of the vocabulary
				if t.DType.IsIntegral() && t.Numel() == len(out) {
					ids = tensor.Data[int64](t)
				}
			}
			if ids == nil && exact[0].Dim() == 0 {
				ids = c.LastIndex(opt)
			}
			if ids == nil {
				return nil
			}
			for k, id := range ids {
				out[k] = math.Pow(float64(id), power)
			}
		case "logsumexp": // log-probabilities as logits less their sum
		default:
			return nil
		}
		picks[c], carries[c] = true, true
		return []*tensor.Tensor{tensor.New(exact[0].DType, exact[0].Shape, out)}
	}
}

// arranges reports whether the result of a call is elements of its argument v, perhaps negated or masked.
func arranges(c *step.Call, v *step.Value) bool {
	switch pairs.Operator(c.Op) {
	case "__getitem__", "gather", "take_along_dim", "index_select", "masked_select", "view", "reshape", "flatten",
		"squeeze", "unsqueeze", "transpose", "contiguous", "to", "float", "cat", "stack", "neg":
		return true
	case "mul", "where", "masked_fill":
		return len(c.Outputs) == 1 && c.Outputs[0].Numel() == v.Numel()
	}
	return false
}

// wholeIDs are the numbers of tokens that a result holds, negated or not; nil if they are none, or what the
// exact run gives. squares are what becomes of the squares of the numbers: those of sums are others.
func wholeIDs(ids, squares, exact []float64) []int64 {
	if len(ids) == 0 || slices.Equal(ids, exact) {
		return nil
	}
	out := make([]int64, len(ids))
	for i, x := range ids {
		n := math.Round(math.Abs(x))
		if math.Abs(math.Abs(x)-n) > 1e-6 || n > 1<<31 || math.Abs(math.Abs(squares[i])-n*n) > 1e-6*max(1, n*n) {
			return nil
		}
		out[i] = int64(n)
	}
	return out
}

// rows are what the rows of exact results, the elements of the last dimension, can be told by.
type rows struct {
	norms, dots []float64
}

// most is how many rows of a call are looked at.
const mostRows = 1 << 16

func newRows(c *step.Call, exact []*tensor.Tensor) (out rows) {
	for _, t := range exact {
		if t == nil || !t.DType.IsFloat() || t.Dim() == 0 || t.Shape[t.Dim()-1] < 4 {
			continue
		}
		n := t.Shape[t.Dim()-1]
		v := float64s(t)
		for i := 0; i+n <= len(v) && len(out.norms) < mostRows; i += n {
			out.add(v[i : i+n])
		}
	}
	return out
}

func (r *rows) add(row []float64) {
	square, dot := 0.0, 0.0
	for k, x := range row {
		square += x * x
		dot += x * weightOf(k)
	}
	if square > 0 && square-square == 0 {
		r.norms, r.dots = append(r.norms, math.Sqrt(square)), append(r.dots, dot)
	}
}

// weightOf is a fixed number for each place of a row, between -1 and 1.
func weightOf(k int) float64 {
	z := (uint64(k) + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64(int64(z^z>>31)) / (1 << 63)
}

// A rowSet finds rows that are equal up to rounding of float64.
type rowSet map[int64][][2]float64

// rowTolerance is how far equal rows are apart, relative to their norms.
const rowTolerance = 1e-9

func bucket(norm float64) int64 { return int64(math.Floor(math.Log(norm) / (4 * rowTolerance))) }

func (s rowSet) add(r rows) {
	for i, n := range r.norms {
		b := bucket(n)
		s[b] = append(s[b], [2]float64{n, r.dots[i]})
	}
}

func (s rowSet) has(norm, dot float64) bool {
	b := bucket(norm)
	for k := b - 1; k <= b+1; k++ {
		for _, x := range s[k] {
			if math.Abs(x[0]-norm) <= rowTolerance*norm && math.Abs(x[1]-dot) <= 2*rowTolerance*norm {
				return true
			}
		}
	}
	return false
}

// share is the share of rows that are in the set; NaN of none.
func (s rowSet) share(r rows) float64 {
	n := 0
	for i, norm := range r.norms {
		if s.has(norm, r.dots[i]) {
			n++
		}
	}
	return float64(n) / float64(len(r.norms))
}

// rounded is t rounded to a dtype.
func rounded(dt tensor.DType, v []float64) []float64 {
	out := slices.Clone(v)
	tensor.RoundBlock(dt, out)
	return out
}
