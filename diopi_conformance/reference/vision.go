package reference

import (
	"math"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// visionFunctions are those of torchvision.ops.
var visionFunctions = map[string]function{
	"sigmoid_focal_loss": sigmoidFocalLoss,
	"nms":                nms,
	"roi_align":          roiAlign,
}

// sigmoidFocalLoss is alpha_t (1-p_t)^gamma times the cross entropy.
//
// Source: torchvision.ops.sigmoid_focal_loss.
func sigmoidFocalLoss(t *Tape, a *arguments) value.Value {
	x, y := a.tensor("inputs"), a.tensor("targets")
	alpha, gamma := 0.25, 2.0
	if a.has("alpha") {
		alpha = a.float("alpha")
	}
	if a.has("gamma") {
		gamma = a.float("gamma")
	}
	one := func(v *tensor.Tensor) *tensor.Tensor { return t.op("torch.rsub", v, int64(1)) }
	mix := func(p, q *tensor.Tensor) *tensor.Tensor {
		return t.op("torch.add", t.op("torch.mul", p, y), t.op("torch.mul", q, one(y)))
	}
	p := t.op("torch.sigmoid", x)
	entropy := t.opWith("torch.nn.functional.binary_cross_entropy_with_logits", keywords{"reduction": "none"}, x, y)
	loss := t.op("torch.mul", entropy, t.op("torch.pow", one(mix(p, one(p))), gamma))
	if alpha >= 0 {
		share := t.op("torch.add", t.op("torch.mul", y, alpha), t.op("torch.mul", one(y), 1-alpha))
		loss = t.op("torch.mul", share, loss)
	}
	switch reduction, _ := a.value("reduction").(string); reduction {
	case "mean", "sum":
		return t.op("torch."+reduction, loss)
	}
	return loss
}

// nms keeps boxes (x1, y1, x2, y2) in order of falling scores that overlap no
// kept one by more than iou_threshold; it returns their indices.
func nms(t *Tape, a *arguments) value.Value {
	boxes, scores, limit := a.tensor("boxes"), tensor.Data[float64](a.tensor("scores")), a.float("iou_threshold")
	if boxes.Dim() != 2 || boxes.Shape[1] != 4 || boxes.Shape[0] != len(scores) {
		t.fail("argument boxes: want %d rows of 4, got shape %s", len(scores), tensor.ShapeString(boxes.Shape))
		return nil
	}
	b := tensor.Data[float64](boxes)
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case scores[i] > scores[j]:
			return -1
		case scores[i] < scores[j]:
			return 1
		}
		return 0
	})
	area := func(i int) float64 { return (b[4*i+2] - b[4*i]) * (b[4*i+3] - b[4*i+1]) }
	kept := []int64{}
next:
	for _, i := range order {
		for _, k := range kept {
			j := int(k)
			w := math.Max(0, math.Min(b[4*i+2], b[4*j+2])-math.Max(b[4*i], b[4*j]))
			h := math.Max(0, math.Min(b[4*i+3], b[4*j+3])-math.Max(b[4*i+1], b[4*j+1]))
			if w*h/(area(i)+area(j)-w*h) > limit {
				continue next
			}
		}
		kept = append(kept, int64(i))
	}
	return tensor.New(tensor.Int64, []int{len(kept)}, kept)
}

// roiAlign samples each region on a grid of bins, every bin at several points
// by bilinear interpolation. For each region that is a product with a matrix
// of weights, [height*width, bins].
//
// Source: torchvision.ops.roi_align.
func roiAlign(t *Tape, a *arguments) value.Value {
	x, rois := a.tensor("input"), a.tensor("boxes")
	size := a.ints("output_size")
	if len(size) == 1 {
		size = append(size, size[0])
	}
	if x.Dim() != 4 || rois.Dim() != 2 || rois.Shape[1] != 5 || len(size) != 2 {
		t.fail("want input of rank 4, boxes of [n, 5] and two output sizes, got %s, %s and %v", x.Meta(),
			rois.Meta(), size)
		return nil
	}
	g := grid{height: x.Shape[2], width: x.Shape[3], rows: size[0], cols: size[1], scale: 1, aligned: a.bool("aligned"),
		samples: -1}
	if a.has("spatial_scale") {
		g.scale = a.float("spatial_scale")
	}
	if a.has("sampling_ratio") {
		g.samples = a.int("sampling_ratio")
	}
	boxes := tensor.Data[float64](rois)
	parts := value.NewList()
	for r := range rois.Shape[0] {
		box := boxes[5*r:][:5]
		if !inRange(t, "boxes", int(box[0]), x.Shape[0]) {
			return nil
		}
		plane := t.op("torch.reshape", t.op("torch.select", x, number(0), number(int(box[0]))),
			sizes(x.Shape[1], g.height*g.width))
		weights := tensor.New(x.DType, []int{g.height * g.width, g.rows * g.cols}, g.weights([4]float64(box[1:])))
		parts.Items = append(parts.Items, t.op("torch.reshape", t.op("torch.matmul", plane, weights),
			sizes(x.Shape[1], g.rows, g.cols)))
	}
	if len(parts.Items) == 0 {
		return tensor.Full(x.DType, []int{0, x.Shape[1], g.rows, g.cols}, 0.0)
	}
	return t.op("torch.stack", parts)
}

// A grid is the way a region is sampled.
type grid struct {
	height, width int // of the input
	rows, cols    int // bins
	samples       int // per bin and dimension; 0 or less: as many as fit
	scale         float64
	aligned       bool // pixel centres lie at half-integers
}

// weights returns the matrix that makes bins of the pixels for a region (x1,
// y1, x2, y2).
func (g grid) weights(box [4]float64) []float64 {
	offset := 0.0
	if g.aligned {
		offset = 0.5
	}
	x1, y1 := box[0]*g.scale-offset, box[1]*g.scale-offset
	w, h := box[2]*g.scale-offset-x1, box[3]*g.scale-offset-y1
	if !g.aligned {
		w, h = math.Max(w, 1), math.Max(h, 1)
	}
	binH, binW := h/float64(g.rows), w/float64(g.cols)
	ny, nx := g.samples, g.samples
	if g.samples <= 0 {
		ny, nx = int(math.Ceil(binH)), int(math.Ceil(binW))
	}
	count := math.Max(float64(ny*nx), 1)
	bins := g.rows * g.cols
	out := make([]float64, g.height*g.width*bins)
	for p := range g.rows {
		for q := range g.cols {
			for i := range ny {
				for j := range nx {
					y := y1 + float64(p)*binH + (float64(i)+0.5)*binH/float64(ny)
					x := x1 + float64(q)*binW + (float64(j)+0.5)*binW/float64(nx)
					g.sample(y, x, func(pixel int, weight float64) { out[pixel*bins+p*g.cols+q] += weight / count })
				}
			}
		}
	}
	return out
}

// sample gives the pixels around a point with their bilinear weights; points
// more than one pixel outside have none.
func (g grid) sample(y, x float64, add func(pixel int, weight float64)) {
	if y < -1 || y > float64(g.height) || x < -1 || x > float64(g.width) {
		return
	}
	yl, yh, fy := neighbours(y, g.height)
	xl, xh, fx := neighbours(x, g.width)
	add(yl*g.width+xl, (1-fy)*(1-fx))
	add(yl*g.width+xh, (1-fy)*fx)
	add(yh*g.width+xl, fy*(1-fx))
	add(yh*g.width+xh, fy*fx)
}

func neighbours(v float64, n int) (lo, hi int, frac float64) {
	v = math.Max(v, 0)
	if lo = int(v); lo >= n-1 {
		return n - 1, n - 1, 0
	}
	return lo, lo + 1, v - float64(lo)
}
