package reference

import (
	"math"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// servingFunctions are those of inference engines for language models: rotary
// embedding, attention over caches, penalties. They have no gradients.
var servingFunctions = map[string]function{
	"rotary_emb":             rotaryEmb,
	"rotary_emb_v2":          rotaryEmbV2,
	"apply_penalty":          applyPenalty,
	"apply_penalty_v2":       applyPenaltyV2,
	"destindex_copy_kv":      destIndexCopy,
	"token_attention":        tokenAttention,
	"token_softmax_reducev":  tokenSoftmaxReduceV,
	"context_attention":      contextAttention,
	"prompt_flash_attention": promptAttention,
	"paged_attention":        pagedAttention,
}

// rotaryEmb rotates the halves of the last dimension by the angles given by
// their cosines and sines; conj rotates back.
func rotaryEmb(t *Tape, a *arguments) value.Value {
	x := a.tensor("input")
	cos, sin := a.tensor("cos"), a.tensor("sin")
	halves := tensors(t.Call("torch.chunk", []value.Value{opdef.Cast(x, tensor.Float64), int64(2), int64(-1)}, nil))
	if len(halves) != 2 {
		t.fail("argument input: want a last dimension of at least 2, got shape %s", tensor.ShapeString(x.Shape))
		return nil
	}
	mul := func(x, y *tensor.Tensor) *tensor.Tensor { return t.op("torch.mul", x, y) }
	first, second := "torch.sub", "torch.add"
	if a.bool("conj") {
		first, second = second, first
	}
	out1 := t.op(first, mul(halves[0], cos), mul(halves[1], sin))
	out2 := t.op(second, mul(halves[1], cos), mul(halves[0], sin))
	if t.err != nil {
		return nil
	}
	return opdef.Cast(t.op("torch.cat", value.NewList(out1, out2), number(-1)), x.DType)
}

// rotaryEmbV2 rotates query and key, whose rows hold heads of size dim.
func rotaryEmbV2(t *Tape, a *arguments) value.Value {
	dim := a.int("dim")
	rotate := func(x *tensor.Tensor) *tensor.Tensor {
		heads := t.op("torch.reshape", x, sizes(x.Shape[0], -1, dim))
		halves := tensors(t.Call("torch.chunk", []value.Value{heads, int64(2), int64(-1)}, nil))
		if len(halves) != 2 {
			t.fail("argument dim: want at least 2, got %d", dim)
			return nil
		}
		turned := t.op("torch.cat", value.NewList(t.op("torch.neg", halves[1]), halves[0]), number(-1))
		out := t.op("torch.add", t.op("torch.mul", heads, a.tensor("cos")), t.op("torch.mul", turned, a.tensor("sin")))
		return t.op("torch.reshape", out, sizes(x.Shape[0], -1))
	}
	return list(rotate(a.tensor("query")), rotate(a.tensor("key")))
}

// copied is a tensor's elements, to be changed.
func copied(t *tensor.Tensor) []float64 { return append([]float64(nil), tensor.Data[float64](t)...) }

// inRange makes the tape fail for an index outside of n.
func inRange(t *Tape, name string, i, n int) bool {
	if i < 0 || i >= n {
		t.fail("argument %s: index %d is outside of %d", name, i, n)
		return false
	}
	return true
}

// applyPenalty lowers the logits of tokens that occurred: by presence, and by
// frequency times their count. Sequence i owns ids p_cumsum_seq_len[i] to [i+1].
func applyPenalty(t *Tape, a *arguments) value.Value {
	logits := a.tensor("logits")
	out, width := copied(logits), logits.Shape[len(logits.Shape)-1]
	old := tensor.Data[float64](logits)
	presence, frequency := tensor.Data[float64](a.tensor("presence_penalty")),
		tensor.Data[float64](a.tensor("frequency_penalty"))
	ids, counts, ends := a.ints("p_token_ids"), tensor.Data[float64](a.tensor("p_token_counts")),
		a.ints("p_cumsum_seq_len")
	for i := range logits.Shape[0] {
		for j := ends[i]; j < ends[i+1]; j++ {
			if !inRange(t, "p_token_ids", ids[j], width) {
				return nil
			}
			at := i*width + ids[j]
			out[at] = old[at] - counts[j]*frequency[i] - presence[i]
		}
	}
	return tensor.New(logits.DType, logits.Shape, out)
}

// applyPenaltyV2 takes ids of the flattened logits and one penalty per id; the
// repetition penalty divides positive logits and multiplies others.
func applyPenaltyV2(t *Tape, a *arguments) value.Value {
	logits := a.tensor("logits")
	out := copied(logits)
	old := tensor.Data[float64](logits)
	presence, frequency, repetition := tensor.Data[float64](a.tensor("presence_penalty")),
		tensor.Data[float64](a.tensor("frequency_penalty")), tensor.Data[float64](a.tensor("repetition_penalty"))
	counts := tensor.Data[float64](a.tensor("p_token_counts"))
	at := func(v []float64, j int) float64 { return v[min(j, len(v)-1)] }
	for j, id := range a.ints("p_token_ids") {
		if !inRange(t, "p_token_ids", id, len(out)) {
			return nil
		}
		v := old[id]
		if v > 0 {
			v /= at(repetition, j)
		} else {
			v *= at(repetition, j)
		}
		out[id] = v - counts[j]*at(frequency, j) - at(presence, j)
	}
	return tensor.New(logits.DType, logits.Shape, out)
}

// destIndexCopy writes the rows of k to the rows dest_loc of out.
func destIndexCopy(t *Tape, a *arguments) value.Value {
	k, out := a.tensor("k"), a.tensor("out")
	rows, data := tensor.Data[float64](k), copied(out)
	dest := a.ints("dest_loc")
	if out.Dim() == 0 || len(dest) == 0 {
		return tensor.New(out.DType, out.Shape, data)
	}
	width := len(rows) / len(dest)
	for i, d := range dest {
		if !inRange(t, "dest_loc", d, out.Shape[0]) {
			return nil
		}
		copy(data[d*width:(d+1)*width], rows[i*width:(i+1)*width])
	}
	return tensor.New(out.DType, out.Shape, data)
}

// A cache addresses the keys or values of sequences in a common store: position
// j of sequence i is row b_loc[i][max_input_len - length(i) + j].
type cache struct {
	loc            []int
	width          int
	starts, length []int
	longest        int
}

func newCache(a *arguments) cache {
	loc := a.tensor("b_loc")
	return cache{loc: a.ints("b_loc"), width: loc.Shape[len(loc.Shape)-1], starts: a.ints("b_start_loc"),
		length: a.ints("b_seq_len"), longest: a.int("max_input_len")}
}

func (c cache) row(i, j int) int { return c.loc[i*c.width+c.longest-c.length[i]+j] }

// tokenAttention computes the scores of one query per sequence: out[h, start+j]
// = q[i, h] . k[row(i, j), h] / sqrt(size).
func tokenAttention(t *Tape, a *arguments) value.Value {
	q, k, out := a.tensor("q"), a.tensor("k"), a.tensor("out")
	c := newCache(a)
	heads, size := q.Shape[1], q.Shape[2]
	qs, ks, data := tensor.Data[float64](q), tensor.Data[float64](k), copied(out)
	total := out.Shape[1]
	for i := range c.length {
		for j := range c.length[i] {
			r := c.row(i, j)
			if !inRange(t, "b_loc", r, k.Shape[0]) || !inRange(t, "b_start_loc", c.starts[i]+j, total) {
				return nil
			}
			for h := range heads {
				data[h*total+c.starts[i]+j] = dot(qs[(i*heads+h)*size:][:size], ks[(r*heads+h)*size:][:size]) /
					math.Sqrt(float64(size))
			}
		}
	}
	return tensor.New(out.DType, out.Shape, data)
}

func dot(x, y []float64) (s float64) {
	for i := range x {
		s += x[i] * y[i]
	}
	return s
}

// softmax replaces scores by their softmax.
func softmax(v []float64) {
	top := math.Inf(-1)
	for _, x := range v {
		top = math.Max(top, x)
	}
	sum := 0.0
	for i, x := range v {
		v[i] = math.Exp(x - top)
		sum += v[i]
	}
	for i := range v {
		v[i] /= sum
	}
}

// tokenSoftmaxReduceV finishes what tokenAttention began: out[i, h] is the mean
// of the values of sequence i, weighted by the softmax of its scores.
func tokenSoftmaxReduceV(t *Tape, a *arguments) value.Value {
	scores, v, out := a.tensor("logics"), a.tensor("v"), a.tensor("out")
	c := newCache(a)
	heads, size := v.Shape[1], v.Shape[2]
	ss, vs, data := tensor.Data[float64](scores), tensor.Data[float64](v), copied(out)
	total := scores.Shape[1]
	for i := range c.length {
		for h := range heads {
			row := data[(i*heads+h)*size:][:size]
			clear(row)
			p := append([]float64(nil), ss[h*total+c.starts[i]:][:c.length[i]]...)
			softmax(p)
			for j, w := range p {
				r := c.row(i, j)
				if !inRange(t, "b_loc", r, v.Shape[0]) {
					return nil
				}
				for d, x := range vs[(r*heads+h)*size:][:size] {
					row[d] += w * x
				}
			}
		}
	}
	return tensor.New(out.DType, out.Shape, data)
}

// contextAttention is causal attention within each sequence of packed rows;
// rows of out that belong to none keep their values.
func contextAttention(t *Tape, a *arguments) value.Value {
	q, out := a.tensor("q"), a.tensor("out")
	data := copied(out)
	width := tensor.Numel(q.Shape[1:])
	starts, lengths := a.ints("b_start_loc"), a.ints("b_seq_len")
	for i, n := range lengths {
		lo := starts[i]
		if n == 0 || lo < 0 || lo+n > q.Shape[0] || lo+n > out.Shape[0] {
			t.fail("argument b_seq_len: sequence %d of %d rows at %d does not fit in %d", i, n, lo, q.Shape[0])
			return nil
		}
		part := func(name string) *tensor.Tensor {
			return t.op("torch.unsqueeze", t.op("torch.narrow", a.tensor(name), number(0), number(lo), number(n)),
				number(0))
		}
		r := attention(t, part("q"), part("k"), part("v"), 0, true)
		if t.err != nil {
			return nil
		}
		copy(data[lo*width:], tensor.Data[float64](r))
	}
	return tensor.New(out.DType, out.Shape, data)
}

// promptAttention is causal attention of sequences of maxInputLen rows each.
func promptAttention(t *Tape, a *arguments) value.Value {
	batch, length, size := len(a.ints("actualSeqLengths")), a.int("maxInputLen"), a.int("dim")
	open := func(name, heads string) *tensor.Tensor {
		return t.op("torch.reshape", a.tensor(name), sizes(batch, length, a.int(heads), size))
	}
	out := attention(t, open("query", "numHeads"), open("key", "numKeyValueHeads"), open("value", "numKeyValueHeads"),
		0, true)
	return t.op("torch.reshape", out, sizes(batch*length, a.int("numHeads")*size))
}

// pagedAttention is attention of one query over the first actualSeqLengths[0]
// keys of the store.
func pagedAttention(t *Tape, a *arguments) value.Value {
	lengths := a.ints("actualSeqLengths")
	if len(lengths) == 0 {
		t.fail("argument actualSeqLengths: want at least one length")
		return nil
	}
	heads, kv, size := a.int("numHeads"), a.int("numKeyValueHeads"), a.int("dim")
	q := t.op("torch.reshape", a.tensor("query"), sizes(1, 1, heads, size))
	open := func(name string) *tensor.Tensor {
		rows := t.op("torch.reshape", a.tensor(name), sizes(1, -1, kv, size))
		return t.op("torch.narrow", rows, number(1), number(0), number(lengths[0]))
	}
	return t.op("torch.reshape", attention(t, q, open("key"), open("value"), 0, false), sizes(-1, heads*size))
}
