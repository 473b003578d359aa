package loss

import (
	"reflect"
	"slices"
	"strings"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// numberedLossOps are losses under the names of torch itself, which take a number
// for the reduction where torch.nn.functional takes a word.
var numberedLossOps = slices.Concat(
	numbered[bceLogitsArgs, atenBCELogitsArgs]("", "binary_cross_entropy_with_logits.int(Tensor input, Tensor target, "+
		"Tensor? weight=None, Tensor? pos_weight=None, int reduction=0) -> Tensor"),
	numbered[klDivArgs, atenKLDivArgs]("", "kl_div.int(Tensor input, Tensor target, int reduction=0, *, bool "+
		"log_target=False) -> Tensor"),
	numbered[poissonArgs, atenPoissonArgs]("", "poisson_nll_loss.int(Tensor input, Tensor target, bool log_input, bool "+
		"full, float eps, int reduction) -> Tensor"),
	numbered[hingeArgs, atenHingeArgs]("", "hinge_embedding_loss.int(Tensor input, Tensor target, float margin=1.0, "+
		"int reduction=0) -> Tensor"),
	numbered[rankingArgs, atenPairArgs]("", "margin_ranking_loss.int(Tensor input1, Tensor input2, Tensor target, "+
		"float margin=0.0, int reduction=0) -> Tensor"),
	numbered[cosineEmbeddingArgs, atenPairArgs]("", "cosine_embedding_loss.int(Tensor input1, Tensor input2, Tensor "+
		"target, float margin=0.0, int reduction=0) -> Tensor"),
	numbered[tripletArgs, atenTripletArgs]("", "triplet_margin_loss.int(Tensor anchor, Tensor positive, Tensor negative, "+
		"float margin=1.0, float p=2, float eps=1e-06, bool swap=False, int reduction=0) -> Tensor"),
	numbered[ctcArgs, atenCTCArgs]("", "ctc_loss.int(Tensor log_probs, Tensor targets, any input_lengths, any "+
		"target_lengths, int blank=0, int reduction=0, bool zero_infinity=False) -> Tensor"),
	numbered[plainLossArgs, atenLossArgs](nn, "mse_loss.int(Tensor input, Tensor target, int reduction=0) -> Tensor"),
	numbered[plainLossArgs, atenLossArgs](nn, "l1_loss.int(Tensor input, Tensor target, int reduction=0) -> Tensor"),
	numbered[smoothL1Args, atenSmoothL1Args](nn, "smooth_l1_loss.int(Tensor input, Tensor target, int reduction=0, "+
		"float beta=1.0) -> Tensor"),
	numbered[huberArgs, atenHuberArgs](nn, "huber_loss.int(Tensor input, Tensor target, int reduction=0, "+
		"float delta=1.0) -> Tensor"),
	numbered[bceArgs, atenBCEArgs](nn, "binary_cross_entropy.int(Tensor input, Tensor target, Tensor? weight=None, "+
		"int reduction=0) -> Tensor"),
	numbered[softMarginArgs, atenLossArgs](nn, "soft_margin_loss.int(Tensor input, Tensor target, int reduction=0) "+
		"-> Tensor"),
	numbered[multiMarginArgs, atenMultiMarginArgs](nn, "multi_margin_loss.int(Tensor input, Tensor target, Scalar p=1, "+
		"Scalar margin=1, Tensor? weight=None, int reduction=0) -> Tensor"),
	numbered[multilabelMarginArgs, atenLossArgs](nn, "multilabel_margin_loss.int(Tensor input, Tensor target, "+
		"int reduction=0) -> Tensor"),
)

// nn is where torch keeps the functions that those of torch.nn.functional call.
const nn = "_C._nn."

var reductions = []string{"none", "mean", "sum"} // at::Reduction

// numbered declares the loss NAME, with arguments *A, under the schema NAME.int and the name
// module.NAME, of torch itself without one. B has those fields of A that the schema asks for, its
// Reduction a number. Python's API takes none for its default, the dispatcher the mean.
func numbered[A, B any](module, schema string) []*opdef.Entry {
	name, params, _ := strings.Cut(schema, ".int(")
	out := []*opdef.Entry{numberedForm[A, B](name, module+name, schema)}
	if dispatched := strings.Replace(params, "int reduction=0", "int reduction=1", 1); dispatched != params {
		out = append(out, numberedForm[A, B](name, "torch.ops.aten."+name, name+".aten("+dispatched))
	}
	return out
}

func numberedForm[A, B any](name, names, schema string) *opdef.Entry {
	return opdef.Overload[A, B]{
		Schema: schema, Names: names, Of: elements.MustFind(slices.Concat(lossOps, rowLossOps, ctcOps), name),
		To: func(b *B) (*A, error) {
			n := int(field(b, "Reduction").Int())
			if n < 0 || n >= len(reductions) {
				return nil, opdef.Refuse("reduction", "want 0 (none), 1 (mean) or 2 (sum), got %d", n)
			}
			a := new(A)
			copyFields(a, b)
			field(a, "Reduction").SetString(reductions[n])
			return a, nil
		},
		From: func(a *A) *B {
			n := slices.Index(reductions, field(a, "Reduction").String())
			if n < 0 { // batchmean is divided afterwards
				return nil
			}
			b := new(B)
			if w := field(a, "Weight"); w.IsValid() && !w.IsNil() && !field(b, "Weight").IsValid() {
				return nil
			}
			copyFields(b, a)
			field(b, "Reduction").SetInt(int64(n))
			return b
		},
	}.Entry()
}

func field(args any, name string) reflect.Value {
	return reflect.ValueOf(args).Elem().FieldByName(name)
}

// copyFields copies the fields of src that dst has too, of the same type.
func copyFields(dst, src any) {
	from, to := reflect.ValueOf(src).Elem(), reflect.ValueOf(dst).Elem()
	for i := range from.NumField() {
		if f := to.FieldByName(from.Type().Field(i).Name); f.IsValid() && f.Type() == from.Field(i).Type() {
			f.Set(from.Field(i))
		}
	}
}

type atenLossArgs struct {
	Input, Target *tensor.Tensor
	Reduction     int
}

type atenSmoothL1Args struct {
	Input, Target *tensor.Tensor
	Reduction     int
	Beta          float64
}

type atenHuberArgs struct {
	Input, Target *tensor.Tensor
	Reduction     int
	Delta         float64
}

type atenBCEArgs struct {
	Input, Target, Weight *tensor.Tensor
	Reduction             int
}

type atenMultiMarginArgs struct {
	Input, Target *tensor.Tensor
	P, Margin     opdef.Scalar
	Weight        *tensor.Tensor
	Reduction     int
}

type atenBCELogitsArgs struct {
	Input, Target, Weight, PosWeight *tensor.Tensor
	Reduction                        int
}

type atenKLDivArgs struct {
	Input, Target *tensor.Tensor
	Reduction     int
	LogTarget     bool
}

type atenPoissonArgs struct {
	Input, Target  *tensor.Tensor
	LogInput, Full bool
	Eps            float64
	Reduction      int
}

type atenHingeArgs struct {
	Input, Target *tensor.Tensor
	Margin        float64
	Reduction     int
}

type atenPairArgs struct {
	Input1, Input2, Target *tensor.Tensor
	Margin                 float64
	Reduction              int
}

type atenTripletArgs struct {
	Anchor, Positive, Negative *tensor.Tensor
	Margin, P, Eps             float64
	Swap                       bool
	Reduction                  int
}

type atenCTCArgs struct {
	LogProbs, Targets           *tensor.Tensor
	InputLengths, TargetLengths value.Value
	Blank                       int
	Reduction                   int
	ZeroInfinity                bool
}
