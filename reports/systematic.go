package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/compare/verdict"
)

// Constants of what the calls of an operator say together; docs/verdicts.md has the
// figures behind them.
const (
	fewestCalls = 8    // that tell a common error from chance
	callsSigma  = 8    // standard errors that a mean is from 0
	roundingULP = 0.25 // mean difference from the nearest value that rounding to one side has, or a rounded factor
	vaguest     = 256  // limits to which an estimate of one call is known, or it would hide the others
	beyondShare = 0.02 // of the elements of a value whose rounding counts, those off by an ULP or more
)

// commonLimits are how large the mean common factor and offset of the calls of a sound
// operator may be, for each dtype: 1 eps of float32 and 0.25 eps of 16 bits.
var commonLimits = map[string]float64{"float32": 0x1p-23, "bfloat16": 0x1p-9, "float16": 0x1p-12}

// A Systematic is an error that no call of an operator shows by itself, but all of them
// together do. Estimates are means over all calls, as in Errors.
type Systematic struct {
	Op      string          `json:"op"`
	Phase   string          `json:"phase"`
	DType   string          `json:"dtype"`
	Values  int             `json:"values"`  // results or gradients that were taken together
	Verdict verdict.Verdict `json:"verdict"` // fail where scaled or shifted, warn where rounded to one side
	Reason  string          `json:"reason"`

	Factor      *Number `json:"factor,omitempty"`
	FactorError *Number `json:"factor_error,omitempty"`
	Offset      *Number `json:"offset,omitempty"`
	OffsetError *Number `json:"offset_error,omitempty"`
	Away        *Number `json:"away,omitempty"`
	AwayError   *Number `json:"away_error,omitempty"`
	Up          *Number `json:"up,omitempty"`
	UpError     *Number `json:"up_error,omitempty"`
}

func (s Systematic) String() string {
	what := "results"
	if s.Phase == "backward" {
		what = "gradients"
	}
	return fmt.Sprintf("%s: %s: %d %s %s pass one by one, but all together they are %s", s.Verdict, s.Op, s.Values,
		s.DType, what, s.Reason)
}

// A mean is that of an estimate over the calls of an operator: their number, the sum
// and the sum of squares of the estimates, and the sum of their squared standard errors.
type mean struct {
	n                         int
	sum, squares, uncertainty float64
}

// add takes an estimate that is known to within most.
func (m *mean) add(estimate, sigma *Number, most float64) {
	if estimate == nil || sigma == nil {
		return
	}
	f, s := float64(*estimate), float64(*sigma)
	if !(s > 0 && s <= most) || !(math.Abs(f) <= math.MaxFloat64) {
		return
	}
	m.n++
	m.sum += f
	m.squares += f * f
	m.uncertainty += s * s
}

// value is the mean and its standard error: the larger one of that from the scatter of
// calls and that from their own standard errors.
func (m *mean) value() (f, sigma float64) {
	n := float64(m.n)
	f = m.sum / n
	scatter := math.Sqrt(math.Max(m.squares/n-f*f, 0) / math.Max(n-1, 1))
	return f, math.Max(scatter, math.Sqrt(m.uncertainty)/n)
}

// beyond reports whether enough calls say that the mean is not 0, but beyond limit.
func (m *mean) beyond(limit float64) bool {
	if m.n < fewestCalls {
		return false
	}
	f, sigma := m.value()
	return math.Abs(f) > limit && math.Abs(f) > callsSigma*sigma
}

// set stores the mean and its standard error, if there is one.
func (m *mean) set(estimate, sigma **Number) {
	if m.n > 0 {
		f, s := m.value()
		*estimate, *sigma = Num(f), Num(s)
	}
}

// A pool is what the errors of passed values say together.
type pool struct{ factor, offset, away, up mean }

type poolKey struct{ op, phase, dtype string }

// addErrors takes the errors of a value that passed.
func (s *Summary) addErrors(r *Result) {
	if r.Errors == nil || r.Verdict != verdict.Pass || r.Phase == "input" || r.Layout != "" ||
		r.Device != "" || r.DType == nil || s.opOf(r.Op).Op != r.Op {
		return
	}
	key := poolKey{r.Op, r.Phase, *r.DType}
	p := s.pools[key]
	if p == nil {
		p = &pool{}
		s.pools[key] = p
	}
	e := r.Errors
	p.factor.add(e.Factor, e.FactorError, vaguest*commonLimits[key.dtype])
	p.offset.add(e.Offset, e.OffsetError, vaguest*commonLimits[key.dtype])
	if float64(e.Beyond) <= beyondShare*float64(e.Inexact) {
		p.away.add(e.Away, e.ULPError, math.MaxFloat64)
		p.up.add(e.Up, e.ULPError, math.MaxFloat64)
	}
}

// judge gives the verdict on all calls of a pool, whose dtype has this limit, and why.
func (p *pool) judge(limit float64) (v verdict.Verdict, why string, values int) {
	in := func(m *mean, format string, from float64) (string, int) {
		f, sigma := m.value()
		return fmt.Sprintf(format+" (standard error %.1g)", from+f, sigma), m.n
	}
	side := func(m *mean, format, negative, positive string) (string, int) {
		f, sigma := m.value()
		if f < 0 {
			positive = negative
		}
		return fmt.Sprintf("off to one side: inexact elements are %.2f ulp %s from the nearest value "+
			"(standard error %.1g). Rounding %[2]s does that, and so does a factor that was rounded itself",
			math.Abs(f), positive, sigma), m.n
	}
	switch {
	case p.factor.beyond(limit):
		why, values = in(&p.factor, "scaled by %.9g", 1)
		return verdict.Fail, why, values
	case p.offset.beyond(limit):
		why, values = in(&p.offset, "shifted by %.3g of their root mean square", 0)
		return verdict.Fail, why, values
	case p.away.beyond(roundingULP):
		why, values = side(&p.away, "", "toward zero", "away from zero")
		return verdict.Warn, why, values
	case p.up.beyond(roundingULP):
		why, values = side(&p.up, "", "down", "up")
		return verdict.Warn, why, values
	}
	return verdict.Pass, "", 0
}

// Systematic are the operators whose calls are wrong all together, although each
// passes, by name.
func (s *Summary) Systematic() []Systematic {
	var found []Systematic
	for key, p := range s.pools {
		limit, known := commonLimits[key.dtype]
		if !known {
			continue
		}
		v, why, values := p.judge(limit)
		if v == verdict.Pass {
			continue
		}
		f := Systematic{Op: key.op, Phase: key.phase, DType: key.dtype, Values: values, Verdict: v, Reason: why}
		p.factor.set(&f.Factor, &f.FactorError)
		p.offset.set(&f.Offset, &f.OffsetError)
		p.away.set(&f.Away, &f.AwayError)
		p.up.set(&f.Up, &f.UpError)
		found = append(found, f)
	}
	slices.SortFunc(found, func(a, b Systematic) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(b.Phase, a.Phase), cmp.Compare(a.DType, b.DType))
	})
	return found
}
