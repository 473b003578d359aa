package matmul

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

func linearPlan(a *linearArgs) (*Product, error) {
	n := a.Input.Dim()
	if n == 0 {
		return nil, opdef.Refuse("input", "want at least 1 dimension, got a 0-d tensor")
	}
	if w := a.Weight.Dim(); w != 1 && w != 2 {
		return nil, opdef.Refuse("weight", "want 1 or 2 dimensions, got shape %s", tensor.ShapeString(a.Weight.Shape))
	}
	if k, w := a.Input.Shape[n-1], a.Weight.Shape[a.Weight.Dim()-1]; k != w {
		return nil, opdef.Refuse("weight", "shape %s does not match input of shape %s: inner sizes %d and %d",
			tensor.ShapeString(a.Weight.Shape), tensor.ShapeString(a.Input.Shape), w, k)
	}
	out, axes := BatchLabels(n-1), Labels("k")
	if a.Weight.Dim() == 2 {
		out, axes = append(out, 'o'), Labels("ok")
	}
	p := &Product{Ops: []Operand{{a.Input, append(BatchLabels(n-1), 'k')}, {a.Weight, axes}},
		Args: []string{"input", "weight"}, Out: out}
	if a.Bias != nil {
		if a.Bias.Dim() > 1 && n != 2 {
			return nil, opdef.Refuse("bias", "want 1 dimension, got shape %s", tensor.ShapeString(a.Bias.Shape))
		}
		p.base, p.baseArg = a.Bias, "bias"
	}
	return p, nil
}

// linearNode: with a bias, addmm of 2-D input and of contiguous 3-D input
// flattened, otherwise an addition after matmul; without, that of matmul.
// Source: aten/src/ATen/native/Linear.cpp
func linearNode(c *Call[linearArgs], g *opdef.Grad) (opdef.Node, error) {
	a := c.Args
	n := a.Input.Dim()
	switch {
	case a.Weight.Dim() == 1:
		return matmulNode(a.Input, a.Weight, g)
	case n == 2:
		gr, err := c.Grads(g)
		if err != nil {
			return opdef.Node{}, err
		}
		row, in, out := c.Out[0], c.Ops[1].Axes[1], c.Out[1]
		node := opdef.Node{Grads: []*tensor.Tensor{gr["input"][0], gr["weight"][0].Transpose(0, 1)},
			Axes: [][]int{{row, in}, {in, out}}}
		if a.Bias != nil {
			node.Grads = slices.Insert(node.Grads, 0, gr["bias"][0])
			node.Axes = slices.Insert(node.Axes, 0, []int{out})
		}
		return node, nil
	case a.Bias != nil && (n != 3 || !a.Input.IsContiguous()):
		return opdef.Node{Grads: []*tensor.Tensor{g.Out[0], opdef.SumTo(g.Out[0], a.Bias.Shape)},
			Weak: "the incoming gradient, summed for the bias"}, nil
	case a.Bias != nil:
		o := a.Weight.Shape[0]
		return elements.ReshapedNode(g, a.Input.Shape[0]*a.Input.Shape[1], o), nil
	}
	return matmulNode(a.Input, a.Weight.Transpose(0, 1), g)
}

func bilinearPlan(a *bilinearArgs) (*Product, error) {
	x, y, w := a.Input1, a.Input2, a.Weight
	n := x.Dim()
	switch {
	case n == 0 || y.Dim() != n:
		return nil, opdef.Refuse("input2", "want as many dimensions as input1, got shapes %s and %s",
			tensor.ShapeString(x.Shape), tensor.ShapeString(y.Shape))
	case !slices.Equal(x.Shape[:n-1], y.Shape[:n-1]):
		return nil, opdef.Refuse("input2", "batch dimensions of shapes %s and %s differ", tensor.ShapeString(x.Shape),
			tensor.ShapeString(y.Shape))
	case w.Dim() != 3 || w.Shape[1] != x.Shape[n-1] || w.Shape[2] != y.Shape[n-1]:
		return nil, opdef.Refuse("weight", "want shape [out, %d, %d], got %s", x.Shape[n-1], y.Shape[n-1],
			tensor.ShapeString(w.Shape))
	}
	b := BatchLabels(n - 1)
	p := &Product{
		Ops:  []Operand{{x, append(slices.Clone(b), 'i')}, {w, Labels("oij")}, {y, append(slices.Clone(b), 'j')}},
		Args: []string{"input1", "weight", "input2"}, Out: append(slices.Clone(b), 'o'),
	}
	if a.Bias != nil {
		if !slices.Equal(a.Bias.Shape, w.Shape[:1]) {
			return nil, opdef.Refuse("bias", "want shape %s, got %s", tensor.ShapeString(w.Shape[:1]),
				tensor.ShapeString(a.Bias.Shape))
		}
		p.base, p.baseArg = a.Bias, "bias"
	}
	return p, nil
}

func vecdotPlan(a *vecdotArgs) (*Product, error) {
	shape, err := tensor.Broadcast(a.X.Shape, a.Y.Shape)
	if err != nil {
		return nil, opdef.Refuse("y", "%v", err)
	}
	if a.X.Dim() == 1 && a.Y.Dim() == 1 && a.X.Shape[0] != a.Y.Shape[0] {
		return nil, opdef.Refuse("y", "vectors of sizes %d and %d", a.X.Shape[0], a.Y.Shape[0])
	}
	d, err := opdef.Dim("dim", a.Dim, len(shape))
	if err != nil {
		return nil, err
	}
	labels := func(t *tensor.Tensor) []int { return BatchLabels(t.Dim()) }
	out := BatchLabels(len(shape))
	if len(shape) > 0 {
		out = slices.Delete(out, d, d+1)
	}
	return &Product{Ops: []Operand{{elements.Conj(a.X), labels(a.X)}, {a.Y, labels(a.Y)}}, Args: []string{"x", "y"},
		Out:  out,
		conj: true}, nil
}

func innerPlan(a *innerArgs) (*Product, error) {
	x, y := a.Self, a.Other
	m, n := x.Dim(), y.Dim()
	p := &Product{Args: []string{"self", "other"}}
	if m == 0 || n == 0 {
		p.Ops = []Operand{{x, BatchLabels(m)}, {y, BatchLabels(n)}}
		p.Out, p.promote = BatchLabels(m+n), true
		return p, nil
	}
	if x.Shape[m-1] != y.Shape[n-1] {
		return nil, opdef.Refuse("other", "last sizes of shapes %s and %s differ", tensor.ShapeString(x.Shape),
			tensor.ShapeString(y.Shape))
	}
	ax, ay := BatchLabels(m-1), BatchLabels(n-1)
	for i := range ay { // apart from those of x
		ay[i] -= m
	}
	p.Out = slices.Concat(ax, ay)
	p.Ops = []Operand{{x, append(ax, 'k')}, {y, append(ay, 'k')}}
	return p, nil
}

func outerPlan(a *outerArgs) (*Product, error) {
	p, err := fixed("i", "j", "ij", a.Self, a.Vec2, "self", "vec2")
	if err == nil {
		p.promote, p.numeric = true, true
	}
	return p, err
}

func chainPlan(ts []*tensor.Tensor, arg string, vectors bool) (*Product, error) {
	if len(ts) == 0 || vectors && len(ts) < 2 {
		return nil, opdef.Refuse(arg, "want at least 2 tensors, got %d", len(ts))
	}
	p := &Product{}
	k := -1 // size of the label before
	for i, t := range ts {
		axes := []int{i, i + 1}
		switch {
		case t.Dim() == 2:
		case t.Dim() == 1 && vectors && i == 0:
			axes = axes[1:]
		case t.Dim() == 1 && vectors && i == len(ts)-1:
			axes = axes[:1]
		default:
			return nil, opdef.Refuse(arg, "item %d: want 2 dimensions, got shape %s", i, tensor.ShapeString(t.Shape))
		}
		if i > 0 && t.Shape[0] != k {
			return nil, opdef.Refuse(arg, "item %d: shape %s does not follow inner size %d", i,
				tensor.ShapeString(t.Shape), k)
		}
		k = t.Shape[len(axes)-1]
		p.Ops = append(p.Ops, Operand{t, axes})
		p.Args = append(p.Args, arg)
	}
	if ts[0].Dim() == 2 {
		p.Out = append(p.Out, 0)
	}
	if ts[len(ts)-1].Dim() == 2 {
		p.Out = append(p.Out, len(ts))
	}
	return p, nil
}

func kronPlan(a *kronArgs) (*Product, error) {
	m, n := a.Self.Dim(), a.Other.Dim()
	p := &Product{Args: []string{"self", "other"}, promote: true, numeric: true, shape: make([]int, max(m, n))}
	ax, ay := make([]int, m), make([]int, n)
	for d := range p.shape { // from the right
		p.shape[len(p.shape)-1-d] = 1
		if d < n {
			ay[n-1-d] = -2*d - 2
			p.Out = append(p.Out, -2*d-2)
			p.shape[len(p.shape)-1-d] = a.Other.Shape[n-1-d]
		}
		if d < m {
			ax[m-1-d] = -2*d - 1
			p.Out = append(p.Out, -2*d-1)
			p.shape[len(p.shape)-1-d] *= a.Self.Shape[m-1-d]
		}
	}
	slices.Reverse(p.Out)
	p.Ops = []Operand{{a.Self, ax}, {a.Other, ay}}
	return p, nil
}

// kronNode: torch multiplies views of shape (a0, 1, a1, 1, ...) and
// (1, b0, 1, b1, ...) and views the product.
func kronNode(c *Call[kronArgs], g *opdef.Grad) (opdef.Node, error) {
	a := c.Args
	rank := max(a.Self.Dim(), a.Other.Dim())
	var shape []int
	for d := rank; d > 0; d-- {
		for _, t := range []*tensor.Tensor{a.Self, a.Other} {
			n := 1
			if d <= t.Dim() {
				n = t.Shape[t.Dim()-d]
			}
			shape = append(shape, n)
		}
	}
	return elements.ReshapedNode(g, shape...), nil
}
