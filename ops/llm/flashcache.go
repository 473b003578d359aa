package llm

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

type flashCacheArgs struct {
	Q, KCache, VCache, K, V, RotaryCos, RotarySin *tensor.Tensor
	CacheSeqlens                                  value.Value
	CacheBatchIdx, CacheLeftpad, BlockTable       *tensor.Tensor
	SoftmaxScale                                  *float64
	Causal                                        bool
	WindowSize                                    []int
	Softcap                                       float64
	RotaryInterleaved                             bool
	AlibiSlopes                                   *tensor.Tensor
	NumSplits                                     int
	ReturnSoftmaxLse                              bool
}

var flashWithKVCache = compose.Declare(compose.Op[flashCacheArgs]{
	Schema: "flash_attn_with_kvcache(Tensor q, Tensor k_cache, Tensor v_cache, Tensor? k=None, Tensor? v=None, " +
		"Tensor? rotary_cos=None, Tensor? rotary_sin=None, any cache_seqlens=None, Tensor? cache_batch_idx=None, " +
		"Tensor? cache_leftpad=None, Tensor? block_table=None, float? softmax_scale=None, bool causal=False, " +
		"int[2] window_size=[-1, -1], float softcap=0.0, bool rotary_interleaved=True, Tensor? alibi_slopes=None, " +
		"int num_splits=0, bool return_softmax_lse=False) -> Tensor|Tensor[]",
	Names: flashAttn.names("flash_attn_with_kvcache"),
	Doc: flashAttn.doc("Attention over a cache of keys and values, which k and v are first stored in, in place",
		"q is (batch, length, heads, size), caches (sequences, rows, heads, size), or with block_table (pages, rows, "+
			"heads, size). Sequence i has the first cache_seqlens[i] rows of row cache_batch_idx[i] of the caches "+
			"without the first cache_leftpad[i], then k and v. rotary_cos and rotary_sin (positions, pairs) turn k "+
			"and "+
			"q by their places; without causal or window_size all of q by that of the first. return_softmax_lse "+
			"adds the logarithms of sums, as return_attn_probs of flash_attn_func. Rotation with cache_leftpad is "+
			"refused."),
	NoGrad: fused.ByInference, Exempt: sumsAreFloat32,
	Cases: func(g opdef.Gen) (cs []*flashCacheArgs) {
		i := 0
		flashCases(g, func(dt tensor.DType, l, s, heads, few int, o flashOptions) {
			a := &flashCacheArgs{Q: g.Normal(dt, 2, l, heads, 4), KCache: g.Normal(dt, 3, s+3, few, 4),
				VCache: g.Normal(dt, 3, s+3, few, 4), CacheSeqlens: fused.Integers(int64(s), 2),
				SoftmaxScale: o.SoftmaxScale, Causal: o.Causal, WindowSize: o.WindowSize, Softcap: o.Softcap,
				AlibiSlopes: o.AlibiSlopes, RotaryInterleaved: i%2 == 0, ReturnSoftmaxLse: o.ReturnAttnProbs}
			if i%3 > 0 {
				a.K, a.V = g.Normal(dt, 2, 2, few, 4), g.Normal(dt, 2, 2, few, 4)
			}
			if i%3 == 1 {
				a.RotaryCos, a.RotarySin = g.Uniform(dt, -1, 1, 12, 1), g.Uniform(dt, -1, 1, 12, 1)
			}
			switch i % 4 {
			case 0:
				if a.RotaryCos == nil {
					a.CacheLeftpad = fused.Integers(1, 0)
				}
			case 1:
				a.CacheBatchIdx = fused.Integers(2, 0)
			case 2:
				a.BlockTable = tensor.New(tensor.Int32, []int{2, 2}, []int64{2, 0, 1, 0}).Rounded()
			case 3:
				a.CacheSeqlens = int64(3)
			}
			i++
			cs = append(cs, a)
		})
		return cs
	},
}, compose.Fused, func(g *compose.Graph, a *flashCacheArgs) compose.Values {
	q, kc, vc := g.Arg("q", a.Q), g.Arg("k_cache", a.KCache), g.Arg("v_cache", a.VCache)
	fused.CheckHeads(g, 4, q, kc, vc)
	batch, queries, size, heads := q.Shape()[0], q.Shape()[1], kc.Shape()[1], kc.Shape()[2]
	perSequence := func(name string, t *tensor.Tensor, otherwise []int64) []int64 {
		if t == nil {
			return otherwise
		}
		if n := len(fused.Ints(g, name, t)); n != batch {
			g.Refuse(name, "want a number for each of %d sequences, got %d", batch, n)
		}
		return tensor.Data[int64](t)
	}
	table := a.BlockTable
	if table == nil { // the rows of a sequence are one page
		at := perSequence("cache_batch_idx", a.CacheBatchIdx, fused.Span(0, batch))
		table = tensor.New(tensor.Int64, []int{batch, 1}, at)
	} else if a.CacheBatchIdx != nil || a.CacheLeftpad != nil {
		g.Refuse("block_table", "pages do not go with cache_batch_idx or cache_leftpad")
	}
	pads := perSequence("cache_leftpad", a.CacheLeftpad, tensor.Make[int64](batch))
	lens := slices.Repeat([]int{size}, batch)
	switch n := a.CacheSeqlens.(type) {
	case nil:
	case int64:
		lens = slices.Repeat([]int{int(n)}, batch)
	default:
		lens = fused.IntsOf(g, "cache_seqlens", n)
	}
	if len(lens) != batch {
		g.Refuse("cache_seqlens", "want a length of each of %d sequences, got %d", batch, len(lens))
	}
	pages := fused.NewPages(g, "k_cache", kc, table, size, heads)
	if pages.Sequences() < batch {
		g.Refuse("block_table", "want pages of %d sequences, got %d", batch, pages.Sequences())
	}
	o := flashOptions{SoftmaxScale: a.SoftmaxScale, Causal: a.Causal, WindowSize: a.WindowSize, Softcap: a.Softcap,
		AlibiSlopes: a.AlibiSlopes}
	s := o.scores(g, q.Shape()[3], queries, size)
	turn := func(name string, x *compose.Value, each int) *compose.Value {
		if a.RotaryCos == nil || a.RotarySin == nil {
			return x
		}
		if a.CacheLeftpad != nil {
			g.Unsupported("cache_leftpad", "positions of rotation after padding are not known")
		}
		positions := tensor.Make[int](batch * x.Shape()[1])
		for i := range positions {
			positions[i] = lens[i/x.Shape()[1]] + i%x.Shape()[1]*each
		}
		return fused.RotateAt(g, name, x, g.Arg("rotary_cos", a.RotaryCos), g.Arg("rotary_sin", a.RotarySin), positions,
			a.RotaryInterleaved)
	}
	each := 0
	if s.Before >= 0 || s.After >= 0 {
		each = 1
	}
	q = turn("q", q, each)
	more := 0
	if a.K != nil || a.V != nil {
		k, v := g.Arg("k", a.K), g.Arg("v", a.V)
		if k == nil || v == nil || a.CacheSeqlens == nil || k.Dim() != 4 || v.Dim() != 4 || k.Shape()[0] != batch ||
			!slices.Equal(k.Shape()[:3], v.Shape()[:3]) {
			g.Refuse("k", "want k and v of %d sequences, and cache_seqlens", batch)
		}
		more = k.Shape()[1]
		var slots []int
		for i, n := range lens {
			if n < 0 {
				g.Refuse("cache_seqlens", "want lengths from 0, got %d", n)
			}
			slots = append(slots, pages.Rows(g, i, n+more)[n:]...)
		}
		store := func(name string, cache, x *compose.Value) *compose.Value {
			y := fused.Store(g, name, cache, g.Reshape(x, batch*more, x.Shape()[2], x.Shape()[3]), slots)
			g.Update(name, y)
			return y
		}
		kc, vc = store("k_cache", kc, turn("k", k, 1)), store("v_cache", vc, v)
	}
	ks := fused.NewPages(g, "k_cache", kc, table, size, heads)
	vs := fused.NewPages(g, "v_cache", vc, table, size, heads)
	var sums []*compose.Value
	parts := []*compose.Value{g.Full(q.DType(), []int{0, queries, q.Shape()[2], vc.Shape()[3]}, 0)}
	for i, n := range lens {
		pad := int(pads[i])
		if n += more; pad < 0 || n < pad {
			g.Refuse("cache_leftpad", "%d rows of padding are not among %d", pad, n)
		}
		slopes := a.AlibiSlopes
		if slopes != nil && slopes.Dim() == 2 && i < slopes.Shape[0] {
			slopes = slopes.Slice(0, i, 1, 1)
		}
		s.Offset = n - pad - queries
		k, v := g.Narrow(ks.Of(g, i, n), 0, pad, n-pad), g.Narrow(vs.Of(g, i, n), 0, pad, n-pad)
		query, key := g.Narrow(q, 0, i, 1), g.Unsqueeze(k, 0)
		parts = append(parts, fused.Attend(g, query, key, g.Unsqueeze(v, 0), slopes, s))
		if a.ReturnSoftmaxLse {
			sums = append(sums, fused.LogSums(g, query, key, slopes, s))
		}
	}
	out := compose.Values{g.Cat(0, parts...)}
	if a.ReturnSoftmaxLse && sums != nil {
		out = append(out, g.Cat(0, sums...))
	}
	return out
})
