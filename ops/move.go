package ops

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// Everything that moves elements (views, indexing, scattering) is made of two
// primitives over runs of adjacent elements: pick reads them, put writes them.
// Both are lazy: a block of the result costs a block of memory, and put one
// pair of numbers for each run written.

// runs says which elements of a tensor are meant: count runs of n adjacent
// elements in row-major order. at stores the first elements of runs lo, lo+1,
// ... into dst; it is called from several goroutines at once.
type runs struct {
	n, count int
	at       func(lo int, dst []int64)
}

// probe is a contiguous tensor of the shape that has no elements to read: views
// of it tell where their elements come from.
func probe(shape []int) (*tensor.Tensor, error) {
	s := tensor.OpenStorage(int64(tensor.Numel(shape)), func() ([]byte, error) { return nil, errors.New("the values of a probe were read") })
	return tensor.NewView(s, tensor.View{DType: tensor.Uint8, Shape: slices.Clone(shape), Stride: tensor.Contiguous(shape)})
}

// runsOf lists the elements a view of a probe shows, in the view's order.
func runsOf(v *tensor.Tensor) runs {
	type dim struct{ n, step int }
	var dims []dim
	for i, n := range v.Shape {
		step := v.Stride[i]
		if n == 1 {
			continue
		}
		if k := len(dims) - 1; k >= 0 && dims[k].step == n*step {
			dims[k] = dim{dims[k].n * n, step}
			continue
		}
		dims = append(dims, dim{n, step})
	}
	r := runs{n: 1, count: v.Numel()}
	if r.count == 0 {
		return listed(1, nil)
	}
	if k := len(dims) - 1; k >= 0 && dims[k].step == 1 && r.count > 0 {
		r.n = dims[k].n
		r.count /= r.n
		dims = dims[:k]
	}
	r.at = func(lo int, dst []int64) {
		idx, pos := make([]int, len(dims)), v.Offset
		for d := len(dims) - 1; d >= 0; d-- {
			idx[d] = lo % dims[d].n
			lo /= dims[d].n
			pos += idx[d] * dims[d].step
		}
		for i := range dst {
			dst[i] = int64(pos)
			for d := len(dims) - 1; d >= 0; d-- {
				idx[d]++
				pos += dims[d].step
				if idx[d] < dims[d].n {
					break
				}
				pos -= dims[d].n * dims[d].step
				idx[d] = 0
			}
		}
	}
	return r
}

// listed are runs of n elements that start at the given elements.
func listed(n int, starts []int64) runs {
	return runs{n: n, count: len(starts), at: func(lo int, dst []int64) { copy(dst, starts[lo:]) }}
}

// pick returns the tensor of shape made of the runs r of t.
func pick(t *tensor.Tensor, shape []int, r runs) *tensor.Tensor {
	switch t.DType.Kind() {
	case tensor.KindComplex:
		return pickAs[complex128](t, shape, r)
	case tensor.KindFloat:
		return pickAs[float64](t, shape, r)
	}
	return pickAs[int64](t, shape, r)
}

func pickAs[T tensor.Elem](t *tensor.Tensor, shape []int, r runs) *tensor.Tensor {
	// Many short runs are read from an array, few or long ones one by one.
	const small, many = 1 << 24, 1 << 12
	all := sync.OnceValue(func() []T {
		if t.IsLazy() || r.n < 32 && r.count > many && t.Numel() <= small {
			return tensor.Data[T](t)
		}
		return nil
	})
	return tensor.Lazy(t.DType, shape, min(r.n, 1<<13), func(lo int, dst []T) {
		first, skip := lo/r.n, lo%r.n
		starts := opdef.Scratch[int64]((lo+len(dst)-1)/r.n - first + 1)
		defer opdef.Release(starts)
		r.at(first, *starts)
		data := all()
		if data != nil && r.n == 1 {
			for i, s := range *starts {
				dst[i] = data[s]
			}
			return
		}
		for _, s := range *starts {
			k, from := min(r.n-skip, len(dst)), int(s)+skip
			if data != nil {
				copy(dst[:k], data[from:])
			} else {
				tensor.Load(t, from, dst[:k])
			}
			dst, skip = dst[k:], 0
		}
	})
}

// combine is how put joins a new value with what is there.
type combine uint8

const (
	assign combine = iota // the last write wins
	addTo
	multiply
	minimum
	maximum
	mean
)

// put returns base with the elements of src, in row-major order, written to the
// runs r. Without keep the first value written to an element replaces what base
// has there. Runs may overlap only under assign and addTo.
func put(base, src *tensor.Tensor, r runs, how combine, keep bool) *tensor.Tensor {
	if r.count == 0 || r.n == 0 {
		return base
	}
	switch base.DType.Kind() {
	case tensor.KindComplex:
		return putAs(base, src, r, how, keep, func(dst, v []complex128) {
			switch how {
			case multiply:
				for i, x := range v {
					dst[i] *= x
				}
			default:
				for i, x := range v {
					dst[i] += x
				}
			}
		}, func(v []complex128, n int) {
			for i := range v {
				v[i] /= complex(float64(n), 0)
			}
		})
	case tensor.KindFloat:
		return putAs(base, src, r, how, keep, func(dst, v []float64) {
			switch how {
			case multiply:
				for i, x := range v {
					dst[i] *= x
				}
			case minimum:
				for i, x := range v {
					dst[i] = math.Min(dst[i], x)
				}
			case maximum:
				for i, x := range v {
					dst[i] = math.Max(dst[i], x)
				}
			default:
				for i, x := range v {
					dst[i] += x
				}
			}
		}, func(v []float64, n int) {
			for i := range v {
				v[i] /= float64(n)
			}
		})
	}
	return putAs(base, src, r, how, keep, func(dst, v []int64) {
		switch how {
		case multiply:
			for i, x := range v {
				dst[i] *= x
			}
		case minimum:
			for i, x := range v {
				dst[i] = min(dst[i], x)
			}
		case maximum:
			for i, x := range v {
				dst[i] = max(dst[i], x)
			}
		default:
			for i, x := range v {
				dst[i] += x
			}
		}
	}, func(v []int64, n int) {
		for i, x := range v {
			v[i] = floorDivInt(x, int64(n))
		}
	})
}

// A write is one run of put: where it goes and its number in the source.
type write struct{ to, run int }

func putAs[T tensor.Elem](base, src *tensor.Tensor, r runs, how combine, keep bool, join func(dst, v []T), divide func(v []T, n int)) *tensor.Tensor {
	writes := sync.OnceValue(func() []write {
		at := make([]int64, r.count)
		r.at(0, at)
		w := make([]write, r.count)
		for i, p := range at {
			w[i] = write{int(p), i}
		}
		byTarget := func(a, b write) int {
			if c := cmp.Compare(a.to, b.to); c != 0 {
				return c
			}
			return cmp.Compare(a.run, b.run)
		}
		if !slices.IsSortedFunc(w, byTarget) {
			slices.SortFunc(w, byTarget)
		}
		return w
	})
	return tensor.Lazy(base.DType, base.Shape, base.Block(), func(lo int, dst []T) {
		tensor.Load(base, lo, dst)
		w, hi := writes(), lo+len(dst)
		k := sort.Search(len(w), func(i int) bool { return w[i].to > lo-r.n })
		buf := opdef.Scratch[T](min(r.n, len(dst)))
		defer opdef.Release(buf)
		for k < len(w) && w[k].to < hi {
			to := w[k].to
			from, end := max(to, lo), min(to+r.n, hi)
			cell, n := dst[from-lo:end-lo], 0
			for ; k < len(w) && w[k].to == to; k++ {
				v := (*buf)[:len(cell)]
				tensor.Load(src, w[k].run*r.n+from-to, v)
				if how == assign || n == 0 && !keep {
					copy(cell, v)
				} else {
					join(cell, v)
				}
				n++
			}
			if how == mean {
				if keep {
					n++
				}
				divide(cell, n)
			}
		}
	})
}

// zeros is a tensor of zeros that takes no memory.
func zeros(dt tensor.DType, shape []int) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindComplex:
		return tensor.Full(dt, shape, complex128(0))
	case tensor.KindFloat:
		return tensor.Full(dt, shape, 0.0)
	}
	return tensor.Full(dt, shape, int64(0))
}

// filledWith is a tensor of shape filled with the number v as dtype dt stores it.
func filledWith(dt tensor.DType, shape []int, v opdef.Scalar) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindComplex:
		return tensor.Full(dt, shape, v.Complex128())
	case tensor.KindFloat:
		return tensor.Full(dt, shape, v.Float64())
	case tensor.KindBool:
		return tensor.Full(dt, shape, tensor.WrapInt(dt, int64(boolInt(v.Complex128() != 0))))
	}
	return tensor.Full(dt, shape, tensor.WrapInt(dt, v.Int64()))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// addInto is the zero tensor of shape with g added at the runs r: the adjoint
// of pick.
func addInto(shape []int, g *tensor.Tensor, r runs) *tensor.Tensor {
	return put(zeros(g.DType, shape), g, r, addTo, true)
}

// concat joins ts along dim; their other dimensions are equal. The elements
// are cast to dt.
func concat(dt tensor.DType, dim int, ts ...*tensor.Tensor) *tensor.Tensor {
	shape := slices.Clone(ts[0].Shape)
	shape[dim] = 0
	for _, t := range ts {
		shape[dim] += t.Shape[dim]
	}
	cast := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		cast[i] = opdef.Cast(t, dt)
	}
	switch dt.Kind() {
	case tensor.KindComplex:
		return concatAs[complex128](dt, shape, dim, cast)
	case tensor.KindFloat:
		return concatAs[float64](dt, shape, dim, cast)
	}
	return concatAs[int64](dt, shape, dim, cast)
}

func concatAs[T tensor.Elem](dt tensor.DType, shape []int, dim int, ts []*tensor.Tensor) *tensor.Tensor {
	// A row of the result is one piece of each tensor.
	ends, row := make([]int, len(ts)), 0
	inner := tensor.Numel(shape[dim+1:])
	for i, t := range ts {
		row += t.Shape[dim] * inner
		ends[i] = row
	}
	row = max(row, 1)
	return tensor.Lazy(dt, shape, min(row, 1<<13), func(lo int, dst []T) {
		hi := lo + len(dst)
		start := 0
		for i, t := range ts {
			end := ends[i]
			n := end - start
			// before counts the elements of t that come before position p.
			before := func(p int) int { return p/row*n + min(max(p%row-start, 0), n) }
			a, b := before(lo), before(hi)
			if a == b {
				start = end
				continue
			}
			buf := opdef.Scratch[T](b - a)
			tensor.Load(t, a, *buf)
			for v := *buf; len(v) > 0; {
				k := min(n-a%n, len(v))
				copy(dst[a/n*row+start+a%n-lo:], v[:k])
				v, a = v[k:], a+k
			}
			opdef.Release(buf)
			start = end
		}
	})
}
