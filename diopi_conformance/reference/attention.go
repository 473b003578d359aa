package reference

import (
	"math"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// attentionFunctions are softmax(q k^T scale) v in training, without dropout.
// Sequences are [batch, length, heads, size]; in packed form [rows, heads,
// size], where cumulative lengths tell the sequences apart.
var attentionFunctions = map[string]function{
	"multihead_attention": func(t *Tape, a *arguments) value.Value {
		return attention(t, a.tensor("q"), a.tensor("k"), a.tensor("v"), a.scale("scale"), a.bool("is_causal"))
	},
	"multihead_attention_varlen": func(t *Tape, a *arguments) value.Value {
		return packedAttention(t, a, a.ints("cu_seqlens"), "scale")
	},
	"flash_attention": func(t *Tape, a *arguments) value.Value {
		return attention(t, a.tensor("q"), a.tensor("k"), a.tensor("v"), a.scale("softmax_scale"), a.bool("is_causal"))
	},
	"flash_attention_varlen": func(t *Tape, a *arguments) value.Value {
		return packedAttention(t, a, a.ints("cu_seqlens_q"), "softmax_scale")
	},
	"customized_flash_attention": layoutAttention,
	"customized_flash_attention_varlen": func(t *Tape, a *arguments) value.Value {
		return packedAttention(t, a, append([]int{0}, a.ints("cu_seqlens_q")...), "softmax_scale")
	},
}

// scale is an optional factor; 0 stands for the default.
func (a *arguments) scale(name string) float64 {
	if !a.has(name) {
		return 0
	}
	return a.float(name)
}

// attention takes q, k and v of [batch, length, heads, size]. With fewer heads
// in k and v each serves several of q's. Causal: position t sees those up to t.
func attention(t *Tape, q, k, v *tensor.Tensor, scale float64, causal bool) *tensor.Tensor {
	if t.err != nil {
		return nil
	}
	if q.Dim() != 4 || k.Dim() != 4 || v.Dim() != 4 {
		t.fail("want q, k and v of rank 4, got %s, %s and %s", q.Meta(), k.Meta(), v.Meta())
		return nil
	}
	if k.Shape[2] != q.Shape[2] && v.Shape[2] != q.Shape[2] && k.Shape[2] > 0 {
		repeats := number(q.Shape[2] / k.Shape[2])
		k = t.op("torch.repeat_interleave", k, repeats, number(2))
		v = t.op("torch.repeat_interleave", v, repeats, number(2))
	}
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q.Shape[3]))
	}
	scores := t.op("torch.einsum", "bthd,bshd->bhts", value.NewList(q, t.op("torch.mul", k, scale)))
	if causal && t.err == nil {
		n, m := scores.Shape[2], scores.Shape[3]
		hidden := tensor.Full(tensor.Bool, []int{n, m}, int64(1))
		scores = t.op("torch.Tensor.masked_fill", scores, t.op("torch.triu", hidden, number(1)), math.Inf(-1))
	}
	return t.op("torch.einsum", "bhts,bshd->bthd", value.NewList(t.op("torch.softmax", scores, number(-1)), v))
}

// packedAttention is attention within each of several sequences that stand one
// after the other. Rows beyond the last are 0.
func packedAttention(t *Tape, a *arguments, ends []int, scale string) value.Value {
	q, k, v := a.tensor("q"), a.tensor("k"), a.tensor("v")
	parts := value.NewList()
	row := func(x *tensor.Tensor, lo, n int) *tensor.Tensor {
		return t.op("torch.unsqueeze", t.op("torch.narrow", x, number(0), number(lo), number(n)), number(0))
	}
	for i := 1; i < len(ends); i++ {
		lo, n := ends[i-1], ends[i]-ends[i-1]
		if n == 0 {
			continue
		}
		out := attention(t, row(q, lo, n), row(k, lo, n), row(v, lo, n), a.scale(scale), a.bool("is_causal"))
		if t.err != nil {
			return nil
		}
		parts.Items = append(parts.Items, t.op("torch.squeeze", out, number(0)))
	}
	if last := ends[len(ends)-1]; last < q.Shape[0] {
		rest := append([]int{q.Shape[0] - last}, q.Shape[1:]...)
		parts.Items = append(parts.Items, tensor.Full(q.DType, rest, 0.0))
	}
	return t.op("torch.cat", parts, number(0))
}

// layouts are the orders of dimensions that attention is called with, as the
// permutation to [batch, length, heads, size]; packed ones hold heads and sizes
// in one dimension.
var layouts = map[string]struct {
	packed bool
	order  [4]int
}{
	"SBH": {true, [4]int{1, 0, 2, 3}}, "BSH": {true, [4]int{0, 1, 2, 3}},
	"BNSD": {false, [4]int{0, 2, 1, 3}}, "BSND": {false, [4]int{0, 1, 2, 3}},
}

func layoutAttention(t *Tape, a *arguments) value.Value {
	name, _ := a.value("input_layout").(string)
	layout, ok := layouts[name]
	if !ok {
		t.fail("argument input_layout: %s is not known", value.Repr(a.value("input_layout")))
		return nil
	}
	// Every order is its own inverse.
	order := sizes(layout.order[:]...)
	open := func(x *tensor.Tensor) *tensor.Tensor {
		if layout.packed {
			n := a.int("head_num")
			x = t.op("torch.reshape", x, sizes(x.Shape[0], x.Shape[1], n, x.Shape[2]/max(n, 1)))
		}
		return t.op("torch.permute", x, order)
	}
	out := attention(t, open(a.tensor("q")), open(a.tensor("k")), open(a.tensor("v")), a.scale("softmax_scale"),
		a.bool("is_causal"))
	if out = t.op("torch.permute", out, order); layout.packed && t.err == nil {
		out = t.op("torch.reshape", out, sizes(out.Shape[0], out.Shape[1], out.Shape[2]*out.Shape[3]))
	}
	return out
}
