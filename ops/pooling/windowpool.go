package pooling

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

type maxPoolArgs struct {
	Input                                 *tensor.Tensor
	KernelSize, Stride, Padding, Dilation []int
	CeilMode, ReturnIndices               bool
}

func (a *maxPoolArgs) plan(nd int) (*pooling, error) {
	p, err := poolingOf(a.Input, nd, elements.WantReal)
	if err != nil {
		return nil, err
	}
	return p, p.slidingWindows(a.KernelSize, a.Stride, a.Padding, a.Dilation, a.CeilMode)
}

// maxPoolOf completes the declaration of an op whose calls are max poolings.
// withIndices tells whether a call returns the indices too.
func maxPoolOf[A any](
	op opdef.Op[A], arg string, plan func(a *A) (*pooling, error), withIndices func(a *A) bool,
) *opdef.Entry {
	op.Error = opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}}
	op.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		p, err := plan(a)
		if err != nil {
			return nil, err
		}
		v, i := p.max()
		if withIndices(a) {
			return []*tensor.Tensor{v, i}, nil
		}
		return []*tensor.Tensor{v}, nil
	}
	op.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		p, err := plan(a)
		if err != nil {
			return nil, err
		}
		var at *tensor.Tensor
		if len(g.Outs) > 1 {
			at = g.Outs[1]
		} else {
			_, at = p.max()
		}
		return opdef.Grads{arg: {elements.ScatterPlanes(p.Planes, g.Out[0], tensor.Data[int64](at))}}, nil
	}
	op.GradScale = elements.GradOnMagnitudes(op.Grad)
	op.GradTerms = func(a *A) int {
		if p, err := plan(a); err == nil {
			return p.overlap()
		}
		return 1
	}
	op.Node = squeezedNode(plan)
	return op.Entry()
}

// squeezedNode: poolings of one dimension run in two and drop one of size 1.
func squeezedNode[A any](plan func(a *A) (*pooling, error)) func(a *A, g *opdef.Grad) (opdef.Node, error) {
	return func(a *A, g *opdef.Grad) (opdef.Node, error) {
		p, err := plan(a)
		if err != nil || !p.squeeze {
			return opdef.Node{}, err
		}
		shape := p.outShape()
		return elements.ReshapedNode(g, slices.Insert(shape, len(shape)-1, 1)...), nil
	}
}

func maxPoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("max_pool%dd", nd)
	args := fmt.Sprintf("Tensor input, int[%d] kernel_size, int[%d]? stride=None, int[%d] padding=0, int[%d] "+
		"dilation=1, bool ceil_mode=False, bool return_indices=False", nd, nd, nd, nd)
	doc := opdef.Doc{
		Summary: fmt.Sprintf("Largest element of sliding windows of %d dimensions", nd),
		Formula: "max over k of input[n, c, p*stride - padding + k*dilation]",
		Notes: "Of equal elements the first counts, of NaNs the last; return_indices adds the index in the input " +
			"plane.", Source: "torch.nn.functional." + name,
	}
	cases := func(r *rand.Rand) []*maxPoolArgs {
		g := opdef.Gen{R: r}
		list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
		in := func(lead []int, n int) []int { return append(lead, list(n)...) }
		f32, f64 := tensor.Float32, tensor.Float64
		return []*maxPoolArgs{
			{g.Distinct(f64, in([]int{2, 2}, 4)...), list(2), nil, list(0), list(1), false, false},
			{g.Distinct(f64, in([]int{1, 2}, 5)...), list(3), list(2), list(1), list(1), true, true},
			{g.Distinct(f32, in([]int{2}, 5)...), list(2), list(1), list(1), list(2), false, false},
			{g.Distinct(tensor.BFloat16, in([]int{1, 1}, 4)...), list(2), list(2), list(0), list(1), true, true},
			{g.Distinct(f32, in([]int{0, 2}, 4)...), list(2), nil, list(0), list(1), false, false},
			{opdef.NonContiguous(g.Distinct(f64, in([]int{2, 2}, 4)...)), list(2), nil, list(0), list(1), false, false},
		}
	}
	both := []*opdef.Entry{
		maxPoolOf(opdef.Op[maxPoolArgs]{Schema: name + "(" + args + ") -> Tensor", Names: name + " F." + name, Doc: doc,
			Cases: cases}, "input",
			func(a *maxPoolArgs) (*pooling, error) { return a.plan(nd) },
			func(a *maxPoolArgs) bool { return a.ReturnIndices }),
		maxPoolOf(opdef.Op[maxPoolArgs]{
			Schema: name + "_with_indices(" + args + ") -> (Tensor, Tensor)",
			Names: "F." + name + "_with_indices _C._nn." + name + "_with_indices" +
				map[bool]string{true: " max_pool1d_with_indices"}[nd == 1], Doc: doc, Cases: cases,
		}, "input", func(a *maxPoolArgs) (*pooling, error) { return a.plan(nd) },
			func(*maxPoolArgs) bool { return true }),
	}
	return both
}

type avgPoolArgs struct {
	Input                       *tensor.Tensor
	KernelSize, Stride, Padding []int
	CeilMode, CountIncludePad   bool
	DivisorOverride             *int
}

type avgPool1dArgs struct {
	Input                       *tensor.Tensor
	KernelSize, Stride, Padding []int
	CeilMode, CountIncludePad   bool
}

func (a *avgPoolArgs) plan(nd int) (*pooling, error) {
	p, err := poolingOf(a.Input, nd, elements.WantReal)
	if err != nil {
		return nil, err
	}
	if err := p.slidingWindows(a.KernelSize, a.Stride, a.Padding, []int{1}, a.CeilMode); err != nil {
		return nil, err
	}
	if !a.CountIncludePad {
		p.countInside()
	}
	if a.DivisorOverride != nil {
		if p.divisor = *a.DivisorOverride; p.divisor == 0 {
			return nil, opdef.Refuse("divisor_override", "want a number other than 0")
		}
	}
	return p, nil
}

// meanPoolOf completes the declaration of an op whose calls are averages.
func meanPoolOf[A any](op opdef.Op[A], arg string, plan func(a *A) (*pooling, error)) *opdef.Entry {
	op.Error = opdef.Error{Class: opdef.Accumulated}
	op.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		p, err := plan(a)
		if err != nil {
			return nil, err
		}
		return []*tensor.Tensor{p.mean()}, nil
	}
	op.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		p, err := plan(a)
		if err != nil {
			return nil, err
		}
		return opdef.Grads{arg: {p.meanGrad(g.Out[0])}}, nil
	}
	op.Terms = func(a *A) int {
		if p, err := plan(a); err == nil {
			return p.largestWindow()
		}
		return 1
	}
	op.GradTerms = func(a *A) int {
		if p, err := plan(a); err == nil {
			return p.overlap()
		}
		return 1
	}
	if squeezed, own := squeezedNode(plan), op.Node; own != nil {
		op.Node = func(a *A, g *opdef.Grad) (opdef.Node, error) {
			if n, err := squeezed(a, g); n.Grads != nil || err != nil {
				return n, err
			}
			return own(a, g)
		}
	} else {
		op.Node = squeezed
	}
	return op.Entry()
}

func avgPoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("avg_pool%dd", nd)
	args := fmt.Sprintf("Tensor input, int[%d] kernel_size, int[%d]? stride=None, int[%d] padding=0, bool "+
		"ceil_mode=False, bool count_include_pad=True", nd, nd, nd)
	doc := opdef.Doc{
		Summary: fmt.Sprintf("Average of sliding windows of %d dimensions", nd),
		Formula: "mean over k of input[n, c, p*stride - padding + k]",
		Notes: "The divisor counts padding unless count_include_pad is false, never what lies beyond it; " +
			"divisor_override replaces it.", Source: "torch.nn.functional." + name,
	}
	list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
	cases := func(r *rand.Rand) []*avgPoolArgs {
		g := opdef.Gen{R: r}
		in := func(lead []int, n int) []int { return append(lead, list(n)...) }
		f32, f64 := tensor.Float32, tensor.Float64
		three := 3
		return []*avgPoolArgs{
			{g.Normal(f64, in([]int{2, 2}, 4)...), list(2), nil, list(0), false, true, nil},
			{g.Normal(f64, in([]int{1, 2}, 5)...), list(3), list(2), list(1), true, true, nil},
			{g.Normal(f64, in([]int{1, 2}, 4)...), list(3), list(2), list(1), true, false, nil},
			{g.Normal(f32, in([]int{2}, 5)...), list(2), list(1), list(1), false, false, &three},
			{g.Normal(tensor.BFloat16, in([]int{1, 1}, 4)...), list(2), list(2), list(0), true, true, nil},
			{g.Normal(f32, in([]int{0, 2}, 4)...), list(2), nil, list(0), false, true, nil},
			{opdef.NonContiguous(g.Normal(f64, in([]int{2, 2}, 4)...)), list(2), nil, list(0), false, true, nil},
		}
	}
	if nd == 1 {
		return []*opdef.Entry{meanPoolOf(opdef.Op[avgPool1dArgs]{
			Schema: name + "(" + args + ") -> Tensor", Names: name + " F." + name, Doc: doc,
			Cases: func(r *rand.Rand) (cs []*avgPool1dArgs) {
				for _, a := range cases(r) {
					cs = append(cs, &avgPool1dArgs{a.Input, a.KernelSize, a.Stride, a.Padding, a.CeilMode,
						a.CountIncludePad})
				}
				return cs
			},
		}, "input", func(a *avgPool1dArgs) (*pooling, error) {
			return (&avgPoolArgs{a.Input, a.KernelSize, a.Stride, a.Padding, a.CeilMode, a.CountIncludePad,
				nil}).plan(1)
		})}
	}
	return []*opdef.Entry{meanPoolOf(opdef.Op[avgPoolArgs]{
		Schema: name + "(" + args + ", int? divisor_override=None) -> Tensor", Names: "F." + name + " _C._nn." + name,
		Doc: doc, Cases: cases,
	}, "input", func(a *avgPoolArgs) (*pooling, error) { return a.plan(nd) })}
}

type adaptiveAvgArgs struct {
	Input      *tensor.Tensor
	OutputSize value.Value
}

type adaptiveMaxArgs struct {
	Input         *tensor.Tensor
	OutputSize    value.Value
	ReturnIndices bool
}

func adaptivePlan(x *tensor.Tensor, size value.Value, nd int) (*pooling, error) {
	p, err := poolingOf(x, nd, elements.WantFloat)
	if err != nil {
		return nil, err
	}
	return p, p.adaptiveWindows(size)
}

func adaptivePoolOps(nd int) []*opdef.Entry {
	avg, most := fmt.Sprintf("adaptive_avg_pool%dd", nd), fmt.Sprintf("adaptive_max_pool%dd", nd)
	notes := "output_size is a number or one per dimension; None keeps the input's size. Windows overlap where the " +
		"sizes do not divide."
	sizes := func() []value.Value {
		three := make([]value.Value, nd)
		for d := range three {
			three[d] = int64(2 + d)
		}
		none := slices.Clone(three)
		none[0] = nil
		return []value.Value{int64(1), int64(3), value.NewTuple(three...), value.NewList(none...)}
	}
	plan := func(a *adaptiveMaxArgs) (*pooling, error) { return adaptivePlan(a.Input, a.OutputSize, nd) }
	maxCases := func(r *rand.Rand) (cs []*adaptiveMaxArgs) {
		g := opdef.Gen{R: r}
		for i, s := range sizes() {
			cs = append(cs,
				&adaptiveMaxArgs{g.Distinct(tensor.Float64, append([]int{2, 2}, slices.Repeat([]int{5}, nd)...)...),
					s, i%2 == 0})
		}
		return append(cs,
			&adaptiveMaxArgs{g.Distinct(tensor.Float32, append([]int{2}, slices.Repeat([]int{4}, nd)...)...),
				int64(3), false})
	}
	maxDoc := opdef.Doc{Summary: fmt.Sprintf("Largest element of windows that divide %d dimensions", nd),
		Formula: "max of input[floor(o*in/out) : ceil((o+1)*in/out)]", Notes: notes,
		Source: "torch.nn.functional." + most}
	avgNames := "F." + avg + " _C._nn." + avg
	maxNames := "F." + most
	withIndices := "F." + most + "_with_indices _C._nn." + most
	if nd == 1 {
		avgNames, withIndices = avg+" F."+avg, most+" F."+most+"_with_indices"
	}
	return []*opdef.Entry{
		meanPoolOf(opdef.Op[adaptiveAvgArgs]{
			Schema: avg + "(Tensor input, any output_size) -> Tensor", Names: avgNames,
			// One window is a mean, in channels-last memory seen with other strides.
			Node: func(_ *adaptiveAvgArgs, g *opdef.Grad) (opdef.Node, error) {
				shape := g.Outs[0].Shape
				if tensor.Numel(shape[len(shape)-nd:]) != 1 {
					return opdef.Node{}, nil
				}
				return opdef.Node{Else: []opdef.Node{{Grads: g.Out[:1], Weak: "the incoming gradient"}}}, nil
			},
			Doc: opdef.Doc{Summary: fmt.Sprintf("Average of windows that divide %d dimensions", nd),
				Formula: "mean of input[floor(o*in/out) : ceil((o+1)*in/out)]", Notes: notes,
				Source: "torch.nn.functional." + avg},
			Cases: func(r *rand.Rand) (cs []*adaptiveAvgArgs) {
				g := opdef.Gen{R: r}
				for _, s := range sizes() {
					cs = append(cs,
						&adaptiveAvgArgs{g.Normal(tensor.Float64,
							append([]int{2, 2}, slices.Repeat([]int{5}, nd)...)...), s})
				}
				return append(cs,
					&adaptiveAvgArgs{g.Normal(tensor.BFloat16, append([]int{2}, slices.Repeat([]int{4}, nd)...)...),
						int64(3)})
			},
		}, "input", func(a *adaptiveAvgArgs) (*pooling, error) { return adaptivePlan(a.Input, a.OutputSize, nd) }),
		maxPoolOf(opdef.Op[adaptiveMaxArgs]{
			Schema: most + "(Tensor input, any output_size, bool return_indices=False) -> Tensor", Names: maxNames,
			Doc: maxDoc, Cases: maxCases,
		}, "input", plan, func(a *adaptiveMaxArgs) bool { return a.ReturnIndices }),
		maxPoolOf(opdef.Op[adaptiveMaxArgs]{
			Schema: most +
				"_with_indices(Tensor input, any output_size, bool return_indices=False) -> (Tensor, Tensor)",
			Names: withIndices, Doc: maxDoc, Cases: maxCases,
		}, "input", plan, func(*adaptiveMaxArgs) bool { return true }),
	}
}
