package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// lackingWhere are values that are zero, or NaN, where an operand is one number, whatever is due there: rows of a
// padding index, a division by an element that is 0. It is so at all those elements and at no others. An operand that
// has the first dimensions of the value stands for rows of it.
func (c *Search) lackingWhere(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || c.atSpot(r) != nil { // which says what is due, too
				continue
			}
			var wrong []bool
			lack := 0.0
			if c.Guard(func() error { lack, wrong = allLacking(got, want); return nil }) != nil || wrong == nil {
				continue
			}
			for _, a := range c.readable() {
				if a.Tensor.DType.IsComplex() || a.Tensor.DType == tensor.Bool || a.Tensor.Numel() > largestOperand {
					continue
				}
				var where *equalTo
				if c.Guard(func() error { where = equalAt(a.Tensor, got, wrong, lack); return nil }) != nil ||
					where == nil {
					continue
				}
				text := fmt.Sprintf("where %s is %s%s, it is %s", argName(a), plainValue(where.x), c.whose(where.x),
					constant(lack))
				if !yield(Mistake{Text: text, Rounds: true, Cost: math.Log2(float64(1 + a.Tensor.Numel())),
					Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						if target != r.Target || t.Numel() != len(where.holds) {
							return t
						}
						v, x := elements(t), elements(got)
						for i, is := range where.holds {
							if is {
								v[i] = x[i] // a zero has either sign
							}
						}
						return tensor.New(t.DType, t.Shape, v)
					})}) {
					return
				}
			}
		}
	}
}

// nanAtZero says of a value that is NaN where an operand is 0, and right elsewhere, that it is: few elements show that,
// since they are all the zeros of the operand.
func (c *Search) nanAtZero(r *Wrong) *Cause {
	got, want, ok := r.floats()
	if !ok {
		return nil
	}
	for _, a := range c.operands() {
		var where *equalTo
		_ = c.Guard(func() error { // what cannot be read is nowhere
			if lack, wrong := allLacking(got, want); wrong != nil && lack != lack {
				where = equalAt(a.Tensor, got, wrong, lack)
			}
			return nil
		})
		if where != nil && where.x == 0 {
			return &Cause{Text: fmt.Sprintf("where %s is 0, it is NaN, not a number", argName(a)),
				Targets: []string{r.Target}, Exact: true, Share: 1, Bits: Plenty}
		}
	}
	return nil
}

// allLacking is what a value is wherever it is wrong, zero or NaN, and where that is; nil if it is something else.
func allLacking(got, want *tensor.Tensor) (lack float64, wrong []bool) {
	x, y := elements(got), elements(want)
	wrong = tensor.Make[bool](len(x))
	n := 0
	for i := range x {
		if wrong[i] = isOff(got.DType, x[i], got.DType.Round(y[i])); !wrong[i] {
			continue
		}
		if n++; n == 1 {
			lack = math.Abs(x[i])
		}
		if !alike(math.Abs(x[i]), lack) || lack == lack && lack != 0 {
			return 0, nil
		}
	}
	if n < 2 || n == len(x) {
		return 0, nil
	}
	return lack, wrong
}

// An equalTo is where an operand is one number.
type equalTo struct {
	x     float64
	holds []bool // of the elements of a value
}

// equalAt is the number that an operand is at all elements that are wrong, and at no others unless they are due to be
// what the wrong ones are; nil if it is none. More than one of the operand's elements has to be that number.
func equalAt(t, got *tensor.Tensor, wrong []bool, lack float64) *equalTo {
	full := slices.Clone(t.Shape)
	for len(full) < got.Dim() {
		full = append(full, 1)
	}
	for _, from := range []*tensor.Tensor{t, t.Reshape(full...)} {
		over, err := from.Expand(got.Shape...)
		if err != nil || !slices.Equal(over.Shape, got.Shape) {
			continue
		}
		v := elements(over)
		x := v[slices.Index(wrong, true)]
		holds := tensor.Make[bool](len(v))
		is, other, g := true, false, elements(got)
		for i := range v {
			holds[i] = v[i] == x
			other = other || !holds[i]
			is = is && (holds[i] == wrong[i] || holds[i] && alike(math.Abs(g[i]), lack))
		}
		held := 0
		for _, y := range elements(t) {
			held += btoi(y == x)
		}
		if is && other && held > 1 {
			return &equalTo{x, holds}
		}
	}
	return nil
}

// whose says of which whole argument a number is the value.
func (c *Search) whose(x float64) string {
	for _, a := range c.Bound.Arguments() {
		if n, is := a.Python().(int64); is && float64(n) == x {
			return ", that is " + a.Name
		}
	}
	return ""
}

// unwrittenEdges are values of which nothing is written at the last index of some dimensions, of one or the other: what
// is added at an end of each.
func (c *Search) unwrittenEdges(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			got, want, ok := r.floats()
			if !ok || got.Dim() < 2 {
				continue
			}
			var dims []int
			first := false
			if c.Guard(func() error { dims, first = edges(got, want); return nil }) != nil || len(dims) < 2 {
				continue
			}
			which := "last"
			if first {
				which = "first"
			}
			text := fmt.Sprintf("it is zero at the %s index of dimension %d and of dimension %d, "+asIfUnwritten,
				which, dims[0], dims[1])
			at := onEdge(got.Shape, dims, first)
			if !yield(Mistake{Text: text, Cost: edgeBits, Rounds: true, Make: c.resultIs(r.Target, func(i int) int {
				if at(i) {
					return -1
				}
				return i
			})}) {
				return
			}
		}
	}
}

// edgeBits are those of which edges they are.
const edgeBits = 6

// edges are the two dimensions at whose last indices, or first ones, a value is zero and at no others is wrong.
func edges(got, want *tensor.Tensor) (dims []int, first bool) {
	x, y := elements(got), elements(want)
	wrong := tensor.Make[bool](len(x))
	for i := range x {
		if wrong[i] = isOff(got.DType, x[i], got.DType.Round(y[i])); wrong[i] && x[i] != 0 {
			return nil, false
		}
	}
	for a := range got.Shape {
		for b := a + 1; b < got.Dim(); b++ {
			if got.Shape[a] < 3 || got.Shape[b] < 3 {
				continue
			}
			for _, first := range []bool{false, true} {
				on, off, is := [2]int{}, 0, true
				one, two := onEdge(got.Shape, []int{a}, first), onEdge(got.Shape, []int{b}, first)
				for i := range x {
					p, q := one(i), two(i)
					switch {
					case p || q:
						is = is && x[i] == 0
						on[0], on[1] = on[0]+btoi(wrong[i] && p && !q), on[1]+btoi(wrong[i] && q && !p)
					case wrong[i]:
						off++
					}
					if !is || off > 0 {
						break
					}
				}
				if is && off == 0 && min(on[0], on[1]) >= leastInPart {
					return []int{a, b}, first
				}
			}
		}
	}
	return nil, false
}

// onEdge reports of elements of a shape whether they have the last index of one of the dimensions, or the first.
func onEdge(shape, dims []int, first bool) func(i int) bool {
	return func(i int) bool {
		return slices.ContainsFunc(dims, func(d int) bool {
			at := i / tensor.Numel(shape[d+1:]) % shape[d]
			return first && at == 0 || !first && at == shape[d]-1
		})
	}
}

// conjugateText says of an operand whose complex conjugate is read that it is taken, or that it is not where it is due.
// Gradients alone that are neither are those of a call with the conjugate.
func (c *Search) conjugateText(a opdef.Arg) string {
	if !c.gradientsOnly {
		if c.Ran != nil && len(c.Ran.Outs) > 0 && c.turnedBack(a, func(w Way) (was, made *tensor.Tensor) {
			f, err := w.Call.Forward()
			if err != nil || len(f.Outs) == 0 {
				return nil, nil
			}
			return c.Ran.Outs[0], f.Outs[0]
		}) {
			return "the complex conjugate of %s is not taken"
		}
		return conjugateTaken
	}
	if c.Under != nil && c.turnedBack(a, func(w Way) (was, made *tensor.Tensor) {
		return c.Under(Way{Call: c.Bound, Original: c.Original}, c.firstFail), c.Under(w, c.firstFail)
	}) {
		return "in the gradient, the complex conjugate of %s is not taken"
	}
	return "the gradient is that of the complex conjugate of %s"
}

// turnedBack reports whether a call takes the complex conjugate of an operand: its value is multiplied by -i, not by i,
// where the operand is multiplied by i. of gives the value, and that under a way.
func (c *Search) turnedBack(a opdef.Arg, of func(w Way) (was, made *tensor.Tensor)) (is bool) {
	if a.Tensor.Numel() > mostConjugated {
		return false
	}
	_ = c.Guard(func() error { // what cannot be computed is not known to be
		way, err := c.one(a, func() *tensor.Tensor {
			return opdef.Map(a.Tensor.DType, a.Tensor, func(x complex128) complex128 { return x * 1i })
		})()
		if err != nil || way.Call == nil {
			return err
		}
		was, made := of(way)
		if was == nil || made == nil || !was.DType.IsComplex() || !made.DType.IsComplex() ||
			!slices.Equal(made.Shape, was.Shape) {
			return nil
		}
		size, off := 0.0, 0.0
		for i := range made.Numel() {
			y, z := tensor.At[complex128](was, i), tensor.At[complex128](made, i)
			d := z + y*1i
			size, off = size+real(y)*real(y)+imag(y)*imag(y), off+real(d)*real(d)+imag(d)*imag(d)
		}
		is = size > 0 && off <= 1e-6*size
		return nil
	})
	return is
}

// mostConjugated is the number of elements of an operand up to which it is looked at whether it is conjugated.
const mostConjugated = 1 << 16
