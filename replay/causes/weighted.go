package causes

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// mostBlocks is in how many blocks a dimension is taken whose parts may count otherwise.
const mostBlocks = 16

// weightedParts are values to which a part of an operand, or of the incoming gradient, does not contribute, or more
// than once: a tile that is lost or taken twice. How often each block of a dimension counts is solved for, by least
// squares, from what is wrong with the value in a place, nil for everywhere; the value is linear in the operand, or no
// solution explains it.
func (c *Search) weightedParts(fails []Wrong, in *place) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || len(fails) == 0 {
			return
		}
		r := &fails[0]
		got, want, ok := r.Pair()
		if !ok || !got.DType.IsFloat() || !slices.Equal(got.Shape, want.Shape) || got.Numel() < 2*mostBlocks ||
			got.Numel() > largestOperand {
			return
		}
		try := func(name string, shape []int, with func(p part, weights []float64) func() (Way, error)) bool {
			for _, p := range partsOf(shape) {
				if c.Work.Over() {
					return false
				}
				weights := c.weights(r, in, p.n, func(w []float64) func() (Way, error) {
					return with(p, w)
				})
				if weights == nil {
					continue
				}
				text := p.text(weights, name, slices.Equal(shape, got.Shape))
				if !yield(Mistake{Text: text, Rounds: true, Make: with(p, weights)}) {
					return false
				}
			}
			return true
		}
		for _, a := range c.operands() {
			if !try(argName(a), a.Tensor.Shape, func(p part, w []float64) func() (Way, error) {
				return c.one(a, func() *tensor.Tensor { return p.scaled(a.Tensor, w) })
			}) {
				return
			}
		}
		if !r.Backward() || len(c.Ran.Outs) != 1 {
			return
		}
		shape := c.Ran.Outs[0].Shape
		try("the incoming gradient", shape, func(p part, w []float64) func() (Way, error) {
			return c.alteringIncoming(func(t *tensor.Tensor) *tensor.Tensor {
				if !slices.Equal(t.Shape, shape) {
					return t
				}
				return p.scaled(t, w)
			})
		})
	}
}

// A part is a way to divide a tensor: by the indices of a dimension, or by rows, of all dimensions but the last.
type part struct {
	what     string
	n, inner int
}

func partsOf(shape []int) []part {
	var out []part
	last := len(shape) - 1
	for d := last; d >= 0; d-- {
		out = append(out, part{fmt.Sprintf("of dimension %d ", d), shape[d], tensor.Numel(shape[d+1:])})
	}
	if last > 1 {
		rows := tensor.Numel(shape[:last])
		out = append(out, part{fmt.Sprintf("of %d rows ", rows), rows, shape[last]})
	}
	return out
}

// each names every part: "index of dimension 0 ".
func (p part) each() string {
	if strings.HasPrefix(p.what, "of dimension") {
		return fmt.Sprintf("index %s", p.what)
	}
	return p.what
}

// some names a number of the parts: "of 8 indices of dimension 0".
func (p part) some() string {
	if strings.HasPrefix(p.what, "of dimension") {
		return strings.TrimSpace(fmt.Sprintf("of %d indices %s", p.n, p.what))
	}
	return strings.TrimSpace(p.what)
}

// scaled is t whose parts are multiplied by weights.
func (p part) scaled(t *tensor.Tensor, weights []float64) *tensor.Tensor {
	return opdef.ZipAt(t.DType, t.Shape, func(lo int, dst []float64, src [][]float64) {
		for i := range dst {
			dst[i] = src[0][i] * weights[(lo+i)/p.inner%p.n]
		}
	}, t)
}

// text says which parts count how often. Those of an operand that is there element for element are not counted.
func (p part) text(weights []float64, name string, elementwise bool) string {
	var at []int
	for i, w := range weights {
		if w != 1 {
			at = append(at, i)
		}
	}
	are := "are"
	if len(at) == 1 {
		are = "is"
	}
	what := fmt.Sprintf("multiplied by %.4g", weights[at[0]])
	switch w := weights[at[0]]; {
	case w == 0 && elementwise:
		what = "taken for 0"
	case w == 0:
		what = "left out"
	case w == 2 && !elementwise:
		what = "counted twice"
	}
	return fmt.Sprintf("%s %sof %s %s %s", indicesText(at), p.what, name, are, what)
}

// weights are how often each index of a dimension of n counts, nil if that is once, or does not explain the value:
// some blocks count as often, the others once.
func (c *Search) weights(r *Wrong, in *place, n int,
	with func([]float64) func() (Way, error)) []float64 {
	if n < 2 {
		return nil
	}
	block := 1
	for (n+block-1)/block > mostBlocks {
		block *= 2
	}
	x, e := c.contributions(r, in, n, slices.Collect(slices.Chunk(upTo(0, n), block)), with)
	if x == nil {
		return nil
	}
	counts := leastSquares(x, e)
	if counts == nil {
		counts = ofOneRun(x, e)
	}
	if counts == nil {
		return nil
	}
	about, count := 0.02, func(i int) float64 { return counts[i/block] }
	if block > 1 && rest(x, e, counts) > unexplainedPart*dot(e, e) { // parts of blocks count otherwise
		at := upTo(0, n)
		if from, to := blockOf(x, e, block, n); from < to {
			at = at[from:to]
		}
		if x, e = c.contributions(r, in, n, slices.Collect(slices.Chunk(at, 1)), with); x == nil || len(at) == n {
			return nil
		}
		if counts = leastSquares(x, e); counts == nil {
			return nil
		}
		about, count = 0.1, func(i int) float64 {
			if i < at[0] || i > at[len(at)-1] {
				return 0
			}
			return counts[i-at[0]]
		}
	}
	weights, other, odd := make([]float64, n), 1.0, 0
	for i := range weights {
		w := 1 + count(i)
		for _, plain := range []float64{-1, 0, 1, 2} {
			if math.Abs(w-plain) < about {
				w = plain
			}
		}
		if weights[i] = w; w != 1 {
			if odd > 0 && math.Abs(w-other) > 0.02 {
				return nil
			}
			if odd++; odd == 1 {
				other = w
			}
			weights[i] = other
		}
	}
	if odd == 0 || odd == n {
		return nil
	}
	short := other
	for _, x := range shortened(other, 1) {
		if near(x, other, max(nearShort, r.Got.DType.Eps()/4)) {
			short = x
			break
		}
	}
	for i := range weights {
		if weights[i] == other {
			weights[i] = short
		}
	}
	return weights
}

// nearShort is how near a number of few digits is to a weight that it is.
const nearShort = 2e-5

// unexplainedPart is the part of the squares of the errors that blocks leave of which all indices count alike.
const unexplainedPart = 1e-2

// rest is the sum of the squares that columns leave of y.
func rest(x [][]float64, y, counts []float64) (sum float64) {
	for k := range y {
		left := y[k]
		for i := range x {
			left -= counts[i] * x[i][k]
		}
		sum += left * left
	}
	return sum
}

// blockOf are the indices of the block that leaves least of y by itself, and those of its neighbour that leaves least
// with it.
func blockOf(x [][]float64, y []float64, block, n int) (from, to int) {
	best, least := -1, math.Inf(1)
	leaves := func(columns ...[]float64) float64 {
		if counts := leastSquares(columns, y); counts != nil {
			return rest(columns, y, counts)
		}
		return math.Inf(1)
	}
	for i := range x {
		if left := leaves(x[i]); left < least {
			best, least = i, left
		}
	}
	if best < 0 {
		return 0, 0
	}
	lo, hi := best, best+1
	before, after := math.Inf(1), math.Inf(1)
	if best > 0 {
		before = leaves(x[best-1], x[best])
	}
	if hi < len(x) {
		after = leaves(x[best], x[hi])
	}
	if before < after {
		lo--
	} else if !math.IsInf(after, 0) {
		hi++
	}
	return lo * block, min(hi*block, n)
}

// contributions are what each of some blocks of n indices contributes to a value, and what is wrong with it; nil if the
// value is not known without one of the blocks.
func (c *Search) contributions(r *Wrong, in *place, n int, blocks [][]int,
	with func([]float64) func() (Way, error)) (x [][]float64, e []float64) {
	if c.Guard(func() error {
		for _, block := range blocks {
			w := slices.Repeat([]float64{1}, n)
			clear(w[block[0] : block[len(block)-1]+1])
			got, due, less := c.few(with(w), r.Target)
			if less == nil || len(x) > 0 && len(got) != len(e) {
				return errNoValue
			}
			column, largest := tensor.Make[float64](len(got)), 0.0
			e = tensor.Make[float64](len(got))
			for i := range e {
				if e[i] = got[i] - due[i]; math.Abs(e[i]) > largest && finite(e[i]) {
					largest = math.Abs(e[i])
				}
			}
			for i := range column {
				if in != nil && (math.Abs(e[i]) <= unimportant*largest || alike(got[i], r.Got.DType.Round(due[i]))) {
					e[i] = 0 // beside the place
					continue
				}
				column[i] = due[i] - less[i]
			}
			x = append(x, column)
		}
		return nil
	}) != nil {
		return nil, nil
	}
	return x, e
}

// ofOneRun are numbers by which the columns of x add up to y, one number for columns that follow each other and 0 for
// the others: the shortest run that leaves next to nothing, nil if there is none.
func ofOneRun(x [][]float64, y []float64) []float64 {
	for long := 1; long < len(x); long++ {
		for from := 0; from+long <= len(x); from++ {
			sum := make([]float64, len(y))
			for _, column := range x[from : from+long] {
				for i := range sum {
					sum[i] += column[i]
				}
			}
			k, rest := multiple(y, sum), 0.0
			for i := range y {
				rest += (y[i] - k*sum[i]) * (y[i] - k*sum[i])
			}
			if rest <= 1e-4*dot(y, y) && !math.IsNaN(k) {
				out := make([]float64, len(x))
				for i := range long {
					out[from+i] = k
				}
				return out
			}
		}
	}
	return nil
}

var errNoValue = errors.New("there is no such value")

// valueUnder is the value of a result under a mistake, nil if there is none.
func (c *Search) valueUnder(make func() (Way, error), r *Wrong) *tensor.Tensor {
	way, err := make()
	if err != nil || way.Call == nil {
		return nil
	}
	if c.Work.Whole(); r.Forward() {
		f, err := way.Call.Forward()
		if err != nil {
			return nil
		}
		if strings.HasPrefix(r.Target, "input") {
			return c.Changed(f, r.Target)
		}
		return resultOf(f, r.Target)
	}
	return c.Under(way, r.Target)
}

// leastSquares are the numbers by which the columns of x add up to y as nearly as they can, nil if x does not tell
// them apart.
func leastSquares(x [][]float64, y []float64) []float64 {
	n := len(x)
	a := make([][]float64, n) // of the normal equations, with the right side
	for i := range a {
		a[i] = make([]float64, n+1)
		for k := range y {
			for j := range n {
				a[i][j] += x[i][k] * x[j][k]
			}
			a[i][n] += x[i][k] * y[k]
		}
	}
	for i := range n { // Gauss and Jordan
		pivot := a[i][i]
		if !(pivot > 1e-12*dot(x[i], x[i])) {
			return nil
		}
		for j := range n {
			if j == i {
				continue
			}
			f := a[j][i] / pivot
			for k := i; k <= n; k++ {
				a[j][k] -= f * a[i][k]
			}
		}
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = a[i][n] / a[i][i]
		if math.IsNaN(out[i]) || math.IsInf(out[i], 0) {
			return nil
		}
	}
	return out
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

// A knownValue is a tensor that a kernel has at hand.
type knownValue struct {
	text string
	t    *tensor.Tensor
}

const whatIsDue = "what is due"

// computed reports whether it is something that the call gives.
func (k knownValue) computed() bool {
	return k.text == theResult || strings.HasPrefix(k.text, whatIsDue)
}

// known are what a kernel has at hand beside a value: arguments, the incoming gradient, the other gradients or results.
func (c *Search) known(r *Wrong) (all []knownValue) {
	for _, a := range c.operands() {
		t := a.Tensor
		if r.Backward() { // a result may broadcast it by itself: then its factor says more
			t = broadcastTo(t, r.Got)
		}
		all = append(all, knownValue{argName(a), t})
	}
	if r.Backward() {
		for _, t := range c.Incoming {
			all = append(all, knownValue{"the incoming gradient", t})
		}
	}
	others := c.Due("output")
	if r.Backward() {
		others = c.Due("grad")
	}
	for target, t := range others {
		if target != r.Target {
			all = append(all, knownValue{whatIsDue + " of " + target, t})
		}
	}
	return all
}

// broadcastTo is a tensor of fewer dimensions as it is added to a value: broadcast, or along the one dimension that has
// its length; t if it is none.
func broadcastTo(t, value *tensor.Tensor) *tensor.Tensor {
	if value == nil || t.Dim() >= value.Dim() || t.Numel() < 2 {
		return t
	}
	if b, err := t.Expand(value.Shape...); err == nil {
		return b
	}
	for d, n := range value.Shape {
		if t.Dim() == 1 && n == t.Numel() {
			shape := slices.Repeat([]int{1}, value.Dim())
			shape[d] = n
			if b, err := t.Reshape(shape...).Expand(value.Shape...); err == nil {
				return b
			}
		}
	}
	return t
}

// sums are what a value may be of what is due and what is known.
var sums = []struct {
	text       string
	due, known float64
}{{"it is %s", 0, 1}, {"%s is added", 1, 1}, {"%s is subtracted", 1, -1}}

// addedValues are values to which something is added that is known, as where a sum does not begin with 0, or that
// are something else that is known.
func (c *Search) addedValues(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			r := &fails[i]
			for _, k := range c.known(r) {
				for m := range c.Sums(r, k.text, k.t) {
					if !yield(m) {
						return
					}
				}
			}
		}
	}
}

// Sums are the mistakes by which a value is t, which text names, or t is added to what is due, so far as the evidence
// does not rule them out. Each is one of len(sums) that were tried.
func (c *Search) Sums(r *Wrong, text string, t *tensor.Tensor) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		got, want, ok := r.Pair()
		if !ok || !got.DType.IsFloat() || got.Numel() < leastInNarrow || got.Numel() > largestOperand ||
			!t.DType.IsFloat() || !slices.Equal(got.Shape, want.Shape) || !slices.Equal(got.Shape, t.Shape) {
			return
		}
		for _, s := range sums {
			alter := func(target string, due *tensor.Tensor) *tensor.Tensor {
				if target != r.Target {
					return due
				}
				return opdef.ZipN(due.DType, due.Shape, func(dst []float64, src [][]float64) {
					for i := range dst {
						dst[i] = s.due*src[0][i] + s.known*src[1][i]
					}
				}, due, t)
			}
			enough := false
			_ = c.Guard(func() error { // what cannot be read is no sum
				made := alter(r.Target, want)
				enough = Evidence(got, want, made) >= Required(len(sums)) &&
					(s.due != 0 || t.DType != got.DType || copied(got, made))
				return nil
			})
			if enough && !yield(Mistake{Text: fmt.Sprintf(s.text, text), Rounds: true, Make: c.altering(alter),
				Cost: math.Log2(float64(len(sums)))}) {
				return
			}
		}
	}
}

// copied reports whether nearly all of some elements of a value are, but for the last bit, those of another of its
// dtype: what is copied is not rounded.
func copied(got, of *tensor.Tensor) bool {
	x, y, off := Pieces(got), Pieces(of), 0
	for i := range x {
		off += btoi(!alike(x[i], y[i]) && !(math.Abs(x[i]-y[i]) <= got.DType.ULP(x[i])))
	}
	return 20*off <= len(x)
}

// MayBeSum reports whether some elements of a recorded value, with those that are due, may be a known value, or that
// and what is due: most of them are, but for rounding.
func MayBeSum(got, due, known []float32, dt tensor.DType) bool {
	eps := float64(0)
	if dt.IsFloat() {
		eps = 16 * max(dt.Eps(), tensor.Float32.Eps())
	}
	for _, s := range sums {
		n := 0
		for i := range got {
			x, a, b := float64(got[i]), s.due*float64(due[i]), s.known*float64(known[i])
			n += btoi(alike(x, a+b) || math.Abs(x-a-b) <= eps*(math.Abs(a)+math.Abs(b)+math.Abs(x)))
		}
		if 4*n >= 3*len(got) {
			return true
		}
	}
	return false
}
