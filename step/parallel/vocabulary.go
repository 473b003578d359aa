package parallel

import (
	"fmt"
	"math"
	"slices"
)

// A loss over a vocabulary that ranks share out is often one function of the program: it exchanges the largest score,
// the sum of the exponentials and the score of the label, and has a backward pass of its own. What it gives is the
// cross entropy of the whole scores, if the numbers say so; then its gradient is that of the cross entropy.

// labelLoss checks the gradient of a function that gives the cross entropy of scores of which each rank has a part.
func (p *part) labelLoss(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	if len(s.inner) == 0 || len(lead.outs) != 1 || !lead.outs[0].dtype.IsFloat() || len(p.broken) > 0 {
		return
	}
	at, to := -1, -1
	for i, a := range lead.ins {
		switch n := len(a.array.shape); {
		case a.array.dtype.IsFloat() && n > 1 && s.in[i].sound() &&
			slices.ContainsFunc(s.in[i].places, func(q place) bool { return q.kind == sharded && q.dim == n-1 }):
			at = i
		case !a.array.dtype.IsFloat() && slices.Equal(a.array.shape, lead.outs[0].shape) && p.same(sides, i):
			to = i
		}
	}
	if at < 0 || to < 0 {
		return
	}
	column := func(f func(*side) *array) map[int]*array { return p.column(sides, f) }
	scores := p.join(column(func(d *side) *array { return d.ins[at].array }), s.in[at].places)
	if scores == nil || !slices.Equal(scores.shape[:len(scores.shape)-1], lead.outs[0].shape) {
		return
	}
	losses, shares := crossEntropy(scores, lead.ins[to].array.x)
	tolerance := 8 * max(lead.ins[at].array.dtype.Eps(), lead.outs[0].dtype.Eps())
	shown := 64 * lead.outs[0].dtype.Eps() // so near, a loss is no other one, such as one with smoothed labels
	if shown > 1e-3 {
		return
	}
	for _, r := range p.ranks {
		if losses == nil || !nearly(sides[r].outs[0].x, losses.x, shown*max(1, losses.largest())) {
			return
		}
	}
	s.out[0] = &info{places: p.everywhere(whole)}
	given := column(func(d *side) *array { return d.gradOuts[0] })
	made := column(func(d *side) *array { return d.gradIns[at] })
	if given == nil || made == nil || !p.replicates(given) {
		return
	}
	got := p.join(made, s.in[at].places)
	if got == nil || len(got.x) != len(shares.x) {
		return
	}
	width := scores.shape[len(scores.shape)-1]
	for i := range shares.x {
		shares.x[i] *= given[p.ranks[0]].x[i/width]
	}
	bound := tolerance * shares.largest()
	if nearly(got.x, shares.x, bound) || shares.zero() {
		return
	}
	row := 0
	for i, v := range got.x {
		if math.Abs(v-shares.x[i]) > bound {
			row = i
			break
		}
	}
	part := width / len(p.ranks)
	p.found(true, &violation{kind: "shard", site: s, ranks: p.ranks, backward: true,
		target: fmt.Sprintf("grad[%d]", at), reason: fmt.Sprintf("it gives the cross entropy of the whole scores, and its "+
			"gradient is not that of the cross entropy: by score %d of row %d, which is score %d of a part, it is %.4g and "+
			"not %.4g", row%width, row/width, row%width%max(part, 1), got.x[row], shares.x[row])})
}

// crossEntropy is the loss of each row of scores, and its derivative by the scores; nil if a label is none of them.
func crossEntropy(scores *array, labels []float64) (losses, shares *array) {
	n := scores.shape[len(scores.shape)-1]
	losses = &array{scores.dtype, []int{len(labels)}, make([]float64, len(labels))}
	shares = &array{scores.dtype, scores.shape, make([]float64, len(scores.x))}
	for i, label := range labels {
		if label < 0 || label >= float64(n) {
			return nil, nil
		}
		row, to := scores.x[i*n:(i+1)*n], shares.x[i*n:(i+1)*n]
		top, all := slices.Max(row), 0.0
		for k, v := range row {
			to[k] = math.Exp(v - top)
			all += to[k]
		}
		for k := range to {
			to[k] /= all
		}
		losses.x[i] = math.Log(all) + top - row[int(label)]
		to[int(label)]--
	}
	return losses, shares
}
