package llm

import (
	"math"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// ropeOptions are what FlashInfer's rotary embeddings have in common.
type ropeOptions struct {
	RotaryDim            *int
	Interleave           bool
	RopeScale, RopeTheta float64
}

// llamaOptions are those of Llama 3.1, which slows low frequencies alone.
type llamaOptions struct {
	LowFreqFactor, HighFreqFactor float64
	OldContextLen                 int
}

// rotated is x [rows, heads, size] with rows at positions, in x's dtype.
func (o *ropeOptions) rotated(g *compose.Graph, name string, x *compose.Value, positions []int,
	llama *llamaOptions) *compose.Value {
	fused.CheckRank(g, name, x, 3)
	rows, size := x.Shape()[0], x.Shape()[2]
	n := size
	if o.RotaryDim != nil {
		n = *o.RotaryDim
	}
	if n < 2 || n%2 != 0 || n > size {
		g.Refuse("rotary_dim", "want an even number up to %d, got %d", size, n)
	}
	if len(positions) != rows {
		g.Refuse(name, "%d positions do not fit %s", len(positions), x.T.Meta())
	}
	if !(o.RopeTheta > 0) || !(o.RopeScale > 0) {
		g.Refuse("rope_theta", "want rope_theta and rope_scale above 0, got %g and %g", o.RopeTheta, o.RopeScale)
	}
	exponents := tensor.Make[float64](n / 2)
	for i := range exponents {
		exponents[i] = float64(2*i) / float64(n)
	}
	freq := g.Exp(g.Scale(g.Const(tensor.New(tensor.Float32, []int{n / 2}, exponents)), -math.Log(o.RopeTheta)))
	slow := g.Scale(freq, 1/o.RopeScale)
	if llama != nil {
		low, high, length := llama.LowFreqFactor, llama.HighFreqFactor, float64(llama.OldContextLen)
		if !(low > 0 && high > low && length > 0) {
			g.Refuse("low_freq_factor", "want factors that rise from above 0, got %g and %g", low, high)
		}
		// Wave lengths from length/high to length/low are between both frequencies.
		smooth := g.Clamp(g.Shift(g.Scale(freq, length/(2*math.Pi*(high-low))), -low/(high-low)), 0, 1)
		slow = g.Add(g.Mul(g.Shift(g.Neg(smooth), 1), slow), g.Mul(smooth, freq))
	}
	at := tensor.Make[float64](rows)
	for i, p := range positions {
		at[i] = float64(p)
	}
	angle := g.Mul(g.Const(tensor.New(tensor.Float32, []int{rows, 1, 1}, at)), slow)
	wide := g.AtLeast(x, tensor.Float32)
	out := fused.RotatedPairs(g, g.Narrow(wide, -1, 0, n), g.Cos(angle), g.Sin(angle), o.Interleave)
	if n < size {
		out = g.Cat(-1, out, g.Narrow(wide, -1, n, size-n))
	}
	return g.To(out, x.DType())
}

// A ropeCall is a call of one of the rotary embeddings.
type ropeCall struct {
	q, k      *tensor.Tensor
	positions []int
	*ropeOptions
	llama *llamaOptions
}

const (
	ropeSchema  = "int? rotary_dim=None, bool interleave=False, float rope_scale=1, float rope_theta=1e4"
	llamaSchema = "int? rotary_dim=None, bool interleave=False, float rope_scale=8, float rope_theta=5e5, " +
		"float low_freq_factor=1, float high_freq_factor=4, int old_context_len=8192"
	segments = "Tensor q, Tensor k, Tensor indptr, Tensor offsets, "
	places   = "Tensor q, Tensor k, Tensor pos_ids, "
)

// infRope declares a rotary embedding and its form that writes to q and k.
func infRope[A any](name, schema string, cases func(g opdef.Gen) []*A,
	of func(g *compose.Graph, a *A) ropeCall) []*opdef.Entry {
	doc := opdef.Doc{Summary: "Rotation of queries and keys by the angles of their positions",
		Formula: "pairs of elements turned by position / (rope_scale * rope_theta^(2i/rotary_dim))",
		Notes: "q and k are (rows, heads, size); the first rotary_dim elements are turned, neighbours if interleave, " +
			"else those of one place in both halves. The position of a row is pos_ids, or offsets of its segment and " +
			"its place in it, of which indptr has the ends. Llama 3.1's form divides by rope_scale what turns less " +
			"than " +
			"low_freq_factor times in old_context_len rows, and nothing that turns more than high_freq_factor times."}
	both := func(g *compose.Graph, a *A) compose.Values {
		c := of(g, a)
		return compose.Values{c.rotated(g, "q", g.Arg("q", c.q), c.positions, c.llama),
			c.rotated(g, "k", g.Arg("k", c.k), c.positions, c.llama)}
	}
	return infBoth(name, schema, doc, cases, []string{"q", "k"}, both)
}

// infBoth declares a rotary embedding of two tensors of these names, and its form that writes to them.
func infBoth[A any](name, schema string, doc opdef.Doc, cases func(g opdef.Gen) []*A, written []string,
	both func(g *compose.Graph, a *A) compose.Values) []*opdef.Entry {
	doc.Source = "flashinfer." + name
	inPlace := doc
	inPlace.Summary += ", in place"
	inPlace.Source += "_inplace"
	return []*opdef.Entry{
		compose.Declare(compose.Op[A]{Schema: "flashinfer_" + name + "(" + schema + ") -> (Tensor, Tensor)",
			Names: "flashinfer." + name + " flashinfer.rope." + name, Doc: doc, Cases: cases}, compose.Fused, both),
		compose.DeclareInPlace(compose.Op[A]{Schema: "flashinfer_" + name + "_inplace(" + schema + ") -> ()",
			Names: "flashinfer." + name + "_inplace flashinfer.rope." + name + "_inplace", Doc: inPlace, Cases: cases},
			written, both),
	}
}

// segmentPositions are those of rows from the ends of segments and where they begin.
func segmentPositions(g *compose.Graph, q *tensor.Tensor, indptr, offsets *tensor.Tensor) []int {
	if q.Dim() != 3 {
		g.Refuse("q", "want rank 3, got %s", q.Meta())
	}
	ends, starts := fused.Ints(g, "indptr", indptr), fused.Ints(g, "offsets", offsets)
	if len(ends) != len(starts)+1 || ends[0] != 0 || ends[len(starts)] != q.Shape[0] || !slices.IsSorted(ends) {
		g.Refuse("indptr", "%v are not the ends of %d segments of %d rows", ends, len(starts), q.Shape[0])
	}
	out := tensor.Make[int](q.Shape[0])
	for i, start := range starts {
		for r := ends[i]; r < ends[i+1]; r++ {
			out[r] = start + r - ends[i]
		}
	}
	return out
}

type (
	ropeSegmentArgs struct {
		Q, K, Indptr, Offsets *tensor.Tensor
		ropeOptions
	}
	ropePlaceArgs struct {
		Q, K, PosIds *tensor.Tensor
		ropeOptions
	}
	llamaSegmentArgs struct {
		Q, K, Indptr, Offsets *tensor.Tensor
		ropeOptions
		llamaOptions
	}
	llamaPlaceArgs struct {
		Q, K, PosIds *tensor.Tensor
		ropeOptions
		llamaOptions
	}
)

// ropeCacheArgs are those of rotary embeddings with tables of cosines and sines.
type ropeCacheArgs struct {
	Positions, Query, Key *tensor.Tensor
	HeadSize              int
	CosSinCache           *tensor.Tensor
	IsNeox                bool
}

var infCachedRopes = func() []*opdef.Entry {
	const name = "apply_rope_with_cos_sin_cache"
	const schema = "Tensor positions, Tensor query, Tensor key, int head_size, Tensor cos_sin_cache, bool is_neox=True"
	doc := opdef.Doc{Summary: "Rotation of queries and keys by angles from a table",
		Formula: "(a*cos - b*sin, b*cos + a*sin) for pairs (a, b) of each head",
		Notes: "query and key are (rows, heads*head_size); cos_sin_cache is (positions, 2*pairs), the cosines of a " +
			"position and then its sines. Pairs are of one place in both halves of as many elements with is_neox, " +
			"else neighbours."}
	cases := func(g opdef.Gen) []*ropeCacheArgs {
		neox := false
		return opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *ropeCacheArgs {
			neox = !neox
			return &ropeCacheArgs{fused.Integers(3, 0, 1), g.Normal(dt, 3, 12), g.Normal(dt, 3, 6), 6,
				g.Uniform(tensor.Float32, -1, 1, 5, 4), neox}
		})(g)
	}
	both := func(g *compose.Graph, a *ropeCacheArgs) compose.Values {
		positions, cache := fused.Ints(g, "positions", a.Positions), g.Arg("cos_sin_cache", a.CosSinCache)
		return compose.Values{
			fused.RotatedHeads(g, "query", a.Query, a.HeadSize, cache, positions, !a.IsNeox),
			fused.RotatedHeads(g, "key", a.Key, a.HeadSize, cache, positions, !a.IsNeox)}
	}
	return infBoth(name, schema, doc, cases, []string{"query", "key"}, both)
}()

// ropeCases are tensors with options.
func ropeCases[A any](f func(q, k *tensor.Tensor, o ropeOptions) *A) func(g opdef.Gen) []*A {
	return func(g opdef.Gen) (cs []*A) {
		four := 4
		for i, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16, tensor.Float32} {
			o := ropeOptions{Interleave: i%2 == 1, RopeScale: 2, RopeTheta: 100}
			if i == 3 {
				o.RotaryDim = &four
			}
			cs = append(cs, f(g.Normal(dt, 5, 2, 6), g.Normal(dt, 5, 1, 6), o))
		}
		return cs
	}
}

var infRopes = slices.Concat(
	infRope("apply_rope", segments+ropeSchema, ropeCases(func(q, k *tensor.Tensor, o ropeOptions) *ropeSegmentArgs {
		return &ropeSegmentArgs{q, k, fused.Integers(0, 2, 5), fused.Integers(3, 0), o}
	}), func(g *compose.Graph, a *ropeSegmentArgs) ropeCall {
		return ropeCall{a.Q, a.K, segmentPositions(g, a.Q, a.Indptr, a.Offsets), &a.ropeOptions, nil}
	}),
	infRope("apply_rope_pos_ids", places+ropeSchema, ropeCases(func(q, k *tensor.Tensor, o ropeOptions) *ropePlaceArgs {
		return &ropePlaceArgs{q, k, fused.Integers(3, 4, 0, 1, 2), o}
	}), func(g *compose.Graph, a *ropePlaceArgs) ropeCall {
		return ropeCall{a.Q, a.K, fused.Ints(g, "pos_ids", a.PosIds), &a.ropeOptions, nil}
	}),
	infRope("apply_llama31_rope", segments+llamaSchema,
		ropeCases(func(q, k *tensor.Tensor, o ropeOptions) *llamaSegmentArgs {
			return &llamaSegmentArgs{q, k, fused.Integers(0, 2, 5), fused.Integers(3, 0), o, llamaOptions{1, 4, 40}}
		}), func(g *compose.Graph, a *llamaSegmentArgs) ropeCall {
			return ropeCall{a.Q, a.K, segmentPositions(g, a.Q, a.Indptr, a.Offsets), &a.ropeOptions, &a.llamaOptions}
		}),
	infRope("apply_llama31_rope_pos_ids", places+llamaSchema,
		ropeCases(func(q, k *tensor.Tensor, o ropeOptions) *llamaPlaceArgs {
			return &llamaPlaceArgs{q, k, fused.Integers(3, 4, 0, 1, 2), o, llamaOptions{1, 4, 40}}
		}), func(g *compose.Graph, a *llamaPlaceArgs) ropeCall {
			return ropeCall{a.Q, a.K, fused.Ints(g, "pos_ids", a.PosIds), &a.ropeOptions, &a.llamaOptions}
		}),
)

// An infAttention is attention of one sequence as FlashInfer's kernels compute it.
type infAttention struct {
	layout, encoding           string
	scale, softcap             *float64
	ropeScale, ropeTheta       *float64
	factor                     float64 // of the scores beside the scale
	times                      float64 // of the result
	window                     int
	causal, returnLSE, decodes bool
	mask                       *tensor.Tensor // where keys are seen; nil: as causal says
}

func number(x *float64, otherwise float64) float64 {
	if x == nil {
		return otherwise
	}
	return *x
}

// attend is the attention of q [queries, heads, size] over k and v in a layout, and log2
// of the sums of exponentials if these are asked for.
func (a *infAttention) attend(g *compose.Graph, q, k, v *compose.Value) compose.Values {
	fused.CheckRank(g, "q", q, 3)
	fused.CheckRank(g, "k", k, 3)
	fused.CheckRank(g, "v", v, 3)
	switch a.layout {
	case "NHD":
	case "HND":
		k, v = g.Permute(k, 1, 0, 2), g.Permute(v, 1, 0, 2)
	default:
		g.Refuse("kv_layout", "want NHD or HND, got %s", a.layout)
	}
	fused.CheckHeads(g, 3, q, k, v)
	if k.Shape()[0] != v.Shape()[0] || q.Shape()[2] != k.Shape()[2] {
		g.Refuse("k", "q %s, k %s and v %s do not fit", q.T.Meta(), k.T.Meta(), v.T.Meta())
	}
	queries, heads, keys := q.Shape()[0], q.Shape()[1], k.Shape()[0]
	s := compose.Scores{Scale: number(a.scale, 1/math.Sqrt(float64(q.Shape()[2]))) * a.factor,
		Softcap: max(number(a.softcap, 0), 0), Offset: keys - queries, Before: max(a.window, -1), After: -1}
	switch {
	case a.mask != nil:
		if !slices.Equal(a.mask.Shape, []int{queries, keys}) || a.mask.DType != tensor.Bool {
			g.Refuse("custom_mask", "want bool[%d, %d], got %s", queries, keys, a.mask.Meta())
		}
		s.Mask = g.BoolMask(a.mask)
	case a.causal:
		s.After = 0
	}
	var slopes *tensor.Tensor
	switch a.encoding {
	case "NONE":
	case "ROPE_LLAMA":
		o := ropeOptions{RopeScale: number(a.ropeScale, 1), RopeTheta: number(a.ropeTheta, 1e4)}
		q = o.rotated(g, "q", q, upFrom(keys-queries, queries), nil)
		k = o.rotated(g, "k", k, upFrom(0, keys), nil)
	case "ALIBI":
		if !a.decodes && (!a.causal || a.mask != nil) || a.returnLSE || s.Softcap > 0 {
			g.Refuse("pos_encoding_mode",
				"ALIBI is known of causal attention alone, without return_lse and logits_soft_cap")
		}
		slopes = tensor.New(tensor.Float32, []int{heads}, alibiSlopes(heads))
	default:
		g.Refuse("pos_encoding_mode", "want NONE, ROPE_LLAMA or ALIBI, got %s", a.encoding)
	}
	out := g.Squeeze(fused.Attend(g, g.Unsqueeze(q, 0), g.Unsqueeze(k, 0), g.Unsqueeze(v, 0), slopes, s), 0)
	if a.times != 1 {
		out = g.Scale(out, a.times)
	}
	if !a.returnLSE {
		return compose.Values{out}
	}
	return compose.Values{out, logSums(g, q, k, s)}
}

// upFrom are n positions from lo.
func upFrom(lo, n int) []int {
	out := tensor.Make[int](n)
	for i := range out {
		out[i] = lo + i
	}
	return out
}

// alibiSlopes are 2^(-8h/n) for the first n heads, a power of two, and those between
// them for more.
func alibiSlopes(heads int) []float64 {
	n := 1
	for 2*n <= heads {
		n *= 2
	}
	out := tensor.Make[float64](heads)
	for h := range out {
		if out[h] = math.Exp2(-8 * float64(h+1) / float64(n)); h >= n {
			out[h] = math.Exp2(-4 * float64(2*(h+1-n)-1) / float64(n))
		}
	}
	return out
}

// logSums are log2 of the sums of the exponentials of scores [queries, heads], in float32.
func logSums(g *compose.Graph, q, k *compose.Value, s compose.Scores) *compose.Value {
	queries, heads, keys, few := q.Shape()[0], q.Shape()[1], k.Shape()[0], k.Shape()[1]
	rows := g.Permute(g.Reshape(g.To(q, tensor.Float32), queries, few, heads/few, q.Shape()[2]), 1, 2, 0, 3)
	columns := g.Unsqueeze(g.Permute(g.To(k, tensor.Float32), 1, 2, 0), 1)
	scores := g.Scale(g.Matmul(rows, columns), s.Scale) // [few, heads/few, queries, keys]
	if s.Softcap > 0 {
		scores = g.Scale(g.Tanh(g.Scale(scores, 1/s.Softcap)), s.Softcap)
	}
	hidden := tensor.Make[int64](queries * keys)
	for r := range queries {
		for j := range keys {
			distance := r + s.Offset - j
			if s.Before >= 0 && distance > s.Before || s.After >= 0 && -distance > s.After {
				hidden[r*keys+j] = 1
			}
		}
	}
	if s.Mask != nil {
		for i, x := range tensor.Data[float64](s.Mask.T) {
			if x != 0 {
				hidden[i] = 1
			}
		}
	}
	scores = g.MaskedFill(scores, tensor.New(tensor.Bool, []int{queries, keys}, hidden), math.Inf(-1))
	sums := g.Scale(g.LogSumExp(scores, -1, false), 1/math.Ln2) // [few, heads/few, queries]
	return g.Permute(g.Reshape(sums, heads, queries), 1, 0)
}

type prefillArgs struct {
	Q, K, V, ScaleQ, ScaleK, ScaleV     *tensor.Tensor
	ODtype                              *tensor.DType
	CustomMask, PackedCustomMask        *tensor.Tensor
	Causal                              bool
	KvLayout, PosEncodingMode           string
	UseFp16QkReduction                  bool
	SmScale                             *float64
	WindowLeft                          int
	LogitsSoftCap, RopeScale, RopeTheta *float64
	Backend                             string
	ReturnLse                           bool
	KvCacheSf                           value.Value
	KScale, VScale                      *float64
}

const infNotes = "q is (queries, heads, size), k and v (keys, heads, size) in NHD, (heads, keys, size) in HND. " +
	"Fewer heads of k and v serve several of q each; the last query stands at the last key. window_left is how many " +
	"keys before its place a query sees, -1 all. return_lse adds log2 of the sum of the exponentials of the scores " +
	"(queries, heads) in float32. ROPE_LLAMA turns q and k by their positions first, ALIBI adds a slope of each head " +
	"times the distance."

var infPrefill = compose.Declare(compose.Op[prefillArgs]{
	Schema: "flashinfer_single_prefill_with_kv_cache(Tensor q, Tensor k, Tensor v, Tensor? scale_q=None, " +
		"Tensor? scale_k=None, Tensor? scale_v=None, dtype? o_dtype=None, Tensor? custom_mask=None, " +
		"Tensor? packed_custom_mask=None, bool causal=False, str kv_layout='NHD', str pos_encoding_mode='NONE', " +
		"bool use_fp16_qk_reduction=False, float? sm_scale=None, int window_left=-1, float? logits_soft_cap=None, " +
		"float? rope_scale=None, float? rope_theta=None, str backend='auto', bool return_lse=False, " +
		"any kv_cache_sf=None, float? k_scale=None, float? v_scale=None) -> Tensor|Tensor[]",
	Names: "flashinfer.single_prefill_with_kv_cache flashinfer.prefill.single_prefill_with_kv_cache",
	Doc: opdef.Doc{Summary: "Attention of the queries of one sequence",
		Formula: "softmax(logits_soft_cap*tanh(sm_scale * q k^T / logits_soft_cap)) v of each head",
		Notes: infNotes + " custom_mask says which keys are seen, whatever causal is. Quantised keys and values " +
			"(scale_q, scale_k, scale_v, kv_cache_sf) and packed masks are refused."},
	Exempt: map[string]string{"dtypes": "the second result is float32 whatever the dtype"},
	Cases: func(g opdef.Gen) (cs []*prefillArgs) {
		half, cap := 0.5, 2.0
		for i, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
			cs = append(cs, &prefillArgs{Q: g.Normal(dt, 3, 4, 8), K: g.Normal(dt, 5, 2, 8), V: g.Normal(dt, 5, 2, 8),
				KvLayout: "NHD", PosEncodingMode: []string{"NONE", "ROPE_LLAMA", "ALIBI"}[i], Causal: i > 0,
				WindowLeft: -1, Backend: "auto", ReturnLse: i == 0})
		}
		mask := tensor.New(tensor.Bool, []int{3, 5}, []int64{1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 1}).Rounded()
		return append(cs, &prefillArgs{Q: g.Normal(tensor.Float32, 3, 2, 4), K: g.Normal(tensor.Float32, 2, 5, 4),
			V: g.Normal(tensor.Float32, 2, 5, 4), KvLayout: "HND", PosEncodingMode: "NONE", Causal: true,
			SmScale: &half, WindowLeft: 1, LogitsSoftCap: &cap, Backend: "auto", ReturnLse: true},
			&prefillArgs{Q: g.Normal(tensor.Float32, 3, 2, 4), K: g.Normal(tensor.Float32, 5, 2, 4),
				V: g.Normal(tensor.Float32, 5, 2, 4), CustomMask: mask, KvLayout: "NHD", PosEncodingMode: "NONE",
				WindowLeft: -1, Backend: "auto", ReturnLse: true, KScale: &half, VScale: &half})
	},
}, compose.Fused, func(g *compose.Graph, a *prefillArgs) compose.Values {
	if a.ScaleQ != nil || a.ScaleK != nil || a.ScaleV != nil || a.KvCacheSf != nil {
		g.Unsupported("scale_q", "quantised queries, keys and values are not supported")
	}
	if a.PackedCustomMask != nil {
		g.Unsupported("packed_custom_mask", "packed masks are not supported")
	}
	if a.ODtype != nil && *a.ODtype != a.Q.DType {
		g.Refuse("o_dtype", "want that of q, %s, got %s", a.Q.DType, *a.ODtype)
	}
	at := infAttention{layout: a.KvLayout, encoding: a.PosEncodingMode, scale: a.SmScale, softcap: a.LogitsSoftCap,
		ropeScale: a.RopeScale, ropeTheta: a.RopeTheta, factor: number(a.KScale, 1), times: number(a.VScale, 1),
		window: a.WindowLeft, causal: a.Causal, returnLSE: a.ReturnLse, mask: a.CustomMask}
	return at.attend(g, g.Arg("q", a.Q), g.Arg("k", a.K), g.Arg("v", a.V))
})

type decodeArgs struct {
	Q, K, V                                      *tensor.Tensor
	KvLayout, PosEncodingMode                    string
	UseTensorCores                               bool
	QScale, KScale, VScale                       *float64
	WindowLeft                                   int
	LogitsSoftCap, SmScale, RopeScale, RopeTheta *float64
	ReturnLse                                    bool
}

var infDecode = compose.Declare(compose.Op[decodeArgs]{
	Schema: "flashinfer_single_decode_with_kv_cache(Tensor q, Tensor k, Tensor v, str kv_layout='NHD', " +
		"str pos_encoding_mode='NONE', bool use_tensor_cores=False, float? q_scale=None, float? k_scale=None, " +
		"float? v_scale=None, int window_left=-1, float? logits_soft_cap=None, float? sm_scale=None, " +
		"float? rope_scale=None, float? rope_theta=None, bool return_lse=False) -> Tensor|Tensor[]",
	Names: "flashinfer.single_decode_with_kv_cache flashinfer.decode.single_decode_with_kv_cache",
	Doc: opdef.Doc{Summary: "Attention of the last query of one sequence",
		Formula: "as single_prefill_with_kv_cache of one query, without its dimension",
		Notes:   infNotes},
	Exempt: map[string]string{"dtypes": "the second result is float32 whatever the dtype"},
	Cases: func(g opdef.Gen) (cs []*decodeArgs) {
		half, cap := 0.5, 2.0
		for i, dt := range []tensor.DType{tensor.Float32, tensor.Float16, tensor.BFloat16} {
			cs = append(cs, &decodeArgs{Q: g.Normal(dt, 4, 8), K: g.Normal(dt, 5, 2, 8), V: g.Normal(dt, 5, 2, 8),
				KvLayout: "NHD", PosEncodingMode: []string{"NONE", "ROPE_LLAMA", "ALIBI"}[i], WindowLeft: -1,
				ReturnLse: i == 0})
		}
		return append(cs, &decodeArgs{Q: g.Normal(tensor.Float32, 2, 4), K: g.Normal(tensor.Float32, 2, 5, 4),
			V: g.Normal(tensor.Float32, 2, 5, 4), KvLayout: "HND", PosEncodingMode: "NONE", QScale: &half,
			VScale: &half, WindowLeft: 2, LogitsSoftCap: &cap, SmScale: &half, ReturnLse: true})
	},
}, compose.Fused, func(g *compose.Graph, a *decodeArgs) compose.Values {
	at := infAttention{layout: a.KvLayout, encoding: a.PosEncodingMode, scale: a.SmScale, softcap: a.LogitsSoftCap,
		ropeScale: a.RopeScale, ropeTheta: a.RopeTheta, factor: number(a.QScale, 1) * number(a.KScale, 1),
		times: number(a.VScale, 1), window: a.WindowLeft, returnLSE: a.ReturnLse, decodes: true}
	q := g.Arg("q", a.Q)
	fused.CheckRank(g, "q", q, 2)
	outs := at.attend(g, g.Unsqueeze(q, 0), g.Arg("k", a.K), g.Arg("v", a.V))
	for i, v := range outs {
		outs[i] = g.Squeeze(v, 0)
	}
	return outs
})
