package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
	"github.com/optool/optool/tensor"
)

// Ranks can cut their data and their labels from tensors that all have. Then the rows that each takes say whether the
// labels belong to the data.

// cutApart finds a loss whose labels are other rows of a whole than the data are, and not on all ranks in the same way.
func (p *part) cutApart() {
	for _, s := range p.flat() {
		if len(p.broken) > 0 {
			return
		}
		sides := p.read(s)
		if !isLoss(s.op) || sides == nil || len(sides[p.ranks[0]].call.Inputs) != len(sides[p.ranks[0]].ins) {
			continue
		}
		for i := range sides[p.ranks[0]].ins {
			if i > 0 {
				p.rowsApart(s, sides, i)
			}
		}
	}
}

// A taken is the rows of a whole tensor that ranks took, by rank, and the calls that took them.
type taken struct {
	rows map[int][]int
	by   map[int]*step.Call
	of   int // rows of the whole
}

// rowsApart compares the rows that labels and data of a loss are.
func (p *part) rowsApart(s *site, sides map[int]*side, i int) {
	labels := p.takenBy(func(r int) *step.Value { return sides[r].call.Inputs[i] })
	if labels == nil {
		return
	}
	var other *taken
	rank, row := -1, 0
	for _, t := range p.flat() {
		if !p.checker.reads(sides[p.ranks[0]].call.Inputs[0], t.calls[p.ranks[0]]) {
			continue
		}
		data := p.takenBy(func(r int) *step.Value {
			if c := t.calls[r]; c != nil && len(c.Inputs) > 0 {
				return c.Inputs[0]
			}
			return nil
		})
		if data == nil || data.of != labels.of || len(data.rows[p.ranks[0]]) != len(labels.rows[p.ranks[0]]) {
			continue
		}
		apart := map[int]int{}
		for _, r := range p.ranks {
			for k, n := range labels.rows[r] {
				apart[n-data.rows[r][k]]++
			}
		}
		if len(apart) < 2 {
			return
		}
		if other != nil {
			continue
		}
		other = data
		for _, r := range p.ranks {
			for k, n := range labels.rows[r] {
				if rank < 0 && n-data.rows[r][k] != most(apart) {
					rank, row = r, k
				}
			}
		}
	}
	if other == nil || rank < 0 {
		return
	}
	p.found(true, &violation{kind: "shard", site: s, call: s.calls[rank], ranks: p.ranks,
		target: fmt.Sprintf("input[%d]", i), reason: fmt.Sprintf("row %d of the labels of rank %d is row %d of the whole that %s "+
			"takes it from, and that of its data is row %d of as many, by %s: data and labels are of different shards",
			row, rank, labels.rows[rank][row], labels.by[rank], other.rows[rank][row], other.by[rank])})
}

// reads reports whether a value was made by a call, or of what it made.
func (c *checker) reads(v *step.Value, call *step.Call) bool {
	seen := map[*step.Call]bool{}
	var walk func(v *step.Value) bool
	walk = func(v *step.Value) bool {
		if v.From.Value == nil || call == nil || v.From.Value.Call.Order < call.Order || seen[v.From.Value.Call] {
			return false
		}
		made := v.From.Value.Call
		seen[made] = true
		return made == call || slices.ContainsFunc(made.Inputs, walk)
	}
	return walk(v)
}

// takenBy are the rows that values of the ranks are of a tensor that all have; nil if that is not so.
func (p *part) takenBy(of func(rank int) *step.Value) *taken {
	out := &taken{rows: map[int][]int{}, by: map[int]*step.Call{}}
	var first *array
	for _, r := range p.ranks {
		v := of(r)
		if v == nil {
			return nil
		}
		rows, by, whole := p.rowsOfWhole(v, 8)
		if rows == nil || first != nil && (!slices.Equal(whole.x, first.x) || len(rows) != len(out.rows[p.ranks[0]])) {
			return nil
		}
		first, out.of = whole, whole.shape[0]
		out.rows[r], out.by[r] = rows, by
	}
	return out
}

// rowsOfWhole are the rows that a value is of a larger tensor that no call made, the call that took them, and the
// tensor; nil if it is something else.
func (p *part) rowsOfWhole(v *step.Value, within int) (rows []int, by *step.Call, whole *array) {
	if v.From.Value == nil || within == 0 || len(v.Shape) == 0 || v.RequiresGrad {
		return nil, nil, nil
	}
	made := v.From.Value.Call
	m := method(made.Op)
	if len(made.Inputs) == 0 || isExchange(made.Op) {
		return nil, nil, nil
	}
	in := made.Inputs[0]
	if carries[m] && in.Numel() == v.Numel() && len(made.Inputs) == 1 && len(in.Shape) > 0 {
		if in.Shape[0] == v.Shape[0] || len(v.Shape) == 1 && len(in.Shape) == 2 {
			rows, by, whole = p.rowsOfWhole(in, within-1)
			if n := len(rows); n > 0 && v.Shape[0]%n != 0 {
				return nil, nil, nil
			}
			return rows, by, whole
		}
	}
	if in.From.Value != nil || in.RequiresGrad || in.Parameter || len(in.Shape) == 0 || in.Shape[0] <= v.Shape[0] ||
		!picking[m] && !cutting[m] && m != "getitem" {
		return nil, nil, nil
	}
	d, err := p.checker.load(made)
	if err != nil || len(d.ins) != len(made.Inputs) {
		return nil, nil, nil
	}
	ins := d.arrays()
	whole = ins[0]
	numbered := &array{tensor.Float64, whole.shape, make([]float64, len(whole.x))}
	width := len(whole.x) / whole.shape[0]
	for i := range numbered.x {
		numbered.x[i] = float64(i / width)
	}
	ins[0] = numbered
	outs, err := p.checker.runOn(d, ins)
	if err != nil {
		return nil, nil, nil
	}
	for k, a := range outs {
		if v.From.Value.Target != fmt.Sprintf("output[%d]", k) || len(a.shape) == 0 || a.shape[0] == 0 {
			continue
		}
		n := len(a.x) / a.shape[0]
		for i := range a.shape[0] {
			if n == 0 || slices.Min(a.x[i*n:(i+1)*n]) != slices.Max(a.x[i*n:(i+1)*n]) {
				return nil, nil, nil // cut along another dimension
			}
			rows = append(rows, int(a.x[i*n]))
		}
		return rows, made, whole
	}
	return nil, nil, nil
}

// otherTargets finds a loss that compares what a rank computes with the data of another rank, where the other ranks, or
// the whole program, compare it with their own: as an autoencoder does.
func (p *part) otherTargets() {
	data := map[int][]*array{}
	for _, s := range p.flat() {
		sides := p.read(s)
		if len(p.broken) > 0 {
			return
		}
		if sides == nil || len(sides[p.ranks[0]].call.Inputs) != len(sides[p.ranks[0]].ins) || carries[method(s.op)] {
			continue
		}
		for i, a := range sides[p.ranks[0]].ins {
			if !a.array.dtype.IsFloat() || slices.ContainsFunc(p.ranks, func(r int) bool {
				v := sides[r].call.Inputs[i]
				return !isGiven(v) || v.Numel() < 8 || sides[r].ins[i].array.constant()
			}) {
				continue
			}
			if isLoss(s.op) && i > 0 {
				p.comparesOther(s, sides, i, data)
				continue
			}
			for _, r := range p.ranks {
				data[r] = append(data[r], sides[r].ins[i].array)
			}
		}
	}
}

// isGiven reports whether a value is data that no call made, perhaps in another dtype.
func isGiven(v *step.Value) bool {
	for range 4 {
		if v.RequiresGrad || v.Parameter {
			return false
		}
		if v.From.Value == nil {
			return v.From.How == step.IsLeaf
		}
		made := v.From.Value.Call
		if !carries[method(made.Op)] || len(made.Inputs) != 1 {
			return false
		}
		v = made.Inputs[0]
	}
	return false
}

// comparesOther finds a rank whose target of a loss is the data of another rank. The targets of all must be data of
// some: those of a forecast are data of the rank behind, and the last has none.
func (p *part) comparesOther(s *site, sides map[int]*side, i int, data map[int][]*array) {
	other, of := -1, -1
	for _, r := range p.ranks {
		has := func(q int) bool {
			return slices.ContainsFunc(data[q], func(a *array) bool {
				return slices.Equal(a.x, sides[r].ins[i].array.x)
			})
		}
		if has(r) {
			continue
		}
		k := slices.IndexFunc(p.ranks, has)
		if k < 0 {
			return
		}
		if other < 0 {
			other, of = r, p.ranks[k]
		}
	}
	if other < 0 {
		return
	}
	p.found(true, &violation{kind: "shard", site: s, call: s.calls[other], ranks: []int{other, of},
		target: fmt.Sprintf("input[%d]", i), reason: fmt.Sprintf("rank %d compares its results with the data of rank "+
			"%d: data and targets are of different shards", other, of)})
}
