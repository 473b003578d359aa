package npu

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// everyToken is how many tokens an attention sees by default.
const everyToken = 2147483647

// hiddenMask is the mask that adds -Inf where mask is not 0.
func hiddenMask(g *compose.Graph, mask *tensor.Tensor) *compose.Value {
	if mask.DType.Kind() >= tensor.KindFloat {
		g.Refuse("atten_mask", "want bool or integers, got %s", mask.DType)
	}
	return g.BoolMask(opdef.Map(tensor.Bool, mask, func(hidden int64) int64 {
		if hidden == 0 {
			return 1
		}
		return 0
	}))
}

// A sparsity says which keys a query sees: sparse_mode with what belongs to it.
type sparsity struct {
	mode, pre, next int
	mask            *tensor.Tensor // nil: all keys are seen, whatever the mode
	prefix          []int          // of batch items, in mode 6
}

const sparseNotes = "atten_mask hides keys where it is not 0; without it all are seen. sparse_mode 0, 1 and 5 take " +
	"the " +
	"mask as it is; 2 hides the keys behind the place of a query, counted from the first of both, 3 from the last of " +
	"both; 4 sees pre before and next behind it; 6 is 3 with the first prefix keys seen by all."

// scores are those of batch item i with so many queries and keys, of n queries and
// keys at all.
func (p *sparsity) scores(g *compose.Graph, i, queries, keys int) compose.Scores {
	s := compose.Everything(1)
	if p.mask == nil {
		return s
	}
	switch p.mode {
	case 0, 1, 5:
		m := p.mask
		if m.Dim() > 4 || m.Dim() < 2 || m.Shape[m.Dim()-2] < queries || m.Shape[m.Dim()-1] < keys {
			g.Refuse("atten_mask", "want %d queries and %d keys, got %s", queries, keys, m.Meta())
		}
		if m.Dim() >= 3 && m.Shape[0] != 1 { // of batch items
			if i >= m.Shape[0] {
				g.Refuse("atten_mask", "batch item %d is not in %s", i, m.Meta())
			}
			m = m.Slice(0, i, 1, 1)
		}
		m = m.Slice(m.Dim()-2, 0, queries, 1)
		s.Mask = hiddenMask(g, m.Slice(m.Dim()-1, 0, keys, 1))
	case 2:
		s.After = 0
	case 3:
		s.Offset, s.After = keys-queries, 0
	case 4:
		band(&s, keys-queries, p.pre, p.next)
	case 6:
		if i >= len(p.prefix) {
			g.Refuse("prefix", "want a number for each batch item, got %v", p.prefix)
		}
		hidden := tensor.Make[int64](queries * keys)
		for r := range queries {
			for c := max(r+keys-queries+1, p.prefix[i], 0); c < keys; c++ {
				hidden[r*keys+c] = 1
			}
		}
		s.Mask = hiddenMask(g, tensor.New(tensor.Bool, []int{queries, keys}, hidden))
	default:
		g.Refuse("sparse_mode", "want 0 to 6, got %d", p.mode)
	}
	return s
}

// band lets queries, the first at key offset, see pre keys before and next behind their
// places, which may be negative.
func band(s *compose.Scores, offset, pre, next int) {
	if next < 0 {
		offset, pre, next = offset+next, pre+next, 0
	}
	if pre < 0 {
		offset, next, pre = offset-pre, next+pre, 0
	}
	s.Offset, s.Before, s.After = offset, pre, next
	if next < 0 { // nothing is seen
		s.Before, s.After, s.Offset = 0, 0, -1<<31
	}
}

// withSink adds a key of zeros to k and v [b, keys, heads, size] whose score is that of
// the sink of each head; the scores become explicit.
func withSink(g *compose.Graph, k, v, sink *compose.Value, s compose.Scores, queries, heads int) (*compose.Value,
	*compose.Value, compose.Scores) {
	if sink.Dim() != 1 || sink.Shape()[0] != heads {
		g.Refuse("sink", "want a number for each of %d heads, got %s", heads, sink.T.Meta())
	}
	keys, few := k.Shape()[1], k.Shape()[2]
	zero := func(x *compose.Value) *compose.Value {
		shape := slices.Clone(x.Shape())
		shape[1] = 1
		return g.Cat(1, x, g.Full(x.DType(), shape, 0))
	}
	seen := tensor.Make[int64](queries * keys)
	for r := range queries {
		for c := range keys {
			distance := r + s.Offset - c
			if (s.Before < 0 || distance <= s.Before) && (s.After < 0 || -distance <= s.After) {
				seen[r*keys+c] = 1
			}
		}
	}
	mask := g.BoolMask(tensor.New(tensor.Bool, []int{queries, keys}, seen))
	if s.Mask != nil {
		mask = g.Add(mask, s.Mask)
	}
	batch := []int{few, heads / few}
	mask = g.Expand(mask, append(slices.Clone(batch), queries, keys)...)
	column := g.Expand(g.Reshape(g.To(sink, mask.DType()), few, heads/few, 1, 1), append(batch, queries, 1)...)
	s = compose.Scores{Scale: s.Scale, Mask: g.Cat(-1, mask, column), Before: -1, After: -1}
	return zero(k), zero(v), s
}

type fusionArgs struct {
	Query, Key, Value                     *tensor.Tensor
	HeadNum                               int
	InputLayout                           string
	Pse, PaddingMask, AttenMask           *tensor.Tensor
	Scale, KeepProb                       float64
	PreTockens, NextTockens, InnerPrecise int
	Prefix, ActualSeqQlen, ActualSeqKvlen []int
	SparseMode                            int
	GenMaskParallel, Sync                 bool
	SoftmaxLayout                         string
	Sink, DropoutMask                     *tensor.Tensor
	Seed, Offset                          int
}

// copies is how often each maximum and sum of a softmax is stored.
const copies = 8

// ends are the lengths of sequences that end at rows, zeros at the end left out.
func ends(g *compose.Graph, name string, at []int, rows int) []int {
	n := len(at)
	for n > 0 && at[n-1] == 0 {
		n--
	}
	out := make([]int, n)
	last := 0
	for i, end := range at[:n] {
		if end < last || end > rows {
			g.Refuse(name, "%v are not the ends of sequences of %d rows", at, rows)
		}
		out[i], last = end-last, end
	}
	return out
}

// One sequence of an attention.
type sequence struct {
	q, k, v *compose.Value // [1, length, heads, size]
	s       compose.Scores
}

// run is the attention of a sequence, and the largest score and sum of exponentials of
// each query [heads, length, 1].
func (x *sequence) run(g *compose.Graph) (y, top, sum *compose.Value) {
	queries, heads, few := x.q.Shape()[1], x.q.Shape()[2], x.k.Shape()[2]
	if x.s.Mask != nil && x.s.Mask.Dim() > 2 { // (1 or heads, queries, keys), with more of size 1 before
		s := x.s.Mask.Shape()
		n := len(s)
		if tensor.Numel(s[:n-3]) != 1 || s[n-3] != 1 && s[n-3] != heads && n-3 != 1 {
			g.Refuse("atten_mask", "%s does not fit %d heads", x.s.Mask.T.Meta(), heads)
		}
		if s[n-3] == heads {
			x.s.Mask = g.Reshape(x.s.Mask, few, heads/few, s[n-2], s[n-1])
		} else if tensor.Numel(s[:n-2]) == 1 {
			x.s.Mask = g.Reshape(x.s.Mask, s[n-2], s[n-1])
		}
	}
	y = fused.Attend(g, x.q, x.k, x.v, nil, x.s)
	open := func(v *compose.Value, each int) *compose.Value {
		v = g.Permute(g.Squeeze(v, 0), 1, 0, 2)
		return g.Reshape(v, v.Shape()[0]/each, each, v.Shape()[1], v.Shape()[2])
	}
	top, sum = g.AttentionSums(open(x.q, heads/few), open(x.k, 1), x.s)
	return y, g.Reshape(top, heads, queries, 1), g.Reshape(sum, heads, queries, 1)
}

var fusionAttention = compose.Declare(compose.Op[fusionArgs]{
	Schema: "npu_fusion_attention(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, " +
		"Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., " +
		"int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, int[]? prefix=None, " +
		"int[]? actual_seq_qlen=None, int[]? actual_seq_kvlen=None, int sparse_mode=0, bool gen_mask_parallel=True, " +
		"bool sync=False, str softmax_layout='', Tensor? sink=None, Tensor? dropout_mask=None, int seed=0, " +
		"int offset=0) -> (Tensor, Tensor, Tensor, Tensor, int, int, int)",
	Names: names("npu_fusion_attention"),
	Doc: opdef.Doc{Summary: "Attention in blocks",
		Formula: "softmax(mask(scale*(pse + query key^T))) value of each head, the largest score of each query, the " +
			"sum of " +
			"the exponentials below it, an empty tensor",
		Notes: "input_layout is BSH, SBH, BSND, BNSD or TND: B sequences, S positions, N heads, D sizes, H heads " +
			"times " +
			"sizes; in TND sequences of which actual_seq_qlen and actual_seq_kvlen have the ends are one after the " +
			"other. " +
			sparseNotes + " Of TND, 7 is 3 with a band in the last sequence, 8 is 2 with one in the first. sink is " +
			"the " +
			"score of a key of zeros of each head. A query that sees no key gives 0. The second and third result are " +
			"float32 (B, N, S, 8), of equal numbers; (T, N, 8) in TND, where softmax_layout is not TND in the order " +
			"of " +
			"heads first. The numbers behind them are not compared."},
	RandomIf: fused.RandomIf(func(a any) float64 { return 1 - a.(*fusionArgs).KeepProb }),
	Exempt: map[string]string{"dtypes": "the second and third result are float32 whatever the dtype",
		"gradients": "torch_npu passes none through the second and third result"},
	Cases: func(g opdef.Gen) (cs []*fusionArgs) {
		base := func(g opdef.Gen, dt tensor.DType) *fusionArgs {
			return &fusionArgs{Query: g.Normal(dt, 2, 3, 8), Key: g.Normal(dt, 2, 4, 4), Value: g.Normal(dt, 2, 4, 4),
				HeadNum: 2, InputLayout: "BSH", Scale: 0.5, KeepProb: 1, PreTockens: everyToken,
				NextTockens:     everyToken,
				GenMaskParallel: true}
		}
		cs = opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *fusionArgs {
			a := base(g, dt)
			switch g.Nth {
			case 1:
				a.AttenMask, a.SparseMode = g.Int(tensor.Bool, 0, 0, 4, 4), 3
			case 2:
				a.AttenMask, a.SparseMode = g.Int(tensor.Bool, 0, 0, 4, 4), 2
			case 3:
				a.InputLayout, a.Query, a.Key = "BNSD", g.Normal(dt, 2, 2, 3, 4), g.Normal(dt, 2, 1, 4, 4)
				a.Value, a.Pse = g.Normal(dt, 2, 1, 4, 4), g.Normal(dt, 1, 2, 3, 4)
			}
			return a
		})(g)
		dt := tensor.Float32
		masked, banded, packed, sunk := base(g, dt), base(g, dt), base(g, dt), base(g, dt)
		masked.AttenMask = tensor.New(tensor.Bool, []int{3, 4}, []int64{0, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 1}).Rounded()
		banded.AttenMask, banded.SparseMode, banded.PreTockens, banded.NextTockens = masked.AttenMask, 4, 1, 1
		packed.InputLayout, packed.Query, packed.Key = "TND", g.Normal(dt, 5, 2, 4), g.Normal(dt, 6, 1, 4)
		packed.Value, packed.ActualSeqQlen, packed.ActualSeqKvlen = g.Normal(dt, 6, 1, 4), []int{2, 5}, []int{3, 6}
		packed.AttenMask, packed.SparseMode = masked.AttenMask, 3
		sunk.Sink, sunk.AttenMask, sunk.SparseMode = g.Normal(dt, 2), masked.AttenMask, 3
		return append(cs, masked, banded, packed, sunk)
	},
}, compose.Fused, func(g *compose.Graph, a *fusionArgs) compose.Values {
	q, k, v := g.Arg("query", a.Query), g.Arg("key", a.Key), g.Arg("value", a.Value)
	pse, sink := g.Arg("pse", a.Pse), g.Arg("sink", a.Sink)
	if a.PaddingMask != nil {
		g.Refuse("padding_mask", "it is not defined")
	}
	if a.HeadNum < 1 {
		g.Refuse("head_num", "want at least 1, got %d", a.HeadNum)
	}
	sparse := sparsity{a.SparseMode, a.PreTockens, a.NextTockens, a.AttenMask, a.Prefix}
	one := func(i, of int, q, k, v *compose.Value) (y, top, sum *compose.Value) {
		queries, keys, heads := q.Shape()[1], k.Shape()[1], q.Shape()[2]
		fused.CheckHeads(g, 4, q, k, v)
		p := sparse
		if a.InputLayout == "TND" && (p.mode == 7 && i == of-1 || p.mode == 8 && i == 0) {
			p.mode = 4
		} else if a.InputLayout == "TND" && p.mode >= 7 {
			p.mode = map[int]int{7: 3, 8: 2}[p.mode]
		}
		s := p.scores(g, i, queries, keys)
		s.Scale = a.Scale
		if pse != nil {
			bias := pse
			if bias.Dim() != 4 || bias.Shape()[1] != heads || bias.Shape()[0] != 1 && i >= bias.Shape()[0] ||
				bias.Shape()[2] != 1 && bias.Shape()[2] != queries || bias.Shape()[3] != keys {
				g.Refuse("pse", "want (B or 1, %d, %d or 1, %d), got %s", heads, queries, keys, a.Pse.Meta())
			}
			if bias.Shape()[0] != 1 {
				bias = g.Narrow(bias, 0, i, 1)
			}
			bias = g.Expand(g.Scale(g.AtLeast(g.Squeeze(bias, 0), tensor.Float32), a.Scale), heads, queries, keys)
			if s.Mask != nil {
				bias = g.Add(bias, g.Squeeze(g.Squeeze(s.Mask, 0), 0))
			}
			s.Mask = bias
		}
		if sink != nil {
			if s.Mask != nil && s.Mask.Dim() == 3 {
				s.Mask = g.Reshape(s.Mask, k.Shape()[2], -1, queries, keys)
			}
			k, v, s = withSink(g, k, v, sink, s, queries, heads)
		}
		x := sequence{q, k, v, s}
		return x.run(g)
	}
	empty := g.Full(q.DType(), []int{0}, 0)
	if a.InputLayout == "TND" {
		fused.CheckHeads(g, 3, q, k, v)
		rows, heads := q.Shape()[0], q.Shape()[1]
		lq, lk := ends(g, "actual_seq_qlen", a.ActualSeqQlen, rows), ends(g, "actual_seq_kvlen", a.ActualSeqKvlen,
			k.Shape()[0])
		if len(lq) != len(lk) || len(lq) == 0 || heads != a.HeadNum {
			g.Refuse("actual_seq_kvlen", "want ends of as many sequences of queries and keys, got %v and %v",
				a.ActualSeqQlen, a.ActualSeqKvlen)
		}
		var ys, tops, sums []*compose.Value
		atQ, atK := 0, 0
		for i := range lq {
			part := func(x *compose.Value, at, n int) *compose.Value { return g.Unsqueeze(g.Narrow(x, 0, at, n), 0) }
			y, top, sum := one(i, len(lq), part(q, atQ, lq[i]), part(k, atK, lk[i]), part(v, atK, lk[i]))
			ys, tops, sums = append(ys, g.Squeeze(y, 0)), append(tops, top), append(sums, sum)
			atQ, atK = atQ+lq[i], atK+lk[i]
		}
		if atQ < rows {
			ys = append(ys, g.Full(q.DType(), []int{rows - atQ, heads, v.Shape()[2]}, 0))
			tops = append(tops, g.Full(tensor.Float32, []int{heads, rows - atQ, 1}, 0))
			sums = append(sums, tops[len(tops)-1])
		}
		close := func(parts []*compose.Value) *compose.Value {
			x := g.Expand(g.Cat(1, parts...), heads, rows, copies)
			if a.SoftmaxLayout == "TND" {
				return g.Permute(x, 1, 0, 2)
			}
			return g.Reshape(x, rows, heads, copies)
		}
		return compose.Values{g.Cat(0, ys...), close(tops), close(sums), empty}
	}
	layout := fused.LayoutOf(g, "input_layout", a.InputLayout)
	few := a.HeadNum // of keys and values
	if x := a.Query; layout.Packed() && x.Dim() == 3 && a.Key.Dim() == 3 && x.Shape[2] >= a.HeadNum {
		few = a.Key.Shape[2] / (x.Shape[2] / a.HeadNum)
	}
	oq, ok, ov := layout.Open(g, "query", q, a.HeadNum), layout.Open(g, "key", k, few), layout.Open(g, "value", v, few)
	if oq.Shape()[2] != a.HeadNum || oq.Shape()[0] == 0 || ok.Shape()[0] != oq.Shape()[0] ||
		ov.Shape()[0] != oq.Shape()[0] {
		g.Refuse("key", "query %s, key %s and value %s do not fit %d heads", a.Query.Meta(), a.Key.Meta(),
			a.Value.Meta(),
			a.HeadNum)
	}
	var ys, tops, sums []*compose.Value
	for i := range oq.Shape()[0] {
		item := func(x *compose.Value) *compose.Value { return g.Narrow(x, 0, i, 1) }
		y, top, sum := one(i, oq.Shape()[0], item(oq), item(ok), item(ov))
		ys, tops, sums = append(ys, y), append(tops, top), append(sums, sum)
	}
	all := func(parts []*compose.Value) *compose.Value {
		x := g.Stack(0, parts...)
		return g.Expand(x, append(slices.Clone(x.Shape()[:3]), copies)...)
	}
	return compose.Values{layout.Close(g, g.Cat(0, ys...)), all(tops), all(sums), empty}
})
