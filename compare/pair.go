package compare

import (
	"cmp"
	"math"
	"math/cmplx"
	"slices"
	"sync"

	"github.com/optool/optool/compare/internal/vec"
	"github.com/optool/optool/tensor"
)

// relEps is the constant op_tools adds to the divisor of the relative
// difference.
const relEps = 1e-6

// span is the number of elements one set of partial results covers. Spans are
// fixed by the tensors alone and combined in order, so that results do not
// depend on the number of goroutines.
const span = 1 << 15

// A pair walks two tensors of one shape block by block. The reference side is
// rounded to the dtype of the other.
type pair struct {
	got, ref *tensor.Tensor
	dt       tensor.DType
	n        int
	block    int // elements to ask for at a time
	perSpan  int // blocks of one span
	torch    bool
	signs    bool         // whether equal blocks are looked at for their bits too
	f32      [2][]float32 // got's and ref's elements where these are stored as float32,
	f64      [2][]float64 // or as float64,
	u16      [2][]uint16  // or in 16 bits, one after the other; else nil
	measure  func(lo, n int, s *scratch) vec.Stats
}

// newPair prepares to compare got with ref under op_tools' rule with tolerance
// tol. With torchCast, ref is cast as torch casts between dtypes: float64
// reaches a 16-bit dtype through float32, rounding twice; otherwise it is
// rounded once.
func newPair(got, ref *tensor.Tensor, tol Tolerance, torchCast bool) *pair {
	p := &pair{got: got, ref: ref, dt: got.DType, n: got.Numel(), torch: torchCast}
	r := vec.Rule{Atol: tol.Atol, Rtol: tol.Rtol, Eps: relEps}
	switch p.dt {
	case tensor.Float32:
		typed(p, vec.Float32, vec.RoundFloat32, r, func(s *scratch) *[2][]float32 { return &s.f32 })
	case tensor.BFloat16:
		typed(p, vec.BFloat16, vec.RoundBFloat16, r, func(s *scratch) *[2][]uint16 { return &s.u16 })
	case tensor.Float16:
		typed(p, vec.Float16, vec.RoundFloat16, r, func(s *scratch) *[2][]uint16 { return &s.u16 })
	case tensor.Float64:
		typed(p, vec.Float64, func(dst, src []float64) { copy(dst, src) }, r,
			func(s *scratch) *[2][]float64 { return &s.f64 })
	default:
		switch p.dt.Kind() {
		case tensor.KindFloat:
			p.measure = func(lo, n int, s *scratch) vec.Stats {
				return smallFloats(p.dt, s.loadGot(p, lo, n), s.loadRounded(p, lo, n), r)
			}
		case tensor.KindComplex:
			p.measure = func(lo, n int, s *scratch) vec.Stats {
				g, h := s.loadComplex(p, lo, n)
				return complexes(p.dt.Real(), g, h, r)
			}
		default:
			p.measure = func(lo, n int, s *scratch) vec.Stats {
				if p.got == p.ref && p.got.Storage() != nil { // an input and itself
					tensor.Load(p.got, lo, resize(&s.gotI, n))
					return sameIntegers(p.dt, s.gotI)
				}
				g, h := s.loadInts(p, lo, n)
				return integers(p.dt, g, h, r)
			}
		}
	}
	p.block = max(got.Block(), ref.Block())
	p.perSpan = max(1, span/p.block)
	return p
}

// inMemoryOrder is t with its dimensions in the order in which they lie in
// memory.
func inMemoryOrder(t *tensor.Tensor) *tensor.Tensor {
	if t.Storage() == nil || t.IsContiguous() {
		return t
	}
	order := make([]int, t.Dim())
	for d := range order {
		order[d] = d
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.Stride[b], t.Stride[a]) })
	return t.Permute(order...)
}

// typed sets up p to compare blocks of T with kernel, which reads in place what
// is stored in place.
func typed[T vec.Element](p *pair, kernel func(a, b []T, r vec.Rule) vec.Stats, round func([]T, []float64), r vec.Rule,
	buf func(*scratch) *[2][]T) {
	a, b := inPlace[T](p.got, p.dt), inPlace[T](p.ref, p.dt)
	switch both := any([2][]T{a, b}).(type) {
	case [2][]float32:
		p.f32 = both
	case [2][]float64:
		p.f64 = both
	case [2][]uint16:
		p.u16 = both
	}
	p.measure = func(lo, n int, s *scratch) vec.Stats {
		x, y := a, b
		if x != nil {
			x = x[lo : lo+n]
		} else {
			x = resize(&buf(s)[0], n)
			round(x, s.loadGot(p, lo, n))
		}
		switch {
		case y != nil:
			y = y[lo : lo+n]
		case p.got == p.ref: // an input and itself
			y = x
		default:
			v := s.loadRef(p, lo, n)
			if p.torch {
				v = s.throughFloat32(p, v)
			}
			y = resize(&buf(s)[1], n)
			round(y, v)
		}
		st := kernel(x, y, r)
		s.identical = p.signs && st.Equal() && vec.Identical(x, y)
		return st
	}
}

// inPlace returns the elements of t where its storage holds them one after the
// other in dtype dt, else nil.
func inPlace[T vec.Element](t *tensor.Tensor, dt tensor.DType) []T {
	if t.Storage() == nil || t.DType != dt || !t.IsContiguous() {
		return nil
	}
	raw, err := t.Storage().Load()
	if err != nil {
		panic(&tensor.ReadError{Err: err})
	}
	n, size := t.Numel(), dt.Size()
	if n == 0 {
		return nil
	}
	v, _ := vec.View[T](raw[t.Offset*size : (t.Offset+n)*size])
	return v
}

// scratch holds the buffers of one goroutine. The blocks loaded for a range
// stay valid until next, so that a lazy reference is computed once.
type scratch struct {
	f32                   [2][]float32
	u16                   [2][]uint16
	f64                   [2][]float64
	got, ref, rounded     []float64
	gotAt, refAt, roundAt int // start of the loaded range, -1 if none
	gotI, refI            []int64
	gotC, refC            []complex128
	scale                 [whole + 1]scaleBlock
	exact                 []float64
	others                [][]float64 // blocks of Model.Else
	othersAt              int
	identical             bool // the blocks measured last are known to have the same bits
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) next() {
	s.gotAt, s.refAt, s.roundAt, s.othersAt, s.identical = -1, -1, -1, -1, false
	for kind := range s.scale {
		s.scale[kind].at = -1
	}
}

func resize[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = tensor.Make[T](n)
	}
	*buf = (*buf)[:n]
	return *buf
}

func (s *scratch) loadGot(p *pair, lo, n int) []float64 {
	if v := p.f64[0]; v != nil {
		return v[lo : lo+n]
	}
	if s.gotAt != lo {
		tensor.Load(p.got, lo, resize(&s.got, n))
		s.gotAt = lo
	}
	return s.got
}

// loadRef loads the unrounded reference.
func (s *scratch) loadRef(p *pair, lo, n int) []float64 {
	if v := p.f64[1]; v != nil {
		return v[lo : lo+n]
	}
	if s.refAt != lo {
		tensor.Load(p.ref, lo, resize(&s.ref, n))
		s.refAt = lo
	}
	return s.ref
}

// loadRounded loads the reference rounded to p's dtype.
func (s *scratch) loadRounded(p *pair, lo, n int) []float64 {
	if s.roundAt != lo {
		v := s.loadRef(p, lo, n)
		if p.torch {
			v = s.throughFloat32(p, v)
		}
		copy(resize(&s.rounded, n), v)
		tensor.RoundBlock(p.dt, s.rounded)
		s.roundAt = lo
	}
	return s.rounded
}

// throughFloat32 is the first step of torch's cast to a dtype narrower than
// float32.
func (s *scratch) throughFloat32(p *pair, v []float64) []float64 {
	if !p.dt.IsReduced() {
		return v
	}
	w := resize(&s.exact, len(v))
	copy(w, v)
	tensor.RoundBlock(tensor.Float32, w)
	return w
}

// loadComplex loads both sides, the reference rounded.
func (s *scratch) loadComplex(p *pair, lo, n int) (got, ref []complex128) {
	got, ref = resize(&s.gotC, n), resize(&s.refC, n)
	tensor.Load(p.got, lo, got)
	tensor.Load(p.ref, lo, ref)
	part := p.dt.Real()
	for i, x := range ref {
		ref[i] = complex(part.Round(real(x)), part.Round(imag(x)))
	}
	return got, ref
}

// loadInts loads both sides, the reference cast to p's dtype.
func (s *scratch) loadInts(p *pair, lo, n int) (got, ref []int64) {
	got, ref = resize(&s.gotI, n), resize(&s.refI, n)
	tensor.Load(p.got, lo, got)
	switch {
	case p.dt == tensor.Bool && (p.ref.DType.IsFloat() || p.ref.DType.IsComplex()):
		v := resize(&s.gotC, n)
		tensor.Load(p.ref, lo, v)
		for i, x := range v {
			ref[i] = 0
			if x != 0 {
				ref[i] = 1
			}
		}
	default:
		tensor.Load(p.ref, lo, ref)
		if p.ref.DType != p.dt || p.ref.Storage() == nil {
			for i, x := range ref {
				ref[i] = tensor.WrapInt(p.dt, x)
			}
		}
	}
	return got, ref
}

// walk calls f for each span of p, in parallel, with the blocks of the span.
func (p *pair) walk(f func(k int, blocks func(yield func(lo, n int, s *scratch)))) {
	each := p.block * p.perSpan
	spans := p.spans()
	tensor.Parallel(spans, 1, func(a, b int) {
		s := scratches.Get().(*scratch)
		defer scratches.Put(s)
		for k := a; k < b; k++ {
			f(k, func(yield func(lo, n int, s *scratch)) {
				end := min((k+1)*each, p.n)
				for lo := k * each; lo < end; lo += p.block {
					s.next()
					yield(lo, min(p.block, end-lo), s)
				}
			})
		}
	})
}

func (p *pair) spans() int {
	each := p.block * p.perSpan
	return (p.n + each - 1) / each
}

// total measures the whole pair.
func (p *pair) total() vec.Stats {
	parts := make([]vec.Stats, p.spans())
	p.walk(func(k int, blocks func(func(lo, n int, s *scratch))) {
		blocks(func(lo, n int, s *scratch) {
			st := p.measure(lo, n, s)
			parts[k].Add(&st)
		})
	})
	var sum vec.Stats
	for i := range parts {
		sum.Add(&parts[i])
	}
	return sum
}

// smallFloats is the comparison for the 8-bit dtypes. torch has no arithmetic
// for them; the numbers are those of the values as float32.
func smallFloats(dt tensor.DType, a, b []float64, r vec.Rule) vec.Stats {
	var s vec.Stats
	round := tensor.Float32.Round
	atol, rtol, eps := round(r.Atol), round(r.Rtol), round(r.Eps)
	for i, x := range a {
		y := b[i]
		t := vec.Stats{N: 1, Dot: x * y, AA: x * x, BB: y * y, NonZero: x != 0 || y != 0}
		d := math.Abs(round(x - y))
		t.MaxAbs, t.MaxRel = d, round(d/round(math.Abs(x)+eps))
		if !(x == y || x != x && y != y || !math.IsInf(d, 0) && d <= round(atol+round(rtol*math.Abs(y)))) {
			t.NotClose = 1
		}
		special(&t, x, y)
		if x == x && y == y {
			t.MaxULP = uint64(ulps(dt, x, y))
		}
		s.Add(&t)
	}
	return s
}

// special tallies NaN and Inf of one pair of elements.
func special(s *vec.Stats, x, y float64) {
	s.NaNA += count(x != x)
	s.NaNB += count(y != y)
	s.InfA += count(math.IsInf(x, 0))
	s.InfB += count(math.IsInf(y, 0))
	if (x != x) != (y != y) {
		s.Unlike = 1
	}
	if s.NaNA+s.NaNB+s.InfA+s.InfB > 0 {
		s.Dot = math.NaN()
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// complexes compares complex elements whose parts are of dtype part. The
// distance in ULP is the larger one of the parts, in units of the modulus.
func complexes(part tensor.DType, a, b []complex128, r vec.Rule) vec.Stats {
	var s vec.Stats
	round := part.Round
	atol, rtol, eps := round(r.Atol), round(r.Rtol), round(r.Eps)
	for i, x := range a {
		y := b[i]
		fx, fy := float64(float32(real(x))), float64(float32(real(y)))
		t := vec.Stats{N: 1, Dot: fx * fy, AA: fx * fx, BB: fy * fy, NonZero: x != 0 || y != 0}
		dz := complex(round(real(x)-real(y)), round(imag(x)-imag(y)))
		d := round(modulus(dz))
		t.MaxAbs, t.MaxRel = d, round(d/round(round(modulus(x))+eps))
		close := x == y || nan(x) && nan(y) || !math.IsInf(d, 0) && d <= round(atol+round(rtol*round(modulus(y))))
		t.NotClose = count(!close)
		t.NaNA, t.NaNB = count(nan(x)), count(nan(y))
		t.InfA, t.InfB = count(cmplx.IsInf(x) && !nan(x)), count(cmplx.IsInf(y) && !nan(y))
		t.Unlike = count(nan(x) != nan(y))
		if x != y && !nan(x) && !nan(y) {
			t.MaxULP = uint64(math.Min(complexULPs(part, x, y), math.MaxInt64))
		}
		if math.IsNaN(fx) || math.IsInf(fx, 0) || math.IsNaN(fy) || math.IsInf(fy, 0) {
			t.Dot = math.NaN()
		}
		s.Add(&t)
	}
	return s
}

// nan reports whether a part of x is NaN, torch's rule for complex numbers.
func nan(x complex128) bool { return math.IsNaN(real(x)) || math.IsNaN(imag(x)) }

// modulus is |x|, NaN if a part is NaN and none is infinite.
func modulus(x complex128) float64 { return math.Hypot(real(x), imag(x)) }

// complexULPs is the distance of x from y in units in the last place of |y|,
// rounded up.
func complexULPs(part tensor.DType, x, y complex128) float64 {
	d := math.Max(math.Abs(real(x)-real(y)), math.Abs(imag(x)-imag(y)))
	return math.Ceil(d / part.ULP(modulus(y)))
}

// single is an integer as float32.
func single(dt tensor.DType, v int64) float32 {
	if dt == tensor.Uint64 {
		return float32(uint64(v))
	}
	return float32(v)
}

// sameIntegers is integers of elements and themselves. The sums, which are one, are added up in four parts.
func sameIntegers(dt tensor.DType, a []int64) vec.Stats {
	var sums [4]float64
	any, n := int64(0), len(a)&^3
	for i := 0; i < n; i += 4 {
		for k, v := range a[i : i+4] {
			x := float64(single(dt, v))
			sums[k] += x * x
			any |= v
		}
	}
	for _, v := range a[n:] {
		x := float64(single(dt, v))
		sums[0] += x * x
		any |= v
	}
	sum := (sums[0] + sums[1]) + (sums[2] + sums[3])
	return vec.Stats{N: len(a), Dot: sum, AA: sum, BB: sum, NonZero: any != 0}
}

// integers compares integer or bool elements: differences wrap in the dtype,
// quotients and bounds are float32.
func integers(dt tensor.DType, a, b []int64, r vec.Rule) vec.Stats {
	if len(a) == 0 {
		return vec.Stats{}
	}
	s := vec.Stats{N: len(a), MaxAbs: math.Inf(-1), MaxRel: math.Inf(-1)}
	wrap := func(v int64) int64 {
		if dt == tensor.Bool {
			return v
		}
		return tensor.WrapInt(dt, v)
	}
	float := func(v int64) float32 { return single(dt, v) }
	magnitude := func(v int64) int64 {
		if v < 0 && !dt.IsUnsigned() || dt == tensor.Bool && v < 0 {
			return wrap(-v)
		}
		return v
	}
	atol, rtol, eps := float32(r.Atol), float32(r.Rtol), float32(r.Eps)
	any, equal := int64(0), false
	for i, x := range a {
		y := b[i]
		any |= x | y
		fx := float(x)
		if x == y {
			equal = true
			square := float64(fx) * float64(fx)
			s.Dot += square
			s.AA += square
			s.BB += square
			continue
		}
		fy := float(y)
		s.MaxULP = 1
		if !(float32(math.Abs(float64(fx-fy))) <= atol+float32(rtol*float32(math.Abs(float64(fy))))) {
			s.NotClose++
		}
		d := magnitude(wrap(x - y))
		if dt == tensor.Uint64 {
			s.MaxAbs = math.Max(s.MaxAbs, float64(uint64(d)))
		} else {
			s.MaxAbs = math.Max(s.MaxAbs, float64(d))
		}
		s.MaxRel = math.Max(s.MaxRel, float64(float(d)/(float(magnitude(x))+eps)))
		s.Dot += float64(fx) * float64(fy)
		s.AA += float64(fx) * float64(fx)
		s.BB += float64(fy) * float64(fy)
	}
	if equal {
		s.MaxAbs, s.MaxRel = math.Max(s.MaxAbs, 0), math.Max(s.MaxRel, 0)
	}
	s.NonZero = any != 0
	return s
}
