package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// shifted are indices that are one too high or too low, and then stay at the ends of a dimension or go around it.
func (c *Search) shifted() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		var sizes []int
		add := func(shape []int) {
			for _, n := range shape {
				if n > 1 && !slices.Contains(sizes, n) && len(sizes) < mostDimensions {
					sizes = append(sizes, n)
				}
			}
		}
		for _, a := range c.operands() {
			add(a.Tensor.Shape)
		}
		if c.Ran != nil && len(sizes) == 0 {
			for _, t := range c.Ran.Outs {
				add(t.Shape)
			}
		}
		for _, a := range c.readable() {
			if !a.Tensor.DType.IsIntegral() || a.Tensor.DType == tensor.Bool {
				continue
			}
			try := func(text string, f func(x int64) int64) bool {
				return yield(Mistake{Text: argName(a) + " is " + text, Make: c.one(a, func() *tensor.Tensor {
					return opdef.Map(a.Tensor.DType, a.Tensor, f)
				})})
			}
			if !try("one too low, but for 0", func(x int64) int64 { return max(x-1, min(x, 0)) }) {
				return
			}
			for _, n := range sizes {
				last := int64(n - 1)
				if !try(fmt.Sprintf("one too high, but for %d, the last", last), func(x int64) int64 {
					return min(x+1, max(last, x))
				}) || !try(fmt.Sprintf("one too high, and %d is 0", last), func(x int64) int64 {
					return (x + 1) % (last + 1)
				}) || !try(fmt.Sprintf("one too low, and 0 is %d, the last", last), func(x int64) int64 {
					return (x + last) % (last + 1)
				}) || !try(fmt.Sprintf("counted from the end, from %d", last), func(x int64) int64 {
					return last - x
				}) {
					return
				}
			}
		}
	}
}

// twice are calls that are done once more with their result in place of the operand that has its shape: updates of
// blocks that overlap.
func (c *Search) twice() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || len(c.Ran.Outs) != 1 {
			return
		}
		y := c.Ran.Outs[0]
		for _, a := range c.operands() {
			if slices.Equal(a.Tensor.Shape, y.Shape) && a.Tensor.DType == y.DType {
				yield(Mistake{Text: "it is done twice: its result is taken for " + argName(a),
					Rounds: true, Make: c.one(a, func() *tensor.Tensor { return y })})
				return
			}
		}
	}
}

// backwards are calls that run along a dimension from its end, where the result has the shape of the operand.
func (c *Search) backwards() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		all := c.operands()
		if c.Ran == nil || len(c.Ran.Outs) != 1 || len(all) != 1 ||
			!slices.Equal(all[0].Tensor.Shape, c.Ran.Outs[0].Shape) {
			return
		}
		a := all[0]
		for d, n := range a.Tensor.Shape {
			turned := func(t *tensor.Tensor) *tensor.Tensor {
				return reordered(t, d, func(i, n int) int { return n - 1 - i })
			}
			if n > 1 && !yield(Mistake{Text: fmt.Sprintf("it runs along dimension %d from the end", d), Rounds: true,
				Make: func() (Way, error) {
					way, err := c.one(a, func() *tensor.Tensor { return turned(a.Tensor) })()
					way.Alter = func(_ string, t *tensor.Tensor) *tensor.Tensor {
						if !slices.Equal(t.Shape, a.Tensor.Shape) {
							return t
						}
						return turned(t)
					}
					return way, err
				}}) {
				return
			}
		}
	}
}

// ofOneResult are other arguments for the results alone that failed: of several, or of the tensors of a list that the
// call changes.
func (c *Search) ofOneResult(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || !fails[0].Forward() {
			return
		}
		var targets, results []string
		for _, w := range fails {
			if w.Forward() {
				targets = append(targets, w.Target)
				if strings.HasPrefix(w.Target, "output") {
					results = append(results, w.Target)
				}
			}
		}
		if len(results) == 0 {
			results = targets
		}
		several := len(c.Ran.Outs)
		for _, changed := range c.Ran.After {
			several = max(several, len(changed))
		}
		if several <= len(results) || len(results) > mostAlone {
			return
		}
		for m := range c.wrongArguments() {
			m.Text = "for " + strings.Join(results, " and ") + " alone, " + m.Text
			inner := m.Make
			m.Number = nil
			m.Make = func() (Way, error) {
				way, err := inner()
				if err != nil || way.Call == nil {
					return way, err
				}
				f, err := way.Call.Forward()
				if err != nil {
					return Way{}, err
				}
				made := map[string]*tensor.Tensor{}
				for _, target := range targets {
					switch made[target] = resultOf(f, target); {
					case strings.HasPrefix(target, "input"):
						made[target] = c.Changed(f, target)
					case made[target] == nil: // the tensors that it changes are its results
						made[target] = c.Changed(f, "input"+strings.TrimPrefix(target, "output"))
					}
				}
				return c.altering(func(of string, t *tensor.Tensor) *tensor.Tensor {
					x := made[of]
					if x == nil || !slices.Equal(x.Shape, t.Shape) || x.DType != t.DType {
						return t
					}
					return x
				})()
			}
			if !yield(m) {
				return
			}
		}
	}
}

// mostAlone is of how many results it is said that another argument is theirs alone.
const mostAlone = 3

// transposed are calls on matrices that work along the other dimension: of transposed operands, with results that are
// transposed back.
func (c *Search) transposed(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || !fails[0].Forward() || !slices.ContainsFunc(c.operands(), func(a opdef.Arg) bool {
			return a.Tensor.Dim() == 2
		}) {
			return
		}
		yield(Mistake{Text: "its matrices are read as if transposed, column by column, and the result is written likewise", Make: func() (Way, error) {
			call := c.Bound.Map(func(a opdef.Arg) *tensor.Tensor {
				if a.Tensor.Dim() != 2 {
					return a.Tensor
				}
				return tensor.Memo(a.Tensor.Transpose(0, 1))
			})
			f, err := call.Forward()
			if err != nil {
				return Way{}, err
			}
			return c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
				made := resultOf(f, target)
				switch {
				case made == nil || made.DType != t.DType:
					return t
				case made.Dim() == 2 && slices.Equal([]int{made.Shape[1], made.Shape[0]}, t.Shape):
					return made.Transpose(0, 1)
				case slices.Equal(made.Shape, t.Shape):
					return made
				}
				return t
			})()
		}})
	}
}

// averagedGradients are gradients that are divided by the number of incoming ones that they are sums of, or of which
// each counts once.
func (c *Search) averagedGradients(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if len(c.Incoming) == 0 || !fails[0].Backward() || c.Under == nil {
			return
		}
		counts := map[string]*tensor.Tensor{}
		_ = c.Guard(func() error { // what cannot be run has none
			way, err := c.alteringIncoming(func(t *tensor.Tensor) *tensor.Tensor {
				return tensor.Full(t.DType, t.Shape, 1.0)
			})()
			if err != nil {
				return err
			}
			for _, r := range fails {
				c.Work.Whole()
				if t := c.Under(way, r.Target); t != nil && t.DType.IsFloat() && strings.HasPrefix(r.Target, "grad") {
					if v := elements(t); areCounts(v) {
						counts[r.Target] = tensor.New(tensor.Float64, t.Shape, v)
					}
				}
			}
			return nil
		})
		if len(counts) == 0 {
			return
		}
		yield(Mistake{Text: "each sum of incoming gradients is divided by the number of its terms", Rounds: true,
			Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
				n := counts[target]
				if n == nil || !slices.Equal(n.Shape, t.Shape) {
					return t
				}
				return opdef.Zip(t.DType, t, n, func(x, n float64) float64 {
					if n == 0 {
						return x
					}
					return x / n
				})
			})})
	}
}

// areCounts reports whether numbers say how many terms sums have: whole numbers, some above 1.
func areCounts(v []float64) bool {
	return slices.Max(v) > 1 && !slices.ContainsFunc(v, func(n float64) bool { return !(n >= 0 && n == math.Trunc(n)) })
}

// byResults are gradients of results that are picked by positions, which are results too: they are read at the
// positions, not written there, or written to the first places.
func (c *Search) byResults(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		if c.Ran == nil || len(c.Ran.Outs) != 2 || !fails[0].Backward() || len(c.Incoming) == 0 ||
			!c.Ran.Outs[1].DType.IsIntegral() {
			return
		}
		want, up, at := fails[0].Want, c.Incoming[0], c.Ran.Outs[1]
		if want == nil || up == nil || !slices.Equal(up.Shape, at.Shape) || up.Dim() != want.Dim() {
			return
		}
		along, given := c.dimension(want.Dim())
		for d, n := range want.Shape {
			if given && d != along {
				continue
			}
			k := up.Shape[d]
			removed := slices.Delete(slices.Clone(want.Shape), d, d+1)
			if !slices.Equal(removed, slices.Delete(slices.Clone(up.Shape), d, d+1)) {
				continue
			}
			inner := tensor.Numel(want.Shape[d+1:])
			made := func(of func(up []float64, p []int64, i int) float64) []float64 {
				var out []float64
				_ = c.Guard(func() error {
					u, p := elements(up), whole64(at)
					out = make([]float64, want.Numel())
					row, where := make([]float64, k), make([]int64, k)
					for r := range want.Numel() / n {
						for i := range k {
							from := (r/inner*k+i)*inner + r%inner
							row[i], where[i] = u[from], p[from]
						}
						for i := range n {
							out[(r/inner*n+i)*inner+r%inner] = of(row, where, i)
						}
					}
					return nil
				})
				return out
			}
			for _, m := range []struct {
				text string
				of   func(up []float64, p []int64, i int) float64
			}{
				{"the incoming gradient is read at the positions, not written there",
					func(up []float64, p []int64, i int) float64 {
						if i >= len(p) || p[i] < 0 || int(p[i]) >= len(up) {
							return 0
						}
						return up[p[i]]
					}},
				{"the incoming gradient is written to the first places, not to the positions",
					func(up []float64, _ []int64, i int) float64 {
						if i >= len(up) {
							return 0
						}
						return up[i]
					}},
				{"the incoming gradient is written to the last places, not to the positions",
					func(up []float64, _ []int64, i int) float64 {
						if i < n-len(up) {
							return 0
						}
						return up[i-n+len(up)]
					}},
			} {
				v := made(m.of)
				if v != nil && !yield(Mistake{Text: fmt.Sprintf("%s along dimension %d", m.text, d), Rounds: true,
					Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
						if target != fails[0].Target || t.Numel() != len(v) {
							return t
						}
						return tensor.New(t.DType, t.Shape, v)
					})}) {
					return
				}
			}
		}
	}
}

// dimension is the one among so many that the call's dim says; false if it has none.
func (c *Search) dimension(of int) (d int, ok bool) {
	for _, a := range c.Bound.Arguments() {
		if n, is := a.Python().(int64); is && a.Name == "dim" {
			return int((n + int64(of)) % int64(max(of, 1))), true
		}
	}
	return 0, false
}

// copiedTiles are values that hold in a box of indices what is due in another box of that size: a tile that was read
// from what the memory held of another.
func (c *Search) copiedTiles(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		r := &fails[0]
		got, want, ok := r.floats()
		if !ok || got.Dim() == 0 || got.Dim() > mostDimensions {
			return
		}
		var p *place
		var x, y []float64
		if c.Guard(func() error {
			p, x, y = placeOf(got, want, r.Allowed), elements(got), elements(want)
			return nil
		}) != nil || p == nil || p.indices == nil {
			return
		}
		var inside []int
		for i := range x {
			if p.holds(i) {
				inside = append(inside, i)
			}
		}
		if len(inside) < leastInPart {
			return
		}
		starts, step := make([]int, got.Dim()), make([]int, got.Dim())
		tried := 1
		for d, at := range p.indices {
			if at[len(at)-1]-at[0] != len(at)-1 {
				return
			}
			starts[d], step[d] = at[0], len(at)
			tried *= max(1, got.Shape[d]/len(at))
		}
		if tried < 2 || tried > mostTiles {
			return
		}
		packed := tensor.Contiguous(got.Shape)
		for k := range tried {
			offset, rest, from := 0, k, make([]int, got.Dim())
			for d := range starts {
				n := max(1, got.Shape[d]/step[d])
				from[d] = rest % n * step[d]
				rest /= n
				offset += (from[d] - starts[d]) * packed[d]
			}
			off := 0
			for _, i := range inside {
				z := got.DType.Round(y[i+offset])
				if off += btoi(!alike(x[i], z) && !(abs64(x[i]-z) <= 2*got.DType.ULP(z))); 20*off > len(inside) {
					break
				}
			}
			if offset == 0 || 20*off > len(inside) {
				continue
			}
			if !yield(Mistake{Text: fmt.Sprintf("%s: it holds what is due in the part that begins at index %s", p,
				tensor.ShapeString(from)), Rounds: true, Cost: p.cost() + float64(btoi(tried > 1)),
				Make: c.resultIs(r.Target, func(i int) int {
					if p.holds(i) {
						return i + offset
					}
					return i
				})}) {
				return
			}
		}
	}
}

func abs64(x float64) float64 { return max(x, -x) }

// mostTiles is how many boxes of a value are looked at.
const mostTiles = 4096
