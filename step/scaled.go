package step

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// LossScale is the power of two by which the program multiplied the loss before the backward pass; 1 if it did not.
func (s *Step) LossScale() float64 {
	scale := s.Scale * float64(s.batches) // a third of a scale is rounded
	if power := math.Exp2(math.Round(math.Log2(scale))); power > 1 && math.Abs(scale/power-1) < 1e-6 {
		return power
	}
	return 1
}

// findScaled finds gradients of a scaled loss that an optimizer reads as they are, that were clipped before they were
// divided by the loss scale, or that are larger by the loss scale than what a recorded call left. All that were
// treated alike are one finding.
func (u *updater) findScaled() {
	scale := u.step.LossScale()
	if scale == 1 {
		return
	}
	divided := u.step.dividesBy(scale)
	u.judgeTreated(u.findTreated(scale, divided), scale, divided)
}

// findTreated finds how many times the gradient of the loss, which is scaled, each gradient is that an optimizer reads.
// It blames those that were clipped too early, and those that are larger than what a call left.
func (u *updater) findTreated(scale float64, divided bool) (treated []scaledGradient) {
	seen := map[uint64]bool{}
	for _, c := range u.step.Tail {
		unscales := strings.Contains(c.Op, "unscale_")
		for _, v := range c.Inputs {
			if v.From.How == IsChanged || v.From.first != nil || !v.telling() {
				continue
			}
			if (unscales || !divided) && u.blameClipped(v, scale, unscales) || unscales {
				continue
			}
			at := u.parameter(v)
			if at == 0 || at == v.Address || seen[at] || !u.feeds(v) {
				continue
			}
			if u.blameJumped(v, scale) {
				seen[at] = true
				continue
			}
			parts, ok := u.parts(v, at)
			if !ok || len(parts) != 1 || len(parts[0]) != 1 {
				continue
			}
			if k := v.timesLeft(parts[0][0]) * scale; k > 0 {
				seen[at] = true
				treated = append(treated, scaledGradient{v, parts[0][0], k})
			}
		}
	}
	return treated
}

// blameClipped blames the gradient that a value was clipped from while it was scaled; ok is false if v was not clipped.
func (u *updater) blameClipped(v *Value, scale float64, unscales bool) (ok bool) {
	mul := v.clippedBy()
	if mul == nil {
		return false
	}
	if g := mul.gradientAt(v.Address); g != nil {
		why := "no call divides it by the loss scale (unscale_)"
		if unscales {
			why = v.Call.String() + " divides it by the loss scale later"
		}
		u.blame("clipped", g, g.From.Value, 0, fmt.Sprintf("the gradient is clipped while it is %g times that "+
			"of the loss: %s", scale, why))
	}
	return true
}

// blameJumped blames a value that differs by the loss scale from what a call of the step left there; ok is false if it
// does not.
func (u *updater) blameJumped(v *Value, scale float64) (ok bool) {
	w := v.latest
	if w == nil || w.Kind != outputKind || w.Call.Step != u.step || !w.like(v) {
		return false
	}
	k := v.timesLeft(w)
	if k != scale && k != 1/scale {
		return false
	}
	u.blame("jumped", v, w, k, fmt.Sprintf("it is %g times what %s of %s left, by the loss scale, and no recorded call "+
		"wrote there in between", k, w.Target, w.Call))
	return true
}

// judgeTreated blames gradients that were not divided by the loss scale.
func (u *updater) judgeTreated(treated []scaledGradient, scale float64, divided bool) {
	// Where calls divide gradients, the one that they left out stands beside those that they did not.
	usual, n := usualFactor(treated)
	beside := n > few && 2*n > len(treated)
	for _, x := range treated {
		switch {
		case x.v.Call.given(scale):
		case beside && usual < 1.01 && math.Abs(x.times/usual/scale-1) <= 0.01:
			times := scale
			if math.Abs(usual-1) > 0.01 {
				times = 0 // the norm by which all were clipped is wrong too
			}
			u.blame("scaled", x.v, x.of, times, fmt.Sprintf("it is %.4g times the gradient of the loss, where %d others "+
				"are %.4g times theirs: the loss was multiplied by the loss scale %g, and this one was not divided by it",
				x.times, n, usual, scale))
		case !divided && x.times > 1.01:
			u.blame("scaled", x.v, x.of, x.times, fmt.Sprintf("it is %.4g times the gradient of the loss: the loss was "+
				"multiplied by the loss scale %g, and no call divides the gradients by it (unscale_)", x.times, scale))
		}
	}
}

// blame makes a gradient changed that is so many times too large, 0 if that is not all. Those of one kind are one
// finding.
func (u *updater) blame(kind string, v, from *Value, times float64, reason string) {
	v.right = func(opt Options) (*tensor.Tensor, error) {
		t, err := v.Recorded(opt)
		if err != nil || times == 0 {
			return nil, err
		}
		return plus(t, t, 1/times-1), nil
	}
	v.unlink()
	v.From = Link{How: IsChanged, Value: from}
	from.readers = append(from.readers, v)
	if first := u.blamed[kind]; first != nil {
		first.alike = append(first.alike, v)
		v.From.first = first
	} else {
		u.blamed[kind], v.reason = v, reason
		v.told = slices.Contains([]string{"unzeroed", "clipped"}, kind) || kind == "scaled" && times != 0
	}
	for _, r := range u.again[v] {
		r.From = v.From.again(v)
	}
}

// countBlamed says in each finding how many gradients it is about.
func (u *updater) countBlamed() {
	for _, v := range u.blamed {
		v.countAlike()
	}
}

// countAlike adds to the reason how many other gradients changed in the same way.
func (v *Value) countAlike() {
	gradients := map[uint64]bool{} // an update may read one several times
	for _, w := range append(v.alike, v) {
		gradients[w.Address] = true
	}
	n := len(gradients) - 1
	if v.Address == 0 {
		n = len(v.alike)
	}
	if n > 0 {
		v.reason += "; so " + reports.Plural(n, "is 1 other gradient", "are %d other gradients")
	}
}

// A scaledGradient is a gradient that an update reads, which is so many times the recorded one of the loss in its own
// units.
type scaledGradient struct {
	v, of *Value
	times float64
}

// usualFactor is the factor that most gradients have, and how many have it: 1, or less after clipping.
func usualFactor(all []scaledGradient) (factor float64, n int) {
	var times []float64
	for _, x := range all {
		times = append(times, x.times)
	}
	slices.Sort(times)
	from := 0
	for i, x := range times {
		for times[from] < x/1.01 {
			from++
		}
		if same := i - from + 1; same > n {
			factor, n = times[from], same
		}
	}
	return factor, n
}

// feeds reports whether the call that reads a gradient writes something else with it: state, or the parameter.
func (u *updater) feeds(v *Value) bool {
	return v.Call.writes && v.Call.keeps(v)
}

// times is the factor, below 0 too, by which all samples of v are a sum; 0 if there is none.
func (v *Value) times(sum *addition) float64 {
	if len(sum.sums) != len(v.content.samples) {
		return 0
	}
	most, at := 0.0, -1
	for i, x := range sum.sums {
		if x := math.Abs(x); x > most {
			most, at = x, i
		}
	}
	if at < 0 || most-most != 0 {
		return 0
	}
	k := v.DType.Number(v.content.samples[at]) / sum.sums[at]
	if k == 0 || k-k != 0 {
		return 0
	}
	frac, e := math.Frexp(k)
	if whole := math.Round(2*frac) / 2; math.Abs(frac-whole) < 1e-6 { // a power of two, up to rounding
		k = math.Ldexp(whole, e)
	}
	if scaled := sum.scaled(k, v.DType); !scaled.is(v) {
		return 0
	}
	return k
}

// timesLeft is the factor by which v is what a call left in w; 0 if there is none.
func (v *Value) timesLeft(w *Value) float64 {
	left := w.leftSum()
	return v.times(&left)
}

// leftSum is the samples of what a call left in w, as a sum of one.
func (w *Value) leftSum() (one addition) {
	one.addElements(w.leaves().numbers(w.DType))
	return one
}

// leaves is the content that the call of w left there.
func (w *Value) leaves() *fingerprint {
	if w.after != nil {
		return w.after
	}
	return &w.content
}

// clippedBy is the call behind the loss that multiplied a gradient by a number below 1 that it made of a norm; nil if
// there is none.
func (v *Value) clippedBy() *Call {
	w := v.From.Value
	if w == nil || w.Kind != outputKind || w.Call.phase()%2 == 0 || !strings.Contains(w.Call.Op, "mul") {
		return nil
	}
	for _, u := range w.Call.Inputs {
		if x := u.number(); u.Numel() != 1 || !(x < 1) || u.From.Value == nil {
			continue
		}
		if slices.ContainsFunc(Cone(u.From.Value), func(c *Call) bool {
			return c.phase() == w.Call.phase() && strings.Contains(c.Op, "norm")
		}) {
			return w.Call
		}
	}
	return nil
}

// gradientAt is the input of a call that is a recorded gradient at an address.
func (c *Call) gradientAt(address uint64) *Value {
	for _, v := range c.Inputs {
		if v.Address == address && v.isGradient() && v.From.Value != nil {
			return v
		}
	}
	return nil
}

// dividesBy reports whether a call behind the loss is given a number, or its reciprocal.
func (s *Step) dividesBy(scale float64) bool {
	return slices.ContainsFunc(s.Tail, func(c *Call) bool {
		return !strings.Contains(c.Op, "_amp_update_scale_") && c.given(scale)
	})
}

// given reports whether the call is given a number, or its reciprocal, or would be if it had not changed in memory.
func (c *Call) given(number float64) bool {
	is := func(x float64) bool {
		return math.Abs(x-number) <= 1e-6*number || math.Abs(x*number-1) <= 1e-6
	}
	return slices.ContainsFunc(c.Inputs, func(v *Value) bool {
		was := v.From.Value
		return v.Numel() == 1 && (is(v.number()) || v.From.How == IsChanged && was.Numel() == 1 && is(was.number()))
	}) ||
		slices.ContainsFunc(c.attributes, func(a attribute) bool {
			x, err := strconv.ParseFloat(a.text, 64)
			return err == nil && is(x)
		})
}

// skipped reports whether the gradients of a step overflowed at its loss scale, the program noticed (GradScaler's
// found_inf), and no call updated parameters with them. Nothing is wrong with such a step.
func (s *Step) skipped() bool {
	noticed := false
	for _, c := range s.Tail {
		if !strings.Contains(c.Op, "non_finite_check_and_unscale_") {
			continue
		}
		for _, v := range c.Inputs {
			if v.Numel() != 1 {
				continue
			}
			f := v.after
			for _, o := range c.Outputs {
				if o.Address == v.Address {
					f = &o.content
				}
			}
			if f != nil && len(f.samples) == 1 && v.DType.Number(f.samples[0]) == 1 {
				noticed = true
			}
		}
	}
	if !noticed {
		return false
	}
	parameters := map[uint64]bool{}
	for _, c := range s.Calls {
		for _, v := range c.Inputs {
			if v.RequiresGrad && v.Address != 0 && v.From.Value == nil {
				parameters[v.Address] = true
			}
		}
	}
	return !slices.ContainsFunc(s.Tail, func(c *Call) bool {
		return slices.ContainsFunc(c.Inputs, func(v *Value) bool {
			return parameters[v.Address] && v.RequiresGrad && (v.after != nil && v.after.sum != v.content.sum ||
				slices.ContainsFunc(c.Outputs, func(o *Value) bool { return o.Address == v.Address && !o.equals(v) }))
		})
	})
}

// overflows reports whether a value that is not finite is one of those that a skipped step has: gradients, the scaled
// loss, and what the calls behind the loss make of them.
func (s *Step) overflows(c *Call, backward bool) bool {
	return (backward || c == s.root && c != s.Loss || c.phase()%2 == 1)
}

// overflowed reports whether all that is wrong with a call of a skipped step are gradients that became infinite where
// they would be near the largest number of the dtype: a sum overflows on the way there. It is the worst element that
// tells: what is infinite elsewhere, or NaN, is further off.
func (c *Call) overflowed() bool {
	fails := 0
	for _, r := range c.Results {
		if r.Verdict == verdict.Fail {
			fails++
		}
	}
	if fails == 0 {
		return false
	}
	for _, x := range c.Checks {
		if x.Verdict != verdict.Fail {
			continue
		}
		got, ok := x.Actual.(float64)
		want, ok2 := x.Expected.(float64)
		if !ok || !ok2 || x.Phase != replay.Backward || !math.IsInf(got, 0) || math.Abs(want) < c.DType().Max()/4 {
			return false
		}
		fails--
	}
	return fails == 0
}

// Skipped are the steps that are skipped for an overflow. A step with a wrong call is none, nor one in which a call
// reads a changed value and has values that are not finite: these may be the fault. A loss that is not finite itself
// did not overflow at the loss scale.
func (t *Trace) Skipped() (out []*Step) {
	faulty := func(c *Call) bool {
		return c.Verdict == verdict.Fail && !c.overflowed() || c.notFinite != nil &&
			slices.ContainsFunc(c.Inputs, func(v *Value) bool { return v.From.How == IsChanged && !v.refilled() })
	}
	for _, p := range t.Processes {
		for _, s := range p.Steps {
			finite := s.Captured-s.Captured == 0
			if finite && s.skipped() && !slices.ContainsFunc(slices.Concat(s.Calls, s.Tail), faulty) {
				out = append(out, s)
			}
		}
	}
	return out
}
