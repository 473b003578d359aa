package detection

import (
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type boxLossArgs struct {
	Boxes1, Boxes2 *tensor.Tensor
	Reduction      string
	Eps            float64
}

// An overlap is what losses see of two boxes each: corners, intersection over union, union.
type overlap struct {
	a, b       []*compose.Value // x1, y1, x2, y2
	iou, union *compose.Value
}

// newOverlap is that of boxes of one shape, computed in at least float32.
func newOverlap(g *compose.Graph, x, y *compose.Value, eps float64) *overlap {
	if !slices.Equal(x.Shape(), y.Shape()) || x.DType().Kind() == tensor.KindComplex {
		g.Refuse("boxes2", "want the shape of boxes1 %s, got %s", x.T.Meta(), y.T.Meta())
	}
	wide := func(x *compose.Value) *compose.Value {
		if !x.DType().IsFloat() || x.DType().IsReduced() {
			return g.To(x, tensor.Float32)
		}
		return x
	}
	o := &overlap{a: columns(g, "boxes1", wide(x), 4), b: columns(g, "boxes2", wide(y), 4)}
	w := g.Sub(g.Minimum(o.a[2], o.b[2]), g.Maximum(o.a[0], o.b[0]))
	h := g.Sub(g.Minimum(o.a[3], o.b[3]), g.Maximum(o.a[1], o.b[1]))
	meet := opdef.Zip(tensor.Bool, w.T, h.T, func(w, h float64) int64 {
		if w > 0 && h > 0 {
			return 1
		}
		return 0
	})
	inter := g.Where(meet, g.Mul(w, h), g.Full(w.DType(), nil, 0))
	size := func(c []*compose.Value) *compose.Value { return g.Mul(g.Sub(c[2], c[0]), g.Sub(c[3], c[1])) }
	o.union = g.Sub(g.Add(size(o.a), size(o.b)), inter)
	o.iou = g.Div(inter, g.Shift(o.union, eps))
	return o
}

// around are the sides of the smallest box around both.
func (o *overlap) around(g *compose.Graph) (w, h *compose.Value) {
	side := func(axis int) *compose.Value {
		return g.Sub(g.Maximum(o.a[axis+2], o.b[axis+2]), g.Minimum(o.a[axis], o.b[axis]))
	}
	return side(0), side(1)
}

// distance is the loss of boxes that overlap little and lie apart.
func (o *overlap) distance(g *compose.Graph, eps float64) *compose.Value {
	w, h := o.around(g)
	diagonal := g.Shift(g.Add(g.Square(w), g.Square(h)), eps)
	between := func(axis int) *compose.Value {
		return g.Square(g.Sub(half(g, g.Add(o.a[axis+2], o.a[axis])), half(g, g.Add(o.b[axis], o.b[axis+2]))))
	}
	return g.Add(g.Sub(g.Number(1), o.iou), g.Div(g.Add(between(0), between(1)), diagonal))
}

// reduced is the loss of each box, their sum or their mean, 0 of none.
func reduced(g *compose.Graph, loss *compose.Value, how string) *compose.Value {
	switch {
	case how == "sum", how == "mean" && loss.T.Numel() == 0:
		return g.Sum(loss, false)
	case how == "mean":
		return g.Mean(loss, false)
	case how != "none":
		g.Refuse("reduction", "want none, mean or sum, got %s", how)
	}
	return loss
}

// boxLoss declares a loss of boxes.
func boxLoss(name, module, summary, formula string, exempt map[string]string, of func(g *compose.Graph, x,
	y *compose.Value,
	eps float64) *compose.Value) *opdef.Entry {
	return compose.Declare(compose.Op[boxLossArgs]{
		Schema: name + "(Tensor boxes1, Tensor boxes2, str reduction='none', float eps=1e-07) -> Tensor",
		Names:  "torchvision.ops." + name + " torchvision.ops." + module + "." + name,
		Doc: boxDoc(summary, formula, "Boxes are (..., x1, y1, x2, y2), compared in order. 16-bit boxes are "+
			"computed in float32, which the loss has."),
		Exempt: exempt,
		Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *boxLossArgs {
			x, _ := someBoxes(g, dt, 6)
			y, _ := someBoxes(g, dt, 6)
			x.RequiresGrad, y.RequiresGrad = true, true
			return &boxLossArgs{x, y, []string{"none", "mean", "sum"}[g.Nth%3], 1e-3}
		}),
	}, compose.Unfused, func(g *compose.Graph, a *boxLossArgs) compose.Values {
		return compose.Values{reduced(g, of(g, g.Arg("boxes1", a.Boxes1), g.Arg("boxes2", a.Boxes2), a.Eps),
			a.Reduction)}
	})
}

// usualEps is the eps that complete_box_iou_loss hands on to the distance, whatever its own is.
const usualEps = 1e-7

func boxLosses() []*opdef.Entry {
	return []*opdef.Entry{
		boxLoss("generalized_box_iou_loss", "giou_loss", "How little boxes overlap, by the box around them",
			"1 - iou + (a - union)/(a + eps), a the area of the smallest box around both, iou = intersection/(union "+
				"+ eps)",
			boxDTypes, func(g *compose.Graph, x, y *compose.Value, eps float64) *compose.Value {
				o := newOverlap(g, x, y, eps)
				w, h := o.around(g)
				all := g.Mul(w, h)
				// 1 - x has one operand in torch.
				return g.AsOne(func(in []*compose.Value) *compose.Value { return g.Sub(g.Number(1), in[0]) },
					g.Sub(o.iou, g.Div(g.Sub(all, o.union), g.Shift(all, eps))))
			}),
		boxLoss("distance_box_iou_loss", "diou_loss", "How little boxes overlap, and their distance",
			"1 - iou + d^2/(c^2 + eps), d between the centres, c the diagonal of the smallest box around both",
			boxDTypes, func(g *compose.Graph, x, y *compose.Value, eps float64) *compose.Value {
				return newOverlap(g, x, y, eps).distance(g, eps)
			}),
		boxLoss("complete_box_iou_loss", "ciou_loss", "How little boxes overlap, their distance and difference of "+
			"shape",
			"1 - iou + d^2/(c^2 + 1e-7) + v*v/(1 - iou + v + eps), v = 4/pi^2 * (atan(w2/h2) - atan(w1/h1))^2",

			stoppedGradient, func(g *compose.Graph, x, y *compose.Value, eps float64) *compose.Value {
				o := newOverlap(g, x, y, usualEps)
				return g.Add(o.distance(g, usualEps), aspect(g, o.b, o.a, o.iou, eps))
			}),
	}
}
