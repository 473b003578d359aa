package matmul

import (
	"slices"
	"strings"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// einsumOps are the contractions written as equations. The sublist forms
// einsum(a, [0, 1], b, [1, 2], [0, 2]) are overloads for up to three operands.
var einsumOps = []*opdef.Entry{
	Multilinear(Op[einsumArgs]{
		Schema: "einsum(str equation, Tensor[]... operands) -> Tensor",
		Names:  "einsum functional.einsum",
		Traits: opdef.Traits{Autocast: opdef.AutocastProduct},
		Doc:    einsumDoc,
		Node:   func(c *Call[einsumArgs], g *opdef.Grad) (opdef.Node, error) { return einsumNode(c.Product, g) },
		Cases:  einsumCases,
	}, einsumPlan),
	Multilinear(Op[sublistArgs1]{
		Schema: "einsum.sublist(Tensor a, any a_dims, any out=None) -> Tensor",
		Names:  "einsum functional.einsum",
		Traits: opdef.Traits{Autocast: opdef.AutocastProduct},
		Doc:    einsumDoc,
		Cases:  opdef.Calls[sublistArgs1](`f64[3, 3], [0, 0]; f32[3, 2], [0, 1], out=[1, 0]`),
	}, func(a *sublistArgs1) (*Product, error) {
		return sublistPlan([]*tensor.Tensor{a.A}, []value.Value{a.ADims}, a.Out, []string{"a"})
	}),
	Multilinear(Op[sublistArgs2]{
		Schema: "einsum.sublist2(Tensor a, any a_dims, Tensor b, any b_dims, any out=None) -> Tensor",
		Names:  "einsum functional.einsum",
		Traits: opdef.Traits{Autocast: opdef.AutocastProduct},
		Doc:    einsumDoc,
		Cases: func(g opdef.Gen) []*sublistArgs2 {
			f64 := tensor.Float64
			return []*sublistArgs2{
				{g.Normal(f64, 3, 2), ints(0, 1), g.Normal(f64, 2, 4), ints(1, 2), ints(0, 2)},
				{g.Normal(f64, 5, 3, 2), value.NewList(value.Ellipsis{}, int64(1)), g.Normal(f64, 2), ints(1), nil},
			}
		},
	}, func(a *sublistArgs2) (*Product, error) {
		return sublistPlan([]*tensor.Tensor{a.A, a.B}, []value.Value{a.ADims, a.BDims}, a.Out, []string{"a", "b"})
	}),
	Multilinear(Op[sublistArgs3]{
		Schema: "einsum.sublist3(Tensor a, any a_dims, Tensor b, any b_dims, Tensor c, any c_dims, any out=None) -> " +
			"Tensor",
		Names:  "einsum functional.einsum",
		Traits: opdef.Traits{Autocast: opdef.AutocastProduct},
		Doc:    einsumDoc,
		Cases:  opdef.Calls[sublistArgs3](`f64[3, 2], [0, 1], f64[2, 4], [1, 2], f64[4], [2], out=[0]`),
	}, func(a *sublistArgs3) (*Product, error) {
		return sublistPlan([]*tensor.Tensor{a.A, a.B, a.C}, []value.Value{a.ADims, a.BDims, a.CDims}, a.Out,
			[]string{"a", "b", "c"})
	}),
}

var einsumDoc = opdef.Doc{
	Summary: "Sum of products over the dimensions an equation names",
	Formula: "einsum(\"bij,bjk->bik\", x, y)",
	Notes: "Letters in an order of their own, ... for broadcast dimensions, a repeated letter takes the diagonal; " +
		"or lists of numbers in place of letters.",
}

type einsumArgs struct {
	Equation string
	Operands []*tensor.Tensor
}

type sublistArgs1 struct {
	A          *tensor.Tensor
	ADims, Out value.Value
}

type sublistArgs2 struct {
	A          *tensor.Tensor
	ADims      value.Value
	B          *tensor.Tensor
	BDims, Out value.Value
}

type sublistArgs3 struct {
	A          *tensor.Tensor
	ADims      value.Value
	B          *tensor.Tensor
	BDims      value.Value
	C          *tensor.Tensor
	CDims, Out value.Value
}

func ints(v ...int64) value.Value {
	l := value.NewList()
	for _, x := range v {
		l.Items = append(l.Items, x)
	}
	return l
}

// ellipsis stands for the broadcast dimensions in a list of labels.
const ellipsis = -1

// einsumPlan parses the equation. Labels of letters are their codes.
func einsumPlan(a *einsumArgs) (*Product, error) {
	left, right, explicit := strings.Cut(a.Equation, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(a.Operands) {
		return nil, opdef.Refuse("equation", "%q has %d operands, got %d", a.Equation, len(terms), len(a.Operands))
	}
	labels := make([][]int, len(terms))
	var err error
	for i, t := range terms {
		if labels[i], err = parseLabels(t); err != nil {
			return nil, err
		}
	}
	args := slices.Repeat([]string{"operands"}, len(terms))
	if !explicit {
		return einsumLabels(a.Operands, labels, nil, false, "equation", args)
	}
	out, err := parseLabels(right)
	if err != nil {
		return nil, err
	}
	return einsumLabels(a.Operands, labels, out, true, "equation", args)
}

func parseLabels(s string) ([]int, error) {
	var out []int
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ' ':
		case strings.HasPrefix(s[i:], "..."):
			out = append(out, ellipsis)
			i += 2
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			out = append(out, int(c))
		default:
			return nil, opdef.Refuse("equation", "want letters, commas, -> and ..., got %q", c)
		}
	}
	return out, nil
}

func sublistPlan(ts []*tensor.Tensor, dims []value.Value, out value.Value, args []string) (*Product, error) {
	labels := make([][]int, len(ts))
	var err error
	for i, d := range dims {
		if labels[i], err = sublist(d); err != nil {
			return nil, err
		}
	}
	if out == nil {
		return einsumLabels(ts, labels, nil, false, "a_dims", args)
	}
	o, err := sublist(out)
	if err != nil {
		return nil, err
	}
	return einsumLabels(ts, labels, o, true, "out", args)
}

func sublist(v value.Value) ([]int, error) {
	seq, ok := v.(*value.Sequence)
	if !ok {
		return nil, opdef.Refuse("a_dims", "want a list of numbers, got %s", opdef.TypeName(v))
	}
	var out []int
	for _, it := range seq.Items {
		switch it := it.(type) {
		case int64:
			if it < 0 || it >= 52 {
				return nil, opdef.Refuse("a_dims", "subscript %d is out of range [0, 51]", it)
			}
			out = append(out, int(it))
		case value.Ellipsis:
			out = append(out, ellipsis)
		default:
			return nil, opdef.Refuse("a_dims", "want a list of numbers, got %s in it", opdef.TypeName(it))
		}
	}
	return out, nil
}

// einsumLabels is the product of operands labelled with non-negative numbers
// and ellipsis; without explicit output it is what appears once, in order,
// after the broadcast dimensions. arg is to blame for wrong labels.
func einsumLabels(ts []*tensor.Tensor, labels [][]int, out []int, explicit bool, arg string, args []string) (*Product,
	error) {
	p := &Product{Args: args}
	used := subscripts{map[int]int{}, map[int]int{}}
	wide := 0 // dimensions of the longest ellipsis
	for i, t := range ts {
		named := 0
		for _, l := range labels[i] {
			if l != ellipsis {
				named++
			}
		}
		dots := len(labels[i]) - named
		if dots > 1 {
			return nil, opdef.Refuse(arg, "operand %d has more than one ellipsis", i)
		}
		if named > t.Dim() || dots == 0 && named != t.Dim() {
			return nil, opdef.Refuse(arg, "operand %d of shape %s does not have %d dimensions", i,
				tensor.ShapeString(t.Shape), named)
		}
		wide = max(wide, (t.Dim()-named)*dots)
		axes := expandEllipsis(labels[i], t.Dim()-named)
		if err := used.add(t, axes, i, arg, args[i]); err != nil {
			return nil, err
		}
		p.Ops = append(p.Ops, Operand{t, axes})
	}
	if !explicit {
		out = []int{ellipsis}
		for l, n := range used.count {
			if n == 1 && l >= 0 {
				out = append(out, l)
			}
		}
		slices.Sort(out)
	}
	p.Out = expandEllipsis(out, wide)
	for i, l := range p.Out {
		if used.count[l] == 0 && l >= 0 {
			return nil, opdef.Refuse(arg, "an output subscript appears in no operand")
		}
		if slices.Contains(p.Out[:i], l) {
			return nil, opdef.Refuse(arg, "an output subscript appears twice")
		}
	}
	p.numeric = len(ts) == 1
	p.promote = p.summed() == 0 && len(ts) > 1
	return p, nil
}

// subscripts are those of operands: how often each appears, and its size, 1 only where all have 1.
type subscripts struct{ count, size map[int]int }

// add notes the subscripts of operand i. Either argument is to blame: the labels if one repeats with another size, or
// the operand if it does not broadcast.
func (s subscripts) add(t *tensor.Tensor, axes []int, i int, labels, operand string) error {
	mine := map[int]int{}
	for d, l := range axes {
		n := t.Shape[d]
		if m, ok := mine[l]; ok && m != n {
			return opdef.Refuse(labels, "a repeated subscript of operand %d has sizes %d and %d", i, m, n)
		}
		mine[l] = n
		if m, ok := s.size[l]; ok && m != n && m != 1 && n != 1 {
			return opdef.Refuse(operand, "operand %d of shape %s does not broadcast: sizes %d and %d for one subscript",
				i, tensor.ShapeString(t.Shape), m, n)
		}
		if s.size[l] == 0 || n != 1 {
			s.size[l] = n
		}
		s.count[l]++
	}
	return nil
}

// expandEllipsis replaces the ellipsis by n labels aligned from the right.
func expandEllipsis(labels []int, n int) []int {
	k := slices.Index(labels, ellipsis)
	if k < 0 {
		return labels
	}
	return slices.Concat(labels[:k], BatchLabels(n), labels[k+1:])
}

// summed is the number of labels that are summed over.
func (p *Product) summed() int {
	n := 0
	for l := range labelSizes(p.Ops) {
		if !slices.Contains(p.Out, l) {
			n++
		}
	}
	return n
}

// einsumNode: torch ends with a view that drops the summed dimensions, which
// it keeps with size 1 until then; a plain product of two operands ends with
// their multiplication, of one operand with a sum or a view.
// Source: aten/src/ATen/native/Linear.cpp, einsum
func einsumNode(p *Product, g *opdef.Grad) (opdef.Node, error) {
	k := p.summed()
	shape := slices.Clone(g.Outs[0].Shape)
	if len(p.Ops) > 1 && k > 0 {
		return elements.ReshapedNode(g, append(shape, slices.Repeat([]int{1}, k)...)...), nil
	}
	if len(p.Ops) != 2 {
		return opdef.Node{Skip: "gradients belong to another op"}, nil
	}
	size := labelSizes(p.Ops)
	var node opdef.Node
	for i, o := range p.Ops { // in the order of the output, with size 1 where a subscript is missing
		dims := slices.Repeat([]int{1}, len(p.Out))
		var axes []int
		for d, l := range p.Out {
			if k := slices.Index(o.Axes, l); k >= 0 {
				dims[d] = o.T.Shape[k]
				if dims[d] == size[l] {
					axes = append(axes, l)
				}
			}
		}
		t := contract(g.Outs[0].DType, []Operand{{g.Out[0], p.Out}, {elements.Conj(p.Ops[1-i].T), p.Ops[1-i].Axes}},
			axes, size)
		node.Grads = append(node.Grads, t.Reshape(dims...))
	}
	return node, nil
}

var einsumCases = opdef.Calls[einsumArgs](`
	'ij,jk->ik', [f64[2, 3], f64[3, 4]]; 'bij,bjk', [f32[2, 2, 3], f32[2, 3, 4]]
	'...ij,...jk->...ik', [f64[2, 1, 2, 3], f64[4, 3, 2]]; 'ii', [f64[3, 3]]; 'ii->i', [f64[3, 3]]
	'iij->j', [f64[3, 3, 2]]; 'ij->ji', [f32[3, 2]]; 'i,j->ij', [f64[3], f64[2]]; 'i,i->i', [bf16[3], bf16[3]]
	'i,i->', [f64[3], f64[3]]; 'ij,kj,lj->ikl', [f64[2, 3], f64[2, 3], f64[4, 3]]
	'bn,anm,bm->ba', [f64[2, 3], f64[4, 3, 2], f64[2, 2]]; 'a...,...b->a...', [f64[2, 3], f64[3, 4]]
	'ij,jk->', [f64[1, 3], f64[3, 4]]; 'ij,ij->ij', [f64[1, 3], f64[4, 3]]
	'bhqd , bkhd -> bhqk', [f32[2, 2, 3, 4], f32[2, 5, 2, 4]]; 'ij,jk->ik', [c128[2, 3], c128[3, 2]]
	'ij,jk->ik', [f32[0, 3], f32[3, 2]]; 'ij,jk->ik', [i64[2, 3]{-4..4}, i64[3, 2]{-4..4}]`)

type tensordotArgs struct {
	A, B *tensor.Tensor
	Dims value.Value
}

// tensordotDims are the dimensions of a and b that are summed over, in pairs.
func tensordotDims(a *tensordotArgs) (da, db []int, err error) {
	if t, ok := a.Dims.(*tensor.Tensor); ok && t.Dim() <= 2 && t.DType.Kind() == tensor.KindInt {
		v := tensor.Data[int64](t)
		switch {
		case len(v) == 1:
			return tensordotDims(&tensordotArgs{a.A, a.B, v[0]})
		case t.Dim() == 2 && t.Shape[0] == 2:
			k := t.Shape[1]
			return tensordotDims(&tensordotArgs{a.A, a.B, value.NewList(ints(v[:k]...), ints(v[k:]...))})
		}
	}
	switch v := a.Dims.(type) {
	case int64:
		n := int(v)
		if v < 0 || n > a.A.Dim() || n > a.B.Dim() {
			return nil, nil, opdef.Refuse("dims", "%d is out of range for %d and %d dimensions", v,
				a.A.Dim(), a.B.Dim())
		}
		for i := range n {
			da, db = append(da, a.A.Dim()-n+i), append(db, i)
		}
		return da, db, nil
	case *value.Sequence:
		lists := make([][]int, 0, 2)
		for k, it := range v.Items {
			rank := a.A.Dim()
			if k == 1 {
				rank = a.B.Dim()
			}
			dims, err := dimsOf(it, rank)
			if err != nil {
				return nil, nil, err
			}
			lists = append(lists, dims)
		}
		if len(lists) != 2 || len(lists[0]) != len(lists[1]) {
			return nil, nil, opdef.Refuse("dims", "want two lists of equal length")
		}
		return lists[0], lists[1], nil
	}
	return nil, nil, opdef.Refuse("dims", "want a number or two lists, got %s", opdef.TypeName(a.Dims))
}

// dimsOf are the dimensions of a tensor of some rank that a number or a list names, each once.
func dimsOf(v value.Value, rank int) (dims []int, err error) {
	seq, ok := v.(*value.Sequence)
	if !ok {
		seq = value.NewList(v)
	}
	for _, x := range seq.Items {
		d, ok := x.(int64)
		if !ok {
			return nil, opdef.Refuse("dims", "want numbers, got %s", opdef.TypeName(x))
		}
		if rank == 0 {
			return nil, opdef.Refuse("dims", "dimension %d of a 0-d tensor", d)
		}
		r, err := opdef.Dim("dims", int(d), rank)
		if err != nil {
			return nil, err
		}
		if slices.Contains(dims, r) {
			return nil, opdef.Refuse("dims", "dimension %d appears twice", d)
		}
		dims = append(dims, r)
	}
	return dims, nil
}

func tensordotPlan(a *tensordotArgs) (*Product, error) {
	da, db, err := tensordotDims(a)
	if err != nil {
		return nil, err
	}
	m := a.A.Dim()
	ax, ay := make([]int, m), make([]int, a.B.Dim())
	for i := range ax {
		ax[i] = i
	}
	for i := range ay {
		ay[i] = m + i
	}
	p := &Product{Args: []string{"a", "b"}}
	for i, d := range da {
		if x, y := a.A.Shape[d], a.B.Shape[db[i]]; x != y && x != 1 && y != 1 {
			return nil, opdef.Refuse("dims", "sizes %d and %d of dimensions %d and %d differ", x, y, d, db[i])
		}
		ay[db[i]] = d
	}
	for i, l := range ax {
		if !slices.Contains(da, i) {
			p.Out = append(p.Out, l)
		}
	}
	for i, l := range ay {
		if !slices.Contains(db, i) {
			p.Out = append(p.Out, l)
		}
	}
	p.Ops = []Operand{{a.A, ax}, {a.B, ay}}
	return p, nil
}

var tensordotCases = opdef.Calls[tensordotArgs](`
	f64[2, 3, 4], f64[3, 4, 2]; f32[2, 3], f32[4, 2], dims=0; f64[2, 3, 4], f64[4, 5, 2], dims=([0, -1], [2, 0])
	f64[2, 1], f64[3, 2], dims=([1], [0]); c128[2, 3], c128[3, 2], dims=1
	i64[2, 3]{-4..4}, i64[3, 2]{-4..4}, dims=1`)
