package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// strangers finds a loss of which a rank compares its results with labels that continue the tokens of another rank. A
// language model's labels are its tokens, one place on; nothing tells where labels are something else.
func (p *part) strangers() {
	tokens := map[int][]*array{} // that each rank looks up
	for _, s := range p.sites {
		looks := method(s.op) == "embedding"
		if !looks && !isLoss(s.op) || len(p.broken) > 0 {
			continue
		}
		sides := p.read(s)
		if sides == nil {
			continue
		}
		for i, a := range sides[p.ranks[0]].ins {
			switch {
			case a.array.dtype.IsFloat():
			case looks:
				for _, r := range p.ranks {
					tokens[r] = append(tokens[r], sides[r].ins[i].array)
				}
			case i > 0:
				labels := p.column(sides, func(d *side) *array { return d.ins[i].array })
				p.countLabels(s, sides, i)
				p.classLabels(s, sides, i)
				p.compareLabels(s, labels, tokens, i, (*array).continues)
				p.compareLabels(s, labels, tokens, i, (*array).hides)
				p.shiftedInside(s, labels, tokens, i)
			}
		}
	}
}

// countLabels finds labels that count the rows of each rank from 0 on, of scores against rows that all ranks joined:
// they name the rows of the first rank on every rank. Scores against other rows, such as older ones, can lie behind.
func (p *part) countLabels(s *site, sides map[int]*side, i int) {
	lead := sides[p.ranks[0]]
	scores, labels := lead.ins[0].array, lead.ins[i].array
	n := len(labels.x)
	if len(p.dims) != 1 || n < 2 || len(scores.shape) != 2 || scores.shape[0] != n ||
		scores.shape[1] < n*len(p.ranks) || !p.same(sides, i) || p.same(sides, 0) || labels.x[0] != 0 ||
		!counts(labels.x) || len(p.broken) > 0 {
		return
	}
	rows := p.joinedRows(s, n)
	if !slices.ContainsFunc(rows, func(all *array) bool {
		return scores.shape[1] == n*len(p.ranks) || !slices.ContainsFunc(p.ranks, func(r int) bool {
			return !p.checker.scored(sides[r].call.Inputs, all)
		})
	}) {
		return
	}
	p.found(true, &violation{kind: "shard", site: s, ranks: p.ranks, target: fmt.Sprintf("input[%d]", i),
		reason: fmt.Sprintf("the labels of all ranks are 0 to %d, and each rank compares its own %d rows with those "+
			"that ranks %s joined: they name the rows of rank %d on every rank, and lack the number of the rank's first row",
			n-1, n, rankList(p.ranks), p.ranks[0])})
}

// classLabels finds labels that differ between ranks which have parts of the classes of the same rows, as the results
// of a DTensor are: a label is larger than the number of classes that a rank has.
func (p *part) classLabels(s *site, sides map[int]*side, i int) bool {
	lead := sides[p.ranks[0]]
	scores, labels := lead.ins[0].array, lead.ins[i].array
	if len(p.dims) != 1 || lead.rec.Placed == "" || len(scores.shape) != 2 || scores.shape[0] != len(labels.x) ||
		len(p.broken) > 0 || len(labels.x) == 0 || p.same(sides, i) || slices.Max(labels.x) < float64(scores.shape[1]) {
		return false
	}
	p.found(true, &violation{kind: "replica", site: s, ranks: p.ranks, target: fmt.Sprintf("input[%d]", i),
		reason: fmt.Sprintf("%s have parts of the classes of the same %d rows, and compare them with different labels: all "+
			"need the same", ranksText(p.ranks), len(labels.x))})
	return true
}

// joinedRows are the rows of all ranks, n of each, that exchanges before a call joined.
func (p *part) joinedRows(s *site, n int) (out []*array) {
	for _, t := range p.sites[:slices.Index(p.sites, s)] {
		if call := t.first(p.ranks); !isExchange(t.op) && len(p.checker.inside[call]) == 0 {
			continue
		}
		sides := p.read(t)
		if sides == nil || len(sides[p.ranks[0]].ins) == 0 {
			continue
		}
		from := t.sends(sides[p.ranks[0]])
		x := p.column(sides, func(d *side) *array { return d.ins[from].array })
		if first := x[p.ranks[0]]; len(first.shape) == 0 || first.shape[0] != n {
			continue
		}
		for _, j := range p.joined(sides, x) {
			if all := p.join(x, p.everywhere(j.at)); all != nil && j.at.kind == sharded && j.at.dim == 0 {
				out = append(out, all)
			}
		}
	}
	return out
}

// scored reports whether the first columns of scores, the first input of a loss, are those against some rows.
func (c *checker) scored(of []*step.Value, rows *array) bool {
	if len(of) == 0 || len(rows.shape) != 2 {
		return false
	}
	product := scores(firstJoined(of[0]), setOf("matmul", "mm", "linear"), 24)
	if product == nil {
		return false
	}
	d, err := c.load(product)
	if err != nil || len(d.ins) != 2 || len(d.ins[1].array.shape) != 2 {
		return false
	}
	keys := d.ins[1].array
	n, width := rows.shape[0], rows.shape[1]
	if method(product.Op) == "linear" {
		return keys.shape[1] == width && keys.shape[0] >= n && slices.Equal(keys.x[:n*width], rows.x)
	}
	if keys.shape[0] != width || keys.shape[1] < n {
		return false
	}
	for i, v := range rows.x {
		if keys.x[i%width*keys.shape[1]+i/width] != v {
			return false
		}
	}
	return true
}

// firstJoined is the first of the values that a value joins, before calls that keep its shape; the value itself if it
// joins none.
func firstJoined(v *step.Value) *step.Value {
	at := v
	for range 24 {
		from := at.From.Value
		if from == nil {
			return v
		}
		if m := method(from.Call.Op); slices.Contains([]string{"cat", "concat", "concatenate", "hstack"}, m) &&
			len(from.Call.Inputs) > 1 {
			return from.Call.Inputs[0]
		}
		i := slices.IndexFunc(from.Call.Inputs, func(in *step.Value) bool {
			return in.DType.IsFloat() && slices.Equal(in.Shape, at.Shape)
		})
		if i < 0 {
			return v
		}
		at = from.Call.Inputs[i]
	}
	return v
}

// compareLabels compares the labels of a loss with the tokens that the ranks look up: belong says which belong
// together.
func (p *part) compareLabels(s *site, labels map[int]*array, tokens map[int][]*array, i int,
	belong func(labels, tokens *array) bool) {
	if len(p.broken) > 0 {
		return
	}
	for _, r := range p.ranks {
		from := func(q int) bool {
			return slices.ContainsFunc(tokens[q], func(a *array) bool { return belong(labels[r], a) })
		}
		if from(r) {
			continue
		}
		at := slices.IndexFunc(p.ranks, func(q int) bool { return q != r && from(q) })
		if at < 0 {
			continue
		}
		p.found(true, &violation{kind: "shard", site: s, call: s.calls[r], ranks: []int{r, p.ranks[at]},
			target: fmt.Sprintf("input[%d]", i), reason: fmt.Sprintf("the labels of rank %d continue the tokens of rank %d, "+
				"and not those that rank %d looks up: data and labels are of different shards", r, p.ranks[at], r)})
		return
	}
}

// continues reports whether labels are tokens, or the next ones in each row; negative labels do not count.
func (a *array) continues(tokens *array) bool {
	const few = 12 // equal ones that are no chance
	if len(tokens.shape) == 0 {
		return false
	}
	long := tokens.shape[len(tokens.shape)-1]
	for _, width := range []int{long, long - 1} {
		if width < 1 || len(a.x)*long != len(tokens.x)*width {
			continue
		}
		for ahead := range 2 {
			same, other := 0, false
			seen := map[float64]bool{}
			for i, v := range a.x {
				t := i%width + ahead
				if v < 0 || t >= long {
					continue
				}
				same, other = same+1, other || v != tokens.x[i/width*long+t]
				seen[v] = true
			}
			if !other && same >= few && len(seen) > 3 {
				return true
			}
		}
	}
	return false
}

// hides reports whether labels are those of masked tokens: one number stands for the tokens at most places with a
// label, and at no other place.
func (a *array) hides(tokens *array) bool {
	const few = 8 // places that are no chance
	if len(a.x) != len(tokens.x) {
		return false
	}
	times, labelled := map[int]int{}, 0
	for i, v := range a.x {
		if v >= 0 {
			times[int(tokens.x[i])]++
			labelled++
		}
	}
	mask := -1
	for k, n := range times {
		if 2*n > labelled {
			mask = k
		}
	}
	if mask < 0 || times[mask] < few || labelled == len(a.x) {
		return false
	}
	for i, v := range a.x {
		if v < 0 && int(tokens.x[i]) == mask {
			return false
		}
	}
	return true
}
