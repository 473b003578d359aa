package opdef

import (
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A plan is the operator on the arguments of one call. What few operators can do, their plans do by methods: these
// are the interfaces that are asked for. A composed call (package compose) has most of them. A call for which an
// ability has nothing to say gives nil.

// Valued are plans whose result is not made of tensors (item, tolist, size).
type Valued interface {
	// Value is the Python value torch returns.
	Value() (value.Value, error)
}

// Mutating are plans that change arguments without returning them (running_mean of batch_norm).
type Mutating interface {
	// After gives the new values, by argument name; nil if none.
	After(outs []*tensor.Tensor) (map[string][]*tensor.Tensor, error)
}

// MutatingBounded are plans that know S of the values of After; without it, or where one is missing, it is the
// largest magnitude of each.
type MutatingBounded interface {
	AfterScale() map[string][]*tensor.Tensor
}

// MutatingEither are plans that know others that are as right as values of After.
type MutatingEither interface {
	AfterElse() map[string][][]*tensor.Tensor
}

// Classed are plans whose error class depends on the arguments: a scatter moves values or adds them.
type Classed interface {
	ErrorOf() Error
}

// Least are plans that know what is nowhere more than Scale, for a fraction of its work; GradLeast likewise for
// GradScale. Both are lazy tensors, asked for with every bound. Accumulated operators with Axes need none.
type (
	Least interface {
		Least(outs []*tensor.Tensor) []*tensor.Tensor
	}
	GradLeast interface {
		GradLeast(g *Grad) (Grads, error)
	}
)

// ReadsResults are plans whose gradients read the results. ReadScale is GradScale where these are given: what errors
// they have is no part of it, but so are the partial sums of terms, one after the other, as a low precision rounds
// them.
type ReadsResults interface {
	ReadScale(g *Grad) Grads
}

// Either are plans that know for each result others that are as right, of its shape: where the function jumps within
// rounding of its arguments, the values on both sides; where an accumulator overflows, infinity; nil where there are
// none. GradEither likewise for gradients; one that it leaves out has none.
type (
	Either interface {
		Else(outs []*tensor.Tensor) [][]*tensor.Tensor
	}
	GradEither interface {
		GradElse(g *Grad) ([]Grads, error)
	}
)

// Typed are plans of results that devices and versions of torch give another dtype.
type Typed interface {
	// OtherDType is that of result i; Invalid if there is none.
	OtherDType(i int) tensor.DType
}

// Renewing are plans of results that are new values of arguments, which other forms of the operator change. They are
// judged as those are: the elements share factors that are rounded to the dtype.
type Renewing interface {
	Renewed(i int) bool
}

// ChainedResults are plans of results whose terms torch's CPU kernels add as those of Chained.
type ChainedResults interface {
	// Chain gives the dtype and the sums of the magnitudes of the partial sums of result i; nil: there are none.
	Chain(i int) (tensor.DType, func() *tensor.Tensor)
}

// Chained are plans of gradients whose terms torch's CPU kernels add one after the other in the gradient's dtype.
type Chained interface {
	// GradChain gives the sums of the magnitudes of the partial sums.
	GradChain(g *Grad) (Grads, error)
}

// Counted are plans that know GradTerms of one argument, where those of others are far more.
type Counted interface {
	GradTermsOf(arg string) int
}

// Costly are plans that cost more than an operation per element of the largest tensor.
type Costly interface {
	// Products is the number of multiply-adds that make one element of the first result: what a product of
	// matrices or a convolution costs.
	Products() float64
}

// Cuttable are plans of calls that can be cut into parts, so that a large one need not be computed whole.
type Cuttable interface {
	// Axes says how; nil: not this one.
	Axes() *Axes
}

// Choosy are plans whose results may differ and be right: ties in topk, the order of unique.
type Choosy interface {
	// Accept gets the call's results as recorded (got) and as computed (want) and returns a verdict per result,
	// nil if the call has no such freedom.
	Accept(got, want []*tensor.Tensor) []Acceptance
}

// Drawing are plans that draw random numbers only in some calls (dropout in training).
type Drawing interface {
	// Random is as in Traits; "" where this call draws none.
	Random() string
}

// Judging are plans that look at the recorded results of a call that draws random numbers: whether they can be of
// the distribution.
type Judging interface {
	Drawn(got []*tensor.Tensor) Drawn
}

// GradJudging are plans that look at the recorded gradients of such a call, by argument name and nil where none was
// recorded, if its results do not show what was drawn. g.Outs are the recorded results.
type GradJudging interface {
	DrawnGrads(g *Grad, got Grads) Drawn
}

// Strict are plans of calls that may want the dtype of their results of what these are written to, out= or self.
type Strict interface {
	ExactOut() bool
}

// Mistaken are plans that know what kernels of the operator get wrong and no argument says.
type Mistaken interface {
	// Mistakes are plans of the same type under which the declaration computes what such kernels give.
	Mistakes() []Mistake[any]
}

// Varied are plans of several steps, each of which a kernel may do in another way.
type Varied interface {
	// Variations have plans of the same type.
	Variations() []Mistake[any]
	// Formula is that of the first result: "sin(3.142 * self) / (3.142 * self)"; empty if it takes long to say.
	Formula() string
}

// Numbered are plans that know the numbers in the operator's rule.
type Numbered interface {
	// Constants have plans of the same type.
	Constants() []Constant[any]
}

// Versioned are plans of calls that sound implementations compute differently.
type Versioned interface {
	// Versions are what they give: of own, "" for what goes without saying, this plan is one.
	Versions() (own string, others []Version[any])
}
