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

// indexOps are Python's self[index] and its relatives.
var indexOps = []*opdef.Entry{getItemOp, setItemOp, indexPutOp}

// An indexing is a parsed index expression: views one after the other, then
// perhaps a selection by index tensors.
// Source: torch/csrc/autograd/python_variable_indexing.cpp, aten/src/ATen/TensorIndexing.h
type indexing struct {
	shape []int                                 // of the indexed tensor
	views []func(*tensor.Tensor) *tensor.Tensor // each of one autograd node
	plain []bool                                // views that keep all elements
	whole []bool                                // slices without ends, which torch skips since 2.0
	at    []*tensor.Tensor                      // index tensors by dimension of the viewed tensor; nil takes all
	probe *tensor.Tensor                        // the probe after the views
}

// parseIndex parses the index of a tensor of shape.
func parseIndex(shape []int, index value.Value) (*indexing, error) {
	p, err := runs.Probe(shape)
	if err != nil {
		return nil, err
	}
	x := &indexing{shape: shape, probe: p}
	items, tuple := indexItems(index)
	specified := 0
	for _, it := range items {
		switch it := it.(type) {
		case nil, value.Ellipsis, bool:
		case *tensor.Tensor:
			if isMask(it) {
				specified += it.Dim()
			} else {
				specified++
			}
		default:
			specified++
		}
	}
	if specified > len(shape) {
		return nil, opdef.Refuse("index", "%d indices for a tensor of %d dimensions", specified, len(shape))
	}
	dim := 0
	for _, it := range items {
		if dim, err = x.item(it, dim, len(shape)-specified, tuple); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// indexItems are the items of an index: those of a tuple, of a list that torch
// treats as one, or the index itself.
func indexItems(index value.Value) (items []value.Value, tuple bool) {
	seq, ok := index.(*value.Sequence)
	if !ok {
		return []value.Value{index}, false
	}
	if seq.Kind == value.Tuple {
		return seq.Items, true
	}
	if len(seq.Items) < 32 {
		for _, it := range seq.Items {
			switch it.(type) {
			case nil, value.Ellipsis, value.Slice, *tensor.Tensor, *value.Sequence:
				return seq.Items, true
			}
		}
	}
	return []value.Value{index}, false
}

func isMask(t *tensor.Tensor) bool { return t.DType == tensor.Bool || t.DType == tensor.Uint8 }

// view adds a view.
func (x *indexing) view(plain bool, f func(*tensor.Tensor) *tensor.Tensor) {
	x.views, x.plain, x.whole = append(x.views, f), append(x.plain, plain), append(x.whole, false)
	x.probe = f(x.probe)
}

// item adds one item of the index, which stands for dimension dim of what the
// views so far show, and returns the dimension of the next item. rest is what
// an ellipsis stands for.
func (x *indexing) item(it value.Value, dim, rest int, tuple bool) (int, error) {
	switch it := it.(type) {
	case nil:
		x.view(true, func(t *tensor.Tensor) *tensor.Tensor { return t.Unsqueeze(dim) })
		return dim + 1, nil
	case value.Ellipsis:
		return dim + rest, nil
	case bool:
		x.truth(dim, it)
		return dim + 1, nil
	case int64:
		return dim, x.pickOne(dim, int(it))
	case value.Slice:
		return dim + 1, x.slice(dim, it, tuple)
	case *tensor.Tensor:
		return x.tensor(it, dim)
	case *value.Sequence:
		t, err := indexTensor(it)
		if err != nil {
			return dim, err
		}
		x.record(dim, t)
		return dim + 1, nil
	}
	return dim, opdef.Refuse("index", "%s is no index", opdef.TypeName(it))
}

func (x *indexing) tensor(t *tensor.Tensor, dim int) (int, error) {
	if !t.DType.Computable() || t.DType.Kind() > tensor.KindInt {
		return dim, opdef.Refuse("index", "want integers or bool, got %s", t.Meta())
	}
	switch {
	case t.Dim() > 0:
		x.record(dim, t)
		return dim + 1, nil
	case isMask(t):
		x.truth(dim, tensor.At[int64](t, 0) != 0)
		return dim + 1, nil
	}
	return dim, x.pickOne(dim, int(tensor.At[int64](t, 0)))
}

// truth indexes a new dimension of size 1 with a bool: all of it or nothing.
func (x *indexing) truth(dim int, all bool) {
	x.view(true, func(t *tensor.Tensor) *tensor.Tensor { return t.Unsqueeze(dim) })
	x.record(dim, tensor.New(tensor.Int64, []int{elements.BoolInt(all)}, tensor.Make[int64](elements.BoolInt(all))))
}

func (x *indexing) pickOne(dim, i int) error {
	n := x.probe.Shape[dim]
	if i < -n || i >= n {
		return opdef.Refuse("index", "index %d is out of range for dimension %d of size %d", i, dim, n)
	}
	if i < 0 {
		i += n
	}
	x.view(false, func(t *tensor.Tensor) *tensor.Tensor { return t.Select(dim, i) })
	return nil
}

func (x *indexing) slice(dim int, s value.Slice, tuple bool) error {
	n := x.probe.Shape[dim]
	var part [3]*int
	for i, v := range []value.Value{s.Start, s.Stop, s.Step} {
		if v == nil {
			continue
		}
		if t, ok := v.(*tensor.Tensor); ok && t.Dim() == 0 && t.DType.IsIntegral() {
			v = tensor.At[int64](t, 0)
		}
		k, ok := v.(int64)
		if !ok {
			return opdef.Refuse("index", "a slice of %s", opdef.TypeName(v))
		}
		p := int(k)
		part[i] = &p
	}
	start, stop, step := 0, n, 1
	if part[2] != nil {
		step = *part[2]
	}
	if step <= 0 {
		return opdef.Refuse("index", "slice step %d is not positive", step)
	}
	if part[0] != nil {
		start = *part[0]
	}
	if part[1] != nil {
		stop = *part[1]
		if tuple && start == 0 && stop == n && step == 1 {
			return nil // torch skips a slice that names the whole dimension
		}
	}
	sp := shape.SliceSpan(n, start, stop)
	count := (sp.N + step - 1) / step
	x.view(count == n, func(t *tensor.Tensor) *tensor.Tensor { return t.Slice(dim, sp.Start, count, step) })
	x.whole[len(x.whole)-1] = tuple && part[1] == nil && start == 0 && step == 1
	return nil
}

func (x *indexing) record(dim int, t *tensor.Tensor) {
	for len(x.at) <= dim {
		x.at = append(x.at, nil)
	}
	x.at[dim] = t
}

// viewed applies the views to t, of x.shape.
func (x *indexing) viewed(t *tensor.Tensor) *tensor.Tensor {
	for _, f := range x.views {
		t = f(t)
	}
	return t
}

// selection is that of x's index tensors, nil without any.
func (x *indexing) selection() (*selection, error) {
	if !slices.ContainsFunc(x.at, func(t *tensor.Tensor) bool { return t != nil }) {
		return nil, nil
	}
	return selectAt("index", x.probe.Shape, x.at)
}

type getItemArgs struct {
	Self  *tensor.Tensor
	Index value.Value
}

// An item is what an index shows of self, in it what index tensors select; nil without any.
type item struct {
	self *tensor.Tensor
	*indexing
	selected *selection
}

func (a *getItemArgs) item() (*item, error) {
	x, err := parseIndex(a.Self.Shape, a.Index)
	if err != nil {
		return nil, err
	}
	s, err := x.selection()
	return &item{a.Self, x, s}, err
}

func (x *item) grad(g *tensor.Tensor) (opdef.Grads, error) {
	if x.selected != nil {
		g = x.selected.grad(g)
	}
	if len(x.views) > 0 {
		g = runs.ScatterAdd(x.self.Shape, g, runs.OfView(x.probe))
	}
	return opdef.Grads{"self": {g}}, nil
}

var getItemOp = opdef.Planned[*getItemArgs, *item]{
	Schema: "__getitem__(Tensor self, any index) -> Tensor",
	Names:  "Tensor.__getitem__",
	Traits: opdef.Traits{Lookup: "self"},
	Doc: opdef.Doc{Summary: "Elements by index: numbers, slices, None, ..., masks, index tensors and lists",
		Formula: "self[index]",
		Notes:   "A slice step must be positive.", Source: "https://pytorch.org/cppdocs/notes/tensor_indexing.html"},
	Error: elements.MovedError,
	Plan:  (*getItemArgs).item,
	Kernel: func(x *item) ([]*tensor.Tensor, error) {
		t := x.viewed(x.self)
		if x.selected != nil {
			t = x.selected.of(t)
		}
		return []*tensor.Tensor{t}, nil
	},
	Grad: func(x *item, g *opdef.Grad) (opdef.Grads, error) { return x.grad(g.Out[0]) },
	Bounds: opdef.Bounds[*item]{
		GradTerms: func(x *item) int {
			if x.selected == nil {
				return 1
			}
			return x.selected.runs.Most(tensor.Numel(x.selected.source))
		},
	},
	// The node of the last of several steps saw what the others show.
	Node: func(x *item, g *opdef.Grad) (opdef.Node, error) {
		last := len(x.views) - 1
		if x.selected != nil && last >= 0 {
			return opdef.Node{Grads: []*tensor.Tensor{x.selected.grad(g.Out[0])}}, nil
		}
		n, err := x.viewNode(last, g)
		if last < 1 || err != nil {
			return n, err
		}
		for last > 0 && x.whole[last] {
			last--
		}
		if last < len(x.views)-1 && last > 0 {
			var other opdef.Node
			other, err = x.viewNode(last, g)
			n.Else = []opdef.Node{other}
		}
		return n, err
	},
	Cases: func(g opdef.Gen) []*getItemArgs {
		idx := tensor.New(tensor.Int64, []int{2, 1}, []int64{-1, 0})
		all := value.Slice{}
		return []*getItemArgs{
			{g.Normal(tensor.Float32, 3, 4), int64(1)},
			{g.Normal(tensor.Float64, 3, 4), value.NewTuple(all, value.Slice{Start: int64(-3), Stop: int64(4),
				Step: int64(2)})},
			{g.Normal(tensor.Float64, 3, 4), value.NewTuple(value.Ellipsis{}, nil, int64(-1))},
			{g.Normal(tensor.BFloat16, 3, 4), idx}, {g.Normal(tensor.Float64, 3, 4), value.NewTuple(all, idx)},
			{g.Normal(tensor.Float64, 3, 2, 4), value.NewTuple(idx, all, value.NewList(int64(3), int64(1), int64(3)))},
			{g.Normal(tensor.Float32, 2, 3), g.Int(tensor.Bool, 0, 1, 2, 3)}, {g.Normal(tensor.Float32, 2, 3),
				value.NewTuple(all, value.NewList(true, false, true))},
			{g.Normal(tensor.Float32), value.NewTuple(value.Ellipsis{}, true)}, {g.Normal(tensor.Float32, 0, 3),
				value.NewTuple(all, int64(0))},
			{g.Normal(tensor.Float64, 3, 4), value.NewTuple(value.Slice{Stop: int64(2)}, idx)},
			{g.Int(tensor.Int64, 0, 9, 4), value.NewList()},
		}
	},
}.Entry()

// viewNode is the node of a view that others come before, empty where it is the first.
func (x *item) viewNode(last int, g *opdef.Grad) (opdef.Node, error) {
	if x.selected != nil || last < 1 {
		return opdef.Node{}, nil
	}
	p, err := runs.Probe(x.shape)
	if err != nil {
		return opdef.Node{}, err
	}
	inner := &indexing{views: x.views[:last]}
	back, err := shape.ViewBack(inner.viewed(p).Shape, g.Out[0], func(t *tensor.Tensor) (*tensor.Tensor, error) {
		return x.views[last](t), nil
	})
	n := opdef.Node{Grads: []*tensor.Tensor{back}}
	if x.plain[last] {
		n.Weak = "the incoming gradient reshaped"
	}
	return n, err
}

// written returns self with v, broadcast, written to what the index shows.
func (x *indexing) written(self, v *tensor.Tensor, add bool) (*tensor.Tensor, error) {
	s, err := x.selection()
	if err != nil {
		return nil, err
	}
	region := x.probe
	if s != nil {
		region = s.permuted(region)
	}
	shape := region.Shape
	if s != nil {
		shape = s.shape
		if !v.Wrapped && v.DType != self.DType {
			return nil, opdef.Refuse("value", "want dtype %s, got %s", self.DType, v.DType)
		}
	}
	for v.Dim() > len(shape) && v.Shape[0] == 1 {
		v = v.Squeeze(0)
	}
	if v, err = v.Expand(shape...); err != nil {
		return nil, opdef.Refuse("value", "%v", err)
	}
	v = opdef.Cast(v, self.DType)
	how := runs.Assign
	if add {
		how = runs.Add
	}
	if s == nil {
		return runs.Put(self, v, runs.OfView(region), how, true), nil
	}
	return runs.Put(self, v, s.runs.Within(region), how, true), nil
}

type setItemArgs struct {
	Self  *tensor.Tensor
	Index value.Value
	Value *tensor.Tensor
}

// An assignment is what an index shows of self, and self with the value written there.
type assignment struct {
	*item
	value, after *tensor.Tensor
}

func (a *setItemArgs) assignment() (*assignment, error) {
	x, err := (&getItemArgs{a.Self, a.Index}).item()
	if err != nil {
		return nil, err
	}
	after, err := x.written(a.Self, a.Value, false)
	return &assignment{x, a.Value, after}, err
}

// grad gives the value what g has at the index, added up where it was broadcast, and self
// the rest.
func (a *assignment) grad(g *tensor.Tensor) (opdef.Grads, error) {
	part := a.viewed(g)
	if a.selected != nil {
		part = a.selected.of(part)
	}
	shape := a.value.Shape
	for len(shape) > part.Dim() {
		shape = shape[1:]
	}
	rest, err := a.written(g, tensor.Wrap(int64(0)), false)
	return opdef.Grads{"self": {rest}, "value": {opdef.SumTo(part, shape).Reshape(a.value.Shape...)}}, err
}

// setItemOp has the gradient of what self became.
var setItemOp = opdef.Planned[*setItemArgs, *assignment]{
	Schema: "__setitem__(Tensor self, any index, Tensor|Scalar value) -> None",
	Names:  "Tensor.__setitem__",
	Doc: opdef.Doc{Summary: "Writes elements by index", Formula: "self[index] = value",
		Notes:  "Returns None; where an index occurs twice the last value stays.",
		Source: "https://pytorch.org/cppdocs/notes/tensor_indexing.html"},
	Error: elements.MovedError,
	Plan:  (*setItemArgs).assignment,
	Grad:  func(a *assignment, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g.Out[0]) },
}.Entry()

func (*assignment) Value() (value.Value, error) { return nil, nil }

func (a *assignment) After([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	return map[string][]*tensor.Tensor{"self": {a.after}}, nil
}

type indexPutArgs struct {
	Self       *tensor.Tensor
	Indices    []*tensor.Tensor
	Values     *tensor.Tensor
	Accumulate bool
}

// An indexPut is a call with the elements that its indices select.
type indexPut struct {
	*indexPutArgs
	*selection
}

func (a *indexPutArgs) plan() (*indexPut, error) {
	if len(a.Indices) > a.Self.Dim() {
		return nil, opdef.Refuse("indices", "%d indices for a tensor of %d dimensions", len(a.Indices), a.Self.Dim())
	}
	if a.Values.DType != a.Self.DType {
		return nil, opdef.Refuse("values", "want dtype %s, got %s", a.Self.DType, a.Values.DType)
	}
	s, err := selectAt("indices", a.Self.Shape, a.Indices)
	if err != nil {
		return nil, err
	}
	if _, err := a.Values.Expand(s.shape...); err != nil {
		return nil, opdef.Refuse("values", "%v", err)
	}
	return &indexPut{a, s}, nil
}

// put writes values to self, or the magnitudes of both.
func (a *indexPut) put(self, values *tensor.Tensor) *tensor.Tensor {
	how := runs.Assign
	if a.Accumulate {
		how = runs.Add
	}
	v := opdef.Must(values.Expand(a.shape...))
	return a.unpermuted(runs.Put(a.permuted(self), v, a.runs, how, true))
}

var indexPutOp = opdef.Planned[*indexPutArgs, *indexPut]{
	Schema: "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
	Names:  "index_put Tensor.index_put torch.ops.aten._unsafe_index_put",
	Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastWidest},
	Doc: opdef.Doc{Summary: "Writes or adds values at index tensors",
		Formula: "self[indices] = values or self[indices] += values",
		Notes:   "Without accumulate the last of several values for one element stays.",
		Source:  "torch.Tensor.index_put_"},
	Error: opdef.Error{Class: opdef.Accumulated, ULPs: 1},
	Plan:  (*indexPutArgs).plan,
	Kernel: func(a *indexPut) ([]*tensor.Tensor, error) {
		return []*tensor.Tensor{a.put(a.Self, a.Values)}, nil
	},
	Bounds: opdef.Bounds[*indexPut]{
		Scale: func(a *indexPut, _ []*tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{a.put(opdef.Abs(a.Self), opdef.Abs(a.Values))}
		},
		Terms: func(a *indexPut) int {
			if !a.Accumulate {
				return 1
			}
			return 1 + a.runs.Most(a.Self.Numel())
		},
		GradTerms: func(a *indexPut) int { return max(1, a.runs.Count*a.runs.Len/max(a.Values.Numel(), 1)) },
		GradScale: func(a *indexPut, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			return a.grad(opdef.Abs(g.Out[0])), nil
		},
	},
	Grad: func(a *indexPut, g *opdef.Grad) (opdef.Grads, error) { return a.grad(g.Out[0]), nil },
	Cases: opdef.Calls[indexPutArgs](`
		f32[4, 3], [i64[2]{= 2 0}], f32[2, 3]
		f64[4, 3], [i64[3]{= 1 1 -1}, i64[3]{= 0 0 2}], f64[3], accumulate=True
		f64[4, 3], [None, i64[1]{= 1}], f64[], accumulate=True
		f32[2, 3, 2], [i64[1]{= 1}, None, i64[1]{= 0}], f32[1, 3]; f32[2, 2], [bool[2, 2]{= 1 0 0 1}], f32[2]
		i64[4]{0..9}, [i64[0]{=}], i64[1]{0..9}, accumulate=True`),
}.Entry()

func (a *indexPut) grad(g *tensor.Tensor) opdef.Grads {
	gr := opdef.Grads{"self": {g}, "values": {opdef.SumTo(a.of(g), a.Values.Shape)}}
	if !a.Accumulate {
		zero := elements.Zeros(g.DType, a.shape)
		gr.Set("self", a.unpermuted(runs.Put(a.permuted(g), zero, a.runs, runs.Assign, true)))
	}
	return gr
}
