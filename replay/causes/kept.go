package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A keeping says which of n indices count.
type keeping struct {
	text  string // "the first 4"
	one   bool   // it is one index
	last  bool   // they are the last ones
	holds func(i int) bool
}

// keepings are the indices that count if a loop ends early or begins late, or if some lanes are not added. They are
// the first ones, the last ones, and the first or last half of each block.
func keepings(n int) (all []keeping) {
	var sizes []int
	for k := 1; k < n; k++ {
		if n <= mostEndings || k&(k-1) == 0 || (n-k)&(n-k-1) == 0 || n-k == n%16 || n-k == n%32 {
			sizes = append(sizes, k)
		}
	}
	for _, k := range sizes {
		number := cond(k > 1, fmt.Sprintf(" %d", k))
		all = append(all, keeping{"the first" + number, k == 1, false, func(i int) bool { return i < k }},
			keeping{"the last" + number, k == 1, true, func(i int) bool { return i >= n-k }})
	}
	for h := 1; h < n; h *= 2 {
		if h > 1 && 2*h < n || h == 1 && n > 2 {
			all = append(all, keeping{fmt.Sprintf("the first %d of each %d", h, 2*h), false, false,
				func(i int) bool { return i%(2*h) < h }})
			all = append(all, keeping{fmt.Sprintf("the last %d of each %d", h, 2*h), false, false,
				func(i int) bool { return i%(2*h) >= h }})
		}
	}
	return all
}

// mostEndings is the number of indices up to which every number of first or last ones is tried.
const mostEndings = 64

// keptIndices are operands of which only some indices count. The others are taken for 0. If gradients are wrong,
// the incoming gradient is tried, too.
func (c *Search) keptIndices(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		r := &fails[0]
		if _, _, ok := r.floats(); !ok {
			return
		}
		// cut is the call without the indices that do not count, nil if there is none.
		tryCut := func(what, name string, n int, make, cut func(k keeping) func() (Way, error)) bool {
			for _, k := range keepings(n) {
				if c.Work.Over() {
					return false
				}
				run := make(k)
				if !c.nearer(run, r) {
					continue
				}
				text := fmt.Sprintf("of %s %s, only %s", what, name, k.text)
				if what != ofEach { // tensors may have other numbers of them
					text += fmt.Sprintf(" of %d", n)
				}
				text += " counts"[:6+btoi(k.one)]
				m := Mistake{Text: text, Rounds: true, Make: run}
				if cut != nil {
					m.Truly = func() string {
						if c.sameForward(run, cut(k)) {
							return text
						}
						return text + ": the others are taken for 0"
					}
				}
				if !yield(m) {
					return false
				}
			}
			return true
		}
		try := func(what, name string, n int, make func(k keeping) func() (Way, error)) bool {
			return tryCut(what, name, n, make, nil)
		}
		some := func(n, inner int, k keeping) func(t *tensor.Tensor) *tensor.Tensor {
			return func(t *tensor.Tensor) *tensor.Tensor {
				return gathered(t, func(i int) int {
					if k.holds(i / inner % n) {
						return i
					}
					return -1
				})
			}
		}
		if r.Backward() {
			if len(c.Incoming) == 0 || c.Incoming[0] == nil || c.Incoming[0].Numel() > largestOperand {
				return
			}
			shape := c.Incoming[0].Shape
			for d, n := range shape {
				inner := tensor.Numel(shape[d+1:])
				make := func(k keeping) func() (Way, error) {
					of := some(n, inner, k)
					return c.alteringIncoming(func(t *tensor.Tensor) *tensor.Tensor {
						if !slices.Equal(t.Shape, shape) {
							return t
						}
						return of(t)
					})
				}
				if !try(fmt.Sprintf("dimension %d of", d), "the incoming gradient", n, make) {
					return
				}
			}
			return // a result that is right refutes that an operand is read so
		}
		seen := ""
		for _, a := range c.operands() {
			if a.Index >= 0 { // a list: the first elements of each tensor
				if a.Name != seen && !c.keptOfEach(r, a.Name, yield, try) {
					return
				}
				seen = a.Name
				continue
			}
			for d, n := range a.Tensor.Shape {
				inner := tensor.Numel(a.Tensor.Shape[d+1:])
				if !tryCut(fmt.Sprintf("dimension %d of", d), argName(a), n, func(k keeping) func() (Way, error) {
					return c.one(a, func() *tensor.Tensor { return some(n, inner, k)(a.Tensor) })
				}, func(k keeping) func() (Way, error) { return c.cutTo(a, d, k) }) {
					return
				}
			}
		}
	}
}

// keptGradients are the mistakes of keptIndices if only gradients are wrong.
func (c *Search) keptGradients(fails []Wrong) iter.Seq[Mistake] {
	if fails[0].Backward() {
		return c.keptIndices(fails)
	}
	return func(func(Mistake) bool) {}
}

// keptOfEach tries the first elements of each tensor of a list, after none of them.
func (c *Search) keptOfEach(r *Wrong, name string, yield func(Mistake) bool,
	try func(what, name string, n int, make func(k keeping) func() (Way, error)) bool) bool {
	most := 0
	for _, a := range c.operands() {
		if a.Name == name {
			most = max(most, a.Tensor.Numel())
		}
	}
	make := func(k keeping) func() (Way, error) {
		return func() (Way, error) {
			return c.replaced(func(a opdef.Arg) *tensor.Tensor {
				if a.Name != name || !a.Tensor.DType.IsFloat() {
					return nil
				}
				before := 0 // of the last ones of the longest tensor
				if k.last {
					before = most - a.Tensor.Numel()
				}
				return gathered(a.Tensor, func(i int) int {
					if k.holds(i + before) {
						return i
					}
					return -1
				})
			})
		}
	}
	if none := make(keeping{holds: func(int) bool { return false }}); c.nearer(none, r) {
		return yield(Mistake{Text: "each tensor of " + name + " is taken for 0", Rounds: true, Make: none})
	}
	most = min(most, mostOfEach)
	return try(ofEach, name, most, make)
}

// ofEach is the text for the tensors of a list.
const ofEach = "the elements of each tensor of"

// mostOfEach is the largest number of elements of the longest tensor for which parts are tried.
const mostOfEach = 1 << 12

// pickedIndices are reductions of only some indices of an operand. The result is their product, mean or maximum.
func (c *Search) pickedIndices(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		r := &fails[0]
		got, _, ok := r.floats()
		if !ok || !r.Forward() {
			return
		}
		for _, a := range c.operands() {
			t := a.Tensor
			if a.Index >= 0 || t.Numel() <= got.Numel() {
				continue
			}
			for d, n := range t.Shape {
				for _, k := range keepings(n) {
					run := c.cutTo(a, d, k)
					if c.Work.Over() {
						return
					}
					if c.nearer(run, r) && !yield(Mistake{Rounds: true, Make: run, Text: fmt.Sprintf(
						"of dimension %d of %s, only %s of %d", d, argName(a), k.text, n) +
						[]string{" are", " is"}[btoi(k.one)] + " looked at"}) {
						return
					}
				}
			}
		}
	}
}

// cutTo is the call with an operand that is cut to some indices of a dimension.
func (c *Search) cutTo(a opdef.Arg, d int, k keeping) func() (Way, error) {
	t := a.Tensor
	n := t.Shape[d]
	kept := slices.DeleteFunc(upTo(0, n), func(i int) bool { return !k.holds(i) })
	shape, inner := slices.Clone(t.Shape), tensor.Numel(t.Shape[d+1:])
	shape[d] = len(kept)
	return c.one(a, func() *tensor.Tensor {
		return gatheredIn(t, shape, func(i int) int {
			row := i / inner / len(kept)
			return (row*n+kept[i/inner%len(kept)])*inner + i%inner
		})
	})
}

// resultsInOrder are results, or gradients, in another order along a dimension with few elements at each index.
func (c *Search) resultsInOrder(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		r := &fails[0]
		got, want, ok := r.floats()
		if !ok || got.Numel() > mostRepeated {
			return
		}
		name := "each result"
		if r.Backward() {
			name = "the gradient"
		}
		near := func(x, y *tensor.Tensor) (is bool) {
			_ = c.Guard(func() error { // what cannot be read is not
				v, w, size, off := elements(x), elements(y), 0.0, 0
				for i := range v {
					size = max(size, abs64(v[i]))
				}
				for i := range v {
					off += btoi(!alike(v[i], w[i]) && !(abs64(v[i]-w[i]) <= 4*got.DType.Eps()*size))
				}
				is = 20*off <= len(v)
				return nil
			})
			return is
		}
		for d, n := range got.Shape {
			for p := range turns(n) {
				c.Work.Elements(got.Numel())
				if !near(got, reordered(want, d, p.of)) {
					continue
				}
				if !yield(Mistake{Text: fmt.Sprintf("%s is %s along dimension %d", name, p.text, d), Rounds: true,
					Cost: math.Log2(float64(len(permutations) * len(got.Shape))),
					Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						if !slices.ContainsFunc(fails, func(w Wrong) bool {
							return w.Target == target && w.Forward() == r.Forward()
						}) || !slices.Equal(t.Shape, got.Shape) {
							return t
						}
						return reordered(t, d, p.of)
					})}) {
					return
				}
			}
		}
	}
}

// A joining is a way in which a kernel joins the results of sections.
type joining struct {
	text string
	of   func(parts []float64) float64
}

var joinings = []joining{
	{"the last of the results counts", func(v []float64) float64 { return v[len(v)-1] }},
	{"the largest of the results is taken", func(v []float64) float64 { return slices.Max(v) }},
	{"the smallest of the results is taken", func(v []float64) float64 { return slices.Min(v) }},
	{"the results are added", sumOf},
	{"the mean of the results is taken", func(v []float64) float64 { return sumOf(v) / float64(len(v)) }},
}

func sumOf(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

// joinedSections are reductions in sections whose results are joined in a wrong way. Examples are a mean of means
// with different numbers of terms, a sum of norms, and the count of the last block.
func (c *Search) joinedSections(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		r := &fails[0]
		got, want, ok := r.Pair()
		if !ok || !r.Forward() || !slices.Equal(got.Shape, want.Shape) || got.DType.IsComplex() || c.Ran == nil ||
			resultOf(c.Ran, r.Target) == nil {
			return
		}
		for _, a := range c.readable() {
			if a.Index >= 0 || a.Tensor.Numel() <= got.Numel() || a.Tensor.Numel() > mostSectioned {
				continue
			}
			for d, n := range a.Tensor.Shape {
				for _, size := range sections(n) {
					if n/size > mostJoined {
						continue
					}
					c.Work.Whole()
					if c.Work.Over() {
						return
					}
					parts := c.reducedSections(a, d, size, r.Target, got.Shape)
					if parts == nil {
						break // the operator does not reduce this dimension
					}
					for _, j := range joinings {
						made := tensor.Make[float64](got.Numel())
						one := tensor.Make[float64](len(parts))
						for i := range made {
							for k := range parts {
								one[k] = parts[k][i]
							}
							made[i] = j.of(one)
						}
						if !yield(Mistake{Text: fmt.Sprintf("each %d indices of dimension %d of %s are reduced by themselves, and "+
							"%s", size, d, argName(a), j.text), Rounds: true, Make: c.altering(
							func(of string, t *tensor.Tensor) *tensor.Tensor {
								if of != r.Target || t.Numel() != len(made) {
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
	}
}

// mostJoined is the largest number of sections of a dimension.
const mostJoined = 64

// reducedSections are the results of the call on each section of a dimension of its operands. They are nil if they
// do not have the shape of the whole result. A count up to the largest element of a section is filled up with
// zeros.
func (c *Search) reducedSections(of opdef.Arg, d, size int, target string, shape []int) (parts [][]float64) {
	n, dims := of.Tensor.Shape[d], of.Tensor.Dim()
	if c.Guard(func() error { // a call that cannot be cut has no sections
		for lo := 0; lo < n; lo += size {
			call := c.Bound.Map(func(a opdef.Arg) *tensor.Tensor {
				if a.Tensor.Dim() != dims || a.Tensor.Shape[d] != n {
					return a.Tensor
				}
				return a.Tensor.Slice(d, lo, min(size, n-lo), 1)
			})
			f, err := call.Forward()
			if err != nil {
				return err
			}
			t := resultOf(f, target)
			whole := tensor.Numel(shape)
			if t == nil || t.Dim() != len(shape) || !slices.Equal(t.Shape, shape) && (t.Dim() != 1 ||
				!t.DType.IsIntegral() || t.Numel() > whole) {
				return errNoValue
			}
			parts = append(parts, append(elements(t), make([]float64, whole-t.Numel())...))
		}
		return nil
	}) != nil {
		return nil
	}
	return parts
}

// repeatedRuns are values whose wrong elements are a run in row-major order, or nearly so. The run holds the right
// values of another run, such as the block before.
func (c *Search) repeatedRuns(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || got.Numel() > mostRepeated {
				continue
			}
			x, y, ok := c.read(got, want)
			if !ok {
				continue
			}
			isWrong := wrongIn(got, want, r.Allowed)
			from, to := -1, 0
			for k := range x {
				if isWrong(k) {
					if to = k + 1; from < 0 {
						from = k
					}
				}
			}
			if from < 0 || 4*(to-from) > 3*len(x) {
				continue
			}
			for _, b := range blocksOver(from, to, len(x)) {
				if c.runElsewhere(r, x, y, b, yield) {
					return
				}
			}
		}
	}
}

// mostRepeated is the number of elements up to which a value is searched for another run.
const mostRepeated = 1 << 16

// blocksOver are the runs that hold the elements from one to below another: blocks of a power of two, and exactly
// these elements.
func blocksOver(from, to, n int) (out [][2]int) {
	for size := 4; size < n; size *= 2 {
		if from/size == (to-1)/size {
			out = append(out, [2]int{from / size * size, min((to+size-1)/size*size, n)})
		}
	}
	return append(out, [2]int{from, to})
}

// runElsewhere yields that a run holds the right values of the nearest other run that fits. It is true if no more
// are wanted.
func (c *Search) runElsewhere(r *Wrong, x, y []float64, run [2]int, yield func(Mistake) bool) (done bool) {
	from, to := run[0], run[1]
	if to-from < leastInPart || to-from >= len(x) {
		return false
	}
	near := func(i, j int) bool {
		z := r.Got.DType.Round(y[j])
		return alike(x[i], z) || abs64(x[i]-z) <= 4*r.Got.DType.ULP(z)
	}
	c.Work.Elements(2 * len(x))
	for away := 1; away < len(x); away++ {
		for _, by := range []int{-away, away} {
			if from+by < 0 || to+by > len(x) {
				continue
			}
			off := 0
			for i := from; i < to && 20*off <= to-from; i++ {
				off += btoi(!near(i, i+by))
			}
			if 20*off > to-from {
				continue
			}
			cost := math.Log2(float64(len(x))) + 2 // which other run, and which power of two
			if (to-from)&(to-from-1) != 0 || from%(to-from) != 0 {
				cost += math.Log2(float64(len(x)))
			}
			return !yield(Mistake{Text: fmt.Sprintf("elements %d to %d hold what is due at %d to %d", from, to-1,
				from+by, to-1+by), Rounds: true, Cost: cost, Make: c.resultIs(r.Target, func(i int) int {
				if i >= from && i < to {
					return i + by
				}
				return i
			})})
		}
	}
	return false
}
