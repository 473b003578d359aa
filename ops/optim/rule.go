package optim

import (
	"math"

	"github.com/optool/optool/ops/opdef"
)

// A rule holds the numbers and the formulas of an optimizer's step. A wrong kernel has another rule.
type rule struct {
	size      float64    // lr
	averages  [2]weights // of the gradient and of its square
	coupled   float64    // the factor of self in the gradient: coupled weight decay
	own       float64    // the factor of the gradient that is added to itself
	shrink    float64    // the share of self that is subtracted: decoupled weight decay
	after     bool       // self shrinks after the step
	root      root
	power     power
	late      float64    // added to the number of the step
	lateIn    [2]float64 // the same, for the correction of one average
	plain     [2]bool    // the averages are not corrected for having begun as 0
	old       [2]bool    // the update uses the averages from before the step
	raw       bool       // the update uses the gradient, not its average
	again     bool       // the gradient is added to its average once more, as Nesterov does
	first     bool       // the first step of a buffer is like all others
	limit     bool       // amsgrad's largest average is ignored
	early     bool       // amsgrad's largest average is the one from before the step
	inverse   bool       // the gradient is multiplied by the scale of the loss
	whole     bool       // the square of the mean is not subtracted from the mean of the squares
	turned    [2]bool    // the average has the correction of the other one
	alone     bool       // with nesterov the gradient is not added to the buffer
	ahead     float64    // the factor of the buffer that nesterov adds to the gradient
	mean      weights    // of the average of the gradient, if the optimizer also averages its updates
	oldMean   bool       // mean's average is the one from before the step
	upper     root       // of the average of the squares of updates
	fresh     bool       // the update uses that average after it was changed
	inverted  bool       // the quotient of the two roots is inverted
	delta     delta
	norm      norm
	turn      turn
	rectified rectification
	still     bool // the number of the step does not grow

	between  between
	cache    cache
	averaged mean
}

// between says how the calls of a step round the values that they pass on: not at all, or to 16 bits.
type between struct {
	unit, least float64 // half a unit in the last place of 1, and the smallest normal number
}

// The largest number of roundings to 16 bits that the calls of a step make of a parameter, its update, and a state.
// Factors that are rounded count, too.
const (
	ofSelf   = 2
	ofUpdate = 12
	ofStates = 5
)

// of is the magnitude of an update, scaled so that one rounding of the parameter covers all roundings of the update.
func (b between) of(size float64) float64 {
	if b.unit == 0 {
		return size
	}
	return max(size, b.least) * ofUpdate / ofSelf
}

// divisor is the divisor of an update, and the factor by which it multiplies the rounding error: see blur.
func (r *rule) divisor(sq, corrected, eps float64) (by, blur float64) {
	of := func(sq float64) float64 { return r.root.of(sq, corrected, eps) }
	return of(sq), r.between.blur(of, sq)
}

// blur is the factor by which the divisor multiplies the rounding error of an update: in 16 bits, an average of
// squares can be nearly zero.
func (b between) blur(divisor func(sq float64) float64, sq float64) float64 {
	off := ofStates * b.unit * b.least
	if off == 0 {
		return 1
	}
	low, high := divisor(max(sq-off, 0)), divisor(sq+off)
	return 1 + (high-low)/low/(ofUpdate*b.unit)
}

// weights are the factors of the old average and of the new value.
type weights struct{ keep, take float64 }

func (w weights) of(old, x float64) float64 { return w.keep*old + w.take*x }

func (w weights) size(old, x float64) float64 {
	return math.Abs(w.keep)*math.Abs(old) + math.Abs(w.take)*x
}

// A root is a formula for the divisor of a step, from the average of squares v, the root of its correction, and eps.
type root int

const (
	rootPlus        root = iota // sqrt(v) + eps
	rootInside                  // sqrt(v + eps)
	rootUncorrected             // eps is corrected, too
	rootBefore                  // sqrt(v + eps), corrected
	rootMissing                 // v + eps
	rootAlone                   // sqrt(v)
	rootLargest                 // max(sqrt(v), eps)
	rootFirst                   // the root of v is corrected as v is due to be
)

func (r root) of(v, correction, eps float64) float64 {
	switch r {
	case rootInside:
		return math.Sqrt(v/correction/correction + eps)
	case rootBefore:
		return math.Sqrt(v+eps) / correction
	case rootUncorrected:
		return (math.Sqrt(v) + eps) / correction
	case rootMissing:
		return v/correction/correction + eps
	case rootAlone:
		return math.Sqrt(v) / correction
	case rootFirst:
		return math.Sqrt(v)/correction/correction + eps
	case rootLargest:
		return max(math.Sqrt(v)/correction, eps)
	}
	return math.Sqrt(v)/correction + eps
}

// A power is the formula for the new term of an average of squares, from the gradient and its average.
type power int

const (
	ofSquare power = iota
	ofAverage
	ofMagnitude
	ofDifference
)

func (p power) of(g, m float64) float64 {
	switch p {
	case ofAverage:
		return m * m
	case ofMagnitude:
		return math.Abs(g)
	case ofDifference:
		return (g - m) * (g - m)
	}
	return g * g
}

// A delta is the formula for the new term of Adadelta's average of squared updates.
type delta int

const (
	deltaSquare    delta = iota // of the update
	deltaGradient               // of the gradient
	deltaTimesRate              // of the update times lr
	deltaMagnitude              // no square, the magnitude of the update
)

func (d delta) of(x, g, rate float64) float64 {
	switch d {
	case deltaGradient:
		return g * g
	case deltaTimesRate:
		return rate * x * rate * x
	case deltaMagnitude:
		return math.Abs(x)
	}
	return x * x
}

// part is times * x. A kernel skips a term whose factor is 0, even if x is infinite.
func part(times, x float64) float64 {
	if times == 0 {
		return 0
	}
	return times * x
}

// decayed is the gradient after weight decay, with its magnitude. Decoupled weight decay shrinks v[0]. decayed sets the
// scales of both.
func (r *rule) decayed(v, s []float64, g float64) (decayed, size float64) {
	s[0], s[1] = math.Abs(v[0]), math.Abs(v[1])
	size = math.Abs(g)*math.Abs(1+r.own) + part(math.Abs(r.coupled), s[0])
	g += part(r.own, g) + part(r.coupled, v[0])
	if !r.after {
		v[0] -= part(r.shrink, v[0])
	}
	return g, size
}

// update subtracts times * x from v[0]. size is the magnitude of x.
func (r *rule) update(v, s []float64, times, x, size float64) {
	if v[0] -= times * x; r.after {
		v[0] -= part(r.shrink, v[0])
	}
	s[0] += math.Abs(times) * r.between.of(size)
}

// A slip is a mistake that turns a sound rule into the rule of a wrong kernel.
type slip struct {
	text string
	with func(r *rule)
}

// mistakable is a step by a sound rule, with the mistakes to try.
func mistakable(step func(rule) (*fusedStep, error), sound rule, slips []slip) (*fusedStep, error) {
	f, err := step(sound)
	if err != nil {
		return nil, err
	}
	for _, s := range slips {
		r := sound
		if s.with(&r); r == sound {
			continue
		}
		f.mistakes = append(f.mistakes, opdef.Mistake[any]{Text: s.text, Plan: func() (any, error) { return step(r) }})
	}
	return f, nil
}

// Mistakes of any optimizer.
var (
	countSlips = []slip{
		{"state_steps is one less", func(r *rule) { r.late = -1 }},
		{"state_steps is one more", func(r *rule) { r.late = 1 }},
	}
	rootSlips = []slip{
		{"eps is added under the root", func(r *rule) { r.root = rootInside }},
		{"the root is not taken", func(r *rule) { r.root = rootMissing }},
		{"eps is not added", func(r *rule) { r.root = rootAlone }},
		{"the larger of eps and the root is taken, not their sum", func(r *rule) { r.root = rootLargest }},
	}
	updateSlips = []slip{
		{"the update is added, not subtracted", func(r *rule) { r.size = -r.size }},
		{"the update is not multiplied by lr", func(r *rule) { r.size = 1 }},
		{"the update is made of the gradient, not of its average", func(r *rule) { r.raw = true }},
	}
)

// averageSlips are the mistakes in the weights of an average, given the weights of the other average.
func averageSlips(k int, name string, other weights) []slip {
	all := []slip{
		{name + " is taken from before the step", func(r *rule) { r.old[k] = true }},
		{name + " does not decay: what is kept of it is not multiplied", func(r *rule) { r.averages[k].keep = 1 }},
		{"what is new in " + name + " is not multiplied", func(r *rule) { r.averages[k].take = 1 }},
		{"what is new in " + name + " is subtracted", func(r *rule) { r.averages[k].take *= -1 }},
		{name + " is replaced by what is new in it", func(r *rule) { r.averages[k].keep = 0 }},
		{"the weights of " + name + " are exchanged", func(r *rule) {
			w := r.averages[k]
			r.averages[k] = weights{w.take, w.keep}
		}},
		{"what is new in " + name + " is multiplied by 1 - what the kept is", func(r *rule) {
			r.averages[k].take = 1 - r.averages[k].keep
		}},
	}
	if other != (weights{}) {
		all = append(all,
			slip{name + " has the weights of the other average", func(r *rule) { r.averages[k] = other }},
			slip{"what is new in " + name + " has its weight in the other average",
				func(r *rule) { r.averages[k].take = other.take }},
			slip{"what is kept of " + name + " has its weight in the other average",
				func(r *rule) { r.averages[k].keep = other.keep }})
	}
	return all
}

// decaySlips are the mistakes of weight decay. It is decoupled if nothing is added to the gradient.
func decaySlips(sound rule, decay, byRate float64) []slip {
	all := []slip{
		{"weight_decay has the wrong sign", func(r *rule) { r.coupled, r.shrink = -r.coupled, -r.shrink }},
		{"weight_decay*grad is added to the gradient, not weight_decay*self", func(r *rule) {
			r.own, r.coupled, r.shrink = decay, 0, 0
		}},
	}
	if sound.shrink != 0 {
		return append(all,
			slip{"weight_decay*self is added to the gradient, as in Adam", func(r *rule) {
				r.coupled, r.shrink = decay, 0
			}},
			slip{"weight_decay is not multiplied by lr", func(r *rule) { r.shrink = decay }},
			slip{"self decays after the step, not before", func(r *rule) { r.after = true }})
	}
	return append(all,
		slip{"self is multiplied by 1 - lr*weight_decay, nothing is added to the gradient", func(r *rule) {
			r.coupled, r.shrink = 0, byRate
		}},
		slip{"self is multiplied by 1 - weight_decay, nothing is added to the gradient", func(r *rule) {
			r.coupled, r.shrink = 0, decay
		}},
		slip{"lr*weight_decay*self is added to the gradient, not weight_decay*self", func(r *rule) {
			r.coupled = byRate
		}})
}
