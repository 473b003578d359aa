package deeplink

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// paddingNames are those of a function that flash-attn has too.
func paddingNames(name string) string {
	return names("easyllm_ops."+name, "easyllm_ops.bert_padding."+name) + " flash_attn.bert_padding." + name
}

const paddingSource = "deeplink_ext.easyllm_ops.bert_padding"

type indexArgs struct{ Input, Indices *tensor.Tensor }

// someIndices are rows, none of them twice.
func someIndices() *tensor.Tensor {
	return tensor.New(tensor.Int64, []int{3}, []int64{4, 0, 2}).Rounded()
}

// rowsAt are the indices of rows, from 0 to n.
func rowsAt(g *compose.Graph, t *tensor.Tensor, n int) []int {
	rows := fused.Ints(g, "indices", t)
	for _, r := range rows {
		if r < 0 || r >= n {
			g.Refuse("indices", "row %d is not among %d", r, n)
		}
	}
	return rows
}

// picked are the rows at indices of x.
func picked(g *compose.Graph, name string, x *compose.Value, indices *tensor.Tensor) *compose.Value {
	if x.Dim() < 2 {
		g.Refuse(name, "want at least 2 dimensions, got %s", x.T.Meta())
	}
	return g.IndexSelect(x, 0, rowsAt(g, indices, x.Shape()[0]))
}

func indexCases(g opdef.Gen) []*indexArgs {
	return opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *indexArgs {
		return &indexArgs{g.Normal(dt, 5, 2, 3), someIndices()}
	})(g)
}

var indexFirst = compose.Declare(compose.Op[indexArgs]{
	Schema: "index_first_axis(Tensor input, Tensor indices) -> Tensor",
	Names: paddingNames("index_first_axis") + " " + names("easyllm_ops.bert_padding.IndexFirstAxis.apply") +
		" flash_attn.bert_padding.IndexFirstAxis.apply",
	Doc: opdef.Doc{Summary: "Rows at indices", Formula: "input[indices]",
		Notes:  "Of indices that occur twice the gradients are added, where the library takes one of them.",
		Source: paddingSource},
	Cases: indexCases,
}, compose.Fused, func(g *compose.Graph, a *indexArgs) compose.Values {
	return compose.Values{picked(g, "input", g.Arg("input", a.Input), a.Indices)}
})

var indexFirstResidual = compose.Declare(compose.Op[indexArgs]{
	Schema: "index_first_axis_residual(Tensor input, Tensor indices) -> (Tensor, Tensor)",
	Names: names("easyllm_ops.bert_padding.index_first_axis_residual",
		"easyllm_ops.bert_padding.IndexFirstAxisResidual.apply") +
		" flash_attn.bert_padding.index_first_axis_residual flash_attn.bert_padding.IndexFirstAxisResidual.apply",
	Doc:   opdef.Doc{Summary: "Rows at indices, and all rows", Formula: "input[indices], input", Source: paddingSource},
	Cases: indexCases,
}, compose.Fused, func(g *compose.Graph, a *indexArgs) compose.Values {
	x := g.Arg("input", a.Input)
	return compose.Values{picked(g, "input", x, a.Indices), g.Alias(x)}
})

type putArgs struct {
	Values, Indices *tensor.Tensor
	FirstAxisDim    int
}

// spread is rows of zeros, n of them, with those of x at indices, which differ.
func spread(g *compose.Graph, name string, x *compose.Value, indices *tensor.Tensor, n int) *compose.Value {
	if x.Dim() < 2 || n < 0 {
		g.Refuse(name, "want at least 2 dimensions and a number of rows, got %s and %d", x.T.Meta(), n)
	}
	shape := append([]int{n}, x.Shape()[1:]...)
	if err := tensor.CheckSize(shape); err != nil {
		g.Refuse("first_axis_dim", "%v", err)
	}
	rows, seen := rowsAt(g, indices, n), map[int]bool{}
	if len(rows) != x.Shape()[0] {
		g.Refuse("indices", "want one for each of %d rows, got %d", x.Shape()[0], len(rows))
	}
	width, places := tensor.Numel(shape[1:]), []int64{}
	for _, r := range rows {
		if seen[r] {
			g.Refuse("indices", "row %d is written twice", r)
		}
		seen[r] = true
		places = append(places, fused.Span(r*width, width)...)
	}
	return g.Put(g.Full(x.DType(), shape, 0), places, x)
}

var indexPut = compose.Declare(compose.Op[putArgs]{
	Schema: "index_put_first_axis(Tensor values, Tensor indices, int first_axis_dim) -> Tensor",
	Names: names("easyllm_ops.bert_padding.index_put_first_axis",
		"easyllm_ops.bert_padding.IndexPutFirstAxis.apply") +
		" flash_attn.bert_padding.index_put_first_axis flash_attn.bert_padding.IndexPutFirstAxis.apply",
	Doc: opdef.Doc{Summary: "Rows at indices among zeros", Formula: "out[indices] = values, the rest of " +
		"first_axis_dim rows 0", Notes: "Indices that occur twice are refused.", Source: paddingSource},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *putArgs {
		return &putArgs{g.Normal(dt, 3, 2, 3), someIndices(), 6}
	}),
}, compose.Fused, func(g *compose.Graph, a *putArgs) compose.Values {
	return compose.Values{spread(g, "values", g.Arg("values", a.Values), a.Indices, a.FirstAxisDim)}
})

type padArgs struct {
	HiddenStates, Indices *tensor.Tensor
	Batch, Seqlen         int
}

var padInput = compose.Declare(compose.Op[padArgs]{
	Schema: "pad_input(Tensor hidden_states, Tensor indices, int batch, int seqlen) -> Tensor",
	Names:  paddingNames("pad_input"),
	Doc: opdef.Doc{Summary: "Sequences padded with zeros to one length",
		Formula: "out[i/seqlen, i%seqlen] = hidden_states[j], i = indices[j], the rest of (batch, seqlen, ...) 0",
		Notes:   "Indices that occur twice are refused.", Source: paddingSource},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *padArgs {
		return &padArgs{g.Normal(dt, 3, 2, 3), someIndices(), 2, 3}
	}),
}, compose.Unfused, func(g *compose.Graph, a *padArgs) compose.Values {
	x := g.Arg("hidden_states", a.HiddenStates)
	if err := tensor.CheckSize([]int{a.Batch, a.Seqlen}); err != nil || x.Dim() < 2 {
		g.Refuse("hidden_states", "want rows, a batch and a length, got %s, %d and %d", x.T.Meta(), a.Batch, a.Seqlen)
	}
	y := spread(g, "hidden_states", x, a.Indices, a.Batch*a.Seqlen)
	return compose.Values{g.Reshape(y, append([]int{a.Batch, a.Seqlen}, x.Shape()[1:]...)...)}
})

type (
	unpadArgs  struct{ HiddenStates, AttentionMask *tensor.Tensor }
	concatArgs struct{ HiddenStates, AttentionMaskInLength *tensor.Tensor }
)

// packed are the rows of x [batch, length, ...] at the given places of batch*length, these
// places, and where sequences of the given lengths begin and end among them.
func packed(g *compose.Graph, x *compose.Value, rows []int, lengths []int64) compose.Values {
	shape := append([]int{x.Shape()[0] * x.Shape()[1]}, x.Shape()[2:]...)
	at, ends := tensor.Make[int64](len(rows)), tensor.Make[int64](len(lengths)+1)
	for i, r := range rows {
		at[i] = int64(r)
	}
	for i, n := range lengths {
		ends[i+1] = ends[i] + n
	}
	return compose.Values{g.IndexSelect(g.Reshape(x, shape...), 0, rows),
		g.Const(tensor.New(tensor.Int64, []int{len(at)}, at)), g.Const(tensor.New(tensor.Int32, []int{len(ends)},
			ends))}
}

// masks are the rows of an integer mask of x's first two dimensions.
func masks(g *compose.Graph, name string, x *compose.Value, t *tensor.Tensor) [][]int64 {
	if x.Dim() < 2 || t.Dim() != 2 || t.Shape[0] != x.Shape()[0] || t.Shape[1] != x.Shape()[1] ||
		t.DType.Kind() >= tensor.KindFloat || t.Shape[0] == 0 {
		g.Refuse(name, "want integers or bool for the first two dimensions of %s, got %s", x.T.Meta(), t.Meta())
	}
	all := tensor.Data[int64](opdef.Cast(t, tensor.Int64))
	out := tensor.Make[[]int64](t.Shape[0])
	for i := range out {
		out[i] = all[i*t.Shape[1]:][:t.Shape[1]]
	}
	return out
}

// kept are the places of masks that are not 0, and how much each row holds.
func kept(masks [][]int64) (rows []int, lengths []int64) {
	lengths = tensor.Make[int64](len(masks))
	for i, row := range masks {
		for j, m := range row {
			if lengths[i] += m; m != 0 {
				rows = append(rows, i*len(row)+j)
			}
		}
	}
	return rows, lengths
}

// somePadding is a mask of two sequences.
func somePadding() *tensor.Tensor {
	return tensor.New(tensor.Bool, []int{2, 3}, []int64{1, 1, 0, 1, 0, 1}).Rounded()
}

const unpadNotes = "Results are the rows, their places, where sequences begin and end, as int32, and the longest " +
	"length."

var unpadInput = compose.Declare(compose.Op[unpadArgs]{
	Schema: "unpad_input(Tensor hidden_states, Tensor attention_mask) -> (Tensor, Tensor, Tensor, int)",
	Names:  names("easyllm_ops.unpad_input", "easyllm_ops.bert_padding.unpad_input"),
	Doc: opdef.Doc{Summary: "The rows of sequences that a mask keeps, one after the other",
		Formula: "rows of hidden_states where attention_mask is not 0",
		Notes:   "hidden_states is (batch, length, ...). " + unpadNotes, Source: paddingSource},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *unpadArgs {
		return &unpadArgs{g.Normal(dt, 2, 3, 4), somePadding()}
	}),
}, compose.Fused, func(g *compose.Graph, a *unpadArgs) compose.Values {
	x := g.Arg("hidden_states", a.HiddenStates)
	rows, lengths := kept(masks(g, "attention_mask", x, a.AttentionMask))
	return packed(g, x, rows, lengths)
})

var unpadConcatenated = compose.Declare(compose.Op[concatArgs]{
	Schema: "unpad_input_for_concatenated_sequences(Tensor hidden_states, Tensor attention_mask_in_length) -> " +
		"(Tensor, Tensor, Tensor, int)",
	Names: names("easyllm_ops.bert_padding.unpad_input_for_concatenated_sequences") +
		" flash_attn.bert_padding.unpad_input_for_concatenated_sequences",
	Doc: opdef.Doc{Summary: "The rows of sequences of several samples each, one after the other",
		Formula: "the first sum(attention_mask_in_length[i]) rows of each sequence i",
		Notes: "hidden_states is (batch, length, ...); attention_mask_in_length has the lengths of the samples of " +
			"sequence i in row i, 0 elsewhere. " + unpadNotes, Source: paddingSource},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *concatArgs {
		return &concatArgs{g.Normal(dt, 2, 4, 3),
			tensor.New(tensor.Int64, []int{2, 4}, []int64{2, 1, 0, 0, 3, 0, 0, 0}).Rounded()}
	}),
}, compose.Fused, func(g *compose.Graph, a *concatArgs) compose.Values {
	x := g.Arg("hidden_states", a.HiddenStates)
	var rows []int
	var lengths []int64
	length := 0
	for i, row := range masks(g, "attention_mask_in_length", x, a.AttentionMaskInLength) {
		total := int64(0)
		for _, n := range row {
			if n < 0 || n > int64(len(row)) {
				g.Refuse("attention_mask_in_length", "a sample of %d rows among %d", n, len(row))
			}
			if total += n; n > 0 {
				lengths = append(lengths, n)
			}
		}
		length = len(row)
		for j := range min(int(total), length) {
			rows = append(rows, i*length+j)
		}
	}
	return packed(g, x, rows, lengths)
})
