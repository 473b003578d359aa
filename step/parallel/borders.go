package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/step"
)

// Ranks that share out a sequence of tokens have labels that are the next tokens, also where the next one is that of
// another rank. A program that shifts the labels of each part by itself has none there, or the first of its own part.
// The positions that ranks count say which tokens follow each other: sequences of the ranks' own are no parts of one.

// A sequence is the tokens that a group of ranks shares out, with their labels and positions.
type sequence struct {
	ranks          []int
	tokens, labels map[int]*array
	positions      map[int][]float64
}

// shiftedInside finds labels that are the next tokens everywhere but where the next token is that of another rank.
func (p *part) shiftedInside(s *site, labels map[int]*array, tokens map[int][]*array, i int) {
	if len(tokens) == 0 || len(p.broken) > 0 {
		return
	}
	for k := range tokens[p.ranks[0]] {
		for _, d := range p.dims {
			for _, g := range d.groups {
				q := &sequence{ranks: g, tokens: map[int]*array{}, labels: labels}
				for _, r := range g {
					q.tokens[r] = tokens[r][k]
				}
				if !q.fits() {
					continue
				}
				if q.positions = p.positionsOf(q); q.positions == nil {
					continue
				}
				if v := q.shifted(); v != nil {
					v.kind, v.site, v.call, v.target = "shard", s, s.calls[v.ranks[0]], fmt.Sprintf("input[%d]", i)
					p.found(true, v)
					return
				}
			}
		}
	}
}

// length is how many tokens of each row a rank has.
func (q *sequence) length(rank int) int {
	shape := q.tokens[rank].shape
	if len(shape) == 0 {
		return 0
	}
	return shape[len(shape)-1]
}

// fits reports whether all ranks have as many rows of tokens, and a label for each token, or each but the last of a
// row.
func (q *sequence) fits() bool {
	rows := 0
	for _, r := range q.ranks {
		n := q.length(r)
		if n == 0 || rows != 0 && len(q.tokens[r].x) != rows*n {
			return false
		}
		rows = len(q.tokens[r].x) / n
		if k := len(q.labels[r].x); k != rows*n && k != rows*(n-1) {
			return false
		}
	}
	return true
}

// positionsOf are whole numbers that the ranks have for the tokens of their parts, and that count those of the
// sequence; nil if there are none.
func (p *part) positionsOf(q *sequence) map[int][]float64 {
	for _, s := range p.flat() {
		if slices.ContainsFunc(q.ranks, func(r int) bool {
			c := s.calls[r]
			return c == nil || !slices.ContainsFunc(slices.Concat(c.Inputs, c.Outputs), func(v *step.Value) bool {
				return numel(v.Shape) == q.length(r)
			})
		}) {
			continue
		}
		sides := p.read(s)
		if sides == nil {
			continue
		}
		lead := sides[q.ranks[0]]
		for j := range len(lead.ins) + len(lead.outs) {
			at, all := map[int][]float64{}, []float64{}
			for _, r := range q.ranks {
				d := sides[r]
				var a *array
				if j < len(d.ins) {
					a = d.ins[j].array
				} else {
					a = d.outs[j-len(d.ins)]
				}
				if len(a.x) == q.length(r) {
					at[r], all = a.x, append(all, a.x...)
				}
			}
			slices.Sort(all)
			if len(at) == len(q.ranks) && len(all) > 1 && counts(all) {
				return at
			}
		}
	}
	return nil
}

// label is that of a token of a rank; ok is false if it has none. Where each row has one label less than tokens, the
// last token has none.
func (q *sequence) label(rank, row, at int) (x float64, ok bool) {
	n, rows := q.length(rank), len(q.tokens[rank].x)/q.length(rank)
	switch len(q.labels[rank].x) {
	case rows * n:
		x = q.labels[rank].x[row*n+at]
	case rows * (n - 1):
		if at == n-1 {
			return 0, false
		}
		x = q.labels[rank].x[row*(n-1)+at]
	}
	return x, x >= 0
}

// shifted finds a token that is the last before that of another rank, and lacks it as its label, if no label of such a
// token is right, and those of all others are.
func (q *sequence) shifted() (found *violation) {
	const few = 12 // equal ones that are no chance
	owner, index := map[float64]int{}, map[float64]int{}
	for _, r := range q.ranks {
		for t, x := range q.positions[r] {
			owner[x], index[x] = r, t
		}
	}
	same := 0
	seen := map[float64]bool{}
	for _, r := range q.ranks {
		n := q.length(r)
		for row := range len(q.tokens[r].x) / n {
			for t, x := range q.positions[r] {
				next, there := owner[x+1]
				if !there {
					continue
				}
				to := index[x+1]
				want := q.tokens[next].x[row*q.length(next)+to]
				got, ok := q.label(r, row, t)
				switch {
				case next == r && ok && got != want, next != r && ok && got == want:
					return nil
				case next == r && ok:
					same++
					seen[got] = true
				case next != r && found == nil && q.meant(r, row, t, next, to):
					found = &violation{ranks: []int{r, next}, reason: q.lacks(r, row, t, next, want)}
				}
			}
		}
	}
	if same < few || len(seen) < 4 {
		return nil
	}
	return found
}

// meant reports whether the tokens on both sides of the border between two parts have labels, so that the last before
// it should have one, too.
func (q *sequence) meant(r, row, t, next, to int) bool {
	if t == 0 {
		return false
	}
	_, before := q.label(r, row, t-1)
	_, behind := q.label(next, row, to)
	return before && behind
}

// lacks says what a token before a border between parts has as its label.
func (q *sequence) lacks(r, row, t, next int, want float64) string {
	x := q.positions[r][t]
	has := "none"
	if got, ok := q.label(r, row, t); ok {
		has = fmt.Sprintf("%g", got)
	}
	return fmt.Sprintf("the labels are the next tokens, but not at the borders between the parts of %s: the next token of "+
		"position %g in row %d is %g, which rank %d has, and its label on rank %d is %s: each rank shifted the labels of "+
		"its own part", ranksText(q.ranks), x, row, want, next, r, has)
}
