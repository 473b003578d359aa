package replay

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// A mistake is a way to run a call wrongly.
type mistake struct {
	text   string
	make   func() (reading, error)
	rounds bool   // see opdef.Mistake
	like   string // what it is one value of: once one explains, others are not tried
	all    bool   // it explains nothing unless it explains all that failed
}

// mistakes are the kinds of what kernels get wrong, the likeliest first: arguments, results as
// such, what the operator declares, precision, how operands lie in memory, parts of
// them left out. Those of which a number is fitted to what was recorded, those that are
// confined to the place of the errors, and others that take long, come apart.
func (c *Call) mistakes(fails []Result) (all, rest []iter.Seq[mistake]) {
	local := []iter.Seq[mistake]{c.wrongArguments(), c.exchangedArguments(), c.declared(), c.passedGradients(),
		c.otherOperators(), c.endedOtherwise(fails), c.misderived(fails), c.rounded(), c.misreadIndices(),
		c.misreadOperands(), c.misbroadcast(), c.permutedOperands(), c.swappedOperands(), c.missingParts(),
		c.missingRows()}
	all = slices.Concat(local[:2], []iter.Seq[mistake]{c.misplacedResults(fails), c.exchangedResults()}, local[2:],
		[]iter.Seq[mistake]{c.addedValues(fails), c.wrongSizes()})
	return all, []iter.Seq[mistake]{c.fittedNumbers(fails), c.limited(fails), c.weightedParts(fails, nil),
		c.quantized(), c.operandsInMemory(), c.confined(fails, local), c.scaledBesides(fails, local)}
}

// declared are the mistakes that the operator declares.
func (c *Call) declared() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		if c.bound.Plan() != nil {
			return
		}
		for _, m := range c.bound.Mistakes() {
			if !yield(mistake{m.Text, func() (reading, error) {
				call, err := m.Plan()
				return reading{call: call}, err
			}, m.Rounds, "", false}) {
				return
			}
		}
	}
}

// otherOperators are those that the operator is taken for.
func (c *Call) otherOperators() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		for _, name := range c.bound.Entry.TakenFor {
			if !yield(mistake{text: "it is computed as " + name[strings.LastIndexByte(name, '.')+1:],
				make: func() (reading, error) {
					args, kwargs := c.bound.Python()
					call, err := c.opt.Registry.Bind(name, args, kwargs)
					if err == nil {
						return reading{call: call}, nil
					}
					if call := c.byName(name); call != nil {
						return reading{call: call}, nil
					}
					args = nil
					for _, a := range c.bound.Arguments() {
						if a.Required {
							args = append(args, a.Python())
						}
					}
					call, err = c.opt.Registry.Bind(name, args, &value.Dict{})
					return reading{call: call}, err
				}}) {
				return
			}
		}
	}
}

// byName is a call of another operator with the arguments that have names there too, nil if it lacks one.
func (c *Call) byName(op string) *opdef.Call {
	for _, e := range c.opt.Registry.Lookup(op) {
		kwargs := &value.Dict{}
		for _, a := range c.bound.Arguments() {
			if slices.ContainsFunc(e.Schema.Params, func(p opdef.Param) bool { return p.Name == a.Name }) {
				kwargs.Items = append(kwargs.Items, value.Item{Key: a.Name, Value: a.Python()})
			}
		}
		if call, err := c.opt.Registry.Bind(op, nil, kwargs); err == nil {
			return call
		}
	}
	return nil
}

// wrongArguments gives each argument other values: the default, what else such an
// argument often is, none.
func (c *Call) wrongArguments() iter.Seq[mistake] { return c.mistakenArguments(false) }

// wrongSizes are arguments of the same kind that make more than is due, which is not written.
func (c *Call) wrongSizes() iter.Seq[mistake] { return c.mistakenArguments(true) }

func (c *Call) mistakenArguments(cropped bool) iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		for _, a := range c.bound.Arguments() {
			for _, v := range a.Mistaken() {
				if _, is := v.(float64); cropped && (is || !isNumbers(v)) {
					continue
				}
				was := a.Python()
				text := fmt.Sprintf("%s is %s, not %s", a.Name, shown(v), shown(was))
				if _, isTensor := was.(*tensor.Tensor); isTensor && v == nil {
					text = a.Name + " is left out"
				}
				if !yield(mistake{text: text, make: func() (reading, error) {
					other := map[string]value.Value{a.Name: v}
					way, err := c.withArguments(other)
					if err != nil || way.call.Plan() != nil { // what went with the old value may not go with it
						for _, b := range c.bound.Arguments() {
							if _, is := b.Python().(bool); is && b.MayBeNone() {
								other[b.Name] = nil
							}
						}
						way, err = c.withArguments(other)
					}
					if cropped {
						way.alter = c.cropped
					}
					return way, err
				}}) {
					return
				}
			}
		}
	}
}

// resultOf is the result of that target, nil if it is none: "output[1]".
func resultOf(f *opdef.Forward, target string) *tensor.Tensor {
	i := 0
	if _, err := fmt.Sscanf(target, "output[%d]", &i); err != nil || i >= len(f.Outs) {
		return nil
	}
	return f.Outs[i]
}

// cropped is the beginning of a result that is larger than the one that is due: a kernel
// writes no more than that.
func (c *Call) cropped(target string, t *tensor.Tensor) *tensor.Tensor {
	if c.fwd == nil {
		return t
	}
	whole := resultOf(c.fwd, target)
	if whole == nil {
		return t
	}
	due := whole.Shape
	if slices.Equal(due, t.Shape) || len(due) != t.Dim() {
		return t
	}
	for d, n := range due {
		if n > t.Shape[d] {
			return t
		}
	}
	for d, n := range due {
		t = t.Slice(d, 0, n, 1)
	}
	return t
}

func shown(v value.Value) string {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("%g", f)
	}
	return value.Repr(v)
}

// withArguments is the call with other values of arguments.
func (c *Call) withArguments(other map[string]value.Value) (reading, error) {
	args, kwargs := c.bound.Python()
	i := 0
	for _, p := range c.bound.Entry.Schema.Params {
		if p.Keyword {
			continue
		}
		if v, ok := other[p.Name]; ok {
			args[i] = v
		}
		i++
	}
	for k := range kwargs.Items {
		if name, _ := kwargs.Items[k].Key.(string); name != "" {
			if v, ok := other[name]; ok {
				kwargs.Items[k].Value = v
			}
		}
	}
	call, err := c.opt.Registry.Bind(c.Record.Op, args, kwargs)
	return reading{call: call}, err
}

// replaced is the call with other tensors in place of those among its arguments; f returns
// nil for one that stays. There is no reading if all stay.
func (c *Call) replaced(f func(opdef.Arg) *tensor.Tensor) (reading, error) {
	way := reading{original: map[*tensor.Tensor]*tensor.Tensor{}}
	call := c.bound.Map(func(a opdef.Arg) *tensor.Tensor {
		t := a.Tensor
		if t.Wrapped || t.Numel() == 0 || t.Numel() > largestOperand {
			return t
		}
		n := f(a)
		if n == nil {
			return t
		}
		n.RequiresGrad, n.Parameter = t.RequiresGrad, t.Parameter
		way.original[n] = c.recorded(t)
		return n
	})
	if len(way.original) > 0 {
		way.call = call
	}
	return way, nil
}

// largestOperand is the number of elements up to which operands are copied.
const largestOperand = 1 << 24

// largestKernel is the number of elements up to which a convolution's kernel may be meant.
const largestKernel = 1 << 10

// elements are those of t, in row-major order.
func elements(t *tensor.Tensor) []float64 {
	v := make([]float64, t.Numel())
	tensor.Load(t, 0, v)
	return v
}

// endedOtherwise are results whose last step is missing, or of which one too many is taken: a root that is
// left out or taken, an activation that was fused with a neighbour.
func (c *Call) endedOtherwise(fails []Result) iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		n := 0
		for _, r := range fails {
			if r.Phase == Forward {
				n += r.Compared.Numel
			}
		}
		if n < fewestScaled {
			return
		}
		for _, end := range []ending{
			{"results are squared", func(x float64) float64 { return x * x }},
			{"the square root of results is taken", math.Sqrt},
			{"negative results are set to 0", func(x float64) float64 { return math.Max(x, 0) }},
		} {
			if !yield(c.ending(end)) {
				return
			}
		}
	}
}

// ending is the call whose results have another end.
func (c *Call) ending(end ending) mistake {
	return mistake{text: end.text, rounds: true, make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
		if !t.DType.IsFloat() || !strings.HasPrefix(target, "output[") {
			return t
		}
		return opdef.Map(t.DType, t, end.f)
	})}
}

// An ending is a last step that is missing, or one too many.
type ending struct {
	text string
	f    func(x float64) float64
}

// limitedResults are the ending of results none of which is beyond the largest or the smallest of them where
// more than one is due beyond it.
func limitedResults(got, want *tensor.Tensor) []ending {
	lo, hi := math.Inf(1), math.Inf(-1)
	beyond := map[bool]int{}
	if Guard(func() error {
		x, y := elements(got), elements(want)
		for _, v := range x {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
		for i := range x {
			if x[i] == hi && y[i] > hi+4*got.DType.ULP(hi) {
				beyond[true]++
			}
			if x[i] == lo && y[i] < lo-4*got.DType.ULP(lo) {
				beyond[false]++
			}
		}
		return nil
	}) != nil || lo == hi || math.IsNaN(lo) {
		return nil
	}
	limited := "results are limited to %.7g from "
	above := ending{fmt.Sprintf(limited+"above", hi), func(x float64) float64 { return min(x, hi) }}
	below := ending{fmt.Sprintf(limited+"below", lo), func(x float64) float64 { return max(x, lo) }}
	switch {
	case beyond[true] > 1 && beyond[false] > 1:
		return []ending{{fmt.Sprintf("results are limited to %.7g to %.7g", lo, hi), func(x float64) float64 {
			return above.f(below.f(x))
		}}}
	case beyond[true] > 1:
		return []ending{above}
	case beyond[false] > 1:
		return []ending{below}
	}
	return nil
}

// rounded rounds results, operands or both to coarser numbers.
func (c *Call) rounded() iter.Seq[mistake] {
	var finest tensor.DType
	for _, a := range c.operands() {
		if finest == tensor.Invalid || a.Tensor.DType.Eps() < finest.Eps() {
			finest = a.Tensor.DType
		}
	}
	return func(yield func(mistake) bool) {
		if finest == tensor.Invalid {
			return
		}
		for _, g := range opdef.CoarserGrids(finest) {
			results := func(target string, t *tensor.Tensor) *tensor.Tensor {
				if !t.DType.IsFloat() || target == incoming {
					return t
				}
				return g.OnGrid(t)
			}
			operands := func() (reading, error) {
				return c.replaced(func(a opdef.Arg) *tensor.Tensor {
					if !a.Tensor.DType.IsFloat() {
						return nil
					}
					return g.OnGrid(a.Tensor).Rounded()
				})
			}
			for _, m := range []mistake{
				{"results are rounded to " + g.Name, c.altering(results), true, "", false},
				{"operands are rounded to " + g.Name + " first", operands, true, "", false},
				{"operands and results are rounded to " + g.Name, func() (reading, error) {
					way, err := operands()
					way.alter = results
					return way, err
				}, true, "", false},
			} {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// operands are the tensors whose reading may be wrong.
func (c *Call) operands() []opdef.Arg {
	return slices.DeleteFunc(c.bound.Tensors(), func(a opdef.Arg) bool {
		t := a.Tensor
		return t.Wrapped || !t.DType.IsFloat() || t.Dim() == 0 || t.Numel() > largestOperand
	})
}

func argName(a opdef.Arg) string {
	if a.Index >= 0 {
		return fmt.Sprintf("%s[%d]", a.Name, a.Index)
	}
	return a.Name
}

// one replaces a single operand.
func (c *Call) one(a opdef.Arg, f func() *tensor.Tensor) func() (reading, error) {
	return func() (reading, error) {
		return c.replaced(func(b opdef.Arg) *tensor.Tensor {
			if b.Name != a.Name || b.Index != a.Index {
				return nil
			}
			return f()
		})
	}
}

// misreadOperands reads an operand with strides of a contiguous one, transposed, backwards
// along its last dimensions as a convolution that is none of cross-correlation does, or with
// its heads, groups or rows shifted by one.
func (c *Call) misreadOperands() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		for _, a := range c.operands() {
			t, name := a.Tensor, argName(a)
			if !t.IsContiguous() && !yield(mistake{text: "the strides of " + name + " are ignored", make: c.one(a,
				func() *tensor.Tensor {
					n, err := t.Strided(t.Shape, tensor.Contiguous(t.Shape), t.Offset)
					if err != nil {
						return nil
					}
					return n
				})}) {
				return
			}
			if d := t.Dim(); d >= 2 && t.Shape[d-1] == t.Shape[d-2] && t.Shape[d-1] > 1 &&
				!yield(mistake{text: name + " is transposed", make: c.one(a, func() *tensor.Tensor {
					n := *t.Transpose(d-2, d-1)
					return &n
				})}) {
				return
			}
			if d := t.Dim(); d >= 3 && t.Shape[0] == t.Shape[1] && t.Shape[0] > 1 &&
				!yield(mistake{text: "dimensions 0 and 1 of " + name + " are exchanged",
					make: c.one(a, func() *tensor.Tensor {
						n := *t.Transpose(0, 1)
						return &n
					})}) {
				return
			}
			if inner := tensor.Numel(t.Shape[min(2, t.Dim()):]); t.Dim() >= 3 && inner > 1 && inner <= largestKernel &&
				!yield(mistake{text: name + " is read backwards from dimension 2 on", make: c.one(a,
					func() *tensor.Tensor {
						v := elements(t)
						for i := 0; i < len(v); i += inner {
							slices.Reverse(v[i : i+inner])
						}
						return tensor.New(t.DType, t.Shape, v)
					})}) {
				return
			}
			for d := range t.Shape {
				if n := t.Shape[d]; n > 1 && n <= 256 && !yield(mistake{
					text: fmt.Sprintf("%s is read one further along dimension %d", name, d),
					make: c.one(a, func() *tensor.Tensor {
						inner, v := tensor.Contiguous(t.Shape)[d], elements(t)
						out := make([]float64, len(v))
						for i := range v {
							at := i / inner % n
							out[i] = v[i+((at+1)%n-at)*inner]
						}
						return tensor.New(t.DType, t.Shape, out)
					})}) {
					return
				}
			}
		}
	}
}

// swappedOperands exchanges two operands of one shape.
func (c *Call) swappedOperands() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		all := c.operands()
		for i, a := range all {
			for _, b := range all[i+1:] {
				if a.Tensor.DType != b.Tensor.DType || !slices.Equal(a.Tensor.Shape, b.Tensor.Shape) {
					continue
				}
				text := argName(a) + " and " + argName(b) + " are swapped"
				if !yield(mistake{text: text, make: func() (reading, error) {
					return c.replaced(func(x opdef.Arg) *tensor.Tensor {
						var n tensor.Tensor
						switch {
						case x.Name == a.Name && x.Index == a.Index:
							n = *b.Tensor
						case x.Name == b.Name && x.Index == b.Index:
							n = *a.Tensor
						default:
							return nil
						}
						return &n
					})
				}}) {
					return
				}
			}
		}
	}
}

// missingParts leaves out the end of a dimension of an operand, an incomplete tile or
// the last elements, or the first, or the operand altogether.
func (c *Call) missingParts() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		for _, a := range c.operands() {
			t, name := a.Tensor, argName(a)
			for d := t.Dim() - 1; d >= 0; d-- {
				n := t.Shape[d]
				for _, tail := range opdef.Tails(n) {
					text := fmt.Sprintf("the last %d of dimension %d of %s are left out", tail, d, name)
					if tail == 1 {
						text = fmt.Sprintf("the last of dimension %d of %s is left out", d, name)
					}
					if !yield(mistake{text: text, make: c.one(a, func() *tensor.Tensor {
						return without(t, d, n-tail, n)
					})}) {
						return
					}
				}
				first := fmt.Sprintf("index 0 of dimension %d of %s is ", d, name)
				if n > 1 && !(yield(mistake{text: first + "taken for 0", make: c.one(a, func() *tensor.Tensor {
					return without(t, d, 0, 1)
				})}) && yield(mistake{text: first + "multiplied by 0", make: c.one(a, func() *tensor.Tensor {
					return altered(t, d, 0, 1, func(x float64) float64 { return 0 * x }) // keeps the sign
				})})) {
					return
				}
			}
			if arg, _ := c.bound.Argument(a.Name); !arg.Required { // that it is left out was tried
				continue
			}
			if !yield(mistake{text: name + " is taken for 0", make: c.one(a, func() *tensor.Tensor {
				return tensor.Full(t.DType, t.Shape, 0.0)
			})}) {
				return
			}
		}
	}
}

// without is t with zeros from an index of a dimension to below another.
func without(t *tensor.Tensor, d, from, to int) *tensor.Tensor {
	return altered(t, d, from, to, func(float64) float64 { return 0 })
}

// altered is t with other elements from an index of a dimension to below another.
func altered(t *tensor.Tensor, d, from, to int, f func(x float64) float64) *tensor.Tensor {
	n, inner, v := t.Shape[d], tensor.Numel(t.Shape[d+1:]), elements(t)
	for i := range v {
		if at := i / inner % n; at >= from && at < to {
			v[i] = f(v[i])
		}
	}
	return tensor.New(t.DType, t.Shape, v)
}

// operandsInMemory reads an operand in the order in which other dimensions would lie in memory.
func (c *Call) operandsInMemory() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		for _, a := range c.operands() {
			t := a.Tensor
			if t.Dim() < 2 || t.Dim() > mostDimensions-1 {
				continue
			}
			for _, dims := range orders(t.Dim()) {
				if !yield(mistake{like: argName(a),
					text: argName(a) + " is read as if its dimensions lay in memory in the order " + beginning(dims),
					make: c.one(a, func() *tensor.Tensor {
						v, from := elements(t), laidOut(t.Shape, dims)
						out := make([]float64, len(v))
						for i := range out {
							out[i] = v[from(i)]
						}
						return tensor.New(t.DType, t.Shape, out)
					})}) || !yield(mistake{like: argName(a),
					text: argName(a) + " is read as if it were contiguous in the order of dimensions " +
						beginning(dims),
					make: c.one(a, func() *tensor.Tensor {
						v, from := elements(t), laidOut(t.Shape, dims)
						out := make([]float64, len(v))
						for i := range out {
							out[from(i)] = v[i]
						}
						return tensor.New(t.DType, t.Shape, out)
					})}) {
					return
				}
			}
		}
	}
}

// missingRows leaves out the end of the gradient that a backward pass starts from, as where the
// sum for a weight's gradient ends early, after a tile, or counts one of a batch: the last rows
// of all, or the end of one dimension.
func (c *Call) missingRows() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		if c.fwd == nil || len(c.fwd.Outs) != 1 || c.fwd.Outs[0].Dim() < 2 || c.fwd.Outs[0].Numel() > largestOperand {
			return
		}
		shape := c.fwd.Outs[0].Shape
		last := len(shape) - 1
		rows := tensor.Numel(shape[:last])
		each := rows / max(shape[0], 1) // of a batch
		without := func(what string, n, inner, tail int) bool {
			return yield(mistake{
				text: fmt.Sprintf("the last %d of %d %s of the incoming gradient are left out", tail, n, what),
				make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
					if target != incoming || t.Numel() != tensor.Numel(shape) {
						return t
					}
					v := elements(t)
					for i := range v {
						if i/inner%n >= n-tail {
							v[i] = 0
						}
					}
					return tensor.New(t.DType, t.Shape, v)
				})})
		}
		for _, tail := range tails(rows, each, rows-each) {
			if !without("rows", rows, shape[last], tail) {
				return
			}
		}
		for d := last - 1; d > 0; d-- { // of the first, all rows say it
			for _, tail := range tails(shape[d]) {
				if !without(fmt.Sprintf("indices of dimension %d", d), shape[d], tensor.Numel(shape[d+1:]), tail) {
					return
				}
			}
		}
	}
}

// tails are how many of n kernels leave out at the end: some, an incomplete tile or the last
// one, all but the first tile.
func tails(n int, some ...int) []int {
	all := some
	for _, tile := range opdef.Tiles {
		all = append(all, cmp.Or(n%tile, tile), n-tile)
	}
	var out []int
	for _, tail := range all {
		if tail > 0 && tail < n && !slices.Contains(out, tail) {
			out = append(out, tail)
		}
	}
	return out
}
