package vllm

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type cacheArgs struct {
	Key, Value, KeyCache, ValueCache, SlotMapping *tensor.Tensor
	KvCacheDtype                                  string
	KScale, VScale                                *tensor.Tensor
}

const (
	cacheSchema = "Tensor key, Tensor value, Tensor key_cache, Tensor value_cache, Tensor slot_mapping, " +
		"str kv_cache_dtype, Tensor|Scalar k_scale, Tensor|Scalar v_scale"
	splitNotes = "key_cache is (pages, heads, size/x, rows, x), value_cache (pages, heads, size, rows). "
	autoNotes  = "kv_cache_dtype other than auto is refused; the scales are not read."
)

func checkAuto(g *compose.Graph, dtype string) {
	if dtype != "auto" {
		g.Unsupported("kv_cache_dtype", "caches of another dtype, %s, are not supported", dtype)
	}
}

// cacheCases are rows to store in pages of two rows of two heads of 8.
func cacheCases(k, v []int) func(g opdef.Gen) []*cacheArgs {
	return opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *cacheArgs {
		return &cacheArgs{g.Normal(dt, 3, 2, 8), g.Normal(dt, 3, 2, 8), g.Normal(dt, k...), g.Normal(dt, v...),
			fused.Integers(5, -1, 2), "auto", one(), one()}
	})
}

func one() *tensor.Tensor { return tensor.New(tensor.Float32, []int{1}, []float64{1}) }

var reshapeAndCache = kernel("_C_cache_ops", "reshape_and_cache", cacheSchema, []string{"key_cache", "value_cache"},
	opdef.Doc{Summary: "Stores rows of keys and values in pages whose rows are not together, in place",
		Formula: "row slot_mapping[i] of the caches becomes key[i] and value[i]",
		Notes:   "key and value are (rows, heads, size). " + splitNotes + "The slot -1 leaves a row out. " + autoNotes},
	cacheCases([]int{3, 2, 2, 2, 4}, []int{3, 2, 8, 2}),
	func(g *compose.Graph, a *cacheArgs) compose.Values {
		checkAuto(g, a.KvCacheDtype)
		ks, vs := opened(g, a.KeyCache, a.ValueCache)
		slots := fused.Ints(g, "slot_mapping", a.SlotMapping)
		k := fused.Store(g, "key_cache", ks, rows(g, "key", a.Key, ks), slots)
		v := fused.Store(g, "value_cache", vs, rows(g, "value", a.Value, vs), slots)
		s := a.KeyCache.Shape
		k = g.Permute(g.Reshape(k, s[0], s[3], s[1], s[2], s[4]), 0, 2, 3, 1, 4)
		return compose.Values{k, g.Permute(v, 0, 2, 3, 1)}
	})

// rows is x [rows, heads, size] for a cache [pages, rows, heads, size].
func rows(g *compose.Graph, name string, t *tensor.Tensor, cache *compose.Value) *compose.Value {
	if t.Dim() != 3 || !slices.Equal(t.Shape[1:], cache.Shape()[2:]) {
		g.Refuse(name, "%s does not fit pages of %s", t.Meta(), tensor.ShapeString(cache.Shape()[1:]))
	}
	return g.Arg(name, t)
}

// opened are the caches as [pages, rows, heads, size].
func opened(g *compose.Graph, keys, values *tensor.Tensor) (ks, vs *compose.Value) {
	ks, vs = g.Arg("key_cache", keys), g.Arg("value_cache", values)
	fused.CheckRank(g, "key_cache", ks, 5)
	fused.CheckRank(g, "value_cache", vs, 4)
	ks = g.Permute(ks, 0, 3, 1, 2, 4)
	s := ks.Shape()
	ks, vs = g.Reshape(ks, s[0], s[1], s[2], s[3]*s[4]), g.Permute(vs, 0, 3, 1, 2)
	if !slices.Equal(ks.Shape(), vs.Shape()) {
		g.Refuse("value_cache", "%s does not hold as much as %s", values.Meta(), keys.Meta())
	}
	return ks, vs
}

var reshapeAndCacheFlash = kernel("_C_cache_ops", "reshape_and_cache_flash", cacheSchema,
	[]string{"key_cache", "value_cache"},
	opdef.Doc{Summary: "Stores rows of keys and values in pages, in place",
		Formula: "row slot_mapping[i] of the caches becomes key[i] and value[i]",
		Notes: "key and value are (rows, heads, size), caches (pages, rows, heads, size). The slot -1 leaves a row " +
			"out. " + autoNotes},
	cacheCases([]int{3, 2, 2, 8}, []int{3, 2, 2, 8}),
	func(g *compose.Graph, a *cacheArgs) compose.Values {
		checkAuto(g, a.KvCacheDtype)
		slots := fused.Ints(g, "slot_mapping", a.SlotMapping)
		store := func(name string, cache, x *tensor.Tensor) *compose.Value {
			c := g.Arg(name+"_cache", cache)
			fused.CheckRank(g, name+"_cache", c, 4)
			return fused.Store(g, name+"_cache", c, rows(g, name, x, c), slots)
		}
		return compose.Values{store("key", a.KeyCache, a.Key), store("value", a.ValueCache, a.Value)}
	})

// pagedOptions are what the attentions over pages have in common.
type pagedOptions struct {
	Query, KeyCache, ValueCache *tensor.Tensor
	NumKvHeads                  int
	Scale                       float64
	BlockTables, SeqLens        *tensor.Tensor
	BlockSize, MaxSeqLen        int
	AlibiSlopes                 *tensor.Tensor
	KvCacheDtype                string
	KScale, VScale              *tensor.Tensor
	TpRank                      int
	BlocksparseLocalBlocks      int
	BlocksparseVertStride       int
	BlocksparseBlockSize        int
	BlocksparseHeadSlidingStep  int
}

type (
	pagedV1Args struct {
		Out *tensor.Tensor
		pagedOptions
	}
	pagedV2Args struct {
		Out, ExpSums, MaxLogits, TmpOut *tensor.Tensor
		pagedOptions
	}
)

const pagedSchema = "Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, float scale, " +
	"Tensor block_tables, Tensor seq_lens, int block_size, int max_seq_len, Tensor? alibi_slopes, " +
	"str kv_cache_dtype, Tensor|Scalar k_scale, Tensor|Scalar v_scale, int tp_rank=0, " +
	"int blocksparse_local_blocks=0, int blocksparse_vert_stride=0, int blocksparse_block_size=64, int blocksparse_head_sliding_step=0"

var pagedDoc = opdef.Doc{Summary: "Attention of the next position of sequences over pages, into out",
	Formula: "out = softmax(scale*q k^T - alibi_slopes*|distance|) v of each head and sequence",
	Notes: "query is (sequences, heads, size). " + splitNotes + "Row i of block_tables has the pages of sequence i, " +
		"of which seq_lens[i] rows count. Sparse blocks are refused; " + autoNotes}

func pagedCases[A any](of func(g opdef.Gen, dt tensor.DType, o pagedOptions) *A) func(g opdef.Gen) []*A {
	return opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *A {
		o := pagedOptions{Query: g.Normal(dt, 2, 4, 8), KeyCache: g.Normal(dt, 3, 2, 2, 2, 4),
			ValueCache: g.Normal(dt, 3, 2, 8, 2), NumKvHeads: 2, Scale: 0.4,
			BlockTables: tensor.New(tensor.Int32, []int{2, 2}, []int64{2, 0, 1, 0}).Rounded(),
			SeqLens:     fused.Integers(3, 2), BlockSize: 2, MaxSeqLen: 3, KvCacheDtype: "auto", KScale: one(),
			VScale: one(), BlocksparseBlockSize: 64}
		if g.Nth == 1 {
			o.AlibiSlopes = g.Uniform(tensor.Float32, 0.1, 1, 4)
		}
		return of(g, dt, o)
	})
}

// attend is the attention of all sequences, in the dtype of the query.
func (o *pagedOptions) attend(g *compose.Graph) *compose.Value {
	checkAuto(g, o.KvCacheDtype)
	if o.BlocksparseVertStride > 1 {
		g.Unsupported("blocksparse_vert_stride", "sparse blocks are not supported")
	}
	q := g.Arg("query", o.Query)
	fused.CheckRank(g, "query", q, 3)
	ks, vs := opened(g, o.KeyCache, o.ValueCache)
	if ks.Shape()[2] != o.NumKvHeads || ks.Shape()[1] != o.BlockSize {
		g.Refuse("key_cache", "%s does not hold pages of %d rows of %d heads", o.KeyCache.Meta(), o.BlockSize,
			o.NumKvHeads)
	}
	k := fused.NewPages(g, "key_cache", ks, o.BlockTables, o.BlockSize, o.NumKvHeads)
	v := fused.NewPages(g, "value_cache", vs, o.BlockTables, o.BlockSize, o.NumKvHeads)
	lens := fused.Ints(g, "seq_lens", o.SeqLens)
	if len(lens) != q.Shape()[0] || k.Sequences() < len(lens) {
		g.Refuse("seq_lens", "want lengths and pages of %d sequences, got %d and %d", q.Shape()[0], len(lens),
			k.Sequences())
	}
	parts := []*compose.Value{g.Full(q.DType(), []int{0, q.Shape()[1], q.Shape()[2]}, 0)}
	for i, n := range lens {
		s := compose.Everything(o.Scale)
		s.Offset = n - 1
		out := fused.Attend(g, g.Unsqueeze(g.Narrow(q, 0, i, 1), 0), g.Unsqueeze(k.Of(g, i, n), 0),
			g.Unsqueeze(v.Of(g, i, n), 0), o.AlibiSlopes, s)
		parts = append(parts, g.Squeeze(out, 0))
	}
	return g.Cat(0, parts...)
}

var pagedV1 = kernel("_C", "paged_attention_v1", "Tensor out, "+pagedSchema, []string{"out"}, pagedDoc,
	pagedCases(func(g opdef.Gen, dt tensor.DType, o pagedOptions) *pagedV1Args {
		return &pagedV1Args{g.Normal(dt, 2, 4, 8), o}
	}),
	func(g *compose.Graph, a *pagedV1Args) compose.Values {
		return compose.Values{fused.Into(g, "out", a.Out, a.attend(g))}
	})

var pagedV2 = kernel("_C", "paged_attention_v2",
	"Tensor out, Tensor exp_sums, Tensor max_logits, Tensor tmp_out, "+pagedSchema, []string{"out"},
	func() opdef.Doc {
		d := pagedDoc
		d.Notes += " What the kernel leaves in exp_sums, max_logits and tmp_out, of parts of the keys, is not compared."
		return d
	}(),
	pagedCases(func(g opdef.Gen, dt tensor.DType, o pagedOptions) *pagedV2Args {
		f32 := tensor.Float32
		return &pagedV2Args{g.Normal(dt, 2, 4, 8), g.Normal(f32, 2, 4, 1), g.Normal(f32, 2, 4, 1),
			g.Normal(dt, 2, 4, 1, 8), o}
	}),
	func(g *compose.Graph, a *pagedV2Args) compose.Values {
		return compose.Values{fused.Into(g, "out", a.Out, a.attend(g))}
	})
