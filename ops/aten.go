package ops

import (
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// atenOps are functions of the torch namespace that say with numbers what those
// of torch.nn.functional, which call them, say with words.
func atenOps() []*opdef.Entry {
	return []*opdef.Entry{
		opdef.Overload[bceLogitsArgs, atenBCELogitsArgs]{
			Schema: "binary_cross_entropy_with_logits.int(Tensor input, Tensor target, Tensor? weight=None, Tensor? " +
				"pos_weight=None, int reduction=1) -> Tensor",
			Names: "binary_cross_entropy_with_logits", Of: entryOf(lossOps, "binary_cross_entropy_with_logits"),
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
			Schema: "kl_div.int(Tensor input, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
			Names:  "kl_div", Of: entryOf(lossOps, "kl_div"),
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
			Names: "poisson_nll_loss", Of: entryOf(lossOps, "poisson_nll_loss"),
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
			Schema: "hinge_embedding_loss.int(Tensor input, Tensor target, float margin=1.0, int reduction=1) -> Tensor",
			Names:  "hinge_embedding_loss", Of: entryOf(lossOps, "hinge_embedding_loss"),
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
				"reduction=1) -> Tensor",
			Names: "margin_ranking_loss", Of: entryOf(lossOps, "margin_ranking_loss"),
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
				"reduction=1) -> Tensor",
			Names: "cosine_embedding_loss", Of: entryOf(rowLossOps, "cosine_embedding_loss"),
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
				"float p=2, float eps=1e-06, bool swap=False, int reduction=1) -> Tensor",
			Names: "triplet_margin_loss", Of: entryOf(rowLossOps, "triplet_margin_loss"),
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
				"blank=0, int reduction=1, bool zero_infinity=False) -> Tensor",
			Names: "ctc_loss", Of: entryOf(ctcOps, "ctc_loss"),
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
		opdef.Overload[affineGridArgs, atenAffineGridArgs]{
			Schema: "affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor",
			Of:     entryOf(gridOps, "affine_grid"), Names: "affine_grid_generator",
			To: func(b *atenAffineGridArgs) (*affineGridArgs, error) {
				return &affineGridArgs{b.Theta, b.Size, &b.AlignCorners}, nil
			},
			From: func(a *affineGridArgs) *atenAffineGridArgs {
				return &atenAffineGridArgs{a.Theta, a.Size, a.AlignCorners != nil && *a.AlignCorners}
			},
		}.Entry(),
		opdef.Overload[normArgs, atenNormArgs]{
			Schema: "frobenius_norm(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", Names: "frobenius_norm",
			Of: entryOf(vectorNormOps, "norm"),
			To: func(b *atenNormArgs) (*normArgs, error) {
				if b.Self.Dim() > 0 && len(b.Dim) > 2 {
					return nil, opdef.Refuse("dim", "want at most 2 dimensions, got %d", len(b.Dim))
				}
				return &normArgs{Self: b.Self, P: "fro", Dim: b.Dim, Keepdim: b.Keepdim}, nil
			},
			From: normFrom("fro"),
		}.Entry(),
		opdef.Overload[normArgs, atenNormArgs]{
			Schema: "nuclear_norm.dim(Tensor self, int[] dim, bool keepdim=False) -> Tensor", Names: "nuclear_norm",
			Of: entryOf(vectorNormOps, "norm"),
			To: func(b *atenNormArgs) (*normArgs, error) {
				return &normArgs{Self: b.Self, P: "nuc", Dim: b.Dim, Keepdim: b.Keepdim}, nil
			},
			From: normFrom("nuc"),
		}.Entry(),
		opdef.Overload[normArgs, nuclearNormArgs]{
			Schema: "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", Names: "nuclear_norm",
			Of: entryOf(vectorNormOps, "norm"),
			To: func(b *nuclearNormArgs) (*normArgs, error) {
				return &normArgs{Self: b.Self, P: "nuc", Keepdim: b.Keepdim}, nil
			},
			From: func(a *normArgs) *nuclearNormArgs {
				if a.P != value.Value("nuc") || a.Dim != nil || a.Dtype != nil {
					return nil
				}
				return &nuclearNormArgs{a.Self, a.Keepdim}
			},
		}.Entry(),
		opdef.Overload[normArgs, normExceptArgs]{
			Schema: "norm_except_dim(Tensor self, int pow=2, int dim=0) -> Tensor", Names: "norm_except_dim",
			Of: entryOf(vectorNormOps, "norm"),
			To: func(b *normExceptArgs) (*normArgs, error) {
				if b.Dim == -1 {
					return &normArgs{Self: b.Self, P: int64(b.Pow)}, nil
				}
				d, err := opdef.Dim("dim", b.Dim, b.Self.Dim())
				if err != nil || b.Self.Dim() == 0 {
					return &normArgs{Self: b.Self, P: int64(b.Pow)}, err
				}
				return &normArgs{Self: b.Self, P: int64(b.Pow), Dim: slices.Delete(allDims(b.Self.Dim()), d, d+1),
					Keepdim: true}, nil
			},
			From: func(a *normArgs) *normExceptArgs {
				p, ok := a.P.(int64)
				if !ok || len(a.Dim) != 1 || a.Keepdim || a.Dtype != nil || a.Self.Dim() != 2 {
					return nil
				}
				return &normExceptArgs{a.Self, int(p), 1 - a.Dim[0]}
			},
		}.Entry(),
		gridSampler("grid_sampler", 0), gridSampler("grid_sampler_2d", 4), gridSampler("grid_sampler_3d", 5),
	}
}

// gridSampler is grid_sample of images of so many dimensions, 0 for any, with
// numbers for the modes.
func gridSampler(name string, dims int) *opdef.Entry {
	modes, paddings := []string{"bilinear", "nearest", "bicubic"}, []string{"zeros", "border", "reflection"}
	return opdef.Overload[gridSampleArgs, atenGridArgs]{
		Schema: name +
			"(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor",
		Names: name, Of: entryOf(gridOps, "grid_sample"),
		To: func(b *atenGridArgs) (*gridSampleArgs, error) {
			switch {
			case b.InterpolationMode < 0 || b.InterpolationMode >= len(modes):
				return nil, opdef.Refuse("interpolation_mode", "want 0, 1 or 2, got %d", b.InterpolationMode)
			case b.PaddingMode < 0 || b.PaddingMode >= len(paddings):
				return nil, opdef.Refuse("padding_mode", "want 0, 1 or 2, got %d", b.PaddingMode)
			case dims != 0 && b.Input.Dim() != dims:
				return nil, opdef.Refuse("input", "want %d dimensions, got shape %s", dims,
					tensor.ShapeString(b.Input.Shape))
			}
			return &gridSampleArgs{b.Input, b.Grid, modes[b.InterpolationMode], paddings[b.PaddingMode],
				&b.AlignCorners}, nil
		},
		From: func(a *gridSampleArgs) *atenGridArgs {
			if dims != 0 && a.Input.Dim() != dims {
				return nil
			}
			return &atenGridArgs{a.Input, a.Grid, slices.Index(modes, a.Mode), slices.Index(paddings, a.PaddingMode),
				a.AlignCorners != nil && *a.AlignCorners}
		},
	}.Entry()
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

type atenAffineGridArgs struct {
	Theta        *tensor.Tensor
	Size         []int
	AlignCorners bool
}

type atenNormArgs struct {
	Self    *tensor.Tensor
	Dim     []int
	Keepdim bool
}

type nuclearNormArgs struct {
	Self    *tensor.Tensor
	Keepdim bool
}

type normExceptArgs struct {
	Self     *tensor.Tensor
	Pow, Dim int
}

// normFrom gives the calls of norm that a norm of that name says.
func normFrom(p string) func(a *normArgs) *atenNormArgs {
	return func(a *normArgs) *atenNormArgs {
		if a.P != value.Value(p) || a.Dim == nil || a.Dtype != nil {
			return nil
		}
		return &atenNormArgs{a.Self, a.Dim, a.Keepdim}
	}
}

type atenGridArgs struct {
	Input, Grid                    *tensor.Tensor
	InterpolationMode, PaddingMode int
	AlignCorners                   bool
}
