package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/verdict"
)

// Constants of what the calls of an operator say together; docs/verdicts.md has the
// figures behind them.
const (
	fewestCalls = 8 // that tell a common error from chance
	callsSigma  = 8 // standard errors that the mean factor is from 1
)

// systematicLimits are, for each dtype, its eps and how many eps the mean common factor
// of the calls of a sound operator may be from 1.
var systematicLimits = map[string]struct{ eps, limit float64 }{
	"float32": {0x1p-23, 1}, "bfloat16": {0x1p-7, 0.2}, "float16": {0x1p-10, 0.2},
}

// A Systematic is a common factor that no call of an operator shows by itself, but all
// of them together do.
type Systematic struct {
	Op          string  `json:"op"`
	Phase       string  `json:"phase"`
	DType       string  `json:"dtype"`
	Values      int     `json:"values"`       // results or gradients that were taken together
	Factor      float64 `json:"factor"`       // mean common factor, less 1
	FactorError float64 `json:"factor_error"` // its standard error
}

func (s Systematic) String() string {
	what := "results"
	if s.Phase == "backward" {
		what = "gradients"
	}
	return fmt.Sprintf("%s: %d %s %s pass one by one, but all together are scaled by %.9g (standard error %.1g)", s.Op,
		s.Values, s.DType, what, 1+s.Factor, s.FactorError)
}

// A pool is what the common factors of passed values say together: their number, sum,
// sum of squares, and the sum of their squared standard errors.
type pool struct {
	n                         int
	sum, squares, uncertainty float64
}

type poolKey struct{ op, phase, dtype string }

// addErrors takes the errors of a value that passed.
func (s *Summary) addErrors(r *Result) {
	if r.Errors == nil || r.Verdict != verdict.Pass || r.Phase == "input" || r.Layout != "" || r.DType == nil ||
		r.Errors.Factor == nil || r.Errors.FactorError == nil {
		return
	}
	f, sigma := float64(*r.Errors.Factor), float64(*r.Errors.FactorError)
	if !(sigma > 0 && sigma <= math.MaxFloat64) || !(math.Abs(f) <= math.MaxFloat64) {
		return
	}
	key := poolKey{r.Op, r.Phase, *r.DType}
	p := s.pools[key]
	if p == nil {
		p = &pool{}
		s.pools[key] = p
	}
	p.n++
	p.sum += f
	p.squares += f * f
	p.uncertainty += sigma * sigma
}

// mean is the mean factor and its standard error: the larger one of that from the
// scatter of calls and that from their own standard errors.
func (p *pool) mean() (f, sigma float64) {
	n := float64(p.n)
	f = p.sum / n
	scatter := math.Sqrt(math.Max(p.squares/n-f*f, 0) / math.Max(n-1, 1))
	return f, math.Max(scatter, math.Sqrt(p.uncertainty)/n)
}

// Systematic are the operators of which all calls together are wrong by a common
// factor, by name.
func (s *Summary) Systematic() []Systematic {
	var found []Systematic
	for key, p := range s.pools {
		limits, known := systematicLimits[key.dtype]
		f, sigma := p.mean()
		if known && p.n >= fewestCalls && math.Abs(f) > limits.limit*limits.eps && math.Abs(f) > callsSigma*sigma {
			found = append(found, Systematic{key.op, key.phase, key.dtype, p.n, f, sigma})
		}
	}
	slices.SortFunc(found, func(a, b Systematic) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(b.Phase, a.Phase), cmp.Compare(a.DType, b.DType))
	})
	return found
}
