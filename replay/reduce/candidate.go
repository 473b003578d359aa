package reduce

import (
	"maps"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A place is a dimension of a tensor among the arguments, or an integer there.
type place struct {
	tensor *tensor.Tensor // nil for an integer
	dim    int            // of the tensor, or the number of the integer in order
}

// An axis is places that have one size and change together.
type axis struct {
	size   int
	places []place
	larger int // a size with which the reference accepts the call
}

// A span is the part of an axis that a candidate keeps. One that reaches past the end
// goes on at the beginning.
type span struct{ from, n int }

// Of the values of floating tensors a candidate has those that were recorded, or simpler
// ones.
type fill int

const (
	asRecorded fill = iota
	whole           // recorded ones, rounded to integers
	integers        // small ones of both signs
	ones
)

// A candidate is a call that is made from the recorded one.
type candidate struct {
	spans   []span                  // of the axes
	dense   map[*tensor.Tensor]bool // tensors that are made contiguous
	without map[string]bool         // keyword arguments left out, positional ones as their number
	dtype   tensor.DType            // of floating tensors, Invalid as recorded
	fill    fill
	// renumbered says that indices are 0, 1, 2, ... in their order.
	renumbered bool
	copied     bool // every tensor is a copy, also where nothing was cut
	// single is the argument whose recorded gradient is the only recorded value of the candidate, and the only gradient
	// that it asks for. If it is nil, all recorded values are kept.
	single *tensor.Tensor
}

func (c candidate) clone() candidate {
	c.spans = slices.Clone(c.spans)
	c.dense, c.without = maps.Clone(c.dense), maps.Clone(c.without)
	return c
}

// with is the candidate with another span of an axis.
func (c candidate) with(axis int, s span) candidate {
	c = c.clone()
	c.spans[axis] = s
	return c
}

// A maker makes candidates from a recorded call.
type maker struct {
	rec  *capture.Call
	axes []axis
	// results are the axes that the dimensions of each result follow, none is -1.
	results [][]int
}

// whole is the candidate that is the recorded call.
func (m *maker) whole() candidate {
	c := candidate{dense: map[*tensor.Tensor]bool{}, without: map[string]bool{}}
	for _, a := range m.axes {
		c.spans = append(c.spans, span{0, a.size})
	}
	return c
}

// arguments are those of a candidate.
func (m *maker) arguments(c candidate) ([]value.Value, *value.Dict) {
	e := &editor{maker: m, candidate: c, done: map[*tensor.Tensor]*tensor.Tensor{}}
	args := make([]value.Value, 0, len(m.rec.Args))
	for i, v := range m.rec.Args {
		v = e.value(v)
		if c.without[number(i)] {
			v = nil
		}
		args = append(args, v)
	}
	for len(args) > 0 && c.without[number(len(args)-1)] {
		args = args[:len(args)-1]
	}
	kwargs := &value.Dict{Class: m.rec.Kwargs.Class}
	for _, it := range m.rec.Kwargs.Items {
		v := e.value(it.Value)
		if key, ok := it.Key.(string); !ok || !c.without[key] {
			kwargs.Items = append(kwargs.Items, value.Item{Key: it.Key, Value: v})
		}
	}
	return args, kwargs
}

// An editor makes the arguments of a candidate from recorded ones.
type editor struct {
	*maker
	candidate
	integers int                               // met so far
	done     map[*tensor.Tensor]*tensor.Tensor // one tensor stays one
}

func (e *editor) value(v value.Value) value.Value {
	switch v := v.(type) {
	case *tensor.Tensor:
		if e.done[v] == nil {
			e.done[v] = e.tensor(v)
		}
		return e.done[v]
	case int64:
		at := place{dim: e.integers}
		e.integers++
		if k, ok := e.axisOf(at); ok {
			return int64(e.spans[k].n)
		}
	case *value.Sequence:
		out := &value.Sequence{Kind: v.Kind, Class: v.Class, Items: make([]value.Value, len(v.Items))}
		for i, it := range v.Items {
			out.Items[i] = e.value(it)
		}
		return out
	}
	return v
}

// axisOf is the number of the axis that a place belongs to.
func (m *maker) axisOf(p place) (int, bool) {
	for k, a := range m.axes {
		if slices.Contains(a.places, p) {
			return k, true
		}
	}
	return 0, false
}

// spansOf are the spans of a tensor's dimensions; cut says that they are not the whole.
func (e *editor) spansOf(t *tensor.Tensor) (spans []span, cut bool) {
	for d, n := range t.Shape {
		s := span{0, n}
		if k, ok := e.axisOf(place{t, d}); ok {
			s = e.spans[k]
		}
		cut = cut || s != span{0, n}
		spans = append(spans, s)
	}
	return spans, cut
}

func (e *editor) tensor(t *tensor.Tensor) *tensor.Tensor {
	spans, cut := e.spansOf(t)
	to := t.DType
	if e.dtype != tensor.Invalid && t.DType.IsFloat() {
		to = e.dtype
	}
	fills := e.fill != asRecorded && t.DType.IsFloat()
	requires := t.RequiresGrad && (e.single == nil || e.single == t)
	renumbers := e.renumbered && isIndex(t)
	if !cut && !fills && !renumbers && to == t.DType && !e.copied && (!e.dense[t] || t.IsContiguous()) &&
		requires == t.RequiresGrad {
		return t
	}
	n := opdef.Cast(taken(t, spans), to).Rounded()
	if fills {
		n = filled(n, e.fill)
	}
	if renumbers {
		n = renumbered(n)
	}
	if e.dense[t] {
		n = laid(n, tensor.Contiguous(n.Shape))
	} else {
		n = laid(n, likeStrides(t, n.Shape))
	}
	n.RequiresGrad, n.Parameter, n.Wrapped = requires, t.Parameter, t.Wrapped
	return n
}

// taken are the elements of t in the spans of its dimensions.
func taken(t *tensor.Tensor, spans []span) *tensor.Tensor {
	for d, s := range spans {
		if t.Shape[d] == 0 {
			continue
		}
		if s.from+s.n <= t.Shape[d] && s != (span{0, t.Shape[d]}) {
			t = t.Slice(d, s.from, s.n, 1)
		}
	}
	for d, s := range spans {
		if t.Shape[d] == s.n || t.Shape[d] == 0 {
			continue
		}
		t = repeated(t, d, s)
	}
	return t
}

// repeated takes a span of a dimension that reaches past the end.
func repeated(t *tensor.Tensor, d int, s span) *tensor.Tensor {
	old := t.AppendBytes(nil)
	run := t.DType.Size() * tensor.Numel(t.Shape[d+1:])
	shape := slices.Clone(t.Shape)
	shape[d] = s.n
	var b []byte
	for outer := range tensor.Numel(t.Shape[:d]) {
		for i := range s.n {
			at := (outer*t.Shape[d] + (s.from+i)%t.Shape[d]) * run
			b = append(b, old[at:at+run]...)
		}
	}
	n, err := tensor.NewView(tensor.NewStorage(b), tensor.View{DType: t.DType, Shape: shape,
		Stride: tensor.Contiguous(shape)})
	return opdef.Must(n, err)
}

// filled has simpler values in place of t's.
func filled(t *tensor.Tensor, f fill) *tensor.Tensor {
	v := make([]float64, t.Numel())
	tensor.Load(t, 0, v)
	for i := range v {
		switch f {
		case ones:
			v[i] = 1
		case integers:
			v[i] = float64(i*7%9 - 4)
		case whole:
			v[i] = tensor.Float16.Round(roundAway(v[i]))
		}
	}
	return tensor.New(t.DType, t.Shape, v).Rounded()
}

// isIndex reports whether a tensor may hold indices.
func isIndex(t *tensor.Tensor) bool {
	return (t.DType == tensor.Int64 || t.DType == tensor.Int32) && t.Numel() > 0
}

// renumbered has 0, 1, 2, ... in place of the different integers of t, in their order; negative ones stay.
func renumbered(t *tensor.Tensor) *tensor.Tensor {
	was := tensor.Data[int64](t)
	all := slices.DeleteFunc(slices.Clone(was), func(i int64) bool { return i < 0 })
	slices.Sort(all)
	all = slices.Compact(all)
	now := make([]int64, len(was))
	for k, i := range was {
		now[k] = i
		if at, known := slices.BinarySearch(all, i); known {
			now[k] = int64(at)
		}
	}
	return tensor.New(t.DType, t.Shape, now)
}

// roundAway rounds to an integer that is not 0.
func roundAway(x float64) float64 {
	switch {
	case x > 0 && x < 1:
		return 1
	case x < 0 && x > -1:
		return -1
	}
	return tensor.Float64.Round(float64(int64(min(max(x, -1024), 1024))))
}

// laid is t with its elements where strides say.
func laid(t *tensor.Tensor, stride []int) *tensor.Tensor {
	extent, size := 1, t.DType.Size()
	for d, n := range t.Shape {
		extent += max(n-1, 0) * stride[d]
	}
	dense := t.AppendBytes(nil)
	b := dense
	if !slices.Equal(stride, tensor.Contiguous(t.Shape)) {
		b = make([]byte, extent*size)
		index := make([]int, len(t.Shape))
		for i := range t.Numel() {
			at := 0
			for d, k := range index {
				at += k * stride[d]
			}
			copy(b[at*size:(at+1)*size], dense[i*size:])
			for d := len(index) - 1; d >= 0; d-- {
				if index[d]++; index[d] < t.Shape[d] {
					break
				}
				index[d] = 0
			}
		}
	}
	n, err := tensor.NewView(tensor.NewStorage(b), tensor.View{DType: t.DType, Shape: t.Shape, Stride: stride})
	return opdef.Must(n, err)
}

// likeStrides are the smallest strides of a shape that are of the kind of t's: the same
// order of dimensions, gaps and repetitions where t has some.
func likeStrides(t *tensor.Tensor, shape []int) []int {
	order := make([]int, len(shape))
	for d := range order {
		order[d] = len(shape) - 1 - d
	}
	slices.SortStableFunc(order, func(a, b int) int { return t.Stride[a] - t.Stride[b] })
	stride := make([]int, len(shape))
	old, now := 1, 1 // dense strides so far, of t and of the shape
	for _, d := range order {
		if t.Stride[d] == 0 && t.Shape[d] > 1 {
			continue
		}
		if t.Stride[d] > old && t.Shape[d] > 1 {
			old = t.Stride[d]
			now++
		}
		stride[d] = now
		old *= max(t.Shape[d], 1)
		now *= max(shape[d], 1)
	}
	return stride
}
