package vision

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/matmul"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// gridOps sample images at computed positions, and measure distances.
var gridOps = []*opdef.Entry{
	opdef.Planned[*gridSampleArgs, *sampler]{
		Schema: "grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', bool? " +
			"align_corners=None) -> Tensor",
		Names: "F.grid_sample",
		Doc: opdef.Doc{
			Summary: "Images sampled at normalised positions",
			Formula: "out[n, c, p] = input[n, c] interpolated at grid[n, p]; -1 and 1 are the borders, x first",
			Notes: "Modes bilinear, nearest (ties to even) and bicubic (4-D); padding zeros, border, reflection. " +
				"(N, C, H, W) with (N, h, w, 2) or (N, C, D, H, W) with (N, d, h, w, 3). The gradient of the grid " +
				"is zero for nearest.",
		},
		Error:  opdef.Error{Class: opdef.Accumulated},
		Traits: opdef.Traits{Autocast: opdef.AutocastWidest},
		Plan:   (*gridSampleArgs).plan,
		Kernel: func(s *sampler) ([]*tensor.Tensor, error) {
			return elements.Single(s.sample(s.Input)), nil
		},
		Grad: func(s *sampler, g *opdef.Grad) (opdef.Grads, error) { return s.grads(s.Input, g.Out[0]), nil },
		Bounds: opdef.Bounds[*sampler]{
			Scale: func(s *sampler, _ []*tensor.Tensor) []*tensor.Tensor {
				return elements.Single(s.widened().sample(opdef.Abs(s.Input)))
			},
			GradScale: func(s *sampler, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return s.widened().grads(opdef.Abs(s.Input), opdef.Abs(g.Out[0])), nil
			},
			Terms:     func(*sampler) int { return 16 },
			GradTerms: func(s *sampler) int { return 16 * max(s.Input.Shape[1], 1) },
		},
		Cases: func(g opdef.Gen) []*gridSampleArgs {
			f32, f64 := tensor.Float32, tensor.Float64
			yes, no := true, false
			// Positions away from the pixels' edges, where gradients jump.
			at := func(dt tensor.DType, shape ...int) *tensor.Tensor {
				v := tensor.Make[float64](tensor.Numel(shape))
				for i := range v {
					v[i] = (float64(g.R.IntN(11)-5) + 0.3 + 0.4*g.R.Float64()) / 4.4
				}
				t := tensor.New(dt, shape, v).Rounded()
				t.RequiresGrad = true
				return t
			}
			return []*gridSampleArgs{
				{Input: g.Normal(f64, 2, 3, 4, 5), Grid: at(f64, 2, 3, 2, 2),
					Mode: "bilinear", PaddingMode: "zeros", AlignCorners: &no},
				{Input: g.Normal(f64, 1, 2, 4, 5), Grid: at(f64, 1, 3, 4, 2),
					Mode: "bilinear", PaddingMode: "border", AlignCorners: &yes},
				{Input: g.Normal(f64, 1, 2, 4, 5), Grid: at(f64, 1, 3, 4, 2),
					Mode: "bilinear", PaddingMode: "reflection", AlignCorners: nil},
				{Input: g.Normal(f64, 1, 2, 4, 5), Grid: at(f64, 1, 3, 4, 2),
					Mode: "nearest", PaddingMode: "zeros", AlignCorners: &no},
				{Input: g.Normal(f64, 1, 2, 4, 5), Grid: at(f64, 1, 3, 4, 2),
					Mode: "bicubic", PaddingMode: "zeros", AlignCorners: &no},
				{Input: g.Normal(f64, 1, 2, 4, 5), Grid: at(f64, 1, 3, 4, 2),
					Mode: "bicubic", PaddingMode: "border", AlignCorners: &yes},
				{Input: g.Normal(f64, 1, 2, 3, 4, 5), Grid: at(f64, 1, 2, 3, 2, 3),
					Mode: "bilinear", PaddingMode: "zeros", AlignCorners: &no},
				{Input: g.Normal(f32, 1, 2, 3, 4, 5), Grid: at(f32, 1, 2, 3, 2, 3),
					Mode: "nearest", PaddingMode: "border", AlignCorners: &no},
				{Input: g.Normal(f32, 0, 2, 4, 5), Grid: at(f32, 0, 3, 4, 2),
					Mode: "bilinear", PaddingMode: "zeros", AlignCorners: &no},
			}
		},
	}.Entry(),
	matmul.Multilinear(matmul.Op[affineGridArgs]{
		Schema: "affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor",
		Names:  "F.affine_grid",
		Traits: opdef.Traits{Autocast: opdef.AutocastLower},
		Doc: opdef.Doc{
			Summary: "Sampling positions of affine maps",
			Formula: "out[n, h, w] = theta[n] @ (x_w, y_h, 1)",
			Notes:   "theta (N, 2, 3) with size (N, C, H, W), or (N, 3, 4) with (N, C, D, H, W).",
		},
		Bounds: opdef.Bounds[*matmul.Call[affineGridArgs]]{
			Scale: func(c *matmul.Call[affineGridArgs], _ []*tensor.Tensor) []*tensor.Tensor {
				return opdef.Must(magnitudesOf(c.Product).Kernel())
			},
			GradScale: func(c *matmul.Call[affineGridArgs], g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return magnitudesOf(c.Product).Grads(opdef.NewGrad(g.Outs, []*tensor.Tensor{opdef.Abs(g.Out[0])}, nil))
			},
		},
		Cases: opdef.Calls[affineGridArgs](`
			f64[2, 2, 3], [2, 1, 3, 4], align_corners=False; f64[1, 3, 4], [1, 2, 2, 3, 2], align_corners=True
			f32[1, 2, 3], [1, 1, 1, 2]`),
	}, affinePlan),
}

// Else are results of positions that are rounded: where nearest changes its pixel, the result jumps.
func (s *sampler) Else([]*tensor.Tensor) [][]*tensor.Tensor {
	if s.Mode != "nearest" {
		return [][]*tensor.Tensor{nil}
	}
	var other []*tensor.Tensor
	for _, m := range s.shifted() {
		other = append(other, m.sample(s.Input))
	}
	return [][]*tensor.Tensor{other}
}

// GradElse are gradients of such positions: where one crosses a grid line, the gradient of the grid jumps.
func (s *sampler) GradElse(g *opdef.Grad) (other []opdef.Grads, err error) {
	for _, m := range s.shifted() {
		other = append(other, m.grads(s.Input, g.Out[0]))
	}
	return other, nil
}

type gridSampleArgs struct {
	Input, Grid       *tensor.Tensor
	Mode, PaddingMode string
	AlignCorners      *bool
}

// A sampler turns positions of one image into weights of its pixels.
type sampler struct {
	*gridSampleArgs
	nd      int
	size    [3]int // (1,) D, H, W
	corners bool
	single  bool                  // nearest positions are computed in float32
	shift   [3]float64            // of positions in each dimension, in what rounding may move them
	round   func(float64) float64 // of each step of a position; nil: none is rounded
	eps     float64               // of the dtype positions are computed in
	// wide is for magnitudes: taps are all those that rounding may move a position to, with
	// what weights it may give them.
	wide  bool
	scale *[3]int // sizes by which positions are scaled, if they are others than those of the image
}

// Mistakes are other sizes by which positions are scaled.
func (s *sampler) Mistakes() []opdef.Mistake[any] {
	var out []opdef.Mistake[any]
	for _, x := range [][2]int{{1, 2}, {0, 2}, {0, 1}} {
		scale := s.size
		scale[x[0]], scale[x[1]] = scale[x[1]], scale[x[0]]
		if scale == s.size || min(x[0], x[1]) < 3-s.nd {
			continue
		}
		text := fmt.Sprintf("positions along dimensions %d and %d are scaled by the size of the other", x[0]-3, x[1]-3)
		out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			m := *s
			m.scale = &scale
			return &m, nil
		}})
	}
	return out
}

// shifted have all positions moved by what their rounding may be, up and down in each dimension, and,
// in 16 bits, as torch's CPU kernel rounds them.
func (s *sampler) shifted() []*sampler {
	moved := make([]*sampler, 1<<s.nd)
	for i := range moved {
		m := *s
		for d := range s.nd {
			m.shift[2-d] = float64(2*(i>>d&1) - 1)
		}
		moved[i] = &m
	}
	if s.Input.DType.IsHalf() {
		m := *s
		m.round = s.Input.DType.Round
		moved = append(moved, &m)
	}
	return moved
}

func (s *sampler) widened() *sampler {
	m := *s
	m.wide = true
	return &m
}

// roundings is how many units of roundoff of the size of the image a position may be off.
const roundings = 4

func (a *gridSampleArgs) plan() (*sampler, error) {
	x, g := a.Input, a.Grid
	nd := x.Dim() - 2
	switch {
	case nd != 2 && nd != 3:
		return nil, opdef.Refuse("input", "want 4 or 5 dimensions, got shape %s", tensor.ShapeString(x.Shape))
	case g.Dim() != nd+2 || g.Shape[nd+1] != nd || g.Shape[0] != x.Shape[0]:
		return nil, opdef.Refuse("grid", "want %d dimensions, %d images and %d coordinates, got shape %s", nd+2,
			x.Shape[0], nd, tensor.ShapeString(g.Shape))
	case g.DType != x.DType:
		return nil, opdef.Refuse("grid", "want dtype %s as of input, got %s", x.DType, g.DType)
	case !x.DType.IsFloat():
		return nil, opdef.Refuse("input", "not defined for dtype %s", x.DType)
	case !slices.Contains([]string{"bilinear", "nearest", "bicubic"}, a.Mode):
		return nil, opdef.Refuse("mode", "want bilinear, nearest or bicubic, got %q", a.Mode)
	case a.Mode == "bicubic" && nd == 3:
		return nil, opdef.Refuse("mode", "bicubic needs 4 dimensions, got 5")
	case !slices.Contains([]string{"zeros", "border", "reflection"}, a.PaddingMode):
		return nil, opdef.Refuse("padding_mode", "want zeros, border or reflection, got %q", a.PaddingMode)
	}
	s := &sampler{gridSampleArgs: a, nd: nd, size: [3]int{1, 1, 1}, corners: a.AlignCorners != nil && *a.AlignCorners,
		single: x.DType != tensor.Float64, eps: x.DType.Eps()}
	for d, n := range x.Shape[2:] {
		if n == 0 {
			return nil, opdef.Refuse("input", "want no empty spatial dimension, got shape %s",
				tensor.ShapeString(x.Shape))
		}
		s.size[3-nd+d] = n
	}
	return s, nil
}

// A tap is a pixel of one dimension with its weight and the derivative of the
// weight with respect to the grid's coordinate; index -1 lies outside.
type tap struct {
	index     int
	w, dw     float64
	magnitude float64 // of the terms that make w
}

// taps are the pixels that coordinate x of dimension d reads. Errors of a
// position are relative to the size of the image.
// Source: aten/src/ATen/native/GridSampler.h
func (s *sampler) taps(d int, x float64, out []tap) []tap {
	size := s.size[d]
	n := size
	if s.scale != nil {
		n = s.scale[d]
	}
	pos, slope := (x+1)/2*float64(n)-0.5, float64(n)/2
	if s.corners {
		pos, slope = (x+1)/2*float64(n-1), float64(n-1)/2
	}
	switch r := s.round; {
	case r != nil && s.corners:
		pos = r(r(r(x+1)/2) * float64(n-1))
	case r != nil:
		pos = r(r(r(r(x+1)*float64(n))-1) / 2)
	case s.Mode == "nearest" && s.single:
		f := float32(x)
		if s.corners {
			pos = float64((f + 1) / 2 * float32(n-1))
		} else {
			pos = float64(((f+1)*float32(n) - 1) / 2)
		}
	}
	off := 0.0
	if math.Abs(pos) <= float64(2*n) { // further out there is nothing
		off = roundings / 2 * s.eps * (math.Abs(pos) + float64(n))
	}
	pos += s.shift[d] * off
	add := func(i int, w, dw float64) {
		if s.Mode == "bicubic" {
			j, _ := s.fold(d, float64(i))
			i = int(j)
		}
		if i < 0 || i >= size {
			i = -1
		}
		out = append(out, tap{i, w, dw, 1})
	}
	if s.Mode == "bicubic" {
		f := math.Floor(pos)
		if !(math.Abs(f) < 1<<50) {
			f = -100
		}
		w, dw := cubicWeights(pos-f, cubicCoefficient), cubicSlopes(pos-f)
		for j := range 4 {
			add(int(f)-1+j, w[j], dw[j]*slope)
		}
		return out
	}
	pos, k := s.fold(d, pos)
	slope *= k
	if !(math.Abs(pos) < 1<<50) { // NaN and infinite positions lie outside
		pos = -100
	}
	if s.Mode == "nearest" {
		add(int(math.RoundToEven(pos)), 1, 0)
		return out
	}
	f := math.Floor(pos)
	if s.wide {
		for i := math.Floor(pos - off); i <= math.Floor(pos+off)+1; i++ {
			add(int(i), math.Max(0, 1-math.Abs(pos-i))+off, slope)
		}
		return out
	}
	add(int(f), 1-(pos-f), -slope)
	add(int(f)+1, pos-f, slope)
	return out
}

// fold moves a position into the image as the padding mode says, with the
// factor by which that changes derivatives.
func (s *sampler) fold(d int, x float64) (float64, float64) {
	if s.PaddingMode == "zeros" {
		return x, 1
	}
	k := 1.0
	n := float64(s.size[d])
	if s.PaddingMode == "reflection" {
		lo, span := -0.5, n
		if s.corners {
			lo, span = 0, n-1
		}
		if span == 0 {
			return 0, 0
		}
		x -= lo
		if x < 0 {
			x, k = -x, -k
		}
		rest := math.Mod(x, span)
		if math.Mod(math.Floor(x/span), 2) != 0 {
			rest, k = span-rest, -k
		}
		x = rest + lo
	}
	switch {
	case x <= 0:
		return 0, 0
	case x >= n-1:
		return n - 1, 0
	case x != x:
		return 0, 0
	}
	return x, k
}

// cubicSlopes are the derivatives of cubicWeights.
func cubicSlopes(t float64) [4]float64 {
	const a = cubicCoefficient
	near := func(x float64) float64 { return (3*(a+2)*x - 2*(a+3)) * x }
	far := func(x float64) float64 { return (3*a*x-10*a)*x + 8*a }
	return [4]float64{far(1 + t), near(t), -near(1 - t), -far(2 - t)}
}

// points calls f for every position of image n with its index in the result
// and the pixels it reads in each dimension (grid order is x first).
func (s *sampler) points(grid *tensor.Tensor, n int, f func(p int, taps [3][]tap)) {
	count := tensor.Numel(grid.Shape[1 : s.nd+1])
	pos := opdef.Scratch[float64](count * s.nd)
	defer opdef.Release(pos)
	tensor.Load(grid, n*count*s.nd, *pos)
	var buf [3][4]tap
	for p := range count {
		taps := [3][]tap{{{0, 1, 0, 1}}, {{0, 1, 0, 1}}, {{0, 1, 0, 1}}}
		for j := range s.nd {
			d := 2 - j
			taps[d] = s.taps(d, (*pos)[p*s.nd+j], buf[d][:0])
		}
		f(p, taps)
	}
}

// sample interpolates x; for magnitudes, with the magnitudes of the weights
// times the size of the image, which is how wrong positions can be.
func (s *sampler) sample(x *tensor.Tensor) *tensor.Tensor {
	channels, volume := x.Shape[1], s.size[0]*s.size[1]*s.size[2]
	shape := append([]int{x.Shape[0], channels}, s.Grid.Shape[1:s.nd+1]...)
	count := tensor.Numel(shape[2:])
	return opdef.Rows(x.DType, shape, channels*count, func(n int, dst []float64) {
		img := opdef.Scratch[float64](channels * volume)
		tensor.Load(x, n*channels*volume, *img)
		clear(dst)
		s.points(s.Grid, n, func(p int, taps [3][]tap) {
			s.corner(taps, func(at int, w [3]tap) {
				v := s.weight(w)
				for c := range channels {
					dst[c*count+p] += v * (*img)[c*volume+at]
				}
			})
		})
		opdef.Release(img)
	})
}

// weight is that of a combination of taps.
func (s *sampler) weight(w [3]tap) float64 {
	if s.wide {
		return s.uncertainty(w)
	}
	return w[0].w * w[1].w * w[2].w
}

// uncertainty is the magnitude of a product of weights with what errors of positions,
// which are relative to the size of the image, make of it.
func (s *sampler) uncertainty(w [3]tap) float64 {
	v := math.Abs(w[0].w * w[1].w * w[2].w)
	if s.Mode == "nearest" {
		return v
	}
	for d := 3 - s.nd; d < 3; d++ {
		others := 1.0
		for e := 3 - s.nd; e < 3; e++ {
			if e != d {
				others *= math.Abs(w[e].w)
			}
		}
		v += float64(1+s.size[d]) * others
	}
	return v
}

// corner calls f for every combination of taps inside the image.
func (s *sampler) corner(taps [3][]tap, f func(at int, w [3]tap)) {
	for _, z := range taps[0] {
		for _, y := range taps[1] {
			for _, x := range taps[2] {
				if z.index >= 0 && y.index >= 0 && x.index >= 0 {
					f((z.index*s.size[1]+y.index)*s.size[2]+x.index, [3]tap{z, y, x})
				}
			}
		}
	}
}

func (s *sampler) grads(x, g *tensor.Tensor) opdef.Grads {
	channels, volume := x.Shape[1], s.size[0]*s.size[1]*s.size[2]
	count := tensor.Numel(s.Grid.Shape[1 : s.nd+1])
	k := 1.0
	abs := func(v float64) float64 { return v }
	if s.wide {
		k, abs = float64(1+max(s.size[0], s.size[1], s.size[2])), math.Abs
	}
	dx := opdef.Rows(x.DType, x.Shape, channels*volume, func(n int, dst []float64) {
		gy := opdef.Scratch[float64](channels * count)
		tensor.Load(g, n*channels*count, *gy)
		clear(dst)
		s.points(s.Grid, n, func(p int, taps [3][]tap) {
			s.corner(taps, func(at int, w [3]tap) {
				v := s.weight(w)
				for c := range channels {
					dst[c*volume+at] += v * (*gy)[c*count+p]
				}
			})
		})
		opdef.Release(gy)
	})
	dg := opdef.Rows(x.DType, s.Grid.Shape, count*s.nd, func(n int, dst []float64) {
		gy, img := opdef.Scratch[float64](channels*count), opdef.Scratch[float64](channels*volume)
		tensor.Load(g, n*channels*count, *gy)
		tensor.Load(x, n*channels*volume, *img)
		clear(dst)
		s.points(s.Grid, n, func(p int, taps [3][]tap) {
			s.corner(taps, func(at int, w [3]tap) {
				sum := 0.0
				for c := range channels {
					sum += (*gy)[c*count+p] * (*img)[c*volume+at]
				}
				for j := range s.nd {
					v := sum
					for d := range w {
						if d == 2-j {
							v *= abs(w[d].dw)
						} else if !s.wide {
							v *= w[d].w
						}
					}
					dst[p*s.nd+j] += k * v
				}
			})
		})
		opdef.Release(gy)
		opdef.Release(img)
	})
	return opdef.Grads{"input": {dx}, "grid": {dg}}
}

type affineGridArgs struct {
	Theta        *tensor.Tensor
	Size         []int
	AlignCorners *bool
}

// magnitudesOf is the product of the magnitudes behind p's operands: coordinates, the
// first, are differences of numbers up to 1.
func magnitudesOf(p *matmul.Product) *matmul.Product {
	m := *p
	m.Ops = slices.Clone(p.Ops)
	for i := range m.Ops {
		m.Ops[i].T = opdef.Abs(m.Ops[i].T)
	}
	m.Ops[0].T = tensor.Full(m.Ops[0].T.DType, m.Ops[0].T.Shape, 1.0)
	return &m
}

func affinePlan(a *affineGridArgs) (*matmul.Product, error) {
	nd := len(a.Size) - 2
	if nd != 2 && nd != 3 {
		return nil, opdef.Refuse("size", "want 4 or 5 numbers, got %d", len(a.Size))
	}
	if err := elements.WantFloat("theta", a.Theta); err != nil {
		return nil, err
	}
	for _, n := range a.Size {
		if n < 1 {
			return nil, opdef.Refuse("size", "want positive numbers, got %d", n)
		}
	}
	if want := []int{a.Size[0], nd, nd + 1}; !slices.Equal(a.Theta.Shape, want) {
		return nil, opdef.Refuse("theta", "want shape %s, got %s", tensor.ShapeString(want),
			tensor.ShapeString(a.Theta.Shape))
	}
	dims := a.Size[2:]
	corners := a.AlignCorners != nil && *a.AlignCorners
	base := tensor.Make[float64](tensor.Numel(append(slices.Clone(dims), nd+1)))[:0]
	for p := range tensor.Numel(dims) {
		at := tensor.Unravel(p, dims)
		for d := nd - 1; d >= 0; d-- { // x first
			n := float64(dims[d])
			switch {
			case dims[d] == 1:
				base = append(base, 0)
			case corners:
				base = append(base, 2*float64(at[d])/(n-1)-1)
			default:
				base = append(base, (2*float64(at[d])+1)/n-1)
			}
		}
		base = append(base, 1)
	}
	axes := matmul.BatchLabels(nd)
	return &matmul.Product{
		Ops: []matmul.Operand{
			{T: tensor.New(a.Theta.DType, append(slices.Clone(dims), nd+1), base),
				Axes: append(slices.Clone(axes), 'k')},
			{T: a.Theta, Axes: matmul.Labels("nck")},
		},
		Args: []string{"", "theta"}, Out: slices.Concat(matmul.Labels("n"), axes, matmul.Labels("c")),
	}, nil
}
