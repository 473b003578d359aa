package loss

import (
	"reflect"
	"slices"
	"strings"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// numberedLossOps are losses under the names of torch itself, which take a number
// for the reduction where torch.nn.functional takes a word.
var numberedLossOps = []*opdef.Entry{
	numbered[bceLogitsArgs, atenBCELogitsArgs]("binary_cross_entropy_with_logits.int(Tensor input, Tensor target, " +
		"Tensor? weight=None, Tensor? pos_weight=None, int reduction=0) -> Tensor"),
	numbered[klDivArgs, atenKLDivArgs]("kl_div.int(Tensor input, Tensor target, int reduction=0, *, bool " +
		"log_target=False) -> Tensor"),
	numbered[poissonArgs, atenPoissonArgs]("poisson_nll_loss.int(Tensor input, Tensor target, bool log_input, bool " +
		"full, float eps, int reduction) -> Tensor"),
	numbered[hingeArgs, atenHingeArgs]("hinge_embedding_loss.int(Tensor input, Tensor target, float margin=1.0, " +
		"int reduction=0) -> Tensor"),
	numbered[rankingArgs, atenPairArgs]("margin_ranking_loss.int(Tensor input1, Tensor input2, Tensor target, " +
		"float margin=0.0, int reduction=0) -> Tensor"),
	numbered[cosineEmbeddingArgs, atenPairArgs]("cosine_embedding_loss.int(Tensor input1, Tensor input2, Tensor " +
		"target, float margin=0.0, int reduction=0) -> Tensor"),
	numbered[tripletArgs, atenTripletArgs]("triplet_margin_loss.int(Tensor anchor, Tensor positive, Tensor negative, " +
		"float margin=1.0, float p=2, float eps=1e-06, bool swap=False, int reduction=0) -> Tensor"),
	numbered[ctcArgs, atenCTCArgs]("ctc_loss.int(Tensor log_probs, Tensor targets, any input_lengths, any " +
		"target_lengths, int blank=0, int reduction=0, bool zero_infinity=False) -> Tensor"),
}

var reductions = []string{"none", "mean", "sum"} // at::Reduction

// numbered declares the loss NAME, with arguments *A, under the schema NAME.int. B
// has those fields of A that the schema asks for, its Reduction a number.
func numbered[A, B any](schema string) *opdef.Entry {
	name, _, _ := strings.Cut(schema, ".")
	return opdef.Overload[A, B]{
		Schema: schema, Names: name, Of: elements.MustFind(slices.Concat(lossOps, rowLossOps, ctcOps), name),
		To: func(b *B) (*A, error) {
			n := int(reductionField(b).Int())
			if n < 0 || n >= len(reductions) {
				return nil, opdef.Refuse("reduction", "want 0 (none), 1 (mean) or 2 (sum), got %d", n)
			}
			a := new(A)
			copyFields(a, b)
			reductionField(a).SetString(reductions[n])
			return a, nil
		},
		From: func(a *A) *B {
			n := slices.Index(reductions, reductionField(a).String())
			if n < 0 { // batchmean is divided afterwards
				return nil
			}
			b := new(B)
			copyFields(b, a)
			reductionField(b).SetInt(int64(n))
			return b
		},
	}.Entry()
}

func reductionField(args any) reflect.Value {
	return reflect.ValueOf(args).Elem().FieldByName("Reduction")
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
