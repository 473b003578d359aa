package megatron

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
)

// fsdps are what FSDP2 (torch.distributed.fsdp.fully_shard) copies parameters and gradients
// with, before and after its collectives.
func fsdps() []*opdef.Entry {
	out := []*opdef.Entry{gatherCopyIn, splitCopy}
	for _, name := range []string{"chunk_cat", "chunk_cat_mixed_dtype"} {
		out = append(out, chunkCat(name))
	}
	return out
}

// fsdpDoc documents a kernel of FSDP2.
func fsdpDoc(summary, formula string) opdef.Doc {
	return opdef.Doc{Summary: summary, Formula: formula, Source: "torch.distributed.fsdp.fully_shard"}
}

type gatherCopyInArgs struct {
	AllGatherInputs     []*tensor.Tensor
	AllGatherOutput     *tensor.Tensor
	InpSplitSizes       []int
	AllGatherInputNumel int
	Rank                int
}

var gatherCopyIn = compose.Declare(compose.Op[gatherCopyInArgs]{
	Schema: "fsdp_all_gather_copy_in(Tensor[] all_gather_inputs, Tensor all_gather_output, int[] inp_split_sizes, " +
		"int all_gather_input_numel, int rank) -> (Tensor, Tensor)",
	Names: "torch.ops.fsdp.all_gather_copy_in",
	Doc: fsdpDoc("The place of a rank in what is gathered, and all of it, in place",
		"all_gather_output[rank*n : (rank+1)*n] becomes the inputs one after the other, n = all_gather_input_numel"),
	NoGrad: "it copies without recording gradients",
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *gatherCopyInArgs {
		return &gatherCopyInArgs{[]*tensor.Tensor{g.Normal(dt, 4), g.Normal(dt, 2)}, g.Normal(dt, 12), []int{4, 2}, 6,
			1}
	}),
}, compose.Fused, func(g *compose.Graph, a *gatherCopyInArgs) compose.Values {
	whole, n := g.Arg("all_gather_output", a.AllGatherOutput), a.AllGatherInputNumel
	from := a.Rank * n
	if whole.Dim() != 1 || n < 0 || from < 0 || from+n > whole.Shape()[0] {
		g.Refuse("all_gather_output", "%s has no place of %d elements for rank %d", a.AllGatherOutput.Meta(), n, a.Rank)
	}
	parts := g.Args("all_gather_inputs", a.AllGatherInputs)
	var sizes []int
	for i, p := range parts {
		sizes = append(sizes, p.T.Numel())
		parts[i] = g.To(g.Reshape(p, sizes[i]), whole.DType())
	}
	own := g.Cat(0, parts...)
	if !slices.Equal(sizes, a.InpSplitSizes) || own.Shape()[0] != n {
		g.Refuse("inp_split_sizes", "%v do not cut %d elements into %v", a.InpSplitSizes, n, sizes)
	}
	after := g.Cat(0, g.Narrow(whole, 0, 0, from), own, g.Narrow(whole, 0, from+n, whole.Shape()[0]-from-n))
	g.Update("all_gather_output", after)
	return compose.Values{own, after}
})

type splitCopyArgs struct {
	AllGatherOutput          *tensor.Tensor
	AllGatherInputSplitSizes []int
	Dim                      int
	Out                      []*tensor.Tensor
}

var splitCopy = compose.DeclareInPlace(compose.Op[splitCopyArgs]{
	Schema: "fsdp_split_with_sizes_copy(Tensor all_gather_output, int[] all_gather_input_split_sizes, int dim=0, *, " +
		"Tensor[] out) -> ()",
	Names: "torch.ops.fsdp.split_with_sizes_copy",
	Doc:   fsdpDoc("Parts of given sizes along a dimension, into out", "out[i] = split(all_gather_output, sizes, dim)[i]"),
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *splitCopyArgs {
		return &splitCopyArgs{g.Normal(dt, 2, 5), []int{3, 2}, 1,
			[]*tensor.Tensor{g.Normal(dt, 2, 3), g.Normal(dt, 2, 2)}}
	}),
}, nil, func(g *compose.Graph, a *splitCopyArgs) compose.Values {
	x, out := g.Arg("all_gather_output", a.AllGatherOutput), g.Args("out", a.Out)
	dim, total := g.Axis("dim", a.Dim, x), 0
	for _, n := range a.AllGatherInputSplitSizes {
		total += n
	}
	if total != x.Shape()[dim] || len(out) != len(a.AllGatherInputSplitSizes) {
		g.Refuse("all_gather_input_split_sizes", "%v do not cut %s along dimension %d into %d parts",
			a.AllGatherInputSplitSizes, a.AllGatherOutput.Meta(), dim, len(out))
	}
	for i, part := range g.Split(x, a.AllGatherInputSplitSizes, dim) {
		updateList(g, "out", out[i], part)
	}
	return nil
})

// updateList is the next tensor of a list that takes y's elements.
func updateList(g *compose.Graph, name string, old, y *compose.Value) {
	if !slices.Equal(old.Shape(), y.Shape()) {
		g.Refuse(name, "%s does not take %s", old.T.Meta(), tensor.ShapeString(y.Shape()))
	}
	g.Update(name, g.To(y, old.DType()))
}

type chunkCatArgs struct {
	Tensors        []*tensor.Tensor
	Dim, NumChunks int
	Out            *tensor.Tensor
}

func chunkCat(name string) *opdef.Entry {
	return compose.DeclareInPlace(compose.Op[chunkCatArgs]{
		Schema: "fsdp_" + name + "(Tensor[] tensors, int dim, int num_chunks, *, Tensor out) -> ()",
		Names:  "torch.ops.fsdp." + name,
		Doc: fsdpDoc("Chunk by chunk the chunks of all tensors, which zeros fill up, into out",
			"out[c] = the c-th of num_chunks parts along dim of each tensor, flattened, one after the other"),
		Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *chunkCatArgs {
			return &chunkCatArgs{[]*tensor.Tensor{g.Normal(dt, 3), g.Normal(dt, 3, 2)}, 0, 2, g.Normal(dt, 2, 6)}
		}),
	}, nil, func(g *compose.Graph, a *chunkCatArgs) compose.Values {
		if a.NumChunks <= 0 {
			g.Refuse("num_chunks", "want a positive number, got %d", a.NumChunks)
		}
		var parts []*compose.Value
		dim := 0
		for i, x := range g.Args("tensors", a.Tensors) {
			d := g.Axis("dim", a.Dim, x)
			if i > 0 && d != dim {
				g.Refuse("dim", "it is %d of one tensor and %d of another", dim, d)
			}
			dim = d
			head, n := x.Shape()[:dim], x.Shape()[dim]
			if short := (a.NumChunks - n%a.NumChunks) % a.NumChunks; short > 0 {
				filler := slices.Clone(x.Shape())
				filler[dim] = short
				x = g.Cat(dim, x, g.Full(x.DType(), filler, 0))
			}
			rest := tensor.Numel(x.Shape()[dim:]) / a.NumChunks
			parts = append(parts, g.To(g.Reshape(x, append(slices.Clone(head), a.NumChunks, rest)...), a.Out.DType))
		}
		updateList(g, "out", g.Arg("out", a.Out), g.Cat(dim+1, parts...))
		return nil
	})
}
