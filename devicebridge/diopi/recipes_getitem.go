package diopi

import (
	"fmt"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Functions of PyTorch that the kit does not have.
//
// Indexing as Python writes it takes several functions: numbers are diopiSelect,
// slices diopiSlice, None diopiStack of one tensor, one after the other, then all
// tensors at once diopiIndex. To assign, the same views are taken and the values
// written back into them in reverse.
var beyond = []*Recipe{
	{Function: "getitem", sig: "input index",
		also: "Select Slice Stack Index SelectBackward SliceBackward Fill IndexBackward",
		forward: func(b *build) {
			steps := b.subscript()
			x := b.tensor("input")
			for i, s := range steps {
				if s.indices != nil {
					a := &Alloc{Role: "out0"}
					b.plan.Outputs = append(b.plan.Outputs, a)
					b.call("Index", bindings{"indices": s.indices}, map[string]Arg{"out": a, "input": x})
					return
				}
				out := newTensor(x.DType, s.shape)
				out.Role = fmt.Sprintf("view %d of input", i+1)
				if i == len(steps)-1 {
					b.result(out)
				}
				b.view(s, x, out)
				x = out
			}
		},
		backward: func(b *build) {
			steps := b.subscript()
			g := b.cotangent(0)
			for i, s := range slices.Backward(steps) {
				x := b.tensor("input")
				var to Arg
				if i > 0 {
					x = &Tensor{Role: fmt.Sprintf("gradient of view %d", i), DType: x.DType, Shape: steps[i-1].shape}
					to = x
				} else {
					to = b.gradient(grad{of: "input"})
				}
				set := map[string]Arg{"grad_input": to, "grad_output": g}
				switch {
				case s.indices != nil:
					zeros := rawLike(x)
					zeros.Role = "zeros_like_input"
					b.call("Fill", nil, map[string]Arg{"input": zeros, "value": b.scalar(0, 0, true)})
					set["zeros_like_input"] = zeros
					b.call("IndexBackward", bindings{"indices": s.indices}, set)
				case s.added:
					b.call("Select", bindings{"dim": s.dim, "index": 0}, map[string]Arg{"out": to, "input": g})
				case s.slice:
					b.call("SliceBackward", bindings{"input_sizes": x.Shape, "dim": s.dim, "start": s.start,
						"end": s.end, "step": s.step}, set)
				default:
					b.call("SelectBackward", bindings{"input_sizes": x.Shape, "dim": s.dim, "index": s.start}, set)
				}
				g = to
			}
		}},
	{Function: "setitem", sig: "input index value",
		also: "Select Slice Stack Fill CopyInp IndexPut SelectScatter SliceScatter",
		forward: func(b *build) {
			x := b.tensor("input")
			steps := b.subscript()
			at := Tensors{x} // what each step views
			for i, s := range steps[:len(steps)-1] {
				out := newTensor(x.DType, s.shape)
				out.Role = fmt.Sprintf("view %d of input", i+1)
				b.view(s, at[i], out)
				at = append(at, out)
			}
			v := b.assigned(steps[len(steps)-1], x.DType)
			for i, s := range slices.Backward(steps) {
				out := newTensor(x.DType, at[i].Shape)
				out.Role = fmt.Sprintf("view %d of result", i)
				set := map[string]Arg{"out": out, "input": at[i], "src": v}
				switch {
				case s.indices != nil:
					b.call("CopyInp", nil, map[string]Arg{"src": at[i], "dest": out})
					b.call("IndexPut", bindings{"indices": s.indices, "accumulate": false},
						map[string]Arg{"out": out, "input": at[i], "values": v})
				case s.added:
					b.call("Select", bindings{"dim": s.dim, "index": 0}, map[string]Arg{"out": out, "input": v})
				case s.slice:
					b.call("SliceScatter", bindings{"dim": s.dim, "start": s.start, "end": s.end, "step": s.step}, set)
				default:
					b.call("SelectScatter", bindings{"dim": s.dim, "index": s.start}, set)
				}
				v = out
			}
			b.call("CopyInp", nil, map[string]Arg{"src": v, "dest": x})
		}},
	{Function: "select_scatter", sig: "input src dim index", fwd: "SelectScatter",
		outs: []out{result(asInput, shapeOf("input"))}},
	{Function: "slice_scatter", sig: "input src dim=0 start=None end=None step=1", fwd: "SliceScatter",
		outs: []out{result(asInput, shapeOf("input"))},
		prepare: func(b *build) {
			shape := b.tensor("input").Shape
			part := value.Slice{Start: b.args["start"], Stop: b.args["end"], Step: b.args["step"]}
			b.args["start"], b.args["end"], b.args["step"] = b.span(part, shape[b.dim("dim", len(shape))])
		}},
	// PyTorch makes it as the product of a column and a row.
	{Function: "outer", sig: "input vec2", fwd: "Mul", bind: bindings{"other": "vec2"},
		prepare: func(b *build) {
			b.rank("input", 1)
			b.unsqueeze("input", 1)
		},
		outs: []out{result(common("input", "vec2"), broadcast("input", "vec2"))}},
	convolution("conv1d", "Convolution2d", 1),
	transposed("conv_transpose1d", "ConvTranspose2d", 1),
	{Function: "unbind", sig: "input dim=0", also: "Select",
		forward: func(b *build) {
			x := b.tensor("input")
			d := b.dim("dim", len(x.Shape))
			for i := range x.Shape[d] {
				out := newTensor(x.DType, slices.Delete(slices.Clone(x.Shape), d, d+1))
				b.result(out)
				b.call("Select", bindings{"dim": d, "index": i}, map[string]Arg{"out": out})
			}
		}},
}

// view plans the call that takes a step from x to out.
func (b *build) view(s step, x, out *Tensor) {
	switch {
	case s.added:
		b.call("Stack", bindings{"dim": s.dim, "numTensors": 1}, map[string]Arg{"out": out, "tensors": Tensors{x}})
	case s.slice:
		b.call("Slice", bindings{"dim": s.dim, "start": s.start, "end": s.end, "step": s.step},
			map[string]Arg{"null_out": out, "input": x})
	default:
		b.call("Select", bindings{"dim": s.dim, "index": s.start}, map[string]Arg{"out": out, "input": x})
	}
}

// A step is a view by one number or slice or with one dimension more, or the
// elements picked by tensors.
type step struct {
	dim              int
	slice, added     bool
	start, end, step int     // of a slice; start is the number
	indices          Tensors // by dimension, nil for all of it
	shape            []int   // of what it yields; nil for tensors
}

// subscript are the steps of the argument index.
func (b *build) subscript() []step {
	var steps []step
	x := b.tensor("input")
	items := []value.Value{b.raw("index")}
	if s, ok := items[0].(*value.Sequence); ok && s.Kind == value.Tuple {
		items = s.Items
	}
	shape, dim := slices.Clone(x.Shape), 0
	var indices Tensors
	reached := 0 // dimensions that indices are about
	for n, it := range items {
		if _, ok := it.(value.Ellipsis); ok {
			dim += max(0, len(x.Shape)-reachedBy(items))
			continue
		}
		if it == nil {
			shape = slices.Insert(slices.Clone(shape), dim, 1)
			steps = append(steps, step{dim: dim, added: true, shape: shape})
			dim++
			continue
		}
		if dim >= len(shape) {
			b.fail("too many indices for shape %v", x.Shape)
		}
		if t := b.indexTensor(it, fmt.Sprintf("index[%d]", n)); t != nil {
			for ; reached < dim; reached++ {
				indices = append(indices, nil)
			}
			indices = append(indices, t)
			dim += covered(t.Value)
			reached = dim
			continue
		}
		s := step{dim: dim}
		if r, ok := it.(value.Slice); ok {
			s.slice = true
			s.start, s.end, s.step = b.span(r, shape[dim])
			if s.start != 0 || s.end != shape[dim] || s.step != 1 {
				shape = replaced(shape, dim, (s.end-s.start+s.step-1)/s.step)
				s.shape = shape
				steps = append(steps, s)
			}
			dim++
			continue
		}
		i, _, integral, _ := number(it)
		if _, isBool := it.(bool); isBool || !integral {
			b.fail("DIOPI has no function for an index of %s", describe(it))
		}
		s.start = b.inRange("index", int(i), shape[dim])
		shape = slices.Delete(slices.Clone(shape), dim, dim+1)
		s.shape = shape
		steps = append(steps, s)
	}
	if indices != nil {
		steps = append(steps, step{indices: indices})
	}
	if len(steps) == 0 {
		if len(shape) == 0 {
			b.fail("views are made without a device")
		}
		steps = append(steps, step{slice: true, end: shape[0], step: 1, shape: shape})
	}
	return steps
}

// reachedBy is how many dimensions the items of an index are about.
func reachedBy(items []value.Value) (n int) {
	for _, it := range items {
		switch it := it.(type) {
		case nil, value.Ellipsis:
		case *tensor.Tensor:
			n += covered(it)
		default:
			n++
		}
	}
	return n
}

// raw is an argument as it was given.
func (b *build) raw(name string) value.Value {
	for _, it := range b.c.Args.Items {
		if it.Key == name {
			return it.Value
		}
	}
	return nil
}

// covered is the number of dimensions an index tensor is about: those of a mask.
func covered(t *tensor.Tensor) int {
	if t.DType == tensor.Bool || t.DType == tensor.Uint8 {
		return len(t.Shape)
	}
	return 1
}

// indexTensor is an item of an index that is a tensor or a list of numbers, else nil.
func (b *build) indexTensor(v value.Value, role string) *Tensor {
	switch v := v.(type) {
	case *tensor.Tensor:
		if covered(v) == 0 {
			b.fail("DIOPI has no function for a mask without dimensions")
		}
		t, _ := b.given(role, v, false)
		return t
	case *value.Sequence:
		list, ok := sizes(v)
		if _, isBool := firstItem(v).(bool); !ok || isBool {
			b.fail("%s is %s: DIOPI takes tensors", role, value.Repr(v))
		}
		t, _ := b.given(role, tensor.New(tensor.Int64, []int{len(list)}, list), false)
		return t
	}
	return nil
}

func firstItem(s *value.Sequence) value.Value {
	if len(s.Items) == 0 {
		return nil
	}
	return s.Items[0]
}

// span are start, end and step of a slice of a dimension of size n.
func (b *build) span(s value.Slice, n int) (start, end, step int) {
	part := func(v value.Value, otherwise int) int {
		if v == nil {
			return otherwise
		}
		i, _, integral, _ := number(b.numberOf(v))
		if !integral {
			b.fail("a part of the slice is %s", describe(v))
		}
		return int(i)
	}
	within := func(i int) int {
		if i < 0 {
			i += n
		}
		return min(max(i, 0), n)
	}
	start, end, step = within(part(s.Start, 0)), within(part(s.Stop, n)), part(s.Step, 1)
	if step <= 0 {
		b.fail("the step of the slice must be positive, got %d", step)
	}
	return start, max(start, end), step
}

// numberOf is the element of a tensor of one element, else v.
func (b *build) numberOf(v value.Value) any {
	if t, ok := v.(*tensor.Tensor); ok {
		d, _ := b.given("index", t, false)
		return b.scalarOf(d)
	}
	return v
}

// assigned is what setitem writes in the last step, of the shape it views; for
// tensors the values as they are given.
func (b *build) assigned(last step, dt tensor.DType) *Tensor {
	v, isTensor := b.args["value"].(*Tensor)
	shape := last.shape
	if last.indices != nil {
		shape = []int{}
		if isTensor {
			if v.DType == dt {
				return v
			}
			shape = v.Shape
		}
	}
	out := newTensor(dt, shape)
	out.Role = "values"
	if isTensor {
		if v.DType == dt && slices.Equal(v.Shape, shape) {
			return v
		}
		b.call("CopyInp", nil, map[string]Arg{"src": v, "dest": out})
		return out
	}
	i, f, integral, ok := number(b.args["value"])
	if !ok {
		b.fail("value must be a tensor or a number, got %s", describe(b.args["value"]))
	}
	b.call("Fill", nil, map[string]Arg{"input": out, "value": b.scalar(i, f, integral)})
	return out
}
