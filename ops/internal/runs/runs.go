package runs

import (
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Runs says which elements of a tensor are meant: Count runs of Len adjacent
// elements in row-major order. Starts stores the first elements of runs lo, lo+1,
// ... into dst; it is called from several goroutines at once.
type Runs struct {
	Len, Count int
	Starts     func(lo int, dst []int64)
}

// Probe is a contiguous tensor of the shape that has no elements to read: views
// of it tell where their elements come from.
func Probe(shape []int) (*tensor.Tensor, error) {
	s := tensor.OpenStorage(int64(tensor.Numel(shape)), func() ([]byte, error) {
		return nil, errors.New("the values of a probe were read")
	})
	return tensor.NewView(s, tensor.View{DType: tensor.Uint8, Shape: slices.Clone(shape),
		Stride: tensor.Contiguous(shape)})
}

// OfView lists the elements a view of a probe shows, in the view's order.
func OfView(v *tensor.Tensor) Runs {
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
	r := Runs{Len: 1, Count: v.Numel()}
	if r.Count == 0 {
		return AtStarts(1, nil)
	}
	if k := len(dims) - 1; k >= 0 && dims[k].step == 1 && r.Count > 0 {
		r.Len = dims[k].n
		r.Count /= r.Len
		dims = dims[:k]
	}
	r.Starts = func(lo int, dst []int64) {
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

// AtStarts are runs of n elements that start at the given elements.
func AtStarts(n int, starts []int64) Runs {
	return Runs{Len: n, Count: len(starts), Starts: func(lo int, dst []int64) { copy(dst, starts[lo:]) }}
}

// Within are the runs of a view of a probe, as runs of the probe itself.
func (r Runs) Within(view *tensor.Tensor) Runs {
	if view.IsContiguous() && view.Offset == 0 {
		return r
	}
	all := OfView(view) // element by element below
	return Runs{Len: 1, Count: r.Count * r.Len, Starts: func(lo int, dst []int64) {
		var start, el [1]int64
		for i := range dst {
			k := lo + i
			r.Starts(k/r.Len, start[:])
			p := int(start[0]) + k%r.Len
			all.Starts(p/all.Len, el[:])
			dst[i] = el[0] + int64(p%all.Len)
		}
	}}
}

// Pick returns the tensor of shape made of the runs r of t.
func Pick(t *tensor.Tensor, shape []int, r Runs) *tensor.Tensor {
	switch t.DType.Kind() {
	case tensor.KindComplex:
		return pickAs[complex128](t, shape, r)
	case tensor.KindFloat:
		return pickAs[float64](t, shape, r)
	}
	return pickAs[int64](t, shape, r)
}

func pickAs[T tensor.Elem](t *tensor.Tensor, shape []int, r Runs) *tensor.Tensor {
	// Many short runs are read from an array, few or long ones one by one.
	const small, many = 1 << 24, 1 << 12
	all := sync.OnceValue(func() []T {
		if t.IsLazy() || r.Len < 32 && r.Count > many && t.Numel() <= small {
			return tensor.Data[T](t)
		}
		return nil
	})
	return tensor.Lazy(t.DType, shape, min(r.Len, 1<<13), func(lo int, dst []T) {
		first, skip := lo/r.Len, lo%r.Len
		starts := opdef.Scratch[int64]((lo+len(dst)-1)/r.Len - first + 1)
		defer opdef.Release(starts)
		r.Starts(first, *starts)
		data := all()
		if data != nil && r.Len == 1 {
			for i, s := range *starts {
				dst[i] = data[s]
			}
			return
		}
		for _, s := range *starts {
			k, from := min(r.Len-skip, len(dst)), int(s)+skip
			if data != nil {
				copy(dst[:k], data[from:])
			} else {
				tensor.Load(t, from, dst[:k])
			}
			dst, skip = dst[k:], 0
		}
	})
}

// Combine is how Put joins a new value with what is there.
type Combine uint8

const (
	Assign Combine = iota // the last write wins
	Add
	Multiply
	Minimum
	Maximum
	Mean
)

// Put returns base with the elements of src, in row-major order, written to the
// runs r. Without keep the first value written to an element replaces what base
// has there. Runs may overlap only under Assign and Add.
func Put(base, src *tensor.Tensor, r Runs, how Combine, keep bool) *tensor.Tensor {
	if r.Count == 0 || r.Len == 0 {
		return base
	}
	switch base.DType.Kind() {
	case tensor.KindComplex:
		return putAs(base, src, r, how, keep, arithmetic[complex128](how),
			func(x complex128, n int) complex128 { return x / complex(float64(n), 0) })
	case tensor.KindFloat:
		return putAs(base, src, r, how, keep, joining[float64](how),
			func(x float64, n int) float64 { return x / float64(n) })
	}
	return putAs(base, src, r, how, keep, joining[int64](how),
		func(x int64, n int) int64 { return kernel.FloorDiv(x, int64(n)) })
}

// joining is what how makes of cells and as many new values.
func joining[T int64 | float64](how Combine) func(dst, v []T) {
	switch how {
	case Minimum:
		return func(dst, v []T) {
			for i, x := range v {
				dst[i] = min(dst[i], x)
			}
		}
	case Maximum:
		return func(dst, v []T) {
			for i, x := range v {
				dst[i] = max(dst[i], x)
			}
		}
	}
	return arithmetic[T](how)
}

// arithmetic is joining of all numbers.
func arithmetic[T tensor.Elem](how Combine) func(dst, v []T) {
	if how == Multiply {
		return func(dst, v []T) {
			for i, x := range v {
				dst[i] *= x
			}
		}
	}
	return func(dst, v []T) {
		for i, x := range v {
			dst[i] += x
		}
	}
}

// putAs is Put in one compute type: join combines a cell with new values, divide
// makes a mean of a sum of n.
func putAs[T tensor.Elem](base, src *tensor.Tensor, r Runs, how Combine, keep bool, join func(dst, v []T),
	divide func(sum T, n int) T) *tensor.Tensor {
	w := &writer[T]{base: base, src: src, Runs: r, how: how, keep: keep, join: join, divide: divide, bin: base.Block()}
	if dense(r, base.Numel()) {
		all := sync.OnceValue(w.all)
		return tensor.Lazy(base.DType, base.Shape, w.bin, func(lo int, dst []T) { copy(dst, all()[lo:]) })
	}
	lists := sync.OnceValue(w.lists)
	return tensor.Lazy(base.DType, base.Shape, w.bin, func(lo int, dst []T) {
		tensor.Load(base, lo, dst)
		l := lists()
		for hi := lo + len(dst); lo < hi; {
			k := lo / w.bin
			end := min((k+1)*w.bin, hi)
			w.some(lo, dst[:end-lo], l.of[l.from[k]:l.from[k+1]])
			dst, lo = dst[end-lo:], end
		}
	})
}

// dense reports whether a list of the runs would take more memory than n elements.
func dense(r Runs, n int) bool { return 2*r.Count >= n }

// A writer carries out Put: for each element in the order of the runs.
type writer[T tensor.Elem] struct {
	base, src *tensor.Tensor
	Runs
	how    Combine
	keep   bool
	join   func(dst, v []T)
	divide func(sum T, n int) T
	bin    int // elements of base whose writes are listed together
}

// A write is one run of Put: where it goes and its number in the source.
type write struct{ to, run int }

// writes lists the runs that touch each bin of base, in order: bin k those in
// of[from[k]:from[k+1]].
type writes struct {
	from []int
	of   []write
}

func (w *writer[T]) lists() writes {
	bins := (w.base.Numel() + w.bin - 1) / w.bin
	next := tensor.Make[int](bins + 1)
	w.each(func(run int, to int) {
		for k := to / w.bin; k <= (to+w.Len-1)/w.bin; k++ {
			next[k+1]++
		}
	})
	for k := range bins {
		next[k+1] += next[k]
	}
	l := writes{from: slices.Clone(next), of: tensor.Make[write](next[bins])}
	w.each(func(run int, to int) {
		for k := to / w.bin; k <= (to+w.Len-1)/w.bin; k++ {
			l.of[next[k]] = write{to, run}
			next[k]++
		}
	})
	return l
}

// each calls f for every run and its first element.
func (w *writer[T]) each(f func(run, to int)) {
	const chunk = 1 << 13
	buf := opdef.Scratch[int64](min(chunk, w.Count))
	defer opdef.Release(buf)
	for lo := 0; lo < w.Count; lo += chunk {
		to := (*buf)[:min(chunk, w.Count-lo)]
		w.Starts(lo, to)
		for i, p := range to {
			f(lo+i, int(p))
		}
	}
}

// some applies list to dst, which holds the elements of base from lo on.
func (w *writer[T]) some(lo int, dst []T, list []write) {
	if len(list) == 0 {
		return
	}
	times := w.counts(len(dst))
	buf := opdef.Scratch[T](min(w.Len, len(dst)))
	defer opdef.Release(buf)
	for _, x := range list {
		from, end := max(x.to, lo), min(x.to+w.Len, lo+len(dst))
		if from >= end {
			continue
		}
		v := (*buf)[:end-from]
		tensor.Load(w.src, x.run*w.Len+from-x.to, v)
		w.write(dst[from-lo:end-lo], v, times, from-lo)
	}
	w.finish(dst, times)
}

// all is the whole result, in one walk of the source. Each goroutine keeps to a
// part of the result.
func (w *writer[T]) all() []T {
	if w.Len == 1 && w.how == Add && w.keep {
		return w.sums()
	}
	out := tensor.Make[T](w.base.Numel())
	times := w.counts(len(out))
	step := max(1, (1<<13)/w.Len)
	parts := runtime.GOMAXPROCS(0)
	tensor.Parallel(parts, 1, func(a, b int) {
		lo, hi := len(out)*a/parts, len(out)*b/parts
		for p := lo; p < hi; p += w.bin {
			tensor.Load(w.base, p, out[p:min(p+w.bin, hi)])
		}
		at, src := opdef.Scratch[int64](step), opdef.Scratch[T](step*w.Len)
		defer opdef.Release(at)
		defer opdef.Release(src)
		for run := 0; run < w.Count; run += step {
			to := (*at)[:min(step, w.Count-run)]
			v := (*src)[:len(to)*w.Len]
			w.Starts(run, to)
			tensor.Load(w.src, run*w.Len, v)
			for i, p := range to {
				if from, end := max(int(p), lo), min(int(p)+w.Len, hi); from < end {
					w.write(out[from:end], v[i*w.Len+from-int(p):][:end-from], times, from)
				}
			}
		}
	})
	w.finish(out, times)
	return out
}

// counts holds how often each of n elements was written, where that matters.
func (w *writer[T]) counts(n int) []int32 {
	if w.how == Mean || !w.keep && w.how != Assign {
		return tensor.Make[int32](n)
	}
	return nil
}

// write joins v with cells, whose counts are those from at on.
func (w *writer[T]) write(cells, v []T, times []int32, at int) {
	switch {
	case w.how == Assign:
		copy(cells, v)
	case times == nil:
		w.join(cells, v)
	default:
		for i := range cells {
			if times[at+i] == 0 && !w.keep {
				cells[i] = v[i]
			} else {
				w.join(cells[i:i+1], v[i:i+1])
			}
			times[at+i]++
		}
	}
}

// finish makes sums means; what was there first counts too if it is kept.
func (w *writer[T]) finish(cells []T, times []int32) {
	if w.how != Mean {
		return
	}
	for i, n := range times {
		if n == 0 {
			continue
		}
		if w.keep {
			n++
		}
		cells[i] = w.divide(cells[i], int(n))
	}
}

// ScatterAdd is the zero tensor of shape with g added at the runs r: the adjoint
// of Pick.
func ScatterAdd(shape []int, g *tensor.Tensor, r Runs) *tensor.Tensor {
	return Put(elements.Zeros(g.DType, shape), g, r, Add, true)
}

// Concat joins ts along dim; their other dimensions are equal. The elements
// are cast to dt.
func Concat(dt tensor.DType, dim int, ts ...*tensor.Tensor) *tensor.Tensor {
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
