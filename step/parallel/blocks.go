package parallel

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// passesOn reports whether the ranks send each other an argument of a call as it is. Each then computes with the
// blocks of all ranks in turn, and the result for one block is no part of a whole by itself.
func (p *part) passesOn(s *site, sides map[int]*side) bool {
	for i := range sides[p.ranks[0]].ins {
		if !slices.ContainsFunc(p.ranks, func(r int) bool { return !p.checker.travels(sides[r], i) }) {
			return true
		}
	}
	return false
}

// travels reports whether a rank sends argument i of a call to another rank, or received it from one.
func (c *checker) travels(d *side, i int) bool {
	if len(d.call.Inputs) != len(d.ins) || d.ins[i].address == 0 {
		return false
	}
	return slices.ContainsFunc(d.call.Process.Calls, func(call *step.Call) bool {
		return isMessage(call) && len(call.Inputs) == 1 && call.Inputs[0].Address == d.ins[i].address &&
			slices.Equal(call.Inputs[0].Shape, d.ins[i].array.shape)
	})
}

// isMessage reports whether a call, of the program or of a function, sends or receives a value.
func isMessage(call *step.Call) bool {
	return slices.Contains([]string{"send", "isend", "recv", "irecv"}, collective.Name(call.Op))
}

// inTurn lifts a function whose ranks multiply their own blocks of a value and then those of the others, which they
// send on. Together these are the product of the whole. It reports blocks of the result in another order.
func (p *part) inTurn(s *site, sides map[int]*side) {
	lead := sides[p.ranks[0]]
	if len(s.inner) == 0 || len(lead.outs) != 1 {
		return
	}
	var first *site
	sends := false
	for _, t := range s.inner {
		sends = sends || isMessage(t.first(p.ranks))
		if first == nil && (products[method(t.op)] || slices.Contains([]string{"linear", "mm"}, method(t.op))) {
			first = t
		}
	}
	if first == nil || !sends {
		return
	}
	reads := p.read(first)
	if reads == nil || len(reads[p.ranks[0]].ins) != 2 || !p.passesOn(first, reads) {
		return
	}
	in := make([][]place, 2)
	for i := range in {
		if i >= len(first.in) || !first.in[i].sound() {
			return
		}
		in[i] = first.in[i].places
	}
	alls, why := p.wholes(reads, in)
	if why != "" {
		return
	}
	got, err := p.checker.runOn(reads[p.ranks[0]], alls)
	if err != nil || len(got) != 1 {
		return
	}
	made := p.column(sides, func(d *side) *array { return d.outs[0] })
	tolerance := lead.outs[0].rounding(len(p.ranks))
	cands := p.outcomes(len(got[0].shape), in)
	if ps, ok := p.match(made, got[0], cands, false, tolerance); ok {
		s.out[0] = &info{places: ps}
		if len(p.dims) == 1 && in[1][0].kind == sharded {
			p.turnedBack(s, sides, reads, in[0], method(first.op) == "linear")
		}
		return
	}
	n := len(p.ranks)
	for _, r := range p.ranks { // the blocks of all ranks, with what the rank multiplies them by
		ins := []*array{alls[0], reads[r].ins[1].array}
		want, err := p.checker.runOn(reads[r], ins)
		if err != nil || !slices.Equal(want[0].shape, made[r].shape) || len(made[r].x)%n != 0 {
			return
		}
		size := len(made[r].x) / n
		block := func(a *array, k int) []float64 { return a.x[k*size : (k+1)*size] }
		bound := tolerance * want[0].largest()
		for k := range n {
			if nearly(block(made[r], k), block(want[0], k), bound) {
				continue
			}
			for o := range n {
				if nearly(block(made[r], k), block(want[0], o), bound) {
					p.found(true, &violation{kind: "shard", site: s, ranks: []int{r}, target: "output[0]",
						reason: fmt.Sprintf("it multiplies the blocks of all ranks in turn, and part %d of the result of rank "+
							"%d is what the block of rank %d gives: the parts are in another order than the ranks", k,
							r, p.ranks[o])})
					s.out[0] = &info{lost: true}
					return
				}
			}
		}
	}
}

// turnedBack checks the gradient of the blocks that a function multiplies in turn, which lie at some places: it is what
// the products of all ranks give, added up.
func (p *part) turnedBack(s *site, sides, reads map[int]*side, at []place, linear bool) {
	i := slices.IndexFunc(sides[p.ranks[0]].ins, func(a argument) bool {
		return a.array.near(reads[p.ranks[0]].ins[0].array, 0)
	})
	if i < 0 || len(p.broken) > 0 || !s.in[i].sound() || !slices.Equal(s.in[i].places, at) {
		return
	}
	made := p.column(sides, func(d *side) *array { return d.gradIns[i] })
	var want *array
	for _, r := range p.ranks {
		g, w := sides[r].gradOuts[0], reads[r].ins[1].array
		if made == nil || g == nil || len(g.shape) != 2 || len(w.shape) != 2 {
			return
		}
		if g = g.timesMatrix(w, !linear); g == nil {
			return
		}
		if want == nil {
			want = g
		} else {
			want = want.plus(g)
		}
	}
	got := p.join(made, at)
	if got == nil || len(got.x) != len(want.x) || want.zero() {
		return
	}
	if bound := 2 * made[p.ranks[0]].rounding(len(p.ranks)) * want.largest(); nearly(got.x, want.x, bound) {
		return
	}
	p.found(true, &violation{kind: "collective", site: s, ranks: p.ranks, backward: true,
		target: fmt.Sprintf("grad[%d]", i), reason: fmt.Sprintf("it multiplies the blocks of all ranks by the parts of a "+
			"weight, and the gradient of the blocks is not what %s make of it together: their parts are not added up, or go "+
			"to other ranks", ranksText(p.ranks))})
}

// timesMatrix is the product with a matrix, or with its transpose; nil if they do not fit.
func (a *array) timesMatrix(b *array, turned bool) *array {
	n, k, m := a.shape[0], a.shape[1], b.shape[1]
	if turned {
		m = b.shape[0]
	}
	if turned && b.shape[1] != k || !turned && b.shape[0] != k {
		return nil
	}
	out, of := &array{a.dtype, []int{n, m}, make([]float64, n*m)}, blas.NoTrans
	if turned {
		of = blas.Trans
	}
	blas64.Gemm(blas.NoTrans, of, 1, a.matrix(), b.matrix(), 0, out.matrix())
	return out
}

// matrix is an array of two dimensions for BLAS.
func (a *array) matrix() blas64.General {
	return blas64.General{Rows: a.shape[0], Cols: a.shape[1], Stride: max(a.shape[1], 1), Data: a.x}
}
