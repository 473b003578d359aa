package megatron

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// entropies are what rows of logits say of targets, which are of their shape: the logarithm of
// the sum of exponentials less the logit of the target, and that logarithm, in at least float32.
// The target of row i is skipped, and may be anything, where skip says so.
func entropies(g *compose.Graph, name string, x *compose.Value, target *tensor.Tensor,
	skip func(id int64) bool) (loss, lse, mean *compose.Value) {
	n := x.Dim() - 1
	if n < 0 || !x.DType().IsFloat() || x.Shape()[n] == 0 {
		g.Refuse("", "want floating logits, got %s", x.T.Meta())
	}
	if target.DType.Kind() != tensor.KindInt || target.Numel() != tensor.Numel(x.Shape()[:n]) {
		g.Refuse(name, "want an integer for each row of %s, got %s", x.T.Meta(), target.Meta())
	}
	ids := slices.Clone(tensor.Data[int64](target))
	for i, id := range ids {
		switch {
		case skip(id):
			ids[i] = 0
		case id < 0 || id >= int64(x.Shape()[n]):
			g.Refuse(name, "%d is not among %d classes", id, x.Shape()[n])
		}
	}
	wide := g.AtLeast(x, tensor.Float32)
	lse = g.LogSumExp(wide, -1, false)
	at := tensor.New(tensor.Int64, append(slices.Clone(x.Shape()[:n]), 1), ids)
	return g.Sub(lse, g.Squeeze(g.Gather(wide, -1, at), -1)), lse, g.Mean(wide, false, -1)
}

// smoothed is the loss mixed, by a part s, with the mean of -log softmax.
func smoothed(g *compose.Graph, loss, lse, mean *compose.Value, s float64) *compose.Value {
	if s == 0 {
		return loss
	}
	return g.Add(g.Scale(loss, 1-s), g.Scale(g.Sub(lse, mean), s))
}

// skipping is 0 for rows whose target skip says to skip.
func skipping(g *compose.Graph, loss *compose.Value, target *tensor.Tensor, skip func(id int64) bool) *compose.Value {
	hide := opdef.Map(tensor.Bool, target, func(id int64) int64 {
		if skip(id) {
			return 1
		}
		return 0
	}).Reshape(loss.Shape()...)
	return g.MaskedFill(loss, hide, 0)
}

func never(int64) bool { return false }

// someTargets are classes of six rows of five.
func someTargets() *tensor.Tensor {
	return tensor.New(tensor.Int64, []int{2, 3}, []int64{0, 3, 2, 4, 1, 2}).Rounded()
}

// lossIsFloat32 is why losses do not follow the dtype of logits.
var lossIsFloat32 = map[string]string{"dtypes": "the loss is float32 whatever the dtype"}

type parallelArgs struct {
	VocabParallelLogits, Target *tensor.Tensor
	LabelSmoothing              float64
	TpGroup                     value.Value
}

type fusedArgs struct {
	VocabParallelLogits, Target *tensor.Tensor
	TpGroup                     value.Value
}

const (
	parallelFormula = "log(sum(exp(logits))) - logits[target]"
	parallelNotes   = "All logits are in one process: tp_group is not read, and classes of other processes are " +
		"refused. "
)

var parallelCrossEntropy = compose.Declare(compose.Op[parallelArgs]{
	Schema: "megatron_vocab_parallel_cross_entropy(Tensor vocab_parallel_logits, Tensor target, " +
		"float label_smoothing=0.0, any tp_group=None) -> Tensor",
	Names: "megatron.core.tensor_parallel.vocab_parallel_cross_entropy " +
		"megatron.core.tensor_parallel.cross_entropy.vocab_parallel_cross_entropy " +
		"megatron.core.tensor_parallel.cross_entropy._VocabParallelCrossEntropy.apply " +
		"apex.transformer.tensor_parallel.vocab_parallel_cross_entropy " +
		"apex.transformer.tensor_parallel.cross_entropy.vocab_parallel_cross_entropy",
	Doc: opdef.Doc{Summary: "Cross entropy of each token", Formula: "(1-s)*(" + parallelFormula + ") - s*mean(log " +
		"softmax), s = label_smoothing*n/(n-1) of n classes",
		Notes:  parallelNotes + "The loss is in at least float32.",
		Source: "megatron.core.tensor_parallel.cross_entropy"},
	Exempt: lossIsFloat32,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *parallelArgs {
		return &parallelArgs{g.Normal(dt, 2, 3, 5), someTargets(), []float64{0, 0.1}[g.Nth%2], nil}
	}),
}, compose.Fused, func(g *compose.Graph, a *parallelArgs) compose.Values {
	x := g.Arg("vocab_parallel_logits", a.VocabParallelLogits)
	loss, lse, mean := entropies(g, "target", x, a.Target, never)
	if a.LabelSmoothing > 0 {
		n := float64(x.Shape()[x.Dim()-1])
		if a.LabelSmoothing >= 1 || n < 2 {
			g.Refuse("label_smoothing", "want less than 1, of two classes at least, got %g", a.LabelSmoothing)
		}
		loss = smoothed(g, loss, lse, mean, a.LabelSmoothing*n/(n-1))
	}
	return compose.Values{loss}
})

var fusedCrossEntropy = compose.Declare(compose.Op[fusedArgs]{
	Schema: "megatron_fused_vocab_parallel_cross_entropy(Tensor vocab_parallel_logits, Tensor target, " +
		"any tp_group=None) -> Tensor",
	Names: "megatron.core.fusions.fused_cross_entropy.fused_vocab_parallel_cross_entropy " +
		"megatron.core.fusions.fused_cross_entropy._VocabParallelCrossEntropy.apply",
	Doc: opdef.Doc{Summary: "Cross entropy of each token", Formula: parallelFormula,
		Notes:  parallelNotes + "The loss is in at least float32; the gradient is rounded to bfloat16.",
		Source: "megatron.core.fusions.fused_cross_entropy"},
	Exempt: lossIsFloat32,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *fusedArgs {
		return &fusedArgs{g.Normal(dt, 2, 3, 5), someTargets(), nil}
	}),
}, compose.Fused, func(g *compose.Graph, a *fusedArgs) compose.Values {
	loss, _, _ := entropies(g, "target", g.Arg("vocab_parallel_logits", a.VocabParallelLogits), a.Target, never)
	return compose.Values{loss}
})

type tokenArgs struct {
	Inp, Target      *tensor.Tensor
	LabelSmoothing   float64
	ReduceLoss       bool
	DistProcessGroup value.Value
	IgnoreIdx        int
	IsCgCapturable   bool
}

var tokenCrossEntropy = compose.Declare(compose.Op[tokenArgs]{
	Schema: "transformer_engine_parallel_cross_entropy(Tensor inp, Tensor target, float label_smoothing=0.0, " +
		"bool reduce_loss=False, any dist_process_group=None, int ignore_idx=-100, bool is_cg_capturable=False) -> " +
		"Tensor",
	Names: "transformer_engine.pytorch.parallel_cross_entropy transformer_engine.pytorch.cross_entropy." +
		"parallel_cross_entropy transformer_engine.pytorch.cross_entropy.CrossEntropyFunction.apply",
	Doc: opdef.Doc{Summary: "Cross entropy of each token, or their mean",
		Formula: "(1-label_smoothing)*(" + parallelFormula + ") - label_smoothing*mean(log softmax)",
		Notes: "Tokens whose target is ignore_idx have the loss 0 and do not count in the mean. dist_process_group " +
			"is " +
			"refused. The loss is in at least float32.", Source: "transformer_engine.pytorch.cross_entropy"},
	Exempt: lossIsFloat32,
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *tokenArgs {
		return &tokenArgs{Inp: g.Normal(dt, 2, 3, 5), Target: someTargets(),
			LabelSmoothing: []float64{0, 0.1}[g.Nth%2], ReduceLoss: g.Nth > 1, IgnoreIdx: 2}
	}),
}, compose.Fused, func(g *compose.Graph, a *tokenArgs) compose.Values {
	if a.DistProcessGroup != nil {
		g.Unsupported("dist_process_group", "the logits of other processes are not known")
	}
	ignored := func(id int64) bool { return id == int64(a.IgnoreIdx) }
	x := g.Arg("inp", a.Inp)
	loss, lse, mean := entropies(g, "target", x, a.Target, ignored)
	loss = skipping(g, smoothed(g, loss, lse, mean, a.LabelSmoothing), a.Target, ignored)
	if a.ReduceLoss {
		count := 0
		for _, id := range tensor.Data[int64](a.Target) {
			if !ignored(id) {
				count++
			}
		}
		loss = g.Scale(g.Sum(loss, false), 1/float64(max(count, 1)))
	}
	return compose.Values{loss}
})

type apexArgs struct {
	Logits, Labels *tensor.Tensor
	Smoothing      float64
	PaddingIdx     int
	HalfToFloat    bool
}

type rawArgs struct {
	Logits, Labels *tensor.Tensor
	Smoothing      float64
	HalfToFloat    bool
}

const apexFormula = "(1-smoothing)*(log(sum(exp(logits))) - logits[labels]) - smoothing*mean(log softmax)"

// apexLoss is apex' loss in its dtype, and the logarithms of the sums.
func apexLoss(g *compose.Graph, logits, labels *tensor.Tensor, smoothing float64, toFloat bool,
	skip func(id int64) bool) (loss, lse *compose.Value) {
	x := g.Arg("logits", logits)
	if x.Dim() != 2 {
		g.Refuse("logits", "want rows, got %s", logits.Meta())
	}
	loss, lse, mean := entropies(g, "labels", x, labels, skip)
	if loss = smoothed(g, loss, lse, mean, smoothing); !toFloat {
		loss = g.To(loss, x.DType())
	}
	return loss, lse
}

// someLabels are those of rows of logits.
func someLabels() *tensor.Tensor { return someTargets().Reshape(6) }

var apexCrossEntropy = compose.Declare(compose.Op[apexArgs]{
	Schema: "apex_softmax_cross_entropy_loss(Tensor logits, Tensor labels, float smoothing=0.0, int padding_idx=0, " +
		"bool half_to_float=False) -> Tensor",
	Names: "apex.contrib.xentropy.SoftmaxCrossEntropyLoss.apply " +
		"apex.contrib.xentropy.softmax_xentropy.SoftmaxCrossEntropyLoss.apply",
	Doc: opdef.Doc{Summary: "Cross entropy of rows", Formula: apexFormula,
		Notes: "The loss of rows whose label is padding_idx is 0. It has the dtype of logits, or float32 with " +
			"half_to_float.", Source: "apex.contrib.xentropy"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *apexArgs {
		return &apexArgs{g.Normal(dt, 6, 5), someLabels(), []float64{0, 0.1}[g.Nth%2], g.Nth, false}
	}),
}, compose.Fused, func(g *compose.Graph, a *apexArgs) compose.Values {
	padding := func(id int64) bool { return id == int64(a.PaddingIdx) }
	loss, _ := apexLoss(g, a.Logits, a.Labels, a.Smoothing, a.HalfToFloat, never)
	return compose.Values{skipping(g, loss, a.Labels, padding)}
})

var rawCrossEntropy = compose.Declare(compose.Op[rawArgs]{
	Schema: "apex_xentropy_forward(Tensor logits, Tensor labels, float smoothing, bool half_to_float) -> " +
		"(Tensor, Tensor)",
	Names: "xentropy_cuda.forward",
	Doc: opdef.Doc{Summary: "Cross entropy of rows, and the logarithms of their sums of exponentials",
		Formula: apexFormula + ", log(sum(exp(logits)))",
		Notes:   "The loss has the dtype of logits, or float32 with half_to_float, the logarithm at least float32.",
		Source:  "apex, contrib/csrc/xentropy"},
	Exempt: map[string]string{"dtypes": "the second result is float32 whatever the dtype"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *rawArgs {
		return &rawArgs{g.Normal(dt, 6, 5), someLabels(), 0.1, false}
	}),
}, compose.Fused, func(g *compose.Graph, a *rawArgs) compose.Values {
	loss, lse := apexLoss(g, a.Logits, a.Labels, a.Smoothing, a.HalfToFloat, never)
	return compose.Values{loss, lse}
})
