package diopi

import (
	"math"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

var shapes = []*Recipe{
	{Function: "cat", sig: "tensors dim=0", fwd: "Cat", outs: []out{{rule: func(b *build) any {
		list := b.tensors("tensors")
		d := b.dim("dim", len(list[0].Shape))
		shape := slices.Clone(list[0].Shape)
		for _, t := range list[1:] {
			if len(t.Shape) != len(shape) {
				if slices.Equal(t.Shape, []int{0}) {
					continue
				}
				b.fail("tensors must have the same number of dimensions, got shapes %v and %v", shape, t.Shape)
			}
			shape[d] += t.Shape[d]
		}
		return newTensor(list[0].DType, shape)
	}}}},
	{Function: "stack", sig: "tensors dim=0", fwd: "Stack", outs: []out{{rule: func(b *build) any {
		list := b.tensors("tensors")
		shape := list[0].Shape
		return newTensor(list[0].DType, slices.Insert(slices.Clone(shape), b.dim("dim", len(shape)+1), len(list)))
	}}}},
	{Function: "split", sig: "tensor split_size_or_sections dim=0", fwd: "SplitWithSizes",
		bind: bindings{"input": "tensor", "splitSizes": func(b *build) any { return mustSizes(splitSizes(b)) }},
		outs: []out{{rule: func(b *build) any {
			t := b.tensor("tensor")
			var list Tensors
			for _, n := range splitSizes(b) {
				list = append(list, newTensor(t.DType, replaced(t.Shape, b.dim("dim", len(t.Shape)), n)))
			}
			return list
		}}}},
	{Function: "transpose", sig: "input dim0 dim1", fwd: "Transpose", outs: []out{result(asInput, func(b *build) []int {
		shape := slices.Clone(b.tensor("input").Shape)
		if len(shape) > 0 {
			i, j := b.dim("dim0", len(shape)), b.dim("dim1", len(shape))
			shape[i], shape[j] = shape[j], shape[i]
		}
		return shape
	})}},
	{Function: "permute", sig: "input dims", fwd: "Permute", outs: []out{result(asInput, func(b *build) []int {
		x := b.tensor("input").Shape
		shape := slices.Clone(x)
		for i, d := range b.spatial("dims", len(x)) {
			shape[i] = x[b.inRange("dims", d, len(x))]
		}
		return shape
	})}},
	{Function: "expand", sig: "input size", fwd: "Expand", outs: []out{result(asInput, func(b *build) []int {
		x, size := b.tensor("input").Shape, slices.Clone(b.ints("size"))
		for i := range x {
			if k := len(size) - len(x) + i; k >= 0 && size[k] == -1 {
				size[k] = x[i]
			}
		}
		return size
	})}},
	{Function: "repeat", sig: "input repeats", fwd: "Repeat", bind: bindings{"repeats_size": "repeats"},
		outs: []out{result(asInput, func(b *build) []int {
			x, shape := b.tensor("input").Shape, slices.Clone(b.ints("repeats"))
			for i := range shape {
				if k := len(x) - len(shape) + i; k >= 0 {
					shape[i] *= x[k]
				}
			}
			return shape
		})}},
	{Function: "flip", sig: "input dims", fwd: "Flip", outs: []out{like("input")}},
	{Function: "roll", sig: "input shifts dims=None", fwd: "Roll", outs: []out{like("input")}},
	{Function: "tril", sig: "input diagonal=0", fwd: "Tril", outs: []out{like("input")}},
	{Function: "triu", sig: "input diagonal=0", fwd: "Triu", inp: "TriuInp",
		outs: []out{result(asInput, shapeOf("input"))}},
	{Function: "pad", sig: "input pad mode='constant' value=None", fwd: "Pad",
		prepare: func(b *build) {
			if b.args["value"] == nil && b.args["mode"] == "constant" {
				b.args["value"] = int64(0)
			}
		},
		outs: []out{{rule: func(b *build) any {
			shape, pad := slices.Clone(b.tensor("input").Shape), b.ints("pad")
			if len(pad)%2 != 0 || len(pad)/2 > len(shape) {
				b.fail("pad of %d numbers does not fit shape %v", len(pad), shape)
			}
			for i := range len(pad) / 2 {
				shape[len(shape)-1-i] += pad[2*i] + pad[2*i+1]
			}
			t := newTensor(asInput(b), shape)
			if len(shape) < 5 {
				return b.channelsLast(t, 2)
			}
			return b.channelsLast(t, 3)
		}}}},
	{Function: "meshgrid", sig: "tensors shape=None", fwd: "MeshGrid", bind: bindings{"inputs": "tensors"},
		outs: []out{{rule: func(b *build) any {
			shape := []int{}
			for _, t := range b.tensors("tensors") {
				shape = append(shape, tensor.Numel(t.Shape))
			}
			var list Tensors
			for range shape {
				list = append(list, newTensor(b.tensors("tensors")[0].DType, shape))
			}
			return list
		}}}},
	{Function: "copy_", sig: "input other", fwd: "CopyInp", bind: bindings{"src": "other", "dest": "input"},
		returns: "input"},
	{Function: "interpolate",
		sig: "input size=None scale_factor=None mode='nearest' align_corners=False keep_scale=False",
		fwd: "UpsampleNearest UpsampleLinear", bwd: "UpsampleNearestBackward UpsampleLinearBackward",
		bind:  bindings{"size": resized},
		gbind: bindings{"out_size": resized, "in_size": inputShape},
		outs: []out{{rule: func(b *build) any {
			x := b.tensor("input").Shape
			shape := slices.Clone(x[:2])
			for _, n := range resized(b).(Size) {
				shape = append(shape, int(n))
			}
			t := newTensor(asInput(b), shape)
			if len(shape) < 5 {
				return b.channelsLast(t, 2)
			}
			return b.channelsLast(t, 3)
		}}},
		forward: func(b *build) { b.callForward(upsample(b)) },
		backward: func(b *build) {
			b.call(upsample(b)+"Backward", b.r.gbind, map[string]Arg{"grad_input": b.gradient(grad{of: "input"})})
		}},
	{Function: "grid_sample", sig: "input grid mode='bilinear'", fwd: "GridSample",
		outs: []out{result(asInput, func(b *build) []int {
			x, g := b.rank("input", 4, 5), b.tensor("grid").Shape
			if len(g) != len(x) {
				b.fail("grid must have %d dimensions, got shape %v", len(x), g)
			}
			return append([]int{x[0], x[1]}, g[1:len(g)-1]...)
		})}},
}

func upsample(b *build) string {
	switch mode := b.args["mode"]; mode {
	case "nearest":
		return "UpsampleNearest"
	case "linear", "bilinear", "trilinear", "bicubic":
		return "UpsampleLinear"
	default:
		b.fail("mode must be nearest, linear, bilinear, trilinear or bicubic, got %s", describe(mode))
		return ""
	}
}

// splitSizes are the sizes of the parts: a last part may be shorter.
func splitSizes(b *build) []int {
	shape := b.tensor("tensor").Shape
	left := shape[b.dim("dim", len(shape))]
	if s, ok := b.args["split_size_or_sections"].(*value.Sequence); ok {
		n, _ := sizes(s)
		parts := make([]int, len(n))
		for i := range n {
			parts[i] = min(int(n[i]), left)
			left -= parts[i]
		}
		return parts
	}
	n := b.int("split_size_or_sections")
	if n <= 0 {
		b.fail("split_size_or_sections must be positive, got %d", n)
	}
	var parts []int
	for ; left > 0; left -= n {
		parts = append(parts, min(n, left))
	}
	return parts
}

// resized are the sizes interpolate is asked for. With keep_scale positions follow
// scale_factor, as PyTorch has it.
func resized(b *build) any {
	x := b.tensor("input").Shape
	if len(x) < 3 {
		b.fail("input must have a spatial dimension, got shape %v", x)
	}
	n := len(x) - 2
	if b.args["size"] != nil {
		b.spread(n, "size")
		return mustSizes(b.spatial("size", n))
	}
	factors := make([]float64, n)
	if s, ok := b.args["scale_factor"].(*value.Sequence); ok && len(s.Items) == n {
		for i, it := range s.Items {
			_, factors[i], _, _ = number(it)
		}
	} else {
		for i := range factors {
			factors[i] = b.float("scale_factor")
		}
	}
	out := make(Size, n)
	for i, f := range factors {
		size := f * float64(x[i+2])
		out[i] = int64(size)
		// The C functions take sizes alone and map positions by their ratio.
		if b.bool("keep_scale") && !b.bool("align_corners") && size != math.Floor(size) {
			b.fail("DIOPI has no scale factors: %g times size %d is no whole number", f, x[i+2])
		}
	}
	return out
}
