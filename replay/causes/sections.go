package causes

import (
	"fmt"
	"iter"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// sectioned are results of calls that take each so many indices of a dimension by themselves: a sort of blocks that are
// not merged, a scan that begins anew, a sum of one tile in place of all. Positions among results count from the
// beginning of the dimension, or of the section.
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
				made := c.inSections(d, n, size)
				if made == nil || sameTensors(made, c.Ran.Outs) {
					break // the operator takes each index by itself
				}
				for _, m := range c.withPositions(made, d, size) {
					text := fmt.Sprintf("each %d indices of dimension %d are taken by themselves", size, d) + m.text
					if !yield(Mistake{Text: text, Rounds: true,
						Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
							return orSame(resultOf(&opdef.Forward{Outs: m.made}, target), t)
						})}) {
						return
					}
				}
			}
		}
	}
}

// withPositions are results of sections whose whole numbers, where they are positions, count from the beginning of the
// dimension, and from that of the section.
func (c *Search) withPositions(made []*tensor.Tensor, d, size int) (out []sectionedResults) {
	whole := slices.Clone(made)
	positions := false
	for i, t := range made {
		if t.DType.IsIntegral() && (len(made) > 1 || len(c.operands()) > 0) {
			whole[i], positions = fromBeginning(t, d, size), true
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

// inSections are the results of the calls on sections of a dimension of all operands that have it, one after the other;
// nil if one cannot be run.
func (c *Search) inSections(d, n, size int) (made []*tensor.Tensor) {
	dims := c.Ran.Outs[0].Dim()
	_ = c.Guard(func() error { // a call that cannot be cut has no sections
		var parts [][]*tensor.Tensor
		for lo := 0; lo < n; lo += size {
			call := c.Bound.Map(func(a opdef.Arg) *tensor.Tensor {
				t := a.Tensor
				if e := d - dims + t.Dim(); t.Dim() > 0 && e >= 0 && t.Shape[e] == n {
					return t.Slice(e, lo, min(size, n-lo), 1)
				}
				return t
			})
			f, err := call.Forward()
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

// fromBeginning are positions in sections of a dimension as positions in the dimension.
func fromBeginning(t *tensor.Tensor, d, size int) *tensor.Tensor {
	v, n, inner := tensor.Make[int64](t.Numel()), t.Shape[d], tensor.Numel(t.Shape[d+1:])
	tensor.Load(t, 0, v)
	for i := range v {
		v[i] += int64(i / inner % n / size * size)
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
