package step

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"

	"github.com/optool/optool/tensor"
)

// A fingerprint tells whether two tensors have the same elements, and roughly
// how many of them are the same, without reading them again.
type fingerprint struct {
	sum   uint64 // of the elements in row-major order
	block uint64 // of the memory they lie in, if they fill it without gaps; else 0
	// samples are elements at fixed places of the row-major order, as bits.
	samples []uint64
	// plain: all elements are equal, so that other tensors are like it by chance.
	plain bool
}

// sampled is how many elements are kept: enough to see that a twentieth of
// two tensors is equal.
const sampled = 64

var seed = maphash.MakeSeed()

// newFingerprint reads t once. It panics with a *tensor.ReadError if t cannot be read.
func newFingerprint(t *tensor.Tensor) fingerprint {
	if s := t.Summary(); s != nil {
		return summaryFingerprint(s)
	}
	if t.IsLazy() { // elements are taken one by one
		t = solid(t)
	}
	var f fingerprint
	var raw []byte
	size := t.DType.Size()
	stored := t.Storage() != nil
	n := t.Numel()
	if stored && n > 0 { // the offset of an empty tensor may lie anywhere
		b, err := t.Storage().Load()
		if err != nil {
			panic(&tensor.ReadError{Err: err})
		}
		raw = b
	}
	switch {
	case n == 0:
	case stored && t.IsContiguous():
		f.sum = maphash.Bytes(seed, raw[t.Offset*size:][:n*size])
		f.block = f.sum
	default:
		f.sum = hashElements(t)
		if stored && dense(t.Shape, t.Stride) {
			f.block = maphash.Bytes(seed, raw[t.Offset*size:][:n*size])
		} else if !stored {
			f.block = f.sum
		}
	}
	f.sample(t, raw)
	return f
}

// hashElements hashes the elements of t in row-major order. Of an expanded tensor
// that is larger than most files, only those that differ are read.
func hashElements(t *tensor.Tensor) uint64 {
	const large = 64 << 20
	if s := t.Storage(); s != nil && t.Bytes() > max(large, s.Len()) {
		u := *t
		u.Shape = slices.Clone(t.Shape)
		for d, n := range u.Stride {
			if n == 0 && u.Shape[d] > 1 {
				u.Shape[d] = 1
			}
		}
		if u.Bytes() < t.Bytes() {
			t = &u
		}
	}
	var h maphash.Hash
	h.SetSeed(seed)
	var write func(t *tensor.Tensor)
	write = func(t *tensor.Tensor) {
		if t.Bytes() <= large || t.Dim() == 0 {
			h.Write(t.AppendBytes(nil))
			return
		}
		for i := range t.Shape[0] {
			write(t.Select(0, i))
		}
	}
	write(t)
	return h.Sum64()
}

// sample keeps elements of t. raw is its storage, nil if it has none.
func (f *fingerprint) sample(t *tensor.Tensor, raw []byte) {
	n := t.Numel()
	if n == 0 {
		return
	}
	f.samples = make([]uint64, 0, min(n, sampled))
	one := *t
	one.Shape, one.Stride = []int{1}, []int{1}
	size := t.DType.Size()
	var element []byte
	for k := range min(n, sampled) {
		i, at := place(k, n), t.Offset
		for d := t.Dim() - 1; d >= 0; d-- {
			at += i % t.Shape[d] * t.Stride[d]
			i /= t.Shape[d]
		}
		if raw != nil {
			element = raw[at*size : (at+1)*size]
		} else {
			one.Offset = at
			element = one.AppendBytes(element[:0])
		}
		f.samples = append(f.samples, bitsOf(t.DType, element))
	}
	f.plain = !slices.ContainsFunc(f.samples, func(x uint64) bool { return x != f.samples[0] })
}

// bitsOf is an element as bits; those of -0 are those of 0, which is the same number.
func bitsOf(dt tensor.DType, element []byte) (word uint64) {
	for _, b := range slices.Backward(element[:min(len(element), 16)]) {
		word = word<<8 ^ uint64(b)
	}
	if dt.IsFloat() && word&(word-1) == 0 && dt.Number(word) == 0 {
		return 0
	}
	return word
}

// zero reports whether all samples are zero.
func (f *fingerprint) zero() bool { return f.plain && f.samples[0] == 0 }

// place is where sample k of n elements is taken: somewhere in the k-th of as many parts. Evenly spaced
// places would be the diagonal of a square matrix, which is the same after a transpose.
func place(k, n int) int {
	if n <= sampled {
		return k
	}
	hi, lo := bits.Mul64(uint64(k), uint64(n))
	begin, _ := bits.Div64(hi, lo, sampled)
	hi, lo = bits.Mul64(uint64(k+1), uint64(n))
	end, _ := bits.Div64(hi, lo, sampled)
	return int(begin + scramble(uint64(k))%(end-begin))
}

// scramble is the k-th number of the SplitMix64 generator (Steele, Lea, Flood 2014).
func scramble(k uint64) uint64 {
	z := (k + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// dense reports whether a geometry fills its memory without gaps or overlaps.
func dense(shape, stride []int) bool {
	order := byStride(shape, stride)
	next := 1
	for _, d := range slices.Backward(order) {
		if shape[d] == 1 {
			continue
		}
		if stride[d] != next {
			return false
		}
		next *= shape[d]
	}
	return true
}

// byStride lists the dimensions from the one with the largest stride to that with
// the smallest: the order in which memory holds them.
func byStride(shape, stride []int) []int {
	order := make([]int, len(shape))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return stride[b] - stride[a] })
	return order
}

// alike is how the samples of both agree, zeros and NaN left out.
func (f *fingerprint) alike(g *fingerprint, dt tensor.DType) (a agreement) {
	if len(f.samples) != len(g.samples) {
		return a
	}
	for i, x := range f.samples {
		y := g.samples[i]
		if x == y && (x == 0 || isNaN(dt, x)) {
			continue
		}
		a.add(x, y)
	}
	return a
}

// mayShare reports whether so large a share of the samples of both may be equal, zeros left out. It is much faster than
// alike, and right where it says no.
func (f *fingerprint) mayShare(g *fingerprint, share float64) bool {
	if len(f.samples) != len(g.samples) {
		return false
	}
	same, n := 0, 0
	for i, x := range f.samples {
		if y := g.samples[i]; x != y {
			n++
		} else if x != 0 {
			same, n = same+1, n+1
		}
	}
	return same > 0 && float64(same) >= share*float64(n-same)
}

// An agreement counts pairs of elements that are equal.
type agreement struct {
	n, same int
	pairs   [][2]uint64
}

func (a *agreement) add(x, y uint64) {
	if a.pairs == nil {
		a.pairs = make([][2]uint64, 0, sampled)
	}
	a.n++
	if x == y {
		a.same++
	}
	a.pairs = append(a.pairs, [2]uint64{x, y})
}

// share is that of the equal pairs.
func (a *agreement) share() float64 { return float64(a.same) / float64(max(1, a.n)) }

// beyondChance is the share of the equal pairs beyond what pairs drawn at random from both sides would have, of what is
// possible beyond that: Cohen's kappa (Educational and Psychological Measurement 20, 1960). Elements of a few values,
// as the smallest of float16 are, are equal by chance.
func (a *agreement) beyondChance() float64 {
	if a.n == 0 {
		return 0
	}
	counts := map[uint64][2]float64{} // of values, on both sides
	for _, pair := range a.pairs {
		for side, x := range pair {
			of := counts[x]
			of[side]++
			counts[x] = of
		}
	}
	n, chance := float64(a.n), 0.0
	for _, of := range counts {
		chance += of[0] / n * of[1] / n
	}
	if chance >= 1 {
		return 0
	}
	return max(0, (float64(a.same)/n-chance)/(1-chance))
}

// near reports whether most samples of two fingerprints of a dtype differ by
// rounding at most.
func (f *fingerprint) near(g *fingerprint, dt tensor.DType) bool {
	if len(f.samples) != len(g.samples) || len(f.samples) == 0 {
		return false
	}
	if !dt.IsFloat() {
		return slices.Equal(f.samples, g.samples)
	}
	const ulps = 64 // the samples come from two ways to compute the same
	close := 0
	for i := range f.samples {
		a, b := dt.Number(f.samples[i]), dt.Number(g.samples[i])
		may := max(ulps*dt.Eps()*max(math.Abs(a), math.Abs(b)), 2*dt.ULP(0))
		if a == b || math.Abs(a-b) <= may || a != a && b != b {
			close++
		}
	}
	return 2*close > len(f.samples)
}

// isNaN reports whether a sample is not a number.
func isNaN(dt tensor.DType, word uint64) bool {
	switch dt {
	case tensor.Float32:
		return word&0x7fffffff > 0x7f800000
	case tensor.BFloat16:
		return word&0x7fff > 0x7f80
	case tensor.Float16:
		return word&0x7fff > 0x7c00
	case tensor.Float64:
		return word&^(1<<63) > 0x7ff<<52
	}
	return false
}

// numbers are the samples of a floating dtype.
func (f *fingerprint) numbers(dt tensor.DType) []float64 {
	out := make([]float64, len(f.samples))
	for i, s := range f.samples {
		out[i] = dt.Number(s)
	}
	return out
}
