package replay

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

// A Cause is a mistake under which the reference gives what was recorded: another
// argument, an operand that was read or rounded in another way.
type Cause struct {
	Text string // "eps is 0.01, not 1e-05"
	// Targets are the values that fail and that it explains.
	Targets []string
	// Exact says that each explained element is the nearest value of its dtype.
	Exact bool
}

// Causes looks for what went wrong in a call that failed with this outcome: the
// reference runs again under what kernels get wrong, each mistake by itself, until a
// deadline. A mistake is a cause if all values of a pass that fail are within their
// bounds under it, and nearer than before by a factor of eight at least. Those that
// explain most come first.
func (c *Call) Causes(o *Outcome, until time.Time) []Cause {
	var fails []Result
	for _, r := range o.Results {
		if r.Verdict == verdict.Fail && r.Compared != nil && r.Layout == "" {
			fails = append(fails, r)
		}
	}
	if len(fails) == 0 || c.bound == nil || c.bound.Random() != "" {
		return nil
	}
	if c.opt.Device != nil {
		return c.asRecorded().Causes(&Outcome{Results: slices.DeleteFunc(fails, func(r Result) bool {
			return r.Phase != Forward || c.values.Output == nil
		})}, until)
	}
	var causes []Cause
	for m := range c.mistakes() {
		if time.Now().After(until) {
			break
		}
		if k, ok := c.explains(m, fails); ok {
			causes = append(causes, k)
		}
	}
	slices.SortStableFunc(causes, func(a, b Cause) int {
		switch {
		case len(a.Targets) != len(b.Targets):
			return len(b.Targets) - len(a.Targets)
		case a.Exact != b.Exact:
			if a.Exact {
				return -1
			}
			return 1
		}
		return 0
	})
	return causes
}

// asRecorded is the call with what a device gave in place of what was recorded, its
// forward pass alone.
func (c *Call) asRecorded() *Call {
	d := *c
	out := c.values.RecordedOutput
	if len(out) > 1 {
		out = []value.Value{value.NewTuple(out...)}
	}
	d.Record = capture.Made(map[capture.Kind]*capture.Record{capture.Input: c.Record.Record(capture.Input),
		capture.Output: {Name: c.Record.Op, Args: out, Identifier: c.Record.Identifier}})
	d.opt.Device, d.opt.Stress, d.opt.ForwardOnly = nil, false, true
	return &d
}

// explains runs the call with a mistake.
func (c *Call) explains(m mistake, fails []Result) (Cause, bool) {
	k := Cause{Text: m.text, Exact: true}
	var way reading
	if err := Guard(func() (err error) { way, err = m.make(); return err }); err != nil || way.call == nil {
		return k, false
	}
	alt := &comparison{Call: c.readAs(way), out: &Outcome{Op: c.Op}}
	alt.opt.Runs = 1
	alt.guard(alt.compareCall)
	passes := map[Phase]bool{}
	for _, f := range fails {
		i := slices.IndexFunc(alt.out.Results, func(r Result) bool {
			return r.Phase == f.Phase && r.Target == f.Target
		})
		ok := i >= 0 && nearer(alt.out.Results[i], f)
		if ok {
			k.Targets = append(k.Targets, f.Target)
			k.Exact = k.Exact && alt.out.Results[i].Compared.MaxULP == 0
		}
		if before, seen := passes[f.Phase]; seen {
			ok = ok && before
		}
		passes[f.Phase] = ok
	}
	for phase, ok := range passes { // part of a pass is no explanation of it
		if !ok {
			k.Targets = slices.DeleteFunc(k.Targets, func(t string) bool {
				return slices.ContainsFunc(fails, func(f Result) bool { return f.Phase == phase && f.Target == t })
			})
		}
	}
	return k, len(k.Targets) > 0
}

// nearer reports whether a value is explained by r, where it failed as f.
func nearer(r, f Result) bool {
	if r.Verdict != verdict.Pass || r.Compared == nil {
		return false
	}
	now, was := r.Compared.OpTools.MaxAbs, f.Compared.OpTools.MaxAbs
	return math.IsNaN(was) || math.IsInf(was, 0) || now <= was/8
}

// A mistake is a way to run a call wrongly.
type mistake struct {
	text string
	make func() (reading, error)
}

// mistakes yields what kernels get wrong, the likeliest first: arguments, precision of
// operands, how operands lie in memory, parts of them left out.
func (c *Call) mistakes() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		for _, source := range []iter.Seq[mistake]{c.wrongArguments(), c.misalignedMask(), c.roundedOperands(),
			c.misreadOperands(), c.swappedOperands(), c.missingParts()} {
			for m := range source {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// wrongArguments gives each argument other values: the default, what else such an
// argument often is, none.
func (c *Call) wrongArguments() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		for _, a := range c.bound.Arguments() {
			for _, v := range a.Mistaken() {
				was := a.Python()
				text := fmt.Sprintf("%s is %s, not %s", a.Name, shown(v), shown(was))
				if _, isTensor := was.(*tensor.Tensor); isTensor && v == nil {
					text = a.Name + " is left out"
				}
				if !yield(mistake{text, func() (reading, error) { return c.withArgument(a.Name, v) }}) {
					return
				}
			}
		}
	}
}

// misalignedMask gives attention whose causal mask begins in one corner the mask that
// begins in the other: they differ where there are not as many queries as keys.
func (c *Call) misalignedMask() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		causal, ok := c.bound.Argument("is_causal")
		if !ok || causal.Value != true {
			return
		}
		if _, ok := c.bound.Argument("attn_mask"); !ok {
			return
		}
		lens := map[string]int{}
		for _, a := range c.bound.Tensors() {
			if a.Tensor.Dim() >= 2 {
				lens[a.Name] = a.Tensor.Shape[a.Tensor.Dim()-2]
			}
		}
		queries, keys := lens["query"], lens["key"]
		if queries == keys || queries*keys == 0 || queries*keys > largestOperand {
			return
		}
		yield(mistake{"the causal mask begins at the last key, not at the first", func() (reading, error) {
			mask := make([]int64, queries*keys)
			for i := range mask {
				if i%keys <= i/keys+keys-queries {
					mask[i] = 1
				}
			}
			return c.withArguments(map[string]value.Value{"is_causal": false,
				"attn_mask": tensor.New(tensor.Bool, []int{queries, keys}, mask)})
		}})
	}
}

func shown(v value.Value) string {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("%g", f)
	}
	return value.Repr(v)
}

// withArgument is the call with another value of an argument.
func (c *Call) withArgument(name string, v value.Value) (reading, error) {
	return c.withArguments(map[string]value.Value{name: v})
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

// replaced is the call with other tensors in place of the floating ones among its
// arguments; f returns nil for one that stays. There is no reading if all stay.
func (c *Call) replaced(f func(opdef.Arg) *tensor.Tensor) (reading, error) {
	way := reading{original: map[*tensor.Tensor]*tensor.Tensor{}}
	call := c.bound.Map(func(a opdef.Arg) *tensor.Tensor {
		t := a.Tensor
		if t.Wrapped || !t.DType.IsFloat() || t.Numel() == 0 || t.Numel() > largestOperand {
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

// elements are those of t, in row-major order.
func elements(t *tensor.Tensor) []float64 {
	v := make([]float64, t.Numel())
	tensor.Load(t, 0, v)
	return v
}

// roundedOperands rounds all operands to a coarser dtype before anything is computed.
func (c *Call) roundedOperands() iter.Seq[mistake] {
	grids := []struct {
		name  string
		eps   float64
		round func(float64) float64
	}{
		{"TF32", 0x1p-10, roundTF32},
		{tensor.BFloat16.String(), tensor.BFloat16.Eps(), tensor.BFloat16.Round},
		{tensor.Float16.String(), tensor.Float16.Eps(), tensor.Float16.Round},
	}
	return func(yield func(mistake) bool) {
		for _, g := range grids {
			if !yield(mistake{"operands are rounded to " + g.name + " first", func() (reading, error) {
				return c.replaced(func(a opdef.Arg) *tensor.Tensor {
					if a.Tensor.DType.Eps() >= g.eps {
						return nil
					}
					v := elements(a.Tensor)
					for i, x := range v {
						v[i] = g.round(x)
					}
					return tensor.New(a.Tensor.DType, a.Tensor.Shape, v)
				})
			}}) {
				return
			}
		}
	}
}

// roundTF32 rounds to the ten stored bits of NVIDIA's TensorFloat-32, ties away from
// zero as its conversion (cvt.rna.tf32.f32) does.
func roundTF32(x float64) float64 {
	b := math.Float32bits(float32(x))
	return float64(math.Float32frombits((b + 0x1000) &^ 0x1fff))
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

// misreadOperands reads an operand with strides of a contiguous one, transposed, or
// with its heads, groups or rows shifted by one.
func (c *Call) misreadOperands() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		for _, a := range c.operands() {
			t, name := a.Tensor, argName(a)
			if !t.IsContiguous() && !yield(mistake{"the strides of " + name + " are ignored", c.one(a,
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
				!yield(mistake{name + " is transposed", c.one(a, func() *tensor.Tensor {
					n := *t.Transpose(d-2, d-1)
					return &n
				})}) {
				return
			}
			for d := range t.Shape {
				if n := t.Shape[d]; n > 1 && n <= 256 && !yield(mistake{
					fmt.Sprintf("%s is read one further along dimension %d", name, d),
					c.one(a, func() *tensor.Tensor {
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
				if !yield(mistake{argName(a) + " and " + argName(b) + " are swapped", func() (reading, error) {
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
// the last elements, or the operand altogether.
func (c *Call) missingParts() iter.Seq[mistake] {
	return func(yield func(mistake) bool) {
		for _, a := range c.operands() {
			t, name := a.Tensor, argName(a)
			for d := t.Dim() - 1; d >= 0; d-- {
				n := t.Shape[d]
				var tails []int
				for _, tile := range []int{n, 4, 8, 16, 32, 64, 128} {
					tail := n % tile
					if tile == n {
						tail = 1
					}
					if tail > 0 && tail < n && !slices.Contains(tails, tail) {
						tails = append(tails, tail)
					}
				}
				for _, tail := range tails {
					text := fmt.Sprintf("the last %d of dimension %d of %s are left out", tail, d, name)
					if tail == 1 {
						text = fmt.Sprintf("the last of dimension %d of %s is left out", d, name)
					}
					if !yield(mistake{text, c.one(a, func() *tensor.Tensor {
						inner, v := tensor.Contiguous(t.Shape)[d], elements(t)
						for i := range v {
							if i/inner%n >= n-tail {
								v[i] = 0
							}
						}
						return tensor.New(t.DType, t.Shape, v)
					})}) {
						return
					}
				}
			}
			if !yield(mistake{name + " is taken for 0", c.one(a, func() *tensor.Tensor {
				return tensor.Full(t.DType, t.Shape, 0.0)
			})}) {
				return
			}
		}
	}
}

// Explain replays a capture and looks for the causes of what fails.
func Explain(e *capture.Entry, opt Options, until time.Time) []Cause {
	c := Open(e, opt)
	defer c.Close()
	return c.Causes(c.Compare(), until)
}
