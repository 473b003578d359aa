package reference

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func call(t *testing.T, function string, pairs ...value.Value) value.Value {
	t.Helper()
	v, ok, err := new(pipe).kit(function, arguments{dict(pairs...)})
	if !ok || err != nil {
		t.Fatalf("%s: a function of the kit: %v, %v", function, ok, err)
	}
	return v
}

func dict(pairs ...value.Value) *value.Dict {
	d := &value.Dict{}
	for i := 0; i < len(pairs); i += 2 {
		d.Items = append(d.Items, value.Item{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func floats(shape []int, v ...float64) *tensor.Tensor { return tensor.New(tensor.Float64, shape, v) }
func ints(v ...int64) *tensor.Tensor                  { return tensor.New(tensor.Int64, []int{len(v)}, v) }

func near(t *testing.T, what string, got value.Value, want ...float64) {
	t.Helper()
	x, ok := got.(*tensor.Tensor)
	if !ok || x.Numel() != len(want) {
		t.Fatalf("%s is %s, want %v", what, value.Repr(got), want)
	}
	for i, v := range tensor.Data[float64](x) {
		if math.Abs(v-want[i]) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, tensor.Data[float64](x), want)
			return
		}
	}
}

func TestBatchNormParts(t *testing.T) {
	x := floats([]int{2, 2}, 1, 10, 3, 30)
	stats := call(t, "batch_norm_stats", "input", x, "eps", 0.0).(*value.Sequence)
	near(t, "mean", stats.Items[0], 2, 20)
	near(t, "invstd", stats.Items[1], 1, 0.1)
	// Two halves of (1, 3, 5, 11), whose mean is 5 and variance 14.
	merged := call(t, "batch_norm_gather_stats_with_counts", "input", x, "momentum", 0.1, "mean_all",
		floats([]int{2, 1}, 2, 8), "invstd_all", floats([]int{2, 1}, 1, 1./3), "count_all", ints(2, 2), "eps",
		0.0).(*value.Sequence)
	near(t, "merged mean", merged.Items[0], 5)
	near(t, "merged invstd", merged.Items[1], 1/math.Sqrt(14))
	reduced := call(t, "batch_norm_backward_reduce", "input", x, "grad_output", floats([]int{2, 2}, 1, 2, 3, 4), "mean",
		floats([]int{2}, 2, 20), "invstd", floats([]int{2}, 1, 0.1), "weight", nil, "input_g", false, "weight_g", true,
		"bias_g", true).(*value.Sequence)
	if reduced.Items[0] != nil {
		t.Errorf("sum_dy is %v, want None", reduced.Items[0])
	}
	near(t, "grad_weight", reduced.Items[2], 2, 2)
	near(t, "grad_bias", reduced.Items[3], 4, 6)
}

func TestServing(t *testing.T) {
	near(t, "apply_penalty", call(t, "apply_penalty", "logits", floats([]int{2, 3}, 1, 2, 3, 4, 5, 6),
		"presence_penalty", floats([]int{2}, 0.5, 1), "frequency_penalty", floats([]int{2}, 0.1, 0.2),
		"p_token_ids", ints(0, 2, 1), "p_token_counts", ints(1, 2, 3), "p_cumsum_seq_len", ints(0, 2, 3),
		"p_max_len_in_batch", int64(2)), 0.4, 2, 2.3, 4, 3.4, 6)
	near(t, "destindex_copy_kv", call(t, "destindex_copy_kv", "k", floats([]int{2, 1}, 7, 8), "dest_loc", ints(2, 0),
		"out", floats([]int{3, 1}, 0, 1, 2)), 8, 1, 7)
	// One sequence of 2 at the end of a table of 3: keys are rows 0 and 1.
	loc := tensor.New(tensor.Int64, []int{1, 3}, []int64{9, 0, 1})
	scores := call(t, "token_attention", "q", floats([]int{1, 1, 4}, 1, 1, 1, 1), "k", floats([]int{2, 1, 4}, 1, 1, 1,
		1, 2, 2, 2, 2), "out", floats([]int{1, 2}, 0, 0), "b_loc", loc, "b_start_loc", ints(0), "b_seq_len", ints(2),
		"max_input_len", int64(3))
	near(t, "token_attention", scores, 2, 4)
	p := 1 / (1 + math.Exp(2))
	near(t, "token_softmax_reducev", call(t, "token_softmax_reducev", "logics", scores, "v",
		floats([]int{2, 1, 1}, 10, 20), "out", floats([]int{1, 1, 1}, 0), "b_loc", loc, "b_start_loc", ints(0),
		"b_seq_len", ints(2), "max_input_len", int64(3), "other_kv_index", int64(0)), 10*p+20*(1-p))
}

// TestPackedAttention compares with attention of each sequence on its own.
func TestPackedAttention(t *testing.T) {
	q := floats([]int{3, 1, 2}, 1, 2, 3, 4, 5, 6)
	packed := call(t, "flash_attention_varlen", "q", q, "k", q, "v", q, "cu_seqlens_q",
		value.NewList(int64(0), int64(1), int64(3)),
		"max_seqlen_q", int64(2), "max_seqlen_kv", int64(2),
		"softmax_scale", nil, "is_causal", true, "window_size_left", int64(-1), "window_size_right", int64(-1))
	one := func() value.Value { return floats([]int{1, 2, 1, 2}, 3, 4, 5, 6) }
	second := call(t, "flash_attention", "q", one(), "k", one(), "v", one(), "is_causal", true,
		"window_size_left", int64(-1), "window_size_right", int64(-1)).(*tensor.Tensor)
	want := append([]float64{1, 2}, tensor.Data[float64](second)...)
	near(t, "packed attention", packed, want...)
	near(t, "first row of a causal sequence", second.Select(1, 0), 3, 4)
}

func TestVision(t *testing.T) {
	boxes := floats([]int{3, 4}, 0, 0, 2, 2, 0, 0, 2, 1.9, 5, 5, 6, 6)
	kept := call(t, "nms", "boxes", boxes, "scores", floats([]int{3}, 0.5, 0.9, 0.1), "iou_threshold",
		0.5).(*tensor.Tensor)
	if got := tensor.Data[int64](kept); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("nms keeps %v, want [1 2]", got)
	}
	ramp := make([]float64, 16)
	for i := range ramp {
		ramp[i] = float64(i % 4)
	}
	// On a ramp every bin is the position of its centre.
	near(t, "roi_align", call(t, "roi_align", "input", floats([]int{1, 1, 4, 4}, ramp...), "boxes",
		floats([]int{1, 5}, 0, 0, 0, 2, 2), "output_size", int64(2), "spatial_scale", 1.0, "sampling_ratio", int64(2),
		"aligned", false), 0.5, 1.5, 0.5, 1.5)
}

func TestOptimizers(t *testing.T) {
	out := call(t, "sgd", "param", floats([]int{1}, 1), "param_grad", floats([]int{1}, 2), "buf", floats([]int{1}, 3),
		"lr", 0.1, "momentum", 0.5, "weight_decay", int64(0), "dampening", int64(0), "nesterov",
		false).(*value.Sequence)
	near(t, "param", out.Items[0], 1-0.1*3.5)
	near(t, "buf", out.Items[1], 3.5)
	// A buffer that is not used stays as it is, one that is made is not given back.
	for _, tc := range []struct {
		momentum, want float64
		buf            value.Value
	}{{0, 1 - 0.1*2, floats([]int{1}, 3)}, {0.5, 1 - 0.1*2, nil}} {
		out = call(t, "sgd", "param", floats([]int{1}, 1), "param_grad", floats([]int{1}, 2), "buf", tc.buf, "lr", 0.1,
			"momentum", tc.momentum, "weight_decay", int64(0), "dampening", 0.3, "nesterov", false).(*value.Sequence)
		near(t, "param", out.Items[0], tc.want)
		if out.Items[1] != tc.buf {
			t.Errorf("momentum %g: buf is %v, want %v", tc.momentum, out.Items[1], tc.buf)
		}
	}
	// So does the largest second moment without amsgrad.
	most := floats([]int{1}, 5)
	out = call(t, "adamw", "param", floats([]int{1}, 1), "param_grad", floats([]int{1}, -7), "exp_avg",
		floats([]int{1}, 0), "exp_avg_sq", floats([]int{1}, 0), "max_exp_avg_sq", most, "lr", 0.1, "beta1", 0.9,
		"beta2", 0.99, "eps", 0.0, "step", int64(1), "weight_decay", 0.0, "amsgrad", false).(*value.Sequence)
	if near(t, "param", out.Items[0], 1.1); out.Items[3] != most {
		t.Errorf("max_exp_avg_sq is %v, want what was given", out.Items[3])
	}
	// The first step of Adam has the size of the learning rate.
	out = call(t, "adam", "param", floats([]int{1}, 1), "param_grad", floats([]int{1}, -7), "exp_avg",
		floats([]int{1}, 0), "exp_avg_sq", floats([]int{1}, 0), "max_exp_avg_sq", nil,
		"lr", 0.1, "beta1", 0.9, "beta2", 0.99, "eps", 0.0, "step", int64(1), "weight_decay", 0.0, "amsgrad",
		false).(*value.Sequence)
	near(t, "param", out.Items[0], 1.1)
	if out.Items[3] != nil {
		t.Errorf("max_exp_avg_sq is %v, want None", out.Items[3])
	}
}

// TestFunctions demands one way from each function of the kit to operators, and of
// lines that operators exist and have the arguments. A function that has an operator
// of its name is computed by it: there is no second kernel for a function of DIOPI.
func TestFunctions(t *testing.T) {
	registry := ops.Default()
	used := map[*opdef.Entry]bool{}
	for _, r := range diopi.Recipes() {
		var namesakes []*opdef.Entry
		for _, prefix := range append(slices.Collect(maps.Values(prefixes)), "diopi.") {
			namesakes = append(namesakes, registry.Lookup(prefix+r.Function)...)
			namesakes = append(namesakes, registry.Lookup(prefix+r.Function+"_")...)
		}
		lines := linesOf(r.Function)
		if lines == nil && len(namesakes) == 0 || functions[r.Function] != "" && chosen[r.Function] != nil {
			t.Errorf("%s: lines %q, operators of its name: %d", r.Function, lines, len(namesakes))
		}
		for _, line := range lines {
			entries := checkLine(t, r.Function, line)
			for _, e := range entries {
				used[e] = true
			}
			if len(namesakes) > 0 && !slices.ContainsFunc(namesakes, func(e *opdef.Entry) bool {
				return slices.Contains(entries, e)
			}) {
				t.Errorf("%s: %q is not computed by %s", r.Function, line, namesakes[0].Names[0])
			}
		}
	}
	for _, e := range registry.Entries() {
		if strings.HasPrefix(e.Names[0], "diopi.") && !used[e] {
			t.Errorf("%s computes no function of the kit", e.Names[0])
		}
	}
	for _, function := range slices.Concat(slices.Collect(maps.Keys(functions)), slices.Collect(maps.Keys(chosen)),
		slices.Collect(maps.Keys(finished))) {
		if _, ok := diopi.Find(function); !ok {
			t.Errorf("%s is no function of the kit", function)
		}
	}
}

// linesOf are the lines of a function of the kit, nil if it is one call of the operator
// of its name.
func linesOf(function string) (lines []string) {
	if line, ok := functions[function]; ok {
		lines = append(lines, line)
	}
	choose := chosen[function]
	if choose == nil {
		return lines
	}
	x, none := floats([]int{2}, 1, 2), value.NewList()
	for _, pairs := range [][]value.Value{
		{"input", x, "other", x, "mode", "avg", "bias", x, "tensors", none},
		{"input", x, "other", x, "mode", "max", "tensors", value.NewList(x)},
		{"input", x, "other", x, "mode", "max", "adaptive", true},
	} {
		if line, _, err := choose(arguments{dict(pairs...)}); err == nil && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// checkLine returns the operators of a line.
func checkLine(t *testing.T, function, line string) (all []*opdef.Entry) {
	t.Helper()
	calls, results, _ := strings.Cut(line, " => ")
	for call := range strings.SplitSeq(calls, " | ") {
		words := strings.Fields(call)
		entries := ops.Default().Lookup(words[0])
		if len(entries) == 0 {
			t.Errorf("%s: operator %s is not known", function, words[0])
		}
		all = append(all, entries...)
		names := words[1:]
		if strings.HasSuffix(calls, call) {
			names = append(names, strings.Fields(strings.ReplaceAll(results, "[]", ""))...)
		}
		for _, w := range names {
			if name, _, _ := strings.Cut(w, "="); !strings.HasPrefix(w, "*") && name != "" &&
				!slices.ContainsFunc(entries, func(e *opdef.Entry) bool { return e.HasArgument(name) }) {
				t.Errorf("%s: operator %s has no argument %s", function, words[0], name)
			}
		}
	}
	return all
}

// TestPipe carries gradients back through two calls: those of log-probabilities sum up
// to 0 behind the softmax.
func TestPipe(t *testing.T) {
	x := floats([]int{3, 1, 2}, 1, 2, 0.5, -1, 2, 0)
	x.RequiresGrad = true
	var p pipe
	out, _, err := p.kit("ctc_loss", arguments{dict("log_probs", x, "targets", tensor.New(tensor.Int64, []int{1, 1},
		[]int64{1}), "input_lengths", ints(3), "target_lengths", ints(1), "reduction", "sum", "blank", int64(0))})
	if err != nil {
		t.Fatal(err)
	}
	loss := out.(*tensor.Tensor)
	grads, err := p.backward([]*tensor.Tensor{loss}, []*tensor.Tensor{Ones(0, loss)})
	if err != nil {
		t.Fatal(err)
	}
	g := tensor.Data[float64](grads[x])
	near(t, "sums over classes", floats([]int{3}, g[0]+g[1], g[2]+g[3], g[4]+g[5]), 0, 0, 0)
	if math.Abs(g[0]) < 1e-3 {
		t.Errorf("gradient %v", g)
	}
	if _, err := p.run("torch.no_such_operator", nil, nil); err == nil {
		t.Error("an unknown operator is no error")
	}
}
