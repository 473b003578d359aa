package calculus

import (
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/shape"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// calculusOps are differences, integrals, derivatives on a grid and cross
// products.
var calculusOps = []*opdef.Entry{
	diffOp,
	trapezoidX("trapezoid", "trapezoid trapz", false), trapezoidDx("trapezoid", "trapezoid trapz", false),
	trapezoidX("cumulative_trapezoid", "cumulative_trapezoid", true), trapezoidDx("cumulative_trapezoid",
		"cumulative_trapezoid", true),
	gradientOp,
}

// differences is the map to n-th differences of runs of m elements.
func differences(m, n int) elements.Stencil {
	s := elements.Stencil{In: m, Taps: tensor.Make[[]elements.StencilTap](max(0, m-n))}
	if len(s.Taps) == 0 {
		return s
	}
	row := []float64{1}
	for range n {
		next := tensor.Make[float64](len(row) + 1)
		for i, c := range row {
			next[i] -= c
			next[i+1] += c
		}
		row = next
	}
	for j := range s.Taps {
		for k, c := range row {
			s.Taps[j] = append(s.Taps[j], elements.StencilTap{At: j + k, Coef: complex(c, 0)})
		}
	}
	return s
}

type diffArgs struct {
	Self            *tensor.Tensor
	N, Dim          int
	Prepend, Append *tensor.Tensor
}

// A diffPlan is a call of diff: the tensors joined along dim, and the map.
type diffPlan struct {
	parts []*tensor.Tensor
	names []string
	dim   int
	times int // differences are taken
	dt    tensor.DType
	elements.Stencil
}

func (a *diffArgs) plan() (*diffPlan, error) {
	x := a.Self
	if x.Dim() == 0 {
		return nil, opdef.Refuse("self", "want at least one dimension")
	}
	if a.N < 0 {
		return nil, opdef.Refuse("n", "want a non-negative order, got %d", a.N)
	}
	dim, err := opdef.Dim("dim", a.Dim, x.Dim())
	if err != nil {
		return nil, err
	}
	p := &diffPlan{times: a.N, dim: dim, dt: x.DType}
	total := 0
	add := func(name string, t *tensor.Tensor) error {
		if t == nil {
			return nil
		}
		if t.Dim() != x.Dim() {
			return opdef.Refuse(name, "want %d dimensions, got shape %s", x.Dim(), tensor.ShapeString(t.Shape))
		}
		for d, n := range t.Shape {
			if d != dim && n != x.Shape[d] {
				return opdef.Refuse(name, "shape %s differs from %s outside dimension %d", tensor.ShapeString(t.Shape),
					tensor.ShapeString(x.Shape), dim)
			}
		}
		p.parts, p.names = append(p.parts, t), append(p.names, name)
		if p.dt, err = elements.PromoteWith(name, p.dt, t); err != nil {
			return err
		}
		total += t.Shape[dim]
		return nil
	}
	prepend, after := a.Prepend, a.Append
	if a.N == 0 { // torch returns a copy before it looks at them
		prepend, after = nil, nil
	}
	for _, err := range []error{add("prepend", prepend), add("self", x), add("append", after)} {
		if err != nil {
			return nil, err
		}
	}
	p.Stencil = differences(total, a.N)
	return p, nil
}

// joined are the parts one after the other along the dimension.
func (p *diffPlan) joined(parts []*tensor.Tensor) (*tensor.Tensor, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	f, err := elements.MustFind(shape.Table(), "cat").NewCall(&shape.CatArgs{Tensors: parts, Dim: p.dim}).Forward()
	if err != nil {
		return nil, err
	}
	return f.Outs[0], nil
}

// split are the gradients of the parts, in the order they were joined.
func (p *diffPlan) split(t *tensor.Tensor) opdef.Grads {
	gr, at := opdef.Grads{"prepend": {nil}, "append": {nil}}, 0
	for i, part := range p.parts {
		n := part.Shape[p.dim]
		gr.Set(p.names[i], t.Slice(p.dim, at, n, 1))
		at += n
	}
	return gr
}

// coarseness is that of the differences before the last, if there are any: only
// they are rounded to the dtype before they are used.
func (p *diffPlan) coarseness() float64 {
	if p.times < 2 {
		return 1
	}
	return elements.EpsOverFloat32(p.dt)
}

var diffOp = opdef.Planned[*diffArgs, *diffPlan]{
	Schema: "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
	Doc: opdef.Doc{Summary: "Differences of adjacent elements along a dimension, n times",
		Formula: "out[i] = x[i+1] - x[i], x = prepend, self, append joined",
		Notes:   "Of bool the exclusive or. n=0 ignores prepend and append."},
	Error: opdef.Error{Class: opdef.Accumulated, ULPs: 2, Coarse: true},
	Bounds: opdef.Bounds[*diffPlan]{
		Terms: func(p *diffPlan) int { return max(1, p.times) },
		Scale: func(p *diffPlan, outs []*tensor.Tensor) []*tensor.Tensor {
			parts := make([]*tensor.Tensor, len(p.parts))
			for i, t := range p.parts {
				parts[i] = opdef.Abs(t)
			}
			x := opdef.Must(p.joined(parts))
			return elements.Single(elements.Scaled(p.Magnitudes().Along(tensor.Float64, x, p.dim), p.coarseness()))
		},
		GradScale: func(p *diffPlan, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			up := opdef.Abs(g.Out[0])
			return p.split(elements.Scaled(p.Transposed().Magnitudes().Along(tensor.Float64, up, p.dim),
				p.coarseness())), nil
		},
	},
	Plan: (*diffArgs).plan,
	Kernel: func(p *diffPlan) ([]*tensor.Tensor, error) {
		x, err := p.joined(p.parts)
		if err != nil {
			return nil, err
		}
		y := p.Along(p.dt, x, p.dim)
		if p.dt == tensor.Bool {
			y = opdef.Map(p.dt, y, func(v int64) int64 { return v & 1 })
		}
		return elements.Single(y), nil
	},
	Grad: func(p *diffPlan, g *opdef.Grad) (opdef.Grads, error) {
		return p.split(p.Transposed().Along(p.dt, g.Out[0], p.dim)), nil
	},
	// torch subtracts two slices, or copies.
	Node: func(p *diffPlan, g *opdef.Grad) (opdef.Node, error) {
		n := opdef.Node{Grads: []*tensor.Tensor{g.Out[0], elements.Scaled(g.Out[0], -1)}, Weak: "the incoming gradient"}
		if p.times == 0 {
			n.Grads = []*tensor.Tensor{nil, g.Out[0]}
		}
		return n, nil
	},
	Cases: opdef.Calls[diffArgs](`
		f64[3, 5]; f64[4, 3], n=2, dim=0, prepend=f64[1, 3], append=f64[2, 3]; f32[5], n=0, dim=0
		f32[2], n=4, dim=0; bf16[3, 4], dim=1; i64[6]{-5..5}, n=2, dim=0; bool[6]{0..1}, n=2, dim=0; c128[4], dim=0`),
}.Entry()

type gradientArgs struct {
	Self         *tensor.Tensor
	Spacing, Dim value.Value
	EdgeOrder    int
}

// derivative is the map to first derivatives of runs of m elements whose
// neighbours are steps apart, accurate to the given order at the ends.
// Source: ATen/native/ReduceOps.cpp, gradient_helper.
func derivative(m, order int, step func(i int) complex128) elements.Stencil {
	s := elements.Stencil{In: m, Taps: tensor.Make[[]elements.StencilTap](m)}
	for j := 1; j < m-1; j++ {
		l, r := step(j-1), step(j)
		s.Taps[j] = []elements.StencilTap{{At: j - 1, Coef: -r / (l * (l + r))}, {At: j, Coef: (r - l) / (l * r)},
			{At: j + 1, Coef: l / (r * (l + r))}}
	}
	if order == 1 {
		l, r := step(0), step(m-2)
		s.Taps[0] = []elements.StencilTap{{At: 0, Coef: -1 / l}, {At: 1, Coef: 1 / l}}
		s.Taps[m-1] = []elements.StencilTap{{At: m - 2, Coef: -1 / r}, {At: m - 1, Coef: 1 / r}}
		return s
	}
	l, r := step(0), step(1)
	s.Taps[0] = []elements.StencilTap{{At: 0, Coef: -(2*l + r) / (l * (l + r))}, {At: 1, Coef: (l + r) / (l * r)},
		{At: 2, Coef: -l / (r * (l + r))}}
	l, r = step(m-3), step(m-2)
	s.Taps[m-1] = []elements.StencilTap{{At: m - 3, Coef: r / (l * (l + r))}, {At: m - 2, Coef: -(l + r) / (l * r)},
		{At: m - 1, Coef: (l + 2*r) / (r * (l + r))}}
	return s
}

// plan is the map along each dimension asked for, and the dtype of the result.
// finiteDifferences is a call of gradient: along each dimension a linear map.
type finiteDifferences struct {
	x    *tensor.Tensor
	dims []int
	maps []elements.Stencil
	dt   tensor.DType
}

func (a *gradientArgs) plan() (*finiteDifferences, error) {
	x, err := a.Self, error(nil)
	p := &finiteDifferences{x: x, dt: x.DType}
	switch {
	case p.dt == tensor.Uint8 || p.dt == tensor.Bool:
		return nil, opdef.Refuse("self", "not defined for dtype %s", p.dt)
	case p.dt.Kind() < tensor.KindFloat:
		p.dt = tensor.DefaultDType
	}
	if a.EdgeOrder != 1 && a.EdgeOrder != 2 {
		return nil, opdef.Refuse("edge_order", "want 1 or 2, got %d", a.EdgeOrder)
	}
	var given []int
	if a.Dim != nil {
		if given, err = elements.IntList("dim", a.Dim); err != nil {
			return nil, err
		}
	}
	if p.dims, err = opdef.Dims("dim", given, x.Dim()); err != nil {
		return nil, err
	}
	steps := []value.Value{int64(1)}
	list, isList := a.Spacing.(*value.Sequence)
	switch {
	case isList && len(list.Items) != len(p.dims):
		return nil, opdef.Refuse("spacing", "want one for each of %d dimensions, got %d", len(p.dims), len(list.Items))
	case isList:
		steps = list.Items
	case a.Spacing != nil:
		steps[0] = a.Spacing
	}
	for i, d := range p.dims {
		n := x.Shape[d]
		if n < a.EdgeOrder+1 {
			return nil, opdef.Refuse("self", "dimension %d has %d elements, want at least edge_order+1 = %d", d, n,
				a.EdgeOrder+1)
		}
		v := steps[min(i, len(steps)-1)]
		step, err := gridSteps(v, n)
		if err != nil {
			return nil, err
		}
		if t, ok := v.(*tensor.Tensor); ok && t.Dim() > 0 && t.DType.Kind() >= tensor.KindFloat {
			if p.dt, err = elements.PromoteWith("spacing", p.dt, t); err != nil {
				return nil, err
			}
		}
		p.maps = append(p.maps, derivative(n, a.EdgeOrder, step))
	}
	return p, nil
}

// gridSteps are the distances of n points on a grid: one number, or those of a
// tensor of coordinates.
func gridSteps(v value.Value, n int) (func(i int) complex128, error) {
	t, ok := v.(*tensor.Tensor)
	if !ok {
		s, ok := opdef.ScalarOf(v)
		if !ok {
			return nil, opdef.Refuse("spacing", "want numbers or tensors, got %s", opdef.TypeName(v))
		}
		return func(int) complex128 { return s.Complex128() }, nil
	}
	if t.Dim() != 1 || t.Shape[0] != n {
		return nil, opdef.Refuse("spacing", "want a tensor of %d coordinates, got %s", n, t.Meta())
	}
	at := tensor.Data[complex128](t)
	return func(i int) complex128 { return at[i+1] - at[i] }, nil
}

var gradientOp = opdef.Planned[*gradientArgs, *finiteDifferences]{
	Schema: "gradient(Tensor self, *, any spacing=None, any dim=None, int edge_order=1) -> Tensor[]",
	Names:  "gradient",
	Traits: opdef.Traits{Composite: true, LastTakes: 3},
	Doc: opdef.Doc{Summary: "First derivatives along dimensions by central differences",
		Notes: "spacing is a distance, one per dimension, or coordinates. At the ends differences of order " +
			"edge_order are taken. No gradient goes to spacing."},
	Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 3, Coarse: true},
	Exempt: map[string]string{"dtypes": "coordinates, which the check leaves as they are, take part in promotion"},
	Plan:   (*gradientArgs).plan,
	Bounds: opdef.Bounds[*finiteDifferences]{
		Terms: func(*finiteDifferences) int { return 3 },
		Scale: func(p *finiteDifferences, _ []*tensor.Tensor) []*tensor.Tensor {
			scales := make([]*tensor.Tensor, len(p.maps))
			for i, s := range p.maps {
				scales[i] = elements.Scaled(s.Magnitudes().Along(tensor.Float64, opdef.Abs(p.x), p.dims[i]),
					elements.EpsOverFloat32(p.dt))
			}
			return scales
		},
		GradScale: func(p *finiteDifferences, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			return p.grads(g, true)
		},
	},
	Kernel: func(p *finiteDifferences) ([]*tensor.Tensor, error) {
		var outs []*tensor.Tensor
		for i, s := range p.maps {
			outs = append(outs, s.Along(p.dt, p.x, p.dims[i]))
		}
		return outs, nil
	},
	Grad: func(p *finiteDifferences, g *opdef.Grad) (opdef.Grads, error) { return p.grads(g, false) },
	Cases: opdef.Calls[gradientArgs](`
		f64[3, 4]; f64[3, 4], spacing=0.5, dim=1, edge_order=2; f64[3, 4], spacing=[f64[4]{= 0 0.5 2 3}], dim=1
		f64[4], spacing=[f64[4]{= 0 0.5 2 3}], edge_order=2; f32[5], spacing=2; bf16[4, 3], dim=(0, -1)
		c128[4], edge_order=2; i64[5]{-4..4}`),
}.Entry()

// grads is the gradient of self or, with bounds, the magnitudes behind it.
func (p *finiteDifferences) grads(g *opdef.Grad, bounds bool) (opdef.Grads, error) {
	var err error
	sum := tensor.Full(p.dt, p.x.Shape, 0.0)
	if bounds {
		sum = tensor.Full(tensor.Float64, p.x.Shape, 0.0)
	}
	for i, s := range p.maps {
		up := g.Out[i]
		if up == nil {
			continue
		}
		s = s.Transposed()
		if bounds {
			s, up = s.Magnitudes(), elements.Scaled(opdef.Abs(up), elements.EpsOverFloat32(p.dt))
		}
		if sum, err = elements.MapN(sum.DType, func(v []complex128) complex128 { return v[0] + v[1] },
			func(v []float64) float64 { return v[0] + v[1] }, sum, s.Along(sum.DType, up, p.dims[i])); err != nil {
			return nil, err
		}
	}
	return elements.GradOf("self", sum), nil
}
