// Package detection has operators of detectors that torch itself lacks:
// torchvision's boxes and their losses, suppression, pooling of regions, deformed convolution
// and focal loss.
package detection

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat([]*opdef.Entry{nms, batchedNMS, roiAlign, roiAlignList, roiAlignNative, sigmoidFocalLoss,
		deformConv, deformConvNative}, poolings("roi_pool", roiPoolDoc, nil, 2, poolRegions),
		poolings("ps_roi_pool", psPoolDoc, map[string]string{"gradients": "the gradient reaches pixels that the " +
			"result leaves " +
			"out"}, 8, meanRegions), psAligns(), boxes(), boxLosses(), npuBoxes(),
		[]*opdef.Entry{rotatedIoU, rotatedShared, nmsRotated, nmsV4})
}

type focalArgs struct {
	Inputs, Targets *tensor.Tensor
	Alpha, Gamma    float64
	Reduction       string
}

var sigmoidFocalLoss = compose.Declare(compose.Op[focalArgs]{
	Schema: "sigmoid_focal_loss(Tensor inputs, Tensor targets, float alpha=0.25, float gamma=2, " +
		"str reduction='none') -> Tensor",
	Names: "torchvision.ops.sigmoid_focal_loss torchvision.ops.focal_loss.sigmoid_focal_loss",
	Doc: opdef.Doc{Summary: "Cross entropy of logits that weights what is classified well down",
		Formula: "alpha_t * (1 - p_t)^gamma * BCE(inputs, targets), p_t = p*targets + (1-p)*(1-targets), p = " +
			"sigmoid(inputs)",
		Notes: "alpha_t is alpha*targets + (1-alpha)*(1-targets), or 1 if alpha is negative."},
	Cases: opdef.Calls[focalArgs](`
		f64[3, 4], f64[3, 4]{= 0 1 0 1 0 1 1 1 1 1 0 0}
		f64[3, 4], f64[3, 4]{= 1 1 0 1 1 0 1 0 1 0 0 1}, reduction='mean'
		f64[3, 4], f64[3, 4]{= 1 1 0 1 0 0 1 0 0 1 0 1}, reduction='sum'
		f32[3, 4], f32[3, 4]{= 0 1 1 1 0 0 0 0 1 0 1 1}
		f32[3, 4], f32[3, 4]{= 1 1 0 1 0 1 1 0 0 0 0 1}, reduction='mean'
		f32[3, 4], f32[3, 4]{= 1 0 1 0 1 0 1 0 0 0 0 1}, reduction='sum'
		bf16[3, 4], bf16[3, 4]{= 0 1 0 0 1 0 0 0 1 1 0 1}
		bf16[3, 4], bf16[3, 4]{= 1 1 1 1 0 1 0 0 0 0 0 0}, reduction='mean'
		bf16[3, 4], bf16[3, 4]{= 0 1 1 0 1 1 0 0 0 0 1 0}, reduction='sum'
		f64[5], f64[5]{0..1}, alpha=-1.0, gamma=1.5; f64[5], f64[5]{0..1}, alpha=0.75, gamma=0.0, reduction='mean'`),
}, compose.Unfused, func(g *compose.Graph, a *focalArgs) compose.Values {
	x, y := g.Arg("inputs", a.Inputs), g.Arg("targets", a.Targets)
	if !slices.Equal(x.Shape(), y.Shape()) {
		g.Refuse("targets", "want the shape of inputs %s, got %s", tensor.ShapeString(x.Shape()),
			tensor.ShapeString(y.Shape()))
	}
	one := func(v *compose.Value) *compose.Value { return g.Sub(g.Number(1), v) }
	mix := func(p, q *compose.Value) *compose.Value { return g.Add(g.Mul(p, y), g.Mul(q, one(y))) }
	p := g.Sigmoid(x)
	entropy := g.Add(g.Mul(one(y), x), g.Softplus(g.Neg(x)))
	loss := g.Mul(entropy, g.Pow(one(mix(p, one(p))), a.Gamma))
	if a.Alpha >= 0 {
		loss = g.Mul(g.Add(g.Scale(y, a.Alpha), g.Scale(one(y), 1-a.Alpha)), loss)
	}
	switch a.Reduction {
	case "none":
	case "mean":
		loss = g.Mean(loss, false)
	case "sum":
		loss = g.Sum(loss, false)
	default:
		g.Refuse("reduction", "want none, mean or sum, got %s", a.Reduction)
	}
	return compose.Values{loss}
})

type nmsArgs struct {
	Boxes, Scores *tensor.Tensor
	IouThreshold  float64
}

type batchedNMSArgs struct {
	Boxes, Scores, Idxs *tensor.Tensor
	IouThreshold        float64
}

// A suppression is a call of nms: scores of boxes and how much two of them overlap.
type suppression struct {
	scores         []float64
	limit          float64                // of overlaps
	overlap, doubt func(i, j int) float64 // the intersection of two boxes over their union, and what it is known to
	least          float64                // scores are larger
	most           int                    // boxes are kept, negative: all
}

// newSuppression is that of boxes (x1, y1, x2, y2) and their classes (nil: one).
func newSuppression(boxes, scores, classes *tensor.Tensor, limit float64) (*suppression, error) {
	s, err := newScored(boxes, scores, 4, limit)
	if err != nil {
		return nil, err
	}
	v, eps := tensor.Data[float64](boxes), boxes.DType.Eps()
	s.overlap = func(i, j int) float64 { return overlapOf(v[4*i:][:4], v[4*j:][:4]) }
	s.doubt = func(i, j int) float64 { return doubtOf(v[4*i:][:4], v[4*j:][:4], eps) }
	if classes != nil {
		if !slices.Equal(classes.Shape, scores.Shape) || classes.DType.Kind() != tensor.KindInt {
			return nil, opdef.Refuse("idxs", "want one integer for each of %d boxes, got %s", boxes.Shape[0],
				classes.Meta())
		}
		of := tensor.Data[int64](classes)
		s.overlap = func(i, j int) float64 {
			if of[i] != of[j] {
				return 0
			}
			return overlapOf(v[4*i:][:4], v[4*j:][:4])
		}
	}
	return s, nil
}

// newScored is a suppression of boxes of n numbers that knows nothing of overlaps yet.
func newScored(boxes, scores *tensor.Tensor, n int, limit float64) (*suppression, error) {
	if boxes.Dim() != 2 || boxes.Shape[1] != n || !boxes.DType.IsFloat() {
		return nil, opdef.Refuse("boxes", "want floating boxes of %d numbers, got %s", n, boxes.Meta())
	}
	if scores.Dim() != 1 || scores.Shape[0] != boxes.Shape[0] || scores.DType != boxes.DType {
		return nil, opdef.Refuse("scores", "want one %s for each of %d boxes, got %s", boxes.DType, boxes.Shape[0],
			scores.Meta())
	}
	return &suppression{scores: tensor.Data[float64](scores), limit: limit, least: math.Inf(-1), most: -1}, nil
}

// overlapOf is the intersection of two boxes over their union.
func overlapOf(a, b []float64) float64 {
	w, h := max(0, min(a[2], b[2])-max(a[0], b[0])), max(0, min(a[3], b[3])-max(a[1], b[1]))
	area := func(v []float64) float64 { return (v[2] - v[0]) * (v[3] - v[1]) }
	return w * h / (area(a) + area(b) - w*h)
}

// doubtOf is what an overlap is known to. It is a quotient of areas, products of
// differences of coordinates, in a dtype of that eps.
func doubtOf(a, b []float64, eps float64) float64 {
	spread := 1.0
	for _, v := range [2][]float64{a, b} {
		for d := range 2 {
			side := math.Abs(v[d+2] - v[d])
			spread = max(spread, max(math.Abs(v[d]), math.Abs(v[d+2]))/max(side, math.SmallestNonzeroFloat64))
		}
	}
	return 16 * eps * spread
}

// kept are the boxes that remain, in order of falling scores, ties in order.
func (s *suppression) kept() []int64 {
	order := make([]int, len(s.scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case s.scores[i] > s.scores[j]:
			return -1
		case s.scores[i] < s.scores[j]:
			return 1
		}
		return 0
	})
	kept := []int64{}
	for _, i := range order {
		if len(kept) == s.most || !(s.scores[i] > s.least) {
			break
		}
		if !slices.ContainsFunc(kept, func(k int64) bool { return s.overlap(int(k), i) > s.limit }) {
			kept = append(kept, int64(i))
		}
	}
	return kept
}

// sound says what is wrong with a choice of boxes, "" if it is what one with
// rounded overlaps and ties in any order may give.
func (s *suppression) sound(got []int64) string {
	in := map[int64]bool{}
	for n, k := range got {
		switch {
		case k < 0 || int(k) >= len(s.scores):
			return "an index is out of range"
		case !(s.scores[k] > s.least):
			return "a box is kept whose score is too low"
		case in[k]:
			return "a box is kept twice"
		case n > 0 && s.scores[k] > s.scores[got[n-1]]:
			return "the boxes are not in order of falling scores"
		}
		in[k] = true
		for _, j := range got[:n] {
			if s.overlap(int(j), int(k)) > s.limit+s.doubt(int(j), int(k)) {
				return "two boxes that are kept overlap"
			}
		}
	}
	if s.most >= 0 && len(got) > s.most {
		return "too many boxes are kept"
	}
	last := s.least // score of the last box that is kept
	if len(got) == s.most && s.most > 0 {
		last = s.scores[got[len(got)-1]]
	} else if s.most == 0 {
		last = math.Inf(1)
	}
	for i := range s.scores {
		if !in[int64(i)] && s.scores[i] > last && !slices.ContainsFunc(got, func(k int64) bool {
			return s.scores[k] >= s.scores[i] && s.overlap(int(k), i) >= s.limit-s.doubt(int(k), i)
		}) {
			return "a box is missing that overlaps none of those kept"
		}
	}
	return ""
}

// Accept decides on boxes kept that are not those of the reference.
func (s *suppression) Accept(got, _ []*tensor.Tensor) []opdef.Acceptance {
	if got[0].DType != tensor.Int64 || got[0].Dim() != 1 {
		return []opdef.Acceptance{{}}
	}
	return []opdef.Acceptance{s.judged(tensor.Data[int64](got[0]))}
}

func (s *suppression) judged(got []int64) opdef.Acceptance {
	problem := s.sound(got)
	return opdef.Acceptance{OK: problem == "", Rule: "overlap", Reason: problem}
}

func (s *suppression) result() ([]*tensor.Tensor, error) {
	kept := s.kept()
	return []*tensor.Tensor{tensor.New(tensor.Int64, []int{len(kept)}, kept)}, nil
}

const byIndices = "indices have no gradient"

var nms = opdef.Planned[*nmsArgs, *suppression]{
	Schema: "nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor",
	Names:  "torchvision.nms torchvision.ops.nms torchvision.ops.boxes.nms torch.ops.torchvision.nms",
	Doc: opdef.Doc{Summary: "Indices of the boxes that overlap none with a higher score",
		Formula: "in order of falling scores: kept unless intersection / union with one kept exceeds iou_threshold",
		Notes: "Boxes are (x1, y1, x2, y2). Of equal scores the first box comes first; any order is accepted, and " +
			"where as many boxes remain overlaps within rounding of the threshold.",
		Source: "torchvision.ops.nms"},
	Traits: opdef.Traits{NoGrad: byIndices},
	Plan: func(a *nmsArgs) (*suppression, error) {
		return newSuppression(a.Boxes, a.Scores, nil, a.IouThreshold)
	},
	Kernel: (*suppression).result,
	Cases: func(g opdef.Gen) (cs []*nmsArgs) {
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16} {
			for _, n := range []int{0, 1, 12} {
				boxes, scores := someBoxes(g, dt, n)
				cs = append(cs, &nmsArgs{boxes, scores, 0.3})
			}
		}
		return cs
	},
}.Entry()

var batchedNMS = opdef.Planned[*batchedNMSArgs, *suppression]{
	Schema: "batched_nms(Tensor boxes, Tensor scores, Tensor idxs, float iou_threshold) -> Tensor",
	Names:  "torchvision.ops.batched_nms torchvision.ops.boxes.batched_nms",
	Doc: opdef.Doc{Summary: "nms of the boxes of each class",
		Formula: "as nms, where boxes of different idxs do not overlap"},
	Traits: opdef.Traits{NoGrad: byIndices},
	Plan: func(a *batchedNMSArgs) (*suppression, error) {
		return newSuppression(a.Boxes, a.Scores, a.Idxs, a.IouThreshold)
	},
	Kernel: (*suppression).result,
	Cases: func(g opdef.Gen) (cs []*batchedNMSArgs) {
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
			boxes, scores := someBoxes(g, dt, 12)
			cs = append(cs, &batchedNMSArgs{boxes, scores, g.Int(tensor.Int64, 0, 2, 12), 0.3})
		}
		return cs
	},
}.Entry()

// someBoxes are n boxes of two corners each, which take no gradient, and scores.
func someBoxes(g opdef.Gen, dt tensor.DType, n int) (boxes, scores *tensor.Tensor) {
	v, s := tensor.Make[float64](4*n), tensor.Make[float64](n)
	for i := range n {
		x, y := 6*g.R.Float64(), 6*g.R.Float64()
		copy(v[4*i:], []float64{x, y, x + 1 + 4*g.R.Float64(), y + 1 + 4*g.R.Float64()})
		s[i] = g.R.Float64()
	}
	return tensor.New(dt, []int{n, 4}, v).Rounded(), tensor.New(dt, []int{n}, s).Rounded()
}
