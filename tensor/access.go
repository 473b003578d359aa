package tensor

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/internal/quota"
)

// blockLen is the number of elements computed or converted at a time: 64 KiB
// of float64, small enough for L1+L2, large enough to hide the call.
const blockLen = 8192

// A lazy computes blocks of a contiguous tensor on demand.
type lazy struct {
	numel int
	grain int // blocks start and end at multiples of grain (or at numel)
	f     func(lo int, dst []float64)
	i     func(lo int, dst []int64)
	c     func(lo int, dst []complex128)

	once sync.Once
	full backing

	all    func() backing // all elements, if they are cheaper together (Deferred)
	costly func() bool    // see Costly; nil: never
}

// Lazy returns a contiguous tensor of shape whose elements fill computes on demand: fill(lo, dst) stores elements lo ..
// lo+len(dst) in row-major order. Several goroutines call fill at once, and it must not keep dst. grain is the number
// of consecutive elements that are cheapest computed together, such as the length of a row (softmax). fill may be asked
// for any range, but Blocks asks for multiples of grain. The elements are not rounded to dt.
func Lazy[T Elem](dt DType, shape []int, grain int, fill func(lo int, dst []T)) *Tensor {
	l := &lazy{numel: Numel(shape), grain: max(grain, 1)}
	switch f := any(fill).(type) {
	case func(int, []float64):
		l.f = f
	case func(int, []int64):
		l.i = f
	case func(int, []complex128):
		l.c = f
	}
	return &Tensor{DType: dt, Shape: slices.Clone(shape), Stride: Contiguous(shape), back: backing{lazy: l}}
}

// LazyOf is Lazy for elements that are computed from those of operands of the same shape at the
// same place: what is cheapest read together of them is cheapest computed together.
func LazyOf[T Elem](dt DType, shape []int, fill func(lo int, dst []T), operands ...*Tensor) *Tensor {
	grain := 1
	var costly []func() bool
	for _, t := range operands {
		grain = max(grain, t.Grain())
		if l := t.back.lazy; l != nil && l.costly != nil {
			costly = append(costly, l.costly)
		}
	}
	t := Lazy(dt, shape, grain, fill)
	if costly != nil {
		t.back.lazy.costly = func() bool {
			return slices.ContainsFunc(costly, func(is func() bool) bool { return is() })
		}
	}
	return t
}

// The fewest elements of a Deferred tensor that are asked for at once for all to be computed, and the
// size from which any are computed one by one.
const (
	manyDeferred  = 16
	leastDeferred = 1 << 14
)

// Deferred returns a contiguous tensor of shape whose elements cost far less together than one by one, such as a
// product of matrices. all computes them in row-major order, at most once. one computes the element at an index. It is
// called for few elements, and its value may differ from that of all in the last bits. So who needs the same bits each
// time asks for all elements. Any goroutine may call both.
func Deferred[T Elem](few int, dt DType, shape []int, all func() []T, one func(at int) T) *Tensor {
	var singly atomic.Pointer[func(int) T] // nil once all are known: what it needs is let go
	if Numel(shape) >= leastDeferred {
		singly.Store(&one)
	}
	var computed atomic.Bool
	known := sync.OnceValue(func() []T {
		x := all()
		singly.Store(nil)
		computed.Store(true)
		return x
	})
	left := new(atomic.Int64)
	left.Store(int64(few))
	t := Lazy(dt, shape, 1, func(lo int, dst []T) {
		if one := singly.Load(); one != nil && len(dst) < manyDeferred && left.Add(-int64(len(dst))) >= 0 {
			for i := range dst {
				dst[i] = (*one)(lo + i)
			}
			return
		}
		copy(dst, known()[lo:])
	})
	t.back.lazy.costly = func() bool { return !computed.Load() }
	t.back.lazy.all = func() (b backing) {
		switch x := any(known()).(type) {
		case []float64:
			b.f = x
		case []int64:
			b.i = x
		case []complex128:
			b.c = x
		}
		return b
	}
	return t
}

// Costly reports whether few elements are cheapest asked for one by one, and many all together. It is true of a
// Deferred tensor until all its elements are computed, and of a tensor made of one.
func (t *Tensor) Costly() bool {
	return t.back.lazy != nil && t.back.lazy.costly != nil && t.back.lazy.costly()
}

func (l *lazy) materialize() backing {
	if l.all != nil {
		return l.all()
	}
	l.once.Do(func() {
		switch {
		case l.f != nil:
			l.full.f = Make[float64](l.numel)
			parallelBlocks(l.numel, l.grain, func(lo, hi int) { l.f(lo, l.full.f[lo:hi]) })
		case l.i != nil:
			l.full.i = Make[int64](l.numel)
			parallelBlocks(l.numel, l.grain, func(lo, hi int) { l.i(lo, l.full.i[lo:hi]) })
		default:
			l.full.c = Make[complex128](l.numel)
			parallelBlocks(l.numel, l.grain, func(lo, hi int) { l.c(lo, l.full.c[lo:hi]) })
		}
	})
	return l.full
}

// parallelBlocks calls f over [0, n) in blocks of about blockLen elements that
// respect grain.
func parallelBlocks(n, grain int, f func(lo, hi int)) {
	step := blockSize(grain)
	Parallel((n+step-1)/step, 1, func(a, b int) {
		for k := a; k < b; k++ {
			quota.Check()
			f(k*step, min((k+1)*step, n))
		}
	})
}

func blockSize(grain int) int { return (blockLen + grain - 1) / grain * grain }

// Block is the number of elements to ask t for at a time, so that each request
// is cheap: about 8192, a multiple of the grain of a lazy tensor; of a
// transposed tensor the rows that share cache lines.
func (t *Tensor) Block() int {
	if t.back.lazy != nil {
		return blockSize(t.back.lazy.grain)
	}
	shape, stride := coalesce(t.Shape, t.Stride)
	if rows := t.sharing(shape, stride); rows > 1 {
		return max(blockLen, min(rows, maxBlock/shape[len(shape)-1])*shape[len(shape)-1])
	}
	return blockLen
}

// Grain is the number of consecutive elements that are cheapest read together:
// what Lazy was given, of a transposed tensor the rows that share cache lines.
func (t *Tensor) Grain() int {
	if t.back.lazy != nil {
		return t.back.lazy.grain
	}
	if n := t.Block(); n != blockLen {
		return n
	}
	return 1
}

// maxBlock is the largest number of elements Block asks for to have rows
// together that share cache lines.
const maxBlock = 1 << 18

// lineBytes is the size of a cache line, or a small multiple of it.
const lineBytes = 64

// sharing is the number of consecutive rows of t, whose shape and strides have
// been coalesced, that are read from the same cache lines: more than 1 if the
// elements of a row are far apart and those of a column are next to each other.
func (t *Tensor) sharing(shape, stride []int) int {
	k := len(shape) - 2
	if k < 0 || stride[k] < 1 || shape[k+1] == 0 {
		return 1
	}
	near, far := stride[k]*t.elementBytes(), stride[k+1]*t.elementBytes()
	if far < lineBytes || 2*near > lineBytes {
		return 1
	}
	return min(tileRows, shape[k], lineBytes/near)
}

// elementBytes is the distance of neighbouring elements of the backing.
func (t *Tensor) elementBytes() int {
	switch {
	case t.back.stored != nil:
		return t.DType.Size()
	case t.back.c != nil:
		return 16
	}
	return 8
}

// mostAtOnce is how many elements are loaded until it is asked again whether computing is stopped.
const mostAtOnce = 1 << 22

// Load stores elements lo .. lo+len(dst) of t, in row-major order of its
// shape, into dst, converting to T: exactly where T is the dtype's compute
// type, as torch casts otherwise (complex to real drops the imaginary part,
// float to int truncates).
//
// It panics with a *ReadError if the storage cannot be read.
func Load[T Elem](t *Tensor, lo int, dst []T) {
	if len(dst) == 0 {
		return
	}
	quota.Check()
	if l := t.back.lazy; l != nil {
		l.load(lo, dst)
		return
	}
	for len(dst) > mostAtOnce {
		Load(t, lo, dst[:mostAtOnce])
		lo, dst = lo+mostAtOnce, dst[mostAtOnce:]
	}
	if t.back.stored != nil {
		if !t.DType.Computable() {
			panic(fmt.Sprintf("tensor: no values can be read from dtype %s", t.DType))
		}
		raw, size := t.back.stored.mustLoad(), t.DType.Size()
		c := &dtypes[t.DType].codec
		forward(t, lo, dst, func(dst []T, off, step int) {
			switch d := any(dst).(type) {
			case []float64:
				c.loadFloat(d, raw[off*size:], step)
			case []int64:
				c.loadInt(d, raw[off*size:], step)
			case []complex128:
				c.loadComplex(d, raw[off*size:], step)
			}
		})
		return
	}
	unsigned64 := t.DType == Uint64
	forward(t, lo, dst, func(out []T, off, step int) {
		switch {
		case t.back.f != nil:
			gather(out, t.back.f[off:], step, fromFloat[T])
		case t.back.i != nil && unsigned64:
			gather(out, t.back.i[off:], step, fromUint[T])
		case t.back.i != nil:
			if d, ok := any(out).([]float64); ok {
				widen(d, t.back.i[off:], step)
				return
			}
			gather(out, t.back.i[off:], step, fromInt[T])
		default:
			gather(out, t.back.c[off:], step, fromComplex[T])
		}
	})
}

// The tile in which rows that share cache lines are read.
const (
	tileRows = 32
	tileCols = 16
)

// forward calls read for the runs of elements [lo, lo+len(dst)): read stores
// elements off, off+step, ... of the backing. step is never negative: a run
// that goes backwards is read forwards, then reversed.
func forward[T Elem](t *Tensor, lo int, dst []T, read func(dst []T, off, step int)) {
	if t.IsContiguous() {
		read(dst, t.Offset+lo, 1)
		return
	}
	var tile []T
	t.runs(lo, lo+len(dst), true, func(r run) {
		out := dst[r.at : r.at+r.n]
		switch {
		case r.rows > 1:
			if tile == nil {
				tile = make([]T, tileRows*tileCols)
			}
			transpose(dst[r.at:], r, tile, read)
		case r.step >= 0:
			read(out, r.off, r.step)
		default:
			read(out, r.off+(r.n-1)*r.step, -r.step)
			slices.Reverse(out)
		}
	})
}

// transpose reads the rows of r column by column, a tile at a time.
func transpose[T Elem](dst []T, r run, tile []T, read func(dst []T, off, step int)) {
	for c := 0; c < r.n; c += tileCols {
		w := min(tileCols, r.n-c)
		for j := range w {
			read(tile[j*r.rows:(j+1)*r.rows], r.off+(c+j)*r.step, r.rowStep)
		}
		for i := range r.rows {
			row := dst[i*r.n+c : i*r.n+c+w]
			for j := range row {
				row[j] = tile[j*r.rows+i]
			}
		}
	}
}

// load computes a block straight into dst if that is of the lazy tensor's own
// compute type; a block of another type is computed into scratch, converted.
func (l *lazy) load(lo int, dst any) {
	switch d := dst.(type) {
	case []float64:
		if l.f != nil {
			l.f(lo, d)
			return
		}
	case []int64:
		if l.i != nil {
			l.i(lo, d)
			return
		}
	case []complex128:
		if l.c != nil {
			l.c(lo, d)
			return
		}
	}
	n := lenOf(dst)
	switch {
	case l.f != nil:
		tmp := make([]float64, n)
		l.f(lo, tmp)
		convert(dst, tmp, fromFloat[float64], fromFloat[int64], fromFloat[complex128])
	case l.i != nil:
		tmp := make([]int64, n)
		l.i(lo, tmp)
		if d, ok := dst.([]float64); ok {
			widen(d, tmp, 1)
			return
		}
		convert(dst, tmp, fromInt[float64], fromInt[int64], fromInt[complex128])
	default:
		tmp := make([]complex128, n)
		l.c(lo, tmp)
		convert(dst, tmp, fromComplex[float64], fromComplex[int64], fromComplex[complex128])
	}
}

func lenOf(dst any) int {
	switch d := dst.(type) {
	case []float64:
		return len(d)
	case []int64:
		return len(d)
	case []complex128:
		return len(d)
	}
	return 0
}

func convert[S Elem](dst any, src []S, f func(S) float64, i func(S) int64, c func(S) complex128) {
	switch d := dst.(type) {
	case []float64:
		gather(d, src, 1, f)
	case []int64:
		gather(d, src, 1, i)
	case []complex128:
		gather(d, src, 1, c)
	}
}

func gather[T, S Elem](dst []T, src []S, step int, conv func(S) T) {
	if step == 0 && len(dst) > 0 {
		fill(dst, conv(src[0]))
		return
	}
	if same, ok := any(src).([]T); ok {
		if step == 1 {
			copy(dst, same)
			return
		}
		for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
			dst[i] = same[p]
		}
		return
	}
	for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
		dst[i] = conv(src[p])
	}
}

// widen is gather of integers as floats, which masks are read as.
func widen(dst []float64, src []int64, step int) {
	for i, p := 0, 0; i < len(dst); i, p = i+1, p+step {
		dst[i] = float64(src[p])
	}
}

func fromFloat[T Elem](x float64) (r T) {
	switch p := any(&r).(type) {
	case *float64:
		*p = x
	case *int64:
		*p = FloatToInt(x)
	case *complex128:
		*p = complex(x, 0)
	}
	return r
}

func fromInt[T Elem](x int64) (r T) {
	switch p := any(&r).(type) {
	case *float64:
		*p = float64(x)
	case *int64:
		*p = x
	case *complex128:
		*p = complex(float64(x), 0)
	}
	return r
}

func fromUint[T Elem](x int64) (r T) {
	switch p := any(&r).(type) {
	case *float64:
		*p = float64(uint64(x))
	case *int64:
		*p = x
	case *complex128:
		*p = complex(float64(uint64(x)), 0)
	}
	return r
}

func fromComplex[T Elem](x complex128) (r T) {
	switch p := any(&r).(type) {
	case *float64:
		*p = real(x)
	case *int64:
		*p = FloatToInt(real(x))
	case *complex128:
		*p = x
	}
	return r
}

// A run is n elements of a tensor that follow each other in row-major order and
// lie step apart in the backing, from element off on; they are wanted at
// position at. If rows is more than 1, so many whole rows of n elements follow
// each other, rowStep apart.
type run struct{ at, off, step, n, rows, rowStep int }

// runs splits elements [lo, hi) in row-major order into runs along the
// innermost dimension (merged with outer ones where the strides allow) and
// calls f for each; if together, at once for rows that share cache lines.
func (t *Tensor) runs(lo, hi int, together bool, f func(run)) {
	shape, stride := coalesce(t.Shape, t.Stride)
	if len(shape) == 0 {
		f(run{off: t.Offset, n: hi - lo, rows: 1})
		return
	}
	most := 1
	if together {
		most = t.sharing(shape, stride)
	}
	inner := len(shape) - 1
	n, step := shape[inner], stride[inner]
	idx := append(make([]int, 0, usualDims), shape[:inner]...)
	row := lo / n
	off := t.Offset
	for d := inner - 1; d >= 0; d-- {
		idx[d] = row % shape[d]
		row /= shape[d]
		off += idx[d] * stride[d]
	}
	at, col := 0, lo%n
	for at < hi-lo {
		r := run{at: at, off: off + col*step, step: step, n: min(n-col, hi-lo-at), rows: 1}
		if most > 1 && col == 0 {
			r.rows = max(1, min(most, shape[inner-1]-idx[inner-1], (hi-lo-at)/n))
			r.rowStep = stride[inner-1]
		}
		f(r)
		at, col = at+r.rows*r.n, 0
		for d, by := inner-1, r.rows; d >= 0; d, by = d-1, 1 {
			idx[d] += by
			off += by * stride[d]
			if idx[d] < shape[d] {
				break
			}
			off -= shape[d] * stride[d]
			idx[d] = 0
		}
	}
}

// usualDims is the number of dimensions up to which loading takes no memory from
// the heap.
const usualDims = 8

// coalesce drops dimensions of size 1 and merges neighbours that are laid out
// as one.
func coalesce(shape, stride []int) ([]int, []int) {
	sh, st := make([]int, 0, usualDims), make([]int, 0, usualDims)
	for i, n := range shape {
		if n == 1 {
			continue
		}
		if k := len(sh) - 1; k >= 0 && st[k] == n*stride[i] {
			sh[k] *= n
			st[k] = stride[i]
			continue
		}
		sh, st = append(sh, n), append(st, stride[i])
	}
	return sh, st
}

// Data returns all elements of t in row-major order as compute type T. The
// slice may be t's own backing: it must not be written.
//
// It panics with a *ReadError if the storage cannot be read.
func Data[T Elem](t *Tensor) []T {
	n := t.Numel()
	if n == 0 { // the offset of a view without elements may be anywhere
		return []T{}
	}
	b := t.solid()
	if t.IsContiguous() {
		if own := ownSlice[T](b); own != nil {
			return own[t.Offset : t.Offset+n]
		}
	}
	out := Make[T](n)
	solid := *t
	solid.back = b
	parallelBlocks(n, solid.Block(), func(lo, hi int) { Load(&solid, lo, out[lo:hi]) })
	return out
}

func ownSlice[T Elem](b backing) []T {
	var r any
	var zero T
	switch any(zero).(type) {
	case float64:
		r = b.f
	case int64:
		r = b.i
	case complex128:
		r = b.c
	}
	return r.([]T)
}

// At returns element i of t in row-major order.
func At[T Elem](t *Tensor, i int) T {
	var one [1]T
	Load(t, i, one[:])
	return one[0]
}

// Item returns the single element of a one-element tensor as float64.
func (t *Tensor) Item() float64 { return At[float64](t, 0) }

// AppendBytes appends the elements of t in row-major order, encoded in its
// dtype (rounded once if t is computed), to b.
func (t *Tensor) AppendBytes(b []byte) []byte {
	n, size := t.Numel(), t.DType.Size()
	if n == 0 {
		return b
	}
	if cap(b)-len(b) < n*size {
		b = append(Make[byte](len(b) + n*size)[:0], b...)
	}
	if s := t.back.stored; s != nil {
		raw := s.mustLoad()
		t.runs(0, n, false, func(r run) {
			if r.step == 1 {
				b = append(b, raw[r.off*size:(r.off+r.n)*size]...)
				return
			}
			for j := range r.n {
				p := (r.off + j*r.step) * size
				b = append(b, raw[p:p+size]...)
			}
		})
		return b
	}
	at := len(b)
	b = b[:at+n*size]
	out := b[at:]
	c := &dtypes[t.DType].codec
	step := t.Block()
	Parallel((n+step-1)/step, 1, func(x, y int) {
		switch t.DType.Kind() {
		case KindFloat:
			encode(t, out, x, y, step, c.storeFloat)
		case KindComplex:
			encode(t, out, x, y, step, c.storeComplex)
		default:
			encode(t, out, x, y, step, c.storeInt)
		}
	})
	return b
}

// encode stores blocks a to b-1, of step elements each, of t in out.
func encode[T Elem](t *Tensor, out []byte, a, b, step int, store func(dst []byte, src []T)) {
	n, size := t.Numel(), t.DType.Size()
	buf := make([]T, min(step, n))
	for k := a; k < b; k++ {
		lo, hi := k*step, min((k+1)*step, n)
		Load(t, lo, buf[:hi-lo])
		store(out[lo*size:hi*size], buf[:hi-lo])
	}
}

// Rounded returns t rounded once to its dtype, as a stored tensor: what a
// file would hold. A stored tensor is returned as it is.
func (t *Tensor) Rounded() *Tensor {
	if t.back.stored != nil {
		return t
	}
	u := *t
	u.Stride, u.Offset = Contiguous(t.Shape), 0
	u.back = backing{stored: NewStorage(t.AppendBytes(nil))}
	return &u
}

// RoundBlock rounds v in place, once, to dt: floats to dt's grid, with dt's
// overflow rule.
func RoundBlock(dt DType, v []float64) {
	f := &dtypes[dt].format
	switch {
	case dt.Real() == Float64:
	case dt.Real() == Float32:
		vmath.Round32(v)
	case f.negZero:
		vmath.Round(v, vmath.Format{Mant: f.mant, Emin: f.emin, Max: f.max, Overflow: f.overflow}, f.round)
	default:
		for i, x := range v {
			v[i] = f.round(x)
		}
	}
}

// WrapInt reduces v to the range of integer dtype dt as a C cast does
// (int8(128) is -128); for bool, non-zero is 1.
func WrapInt(dt DType, v int64) int64 {
	switch dt {
	case Bool:
		if v != 0 {
			return 1
		}
		return 0
	case Int8:
		return int64(int8(v))
	case Uint8:
		return int64(uint8(v))
	case Int16:
		return int64(int16(v))
	case Uint16:
		return int64(uint16(v))
	case Int32:
		return int64(int32(v))
	case Uint32:
		return int64(uint32(v))
	}
	return v
}
