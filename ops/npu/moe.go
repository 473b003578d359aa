package npu

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type gatingArgs struct {
	X, Finished *tensor.Tensor
	K           int
}

var gatingTopK = compose.Declare(compose.Op[gatingArgs]{
	Schema: "npu_moe_gating_top_k_softmax(Tensor x, Tensor? finished=None, int k=1) -> (Tensor, Tensor, Tensor)",
	Names:  names("npu_moe_gating_top_k_softmax"),
	Doc: opdef.Doc{Summary: "The experts of rows and their weights",
		Formula: "the k largest of softmax(x, -1), their places, and i + j*rows for place j of row i",
		Notes:   "Places are int32, the first of equal ones first. finished is refused."},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *gatingArgs {
		return &gatingArgs{X: g.Distinct(dt, 3, 6), K: 2}
	}),
}, compose.Fused, func(g *compose.Graph, a *gatingArgs) compose.Values {
	none(g, map[string]*tensor.Tensor{"finished": a.Finished})
	weights, ids := fused.Gating(g, g.Arg("x", a.X), a.K, 1)
	rows := ids.T.Numel() / a.K
	at := tensor.Make[int64](rows * a.K)
	for i := range at {
		at[i] = int64(i%a.K*rows + i/a.K)
	}
	return compose.Values{weights, ids, g.Const(tensor.New(tensor.Int32, ids.Shape(), at))}
})

type routingArgs struct {
	X, RowIdx, ExpertIdx *tensor.Tensor
	ActiveNum            int
}

// byExpert are the places of ids in rising order of these, equal ones as they stand.
func byExpert(ids []int64) []int {
	order := tensor.Make[int](len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(ids[a] - ids[b]) })
	return order
}

var initRouting = compose.Declare(compose.Op[routingArgs]{
	Schema: "npu_moe_init_routing(Tensor x, Tensor row_idx, Tensor expert_idx, int active_num) -> " +
		"(Tensor, Tensor, Tensor)", Names: names("npu_moe_init_routing"),
	Doc: opdef.Doc{Summary: "Rows copied in the order of their experts",
		Formula: "x[s[i] % rows], the places of i in s, and expert_idx sorted, with s the row_idx in that order",
		Notes: "The first result has min(active_num, rows)*k rows; the others are int32. Equal experts keep their " +
			"order."},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *routingArgs {
		experts := tensor.New(tensor.Int32, []int{3, 2}, []int64{1, 0, 0, 3, 2, 1}).Rounded()
		rows := tensor.New(tensor.Int32, []int{3, 2}, []int64{0, 3, 1, 4, 2, 5}).Rounded()
		return &routingArgs{g.Normal(dt, 3, 4), rows, experts, 2}
	}),
}, compose.Fused, func(g *compose.Graph, a *routingArgs) compose.Values {
	x := g.Arg("x", a.X)
	if a.ExpertIdx.Dim() != 2 || !slices.Equal(a.ExpertIdx.Shape, a.RowIdx.Shape) || x.Dim() != 2 ||
		a.ExpertIdx.Shape[0] != x.Shape()[0] || a.ExpertIdx.DType.Kind() != tensor.KindInt ||
		a.RowIdx.DType.Kind() != tensor.KindInt || a.ActiveNum < 0 {
		g.Refuse("expert_idx", "%s and rows %s do not fit %s", a.ExpertIdx.Meta(), a.RowIdx.Meta(), a.X.Meta())
	}
	ids, rows := tensor.Data[int64](a.ExpertIdx), tensor.Data[int64](a.RowIdx)
	n, k := x.Shape()[0], a.ExpertIdx.Shape[1]
	sorted, back, from := tensor.Make[int64](n*k), tensor.Make[int64](n*k), tensor.Make[int](n*k)
	for i, p := range byExpert(ids) {
		if rows[p] < 0 || rows[p] >= int64(n*k) {
			g.Refuse("row_idx", "row %d is not among %d", rows[p], n*k)
		}
		sorted[i], back[rows[p]], from[i] = ids[p], int64(i), int(rows[p])%n
	}
	list := func(v []int64) *compose.Value { return g.Const(tensor.New(tensor.Int32, []int{len(v)}, v)) }
	return compose.Values{g.IndexSelect(x, 0, from[:min(a.ActiveNum, n)*k]), list(back), list(sorted)}
})

type finalizeArgs struct {
	ExpandedPermutedRows, Skip1, Skip2, Bias, Scales *tensor.Tensor
	ExpandedSrcToDstRow, ExportForSourceRow          *tensor.Tensor
	DropPadMode, K                                   *int
}

var finalizeRouting = compose.Declare(compose.Op[finalizeArgs]{
	Schema: "npu_moe_finalize_routing(Tensor expanded_permuted_rows, Tensor? skip1, Tensor? skip2, Tensor? bias, " +
		"Tensor? scales, Tensor expanded_src_to_dst_row, Tensor? export_for_source_row, int? drop_pad_mode=0, " +
		"int? k=1) -> Tensor", Names: names("npu_moe_finalize_routing"),
	Doc: opdef.Doc{Summary: "Rows of experts put together",
		Formula: "skip1[i] + skip2[i] + sum_j scales[i, j] * (rows[p] + bias[export_for_source_row[i, j]]), p = " +
			"expanded_src_to_dst_row[i + j*n]",
		Notes: "p is that of i*k + j in drop_pad_mode 2 and 3; -1 stands for a row of zeros. Without scales they are " +
			"1, " +
			"and k says how many rows are added."},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *finalizeArgs {
		two := 2
		places := fused.Integers(3, 0, 5, 1, -1, 2)
		experts := tensor.New(tensor.Int32, []int{3, 2}, []int64{1, 0, 0, 3, 2, 1}).Rounded()
		a := &finalizeArgs{ExpandedPermutedRows: g.Normal(dt, 6, 4), Skip1: g.Normal(dt, 3, 4),
			Bias: g.Normal(dt, 4, 4), Scales: g.Normal(dt, 3, 2), ExpandedSrcToDstRow: places,
			ExportForSourceRow: experts}
		if g.Nth == 1 {
			a.Skip2, a.DropPadMode = g.Normal(dt, 3, 4), &two
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *finalizeArgs) compose.Values {
	rows, scales, bias := g.Arg("expanded_permuted_rows", a.ExpandedPermutedRows), g.Arg("scales", a.Scales),
		g.Arg("bias", a.Bias)
	if rows.Dim() < 2 || !rows.DType().IsFloat() {
		g.Refuse("expanded_permuted_rows", "want floating rows, got %s", a.ExpandedPermutedRows.Meta())
	}
	width := rows.Shape()[rows.Dim()-1]
	rows = g.Reshape(rows, tensor.Numel(rows.Shape()[:rows.Dim()-1]), width)
	places, k := fused.Ints(g, "expanded_src_to_dst_row", a.ExpandedSrcToDstRow), 1
	switch {
	case scales != nil && scales.Dim() == 2:
		k = scales.Shape()[1]
	case a.K != nil:
		k = *a.K
	}
	if k < 1 || len(places)%k != 0 || scales != nil && scales.T.Numel() != len(places) {
		g.Refuse("scales", "want %d rows for each of %d places", k, len(places))
	}
	n, count := len(places)/k, rows.Shape()[0]
	order := tensor.Make[int](len(places))
	for i := range n {
		for j := range k {
			p := places[j*n+i]
			if a.DropPadMode != nil && *a.DropPadMode >= 2 {
				p = places[i*k+j]
			}
			if p < -1 || p >= count {
				g.Refuse("expanded_src_to_dst_row", "row %d is not among %d", p, count)
			}
			if p == -1 {
				p = count // the row of zeros
			}
			order[i*k+j] = p
		}
	}
	y := g.IndexSelect(g.Cat(0, rows, g.Full(rows.DType(), []int{1, width}, 0)), 0, order)
	y = g.Reshape(y, n, k, width)
	if bias != nil {
		if bias.Dim() != 2 || a.ExportForSourceRow == nil || a.ExportForSourceRow.Numel() != n*k {
			g.Refuse("export_for_source_row", "want the expert of each of %d rows and a bias of each", n*k)
		}
		ids := fused.Ints(g, "export_for_source_row", a.ExportForSourceRow.Reshape(n*k))
		for _, e := range ids {
			if e < 0 {
				g.Refuse("export_for_source_row", "expert %d is not among %d", e, bias.Shape()[0])
			}
		}
		y = g.Add(y, g.Reshape(g.IndexSelect(bias, 0, ids), n, k, width))
	}
	if scales != nil {
		y = g.Mul(y, g.Reshape(scales, n, k, 1))
	}
	y = g.Sum(y, false, 1)
	for _, skip := range []*compose.Value{g.Arg("skip1", a.Skip1), g.Arg("skip2", a.Skip2)} {
		if skip != nil {
			y = g.Add(y, skip)
		}
	}
	return compose.Values{g.To(y, rows.DType())}
})

type permuteArgs struct {
	Tokens, Indices *tensor.Tensor
	NumOutTokens    *int
	PaddedMode      bool
}

var tokenPermute = compose.Declare(compose.Op[permuteArgs]{
	Schema: "npu_moe_token_permute(Tensor tokens, Tensor indices, int? num_out_tokens=None, bool padded_mode=False) " +
		"-> " +
		"(Tensor, Tensor)", Names: names("npu_moe_token_permute"),
	Doc: opdef.Doc{Summary: "Rows copied in the order of their experts",
		Formula: "tokens[s[i] / k] and the places of i in s, the order that sorts indices",
		Notes: "indices are (rows, k) or (rows). As many rows as num_out_tokens are given, all without it or with 0, " +
			"less " +
			"that many if it is below 0; the places are int32."},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *permuteArgs {
		experts := tensor.New(tensor.Int64, []int{3, 2}, []int64{1, 0, 0, 3, 2, 1}).Rounded()
		four := 4
		a := &permuteArgs{g.Normal(dt, 3, 4), experts, nil, false}
		if g.Nth == 1 {
			a.NumOutTokens = &four
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *permuteArgs) compose.Values {
	x := g.Arg("tokens", a.Tokens)
	if a.PaddedMode {
		g.Unsupported("padded_mode", "it is not supported")
	}
	if x.Dim() != 2 || a.Indices.Dim() == 0 || a.Indices.Dim() > 2 || a.Indices.Shape[0] != x.Shape()[0] ||
		a.Indices.DType.Kind() != tensor.KindInt {
		g.Refuse("indices", "%s do not fit tokens %s", a.Indices.Meta(), a.Tokens.Meta())
	}
	order := byExpert(tensor.Data[int64](a.Indices))
	k, back := len(order)/max(x.Shape()[0], 1), tensor.Make[int64](len(order))
	from := tensor.Make[int](len(order))
	for i, p := range order {
		back[p], from[i] = int64(i), p/k
	}
	n := len(order)
	if a.NumOutTokens != nil && *a.NumOutTokens != 0 {
		if n = min(*a.NumOutTokens, n); n < 0 {
			n = max(len(order)+n, 0)
		}
	}
	return compose.Values{g.IndexSelect(x, 0, from[:n]), g.Const(tensor.New(tensor.Int32, []int{len(back)}, back))}
})

type unpermuteArgs struct {
	PermutedTokens, SortedIndices, Probs *tensor.Tensor
	PaddedMode                           bool
	RestoreShape                         []int
}

var tokenUnpermute = compose.Declare(compose.Op[unpermuteArgs]{
	Schema: "npu_moe_token_unpermute(Tensor permuted_tokens, Tensor sorted_indices, Tensor? probs=None, " +
		"bool padded_mode=False, int[]? restore_shape=None) -> Tensor", Names: names("npu_moe_token_unpermute"),
	Doc: opdef.Doc{Summary: "Rows of experts added in the order of tokens",
		Formula: "sum_j probs[i, j] * permuted_tokens[sorted_indices[i*k + j]]",
		Notes:   "Without probs k is 1. Places behind the last row stand for rows of zeros."},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *unpermuteArgs {
		a := &unpermuteArgs{PermutedTokens: g.Normal(dt, 6, 4), SortedIndices: fused.Integers(3, 0, 5, 1, 4, 2),
			Probs: g.Normal(dt, 3, 2)}
		if g.Nth == 1 {
			a.Probs = nil
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *unpermuteArgs) compose.Values {
	x, probs := g.Arg("permuted_tokens", a.PermutedTokens), g.Arg("probs", a.Probs)
	places, k := fused.Ints(g, "sorted_indices", a.SortedIndices), 1
	if probs != nil && probs.Dim() == 2 {
		k = max(probs.Shape()[1], 1)
	}
	if a.PaddedMode {
		g.Unsupported("padded_mode", "it is not supported")
	}
	if x.Dim() != 2 || len(places)%k != 0 || probs != nil && probs.T.Numel() != len(places) {
		g.Refuse("sorted_indices", "%d places do not fit %s in groups of %d", len(places), a.PermutedTokens.Meta(), k)
	}
	rows, width := x.Shape()[0], x.Shape()[1]
	for i, p := range places {
		if p < 0 || p >= len(places) {
			g.Refuse("sorted_indices", "place %d is not among %d", p, len(places))
		}
		places[i] = min(p, rows) // the row of zeros
	}
	y := g.IndexSelect(g.Cat(0, x, g.Full(x.DType(), []int{1, width}, 0)), 0, places)
	y = g.Reshape(y, len(places)/k, k, width)
	if probs != nil {
		y = g.Mul(y, g.Reshape(probs, len(places)/k, k, 1))
	}
	return compose.Values{g.To(g.Sum(y, false, 1), x.DType())}
})
