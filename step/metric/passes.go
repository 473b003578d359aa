package metric

import (
	"slices"

	"github.com/optool/optool/step"
	"github.com/optool/optool/step/pairs"
)

// A pass is one pass of the model: its result, and the tokens that it read.
type pass struct {
	of    *step.Value
	joins bool        // it goes on with the sequences of the pass before, whose keys and values it reads
	read  *step.Value // the tokens that it reads; nil if that is not known
	drawn *step.Value // the tokens that are drawn from its result, one for each sequence; nil if none are
}

// sequences is how many sequences the pass has, where its result is one number for each token.
func (p *pass) sequences() int {
	n := p.of.Numel()
	if len(p.of.Shape) == 1 && p.read != nil && len(p.read.Shape) == 2 && p.read.Shape[0] == n {
		return n // of the last token of each sequence
	}
	return n / lastSize(p.of)
}

// lastSize is the size of the last dimension.
func lastSize(v *step.Value) int {
	if len(v.Shape) == 0 {
		return 1
	}
	return v.Shape[len(v.Shape)-1]
}

// single is the last floating result of a run if it is one number, such as the log-probability of a token; else nil.
func single(t *step.Trace) *step.Value {
	if len(t.Processes) == 0 {
		return nil
	}
	for _, c := range slices.Backward(t.Processes[0].Calls) {
		if i := slices.IndexFunc(c.Outputs, func(v *step.Value) bool { return v.DType.IsFloat() }); i >= 0 {
			if v := c.Outputs[i]; v.Numel() == 1 {
				return v
			}
			return nil
		}
	}
	return nil
}

// passesOf are the passes of the model that end as v does: calls of one operator and line that read the same
// weights. A rollout has one for each token that it decodes.
func passesOf(v *step.Value) []*pass {
	at := slices.Index(v.Call.Outputs, v)
	var out []*pass
	for _, c := range v.Call.Process.Calls {
		if at < 0 || c.Op != v.Call.Op || len(c.Outputs) != len(v.Call.Outputs) || !sameWeights(c, v.Call) ||
			c.Entry.Location != v.Call.Entry.Location || c.Entry.Module != v.Call.Entry.Module {
			continue
		}
		if o := c.Outputs[at]; o.DType == v.DType && len(o.Shape) == len(v.Shape) && o.Numel() > 0 {
			out = append(out, &pass{of: o})
		}
	}
	seen := map[*step.Call]bool{}
	var reader *step.Call // of the tokens of the pass before
	for _, p := range out {
		cone := step.Cone(p.of)
		p.joins = reader != nil && slices.Contains(cone, reader)
		own := slices.DeleteFunc(cone, func(c *step.Call) bool { return seen[c] })
		if p.read = tokensRead(own, p.of); p.read != nil {
			reader = p.read.Call
		} else if in := inputs(own); len(in) > 0 {
			reader = in[0].value.Call
		}
		for _, c := range own {
			seen[c] = true
		}
	}
	for _, p := range out {
		p.drawn = drawn(p.of)
	}
	return out
}

// drawn are the tokens that a run chooses or draws from logits next, one for each row; nil if there are none.
func drawn(logits *step.Value) *step.Value {
	from := map[*step.Value]bool{logits: true}
	calls := logits.Call.Process.Calls
	for _, c := range calls[slices.Index(calls, logits.Call)+1:] {
		if !slices.ContainsFunc(c.Inputs, func(v *step.Value) bool { return from[v.From.Value] }) {
			continue
		}
		switch pairs.Operator(c.Op) {
		case "argmax", "multinomial":
			if len(c.Outputs) == 1 {
				return c.Outputs[0]
			}
		}
		for _, v := range c.Outputs {
			from[v] = v.DType.IsFloat()
		}
	}
	return nil
}

// sameWeights reports whether two calls read the same floating leaves.
func sameWeights(a, b *step.Call) bool {
	return slices.EqualFunc(a.Inputs, b.Inputs, func(v, w *step.Value) bool {
		leaf := v.From.How == step.IsLeaf
		return !v.DType.IsFloat() || leaf == (w.From.How == step.IsLeaf) && (!leaf || v.First() == w.First())
	})
}

// A position is where a token is told: its place among the positions of all passes.
type position struct {
	at int
	id int64
}

// sequences are the tokens that passes tell, by sequence, and how many positions the passes have; nil if it is not
// known what they read. Passes that read a sequence again and one token more, as those without a cache do, tell
// each token once.
func sequences(passes []*pass, opt step.Options) (rows [][]position, positions int) {
	var all, group []*sequence
	for _, p := range passes {
		if p.read == nil {
			return nil, 0
		}
		ids := p.read.Whole(opt)
		length := p.read.Shape[len(p.read.Shape)-1]
		vocabulary := p.of.Shape[len(p.of.Shape)-1]
		n := len(ids) / max(1, length)
		if n == 0 || p.of.Numel()/vocabulary%n != 0 || p.of.Numel()/vocabulary/n > length {
			return nil, 0
		}
		each := p.of.Numel() / vocabulary / n
		again := len(group) == n && !p.joins
		for r := 0; again && r < n; r++ {
			again = group[r].begins(ids[r*length : (r+1)*length])
		}
		// a single token goes on, whatever the model remembers of those before
		if len(group) != n || !p.joins && !again && length > 1 {
			group = nil
			for range n {
				group = append(group, &sequence{told: map[int]int{}})
			}
			all = append(all, group...)
		}
		for r, g := range group {
			if again {
				g.ids = nil
			}
			g.read(ids[r*length:(r+1)*length], each, positions+r*each)
			g.next = none
			if next := p.next(opt); len(next) == n {
				g.next = next[r]
			}
		}
		positions += n * each
	}
	for _, g := range all {
		rows = append(rows, g.positions())
	}
	return rows, positions
}

// A sequence is what passes read of one row.
type sequence struct {
	ids   []int64
	told  map[int]int // place of the position, by the token that is before
	order []int
	next  int64 // the token that is drawn behind them, or none
}

// next are the tokens that are drawn from the result.
func (p *pass) next(opt step.Options) []int64 {
	if p.drawn == nil {
		return nil
	}
	return p.drawn.Whole(opt)
}

// begins reports whether longer tokens begin with the sequence.
func (s *sequence) begins(ids []int64) bool {
	return len(s.ids) < len(ids) && slices.Equal(s.ids, ids[:len(s.ids)])
}

// read notes tokens that a pass reads; it has a position for each of the last ones, from a place on.
func (s *sequence) read(ids []int64, last, place int) {
	s.ids = append(s.ids, ids...)
	for i := range last {
		before := len(s.ids) - last + i
		if _, has := s.told[before]; !has {
			s.told[before] = place + i
			s.order = append(s.order, before)
		}
	}
}

// positions are where the tokens of the sequence are told, in the order of the passes.
func (s *sequence) positions() (out []position) {
	for _, before := range s.order {
		if before+1 < len(s.ids) {
			out = append(out, position{s.told[before], s.ids[before+1]})
		} else if s.next != none {
			out = append(out, position{s.told[before], s.next})
		}
	}
	return out
}
