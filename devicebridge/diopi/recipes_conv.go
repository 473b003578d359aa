package diopi

import (
	"slices"

	"github.com/optool/optool/tensor"
)

var convolutions = []*Recipe{
	convolution("conv2d", "Convolution2d", 2),
	convolution("conv3d", "Convolution3d", 3),
	transposed("conv_transpose2d", "ConvTranspose2d", 2),
	transposed("conv_transpose3d", "ConvTranspose3d", 3),
	{Function: "im2col", sig: "input kernel_size dilation=1 padding=0 stride=1", fwd: "Im2Col",
		prepare: func(b *build) { b.spread(2, "kernel_size", "dilation", "padding", "stride") },
		outs: []out{result(asInput, func(b *build) []int {
			x := b.rank("input", 4)
			k, s, p, d := b.window2()
			blocks, channels := 1, x[1]
			for i := range 2 {
				blocks *= b.windows(x[i+2], k[i], s[i], p[i], d[i], false)
				channels *= k[i]
			}
			return []int{x[0], channels, blocks}
		})}},
	{Function: "col2im", sig: "input output_size kernel_size dilation=1 padding=0 stride=1", fwd: "Col2Im",
		prepare: func(b *build) { b.spread(2, "output_size", "kernel_size", "dilation", "padding", "stride") },
		outs: []out{result(asInput, func(b *build) []int {
			x, size := b.rank("input", 3), b.spatial("output_size", 2)
			k, _, _, _ := b.window2()
			return []int{x[0], x[1] / max(k[0]*k[1], 1), size[0], size[1]}
		})}},
	{Function: "unfold", sig: "input dimension size step", fwd: "Unfold", bwd: "UnfoldBackward",
		bind: bindings{"dim": "dimension"}, gbind: bindings{"dim": "dimension", "input_sizes": inputShape},
		outs: []out{result(asInput, func(b *build) []int {
			x := b.tensor("input").Shape
			if len(x) == 0 {
				return []int{1}
			}
			d, size := b.dim("dimension", len(x)), b.int("size")
			return append(replaced(x, d, b.windows(x[d], size, b.int("step"), 0, 1, false)), size)
		})}},
}

func (b *build) window2() (kernel, stride, padding, dilation []int) {
	return b.spatial("kernel_size", 2), b.spatial("stride", 2), b.spatial("padding", 2), b.spatial("dilation", 2)
}

// biasSizes is the shape of the bias, null without one.
func biasSizes(b *build) any {
	if t, ok := b.args["bias"].(*Tensor); ok && t != nil {
		return mustSizes(t.Shape)
	}
	return nil
}

// convolution is a convolution of n spatial dimensions.
func convolution(function, c string, n int) *Recipe {
	m := max(n, 2)
	return convolving(&Recipe{Function: function, sig: "input weight bias=None stride=1 padding=0 dilation=1 groups=1",
		fwd: c,
		prepare: func(b *build) {
			b.paddingNumbers(n)
			b.atLeast2d(n, map[string]int64{"stride": 1, "padding": 0, "dilation": 1})
		},
		outs: []out{{rule: func(b *build) any {
			x, w := b.rank("input", m+2), b.rank("weight", m+2)
			s, p, d := b.spatial("stride", m), b.spatial("padding", m), b.spatial("dilation", m)
			shape := []int{x[0], w[0]}
			for i := range m {
				shape = append(shape, b.windows(x[i+2], w[i+2], s[i], p[i], d[i], false))
			}
			return b.channelsLast(newTensor(asInput(b), shape), m)
		}}}})
}

// transposed is a transposed convolution of n spatial dimensions.
func transposed(function, c string, n int) *Recipe {
	m := max(n, 2)
	return convolving(&Recipe{Function: function, sig: "input weight bias=None stride=1 padding=0 output_padding=0 " +
		"groups=1 dilation=1", fwd: c,
		prepare: func(b *build) {
			b.atLeast2d(n, map[string]int64{"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1})
		},
		outs: []out{result(asInput, func(b *build) []int {
			x, w := b.rank("input", m+2), b.rank("weight", m+2)
			s, p, o, d := b.spatial("stride", m), b.spatial("padding", m), b.spatial("output_padding", m),
				b.spatial("dilation", m)
			shape := []int{x[0], w[1] * b.int("groups")}
			for i := range m {
				shape = append(shape, (x[i+2]-1)*s[i]-2*p[i]+(w[i+2]-1)*d[i]+o[i]+1)
			}
			return shape
		})}})
}

// convolving completes the recipe of a convolution. Where dimensions were added to
// its arguments, diopiSelect takes them from results and gradients.
func convolving(r *Recipe) *Recipe {
	r.bwd, r.also = r.fwd+"Backward", "Select"
	r.gbind = bindings{"bias_sizes": biasSizes}
	r.forward = func(b *build) {
		dims := b.added["input"]
		if len(dims) == 0 {
			b.callForward(r.fwd)
			return
		}
		y := r.outs[0].rule(b).(*Tensor)
		y.Role = "result with added dimensions"
		shape := slices.Clone(y.Shape)
		for _, d := range slices.Backward(dims) {
			shape = slices.Delete(shape, d, d+1)
		}
		out := newTensor(y.DType, shape)
		b.result(out)
		b.call(r.fwd, nil, map[string]Arg{"out": y})
		b.squeeze(out, y, dims)
	}
	r.backward = func(b *build) {
		if len(b.added) == 0 {
			b.callBackward()
			return
		}
		g, _ := b.cotangent(0).(*Tensor)
		if g == nil {
			b.fail("the result has no gradient")
		}
		for _, d := range b.added["input"] {
			g = unsqueezed(g, d)
		}
		set := map[string]Arg{"grad_output": g, "grad_bias": b.gradient(grad{of: "bias"})}
		after := func() {}
		for _, arg := range []string{"input", "weight"} {
			dims, squeezed := b.added[arg], after
			if len(dims) == 0 || !slices.Contains(b.c.RequiresGrad, arg) {
				set["grad_"+arg] = b.gradient(grad{of: arg})
				continue
			}
			t := b.tensor(arg)
			raw := newTensor(t.DType, t.Shape)
			raw.Role = "gradient of " + arg + " with added dimensions"
			set["grad_"+arg] = raw
			shape := b.raw(arg).(*tensor.Tensor).Shape
			to := b.gradient(grad{of: arg, rule: func(*build) any { return newTensor(t.DType, shape) }}).(*Tensor)
			after = func() { squeezed(); b.squeeze(to, raw, dims) }
		}
		b.call(r.bwd, r.gbind, set)
		after()
	}
	return r
}

// paddingNumbers replaces the words that padding can be by numbers.
func (b *build) paddingNumbers(n int) {
	switch b.args["padding"] {
	case "valid":
		b.args["padding"] = int64(0)
	case "same":
		w := b.tensor("weight").Shape
		b.spread(n, "dilation")
		padding := make(Size, n)
		for i, d := range b.spatial("dilation", n) {
			total := d * (w[len(w)-n+i] - 1)
			if total%2 != 0 {
				b.fail("padding \"same\" adds %d to dimension %d: DIOPI pads both sides alike", total, i+2)
			}
			padding[i] = int64(total / 2)
		}
		b.args["padding"] = padding
	}
}

// atLeast2d makes the arguments of a convolution of n spatial dimensions those of one
// that DIOPI has, by views that PyTorch makes without a device: an input without a
// batch becomes a batch of one, one spatial dimension gets another of size 1 before
// it. The arguments named spatial are numbers by spatial dimension, and what they
// are for that one.
func (b *build) atLeast2d(n int, spatial map[string]int64) {
	x := b.tensor("input")
	if len(x.Shape) == n+1 {
		b.unsqueeze("input", 0)
	}
	for name, one := range spatial {
		b.spread(n, name)
		if n == 1 {
			b.args[name] = Size{one, int64(b.spatial(name, 1)[0])}
		}
	}
	if n == 1 {
		b.rank("input", 3)
		b.rank("weight", 3)
		b.unsqueeze("input", 2)
		b.unsqueeze("weight", 2)
	}
}

var pools = slices.Concat(poolsOf(1, "1d"), poolsOf(2, "2d"), poolsOf(3, "3d"))

// poolsOf are the pooling functions of n spatial dimensions.
func poolsOf(n int, d string) []*Recipe {
	window := func(b *build) {
		b.spread(n, "kernel_size", "stride", "padding", "dilation", "output_size")
		if b.args["stride"] == nil {
			b.args["stride"] = b.args["kernel_size"]
		}
	}
	adaptive := func(b *build) { b.adaptiveSize(n) }
	avgSig := "input kernel_size stride=None padding=0 ceil_mode=False count_include_pad=True"
	if n > 1 {
		avgSig += " divisor_override=None"
	}
	const maxSig = "input kernel_size stride=None padding=0 dilation=1 ceil_mode=False return_indices=False"
	pooled := func(dt dtypeRule, sh func(*build, int) []int) out {
		return out{rule: func(b *build) any { return b.channelsLast(newTensor(dt(b), sh(b, n)), n) }}
	}
	// max pooling: the gradient needs the indices, which are computed anew
	maxPool := func(function, sig, c string, prepare func(*build), shape func(*build, int) []int) *Recipe {
		return &Recipe{Function: function, sig: sig, fwd: c, bwd: c + "Backward", also: c + "WithIndices",
			prepare: prepare,
			outs:    []out{pooled(asInput, shape), pooled(index, shape)},
			forward: func(b *build) {
				f := c
				if b.bool("return_indices") {
					f += "WithIndices"
				}
				b.callForward(f)
			},
			backward: func(b *build) {
				b.written["indices"] = b.poolIndices(c+"WithIndices", pooled(asInput, shape), pooled(index, shape))
				b.callBackward()
			}}
	}
	pool := "Pool" + d
	maxC, adaptiveC := "MaxPool"+d+"WithIndices", "AdaptiveMaxPool"+d+"WithIndices"
	poolBind := bindings{"ksize": "kernel_size",
		"exclusive": func(b *build) any { return !b.bool("count_include_pad") }}
	return []*Recipe{
		{Function: "avg_pool" + d, sig: avgSig, fwd: "AvgPool" + d, bwd: "AvgPool" + d + "Backward",
			prepare: func(b *build) {
				window(b)
				if b.args["divisor_override"] == int64(0) {
					b.args["divisor_override"] = nil
				}
			}, outs: []out{pooled(asInput, (*build).averaged)}},
		{Function: "adaptive_avg_pool" + d, sig: "input output_size", fwd: "AdaptiveAvgPool" + d,
			bwd:     "AdaptiveAvgPool" + d + "Backward",
			prepare: adaptive, outs: []out{pooled(asInput, (*build).adapted)}},
		maxPool("max_pool"+d, maxSig, "MaxPool"+d, window, (*build).maximal),
		maxPool("adaptive_max_pool"+d, "input output_size return_indices=False", "AdaptiveMaxPool"+d, adaptive,
			(*build).adapted),
		{Function: "pool" + d,
			sig: "input kernel_size=0 stride=None padding=0 dilation=1 ceil_mode=False count_include_pad=True " +
				"output_size=0 mode='avg' adaptive=False",
			fwd: pool, bwd: pool + "Backward", also: maxC + " " + adaptiveC, bind: poolBind, gbind: poolBind,
			prepare: func(b *build) {
				window(b)
				if b.bool("adaptive") {
					adaptive(b)
				}
			},
			outs: []out{pooled(asInput, (*build).pooledShape)},
			backward: func(b *build) {
				switch {
				case b.args["mode"] != "max":
					b.written["indices"] = rawLike(b.tensor("input"))
				case b.bool("adaptive"):
					b.written["indices"] = b.poolIndices(adaptiveC, pooled(asInput, (*build).adapted),
						pooled(index, (*build).adapted))
				default:
					b.written["indices"] = b.poolIndices(maxC, pooled(asInput, (*build).maximal),
						pooled(index, (*build).maximal))
				}
				b.callBackward()
			}},
	}
}

// poolIndices plans the call that finds where the maxima are.
func (b *build) poolIndices(c string, values, indices out) *Tensor {
	i := indices.rule(b).(*Tensor)
	i.Role = "indices"
	v := values.rule(b).(*Tensor)
	v.Role = "maxima"
	b.call(c, nil, map[string]Arg{"out": v, "indices": i})
	return i
}

// averaged, maximal, adapted and pooledShape are the shapes of the results.
func (b *build) averaged(n int) []int {
	x := b.rank("input", n+1, n+2)
	k, s, p := b.spatial("kernel_size", n), b.spatial("stride", n), b.spatial("padding", n)
	shape := slices.Clone(x)
	for i := range n {
		at := len(x) - n + i
		shape[at] = b.windows(x[at], k[i], s[i], p[i], 1, b.bool("ceil_mode"))
	}
	return shape
}

func (b *build) maximal(n int) []int {
	x := b.rank("input", n+1, n+2)
	k, s, p, d := b.spatial("kernel_size", n), b.spatial("stride", n), b.spatial("padding", n), b.spatial("dilation", n)
	shape := slices.Clone(x)
	for i := range n {
		at := len(x) - n + i
		shape[at] = max(1, b.windows(x[at], k[i], s[i], p[i], d[i], b.bool("ceil_mode")))
	}
	return shape
}

func (b *build) adapted(n int) []int {
	x := b.rank("input", n+1, n+2)
	return append(slices.Clone(x[:len(x)-n]), b.spatial("output_size", n)...)
}

func (b *build) pooledShape(n int) []int {
	switch {
	case b.bool("adaptive"):
		return b.adapted(n)
	case b.args["mode"] == "max":
		return b.maximal(n)
	}
	return b.averaged(n)
}
