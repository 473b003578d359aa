package npu

import (
	"maps"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// An inference is a call of one of the attentions of inference.
type inference struct {
	query, key, value       *tensor.Tensor
	layout                  string
	heads, keyHeads         int // keyHeads 0: heads
	scale                   float64
	sparsity                sparsity
	pse                     *tensor.Tensor // added to the scores after the scale
	lengths, keyLengths     []int          // valid rows of sequences, one for all; nil: all
	table                   *tensor.Tensor // of pages, nil: none
	pageSize                int
	queryRope, keyRope      *tensor.Tensor // further elements of queries and keys
	keyScale, keyOffset     *tensor.Tensor // of int8 keys and values
	valueScale, valueOffset *tensor.Tensor
	quantScale, quantOffset *tensor.Tensor // of an int8 result
	lse                     bool
}

const inferNotes = "input_layout is BSH, BSND, BNSD or BNSD_BSND, whose result is BSND, and with TND sequences one " +
	"after " +
	"the other, of which the lengths are the ends. Fewer heads of keys and values serve several of query each; " +
	"num_key_value_heads 0 means as many. Of each sequence as many rows count as its length says; further queries " +
	"give " +
	"0. pse_shift is added to the scores. " + sparseNotes + " With a block_table keys and values are pages of " +
	"block_size " +
	"rows, (pages, rows, heads times sizes) or (pages, heads, rows, sizes). int8 keys and values are " +
	"(x + offset)*scale. With quant_scale2 the result is int8: round(y*quant_scale2 + quant_offset2). "

// lengthsOf are n lengths, at most most, from those given: all equal one, or the default.
func lengthsOf(g *compose.Graph, name string, given []int, n, most int) []int {
	switch len(given) {
	case 0:
		return slices.Repeat([]int{most}, n)
	case 1:
		given = slices.Repeat(given, n)
	}
	if len(given) < n {
		g.Refuse(name, "want %d lengths, got %d", n, len(given))
	}
	for _, l := range given[:n] {
		if l < 0 || l > most {
			g.Refuse(name, "%d rows are not among %d", l, most)
		}
	}
	return given[:n]
}

// dequantized are keys or values x [1, rows, heads, size] of int8 as numbers of dtype dt,
// with scale and offset of all, of each element of heads, or of each row.
func dequantized(g *compose.Graph, name string, x *compose.Value, scale, offset *tensor.Tensor,
	dt tensor.DType) *compose.Value {
	if scale == nil {
		if !x.DType().IsFloat() {
			g.Unsupported(name, "%s without a scale is not supported", x.DType())
		}
		return x
	}
	s := x.Shape()
	of := func(t *tensor.Tensor) *compose.Value {
		switch v := g.Const(t); t.Numel() {
		case 1:
			return g.Reshape(v, 1)
		case s[2] * s[3]:
			return g.Reshape(v, s[2], s[3])
		case s[2]:
			return g.Reshape(v, s[2], 1)
		}
		g.Refuse(name, "the scale or offset %s does not fit %d heads of %d", t.Meta(), s[2], s[3])
		return nil
	}
	y := g.To(x, tensor.Float32)
	if offset != nil {
		y = g.Add(y, of(offset))
	}
	return g.To(g.Mul(y, of(scale)), dt)
}

// attend is the result and, if asked for, the logarithms of the sums of the exponentials
// of scores.
func (a *inference) attend(g *compose.Graph) compose.Values {
	q, k, v := g.Arg("query", a.query), g.Arg("key", a.key), g.Arg("value", a.value)
	if a.keyHeads == 0 {
		a.keyHeads = a.heads
	}
	if a.heads < 1 || a.keyHeads < 1 || a.heads%a.keyHeads != 0 {
		g.Refuse("num_key_value_heads", "%d heads of keys do not serve %d", a.keyHeads, a.heads)
	}
	if !q.DType().IsFloat() {
		g.Refuse("query", "want a floating dtype, got %s", q.DType())
	}
	join := func(x *compose.Value, name string, rope *tensor.Tensor) *compose.Value {
		if rope == nil {
			return x
		}
		return g.Cat(-1, x, g.Arg(name, rope))
	}
	in, out := a.layout, a.layout
	if in == "BNSD_BSND" {
		in, out = "BNSD", "BSND"
	}
	packed := in == "TND"
	var oq *compose.Value
	var rows []int // of queries of sequences
	if packed {
		if q = join(q, "query_rope", a.queryRope); q.Dim() != 3 || q.Shape()[1] != a.heads {
			g.Refuse("query", "want (rows, %d, size), got %s", a.heads, a.query.Meta())
		}
		rows = fused.Lengths(g, "actual_seq_lengths", a.lengths, q.Shape()[0])
		oq = g.Unsqueeze(q, 0)
	} else {
		layout := fused.LayoutOf(g, "input_layout", in)
		oq = layout.Open(g, "query", q, a.heads)
		if a.queryRope != nil {
			oq = g.Cat(-1, oq, layout.Open(g, "query_rope", g.Arg("query_rope", a.queryRope), a.heads))
		}
		rows = lengthsOf(g, "actual_seq_lengths", a.lengths, oq.Shape()[0], oq.Shape()[1])
	}
	keysOf := a.keysOf(g, k, v, in, len(rows))
	var ys, sums []*compose.Value
	at := 0
	for i, n := range rows {
		var one *compose.Value
		if packed {
			one = g.Narrow(oq, 1, at, n)
			at += n
		} else {
			one = g.Narrow(g.Narrow(oq, 0, i, 1), 1, 0, n)
		}
		ki, vi := keysOf(i)
		s := a.sparsity.scores(g, i, n, ki.Shape()[1])
		s.Scale = a.scale
		if a.pse != nil {
			s.Mask = a.shifted(g, s.Mask, i, n, ki.Shape()[1])
		}
		x := sequence{one, ki, vi, s}
		y, top, sum := x.run(g)
		if full := oq.Shape()[1]; !packed && n < full {
			y = g.Cat(1, y, g.Full(y.DType(), []int{1, full - n, a.heads, vi.Shape()[3]}, 0))
			if a.lse {
				g.Refuse("actual_seq_lengths", "the sums of rows without a query are not defined")
			}
		}
		ys = append(ys, y)
		if a.lse {
			sums = append(sums, g.Add(g.Log(sum), top))
		}
	}
	if len(ys) == 0 {
		g.Refuse("query", "want at least one sequence")
	}
	var y *compose.Value
	lse := g.Full(tensor.Float32, []int{0}, 0)
	if packed {
		y = g.Squeeze(g.Cat(1, ys...), 0)
		if a.lse {
			lse = g.Permute(g.Cat(1, sums...), 1, 0, 2)
		}
	} else {
		y = fused.LayoutOf(g, "input_layout", out).Close(g, g.Cat(0, ys...))
		if a.lse {
			lse = g.Stack(0, sums...)
		}
	}
	if a.quantScale != nil {
		of := func(t *tensor.Tensor) *compose.Value {
			if s := y.Shape(); t.Numel() == 1 {
				return g.Reshape(g.Const(t), 1)
			} else if n := len(s); t.Numel() == s[n-1] {
				return g.Reshape(g.Const(t), s[n-1])
			} else if n > 2 && out != "BNSD" && t.Numel() == s[n-2]*s[n-1] {
				return g.Reshape(g.Const(t), s[n-2], s[n-1])
			} else if n == 4 && out == "BNSD" && t.Numel() == s[1]*s[3] {
				return g.Reshape(g.Const(t), s[1], 1, s[3])
			}
			g.Refuse("quant_scale2", "%s does not fit %s", t.Meta(), y.T.Meta())
			return nil
		}
		z := g.Mul(g.To(y, tensor.Float32), of(a.quantScale))
		if a.quantOffset != nil {
			z = g.Add(z, of(a.quantOffset))
		}
		y = g.Quantize(z, tensor.Int8, -128, 127)
	}
	return compose.Values{y, lse}
}

// shifted is a mask with the pse_shift of batch item i.
func (a *inference) shifted(g *compose.Graph, mask *compose.Value, i, n, m int) *compose.Value {
	p := g.Arg("pse_shift", a.pse)
	s := p.Shape()
	if len(s) != 4 || s[1] != a.heads || s[2] < n || s[3] < m || s[0] != 1 && i >= s[0] {
		g.Refuse("pse_shift", "want (B or 1, %d, %d, %d), got %s", a.heads, n, m, a.pse.Meta())
	}
	p = g.Squeeze(g.Narrow(p, 0, min(i, s[0]-1), 1), 0)
	p = g.AtLeast(g.Narrow(g.Narrow(p, 1, 0, n), 2, 0, m), tensor.Float32)
	if mask != nil {
		p = g.Add(p, g.Reshape(mask, n, m))
	}
	return p
}

// keysOf gives the keys and values [1, rows, heads, size] of n sequences.
func (a *inference) keysOf(g *compose.Graph, k, v *compose.Value, layout string,
	n int) func(i int) (k, v *compose.Value) {
	dt := a.query.DType
	finish := func(k, v *compose.Value) (*compose.Value, *compose.Value) {
		return dequantized(g, "key", k, a.keyScale, a.keyOffset, dt),
			dequantized(g, "value", v, a.valueScale, a.valueOffset, dt)
	}
	if a.table != nil {
		ks := fused.NewPages(g, "key", k, a.table, a.pageSize, a.keyHeads)
		vs := fused.NewPages(g, "value", v, a.table, a.pageSize, a.keyHeads)
		var ropes *fused.Pages
		if a.keyRope != nil {
			ropes = fused.NewPages(g, "key_rope", g.Arg("key_rope", a.keyRope), a.table, a.pageSize, a.keyHeads)
		}
		lengths := lengthsOf(g, "actual_seq_lengths_kv", a.keyLengths, n, a.table.Shape[1]*a.pageSize)
		if ks.Sequences() < n {
			g.Refuse("block_table", "want pages of %d sequences, got %d", n, ks.Sequences())
		}
		return func(i int) (*compose.Value, *compose.Value) {
			k := g.Unsqueeze(ks.Of(g, i, lengths[i]), 0)
			if ropes != nil {
				k = g.Cat(-1, k, g.Unsqueeze(ropes.Of(g, i, lengths[i]), 0))
			}
			return finish(k, g.Unsqueeze(vs.Of(g, i, lengths[i]), 0))
		}
	}
	open := func(name string, x *compose.Value) *compose.Value {
		if layout != "TND" {
			return fused.LayoutOf(g, "input_layout", layout).Open(g, name, x, a.keyHeads)
		}
		if x.Dim() != 3 {
			g.Refuse(name, "want (rows, heads, size), got %s", x.T.Meta())
		}
		return g.Unsqueeze(x, 0)
	}
	ok, ov := open("key", k), open("value", v)
	if a.keyRope != nil {
		ok = g.Cat(-1, ok, open("key_rope", g.Arg("key_rope", a.keyRope)))
	}
	if layout == "TND" {
		lengths := fused.Lengths(g, "actual_seq_lengths_kv", a.keyLengths, ok.Shape()[1])
		if len(lengths) != n {
			g.Refuse("actual_seq_lengths_kv", "want %d sequences, got %d", n, len(lengths))
		}
		starts := make([]int, n)
		for i := 1; i < n; i++ {
			starts[i] = starts[i-1] + lengths[i-1]
		}
		return func(i int) (*compose.Value, *compose.Value) {
			return finish(g.Narrow(ok, 1, starts[i], lengths[i]), g.Narrow(ov, 1, starts[i], lengths[i]))
		}
	}
	if ok.Shape()[0] != n || ov.Shape()[0] != n {
		g.Refuse("key", "want %d sequences, got %s and %s", n, a.key.Meta(), a.value.Meta())
	}
	lengths := lengthsOf(g, "actual_seq_lengths_kv", a.keyLengths, n, ok.Shape()[1])
	return func(i int) (*compose.Value, *compose.Value) {
		part := func(x *compose.Value) *compose.Value { return g.Narrow(g.Narrow(x, 0, i, 1), 1, 0, lengths[i]) }
		return finish(part(ok), part(ov))
	}
}

// none refuses arguments that are not supported, the first of them by name.
func none(g *compose.Graph, of map[string]*tensor.Tensor) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name] != nil {
			g.Unsupported(name, "it is not supported")
		}
	}
}

// half is part i of t, which has those of keys and of values; nil of nil.
func half(g *compose.Graph, name string, t *tensor.Tensor, i int) *tensor.Tensor {
	if t == nil {
		return nil
	}
	if t.Dim() == 0 || t.Shape[0] != 2 {
		g.Refuse(name, "want numbers of keys and of values, got %s", t.Meta())
	}
	return t.Slice(0, i, 1, 1)
}

type promptArgs struct {
	Query, Key, Value                 *tensor.Tensor
	PseShift, PaddingMask, AttenMask  *tensor.Tensor
	ActualSeqLengths                  []int
	DeqScale1, QuantScale1, DeqScale2 *tensor.Tensor
	QuantScale2, QuantOffset2         *tensor.Tensor
	NumHeads                          int
	ScaleValue                        float64
	PreTokens, NextTokens             int
	InputLayout                       string
	NumKeyValueHeads                  int
	ActualSeqLengthsKv                []int
	SparseMode                        int
}

var promptAttention = compose.Declare(compose.Op[promptArgs]{
	Schema: "npu_prompt_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None, " +
		"Tensor? padding_mask=None, Tensor? atten_mask=None, int[]? actual_seq_lengths=None, Tensor? " +
		"deq_scale1=None, " +
		"Tensor? quant_scale1=None, Tensor? deq_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, " +
		"int num_heads=1, float scale_value=1.0, int pre_tokens=2147483647, int next_tokens=0, " +
		"str input_layout='BSH', int num_key_value_heads=0, int[]? actual_seq_lengths_kv=None, int sparse_mode=0) -> " +
		"Tensor", Names: names("npu_prompt_flash_attention"),
	Doc: opdef.Doc{Summary: "Attention of prompts", Formula: "softmax(mask(scale_value * query key^T)) value of each " +
		"head",
		Notes: inferNotes + "Queries, keys and values of int8 (deq_scale1, quant_scale1, deq_scale2) are refused."},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *promptArgs {
		a := &promptArgs{Query: g.Normal(dt, 2, 3, 8), Key: g.Normal(dt, 2, 3, 4), Value: g.Normal(dt, 2, 3, 4),
			NumHeads: 2, ScaleValue: 0.5, PreTokens: everyToken, InputLayout: "BSH", NumKeyValueHeads: 1}
		switch g.Nth {
		case 0:
			a.AttenMask, a.SparseMode = g.Int(tensor.Bool, 0, 0, 4, 4), 2
		case 1:
			a.ActualSeqLengths, a.ActualSeqLengthsKv = []int{2, 3}, []int{3, 1}
		case 2:
			a.InputLayout, a.Query, a.Key = "BNSD_BSND", g.Normal(dt, 2, 2, 3, 4), g.Normal(dt, 2, 1, 3, 4)
			a.Value, a.PseShift = g.Normal(dt, 2, 1, 3, 4), g.Normal(dt, 1, 2, 3, 3)
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *promptArgs) compose.Values {
	none(g, map[string]*tensor.Tensor{"padding_mask": a.PaddingMask, "deq_scale1": a.DeqScale1,
		"quant_scale1": a.QuantScale1, "deq_scale2": a.DeqScale2})
	in := inference{query: a.Query, key: a.Key, value: a.Value, layout: a.InputLayout, heads: a.NumHeads,
		keyHeads: a.NumKeyValueHeads, scale: a.ScaleValue, pse: a.PseShift, lengths: a.ActualSeqLengths,
		keyLengths: a.ActualSeqLengthsKv, quantScale: a.QuantScale2, quantOffset: a.QuantOffset2,
		sparsity: sparsity{a.SparseMode, a.PreTokens, a.NextTokens, a.AttenMask, nil}}
	return in.attend(g)[:1]
})

type increArgs struct {
	Query, Key, Value                           *tensor.Tensor
	PaddingMask, AttenMask, PseShift            *tensor.Tensor
	ActualSeqLengths                            []int
	AntiquantScale, AntiquantOffset, BlockTable *tensor.Tensor
	DequantScale1, QuantScale1, DequantScale2   *tensor.Tensor
	QuantScale2, QuantOffset2, KvPaddingSize    *tensor.Tensor
	NumHeads                                    int
	ScaleValue                                  float64
	InputLayout                                 string
	NumKeyValueHeads, BlockSize, InnerPrecise   int
}

var increAttention = compose.Declare(compose.Op[increArgs]{
	Schema: "npu_incre_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None, " +
		"Tensor? atten_mask=None, Tensor? pse_shift=None, int[]? actual_seq_lengths=None, " +
		"Tensor? antiquant_scale=None, Tensor? antiquant_offset=None, Tensor? block_table=None, " +
		"Tensor? dequant_scale1=None, Tensor? quant_scale1=None, Tensor? dequant_scale2=None, " +
		"Tensor? quant_scale2=None, Tensor? quant_offset2=None, Tensor? kv_padding_size=None, int num_heads=1, " +
		"float scale_value=1.0, str input_layout='BSH', int num_key_value_heads=0, int block_size=0, " +
		"int inner_precise=1) -> Tensor", Names: names("npu_incre_flash_attention"),
	Doc: opdef.Doc{Summary: "Attention of the next position",
		Formula: "softmax(mask(scale_value * query key^T)) value of each head",
		Notes:   inferNotes + "actual_seq_lengths are those of keys. kv_padding_size and int8 queries are refused."},
	NoGrad: fused.ByInference,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *increArgs {
		a := &increArgs{Query: g.Normal(dt, 2, 1, 8), Key: g.Normal(dt, 2, 3, 4), Value: g.Normal(dt, 2, 3, 4),
			NumHeads: 2, ScaleValue: 0.5, InputLayout: "BSH", NumKeyValueHeads: 1, InnerPrecise: 1}
		switch g.Nth {
		case 0:
			a.AttenMask = tensor.New(tensor.Bool, []int{2, 1, 1, 3}, []int64{0, 0, 1, 0, 1, 0}).Rounded()
		case 1:
			a.ActualSeqLengths = []int{2, 3}
		case 2:
			a.Key, a.Value, a.BlockSize = g.Normal(dt, 3, 2, 4), g.Normal(dt, 3, 2, 4), 2
			a.BlockTable = tensor.New(tensor.Int32, []int{2, 2}, []int64{2, 0, 1, 0}).Rounded()
			a.ActualSeqLengths = []int{3, 2}
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *increArgs) compose.Values {
	none(g, map[string]*tensor.Tensor{"padding_mask": a.PaddingMask, "dequant_scale1": a.DequantScale1,
		"quant_scale1": a.QuantScale1, "dequant_scale2": a.DequantScale2, "kv_padding_size": a.KvPaddingSize})
	in := inference{query: a.Query, key: a.Key, value: a.Value, layout: a.InputLayout, heads: a.NumHeads,
		keyHeads: a.NumKeyValueHeads, scale: a.ScaleValue, pse: a.PseShift, keyLengths: a.ActualSeqLengths,
		table: a.BlockTable, pageSize: a.BlockSize, quantScale: a.QuantScale2, quantOffset: a.QuantOffset2,
		sparsity: sparsity{mask: a.AttenMask}, keyScale: half(g, "antiquant_scale", a.AntiquantScale, 0),
		keyOffset:   half(g, "antiquant_offset", a.AntiquantOffset, 0),
		valueScale:  half(g, "antiquant_scale", a.AntiquantScale, 1),
		valueOffset: half(g, "antiquant_offset", a.AntiquantOffset, 1)}
	return in.attend(g)[:1]
})

type inferArgs struct {
	Query, Key, Value, PseShift, AttenMask                *tensor.Tensor
	ActualSeqLengths, ActualSeqLengthsKv                  value.Value
	DequantScale1, QuantScale1, DequantScale2             *tensor.Tensor
	QuantScale2, QuantOffset2                             *tensor.Tensor
	AntiquantScale, AntiquantOffset                       *tensor.Tensor
	KeyAntiquantScale, KeyAntiquantOffset                 *tensor.Tensor
	ValueAntiquantScale, ValueAntiquantOffset, BlockTable *tensor.Tensor
	QueryPaddingSize, KvPaddingSize                       *tensor.Tensor
	KeySharedPrefix, ValueSharedPrefix                    *tensor.Tensor
	ActualSharedPrefixLen                                 []int
	QueryRope, KeyRope, KeyRopeAntiquantScale             *tensor.Tensor
	NumHeads                                              int
	Scale                                                 float64
	PreTokens, NextTokens                                 int
	InputLayout                                           string
	NumKeyValueHeads, SparseMode, InnerPrecise, BlockSize int
	AntiquantMode, KeyAntiquantMode, ValueAntiquantMode   int
	SoftmaxLseFlag                                        bool
}

var inferAttention = compose.Declare(compose.Op[inferArgs]{
	Schema: "npu_fused_infer_attention_score(Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None, " +
		"Tensor? atten_mask=None, any actual_seq_lengths=None, any actual_seq_lengths_kv=None, " +
		"Tensor? dequant_scale1=None, Tensor? quant_scale1=None, Tensor? dequant_scale2=None, " +
		"Tensor? quant_scale2=None, Tensor? quant_offset2=None, Tensor? antiquant_scale=None, " +
		"Tensor? antiquant_offset=None, Tensor? key_antiquant_scale=None, Tensor? key_antiquant_offset=None, " +
		"Tensor? value_antiquant_scale=None, Tensor? value_antiquant_offset=None, Tensor? block_table=None, " +
		"Tensor? query_padding_size=None, Tensor? kv_padding_size=None, Tensor? key_shared_prefix=None, " +
		"Tensor? value_shared_prefix=None, int[]? actual_shared_prefix_len=None, Tensor? query_rope=None, " +
		"Tensor? key_rope=None, Tensor? key_rope_antiquant_scale=None, int num_heads=1, float scale=1.0, " +
		"int pre_tokens=2147483647, int next_tokens=2147483647, str input_layout='BSH', int num_key_value_heads=0, " +
		"int sparse_mode=0, int inner_precise=0, int block_size=0, int antiquant_mode=0, int key_antiquant_mode=0, " +
		"int value_antiquant_mode=0, bool softmax_lse_flag=False) -> (Tensor, Tensor)",
	Names: names("npu_fused_infer_attention_score"),
	Doc: opdef.Doc{Summary: "Attention of prompts or of the next position",
		Formula: "softmax(mask(scale * query key^T)) value of each head, and the logarithm of the sum of the " +
			"exponentials " +
			"of scores",
		Notes: inferNotes + "query_rope and key_rope are further elements of queries and keys. The second result is " +
			"float32 (B, N, S, 1), (T, N, 1) in TND, and empty without softmax_lse_flag. Scales of each row, left " +
			"padding, shared prefixes and int8 queries are refused."},
	NoGrad: fused.ByInference,
	Exempt: map[string]string{"dtypes": "the second result is float32 whatever the dtype"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *inferArgs {
		table := tensor.New(tensor.Int32, []int{2, 2}, []int64{2, 0, 1, 0}).Rounded()
		a := &inferArgs{Query: g.Normal(dt, 2, 3, 8), Key: g.Normal(dt, 2, 3, 4), Value: g.Normal(dt, 2, 3, 4),
			NumHeads: 2, Scale: 0.5, PreTokens: everyToken, NextTokens: everyToken, InputLayout: "BSH",
			NumKeyValueHeads: 1, SoftmaxLseFlag: true}
		switch g.Nth {
		case 1:
			a.InputLayout, a.Query, a.SparseMode = "TND", g.Normal(dt, 4, 2, 4), 3
			a.Key, a.Value, a.BlockTable, a.BlockSize = g.Normal(dt, 3, 2, 4), g.Normal(dt, 3, 2, 4), table, 2
			a.ActualSeqLengths = value.NewList(int64(1), int64(4))
			a.ActualSeqLengthsKv, a.AttenMask = value.NewList(int64(2), int64(3)), g.Int(tensor.Bool, 0, 0, 4, 4)
		case 2:
			a.InputLayout, a.Query, a.SparseMode = "TND", g.Normal(dt, 4, 2, 4), 3
			a.Key, a.Value = g.Normal(dt, 5, 1, 4), g.Normal(dt, 5, 1, 4)
			a.ActualSeqLengths = value.NewList(int64(1), int64(4))
			a.ActualSeqLengthsKv, a.AttenMask = value.NewList(int64(2), int64(5)), g.Int(tensor.Bool, 0, 0, 4, 4)
		case 3:
			a.InputLayout, a.Query, a.Key = "BNSD", g.Normal(dt, 2, 2, 1, 4), g.Int(tensor.Int8, -9, 9, 2, 1, 3, 4)
			a.Value, a.KeyAntiquantScale = g.Int(tensor.Int8, -9, 9, 2, 1, 3, 4), g.Uniform(dt, 0.1, 0.2, 1, 4)
			a.ValueAntiquantScale = g.Uniform(dt, 0.1, 0.2, 1, 4)
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *inferArgs) compose.Values {
	none(g, map[string]*tensor.Tensor{"dequant_scale1": a.DequantScale1, "quant_scale1": a.QuantScale1,
		"dequant_scale2": a.DequantScale2, "query_padding_size": a.QueryPaddingSize, "kv_padding_size": a.KvPaddingSize,
		"key_shared_prefix": a.KeySharedPrefix, "value_shared_prefix": a.ValueSharedPrefix,
		"key_rope_antiquant_scale": a.KeyRopeAntiquantScale})
	if a.AntiquantMode != 0 || a.KeyAntiquantMode != 0 || a.ValueAntiquantMode != 0 {
		g.Refuse("antiquant_mode", "want scales of all or of each element of heads: mode 0")
	}
	in := inference{query: a.Query, key: a.Key, value: a.Value, layout: a.InputLayout, heads: a.NumHeads,
		keyHeads: a.NumKeyValueHeads, scale: a.Scale, pse: a.PseShift, table: a.BlockTable, pageSize: a.BlockSize,
		lengths:    fused.IntsOf(g, "actual_seq_lengths", a.ActualSeqLengths),
		keyLengths: fused.IntsOf(g, "actual_seq_lengths_kv", a.ActualSeqLengthsKv),
		queryRope:  a.QueryRope, keyRope: a.KeyRope, quantScale: a.QuantScale2, quantOffset: a.QuantOffset2,
		sparsity: sparsity{a.SparseMode, a.PreTokens, a.NextTokens, a.AttenMask, nil}, lse: a.SoftmaxLseFlag,
		keyScale: a.KeyAntiquantScale, keyOffset: a.KeyAntiquantOffset, valueScale: a.ValueAntiquantScale,
		valueOffset: a.ValueAntiquantOffset}
	if a.AntiquantScale != nil {
		in.keyScale, in.valueScale = half(g, "antiquant_scale", a.AntiquantScale, 0),
			half(g, "antiquant_scale", a.AntiquantScale, 1)
		in.keyOffset, in.valueOffset = half(g, "antiquant_offset", a.AntiquantOffset, 0),
			half(g, "antiquant_offset", a.AntiquantOffset, 1)
	}
	return in.attend(g)
})
