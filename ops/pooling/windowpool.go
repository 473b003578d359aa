package pooling

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

type maxPoolArgs struct {
	Input                                 *tensor.Tensor
	KernelSize, Stride, Padding, Dilation []int
	CeilMode, ReturnIndices               bool
}

func (a *maxPoolArgs) plan(nd int, withIndices bool) (*pooling, error) {
	p, err := poolingOf(a.Input, nd, elements.WantReal)
	if err != nil {
		return nil, err
	}
	p.indices = withIndices
	return p, p.slidingWindows(a.KernelSize, a.Stride, a.Padding, a.Dilation, a.CeilMode)
}

// maxPoolOf completes the declaration of an op whose calls are max poolings.
func maxPoolOf[A any](op opdef.Planned[*A, *pooling]) *opdef.Entry {
	op.Error = opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}}
	op.Kernel = func(p *pooling) ([]*tensor.Tensor, error) {
		v, i := p.max()
		if p.zeros {
			v = p.withZeros(v)
		}
		if p.indices {
			return []*tensor.Tensor{v, i}, nil
		}
		return []*tensor.Tensor{v}, nil
	}
	op.Grad = func(p *pooling, g *opdef.Grad) (opdef.Grads, error) {
		var at *tensor.Tensor
		if len(g.Outs) > 1 && p.chosen == nil {
			at = g.Outs[1]
		} else {
			_, at = p.choosing().max()
		}
		return opdef.Grads{"input": {elements.ScatterPlanes(p.Planes, g.Out[0], tensor.Data[int64](at))}}, nil
	}
	op.GradTerms, op.Node = (*pooling).overlap, (*pooling).node
	return op.Entry()
}

// Mistakes are what kernels get wrong about windows.
func (p *pooling) Mistakes() []opdef.Mistake[any] {
	if p.average {
		return p.meanMistakes()
	}
	return p.maxMistakes()
}

// maxMistakes are what kernels get wrong about windows that reach beyond the input, and about which element of each
// gets the gradient.
func (p *pooling) maxMistakes() []opdef.Mistake[any] {
	if !p.Tensor.DType.IsFloat() {
		return nil
	}
	var out []opdef.Mistake[any]
	add := func(text string, with func(m *pooling)) {
		out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			m := *p
			with(&m)
			return &m, nil
		}})
	}
	if cut := p.cut(); slices.Contains(slices.Concat(cut[:]...), true) {
		add("what is beside input counts as 0", func(m *pooling) { m.zeros = true })
	}
	for _, c := range []struct {
		which string
		of    func(i int, x float64) float64
	}{
		{"the first", func(int, float64) float64 { return 0 }},
		{"the last", func(i int, _ float64) float64 { return float64(i) }},
		{"the smallest", func(_ int, x float64) float64 { return -x }},
	} {
		add("the gradient goes to "+c.which+" element of each window", func(m *pooling) { m.chosen = c.of })
		out[len(out)-1].Gradients = true
	}
	return out
}

// choosing is the pooling whose largest elements are those that get the gradient.
func (p *pooling) choosing() *pooling {
	if p.chosen == nil {
		return p
	}
	v := make([]float64, p.Tensor.Numel())
	tensor.Load(p.Tensor, 0, v)
	for i, x := range v {
		v[i] = p.chosen(i, x)
	}
	m := *p
	m.Tensor, m.largest = tensor.New(tensor.Float64, p.Tensor.Shape, v), m.argmaxes
	return &m
}

// meanMistakes are what kernels get wrong about the elements of a window.
func (p *pooling) meanMistakes() []opdef.Mistake[any] {
	if !p.Tensor.DType.IsFloat() {
		return nil
	}
	var out []opdef.Mistake[any]
	add := func(text string, with func(m *pooling)) {
		out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			m := *p
			with(&m)
			return &m, nil
		}})
	}
	// other are windows that begin at other places too, and divide by their sizes.
	other := func(text string, at func(o, count, n int) (lo, hi int)) {
		w := *p
		for d, n := range p.Size {
			count := len(p.win.Lo[d])
			w.win.Lo[d], w.win.Hi[d], w.divide[d] = make([]int, count), make([]int, count), make([]int, count)
			for o := range count {
				lo, hi := at(o, count, n)
				w.win.Lo[d][o], w.win.Hi[d][o], w.divide[d][o] = lo, hi, hi-lo
			}
		}
		if !reflect.DeepEqual(w.win, p.win) {
			add(text, func(m *pooling) { *m = w })
		}
	}
	if p.divides && p.Tensor.Numel() > 0 && tensor.Numel(p.outShape()) > 0 {
		other("windows end where the next begins", func(o, count, n int) (lo, hi int) {
			return o * n / count, max((o+1)*n/count, o*n/count+1)
		})
		other("windows end floor(size / output size) after they begin", func(o, count, n int) (lo, hi int) {
			lo = o * n / count
			return lo, min(lo+max(n/count, 1), n)
		})
		other("all windows have one size and one step", func(o, count, n int) (lo, hi int) {
			step := n / count
			return o * step, o*step + n - (count-1)*step
		})
	}
	if whole := p.wholeDivisors(); !reflect.DeepEqual(whole, p.divide) {
		add("windows at the edges are divided by the size of whole ones", func(m *pooling) { m.divide = whole })
	}
	for d := range 3 {
		if p.largestAlong(d) < 2 {
			continue
		}
		name := fmt.Sprintf("the last of dimension %d of each window is left out", d-3)
		shorter := func(m *pooling) {
			m.win.Hi[d] = slices.Clone(m.win.Hi[d])
			for o, lo := range m.win.Lo[d] {
				if hi := &m.win.Hi[d][o]; p.endsInside(d, o) && *hi-p.win.Step[d] > lo {
					*hi -= p.win.Step[d]
				}
			}
		}
		add(name, shorter)
		add(name+" and does not count", func(m *pooling) {
			shorter(m)
			m.divide[d] = slices.Clone(m.divide[d])
			for o := range m.divide[d] {
				m.divide[d][o] = max(m.divide[d][o]-p.win.Hi[d][o]+m.win.Hi[d][o], 1)
			}
		})
	}
	for d := range 3 {
		if p.largestAlong(d) < 2 {
			continue
		}
		for _, which := range []string{"first", "last"} {
			add(fmt.Sprintf("of dimension %d of each window only the %s counts", d-3, which), func(m *pooling) {
				m.win.Lo[d], m.win.Hi[d] = slices.Clone(m.win.Lo[d]), slices.Clone(m.win.Hi[d])
				for o := range m.win.Lo[d] {
					lo, hi := &m.win.Lo[d][o], &m.win.Hi[d][o]
					if which == "last" && *hi > *lo {
						*lo += (*hi - *lo - 1) / p.win.Step[d] * p.win.Step[d]
					}
					*hi = min(*hi, *lo+1)
				}
			})
		}
	}
	if n := p.largestAlong(0) * p.largestAlong(1) * p.largestAlong(2); n > 1 {
		add(fmt.Sprintf("the last of the %d elements of each window is left out", n),
			func(m *pooling) { m.corner = true })
	}
	return out
}

// wholeDivisors are the divisors of windows as if all were as large as the largest.
func (p *pooling) wholeDivisors() (divide [3][]int) {
	for d, of := range p.divide {
		if len(of) > 0 {
			divide[d] = slices.Repeat([]int{slices.Max(of)}, len(of))
		}
	}
	return divide
}

// largestAlong is the number of elements of the largest window along a dimension.
func (p *pooling) largestAlong(d int) int {
	n := 0
	for o, lo := range p.win.Lo[d] {
		n = max(n, (p.win.Hi[d][o]-lo+p.win.Step[d]-1)/p.win.Step[d])
	}
	return n
}

// cut says which windows along each dimension are smaller than others.
func (p *pooling) cut() (cut [3][]bool) {
	for d, lo := range p.win.Lo {
		steps := make([]int, len(lo))
		for o := range lo {
			steps[o] = (p.win.Hi[d][o] - lo[o] + p.win.Step[d] - 1) / p.win.Step[d]
		}
		for _, n := range steps {
			cut[d] = append(cut[d], n < slices.Max(steps))
		}
	}
	return cut
}

// withZeros are the largest elements v, or 0 if that is larger and the window is cut.
func (p *pooling) withZeros(v *tensor.Tensor) *tensor.Tensor {
	cut := p.cut()
	x := make([]float64, v.Numel())
	tensor.Load(v, 0, x)
	i := 0
	for i < len(x) {
		for _, a := range cut[0] {
			for _, b := range cut[1] {
				for _, c := range cut[2] {
					if a || b || c {
						x[i] = math.Max(x[i], 0)
					}
					i++
				}
			}
		}
	}
	return tensor.New(v.DType, v.Shape, x)
}

// node: poolings of one dimension run in two and drop one of size 1.
func (p *pooling) node(g *opdef.Grad) (opdef.Node, error) {
	if !p.squeeze {
		return opdef.Node{}, nil
	}
	shape := p.outShape()
	return elements.ReshapedNode(g, slices.Insert(shape, len(shape)-1, 1)...), nil
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
	cases := func(g opdef.Gen) []*maxPoolArgs {
		list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
		in := func(lead []int, n int) []int { return append(lead, list(n)...) }
		f32, f64 := tensor.Float32, tensor.Float64
		return []*maxPoolArgs{
			{g.Distinct(f64, in([]int{2, 2}, 4)...), list(2), nil, list(0), list(1), false, false},
			{g.Distinct(f64, in([]int{1, 2}, 5)...), list(3), list(2), list(1), list(1), true, true},
			{g.Distinct(f32, in([]int{2}, 5)...), list(2), list(1), list(1), list(2), false, false},
			{g.Distinct(tensor.BFloat16, in([]int{1, 1}, 4)...), list(2), list(2), list(0), list(1), true, true},
			{g.Distinct(f32, in([]int{0, 2}, 4)...), list(2), nil, list(0), list(1), false, false},
		}
	}
	both := []*opdef.Entry{
		maxPoolOf(opdef.Planned[*maxPoolArgs, *pooling]{
			Schema: name + "(" + args + ") -> Tensor|Tensor[]", Names: name + " F." + name, Doc: doc,
			Cases: cases, Plan: func(a *maxPoolArgs) (*pooling, error) { return a.plan(nd, a.ReturnIndices) },
		}).WithTakenFor(fmt.Sprintf("torch.nn.functional.avg_pool%dd", nd)),
		maxPoolOf(opdef.Planned[*maxPoolArgs, *pooling]{
			Schema: name + "_with_indices(" + args + ") -> (Tensor, Tensor)",
			Names: "F." + name + "_with_indices _C._nn." + name + "_with_indices" +
				map[bool]string{true: " max_pool1d_with_indices"}[nd == 1], Doc: doc, Cases: cases,
			Plan: func(a *maxPoolArgs) (*pooling, error) { return a.plan(nd, true) },
		}),
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
	if p.average = true; !a.CountIncludePad {
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
func meanPoolOf[A any](op opdef.Planned[*A, *pooling]) *opdef.Entry {
	op.Error = opdef.Error{Class: opdef.Accumulated}
	op.Kernel = func(p *pooling) ([]*tensor.Tensor, error) { return []*tensor.Tensor{p.mean()}, nil }
	op.Grad = func(p *pooling, g *opdef.Grad) (opdef.Grads, error) {
		return opdef.Grads{"input": {p.meanGrad(g.Out[0])}}, nil
	}
	op.Terms, op.GradTerms = (*pooling).largestWindow, (*pooling).overlap
	if own := op.Node; own != nil {
		op.Node = func(p *pooling, g *opdef.Grad) (opdef.Node, error) {
			if p.squeeze {
				return p.node(g)
			}
			return own(p, g)
		}
	} else {
		op.Node = (*pooling).node
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
	cases := func(g opdef.Gen) []*avgPoolArgs {
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
		}
	}
	if nd == 1 {
		return []*opdef.Entry{meanPoolOf(opdef.Planned[*avgPool1dArgs, *pooling]{

			Schema: name + "(" + args + ") -> Tensor", Names: name + " F." + name, Doc: doc,
			Cases: opdef.Calls[avgPool1dArgs](`
				f64[2, 2, 4], [2]; f64[1, 2, 5], [3], stride=[2], padding=[1], ceil_mode=True
				f64[1, 2, 4], [3], stride=[2], padding=[1], ceil_mode=True, count_include_pad=False
				f32[2, 5], [2], stride=[1], padding=[1], count_include_pad=False
				bf16[1, 1, 4], [2], stride=[2], ceil_mode=True; f32[0, 2, 4], [2]`),
			Plan: func(a *avgPool1dArgs) (*pooling, error) {
				return (&avgPoolArgs{a.Input, a.KernelSize, a.Stride, a.Padding, a.CeilMode, a.CountIncludePad,
					nil}).plan(1)
			},
		})}
	}
	taken := fmt.Sprintf("torch.nn.functional.max_pool%dd", nd)
	return []*opdef.Entry{meanPoolOf(opdef.Planned[*avgPoolArgs, *pooling]{
		Schema: name + "(" + args + ", int? divisor_override=None) -> Tensor", Names: "F." + name + " _C._nn." + name,
		Doc: doc, Cases: cases, Plan: func(a *avgPoolArgs) (*pooling, error) { return a.plan(nd) },
	}).WithTakenFor(taken)}
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

func adaptivePlan(x *tensor.Tensor, size value.Value, nd int, withIndices bool) (*pooling, error) {
	p, err := poolingOf(x, nd, elements.WantFloat)
	if err != nil {
		return nil, err
	}
	p.indices = withIndices
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
	maxCases := func(g opdef.Gen) (cs []*adaptiveMaxArgs) {
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
		meanPoolOf(opdef.Planned[*adaptiveAvgArgs, *pooling]{
			Schema: avg + "(Tensor input, any output_size) -> Tensor", Names: avgNames,
			// One window is a mean, in channels-last memory seen with other strides.
			Node: func(_ *pooling, g *opdef.Grad) (opdef.Node, error) {
				shape := g.Outs[0].Shape
				if tensor.Numel(shape[len(shape)-nd:]) != 1 {
					return opdef.Node{}, nil
				}
				return opdef.Node{Else: []opdef.Node{{Grads: g.Out[:1], Weak: "the incoming gradient"}}}, nil
			},
			Doc: opdef.Doc{Summary: fmt.Sprintf("Average of windows that divide %d dimensions", nd),
				Formula: "mean of input[floor(o*in/out) : ceil((o+1)*in/out)]", Notes: notes,
				Source: "torch.nn.functional." + avg},
			Cases: func(g opdef.Gen) (cs []*adaptiveAvgArgs) {
				for _, s := range sizes() {
					cs = append(cs,
						&adaptiveAvgArgs{g.Normal(tensor.Float64,
							append([]int{2, 2}, slices.Repeat([]int{5}, nd)...)...), s})
				}
				return append(cs,
					&adaptiveAvgArgs{g.Normal(tensor.BFloat16, append([]int{2}, slices.Repeat([]int{4}, nd)...)...),
						int64(3)})
			},
			Plan: func(a *adaptiveAvgArgs) (*pooling, error) {
				p, err := adaptivePlan(a.Input, a.OutputSize, nd, false)
				if err != nil {
					return nil, err
				}
				p.average = true
				return p, nil
			},
		}),
		maxPoolOf(opdef.Planned[*adaptiveMaxArgs, *pooling]{
			Schema: most + "(Tensor input, any output_size, bool return_indices=False) -> Tensor|Tensor[]",
			Names:  maxNames,
			Doc:    maxDoc, Cases: maxCases,
			Plan: func(a *adaptiveMaxArgs) (*pooling, error) {
				return adaptivePlan(a.Input, a.OutputSize, nd, a.ReturnIndices)
			},
		}),
		maxPoolOf(opdef.Planned[*adaptiveMaxArgs, *pooling]{
			Schema: most +
				"_with_indices(Tensor input, any output_size, bool return_indices=False) -> (Tensor, Tensor)",
			Names: withIndices, Doc: maxDoc, Cases: maxCases,
			Plan: func(a *adaptiveMaxArgs) (*pooling, error) { return adaptivePlan(a.Input, a.OutputSize, nd, true) },
		}),
	}
}
