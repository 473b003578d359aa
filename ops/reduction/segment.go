package reduction

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// segmentOps reduce runs of elements of unequal length: segments given by their
// lengths, bins given by their edges. broadcast_shapes is a function of shapes.
var segmentOps = []*opdef.Entry{
	segmentReduceOp,
}

type segmentReduceArgs struct {
	Data                      *tensor.Tensor
	Reduce                    string
	Lengths, Indices, Offsets *tensor.Tensor
	Axis                      int
	Unsafe                    bool
	Initial                   *opdef.Scalar
}

// Segments are runs along a dimension: of every outer row, count runs that
// start and end at bounds.
type segments struct {
	*segmentReduceArgs
	outer, n, inner, count int
	bounds                 [][2]int // of row and segment
	shape                  []int
	initial                float64
}

func (a *segmentReduceArgs) plan() (*segments, error) {
	x := a.Data
	if !x.DType.IsFloat() {
		return nil, opdef.Refuse("data", "want a floating dtype, got %s", x.DType)
	}
	if x.Numel() == 0 {
		return nil, opdef.Refuse("data", "want elements, got shape %s", tensor.ShapeString(x.Shape))
	}
	if x.Dim() == 0 {
		return nil, opdef.Refuse("data", "want at least one dimension")
	}
	axis, err := opdef.Dim("axis", a.Axis, x.Dim())
	if err != nil {
		return nil, err
	}
	s := &segments{segmentReduceArgs: a}
	switch a.Reduce {
	case "sum", "mean":
	case "prod":
		s.initial = 1
	case "max":
		s.initial = math.Inf(-1)
	case "min":
		s.initial = math.Inf(1)
	default:
		return nil, opdef.Refuse("reduce", "want sum, mean, max, min or prod, got %q", a.Reduce)
	}
	if a.Initial != nil {
		s.initial = a.Initial.Float64()
	}
	if err := s.setBounds(axis); err != nil {
		return nil, err
	}
	s.shape = append(append(slices.Clone(x.Shape[:axis]), s.count), x.Shape[axis+1:]...)
	return s, nil
}

// setBounds finds where segments along a dimension begin and end.
func (s *segments) setBounds(axis int) error {
	x := s.Data
	name, given := "lengths", s.Lengths
	if given == nil {
		name, given = "offsets", s.Offsets
	}
	switch {
	case s.Indices != nil:
		return opdef.Refuse("indices", "not supported, by torch either")
	case given == nil:
		return opdef.Refuse("lengths", "want lengths or offsets")
	case !given.DType.IsIntegral():
		return opdef.Refuse(name, "want integers, got %s", given.DType)
	case given.Dim() != axis+1 || !slices.Equal(given.Shape[:axis], x.Shape[:axis]):
		return opdef.Refuse(name, "shape %s is not that of data up to dimension %d and a number of segments",
			tensor.ShapeString(given.Shape), axis)
	}
	s.outer, s.n, s.inner = tensor.Numel(x.Shape[:axis]), x.Shape[axis], tensor.Numel(x.Shape[axis+1:])
	row := given.Shape[axis]
	s.count = row
	if name == "offsets" {
		s.count = row - 1
	}
	v := tensor.Data[int64](given)
	for o := range s.outer {
		at := 0
		for k := range s.count {
			from, to := at, at+int(v[o*row+k])
			if name == "offsets" {
				from, to = int(v[o*row+k]), int(v[o*row+k+1])
			}
			if from < 0 || to < from || to > s.n {
				return opdef.Refuse(name, "segment [%d, %d) does not lie in [0, %d)", from, to, s.n)
			}
			s.bounds = append(s.bounds, [2]int{from, to})
			at = to
		}
		if !s.Unsafe && (at != s.n || s.count > 0 && s.bounds[o*s.count][0] != 0) {
			return opdef.Refuse(name, "segments end at %d of %d elements", at, s.n)
		}
	}
	return nil
}

// each calls f for every result: its index, and index and step of the elements
// it is made of.
func (s *segments) each(f func(out, first, n int)) {
	for b, bound := range s.bounds {
		for i := range s.inner {
			f(b*s.inner+i, (b/s.count*s.n+bound[0])*s.inner+i, bound[1]-bound[0])
		}
	}
}

// reduced are the results over the elements of x, data or its magnitudes, starting from initial.
func (s *segments) reduced(x *tensor.Tensor, initial float64) []float64 {
	data, out := tensor.Data[float64](x), tensor.Make[float64](tensor.Numel(s.shape))
	s.each(func(at, first, n int) {
		acc := initial
		for j := range n {
			x := data[first+j*s.inner]
			switch s.Reduce {
			case "sum", "mean":
				acc += x
			case "prod":
				acc *= x
			case "max":
				acc = math.Max(acc, x)
			case "min":
				acc = math.Min(acc, x)
			}
		}
		if s.Reduce == "mean" && (n > 0 || s.Initial == nil) {
			acc /= float64(n)
		}
		out[at] = acc
	})
	return out
}

// grad is the gradient of data: of extremes shared by those equal to the result.
func (s *segments) grad(g *opdef.Grad) []float64 {
	data, y, up := tensor.Data[float64](s.Data), tensor.Data[float64](g.Outs[0]), tensor.Data[float64](g.Out[0])
	out := make([]float64, len(data))
	s.each(func(at, first, n int) {
		ties := 0.0
		for j := range n {
			if x := data[first+j*s.inner]; x == y[at] || x != x {
				ties++
			}
		}
		for j := range n {
			k := first + j*s.inner
			x := data[k]
			switch s.Reduce {
			case "sum":
				out[k] = up[at]
			case "mean":
				out[k] = up[at] / float64(n)
			case "prod":
				others := s.initial
				for l := range n {
					if l != j {
						others *= data[first+l*s.inner]
					}
				}
				out[k] = up[at] * others
			default:
				if x == y[at] || x != x {
					out[k] = up[at] / ties
				}
			}
		}
	})
	return out
}

var segmentReduceOp = opdef.Planned[*segmentReduceArgs, *segments]{
	Schema: "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? " +
		"offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
	Names: "segment_reduce",
	Doc: opdef.Doc{Summary: "Sums, means, products or extremes of segments along a dimension",
		Notes: "Segments are given by lengths or by offsets, each row having its own. initial takes part in every " +
			"segment; a mean divides it too."},
	Error: opdef.Error{Class: opdef.Accumulated, ULPs: 2, Coarse: true, Grad: &opdef.Error{Class: opdef.Accumulated,
		ULPs: 3, Coarse: true}},
	Plan: (*segmentReduceArgs).plan,
	Bounds: opdef.Bounds[*segments]{
		Terms: func(s *segments) int { return max(1, s.n) },
		// torch adds in the dtype of data.
		Scale: func(s *segments, outs []*tensor.Tensor) []*tensor.Tensor {
			if s.Reduce == "max" || s.Reduce == "min" {
				return elements.Single(opdef.Abs(outs[0]))
			}
			sums := tensor.New(tensor.Float64, s.shape, s.reduced(opdef.Abs(s.Data), math.Abs(s.initial)))
			return elements.Single(elements.Scaled(sums, elements.EpsOverFloat32(s.Data.DType)))
		},
		GradScale: func(s *segments, _ *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
			return elements.GradOf("data", elements.Scaled(opdef.Abs(gr["data"][0]),
				elements.EpsOverFloat32(s.Data.DType))), nil
		},
	},
	Kernel: func(s *segments) ([]*tensor.Tensor, error) {
		return elements.Single(tensor.New(s.Data.DType, s.shape, s.reduced(s.Data, s.initial))), nil
	},
	Grad: func(s *segments, g *opdef.Grad) (opdef.Grads, error) {
		return elements.GradOf("data", tensor.New(s.Data.DType, s.Data.Shape, s.grad(g))), nil
	},
	Cases: opdef.Calls[segmentReduceArgs](`
		f64[4], 'sum', lengths=i64[3]{= 1 0 3}; f64[4, 2], 'mean', lengths=i64[3]{= 1 0 3}, initial=1.0
		f64[2, 4]{distinct}, 'max', offsets=i64[2, 3]{= 0 1 4 0 2 4}, axis=1
		f32[4]{distinct}, 'min', lengths=i64[3]{= 1 0 3}, unsafe=True, initial=1.0
		f64[2, 4, 2], 'prod', offsets=i64[2, 3]{= 0 1 4 0 2 4}, axis=1, initial=1.0`),
}.Entry()
