package detection

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// npuNames are those of a function of torch_npu's.
func npuNames(name string) string { return "torch_npu." + name + " torch.ops.npu." + name }

type (
	npuIoUArgs struct {
		Bboxes, Gtboxes *tensor.Tensor
		Mode            int
	}
	npuOverlapArgs struct {
		Self, Gtboxes  *tensor.Tensor
		Trans, IsCross bool
		Mode           int
	}
	npuCIoUArgs struct {
		Self, Gtboxes  *tensor.Tensor
		Trans, IsCross bool
		Mode           int
		AtanSubFlag    bool
	}
	npuEncodeArgs struct {
		AnchorBox, GroundTruthBox      *tensor.Tensor
		Means0, Means1, Means2, Means3 float64
		Stds0, Stds1, Stds2, Stds3     float64
	}
	npuDecodeArgs struct {
		Rois, Deltas                   *tensor.Tensor
		Means0, Means1, Means2, Means3 float64
		Stds0, Stds1, Stds2, Stds3     float64
		MaxShape                       []int
		WhRatioClip                    float64
	}
)

// npuSide is what the kernel of npu_iou adds to the sides of boxes.
const npuSide = 0.01

// byForwardKernel is why a function of torch_npu's has no gradient.
const byForwardKernel = "torch_npu has no gradient of it"

// halfSteps is why values of wider dtypes are not those of float64.
var halfSteps = map[string]string{"dtypes": "computed in float16 whatever the dtype"}

// npuPair are boxes (4, n) and (4, m), n being m: one by one, [1, n], or, crossed, each with
// each, [m, n].
func npuPair(g *compose.Graph, a *npuOverlapArgs) *pair {
	if a.Mode != 0 {
		g.Refuse("mode", "want 0, got %d: torch_npu documents no formula for the share of one box", a.Mode)
	}
	p := &pair{}
	areas := make([]*compose.Value, 2)
	for i, name := range []string{"self", "gtboxes"} {
		x := g.Arg(name, []*tensor.Tensor{a.Self, a.Gtboxes}[i])
		if x.Dim() != 2 || x.Shape()[0] != 4 || !x.DType().IsFloat() {
			g.Refuse(name, "want floating boxes (4, n), got %s", x.T.Meta())
		}
		x = g.Transpose(g.AtLeast(x, tensor.Float32), 0, 1)
		format, dim := "xyxy", 0
		if a.Trans {
			format = "cxcywh"
		}
		if i == 1 && a.IsCross {
			dim = -1
		}
		c := corners(g, name, x, format)
		for j := range c {
			c[j] = g.Unsqueeze(c[j], dim)
		}
		areas[i] = g.Unsqueeze(area(g, name, x, format), dim)
		if p.b = c; i == 0 {
			p.a = c
		}
	}
	if n, m := a.Self.Shape[1], a.Gtboxes.Shape[1]; n != m && !a.IsCross {
		g.Refuse("gtboxes", "want as many boxes as self has, %d, got %d", n, m)
	}
	p.inter = g.Mul(p.span(g, 0, g.Maximum, g.Minimum), p.span(g, 1, g.Maximum, g.Minimum))
	p.union = g.Sub(g.Add(areas[0], areas[1]), p.inter)
	return p
}

const npuPairNotes = "Boxes are (4, n): x1, y1, x2, y2, or centre, width and height with trans. "

const npuPairShape = "The result is (1, n), with is_cross (boxes of gtboxes, boxes of self)."

// npuOverlapCases are cases of the functions of two sets of boxes.
func npuOverlapCases(g opdef.Gen) []*npuOverlapArgs {
	i := 0
	return opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *npuOverlapArgs {
		i++
		boxes := func(n int) *tensor.Tensor {
			x, _ := someBoxes(g, dt, n)
			x = tensor.New(dt, []int{4, n}, tensor.Data[float64](x.Transpose(0, 1)))
			x.RequiresGrad = true
			return x
		}
		return &npuOverlapArgs{boxes(3), boxes(3), i%2 == 0, i%3 == 0, 0}
	})(g)
}

func npuBoxes() []*opdef.Entry {
	iou := func(name string) *opdef.Entry {
		return compose.Declare(compose.Op[npuIoUArgs]{
			Schema: name + "(Tensor bboxes, Tensor gtboxes, int mode=0) -> Tensor", Names: npuNames(name),
			Doc: boxDoc("Intersections of boxes over their unions", "i/(a + b - i), with mode 1 i/b; i the "+
				"area of the intersection, a and b those of boxes of bboxes and gtboxes, 0.01 added to both sides",
				"Boxes are (x1, y1, x2, y2). The result is (boxes of gtboxes, boxes of bboxes). This is what Ascend "+
					"910 computes, in float16; Ascend 950 adds 0.01 to the sides of the intersection too."),
			Traits: opdef.Traits{NoGrad: byForwardKernel},
			Exempt: halfSteps,
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *npuIoUArgs {
				x, y := apartBoxes(g, dt)
				return &npuIoUArgs{x, y, g.Nth % 2}
			}),
		}, compose.Fused, func(g *compose.Graph, a *npuIoUArgs) compose.Values {
			x, y := g.To(g.Arg("bboxes", a.Bboxes), tensor.Float16), g.To(g.Arg("gtboxes", a.Gtboxes), tensor.Float16)
			if a.Mode != 0 && a.Mode != 1 {
				g.Refuse("mode", "want 0 or 1, got %d", a.Mode)
			}
			p := &pair{a: columns(g, "bboxes", x, 4), b: columns(g, "gtboxes", y, 4)}
			size := func(c []*compose.Value) *compose.Value {
				return g.Mul(g.Shift(g.Sub(c[2], c[0]), npuSide), g.Shift(g.Sub(c[3], c[1]), npuSide))
			}
			for i := range p.b {
				p.b[i] = g.Unsqueeze(p.b[i], -1)
			}
			side := func(axis int) *compose.Value {
				return atLeast0(g, g.Sub(g.Minimum(p.a[axis+2], p.b[axis+2]), g.Maximum(p.a[axis], p.b[axis])))
			}
			inter, whole := g.Mul(side(0), side(1)), size(p.b)
			if a.Mode == 0 {
				whole = g.Sub(g.Add(size(p.a), whole), inter)
			}
			return compose.Values{g.To(g.Div(inter, whole), a.Bboxes.DType)}
		})
	}
	return []*opdef.Entry{iou("npu_iou"), iou("npu_ptiou"),
		compose.Declare(compose.Op[npuOverlapArgs]{
			Schema: "npu_giou(Tensor self, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> Tensor",
			Names:  npuNames("npu_giou"),
			Doc: boxDoc("Intersections of boxes over their unions, less the share of what lies around both",
				"iou - (c - union)/c, c the area of the smallest box around both",
				npuPairNotes+"The result is (n, 1), with is_cross (boxes of self, boxes of gtboxes)."),
			Cases: npuOverlapCases,
		}, compose.Fused, func(g *compose.Graph, a *npuOverlapArgs) compose.Values {
			p := npuPair(g, a)
			around := g.Mul(p.span(g, 0, g.Minimum, g.Maximum), p.span(g, 1, g.Minimum, g.Maximum))
			y := g.Sub(p.iou(g), g.Div(g.Sub(around, p.union), around))
			return compose.Values{g.To(g.Transpose(y, 0, 1), a.Self.DType)}
		}),
		compose.Declare(compose.Op[npuOverlapArgs]{
			Schema: "npu_diou(Tensor self, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> Tensor",
			Names:  npuNames("npu_diou"),
			Doc: boxDoc("Intersections of boxes over their unions, less their distance",
				"iou - d^2/(c^2 + 1e-9), d between the centres, c the diagonal of the smallest box around both",
				npuPairNotes+npuPairShape),
			Cases: npuOverlapCases,
		}, compose.Fused, func(g *compose.Graph, a *npuOverlapArgs) compose.Values {
			p := npuPair(g, a)
			return compose.Values{g.To(g.Sub(p.iou(g), p.distance(g, 1e-9)), a.Self.DType)}
		}),
		compose.Declare(compose.Op[npuCIoUArgs]{
			Schema: "npu_ciou(Tensor self, Tensor gtboxes, bool trans=False, bool is_cross=True, int mode=0, " +
				"bool atan_sub_flag=False) -> Tensor",
			Names: npuNames("npu_ciou"),
			Doc: boxDoc("Intersections of boxes over their unions, less distance and difference of shape",
				"iou - d^2/(c^2 + 1e-9) - v*v/(1 - iou + v + 1e-9), v = 4/pi^2 * (atan(w1/h1) - atan(w2/h2))^2",
				npuPairNotes+npuPairShape+" The factor of the last v passes no gradient. atan_sub_flag changes no value."),
			Exempt: map[string]string{"gradients": stoppedGradient["gradients"]},
			Cases: func(g opdef.Gen) (cs []*npuCIoUArgs) {
				for i, a := range npuOverlapCases(g) {
					cs = append(cs, &npuCIoUArgs{a.Self, a.Gtboxes, a.Trans, a.IsCross, a.Mode, i%2 == 0})
				}
				return cs
			},
		}, compose.Fused, func(g *compose.Graph, a *npuCIoUArgs) compose.Values {
			p := npuPair(g, &npuOverlapArgs{a.Self, a.Gtboxes, a.Trans, a.IsCross, a.Mode})
			iou := p.iou(g)
			y := g.Sub(g.Sub(iou, p.distance(g, 1e-9)), aspect(g, p.a, p.b, iou, 1e-9))
			return compose.Values{g.To(y, a.Self.DType)}
		}),
		compose.Declare(compose.Op[npuEncodeArgs]{
			Schema: "npu_bounding_box_encode(Tensor anchor_box, Tensor ground_truth_box, float means0, float means1, " +
				"float means2, float means3, float stds0, float stds1, float stds2, float stds3) -> Tensor",
			Names: npuNames("npu_bounding_box_encode"),
			Doc: boxDoc("What moves anchors to boxes",
				"((gx - ax)/aw, (gy - ay)/ah, log(gw/aw), log(gh/ah)), less means, over stds; x and y are centres, "+
					"w = x2 - x1 + 1", "Boxes are (n, 4): x1, y1, x2, y2. Computed in float16."),
			Traits: opdef.Traits{NoGrad: byForwardKernel},
			Exempt: halfSteps,
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *npuEncodeArgs {
				x, _ := someBoxes(g, dt, 3)
				y, _ := someBoxes(g, dt, 3)
				return &npuEncodeArgs{x, y, 0, 0.1, 0, -0.1, 0.1, 0.1, 0.2, 0.2}
			}),
		}, compose.Fused, func(g *compose.Graph, a *npuEncodeArgs) compose.Values {
			x, y := g.Arg("anchor_box", a.AnchorBox), g.Arg("ground_truth_box", a.GroundTruthBox)
			sameBoxes(g, "ground_truth_box", x, y)
			from, to := centred(g, "anchor_box", g.To(x, tensor.Float16)),
				centred(g, "ground_truth_box", g.To(y, tensor.Float16))
			stds := []float64{a.Stds0, a.Stds1, a.Stds2, a.Stds3}
			out := make([]*compose.Value, 4)
			for i, mean := range []float64{a.Means0, a.Means1, a.Means2, a.Means3} {
				if out[i] = g.Div(g.Sub(to[i], from[i]), from[i%2+2]); i > 1 {
					out[i] = g.Log(g.Div(to[i], from[i]))
				}
				out[i] = g.Scale(g.Shift(out[i], -mean), 1/stds[i])
			}
			return compose.Values{g.To(g.Stack(1, out...), x.DType())}
		}),
		compose.Declare(compose.Op[npuDecodeArgs]{
			Schema: "npu_bounding_box_decode(Tensor rois, Tensor deltas, float means0, float means1, float means2, " +
				"float means3, float stds0, float stds1, float stds2, float stds3, int[2] max_shape, " +
				"float wh_ratio_clip) -> Tensor",
			Names: npuNames("npu_bounding_box_decode"),
			Doc: boxDoc("Boxes that anchors are moved to",
				"centres x + w*dx and sides w*exp(dw), of deltas*stds + means, dw within |log(wh_ratio_clip)|; "+
					"corners within max_shape",
				"Boxes are (n, 4): x1, y1, x2, y2, w = x2 - x1 + 1, max_shape is (height, width)."),
			Traits: opdef.Traits{NoGrad: byForwardKernel},
			Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *npuDecodeArgs {
				x, _ := someBoxes(g, dt, 3)
				return &npuDecodeArgs{x, g.Uniform(dt, -1, 1, 3, 4), 0, 0.1, 0, -0.1, 1, 1, 0.5, 2,
					[]int{9, 11}, 0.25}
			}),
		}, compose.Fused, func(g *compose.Graph, a *npuDecodeArgs) compose.Values {
			x, d := g.Arg("rois", a.Rois), g.Arg("deltas", a.Deltas)
			sameBoxes(g, "deltas", x, d)
			if len(a.MaxShape) != 2 || !(a.WhRatioClip > 0) {
				g.Refuse("max_shape", "want a height, a width and a positive wh_ratio_clip, got %v and %g", a.MaxShape,
					a.WhRatioClip)
			}
			from := centred(g, "rois", g.AtLeast(x, tensor.Float32))
			move := columns(g, "deltas", g.AtLeast(d, tensor.Float32), 4)
			stds := []float64{a.Stds0, a.Stds1, a.Stds2, a.Stds3}
			for i, mean := range []float64{a.Means0, a.Means1, a.Means2, a.Means3} {
				move[i] = g.Shift(g.Scale(move[i], stds[i]), mean)
			}
			most := math.Abs(math.Log(a.WhRatioClip))
			out := make([]*compose.Value, 4)
			for axis := range 2 {
				centre := g.Add(from[axis], g.Mul(from[axis+2], move[axis]))
				reach := g.Shift(g.Scale(g.Mul(from[axis+2], g.Exp(g.Clamp(move[axis+2], -most, most))), 0.5), -0.5)
				within := func(v *compose.Value) *compose.Value { return g.Clamp(v, 0, float64(a.MaxShape[1-axis]-1)) }
				out[axis], out[axis+2] = within(g.Sub(centre, reach)), within(g.Add(centre, reach))
			}
			return compose.Values{g.To(g.Stack(1, out...), x.DType())}
		}),
	}
}

// sameBoxes refuses two sets that are not as many boxes.
func sameBoxes(g *compose.Graph, name string, x, y *compose.Value) {
	if x.Dim() != 2 || !slices.Equal(x.Shape(), y.Shape()) || !x.DType().IsFloat() || x.DType() != y.DType() {
		g.Refuse(name, "want floating boxes (n, 4) of both, got %s and %s", x.T.Meta(), y.T.Meta())
	}
}

// centred are the centres and sides of boxes, whose last row and column of pixels count.
func centred(g *compose.Graph, name string, x *compose.Value) []*compose.Value {
	c := columns(g, name, x, 4)
	side := func(i int) *compose.Value { return g.Shift(g.Sub(c[i+2], c[i]), 1) }
	return []*compose.Value{half(g, g.Add(c[0], c[2])), half(g, g.Add(c[1], c[3])), side(0), side(1)}
}
