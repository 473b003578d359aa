package causes

import (
	"fmt"
	"iter"
	"math"
	"math/cmplx"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A transformation is what a kernel makes of a tensor by mistake: it reads other elements, or other numbers. The same
// transformations are tried on operands, on incoming gradients and, those of single elements, on results and gradients.
type transformation struct {
	text   string // with the name of the tensor for %s
	of     func(t *tensor.Tensor) *tensor.Tensor
	rounds bool
	like   string // see Mistake.Like
	// numbers and scales: see Mistake.
	numbers, scales bool
}

// A transformer lists transformations of tensors like one.
type transformer func(t *tensor.Tensor) []transformation

// misread are operands of any dtype that are taken for something else.
func (c *Search) misread(transformations transformer) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, a := range c.readable() {
			name := argName(a)
			for _, f := range transformations(a.Tensor) {
				if f.text == conjugateTaken {
					f.text = c.conjugateText(a)
				}
				var truly func() string
				if strings.HasSuffix(f.text, takenForNaN) {
					truly = func() string { return fmt.Sprintf(f.text, name) + c.onlyWhere(a.Tensor, f.of) }
				}
				if !yield(Mistake{Text: fmt.Sprintf(f.text, name), Truly: truly, Rounds: f.rounds, Numbers: f.numbers,
					Degrees: c.degrees(a.Tensor), Scales: f.scales, NotFinite: strings.HasSuffix(f.text, takenForNaN),
					Like: cond(f.like != "", name+f.like),
					Make: c.one(a, func() *tensor.Tensor { return f.of(a.Tensor) })}) {
					return
				}
			}
		}
	}
}

// onlyWhere says where in an operand the elements lie that a transformation changes, if they fill all rows along the
// dimension that the call reduces or scans, or begin them: of such elements elsewhere nothing is known. It is empty if
// they lie anywhere.
func (c *Search) onlyWhere(t *tensor.Tensor, of func(t *tensor.Tensor) *tensor.Tensor) (text string) {
	_ = c.Guard(func() error { // what cannot be read lies anywhere
		x, y := elements(t), elements(of(t))
		for _, d := range c.alongDims(t) {
			n := t.Shape[d]
			inner, full, leading, several := tensor.Numel(t.Shape[d+1:]), true, true, false
			for i := range x {
				at, is := i/inner%n, !alike(x[i], y[i])
				if at == 0 {
					continue
				}
				before := !alike(x[i-inner], y[i-inner])
				full, leading = full && is == before, leading && (before || !is)
				several = several || is && before
			}
			switch {
			case !several:
			case full:
				text = fmt.Sprintf(", where all of dimension %d is", d)
				return nil
			case leading:
				text = fmt.Sprintf(", where dimension %d begins with it", d)
				return nil
			}
		}
		return nil
	})
	return text
}

// alongDims are the dimensions of an operand that an argument names: dim.
func (c *Search) alongDims(t *tensor.Tensor) (dims []int) {
	for _, a := range c.Bound.Arguments() {
		if a.Name != "dim" {
			continue
		}
		all := []value.Value{a.Python()}
		if list, is := all[0].(*value.Sequence); is {
			all = list.Items
		}
		for _, v := range all {
			if d, is := v.(int64); is && int(d) >= -t.Dim() && int(d) < t.Dim() {
				dims = append(dims, (int(d)+t.Dim())%t.Dim())
			}
		}
	}
	return dims
}

// misreadIncoming are gradients that a backward pass starts from and takes for something else.
func (c *Search) misreadIncoming(transformations transformer) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if len(c.Incoming) == 0 || c.Incoming[0].Numel() == 0 || c.Incoming[0].Numel() > largestOperand {
			return
		}
		for _, f := range transformations(c.Incoming[0]) {
			if !yield(Mistake{Text: fmt.Sprintf(f.text, "the incoming gradient"), Rounds: f.rounds, Like: f.like,
				Make: c.alteringIncoming(func(t *tensor.Tensor) *tensor.Tensor { return orSame(f.of(t), t) })}) {
				return
			}
		}
	}
}

// altered are results, or gradients if none of those is wrong, of which single elements are taken for something else.
func (c *Search) altered(fails []Wrong, transformations transformer) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		name, prefix := "the gradient", "grad"
		if slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() }) {
			name, prefix = "the result", "output"
		}
		var first *tensor.Tensor
		n := 0
		for _, w := range fails {
			if strings.HasPrefix(w.Target, prefix) && w.Got != nil {
				first = w.Got
				n += w.Got.Numel()
			}
		}
		if first == nil || n < 2 || n > largestOperand {
			return
		}
		if onlyOneNumber(fails) { // of which every function of numbers may give what was recorded
			return
		}
		for _, f := range transformations(first) {
			if !yield(Mistake{Text: fmt.Sprintf(f.text, name), Rounds: true,
				Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
					if !slices.ContainsFunc(fails, func(w Wrong) bool { return w.Target == target }) {
						return t
					}
					return orSame(f.of(t), t)
				})}) {
				return
			}
		}
	}
}

// onlyOneNumber reports whether all wrong elements have one number where one other number is due.
func onlyOneNumber(fails []Wrong) bool {
	var got, due []float64
	for i := range fails {
		x, y, ok := fails[i].floats()
		if !ok {
			return false
		}
		g, w := elements(x), elements(y)
		for k := range g {
			if w[k] = x.DType.Round(w[k]); alike(g[k], w[k]) {
				continue
			}
			if got, due = append(got, g[k]), append(due, w[k]); !alike(got[0], g[k]) || !alike(due[0], w[k]) {
				return false
			}
		}
	}
	return len(got) > 1
}

func orSame(made, t *tensor.Tensor) *tensor.Tensor {
	if made == nil {
		return t
	}
	return made
}

func cond(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// strided gives a tensor's elements read with other strides and another storage offset, nil if they reach beyond it.
func strided(stride []int, offset int) func(t *tensor.Tensor) *tensor.Tensor {
	return func(t *tensor.Tensor) *tensor.Tensor {
		n, err := t.Strided(t.Shape, stride, offset)
		if err != nil {
			return nil
		}
		return n
	}
}

// inMemory are a tensor's elements read at other places of its memory, or without what a view says of them.
func inMemory(t *tensor.Tensor) (all []transformation) {
	add := func(text string, of func(t *tensor.Tensor) *tensor.Tensor) {
		all = append(all, transformation{text: text, of: of})
	}
	packed := tensor.Contiguous(t.Shape)
	if !t.IsContiguous() {
		add("the strides of %s are ignored", strided(packed, t.Offset))
	}
	if t.Offset != 0 {
		add("the storage offset of %s is ignored", strided(t.Stride, 0))
	}
	if t.Offset != 0 && !t.IsContiguous() {
		add("the strides and the storage offset of %s are ignored", strided(packed, 0))
	}
	exchanged := func(i, j int) func(t *tensor.Tensor) *tensor.Tensor {
		return func(t *tensor.Tensor) *tensor.Tensor {
			n := *t.Transpose(i, j)
			return &n
		}
	}
	d := t.Dim()
	for _, bits := range []int{15, 16} {
		if n := 1 << bits; t.Numel() > n {
			add(fmt.Sprintf("offsets in %%s wrap at %d bits: elements from %d on are read from the beginning", bits, n),
				func(t *tensor.Tensor) *tensor.Tensor {
					return gathered(t, func(i int) int { return i % n })
				})
		}
	}
	if d >= 2 && t.Shape[d-1] == t.Shape[d-2] && t.Shape[d-1] > 1 {
		add("%s is transposed", exchanged(d-2, d-1))
	}
	for i := range d {
		for j := i + 1; j < d; j++ {
			if x, y := t.Shape[i], t.Shape[j]; x == y && x > 1 && i != d-2 || x != y && min(x, y) == 1 {
				add(fmt.Sprintf("dimensions %d and %d of %%s are exchanged", i, j), exchanged(i, j))
			}
		}
	}
	if inner := tensor.Numel(t.Shape[min(2, d):]); d >= 3 && inner > 1 && inner <= largestKernel {
		add("%s is read backwards from dimension 2 on", func(t *tensor.Tensor) *tensor.Tensor {
			return gathered(t, func(i int) int { return i/inner*inner + inner - 1 - i%inner })
		})
	}
	return all
}

// mostShapes is how many shapes of other operands an operand is read by: a list may have thousands.
const mostShapes = 16

// inOtherStrides are the elements of an operand read with the strides that another operand, or a result, has: the
// length of a row is that of the other.
func (c *Search) inOtherStrides() func(*tensor.Tensor) []transformation {
	type other struct {
		name  string
		shape []int
	}
	var others []other
	add := func(name string, shape []int) {
		if len(others) < mostShapes && len(shape) >= 2 &&
			!slices.ContainsFunc(others, func(o other) bool { return slices.Equal(o.shape, shape) }) {
			others = append(others, other{name, shape})
		}
	}
	for _, a := range c.readable() {
		if len(others) == mostShapes {
			break
		}
		add(argName(a), a.Tensor.Shape)
	}
	if c.Ran != nil && len(c.Ran.Outs) == 1 {
		add("the result", c.Ran.Outs[0].Shape)
	}
	return func(t *tensor.Tensor) (all []transformation) {
		seen := [][]int{t.Stride, tensor.Contiguous(t.Shape)}
		for _, o := range others {
			stride := tensor.Contiguous(o.shape)
			if len(o.shape) != t.Dim() ||
				slices.ContainsFunc(seen, func(s []int) bool { return slices.Equal(s, stride) }) {
				continue
			}
			seen = append(seen, stride)
			text := "%s is read with the strides of " + o.name
			if _, err := t.Strided(t.Shape, stride, t.Offset); err == nil {
				all = append(all, transformation{text: text, of: strided(stride, t.Offset)})
				continue
			}
			// The recording does not have what lies behind it.
			for i, behind := range []string{"again from its beginning", "with zeros"} {
				all = append(all, transformation{text: text + ", " + behind + " behind its end",
					of: func(t *tensor.Tensor) *tensor.Tensor {
						at := placeIn(t.Shape, stride)
						return gathered(t, func(k int) int { return wrapped(at(k), t.Numel(), i == 0) })
					}})
			}
		}
		return all
	}
}

// alongDimensions are a tensor's elements read in another order along one dimension.
func alongDimensions(t *tensor.Tensor) (all []transformation) {
	for d, n := range t.Shape {
		for p := range turns(n) {
			all = append(all, transformation{text: fmt.Sprintf("%%s is %s along dimension %d", p.text, d),
				of: func(t *tensor.Tensor) *tensor.Tensor { return reordered(t, d, p.of) }})
		}
	}
	return all
}

// pushed are a tensor's elements read a few indices further or back along one dimension, with zeros beyond its ends: as
// where a padding is ignored.
func pushed(t *tensor.Tensor) (all []transformation) {
	for d, n := range t.Shape {
		inner := tensor.Numel(t.Shape[d+1:])
		for by := 1; by <= mostPushed && by < n; by++ {
			for _, to := range []struct {
				by   int
				text string
			}{{by, "further"}, {-by, "back"}} {
				all = append(all, transformation{
					text: fmt.Sprintf("%%s is read %d %s along dimension %d, with zeros beyond its end", by, to.text,
						d),
					of: func(t *tensor.Tensor) *tensor.Tensor {
						return gathered(t, func(i int) int {
							if at := i/inner%n + to.by; at < 0 || at >= n {
								return -1
							}
							return i + to.by*inner
						})
					}})
			}
		}
	}
	return all
}

// offsetParts are a tensor's elements of which the parts along a dimension begin elsewhere in memory: all but the
// first as far, or each by as much more than the one before it, as where the length of a part is wrong.
func offsetParts(t *tensor.Tensor) (all []transformation) {
	for d, n := range t.Shape {
		size := tensor.Numel(t.Shape[d+1:])
		if n < 2 || size < 2 {
			continue
		}
		for e := d + 1; e < t.Dim(); e++ {
			if t.Shape[e] == 1 {
				continue
			}
			step := tensor.Numel(t.Shape[e+1:])
			for _, by := range []int{step, -step} {
				way := []string{"further", "earlier"}[btoi(by < 0)]
				for _, more := range []bool{false, true} {
					text := fmt.Sprintf("from index 1 of dimension %d on, %%s is read one index of dimension %d %s in memory",
						d, e, way)
					if more {
						text = fmt.Sprintf("each index of dimension %d of %%s is read one index of dimension %d %s in memory "+
							"than the one before it", d, e, way)
					}
					for _, around := range []bool{true, false} {
						of := func(t *tensor.Tensor) *tensor.Tensor {
							return gathered(t, func(i int) int {
								at := i / size % n
								if !more {
									at = min(at, 1)
								}
								return wrapped(i+at*by, t.Numel(), around)
							})
						}
						all = append(all, transformation{like: " offset", text: text, of: of})
					}
				}
			}
		}
	}
	return all
}

// slidInMemory are a tensor's elements read a few places further or back in memory, over the ends of its rows: around
// its end, or with zeros beyond it. Where it has one row, that is a shift along a dimension.
func slidInMemory(t *tensor.Tensor) (all []transformation) {
	n := t.Numel()
	if t.Dim() < 2 || n == t.Shape[t.Dim()-1] {
		return nil
	}
	for by := 1; by <= mostPushed && by < n; by++ {
		for _, step := range []int{by, -by} {
			text := fmt.Sprintf("%%s is read %d %s in memory, over the ends of rows", by,
				[]string{"further", "back"}[btoi(step < 0)])
			for _, around := range []bool{true, false} {
				all = append(all, transformation{like: " slid", text: text,
					of: func(t *tensor.Tensor) *tensor.Tensor {
						return gathered(t, func(i int) int { return wrapped(i+step, n, around) })
					}})
			}
		}
	}
	return all
}

// wrapped is a place among n elements: one beyond them goes around their end, or is -1, where gathered has zeros.
func wrapped(at, n int, around bool) int {
	switch {
	case at >= 0 && at < n:
		return at
	case around:
		return (at%n + n) % n
	}
	return -1
}

// mostPushed is by how many indices a tensor is read further.
const mostPushed = 3

// turns are the orders in which n parts are read by mistake, each once.
func turns(n int) iter.Seq[permutation] {
	return func(yield func(permutation) bool) {
		if n < 2 || n > mostPermuted {
			return
		}
		tried := [][]int{upTo(0, n)}
		for _, p := range slices.Concat(permutations, factored(n)) {
			order := upTo(0, n)
			for i := range order {
				order[i] = p.of(i, n)
			}
			if slices.ContainsFunc(tried, func(o []int) bool { return slices.Equal(o, order) }) {
				continue
			}
			if tried = append(tried, order); !yield(p) {
				return
			}
		}
	}
}

// inOtherLayouts are a tensor's elements read in the order in which other dimensions would lie in memory.
func inOtherLayouts(t *tensor.Tensor) (all []transformation) {
	if t.Dim() < 2 || t.Dim() > mostDimensions-1 {
		return nil
	}
	add := func(as string, from func(shape []int) func(i int) int) {
		all = append(all, transformation{like: " ", text: "%s is read as if " + as,
			of: func(t *tensor.Tensor) *tensor.Tensor { return gathered(t, from(t.Shape)) }})
	}
	for _, dims := range orders(t.Dim()) {
		add("its dimensions lay in memory in the order "+beginning(dims),
			func(shape []int) func(int) int { return laidOut(shape, dims) })
		add("it were contiguous in the order of dimensions "+beginning(dims), func(shape []int) func(int) int {
			from, back := laidOut(shape, dims), tensor.Make[int](tensor.Numel(shape))
			for i := range back {
				back[from(i)] = i
			}
			return func(i int) int { return back[i] }
		})
	}
	return all
}

// An elementMap takes a number for another.
type elementMap[T any] struct {
	text string
	f    func(x T) T
}

// ofElements are a tensor's numbers taken for others, each by itself.
func ofElements(t *tensor.Tensor) []transformation {
	switch dt := t.DType; {
	case dt.IsComplex():
		return mapped(false, complexMaps...)
	case dt == tensor.Bool:
		return []transformation{
			ofWhole("%s is taken the other way round", func(_ int, x int64) int64 { return 1 - x }),
			ofWhole("%s is taken for True everywhere", func(int, int64) int64 { return 1 }),
			ofWhole("%s is taken for False everywhere", func(int, int64) int64 { return 0 }),
			{text: "%s is taken for as many True, which come first", of: firstTrue},
		}
	case dt.IsIntegral():
		return slices.Concat(ofIntegers(max(1, t.Shape[max(0, t.Dim()-1):][0])), wholeFrom(t))
	case dt.IsFloat():
		return mapped(true, elementMaps(dt)...)
	}
	return nil
}

// ofIndices are whole numbers taken for others: of an index, by which a result is in another order, too.
func ofIndices(t *tensor.Tensor) []transformation {
	if !t.DType.IsIntegral() || t.DType == tensor.Bool {
		return nil
	}
	return ofElements(t)
}

// mapped are the transformations of each element by maps.
func mapped[T tensor.Elem](numbers bool, maps ...elementMap[T]) (all []transformation) {
	for _, m := range maps {
		scales := strings.HasPrefix(m.text, "%s is multiplied")
		kind := transformation{text: m.text, numbers: numbers, scales: scales}
		kind.of = func(t *tensor.Tensor) *tensor.Tensor {
			return opdef.Map(t.DType, t, m.f)
		}
		all = append(all, kind)
	}
	return all
}

// ofIntegers are whole numbers, in rows of n, taken for others.
func ofIntegers(n int) []transformation {
	all := []transformation{
		ofWhole("%s is one too high", func(_ int, x int64) int64 { return x + 1 }),
		ofWhole("%s is one too low", func(_ int, x int64) int64 { return x - 1 }),
		ofWhole("%s is taken for 0 1 2 ...", func(i int, _ int64) int64 { return int64(i % n) }),
		ofWhole("negative elements of %s are set to 0", func(_ int, x int64) int64 { return max(x, 0) }),
		ofWhole("%s is taken for 0", func(int, int64) int64 { return 0 }),
		{text: "%s is sorted, and what belongs to it is not", numbers: true, of: sorted},
		ofWhole("%s is negated", func(_ int, x int64) int64 { return -x }),
	}
	for _, through := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.BFloat16, tensor.Float16} {
		all = append(all, ofWhole("%s goes through "+through.String(), func(_ int, x int64) int64 {
			y := through.Round(float64(x))
			switch {
			case y >= 1<<63:
				return math.MaxInt64
			case y < -1<<63:
				return math.MinInt64
			}
			return int64(y)
		}))
	}
	for _, bits := range []int{7, 8, 15, 16, 31, 32} {
		mod := int64(1) << bits
		all = append(all, ofWhole(fmt.Sprintf("%%s is taken modulo %d", mod),
			func(_ int, x int64) int64 { return x & (mod - 1) }))
	}
	all = append(all, wraps()...)
	for _, bits := range []int{8, 16, 32} {
		top := int64(1)<<(bits-1) - 1
		all = append(all, ofWhole(fmt.Sprintf("%%s is limited to the numbers of int%d", bits),
			func(_ int, x int64) int64 { return min(max(x, -top-1), top) }))
	}
	return all
}

// wraps are whole numbers that wrap at fewer bits.
func wraps() (all []transformation) {
	for _, bits := range []int{8, 16, 32} {
		all = append(all, ofWhole(fmt.Sprintf("%%s wraps at %d bits", bits),
			func(_ int, x int64) int64 { return x << (64 - bits) >> (64 - bits) }))
	}
	return all
}

// wrapping are whole numbers that wrap: sums that are kept in fewer bits.
func wrapping(t *tensor.Tensor) []transformation {
	if t.DType == tensor.Bool || !t.DType.IsIntegral() {
		return nil
	}
	return wraps()
}

// conjugateTaken is said of a conjugate that is not due, takenForNaN at the end of numbers that are lost.
const (
	conjugateTaken = "the complex conjugate of %s is taken"
	takenForNaN    = " is taken for NaN"
)

// complexMaps are what complex numbers are taken for by mistake.
var complexMaps = []elementMap[complex128]{
	{conjugateTaken, cmplx.Conj},
	{"the imaginary part of %s is taken for 0", func(x complex128) complex128 { return complex(real(x), 0) }},
	{"the real part of %s is taken for 0", func(x complex128) complex128 { return complex(0, imag(x)) }},
	{"real and imaginary part of %s are exchanged", func(x complex128) complex128 { return complex(imag(x), real(x)) }},
	{"%s is negated", func(x complex128) complex128 { return -x }},
}

// elementMaps are what numbers of a dtype are taken for by mistake.
func elementMaps(dt tensor.DType) []elementMap[float64] {
	largest := dt.Max()
	return []elementMap[float64]{
		{"%s is negated", func(x float64) float64 { return -x }},
		{"the magnitude of %s is taken", math.Abs},
		{"%s is squared", func(x float64) float64 { return x * x }},
		{"the square root of %s is taken", math.Sqrt},
		{"negative elements of %s are set to 0", func(x float64) float64 {
			if x < 0 {
				return 0
			}
			return x
		}},
		{"%s is multiplied by pi/180, as if it were in degrees", func(x float64) float64 { return x * math.Pi / 180 }},
		{"%s is multiplied by 180/pi, as if degrees were asked for", func(x float64) float64 {
			return x / math.Pi * 180
		}},
		{"1 is added to %s", func(x float64) float64 { return x + 1 }},
		{"1 is subtracted from %s", func(x float64) float64 { return x - 1 }},
		{"1 - %s is taken", func(x float64) float64 { return 1 - x }},
		{"the reciprocal of %s is taken", func(x float64) float64 { return 1 / x }},
		{"%s is cut to whole numbers", math.Trunc},
		{"%s is rounded down to whole numbers", math.Floor},
		{"%s is rounded to whole numbers", math.RoundToEven},
		{"the exponential of %s is taken", math.Exp},
		{"the logarithm of %s is taken", math.Log},
		{"NaN in %s is taken for -Inf", func(x float64) float64 {
			if x != x {
				return math.Inf(-1)
			}
			return x
		}},
		{"NaN in %s is taken for Inf", func(x float64) float64 {
			if x != x {
				return math.Inf(1)
			}
			return x
		}},
		{"NaN in %s is taken for 0", func(x float64) float64 {
			if x != x {
				return 0
			}
			return x
		}},
		{"NaN in %s is ignored: it is smaller than all numbers", func(x float64) float64 {
			if x != x {
				return math.Inf(-1)
			}
			return x
		}},
		{"NaN in %s is ignored: it is larger than all numbers", func(x float64) float64 {
			if x != x {
				return math.Inf(1)
			}
			return x
		}},
		{"infinity in %s is replaced by the largest number", func(x float64) float64 {
			return min(max(x, -largest), largest)
		}},
		{"infinity in %s is taken for 0", func(x float64) float64 {
			if math.IsInf(x, 0) {
				return 0
			}
			return x
		}},
		{"-Inf in %s is taken for NaN", func(x float64) float64 {
			if math.IsInf(x, -1) {
				return math.NaN()
			}
			return x
		}},
		{"Inf in %s is taken for NaN", func(x float64) float64 {
			if math.IsInf(x, 1) {
				return math.NaN()
			}
			return x
		}},
		{"infinity in %s is taken for NaN", func(x float64) float64 {
			if math.IsInf(x, 0) {
				return math.NaN()
			}
			return x
		}},
		{"NaN and infinity in %s are taken for 0 and the largest number", func(x float64) float64 {
			if x != x {
				return 0
			}
			return min(max(x, -largest), largest)
		}},
		{"subnormal numbers in %s are taken for 0", func(x float64) float64 {
			if math.Abs(x) < dt.SmallestNormal() {
				return math.Copysign(0, x)
			}
			return x
		}},
	}
}

// ofWholeNumbers are a tensor's numbers taken for whole ones.
func ofWholeNumbers(t *tensor.Tensor) []transformation {
	if !t.DType.IsFloat() {
		return nil
	}
	return slices.DeleteFunc(ofElements(t), func(f transformation) bool {
		return !strings.HasSuffix(f.text, " whole numbers")
	})
}

// withinLimits are a tensor's numbers that are limited to what kernels often limit them to: so that an exponential does
// not overflow.
func withinLimits(t *tensor.Tensor) (all []transformation) {
	if !t.DType.IsFloat() {
		return nil
	}
	add := func(is bool, text string, f func(x float64) float64) {
		if is {
			all = append(all, transformation{text: text, numbers: true, like: " within limits",
				of: func(t *tensor.Tensor) *tensor.Tensor { return opdef.Map(t.DType, t, f) }})
		}
	}
	v := elements(t)
	for _, k := range oftenLimits {
		above := slices.ContainsFunc(v, func(x float64) bool { return x > k })
		below := slices.ContainsFunc(v, func(x float64) bool { return x < -k })
		add(above, fmt.Sprintf("%%s is limited to %g from above", k), func(x float64) float64 { return min(x, k) })
		add(below, fmt.Sprintf("%%s is limited to %g from below", -k), func(x float64) float64 { return max(x, -k) })
		add(above && below, fmt.Sprintf("%%s is limited to %g to %g", -k, k),
			func(x float64) float64 { return min(max(x, -k), k) })
	}
	return all
}

// oftenLimits are what kernels limit numbers to.
var oftenLimits = []float64{1, 2, 3, 4, 5, 6, 8, 10, 11, 15, 16, 20, 30, 32, 40, 50, 60, 64, 80, 87, 88, 100}

// ofWhole are whole numbers taken for others.
func ofWhole(text string, f func(i int, x int64) int64) transformation {
	return transformation{text: text, numbers: true, of: func(t *tensor.Tensor) *tensor.Tensor {
		v := tensor.Make[int64](t.Numel())
		tensor.Load(t, 0, v)
		same := true
		for i, x := range v {
			v[i] = f(i, x)
			same = same && v[i] == x
		}
		if same {
			return nil
		}
		return tensor.New(t.DType, t.Shape, v)
	}}
}

// sorted has the whole numbers of t in rising order along its last dimension, nil if they are.
func sorted(t *tensor.Tensor) *tensor.Tensor {
	if t.Dim() == 0 {
		return nil
	}
	v := tensor.Make[int64](t.Numel())
	tensor.Load(t, 0, v)
	is := true
	for row := range slices.Chunk(v, max(1, t.Shape[t.Dim()-1])) {
		is = is && slices.IsSorted(row)
		slices.Sort(row)
	}
	if is {
		return nil
	}
	return tensor.New(t.DType, t.Shape, v)
}

// firstTrue has as many ones as t, at the beginning.
func firstTrue(t *tensor.Tensor) *tensor.Tensor {
	v := tensor.Make[int64](t.Numel())
	tensor.Load(t, 0, v)
	slices.SortFunc(v, func(a, b int64) int { return int(b - a) })
	return tensor.New(t.DType, t.Shape, v)
}

// gathered is t whose element i is that at from(i), 0 where that is negative, of any dtype.
func gathered(t *tensor.Tensor, from func(i int) int) *tensor.Tensor {
	return gatheredIn(t, t.Shape, from)
}

// gatheredIn is a tensor of some shape whose element i is that of t at from(i), as of gathered.
func gatheredIn(t *tensor.Tensor, shape []int, from func(i int) int) *tensor.Tensor {
	switch {
	case t.DType.IsComplex():
		return gatheredAs[complex128](t, shape, from)
	case t.DType.IsFloat():
		return gatheredAs[float64](t, shape, from)
	}
	return gatheredAs[int64](t, shape, from)
}

func gatheredAs[T tensor.Elem](t *tensor.Tensor, shape []int, from func(i int) int) *tensor.Tensor {
	read := reader[T](t)
	return tensor.Lazy(t.DType, shape, 1, func(lo int, dst []T) {
		v, one := read(len(dst)), make([]T, 1)
		for i := range dst {
			switch j := from(lo + i); {
			case j < 0:
				dst[i] = 0
			case v != nil:
				dst[i] = v[j]
			default:
				tensor.Load(t, j, one)
				dst[i] = one[0]
			}
		}
	})
}

// reader gives all elements of t once so many of them were asked for that reading each by itself would take longer,
// nil before.
func reader[T tensor.Elem](t *tensor.Tensor) func(n int) []T {
	var asked atomic.Int64
	all := sync.OnceValue(func() []T {
		v := tensor.Make[T](t.Numel())
		tensor.Load(t, 0, v)
		return v
	})
	return func(n int) []T {
		if asked.Add(int64(n)) < int64(t.Numel()/8) {
			return nil
		}
		return all()
	}
}

// reordered is t with part of(i) in place of part i along a dimension.
func reordered(t *tensor.Tensor, d int, of func(i, n int) int) *tensor.Tensor {
	n, inner := t.Shape[d], tensor.Numel(t.Shape[d+1:])
	return gathered(t, func(i int) int {
		at := i / inner % n
		return i + (of(at, n)-at)*inner
	})
}

// rounded rounds results, operands or both to coarser numbers. Numbers that are subnormal in a dtype do not show it:
// they are multiples of one number, as differences of larger ones are, too.
func (c *Search) rounded(fails []Wrong) iter.Seq[Mistake] {
	var finest tensor.DType
	for _, a := range c.operands() {
		if finest == tensor.Invalid || a.Tensor.DType.Eps() < finest.Eps() {
			finest = a.Tensor.DType
		}
	}
	return func(yield func(Mistake) bool) {
		if finest == tensor.Invalid {
			return
		}
		for _, g := range opdef.CoarserGrids(finest) {
			if c.subnormal(g, fails) {
				continue
			}
			results := func(target string, t *tensor.Tensor) *tensor.Tensor {
				if !t.DType.IsFloat() || target == Incoming {
					return t
				}
				return g.OnGrid(t)
			}
			operands := func() (Way, error) {
				return c.replaced(func(a opdef.Arg) *tensor.Tensor {
					if !a.Tensor.DType.IsFloat() {
						return nil
					}
					return g.OnGrid(a.Tensor).Rounded()
				})
			}
			if !slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() }) && !yield(Mistake{
				Text: "operands and the incoming gradient are rounded to " + g.Name + " first", Rounds: true,
				Numbers: true, Make: func() (Way, error) {
					way, err := operands()
					way.Alter = func(target string, t *tensor.Tensor) *tensor.Tensor {
						if target != Incoming || !t.DType.IsFloat() {
							return t
						}
						return g.OnGrid(t).Rounded()
					}
					return way, err
				}}) {
				return
			}
			for _, m := range []Mistake{
				{Text: "results are rounded to " + g.Name, Make: c.altering(results), Rounds: true},
				{Text: "operands are rounded to " + g.Name + " first", Make: operands, Rounds: true},
				{Text: "operands and results are rounded to " + g.Name, Make: func() (Way, error) {
					way, err := operands()
					way.Alter = results
					return way, err
				}, Rounds: true},
			} {
				if m.Numbers = true; !yield(m) {
					return
				}
			}
		}
	}
}

// subnormal reports whether most elements of a value that failed are subnormal in a grid's dtype.
func (c *Search) subnormal(g opdef.Grid, fails []Wrong) bool {
	return g.Name == tensor.Float16.String() && slices.ContainsFunc(fails, func(w Wrong) bool {
		got, _, ok := w.floats()
		few, n := 0, 0
		return ok && c.Guard(func() error {
			for _, x := range elements(got) {
				n += btoi(x != 0 && finite(x))
				few += btoi(x != 0 && math.Abs(x) < tensor.Float16.SmallestNormal())
			}
			return nil
		}) == nil && 2*few > n
	})
}

// unsigned takes whole numbers for those without sign that have the same bits: negative ones are larger than all
// others.
func (c *Search) unsigned() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		flipped := func(t *tensor.Tensor) *tensor.Tensor {
			top := int64(-1) << (8*t.DType.Size() - 1)
			v := tensor.Make[int64](t.Numel())
			tensor.Load(t, 0, v)
			for i := range v {
				v[i] ^= top
			}
			return tensor.New(t.DType, t.Shape, v)
		}
		signed := func(t *tensor.Tensor) bool { return t.DType.IsIntegral() && !t.DType.IsUnsigned() }
		if !yield(Mistake{Text: "whole numbers are taken for numbers without sign", Make: func() (Way, error) {
			way, err := c.replaced(func(a opdef.Arg) *tensor.Tensor {
				if !signed(a.Tensor) {
					return nil
				}
				return flipped(a.Tensor)
			})
			way.Alter = func(target string, t *tensor.Tensor) *tensor.Tensor {
				if !signed(t) || !strings.HasPrefix(target, "output[") {
					return t
				}
				return flipped(t)
			}
			return way, err
		}}) {
			return
		}
		asSigned := func(t *tensor.Tensor) *tensor.Tensor {
			v := tensor.Make[int64](t.Numel())
			tensor.Load(t, 0, v)
			for i, x := range v {
				v[i] = int64(int8(x))
			}
			return tensor.New(tensor.Int8, t.Shape, v)
		}
		yield(Mistake{Text: "numbers without sign are taken for numbers with a sign, those from 128 for negative ones",
			Make: func() (Way, error) {
				way, err := c.replaced(func(a opdef.Arg) *tensor.Tensor {
					if a.Tensor.DType != tensor.Uint8 {
						return nil
					}
					return asSigned(a.Tensor)
				})
				way.Alter = func(target string, t *tensor.Tensor) *tensor.Tensor {
					if t.DType != tensor.Int8 || !strings.HasPrefix(target, "output[") {
						return t
					}
					v := tensor.Make[int64](t.Numel())
					tensor.Load(t, 0, v)
					for i, x := range v {
						v[i] = int64(uint8(x))
					}
					return tensor.New(tensor.Uint8, t.Shape, v)
				}
				return way, err
			}})
	}
}

// inFewBits are a tensor's numbers after they went through a dtype of 8 bits, or through few bits with a scale, as
// where a kernel of quantized weights is taken.
func inFewBits(t *tensor.Tensor) (all []transformation) {
	if !t.DType.IsFloat() || t.Numel() < leastInNarrow {
		return nil
	}
	add := func(to string, of func(t *tensor.Tensor) *tensor.Tensor) {
		all = append(all, transformation{text: "%s is rounded to " + to, rounds: true, numbers: true, of: of})
	}
	for _, dt := range []tensor.DType{tensor.Float8E4M3FN, tensor.Float8E5M2} {
		if dt.Eps() > t.DType.Eps() {
			add(dt.String(), func(t *tensor.Tensor) *tensor.Tensor { return opdef.Map(t.DType, t, dt.Round) })
		}
	}
	top := sync.OnceValue(func() float64 { return largest(elements(t)) })
	topOf := func(other *tensor.Tensor) func() float64 {
		if other == t {
			return top
		}
		return sync.OnceValue(func() float64 { return largest(elements(other)) })
	}
	for _, s := range sharings(t.Shape) {
		for _, q := range quantizations {
			add(q.name+", scaled "+s.text, func(t *tensor.Tensor) *tensor.Tensor {
				return q.of(t, s.size(t.Shape), topOf(t))
			})
		}
	}
	return all
}

// permutedTogether reads two operands that follow each other and have one shape (keys and values, weight and bias) in
// another order along a dimension.
func (c *Search) permutedTogether() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all := c.operands()
		for i := 2; i < len(all); i++ {
			a, b := all[i-1], all[i]
			if !slices.Equal(a.Tensor.Shape, b.Tensor.Shape) {
				continue
			}
			for d, n := range a.Tensor.Shape {
				for p := range turns(n) {
					if !yield(Mistake{
						Text: fmt.Sprintf("%s and %s are %s along dimension %d", argName(a), argName(b), p.text, d),
						Make: func() (Way, error) {
							return c.replaced(func(x opdef.Arg) *tensor.Tensor {
								if !same(x, a) && !same(x, b) {
									return nil
								}
								return reordered(x.Tensor, d, p.of)
							})
						}}) {
						return
					}
				}
			}
		}
	}
}

// same reports whether two arguments are one.
func same(a, b opdef.Arg) bool { return a.Name == b.Name && a.Index == b.Index }
