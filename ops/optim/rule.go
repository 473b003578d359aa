package optim

import (
	"math"

	"github.com/optool/optool/ops/opdef"
)

// A rule is the numbers and the forms of a step of an optimizer. Kernels with a mistake have others.
type rule struct {
	size      float64    // lr
	averages  [2]weights // of the gradient and of its square
	coupled   float64    // times self is added to the gradient: weight decay
	own       float64    // times the gradient is added to it
	shrink    float64    // times self is taken away from it: decoupled weight decay
	after     bool       // self shrinks after the step
	root      root
	power     power
	late      float64    // is added to the number of the step
	lateIn    [2]float64 // the same, for the correction of one average
	plain     [2]bool    // the averages are not corrected for having begun as 0
	old       [2]bool    // the update is made of the averages before the step
	raw       bool       // the update is made of the gradient
	again     bool       // the update is made of the average to which the gradient is added once more, as by Nesterov
	first     bool       // the first step of a buffer is as all others
	limit     bool       // amsgrad's largest average is not looked at
	early     bool       // amsgrad's largest average is that before the step
	inverse   bool       // the gradient is multiplied by the scale of the loss
	whole     bool       // the square of the mean is not taken away from that of the squares
	turned    [2]bool    // the average is corrected as the other one is due to be
	alone     bool       // with nesterov the gradient is not added to the buffer
	ahead     float64    // times the buffer is added to the gradient with nesterov
	mean      weights    // of the average of the gradient, where another one is that of the updates
	oldMean   bool       // that average is taken from before the step
	upper     root       // of the average of the squares of updates
	inverted  bool       // the quotient of both roots is upside down
	delta     delta
	norm      norm
	turn      turn
	rectified rectification
	still     bool // the number of the step is not counted up

	between  between
	cache    cache
	averaged mean
}

// between is what the calls that a step is made of do to the values between them: nothing, or they round to 16 bits.
type between struct {
	unit, least float64 // half a unit in the last place of 1, and the smallest normal number
}

// How many roundings to 16 bits the calls of a step may do of what becomes a parameter, of its update, and of a state.
// Numbers count that are rounded before they are multiplied.
const (
	ofSelf   = 2
	ofUpdate = 12
	ofStates = 5
)

// of is the magnitude of an update, as large as all its roundings are in units of those of the parameter.
func (b between) of(size float64) float64 {
	if b.unit == 0 {
		return size
	}
	return max(size, b.least) * ofUpdate / ofSelf
}

// divisor is that of an update by an average, with how many times as many roundings it has because of that: see blur.
func (r *rule) divisor(sq, corrected, eps float64) (by, blur float64) {
	of := func(sq float64) float64 { return r.root.of(sq, corrected, eps) }
	return of(sq), r.between.blur(of, sq)
}

// blur is how many times as many roundings there are of an update because its divisor is made of an average that may
// be next to nothing in few bits.
func (b between) blur(divisor func(sq float64) float64, sq float64) float64 {
	off := ofStates * b.unit * b.least
	if off == 0 {
		return 1
	}
	low, high := divisor(max(sq-off, 0)), divisor(sq+off)
	return 1 + (high-low)/low/(ofUpdate*b.unit)
}

// weights are those of what is kept of an average, and of what is new in it.
type weights struct{ keep, take float64 }

func (w weights) of(old, x float64) float64 { return w.keep*old + w.take*x }

func (w weights) size(old, x float64) float64 {
	return math.Abs(w.keep)*math.Abs(old) + math.Abs(w.take)*x
}

// A root is how the divisor of a step is made of an average of squares, of the root of its correction, and of eps.
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

// A power is what an average of squares is made of, of the gradient and of its average.
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

// A delta is what Adadelta's average of squares of updates is made of.
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

// part is so many times x. A kernel leaves out what it takes 0 times, also where x is infinite.
func part(times, x float64) float64 {
	if times == 0 {
		return 0
	}
	return times * x
}

// decayed is the gradient, with its magnitude, after weight decay, which may shrink v[0], too. It sets the scales of
// both.
func (r *rule) decayed(v, s []float64, g float64) (decayed, size float64) {
	s[0], s[1] = math.Abs(v[0]), math.Abs(v[1])
	size = math.Abs(g)*math.Abs(1+r.own) + part(math.Abs(r.coupled), s[0])
	g += part(r.own, g) + part(r.coupled, v[0])
	if !r.after {
		v[0] -= part(r.shrink, v[0])
	}
	return g, size
}

// update takes so many times x, of that magnitude, away from v[0].
func (r *rule) update(v, s []float64, times, x, size float64) {
	if v[0] -= times * x; r.after {
		v[0] -= part(r.shrink, v[0])
	}
	s[0] += math.Abs(times) * r.between.of(size)
}

// A slip is what a kernel gets wrong of a rule.
type slip struct {
	text string
	with func(r *rule)
}

// mistakable is a step by a sound rule, with the mistakes that it may have.
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

// What any optimizer may get wrong.
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

// averageSlips are what may be wrong with the weights of an average, if the other one has those.
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
		all = append(all, slip{name + " has the weights of the other average",
			func(r *rule) { r.averages[k] = other }})
	}
	return all
}

// decaySlips are what may be wrong with weight decay, which is decoupled if nothing is added to the gradient.
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
