package detection

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/pointwise"
	"github.com/optool/optool/tensor"
)

type (
	boxesArgs struct {
		Boxes *tensor.Tensor
		Fmt   string
	}
	convertArgs struct {
		Boxes         *tensor.Tensor
		InFmt, OutFmt string
	}
	clipArgs struct {
		Boxes *tensor.Tensor
		Size  []int
	}
	smallArgs struct {
		Boxes   *tensor.Tensor
		MinSize float64
	}
	pairArgs    struct{ Boxes1, Boxes2 *tensor.Tensor }
	formPairArg struct {
		Boxes1, Boxes2 *tensor.Tensor
		Fmt            string
	}
	epsPairArgs struct {
		Boxes1, Boxes2 *tensor.Tensor
		Eps            float64
	}
	masksArgs struct{ Masks *tensor.Tensor }
)

// boxNames are those of a function of torchvision.ops.boxes.
func boxNames(name string) string {
	return "torchvision.ops." + name + " torchvision.ops.boxes." + name
}

// upcast is x as torchvision computes areas: 16-bit floats in float32, small integers in int32.
func upcast(g *compose.Graph, x *compose.Value) *compose.Value {
	if x.DType().IsFloat() {
		return g.AtLeast(x, tensor.Float32)
	}
	if x.DType().Bits() < 32 {
		return g.To(x, tensor.Int32)
	}
	return x
}

// atLeast0 is max(x, 0), which passes the gradient at 0 too.
func atLeast0(g *compose.Graph, x *compose.Value) *compose.Value {
	if x.DType().IsFloat() {
		return g.Clamp(x, 0, math.Inf(1))
	}
	return g.Maximum(x, g.Const(tensor.Full(x.DType(), nil, int64(0))))
}

// columns are the n numbers of each box.
func columns(g *compose.Graph, name string, x *compose.Value, n int) []*compose.Value {
	last := x.Dim() - 1
	if last < 0 || x.Shape()[last] != n || x.DType().IsComplex() || x.DType() == tensor.Bool {
		g.Refuse(name, "want boxes of %d numbers, got %s", n, x.T.Meta())
	}
	out := g.Chunk(x, n, -1)
	for i, c := range out {
		out[i] = g.Squeeze(c, -1)
	}
	return out
}

// joined are boxes of these columns, as one primitive.
func joined(g *compose.Graph, parts ...*compose.Value) *compose.Value {
	return g.AsOne(func(in []*compose.Value) *compose.Value { return g.Stack(in[0].Dim(), in...) }, parts...)
}

// half is x/2, of integers in float32.
func half(g *compose.Graph, x *compose.Value) *compose.Value { return g.Div(x, g.Number(2)) }

// corners are the columns x1, y1, x2, y2 of boxes.
func corners(g *compose.Graph, name string, x *compose.Value, format string) []*compose.Value {
	c := columns(g, name, x, 4)
	switch format {
	case "xyxy":
	case "xywh":
		return []*compose.Value{c[0], c[1], g.Add(c[0], c[2]), g.Add(c[1], c[3])}
	case "cxcywh":
		w, h := half(g, c[2]), half(g, c[3])
		return []*compose.Value{g.Sub(c[0], w), g.Sub(c[1], h), g.Add(c[0], w), g.Add(c[1], h)}
	default:
		g.Refuse("fmt", "want xyxy, xywh or cxcywh, got %q", format)
	}
	return c
}

// area is that of boxes in a format.
func area(g *compose.Graph, name string, x *compose.Value, format string) *compose.Value {
	c := columns(g, name, upcast(g, x), 4)
	switch format {
	case "xyxy":
		return g.Mul(g.Sub(c[2], c[0]), g.Sub(c[3], c[1]))
	case "xywh", "cxcywh":
		return g.Mul(c[2], c[3])
	}
	g.Refuse("fmt", "want xyxy, xywh or cxcywh, got %q", format)
	return nil
}

// A pair is two sets of boxes that are compared each with each.
type pair struct {
	a, b         []*compose.Value // x1, y1, x2, y2, [..., n, 1] and [..., 1, m]
	inter, union *compose.Value
}

// extremum is the smaller or the larger of two.
type extremum func(x, y *compose.Value) *compose.Value

// span is what lies between coordinates lo and hi of both boxes, chosen by near and far.
func (p *pair) span(g *compose.Graph, axis int, near, far extremum) *compose.Value {
	return atLeast0(g, upcast(g, g.Sub(far(p.a[axis+2], p.b[axis+2]), near(p.a[axis], p.b[axis]))))
}

// newPair is the pair of boxes in a format.
func newPair(g *compose.Graph, x, y *compose.Value, format string) *pair {
	if n := x.Dim(); n < 2 || y.Dim() != n || !slices.Equal(x.Shape()[:n-2], y.Shape()[:n-2]) {
		g.Refuse("boxes2", "%s and %s are not two sets of boxes", x.T.Meta(), y.T.Meta())
	}
	p := &pair{}
	for i, c := range corners(g, "boxes1", x, format) {
		p.a = append(p.a, g.Unsqueeze(c, -1))
		p.b = append(p.b, g.Unsqueeze(corners(g, "boxes2", y, format)[i], -2))
	}
	p.inter = g.Mul(p.span(g, 0, g.Maximum, g.Minimum), p.span(g, 1, g.Maximum, g.Minimum))
	both := g.Add(g.Unsqueeze(area(g, "boxes1", x, format), -1), g.Unsqueeze(area(g, "boxes2", y, format), -2))
	p.union = g.Sub(both, p.inter)
	return p
}

// iou is the intersection over the union.
func (p *pair) iou(g *compose.Graph) *compose.Value { return g.Div(p.inter, p.union) }

// distance is the squared distance of the centres over the squared diagonal of the smallest box
// around both.
func (p *pair) distance(g *compose.Graph, eps float64) *compose.Value {
	w, h := p.span(g, 0, g.Minimum, g.Maximum), p.span(g, 1, g.Minimum, g.Maximum)
	diagonal := g.Shift(g.Add(g.Square(w), g.Square(h)), eps)
	between := func(axis int) *compose.Value {
		return g.Square(g.Sub(half(g, g.Add(p.a[axis], p.a[axis+2])), half(g, g.Add(p.b[axis], p.b[axis+2]))))
	}
	return g.Div(g.Add(between(0), between(1)), diagonal)
}

// aspect is how far the ratios of sides are apart, and its weight beside the intersection over
// the union, which passes no gradient.
func aspect(g *compose.Graph, a, b []*compose.Value, iou *compose.Value, eps float64) *compose.Value {
	angle := func(c []*compose.Value) *compose.Value {
		return g.Unary("", pointwise.Atan, g.Div(g.Sub(c[2], c[0]), g.Sub(c[3], c[1])))
	}
	v := g.Scale(g.Square(g.Sub(angle(a), angle(b))), 4/(math.Pi*math.Pi))
	weight := g.Div(v, g.Shift(g.Add(g.Sub(g.Number(1), iou), v), eps))
	return g.Mul(g.Detach(weight), v)
}

// apartBoxes are two sets of boxes, none of whose corners coincide.
func apartBoxes(g opdef.Gen, dt tensor.DType) (x, y *tensor.Tensor) {
	x, _ = someBoxes(g, dt, 4)
	y, _ = someBoxes(g, dt, 3)
	x.RequiresGrad, y.RequiresGrad = true, true
	return x, y
}

// boxDoc documents a function of boxes.
func boxDoc(summary, formula, notes string) opdef.Doc {
	return opdef.Doc{Summary: summary, Formula: formula, Notes: notes}
}

// boxDTypes: coordinates of 16 bits are multiplied in float32, which the result has then.
var boxDTypes = map[string]string{"dtypes": "areas of 16-bit boxes are float32"}

// stoppedGradient is why difference quotients are not the gradients of complete_box_iou.
var stoppedGradient = map[string]string{"dtypes": boxDTypes["dtypes"],
	"gradients": "the weight of the difference of shape passes no gradient"}

const pairNotes = "boxes1 is (..., n, 4), boxes2 (..., m, 4), the result (..., n, m). Boxes are (x1, y1, x2, y2)"

var boxFormats = []string{"xyxy", "xywh", "cxcywh"}

// rotatedFormats are how turned boxes are told: by a corner or the centre, sides and degrees, or
// by four corners.
const rotatedFormats = "xywhr, cxcywhr, xyxyxyxy"

func boxes() []*opdef.Entry {
	return []*opdef.Entry{
		compose.Declare(compose.Op[boxesArgs]{
			Schema: "box_area(Tensor boxes, str fmt='xyxy') -> Tensor", Names: boxNames("box_area"),
			Doc: boxDoc("Areas of boxes", "(x2 - x1) * (y2 - y1), w * h in formats xywh and cxcywh",
				"Areas of 16-bit boxes are float32, those of small integers int32."), Exempt: boxDTypes,
			Cases: func(g opdef.Gen) []*boxesArgs {
				cs := opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *boxesArgs {
					x, _ := apartBoxes(g, dt)
					return &boxesArgs{x, boxFormats[g.Nth%3]}
				})(g)
				return append(cs, &boxesArgs{g.Int(tensor.Int16, 1, 9, 2, 4), "xywh"})
			},
		}, compose.Unfused, func(g *compose.Graph, a *boxesArgs) compose.Values {
			return compose.Values{area(g, "boxes", g.Arg("boxes", a.Boxes), a.Fmt)}
		}),
		compose.Declare(compose.Op[convertArgs]{
			Schema: "box_convert(Tensor boxes, str in_fmt, str out_fmt) -> Tensor", Names: boxNames("box_convert"),
			Doc: boxDoc("Boxes in another format", "(x1, y1, x2, y2), (x1, y1, w, h), (cx, cy, w, h)",
				"Formats are xyxy, xywh, cxcywh, and of turned boxes "+rotatedFormats+", r in degrees "+
					"counter-clockwise. "+
					"Integers are refused for turned boxes."),
			Cases: func(g opdef.Gen) (cs []*convertArgs) {
				for _, f := range someConversions {
					n := map[string]int{"xywhr": 5, "cxcywhr": 5, "xyxyxyxy": 8}[f[0]]
					if n == 0 {
						n = 4
					}
					cs = append(cs, &convertArgs{g.Uniform(tensor.Float64, 1, 5, 3, n), f[0], f[1]},
						&convertArgs{g.Uniform(tensor.Float32, 1, 5, 3, n), f[0], f[1]})
				}
				return append(cs, &convertArgs{g.Normal(tensor.BFloat16, 2, 4), "xywh", "xyxy"},
					&convertArgs{g.Int(tensor.Int32, 1, 9, 2, 4), "xywh", "xyxy"})
			},
		}, compose.Unfused, func(g *compose.Graph, a *convertArgs) compose.Values {
			return compose.Values{converted(g, g.Arg("boxes", a.Boxes), a.InFmt, a.OutFmt)}
		}),
		compose.Declare(compose.Op[clipArgs]{
			Schema: "clip_boxes_to_image(Tensor boxes, int[2] size) -> Tensor", Names: boxNames("clip_boxes_to_image"),
			Doc: boxDoc("Boxes cut off at the borders of an image",
				"x limited to [0, width], y to [0, height], size = (height, width)", "Boxes are (x1, y1, x2, y2)."),
			Cases: opdef.Calls[clipArgs](`
				for T in f64 f32 bf16 f16: T[3, 4]{apart 0 1 2}, [1, 2]
				i64[2, 4]{-4..9}, [5, 6]`),
		}, compose.Unfused, func(g *compose.Graph, a *clipArgs) compose.Values {
			x := g.Arg("boxes", a.Boxes)
			if columns(g, "boxes", x, 4); len(a.Size) != 2 {
				g.Refuse("size", "want a height and a width, got %v", a.Size)
			}
			limit := func(x *compose.Value, most int) *compose.Value {
				if x.DType().IsFloat() {
					return g.Clamp(x, 0, float64(most))
				}
				whole := func(n int) *compose.Value { return g.Const(tensor.Full(x.DType(), nil, int64(n))) }
				return g.Minimum(g.Maximum(x, whole(0)), whole(most))
			}
			xs, ys := g.Slice(x, -1, 0, 2, 2), g.Slice(x, -1, 1, 2, 2)
			return compose.Values{g.Reshape(g.Stack(x.Dim(), limit(xs, a.Size[1]), limit(ys, a.Size[0])), x.Shape()...)}
		}),
		opdef.Op[smallArgs]{
			Schema: "remove_small_boxes(Tensor boxes, float min_size) -> Tensor", Names: boxNames("remove_small_boxes"),
			Doc: boxDoc("Indices of the boxes that are large enough",
				"those with x2 - x1 >= min_size and y2 - y1 >= min_size", "Boxes are (x1, y1, x2, y2)."),
			Traits: opdef.Traits{NoGrad: byIndices},
			Kernel: func(a *smallArgs) ([]*tensor.Tensor, error) {
				dt := a.Boxes.DType
				if a.Boxes.Dim() != 2 || a.Boxes.Shape[1] != 4 || dt.IsComplex() || dt == tensor.Bool {
					return nil, opdef.Refuse("boxes", "want boxes of 4 numbers, got %s", a.Boxes.Meta())
				}
				least, round := a.MinSize, dt.Round
				if !dt.IsFloat() {
					round = func(x float64) float64 { return x }
				}
				v := tensor.Data[float64](opdef.Cast(a.Boxes, tensor.Float64))
				kept := []int64{}
				for i := range a.Boxes.Shape[0] {
					b := v[4*i:][:4]
					if round(b[2]-b[0]) >= round(least) && round(b[3]-b[1]) >= round(least) {
						kept = append(kept, int64(i))
					}
				}
				return []*tensor.Tensor{tensor.New(tensor.Int64, []int{len(kept)}, kept)}, nil
			},
			Cases: func(g opdef.Gen) (cs []*smallArgs) {
				for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16} {
					x, _ := someBoxes(g, dt, 8)
					cs = append(cs, &smallArgs{x, 3})
				}
				return cs
			},
		}.Entry(),
		compose.Declare(compose.Op[formPairArg]{
			Schema: "box_iou(Tensor boxes1, Tensor boxes2, str fmt='xyxy') -> Tensor", Names: boxNames("box_iou"),
			Doc: boxDoc("Intersections of boxes over their unions", "intersection / union",
				pairNotes+" or in format fmt. Turned boxes are refused."), Exempt: boxDTypes,
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *formPairArg {
				x, y := apartBoxes(g, dt)
				return &formPairArg{x, y, boxFormats[g.Nth%3]}
			}),
		}, compose.Unfused, func(g *compose.Graph, a *formPairArg) compose.Values {
			return compose.Values{newPair(g, g.Arg("boxes1", a.Boxes1), g.Arg("boxes2", a.Boxes2), a.Fmt).iou(g)}
		}),
		compose.Declare(compose.Op[pairArgs]{
			Schema: "generalized_box_iou(Tensor boxes1, Tensor boxes2) -> Tensor",
			Names:  boxNames("generalized_box_iou"),
			Doc: boxDoc("Generalized intersections of boxes over their unions",
				"iou - (a - union)/a, a the area of the smallest box around both", pairNotes+"."), Exempt: boxDTypes,
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *pairArgs {
				x, y := apartBoxes(g, dt)
				return &pairArgs{x, y}
			}),
		}, compose.Unfused, func(g *compose.Graph, a *pairArgs) compose.Values {
			p := newPair(g, g.Arg("boxes1", a.Boxes1), g.Arg("boxes2", a.Boxes2), "xyxy")
			around := g.Mul(p.span(g, 0, g.Minimum, g.Maximum), p.span(g, 1, g.Minimum, g.Maximum))
			return compose.Values{g.Sub(p.iou(g), g.Div(g.Sub(around, p.union), around))}
		}),
		compose.Declare(compose.Op[epsPairArgs]{
			Schema: "distance_box_iou(Tensor boxes1, Tensor boxes2, float eps=1e-07) -> Tensor",
			Names:  boxNames("distance_box_iou"),
			Doc: boxDoc("Intersections of boxes over their unions, less their distance",
				"iou - d^2/(c^2 + eps), d between the centres, c the diagonal of the smallest box around both",
				pairNotes+"."),
			Exempt: boxDTypes, Cases: epsPairCases,
		}, compose.Unfused, func(g *compose.Graph, a *epsPairArgs) compose.Values {
			p := widePair(g, a)
			return compose.Values{g.Sub(p.iou(g), p.distance(g, a.Eps))}
		}),
		compose.Declare(compose.Op[epsPairArgs]{
			Schema: "complete_box_iou(Tensor boxes1, Tensor boxes2, float eps=1e-07) -> Tensor",
			Names:  boxNames("complete_box_iou"),
			Doc: boxDoc("Intersections of boxes over their unions, less distance and difference "+
				"of shape",
				"iou - d^2/(c^2 + eps) - v*v/(1 - iou + v + eps), v = 4/pi^2 * (atan(w1/h1) - atan(w2/h2))^2",
				pairNotes+". The factor of the last v passes no gradient."),
			Exempt: stoppedGradient, Cases: epsPairCases,
		}, compose.Unfused, func(g *compose.Graph, a *epsPairArgs) compose.Values {
			p := widePair(g, a)
			iou := p.iou(g)
			return compose.Values{g.Sub(g.Sub(iou, p.distance(g, a.Eps)), aspect(g, p.a, p.b, iou, a.Eps))}
		}),
		opdef.Op[masksArgs]{
			Schema: "masks_to_boxes(Tensor masks) -> Tensor", Names: boxNames("masks_to_boxes"),
			Doc: boxDoc("The boxes around masks", "(x1, y1, x2, y2), the first and last column and "+
				"row "+
				"that are not all 0", "masks is (n, h, w). Boxes are float32; those of masks of zeros are 0."),
			Traits: opdef.Traits{NoGrad: "places have no gradient"},
			Exempt: map[string]string{"dtypes": "boxes are float32"},
			Kernel: maskBoxes,
			Cases: func(g opdef.Gen) (cs []*masksArgs) {
				return []*masksArgs{{g.Int(tensor.Bool, 0, 1, 3, 4, 5)}, {tensor.Full(tensor.Bool, []int{2, 3, 3},
					int64(0))},
					{g.Int(tensor.Uint8, 0, 1, 2, 3, 2)}, {tensor.Full(tensor.Float32, []int{0, 3, 3}, 0.0)}}
			},
		}.Entry(),
	}
}

// widePair is a pair in at least float32.
func widePair(g *compose.Graph, a *epsPairArgs) *pair {
	return newPair(g, upcast(g, g.Arg("boxes1", a.Boxes1)), upcast(g, g.Arg("boxes2", a.Boxes2)), "xyxy")
}

func epsPairCases(g opdef.Gen) []*epsPairArgs {
	return opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *epsPairArgs {
		x, y := apartBoxes(g, dt)
		return &epsPairArgs{x, y, 1e-3}
	})(g)
}

// someConversions are formats to convert from and to.
var someConversions = [][2]string{{"xywh", "xyxy"}, {"cxcywh", "xyxy"}, {"xyxy", "xywh"}, {"xyxy", "cxcywh"},
	{"xywh", "cxcywh"}, {"cxcywh", "xywh"}, {"xyxy", "xyxy"}, {"cxcywhr", "xywhr"}, {"xywhr", "cxcywhr"},
	{"cxcywhr", "xyxyxyxy"}, {"xyxyxyxy", "cxcywhr"}, {"xywhr", "xyxyxyxy"}, {"xyxyxyxy", "xywhr"}}

// converted are boxes in format to, from format from.
func converted(g *compose.Graph, x *compose.Value, from, to string) *compose.Value {
	if !slices.Contains(someConversions, [2]string{from, to}) && from != to {
		g.Refuse("out_fmt", "no boxes are converted from %q to %q", from, to)
	}
	if from == to {
		return g.Alias(x)
	}
	if slices.Contains(boxFormats, from) {
		c := corners(g, "boxes", x, from)
		switch to {
		case "xywh":
			return joined(g, c[0], c[1], g.Sub(c[2], c[0]), g.Sub(c[3], c[1]))
		case "cxcywh":
			return joined(g, half(g, g.Add(c[0], c[2])), half(g, g.Add(c[1], c[3])), g.Sub(c[2], c[0]), g.Sub(c[3],
				c[1]))
		}
		return joined(g, c...)
	}
	if !x.DType().IsFloat() {
		g.Unsupported("boxes", "turned boxes of integers are not supported")
	}
	if from == "xyxyxyxy" {
		c := columns(g, "boxes", x, 8)
		up, along := g.Sub(c[1], c[3]), g.Sub(c[2], c[0])
		degrees := g.Scale(g.Binary("", pointwise.Atan2, up, along), 180/math.Pi)
		side := func(x, y *compose.Value) *compose.Value { return g.Sqrt(g.Add(g.Square(x), g.Square(y))) }
		x = joined(g, c[0], c[1], side(along, up), side(g.Sub(c[4], c[2]), g.Sub(c[5], c[3])), degrees)
		from = "xywhr"
	}
	c := columns(g, "boxes", x, 5)
	if from == to {
		return x
	}
	angle := g.Scale(c[4], math.Pi/180)
	cos, sin := g.Cos(angle), g.Sin(angle)
	w, h := half(g, c[2]), half(g, c[3])
	if from == "cxcywhr" {
		c[0] = g.Sub(g.Sub(c[0], g.Mul(w, cos)), g.Mul(h, sin))
		c[1] = g.Add(g.Sub(c[1], g.Mul(h, cos)), g.Mul(w, sin))
	}
	switch to {
	case "cxcywhr":
		c[0] = g.Add(g.Add(c[0], g.Mul(w, cos)), g.Mul(h, sin))
		c[1] = g.Add(g.Sub(c[1], g.Mul(w, sin)), g.Mul(h, cos))
	case "xyxyxyxy":
		x2, y2 := g.Add(c[0], g.Mul(c[2], cos)), g.Sub(c[1], g.Mul(c[2], sin))
		right, down := g.Mul(c[3], sin), g.Mul(c[3], cos)
		return joined(g, c[0], c[1], x2, y2, g.Add(x2, right), g.Add(y2, down), g.Add(c[0], right), g.Add(c[1], down))
	}
	return joined(g, c...)
}

// maskBoxes are the boxes around masks.
func maskBoxes(a *masksArgs) ([]*tensor.Tensor, error) {
	if a.Masks.Numel() == 0 {
		return []*tensor.Tensor{tensor.Full(tensor.Float32, []int{0, 4}, 0.0)}, nil
	}
	if a.Masks.Dim() != 3 {
		return nil, opdef.Refuse("masks", "want (n, h, w), got %s", a.Masks.Meta())
	}
	n, h, w := a.Masks.Shape[0], a.Masks.Shape[1], a.Masks.Shape[2]
	set, out := tensor.Data[int64](opdef.Cast(a.Masks, tensor.Bool)), tensor.Make[float64](4*n)
	for i := range n {
		box, any := []int{w, h, 0, 0}, false
		for j, m := range set[i*h*w:][:h*w] {
			if m == 0 {
				continue
			}
			x, y := j%w, j/w
			box = []int{min(box[0], x), min(box[1], y), max(box[2], x), max(box[3], y)}
			any = true
		}
		if !any {
			continue
		}
		for k, v := range box {
			out[4*i+k] = float64(v)
		}
	}
	return []*tensor.Tensor{tensor.New(tensor.Float32, []int{n, 4}, out)}, nil
}
