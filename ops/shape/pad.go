package shape

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// padOps extend, cut, unfold and rearrange planes.
var padOps = []*opdef.Entry{
	opdef.Planned[*padArgs, *Padding]{
		Schema: "pad(Tensor input, int[] pad, str mode='constant', Scalar? value=None) -> Tensor",
		Names:  "F.pad _C._nn.pad",
		Traits: opdef.Traits{
			Autocast: opdef.AutocastFloat32, // modes reflect and replicate, on the processor
		},
		Doc: opdef.Doc{
			Summary: "Extend dimensions at both ends, or cut them where pad is negative",
			Formula: "pad = (left, right, top, bottom, ...), the last dimension first",
			Notes:   "Modes constant, reflect (the border not repeated), replicate and circular.",
		},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Plan:   (*padArgs).plan,
		Kernel: func(p *Padding) ([]*tensor.Tensor, error) { return elements.Single(p.Padded()), nil },
		Grad: func(p *Padding, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("input", p.grad(g)), nil
		},
		Bounds: opdef.Bounds[*Padding]{
			GradTerms: func(p *Padding) int { return 1 << min(p.sides, 6) },
		},
		Node: func(p *Padding, _ *opdef.Grad) (opdef.Node, error) {
			if p.mode == "circular" {
				return opdef.Node{Skip: "gradients belong to another op"}, nil
			}
			return opdef.Node{}, nil
		},
		Cases: opdef.Calls[padArgs](`
			f64[2, 3], [1, 2]; f64[2, 3, 4], [1, -1, 0, 2], value=1.5; f64[1, 2, 5], [2, 1], mode='reflect'
			f64[1, 2, 4, 5], [2, 1, 1, 3], mode='reflect'; f64[1, 2, 4, 3], [2, 1, 1, 0], mode='replicate'
			f64[1, 2, 4, 3], [2, 1, 1, 4], mode='circular'; f32[2, 2, 3, 2], [1, 1, 1, 1, 1, 1], mode='replicate'
			bf16[3], [1, 1]; c128[2, 3], [1, 0]; i64[2, 3]{-5..5}, [1, 1]; f64[2, 3, 4], [1, 1], mode='reflect'`),
	}.Entry(),
	opdef.Planned[*constantPadArgs, *Padding]{
		Schema: "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
		Names:  "constant_pad_nd",
		Doc: opdef.Doc{Summary: "Extend dimensions at both ends with a constant",
			Formula: "pad = (left, right, top, bottom, ...), the last dimension first",
			Source:  "aten/src/ATen/native/PadNd.cpp"},
		Error:  elements.ExactError,
		Plan:   func(a *constantPadArgs) (*Padding, error) { return a.call().plan() },
		Kernel: func(p *Padding) ([]*tensor.Tensor, error) { return elements.Single(p.Padded()), nil },
		Grad:   func(p *Padding, g *opdef.Grad) (opdef.Grads, error) { return elements.GradOf("self", p.grad(g)), nil },
		Cases:  opdef.Calls[constantPadArgs](`f64[2, 3], [1, 2, -1, 0], value=0.5; f32[2, 3], [1, 2]`),
	}.Entry(),
	opdef.Planned[*unfoldArgs, *columns]{
		Schema: "im2col(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) " +
			"-> Tensor",
		Names: "F.unfold _C._nn.im2col",
		Doc: opdef.Doc{Summary: "Sliding windows of images as columns",
			Formula: "out[n, c*K + k, p] = input[n, c, p*stride - padding + k*dilation]",
			Notes:   "(N, C, H, W) to (N, C*K, L)."},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
		Plan:   (*unfoldArgs).plan,
		Kernel: func(c *columns) ([]*tensor.Tensor, error) { return elements.Single(c.unfold(c.in, c.shape)), nil },
		Bounds: opdef.Bounds[*columns]{GradTerms: (*columns).terms},
		Grad: func(c *columns, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("input", c.fold(g.Out[0], c.in.Shape)), nil
		},
		Cases: opdef.Calls[unfoldArgs](`
			f64[2, 2, 4, 5], [2, 3]; f64[1, 2, 5, 5], [2, 2], dilation=[2, 1], padding=[1, 1], stride=[2, 2]
			f32[2, 4, 4], [2, 2]; bf16[1, 1, 3, 3], [2, 2], padding=[1, 1]`),
	}.Entry(),
	opdef.Planned[*foldArgs, *columns]{
		Schema: "col2im(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, " +
			"int[2] stride=1) -> Tensor",
		Names: "F.fold _C._nn.col2im",
		Doc: opdef.Doc{Summary: "Sum of columns at the windows they belong to: the adjoint of unfold",
			Formula: "out[n, c, i] = sum of input[n, c*K + k, p] with p*stride - padding + k*dilation = i",
			Notes:   "(N, C*K, L) to (N, C, H, W)."},
		Error: opdef.Error{Class: opdef.Accumulated},
		Plan:  (*foldArgs).plan,
		Kernel: func(c *columns) ([]*tensor.Tensor, error) {
			return elements.Single(c.fold(c.in, c.shape)), nil
		},
		Grad: func(c *columns, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("input", c.unfold(g.Out[0], c.in.Shape)), nil
		},
		Bounds: opdef.Bounds[*columns]{Terms: (*columns).terms},
		Cases: opdef.Calls[foldArgs](`
			f64[2, 12, 9], [4, 5], [2, 3]
			f64[1, 8, 9], [5, 5], [2, 2], dilation=[2, 1], padding=[1, 1], stride=[2, 2]; f32[8, 9], [4, 4], [2, 2]`),
	}.Entry(),
	opdef.Op[pixelShuffleArgs]{
		Schema: "pixel_shuffle(Tensor input, int upscale_factor) -> Tensor",
		Names:  "F.pixel_shuffle pixel_shuffle",
		Doc: opdef.Doc{Summary: "Channels rearranged into blocks of pixels",
			Formula: "out[..., c, h*r+i, w*r+j] = input[..., (c*r+i)*r+j, h, w]"},
		Error: elements.ExactError,
		Kernel: func(a *pixelShuffleArgs) ([]*tensor.Tensor, error) {
			return elements.ResultOrError(pixelShuffle(a.Input, a.UpscaleFactor))
		},
		Grad: func(a *pixelShuffleArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := pixelUnshuffle(g.Out[0], a.UpscaleFactor)
			return opdef.Grads{"input": {t}}, err
		},
		Cases: opdef.Calls[pixelShuffleArgs](`f64[2, 8, 2, 3], 2; f32[9, 2, 1], 3; i64[1, 4, 2, 2]{0..9}, 2`),
	}.Entry(),
	opdef.Op[pixelUnshuffleArgs]{
		Schema: "pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor",
		Names:  "F.pixel_unshuffle pixel_unshuffle",
		Doc: opdef.Doc{Summary: "Blocks of pixels rearranged into channels",
			Formula: "out[..., (c*r+i)*r+j, h, w] = input[..., c, h*r+i, w*r+j]"},
		Error: elements.ExactError,
		Kernel: func(a *pixelUnshuffleArgs) ([]*tensor.Tensor, error) {
			return elements.ResultOrError(pixelUnshuffle(a.Input, a.DownscaleFactor))
		},
		Grad: func(a *pixelUnshuffleArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := pixelShuffle(g.Out[0], a.DownscaleFactor)
			return opdef.Grads{"input": {t}}, err
		},
		Cases: opdef.Calls[pixelUnshuffleArgs](`f64[2, 2, 4, 6], 2; f32[1, 6, 3], 3`),
	}.Entry(),
	opdef.Op[channelShuffleArgs]{
		Schema: "channel_shuffle(Tensor input, int groups) -> Tensor",
		Names:  "F.channel_shuffle channel_shuffle native_channel_shuffle F.native_channel_shuffle",
		Doc: opdef.Doc{Summary: "Channels interleaved between groups",
			Formula: "out[n, c*groups + g] = input[n, g*(C/groups) + c]", Source: "torch.nn.ChannelShuffle"},
		Error: elements.ExactError,
		Kernel: func(a *channelShuffleArgs) ([]*tensor.Tensor, error) {
			return elements.ResultOrError(channelShuffle(a.Input, a.Groups, false))
		},
		Grad: func(a *channelShuffleArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := channelShuffle(g.Out[0], a.Groups, true)
			return opdef.Grads{"input": {t}}, err
		},
		Cases: opdef.Calls[channelShuffleArgs](`f64[2, 6, 2, 3], 2; f32[1, 6, 2], 3`),
	}.Entry(),
}

type padArgs struct {
	Input *tensor.Tensor
	Pad   []int
	Mode  string
	Value *opdef.Scalar
}

type constantPadArgs struct {
	Self  *tensor.Tensor
	Pad   []int
	Value opdef.Scalar
}

func (a *constantPadArgs) call() *padArgs { return &padArgs{a.Self, a.Pad, "constant", &a.Value} }

// A Padding gives, for every dimension of the result, the index of the input
// that each position takes, -1 for the constant.
type Padding struct {
	T      *tensor.Tensor
	Shape  []int
	From   [][]int
	fill   opdef.Scalar
	mode   string
	sides  int   // that are extended or cut
	before []int // how many indices are added before each dimension
}

// Mistakes is the border that is repeated where it is due to be left out.
func (p *Padding) Mistakes() []opdef.Mistake[any] {
	if p.mode != "reflect" {
		return nil
	}
	const text = "the border is repeated: index -1 is read at 0, not at 1"
	return []opdef.Mistake[any]{{Text: text, Plan: func() (any, error) {
		m := *p
		m.From = tensor.Make[[]int](len(p.From))
		for d, from := range p.From {
			m.From[d] = slices.Clone(from)
			for o := range from {
				if i, n := o-p.before[d], p.T.Shape[d]; i < 0 {
					m.From[d][o] = -1 - i
				} else if i >= n {
					m.From[d][o] = 2*n - 1 - i
				}
			}
		}
		return &m, nil
	}}}
}

func (a *padArgs) plan() (*Padding, error) {
	t, n := a.Input, a.Input.Dim()
	if len(a.Pad)%2 != 0 {
		return nil, opdef.Refuse("pad", "want an even number of values, got %d", len(a.Pad))
	}
	k := len(a.Pad) / 2
	if k > n {
		return nil, opdef.Refuse("pad", "%d values are too many for %d dimensions", len(a.Pad), n)
	}
	p := &Padding{T: t, Shape: slices.Clone(t.Shape), From: tensor.Make[[]int](n), mode: a.Mode, sides: len(a.Pad)}
	if a.Value != nil {
		p.fill = *a.Value
	}
	if err := a.checkMode(k); err != nil {
		return nil, err
	}
	for d, size := range t.Shape {
		lo, hi := 0, 0
		if j := n - 1 - d; j < k {
			lo, hi = a.Pad[2*j], a.Pad[2*j+1]
		}
		if err := a.checkSide(d, lo, hi); err != nil {
			return nil, err
		}
		p.Shape[d] = size + lo + hi
		p.before = append(p.before, lo)
		p.From[d] = tensor.Make[int](p.Shape[d])
		for o := range p.From[d] {
			p.From[d][o] = p.source(o, size, lo, hi)
		}
	}
	return p, nil
}

// checkMode refuses a mode that is unknown, or not defined for the input and k padded dimensions.
func (a *padArgs) checkMode(k int) error {
	n := a.Input.Dim()
	switch a.Mode {
	case "constant":
		return nil
	case "reflect", "replicate", "circular":
	default:
		return opdef.Refuse("mode", "want constant, reflect, replicate or circular, got %q", a.Mode)
	}
	switch {
	case k < 1 || k > 3 || n != k+1 && n != k+2:
		return opdef.Refuse("pad", "mode %q pads the last 1, 2 or 3 of 2 to 5 dimensions, got %d values for shape %s",
			a.Mode, len(a.Pad), tensor.ShapeString(a.Input.Shape))
	case a.Value != nil && a.Value.Complex128() != 0:
		return opdef.Refuse("value", "has no meaning for mode %q", a.Mode)
	case a.Input.DType == tensor.Bool && a.Mode != "circular":
		return opdef.Refuse("input", "mode %q is not defined for dtype bool", a.Mode)
	}
	return nil
}

// checkSide refuses what cannot be added to both ends of dimension d.
func (a *padArgs) checkSide(d, lo, hi int) error {
	size, most := a.Input.Shape[d], max(lo, hi)
	if most > 1<<40 || size+lo+hi < 0 {
		return opdef.Refuse("pad", "%d and %d leave no valid size of dimension %d, which is %d", lo, hi, d, size)
	}
	if a.Mode == "constant" {
		return nil
	}
	left := size + lo + hi
	if a.Mode == "circular" {
		left = min(left, size+min(lo, 0)+min(hi, 0))
	}
	switch {
	case a.Mode == "reflect" && most >= size && size > 0 && most > 0:
		return opdef.Refuse("pad", "reflection by %d and %d needs a dimension larger than %d", lo, hi, size)
	case a.Mode == "circular" && most > size:
		return opdef.Refuse("pad", "%d and %d would wrap around a dimension of %d more than once", lo, hi, size)
	case size == 0 && (d > 0 || a.Input.Dim() == len(a.Pad)/2+1):
		return opdef.Refuse("input", "want no empty dimension but the batch, got shape %s",
			tensor.ShapeString(a.Input.Shape))
	case left <= 0 && size > 0:
		return opdef.Refuse("pad", "%d and %d leave no elements of dimension %d", lo, hi, d)
	}
	return nil
}

// source is the index of a dimension of a size that position o takes, -1 for the constant.
func (p *Padding) source(o, size, lo, hi int) int {
	i := o - lo
	switch {
	case p.mode == "circular":
		kept := size + min(lo, 0) + min(hi, 0) // what negative values cut does not come back
		return (o-max(lo, 0)+kept*(size+lo+hi))%kept - min(lo, 0)
	case i >= 0 && i < size:
		return i
	case p.mode == "constant":
		return -1
	case p.mode == "replicate":
		return min(max(i, 0), size-1)
	case i < 0:
		return -i
	}
	return 2*(size-1) - i
}

// Padded is the result.
func (p *Padding) Padded() *tensor.Tensor {
	if p.T.Dim() == 0 {
		return p.T
	}
	switch p.T.DType.Kind() {
	case tensor.KindComplex:
		return padAs(p, p.fill.Complex128())
	case tensor.KindFloat:
		return padAs(p, p.fill.Float64())
	}
	fill := p.fill.Int64()
	if p.T.DType == tensor.Bool && p.fill.Complex128() != 0 {
		fill = 1 // also for 0.3
	}
	return padAs(p, fill)
}

func padAs[T kernel.Number](p *Padding, fill T) *tensor.Tensor {
	last := len(p.Shape) - 1
	n, in := p.Shape[last], p.T.Shape[last]
	return opdef.Rows(p.T.DType, p.Shape, max(n, 1), func(row int, dst []T) {
		src, inside := 0, true
		for d, at := 0, tensor.Unravel(row, p.Shape[:last]); d < last; d++ {
			i := p.From[d][at[d]]
			inside = inside && i >= 0
			src = src*p.T.Shape[d] + i
		}
		if !inside || in == 0 {
			for i := range dst {
				dst[i] = fill
			}
			return
		}
		x := opdef.Scratch[T](in)
		tensor.Load(p.T, src*in, *x)
		for o, i := range p.From[last] {
			if i < 0 {
				dst[o] = fill
			} else {
				dst[o] = (*x)[i]
			}
		}
		opdef.Release(x)
	})
}

// padGrad adds the gradient of every position to the element it took.
func (p *Padding) grad(g *opdef.Grad) *tensor.Tensor {
	switch {
	case p.T.Dim() == 0:
		return g.Out[0]
	case p.T.DType.IsComplex():
		return padGradAs[complex128](p, g.Out[0])
	}
	return padGradAs[float64](p, g.Out[0])
}

func padGradAs[T kernel.Number](p *Padding, g *tensor.Tensor) *tensor.Tensor {
	// to[d][i] are the positions that took index i.
	to := make([][][]int, len(p.Shape))
	for d, size := range p.T.Shape {
		to[d] = tensor.Make[[]int](size)
		for o, i := range p.From[d] {
			if i >= 0 {
				to[d][i] = append(to[d][i], o)
			}
		}
	}
	last := len(p.Shape) - 1
	n := p.Shape[last]
	return opdef.Rows(g.DType, p.T.Shape, max(p.T.Shape[last], 1), func(row int, dst []T) {
		clear(dst)
		at := tensor.Unravel(row, p.T.Shape[:last])
		y := opdef.Scratch[T](n)
		var add func(d, src int)
		add = func(d, src int) {
			if d < last {
				for _, o := range to[d][at[d]] {
					add(d+1, src*p.Shape[d]+o)
				}
				return
			}
			tensor.Load(g, src*n, *y)
			for o, i := range p.From[last] {
				if i >= 0 {
					dst[i] += (*y)[o]
				}
			}
		}
		add(0, 0)
		opdef.Release(y)
	})
}

type (
	pixelShuffleArgs struct {
		Input         *tensor.Tensor
		UpscaleFactor int
	}
	pixelUnshuffleArgs struct {
		Input           *tensor.Tensor
		DownscaleFactor int
	}
	channelShuffleArgs struct {
		Input  *tensor.Tensor
		Groups int
	}
)

// lastThree splits the shape of an image batch into what leads and (C, H, W).
func lastThree(t *tensor.Tensor, factor int, arg string) (lead []int, c, h, w int, err error) {
	if t.Dim() < 3 {
		return nil, 0, 0, 0, opdef.Refuse("input", "want at least 3 dimensions, got shape %s",
			tensor.ShapeString(t.Shape))
	}
	if factor < 1 || factor > 1<<15 {
		return nil, 0, 0, 0, opdef.Refuse(arg, "want a positive number, got %d", factor)
	}
	n := t.Dim() - 3
	return t.Shape[:n:n], t.Shape[n], t.Shape[n+1], t.Shape[n+2], nil
}

// permuteLast permutes the last dimensions of t by order, counted from the
// first of them.
func permuteLast(t *tensor.Tensor, order ...int) *tensor.Tensor {
	n := t.Dim() - len(order)
	all := make([]int, t.Dim())
	for i := range all {
		all[i] = i
		if i >= n {
			all[i] = n + order[i-n]
		}
	}
	return t.Permute(all...)
}

func pixelShuffle(t *tensor.Tensor, r int) (*tensor.Tensor, error) {
	lead, c, h, w, err := lastThree(t, r, "upscale_factor")
	if err != nil {
		return nil, err
	}
	if c%(r*r) != 0 {
		return nil, opdef.Refuse("input", "%d channels do not divide by %d squared", c, r)
	}
	u := t.Reshape(append(lead, c/(r*r), r, r, h, w)...)
	return permuteLast(u, 0, 3, 1, 4, 2).Reshape(append(lead, c/(r*r), h*r, w*r)...), nil
}

func pixelUnshuffle(t *tensor.Tensor, r int) (*tensor.Tensor, error) {
	lead, c, h, w, err := lastThree(t, r, "downscale_factor")
	if err != nil {
		return nil, err
	}
	if h%r != 0 || w%r != 0 {
		return nil, opdef.Refuse("input", "sizes %d and %d do not divide by %d", h, w, r)
	}
	u := t.Reshape(append(lead, c, h/r, r, w/r, r)...)
	return permuteLast(u, 0, 2, 4, 1, 3).Reshape(append(lead, c*r*r, h/r, w/r)...), nil
}

func channelShuffle(t *tensor.Tensor, groups int, back bool) (*tensor.Tensor, error) {
	if t.Dim() < 3 {
		return nil, opdef.Refuse("input", "want at least 3 dimensions, got shape %s", tensor.ShapeString(t.Shape))
	}
	if groups < 1 || t.Shape[1]%groups != 0 {
		return nil, opdef.Refuse("groups", "%d channels do not divide into %d groups", t.Shape[1], groups)
	}
	a, b := groups, t.Shape[1]/groups
	if back {
		a, b = b, a
	}
	u := t.Reshape(append([]int{t.Shape[0], a, b}, t.Shape[2:]...)...)
	return u.Transpose(1, 2).Reshape(t.Shape...), nil
}
