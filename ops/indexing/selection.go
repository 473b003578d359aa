package indexing

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/shape"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// indexTensor converts a (nested) list of numbers.
func indexTensor(seq *value.Sequence) (*tensor.Tensor, error) {
	var shape []int
	var data []int64
	isBool := true
	var walk func(v value.Value, depth int) error
	walk = func(v value.Value, depth int) error {
		if s, ok := v.(*value.Sequence); ok && s.Kind < value.Set {
			if depth == len(shape) && len(data) == 0 {
				shape = append(shape, len(s.Items))
			} else if depth >= len(shape) || shape[depth] != len(s.Items) {
				return opdef.Refuse("index", "nested lists of different lengths")
			}
			for _, it := range s.Items {
				if err := walk(it, depth+1); err != nil {
					return err
				}
			}
			return nil
		}
		if t, ok := v.(*tensor.Tensor); ok && t.Dim() == 0 && t.DType.Computable() && t.DType.Kind() <= tensor.KindInt {
			isBool = isBool && t.DType == tensor.Bool
			v = tensor.At[int64](t, 0)
		} else if b, ok := v.(bool); ok {
			v = int64(elements.BoolInt(b))
		} else {
			isBool = false
		}
		n, ok := v.(int64)
		if !ok || depth != len(shape) {
			return opdef.Refuse("index", "%s is no index", opdef.TypeName(v))
		}
		data = append(data, n)
		return nil
	}
	if err := walk(seq, 0); err != nil {
		return nil, err
	}
	dt := tensor.Int64
	if isBool && len(data) > 0 {
		dt = tensor.Bool
	}
	return tensor.New(dt, shape, data), nil
}

// A selection is advanced indexing: which elements index tensors pick of a
// tensor whose dimensions are permuted by order (nil: as they are).
type selection struct {
	order  []int
	source []int // shape of the permuted tensor
	shape  []int // of the result
	runs   runs.Runs
}

// selectAt combines the index tensors at, by dimension (nil takes all), of a
// tensor of shape.
// Source: aten/src/ATen/native/TensorAdvancedIndexing.cpp, IndexingUtils.h
func selectAt(arg string, shape []int, at []*tensor.Tensor) (*selection, error) {
	index, err := withoutMasks(arg, shape, at)
	if err != nil {
		return nil, err
	}
	if len(index) > len(shape) {
		return nil, opdef.Refuse(arg, "%d indices for a tensor of %d dimensions", len(index), len(shape))
	}
	var used []int
	var given []*tensor.Tensor
	for d, t := range index {
		if t != nil {
			used, given = append(used, d), append(given, t)
		}
	}
	if len(used) == 0 {
		return nil, opdef.Refuse(arg, "want at least one index")
	}
	wide, picked, err := opdef.BroadcastAll(given...)
	if err != nil {
		return nil, opdef.Refuse(arg, "indices cannot be broadcast: %v", err)
	}
	s := &selection{source: slices.Clone(shape)}
	first := used[0]
	if used[len(used)-1]-first != len(used)-1 { // not adjacent: they come first
		s.order, first = slices.Clone(used), 0
		for d := range shape {
			if !slices.Contains(used, d) {
				s.order = append(s.order, d)
			}
		}
		for i, d := range s.order {
			s.source[i] = shape[d]
		}
	}
	linear := tensor.Make[int64](tensor.Numel(picked))
	for k, t := range wide {
		n := int64(shape[used[k]])
		if err := EachInt(t, func(i int, v int64) bool {
			if v < -n || v >= n {
				return false
			}
			if v < 0 {
				v += n
			}
			linear[i] = linear[i]*n + v
			return true
		}); err != nil {
			return nil, opdef.Refuse(arg, "index %d is out of range for dimension %d of size %d", int64(err.(outside)),
				used[k], n)
		}
	}
	before, after := s.source[:first], s.source[first+len(used):]
	s.shape = slices.Concat(before, picked, after)
	inner, block := tensor.Numel(after), tensor.Numel(s.source[first:])
	s.runs = runs.Runs{Len: inner, Count: tensor.Numel(before) * len(linear), Starts: func(lo int, dst []int64) {
		for i := range dst {
			k := lo + i
			dst[i] = int64(k/len(linear)*block) + linear[k%len(linear)]*int64(inner)
		}
	}}
	return s, nil
}

// withoutMasks are index tensors, in place of masks the indices of their ones, a tensor for each dimension.
func withoutMasks(arg string, shape []int, at []*tensor.Tensor) (index []*tensor.Tensor, err error) {
	for _, t := range at {
		switch {
		case t == nil:
			index = append(index, nil)
		case t.DType.Kind() > tensor.KindInt:
			return nil, opdef.Refuse(arg, "want integers or bool, got %s", t.Meta())
		case !isMask(t):
			index = append(index, t)
		default:
			d := len(index)
			if d+t.Dim() > len(shape) || !slices.Equal(shape[d:d+t.Dim()], t.Shape) {
				return nil, opdef.Refuse(arg, "mask of shape %s for dimensions from %d of shape %s",
					tensor.ShapeString(t.Shape), d, tensor.ShapeString(shape))
			}
			index = append(index, nonzeroColumns(t)...)
		}
	}
	return index, nil
}

// outside is the error of an index out of range.
type outside int64

func (o outside) Error() string { return "index out of range" }

// EachInt calls f for the elements of t until it returns false, in which case
// the element is the error (outside).
func EachInt(t *tensor.Tensor, f func(i int, v int64) bool) error {
	n := t.Numel()
	buf := opdef.Scratch[int64](min(n, t.Block()))
	defer opdef.Release(buf)
	for lo := 0; lo < n; lo += t.Block() {
		v := (*buf)[:min(t.Block(), n-lo)]
		tensor.Load(t, lo, v)
		for i, x := range v {
			if !f(lo+i, x) {
				return outside(x)
			}
		}
	}
	return nil
}

func (s *selection) permuted(t *tensor.Tensor) *tensor.Tensor {
	if s.order == nil {
		return t
	}
	return t.Permute(s.order...)
}

func (s *selection) unpermuted(t *tensor.Tensor) *tensor.Tensor {
	if s.order == nil {
		return t
	}
	return t.Permute(shape.InversePermutation(s.order)...)
}

// of picks the elements of t.
func (s *selection) of(t *tensor.Tensor) *tensor.Tensor {
	return runs.Pick(s.permuted(t), s.shape, s.runs)
}

// grad adds g where of picked.
func (s *selection) grad(g *tensor.Tensor) *tensor.Tensor {
	return s.unpermuted(runs.ScatterAdd(s.source, g, s.runs))
}
