package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// movedFactors are numbers by which a kernel multiplies another operand than it should: self in place of other by
// alpha.
func (c *Search) movedFactors() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, arg := range c.Bound.Arguments() {
			x, ok := numberOf(arg.Python())
			if !ok || x == 0 || x == 1 {
				continue
			}
			for _, a := range c.operands() {
				if a.Index >= 0 {
					continue
				}
				scaled := func() *tensor.Tensor {
					return opdef.Map(a.Tensor.DType, a.Tensor, func(y float64) float64 { return x * y })
				}
				text := fmt.Sprintf("%s multiplies %s", arg.Name, a.Name)
				if !yield(Mistake{Text: text + ", too", Make: c.one(a, scaled)}) {
					return
				}
				if !yield(Mistake{Text: text, Make: func() (Way, error) {
					t := scaled()
					t.RequiresGrad, t.Parameter = a.Tensor.RequiresGrad, a.Tensor.Parameter
					var one value.Value = 1.0
					if _, whole := arg.Python().(int64); whole {
						one = int64(1)
					}
					way, err := c.withArguments(map[string]value.Value{arg.Name: one, a.Name: t})
					way.Original = map[*tensor.Tensor]*tensor.Tensor{t: c.recorded(a.Tensor)}
					return way, err
				}}) {
					return
				}
			}
		}
	}
}

// addedOperands are operands to which a kernel adds another one times a number of the call, where that is due
// elsewhere, or besides: weight decay in the gradient.
func (c *Search) addedOperands() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all := c.operands()
		if len(all) > mostAdded {
			return
		}
		for _, arg := range c.Bound.Arguments() {
			x, ok := arg.Python().(float64)
			if !ok || x == 0 || math.IsInf(x, 0) {
				continue
			}
			for _, a := range all {
				for _, b := range all {
					if same(a, b) || !slices.Equal(a.Tensor.Shape, b.Tensor.Shape) {
						continue
					}
					text := fmt.Sprintf("%s*%s is added to %s", arg.Name, argName(b), argName(a))
					add := func(moved bool) func() (Way, error) {
						return func() (Way, error) {
							way, err := c.one(a, func() *tensor.Tensor {
								return opdef.Zip(a.Tensor.DType, a.Tensor, b.Tensor, func(y, z float64) float64 {
									return y + x*z
								})
							})()
							if err == nil && way.Call != nil && moved {
								way.Call, err = c.with(way.Call, c.Op, map[string]value.Value{arg.Name: 0.0})
							}
							return way, err
						}
					}
					if !yield(Mistake{Text: text + ", and to nothing else", Make: add(true)}) ||
						!yield(Mistake{Text: text, Make: add(false)}) {
						return
					}
				}
			}
		}
	}
}

// mostAdded is how many operands there may be where each is added to each.
const mostAdded = 6

// numberOf is the number that v is.
func numberOf(v value.Value) (float64, bool) {
	switch x := v.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, true
	}
	return 0, false
}

// twoArguments gives two arguments other values at once.
func (c *Search) twoArguments(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all, tried := c.Bound.Arguments(), 0
		for i, a := range all {
			for _, b := range all[i+1:] {
				for _, x := range a.Mistaken() {
					for _, y := range b.Mistaken() {
						if isTensor(a.Python()) || isTensor(b.Python()) {
							continue
						}
						if tried++; tried > mostPairs {
							return
						}
						text := fmt.Sprintf("%s is %s, not %s, and %s is %s, not %s", a.Name, shown(x),
							shown(a.Python()), b.Name, shown(y), shown(b.Python()))
						both := func() (Way, error) {
							return c.withArguments(map[string]value.Value{a.Name: x, b.Name: y})
						}
						if !yield(Mistake{Text: text, Make: func() (Way, error) {
							for _, one := range []map[string]value.Value{{a.Name: x}, {b.Name: y}} {
								if c.sameFew(both, func() (Way, error) { return c.withArguments(one) }, &fails[0]) {
									return Way{}, errNoValue // the other argument changes nothing
								}
							}
							return both()
						}}) {
							return
						}
					}
				}
			}
		}
	}
}

// sameFew reports whether two ways give the same few elements of a value.
func (c *Search) sameFew(first, second func() (Way, error), r *Wrong) (same bool) {
	_ = c.Guard(func() error { // what cannot be run is not the same
		_, _, x := c.few(first, r.Target)
		_, _, y := c.few(second, r.Target)
		same = len(x) > 0 && slices.EqualFunc(x, y, alike)
		return nil
	})
	return same
}

// mostPairs is the number of pairs of arguments that are tried.
const mostPairs = 512

func isTensor(v value.Value) bool { _, is := v.(*tensor.Tensor); return is }

// averaged are sums that a kernel divides by how many terms they have, and means that it does not.
func (c *Search) averaged() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all := c.operands()
		if len(all) != 1 || c.Ran == nil || len(c.Ran.Outs) != 1 || c.Ran.Outs[0].Numel() > largestOperand {
			return
		}
		for _, m := range []struct {
			text string
			f    func(x, n float64) float64
		}{
			{"each sum is divided by the number of its terms", func(x, n float64) float64 { return x / n }},
			{"each mean is multiplied by the number of its terms", func(x, n float64) float64 { return x * n }},
		} {
			if !yield(Mistake{Text: m.text, Make: func() (Way, error) {
				way, err := c.one(all[0], func() *tensor.Tensor {
					return tensor.Full(all[0].Tensor.DType, all[0].Tensor.Shape, 1.0)
				})()
				if err != nil || way.Call == nil {
					return way, err
				}
				f, err := way.Call.Forward()
				if err != nil || len(f.Outs) != 1 {
					return Way{}, err
				}
				counts := f.Outs[0]
				return c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
					if target != "output[0]" || !slices.Equal(t.Shape, counts.Shape) || !t.DType.IsFloat() {
						return t
					}
					return opdef.ZipN(t.DType, t.Shape, func(dst []float64, src [][]float64) {
						for i := range dst {
							dst[i] = m.f(src[0][i], src[1][i])
						}
					}, t, counts)
				})()
			}}) {
				return
			}
		}
	}
}

// exchangedBlocks exchanges parts of dimension 0 of all operands that have the same number of indices there: the gates
// of a recurrent cell, queries and keys.
func (c *Search) exchangedBlocks() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for b := range c.blocks() {
			for i := range b.blocks {
				for j := i + 1; j < b.blocks; j++ {
					of := func(k, _ int) int {
						switch k / b.size {
						case i:
							return k + (j-i)*b.size
						case j:
							return k - (j-i)*b.size
						}
						return k
					}
					text := fmt.Sprintf("parts %d and %d of %d of dimension 0 of all operands of length %d are exchanged",
						i, j, b.blocks, b.n)
					if !yield(Mistake{Text: text, Make: func() (Way, error) {
						return c.replaced(func(a opdef.Arg) *tensor.Tensor {
							if !b.has(a) {
								return nil
							}
							return reordered(a.Tensor, 0, of)
						})
					}}) {
						return
					}
				}
			}
		}
	}
}

// blocks are so many parts, of so many indices each, of dimension 0 of the operands that have n indices there.
type blocks struct{ n, blocks, size int }

func (b blocks) has(a opdef.Arg) bool {
	return a.Tensor.DType.IsFloat() && a.Tensor.Dim() > 0 && a.Tensor.Shape[0] == b.n
}

// blocks are the parts that the operands have in common, of which more than one has as many indices.
func (c *Search) blocks() iter.Seq[blocks] {
	return func(yield func(blocks) bool) {
		var lengths []int
		for _, a := range c.operands() {
			lengths = append(lengths, a.Tensor.Shape[0])
		}
		slices.Sort(lengths)
		for i, n := range lengths {
			if i == 0 || lengths[i-1] != n || i > 1 && lengths[i-2] == n { // once, of those that there are more of
				continue
			}
			for _, parts := range []int{2, 3, 4} {
				if n%parts == 0 && n > parts && !yield(blocks{n, parts, n / parts}) {
					return
				}
			}
		}
	}
}

// alteredBlocks are gates of a recurrent cell that are taken for something else: one part of all operands is negated,
// so that the gate is 1 minus itself, or 1 is added to a part of one.
func (c *Search) alteredBlocks() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for b := range c.blocks() {
			for i := range b.blocks {
				part := fmt.Sprintf("part %d of %d of dimension 0 of ", i, b.blocks)
				at := func(a opdef.Arg, f func(x float64) float64) *tensor.Tensor {
					return altered(a.Tensor, 0, i*b.size, (i+1)*b.size, f)
				}
				negated := fmt.Sprintf("all operands of length %d is negated, as if a gate s were 1 - s", b.n)
				if !yield(Mistake{Text: part + negated, Make: func() (Way, error) {
					return c.replaced(func(a opdef.Arg) *tensor.Tensor {
						if !b.has(a) {
							return nil
						}
						return at(a, func(x float64) float64 { return -x })
					})
				}}) {
					return
				}
				for _, a := range c.operands() {
					if !b.has(a) || a.Tensor.Dim() > 1 {
						continue
					}
					more := c.one(a, func() *tensor.Tensor { return at(a, func(x float64) float64 { return x + 1 }) })
					if !yield(Mistake{Text: "1 is added to " + part + argName(a), Make: more}) {
						return
					}
				}
			}
		}
	}
}

// gradientFactors are missingFactors where only gradients are wrong: they come before operands that the gradient alone
// would have to read as a power of themselves.
func (c *Search) gradientFactors(fails []Wrong) iter.Seq[Mistake] {
	if slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() }) {
		return func(func(Mistake) bool) {}
	}
	return c.missingFactors(fails)
}

// missingFactors are values that are multiplied or divided by something known once too often, or not at all.
func (c *Search) missingFactors(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok {
				continue
			}
			known := c.known(r)
			if r.Backward() && c.Ran != nil && len(c.Ran.Outs) > 0 && c.Ran.Outs[0].DType.IsFloat() {
				known = append(known, knownValue{"the result", c.Ran.Outs[0]})
			}
			known = append(known, c.lengths()...)
			for _, k := range known {
				for _, t := range spread(k.t, got.Shape) {
					for _, p := range powers {
						if !c.near(got, want, t, p.of) {
							continue
						}
						by := map[string]*tensor.Tensor{r.Target: t}
						for j := range fails { // all gradients may have it
							if o := &fails[j]; o.Target != r.Target && o.Backward() && r.Backward() {
								c.alsoFactor(o, k.t, p.of, by)
							}
						}
						if !yield(Mistake{Text: fmt.Sprintf(p.text, k.text), Rounds: true, Cost: factorBits,
							OnlyHere: k.computed(),
							Make: c.altering(func(of string, due *tensor.Tensor) *tensor.Tensor {
								t := by[of]
								if t == nil || !slices.Equal(due.Shape, t.Shape) {
									return due
								}
								return opdef.ZipN(due.DType, due.Shape, func(dst []float64, src [][]float64) {
									for i := range dst {
										dst[i] = src[0][i] * p.of(src[1][i])
									}
								}, due, t)
							})}) {
							return
						}
					}
				}
			}
		}
	}
}

// alsoFactor notes how a known value is spread over another gradient that has it as a factor, too.
func (c *Search) alsoFactor(r *Wrong, known *tensor.Tensor, f func(float64) float64, by map[string]*tensor.Tensor) {
	got, want, ok := r.floats()
	if !ok {
		return
	}
	for _, t := range spread(known, got.Shape) {
		if c.near(got, want, t, f) {
			by[r.Target] = t
			return
		}
	}
}

// lengths are the roots of the sums of the squares of two operands of one shape, element for element.
func (c *Search) lengths() (out []knownValue) {
	all := c.operands()
	for i, a := range all[:min(len(all), mostFit)] {
		for _, b := range all[i+1 : min(len(all), mostFit)] {
			if x, y := a.Tensor, b.Tensor; slices.Equal(x.Shape, y.Shape) && x.DType.IsFloat() && y.DType.IsFloat() {
				out = append(out, knownValue{fmt.Sprintf("sqrt(square(%s) + square(%s))", argName(a), argName(b)),
					opdef.Zip(tensor.Float64, x, y, math.Hypot)})
			}
		}
	}
	return out
}

// powers are the factors by which a value may be wrong.
var powers = []struct {
	text string
	of   func(x float64) float64
}{
	{"it is multiplied by %s", func(x float64) float64 { return x }},
	{"it is divided by %s", func(x float64) float64 { return 1 / x }},
	{"it is multiplied by the square of %s", func(x float64) float64 { return x * x }},
	{"it is divided by the square of %s", func(x float64) float64 { return 1 / x / x }},
	{"it is multiplied by 1 - %s", func(x float64) float64 { return 1 - x }},
	{"it is divided by 1 - %s", func(x float64) float64 { return 1 / (1 - x) }},
}

// factorBits are those of which factor it is: some tens are looked at before one is tried.
const factorBits = 6

// spread are the ways in which t may be broadcast to a shape: its dimensions are the last of it, the first, or those
// from 1 on. A tensor of one element is none.
func spread(t *tensor.Tensor, shape []int) (out []*tensor.Tensor) {
	if !t.DType.IsFloat() || t.Numel() < 2 || t.Dim() > len(shape) || t.Numel() > largestOperand {
		return nil
	}
	for lead := range min(2, len(shape)-t.Dim()+1) {
		full := slices.Concat(slices.Repeat([]int{1}, lead), t.Shape)
		full = append(full, slices.Repeat([]int{1}, len(shape)-len(full))...)
		if x, err := t.Reshape(full...).Expand(shape...); err == nil && slices.Equal(x.Shape, shape) {
			out = append(out, x)
		}
	}
	if x, err := t.Expand(shape...); err == nil && len(shape)-t.Dim() > 1 && slices.Equal(x.Shape, shape) {
		out = append(out, x)
	}
	return out
}

// read are the elements of what is recorded and of what is due; ok is false if they cannot be read.
func (c *Search) read(got, want *tensor.Tensor) (x, y []float64, ok bool) {
	err := c.Guard(func() error { x, y = elements(got), elements(want); return nil })
	return x, y, err == nil
}

// near reports whether what is recorded is near to what is due times f(t), and not to what is due.
func (c *Search) near(got, want, t *tensor.Tensor, f func(float64) float64) (is bool) {
	_ = c.Guard(func() error { // what cannot be read is not
		x, y, z := Pieces(got), Pieces(want), Pieces(t)
		size, off, was := 0.0, 0.0, 0.0
		for i := range x {
			made := y[i] * f(z[i])
			size += x[i] * x[i]
			off += (x[i] - made) * (x[i] - made)
			was += (x[i] - y[i]) * (x[i] - y[i])
		}
		is = off <= 1e-4*size && off <= 1e-2*was
		return nil
	})
	return is
}

// displaced are values whose elements stand elsewhere in row-major order: all as far, or blocks that are written twice
// or exchanged.
func (c *Search) displaced(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok {
				continue
			}
			x, y, ok := c.read(got, want)
			if !ok {
				continue
			}
			maps := flatMaps(got.Shape)
			cost := math.Log2(float64(len(maps)))
			for _, m := range maps {
				if sameAt(x, y, m, 16*got.DType.Eps()) && !yield(Mistake{Text: m.text, Rounds: true, Cost: cost,
					Make: c.resultIs(r.Target, func(i int) int { return m.of(i, len(x)) })}) {
					return
				}
			}
			var p *place
			if c.Guard(func() error { p = placeOf(got, want, r.Allowed); return nil }) != nil || p == nil {
				continue
			}
			for _, m := range maps {
				if !m.shift && p.sameAt(x, y, m, 16*got.DType.Eps()) && !yield(Mistake{Text: p.String() + ": " + m.text,
					Rounds: true, Cost: cost + p.cost(), Make: c.resultIs(r.Target, func(i int) int {
						if p.holds(i) {
							return m.of(i, len(x))
						}
						return i
					})}) {
					return
				}
			}
		}
	}
}

// sameAt reports whether the elements of x are those of y elsewhere, and some of them are not those in place. At the
// ends they come from beside y.
func sameAt(x, y []float64, m flatMap, near float64) bool {
	off, moved := 0, 0
	size := math.Sqrt(dot(y, y) / float64(len(y))) // where terms cancel
	for i := range x {
		j := m.of(i, len(y))
		if math.Abs(x[i]-y[j]) <= near*max(size, math.Abs(y[j])) {
			moved += btoi(math.Abs(x[i]-y[i]) > near*max(size, math.Abs(y[i])))
		} else if off++; 20*off > len(x) || i >= m.by && i < len(x)-m.by {
			return false
		}
	}
	return moved >= leastInPart
}

// sameAt reports whether the elements of x that lie there are those of y elsewhere, and some are not those in place.
func (p *place) sameAt(x, y []float64, m flatMap, near float64) bool {
	moved := 0
	size := math.Sqrt(dot(y, y) / float64(len(y)))
	for i := range x {
		if !p.holds(i) {
			continue
		}
		j := m.of(i, len(y))
		if !(math.Abs(x[i]-y[j]) <= near*max(size, math.Abs(y[j]))) {
			return false
		}
		moved += btoi(math.Abs(x[i]-y[i]) > near*max(size, math.Abs(y[i])))
	}
	return moved >= leastInPart
}

// A flatMap is how elements are read in row-major order: how far from their place, or in blocks of how many.
type flatMap struct {
	permutation
	by    int
	shift bool // of elements that follow each other: a run of them has a mistake of its own
}

// flatMaps are the wrong places in row-major order at which elements of a shape are read.
func flatMaps(shape []int) (out []flatMap) {
	n := tensor.Numel(shape)
	by := []int{1, 2, 3, 4, 8, 16, 32, 64, 128, 256}
	for d := 1; d < len(shape); d++ {
		by = append(by, tensor.Numel(shape[d:]))
	}
	for _, s := range by {
		if s >= n {
			continue
		}
		out = append(out,
			flatMap{permutation{fmt.Sprintf("all elements are written %d further in memory", s),
				func(i, n int) int { return (i + n - s) % n }}, s, true},
			flatMap{permutation{fmt.Sprintf("all elements are written %d before their place in memory", s),
				func(i, n int) int { return (i + s) % n }}, s, true})
		if 2*s > n {
			continue
		}
		out = append(out,
			flatMap{permutation{fmt.Sprintf("of each two blocks of %d elements the second repeats the first", s),
				func(i, _ int) int { return i - i/s%2*s }}, s, false},
			flatMap{permutation{fmt.Sprintf("of each two blocks of %d elements the first repeats the second", s),
				func(i, n int) int { return min(i+(1-i/s%2)*s, n-1) }}, 2 * s, false},
			flatMap{permutation{fmt.Sprintf("each two blocks of %d elements are exchanged", s),
				func(i, n int) int { return min(i+(1-2*(i/s%2))*s, n-1) }}, 2 * s, false})
	}
	for lanes := 4; lanes <= 64 && lanes < n; lanes *= 2 {
		out = append(out,
			flatMap{permutation{fmt.Sprintf("each %d elements stand in reverse", lanes),
				func(i, n int) int { return min(i/lanes*lanes+lanes-1-i%lanes, n-1) }}, lanes, false},
			flatMap{permutation{fmt.Sprintf("of each %d elements the first repeats", lanes),
				func(i, _ int) int { return i - i%lanes }}, 0, false},
			flatMap{permutation{fmt.Sprintf("each %d elements are turned by one: the last is the first", lanes),
				func(i, n int) int { return min(i/lanes*lanes+(i+lanes-1)%lanes, n-1) }}, lanes, false},
			flatMap{permutation{fmt.Sprintf("each %d elements are turned by one: the first is the last", lanes),
				func(i, n int) int { return min(i/lanes*lanes+(i+1)%lanes, n-1) }}, lanes, false})
	}
	for tile := 4; tile <= 4096 && tile < n; tile *= 2 {
		if whole := n / tile * tile; whole < n {
			out = append(out, flatMap{permutation{fmt.Sprintf("the last %d elements, behind a multiple of %d, hold what is "+
				"due from the last %[2]d on", n-whole, tile),
				func(i, n int) int { return i - btoi(i >= whole)*(tile-n+whole) }}, 0, false})
		}
	}
	return append(out, transposedTiles(shape)...)
}

// transposedTiles are the square tiles of the last two dimensions, each of which is transposed by itself.
func transposedTiles(shape []int) (out []flatMap) {
	if len(shape) < 2 {
		return nil
	}
	rows, cols := shape[len(shape)-2], shape[len(shape)-1]
	for tile := 2; tile <= 128 && tile <= min(rows, cols); tile *= 2 {
		if rows%tile != 0 || cols%tile != 0 || tile == rows && tile == cols {
			continue
		}
		out = append(out, flatMap{permutation{fmt.Sprintf("each tile of %d by %[1]d is transposed", tile),
			func(i, _ int) int {
				r, c := i/cols, i%cols
				return (r-r%tile+c%tile)*cols + c - c%tile + r%tile
			}}, 0, false})
	}
	return out
}
