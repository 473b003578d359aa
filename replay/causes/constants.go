package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Which constants are tried: those that have a name, those of steps of a composition and of operators that kernels are
// known to compute instead, or numbers that nobody wrote.
type whichConstants int

const (
	plainNamed whichConstants = iota
	plainGeneric
	asIf
)

// constants are other numbers in the operator's rule, or in that of an operator that kernels are known to compute
// instead: fitted ones, one at a time.
func (c *Search) constants(fails []Wrong, which whichConstants) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		of := slices.IndexFunc(fails, func(r Wrong) bool {
			got, _, ok := r.Pair()
			return ok && got.DType.IsFloat() && got.Numel() >= fewestScaled
		})
		if of < 0 || c.Bound.Plan() != nil {
			return
		}
		for _, r := range c.rules() {
			for i, k := range r.call.Constants() {
				named := r.call == c.Bound && !k.Step
				if k.Gradients && fails[of].Forward() || which != asIf && named != (which == plainNamed) {
					continue
				}
				for m := range c.otherConstants(&fails[of], r, i, k, which == asIf) {
					if !yield(m) {
						return
					}
				}
			}
		}
	}
}

// otherConstants are numbers in place of constant i of a rule: those that somebody may have written, or the others.
func (c *Search) otherConstants(of *Wrong, r rule, i int, k opdef.Constant[*opdef.Call],
	others bool) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		with := func(x float64) (Way, error) {
			call, err := k.Plan(x)
			return Way{Call: call, Mistaken: func(part *opdef.Call) (*opdef.Call, error) {
				if all := part.Constants(); r.call == c.Bound && i < len(all) {
					return all[i].Plan(x)
				}
				return nil, nil
			}}, err
		}
		fitted := c.fit(of, k.Value, with)
		if len(fitted) == 0 {
			fitted = []float64{0, math.Inf(1)} // where it jumps, or is not looked at
		}
		near := fitted[len(fitted)-1]
		if math.Abs(near) < nearZero*math.Abs(k.Value) {
			fitted = slices.Insert(fitted, 0, 0)
		}
		for _, x := range knownConstants {
			if x != k.Value && math.Abs(x-near) <= knownNear*math.Abs(x) {
				fitted = slices.Insert(fitted, 0, x)
			}
		}
		for _, x := range fitted {
			written := plainNumber(x) || math.IsInf(x, 0) || slices.Contains(knownConstants, x)
			if of.Got.DType.IsReduced() && fewTimesAs(x, k.Value) { // alike in few bits, and a factor says less
				continue
			}
			if written == others || others && of.Got.DType.IsReduced() ||
				math.Abs(x) > mostConstant && !math.IsInf(x, 0) {
				continue
			}
			is := "is"
			if others {
				is = "is as if it were"
			}
			if !yield(Mistake{Text: fmt.Sprintf("%s%s %s %.7g, not %.7g", r.text, k.Name, is, x, k.Value),
				Like: r.text + k.Name, Cost: digits(x), Gradients: k.Gradients, Number: &otherNumber{x, k.Value, with},
				Make: func() (Way, error) { return with(x) }}) {
				return
			}
		}
	}
}

// fewTimesAs reports whether a number is nearly another one, doubled, tripled, halved or negated, but not exactly.
func fewTimesAs(x, was float64) bool {
	return slices.ContainsFunc(append([]float64{-1}, fewTimes...), func(k float64) bool {
		return x != k*was && near(x, k*was, 1e-2)
	})
}

// knownConstants are those that rules have, and kernels write in other places.
var knownConstants = []float64{1.702, 0.044715, 3 * 0.044715, math.Sqrt(2 / math.Pi), math.Sqrt2, 1 / math.Sqrt2,
	1 / math.Sqrt(2*math.Pi), 1 / math.Sqrt(math.Pi), 2 / math.Sqrt(math.Pi), math.Ln2, math.Log2E, math.Pi}

const (
	knownNear = 2e-3 // how near to a known constant a fitted number is that may be it
	nearZero  = 1e-2 // what part of a constant may be 0
	// mostConstant is the largest number that is taken for one of a rule.
	mostConstant = 1e6
)

// A rule is a call whose operator has numbers in its rule.
type rule struct {
	text string // "it is computed as quick_gelu, and "
	call *opdef.Call
}

// rules are the call, and those of operators that kernels are known to compute instead.
func (c *Search) rules() []rule {
	all := []rule{{"", c.Bound}}
	for m := range c.takenFor() {
		if way, err := m.Make(); err == nil && way.Call != nil && way.Call.Plan() == nil {
			all = append(all, rule{m.Text + ", and ", way.Call})
		}
	}
	return all
}
