package loss

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

var numberedLossOps = []*opdef.Entry{
	opdef.Overload[bceLogitsArgs, atenBCELogitsArgs]{
		Schema: "binary_cross_entropy_with_logits.int(Tensor input, Tensor target, Tensor? weight=None, Tensor? " +
			"pos_weight=None, int reduction=0) -> Tensor",
		Names: "binary_cross_entropy_with_logits", Of: elements.MustFind(lossOps, "binary_cross_entropy_with_logits"),
		To: func(b *atenBCELogitsArgs) (*bceLogitsArgs, error) {
			how, err := reductionWord(b.Reduction)
			return &bceLogitsArgs{Input: b.Input, Target: b.Target, Weight: b.Weight, PosWeight: b.PosWeight,
				Reduction: how}, err
		},
		From: func(a *bceLogitsArgs) *atenBCELogitsArgs {
			return &atenBCELogitsArgs{a.Input, a.Target, a.Weight, a.PosWeight, reductionNumber(a.Reduction)}
		},
	}.Entry(),
	opdef.Overload[klDivArgs, atenKLDivArgs]{
		Schema: "kl_div.int(Tensor input, Tensor target, int reduction=0, *, bool log_target=False) -> Tensor",
		Names:  "kl_div", Of: elements.MustFind(lossOps, "kl_div"),
		To: func(b *atenKLDivArgs) (*klDivArgs, error) {
			how, err := reductionWord(b.Reduction)
			return &klDivArgs{Input: b.Input, Target: b.Target, LogTarget: b.LogTarget, Reduction: how}, err
		},
		From: func(a *klDivArgs) *atenKLDivArgs {
			if a.Reduction == "batchmean" { // divided afterwards
				return nil
			}
			return &atenKLDivArgs{a.Input, a.Target, reductionNumber(a.Reduction), a.LogTarget}
		},
	}.Entry(),
	opdef.Overload[poissonArgs, atenPoissonArgs]{
		Schema: "poisson_nll_loss.int(Tensor input, Tensor target, bool log_input, bool full, float eps, int " +
			"reduction) -> Tensor",
		Names: "poisson_nll_loss", Of: elements.MustFind(lossOps, "poisson_nll_loss"),
		To: func(b *atenPoissonArgs) (*poissonArgs, error) {
			how, err := reductionWord(b.Reduction)
			return &poissonArgs{Input: b.Input, Target: b.Target, LogInput: b.LogInput, Full: b.Full, Eps: b.Eps,
				Reduction: how}, err
		},
		From: func(a *poissonArgs) *atenPoissonArgs {
			return &atenPoissonArgs{a.Input, a.Target, a.LogInput, a.Full, a.Eps, reductionNumber(a.Reduction)}
		},
	}.Entry(),
	opdef.Overload[hingeArgs, atenHingeArgs]{
		Schema: "hinge_embedding_loss.int(Tensor input, Tensor target, float margin=1.0, int reduction=0) -> Tensor",
		Names:  "hinge_embedding_loss", Of: elements.MustFind(lossOps, "hinge_embedding_loss"),
		To: func(b *atenHingeArgs) (*hingeArgs, error) {
			how, err := reductionWord(b.Reduction)
			return &hingeArgs{Input: b.Input, Target: b.Target, Margin: b.Margin, Reduction: how}, err
		},
		From: func(a *hingeArgs) *atenHingeArgs {
			return &atenHingeArgs{a.Input, a.Target, a.Margin, reductionNumber(a.Reduction)}
		},
	}.Entry(),
	opdef.Overload[rankingArgs, atenPairArgs]{
		Schema: "margin_ranking_loss.int(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int " +
			"reduction=0) -> Tensor",
		Names: "margin_ranking_loss", Of: elements.MustFind(lossOps, "margin_ranking_loss"),
		To: func(b *atenPairArgs) (*rankingArgs, error) {
			how, err := reductionWord(b.Reduction)
			return &rankingArgs{Input1: b.Input1, Input2: b.Input2, Target: b.Target, Margin: b.Margin,
				Reduction: how}, err
		},
		From: func(a *rankingArgs) *atenPairArgs {
			return &atenPairArgs{a.Input1, a.Input2, a.Target, a.Margin, reductionNumber(a.Reduction)}
		},
	}.Entry(),
	opdef.Overload[cosineEmbeddingArgs, atenPairArgs]{
		Schema: "cosine_embedding_loss.int(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int " +
			"reduction=0) -> Tensor",
		Names: "cosine_embedding_loss", Of: elements.MustFind(rowLossOps, "cosine_embedding_loss"),
		To: func(b *atenPairArgs) (*cosineEmbeddingArgs, error) {
			how, err := reductionWord(b.Reduction)
			return &cosineEmbeddingArgs{Input1: b.Input1, Input2: b.Input2, Target: b.Target, Margin: b.Margin,
				Reduction: how}, err
		},
		From: func(a *cosineEmbeddingArgs) *atenPairArgs {
			return &atenPairArgs{a.Input1, a.Input2, a.Target, a.Margin, reductionNumber(a.Reduction)}
		},
	}.Entry(),
	opdef.Overload[tripletArgs, atenTripletArgs]{
		Schema: "triplet_margin_loss.int(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, " +
			"float p=2, float eps=1e-06, bool swap=False, int reduction=0) -> Tensor",
		Names: "triplet_margin_loss", Of: elements.MustFind(rowLossOps, "triplet_margin_loss"),
		To: func(b *atenTripletArgs) (*tripletArgs, error) {
			how, err := reductionWord(b.Reduction)
			return &tripletArgs{Anchor: b.Anchor, Positive: b.Positive, Negative: b.Negative, Margin: b.Margin,
				P: b.P, Eps: b.Eps, Swap: b.Swap, Reduction: how}, err
		},
		From: func(a *tripletArgs) *atenTripletArgs {
			return &atenTripletArgs{a.Anchor, a.Positive, a.Negative, a.Margin, a.P, a.Eps, a.Swap,
				reductionNumber(a.Reduction)}
		},
	}.Entry(),
	opdef.Overload[ctcArgs, atenCTCArgs]{
		Schema: "ctc_loss.int(Tensor log_probs, Tensor targets, any input_lengths, any target_lengths, int " +
			"blank=0, int reduction=0, bool zero_infinity=False) -> Tensor",
		Names: "ctc_loss", Of: elements.MustFind(ctcOps, "ctc_loss"),
		To: func(b *atenCTCArgs) (*ctcArgs, error) {
			how, err := reductionWord(b.Reduction)
			return &ctcArgs{b.LogProbs, b.Targets, b.InputLengths, b.TargetLengths, b.Blank, how, b.ZeroInfinity},
				err
		},
		From: func(a *ctcArgs) *atenCTCArgs {
			return &atenCTCArgs{a.LogProbs, a.Targets, a.InputLengths, a.TargetLengths, a.Blank,
				reductionNumber(a.Reduction), a.ZeroInfinity}
		},
	}.Entry(),
}

var reductions = []string{"none", "mean", "sum"} // at::Reduction

func reductionNumber(word string) int { return slices.Index(reductions, word) }

func reductionWord(n int) (string, error) {
	if n < 0 || n >= len(reductions) {
		return "", opdef.Refuse("reduction", "want 0 (none), 1 (mean) or 2 (sum), got %d", n)
	}
	return reductions[n], nil
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
