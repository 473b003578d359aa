package conv

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// convEntry completes the declaration of a convolution.
func convEntry[A any](o opdef.Planned[*A, *convCall]) *opdef.Entry {
	o.Error = opdef.Error{Class: opdef.Accumulated}
	o.Kernel, o.Grad = (*convCall).forward, (*convCall).grads
	o.Terms, o.GradTerms = (*convCall).terms, (*convCall).gradTerms
	return o.Entry()
}

func (cc *convCall) forward() ([]*tensor.Tensor, error) {
	dt := cc.input.DType
	var y *tensor.Tensor
	if cc.transposed {
		y = convInputGrad(dt, &cc.c, cc.shape, cc.weight, cc.input)
	} else {
		y = convForward(dt, &cc.c, cc.shape, cc.input, cc.weight)
	}
	y, err := cc.withBias(y)
	if err != nil {
		return nil, err
	}
	return []*tensor.Tensor{y}, nil
}

// withBias is y and the bias.
func (cc *convCall) withBias(y *tensor.Tensor) (*tensor.Tensor, error) {
	if cc.bias == nil {
		return y, nil
	}
	perChannel := append(cc.bias.Shape, slices.Repeat([]int{1}, cc.nd)...)
	b, err := cc.bias.Reshape(perChannel...).Expand(cc.shape...)
	if err != nil {
		return nil, opdef.Refuse("bias", "%v", err)
	}
	return elements.Add(y.DType, y, b), nil
}

func (cc *convCall) grads(g *opdef.Grad) (opdef.Grads, error) {
	dt, gy := cc.input.DType, g.Out[0]
	gr := opdef.Grads{"input": {nil}, "weight": {nil}}
	if g.Need("input") {
		if cc.transposed {
			gr.Set("input", convForward(dt, &cc.c, cc.input.Shape, gy, elements.Conj(cc.weight)))
		} else {
			gr.Set("input", convInputGrad(dt, &cc.c, cc.input.Shape, elements.Conj(cc.weight), gy))
		}
	}
	if g.Need("weight") {
		if cc.transposed { // the roles of input and result are swapped
			gr.Set("weight", convWeightGrad(dt, &cc.c, cc.weight.Shape, gy, elements.Conj(cc.input)))
		} else {
			gr.Set("weight", convWeightGrad(dt, &cc.c, cc.weight.Shape, elements.Conj(cc.input), gy))
		}
	}
	if cc.bias != nil && g.Need("bias") {
		gr.Set("bias", channelSum(dt, gy, cc.nd))
	}
	return gr, nil
}

// Axes are those of the batch and, unless they come in groups, of the channels.
func (cc *convCall) Axes() *opdef.Axes {
	const batch = 1
	in, out, linear := 2, 3, []int{batch, 2, 3}
	if cc.c.Groups != 1 {
		in, out, linear = opdef.Uncut, opdef.Uncut, []int{batch}
	}
	labels := func(l ...int) []int { return append(l, slices.Repeat([]int{opdef.Uncut}, cc.nd)...) }
	a := &opdef.Axes{Args: map[string][][]int{"input": {labels(in)}, "weight": {labels(out, in)}}, Out: labels(out),
		Linear: linear}
	if cc.batched {
		a.Args["input"], a.Out = [][]int{labels(batch, in)}, labels(batch, out)
	}
	if cc.transposed {
		a.Args["weight"] = [][]int{labels(in, out)}
	}
	if cc.bias != nil {
		a.Args["bias"], a.Added = [][]int{{out}}, "bias"
	}
	return a
}

// channelSum adds g over all dimensions but that of the channels.
func channelSum(dt tensor.DType, g *tensor.Tensor, nd int) *tensor.Tensor {
	var dims []int
	for d := range g.Dim() {
		if d != g.Dim()-nd-1 {
			dims = append(dims, d)
		}
	}
	return opdef.Sum(dt, g, dims, false)
}

// node: the result of a call without batch dimension is a view, and
// padding="same" that is not symmetric pads the input in an op of its own.
// Source: aten/src/ATen/native/Convolution.cpp
func (cc *convCall) node(g *opdef.Grad) (opdef.Node, error) {
	if !cc.batched {
		return elements.ReshapedNode(g, append([]int{1}, cc.shape...)...), nil
	}
	if cc.extra == [3]int{} {
		return opdef.Node{}, nil
	}
	gr, err := cc.grads(g)
	if err != nil {
		return opdef.Node{}, err
	}
	c := cc.c
	for d := range 3 {
		c.In[d] += cc.extra[d]
	}
	node := opdef.Node{Grads: []*tensor.Tensor{convInputGrad(cc.input.DType, &c, cc.sizes(c.InC, c.In),
		elements.Conj(cc.weight), g.Out[0]), gr["weight"][0]}}
	if cc.bias != nil {
		node.Grads = append(node.Grads, gr["bias"][0])
	}
	return node, nil
}

func (cc *convCall) terms() int { return int(cc.Products()) + 1 }

// Products is the number of multiply-adds of an element of the result, those
// with zeros of the padding included.
func (cc *convCall) Products() float64 {
	n := cc.c.Patch()
	if cc.transposed {
		n = n / max(cc.c.InC/cc.c.Groups, 1) * cc.c.OutC / cc.c.Groups
	}
	return float64(n)
}

func (cc *convCall) gradTerms() int {
	return max(cc.GradTermsOf("input"), cc.GradTermsOf("weight"), cc.GradTermsOf("bias"))
}

func (cc *convCall) GradTermsOf(arg string) int {
	c := &cc.c
	switch arg {
	case "bias":
		return c.Batch * tensor.Numel(cc.shape[len(cc.shape)-cc.nd:])
	case "weight":
		return c.Batch * tensor.Numel(c.Out[:])
	}
	channels := c.OutC
	if cc.transposed {
		channels = c.InC
	}
	return channels / c.Groups * tensor.Numel(c.Kernel[:])
}

func convForward(dt tensor.DType, c *kernel.Conv, shape []int, x, w *tensor.Tensor) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindComplex:
		return convForwardAs[complex128](dt, c, shape, x, w)
	case tensor.KindFloat:
		return convForwardAs[float64](dt, c, shape, x, w)
	}
	return convForwardAs[int64](dt, c, shape, x, w)
}

func convForwardAs[T kernel.Number](dt tensor.DType, c *kernel.Conv, shape []int, x, w *tensor.Tensor) *tensor.Tensor {
	if c.Direct() && tensor.Numel(shape) > 0 {
		// Every piece needs a part of the input alone: nothing is kept.
		wd, n := tensor.Data[T](w), c.Batch*c.Groups
		return opdef.Rows(dt, shape, tensor.Numel(shape)/n, func(u int, y []T) {
			one, lo, hi := c.Piece(u)
			withPart(x, u, n, func(x []T) { kernel.Forward(one, alone[T], x, wd[lo:hi], y) })
		})
	}
	y := tensor.Make[T](tensor.Numel(shape))
	kernel.Forward(c, crew[T], tensor.Data[T](x), tensor.Data[T](w), y)
	return tensor.New(dt, shape, y)
}

// withPart calls f with part u of n of x, which is gone afterwards.
func withPart[T kernel.Number](x *tensor.Tensor, u, n int, f func(x []T)) {
	each := x.Numel() / n
	part := opdef.Scratch[T](each)
	tensor.Load(x, u*each, *part)
	f(*part)
	opdef.Release(part)
}

// alone runs pieces of work one after the other.
func alone[T kernel.Number](pieces, scratch int, f func(u int, s []T)) {
	s := opdef.Scratch[T](scratch)
	for u := range pieces {
		f(u, *s)
	}
	opdef.Release(s)
}

// crew runs pieces of work on all cores.
func crew[T kernel.Number](pieces, scratch int, f func(u int, s []T)) {
	tensor.Parallel(pieces, 1, func(lo, hi int) {
		alone(hi-lo, scratch, func(u int, s []T) { f(lo+u, s) })
	})
}

func convInputGrad(dt tensor.DType, c *kernel.Conv, shape []int, w, g *tensor.Tensor) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindComplex:
		return convInputGradAs[complex128](dt, c, shape, w, g)
	case tensor.KindFloat:
		return convInputGradAs[float64](dt, c, shape, w, g)
	}
	return convInputGradAs[int64](dt, c, shape, w, g)
}

func convInputGradAs[T kernel.Number](dt tensor.DType, c *kernel.Conv, shape []int, w,
	g *tensor.Tensor) *tensor.Tensor {
	if c.Direct() && tensor.Numel(shape) > 0 { // as above
		wd, n := tensor.Data[T](w), c.Batch*c.Groups
		return opdef.Rows(dt, shape, tensor.Numel(shape)/n, func(u int, dx []T) {
			clear(dx)
			one, lo, hi := c.Piece(u)
			withPart(g, u, n, func(g []T) { kernel.InputGrad(one, alone[T], dx, wd[lo:hi], g) })
		})
	}
	dx := tensor.Make[T](tensor.Numel(shape))
	kernel.InputGrad(c, crew[T], dx, tensor.Data[T](w), tensor.Data[T](g))
	return tensor.New(dt, shape, dx)
}

func convWeightGrad(dt tensor.DType, c *kernel.Conv, shape []int, x, g *tensor.Tensor) *tensor.Tensor {
	switch dt.Kind() {
	case tensor.KindComplex:
		return convWeightGradAs[complex128](dt, c, shape, x, g)
	case tensor.KindFloat:
		return convWeightGradAs[float64](dt, c, shape, x, g)
	}
	return convWeightGradAs[int64](dt, c, shape, x, g)
}

func convWeightGradAs[T kernel.Number](dt tensor.DType, c *kernel.Conv, shape []int, x,
	g *tensor.Tensor) *tensor.Tensor {
	dw := tensor.Make[T](tensor.Numel(shape))
	if c.Direct() && c.Batch > 0 {
		n := c.Batch * c.Groups
		tensor.Parallel(c.Groups, 1, func(from, to int) {
			for group := from; group < to; group++ {
				for u := group; u < n; u += c.Groups {
					one, lo, hi := c.Piece(u)
					withPart(x, u, n, func(x []T) {
						withPart(g, u, n, func(g []T) { kernel.WeightGrad(one, alone[T], x, dw[lo:hi], g) })
					})
				}
			}
		})
		return tensor.New(dt, shape, dw)
	}
	kernel.WeightGrad(c, crew[T], tensor.Data[T](x), dw, tensor.Data[T](g))
	return tensor.New(dt, shape, dw)
}

// A convolutionBackward is a checked call of convolution_backward.
type convolutionBackward struct {
	forward *convCall
	args    *convolutionBackwardArgs
}

func (a *convolutionBackwardArgs) plan() (*convolutionBackward, error) {
	if len(a.OutputMask) != 3 {
		return nil, opdef.Refuse("output_mask", "want 3 values, got %d", len(a.OutputMask))
	}
	cc, err := a.forward().plan()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(a.GradOutput.Shape, cc.shape) {
		return nil, opdef.Refuse("grad_output", "want shape %s, got %s", tensor.ShapeString(cc.shape),
			tensor.ShapeString(a.GradOutput.Shape))
	}
	return &convolutionBackward{cc, a}, nil
}

func (c *convolutionBackward) kernel() ([]*tensor.Tensor, error) {
	a := c.args
	need := map[string]bool{"input": a.OutputMask[0], "weight": a.OutputMask[1]}
	gr, err := c.forward.grads(opdef.NewGrad(nil, []*tensor.Tensor{a.GradOutput}, need))
	if err != nil {
		return nil, err
	}
	dt := a.Input.DType
	outs := []*tensor.Tensor{gr["input"][0], gr["weight"][0], nil}
	if a.OutputMask[2] {
		outs[2] = channelSum(dt, a.GradOutput, c.forward.nd)
	}
	for i, t := range outs {
		if t == nil {
			outs[i] = tensor.New(dt, []int{0}, []float64{})
		}
	}
	return outs, nil
}
