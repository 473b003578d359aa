package ops

import (
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// convOps are convolutions and transposed convolutions of one to three
// spatial dimensions.
var convOps = []*opdef.Entry{
	convOp(1, "conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, any padding=0, int[1] "+
		"dilation=1, int groups=1) -> Tensor"),
	convOp(2, "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, any padding=0, int[2] "+
		"dilation=1, int groups=1) -> Tensor"),
	convOp(3, "conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, any padding=0, int[3] "+
		"dilation=1, int groups=1) -> Tensor"),
	convTransposeOp(1, "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] "+
		"padding=0, int[1] output_padding=0, int groups=1, int[1] dilation=1) -> Tensor"),
	convTransposeOp(2, "conv_transpose2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] "+
		"padding=0, int[2] output_padding=0, int groups=1, int[2] dilation=1) -> Tensor"),
	convTransposeOp(3, "conv_transpose3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] "+
		"padding=0, int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor"),
	opdef.Op[convolutionArgs]{
		Schema: "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] " +
			"dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
		Names: "convolution",
		Doc: opdef.Doc{Summary: "Convolution or transposed convolution of any number of dimensions",
			Formula: "as conv1d, conv2d, conv3d, conv_transpose1d, ...",
			Source:  "aten/src/ATen/native/Convolution.cpp"},
		Error: opdef.Error{Class: opdef.Accumulated},
		Kernel: func(a *convolutionArgs) ([]*tensor.Tensor, error) {
			return convKernel(a.plan())
		},
		Grad: func(a *convolutionArgs, g *opdef.Grad) (opdef.Grads, error) {
			return convGrad(g)(a.plan())
		},
		Terms:     func(a *convolutionArgs) int { return convTerms(a.plan()) },
		Products:  func(a *convolutionArgs) float64 { return convProducts(a.plan()) },
		GradTerms: func(a *convolutionArgs) int { return convGradTerms(a.plan()) },
		Cases: func(r *rand.Rand) []*convolutionArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			one, zero := []int{1, 1}, []int{0, 0}
			return []*convolutionArgs{
				{g.Normal(f64, 2, 4, 5, 5), g.Normal(f64, 6, 2, 3, 3), g.Normal(f64, 6), one, one, one, false, zero, 2},
				{g.Normal(f64, 2, 4, 3, 3), g.Normal(f64, 4, 2, 3, 3), nil, []int{2, 2}, one, one, true, one, 2},
			}
		},
	}.Entry(),
	opdef.Op[convolutionBackwardArgs]{
		Schema: "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] " +
			"stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool[] " +
			"output_mask) -> (Tensor, Tensor, Tensor)",
		Names: "convolution_backward torch.ops.aten.convolution_backward",
		Doc: opdef.Doc{Summary: "Gradients of a convolution", Formula: "gradients of input, weight and bias",
			Notes: "A gradient that output_mask leaves out is empty.", Source: "aten/src/ATen/native/Convolution.cpp"},
		Error:  opdef.Error{Class: opdef.Accumulated},
		Kernel: convolutionBackward,
		NoGrad: "a gradient itself",
		Terms: func(a *convolutionBackwardArgs) int {
			c := a.forward()
			return convGradTerms(c.plan())
		},
		Cases: func(r *rand.Rand) []*convolutionBackwardArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			one, zero := []int{1, 1}, []int{0, 0}
			return []*convolutionBackwardArgs{
				{g.Normal(f64, 2, 6, 5, 5), g.Normal(f64, 2, 4, 5, 5), g.Normal(f64, 6, 2, 3, 3), []int{6}, one, one,
					one, false, zero, 2, []bool{true, true, true}},
			}
		},
	}.Entry(),
}

// convArgs are the arguments of conv1d, conv2d and conv3d.
type convArgs struct {
	Input, Weight, Bias *tensor.Tensor
	Stride              []int
	Padding             value.Value
	Dilation            []int
	Groups              int
}

type convTransposeArgs struct {
	Input, Weight, Bias            *tensor.Tensor
	Stride, Padding, OutputPadding []int
	Groups                         int
	Dilation                       []int
}

type convolutionArgs struct {
	Input, Weight, Bias       *tensor.Tensor
	Stride, Padding, Dilation []int
	Transposed                bool
	OutputPadding             []int
	Groups                    int
}

type convolutionBackwardArgs struct {
	GradOutput, Input, Weight            *tensor.Tensor
	BiasSizes, Stride, Padding, Dilation []int
	Transposed                           bool
	OutputPadding                        []int
	Groups                               int
	OutputMask                           []bool
}

// A convCall is a checked call of a convolution. For a transposed one c is the
// convolution whose input gradient it is.
type convCall struct {
	c                   kernel.Conv
	nd                  int
	transposed          bool
	batched             bool
	input, weight, bias *tensor.Tensor
	extra               [3]int // zeros torch appends to the input for padding="same"
	shape               []int  // of the result
}

func convOp(nd int, schema string) *opdef.Entry {
	name := schema[:6]
	return opdef.Op[convArgs]{
		Schema: schema,
		Names:  name + " F." + name,
		Doc: opdef.Doc{
			Summary: "Cross-correlation of " + string(rune('0'+nd)) + " spatial dimensions with a bank of kernels",
			Formula: "out[n, o, p] = bias[o] + sum_{c,k} weight[o, c, k] * input[n, g*C/groups+c, p*stride - " +
				"padding + k*dilation]",
			Notes: "input (N, C, ...) or (C, ...), weight (O, C/groups, ...); padding may be \"same\" (stride 1) or " +
				"\"valid\".", Source: "torch.nn.functional." + name,
		},
		Error:     opdef.Error{Class: opdef.Accumulated},
		Autocast:  opdef.AutocastLower,
		Kernel:    func(a *convArgs) ([]*tensor.Tensor, error) { return convKernel(convPlan(nd, a)) },
		Grad:      func(a *convArgs, g *opdef.Grad) (opdef.Grads, error) { return convGrad(g)(convPlan(nd, a)) },
		Node:      func(a *convArgs, g *opdef.Grad) (opdef.Node, error) { return convNode(g)(convPlan(nd, a)) },
		Terms:     func(a *convArgs) int { return convTerms(convPlan(nd, a)) },
		Products:  func(a *convArgs) float64 { return convProducts(convPlan(nd, a)) },
		GradTerms: func(a *convArgs) int { return convGradTerms(convPlan(nd, a)) },
		Cases:     func(r *rand.Rand) []*convArgs { return convCases(nd, r) },
	}.Entry()
}

func convTransposeOp(nd int, schema string) *opdef.Entry {
	name := schema[:16]
	return opdef.Op[convTransposeArgs]{
		Schema: schema,
		Names:  name + " F." + name,
		Doc: opdef.Doc{
			Summary: "Transposed convolution of " + string(rune('0'+nd)) + " spatial dimensions",
			Formula: "the gradient of a convolution with respect to its input, plus bias",
			Notes:   "input (N, C, ...) or (C, ...), weight (C, O/groups, ...).", Source: "torch.nn.functional." + name,
		},
		Error:     opdef.Error{Class: opdef.Accumulated},
		Autocast:  opdef.AutocastLower,
		Kernel:    func(a *convTransposeArgs) ([]*tensor.Tensor, error) { return convKernel(a.plan(nd)) },
		Grad:      func(a *convTransposeArgs, g *opdef.Grad) (opdef.Grads, error) { return convGrad(g)(a.plan(nd)) },
		Node:      func(a *convTransposeArgs, g *opdef.Grad) (opdef.Node, error) { return convNode(g)(a.plan(nd)) },
		Terms:     func(a *convTransposeArgs) int { return convTerms(a.plan(nd)) },
		Products:  func(a *convTransposeArgs) float64 { return convProducts(a.plan(nd)) },
		GradTerms: func(a *convTransposeArgs) int { return convGradTerms(a.plan(nd)) },
		Cases:     func(r *rand.Rand) []*convTransposeArgs { return convTransposeCases(nd, r) },
	}.Entry()
}

// spatial checks a list of nd numbers not below least; one number stands for
// all. Unused leading dimensions get fill.
func spatial(arg string, v []int, nd, least, fill int) (out [3]int, err error) {
	out = [3]int{fill, fill, fill}
	if len(v) != nd && len(v) != 1 {
		return out, opdef.Refuse(arg, "want 1 or %d numbers, got %d", nd, len(v))
	}
	for d := range nd {
		x := v[0]
		if len(v) == nd {
			x = v[d]
		}
		if x < least {
			return out, opdef.Refuse(arg, "want at least %d, got %d", least, x)
		}
		out[3-nd+d] = x
	}
	return out, nil
}

// convPlan checks a call of conv1d, conv2d or conv3d.
func convPlan(nd int, a *convArgs) (*convCall, error) {
	cc := &convCall{nd: nd, input: a.Input, weight: a.Weight, bias: a.Bias}
	if err := cc.tensors(a.Groups); err != nil {
		return nil, err
	}
	c := &cc.c
	var err error
	if c.Stride, err = spatial("stride", a.Stride, nd, 1, 1); err != nil {
		return nil, err
	}
	if c.Dilation, err = spatial("dilation", a.Dilation, nd, 1, 1); err != nil {
		return nil, err
	}
	switch p := a.Padding.(type) {
	case string:
		switch p {
		case "valid":
		case "same":
			for d := range 3 {
				if c.Stride[d] != 1 {
					return nil, opdef.Refuse("padding", "\"same\" needs stride 1, got %d", c.Stride[d])
				}
				total := c.Dilation[d] * (c.Kernel[d] - 1)
				c.Pad[d], cc.extra[d] = total/2, total%2
			}
		default:
			return nil, opdef.Refuse("padding", "want \"same\", \"valid\" or numbers, got %q", p)
		}
	default:
		v, err := intsOf("padding", p)
		if err != nil {
			return nil, err
		}
		if c.Pad, err = spatial("padding", v, nd, 0, 0); err != nil {
			return nil, err
		}
	}
	return cc, cc.finish()
}

// intsOf reads a number or a sequence of numbers.
func intsOf(arg string, v value.Value) ([]int, error) {
	seq, ok := v.(*value.Sequence)
	if !ok {
		seq = value.NewList(v)
	}
	out := make([]int, len(seq.Items))
	for i, it := range seq.Items {
		n, ok := it.(int64)
		if !ok {
			return nil, opdef.Refuse(arg, "want whole numbers, got %s", opdef.TypeName(it))
		}
		out[i] = int(n)
	}
	return out, nil
}

// tensors checks ranks, channels and dtypes and fills in sizes.
func (cc *convCall) tensors(groups int) error {
	x, w, b, nd := cc.input, cc.weight, cc.bias, cc.nd
	if x.Dim() != nd+1 && x.Dim() != nd+2 {
		return opdef.Refuse("input", "want %d or %d dimensions, got shape %s", nd+1, nd+2, tensor.ShapeString(x.Shape))
	}
	if w.Dim() != nd+2 {
		return opdef.Refuse("weight", "want %d dimensions, got shape %s", nd+2, tensor.ShapeString(w.Shape))
	}
	if groups < 1 {
		return opdef.Refuse("groups", "want a positive number, got %d", groups)
	}
	for arg, t := range map[string]*tensor.Tensor{"weight": w, "bias": b} {
		if t != nil && t.DType != x.DType {
			return opdef.Refuse(arg, "want dtype %s as of input, got %s", x.DType, t.DType)
		}
	}
	if x.DType == tensor.Bool {
		return opdef.Refuse("input", "not defined for dtype bool")
	}
	cc.batched = x.Dim() == nd+2
	xs := x.Shape
	batch := 1
	if cc.batched {
		batch, xs = xs[0], xs[1:]
	}
	if w.Shape[0]%groups != 0 || w.Shape[0] < groups {
		return opdef.Refuse("weight", "%d channels do not divide into %d groups", w.Shape[0], groups)
	}
	// c.InC and In are those of the convolution: of the result if transposed.
	c := &cc.c
	*c = kernel.Conv{Batch: batch, Groups: groups, OutC: w.Shape[0], InC: w.Shape[1] * groups, Stride: [3]int{1, 1, 1},
		Dilation: [3]int{1, 1, 1}}
	want, result := c.InC, c.OutC
	if cc.transposed {
		want, result = result, want
	}
	if xs[0] != want {
		return opdef.Refuse("input", "want %d channels for weight of shape %s in %d groups, got shape %s", want,
			tensor.ShapeString(w.Shape), groups, tensor.ShapeString(x.Shape))
	}
	if b != nil && !slices.Equal(b.Shape, []int{result}) {
		return opdef.Refuse("bias", "want shape [%d], got %s", result, tensor.ShapeString(b.Shape))
	}
	given := &c.In
	if cc.transposed {
		given = &c.Out
	}
	c.Kernel, *given = [3]int{1, 1, 1}, [3]int{1, 1, 1}
	copy(c.Kernel[3-nd:], w.Shape[2:])
	copy(given[3-nd:], xs[1:])
	return nil
}

// finish computes the sizes of the result.
func (cc *convCall) finish() error {
	c := &cc.c
	for d := range 3 {
		full := c.In[d] + 2*c.Pad[d] + cc.extra[d]
		span := c.Dilation[d]*(c.Kernel[d]-1) + 1
		if full < span || c.Kernel[d] == 0 {
			return opdef.Refuse("input", "padded size %d is smaller than the kernel's %d", full, span)
		}
		c.Out[d] = (full-span)/c.Stride[d] + 1
	}
	cc.shape = cc.sizes(c.OutC, c.Out)
	return nil
}

// sizes is the shape of a tensor of n channels.
func (cc *convCall) sizes(n int, dims [3]int) []int {
	shape := append([]int{n}, dims[3-cc.nd:]...)
	if cc.batched {
		shape = slices.Insert(shape, 0, cc.c.Batch)
	}
	return shape
}

func (a *convTransposeArgs) plan(nd int) (*convCall, error) {
	cc := &convCall{nd: nd, transposed: true, input: a.Input, weight: a.Weight, bias: a.Bias}
	if err := cc.tensors(a.Groups); err != nil {
		return nil, err
	}
	c := &cc.c
	var err error
	if c.Stride, err = spatial("stride", a.Stride, nd, 1, 1); err != nil {
		return nil, err
	}
	if c.Dilation, err = spatial("dilation", a.Dilation, nd, 1, 1); err != nil {
		return nil, err
	}
	if c.Pad, err = spatial("padding", a.Padding, nd, 0, 0); err != nil {
		return nil, err
	}
	more, err := spatial("output_padding", a.OutputPadding, nd, 0, 0)
	if err != nil {
		return nil, err
	}
	for d := range 3 {
		if more[d] > 0 && more[d] >= max(c.Stride[d], c.Dilation[d]) {
			return nil, opdef.Refuse("output_padding", "want less than stride or dilation, got %d", more[d])
		}
		c.In[d] = (c.Out[d]-1)*c.Stride[d] - 2*c.Pad[d] + c.Dilation[d]*(c.Kernel[d]-1) + more[d] + 1
		if c.In[d] < 0 || c.In[d] == 0 && c.Out[d] != 0 {
			return nil, opdef.Refuse("input", "the result's size %d is too small", c.In[d])
		}
	}
	cc.shape = cc.sizes(c.InC, c.In)
	return cc, nil
}

func (a *convolutionArgs) plan() (*convCall, error) {
	nd := a.Weight.Dim() - 2
	if nd < 1 || nd > 3 {
		return nil, opdef.Refuse("weight", "want 3 to 5 dimensions, got shape %s", tensor.ShapeString(a.Weight.Shape))
	}
	if a.Transposed {
		t := &convTransposeArgs{a.Input, a.Weight, a.Bias, a.Stride, a.Padding, a.OutputPadding, a.Groups, a.Dilation}
		return t.plan(nd)
	}
	pad := value.NewList()
	for _, p := range a.Padding {
		pad.Items = append(pad.Items, int64(p))
	}
	return convPlan(nd, &convArgs{a.Input, a.Weight, a.Bias, a.Stride, pad, a.Dilation, a.Groups})
}

func convKernel(cc *convCall, err error) ([]*tensor.Tensor, error) {
	if err != nil {
		return nil, err
	}
	dt := cc.input.DType
	var y *tensor.Tensor
	if cc.transposed {
		y = convInputGrad(dt, &cc.c, cc.shape, cc.weight, cc.input)
	} else {
		y = convForward(dt, &cc.c, cc.shape, cc.input, cc.weight)
	}
	if cc.bias != nil {
		perChannel := append(cc.bias.Shape, slices.Repeat([]int{1}, cc.nd)...)
		b, err := cc.bias.Reshape(perChannel...).Expand(cc.shape...)
		if err != nil {
			return nil, opdef.Refuse("bias", "%v", err)
		}
		y = sumOf(dt, y, b)
	}
	return []*tensor.Tensor{y}, nil
}

// convGrad returns the gradients of a call.
func convGrad(g *opdef.Grad) func(cc *convCall, err error) (opdef.Grads, error) {
	return func(cc *convCall, err error) (opdef.Grads, error) {
		if err != nil {
			return nil, err
		}
		dt, gy := cc.input.DType, g.Out[0]
		gr := opdef.Grads{"input": {nil}, "weight": {nil}}
		if g.Need("input") {
			if cc.transposed {
				gr.Set("input", convForward(dt, &cc.c, cc.input.Shape, gy, conj(cc.weight)))
			} else {
				gr.Set("input", convInputGrad(dt, &cc.c, cc.input.Shape, conj(cc.weight), gy))
			}
		}
		if g.Need("weight") {
			if cc.transposed { // the roles of input and result are swapped
				gr.Set("weight", convWeightGrad(dt, &cc.c, cc.weight.Shape, gy, conj(cc.input)))
			} else {
				gr.Set("weight", convWeightGrad(dt, &cc.c, cc.weight.Shape, conj(cc.input), gy))
			}
		}
		if cc.bias != nil && g.Need("bias") {
			gr.Set("bias", channelSum(dt, gy, cc.nd))
		}
		return gr, nil
	}
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

// convNode: the result of a call without batch dimension is a view, and
// padding="same" that is not symmetric pads the input in an op of its own.
// Source: aten/src/ATen/native/Convolution.cpp
func convNode(g *opdef.Grad) func(cc *convCall, err error) (opdef.Node, error) {
	return func(cc *convCall, err error) (opdef.Node, error) {
		if err != nil {
			return opdef.Node{}, err
		}
		if !cc.batched {
			return reshaped(g, append([]int{1}, cc.shape...)...), nil
		}
		if cc.extra == [3]int{} {
			return opdef.Node{}, nil
		}
		gr, err := convGrad(g)(cc, nil)
		if err != nil {
			return opdef.Node{}, err
		}
		c := cc.c
		for d := range 3 {
			c.In[d] += cc.extra[d]
		}
		dt := cc.input.DType
		node := opdef.Node{Grads: []*tensor.Tensor{convInputGrad(dt, &c, cc.sizes(c.InC, c.In), conj(cc.weight),
			g.Out[0]), gr["weight"][0]}}
		if cc.bias != nil {
			node.Grads = append(node.Grads, gr["bias"][0])
		}
		return node, nil
	}
}

func convTerms(cc *convCall, err error) int { return int(convProducts(cc, err)) + 1 }

// convProducts is the number of multiply-adds of an element of the result, those
// with zeros of the padding included.
func convProducts(cc *convCall, err error) float64 {
	if err != nil {
		return 0
	}
	n := cc.c.Patch()
	if cc.transposed {
		n = n / max(cc.c.InC/cc.c.Groups, 1) * cc.c.OutC / cc.c.Groups
	}
	return float64(n)
}

func convGradTerms(cc *convCall, err error) int {
	if err != nil {
		return 1
	}
	c := &cc.c
	per := c.Kernel[0] * c.Kernel[1] * c.Kernel[2]
	return max(c.Batch*tensor.Numel(cc.shape)/max(cc.shape[0], 1), per*max(c.OutC, c.InC)/c.Groups,
		c.Batch*tensor.Numel(c.Out[:]))
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
	if each, pieces := c.Channels(); c.Direct() && each > 0 && pieces > 0 {
		// Every piece needs a part of the input alone: nothing is kept.
		in := x.Numel() / pieces
		wd := tensor.Data[T](w)
		return opdef.Rows(dt, shape, each, func(u int, y []T) {
			xs := opdef.Scratch[T](in)
			tensor.Load(x, u*in, *xs)
			kernel.ForwardChannels(c, u, *xs, wd, y)
			opdef.Release(xs)
		})
	}
	y := make([]T, tensor.Numel(shape))
	xd, wd := tensor.Data[T](x), tensor.Data[T](w)
	tensor.Parallel(c.ForwardUnits(), 1, func(lo, hi int) {
		s := opdef.Scratch[T](c.Scratch())
		for u := lo; u < hi; u++ {
			kernel.Forward(c, u, xd, wd, y, *s)
		}
		opdef.Release(s)
	})
	return tensor.New(dt, shape, y)
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
	dx := make([]T, tensor.Numel(shape))
	wd, gd := tensor.Data[T](w), tensor.Data[T](g)
	tensor.Parallel(c.InputGradUnits(), 1, func(lo, hi int) {
		s := opdef.Scratch[T](c.Scratch())
		for u := lo; u < hi; u++ {
			kernel.InputGrad(c, u, dx, wd, gd, *s)
		}
		opdef.Release(s)
	})
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
	dw := make([]T, tensor.Numel(shape))
	xd, gd := tensor.Data[T](x), tensor.Data[T](g)
	tensor.Parallel(c.Groups, 1, func(lo, hi int) {
		s := opdef.Scratch[T](c.Scratch())
		for u := lo; u < hi; u++ {
			kernel.WeightGrad(c, u, xd, dw, gd, *s)
		}
		opdef.Release(s)
	})
	return tensor.New(dt, shape, dw)
}

// forward is the call whose gradients a computes.
func (a *convolutionBackwardArgs) forward() *convolutionArgs {
	return &convolutionArgs{a.Input, a.Weight, nil, a.Stride, a.Padding, a.Dilation, a.Transposed,
		a.OutputPadding, a.Groups}
}

func convolutionBackward(a *convolutionBackwardArgs) ([]*tensor.Tensor, error) {
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
	need := map[string]bool{"input": a.OutputMask[0], "weight": a.OutputMask[1]}
	gr, err := convGrad(opdef.NewGrad(nil, []*tensor.Tensor{a.GradOutput}, need))(cc, nil)
	if err != nil {
		return nil, err
	}
	dt := a.Input.DType
	outs := []*tensor.Tensor{gr["input"][0], gr["weight"][0], nil}
	if a.OutputMask[2] {
		outs[2] = channelSum(dt, a.GradOutput, cc.nd)
	}
	for i, t := range outs {
		if t == nil {
			outs[i] = tensor.New(dt, []int{0}, []float64{})
		}
	}
	return outs, nil
}

func convCases(nd int, r *rand.Rand) []*convArgs {
	g := opdef.Gen{R: r}
	f32, f64 := tensor.Float32, tensor.Float64
	size := func(lead []int, n int) []int { return append(lead, slices.Repeat([]int{n}, nd)...) }
	call := func(dt tensor.DType, x, w []int, bias bool, stride int, pad value.Value, dil, groups int) *convArgs {
		a := &convArgs{Input: g.Normal(dt, x...), Weight: g.Normal(dt, w...), Stride: slices.Repeat([]int{stride}, nd),
			Padding: pad, Dilation: slices.Repeat([]int{dil}, nd), Groups: groups}
		if bias {
			a.Bias = g.Normal(dt, w[0])
		}
		return a
	}
	zero, one := value.Value(int64(0)), value.Value(int64(1))
	cs := []*convArgs{
		call(f64, size([]int{2, 3}, 4), size([]int{4, 3}, 3), true, 1, zero, 1, 1),
		call(f64, size([]int{2, 4}, 5), size([]int{2, 2}, 3), false, 2, one, 1, 2),
		call(f64, size([]int{1, 3}, 5), size([]int{3, 1}, 3), true, 1, one, 2, 3),
		call(f64, size([]int{1, 2}, 4), size([]int{12, 1}, 2), true, 1, one, 1, 2),
		call(f64, size([]int{1, 2}, 4), size([]int{2, 2}, 2), true, 1, "same", 1, 1),
		call(f32, size([]int{1, 2}, 4), size([]int{2, 2}, 3), true, 1, "valid", 1, 1),
		call(f32, size([]int{3}, 4), size([]int{2, 3}, 3), true, 1, one, 1, 1),
		call(f32, size([]int{0, 3}, 4), size([]int{2, 3}, 3), true, 1, one, 1, 1),
		call(tensor.BFloat16, size([]int{2, 2}, 3), size([]int{2, 2}, 3), true, 1, one, 1, 1),
		call(tensor.Complex128, size([]int{1, 2}, 3), size([]int{2, 2}, 2), true, 1, one, 1, 1),
	}
	cs = append(cs, &convArgs{
		Input: g.Int(tensor.Int64, -4, 4, size([]int{1, 2}, 4)...), Weight: g.Int(tensor.Int64, -4, 4,
			size([]int{2, 2}, 2)...),
		Stride: slices.Repeat([]int{1}, nd), Padding: zero, Dilation: slices.Repeat([]int{1}, nd), Groups: 1,
	})
	nc := call(f64, size([]int{2, 3}, 4), size([]int{4, 3}, 3), true, 1, zero, 1, 1)
	nc.Input, nc.Weight = opdef.NonContiguous(nc.Input), opdef.NonContiguous(nc.Weight)
	return append(cs, nc)
}

func convTransposeCases(nd int, r *rand.Rand) []*convTransposeArgs {
	g := opdef.Gen{R: r}
	f32, f64 := tensor.Float32, tensor.Float64
	size := func(lead []int, n int) []int { return append(lead, slices.Repeat([]int{n}, nd)...) }
	call := func(dt tensor.DType, x, w []int, bias bool, stride, pad, more, groups, dil int) *convTransposeArgs {
		list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
		a := &convTransposeArgs{g.Normal(dt, x...), g.Normal(dt, w...), nil, list(stride), list(pad), list(more),
			groups, list(dil)}
		if bias {
			a.Bias = g.Normal(dt, w[1]*groups)
		}
		return a
	}
	cs := []*convTransposeArgs{
		call(f64, size([]int{2, 3}, 3), size([]int{3, 4}, 2), true, 1, 0, 0, 1, 1),
		call(f64, size([]int{1, 4}, 3), size([]int{4, 2}, 3), false, 2, 1, 1, 2, 1),
		call(f64, size([]int{1, 3}, 3), size([]int{3, 1}, 3), true, 2, 1, 1, 3, 2),
		call(f32, size([]int{3}, 3), size([]int{3, 2}, 2), true, 1, 0, 0, 1, 1),
		call(tensor.BFloat16, size([]int{1, 2}, 3), size([]int{2, 2}, 2), true, 2, 0, 0, 1, 1),
		call(tensor.Complex128, size([]int{1, 2}, 2), size([]int{2, 2}, 2), true, 1, 0, 0, 1, 1),
	}
	nc := call(f64, size([]int{2, 3}, 3), size([]int{3, 4}, 2), true, 1, 0, 0, 1, 1)
	nc.Input, nc.Weight = opdef.NonContiguous(nc.Input), opdef.NonContiguous(nc.Weight)
	return append(cs, nc)
}
