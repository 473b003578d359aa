package causes

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// sectioned are results of calls that take sections of a dimension by themselves: a sort of blocks that are not merged,
// a scan that begins anew, a sum of one tile in place of all. Positions among results count from the beginning of the
// dimension, or of the section.
func (c *Search) sectioned(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || len(c.Ran.Outs) == 0 || !fails[0].Forward() {
			return
		}
		first := c.Ran.Outs[0]
		if first.Numel() > mostSectioned {
			return
		}
		for d, n := range first.Shape {
			for _, size := range sections(n) {
				c.Work.Whole()
				if c.Work.Over() {
					return
				}
				made := c.inSections(c.Bound, d, n, size)
				if made == nil || sameTensors(made, c.Ran.Outs) {
					break // the operator takes each index by itself
				}
				for _, m := range c.withPositions(made, d, size) {
					text := fmt.Sprintf("each %d indices of dimension %d are taken by themselves", size, d) + m.text
					if !yield(Mistake{Text: text, Rounds: true, Make: c.resultsAre(m.made, d)}) {
						return
					}
				}
			}
		}
	}
}

// mergedSections are results of calls that give so many of a dimension, such as topk. Sections of it give their share
// each, and these are joined, as they are or in order, without another choice.
func (c *Search) mergedSections(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || len(c.Ran.Outs) == 0 || !fails[0].Forward() || len(c.operands()) == 0 {
			return
		}
		first, of := c.Ran.Outs[0], c.operands()[0].Tensor
		if !first.DType.IsFloat() || first.Dim() != of.Dim() || of.Numel() > mostSectioned {
			return
		}
		for d, k := range first.Shape {
			if k >= of.Shape[d] {
				continue
			}
			for _, a := range c.Bound.Arguments() {
				if x, is := a.Python().(int64); is && int(x) == k && !c.mergedBy(a.Name, of, d, k, yield) {
					return
				}
			}
		}
	}
}

// mergedBy yields the mistakes of mergedSections along dimension d of an operand. The argument says that k indices are
// wanted. It returns false when the search is over.
func (c *Search) mergedBy(argument string, of *tensor.Tensor, d, k int, yield func(Mistake) bool) bool {
	n := of.Shape[d]
	for parts := 2; parts <= min(k, mostBlocks); parts++ {
		if k%parts != 0 {
			continue
		}
		size, share := (n+parts-1)/parts, k/parts
		way, err := c.withArgument(argument, int64(share))
		if err != nil || way.Call == nil {
			continue
		}
		c.Work.Whole()
		if c.Work.Over() {
			return false
		}
		made := c.inSections(way.Call, d, n, size)
		for i, t := range made {
			if t.DType.IsIntegral() {
				made[i] = fromBeginning(t, d, size, share)
			}
		}
		if made == nil {
			continue
		}
		text := fmt.Sprintf("each %d indices of dimension %d give %d of the %d", size, d, share, k)
		for _, order := range []int{0, 1, -1} {
			if !yield(Mistake{Text: text, Rounds: true, Make: c.resultsAre(inOrder(made, d, order), d)}) {
				return false
			}
		}
	}
	return true
}

// inOrder are tensors in the order of the first one along a dimension: falling for 1, rising for -1, as it is for 0.
func inOrder(all []*tensor.Tensor, d, order int) (out []*tensor.Tensor) {
	if order == 0 {
		return all
	}
	first := elements(all[0])
	n, inner := all[0].Shape[d], tensor.Numel(all[0].Shape[d+1:])
	from := tensor.Make[int](len(first))
	for row := range len(first) / n {
		at := make([]int, n)
		for i := range at {
			at[i] = (row/inner*n+i)*inner + row%inner
		}
		by := slices.Clone(at)
		slices.SortStableFunc(by, func(i, j int) int { return order * cmp.Compare(first[j], first[i]) })
		for i := range at {
			from[at[i]] = by[i]
		}
	}
	for _, t := range all {
		out = append(out, gathered(t, func(i int) int { return from[i] }))
	}
	return out
}

// unfinished are results of calls on the first whole tiles of a dimension, whose other indices stay as they are in an
// operand: a sort of as many elements as a power of two.
func (c *Search) unfinished(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || len(c.Ran.Outs) == 0 || !fails[0].Forward() {
			return
		}
		for _, a := range c.operands() {
			t := a.Tensor
			first := c.Ran.Outs[0]
			if !slices.Equal(t.Shape, first.Shape) || t.DType != first.DType && first.DType != tensor.Int64 ||
				t.Numel() > mostSectioned {
				continue
			}
			for d, n := range t.Shape {
				for _, m := range wholeTiles(n) {
					c.Work.Whole()
					if c.Work.Over() {
						return
					}
					made := c.beginning(a, d, m)
					if made == nil {
						break
					}
					text := fmt.Sprintf("only the first %d of %d indices of dimension %d are taken, and the others stay as in %s",
						m, n, d, argName(a))
					if !yield(Mistake{Text: text, Rounds: true, Make: c.resultsAre(made, d)}) {
						return
					}
				}
			}
		}
	}
}

// wholeTiles are how many of n indices lie in whole tiles, and the largest power of two below n.
func wholeTiles(n int) (out []int) {
	largest := 1
	for 2*largest < n {
		largest *= 2
	}
	for _, m := range []int{largest, n / 32 * 32, n / 16 * 16, n / 8 * 8, n / 4 * 4, n / 2} {
		if m > 1 && m < n && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// beginning are the results on the first m indices of a dimension of all operands that have it. Behind them lie the
// elements of one operand, or the indices where the results are whole numbers. It is nil if these results are due, or
// cannot be computed.
func (c *Search) beginning(a opdef.Arg, d, m int) (made []*tensor.Tensor) {
	t := a.Tensor
	n := t.Shape[d]
	ok := c.Guard(func() error { // a call that cannot be cut has none
		f, err := sectionOf(c.Bound, t.Dim(), d, n, 0, m).Forward()
		if err != nil {
			return err
		}
		for i, whole := range c.Ran.Outs {
			if !slices.Equal(whole.Shape, t.Shape) || f.Outs[i].Dim() != t.Dim() || f.Outs[i].Shape[d] != m {
				return errNoValue
			}
			rest := t
			if whole.DType.IsIntegral() {
				v, inner := tensor.Make[int64](t.Numel()), tensor.Numel(t.Shape[d+1:])
				for k := range v {
					v[k] = int64(k / inner % n)
				}
				rest = tensor.New(whole.DType, t.Shape, v)
			}
			made = append(made, joinedAlong([]*tensor.Tensor{f.Outs[i], rest.Slice(d, m, n-m, 1)}, d))
		}
		return nil
	}) == nil
	if !ok || sameTensors(made, c.Ran.Outs) {
		return nil
	}
	return made
}

// resultsAre is the call whose results are other tensors. Where positions along a dimension of the first operand point
// to elements equal to those that the recorded ones point to, they are the recorded ones: no order of these is due.
func (c *Search) resultsAre(made []*tensor.Tensor, d int) func() (Way, error) {
	made = slices.Clone(made)
	all := c.operands()
	for i, t := range made {
		if t.DType.IsIntegral() && i < len(c.Recorded) && len(all) > 0 {
			_ = c.Guard(func() error { // what cannot be read stays
				made[i] = tiedAs(t, c.Recorded[i], all[0].Tensor, d)
				return nil
			})
		}
	}
	return c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
		return orSame(resultOf(&opdef.Forward{Outs: made}, target), t)
	})
}

// tiedAs are positions along a dimension of t, those that were recorded where both point to equal elements.
func tiedAs(at, recorded, t *tensor.Tensor, d int) *tensor.Tensor {
	if recorded == nil || !slices.Equal(at.Shape, recorded.Shape) || at.Dim() != t.Dim() {
		return at
	}
	x, made, was := elements(t), whole64(at), whole64(recorded)
	n, k, inner := t.Shape[d], at.Shape[d], tensor.Numel(t.Shape[d+1:])
	if len(made)/k != len(x)/n {
		return at
	}
	for i := range made {
		row := i/inner/k*n*inner + i%inner
		p, q := int(made[i]), int(was[i])
		if p >= 0 && p < n && q >= 0 && q < n && alike(x[row+p*inner], x[row+q*inner]) {
			made[i] = was[i]
		}
	}
	return tensor.New(at.DType, at.Shape, made)
}

// withPositions are results of sections whose whole numbers, where they are positions, count from the beginning of the
// dimension, and from that of the section.
func (c *Search) withPositions(made []*tensor.Tensor, d, size int) (out []sectionedResults) {
	whole := slices.Clone(made)
	positions := false
	for i, t := range made {
		if t.DType.IsIntegral() && (len(made) > 1 || len(c.operands()) > 0) {
			whole[i], positions = fromBeginning(t, d, size, size), true
		}
	}
	if !positions {
		return []sectionedResults{{"", made}}
	}
	return []sectionedResults{{"", whole}, {", and positions count from the beginning of each", made}}
}

type sectionedResults struct {
	text string
	made []*tensor.Tensor
}

// mostSectioned is the number of elements of a result up to which sections are tried.
const mostSectioned = 1 << 20

// sections are how many of n indices may be taken at a time.
func sections(n int) (out []int) {
	for _, size := range []int{n / 2, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024} {
		if size > 1 && size < n && !slices.Contains(out, size) {
			out = append(out, size)
		}
	}
	return out
}

// sectionOf is the call on so many of the n indices of dimension d, from lo on, of all operands that have it. d counts
// among the dims dimensions of the results; an operand with fewer has the last ones.
func sectionOf(call *opdef.Call, dims, d, n, lo, many int) *opdef.Call {
	return call.Map(func(a opdef.Arg) *tensor.Tensor {
		t := a.Tensor
		if e := d - dims + t.Dim(); t.Dim() > 0 && e >= 0 && t.Shape[e] == n {
			return t.Slice(e, lo, many, 1)
		}
		return t
	})
}

// inSections are the results of the calls on sections of a dimension of all operands that have it, one after the other;
// nil if one cannot be run.
func (c *Search) inSections(of *opdef.Call, d, n, size int) (made []*tensor.Tensor) {
	dims := c.Ran.Outs[0].Dim()
	_ = c.Guard(func() error { // a call that cannot be cut has no sections
		var parts [][]*tensor.Tensor
		for lo := 0; lo < n; lo += size {
			f, err := sectionOf(of, dims, d, n, lo, min(size, n-lo)).Forward()
			if err != nil {
				return err
			}
			parts = append(parts, f.Outs)
		}
		for i, whole := range c.Ran.Outs {
			var of []*tensor.Tensor
			for _, p := range parts {
				if i >= len(p) || p[i].Dim() != dims {
					return errNoValue
				}
				of = append(of, p[i])
			}
			t := joinedAlong(of, d)
			if !slices.Equal(t.Shape, whole.Shape) {
				return errNoValue
			}
			made = append(made, t)
		}
		return nil
	})
	if len(made) != len(c.Ran.Outs) {
		return nil
	}
	return made
}

// joinedAlong are tensors one after the other along a dimension.
func joinedAlong(parts []*tensor.Tensor, d int) *tensor.Tensor {
	switch dt := parts[0].DType; {
	case dt.IsComplex():
		return joinedAs[complex128](parts, d)
	case dt.IsFloat():
		return joinedAs[float64](parts, d)
	}
	return joinedAs[int64](parts, d)
}

func joinedAs[T tensor.Elem](parts []*tensor.Tensor, d int) *tensor.Tensor {
	shape := slices.Clone(parts[0].Shape)
	for _, p := range parts[1:] {
		shape[d] += p.Shape[d]
	}
	out, inner, at := tensor.Make[T](tensor.Numel(shape)), tensor.Numel(shape[d+1:]), 0
	for _, p := range parts {
		v, width := tensor.Make[T](p.Numel()), p.Shape[d]*inner
		tensor.Load(p, 0, v)
		for row := 0; row*width < len(v); row++ {
			copy(out[row*shape[d]*inner+at:], v[row*width:(row+1)*width])
		}
		at += width
	}
	return tensor.New(parts[0].DType, shape, out)
}

// fromBeginning are positions in sections of a dimension as positions in the dimension. Each section gives so many.
func fromBeginning(t *tensor.Tensor, d, size, each int) *tensor.Tensor {
	v, n, inner := tensor.Make[int64](t.Numel()), t.Shape[d], tensor.Numel(t.Shape[d+1:])
	tensor.Load(t, 0, v)
	for i := range v {
		v[i] += int64(i / inner % n / each * size)
	}
	return tensor.New(t.DType, t.Shape, v)
}

// sameTensors reports whether tensors have nearly the same elements.
func sameTensors(x, y []*tensor.Tensor) bool {
	for i := range x {
		if x[i].DType.IsComplex() || !slices.Equal(x[i].Shape, y[i].Shape) {
			return false
		}
		v, w := elements(x[i]), elements(y[i])
		for k := range v {
			if d := v[k] - w[k]; !alike(v[k], w[k]) && !(d <= 1e-6*max(v[k], -v[k]) && -d <= 1e-6*max(v[k], -v[k])) {
				return false
			}
		}
	}
	return true
}
