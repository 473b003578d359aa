package detection

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type (
	deformArgs struct {
		Input, Offset, Weight, Bias *tensor.Tensor
		Stride, Padding, Dilation   []int
		Mask                        *tensor.Tensor
	}
	deformNativeArgs struct {
		Input, Weight, Offset, Mask, Bias                  *tensor.Tensor
		StrideH, StrideW, PadH, PadW, DilationH, DilationW int
		Groups, OffsetGroups                               int
		UseMask                                            bool
	}
)

var deformDoc = opdef.Doc{Summary: "Convolution whose kernel has its points where an offset moves them",
	Formula: "output[n, o, p] = bias[o] + sum over c, k of weight[o, c, k] * mask[n, k, p] * input[n, c] at p*stride " +
		"- " +
		"padding + k*dilation + offset[n, k, p]",
	Notes: "offset is (N, 2*groups*kh*kw, oh, ow), y before x of each point, mask (N, groups*kh*kw, oh, ow); groups " +
		"of " +
		"offsets are as many as fit, those of weights too. Between pixels is interpolated bilinearly, outside is 0.",
	Source: "torchvision.ops.deform_conv2d"}

var deformConv = compose.Declare(compose.Op[deformArgs]{
	Schema: "deform_conv2d(Tensor input, Tensor offset, Tensor weight, Tensor? bias=None, int[2] stride=[1, 1], " +
		"int[2] padding=[0, 0], int[2] dilation=[1, 1], Tensor? mask=None) -> Tensor",
	Names: "torchvision.ops.deform_conv2d torchvision.ops.deform_conv.deform_conv2d", Doc: deformDoc,
	Cases: func(g opdef.Gen) (cs []*deformArgs) {
		one := []int{1, 1}
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
			cs = append(cs, &deformArgs{Input: g.Normal(dt, 2, 4, 5, 6), Offset: offsets(g, dt, 2, 8, 4, 5),
				Weight: g.Normal(dt, 3, 4, 2, 2), Bias: g.Normal(dt, 3), Stride: one, Padding: []int{0, 0},
				Dilation: one},
				&deformArgs{Input: g.Normal(dt, 1, 4, 5, 6), Offset: offsets(g, dt, 1, 16, 3, 2),
					Weight: g.Normal(dt, 2, 2, 2, 2), Stride: []int{2, 2}, Padding: []int{1, 0}, Dilation: []int{1, 3},
					Mask: g.Uniform(dt, 0, 1, 1, 8, 3, 2)})
		}
		return cs
	},
}, compose.Unfused, func(g *compose.Graph, a *deformArgs) compose.Values {
	d := &deformed{input: g.Arg("input", a.Input), offset: g.Arg("offset", a.Offset), weight: g.Arg("weight", a.Weight),
		bias: g.Arg("bias", a.Bias), mask: g.Arg("mask", a.Mask)}
	for _, p := range []struct {
		name string
		from []int
		to   *[2]int
	}{{"stride", a.Stride, &d.stride}, {"padding", a.Padding, &d.padding}, {"dilation", a.Dilation, &d.dilation}} {
		if len(p.from) != 2 {
			g.Refuse(p.name, "want two numbers, got %v", p.from)
		}
		*p.to = [2]int(p.from)
	}
	return compose.Values{d.kernel(g, 0, 0)}
})

var deformConvNative = compose.Declare(compose.Op[deformNativeArgs]{
	Schema: "deform_conv2d.native(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int " +
		"stride_h, " +
		"int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int offset_groups, " +
		"bool use_mask) -> Tensor",
	Names: "torch.ops.torchvision.deform_conv2d", Doc: deformDoc,
	Cases: func(g opdef.Gen) (cs []*deformNativeArgs) {
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
			cs = append(cs, &deformNativeArgs{g.Normal(dt, 2, 4, 5, 6), g.Normal(dt, 4, 2, 2, 2),
				offsets(g, dt, 2, 8, 4, 5), g.Uniform(dt, 0, 1, 2, 4, 4, 5), g.Normal(dt, 4), 1, 1, 0, 0, 1, 1, 2,
				1, true})
		}
		return cs
	},
}, compose.Unfused, func(g *compose.Graph, a *deformNativeArgs) compose.Values {
	d := &deformed{input: g.Arg("input", a.Input), weight: g.Arg("weight", a.Weight), offset: g.Arg("offset", a.Offset),
		mask: g.Arg("mask", a.Mask), bias: g.Arg("bias", a.Bias), stride: [2]int{a.StrideH, a.StrideW},
		padding: [2]int{a.PadH, a.PadW}, dilation: [2]int{a.DilationH, a.DilationW}}
	if !a.UseMask {
		d.mask = nil
	}
	return compose.Values{d.kernel(g, a.Groups, a.OffsetGroups)}
})

// offsets are those of cases, away from pixels, where the gradient jumps.
func offsets(g opdef.Gen, dt tensor.DType, shape ...int) *tensor.Tensor {
	t := g.Uniform(dt, 0.1, 0.9, shape...)
	v := tensor.Data[float64](t)
	out := tensor.Make[float64](len(v))
	for i, x := range v {
		out[i] = x + float64(g.R.IntN(3)-2)
	}
	t = tensor.New(dt, shape, out).Rounded()
	t.RequiresGrad = true
	return t
}

// A deformed convolution is a call of it; bias and mask may be nil.
type deformed struct {
	input, offset, weight, bias, mask *compose.Value
	stride, padding, dilation         [2]int

	out [2]int // sizes of the result
}

// kernel is the result of torchvision's kernel, which takes a mask and a bias of zeros where there
// are none and gives their gradients.
func (d *deformed) kernel(g *compose.Graph, groups, offsetGroups int) *compose.Value {
	if d.input.Dim() == 0 || d.weight.Dim() == 0 || d.input.T.Numel() == 0 {
		g.Refuse("input", "want images and a kernel, got %s and %s", d.input.T.Meta(), d.weight.T.Meta())
	}
	dt, masked := d.input.DType(), d.mask != nil
	if !masked {
		d.mask = g.Wanted(tensor.Full(dt, []int{d.input.Shape()[0], 1}, 0.0))
	}
	if d.bias == nil {
		d.bias = g.Wanted(tensor.Full(dt, []int{d.weight.Shape()[0]}, 0.0))
	}
	return g.AsOne(func(in []*compose.Value) *compose.Value {
		inner := *d
		inner.input, inner.weight, inner.offset, inner.mask, inner.bias = in[0], in[1], in[2], in[3], in[4]
		if masked {
			return inner.output(g, groups, offsetGroups)
		}
		inner.mask = nil
		return g.Add(inner.output(g, groups, offsetGroups), g.Scale(g.Sum(in[3], false), 0))
	}, d.input, d.weight, d.offset, d.mask, d.bias)
}

// setOut checks what is convolved and finds the sizes of the result.
func (d *deformed) setOut(g *compose.Graph) {
	for _, x := range []*compose.Value{d.input, d.offset, d.weight} {
		if x.Dim() != 4 || !x.DType().IsFloat() || x.DType() != d.input.DType() {
			g.Refuse("input", "want input, offset and weight of 4 dimensions and one floating dtype, got %s",
				x.T.Meta())
		}
	}
	in, w := d.input.Shape(), d.weight.Shape()
	for i := range 2 {
		if d.stride[i] < 1 || d.dilation[i] < 1 || d.padding[i] < 0 || min(w[i+2], in[i+2]) < 1 ||
			d.padding[i] > 1<<20 || d.dilation[i] > 1<<20 {
			g.Refuse("stride", "want strides and dilations above 0 and paddings from 0, got %v, %v and %v", d.stride,
				d.dilation, d.padding)
		}
		if d.out[i] = (in[i+2]+2*d.padding[i]-d.dilation[i]*(w[i+2]-1)-1)/d.stride[i] + 1; d.out[i] < 1 {
			g.Refuse("weight", "a kernel %s does not fit in %s", d.weight.T.Meta(), d.input.T.Meta())
		}
	}
}

// output is the result; groups of 0 are as many as fit.
func (d *deformed) output(g *compose.Graph, groups, offsetGroups int) *compose.Value {
	d.setOut(g)
	in, w := d.input.Shape(), d.weight.Shape()
	points := w[2] * w[3]
	if groups == 0 && w[1] > 0 {
		groups = in[1] / w[1]
	}
	if offsetGroups == 0 {
		offsetGroups = d.offset.Shape()[1] / (2 * points)
	}
	if groups < 1 || offsetGroups < 1 || w[1]*groups != in[1] || w[0]%groups != 0 || in[1]%offsetGroups != 0 ||
		!slices.Equal(d.offset.Shape(), []int{in[0], 2 * points * offsetGroups, d.out[0], d.out[1]}) {
		g.Refuse("offset", "offset %s and weight %s do not fit input %s", d.offset.T.Meta(), d.weight.T.Meta(),
			d.input.T.Meta())
	}
	if err := tensor.CheckSize([]int{in[0], in[1], points, d.out[0], d.out[1]}); err != nil {
		g.Refuse("weight", "%v", err)
	}
	columns := d.sampled(g, offsetGroups) // [N, C*points, oh*ow]
	n, cells := in[0], d.out[0]*d.out[1]
	columns = g.Reshape(columns, n, groups, w[1]*points, cells)
	y := g.Matmul(g.Reshape(d.weight, 1, groups, w[0]/groups, w[1]*points), columns)
	y = g.Reshape(y, n, w[0], d.out[0], d.out[1])
	if d.bias.T.Numel() != w[0] {
		g.Refuse("bias", "want %d numbers, got %s", w[0], d.bias.T.Meta())
	}
	return g.Add(y, g.Reshape(d.bias, w[0], 1, 1))
}

// sampled are the pixels under the points of the kernel, [N, C, points, oh*ow].
func (d *deformed) sampled(g *compose.Graph, groups int) *compose.Value {
	in, w := d.input.Shape(), d.weight.Shape()
	n, points, cells := in[0], w[2]*w[3], d.out[0]*d.out[1]
	where := []int{n, groups, points, 2, cells}
	base := tensor.Make[float64](points * 2 * cells)
	for k := range points {
		for c := range cells {
			base[(2*k)*cells+c] = float64(c/d.out[1]*d.stride[0] - d.padding[0] + k/w[3]*d.dilation[0])
			base[(2*k+1)*cells+c] = float64(c%d.out[1]*d.stride[1] - d.padding[1] + k%w[3]*d.dilation[1])
		}
	}
	dt := d.input.DType()
	at := g.Add(g.Reshape(d.offset, where...), g.Const(tensor.New(dt, where[2:], base)))
	// Where a point crosses a pixel, the gradient of its offset jumps.
	if dt.IsReduced() && g.OtherVersion("points are where they are exactly", "points are rounded to "+dt.String()+
		" (torchvision)") {
		at = g.Add(at, g.Derived(opdef.Map(dt, at.T, func(x float64) float64 { return dt.Round(x) - x }), at))
	}
	floor := opdef.Map(dt, at.T, math.Floor)
	frac := g.Chunk(g.Sub(at, g.Derived(floor, at)), 2, 3) // [N, groups, points, 1, cells], of y and of x
	lo := tensor.Data[float64](floor)
	each := in[1] / groups
	shape := []int{n, groups, each, points, cells}
	pixels := in[2] * in[3]
	padded := g.Cat(0, g.Reshape(d.input, d.input.T.Numel()), g.Full(dt, []int{1}, 0)) // outside is 0
	var sum *compose.Value
	for corner := range 4 {
		down, right := corner/2, corner%2
		places := tensor.Make[int64](tensor.Numel(shape))
		for i := range n * groups {
			for k := range points {
				for c := range cells {
					y := ((i*points+k)*2)*cells + c
					x := y + cells
					py, px := lo[y]+float64(down), lo[x]+float64(right)
					inside := py >= 0 && py < float64(in[2]) && px >= 0 && px < float64(in[3])
					for e := range each {
						p := int64(d.input.T.Numel())
						if inside {
							p = int64((i*each+e)*pixels) + int64(py)*int64(in[3]) + int64(px)
						}
						places[((i*each+e)*points+k)*cells+c] = p
					}
				}
			}
		}
		weight := g.Mul(side(g, frac[0], down), side(g, frac[1], right)) // [N, groups, points, 1, cells]
		weight = g.Reshape(weight, n, groups, 1, points, cells)
		part := g.Mul(g.Take(padded, shape, places), weight)
		if sum == nil {
			sum = part
		} else {
			sum = g.Add(sum, part)
		}
	}
	if d.mask != nil {
		if d.mask.T.Numel() != n*groups*points*cells {
			g.Refuse("mask", "want (%d, %d, %d, %d), got %s", n, groups*points, d.out[0], d.out[1], d.mask.T.Meta())
		}
		sum = g.Mul(sum, g.Reshape(d.mask, n, groups, 1, points, cells))
	}
	return sum
}

// side is how much of a point belongs to the pixel before it, or, if after, behind it.
func side(g *compose.Graph, frac *compose.Value, after int) *compose.Value {
	if after == 1 {
		return frac
	}
	return g.Sub(g.Number(1), frac)
}
