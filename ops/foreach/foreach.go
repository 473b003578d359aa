package foreach

import (
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/ops/activation"
	"github.com/optool/optool/ops/creation"
	"github.com/optool/optool/ops/linalg"
	"github.com/optool/optool/ops/matmul"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/pointwise"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/ops/special"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// foreachOps apply one op to every tensor of a list (torch._foreach_*): the
// kernels, gradients and error bounds are those of the op itself. Their in-place
// forms return None. They are built from the other tables, when those are done.
func foreachOps() []*opdef.Entry {
	return slices.Concat(
		foreachUnaries("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor",
			"frac", "lgamma", "log", "log10",
			"log1p", "log2", "neg", "reciprocal", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan",
			"tanh", "trunc"),
		foreach[foreachArgs]{
			name: "round", params: "Tensor[] self", sizes: (*foreachArgs).sizes,
			call:  func(a *foreachArgs, i int) any { return &pointwise.RoundArgs{Self: a.Self[i]} },
			cases: foreachCases,
		}.entries(),
		foreachScaledSums("add", true), foreachScaledSums("sub", false),
		foreachProducts("mul", "mul"), foreachProducts("div", "div"),
		foreachBinaries("maximum", "maximum"), foreachBinaries("minimum", "minimum"),
		foreachBinaries("clamp_min", "maximum"), foreachBinaries("clamp_max", "minimum"),
		foreachPowers(), foreachAddc("addcmul"), foreachAddc("addcdiv"), foreachLerps(), foreachMoves(),
		foreach[foreachNormArgs]{
			name: "norm", base: "linalg_vector_norm", params: "Tensor[] self, Scalar ord=2, dtype? dtype=None",
			args:  map[string]string{"x": "self"},
			sizes: func(a *foreachNormArgs) []int { return []int{len(a.Self)} },
			call: func(a *foreachNormArgs, i int) any {
				return &linalg.VectorNormArgs{X: a.Self[i], Ord: a.Ord, Dtype: a.Dtype}
			},
			cases: opdef.Calls[foreachNormArgs](`
				[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}], ord=1
				[f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}]; [bf16[4]{0.55..0.9}], ord=1
				[f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}]`),
			functional: true,
		}.entries(),
		foreach[foreachArgs]{
			name: "max", params: "Tensor[] self", sizes: (*foreachArgs).sizes, functional: true,
			call:  func(a *foreachArgs, i int) any { return &opdef.UnaryArgs{Self: a.Self[i]} },
			cases: opdef.Calls[foreachArgs](`[f64[2, 3]{distinct}, f32[4]{distinct}]`),
		}.entries(),
		foreach[foreachArgs]{
			name: "clone", params: "Tensor[] self, *, MemoryFormat? memory_format=None", sizes: (*foreachArgs).sizes,
			call:  func(a *foreachArgs, i int) any { return &opdef.UnaryArgs{Self: a.Self[i]} },
			cases: foreachCases, functional: true,
		}.entries(),
		foreach[foreachProductArgs]{
			name: "mm", params: "Tensor[] self, Tensor[] mat2", functional: true,
			sizes: func(a *foreachProductArgs) []int { return []int{len(a.Self), len(a.Mat2)} },
			call:  func(a *foreachProductArgs, i int) any { return &matmul.MMArgs{Self: a.Self[i], Mat2: a.Mat2[i]} },
			cases: opdef.Calls[foreachProductArgs](`[f64[2, 3], f32[1, 4]], [f64[3, 2], f32[4, 5]]`),
		}.entries(),
		foreach[foreachNormArgs]{
			name: "powsum", overload: ".Scalar", base: "linalg__powsum", args: map[string]string{"x": "self"},
			params: "Tensor[] self, Scalar ord=2, dtype? dtype=None", functional: true,
			sizes: func(a *foreachNormArgs) []int { return []int{len(a.Self)} },
			call: func(a *foreachNormArgs, i int) any {
				return &linalg.VectorNormArgs{X: a.Self[i], Ord: a.Ord, Dtype: a.Dtype}
			},
			cases: opdef.Calls[foreachNormArgs](`[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}]`),
		}.entries(),
	)
}

// foreach declares _foreach_<name> and _foreach_<name>_ from an op.
type foreach[A any] struct {
	name     string            // without _foreach_
	overload string            // ".List"
	base     string            // schema name of the op; "": name
	params   string            // of the schema
	args     map[string]string // arguments called otherwise than in the op, by the op's name

	sizes func(a *A) []int       // of the lists: all equal
	call  func(a *A, i int) any  // arguments of the op for item i
	cases func(g opdef.Gen) []*A // of the functional form
	// functional and inPlace leave out the other form.
	functional, inPlace bool
}

// foreachBase finds the op of a schema name.
func foreachBase(name string) *opdef.Entry {
	for _, e := range slices.Concat(pointwise.Table(), activation.Table(), special.Table(), linalg.Table(),
		creation.Table(), reduction.Table(), matmul.Table()) {
		if e.Op() == name {
			return e
		}
	}
	return nil
}

func (f foreach[A]) entries() []*opdef.Entry {
	if f.base == "" {
		f.base = f.name
	}
	base := foreachBase(f.base)
	if base == nil { // reported by the registry
		return []*opdef.Entry{opdef.Op[A]{Schema: "_foreach_" + f.name + " of an op that does not exist: " +
			f.base}.Entry()}
	}
	doc := base.Doc
	doc.Summary += ", of every tensor of a list"
	doc.Source = "torch._foreach_" + f.name
	var out []*opdef.Entry
	plan := func(a *A) (*items, error) { return f.plan(base, a) }
	if !f.inPlace {
		op := opdef.Planned[*A, *items]{
			Schema: "_foreach_" + f.name + f.overload + "(" + f.params + ") -> Tensor[]", Names: "_foreach_" + f.name,
			Doc: doc, Error: base.Error,
			Traits: opdef.Traits{Trivial: base.Trivial, NoGrad: base.NoGrad},
			Plan:   plan,
			Kernel: func(l *items) ([]*tensor.Tensor, error) {
				outs, err := l.outs()
				return slices.Clone(outs), err // the caller may put others in their place
			},
			Exempt: base.Exempt, Cases: f.cases,
			Bounds: opdef.Bounds[*items]{
				Scale: func(l *items, _ []*tensor.Tensor) []*tensor.Tensor { return l.scales() },
				Terms: (*items).terms,
			},
		}
		if base.HasGrad {
			op.Grad = func(l *items, g *opdef.Grad) (opdef.Grads, error) { return f.backward(l, g, false) }
			op.GradScale = func(l *items, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return f.backward(l, g, true)
			}
		}
		out = append(out, op.Entry())
	}
	if !f.functional {
		out = append(out, opdef.Planned[*A, *writtenItems]{
			Schema: "_foreach_" + f.name + "_" + f.overload + "(" + f.params + ") -> ()", Names: "_foreach_" + f.name +
				"_", Doc: doc, Error: base.Error,
			Traits: opdef.Traits{Trivial: base.Trivial, NoGrad: "the in-place form returns nothing"},
			Plan: func(a *A) (*writtenItems, error) {
				l, err := plan(a)
				return &writtenItems{l}, err
			},
			Bounds: opdef.Bounds[*writtenItems]{Terms: func(l *writtenItems) int { return l.terms() }},
		}.Entry())
	}
	if base.Signed || base.Moves {
		for _, e := range out {
			e.AsSigned()
		}
	}
	return out
}

// items are the calls that are made of the items of a list. What they give is computed once,
// when it is first asked for: results, bounds and gradients ask for it item by item.
type items struct {
	calls  []*opdef.Call
	run    func() ([]*opdef.Forward, error)
	scales func() []*tensor.Tensor   // see opdef.Bounds.Scale
	others func() [][]*tensor.Tensor // see opdef.Either
	most   func() int                // terms of an item
}

// Else are those of the calls.
func (l *items) Else([]*tensor.Tensor) [][]*tensor.Tensor { return l.others() }

// writtenItems are items of which the first list is given the results.
type writtenItems struct{ *items }

// Value is None.
func (*writtenItems) Value() (value.Value, error) { return nil, nil }

// After are the results in the dtypes of the first list.
func (l *writtenItems) After([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	outs, err := l.outs()
	if err != nil {
		return nil, err
	}
	written := make([]*tensor.Tensor, len(outs))
	for i, c := range l.calls {
		self := c.Tensors()[0].Tensor
		if !slices.Equal(self.Shape, outs[i].Shape) {
			return nil, opdef.Refuse("self", "shape %s does not hold the result's shape %s",
				tensor.ShapeString(self.Shape), tensor.ShapeString(outs[i].Shape))
		}
		fwd, err := c.To(self).Forward()
		if err != nil {
			return nil, err
		}
		written[i] = fwd.Outs[0]
	}
	return map[string][]*tensor.Tensor{"self": written}, nil
}

// AfterScale are the bounds of the results.
func (l *writtenItems) AfterScale() map[string][]*tensor.Tensor {
	return map[string][]*tensor.Tensor{"self": l.scales()}
}

func (f foreach[A]) plan(base *opdef.Entry, a *A) (*items, error) {
	sizes := f.sizes(a)
	if sizes[0] == 0 {
		return nil, opdef.Refuse("self", "want at least one tensor")
	}
	for _, n := range sizes {
		if n != sizes[0] {
			return nil, opdef.Refuse("", "want lists of equal length, got %d and %d items", sizes[0], n)
		}
	}
	l := &items{}
	for i := range sizes[0] {
		l.calls = append(l.calls, base.NewCall(f.call(a, i)))
	}
	l.run = sync.OnceValues(func() (all []*opdef.Forward, err error) {
		for _, c := range l.calls {
			fwd, err := c.Forward()
			if err != nil {
				return nil, err
			}
			all = append(all, fwd)
		}
		return all, nil
	})
	l.scales = sync.OnceValue(func() (scales []*tensor.Tensor) {
		for b, fwd := range l.bounds {
			scales = append(scales, scaleOr0(b, fwd.Outs[0]))
		}
		return scales
	})
	l.others = sync.OnceValue(func() (others [][]*tensor.Tensor) {
		for b := range l.bounds {
			var of []*tensor.Tensor
			if b.Else != nil {
				of = b.Else()
			}
			others = append(others, of)
		}
		return others
	})
	l.most = sync.OnceValue(func() int {
		n := 1
		for b := range l.bounds {
			n = max(n, b.Terms)
		}
		return n
	})
	return l, nil
}

// outs are the results.
func (l *items) outs() (outs []*tensor.Tensor, err error) {
	all, err := l.run()
	for _, fwd := range all {
		outs = append(outs, fwd.Outs[0])
	}
	return outs, err
}

// bounds yields the error models of the results, of arguments that the kernel has taken.
func (l *items) bounds(yield func(opdef.Bound, *opdef.Forward) bool) {
	for i, fwd := range opdef.Must(l.run()) {
		if !yield(l.calls[i].OutBound(fwd, 0), fwd) {
			return
		}
	}
}

// terms is the largest number of terms of an item.
func (l *items) terms() int { return l.most() }

// scaleOr0 is the scale of a bound, of t's shape: 0 where it needs none.
func scaleOr0(b opdef.Bound, t *tensor.Tensor) *tensor.Tensor {
	if b.Scale == nil {
		return tensor.Full(tensor.Float64, t.Shape, 0.0)
	}
	return b.Scale()
}

// backward collects the gradients of the items, or their scales. A tensor that
// takes part in every item gets the sum.
func (f foreach[A]) backward(l *items, g *opdef.Grad, scales bool) (opdef.Grads, error) {
	forwards, err := l.run()
	if err != nil {
		return nil, err
	}
	gr := opdef.Grads{}
	for i, c := range l.calls {
		c = c.From(g.Outs[i : i+1]) // what autograd kept, which may not be what forwards has
		for _, t := range c.Tensors() {
			name := t.Name
			if n, ok := f.args[name]; ok {
				name = n
			}
			if !strings.Contains(f.params, "Tensor[] "+name) && !strings.Contains(f.params, "Tensor "+name) {
				continue // made from a number
			}
			var d *tensor.Tensor
			if g.Out[i] != nil {
				out := []*tensor.Tensor{g.Out[i]}
				grads, err := c.Backward(forwards[i], out, nil)
				if err != nil {
					return nil, err
				}
				if ds := grads[t.Name]; len(ds) > 0 && ds[0] != nil {
					if d = ds[0]; scales {
						d = scaleOr0(c.GradBound(forwards[i], out, grads, t.Name, 0), d)
					}
				}
			}
			single := strings.Contains(f.params, "Tensor "+name)
			switch {
			case !single:
				gr[name] = append(gr[name], d)
			case len(gr[name]) == 0 || gr[name][0] == nil:
				gr.Set(name, d)
			case d != nil:
				gr.Set(name, opdef.Zip(d.DType, gr[name][0], d, func(x, y float64) float64 { return x + y }))
			}
		}
	}
	return gr, nil
}

func foreachUnaries(names ...string) (out []*opdef.Entry) {
	for _, name := range names {
		out = append(out, foreach[foreachArgs]{
			name: name, params: "Tensor[] self", sizes: (*foreachArgs).sizes,
			call:  func(a *foreachArgs, i int) any { return &opdef.UnaryArgs{Self: a.Self[i]} },
			cases: foreachCases,
		}.entries()...)
	}
	return out
}

// foreachScaledSums declares the forms of add and sub.
func foreachScaledSums(name string, withTensor bool) []*opdef.Entry {
	out := slices.Concat(
		foreach[foreachSumArgs]{
			name: name, overload: ".List", params: "Tensor[] self, Tensor[] other, *, Scalar alpha=1",
			sizes: func(a *foreachSumArgs) []int { return []int{len(a.Self), len(a.Other)} },
			call: func(a *foreachSumArgs, i int) any {
				return &pointwise.AddArgs{Self: a.Self[i], Other: a.Other[i], Alpha: a.Alpha}
			},
			cases: func(g opdef.Gen) (cs []*foreachSumArgs) {
				for i, c := range foreachPairCases(g) {
					cs = append(cs, &foreachSumArgs{c.Self, c.Other, opdef.Int(int64(i + 1))})
				}
				return cs
			},
		}.entries(),
		foreachNumberForms(name, name, func(self, other *tensor.Tensor) any {
			return &pointwise.AddArgs{Self: self, Other: other, Alpha: opdef.Int(1)}
		}),
	)
	if !withTensor {
		return out
	}
	return append(foreach[foreachTensorSumArgs]{
		name: name, overload: ".Tensor", params: "Tensor[] self, Tensor other, *, Scalar alpha=1",
		sizes: func(a *foreachTensorSumArgs) []int { return []int{len(a.Self)} },
		call: func(a *foreachTensorSumArgs, i int) any {
			return &pointwise.AddArgs{Self: a.Self[i], Other: a.Other, Alpha: a.Alpha}
		},
		cases: opdef.Calls[foreachTensorSumArgs](`
			[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}], f64[]{0.5..2}, alpha=2
			[f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}], f32[]{0.5..2}, alpha=2
			[bf16[4]{0.55..0.9}], bf16[]{0.5..2}, alpha=2
			[f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}], f32[]{0.5..2}, alpha=2`),
	}.entries(), out...)
}

// foreachNumberForms declares the forms with one number, and one per tensor.
func foreachNumberForms(name, base string, args func(self, other *tensor.Tensor) any) []*opdef.Entry {
	return slices.Concat(
		foreach[foreachScalarArgs]{
			name: name, base: base, overload: ".Scalar", params: "Tensor[] self, Scalar scalar",
			sizes: func(a *foreachScalarArgs) []int { return []int{len(a.Self)} },
			call:  func(a *foreachScalarArgs, i int) any { return args(a.Self[i], a.Scalar.Tensor()) },
			cases: foreachScalarCases,
		}.entries(),
		foreach[foreachScalarsArgs]{
			name: name, base: base, overload: ".ScalarList", params: "Tensor[] self, Scalar[] scalars",
			sizes: func(a *foreachScalarsArgs) []int { return []int{len(a.Self), len(a.Scalars)} },
			call:  func(a *foreachScalarsArgs, i int) any { return args(a.Self[i], a.Scalars[i].Tensor()) },
			cases: foreachScalarsCases,
		}.entries(),
	)
}

func foreachBinaries(name, base string) []*opdef.Entry {
	args := func(self, other *tensor.Tensor) any { return &opdef.BinaryArgs{Self: self, Other: other} }
	return slices.Concat(
		foreach[foreachPairArgs]{
			name: name, base: base, overload: ".List", params: "Tensor[] self, Tensor[] other",
			sizes: func(a *foreachPairArgs) []int { return []int{len(a.Self), len(a.Other)} },
			call:  func(a *foreachPairArgs, i int) any { return args(a.Self[i], a.Other[i]) },
			cases: foreachPairCases,
		}.entries(),
		foreachNumberForms(name, base, args),
	)
}

// foreachProducts declares the forms of mul and div: also with one tensor.
func foreachProducts(name, base string) []*opdef.Entry {
	return slices.Concat(
		foreach[foreachTensorArgs]{
			name: name, base: base, overload: ".Tensor", params: "Tensor[] self, Tensor other",
			sizes: func(a *foreachTensorArgs) []int { return []int{len(a.Self)} },
			call:  func(a *foreachTensorArgs, i int) any { return &opdef.BinaryArgs{Self: a.Self[i], Other: a.Other} },
			cases: opdef.Calls[foreachTensorArgs](`
				[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}], f64[]{0.5..2}
				[f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}], f32[]{0.5..2}
				[bf16[4]{0.55..0.9}], bf16[]{0.5..2}
				[f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}], f32[]{0.5..2}`),
		}.entries(),
		foreachBinaries(name, base),
	)
}

func foreachPowers() []*opdef.Entry {
	return slices.Concat(
		foreach[foreachExponentsArgs]{
			name: "pow", overload: ".List", params: "Tensor[] self, Tensor[] exponent",
			sizes: func(a *foreachExponentsArgs) []int { return []int{len(a.Self), len(a.Exponent)} },
			call: func(a *foreachExponentsArgs, i int) any {
				return &pointwise.PowArgs{Self: a.Self[i], Exponent: a.Exponent[i]}
			},
			cases: func(g opdef.Gen) (cs []*foreachExponentsArgs) {
				for _, c := range foreachPairCases(g) {
					cs = append(cs, &foreachExponentsArgs{c.Self, c.Other})
				}
				return cs
			},
		}.entries(),
		foreach[foreachExponentArgs]{
			name: "pow", overload: ".Scalar", params: "Tensor[] self, Scalar exponent",
			sizes: func(a *foreachExponentArgs) []int { return []int{len(a.Self)} },
			call: func(a *foreachExponentArgs, i int) any {
				return &pointwise.PowArgs{Self: a.Self[i], Exponent: a.Exponent.Tensor()}
			},
			cases: opdef.Calls[foreachExponentArgs](`
				[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}], 0.25
				[f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}], 1.25; [bf16[4]{0.55..0.9}], 2.25
				[f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}], 3.25`),
		}.entries(),
		foreach[foreachNumbersArgs]{
			name: "pow", overload: ".ScalarList", params: "Tensor[] self, Scalar[] exponent",
			sizes: func(a *foreachNumbersArgs) []int { return []int{len(a.Self), len(a.Exponent)} },
			call: func(a *foreachNumbersArgs, i int) any {
				return &pointwise.PowArgs{Self: a.Self[i], Exponent: a.Exponent[i].Tensor()}
			},
			cases: opdef.Calls[foreachNumbersArgs](`
				[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}], [0.5, 1.5, 2.5]
				[f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}], [0.5, 1.5]; [bf16[4]{0.55..0.9}], [0.5]
				[f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}], [0.5, 1.5, 2.5]`),
		}.entries(),
		foreach[foreachBaseArgs]{
			name: "pow", overload: ".ScalarAndTensor", params: "Scalar self, Tensor[] exponent", functional: true,
			sizes: func(a *foreachBaseArgs) []int { return []int{len(a.Exponent)} },
			call: func(a *foreachBaseArgs, i int) any {
				return &pointwise.PowArgs{Self: a.Self.Tensor(), Exponent: a.Exponent[i]}
			},
			cases: opdef.Calls[foreachBaseArgs](`
				0.25, [f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}]
				1.25, [f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}]; 2.25, [bf16[4]{0.55..0.9}]
				3.25, [f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}]`),
		}.entries(),
	)
}

// foreachAddc declares the forms of addcmul and addcdiv.
func foreachAddc(name string) []*opdef.Entry {
	const lists = "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, "
	cases := func(g opdef.Gen) (cs []*foreachAddcArgs) {
		x, y, z := foreachTensors(g), foreachTensors(g), foreachTensors(g)
		for i := range x {
			cs = append(cs, &foreachAddcArgs{x[i], y[i], z[i], opdef.Float(-0.5 + float64(i))})
		}
		return cs
	}
	return slices.Concat(
		foreach[foreachAddcArgs]{
			name: name, overload: ".Scalar", params: lists + "Scalar value=1",
			sizes: func(a *foreachAddcArgs) []int { return []int{len(a.Self), len(a.Tensor1), len(a.Tensor2)} },
			call: func(a *foreachAddcArgs, i int) any {
				return &pointwise.AddcArgs{Self: a.Self[i], Tensor1: a.Tensor1[i], Tensor2: a.Tensor2[i],
					Value: a.Value}
			},
			cases: cases,
		}.entries(),
		foreach[foreachAddcScalarsArgs]{
			name: name, overload: ".ScalarList", params: lists + "Scalar[] scalars",
			sizes: func(a *foreachAddcScalarsArgs) []int {
				return []int{len(a.Self), len(a.Tensor1), len(a.Tensor2), len(a.Scalars)}
			},
			call: func(a *foreachAddcScalarsArgs, i int) any {
				return &pointwise.AddcArgs{Self: a.Self[i], Tensor1: a.Tensor1[i], Tensor2: a.Tensor2[i],
					Value: a.Scalars[i]}
			},
			cases: func(g opdef.Gen) (cs []*foreachAddcScalarsArgs) {
				for _, c := range cases(g) {
					cs = append(cs, &foreachAddcScalarsArgs{c.Self, c.Tensor1, c.Tensor2, foreachNumbers(len(c.Self))})
				}
				return cs
			},
		}.entries(),
		foreach[foreachAddcTensorArgs]{
			name: name, overload: ".Tensor", params: lists + "Tensor scalars",
			sizes: func(a *foreachAddcTensorArgs) []int {
				return []int{len(a.Self), len(a.Tensor1), len(a.Tensor2), a.Scalars.Numel()}
			},
			call: func(a *foreachAddcTensorArgs, i int) any {
				return &pointwise.AddcArgs{Self: a.Self[i], Tensor1: a.Tensor1[i], Tensor2: a.Tensor2[i],
					Value: opdef.ScalarAt(a.Scalars, i)}
			},
			cases: opdef.Calls[foreachAddcTensorArgs](`
				[f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}], [f64[2, 3]{0.55..0.9},
				f64[3]{0.55..0.9}, f64[]{0.55..0.9}], [f64[2, 3]{0.55..0.9}, f64[3]{0.55..0.9}, f64[]{0.55..0.9}],
				f32[3]{= 0.5 1.5 2.5}
				[f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}], [f32[2, 2]{0.55..0.9}, f32[3,
				2]{0.55..0.9 gaps}], [f32[2, 2]{0.55..0.9}, f32[3, 2]{0.55..0.9 gaps}], f32[2]{= 0.5 1.5}
				[bf16[4]{0.55..0.9}], [bf16[4]{0.55..0.9}], [bf16[4]{0.55..0.9}], f32[1]{= 0.5}
				[f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}], [f32[3]{0.55..0.9}, f32[0,
				2]{0.55..0.9}, f32[2]{0.55..0.9}], [f32[3]{0.55..0.9}, f32[0, 2]{0.55..0.9}, f32[2]{0.55..0.9}],
				f32[3]{= 0.5 1.5 2.5}`),
		}.entries(),
	)
}

func foreachLerps() []*opdef.Entry {
	cases := func(g opdef.Gen) (cs []*foreachLerpListArgs) {
		x, y, z := foreachTensors(g), foreachTensors(g), foreachTensors(g)
		for i := range x {
			cs = append(cs, &foreachLerpListArgs{x[i], y[i], z[i]})
		}
		return cs
	}
	names := map[string]string{"end": "tensors1", "weight": "weights"}
	return slices.Concat(
		foreach[foreachLerpListArgs]{
			name: "lerp", overload: ".List", params: "Tensor[] self, Tensor[] tensors1, Tensor[] weights", args: names,
			sizes: func(a *foreachLerpListArgs) []int { return []int{len(a.Self), len(a.Tensors1), len(a.Weights)} },
			call: func(a *foreachLerpListArgs, i int) any {
				return &pointwise.LerpArgs{Self: a.Self[i], End: a.Tensors1[i], Weight: a.Weights[i]}
			},
			cases: cases,
		}.entries(),
		foreach[foreachLerpArgs]{
			name: "lerp", overload: ".Scalar", params: "Tensor[] self, Tensor[] tensors1, Scalar weight", args: names,
			sizes: func(a *foreachLerpArgs) []int { return []int{len(a.Self), len(a.Tensors1)} },
			call: func(a *foreachLerpArgs, i int) any {
				return &pointwise.LerpArgs{Self: a.Self[i], End: a.Tensors1[i], Weight: a.Weight.Tensor()}
			},
			cases: func(g opdef.Gen) (cs []*foreachLerpArgs) {
				for _, c := range cases(g) {
					cs = append(cs, &foreachLerpArgs{c.Self, c.Tensors1, opdef.Float(0.25)})
				}
				return cs
			},
		}.entries(),
		foreach[foreachLerpScalarsArgs]{
			name: "lerp", overload: ".ScalarList", params: "Tensor[] self, Tensor[] tensors1, Scalar[] scalars",
			args:  names,
			sizes: func(a *foreachLerpScalarsArgs) []int { return []int{len(a.Self), len(a.Tensors1), len(a.Scalars)} },
			call: func(a *foreachLerpScalarsArgs, i int) any {
				return &pointwise.LerpArgs{Self: a.Self[i], End: a.Tensors1[i], Weight: a.Scalars[i].Tensor()}
			},
			cases: func(g opdef.Gen) (cs []*foreachLerpScalarsArgs) {
				for _, c := range cases(g) {
					cs = append(cs, &foreachLerpScalarsArgs{c.Self, c.Tensors1, foreachNumbers(len(c.Self))})
				}
				return cs
			},
		}.entries(),
	)
}

// foreachMoves declares the copy of one list to another, and the list of zeros.
func foreachMoves() []*opdef.Entry {
	return slices.Concat(
		foreach[foreachCopyArgs]{
			name: "copy", base: "copy_", params: "Tensor[] self, Tensor[] src, bool non_blocking=False",
			sizes: func(a *foreachCopyArgs) []int { return []int{len(a.Self), len(a.Src)} },
			call:  func(a *foreachCopyArgs, i int) any { return &creation.CopyArgs{Self: a.Self[i], Src: a.Src[i]} },
			cases: func(g opdef.Gen) (cs []*foreachCopyArgs) {
				for _, c := range foreachPairCases(g) {
					cs = append(cs, &foreachCopyArgs{Self: c.Self, Src: c.Other})
				}
				return cs
			},
		}.entries(),
		foreach[foreachArgs]{
			name: "zero", base: "zero_", params: "Tensor[] self", sizes: (*foreachArgs).sizes, inPlace: true,
			call: func(a *foreachArgs, i int) any { return &opdef.UnaryArgs{Self: a.Self[i]} },
		}.entries(),
	)
}
