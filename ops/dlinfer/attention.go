package dlinfer

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// headNotes say how the rows of attentions are laid out.
const headNotes = "query is (rows, heads, size), the rows of one sequence after those of another. Fewer heads of " +
	"keys and values serve several of query each. The scale is 1/sqrt(size) unless softmax_scale is given; " +
	"alibi_slopes " +
	"times the distance are subtracted from scores. The result is stored in attn_output too, if that is given. "

// An attention is a call of one of them, sequence by sequence.
type attention struct {
	q       *compose.Value // [rows, heads, size]
	scale   *float64
	slopes  []float64
	lengths []int // of the queries of sequences
	// of is what sequence i attends to, its first query at lo: keys, values [keys, heads,
	// size] and the scores beside scale and slopes.
	of func(i, lo int) (k, v *compose.Value, s compose.Scores)
}

// stored is the attention of all rows in the shape of out, or without it in that of the
// queries.
func (a *attention) stored(g *compose.Graph, out *tensor.Tensor) compose.Values {
	rows, lo := []*compose.Value{}, 0
	var slopes *tensor.Tensor
	if a.slopes != nil {
		slopes = tensor.New(tensor.Float32, []int{len(a.slopes)}, a.slopes)
	}
	for i, n := range a.lengths {
		k, v, s := a.of(i, lo)
		s.Scale = fused.ScaleOf(a.scale, a.q.Shape()[2])
		q := g.Unsqueeze(g.Narrow(a.q, 0, lo, n), 0)
		y := fused.Attend(g, q, g.Unsqueeze(k, 0), g.Unsqueeze(v, 0), slopes, s)
		rows = append(rows, g.Squeeze(y, 0))
		lo += n
	}
	if rows == nil {
		g.Refuse("q_seq_len", "want at least one sequence")
	}
	y := g.Cat(0, rows...)
	if out != nil {
		g.Arg("attn_output", out)
		if out.Numel() != y.T.Numel() || out.DType != y.DType() {
			g.Refuse("attn_output", "want %s, got %s", y.T.Meta(), out.Meta())
		}
		y = g.Reshape(y, out.Shape...)
		g.Update("attn_output", y)
	}
	return compose.Values{y}
}

// masked are scores of n queries and keys with the top left corner of a mask: numbers are
// added, anything else hides keys where it is not 0.
func masked(g *compose.Graph, s compose.Scores, mask *tensor.Tensor, n int) compose.Scores {
	if mask.Dim() < 2 || mask.Shape[mask.Dim()-2] < n || mask.Shape[mask.Dim()-1] < n ||
		tensor.Numel(mask.Shape[:mask.Dim()-2]) != 1 {
		g.Refuse("attn_mask", "want a mask of %d queries and keys, got %s", n, mask.Meta())
	}
	corner := mask.Reshape(mask.Shape[mask.Dim()-2:]...).Slice(0, 0, n, 1).Slice(1, 0, n, 1)
	if corner.DType.IsFloat() {
		s.Mask = g.Const(corner)
		return s
	}
	s.Mask = g.BoolMask(opdef.Map(tensor.Bool, corner, func(hidden int64) int64 {
		if hidden == 0 {
			return 1
		}
		return 0
	}))
	return s
}

// given are the masks that are not None.
func given(masks []*tensor.Tensor) []*tensor.Tensor {
	return slices.DeleteFunc(slices.Clone(masks), func(t *tensor.Tensor) bool { return t == nil })
}

// heads is x as (rows, heads, size).
func heads(g *compose.Graph, name string, x *tensor.Tensor, n int) *compose.Value {
	v := g.Arg(name, x)
	if x.Dim() == 0 || n < 1 || !x.DType.IsFloat() {
		g.Refuse(name, "want floating rows of %d heads, got %s", n, x.Meta())
	}
	switch last := x.Dim() - 1; {
	case last >= 1 && x.Shape[last-1] == n:
		return g.Reshape(v, tensor.Numel(x.Shape[:last-1]), n, x.Shape[last])
	case x.Shape[last]%n == 0:
		return g.Reshape(v, tensor.Numel(x.Shape[:last]), n, x.Shape[last]/n)
	}
	g.Refuse(name, "want rows of %d heads, got %s", n, x.Meta())
	return nil
}

type prefillArgs struct {
	Query, Key, Value, KeyCache, ValueCache *tensor.Tensor
	QStartLoc, QSeqLen, KvSeqLen            value.Value
	MaxQSeqLen, NumQHeads, NumKvHeads       int
	AttnMask                                []*tensor.Tensor
	SoftmaxScale                            *float64
	AlibiSlopes                             []float64
	AttnOutput                              *tensor.Tensor
}

// triangle is the mask of causal attention of n queries.
func triangle(n int) *tensor.Tensor {
	data := tensor.Make[int64](n * n)
	for r := range n {
		for c := r + 1; c < n; c++ {
			data[r*n+c] = 1
		}
	}
	return tensor.New(tensor.Bool, []int{n, n}, data).Rounded()
}

var prefill = compose.Declare(compose.Op[prefillArgs]{
	Schema: "dlinfer_prefill_attention(Tensor query, Tensor key, Tensor value, Tensor? key_cache, " +
		"Tensor? value_cache, any q_start_loc, any q_seq_len, any kv_seq_len, int max_q_seq_len, int num_q_heads, " +
		"int num_kv_heads, Tensor?[] attn_mask, float? softmax_scale=None, float[]? alibi_slopes=None, " +
		"Tensor? attn_output=None) -> Tensor", Names: names("prefill_attention"),
	Doc: opdef.Doc{Summary: "Attention within sequences of prompts",
		Formula: "softmax(scale*q k^T + mask) v of each head and sequence",
		Notes: headNotes + "Sequence i has q_seq_len[i] rows. A mask, one for all or one for each sequence, is " +
			"added, " +
			"or hides keys where it is not 0; of a larger one the top left corner counts. Without one the attention " +
			"is " +
			"causal if q_start_loc also has the end of the last sequence. The caches are not read.",
		Source: source("prefill_attention")},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *prefillArgs {
		a := &prefillArgs{Query: g.Normal(dt, 5, 4, 4), Key: g.Normal(dt, 5, 2, 4), Value: g.Normal(dt, 5, 2, 4),
			QStartLoc: fused.Integers(0, 2), QSeqLen: fused.Integers(2, 3), KvSeqLen: fused.Integers(2, 3),
			MaxQSeqLen: 3, NumQHeads: 4, NumKvHeads: 2}
		switch g.Nth {
		case 1:
			a.QStartLoc, a.AttnOutput = fused.Integers(0, 2, 5), g.Normal(dt, 5, 16)
		case 2:
			a.AttnMask = []*tensor.Tensor{triangle(4)}
		case 3:
			a.AlibiSlopes = []float64{1, 0.5, 0.25, 0.125}
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *prefillArgs) compose.Values {
	q, k, v := heads(g, "query", a.Query, a.NumQHeads), heads(g, "key", a.Key, a.NumKvHeads),
		heads(g, "value", a.Value, a.NumKvHeads)
	rows := q.Shape()[0]
	if k.Shape()[0] != rows || v.Shape()[0] != rows {
		g.Refuse("key", "want %d rows of keys and values, got %s and %s", rows, a.Key.Meta(), a.Value.Meta())
	}
	lengths := []int{rows}
	if a.QSeqLen != nil {
		lengths = fused.Lengths(g, "q_seq_len", fused.IntsOf(g, "q_seq_len", a.QSeqLen), rows)
	}
	masks := given(a.AttnMask)
	if n := len(masks); n > 1 && n != len(lengths) {
		g.Refuse("attn_mask", "want one mask, or %d, got %d", len(lengths), n)
	}
	at := attention{q: q, scale: a.SoftmaxScale, slopes: a.AlibiSlopes, lengths: lengths}
	at.of = func(i, lo int) (*compose.Value, *compose.Value, compose.Scores) {
		n, s := lengths[i], compose.Everything(0)
		switch {
		case len(masks) > 0:
			s = masked(g, s, masks[min(i, len(masks)-1)], n)
		case len(fused.IntsOf(g, "q_start_loc", a.QStartLoc)) == len(lengths)+1:
			s.After = 0
		}
		return g.Narrow(k, 0, lo, n), g.Narrow(v, 0, lo, n), s
	}
	return at.stored(g, a.AttnOutput)
})

type fusedArgs struct {
	QueryStates, KeyStates, ValueStates *tensor.Tensor
	Mask                                []*tensor.Tensor
}

var fusedAttention = compose.Declare(compose.Op[fusedArgs]{
	Schema: "dlinfer_fused_attention(Tensor query_states, Tensor key_states, Tensor value_states, " +
		"Tensor?[] mask) -> Tensor", Names: names("fused_attention"),
	Doc: opdef.Doc{Summary: "Attention of one sequence",
		Formula: "softmax(q k^T / sqrt(size) + mask) v of each head",
		Notes: "The states are (1, rows, heads, size), the result (rows, heads, size). The mask counts for as many " +
			"keys " +
			"as queries, and as that of prefill_attention; queries of other lengths see all keys.",
		Source: source("fused_attention")},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *fusedArgs {
		return &fusedArgs{g.Normal(dt, 1, []int{3, 1}[g.Nth%2], 4, 4), g.Normal(dt, 1, 3, 2, 4), g.Normal(dt, 1, 3,
			2, 4),
			[]*tensor.Tensor{triangle(5)}}
	}),
}, compose.Fused, func(g *compose.Graph, a *fusedArgs) compose.Values {
	open := func(name string, t *tensor.Tensor) *compose.Value {
		if t.Dim() != 4 || t.Shape[0] != 1 {
			g.Refuse(name, "want states of one sequence in rank 4, got %s", t.Meta())
		}
		return g.Squeeze(g.Arg(name, t), 0)
	}
	q, k, v := open("query_states", a.QueryStates), open("key_states", a.KeyStates), open("value_states", a.ValueStates)
	at := attention{q: q, lengths: []int{q.Shape()[0]}}
	at.of = func(int, int) (*compose.Value, *compose.Value, compose.Scores) {
		s, masks := compose.Everything(0), given(a.Mask)
		if len(masks) > 0 && q.Shape()[0] == k.Shape()[0] {
			s = masked(g, s, masks[0], q.Shape()[0])
		}
		return k, v, s
	}
	return at.stored(g, nil)
})

type increArgs struct {
	Query, Key, Value *tensor.Tensor
	NumHeads          int
	InputLayout       string
	SoftmaxScale      *float64
}

var incre = compose.Declare(compose.Op[increArgs]{
	Schema: "dlinfer_incre_flash_attention(Tensor query, Tensor key, Tensor value, int num_heads, str input_layout, " +
		"float? softmax_scale=None) -> Tensor", Names: names("incre_flash_attention"),
	Doc: opdef.Doc{Summary: "Attention of the next positions over all earlier ones",
		Formula: "softmax(scale*q k^T) v of each head",
		Notes: "input_layout is BSH, BSND or BNSD: B sequences, S positions, N heads, D sizes, H heads times sizes. " +
			"The scale is 1/sqrt(size) unless softmax_scale is given.", Source: source("incre_flash_attention")},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *increArgs {
		half := 0.5
		a := &increArgs{g.Normal(dt, 2, 1, 8), g.Normal(dt, 2, 3, 8), g.Normal(dt, 2, 3, 8), 2, "BSH", nil}
		switch g.Nth {
		case 1:
			a = &increArgs{g.Normal(dt, 2, 2, 1, 4), g.Normal(dt, 2, 2, 3, 4), g.Normal(dt, 2, 2, 3, 4), 2,
				"BNSD", &half}
		case 2:
			a = &increArgs{g.Normal(dt, 2, 1, 2, 4), g.Normal(dt, 2, 3, 2, 4), g.Normal(dt, 2, 3, 2, 4), 2,
				"BSND", &half}
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *increArgs) compose.Values {
	layout := fused.LayoutOf(g, "input_layout", a.InputLayout)
	q := layout.Open(g, "query", g.Arg("query", a.Query), a.NumHeads)
	k, v := layout.Open(g, "key", g.Arg("key", a.Key), a.NumHeads), layout.Open(g, "value", g.Arg("value", a.Value),
		a.NumHeads)
	s := compose.Everything(fused.ScaleOf(a.SoftmaxScale, q.Shape()[3]))
	return compose.Values{layout.Close(g, fused.Attend(g, q, k, v, nil, s))}
})

// pagedOptions are what attentions over pages have in common at their end.
type pagedOptions struct {
	HeadSizeV    *int
	SoftmaxScale *float64
	AlibiSlopes  []float64
	AttnOutput   *tensor.Tensor
	KvScales     *tensor.Tensor
	KvZeros      *tensor.Tensor
	QuantBits    *int
}

const pagedSchema = "int? head_size_v=0, float? softmax_scale=None, float[]? alibi_slopes=None, " +
	"Tensor? attn_output=None, Tensor? kv_scales=None, Tensor? kv_zeros=None, int? quant_bits=0"

const pagedNotes = headNotes + "Caches are (pages, rows, heads, size) or (pages, heads, rows, size); row i of " +
	"block_table has the pages of sequence i, of which kv_seq_len[i] rows count. The last query of a sequence stands " +
	"at its last key, and none sees keys behind its place. Values of another size than keys are the first elements " +
	"of these. With quant_bits 8 the caches hold int8, which are (x + kv_zeros)*kv_scales, of keys and of values."

// paged is the attention over pages, of queries of so many rows a sequence.
func (o *pagedOptions) paged(g *compose.Graph, query, keyCache, valueCache, table *tensor.Tensor, size int,
	queries, keys value.Value, queryHeads, keyHeads int) compose.Values {
	q := heads(g, "query", query, queryHeads)
	kvs, rows := fused.IntsOf(g, "kv_seq_len", keys), q.Shape()[0]
	lengths := slices.Repeat([]int{1}, rows)
	if queries != nil {
		lengths = fused.Lengths(g, "q_seq_len", fused.IntsOf(g, "q_seq_len", queries), rows)
	}
	if len(kvs) != len(lengths) {
		g.Refuse("kv_seq_len", "want %d lengths, got %d", len(lengths), len(kvs))
	}
	open := func(name string, t *tensor.Tensor, part int) *compose.Value {
		x := g.Arg(name, t)
		switch {
		case o.QuantBits == nil || *o.QuantBits == 0:
		case *o.QuantBits != 8 || o.KvScales == nil:
			g.Refuse("quant_bits", "want 0, or 8 with kv_scales of keys and of values, got %d", *o.QuantBits)
		case t.DType != tensor.Int8:
			g.Refuse(name, "want int8, got %s", t.DType)
		default:
			of := func(name string, s *tensor.Tensor) *compose.Value { // broadcast over (pages, rows)
				if s.Dim() == 0 || s.Shape[0] != 2 || t.Dim() == 0 {
					g.Refuse(name, "want numbers for keys and for values, got %s", s.Meta())
				}
				one := g.Select(g.Const(s), 0, part)
				if width := t.Shape[t.Dim()-1]; width > 0 && one.T.Numel()%width == 0 {
					return g.Reshape(one, 1, 1, -1, width)
				}
				return g.Reshape(one, -1)
			}
			x = g.To(x, tensor.Float32)
			if o.KvZeros != nil {
				x = g.Add(x, of("kv_zeros", o.KvZeros))
			}
			x = g.To(g.Mul(x, of("kv_scales", o.KvScales)), query.DType)
		}
		return x
	}
	ks := fused.NewPages(g, "key_cache", open("key_cache", keyCache, 0), table, size, keyHeads)
	vs := ks
	narrow := valueCache.Dim() > 0 && keyCache.Dim() > 0 &&
		valueCache.Shape[valueCache.Dim()-1] != keyCache.Shape[keyCache.Dim()-1]
	if v := g.Arg("value_cache", valueCache); !narrow {
		vs = fused.NewPages(g, "value_cache", open("value_cache", valueCache, 1), table, size, keyHeads)
	} else if last := v.Shape()[v.Dim()-1]; last > keyCache.Shape[keyCache.Dim()-1] {
		g.Refuse("value_cache", "values %s are no part of keys %s", valueCache.Meta(), keyCache.Meta())
	}
	if ks.Sequences() < len(lengths) {
		g.Refuse("block_table", "want pages of %d sequences, got %d", len(lengths), ks.Sequences())
	}
	at := attention{q: q, scale: o.SoftmaxScale, slopes: o.AlibiSlopes, lengths: lengths}
	at.of = func(i, _ int) (k, v *compose.Value, s compose.Scores) {
		s = compose.Everything(0)
		s.Offset, s.After = kvs[i]-lengths[i], 0
		k = ks.Of(g, i, kvs[i])
		if narrow {
			return k, g.Narrow(k, -1, 0, valueCache.Shape[valueCache.Dim()-1]), s
		}
		return k, vs.Of(g, i, kvs[i]), s
	}
	return at.stored(g, o.AttnOutput)
}

type decodeArgs struct {
	Query, KeyCache, ValueCache, BlockTable *tensor.Tensor
	BlockSize                               int
	QSeqLen, KvSeqLen                       value.Value
	MaxKvSeqLen, NumQHeads, NumKvHeads      int
	pagedOptions
}

var decode = compose.Declare(compose.Op[decodeArgs]{
	Schema: "dlinfer_paged_decode_attention(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, " +
		"int block_size, any q_seq_len, any kv_seq_len, int max_kv_seq_len, int num_q_heads, int num_kv_heads, " +
		pagedSchema + ") -> Tensor", Names: names("paged_decode_attention"),
	Doc: opdef.Doc{Summary: "Attention of the next positions over keys and values in pages",
		Formula: "softmax(scale*q k^T) v of each head and sequence", Notes: pagedNotes,
		Source: source("paged_decode_attention")},
	NoGrad: fused.ByInference,
	Cases: func(g opdef.Gen) []*decodeArgs {
		table := tensor.New(tensor.Int32, []int{2, 2}, []int64{2, 0, 1, 0}).Rounded()
		bits := 8
		cs := opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *decodeArgs {
			cache, v := []int{3, 3, 2, 4}, 4
			if g.Nth == 1 {
				cache = []int{3, 2, 3, 4}
			}
			a := &decodeArgs{Query: g.Normal(dt, 2, 4, 4), KeyCache: g.Normal(dt, cache...),
				ValueCache: g.Normal(dt, append(cache[:3:3], v)...), BlockTable: table, BlockSize: 3,
				QSeqLen: fused.Integers(1, 1), KvSeqLen: fused.Integers(5, 2), MaxKvSeqLen: 5, NumQHeads: 4,
				NumKvHeads: 2}
			if g.Nth == 2 {
				a.AttnOutput = g.Normal(dt, 2, 4, 4)
			}
			return a
		})(g)
		dt := tensor.Float32
		mla := *cs[1]
		mla.KeyCache, mla.ValueCache, mla.NumKvHeads = g.Normal(dt, 3, 3, 1, 4), g.Normal(dt, 3, 3, 1, 3), 1
		quantized := *cs[1]
		quantized.KeyCache, quantized.ValueCache = g.Int(tensor.Int8, -9, 9, 3, 3, 2, 4), g.Int(tensor.Int8, -9, 9,
			3, 3, 2, 4)
		quantized.KvScales, quantized.KvZeros, quantized.QuantBits = g.Uniform(dt, 0.1, 0.2, 2, 8), g.Normal(dt, 2,
			8), &bits
		return append(cs, &mla, &quantized)
	},
}, compose.Fused, func(g *compose.Graph, a *decodeArgs) compose.Values {
	return a.paged(g, a.Query, a.KeyCache, a.ValueCache, a.BlockTable, a.BlockSize, a.QSeqLen, a.KvSeqLen, a.NumQHeads,
		a.NumKvHeads)
})

type pagedPrefillArgs struct {
	Query                                          *tensor.Tensor
	Key, Value                                     *tensor.Tensor
	KeyCache, ValueCache, BlockTable               *tensor.Tensor
	BlockSize                                      int
	QStartLoc, QSeqLen, KvSeqLen, CuSeqLensKv      value.Value
	MaxQSeqLen, MaxKvSeqLen, NumQHeads, NumKvHeads int
	AttnMask                                       []*tensor.Tensor
	pagedOptions
}

var pagedPrefill = compose.Declare(compose.Op[pagedPrefillArgs]{
	Schema: "dlinfer_paged_prefill_attention(Tensor query, Tensor? key, Tensor? value, Tensor key_cache, " +
		"Tensor value_cache, Tensor block_table, int block_size, any q_start_loc, any q_seq_len, any kv_seq_len, " +
		"any cu_seq_lens_kv, int max_q_seq_len, int max_kv_seq_len, int num_q_heads, int num_kv_heads, " +
		"Tensor?[] attn_mask, " + pagedSchema + ") -> Tensor", Names: names("paged_prefill_attention"),
	Doc: opdef.Doc{Summary: "Attention of further rows of prompts over keys and values in pages",
		Formula: "softmax(scale*q k^T) v of each head and sequence",
		Notes: pagedNotes + " key and value, which the caches hold already, and attn_mask, which says the same of " +
			"places, are not read.", Source: source("paged_prefill_attention")},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *pagedPrefillArgs {
		table := tensor.New(tensor.Int32, []int{2, 2}, []int64{2, 0, 1, 0}).Rounded()
		return &pagedPrefillArgs{Query: g.Normal(dt, 5, 4, 4), Key: g.Normal(dt, 5, 2, 4), Value: g.Normal(dt,
			5, 2, 4),
			KeyCache: g.Normal(dt, 3, 3, 2, 4), ValueCache: g.Normal(dt, 3, 3, 2, 4), BlockTable: table,
			BlockSize: 3,
			QStartLoc: fused.Integers(0, 3), QSeqLen: fused.Integers(3, 2), KvSeqLen: fused.Integers(5, 2),
			CuSeqLensKv: fused.Integers(0, 5, 7), MaxQSeqLen: 3, MaxKvSeqLen: 5, NumQHeads: 4, NumKvHeads: 2,
			AttnMask: []*tensor.Tensor{triangle(5)}}
	}),
}, compose.Fused, func(g *compose.Graph, a *pagedPrefillArgs) compose.Values {
	return a.paged(g, a.Query, a.KeyCache, a.ValueCache, a.BlockTable, a.BlockSize, a.QSeqLen, a.KvSeqLen, a.NumQHeads,
		a.NumKvHeads)
})
