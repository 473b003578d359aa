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

// A picking is a result each of whose elements is one of those of an operand along a dimension: a median, a maximum.
type picking struct {
	a     opdef.Arg
	d     int
	shape []int // of the result
	rows  [][]picked
	due   []float64
}

// A picked is an element of a row, and its index there.
type picked struct {
	x  float64
	at int
}

// place is the place in the operand of an index of a row.
func (p *picking) place(row, at int) int {
	n, inner := p.a.Tensor.Shape[p.d], tensor.Numel(p.a.Tensor.Shape[p.d+1:])
	return row/inner*n*inner + at*inner + row%inner
}

// pickings are the ways in which the first result is picked from operands.
func (c *Search) pickings() (out []*picking) {
	if c.Ran == nil || len(c.Ran.Outs) == 0 || !c.Ran.Outs[0].DType.IsFloat() || c.Ran.Outs[0].Dim() == 0 {
		return nil
	}
	result := c.Ran.Outs[0]
	for _, a := range c.operands() {
		for d, n := range a.Tensor.Shape {
			if n < 2 || a.Tensor.Numel() > mostReduced || a.Tensor.Numel() != n*result.Numel() ||
				c.alongTo(a.Tensor, d, func(v []float64) float64 { return v[0] }, result.Shape) == nil {
				continue
			}
			p := &picking{a: a, d: d, shape: result.Shape}
			is := false
			if c.Guard(func() error { is = p.of(result); return nil }) == nil && is {
				out = append(out, p)
			}
		}
	}
	return out
}

// of reads the rows of the operand, and reports whether each holds the element of the result.
func (p *picking) of(result *tensor.Tensor) bool {
	v := elements(p.a.Tensor)
	p.due = elements(result)
	for row, y := range p.due {
		var r []picked
		for at := range p.a.Tensor.Shape[p.d] {
			r = append(r, picked{v[p.place(row, at)], at})
		}
		if !slices.ContainsFunc(r, func(e picked) bool { return e.x == y }) {
			return false
		}
		p.rows = append(p.rows, r)
	}
	return true
}

// misranked are results that are picked from rows of an operand, and of another rank than is due: the next element, or
// the mean of both, as of a median of an even number. Positions of what is picked, as second results, follow.
func (c *Search) misranked(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if !fails[0].Forward() {
			return
		}
		for _, p := range c.pickings() {
			for _, next := range []struct {
				text string
				by   int
			}{{"larger", 1}, {"smaller", -1}} {
				values, positions, means := p.neighbours(next.by)
				of := fmt.Sprintf("the next %s element of %s along dimension %d", next.text, argName(p.a), p.d)
				if !yield(Mistake{Text: of + " is taken", Make: p.instead(c, values, positions)}) ||
					!yield(Mistake{Text: "the mean of what is due and " + of + " is taken", Rounds: true,
						Make: p.instead(c, means, nil)}) {
					return
				}
			}
		}
	}
}

// A key is by what elements are compared by mistake.
type key struct {
	text string
	of   func(x float64) float64
}

// keysOf are those of elements of a dtype. 1/x keeps the order of numbers of one sign, turned round.
func keysOf(dt tensor.DType) []key {
	magnitudes := key{"their magnitudes", math.Abs}
	if dt.IsIntegral() {
		least, _ := dt.IntRange()
		return []key{magnitudes, {fmt.Sprintf("their negatives, and that of %d is itself", least),
			func(x float64) float64 {
				if x == float64(least) && least < 0 {
					return -x
				}
				return x
			}}}
	}
	return []key{
		magnitudes,
		{"their bits as whole numbers with a sign: negative ones in the opposite order", func(x float64) float64 {
			if math.Signbit(x) {
				return -1 / math.Abs(x)
			}
			return x
		}},
		{"their bits as whole numbers without a sign: negative ones are beyond all others, in the opposite order",
			func(x float64) float64 {
				if math.Signbit(x) {
					return math.Abs(x)
				}
				return -1 / x
			}},
		{"numbers of which NaN is the smallest", func(x float64) float64 {
			if x != x {
				return math.Inf(-1)
			}
			return x
		}},
	}
}

// byMagnitude are elements that are picked from an operand, with their positions, by their magnitudes, or by
// their bits.
func (c *Search) byMagnitude(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if !fails[0].Forward() || c.Ran == nil || len(c.Ran.Outs) != 2 || !c.Ran.Outs[1].DType.IsIntegral() ||
			!slices.Equal(c.Ran.Outs[0].Shape, c.Ran.Outs[1].Shape) {
			return
		}
		for _, a := range c.readable() {
			dt := a.Tensor.DType
			if a.Tensor.Dim() != c.Ran.Outs[0].Dim() || a.Tensor.Numel() > mostReduced || dt.IsComplex() {
				continue
			}
			for _, k := range keysOf(dt) {
				if !yield(c.pickedBy(a, k)) {
					return
				}
			}
			return
		}
	}
}

// pickedBy are elements of an operand that are picked by a key, with their positions.
func (c *Search) pickedBy(a opdef.Arg, k key) Mistake {
	return Mistake{Text: "elements of " + argName(a) + " are picked by " + k.text, Make: func() (Way, error) {
		way, err := c.one(a, func() *tensor.Tensor { return opdef.Map(tensor.Float64, a.Tensor, k.of) })()
		if err != nil || way.Call == nil {
			return way, err
		}
		f, err := way.Call.Forward()
		if err != nil || len(f.Outs) != 2 {
			return Way{}, errNoValue
		}
		at, made := f.Outs[1], f.Outs[0]
		for d := range made.Shape {
			values := c.readAt(a.Tensor, at, d, at.Shape)
			if values == nil || !slices.EqualFunc(elements(values), elements(made), func(x, y float64) bool {
				return k.of(x) == y
			}) {
				continue
			}
			return c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
				switch {
				case !slices.Equal(t.Shape, at.Shape):
				case target == "output[0]":
					return values
				case target == "output[1]":
					return at
				}
				return t
			})()
		}
		return Way{}, errNoValue
	}}
}

// tied are positions of which those further back come first among equal elements: of the call on an operand that is
// read backwards along a dimension, counted from its other end.
func (c *Search) tied(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if !fails[0].Forward() || c.Ran == nil || !slices.ContainsFunc(c.Ran.Outs, func(t *tensor.Tensor) bool {
			return t.DType.IsIntegral()
		}) {
			return
		}
		for _, a := range c.readable() {
			for d, n := range a.Tensor.Shape {
				if n < 2 || a.Tensor.Numel() > mostReduced {
					continue
				}
				text := fmt.Sprintf("of equal elements of %s along dimension %d the last comes first", argName(a), d)
				if !yield(Mistake{Text: text, Make: func() (Way, error) {
					way, err := c.one(a, func() *tensor.Tensor {
						return reordered(a.Tensor, d, func(i, n int) int { return n - 1 - i })
					})()
					if err != nil || way.Call == nil {
						return way, err
					}
					f, err := way.Call.Forward()
					if err != nil {
						return Way{}, err
					}
					return c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						made := resultOf(f, target)
						if made == nil || !made.DType.IsIntegral() || !slices.Equal(made.Shape, t.Shape) {
							return t
						}
						return opdef.Map(t.DType, made, func(x int64) int64 { return int64(n) - 1 - x })
					})()
				}}) {
					return
				}
			}
		}
	}
}

// inOtherOrder are results whose elements are in the order in which they first appear in an operand, or in rising or
// falling order, where they are due in another one.
func (c *Search) inOtherOrder(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		got, want, ok := fails[0].Pair()
		if !ok || !fails[0].Forward() || got.DType.IsComplex() || got.Dim() != 1 || got.Numel() < leastInNarrow ||
			got.Numel() > mostReduced || !slices.Equal(got.Shape, want.Shape) {
			return
		}
		add := func(text string, order []float64) bool {
			if len(order) != want.Numel() {
				return true
			}
			made := opdef.Cast(tensor.New(tensor.Float64, want.Shape, order), want.DType)
			return yield(Mistake{Text: text, Make: c.altering(func(of string, t *tensor.Tensor) *tensor.Tensor {
				if of != fails[0].Target {
					return t
				}
				return made
			})})
		}
		v := elements(want)
		slices.Sort(v)
		back := slices.Clone(v)
		slices.Reverse(back)
		if !add("its elements are in rising order", v) || !add("its elements are in falling order", back) {
			return
		}
		for _, a := range c.readable() {
			if a.Tensor.DType.IsComplex() || a.Tensor.Numel() > mostReduced {
				continue
			}
			var first []float64
			seen := map[float64]bool{}
			for _, x := range elements(a.Tensor) {
				if _, due := slices.BinarySearch(v, x); due && !seen[x] {
					seen[x], first = true, append(first, x)
				}
			}
			if !add("its elements are in the order in which they first appear in "+argName(a), first) {
				return
			}
		}
	}
}

// neighbours are for each element of the result that so many ranks further, the same where there is none, with its
// position, and the mean of both.
func (p *picking) neighbours(by int) (values []float64, positions []int64, means []float64) {
	for row, y := range p.due {
		sorted := slices.SortedStableFunc(slices.Values(p.rows[row]), func(a, b picked) int {
			return cmp.Compare(a.x, b.x)
		})
		k := slices.IndexFunc(sorted, func(e picked) bool { return e.x == y })
		for by > 0 && k+1 < len(sorted) && sorted[k+1].x == y {
			k++
		}
		k = min(max(0, k+by), len(sorted)-1)
		values, positions = append(values, sorted[k].x), append(positions, int64(sorted[k].at))
		means = append(means, (y+sorted[k].x)/2)
	}
	return values, positions, means
}

// instead is the call that gives other values, and other positions, nil for those that are due.
func (p *picking) instead(c *Search, values []float64, positions []int64) func() (Way, error) {
	return c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
		switch {
		case !slices.Equal(t.Shape, p.shape):
		case target == "output[0]":
			return tensor.New(t.DType, t.Shape, values)
		case target == "output[1]" && t.DType.IsIntegral() && positions != nil:
			return tensor.New(t.DType, t.Shape, positions)
		}
		return t
	})
}

// mispassed are gradients of results that are picked from rows of an operand, where several elements are equal: they go
// to the first, the last or all of those, or are shared.
func (c *Search) mispassed(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if !fails[0].Backward() || len(c.Incoming) == 0 {
			return
		}
		for _, p := range c.pickings() {
			var up []float64
			if c.Guard(func() error { up = elements(c.Incoming[0]); return nil }) != nil || len(up) != len(p.due) {
				continue
			}
			for _, m := range []struct {
				text string
				of   func(k, n int) float64 // the share of one of n
			}{
				{"to the first of them", func(k, _ int) float64 { return float64(btoi(k == 0)) }},
				{"to the last of them", func(k, n int) float64 { return float64(btoi(k == n-1)) }},
				{"to each of them in full", func(int, int) float64 { return 1 }},
				{"to all of them in equal shares", func(_, n int) float64 { return 1 / float64(n) }},
			} {
				made := p.shared(up, m.of)
				text := fmt.Sprintf("where several elements of %s along dimension %d equal the result, the gradient "+
					"goes %s",
					argName(p.a), p.d, m.text)
				if !yield(Mistake{Text: text, Rounds: true,
					Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						if !strings.HasPrefix(target, "grad[") || !slices.Equal(t.Shape, p.a.Tensor.Shape) {
							return t
						}
						return tensor.New(t.DType, t.Shape, made)
					})}) {
					return
				}
			}
		}
	}
}

// shared is the gradient of the operand that gives each of the equal elements of a row a share.
func (p *picking) shared(up []float64, of func(k, n int) float64) []float64 {
	made := make([]float64, p.a.Tensor.Numel())
	for row, y := range p.due {
		var equal []int
		for _, e := range p.rows[row] {
			if e.x == y {
				equal = append(equal, e.at)
			}
		}
		for k, at := range equal {
			made[p.place(row, at)] = up[row] * of(k, len(equal))
		}
	}
	return made
}
