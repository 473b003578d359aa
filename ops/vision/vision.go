package vision

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// visionOps resample images; padding, folds and shuffles are in shape.padOps,
// sampling at computed positions in gridOps.
var visionOps = []*opdef.Entry{
	resizeOp(opdef.Planned[*interpolateArgs, *interpolation]{
		Schema: "interpolate(Tensor input, any size=None, any scale_factor=None, str mode='nearest', bool? " +
			"align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
		Names: "F.interpolate",
		Doc:   interpolateDoc,
		Node: func(p *interpolation, g *opdef.Grad) (opdef.Node, error) {
			if p.mode != "area" || p.Tensor.Dim() != 3 {
				return opdef.Node{}, nil
			}
			shape := g.Outs[0].Shape // adaptive_avg_pool1d runs in two dimensions
			return elements.ReshapedNode(g, shape[0], shape[1], 1, shape[2]), nil
		},
		Cases: interpolateCases,
	}, func(a *interpolateArgs) *interpolateArgs { return a }),
	resizeOp(opdef.Planned[*upsampleArgs, *interpolation]{
		Schema: "upsample(Tensor input, any size=None, any scale_factor=None, str mode='nearest', bool? " +
			"align_corners=None) -> Tensor",
		Names: "F.upsample",
		Doc:   interpolateDoc,
		Cases: opdef.Calls[upsampleArgs](`f64[1, 2, 3, 4], scale_factor=2.0, mode='bilinear'; f32[1, 2, 4], size=6`),
	}, func(a *upsampleArgs) *interpolateArgs {
		return &interpolateArgs{a.Input, a.Size, a.ScaleFactor, a.Mode, a.AlignCorners, nil, false}
	}),
	resizeOp(opdef.Planned[*upsampleSizeArgs, *interpolation]{
		Schema: "upsample_nearest(Tensor input, any size=None, any scale_factor=None) -> Tensor",
		Names:  "F.upsample_nearest",
		Doc:    interpolateDoc,
		Cases:  opdef.Calls[upsampleSizeArgs](`f64[1, 2, 3, 4], scale_factor=2; f32[1, 2, 4], size=6`),
	}, func(a *upsampleSizeArgs) *interpolateArgs {
		return &interpolateArgs{a.Input, a.Size, a.ScaleFactor, "nearest", nil, nil, false}
	}),
	resizeOp(opdef.Planned[*upsampleSizeArgs, *interpolation]{
		Schema: "upsample_bilinear(Tensor input, any size=None, any scale_factor=None) -> Tensor",
		Names:  "F.upsample_bilinear",
		Doc:    interpolateDoc,
		Cases:  opdef.Calls[upsampleSizeArgs](`f64[1, 2, 3, 4], scale_factor=2; f32[1, 2, 4, 4], size=(6, 3)`),
	}, func(a *upsampleSizeArgs) *interpolateArgs {
		corners := true
		return &interpolateArgs{a.Input, a.Size, a.ScaleFactor, "bilinear", &corners, nil, false}
	}),
}

var interpolateDoc = opdef.Doc{
	Summary: "Resize the spatial dimensions by interpolation",
	Formula: "per dimension: sum_j w[o, j] * input[j]",
	Notes: "Modes nearest, nearest-exact, linear (3-D), bilinear, bicubic (4-D), trilinear (5-D) and area. Of " +
		"nearest, positions are rounded to float32 as torch does.",
	Source: "torch.nn.functional.interpolate",
}

type interpolateArgs struct {
	Input                              *tensor.Tensor
	Size, ScaleFactor                  value.Value
	Mode                               string
	AlignCorners, RecomputeScaleFactor *bool
	Antialias                          bool
}

type upsampleArgs struct {
	Input             *tensor.Tensor
	Size, ScaleFactor value.Value
	Mode              string
	AlignCorners      *bool
}

type upsampleSizeArgs struct {
	Input             *tensor.Tensor
	Size, ScaleFactor value.Value
}

// An interpolation is a call after its arguments were checked.
type interpolation struct {
	elements.Planes
	mode string
	maps *kernel.Axes
	with func(edit func(r *resizer)) *kernel.Axes // the maps of other positions
}

// Mistakes are what kernels get wrong about positions.
func (p *interpolation) Mistakes() []opdef.Mistake[any] {
	if strings.HasPrefix(p.mode, "nearest") || p.mode == "area" || !p.Tensor.DType.IsFloat() {
		return nil
	}
	var out []opdef.Mistake[any]
	add := func(text string, edit func(r *resizer)) {
		maps := p.with(edit)
		for d := range maps {
			if !slices.Equal(maps[d].Weight, p.maps[d].Weight) || !slices.Equal(maps[d].Index, p.maps[d].Index) {
				out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
					m := *p
					m.maps = maps
					return &m, nil
				}})
				return
			}
		}
	}
	add("element o lies at o * step in input, not at (o + 1/2) * step - 1/2", func(r *resizer) { r.edges = true })
	for _, a := range []float64{-0.5, -1, -0.6} {
		add(fmt.Sprintf("the coefficient of cubic weights is %g, not %g", a, cubicCoefficient),
			func(r *resizer) { r.sharp = a })
	}
	add("neighbours beyond the border of input are dropped, not taken from it", func(r *resizer) { r.dropped = true })
	if n := len(out); n > 0 && strings.HasPrefix(out[n-1].Text, "neighbours") {
		back := out[n-1]
		back.Text, back.Gradients = "the gradients of neighbours beyond the border are dropped, not added to it", true
		out = slices.Insert(out, n-1, back)
	}
	add("scale_factor is taken for the quotient of the sizes", func(r *resizer) { r.factor = 0 })
	return out
}

// resizeOp completes the declaration of an op whose calls are interpolations.
func resizeOp[A any](op opdef.Planned[*A, *interpolation], call func(a *A) *interpolateArgs) *opdef.Entry {
	op.Plan = func(a *A) (*interpolation, error) { return call(a).plan() }
	op.Error = opdef.Error{Class: opdef.Accumulated}
	op.Kernel = func(p *interpolation) ([]*tensor.Tensor, error) {
		dt := p.Tensor.DType
		y := elements.Resample(dt, p.Planes, p.Shape(outSizes(p.maps)), p.maps, nil)
		if !dt.IsFloat() {
			y = opdef.Map(dt, y, func(x float64) int64 { return int64(x) })
		}
		return []*tensor.Tensor{y}, nil
	}
	op.Grad = func(p *interpolation, g *opdef.Grad) (opdef.Grads, error) {
		return opdef.Grads{"input": {elements.ResampleGrad(p.Planes, g.Out[0], p.maps, nil)}}, nil
	}
	// Weights may be negative (bicubic), and are as wrong as the position they
	// are computed from is large.
	op.Scale = func(p *interpolation, outs []*tensor.Tensor) []*tensor.Tensor {
		return []*tensor.Tensor{resampleMagnitudes(p.Tensor, outs[0].Shape, weightMagnitudes(p.maps), p.moved())}
	}
	op.GradScale = func(p *interpolation, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
		m := weightMagnitudes(p.maps.Transposed())
		return opdef.Grads{"input": {resampleMagnitudes(g.Out[0], p.Tensor.Shape, m, p.moved())}}, nil
	}
	// terms is the mean number of indices of an axis for each of n elements, times
	// those of the others.
	terms := func(p *interpolation, n func(m *kernel.Axis) int) int {
		k := 1
		for d := range p.maps {
			if m := &p.maps[d]; p.Rows > 0 {
				k *= len(m.Index)/n(m) + 1
			}
		}
		return k
	}
	op.Terms = func(p *interpolation) int { return terms(p, func(m *kernel.Axis) int { return m.Out }) }
	op.GradTerms = func(p *interpolation) int { return terms(p, func(m *kernel.Axis) int { return m.In }) }
	return op.Entry()
}

func (p *interpolation) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	if want[0].DType.IsFloat() || strings.HasPrefix(p.mode, "nearest") {
		return make([]opdef.Acceptance, 1)
	}
	w := tensor.Data[int64](want[0])
	for i, x := range tensor.Data[int64](got[0]) {
		if d := x - w[i]; d < -1 || d > 1 {
			return make([]opdef.Acceptance, 1)
		}
	}
	return []opdef.Acceptance{{OK: true, Rule: "integers rounded either way"}}
}

func outSizes(m *kernel.Axes) [3]int { return [3]int{m[0].Out, m[1].Out, m[2].Out} }

// resampleMagnitudes is the sum of maps of the magnitudes of every plane of t: m, whose weights
// are magnitudes, and for each dimension that moved names m with that number for all weights of the
// dimension. Any few elements are computed alone, since few are ever wanted.
func resampleMagnitudes(t *tensor.Tensor, shape []int, m *kernel.Axes, moved [3]float64) *tensor.Tensor {
	part := func(row, col int, dst []float64) { // dst: from column col of a row on
		ptr := m[2].Ptr[col : col+len(dst)+1]
		index, weight := m[2].Index[ptr[0]:ptr[len(dst)]], m[2].Weight[ptr[0]:ptr[len(dst)]]
		first, last := m[2].In, 0
		for _, i := range index {
			first, last = min(first, i), max(last, i)
		}
		n := max(last-first+1, 0)
		buf := opdef.Scratch[float64](3 * n)
		defer opdef.Release(buf)
		clear(*buf)
		x, all, fixed := (*buf)[:n], (*buf)[n:2*n], (*buf)[2*n:] // fixed: of m alone
		o1, rest := row%m[1].Out, row/m[1].Out
		o0, plane := rest%m[0].Out, rest/m[0].Out
		for j0 := m[0].Ptr[o0]; j0 < m[0].Ptr[o0+1]; j0++ {
			for j1 := m[1].Ptr[o1]; j1 < m[1].Ptr[o1+1]; j1++ {
				tensor.Load(t, ((plane*m[0].In+m[0].Index[j0])*m[1].In+m[1].Index[j1])*m[2].In+first, x)
				w0, w1 := m[0].Weight[j0], m[1].Weight[j1]
				own := w0 * w1
				with := own + moved[0]*w1 + w0*moved[1]
				for i, v := range x {
					v = math.Abs(v)
					all[i] += with * v
					fixed[i] += own * v
				}
			}
		}
		for o := range dst {
			sum, near := 0.0, 0.0
			for j := ptr[o] - ptr[0]; j < ptr[o+1]-ptr[0]; j++ {
				sum += weight[j] * all[index[j]-first]
				near += fixed[index[j]-first]
			}
			dst[o] = sum + moved[2]*near
		}
	}
	width := m[2].Out
	return tensor.Lazy(tensor.Float64, shape, 1, func(lo int, dst []float64) {
		for len(dst) > 0 {
			n := min(len(dst), width-lo%width)
			part(lo/width, lo%width, dst[:n])
			lo, dst = lo+n, dst[n:]
		}
	})
}

// weightMagnitudes is m with the magnitudes of its weights.
func weightMagnitudes(m *kernel.Axes) *kernel.Axes {
	abs := *m
	for d := range abs {
		abs[d].Weight = make([]float64, len(m[d].Weight))
		vmath.Abs(abs[d].Weight, m[d].Weight)
	}
	return &abs
}

// moved is the size of each dimension that really interpolates: its weights are as wrong as its
// positions are large.
func (p *interpolation) moved() (by [3]float64) {
	for d, n := range p.Size {
		if m := &p.maps[d]; len(m.Index) != m.Out {
			by[d] = float64(n)
		}
	}
	return by
}

var interpolationRank = map[string]int{"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}

// plan checks the call and builds the map of every dimension.
func (a *interpolateArgs) plan() (*interpolation, error) {
	nd := a.Input.Dim() - 2
	if nd < 1 || nd > 3 {
		return nil, opdef.Refuse("input", "want 3 to 5 dimensions, got shape %s", tensor.ShapeString(a.Input.Shape))
	}
	p, err := elements.PlanesOf("input", a.Input, nd)
	if err != nil {
		return nil, err
	}
	if a.Input.DType.IsComplex() || !a.Input.DType.IsFloat() && a.Input.DType != tensor.Uint8 {
		return nil, opdef.Refuse("input", "not defined for dtype %s", a.Input.DType)
	}
	corners := a.AlignCorners != nil && *a.AlignCorners
	switch a.Mode {
	case "nearest", "nearest-exact", "area":
		if a.AlignCorners != nil {
			return nil, opdef.Refuse("align_corners", "cannot be set for mode %q", a.Mode)
		}
	case "linear", "bilinear", "bicubic", "trilinear":
		if want := interpolationRank[a.Mode]; want != nd+2 {
			return nil, opdef.Refuse("mode", "%q needs %d dimensions, got %d", a.Mode, want, nd+2)
		}
	default:
		return nil, opdef.Refuse("mode", "want nearest, nearest-exact, area, linear, bilinear, bicubic or "+
			"trilinear, got %q", a.Mode)
	}
	if a.Antialias && (nd != 2 || a.Mode != "bilinear" && a.Mode != "bicubic") {
		return nil, opdef.Refuse("antialias", "needs mode bilinear or bicubic and 4 dimensions")
	}
	out, scale, err := a.sizes(p)
	if err != nil {
		return nil, err
	}
	with := func(edit func(r *resizer)) *kernel.Axes {
		m := &kernel.Axes{}
		for d := range m {
			tensor.Steps(out[d])
			if d < 3-nd {
				identityAxis(&m[d], p.Size[d])
				continue
			}
			r := resizer{in: p.Size[d], out: out[d], factor: scale[d], corners: corners}
			edit(&r)
			m[d].In = r.in
			r.axis(&m[d], a.Mode, a.Antialias)
		}
		return m
	}
	return &interpolation{p, a.Mode, with(func(*resizer) {}), with}, nil
}

func identityAxis(m *kernel.Axis, n int) {
	m.In = n
	for o := range n {
		m.Add(1, func(int) (int, float64) { return o, 1 })
	}
}

// sizes are the output sizes and, where torch passes them on, the scale
// factors (0: none) of the three dimensions.
func (a *interpolateArgs) sizes(p elements.Planes) (out [3]int, scale [3]float64, err error) {
	out = p.Size
	arg, numbers, err := a.numbers(p.Dims)
	if err != nil {
		return out, scale, err
	}
	recompute := a.RecomputeScaleFactor != nil && *a.RecomputeScaleFactor
	if a.Size != nil && recompute {
		return out, scale, opdef.Refuse("recompute_scale_factor", "is not meaningful with size")
	}
	for i, s := range numbers {
		d := 3 - p.Dims + i
		if a.Size != nil {
			out[d] = int(s.Int64())
		} else {
			size := math.Floor(float64(p.Size[d]) * s.Float64())
			if !(size < 1<<40) {
				return out, scale, opdef.Refuse(arg, "%v is too large", s)
			}
			out[d] = int(size)
			if !recompute && a.Mode != "area" {
				scale[d] = s.Float64()
			}
		}
		if out[d] < 1 {
			return out, scale, opdef.Refuse(arg, "output size %d is too small", out[d])
		}
	}
	return out, scale, nil
}

// numbers are those of size or of scale_factor, for each of dims dimensions, with the name of the argument.
func (a *interpolateArgs) numbers(dims int) (arg string, numbers []opdef.Scalar, err error) {
	arg, v := "size", a.Size
	switch {
	case a.Size != nil && a.ScaleFactor != nil:
		return arg, nil, opdef.Refuse("size", "want one of size and scale_factor")
	case a.Size == nil && a.ScaleFactor == nil:
		return arg, nil, opdef.Refuse("size", "want size or scale_factor")
	case a.Size == nil:
		arg, v = "scale_factor", a.ScaleFactor
	}
	seq, ok := v.(*value.Sequence)
	if !ok {
		seq = value.NewList(slices.Repeat([]value.Value{v}, dims)...)
	}
	if len(seq.Items) != dims {
		return arg, nil, opdef.Refuse(arg, "want %d numbers, got %d", dims, len(seq.Items))
	}
	for _, it := range seq.Items {
		s, ok := opdef.ScalarOf(itemOf(it))
		if !ok || arg == "size" && s.Kind() != tensor.KindInt || s.Kind() == tensor.KindComplex {
			return arg, nil, opdef.Refuse(arg, "want numbers, got %s", opdef.TypeName(it))
		}
		numbers = append(numbers, s)
	}
	return arg, numbers, nil
}

// itemOf is the number in a tensor of one element, and any other value itself.
func itemOf(v value.Value) value.Value {
	t, ok := v.(*tensor.Tensor)
	switch {
	case !ok || t.Numel() != 1 || !t.DType.Computable():
		return v
	case t.DType.Kind() == tensor.KindInt:
		return tensor.At[int64](t, 0)
	}
	return t.Item()
}

// A resizer builds the map of one dimension.
// Source: aten/src/ATen/native/UpSample.h, cpu/UpSampleKernel.cpp
type resizer struct {
	in, out int
	factor  float64 // scale factor given by the caller, 0: out/in
	corners bool    // align_corners
	edges   bool    // a mistake: positions are those of the elements' edges
	sharp   float64 // a mistake: the coefficient of cubic weights, 0 of the right one
	dropped bool    // a mistake: neighbours beyond the border do not count
}

// axis is the map of a mode.
func (r resizer) axis(m *kernel.Axis, mode string, antialias bool) {
	switch {
	case mode == "area":
		for o := range r.out {
			lo, hi := o*r.in/r.out, ((o+1)*r.in+r.out-1)/r.out
			m.Add(hi-lo, func(j int) (int, float64) { return lo + j, 1 / float64(hi-lo) })
		}
	case mode == "nearest":
		r.nearest(m, 0)
	case mode == "nearest-exact":
		r.nearest(m, 0.5)
	case antialias:
		r.antialiased(m, mode == "bicubic")
	case r.in == r.out && mode != "bicubic":
		identityAxis(m, r.in)
	case mode == "bicubic":
		r.cubic(m)
	default:
		r.linear(m)
	}
}

// step is the distance of two outputs in the input.
func (r resizer) step() float64 {
	switch {
	case r.corners && r.out > 1:
		return float64(r.in-1) / float64(r.out-1)
	case r.corners:
		return 0
	case r.factor > 0:
		return 1 / r.factor
	}
	return float64(r.in) / float64(r.out)
}

// source is the position of output o in the input.
func (r resizer) source(step float64, o int) float64 {
	if r.corners || r.edges {
		return step * float64(o)
	}
	return step*(float64(o)+0.5) - 0.5
}

// nearest takes the element at or before the position; shift is 0.5 for
// centres. Positions are rounded to float32 as torch does for every dtype: the
// element changes where they cross a whole number.
func (r resizer) nearest(m *kernel.Axis, shift float32) {
	step := float32(r.in) / float32(r.out)
	if r.factor > 0 {
		step = float32(1 / r.factor)
	}
	for o := range r.out {
		i := o
		switch {
		case r.in == r.out && shift == 0:
		case r.out == 2*r.in && shift == 0:
			i = o / 2
		default:
			i = min(int((float32(o)+shift)*step), r.in-1)
		}
		m.Add(1, func(int) (int, float64) { return i, 1 })
	}
}

func (r resizer) linear(m *kernel.Axis) {
	step := r.step()
	for o := range r.out {
		x := r.source(step, o)
		if !r.corners {
			x = max(x, 0)
		}
		i := min(int(x), r.in-1)
		t := min(max(x-float64(i), 0), 1)
		next := min(i+1, r.in-1)
		m.Add(2, func(j int) (int, float64) {
			if j == 0 {
				return i, 1 - t
			}
			return next, t
		})
	}
}

// cubic weighs four neighbours, indices beyond the border moved onto it.
func (r resizer) cubic(m *kernel.Axis) {
	step := r.step()
	for o := range r.out {
		x := r.source(step, o)
		f := math.Floor(x)
		w := cubicWeights(x-f, cmp.Or(r.sharp, cubicCoefficient))
		m.Add(4, func(j int) (int, float64) {
			i := int(f) - 1 + j
			at := min(max(i, 0), r.in-1)
			if r.dropped && at != i {
				return at, 0
			}
			return at, w[j]
		})
	}
}

// cubicCoefficient is torch's, of cubic weights.
const cubicCoefficient = -0.75

// cubicWeights are the weights of the elements at distances 1+t, t, 1-t, 2-t, with a coefficient.
// Source: Keys, "Cubic convolution interpolation for digital image
// processing", 1981.
func cubicWeights(t, a float64) [4]float64 {
	near := func(x float64) float64 { return ((a+2)*x-(a+3))*x*x + 1 }
	far := func(x float64) float64 { return ((a*x-5*a)*x+8*a)*x - 4*a }
	return [4]float64{far(1 + t), near(t), near(1 - t), far(2 - t)}
}

// antialiased widens the filter by the step where that shrinks the input.
func (r resizer) antialiased(m *kernel.Axis, cubic bool) {
	step := r.step()
	half := 1.0
	filter := func(x float64) float64 { return max(0, 1-math.Abs(x)) }
	if cubic {
		half = 2
		const a = -0.5
		filter = func(x float64) float64 {
			x = math.Abs(x)
			switch {
			case x < 1:
				return ((a+2)*x-(a+3))*x*x + 1
			case x < 2:
				return (((x-5)*x+8)*x - 4) * a
			}
			return 0
		}
	}
	width := max(step, 1)
	support := half * width
	for o := range r.out {
		center := step * (float64(o) + 0.5)
		lo := max(int(center-support+0.5), 0)
		hi := min(int(center+support+0.5), r.in)
		w := tensor.Make[float64](max(hi-lo, 0))
		sum := 0.0
		for j := range w {
			w[j] = filter((float64(j+lo) - center + 0.5) / width)
			sum += w[j]
		}
		m.Add(len(w), func(j int) (int, float64) {
			if sum == 0 {
				return lo + j, w[j]
			}
			return lo + j, w[j] / sum
		})
	}
}

var interpolateCases = opdef.Calls[interpolateArgs](`
	f64[1, 2, 3, 4], scale_factor=2; f64[1, 2, 5], size=3; f64[1, 1, 3, 2, 4], scale_factor=1.5
	f64[1, 2, 5, 4], size=(3, 7), mode='nearest-exact'
	f64[2, 1, 5], scale_factor=1.7, mode='linear', align_corners=False
	for B in False True: f64[1, 2, 4, 4], size=(6, 3), mode='bilinear', align_corners=B
	f64[1, 2, 3, 4], scale_factor=(1.3, 0.6), mode='bilinear', recompute_scale_factor=True
	f64[1, 2, 4, 4], size=(6, 3), mode='bicubic', align_corners=False
	f64[1, 1, 4, 5], size=(6, 3), mode='bicubic', align_corners=True
	f64[1, 1, 2, 3, 3], scale_factor=2, mode='trilinear', align_corners=False
	f64[1, 2, 5, 4], size=(3, 2), mode='area'; f64[1, 2, 5], size=3, mode='area'
	f64[1, 2, 7, 5], size=(3, 2), mode='bilinear', align_corners=False, antialias=True
	f64[1, 2, 7, 5], size=(3, 8), mode='bicubic', align_corners=False, antialias=True
	f32[1, 2, 4, 4], scale_factor=2.5, mode='bilinear', align_corners=False; bf16[1, 2, 4, 4], scale_factor=2
	f64[1, 2, 4, 4], scale_factor=2, mode='bilinear'; u8[1, 2, 3, 3]{0..255}, scale_factor=2`)
