package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/optool/optool/tensor"
)

// patternWindow is the largest number of elements a pattern is looked for in:
// all of a smaller tensor, the neighbourhood of the worst element of a larger.
const patternWindow = 1 << 20

// A window is a run of elements of both sides, in float64; integers are exact
// to 2^53, of complex numbers the real parts are looked at.
type window struct {
	got, want []float64 // want is rounded
	lo        int       // first element
	shape     []int     // of the whole tensor
	whole     bool      // the window is the whole tensor
	dt        tensor.DType
	near      float64     // 4 eps
	normal    float64     // the smallest normal number
	off       []int       // elements that differ by more than a few ULP, relative to lo
	blank     func() bool // whether all elements of the whole tensor are zero; nil of a sample, which may be
}

// A windowBuffer is the memory of a window.
type windowBuffer struct {
	got, want []float64
	off       []int
}

// windows has buffers: new pages cost more than what is done with them.
var windows = sync.Pool{New: func() any { return new(windowBuffer) }}

// pattern says what the errors around flat element at look like, "" if like
// nothing in particular. It only words the finding: the verdict stands.
func (c *checker) pattern(at int) string {
	buf := windows.Get().(*windowBuffer)
	defer windows.Put(buf)
	if c.n >= 4*sampleWindow {
		w := c.window(at, sampleWindow, buf)
		if len(w.off) >= enoughOff && !c.promising(&w) {
			return w.coarse()
		}
	}
	w := c.window(at, patternWindow, buf)
	w.blank = c.blank
	if len(w.off) == 0 {
		return c.conjugated(w.lo, len(w.got))
	}
	patterns := []func(*window) string{
		(*window).nans, (*window).zeros, (*window).saturated, (*window).negated, (*window).scaled,
		(*window).shifted, (*window).transposed, (*window).swapped, (*window).oneIndex, (*window).coarse,
	}
	if c.model.Part {
		patterns = []func(*window) string{
			(*window).nans, (*window).saturated, (*window).negated, (*window).scaled, (*window).coarse,
		}
	}
	for _, f := range patterns {
		if s := f(&w); s != "" {
			return s
		}
	}
	return ""
}

// sampleWindow is the number of elements that are looked at first: what does not
// hold among them does not hold among more, if enough of them are off.
const (
	sampleWindow = 1 << 12
	enoughOff    = 64
)

// promising reports whether the elements of a sample leave a pattern possible that
// more of them can show.
func (c *checker) promising(w *window) bool {
	for _, f := range []func(*window) string{
		(*window).nans, (*window).zeros, (*window).saturated, (*window).negated, (*window).scaled, (*window).shifted,
	} {
		if f(w) != "" {
			return true
		}
	}
	inner := c.n
	for d, n := range w.shape { // swapped rows, or one index of a dimension
		inner /= n
		at := map[int]bool{}
		for _, i := range w.off {
			if at[(w.lo+i)/inner%n] = true; len(at) > 2 {
				break
			}
		}
		if n > 2 && len(at) == 1 || d == len(w.shape)-2 && n > 2 && len(at) <= 2 {
			return true
		}
	}
	return c.transposable(w)
}

// transposable reports whether elements of a sample hold what the transposed matrix
// has there.
func (c *checker) transposable(w *window) bool {
	d := len(w.shape)
	if d < 2 || w.shape[d-1] < 2 || w.shape[d-2] < 2 || c.n > patternWindow {
		return false
	}
	rows, cols := w.shape[d-2], w.shape[d-1]
	alike, one := 0, make([]float64, 1)
	for _, i := range w.off[:enoughOff] {
		base, at := (w.lo+i)/(rows*cols)*rows*cols, (w.lo+i)%(rows*cols)
		tensor.Load(c.ref, base+at%rows*cols+at/rows, one)
		alike += count(w.alike(w.got[i], w.dt.Round(one[0])))
	}
	return 2*alike >= enoughOff
}

// window reads at most size elements around flat element at.
func (c *checker) window(at, size int, buf *windowBuffer) window {
	lo := max(0, min(at-size/2, c.n-size))
	n := min(c.n, size)
	dt := floatGrid(c.grid).Real()
	w := window{got: resize(&buf.got, n), want: resize(&buf.want, n), lo: lo, shape: c.got.Shape, whole: n == c.n,
		dt: dt, near: 4 * dt.Eps(), normal: dt.SmallestNormal()}
	off := make([][]int, (n+c.block-1)/c.block)
	found := resize(&buf.off, n)
	tensor.Parallel(len(off), 1, func(first, last int) {
		for k := first; k < last; k++ {
			a, b := k*c.block, min((k+1)*c.block, n)
			these := found[a:a:b]
			got, want := w.got[a:b], w.want[a:b]
			tensor.Load(c.got, lo+a, got)
			tensor.Load(c.ref, lo+a, want)
			stored := c.ref.Storage() != nil && c.ref.DType == w.dt
			if !stored && (c.dt.IsFloat() || c.dt.IsComplex()) {
				tensor.RoundBlock(w.dt, want)
			}
			for i, x := range got {
				y := want[i]
				if !w.close(x, y) && (w.apart(x, y) || !w.alike(x, y)) {
					these = append(these, a+i)
				}
			}
			off[k] = these
		}
	})
	w.off = found[:0]
	for _, part := range off { // each lies at or behind where it goes
		w.off = append(w.off, part...)
	}
	return w
}

// conjugated recognises complex elements whose imaginary parts all have the
// other sign.
func (c *checker) conjugated(lo, n int) string {
	if !c.dt.IsComplex() {
		return ""
	}
	got, want := tensor.Make[complex128](n), tensor.Make[complex128](n)
	tensor.Load(c.got, lo, got)
	tensor.Load(c.ref, lo, want)
	w := window{dt: floatGrid(c.grid).Real()}
	w.normal, w.near = w.dt.SmallestNormal(), 4*w.dt.Eps()
	for i := range n {
		if !w.alike(-imag(got[i]), w.dt.Round(imag(want[i]))) {
			return ""
		}
	}
	return "conjugates: every imaginary part has the other sign, as where the conjugate bit of a tensor was lost " +
		"(torch before 2.0 does not save it)"
}

// alike reports whether two values are the same up to rounding of an input or
// a result: patterns compare a value with another place's reference.
func (w *window) alike(x, y float64) bool {
	// A unit is at least half of eps times the value.
	d := math.Abs(x - y)
	return !w.apart(x, y) && (d <= w.near*math.Abs(y) && d <= math.MaxFloat64 || same(x, y) || d <= 8*w.dt.ULP(y))
}

// close reports whether two values are surely alike, as most are.
func (w *window) close(x, y float64) bool { return math.Abs(x-y) < w.near*math.Abs(y) }

// apart reports whether two values are surely not alike: a unit is at most eps times
// the value.
func (w *window) apart(x, y float64) bool {
	size := math.Abs(y)
	return math.Abs(x-y) > 2*w.near*size && size >= w.normal
}

// allOff reports whether f holds for every element that is off.
func (w *window) allOff(f func(i int) bool) bool {
	for _, i := range w.off {
		if !f(i) {
			return false
		}
	}
	return true
}

func (w *window) nans() string {
	nans := 0
	for _, i := range w.off {
		nans += count(w.got[i] != w.got[i] && w.want[i] == w.want[i])
	}
	if nans == 0 {
		return ""
	}
	return fmt.Sprintf("%s NaN where a number is due", elements(nans))
}

func elements(n int) string {
	if n == 1 {
		return "1 element is"
	}
	return fmt.Sprintf("%d elements are", n)
}

func (w *window) zeros() string {
	if !w.allOff(func(i int) bool { return w.got[i] == 0 }) {
		return ""
	}
	if tiny := w.dt.SmallestNormal(); w.allOff(func(i int) bool { return math.Abs(w.want[i]) < tiny }) {
		return fmt.Sprintf("%s flushed to zero though subnormal", elements(len(w.off)))
	}
	if w.got[0] == 0 && (w.blank == nil || w.blank()) {
		return fmt.Sprintf("all %d elements are zero", numel(w.shape))
	}
	tail := 0
	for i := len(w.got) - 1; i >= 0 && w.got[i] == 0; i-- {
		tail++
	}
	if n := len(w.got); tail > 1 && n-w.off[0] <= tail && w.lo+n == numel(w.shape) {
		return fmt.Sprintf("tail of %d zeros", n-w.off[0])
	}
	return fmt.Sprintf("%s zero", elements(len(w.off)))
}

func (w *window) saturated() string {
	top := w.dt.Max()
	if w.allOff(func(i int) bool { return math.Abs(w.got[i]) == top && math.Abs(w.want[i]) > top }) {
		return "saturated at the largest value instead of overflowing"
	}
	if w.allOff(func(i int) bool { return math.IsInf(w.got[i], 0) && !math.IsInf(w.want[i], 0) }) {
		return fmt.Sprintf("%s infinite where a finite number is due", elements(len(w.off)))
	}
	return ""
}

func (w *window) negated() string {
	if !w.allOff(func(i int) bool { return w.close(w.got[i], -w.want[i]) || w.alike(w.got[i], -w.want[i]) }) {
		return ""
	}
	if len(w.off) == 1 {
		return "the sign is flipped"
	}
	return "signs are flipped"
}

// scaled recognises one factor: the least-squares factor explains all but a
// hundredth of the error of every element that is off.
func (w *window) scaled() string {
	if len(w.off) < 2 {
		return ""
	}
	var gw, ww float64
	for _, i := range w.off {
		gw += w.got[i] * w.want[i]
		ww += w.want[i] * w.want[i]
	}
	f := gw / ww
	if !(math.Abs(f) <= math.MaxFloat64) || ww == 0 || f == 1 || f == 0 {
		return ""
	}
	if !w.allOff(func(i int) bool {
		left := math.Abs(w.got[i] - f*w.want[i])
		return left <= 0.01*math.Abs(w.got[i]-w.want[i]) || left <= 2*w.dt.ULP(w.got[i])
	}) {
		return ""
	}
	by := fmt.Sprintf("%.5g", f)
	if math.Abs(f-1) < 1e-3 {
		by = fmt.Sprintf("1%+.3g", f-1)
	}
	if 2*len(w.off) >= len(w.got) {
		return "all scaled by " + by
	}
	return fmt.Sprintf("%d elements are scaled by %s", len(w.off), by)
}

// most reports whether f holds for nine tenths of at least four elements.
func (w *window) most(f func(i int) bool) bool {
	if len(w.off) < 4 {
		return false
	}
	misses := 0
	for _, i := range w.off {
		if misses += count(!f(i)); 10*misses > len(w.off) {
			return false
		}
	}
	return true
}

func (w *window) shifted() string {
	for _, by := range []int{1, -1} {
		at := func(i int) int { return min(max(i, 0), len(w.want)-1) }
		// The element that holds another one's value has lost its own to the next.
		if w.most(func(i int) bool {
			j := i + by
			return j == at(j) && w.alike(w.got[i], w.want[j]) && w.alike(w.got[j], w.want[at(j+by)])
		}) {
			return fmt.Sprintf("shifted: each element holds the value of %s", map[int]string{1: "the next one",
				-1: "the previous one"}[by])
		}
	}
	return ""
}

func (w *window) transposed() string {
	d := len(w.shape)
	if d < 2 || !w.whole || w.shape[d-1] < 2 || w.shape[d-2] < 2 {
		return ""
	}
	rows, cols := w.shape[d-2], w.shape[d-1]
	// The bytes of the transposed matrix, read in the result's shape.
	if w.most(func(i int) bool {
		base, at := i/(rows*cols)*rows*cols, i%(rows*cols)
		return w.alike(w.got[i], w.want[base+at%rows*cols+at/rows])
	}) {
		return "the last two dimensions are transposed"
	}
	return ""
}

func (w *window) swapped() string {
	d := len(w.shape)
	if d < 2 || !w.whole || w.shape[d-1] < 2 {
		return ""
	}
	cols := w.shape[d-1]
	rows := map[int]bool{}
	for _, i := range w.off {
		rows[i/cols] = true
		if len(rows) > 2 {
			return ""
		}
	}
	if len(rows) != 2 {
		return ""
	}
	a, b := w.off[0]/cols, w.off[len(w.off)-1]/cols
	for k := range cols {
		if !w.alike(w.got[a*cols+k], w.want[b*cols+k]) || !w.alike(w.got[b*cols+k], w.want[a*cols+k]) {
			return ""
		}
	}
	return fmt.Sprintf("rows %s and %s are swapped", tensor.ShapeString(tensor.Unravel(a, w.shape[:d-1])),
		tensor.ShapeString(tensor.Unravel(b, w.shape[:d-1])))
}

// oneIndex recognises errors confined to one index of a dimension: a channel,
// a row, a column.
func (w *window) oneIndex() string {
	if len(w.off) < 2 || !w.whole {
		return ""
	}
	inner := numel(w.shape)
	for d, n := range w.shape {
		inner /= n
		if n < 2 {
			continue
		}
		at := w.off[0] / inner % n
		if w.allOff(func(i int) bool { return i/inner%n == at }) {
			return fmt.Sprintf("only index %d of dimension %d is wrong", at, d)
		}
	}
	return ""
}

// coarse recognises values computed in a shorter format: nearly all are off, by errors that are as large as those of
// rounding and spread as they are.
func (w *window) coarse() string {
	zeros := 0
	for i, v := range w.got {
		zeros += count(v == 0 && w.want[i] == 0) // exact in every format
	}
	if len(w.off) < enoughOff || 4*len(w.off) < 3*(len(w.got)-zeros) {
		return ""
	}
	var square, size float64
	for _, i := range w.off {
		d := w.got[i] - w.want[i]
		square += d * d
		size += w.want[i] * w.want[i]
	}
	rel := math.Sqrt(square / size)
	if !(rel > 2*w.dt.Eps()) || !w.spreads() {
		return ""
	}
	for _, f := range []struct {
		name string
		eps  float64
	}{{"float32", 0x1p-23}, {"float16 or TF32", 0x1p-10}, {"bfloat16", 0x1p-7}} {
		if f.eps > w.dt.Eps() && rel > f.eps/16 && rel < f.eps {
			return fmt.Sprintf("errors of both signs, %.2g of the values: as large as rounding to %s", rel, f.name)
		}
	}
	return ""
}

// spreads reports whether errors are spread as those of rounding: of any size up to the largest, not all of one, and
// with signs that depend neither on the place nor on the value. A factor, or an approximation, fails one of these.
func (w *window) spreads() bool {
	at := w.off[:min(len(w.off), sampleWindow)]
	rel := func(i int) float64 { return (w.got[i] - w.want[i]) / max(math.Abs(w.want[i]), w.normal) }
	var square float64
	for _, i := range at {
		square += rel(i) * rel(i)
	}
	half, small, above := math.Sqrt(square/float64(len(at)))/2, 0, 0
	for _, i := range at {
		small += count(math.Abs(rel(i)) < half)
		above += count(w.outward(i))
	}
	if 10*small < len(at) || !even(above, len(at)) {
		return false
	}
	byValue := slices.Clone(at)
	slices.SortFunc(byValue, func(i, j int) int { return cmp.Compare(w.want[i], w.want[j]) })
	return w.independent(at) && w.independent(byValue)
}

// outward reports whether the error of element i leads away from zero.
func (w *window) outward(i int) bool { return (w.got[i] > w.want[i]) == (w.want[i] > 0) }

// independent reports whether the errors of successive elements have the same sign as often as not.
func (w *window) independent(at []int) bool {
	changes := 0
	for k := 1; k < len(at); k++ {
		i, j := at[k-1], at[k]
		changes += count(w.outward(i) != w.outward(j))
	}
	return even(changes, len(at)-1)
}

// even reports whether so many of n are half of them, as far as chance allows: four standard deviations.
func even(some, n int) bool { return math.Abs(float64(2*some-n)) <= 4*math.Sqrt(float64(n)) }

func numel(shape []int) int { return tensor.Numel(shape) }
