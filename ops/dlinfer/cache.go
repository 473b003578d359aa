package dlinfer

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

type fillArgs struct {
	Key, Value, KeyCache, ValueCache, KvIndices *tensor.Tensor
	KScalesZeros, VScalesZeros                  []*tensor.Tensor
	QuantBits                                   int
}

var fillKVCache = compose.Declare(compose.Op[fillArgs]{
	Schema: "dlinfer_fill_kv_cache(Tensor key, Tensor value, Tensor key_cache, Tensor value_cache, " +
		"Tensor kv_indices, Tensor?[] k_scales_zeros=[], Tensor?[] v_scales_zeros=[], int quant_bits=0) -> " +
		"(Tensor, Tensor)", Names: names("fill_kv_cache"),
	Doc: opdef.Doc{Summary: "Stores rows of keys and values in pages, in place",
		Formula: "cache[kv_indices[i]] = key[i]; with quant_bits 8 round(key[i]/scale - zero) as int8",
		Notes: "key and value are (rows, heads, size), caches (pages, rows, heads, size) or (pages, heads, rows, " +
			"size); " +
			"the index -1 leaves a row out. Values of another size than keys are part of these and not stored.",
		Source: source("fill_kv_cache")},
	NoGrad: fused.ByInference,
	Cases: func(g opdef.Gen) []*fillArgs {
		slots := fused.Integers(5, 0, -1)
		cs := opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *fillArgs {
			return &fillArgs{Key: g.Normal(dt, 3, 2, 4), Value: g.Normal(dt, 3, 2, 4),
				KeyCache: g.Normal(dt, 2, 3, 2, 4), ValueCache: g.Normal(dt, 2, 3, 2, 4), KvIndices: slots}
		})(g)
		dt := tensor.Float32
		scales := []*tensor.Tensor{tensor.New(dt, []int{1}, []float64{0.03}), tensor.New(dt, []int{1}, []float64{2})}
		return append(cs, &fillArgs{Key: g.Normal(dt, 3, 2, 4), Value: g.Normal(dt, 3, 2, 4),
			KeyCache: g.Int(tensor.Int8, -9, 9, 2, 3, 2, 4), ValueCache: g.Int(tensor.Int8, -9, 9, 2, 3, 2, 4),
			KvIndices: fused.Integers(5, 0, 2), KScalesZeros: scales, VScalesZeros: scales, QuantBits: 8},
			&fillArgs{Key: g.Normal(dt, 2, 1, 6), Value: g.Normal(dt, 2, 1, 4), KeyCache: g.Normal(dt, 2, 3, 1, 6),
				ValueCache: g.Normal(dt, 2, 3, 1, 4), KvIndices: fused.Integers(4, 3)})
	},
}, compose.Fused, func(g *compose.Graph, a *fillArgs) compose.Values {
	slots := fused.IntsOf(g, "kv_indices", a.KvIndices)
	store := func(name string, x, cache *tensor.Tensor, scales []*tensor.Tensor) *compose.Value {
		v := g.Arg(name, x)
		switch {
		case a.QuantBits == 8 && len(scales) == 2 && scales[0] != nil && scales[1] != nil:
			v = g.Sub(g.Div(v, g.Const(scales[0])), g.Const(scales[1]))
			v = g.Quantize(v, tensor.Int8, -128, 127)
		case a.QuantBits != 0:
			g.Refuse("quant_bits", "want 0, or 8 with scales and zeros, got %d", a.QuantBits)
		}
		y := fused.Store(g, name+"_cache", g.Arg(name+"_cache", cache), v, slots)
		g.Update(name+"_cache", y)
		return y
	}
	if a.Key.Dim() != 3 || a.Value.Dim() != 3 {
		g.Refuse("key", "want rows of heads, got %s and %s", a.Key.Meta(), a.Value.Meta())
	}
	keys := store("key", a.Key, a.KeyCache, a.KScalesZeros)
	if a.Key.Shape[2] != a.Value.Shape[2] {
		return compose.Values{keys, g.Arg("value_cache", a.ValueCache)}
	}
	return compose.Values{keys, store("value", a.Value, a.ValueCache, a.VScalesZeros)}
})

type contiguousArgs struct{ KeyCache, ValueCache, KeyState, ValueState *tensor.Tensor }

var fillContiguous = compose.Declare(compose.Op[contiguousArgs]{
	Schema: "dlinfer_fill_contiguous_kvcache(Tensor key_cache, Tensor value_cache, Tensor key_state, " +
		"Tensor value_state) -> (Tensor, Tensor)", Names: names("fill_contiguous_kvcache"),
	Doc: opdef.Doc{Summary: "Appends keys and values to those of earlier positions",
		Formula: "cat(key_cache, key_state, 1) and cat(value_cache, value_state, 1)",
		Source:  source("fill_contiguous_kvcache")},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *contiguousArgs {
		return &contiguousArgs{g.Normal(dt, 1, 3, 2, 4), g.Normal(dt, 1, 3, 2, 4), g.Normal(dt, 1, 1, 2, 4),
			g.Normal(dt, 1, 1, 2, 4)}
	}),
}, compose.Fused, func(g *compose.Graph, a *contiguousArgs) compose.Values {
	return compose.Values{g.Cat(1, g.Arg("key_cache", a.KeyCache), g.Arg("key_state", a.KeyState)),
		g.Cat(1, g.Arg("value_cache", a.ValueCache), g.Arg("value_state", a.ValueState))}
})

type lenArgs struct{ Cache *tensor.Tensor }

var cacheLen = opdef.Op[lenArgs]{
	Schema: "dlinfer_get_cache_len(Tensor cache) -> int", Names: names("get_cache_len"),
	Doc: opdef.Doc{Summary: "How many positions a cache holds", Formula: "cache.shape[1]",
		Source: source("get_cache_len")},
	NoGrad: "the result is a number",
	Value: func(a *lenArgs) (value.Value, error) {
		if a.Cache.Dim() < 2 {
			return nil, opdef.Refuse("cache", "want at least 2 dimensions, got %d", a.Cache.Dim())
		}
		return int64(a.Cache.Shape[1]), nil
	},
}.Entry()

type transArgs struct {
	HiddenStates  *tensor.Tensor
	TransdataType int
}

// blockRows is how many rows the blocks of a matrix in format NZ have.
const blockRows = 16

var transdata = compose.Declare(compose.Op[transArgs]{
	Schema: "dlinfer_transdata(Tensor hidden_states, int transdata_type=2) -> Tensor", Names: names("transdata"),
	Doc: opdef.Doc{Summary: "Matrices in Ascend's format NZ, of blocks of columns",
		Formula: "out[b, j, i, c] = hidden_states[b, i, j*n + c]",
		Notes: "n is 16, of int8 32. Rows are filled up with zeros to a multiple of " +
			"16, columns to one of n. transdata_type is 2; a matrix is a batch of one.",
		Source: source("transdata")},
	Exempt: map[string]string{"dtypes": "the width of blocks follows from the dtype"},
	Cases: func(g opdef.Gen) []*transArgs {
		return []*transArgs{{g.Normal(tensor.Float16, 3, 20), 2}, {g.Int(tensor.Int8, -9, 9, 2, 17, 33), 2}}
	},
}, compose.Fused, func(g *compose.Graph, a *transArgs) compose.Values {
	x := g.Arg("hidden_states", a.HiddenStates)
	if a.TransdataType != 2 {
		g.Refuse("transdata_type", "want 2, got %d", a.TransdataType)
	}
	if x.Dim() == 2 {
		x = g.Unsqueeze(x, 0)
	}
	if x.Dim() != 3 || x.DType() != tensor.Int8 && !x.DType().IsFloat() {
		g.Refuse("hidden_states", "want int8 or a floating dtype in rank 2 or 3, got %s", a.HiddenStates.Meta())
	}
	n := 16
	if x.DType() == tensor.Int8 {
		n = 32
	}
	for dim, to := range []int{1: blockRows, 2: n} {
		if to == 0 {
			continue
		}
		zeros := slices.Clone(x.Shape())
		if zeros[dim] = (to - zeros[dim]%to) % to; zeros[dim] > 0 {
			x = g.Cat(dim, x, g.Full(x.DType(), zeros, 0))
		}
	}
	s := x.Shape()
	return compose.Values{g.Permute(g.Reshape(x, s[0], s[1], s[2]/n, n), 0, 2, 1, 3)}
})
