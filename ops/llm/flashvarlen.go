package llm

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type (
	flashVarlenArgs struct {
		Q, K, V, CuSeqlensQ, CuSeqlensK *tensor.Tensor
		MaxSeqlenQ, MaxSeqlenK          int
		flashOptions
		BlockTable *tensor.Tensor
	}
	flashVarlenKVArgs struct {
		Q, Kv, CuSeqlensQ, CuSeqlensK *tensor.Tensor
		MaxSeqlenQ, MaxSeqlenK        int
		flashOptions
	}
	flashVarlenQKVArgs struct {
		Qkv, CuSeqlens *tensor.Tensor
		MaxSeqlen      int
		flashOptions
	}
)

const (
	varlenPlaces = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, int max_seqlen_q, int max_seqlen_k"
	varlenNotes  = "sequence i has the rows from cu_seqlens[i] to cu_seqlens[i+1]. Rows of none are 0."
)

// flashVarlen are the functions of a library for sequences of any length.
func flashVarlen(l *flashLib) []*opdef.Entry {
	const name, kvName, qkvName = "flash_attn_varlen_func", "flash_attn_varlen_kvpacked_func",
		"flash_attn_varlen_qkvpacked_func"
	schema := l.prefix + name + "(Tensor q, Tensor k, Tensor v, " + varlenPlaces + ", "
	if l == flashAttn {
		schema += l.options + ", Tensor? block_table=None) -> Tensor|Tensor[]"
	} else {
		schema += deepLinkPaged + ") -> Tensor|Tensor[]"
	}
	return []*opdef.Entry{
		compose.Declare(compose.Op[flashVarlenArgs]{
			Schema: schema, Names: l.names(name),
			Doc: l.doc("Attention in blocks within sequences of any length",
				"q is (rows, heads, size), k and v likewise; "+varlenNotes+" With block_table k and v are "+
					"(pages, rows, heads, size), and its row i has the pages of sequence i."),
			Exempt: sumsAreFloat32,
			Cases:  varlenCases,
		}, compose.Fused, func(g *compose.Graph, a *flashVarlenArgs) compose.Values {
			q, k, v := g.Arg("q", a.Q), g.Arg("k", a.K), g.Arg("v", a.V)
			return a.varlen(g, q, k, v, a.CuSeqlensQ, a.CuSeqlensK, a.BlockTable)
		}),
		compose.Declare(compose.Op[flashVarlenKVArgs]{
			Schema: l.schema(kvName, "Tensor q, Tensor kv, "+varlenPlaces), Names: l.names(kvName),
			Doc: l.doc("Attention in blocks within sequences of any length, keys and values in one tensor",
				"q is (rows, heads, size), kv (rows, 2, heads, size); "+varlenNotes),
			Exempt: sumsAreFloat32,
			Cases: func(g opdef.Gen) (cs []*flashVarlenKVArgs) {
				flashCases(g, func(dt tensor.DType, l, s, heads, few int, o flashOptions) {
					cs = append(cs, &flashVarlenKVArgs{g.Normal(dt, l+3, heads, 4), g.Normal(dt, s+2, 2, few, 4),
						varlenEnds(l), varlenEnds(s), l, s, o})
				})
				return cs
			},
		}, compose.Fused, func(g *compose.Graph, a *flashVarlenKVArgs) compose.Values {
			q, kv := g.Arg("q", a.Q), unpack(g, "kv", g.Arg("kv", a.Kv), 2, 1, 4)
			return a.varlen(g, q, kv[0], kv[1], a.CuSeqlensQ, a.CuSeqlensK, nil)
		}),
		compose.Declare(compose.Op[flashVarlenQKVArgs]{
			Schema: l.schema(qkvName, "Tensor qkv, Tensor cu_seqlens, int max_seqlen"), Names: l.names(qkvName),
			Doc: l.doc("Attention in blocks within sequences of any length, queries, keys and values in one tensor",
				"qkv is (rows, 3, heads, size); "+varlenNotes),
			Exempt: sumsAreFloat32,
			Cases: func(g opdef.Gen) (cs []*flashVarlenQKVArgs) {
				flashCases(g, func(dt tensor.DType, l, _, heads, _ int, o flashOptions) {
					cs = append(cs, &flashVarlenQKVArgs{g.Normal(dt, l+3, 3, heads, 4), varlenEnds(l), l, o})
				})
				return cs
			},
		}, compose.Fused, func(g *compose.Graph, a *flashVarlenQKVArgs) compose.Values {
			qkv := unpack(g, "qkv", g.Arg("qkv", a.Qkv), 3, 1, 4)
			return a.varlen(g, qkv[0], qkv[1], qkv[2], a.CuSeqlens, a.CuSeqlens, nil)
		}),
	}
}

// varlenEnds are those of sequences of n, 0 and 2 rows.
func varlenEnds(n int) *tensor.Tensor { return fused.Integers(0, int64(n), int64(n), int64(n+2)) }

func varlenCases(g opdef.Gen) (cs []*flashVarlenArgs) {
	flashCases(g, func(dt tensor.DType, l, s, heads, few int, o flashOptions) {
		cs = append(cs, &flashVarlenArgs{g.Normal(dt, l+3, heads, 4), g.Normal(dt, s+2, few, 4),
			g.Normal(dt, s+2, few, 4), varlenEnds(l), varlenEnds(s), l, s, o, nil})
	})
	table := tensor.New(tensor.Int32, []int{2, 2}, []int64{2, 0, 1, 0}).Rounded()
	return append(cs, &flashVarlenArgs{g.Normal(tensor.Float32, 5, 4, 4), g.Normal(tensor.Float32, 3, 3, 2, 4),
		g.Normal(tensor.Float32, 3, 3, 2, 4), fused.Integers(0, 3, 5), fused.Integers(0, 5, 7), 3, 5,
		flashOptions{WindowSize: []int{-1, -1}, Causal: true}, table})
}

// varlen is the attention of rows of sequences that end at endsQ and endsK; with a table of
// pages k and v are a store.
func (o *flashOptions) varlen(g *compose.Graph, q, k, v *compose.Value,
	endsQ, endsK, table *tensor.Tensor) compose.Values {
	nameQ, nameK := "cu_seqlens_q", "cu_seqlens_k"
	if endsQ == endsK {
		nameQ, nameK = "cu_seqlens", "cu_seqlens"
	}
	fused.CheckRank(g, "q", q, 3)
	lq := lengths(g, nameQ, endsQ, q)
	var lk []int
	var keys func(i int) (k, v *compose.Value)
	if table == nil {
		fused.CheckHeads(g, 3, q, k, v)
		lk = lengths(g, nameK, endsK, k)
		lengths(g, nameK, endsK, v)
		ks, vs := g.Split(k, lk, 0), g.Split(v, lk, 0)
		keys = func(i int) (k, v *compose.Value) { return ks[i], vs[i] }
	} else {
		fused.CheckRank(g, "k", k, 4)
		fused.CheckRank(g, "v", v, 4)
		lk = lengths(g, nameK, endsK, nil)
		ks := fused.NewPages(g, "k", k, table, k.Shape()[1], k.Shape()[2])
		vs := fused.NewPages(g, "v", v, table, k.Shape()[1], k.Shape()[2])
		if ks.Sequences() < len(lk) {
			g.Refuse("block_table", "want pages of %d sequences, got %d", len(lk), ks.Sequences())
		}
		keys = func(i int) (k, v *compose.Value) { return ks.Of(g, i, lk[i]), vs.Of(g, i, lk[i]) }
	}
	if len(lq) != len(lk) {
		g.Refuse(nameK, "want %d sequences, as of q, got %d", len(lq), len(lk))
	}
	qs := g.Split(q, lq, 0)
	shape, rows := []int{0, q.Shape()[1], v.Shape()[v.Dim()-1]}, q.Shape()[0]
	parts := []*compose.Value{g.Full(q.DType(), shape, 0)}
	var sums []*compose.Value // [heads, rows] each
	for i, n := range lq {
		rows -= n
		slopes := o.AlibiSlopes
		if slopes != nil && slopes.Dim() == 2 && i < slopes.Shape[0] {
			slopes = slopes.Slice(0, i, 1, 1)
		}
		k, v := keys(i)
		query, key, s := g.Unsqueeze(qs[i], 0), g.Unsqueeze(k, 0), o.scores(g, q.Shape()[2], n, lk[i])
		parts = append(parts, g.Squeeze(fused.Attend(g, query, key, g.Unsqueeze(v, 0), slopes, s), 0))
		if o.ReturnAttnProbs {
			sums = append(sums, g.Squeeze(fused.LogSums(g, query, key, slopes, s), 0))
		}
	}
	shape[0] = rows
	out := g.Cat(0, append(parts, g.Full(q.DType(), shape, 0))...)
	return o.results(g, out, func() *compose.Value {
		return g.Cat(1, append(sums, g.Full(tensor.Float32, []int{q.Shape()[1], rows}, 0))...)
	})
}

// lengths are those of sequences from the rows at which they begin, and the last
// ends, which are among those of x unless that is nil.
func lengths(g *compose.Graph, name string, ends *tensor.Tensor, x *compose.Value) []int {
	at := fused.Ints(g, name, ends)
	if len(at) == 0 || at[0] != 0 {
		g.Refuse(name, "want rows from 0")
	}
	var out []int
	for i := 1; i < len(at); i++ {
		out = append(out, at[i]-at[i-1])
		if at[i] < at[i-1] || x != nil && at[i] > x.Shape()[0] {
			g.Refuse(name, "row %d after %d is not among those there are", at[i], at[i-1])
		}
	}
	return out
}
