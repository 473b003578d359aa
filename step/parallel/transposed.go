package parallel

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
)

// A function that only moves values between ranks has a transpose: the gradient of each value is the sum of those that
// all ranks have of it where it arrived. A gather has a reduce_scatter, a message one that goes back, the exchange of
// halos one that adds their gradients to the rows that they were. No table says so here: the elements tell where each
// value arrived.

// A piece is a row, or an element, of an argument of a rank.
type piece struct{ rank, input, at int }

// Equal pieces cannot be told apart: what counts is their gradients together.
type equals struct {
	pieces []piece
	// given are the gradients that each rank has of them where they arrived, added up, by rank.
	given map[int][]float64
}

// An arrivals is what elements tell of a call that only moves values between ranks.
type arrivals struct {
	width int // of pieces
	all   []*equals
}

// arrivals follows the pieces of the arguments of a call to where they arrive: nil if results have others, or if none
// arrives on another rank. Zeros are left out.
func (p *part) arrivals(sides map[int]*side) *arrivals {
	lead := sides[p.ranks[0]]
	widths := []int{1}
	if w := commonWidth(lead); w > 1 {
		widths = []int{w, 1}
	}
	for _, w := range widths {
		if a := p.arrivalsOf(sides, w); a != nil {
			return a
		}
	}
	return nil
}

// commonWidth is the last dimension of all numbers that a call reads with a gradient and gives; 0 if these differ.
func commonWidth(d *side) (width int) {
	all := slices.Clone(d.outs)
	for i, a := range d.ins {
		if d.gradIns[i] != nil {
			all = append(all, a.array)
		}
	}
	for _, a := range all {
		n := len(a.shape)
		if n < 2 || width != 0 && a.shape[n-1] != width {
			return 0
		}
		width = a.shape[n-1]
	}
	return width
}

func (p *part) arrivalsOf(sides map[int]*side, width int) *arrivals {
	out := &arrivals{width: width}
	known := map[uint64]*equals{}
	for _, r := range p.ranks {
		for i, a := range sides[r].ins {
			if sides[r].gradIns[i] == nil {
				continue
			}
			for k := range len(a.array.x) / width {
				sum, ok := a.array.rowSum(k, width)
				if !ok {
					continue
				}
				if known[sum] == nil {
					known[sum] = &equals{given: map[int][]float64{}}
					out.all = append(out.all, known[sum])
				}
				known[sum].pieces = append(known[sum].pieces, piece{r, i, k})
			}
		}
	}
	foreign := 0
	for _, r := range p.ranks {
		for j, y := range sides[r].outs {
			for k := range len(y.x) / width {
				sum, ok := y.rowSum(k, width)
				if !ok {
					continue
				}
				e := known[sum]
				if e == nil {
					return nil
				}
				if !slices.ContainsFunc(e.pieces, func(o piece) bool { return o.rank == r }) {
					foreign += width
				}
				e.given[r] = added(e.given[r], sides[r].gradOuts[j].row(k, width))
			}
		}
	}
	const few = 4 // elements that are no chance
	if foreign < few {
		return nil
	}
	return out
}

// row is row k of some width; zeros of an array that is not there.
func (a *array) row(k, width int) []float64 {
	if a == nil || len(a.x) < (k+1)*width {
		return make([]float64, width)
	}
	return a.x[k*width : (k+1)*width]
}

// added is the sum of two rows, of which the first may not be there.
func added(x, y []float64) []float64 {
	if x == nil {
		return slices.Clone(y)
	}
	for i, v := range y {
		x[i] += v
	}
	return x
}

// transposed checks the backward pass of a call that only moves values between ranks. The gradients may all be a
// multiple of what they should be: where each rank has the gradient of the whole, the others' are not added. ok is
// false if the call does something else.
func (p *part) transposed(s *site, sides map[int]*side) (ok bool) {
	lead := sides[p.ranks[0]]
	if len(p.broken) > 0 || lead.rec.Placed != "" || !p.passesAlong(s) {
		return false
	}
	for _, r := range p.ranks {
		some := func(gs []*array) bool { return slices.ContainsFunc(gs, func(g *array) bool { return g != nil }) }
		if d := sides[r]; !some(d.gradOuts) || !some(d.gradIns) || len(d.gradOuts) != len(d.outs) {
			return false
		}
	}
	a := p.arrivals(sides)
	if a == nil {
		return false
	}
	var got, want []float64
	for _, e := range a.all {
		if len(e.given) == 0 {
			continue
		}
		have, total := make([]float64, a.width), make([]float64, a.width)
		for _, at := range e.pieces {
			have = added(have, sides[at.rank].gradIns[at.input].row(at.at, a.width))
		}
		for _, g := range e.given {
			total = added(total, g)
		}
		got, want = append(got, have...), append(want, total...)
	}
	eps := 0.0
	for _, g := range lead.gradIns {
		if g != nil {
			eps = max(eps, g.dtype.Eps())
		}
	}
	up, down := dot(got, want), dot(want, want)
	if down == 0 || up-up != 0 || up > 0 && misses(got, want, up/down) <= max(0.02, 4*eps) {
		return true
	}
	p.found(true, &violation{kind: "collective", site: s, ranks: p.ranks, backward: true, target: "grad[0]",
		reason: p.untransposed(s, sides, a)})
	return true
}

// misses is how far x is from k times y, relative to that.
func misses(x, y []float64, k float64) float64 {
	off := 0.0
	for i, v := range x {
		off += (v - k*y[i]) * (v - k*y[i])
	}
	return math.Sqrt(off / (k * k * dot(y, y)))
}

// untransposed says what the backward pass of a call makes of the gradients of what it moved: where it leaves out those
// of other ranks, sends them to others, or does something else.
func (p *part) untransposed(s *site, sides map[int]*side, a *arrivals) string {
	for _, from := range p.ranks {
		got, terms, owners := a.of(from, p.ranks, sides)
		if len(terms) == 0 {
			continue
		}
		for i, r := range owners { // what the rank has is the gradient of one rank alone
			if misses(got, terms[i], 1) > 0.01 {
				continue
			}
			others := slices.DeleteFunc(slices.Clone(owners), func(q int) bool { return q == r })
			if r == from && len(others) > 0 {
				have := "gradients that they have of that do"
				if len(others) == 1 {
					have = "gradient that it has of that does"
				}
				return fmt.Sprintf("%s got what rank %d gave it, and the %s not go back to rank %d: its backward pass lacks "+
					"%s", ranksText(others), from, have, from, p.wayBack(s))
			}
		}
	}
	if to := p.destinations(sides); to != nil {
		for _, r := range p.ranks {
			got, want := sides[r].gradIns[0], sides[to[r]].gradOuts[0]
			if got != nil && want != nil && !got.near(want, similar*got.dtype.Eps()) {
				return fmt.Sprintf("rank %d sent its argument to rank %d; the gradient that it has of it is not the one that "+
					"rank %d has of what it got: the backward pass sends gradients to other ranks", r, to[r], to[r])
			}
		}
	}
	return fmt.Sprintf("it only moves values between ranks %s, and the gradients of these are not those of the places where "+
		"they arrived, added up: its backward pass leaves out some, or sends them to other ranks", rankList(p.ranks))
}

// of are the gradients that a rank has of its pieces that arrived somewhere, and those that each rank has of them.
func (a *arrivals) of(rank int, ranks []int, sides map[int]*side) (got []float64, terms [][]float64, owners []int) {
	byRank := map[int][]float64{}
	for _, e := range a.all {
		if len(e.pieces) > 1 || e.pieces[0].rank != rank || len(e.given) == 0 {
			continue
		}
		at := e.pieces[0]
		got = append(got, sides[rank].gradIns[at.input].row(at.at, a.width)...)
		for _, r := range ranks {
			byRank[r] = append(byRank[r], added(make([]float64, a.width), e.given[r])...)
		}
	}
	for _, r := range ranks {
		if dot(byRank[r], byRank[r]) > 0 {
			terms, owners = append(terms, byRank[r]), append(owners, r)
		}
	}
	return got, terms, owners
}

// wayBack is the exchange that the backward pass of a call needs, by the one that it makes.
func (p *part) wayBack(s *site) string {
	back := []struct{ made, needs string }{
		{"all_gather", "a reduce_scatter, or an all_reduce, of the gradients"},
		{"all_to_all", "an all_to_all the other way"},
		{"broadcast", "a reduce of the gradients"},
		{"scatter", "a gather of the gradients"},
		{"gather", "a scatter of the gradients"},
	}
	call := s.first(p.ranks)
	for _, c := range append(slices.Clone(p.checker.inside[call]), call) {
		for _, b := range back {
			if strings.HasPrefix(collective.Name(c.Op), b.made) {
				return b.needs
			}
		}
	}
	return "the messages the other way, and their addition"
}

// silentExchange are collectives that pass no values on.
var silentExchange = setOf("barrier", "wait_tensor", "wrap_tensor_autograd")

// passesAlong reports whether a call exchanges values with other ranks, by itself or inside, and adds up none.
func (p *part) passesAlong(s *site) bool {
	call := s.first(p.ranks)
	some := false
	for _, c := range append(slices.Clone(p.checker.inside[call]), call) {
		name := collective.Name(c.Op)
		if strings.Contains(name, "reduce") {
			return false
		}
		some = some || name != "" && !silentExchange[name]
	}
	return some || s.seam && !silentExchange[collective.Name(call.Op)]
}
