package metric

import (
	"context"
	"fmt"
	"math"

	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Dump is what slime saves of a rollout (--save-debug-rollout-data) or of a training step
// (--save-debug-train-data): samples with the log-probabilities of their response, and no calls. The file of a
// training step has those of the rollout too; it holds columns of one rank, or samples of all ranks.
type Dump struct {
	samples []sample
}

// A sample is a sequence, of which the last tokens are the response.
type sample struct {
	tokens, mask      []float64 // mask: 0 for tokens that the model did not draw; nil if it drew all
	rollout, training []float64 // log-probabilities of the response, nil without
}

// ParseDump takes the content of a file. It is nil if that is no such file.
func ParseDump(root value.Value) *Dump {
	top, _ := root.(*value.Dict)
	if top == nil {
		return nil
	}
	d := &Dump{}
	if list, ok := top.Get("samples"); ok {
		for _, v := range items(list) {
			if one, ok := v.(*value.Dict); ok {
				d.add(func(train, rollout string) value.Value {
					if v, ok := one.Get(train); ok {
						return v
					}
					v, _ := one.Get(rollout)
					return v
				})
			}
		}
		return d.known()
	}
	all, _ := top.Get("rollout_data")
	columns, _ := all.(*value.Dict)
	if columns == nil {
		return nil
	}
	rows, _ := columns.Get("tokens")
	for i := range items(rows) {
		d.add(func(key, _ string) value.Value {
			v, _ := columns.Get(key)
			if n, ok := numbers(v); ok && i < len(n) {
				return n[i]
			} else if list := items(v); i < len(list) {
				return list[i]
			}
			return nil
		})
	}
	return d.known()
}

// known is the dump, nil if it has no samples.
func (d *Dump) known() *Dump {
	if len(d.samples) == 0 {
		return nil
	}
	return d
}

// add adds a sample, whose fields of tells by their names in a training step and in a rollout.
func (d *Dump) add(field func(train, rollout string) value.Value) {
	var s sample
	var ok bool
	if s.tokens, ok = numbers(field("tokens", "tokens")); !ok {
		return
	}
	length := len(s.tokens)
	switch n := field("response_lengths", "response_length").(type) {
	case int64:
		length = int(n)
	case float64:
		length = int(n)
	}
	list := func(train, rollout string) []float64 {
		v := field(train, rollout)
		n, ok := numbers(v)
		if v == nil || !ok || len(n) != length || length > len(s.tokens) || length == 0 {
			return nil
		}
		return n
	}
	s.rollout, s.training = list("rollout_log_probs", "rollout_log_probs"), list("log_probs", "")
	s.mask = list("loss_masks", "loss_mask")
	d.samples = append(d.samples, s)
}

// key tells samples of the same tokens from others.
func (s *sample) key() string { return fmt.Sprint(s.tokens) }

// response calls f with each token of the response that the model drew, and its place.
func (s *sample) response(logprobs []float64, f func(i int, id int64)) {
	before := len(s.tokens) - len(logprobs)
	for i := range logprobs {
		if s.mask == nil || s.mask[i] != 0 {
			f(i, int64(s.tokens[before+i]))
		}
	}
}

// NewDumpPair compares the log-probabilities of a rollout with those of a training step: of the same samples, from two
// files or from one. It is nil if there are none. left counts samples of the rollout that are left out: one of the
// sides has no log-probability for each token, or has only some, as ranks do that hold a part of each sequence.
func NewDumpPair(rollout, training *Dump) (p *Pair, left int) {
	p = &Pair{Program: math.NaN(), Sides: [2]*Scores{{}, {}}}
	open := map[string][]*sample{}
	for i := range training.samples {
		if s := &training.samples[i]; s.training != nil {
			open[s.key()] = append(open[s.key()], s)
		}
	}
	for i := range rollout.samples {
		s := &rollout.samples[i]
		same := open[s.key()]
		if s.rollout == nil || len(same) == 0 || len(same[0].training) != len(s.rollout) {
			left++
			continue
		}
		open[s.key()] = same[1:]
		s.response(s.rollout, func(i int, id int64) {
			p.Tokens = append(p.Tokens, &Token{Position: len(p.Tokens), ID: id,
				This:  Score{ID: id, LogProb: s.rollout[i], Exact: math.NaN()},
				Other: Score{ID: id, LogProb: same[0].training[i], Exact: math.NaN()}})
		})
	}
	if len(p.Tokens) == 0 {
		return nil, left
	}
	return p, left
}

// scores are those of the training step, or of the rollout if the dump has no others. Samples that have no three tokens
// in a row in common with others are left out.
func (d *Dump) scores(others [][]Score) *Scores {
	type gram [3]int64
	grams := func(row []Score, f func(gram) bool) {
		for i := 0; i+2 < len(row) && f(gram{row[i].ID, row[i+1].ID, row[i+2].ID}); i++ {
		}
	}
	has := map[gram]bool{}
	for _, row := range others {
		grams(row, func(g gram) bool { has[g] = true; return true })
	}
	s := &Scores{}
	at := 0
	for i := range d.samples {
		x := &d.samples[i]
		logprobs := x.training
		if logprobs == nil {
			logprobs = x.rollout
		}
		var row []Score
		x.response(logprobs, func(i int, id int64) {
			row = append(row, Score{ID: id, LogProb: logprobs[i], Exact: math.NaN(), at: at})
			at++
		})
		common := len(row) > 0 && (len(row) < 3 || len(has) == 0)
		grams(row, func(g gram) bool { common = common || has[g]; return !common })
		if common {
			s.Rows = append(s.Rows, row)
		}
	}
	return s
}

// NewPairWithDump compares a recorded run with the log-probabilities that a file has of the same tokens. Only the
// calls of the run can explain the difference. It is nil if they have no tokens in common.
func NewPairWithDump(ctx context.Context, this *step.Trace, d *Dump, of string, opt step.Options) (*Pair, error) {
	p := &Pair{Program: math.NaN()}
	for _, decisions := range []bool{false, true} {
		s, err := ScoresOf(ctx, this, of, decisions, opt)
		if s == nil || err != nil {
			return nil, err
		}
		p.Sides = [2]*Scores{s, d.scores(s.Rows)}
		if decisions || len(s.Strays) == 0 {
			break
		}
		p.Strays = s.Strays
	}
	return p.measure(ctx, opt)
}

// items are those of a list; nil of another value.
func items(v value.Value) []value.Value {
	if s, ok := v.(*value.Sequence); ok {
		return s.Items
	}
	return nil
}

// numbers are the elements of a list of numbers, or of a tensor.
func numbers(v value.Value) (out []float64, ok bool) {
	switch v := v.(type) {
	case *tensor.Tensor:
		if v.DType.IsFloat() {
			return append(out, tensor.Data[float64](v)...), true
		}
		for _, n := range tensor.Data[int64](v) {
			out = append(out, float64(n))
		}
		return out, true
	case *value.Sequence:
		for _, it := range v.Items {
			switch it := it.(type) {
			case int64:
				out = append(out, float64(it))
			case float64:
				out = append(out, it)
			default:
				return nil, false
			}
		}
		return out, true
	}
	return nil, false
}
