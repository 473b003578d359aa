package random

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/ops/creation"
	"github.com/optool/optool/ops/internal/draws"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// randomOps draw random numbers or leave memory as it is: their results have a
// shape and a dtype, not values. Dropout that drops nothing is compared.
var randomOps = []*opdef.Entry{
	unknown("empty", "empty", "(int[]... size, *, dtype? dtype=None"+creation.OptionParams, opdef.Uninitialised,
		creation.SizeCases, ofSize),
	unknown("empty_like", "empty_like", "(Tensor self, *, dtype? dtype=None"+creation.OptionParams, opdef.Uninitialised,
		creation.LikeCases, ofLike),
	unknown("new_empty", "Tensor.new_empty", "(Tensor self, int[]... size, *, dtype? dtype=None"+creation.OptionParams,
		opdef.Uninitialised,
		creation.NewCases, ofNew),
	unknown("empty_strided", "empty_strided", "(int[] size, int[] stride, *, dtype? dtype=None"+creation.OptionParams,
		opdef.Uninitialised,
		opdef.Calls[stridedArgs](`[2, 3], [1, 2]; [], []`), func(a *stridedArgs) ([]*tensor.Tensor, error) {
			return ofStrided(a.Size, a.Stride, elements.OrElse(a.Dtype, tensor.DefaultDType))
		}),
	unknown("empty_permuted", "empty_permuted", "(int[] size, int[] physical_layout, *, dtype? dtype=None"+
		creation.OptionParams,
		opdef.Uninitialised, opdef.Calls[permutedArgs](`[2, 3], [1, 0]; [], []`),
		func(a *permutedArgs) ([]*tensor.Tensor, error) {
			if _, err := opdef.Dims("physical_layout", a.PhysicalLayout, len(a.Size)); err != nil ||
				len(a.PhysicalLayout) != len(a.Size) {
				return nil, opdef.Refuse("physical_layout", "want each of %d dimensions once, got %v", len(a.Size),
					a.PhysicalLayout)
			}
			return creation.Constant(a.Size, opdef.Int(0), elements.OrElse(a.Dtype, tensor.DefaultDType))
		}),
	unknown("new_empty_strided", "Tensor.new_empty_strided",
		"(Tensor self, int[] size, int[] stride, *, dtype? dtype=None"+creation.OptionParams, opdef.Uninitialised,
		opdef.Calls[newStridedArgs](`f64[2], [2, 3], [1, 2]`), func(a *newStridedArgs) ([]*tensor.Tensor, error) {
			return ofStrided(a.Size, a.Stride, elements.OrElse(a.Dtype, a.Self.DType))
		}),
	unknown("rand", "rand", "(int[]... size, *, Generator? generator=None, dtype? dtype=None"+creation.OptionParams,
		elements.DrawsRandomNumbers,
		floatSizeCases, ofFloatSize, from(standardUniform[creation.NewSizeArgs])),
	unknown("randn", "randn", "(int[]... size, *, Generator? generator=None, dtype? dtype=None"+creation.OptionParams,
		elements.DrawsRandomNumbers,
		floatSizeCases, ofFloatSize, from(standardNormal[creation.NewSizeArgs])),
	unknown("rand_like", "rand_like", "(Tensor self, *, dtype? dtype=None"+creation.OptionParams,
		elements.DrawsRandomNumbers, floatLikeCases,
		ofFloatLike, from(standardUniform[creation.NewLikeArgs])),
	unknown("randn_like", "randn_like", "(Tensor self, *, dtype? dtype=None"+creation.OptionParams,
		elements.DrawsRandomNumbers, floatLikeCases,
		ofFloatLike, from(standardNormal[creation.NewLikeArgs])),
	unknown("randint.low", "randint", "(int low, int high, int[] size, *, Generator? generator=None, dtype? dtype=None"+
		creation.OptionParams, elements.DrawsRandomNumbers,
		opdef.Calls[randintArgs](`-3, 5, [2, 3]; 0, 2, []`), randint,
		integers(func(a *randintArgs) (int, int) { return a.Low, a.High })),
	unknown("randint", "randint", "(int high, int[] size, *, Generator? generator=None, dtype? dtype=None"+
		creation.OptionParams,
		elements.DrawsRandomNumbers,
		opdef.Calls[randintHighArgs](`5, [2, 3]; 2, [0]`),
		func(a *randintHighArgs) ([]*tensor.Tensor, error) {
			return randint(&randintArgs{0, a.High, a.Size, a.Dtype})
		}, integers(func(a *randintHighArgs) (int, int) { return 0, a.High })),
	unknown("randint_like.low", "randint_like", "(Tensor self, int low, int high, *, dtype? dtype=None"+
		creation.OptionParams,
		elements.DrawsRandomNumbers,
		opdef.Calls[randintLikeArgs](`f32[2, 3], -3, 5`), randintLike,
		integers(func(a *randintLikeArgs) (int, int) { return a.Low, a.High })),
	unknown("randint_like", "randint_like", "(Tensor self, int high, *, dtype? dtype=None"+creation.OptionParams,
		elements.DrawsRandomNumbers,
		opdef.Calls[randintLikeHighArgs](`f32[2, 3], 5`),
		func(a *randintLikeHighArgs) ([]*tensor.Tensor, error) {
			return randintLike(&randintLikeArgs{a.Self, 0, a.High, a.Dtype})
		}, integers(func(a *randintLikeHighArgs) (int, int) { return 0, a.High })),
	unknown("randperm", "randperm", "(int n, *, Generator? generator=None, dtype dtype=int64"+creation.OptionParams,
		elements.DrawsRandomNumbers,
		opdef.Calls[randpermArgs](`5; 0`),
		func(a *randpermArgs) ([]*tensor.Tensor, error) {
			return creation.Constant([]int{a.N}, opdef.Int(0), a.Dtype)
		}, func(_ *randpermArgs, got *tensor.Tensor) opdef.Drawn { return draws.Permutation(got) }),
	unknown("normal.size", "normal",
		"(Scalar mean, Scalar std, int[] size, *, Generator? generator=None, dtype? dtype=None"+creation.OptionParams,
		elements.DrawsRandomNumbers,
		opdef.Calls[normalSizeArgs](`0, 1, [2, 3]`),
		func(a *normalSizeArgs) ([]*tensor.Tensor, error) {
			return ofFloatSize(&creation.NewSizeArgs{Size: a.Size, Dtype: a.Dtype})
		}, from(func(a *normalSizeArgs) draws.Distribution {
			return draws.Normal(a.Mean.Float64(), a.Std.Float64())
		})),
	unknown("normal", "normal", "(Tensor|Scalar mean, Tensor|Scalar std=1.0, *, Generator? generator=None) -> Tensor",
		elements.DrawsRandomNumbers,
		opdef.Calls[normalArgs](`f32[3]; 0.0, std=f64[3]{1..2}; f32[2, 3], std=f32[3]{1..2}`),
		func(a *normalArgs) ([]*tensor.Tensor, error) { return ofBroadcast(a.Mean, a.Std) },
		func(a *normalArgs, got *tensor.Tensor) opdef.Drawn {
			return draws.Normals(got, elementsOf(a.Mean, got), elementsOf(a.Std, got))
		}),
	unknown("bernoulli", "bernoulli Tensor.bernoulli", "(Tensor self, *, Generator? generator=None) -> Tensor",
		elements.DrawsRandomNumbers, probabilityCases,
		func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			if !a.Self.DType.IsFloat() {
				return nil, opdef.Refuse("self", "want floating probabilities, got %s", a.Self.DType)
			}
			for _, p := range tensor.Data[float64](a.Self) {
				if !(p >= 0 && p <= 1) {
					return nil, opdef.Refuse("self", "want probabilities from 0 to 1, got %v", p)
				}
			}
			return ofLike(&creation.NewLikeArgs{Self: a.Self})
		}, func(a *opdef.UnaryArgs, got *tensor.Tensor) opdef.Drawn {
			p := tensor.Data[float64](a.Self)
			return draws.Bernoulli(got, func(i int) float64 { return p[i] })
		}),
	unknown("bernoulli.p", "bernoulli Tensor.bernoulli",
		"(Tensor self, float p, *, Generator? generator=None) -> Tensor", elements.DrawsRandomNumbers,
		opdef.Calls[bernoulliArgs](`f32[2, 3], 0.5`),
		func(a *bernoulliArgs) ([]*tensor.Tensor, error) {
			if !(a.P >= 0 && a.P <= 1) {
				return nil, opdef.Refuse("p", "want a probability from 0 to 1, got %v", a.P)
			}
			return ofLike(&creation.NewLikeArgs{Self: a.Self})
		}, func(a *bernoulliArgs, got *tensor.Tensor) opdef.Drawn {
			return draws.Bernoulli(got, func(int) float64 { return a.P })
		}),
	gumbelSoftmax,
	unknown("poisson", "poisson Tensor.poisson", "(Tensor self, *, Generator? generator=None) -> Tensor",
		elements.DrawsRandomNumbers,
		probabilityCases,
		func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) { return ofLike(&creation.NewLikeArgs{Self: a.Self}) },
		func(a *opdef.UnaryArgs, got *tensor.Tensor) opdef.Drawn {
			return draws.Counts(got, elementsOf(a.Self, got), nil)
		}),
	unknown("binomial", "binomial", "(Tensor count, Tensor prob, *, Generator? generator=None) -> Tensor",
		elements.DrawsRandomNumbers,
		opdef.Calls[binomialArgs](`f32[3]{1..9}, f32[3]{0..1}`),
		func(a *binomialArgs) ([]*tensor.Tensor, error) { return ofBroadcast(a.Count, a.Prob) },
		func(a *binomialArgs, got *tensor.Tensor) opdef.Drawn {
			count, p := elementsOf(a.Count, got), elementsOf(a.Prob, got)
			return draws.Counts(got, func(i int) float64 { return count(i) * p(i) }, count)
		}),
	unknown("_standard_gamma", "_standard_gamma", "(Tensor self, Generator? generator=None) -> Tensor",
		elements.DrawsRandomNumbers, shapeCases,
		func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) { return ofLike(&creation.NewLikeArgs{Self: a.Self}) },
		func(a *opdef.UnaryArgs, got *tensor.Tensor) opdef.Drawn {
			return draws.Gammas(got, elementsOf(a.Self, got))
		}),
	unknown("_sample_dirichlet", "_sample_dirichlet", "(Tensor self, Generator? generator=None) -> Tensor",
		elements.DrawsRandomNumbers, shapeCases,
		func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) { return ofLike(&creation.NewLikeArgs{Self: a.Self}) },
		func(_ *opdef.UnaryArgs, got *tensor.Tensor) opdef.Drawn { return draws.Shares(got) }),
	unknown("multinomial", "multinomial Tensor.multinomial",
		"(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor",
		elements.DrawsRandomNumbers,
		opdef.Calls[multinomialArgs](`f32[5]{0.1..1}, 3; f64[2, 4]{0.1..1}, 7, replacement=True`), multinomial, chosen),
	filler("uniform_", "Tensor.uniform_",
		"(Tensor self, float from=0.0, float to=1.0, *, Generator? generator=None) -> Tensor",
		func(a *uniformArgs) (*tensor.Tensor, error) {
			if !(a.From <= a.To) {
				return nil, opdef.Refuse("to", "want at least %v, got %v", a.From, a.To)
			}
			return a.Self, floats(a.Self)
		}, "",
		from(func(a *uniformArgs) draws.Distribution { return draws.Uniform(a.From, a.To) })),
	filler("normal_", "Tensor.normal_",
		"(Tensor self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor",
		func(a *normalInPlaceArgs) (*tensor.Tensor, error) {
			if !(a.Std >= 0) {
				return nil, opdef.Refuse("std", "must not be negative, got %v", a.Std)
			}
			return a.Self, floats(a.Self)
		}, "",
		from(func(a *normalInPlaceArgs) draws.Distribution { return draws.Normal(a.Mean, a.Std) })),
	filler("random_", "Tensor.random_", "(Tensor self, *, Generator? generator=None) -> Tensor",
		func(a *opdef.UnaryArgs) (*tensor.Tensor, error) { return a.Self, nil },
		"",
		from(func(a *opdef.UnaryArgs) draws.Distribution { return draws.Integers(0, largestWhole(a.Self.DType)+1) })),
	filler("random_.to", "Tensor.random_", "(Tensor self, int to, *, Generator? generator=None) -> Tensor",
		func(a *randomToArgs) (*tensor.Tensor, error) {
			if a.To <= 0 {
				return nil, opdef.Refuse("to", "want more than 0, got %d", a.To)
			}
			return a.Self, nil
		},
		", 5",
		integers(func(a *randomToArgs) (int, int) { return 0, a.To })),
	filler("random_.from", "Tensor.random_", "(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor",
		func(a *randomFromArgs) (*tensor.Tensor, error) {
			if a.To != nil && *a.To <= a.From {
				return nil, opdef.Refuse("to", "want more than %d, got %d", a.From, *a.To)
			}
			return a.Self, nil
		},
		", -3, 5",
		from(func(a *randomFromArgs) draws.Distribution {
			high := largestWhole(a.Self.DType) + 1
			if a.To != nil {
				high = float64(*a.To)
			}
			return draws.Integers(float64(a.From), high)
		})),
	filler("bernoulli_", "Tensor.bernoulli_",
		"(Tensor self, Tensor|Scalar p=0.5, *, Generator? generator=None) -> Tensor",
		func(a *bernoulliInPlaceArgs) (*tensor.Tensor, error) { return a.Self, nil },
		"",
		func(a *bernoulliInPlaceArgs, got *tensor.Tensor) opdef.Drawn {
			return draws.Bernoulli(got, elementsOf(a.P, got))
		}),
	oneParameter("exponential_", "lambd=1.0", "lambd"), oneParameter("geometric_", "p", "p"),
	twoParameters("log_normal_",
		"(Tensor self, float mean=1.0, float std=2.0, *, Generator? generator=None) -> Tensor"),
	filler("cauchy_", "Tensor.cauchy_",
		"(Tensor self, float median=0.0, float sigma=1.0, *, Generator? generator=None) -> Tensor",
		func(a *cauchyArgs) (*tensor.Tensor, error) { return a.Self, floats(a.Self) },
		"",
		from(func(a *cauchyArgs) draws.Distribution { return draws.Cauchy(a.Median, a.Sigma) })),
	initialiser("uniform_", "float a=0.0, float b=1.0",
		from(func(a *initUniformArgs) draws.Distribution { return draws.Uniform(a.A, a.B) })),
	initialiser("normal_", "float mean=0.0, float std=1.0",
		from(func(a *initNormalArgs) draws.Distribution { return draws.Normal(a.Mean, a.Std) })),
	initialiser("trunc_normal_", "float mean=0.0, float std=1.0, float a=-2.0, float b=2.0",
		func(a *initTruncatedArgs, got *tensor.Tensor) opdef.Drawn {
			if got.DType.IsReduced() { // erfinv of 16-bit numbers has few values in the tails
				return opdef.Drawn{}
			}
			return draws.TruncatedNormal(a.Mean, a.Std, a.A, a.B).Judge(got)
		}),
	initialiser("xavier_uniform_", "float gain=1.0", xavier(uniformOf)),
	initialiser("xavier_normal_", "float gain=1.0", xavier(normalOf)),
	initialiser("kaiming_uniform_", kaimingParams, kaiming(uniformOf)),
	initialiser("kaiming_normal_", kaimingParams, kaiming(normalOf)),
	initialiser("orthogonal_", "float gain=1", func(a *initGainArgs, got *tensor.Tensor) opdef.Drawn {
		if got.Dim() < 2 || got.Numel() == 0 {
			return opdef.Drawn{}
		}
		return draws.Orthogonal(got, a.Gain)
	}),
	initialiser[initArgs]("sparse_", "ignored sparsity=None, ignored std=0.01"),
	stochasticDepth,
	dropout("dropout", "F.dropout", "float p=0.5, bool training=True, bool inplace=False"),
	dropout("alpha_dropout", "F.alpha_dropout", "float p=0.5, bool training=False, bool inplace=False"),
	dropout("feature_alpha_dropout", "F.feature_alpha_dropout", "float p=0.5, bool training=False, bool inplace=False"),
	dropout("dropout1d", "F.dropout1d", "float p=0.5, bool training=True, bool inplace=False"),
	dropout("dropout2d", "F.dropout2d", "float p=0.5, bool training=True, bool inplace=False"),
	dropout("dropout3d", "F.dropout3d", "float p=0.5, bool training=True, bool inplace=False"),
	nativeDropout("dropout.native", "dropout dropout_"),
	nativeDropout("feature_dropout", "feature_dropout feature_dropout_"),
	dropoutWithMask,
	nativeDropout("alpha_dropout.native", "alpha_dropout alpha_dropout_"), nativeDropout("feature_alpha_dropout.native",
		"feature_alpha_dropout feature_alpha_dropout_"),
}

type stridedArgs struct {
	Size, Stride []int
	Dtype        *tensor.DType
}

type permutedArgs struct {
	Size, PhysicalLayout []int
	Dtype                *tensor.DType
}

type newStridedArgs struct {
	Self         *tensor.Tensor
	Size, Stride []int
	Dtype        *tensor.DType
}

type randintArgs struct {
	Low, High int
	Size      []int
	Dtype     *tensor.DType
}

type randintHighArgs struct {
	High  int
	Size  []int
	Dtype *tensor.DType
}

type randintLikeArgs struct {
	Self      *tensor.Tensor
	Low, High int
	Dtype     *tensor.DType
}

type randintLikeHighArgs struct {
	Self  *tensor.Tensor
	High  int
	Dtype *tensor.DType
}

type randpermArgs struct {
	N     int
	Dtype tensor.DType
}

type normalSizeArgs struct {
	Mean, Std opdef.Scalar
	Size      []int
	Dtype     *tensor.DType
}

type normalArgs struct{ Mean, Std *tensor.Tensor }

type bernoulliArgs struct {
	Self *tensor.Tensor
	P    float64
}

type binomialArgs struct{ Count, Prob *tensor.Tensor }

type multinomialArgs struct {
	Self        *tensor.Tensor
	NumSamples  int
	Replacement bool
}

type uniformArgs struct {
	Self     *tensor.Tensor
	From, To float64
}

type normalInPlaceArgs struct {
	Self      *tensor.Tensor
	Mean, Std float64
}

type randomToArgs struct {
	Self *tensor.Tensor
	To   int
}

type randomFromArgs struct {
	Self *tensor.Tensor
	From int
	To   *int
}

// largestWhole is the largest number that random_ draws: of floating dtypes that up to
// which the dtype has all whole numbers.
func largestWhole(dt tensor.DType) float64 {
	switch {
	case dt.IsFloat():
		return 2 / dt.Eps()
	case dt == tensor.Bool:
		return 1
	}
	return dt.Max()
}

// elementsOf are the elements of t, expanded to the shape of got as the kernel has done.
func elementsOf(t, got *tensor.Tensor) func(i int) float64 {
	v := tensor.Data[float64](opdef.Must(t.Expand(got.Shape...)))
	return func(i int) float64 { return v[i] }
}

type bernoulliInPlaceArgs struct{ Self, P *tensor.Tensor }

type cauchyArgs struct {
	Self          *tensor.Tensor
	Median, Sigma float64
}

type gumbelArgs struct {
	Logits *tensor.Tensor
	Tau    float64
	Hard   bool
	Eps    float64
	Dim    int
}

// gumbelSoftmax draws its noise in the call.
var gumbelSoftmax = opdef.Op[gumbelArgs]{
	Schema: "gumbel_softmax(Tensor logits, float tau=1.0, bool hard=False, float eps=1e-10, int dim=-1) -> Tensor",
	Names:  "F.gumbel_softmax",
	Doc: opdef.Doc{Summary: "Softmax of logits with random noise; one of each row when hard",
		Notes: "Only shape and dtype are determined."},
	Traits: opdef.Traits{
		Random:  elements.DrawsRandomNumbers,
		Trivial: true,
		NoGrad:  "drawn with the result's noise",
	},
	Error: elements.ExactError,
	Kernel: func(a *gumbelArgs) ([]*tensor.Tensor, error) {
		if !a.Logits.DType.IsFloat() {
			return nil, opdef.Refuse("logits", "want a floating dtype, got %s", a.Logits.DType)
		}
		if _, err := opdef.Dim("dim", a.Dim, a.Logits.Dim()); err != nil {
			return nil, err
		}
		return creation.Constant(a.Logits.Shape, opdef.Int(0), a.Logits.DType)
	},
	Cases: opdef.Calls[gumbelArgs](`f32[2, 3]`),
}.Entry()

func (a *gumbelArgs) Drawn(got []*tensor.Tensor) opdef.Drawn {
	dim, err := opdef.Dim("dim", a.Dim, a.Logits.Dim())
	if err != nil || len(got) == 0 || a.Logits.Dim() == 0 {
		return opdef.Drawn{}
	}
	return chooses(a.Logits.Transpose(dim, a.Logits.Dim()-1), got[0].Transpose(dim, got[0].Dim()-1), a.Hard)
}

// chooses judges rows of probabilities, ones and zeros if hard: the largest of a row is
// at c with the probability that softmax gives its logit, whatever the temperature.
func chooses(logits, got *tensor.Tensor, hard bool) opdef.Drawn {
	n := got.Shape[got.Dim()-1]
	if n == 0 {
		return opdef.Drawn{}
	}
	x, y := tensor.Data[float64](logits), tensor.Data[float64](got)
	chosen := make([]int, len(y)/n)
	p := make([]float64, len(x))
	for r := range chosen {
		sum, total, top := 0.0, 0.0, slices.Max(x[r*n:(r+1)*n])
		for c := range n {
			v := y[r*n+c]
			if !(v >= 0 && v <= 1) || hard && v != 0 && v != 1 {
				return opdef.Drawn{Wrong: fmt.Sprintf("element %d of row %d is %v", c, r, v)}
			}
			if sum += v; v > y[r*n+chosen[r]] {
				chosen[r] = c
			}
			p[r*n+c] = math.Exp(x[r*n+c] - top)
			total += p[r*n+c]
		}
		if math.Abs(sum-1) > got.DType.Eps()*float64(n) {
			return opdef.Drawn{Wrong: fmt.Sprintf("row %d adds up to %v, want 1", r, sum)}
		}
		for c := range n {
			p[r*n+c] /= total
		}
	}
	if why := draws.Categories(chosen, n, func(r, c int) float64 { return p[r*n+c] }); why != "" {
		return opdef.Drawn{Wrong: why}
	}
	return opdef.Drawn{Checked: fmt.Sprintf("sums and choices of %d rows", len(chosen))}
}

// shapeCases are the parameters of gamma distributions.
var shapeCases = opdef.Calls[opdef.UnaryArgs](`f32[3]{0.5..4}; f64[2, 3]{0.5..4}`)

// unknown declares an op whose values are not determined; kernel gives a tensor
// of the right shape and dtype, judge looks at what was drawn.
func unknown[A any](name, names, params, why string, cases func(opdef.Gen) []*A, kernel func(*A) ([]*tensor.Tensor,
	error), judge ...func(a *A, got *tensor.Tensor) opdef.Drawn) *opdef.Entry {
	summary := "Random numbers"
	if why == opdef.Uninitialised {
		summary = "Memory as it is"
	}
	return opdef.Planned[*A, *filling]{
		Schema: name + params, Names: names,
		Traits: opdef.Traits{Random: why, Trivial: true, NoGrad: elements.NoDifferentiableArgument},
		Error:  elements.ExactError,
		Doc:    opdef.Doc{Summary: summary, Notes: "Only shape and dtype are determined."},
		Plan: func(a *A) (*filling, error) {
			return &filling{func() ([]*tensor.Tensor, error) { return kernel(a) }, first(a, judge)}, nil
		},
		Kernel: (*filling).zeros, Cases: cases, Exempt: creation.FixedDType,
	}.Entry()
}

// A filling is a call whose values are not determined.
type filling struct {
	make  func() ([]*tensor.Tensor, error)     // tensors of the right shapes and dtypes
	judge func(got *tensor.Tensor) opdef.Drawn // of the first result; nil: nothing is known of it
}

func (f *filling) zeros() ([]*tensor.Tensor, error) { return f.make() }

// Drawn judges the first result.
func (f *filling) Drawn(got []*tensor.Tensor) opdef.Drawn {
	if f.judge == nil || len(got) == 0 || !got[0].DType.Computable() || got[0].DType.IsComplex() {
		return opdef.Drawn{}
	}
	return f.judge(got[0])
}

// first is the only judge, if there is one, of a call.
func first[A any](a *A, judge []func(a *A, got *tensor.Tensor) opdef.Drawn) func(got *tensor.Tensor) opdef.Drawn {
	if len(judge) == 0 {
		return nil
	}
	return func(got *tensor.Tensor) opdef.Drawn { return judge[0](a, got) }
}

// from judges by a distribution that the arguments name.
func from[A any](d func(a *A) draws.Distribution) func(a *A, got *tensor.Tensor) opdef.Drawn {
	return func(a *A, got *tensor.Tensor) opdef.Drawn { return d(a).Judge(got) }
}

func standardUniform[A any](*A) draws.Distribution { return draws.Uniform(0, 1) }
func standardNormal[A any](*A) draws.Distribution  { return draws.Normal(0, 1) }

func ofSize(a *creation.NewSizeArgs) ([]*tensor.Tensor, error) {
	return creation.Constant(a.Size, opdef.Int(0), elements.OrElse(a.Dtype, tensor.DefaultDType))
}

func ofLike(a *creation.NewLikeArgs) ([]*tensor.Tensor, error) {
	return creation.Constant(a.Self.Shape, opdef.Int(0), elements.OrElse(a.Dtype, a.Self.DType))
}

func ofNew(a *creation.NewArgs) ([]*tensor.Tensor, error) {
	return creation.Constant(a.Size, opdef.Int(0), elements.OrElse(a.Dtype, a.Self.DType))
}

func ofFloatSize(a *creation.NewSizeArgs) ([]*tensor.Tensor, error) {
	if dt := elements.OrElse(a.Dtype, tensor.DefaultDType); dt.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("dtype", "want a floating dtype, got %s", dt)
	}
	return ofSize(a)
}

func ofFloatLike(a *creation.NewLikeArgs) ([]*tensor.Tensor, error) {
	if dt := elements.OrElse(a.Dtype, a.Self.DType); dt.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("dtype", "want a floating dtype, got %s", dt)
	}
	return ofLike(a)
}

// ofStrided has the elements, not the strides, that torch gives.
func ofStrided(size, stride []int, dt tensor.DType) ([]*tensor.Tensor, error) {
	if len(size) != len(stride) {
		return nil, opdef.Refuse("stride", "want %d strides, got %d", len(size), len(stride))
	}
	for _, s := range stride {
		if s < 0 {
			return nil, opdef.Refuse("stride", "must not be negative, got %d", s)
		}
	}
	return creation.Constant(size, opdef.Int(0), dt)
}

// ofBroadcast has the shape of two broadcast tensors and the dtype of the
// first that is no number.
func ofBroadcast(x, y *tensor.Tensor) ([]*tensor.Tensor, error) {
	_, shape, err := opdef.BroadcastAll(x, y)
	if err != nil {
		return nil, err
	}
	dt := x.DType
	if x.Wrapped {
		dt = y.DType
	}
	if x.Wrapped && y.Wrapped {
		dt = tensor.DefaultDType
	}
	return creation.Constant(shape, opdef.Int(0), dt)
}

func floats(t *tensor.Tensor) error {
	if t.DType.Kind() < tensor.KindFloat {
		return opdef.Refuse("self", "want a floating dtype, got %s", t.DType)
	}
	return nil
}

var floatSizeCases = opdef.Calls[creation.NewSizeArgs](`[2, 3]; []; [0, 2]; [4], dtype=bf16`)

var floatLikeCases = opdef.Calls[creation.NewLikeArgs](`f32[2, 3]; bf16[]; f64[0, 2]`)

var probabilityCases = opdef.Calls[opdef.UnaryArgs](`f32[2, 3]{0..1}; f64[]{0..1}; f32[0]{0..1}`)

func randint(a *randintArgs) ([]*tensor.Tensor, error) {
	if a.Low >= a.High {
		return nil, opdef.Refuse("high", "want more than %d, got %d", a.Low, a.High)
	}
	return creation.Constant(a.Size, opdef.Int(0), elements.OrElse(a.Dtype, tensor.Int64))
}

func randintLike(a *randintLikeArgs) ([]*tensor.Tensor, error) {
	if a.Low >= a.High {
		return nil, opdef.Refuse("high", "want more than %d, got %d", a.Low, a.High)
	}
	return ofLike(&creation.NewLikeArgs{Self: a.Self, Dtype: a.Dtype})
}

func multinomial(a *multinomialArgs) ([]*tensor.Tensor, error) {
	p, n := a.Self, a.Self.Dim()
	switch {
	case n != 1 && n != 2:
		return nil, opdef.Refuse("self", "want 1 or 2 dims, got shape %s", tensor.ShapeString(p.Shape))
	case !p.DType.IsFloat():
		return nil, opdef.Refuse("self", "want floating probabilities, got %s", p.DType)
	case a.NumSamples <= 0:
		return nil, opdef.Refuse("num_samples", "want at least 1, got %d", a.NumSamples)
	case !a.Replacement && a.NumSamples > p.Shape[n-1]:
		return nil, opdef.Refuse("num_samples", "want at most the %d categories without replacement, got %d",
			p.Shape[n-1], a.NumSamples)
	}
	for i, sum := 0, 0.0; i < p.Numel(); i++ {
		v := tensor.At[float64](p, i)
		if !(v >= 0) || !elements.IsFinite(v) {
			return nil, opdef.Refuse("self", "want probabilities of 0 or more, got %v", v)
		}
		sum += v
		if (i+1)%p.Shape[n-1] == 0 {
			if sum == 0 {
				return nil, opdef.Refuse("self", "the probabilities of a row add up to 0")
			}
			sum = 0
		}
	}
	return creation.Constant(append(append([]int{}, p.Shape[:n-1]...), a.NumSamples), opdef.Int(0), tensor.Int64)
}

// chosen judges what multinomial drew: categories that have a weight, each at most once
// without replacement, and with it as often as their weights say.
func chosen(a *multinomialArgs, got *tensor.Tensor) opdef.Drawn {
	p, v := tensor.Data[float64](a.Self), tensor.Data[int64](got)
	n := a.Self.Shape[a.Self.Dim()-1]
	for row := range len(p) / n {
		w, drawn := p[row*n:(row+1)*n], v[row*a.NumSamples:(row+1)*a.NumSamples]
		seen, total := map[int64]int{}, 0.0
		for _, x := range w {
			total += x
		}
		for i, c := range drawn {
			switch {
			case c < 0 || c >= int64(n):
				return opdef.Drawn{Wrong: fmt.Sprintf("row %d: sample %d is %d, want a category from 0 to %d", row, i,
					c, n-1)}
			case w[c] == 0:
				return opdef.Drawn{Wrong: fmt.Sprintf("row %d: sample %d is %d, a category of weight 0", row, i, c)}
			case !a.Replacement && seen[c] > 0:
				return opdef.Drawn{Wrong: fmt.Sprintf("row %d: category %d is drawn twice without replacement", row, c)}
			}
			seen[c]++
		}
		for c, k := range seen {
			what := fmt.Sprintf("samples are of category %d", c)
			if why := draws.Rate(what, k, len(drawn), w[c]/total); a.Replacement && why != "" {
				return opdef.Drawn{Wrong: fmt.Sprintf("row %d: %s", row, why)}
			}
		}
	}
	return opdef.Drawn{Checked: fmt.Sprintf("categories of %d samples", len(v))}
}

// integers judges whole numbers between the limits that the arguments name.
func integers[A any](limits func(a *A) (low, high int)) func(a *A, got *tensor.Tensor) opdef.Drawn {
	return from(func(a *A) draws.Distribution {
		low, high := limits(a)
		return draws.Integers(float64(low), float64(high))
	})
}

// filler declares a method that fills its tensor with random numbers. Its cases are calls with these numbers.
func filler[A any](
	name, names, params string, self func(*A) (*tensor.Tensor, error), numbers string,
	judge ...func(a *A, got *tensor.Tensor) opdef.Drawn,
) *opdef.Entry {
	return opdef.Planned[*A, *filling]{
		Schema: name + params, Names: names,
		Traits: opdef.Traits{
			InPlace: true,
			Random:  elements.DrawsRandomNumbers,
			Trivial: true,
			NoGrad:  elements.NoDifferentiableArgument,
		},

		Error: elements.ExactError,
		Doc: opdef.Doc{Summary: "Fills the tensor with random numbers",
			Notes: "Only shape and dtype are determined."},
		Plan: func(a *A) (*filling, error) {
			return &filling{func() ([]*tensor.Tensor, error) {
				t, err := self(a)
				if err != nil {
					return nil, err
				}
				return creation.Constant(t.Shape, opdef.Int(0), t.DType)
			}, first(a, judge)}, nil
		},
		Kernel: (*filling).zeros,
		Cases:  opdef.Calls[A]("for T in f32[2,3] bf16[] f64[0,2]: T" + numbers),
	}.Entry()
}

type lambdArgs struct {
	Self  *tensor.Tensor
	Lambd float64
}

type pArgs struct {
	Self *tensor.Tensor
	P    float64
}

func oneParameter(name, param, arg string) *opdef.Entry {
	params := "(Tensor self, float " + param + ", *, Generator? generator=None) -> Tensor"
	if arg == "p" {
		return filler(name, "Tensor."+name, params, func(a *pArgs) (*tensor.Tensor, error) {
			if !(a.P > 0 && a.P < 1) {
				return nil, opdef.Refuse("p", "want a probability between 0 and 1, got %v", a.P)
			}
			return a.Self, nil
		}, ", 0.5",
			from(func(a *pArgs) draws.Distribution { return draws.Geometric(a.P) }))
	}
	return filler(name, "Tensor."+name, params, func(a *lambdArgs) (*tensor.Tensor, error) {
		if !(a.Lambd > 0) {
			return nil, opdef.Refuse("lambd", "want more than 0, got %v", a.Lambd)
		}
		return a.Self, floats(a.Self)
	}, ", 1.0",
		from(func(a *lambdArgs) draws.Distribution { return draws.Exponential(a.Lambd) }))
}

func twoParameters(name, params string) *opdef.Entry {
	return filler(name, "Tensor."+name, params, func(a *normalInPlaceArgs) (*tensor.Tensor, error) {
		if !(a.Std > 0) {
			return nil, opdef.Refuse("std", "want more than 0, got %v", a.Std)
		}
		return a.Self, floats(a.Self)
	}, ", 1.0, 2.0",
		from(func(a *normalInPlaceArgs) draws.Distribution { return draws.LogNormal(a.Mean, a.Std) }))
}

type initArgs struct{ Tensor *tensor.Tensor }

type initUniformArgs struct {
	Tensor *tensor.Tensor
	A, B   float64
}

type initNormalArgs struct {
	Tensor    *tensor.Tensor
	Mean, Std float64
}

type initTruncatedArgs struct {
	Tensor          *tensor.Tensor
	Mean, Std, A, B float64
}

type initGainArgs struct {
	Tensor *tensor.Tensor
	Gain   float64
}

type initKaimingArgs struct {
	Tensor             *tensor.Tensor
	A                  float64
	Mode, Nonlinearity string
}

// initialised are the arguments of an initialiser, which fills one tensor.
type initialised interface{ filled() *tensor.Tensor }

func (a initArgs) filled() *tensor.Tensor          { return a.Tensor }
func (a initUniformArgs) filled() *tensor.Tensor   { return a.Tensor }
func (a initNormalArgs) filled() *tensor.Tensor    { return a.Tensor }
func (a initTruncatedArgs) filled() *tensor.Tensor { return a.Tensor }
func (a initGainArgs) filled() *tensor.Tensor      { return a.Tensor }
func (a initKaimingArgs) filled() *tensor.Tensor   { return a.Tensor }

const kaimingParams = "float a=0, str mode='fan_in', str nonlinearity='leaky_relu'"

// uniformOf and normalOf are distributions of mean 0 and this deviation.
func uniformOf(std float64) draws.Distribution {
	return draws.Uniform(-math.Sqrt(3)*std, math.Sqrt(3)*std)
}
func normalOf(std float64) draws.Distribution { return draws.Normal(0, std) }

// fans are how many numbers go into an element of the layer's result, and in how many
// results each argument is, of a weight of at least two dimensions.
func fans(t *tensor.Tensor) (in, out float64) {
	if t.Dim() < 2 {
		return 0, 0
	}
	field := float64(tensor.Numel(t.Shape[2:]))
	return float64(t.Shape[1]) * field, float64(t.Shape[0]) * field
}

// xavier judges by the distribution of the deviation that Glorot and Bengio (2010) give
// a layer's weight.
func xavier(of func(std float64) draws.Distribution) func(a *initGainArgs, got *tensor.Tensor) opdef.Drawn {
	return func(a *initGainArgs, got *tensor.Tensor) opdef.Drawn {
		in, out := fans(got)
		if !(in+out > 0) || !(a.Gain > 0) {
			return opdef.Drawn{}
		}
		return of(a.Gain * math.Sqrt(2/(in+out))).Judge(got)
	}
}

// kaiming judges by the distribution of the deviation that He et al. (2015) give a
// layer's weight.
func kaiming(of func(std float64) draws.Distribution) func(a *initKaimingArgs, got *tensor.Tensor) opdef.Drawn {
	return func(a *initKaimingArgs, got *tensor.Tensor) opdef.Drawn {
		gain, known := map[string]float64{"linear": 1, "conv1d": 1, "conv2d": 1, "conv3d": 1, "conv_transpose1d": 1,
			"conv_transpose2d": 1, "conv_transpose3d": 1, "sigmoid": 1, "tanh": 5.0 / 3, "relu": math.Sqrt2,
			"leaky_relu": math.Sqrt(2 / (1 + a.A*a.A)), "selu": 0.75}[a.Nonlinearity]
		fan, out := fans(got)
		if a.Mode == "fan_out" {
			fan = out
		}
		if !known || !(fan > 0) {
			return opdef.Drawn{}
		}
		return of(gain / math.Sqrt(fan)).Judge(got)
	}
}

// initialiser declares a random function of torch.nn.init, whose first argument is the
// tensor.
func initialiser[A initialised](name, params string, judge ...func(a *A, got *tensor.Tensor) opdef.Drawn) *opdef.Entry {
	return opdef.Planned[*A, *filling]{
		Schema: "init_" + name + "(Tensor tensor, " + params + ", ignored generator=None) -> Tensor",
		Names:  "nn.init." + name,
		Traits: opdef.Traits{
			InPlace: true,
			Random:  elements.DrawsRandomNumbers,
			Trivial: true,
			NoGrad:  "run without gradients",
		},
		Error: elements.ExactError,
		Doc: opdef.Doc{Summary: "Fills the tensor with random numbers",
			Notes: "Only shape and dtype are determined."},
		Plan: func(a *A) (*filling, error) {
			return &filling{func() ([]*tensor.Tensor, error) {
				t := (*a).filled()
				return creation.Constant(t.Shape, opdef.Int(0), t.DType)
			}, first(a, judge)}, nil
		},
		Kernel: (*filling).zeros,
		Cases:  opdef.Calls[A](`f32[2, 3]`),
	}.Entry()
}
