package step

import (
	"math"
	"slices"

	"github.com/optool/optool/capture"
)

// findHooks finds what hooks of parameters made of the gradients that the backward pass of the step gave: the program
// made these calls while the pass ran, and autograd adds up what they return.
func (s *Step) findHooks() {
	s.hooks = map[uint64]*Value{}
	end := s.backwardEnd()
	for _, c := range s.Tail {
		if c.Entry.Order >= end || c.Entry.Order < 0 {
			continue
		}
		for _, v := range c.Inputs {
			of := v.From.Value
			if of == nil || len(c.Outputs) != 1 || !c.Outputs[0].like(v) {
				continue
			}
			at := uint64(0)
			if of.Kind == capture.GradInputs {
				at = of.argument().Address
			} else {
				for a, made := range s.hooks { // the next hook of the parameter
					if made == of {
						at = a
					}
				}
			}
			if at != 0 {
				s.hooks[at] = c.Outputs[0]
			}
		}
	}
}

// backwardEnd is the place in the order of the recording at which the backward pass reached the last call, also of
// those that checkpointing ran again, -1 if that was not recorded.
func (s *Step) backwardEnd() int {
	return s.last(func(e *capture.Entry) int { return e.BackwardOrder })
}

// last is the largest place in the order of the recording up to the next loss, -1 if none was recorded.
func (s *Step) last(place func(e *capture.Entry) int) int {
	end, next := -1, math.MaxInt
	if all := s.root.Process.Steps; s.Number+1 < len(all) {
		next = all[s.Number+1].root.Entry.Order
	}
	for _, c := range slices.Concat(s.Calls, s.Tail) {
		if at := place(c.Entry); at < next {
			end = max(end, at)
		}
	}
	return end
}

// inBackward reports whether the backward pass made a call: by a kernel of the program's own, or by a hook.
func (c *Call) inBackward() bool {
	return c.phase()%2 == 1 && c.Entry.Order >= 0 && c.Entry.Order < c.Step.gave
}

// hooked reports whether a hook has the gradient of a parameter in one of the losses that its readings belong to.
func hooked(readings []*Value) bool {
	return slices.ContainsFunc(readings, func(r *Value) bool { return r.Call.Step.hooks[r.Address] != nil })
}

// settleHooked links a gradient of a parameter that has hooks, if it is the sum of what they return and of the
// gradients of losses for which they had none. Otherwise it is not known what they did.
func (v *Value) settleHooked(readings []*Value) {
	var parts []*Value
	done := map[*Step]bool{}
	for _, r := range readings {
		s := r.Call.Step
		if made := s.hooks[r.Address]; made == nil {
			parts = append(parts, r.Call.gradientOf(r))
		} else if !done[s] {
			parts, done[s] = append(parts, made), true
		}
	}
	if slices.Contains(parts, nil) {
		return
	}
	if all, ok := sumOf(parts); ok && all.is(v) {
		v.unlink()
		v.From = Link{How: ByContent, Role: "gradient", Parts: parts}
	}
}
