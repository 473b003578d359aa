package detection

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type (
	rotatedIoUArgs struct {
		Self, QueryBoxes       *tensor.Tensor
		Trans                  bool
		Mode                   int
		IsCross                bool
		VThreshold, EThreshold float64
	}
	rotatedOverlapsArgs struct {
		Self, QueryBoxes *tensor.Tensor
		Trans            bool
	}
	nmsRotatedArgs struct {
		Self, Scores                  *tensor.Tensor
		IouThreshold, ScoresThreshold float64
		MaxOutputSize, Mode           int
	}
	nmsV4Args struct {
		Self, Scores                  *tensor.Tensor
		MaxOutputSize                 opdef.Scalar
		IouThreshold, ScoresThreshold *tensor.Tensor
		PadToMaxOutputSize            bool
	}
)

// A rectangle is one that was turned, its corners in order.
type rectangle struct {
	corners [][2]float64
	area    float64
	reach   float64 // how large the numbers are that it is computed from
}

// newRectangle is the box b: centre, or two corners before the turn, sides and degrees.
func newRectangle(b []float64, fromCorners bool) rectangle {
	x, y, w, h := b[0], b[1], b[2], b[3]
	if fromCorners {
		x, y, w, h = (b[0]+b[2])/2, (b[1]+b[3])/2, b[2]-b[0], b[3]-b[1]
	}
	sin, cos := math.Sincos(b[4] * math.Pi / 180)
	r := rectangle{area: w * h, reach: math.Abs(x) + math.Abs(y) + math.Abs(w) + math.Abs(h)}
	for _, c := range [4][2]float64{{-w / 2, -h / 2}, {w / 2, -h / 2}, {w / 2, h / 2}, {-w / 2, h / 2}} {
		r.corners = append(r.corners, [2]float64{x + c[0]*cos - c[1]*sin, y + c[0]*sin + c[1]*cos})
	}
	return r
}

// meet is the area that two rectangles share: what remains of one after it is cut along each
// side of the other (I. E. Sutherland, G. W. Hodgman, Reentrant Polygon Clipping, CACM 17, 1974).
func meet(r, other rectangle) float64 {
	if !(r.area > 0 && other.area > 0) {
		return 0
	}
	rest := r.corners
	for i, a := range other.corners {
		b := other.corners[(i+1)%4]
		inside := func(p [2]float64) float64 { return (b[0]-a[0])*(p[1]-a[1]) - (b[1]-a[1])*(p[0]-a[0]) }
		var next [][2]float64
		for j, p := range rest {
			q := rest[(j+1)%len(rest)]
			at, to := inside(p), inside(q)
			if at >= 0 {
				next = append(next, p)
			}
			if at > 0 && to < 0 || at < 0 && to > 0 {
				t := at / (at - to)
				next = append(next, [2]float64{p[0] + t*(q[0]-p[0]), p[1] + t*(q[1]-p[1])})
			}
		}
		rest = next
	}
	twice := 0.0
	for i, p := range rest {
		q := rest[(i+1)%len(rest)]
		twice += (p[0]-rest[0][0])*(q[1]-rest[0][1]) - (q[0]-rest[0][0])*(p[1]-rest[0][1])
	}
	return math.Abs(twice) / 2
}

// rotatedOverlaps are f of each box of each batch of boxes with each of queries.
func rotatedOverlaps(boxes, queries *tensor.Tensor, trans bool, dt tensor.DType, f func(a, b rectangle) float64) (
	*tensor.Tensor, error) {
	for i, t := range []*tensor.Tensor{boxes, queries} {
		if name := []string{"self", "query_boxes"}[i]; t.Dim() != 3 || t.Shape[2] != 5 || !t.DType.IsFloat() {
			return nil, opdef.Refuse(name, "want floating boxes (batch, n, 5), got %s", t.Meta())
		}
	}
	batch, n, m := boxes.Shape[0], boxes.Shape[1], queries.Shape[1]
	if queries.Shape[0] != batch {
		return nil, opdef.Refuse("query_boxes", "want %d batches, got %s", batch, queries.Meta())
	}
	of := func(t *tensor.Tensor) []rectangle {
		v := tensor.Data[float64](opdef.Cast(t, tensor.Float64))
		rs := make([]rectangle, 0, len(v)/5)
		for b := range slices.Chunk(v, 5) {
			rs = append(rs, newRectangle(b, trans))
		}
		return rs
	}
	left, right := of(boxes), of(queries)
	out := tensor.Make[float64](tensor.Numel([]int{batch, n, m}))
	for i := range out {
		out[i] = f(left[i/m], right[i/(n*m)*m+i%m])
	}
	return tensor.New(dt, []int{batch, n, m}, out), nil
}

// unionOf is the area of two rectangles, or, with mode 1, of the first.
func unionOf(a, b rectangle, mode int) float64 {
	if mode == 1 {
		return a.area
	}
	return a.area + b.area - meet(a, b)
}

// sharedError is what a shared area is proportional to, whose corners are known to a
// roundoff of the numbers that they are computed from.
func sharedError(a, b rectangle) float64 {
	return max(a.reach, b.reach) * (math.Sqrt(max(a.area, 0)) + math.Sqrt(max(b.area, 0)))
}

const rotatedNotes = "Boxes are (batch, n, 5): centre, width, height and degrees, or, with trans, two corners before the " +
	"turn and degrees. The result is (batch, n, m)."

func rotatedBoxes(g opdef.Gen, dt tensor.DType, n int) *tensor.Tensor {
	v := tensor.Make[float64](10 * n)
	for b := range slices.Chunk(v, 5) {
		copy(b, []float64{4 * g.R.Float64(), 4 * g.R.Float64(), 2 + 4*g.R.Float64(), 2 + 4*g.R.Float64(),
			360 * g.R.Float64()})
	}
	return tensor.New(dt, []int{2, n, 5}, v).Rounded()
}

var rotatedIoU = opdef.Op[rotatedIoUArgs]{
	Schema: "npu_rotated_iou(Tensor self, Tensor query_boxes, bool trans=False, int mode=0, bool is_cross=True, " +
		"float v_threshold=0.0, float e_threshold=0.0) -> Tensor",
	Names: npuNames("npu_rotated_iou"),
	Doc: boxDoc("Intersections of turned boxes over their unions", "i/(a + b - i), i the area "+
		"that both cover, a and b those of the boxes", rotatedNotes+" torch_npu documents neither the share of one "+
		"box (mode 1), nor thresholds, nor what is_cross changes: they are refused where they do not have their default."),
	Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 4},
	Traits: opdef.Traits{NoGrad: byForwardKernel},
	Kernel: func(a *rotatedIoUArgs) ([]*tensor.Tensor, error) {
		if a.Mode != 0 || !a.IsCross || a.VThreshold != 0 || a.EThreshold != 0 {
			return nil, opdef.Refuse("mode", "want mode 0, is_cross and no thresholds: torch_npu documents no formula of "+
				"others")
		}
		out, err := rotatedOverlaps(a.Self, a.QueryBoxes, a.Trans, a.Self.DType, func(a, b rectangle) float64 {
			return quotient(meet(a, b), unionOf(a, b, 0))
		})
		return []*tensor.Tensor{out}, err
	},
	Bounds: opdef.Bounds[*rotatedIoUArgs]{
		Scale: func(a *rotatedIoUArgs, _ []*tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{opdef.Must(rotatedOverlaps(a.Self, a.QueryBoxes, a.Trans, tensor.Float64,
				func(a, b rectangle) float64 { return quotient(2*sharedError(a, b), unionOf(a, b, 0)) }))}
		},
		Terms: func(*rotatedIoUArgs) int { return rotatedTerms },
	},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *rotatedIoUArgs {
		return &rotatedIoUArgs{rotatedBoxes(g, dt, 3), rotatedBoxes(g, dt, 2), g.Nth%2 == 1, 0, true, 0, 0}
	}),
}.Entry()

// rotatedTerms are the corners that an area is the sum of, at most.
const rotatedTerms = 8

// quotient is x/y, 0 of nothing.
func quotient(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x / y
}

var rotatedShared = opdef.Op[rotatedOverlapsArgs]{
	Schema: "npu_rotated_overlaps(Tensor self, Tensor query_boxes, bool trans=False) -> Tensor",
	Names:  npuNames("npu_rotated_overlaps"),
	Doc:    boxDoc("Areas that turned boxes share", "the area that both cover", rotatedNotes),
	Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 4},
	Traits: opdef.Traits{NoGrad: byForwardKernel},
	Kernel: func(a *rotatedOverlapsArgs) ([]*tensor.Tensor, error) {
		out, err := rotatedOverlaps(a.Self, a.QueryBoxes, a.Trans, a.Self.DType, meet)
		return []*tensor.Tensor{out}, err
	},
	Bounds: opdef.Bounds[*rotatedOverlapsArgs]{
		Scale: func(a *rotatedOverlapsArgs, _ []*tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{
				opdef.Must(rotatedOverlaps(a.Self, a.QueryBoxes, a.Trans, tensor.Float64, sharedError)),
			}
		},
		Terms: func(*rotatedOverlapsArgs) int { return rotatedTerms },
	},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *rotatedOverlapsArgs {
		return &rotatedOverlapsArgs{rotatedBoxes(g, dt, 3), rotatedBoxes(g, dt, 2), g.Nth%2 == 1}
	}),
}.Entry()

var nmsRotated = opdef.Planned[*nmsRotatedArgs, *counted]{
	Schema: "npu_nms_rotated(Tensor self, Tensor scores, float iou_threshold, float scores_threshold=0, " +
		"int max_output_size=-1, int mode=0) -> (Tensor, Tensor)",
	Names: npuNames("npu_nms_rotated"),
	Doc: boxDoc("Indices of the turned boxes that overlap none with a higher score, and how many",
		"in order of falling scores above scores_threshold: kept unless intersection / union with one kept exceeds "+
			"iou_threshold",
		"Boxes are (n, 5): centre, sides and degrees, or, with mode 1, two corners before the turn and degrees the "+
			"other way round. Any order of equal scores is accepted, and overlaps within rounding of the threshold."),
	Traits: opdef.Traits{NoGrad: byIndices},
	Plan: func(a *nmsRotatedArgs) (*counted, error) {
		s, err := newScored(a.Self, a.Scores, 5, a.IouThreshold)
		if err != nil {
			return nil, err
		}
		if a.Mode != 0 && a.Mode != 1 {
			return nil, opdef.Refuse("mode", "want 0 or 1, got %d", a.Mode)
		}
		s.least, s.most = a.ScoresThreshold, a.MaxOutputSize
		var boxes []rectangle
		for b := range slices.Chunk(tensor.Data[float64](a.Self), 5) {
			if a.Mode == 1 {
				b = append(slices.Clone(b[:4]), -b[4])
			}
			boxes = append(boxes, newRectangle(b, a.Mode == 1))
		}
		s.overlap = func(i, j int) float64 {
			return quotient(meet(boxes[i], boxes[j]), unionOf(boxes[i], boxes[j], 0))
		}
		s.doubt = func(i, j int) float64 {
			return 16 * tensor.Float32.Eps() * quotient(sharedError(boxes[i], boxes[j]), unionOf(boxes[i], boxes[j], 0))
		}
		return &counted{s}, nil
	},
	Kernel: func(s *counted) ([]*tensor.Tensor, error) {
		kept := s.kept()
		return []*tensor.Tensor{tensor.New(tensor.Int32, []int{len(kept)}, kept),
			tensor.New(tensor.Int32, []int{1}, []int64{int64(len(kept))})}, nil
	},
	Cases: func(g opdef.Gen) (cs []*nmsRotatedArgs) {
		for i, dt := range []tensor.DType{tensor.Float32, tensor.Float32, tensor.Float16, tensor.Float64} {
			boxes := rotatedBoxes(g, dt, 6).Reshape(12, 5)
			_, scores := someBoxes(g, dt, 12)
			cs = append(cs, &nmsRotatedArgs{boxes, scores, 0.3, 0.1 * float64(i%2), 4*(i%3) - 1, i / 2 % 2})
		}
		return cs
	},
}.Entry()

// A counted is a suppression that gives the number of boxes too.
type counted struct{ *suppression }

// Accept decides on boxes kept and their number.
func (s *counted) Accept(got, _ []*tensor.Tensor) []opdef.Acceptance {
	if got[0].DType != tensor.Int32 || got[0].Dim() != 1 {
		return []opdef.Acceptance{{}, {}}
	}
	return []opdef.Acceptance{s.judged(tensor.Data[int64](got[0])), counts(got[1], got[0].Shape[0])}
}

// counts decides on a number of boxes.
func counts(got *tensor.Tensor, n int) opdef.Acceptance {
	if v := tensor.Data[int64](got); len(v) != 1 || v[0] != int64(n) {
		return opdef.Acceptance{Rule: "overlap", Reason: "the number of boxes is not that of the indices"}
	}
	return opdef.Acceptance{OK: true, Rule: "overlap"}
}

var nmsV4 = opdef.Planned[*nmsV4Args, *padded]{
	Schema: "npu_nms_v4(Tensor self, Tensor scores, Scalar max_output_size, Tensor iou_threshold, " +
		"Tensor scores_threshold, bool pad_to_max_output_size=False) -> (Tensor, Tensor)",
	Names: npuNames("npu_nms_v4"),
	Doc: boxDoc("Indices of the boxes that overlap none with a higher score, max_output_size of them, "+
		"and how many count", "as nms, of scores above scores_threshold",
		"Boxes are two opposite corners. Indices behind those that count are 0; they are not compared."),
	Traits: opdef.Traits{NoGrad: byIndices},
	Plan: func(a *nmsV4Args) (*padded, error) {
		number := func(name string, t *tensor.Tensor) (float64, error) {
			if t.Numel() != 1 || !t.DType.IsFloat() {
				return 0, opdef.Refuse(name, "want one floating number, got %s", t.Meta())
			}
			return tensor.Data[float64](t)[0], nil
		}
		limit, err := number("iou_threshold", a.IouThreshold)
		if err != nil {
			return nil, err
		}
		sorted := a.Self
		if sorted.Dim() == 2 && sorted.Shape[1] == 4 && sorted.DType.IsFloat() {
			v := slices.Clone(tensor.Data[float64](sorted))
			for b := range slices.Chunk(v, 4) {
				b[0], b[1], b[2], b[3] = min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3])
			}
			sorted = tensor.New(sorted.DType, sorted.Shape, v)
		}
		s, err := newSuppression(sorted, a.Scores, nil, limit)
		if err != nil {
			return nil, err
		}
		if s.most = int(a.MaxOutputSize.Float64()); s.most < 0 || a.MaxOutputSize.Float64() > tensor.MaxElements {
			return nil, opdef.Refuse("max_output_size", "want a number of boxes, got %v", a.MaxOutputSize.Float64())
		}
		s.least, err = number("scores_threshold", a.ScoresThreshold)
		return &padded{s}, err
	},
	Kernel: func(s *padded) ([]*tensor.Tensor, error) {
		kept, out := s.kept(), tensor.Make[int64](s.most)
		copy(out, kept)
		return []*tensor.Tensor{tensor.New(tensor.Int32, []int{s.most}, out),
			tensor.New(tensor.Int32, nil, []int64{int64(len(kept))})}, nil
	},
	Cases: func(g opdef.Gen) (cs []*nmsV4Args) {
		one := func(x float64) *tensor.Tensor { return tensor.New(tensor.Float32, nil, []float64{x}) }
		for _, most := range []int64{3, 8, 20} {
			boxes, scores := someBoxes(g, tensor.Float32, 12)
			cs = append(cs, &nmsV4Args{boxes, scores, opdef.Int(most), one(0.3), one(0.2), most > 8})
		}
		return cs
	},
}.Entry()

// A padded is a suppression whose result has as many elements as boxes are kept at most, and says how many count.
type padded struct{ *suppression }

// Accept decides on boxes kept and their number.
func (s *padded) Accept(got, _ []*tensor.Tensor) []opdef.Acceptance {
	if got[0].DType != tensor.Int32 || got[1].DType != tensor.Int32 || got[0].Dim() != 1 || got[1].Numel() != 1 {
		return []opdef.Acceptance{{}, {}}
	}
	n := tensor.Data[int64](got[1])[0]
	if n < 0 || n > int64(got[0].Shape[0]) {
		return []opdef.Acceptance{{}, {Rule: "overlap", Reason: "more boxes count than there are"}}
	}
	a := s.judged(tensor.Data[int64](got[0])[:n])
	return []opdef.Acceptance{a, a}
}
