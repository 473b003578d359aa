package diopi

import (
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

var indexing = []*Recipe{
	{Function: "gather", sig: "input dim index", fwd: "Gather", bwd: "GatherBackward",
		outs: []out{result(asInput, shapeOf("index"))}},
	{Function: "scatter", sig: "input dim index src=None value=None reduce=None", fwd: "Scatter ScatterScalar",
		inp:  "ScatterInp ScatterInpScalar",
		outs: []out{like("input")}},
	{Function: "index_select", sig: "input dim index", fwd: "IndexSelect", bwd: "IndexSelectBackward",
		gbind: bindings{"input_sizes": inputShape},
		outs: []out{result(asInput, func(b *build) []int {
			x := b.tensor("input").Shape
			if len(x) == 0 {
				return x
			}
			return replaced(x, b.dim("dim", len(x)), tensor.Numel(b.tensor("index").Shape))
		})}},
	{Function: "index_fill", sig: "input dim index value", fwd: "IndexFill IndexFillScalar",
		inp: "IndexFillInp IndexFillInpScalar", outs: []out{like("input")}},
	{Function: "index_put", sig: "input values indices1 indices2=None indices3=None accumulate=False", fwd: "IndexPut",
		inp: "IndexPutInp", also: "CopyInp",
		bind: bindings{"indices": putIndices},
		forward: func(b *build) {
			o := rawLike(b.tensor("input"))
			b.result(o)
			b.call("CopyInp", nil, map[string]Arg{"src": b.tensor("input"), "dest": o})
			b.call("IndexPut", b.r.bind, map[string]Arg{"out": o})
		}},
	{Function: "index", sig: "input **", fwd: "Index", bwd: "IndexBackward", also: "Fill",
		bind: bindings{"indices": indices}, gbind: bindings{"indices": indices},
		backward: func(b *build) {
			zeros := rawLike(b.tensor("input"))
			zeros.Role = "zeros_like_input"
			b.call("Fill", nil, map[string]Arg{"input": zeros, "value": b.scalar(0, 0, true)})
			b.written["zeros_like_input"] = zeros
			b.callBackward()
		}},
	{Function: "select", sig: "input dim index", fwd: "Select", bwd: "SelectBackward",
		gbind: bindings{"input_sizes": inputShape},
		outs: []out{result(asInput, func(b *build) []int {
			x := b.tensor("input").Shape
			d := b.dim("dim", len(x))
			return slices.Delete(slices.Clone(x), d, d+1)
		})}},
	{Function: "slice_op", sig: "input dim index", fwd: "Slice", bwd: "SliceBackward",
		bind:  bindings{"start": slicePart(0), "end": slicePart(1), "step": slicePart(2)},
		gbind: bindings{"start": slicePart(0), "end": slicePart(1), "step": slicePart(2), "input_sizes": inputShape},
		outs: []out{result(asInput, func(b *build) []int {
			x := b.tensor("input").Shape
			s := b.slice()
			return replaced(x, b.dim("dim", len(x)), int((s[1]-s[0]+s[2]-1)/s[2]))
		})}},
	{Function: "masked_select", sig: "input mask", fwd: "MaskedSelect", bwd: "MaskedSelectBackward"},
	{Function: "masked_scatter", sig: "input mask source", fwd: "MaskedScatter", outs: []out{like("input")}},
	{Function: "nonzero", sig: "input", fwd: "Nonzero"},
	{Function: "one_hot", sig: "input num_classes=-1", fwd: "OneHot", outs: []out{result(index, func(b *build) []int {
		x, n := b.tensor("input"), b.int("num_classes")
		if n == -1 {
			if tensor.Numel(x.Shape) == 0 {
				b.fail("num_classes must be given for an input without elements")
			}
			n = int(slices.Max(tensor.Data[int64](x.Value))) + 1
		}
		return append(slices.Clone(x.Shape), n)
	})}},
	{Function: "embedding",
		sig: "input weight padding_idx=None max_norm=None norm_type=2.0 scale_grad_by_freq=False sparse=False",
		fwd: "Embedding", bwd: "EmbeddingBackward", also: "EmbeddingRenorm_",
		bind: bindings{"indices": "input", "scale_grad_byfreq": "scale_grad_by_freq", "padding_idx": paddingIndex},
		gbind: bindings{"indices": "input", "scale_grad_byfreq": "scale_grad_by_freq", "padding_idx": paddingIndex,
			"out":         grad{of: "weight", rule: fresh(dtypeOf("weight"), shapeOf("weight"))},
			"num_weights": func(b *build) any { return b.rank("weight", 2)[0] }},
		outs: []out{result(dtypeOf("weight"), func(b *build) []int {
			return append(slices.Clone(b.tensor("input").Shape), b.rank("weight", 2)[1])
		})},
		forward: func(b *build) {
			if b.args["max_norm"] != nil {
				b.call("EmbeddingRenorm_", bindings{"inout": "weight", "indices": "input"}, nil)
			}
			b.callForward(b.r.fwd)
		}},
	{Function: "nms", sig: "boxes scores iou_threshold", fwd: "Nms", bind: bindings{"confidence": "scores"}},
	{Function: "roi_align", sig: "input boxes output_size spatial_scale=1.0 sampling_ratio=-1 aligned=False",
		fwd: "RoiAlign", bwd: "RoiAlignBackward",
		prepare: func(b *build) { b.spread(2, "output_size") },
		bind:    bindings{"rois": "boxes", "pooled_height": pooledSize(0), "pooled_width": pooledSize(1)},
		gbind: bindings{"rois": "boxes", "pooled_height": pooledSize(0), "pooled_width": pooledSize(1),
			"out":        grad{of: "input"},
			"batch_size": inputSize(0), "channels": inputSize(1), "height": inputSize(2), "width": inputSize(3)},
		outs: []out{{rule: func(b *build) any {
			x, size := b.rank("input", 4), b.spatial("output_size", 2)
			return b.channelsLast(newTensor(asInput(b), []int{b.rank("boxes", 2)[0], x[1], size[0], size[1]}), 2)
		}}}},
}

func pooledSize(i int) func(*build) any {
	return func(b *build) any { return b.spatial("output_size", 2)[i] }
}

func inputSize(i int) func(*build) any { return func(b *build) any { return b.rank("input", 4)[i] } }

// putIndices are the indices up to the last that is given, null for dimensions
// between them that have none.
func putIndices(b *build) any {
	var list Tensors
	given := 0
	for _, name := range []string{"indices1", "indices2", "indices3"} {
		t, _ := b.args[name].(*Tensor)
		list = append(list, t)
		if t != nil {
			given = len(list)
		}
	}
	return list[:given]
}

// indices are the indices in order of the keywords; a None stands for as many
// whole dimensions as the indices after it leave.
func indices(b *build) any {
	list, ellipsis := Tensors{}, false
	for _, it := range b.c.Args.Items {
		name, _ := it.Key.(string)
		if name == "input" {
			continue
		}
		t, _ := b.args[name].(*Tensor)
		if t == nil {
			ellipsis = true
			continue
		}
		if ellipsis {
			ellipsis = false
			list = append(list, make(Tensors, max(0, len(b.tensor("input").Shape)-len(t.Shape)-len(list)))...)
		}
		list = append(list, t)
	}
	return list
}

// paddingIndex is padding_idx from the front, -1 for None.
func paddingIndex(b *build) any {
	if b.args["padding_idx"] == nil {
		return int64(-1)
	}
	i := b.int("padding_idx")
	if i < 0 {
		i += b.rank("weight", 2)[0]
	}
	return i
}

// slice is the start, stop and step of the argument index.
func (b *build) slice() [3]int64 {
	s, ok := b.args["index"].(value.Slice)
	if !ok {
		b.fail("index must be a slice, got %s", describe(b.args["index"]))
	}
	x := b.tensor("input").Shape
	parts := [3]int64{0, int64(x[b.dim("dim", len(x))]), 1}
	for i, v := range []value.Value{s.Start, s.Stop, s.Step} {
		if v == nil {
			continue
		}
		n, _, integral, _ := number(v)
		if !integral {
			b.fail("a part of the slice is %s", describe(v))
		}
		parts[i] = n
	}
	if parts[2] <= 0 {
		b.fail("the step of the slice must be positive, got %d", parts[2])
	}
	return parts
}

func slicePart(i int) func(*build) any { return func(b *build) any { return b.slice()[i] } }
