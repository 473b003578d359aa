package ops

import (
	"math/rand/v2"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// Why results cannot be compared.
const (
	drawsNumbers  = "draws random numbers"
	uninitialised = "uninitialised memory"
)

// randomOps draw random numbers or leave memory as it is: their results have a
// shape and a dtype, not values. Dropout that drops nothing is compared.
var randomOps = []*opdef.Entry{
	unknown("empty", "empty", "(int[]... size, *, dtype? dtype=None"+options, uninitialised, sizeCases, ofSize),
	unknown("empty_like", "empty_like", "(Tensor self, *, dtype? dtype=None"+options, uninitialised, likeCases, ofLike),
	unknown("new_empty", "Tensor.new_empty", "(Tensor self, int[]... size, *, dtype? dtype=None"+options, uninitialised,
		newCases, ofNew),
	unknown("empty_strided", "empty_strided", "(int[] size, int[] stride, *, dtype? dtype=None"+options, uninitialised,
		func(*rand.Rand) []*stridedArgs {
			return []*stridedArgs{{[]int{2, 3}, []int{1, 2}, nil}, {[]int{}, []int{}, nil}}
		}, func(a *stridedArgs) ([]*tensor.Tensor, error) {
			return ofStrided(a.Size, a.Stride, orElse(a.Dtype, tensor.DefaultDType))
		}),
	unknown("empty_permuted", "empty_permuted", "(int[] size, int[] physical_layout, *, dtype? dtype=None"+options,
		uninitialised, func(*rand.Rand) []*permutedArgs {
			return []*permutedArgs{{[]int{2, 3}, []int{1, 0}, nil}, {[]int{}, []int{}, nil}}
		}, func(a *permutedArgs) ([]*tensor.Tensor, error) {
			if _, err := opdef.Dims("physical_layout", a.PhysicalLayout, len(a.Size)); err != nil ||
				len(a.PhysicalLayout) != len(a.Size) {
				return nil, opdef.Refuse("physical_layout", "want each of %d dimensions once, got %v", len(a.Size),
					a.PhysicalLayout)
			}
			return constant(a.Size, opdef.Int(0), orElse(a.Dtype, tensor.DefaultDType))
		}),
	unknown("new_empty_strided", "Tensor.new_empty_strided",
		"(Tensor self, int[] size, int[] stride, *, dtype? dtype=None"+options, uninitialised,
		func(r *rand.Rand) []*newStridedArgs {
			return []*newStridedArgs{{opdef.Gen{R: r}.Normal(tensor.Float64, 2), []int{2, 3}, []int{1, 2}, nil}}
		}, func(a *newStridedArgs) ([]*tensor.Tensor, error) {
			return ofStrided(a.Size, a.Stride, orElse(a.Dtype, a.Self.DType))
		}),
	unknown("rand", "rand", "(int[]... size, *, Generator? generator=None, dtype? dtype=None"+options, drawsNumbers,
		floatSizeCases, ofFloatSize),
	unknown("randn", "randn", "(int[]... size, *, Generator? generator=None, dtype? dtype=None"+options, drawsNumbers,
		floatSizeCases, ofFloatSize),
	unknown("rand_like", "rand_like", "(Tensor self, *, dtype? dtype=None"+options, drawsNumbers, floatLikeCases,
		ofFloatLike),
	unknown("randn_like", "randn_like", "(Tensor self, *, dtype? dtype=None"+options, drawsNumbers, floatLikeCases,
		ofFloatLike),
	unknown("randint.low", "randint", "(int low, int high, int[] size, *, Generator? generator=None, dtype? dtype=None"+
		options, drawsNumbers,
		func(*rand.Rand) []*randintArgs {
			return []*randintArgs{{-3, 5, []int{2, 3}, nil}, {0, 2, []int{}, nil}}
		}, randint),
	unknown("randint", "randint", "(int high, int[] size, *, Generator? generator=None, dtype? dtype=None"+options,
		drawsNumbers,
		func(*rand.Rand) []*randintHighArgs {
			return []*randintHighArgs{{5, []int{2, 3}, nil}, {2, []int{0}, nil}}
		},
		func(a *randintHighArgs) ([]*tensor.Tensor, error) {
			return randint(&randintArgs{0, a.High, a.Size, a.Dtype})
		}),
	unknown("randint_like.low", "randint_like", "(Tensor self, int low, int high, *, dtype? dtype=None"+options,
		drawsNumbers,
		func(r *rand.Rand) []*randintLikeArgs {
			return []*randintLikeArgs{{opdef.Gen{R: r}.Normal(tensor.Float32, 2, 3), -3, 5, nil}}
		}, randintLike),
	unknown("randint_like", "randint_like", "(Tensor self, int high, *, dtype? dtype=None"+options, drawsNumbers,
		func(r *rand.Rand) []*randintLikeHighArgs {
			return []*randintLikeHighArgs{{opdef.Gen{R: r}.Normal(tensor.Float32, 2, 3), 5, nil}}
		},
		func(a *randintLikeHighArgs) ([]*tensor.Tensor, error) {
			return randintLike(&randintLikeArgs{a.Self, 0, a.High, a.Dtype})
		}),
	unknown("randperm", "randperm", "(int n, *, Generator? generator=None, dtype dtype=int64"+options, drawsNumbers,
		func(*rand.Rand) []*randpermArgs { return []*randpermArgs{{5, tensor.Int64}, {0, tensor.Int64}} },
		func(a *randpermArgs) ([]*tensor.Tensor, error) { return constant([]int{a.N}, opdef.Int(0), a.Dtype) }),
	unknown("normal.size", "normal",
		"(Scalar mean, Scalar std, int[] size, *, Generator? generator=None, dtype? dtype=None"+options, drawsNumbers,
		func(*rand.Rand) []*normalSizeArgs {
			return []*normalSizeArgs{{opdef.Int(0), opdef.Int(1), []int{2, 3}, nil}}
		},
		func(a *normalSizeArgs) ([]*tensor.Tensor, error) { return ofFloatSize(&newSizeArgs{a.Size, a.Dtype}) }),
	unknown("normal", "normal", "(Tensor|Scalar mean, Tensor|Scalar std=1.0, *, Generator? generator=None) -> Tensor",
		drawsNumbers,
		func(r *rand.Rand) []*normalArgs {
			g := opdef.Gen{R: r}
			return []*normalArgs{{g.Normal(tensor.Float32, 3), tensor.Wrap(1.0)},
				{tensor.Wrap(0.0), g.Uniform(tensor.Float64, 1, 2, 3)}, {g.Normal(tensor.Float32, 2, 3),
					g.Uniform(tensor.Float32, 1, 2, 3)}}
		}, func(a *normalArgs) ([]*tensor.Tensor, error) { return ofBroadcast(a.Mean, a.Std) }),
	unknown("bernoulli", "bernoulli Tensor.bernoulli", "(Tensor self, *, Generator? generator=None) -> Tensor",
		drawsNumbers, probabilityCases,
		func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			if !a.Self.DType.IsFloat() {
				return nil, opdef.Refuse("self", "want floating probabilities, got %s", a.Self.DType)
			}
			for _, p := range tensor.Data[float64](a.Self) {
				if !(p >= 0 && p <= 1) {
					return nil, opdef.Refuse("self", "want probabilities from 0 to 1, got %v", p)
				}
			}
			return ofLike(&newLikeArgs{Self: a.Self})
		}),
	unknown("bernoulli.p", "bernoulli Tensor.bernoulli",
		"(Tensor self, float p, *, Generator? generator=None) -> Tensor", drawsNumbers,
		func(r *rand.Rand) []*bernoulliArgs {
			return []*bernoulliArgs{{opdef.Gen{R: r}.Normal(tensor.Float32, 2, 3), 0.5}}
		},
		func(a *bernoulliArgs) ([]*tensor.Tensor, error) {
			if !(a.P >= 0 && a.P <= 1) {
				return nil, opdef.Refuse("p", "want a probability from 0 to 1, got %v", a.P)
			}
			return ofLike(&newLikeArgs{Self: a.Self})
		}),
	gumbelSoftmax,
	unknown("poisson", "poisson Tensor.poisson", "(Tensor self, *, Generator? generator=None) -> Tensor", drawsNumbers,
		probabilityCases,
		func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) { return ofLike(&newLikeArgs{Self: a.Self}) }),
	unknown("binomial", "binomial", "(Tensor count, Tensor prob, *, Generator? generator=None) -> Tensor", drawsNumbers,
		func(r *rand.Rand) []*binomialArgs {
			g := opdef.Gen{R: r}
			return []*binomialArgs{{g.Uniform(tensor.Float32, 1, 9, 3), g.Uniform(tensor.Float32, 0, 1, 3)}}
		}, func(a *binomialArgs) ([]*tensor.Tensor, error) { return ofBroadcast(a.Count, a.Prob) }),
	unknown("multinomial", "multinomial Tensor.multinomial",
		"(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor", drawsNumbers,
		func(r *rand.Rand) []*multinomialArgs {
			g := opdef.Gen{R: r}
			return []*multinomialArgs{{g.Uniform(tensor.Float32, 0.1, 1, 5), 3, false},
				{g.Uniform(tensor.Float64, 0.1, 1, 2, 4), 7, true}}
		}, multinomial),
	filler("uniform_", "Tensor.uniform_",
		"(Tensor self, float from=0.0, float to=1.0, *, Generator? generator=None) -> Tensor",
		func(a *uniformArgs) (*tensor.Tensor, error) {
			if !(a.From <= a.To) {
				return nil, opdef.Refuse("to", "want at least %v, got %v", a.From, a.To)
			}
			return a.Self, floats(a.Self)
		}, func(t *tensor.Tensor) *uniformArgs { return &uniformArgs{t, 0, 1} }),
	filler("normal_", "Tensor.normal_",
		"(Tensor self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor",
		func(a *normalInPlaceArgs) (*tensor.Tensor, error) {
			if !(a.Std >= 0) {
				return nil, opdef.Refuse("std", "must not be negative, got %v", a.Std)
			}
			return a.Self, floats(a.Self)
		}, func(t *tensor.Tensor) *normalInPlaceArgs { return &normalInPlaceArgs{t, 0, 1} }),
	filler("random_", "Tensor.random_",
		"(Tensor self, any from=0, any to=None, *, Generator? generator=None) -> Tensor",
		func(a *randomInPlaceArgs) (*tensor.Tensor, error) { return a.Self, nil },
		func(t *tensor.Tensor) *randomInPlaceArgs { return &randomInPlaceArgs{t, int64(0), nil} }),
	filler("bernoulli_", "Tensor.bernoulli_",
		"(Tensor self, Tensor|Scalar p=0.5, *, Generator? generator=None) -> Tensor",
		func(a *bernoulliInPlaceArgs) (*tensor.Tensor, error) { return a.Self, nil },
		func(t *tensor.Tensor) *bernoulliInPlaceArgs { return &bernoulliInPlaceArgs{t, tensor.Wrap(0.5)} }),
	oneParameter("exponential_", "lambd=1.0", "lambd"), oneParameter("geometric_", "p", "p"),
	twoParameters("log_normal_",
		"(Tensor self, float mean=1.0, float std=2.0, *, Generator? generator=None) -> Tensor"),
	filler("cauchy_", "Tensor.cauchy_",
		"(Tensor self, float median=0.0, float sigma=1.0, *, Generator? generator=None) -> Tensor",
		func(a *cauchyArgs) (*tensor.Tensor, error) { return a.Self, floats(a.Self) },
		func(t *tensor.Tensor) *cauchyArgs { return &cauchyArgs{t, 0, 1} }),
	initialiser("uniform_", "ignored a=0.0, ignored b=1.0"),
	initialiser("normal_", "ignored mean=0.0, ignored std=1.0"),
	initialiser("trunc_normal_", "ignored mean=0.0, ignored std=1.0, ignored a=-2.0, ignored b=2.0"),
	initialiser("xavier_uniform_", "ignored gain=1.0"), initialiser("xavier_normal_", "ignored gain=1.0"),
	initialiser("kaiming_uniform_", "ignored a=0, ignored mode=None, ignored nonlinearity=None"),
	initialiser("kaiming_normal_", "ignored a=0, ignored mode=None, ignored nonlinearity=None"),
	initialiser("orthogonal_", "ignored gain=1"), initialiser("sparse_", "ignored sparsity=None, ignored std=0.01"),
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

type randomInPlaceArgs struct {
	Self     *tensor.Tensor
	From, To value.Value
}

type bernoulliInPlaceArgs struct{ Self, P *tensor.Tensor }

type cauchyArgs struct {
	Self          *tensor.Tensor
	Median, Sigma float64
}

type dropoutArgs struct {
	Self              *tensor.Tensor
	P                 float64
	Training, Inplace bool
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
		Notes: "Only shape and dtype are determined.", Source: "torch.nn.functional.gumbel_softmax"},
	Random: drawsNumbers, Trivial: true, Error: moves, NoGrad: "drawn with the result's noise",
	Kernel: func(a *gumbelArgs) ([]*tensor.Tensor, error) {
		if !a.Logits.DType.IsFloat() {
			return nil, opdef.Refuse("logits", "want a floating dtype, got %s", a.Logits.DType)
		}
		if _, err := opdef.Dim("dim", a.Dim, a.Logits.Dim()); err != nil {
			return nil, err
		}
		return constant(a.Logits.Shape, opdef.Int(0), a.Logits.DType)
	},
	Cases: func(r *rand.Rand) []*gumbelArgs {
		return []*gumbelArgs{{opdef.Gen{R: r}.Normal(tensor.Float32, 2, 3), 1, false, 1e-10, -1}}
	},
}.Entry()

type nativeDropoutArgs struct {
	Self  *tensor.Tensor
	P     float64
	Train bool
}

// unknown declares an op whose values are not determined; kernel gives a tensor
// of the right shape and dtype.
func unknown[A any](name, names, params, why string, cases func(*rand.Rand) []*A, kernel func(*A) ([]*tensor.Tensor,
	error)) *opdef.Entry {
	summary := "Random numbers"
	if why == uninitialised {
		summary = "Memory as it is"
	}
	return opdef.Op[A]{
		Schema: name + params, Names: names, Random: why, Trivial: true, Error: moves, NoGrad: noInput,
		Doc:    opdef.Doc{Summary: summary, Notes: "Only shape and dtype are determined.", Source: "torch." + name},
		Kernel: kernel, Cases: cases, Exempt: fixedDType,
	}.Entry()
}

func ofSize(a *newSizeArgs) ([]*tensor.Tensor, error) {
	return constant(a.Size, opdef.Int(0), orElse(a.Dtype, tensor.DefaultDType))
}

func ofLike(a *newLikeArgs) ([]*tensor.Tensor, error) {
	return constant(a.Self.Shape, opdef.Int(0), orElse(a.Dtype, a.Self.DType))
}

func ofNew(a *newArgs) ([]*tensor.Tensor, error) {
	return constant(a.Size, opdef.Int(0), orElse(a.Dtype, a.Self.DType))
}

func ofFloatSize(a *newSizeArgs) ([]*tensor.Tensor, error) {
	if dt := orElse(a.Dtype, tensor.DefaultDType); dt.Kind() < tensor.KindFloat {
		return nil, opdef.Refuse("dtype", "want a floating dtype, got %s", dt)
	}
	return ofSize(a)
}

func ofFloatLike(a *newLikeArgs) ([]*tensor.Tensor, error) {
	if dt := orElse(a.Dtype, a.Self.DType); dt.Kind() < tensor.KindFloat {
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
	return constant(size, opdef.Int(0), dt)
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
	return constant(shape, opdef.Int(0), dt)
}

func floats(t *tensor.Tensor) error {
	if t.DType.Kind() < tensor.KindFloat {
		return opdef.Refuse("self", "want a floating dtype, got %s", t.DType)
	}
	return nil
}

func floatSizeCases(*rand.Rand) []*newSizeArgs {
	bf := tensor.BFloat16
	return []*newSizeArgs{{[]int{2, 3}, nil}, {[]int{}, nil}, {[]int{0, 2}, nil}, {[]int{4}, &bf}}
}

func floatLikeCases(r *rand.Rand) []*newLikeArgs {
	g := opdef.Gen{R: r}
	return []*newLikeArgs{{g.Normal(tensor.Float32, 2, 3), nil}, {g.Normal(tensor.BFloat16), nil},
		{g.Normal(tensor.Float64, 0, 2), nil}}
}

func probabilityCases(r *rand.Rand) []*opdef.UnaryArgs {
	g := opdef.Gen{R: r}
	return []*opdef.UnaryArgs{{Self: g.Uniform(tensor.Float32, 0, 1, 2, 3)}, {Self: g.Uniform(tensor.Float64, 0, 1)},
		{Self: g.Uniform(tensor.Float32, 0, 1, 0)}}
}

func randint(a *randintArgs) ([]*tensor.Tensor, error) {
	if a.Low >= a.High {
		return nil, opdef.Refuse("high", "want more than %d, got %d", a.Low, a.High)
	}
	return constant(a.Size, opdef.Int(0), orElse(a.Dtype, tensor.Int64))
}

func randintLike(a *randintLikeArgs) ([]*tensor.Tensor, error) {
	if a.Low >= a.High {
		return nil, opdef.Refuse("high", "want more than %d, got %d", a.Low, a.High)
	}
	return ofLike(&newLikeArgs{a.Self, a.Dtype})
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
		if !(v >= 0) || !isFinite(v) {
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
	return constant(append(append([]int{}, p.Shape[:n-1]...), a.NumSamples), opdef.Int(0), tensor.Int64)
}

// filler declares a method that fills its tensor with random numbers.
func filler[A any](
	name, names, params string, self func(*A) (*tensor.Tensor, error), of func(*tensor.Tensor) *A,
) *opdef.Entry {
	return opdef.Op[A]{
		Schema: name + params, Names: names, InPlace: true, Random: drawsNumbers, Trivial: true, Error: moves,
		NoGrad: noInput,
		Doc: opdef.Doc{Summary: "Fills the tensor with random numbers",
			Notes: "Only shape and dtype are determined.", Source: "torch.Tensor." + name},
		Kernel: func(a *A) ([]*tensor.Tensor, error) {
			t, err := self(a)
			if err != nil {
				return nil, err
			}
			return constant(t.Shape, opdef.Int(0), t.DType)
		},
		Cases: func(r *rand.Rand) []*A {
			var cs []*A
			for _, c := range floatLikeCases(r) {
				cs = append(cs, of(c.Self))
			}
			return cs
		},
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
		}, func(t *tensor.Tensor) *pArgs { return &pArgs{t, 0.5} })
	}
	return filler(name, "Tensor."+name, params, func(a *lambdArgs) (*tensor.Tensor, error) {
		if !(a.Lambd > 0) {
			return nil, opdef.Refuse("lambd", "want more than 0, got %v", a.Lambd)
		}
		return a.Self, floats(a.Self)
	}, func(t *tensor.Tensor) *lambdArgs { return &lambdArgs{t, 1} })
}

func twoParameters(name, params string) *opdef.Entry {
	return filler(name, "Tensor."+name, params, func(a *normalInPlaceArgs) (*tensor.Tensor, error) {
		if !(a.Std > 0) {
			return nil, opdef.Refuse("std", "want more than 0, got %v", a.Std)
		}
		return a.Self, floats(a.Self)
	}, func(t *tensor.Tensor) *normalInPlaceArgs { return &normalInPlaceArgs{t, 1, 2} })
}

type initArgs struct{ Tensor *tensor.Tensor }

// initialiser declares a random function of torch.nn.init.
func initialiser(name, params string) *opdef.Entry {
	return opdef.Op[initArgs]{
		Schema: "init_" + name + "(Tensor tensor, " + params + ", ignored generator=None) -> Tensor",
		Names:  "nn.init." + name, InPlace: true,
		Random: drawsNumbers, Trivial: true, Error: moves, NoGrad: "run without gradients",
		Doc: opdef.Doc{Summary: "Fills the tensor with random numbers", Notes: "Only shape and dtype are determined.",
			Source: "torch.nn.init." + name},
		Kernel: func(a *initArgs) ([]*tensor.Tensor, error) {
			return constant(a.Tensor.Shape, opdef.Int(0), a.Tensor.DType)
		},
		Cases: func(r *rand.Rand) []*initArgs {
			return []*initArgs{{opdef.Gen{R: r}.Normal(tensor.Float32, 2, 3)}}
		},
	}.Entry()
}

// dropout declares a dropout of torch.nn.functional.
func dropout(name, names, params string) *opdef.Entry {
	return opdef.Op[dropoutArgs]{
		Schema: name + "(Tensor self, " + params + ") -> Tensor", Names: names,
		Doc: opdef.Doc{Summary: "Random elements set to zero, the others scaled; the tensor itself outside training",
			Formula: "self when training is off or p is 0",
			Notes:   "Training with p = 1 gives zeros.", Source: "torch.nn.functional." + name},
		Error: moves, RandomIf: func(a *dropoutArgs) string { return drops(a.P, a.Training) },
		Kernel: func(a *dropoutArgs) ([]*tensor.Tensor, error) { return keep(a.Self, a.P, a.Training) },
		Grad:   func(a *dropoutArgs, g *opdef.Grad) (opdef.Grads, error) { return keepGrad(a.P, a.Training, g) },
		Node:   func(a *dropoutArgs, _ *opdef.Grad) (opdef.Node, error) { return keepNode(a.P, a.Training) },
		Cases: func(r *rand.Rand) []*dropoutArgs {
			g := opdef.Gen{R: r}
			x := func() *tensor.Tensor { return g.Normal(tensor.Float64, 2, 3, 4) }
			return []*dropoutArgs{{x(), 0.5, false, false}, {x(), 0, true, false}, {x(), 1, true, false},
				{x(), 0.5, true, false}, {g.Normal(tensor.BFloat16, 0, 3), 0.5, false, false}}
		},
	}.Entry()
}

// nativeDropout declares a dropout of the torch namespace.
func nativeDropout(name, names string) *opdef.Entry {
	return opdef.Op[nativeDropoutArgs]{
		Schema: name + "(Tensor self, float p, bool train) -> Tensor", Names: names, InPlace: true,
		Doc: opdef.Doc{Summary: "Random elements set to zero, the others scaled; the tensor itself outside training",
			Formula: "self when train is off or p is 0",
			Notes:   "Training with p = 1 gives zeros.", Source: "torch.nn.functional.dropout"},
		Error: moves, RandomIf: func(a *nativeDropoutArgs) string { return drops(a.P, a.Train) },
		Kernel: func(a *nativeDropoutArgs) ([]*tensor.Tensor, error) { return keep(a.Self, a.P, a.Train) },
		Grad:   func(a *nativeDropoutArgs, g *opdef.Grad) (opdef.Grads, error) { return keepGrad(a.P, a.Train, g) },
		Node:   func(a *nativeDropoutArgs, _ *opdef.Grad) (opdef.Node, error) { return keepNode(a.P, a.Train) },
		Cases: func(r *rand.Rand) []*nativeDropoutArgs {
			g := opdef.Gen{R: r}
			return []*nativeDropoutArgs{{g.Normal(tensor.Float64, 3, 4), 0.5, false}, {g.Normal(tensor.Float64, 3, 4),
				0, true}, {g.Normal(tensor.Float32, 3), 0.5, true}}
		},
	}.Entry()
}

// dropoutWithMask returns what was kept too.
var dropoutWithMask = opdef.Op[dropoutMaskArgs]{
	Schema: "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", Names: "native_dropout",
	Doc: opdef.Doc{Summary: "Random elements set to zero, the others scaled, and where they were kept; outside " +
		"training the tensor itself", Formula: "input, all true when train is off",
		Notes: "Training with p = 1 gives zeros. train is on where it is None.", Source: "ATen/native/Dropout.cpp"},
	Error: moves, Trivial: true,
	RandomIf: func(a *dropoutMaskArgs) string { return drops(a.P, a.training()) },
	Kernel: func(a *dropoutMaskArgs) ([]*tensor.Tensor, error) {
		out, err := keep(a.Input, a.P, a.training())
		if err != nil {
			return nil, err
		}
		kept := 1
		if a.training() && a.P == 1 {
			kept = 0
		}
		mask, err := constant(a.Input.Shape, opdef.Int(int64(kept)), tensor.Bool)
		return append(out, mask...), err
	},
	Grad: func(a *dropoutMaskArgs, g *opdef.Grad) (opdef.Grads, error) {
		gr, err := keepGrad(a.P, a.training(), g)
		if err != nil {
			return nil, err
		}
		return opdef.Grads{"input": gr["self"]}, nil
	},
	Cases: func(r *rand.Rand) []*dropoutMaskArgs {
		g := opdef.Gen{R: r}
		yes, no := true, false
		return []*dropoutMaskArgs{{g.Normal(tensor.Float64, 3, 4), 0.5, &no}, {g.Normal(tensor.Float64, 3, 4), 0, &yes},
			{g.Normal(tensor.Float32, 3), 0.5, nil}, {g.Normal(tensor.Float64, 3), 1, &yes}}
	},
}.Entry()

type dropoutMaskArgs struct {
	Input *tensor.Tensor
	P     float64
	Train *bool
}

func (a *dropoutMaskArgs) training() bool { return a.Train == nil || *a.Train }

func drops(p float64, training bool) string {
	if training && p > 0 && p < 1 {
		return drawsNumbers
	}
	return ""
}

func keep(x *tensor.Tensor, p float64, training bool) ([]*tensor.Tensor, error) {
	if !(p >= 0 && p <= 1) {
		return nil, opdef.Refuse("p", "want a probability from 0 to 1, got %v", p)
	}
	if training && p == 1 {
		return constant(x.Shape, opdef.Int(0), x.DType)
	}
	return one(x)
}

func keepGrad(p float64, training bool, g *opdef.Grad) (opdef.Grads, error) {
	if training && p == 1 {
		return opdef.Grads{"self": {tensor.Full(g.Out[0].DType, g.Out[0].Shape, 0.0)}}, nil
	}
	return passOn(g)
}

// keepNode: without training the argument itself is returned.
func keepNode(p float64, training bool) (opdef.Node, error) {
	if !training || p == 0 {
		return opdef.Node{Skip: othersNode}, nil
	}
	return opdef.Node{}, nil
}
