package causes

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A place is a region of a value that holds its wrong elements. It is a set of indices of each dimension, or a run
// in row-major order, whichever holds fewer right elements. It can also be the rows that some quantity selects.
type place struct {
	rows     *toldRows // or elements; nil: indices, or a run
	shape    []int
	indices  [][]int // nil: a run, or edges
	edges    []int   // the dimensions whose last indices, each by itself, are the place; nil: it is another
	from, to int     // of the run, to exclusive
}

// placeOf is the place of the wrong elements of got. If allowed is known, an element is wrong if its error is
// larger. placeOf is nil if nearly all elements are wrong, or if the place would hold too many right ones.
func placeOf(got, want *tensor.Tensor, allowed func(at int) float64) *place {
	if !slices.Equal(got.Shape, want.Shape) || !got.DType.IsFloat() || got.Numel() > largestOperand {
		return nil
	}
	return placeHolding(got.Shape, 2, wrongIn(got, want, allowed))
}

// wrongIn tells which elements of got are wrong, by more than is allowed if that is known.
func wrongIn(got, want *tensor.Tensor, allowed func(at int) float64) func(i int) bool {
	x, y := elements(got), elements(want)
	largest := 0.0
	for i := range x {
		if y[i] = got.DType.Round(y[i]); math.IsNaN(x[i]) && math.IsNaN(y[i]) {
			x[i], y[i] = 0, 0
		}
		if e := math.Abs(x[i] - y[i]); e > largest && !math.IsInf(e, 0) {
			largest = e
		}
	}
	return func(i int) bool {
		e := math.Abs(x[i] - y[i])
		return !(e <= 4*got.DType.ULP(y[i]) || e <= unimportant*largest || x[i] == y[i] ||
			allowed != nil && e <= allowed(i))
	}
}

// placeHolding is the smallest place in a shape that holds all elements of a set. At least one element in few of
// the place must be of the set. It is nil if the place is more than three quarters of the shape, or has no order.
func placeHolding(shape []int, few int, holds func(i int) bool) *place {
	p := &place{shape: shape, from: -1, indices: make([][]int, len(shape))}
	used := make([][]bool, len(shape))
	for d, n := range shape {
		used[d] = tensor.Make[bool](n)
	}
	held, n := 0, tensor.Numel(shape)
	for i := range n {
		if !holds(i) {
			continue
		}
		held++
		if p.to = i + 1; p.from < 0 {
			p.from = i
		}
		for d, at := len(p.shape)-1, i; d >= 0; d-- {
			used[d][at%p.shape[d]] = true
			at /= p.shape[d]
		}
	}
	box := 1
	for d := range used {
		for i, is := range used[d] {
			if is {
				p.indices[d] = append(p.indices[d], i)
			}
		}
		p.indices[d] = filled(p.indices[d])
		box *= len(p.indices[d])
	}
	if math.IsInf(p.cost(), 1) { // some of these indices have no order: all of the dimension
		q := &place{shape: shape, from: p.from, to: p.to, indices: slices.Clone(p.indices)}
		of := 1
		for d, at := range q.indices {
			if _, ok := progression(at); !ok && len(at) > fewIndices {
				q.indices[d] = upTo(0, shape[d])
			}
			of *= len(q.indices[d])
		}
		if few*held >= of && !nearlyAll(of, n) {
			p, box = q, of
		}
	}
	// Elements that are due to be small leave gaps between indices, not in a run.
	if run := p.to - p.from; run < box || 2*run <= 3*held && math.IsInf(p.cost(), 1) {
		p.indices, box = nil, run
	}
	if held == 0 || few*held < box || nearlyAll(box, n) || math.IsInf(p.cost(), 1) {
		return atEdges(shape, few, holds)
	}
	return p
}

// filled are indices with a few missing ones between them added, if the others have one step: a wrong element can be
// right by chance.
func filled(at []int) []int {
	step := 0
	for _, i := range at {
		step = divisor(step, i-at[0])
	}
	if step == 0 {
		return at
	}
	if n := (at[len(at)-1]-at[0])/step + 1; n > len(at) && 4*len(at) >= 3*n && len(at) > fewIndices {
		out := make([]int, n)
		for i := range out {
			out[i] = at[0] + i*step
		}
		return out
	}
	return at
}

// divisor is the greatest common divisor of two numbers.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// alongSome is the place of the wrong elements of got, by the dimensions in which their indices have an order: a
// tile of rows in which some columns are wrong. It is nil if no dimension has an order, or if too few elements are
// wrong.
func alongSome(got, want *tensor.Tensor, allowed func(at int) float64) *place {
	if !slices.Equal(got.Shape, want.Shape) || !got.DType.IsFloat() || got.Numel() > largestOperand {
		return nil
	}
	wrong, p := wrongIn(got, want, allowed), &place{shape: got.Shape, indices: make([][]int, got.Dim())}
	held, box, ordered := 0, 1, false
	for i := range got.Numel() {
		held += btoi(wrong(i))
	}
	for d, n := range got.Shape {
		inner, used := tensor.Numel(got.Shape[d+1:]), tensor.Make[bool](n)
		for i := range got.Numel() {
			used[i/inner%n] = used[i/inner%n] || wrong(i)
		}
		for i, is := range used {
			if is {
				p.indices[d] = append(p.indices[d], i)
			}
		}
		box *= len(p.indices[d])
		if _, ok := progression(p.indices[d]); !ok && len(p.indices[d]) > fewIndices {
			p.indices[d] = upTo(0, n)
		}
		ordered = ordered || len(p.indices[d]) < n
	}
	if !ordered || held < leastInNarrow || 2*held < box {
		return nil
	}
	return p
}

// nearlyAll reports whether elements that are no part of a place are too few to tell one: they are neither a quarter of
// all nor as many as fewestBeside.
func nearlyAll(held, n int) bool { return 4*held > 3*n && n-held < fewestBeside }

// fewestBeside is how many elements beside a place tell that it is one, if they are less than a quarter.
const fewestBeside = 32

// atEdges is the place of the last indices of several dimensions, such as the last row and the last column. It is
// nil if the set has elements elsewhere, or too few at the edges.
func atEdges(shape []int, few int, holds func(i int) bool) *place {
	p := &place{shape: shape}
	n := tensor.Numel(shape)
	for d, size := range shape {
		held, inner := 0, tensor.Numel(shape[d+1:])
		for i := range n {
			held += btoi(i/inner%size == size-1 && holds(i))
		}
		if size > 1 && 4*held > 3*n/size {
			p.edges = append(p.edges, d)
		}
	}
	if len(p.edges) < 2 {
		return nil
	}
	held, all := 0, 0
	for i := range n {
		there, is := p.holds(i), holds(i)
		if is && !there {
			return nil
		}
		all, held = all+btoi(there), held+btoi(is)
	}
	if few*held < all || nearlyAll(all, n) {
		return nil
	}
	return p
}

// cost is the number of bits that describe the place. Each dimension has a range of indices, evenly spaced ones, or
// a few. The cost of a place without an order is infinite.
func (p *place) cost() (bits float64) {
	if p.rows != nil {
		return p.rows.cost
	}
	if p.edges != nil {
		return float64(len(p.shape))
	}
	if p.indices == nil {
		return 2 * math.Log2(float64(tensor.Numel(p.shape)))
	}
	for d, at := range p.indices {
		numbers := float64(len(at))
		switch _, ok := progression(at); {
		case len(at) == p.shape[d]:
			continue
		case ok:
			numbers = min(numbers, 3)
		case len(at) > fewIndices:
			return math.Inf(1)
		}
		bits += numbers * math.Log2(float64(p.shape[d]))
	}
	return bits
}

// fewIndices is the number of indices up to which each is named.
const fewIndices = 4

// progression is the step of evenly spaced numbers. Two numbers count only if the step is 1.
func progression(at []int) (step int, ok bool) {
	if len(at) < 2 {
		return 1, true
	}
	step = at[1] - at[0]
	for i := range at {
		if at[i] != at[0]+i*step {
			return 0, false
		}
	}
	return step, len(at) > 2 || step == 1
}

// unimportant is the part of the largest error below which rounding may be the cause of another.
const unimportant = 1e-3

// holds reports whether element i lies there.
func (p *place) holds(i int) bool {
	if p.rows != nil {
		return p.rows.wrong[i/p.rows.width]
	}
	if p.edges != nil {
		return slices.ContainsFunc(p.edges, func(d int) bool {
			return i/tensor.Numel(p.shape[d+1:])%p.shape[d] == p.shape[d]-1
		})
	}
	if p.indices == nil {
		return i >= p.from && i < p.to
	}
	for d := len(p.shape) - 1; d >= 0; d-- {
		if _, ok := slices.BinarySearch(p.indices[d], i%p.shape[d]); !ok {
			return false
		}
		i /= p.shape[d]
	}
	return true
}

// only is t in the place, and the right value elsewhere.
func (p *place) only(t, right *tensor.Tensor) *tensor.Tensor {
	return opdef.ZipAt(t.DType, t.Shape, func(lo int, dst []float64, src [][]float64) {
		for i := range dst {
			if dst[i] = src[1][i]; p.holds(lo + i) {
				dst[i] = src[0][i]
			}
		}
	}, t, right)
}

// elements are a sample of the elements of t in the place, or of all of t if p is nil.
func (p *place) elements(t *tensor.Tensor) []float64 {
	if p == nil {
		return Pieces(t)
	}
	var out []float64
	for i, x := range elements(t) {
		if p.holds(i) && len(out) < SampleSize {
			out = append(out, x)
		}
	}
	return out
}

// parts is the number of dimensions in which the place has only some indices.
func (p *place) parts() int {
	n := 0
	for d, at := range p.indices {
		n += btoi(len(at) < p.shape[d])
	}
	return n
}

func (p *place) String() string {
	if p.rows != nil {
		return p.rows.text
	}
	if p.edges != nil {
		text := ""
		for k, d := range p.edges {
			text += cond(k > 0, " and ") + fmt.Sprintf("of dimension %d", d)
		}
		return "at the last index " + text
	}
	if p.indices == nil {
		return fmt.Sprintf("in elements %d to %d of %d", p.from, p.to-1, tensor.Numel(p.shape))
	}
	var parts []string
	for d, at := range p.indices {
		if len(at) == p.shape[d] {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s of dimension %d", indicesText(at), d))
	}
	return "at " + strings.Join(parts, ", ")
}

// indicesText says which indices those are.
func indicesText(at []int) string {
	first, last := at[0], at[len(at)-1]
	switch {
	case len(at) == 1:
		return fmt.Sprintf("index %d", first)
	case last-first == len(at)-1:
		return fmt.Sprintf("indices %d to %d", first, last)
	}
	if step, ok := progression(at); ok {
		return fmt.Sprintf("indices %d to %d in steps of %d", first, last, step)
	}
	return "indices " + beginning(at)
}

// confined are the mistakes of other sources where the values that fail are wrong, and nothing elsewhere: one tile,
// one head, the end.
func (c *Search) confined(fails []Wrong, sources []iter.Seq[Mistake]) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		results := slices.ContainsFunc(fails, func(r Wrong) bool { return r.Forward() })
		places, right := map[string]*place{}, map[string]*tensor.Tensor{}
		text, first := "", (*Wrong)(nil)
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.Pair()
			if !ok || r.Forward() != results {
				continue
			}
			var p *place
			if c.Guard(func() error {
				if p = placeOf(got, want, r.Allowed); p == nil {
					p = c.rowsOf(got, want)
				}
				if p == nil {
					p = cmp.Or(c.beyondOf(got, want, r.Allowed), alongSome(got, want, r.Allowed))
				}
				return nil
			}) != nil || p == nil {
				return
			}
			places[r.Target], right[r.Target] = p, want
			if first == nil {
				text, first = p.String(), r
			}
		}
		if first == nil {
			return
		}
		for m := range c.copiedAt(first, places[first.Target]) {
			if !yield(m) {
				return
			}
		}
		sources := append([]iter.Seq[Mistake]{c.flipped(fails), c.scaledAt(first, places[first.Target])}, sources...)
		if results {
			sources = append(sources, c.formulas(fails))
		}
		sources = append(sources, c.variedAt(fails, true), c.weightedParts([]Wrong{*first}, places[first.Target]))
		for _, source := range sources {
			for m := range source {
				inner := m
				m.Text, m.Cost = text+": "+inner.Text, inner.Cost+places[first.Target].cost()
				m.Truly = inner.truly(func(of string) string { return text + ": " + of })
				m.Make = func() (Way, error) {
					way, err := inner.Make()
					if err != nil || c.refutes(func() (Way, error) { return way, nil }, first) {
						return way, cmp.Or(err, errNoValue)
					}
					return way.Then(func(target string, t *tensor.Tensor) *tensor.Tensor {
						p := places[target]
						if p == nil || !slices.Equal(t.Shape, p.shape) {
							return t
						}
						return p.only(t, right[target])
					}), nil
				}
				if !yield(m) {
					return
				}
			}
		}
	}
}

// flipped are results, or gradients if none of those is wrong. Much else changes their signs at a place.
func (c *Search) flipped(fails []Wrong) iter.Seq[Mistake] {
	return c.altered(fails, func(*tensor.Tensor) []transformation {
		return mapped(true, elementMap[float64]{"%s is negated", func(x float64) float64 { return -x }})
	})
}

// copiedAt are values that hold, in a place, the elements of another value of their shape.
func (c *Search) copiedAt(r *Wrong, p *place) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, k := range c.known(r) {
			if !slices.Equal(k.t.Shape, p.shape) || !k.t.DType.IsFloat() {
				continue
			}
			off := 1
			_ = c.Guard(func() error { // what cannot be read is not copied
				off = 0
				x, y := elements(r.Got), elements(k.t)
				for i := range x {
					off += btoi(p.holds(i) && !alike(x[i], r.Got.DType.Round(y[i])))
				}
				return nil
			})
			if off == 0 && !yield(Mistake{Text: p.String() + ": it is " + k.text, Cost: p.cost(),
				Make: c.altering(func(of string, due *tensor.Tensor) *tensor.Tensor {
					if of != r.Target || !slices.Equal(due.Shape, p.shape) {
						return due
					}
					return p.only(k.t, due)
				})}) {
				return
			}
		}
	}
}
