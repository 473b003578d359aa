package conv

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
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
	convEntry(opdef.Planned[*convolutionArgs, *convCall]{
		Schema: "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] " +
			"dilation, bool transposed, int[] output_padding, int groups) -> Tensor",
		Names: "convolution",
		Doc: opdef.Doc{Summary: "Convolution or transposed convolution of any number of dimensions",
			Formula: "as conv1d, conv2d, conv3d, conv_transpose1d, ...",
			Source:  "aten/src/ATen/native/Convolution.cpp"},
		Plan: (*convolutionArgs).plan,
		Cases: opdef.Calls[convolutionArgs](`
			f64[2, 4, 5, 5], f64[6, 2, 3, 3], f64[6], [1, 1], [1, 1], [1, 1], False, [0, 0], 2
			f64[2, 4, 3, 3], f64[4, 2, 3, 3], None, [2, 2], [1, 1], [1, 1], True, [1, 1], 2`),
	}),
	opdef.Planned[*convolutionBackwardArgs, *convolutionBackward]{
		Schema: "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] " +
			"stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool[] " +
			"output_mask) -> (Tensor, Tensor, Tensor)",
		Names: "convolution_backward torch.ops.aten.convolution_backward",
		Doc: opdef.Doc{Summary: "Gradients of a convolution", Formula: "gradients of input, weight and bias",
			Notes: "A gradient that output_mask leaves out is empty, or None.", Source: "aten/src/ATen/native/Convolution.cpp"},
		Error:  opdef.Error{Class: opdef.Accumulated},
		Plan:   (*convolutionBackwardArgs).plan,
		Kernel: (*convolutionBackward).kernel,
		Traits: opdef.Traits{NoGrad: "a gradient itself"},
		Bounds: opdef.Bounds[*convolutionBackward]{
			Terms: func(c *convolutionBackward) int { return c.forward.gradTerms() },
		},
		Cases: opdef.Calls[convolutionBackwardArgs](`
			f64[2, 6, 5, 5], f64[2, 4, 5, 5], f64[6, 2, 3, 3], [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 2,
			[True, True, True]`),
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
	return convEntry(opdef.Planned[*convArgs, *convCall]{
		Schema: schema,
		Names:  name + " F." + name,
		Doc: opdef.Doc{
			Summary: "Cross-correlation of " + string(rune('0'+nd)) + " spatial dimensions with a bank of kernels",
			Formula: "out[n, o, p] = bias[o] + sum_{c,k} weight[o, c, k] * input[n, g*C/groups+c, p*stride - " +
				"padding + k*dilation]",
			Notes: "input (N, C, ...) or (C, ...), weight (O, C/groups, ...); padding may be \"same\" (stride 1) or " +
				"\"valid\".", Source: "torch.nn.functional." + name,
		},
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Plan:   func(a *convArgs) (*convCall, error) { return convPlan(nd, a) },
		Node:   (*convCall).node,
		Cases:  func(g opdef.Gen) []*convArgs { return convCases(nd, g) },
	})
}

func convTransposeOp(nd int, schema string) *opdef.Entry {
	name := schema[:16]
	return convEntry(opdef.Planned[*convTransposeArgs, *convCall]{
		Schema: schema,
		Names:  name + " F." + name,
		Doc: opdef.Doc{
			Summary: "Transposed convolution of " + string(rune('0'+nd)) + " spatial dimensions",
			Formula: "the gradient of a convolution with respect to its input, plus bias",
			Notes:   "input (N, C, ...) or (C, ...), weight (C, O/groups, ...).", Source: "torch.nn.functional." + name,
		},
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Plan:   func(a *convTransposeArgs) (*convCall, error) { return a.plan(nd) },
		Node:   (*convCall).node,
		Cases:  func(g opdef.Gen) []*convTransposeArgs { return convTransposeCases(nd, g) },
	})
}

// convPlan checks a call of conv1d, conv2d or conv3d.
func convPlan(nd int, a *convArgs) (*convCall, error) {
	cc := &convCall{nd: nd, input: a.Input, weight: a.Weight, bias: a.Bias}
	if err := cc.tensors(a.Groups); err != nil {
		return nil, err
	}
	c := &cc.c
	var err error
	if c.Stride, err = elements.SpatialSizes("stride", a.Stride, nd, 1, 1); err != nil {
		return nil, err
	}
	if c.Dilation, err = elements.SpatialSizes("dilation", a.Dilation, nd, 1, 1); err != nil {
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
		v, err := elements.IntList("padding", p)
		if err != nil {
			return nil, err
		}
		if c.Pad, err = elements.SpatialSizes("padding", v, nd, 0, 0); err != nil {
			return nil, err
		}
	}
	return cc, cc.finish()
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
	if c.Stride, err = elements.SpatialSizes("stride", a.Stride, nd, 1, 1); err != nil {
		return nil, err
	}
	if c.Dilation, err = elements.SpatialSizes("dilation", a.Dilation, nd, 1, 1); err != nil {
		return nil, err
	}
	if c.Pad, err = elements.SpatialSizes("padding", a.Padding, nd, 0, 0); err != nil {
		return nil, err
	}
	more, err := elements.SpatialSizes("output_padding", a.OutputPadding, nd, 0, 0)
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

// forward is the call whose gradients a computes.
func (a *convolutionBackwardArgs) forward() *convolutionArgs {
	return &convolutionArgs{a.Input, a.Weight, nil, a.Stride, a.Padding, a.Dilation, a.Transposed,
		a.OutputPadding, a.Groups}
}

func convCases(nd int, g opdef.Gen) []*convArgs {
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

func convTransposeCases(nd int, g opdef.Gen) []*convTransposeArgs {
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
