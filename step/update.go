package step

import (
	"fmt"
	"maps"
	"slices"

	"github.com/optool/optool/capture"
)

// An updater follows what the calls behind a loss make of gradients: which parameter they write.
type updater struct {
	step       *Step
	parameters map[uint64][]*Value // readings in the forward pass, by address
	known      map[*Value]uint64   // the parameter that a value is used to write
	again      map[*Value][]*Value // further readings of an input behind the loss
	lines      map[line][]*Call    // the calls behind the loss by where the program makes them
	blamed     map[string]*Value   // the first of changed gradients of one kind
	gradients  map[uint64][]*Value // recorded gradients behind the loss, by the parameter that they are used to write
	updates    bool                // a call behind the loss writes a parameter
	writes     map[uint64]*Call    // the first calls behind the loss that write, by address
	since      map[uint64][]*Value // readings of parameters since each was last written, by address
	shared     sharedMemory
}

// sharedMemory are the parameters that lay at one address in turn, as those do that FSDP gathers before each call: the
// readings of each that differ, by address.
type sharedMemory map[uint64][][]*Value

// note notes a reading of a parameter. Names under which the same elements were read there are of one parameter.
func (m sharedMemory) note(v *Value) {
	one := []*Value{v}
	var others [][]*Value
	for _, readings := range m[v.Address] {
		switch {
		case !slices.ContainsFunc(readings, v.sameParameter):
			others = append(others, readings)
		case slices.ContainsFunc(readings, func(w *Value) bool { return w.named == v.named && w.equals(v) }):
			return
		default:
			one = append(readings, one...)
		}
	}
	m[v.Address] = append(others, one)
}

// key is the address of a parameter, or another number where several lay there: that of none if v does not tell.
func (m sharedMemory) key(v *Value) uint64 {
	if len(m[v.Address]) > 1 {
		for i, readings := range m[v.Address] {
			if slices.ContainsFunc(readings, func(w *Value) bool {
				return v.named != "" && w.named == v.named || v.equals(w)
			}) {
				return ^v.Address - uint64(i) // no memory lies there
			}
		}
	}
	return v.Address
}

// sameParameter reports whether readings at one address are of one parameter, as far as they tell.
func (v *Value) sameParameter(w *Value) bool {
	return v.named == w.named || v.named == "" || w.named == "" || v.equals(w)
}

// A line is where the program makes calls of an operator.
type line struct {
	op string
	site
}

func newUpdater(s *Step, parameters map[uint64][]*Value, shared sharedMemory) *updater {
	u := &updater{step: s, parameters: parameters, shared: shared, known: map[*Value]uint64{},
		again: map[*Value][]*Value{}, lines: map[line][]*Call{}, blamed: map[string]*Value{}}
	for _, c := range s.Tail {
		at := line{c.Op, c.place()}
		u.lines[at] = append(u.lines[at], c)
		for _, v := range c.Inputs {
			if first := v.From.first; first != nil {
				u.again[first] = append(u.again[first], v)
			}
		}
	}
	return u
}

// parameter is the address of the parameter that is written with an input of an optimizer's call: its own, or that of
// what the calls make of it element by element. Lists are followed place by place. 0 if there is none.
func (u *updater) parameter(v *Value) uint64 {
	if at, ok := u.known[v]; ok {
		return at
	}
	seen := map[*Value]bool{v: true}
	at := uint64(0)
	for todo := append([]*Value{v}, u.again[v]...); len(todo) > 0 && at == 0; todo = todo[1:] {
		for _, w := range todo[0].Call.madeOf(todo[0]) {
			if k := u.shared.key(w); u.parameters[k] != nil {
				at = k
				break
			}
			for _, r := range w.readers {
				if !seen[r] && r.Kind == inputKind && r.Call.Step == u.step && r.Call.phase()%2 == 1 {
					seen[r] = true
					todo = append(todo, r)
				}
			}
		}
	}
	u.known[v] = at
	return at
}

// madeOf lists what a call makes of an input element by element: results, and arguments that it changes.
func (c *Call) madeOf(v *Value) (out []*Value) {
	for _, vs := range [...][]*Value{c.Inputs, c.Outputs} { // a fused update has many, and each is asked for
		for _, w := range vs {
			if (w.Kind == outputKind || w.after != nil) && (w.item == v.item || w.item < 0 || v.item < 0) &&
				sameShape(w.Shape, v.Shape) {
				out = append(out, w)
			}
		}
	}
	return out
}

// checkUpdates looks at what optimizers read: gradients that lack those of a loss, gradients of other parameters than
// those that they write, and state that is not what the step before left.
func (p *Process) checkUpdates(opt Options) {
	all := p.updaters()
	l := losses{whole: map[cycle]bool{}, have: map[*Step]bool{}}
	again := map[*Value][]*Value{}
	for _, u := range all {
		l.add(u)
		maps.Copy(again, u.again)
	}
	l.settle(again)
	written := p.updated()
	for i, u := range all {
		u.releaseKept(written)
		u.findScaled()
		for _, c := range u.step.Tail {
			for _, v := range c.Inputs {
				u.checkGradient(v)
			}
		}
		u.findMultiples()
		u.findUnzeroed(all[:i], opt)
		u.countBlamed()
		for _, c := range u.step.Tail {
			for _, v := range c.Inputs {
				u.checkState(v)
			}
		}
	}
	findUncompared(all)
}

// updated are the addresses that calls behind a loss write in place.
func (p *Process) updated() map[uint64]bool {
	written := map[uint64]bool{}
	for _, s := range p.Steps {
		for _, c := range s.Tail {
			for _, v := range c.Inputs {
				if c.returns(v) {
					written[v.Address] = true
				}
			}
		}
	}
	return written
}

// releaseKept takes back that gradients changed whose parameters no recorded call writes, where calls write others. An
// optimizer does not have them and so does not set their gradients to zero: they hold what earlier backward passes
// left.
func (u *updater) releaseKept(written map[uint64]bool) {
	some := false
	for at := range u.parameters {
		some = some || written[at]
	}
	if !some {
		return
	}
	for _, c := range u.step.Tail {
		for _, v := range c.Inputs {
			of := v.From.Value
			if v.From.How != IsChanged || v.From.first != nil || of == nil {
				continue
			}
			if of.Kind == capture.GradInputs {
				of = of.argument()
			}
			if u.parameters[of.Address] == nil || of.Address == v.Address || written[of.Address] {
				continue
			}
			v.unlink()
			v.From, v.reason, v.kept = Link{How: IsOutside, Role: "gradient"}, "", true
			for _, r := range u.again[v] {
				r.unlink()
				r.From, r.kept = v.From.again(v), true
			}
		}
	}
}

// updaters are those of all steps, each with the readings of parameters since the last update whose gradients a
// backward pass gave before the update.
func (p *Process) updaters() (all []*updater) {
	var pending []*Value
	since, shared, readings := map[uint64][]*Value{}, sharedMemory{}, p.parameterReadings()
	for _, v := range slices.Concat(readings...) {
		shared.note(v)
	}
	for i, of := range readings {
		s := p.Steps[i]
		pending = append(pending, of...)
		writes := s.firstWrites()
		parameters := map[uint64][]*Value{}
		var later []*Value
		for _, v := range pending {
			if w := writes[v.Address]; w != nil && !v.gaveBefore(w) {
				later = append(later, v)
			} else {
				at := shared.key(v)
				parameters[at] = append(parameters[at], v)
			}
		}
		for _, v := range of {
			since[shared.key(v)] = append(since[shared.key(v)], v)
		}
		u := newUpdater(s, parameters, shared)
		u.writes, u.since = writes, maps.Clone(since)
		for at, w := range writes {
			if since[at] != nil {
				since[at] = slices.DeleteFunc(slices.Clone(since[at]), func(v *Value) bool { return v.gaveBefore(w) })
			}
		}
		u.updates = slices.ContainsFunc(pending, func(v *Value) bool { return writes[v.Address] != nil })
		switch {
		case s.skipped(): // the program sets gradients to zero as behind an update
			pending, since = nil, map[uint64][]*Value{}
		case u.updates:
			pending = later
		}
		all = append(all, u)
	}
	return all
}

// firstWrites are the first calls behind the loss that write in place, by the address of what they write.
func (s *Step) firstWrites() map[uint64]*Call {
	writes := map[uint64]*Call{}
	for _, c := range s.Tail {
		for _, v := range c.Inputs {
			if c.writes && writes[v.Address] == nil && c.returns(v) {
				writes[v.Address] = c
			}
		}
	}
	return writes
}

// parameterReadings are the readings of parameters by the calls whose gradients a loss gave, by loss. Those are the
// calls up to it, but for those that only a later loss depends on: a generator runs before the discriminator's loss.
func (p *Process) parameterReadings() [][]*Value {
	const before = 3 // steps that a loss depends on beside its own
	loss := map[*Call]int{}
	roots := make([]*Call, len(p.Steps))
	for i, s := range p.Steps {
		roots[i] = s.root
	}
	for i, s := range p.Steps {
		for c := range leadingTo(s.root, p.Steps[max(0, i-before)].Calls[0].Order) {
			if _, had := loss[c]; !had {
				loss[c] = i
			}
		}
	}
	out := make([][]*Value, len(p.Steps))
	inner := map[*Call][]*Call{} // the calls with gradients that a call makes
	for _, c := range p.Calls {
		for o := c.outer; o != nil && c.HasBackward(); o = o.outer {
			inner[o] = append(inner[o], c)
		}
	}
	for i, s := range p.Steps {
		for _, c := range slices.Concat(s.Calls, s.Tail) { // those behind the loss ran again for a checkpoint
			of := c.reached(roots)
			if at, ok := loss[c]; of < 0 && ok {
				of = at
			} else if of < 0 {
				of = i
			}
			for _, v := range c.Inputs {
				if c.HasBackward() && v.isParameter() && v.Address != 0 && !v.givenTwice(inner[c]) {
					out[of] = append(out[of], v)
				}
			}
		}
	}
	return out
}

// givenTwice reports whether the gradient of a parameter through the call is that through another one, too: one that
// made the call, if that was judged, or else one of those that the call made. So is that within the backward pass of
// another call which gives it.
func (v *Value) givenTwice(inner []*Call) bool {
	if v.giver() != nil {
		return true
	}
	reads := func(c *Call) bool {
		return c.HasBackward() && slices.ContainsFunc(c.Inputs, func(u *Value) bool { return u.Address == v.Address })
	}
	for o := v.Call.outer; o != nil; o = o.outer {
		if o.judged() && reads(o) {
			return true
		}
	}
	return !v.Call.judged() && slices.ContainsFunc(inner, reads)
}

// leadingTo are the calls with gradients, from a place in the order on, that a loss was computed from.
func leadingTo(root *Call, from int) map[*Call]bool {
	found := map[*Call]bool{root: true}
	for todo := []*Call{root}; len(todo) > 0; {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, v := range c.Inputs {
			w := v.From.origin()
			if w != nil && v.RequiresGrad && !found[w.Call] && w.Call.HasBackward() && w.Call.Order >= from {
				found[w.Call] = true
				todo = append(todo, w.Call)
			}
		}
	}
	return found
}

// isParameter reports whether an input of a forward pass is a parameter: no call of the pass made it, or the recorder
// says so. Where a recording begins, calls that belong to the step before may write one.
func (v *Value) isParameter() bool {
	w := v.From.Value
	if v.From.Role == "collective" && v.named == "" && !v.Parameter {
		return false // what other ranks gave
	}
	return v.RequiresGrad && (v.Parameter || w == nil || w.Call.phase()%2 == 1 && w.Call.phase() != v.Call.phase() ||
		w.Call.Step != v.Call.Step && w.viewsParameter())
}

// viewsParameter reports whether a result is a view of a whole parameter. What lies there in a later step is the
// parameter: its backward pass does not go through the view of this one.
func (w *Value) viewsParameter() bool {
	if w.Kind != outputKind || w.Address == 0 || w.Call.writes {
		return false
	}
	return slices.ContainsFunc(w.Call.Inputs, func(u *Value) bool {
		return u.Address == w.Address && u.equals(w) && u.isParameter()
	})
}

// checkGradient decides about an input that equals a recorded gradient: whether it is one of the parameter that is
// written with it.
func (u *updater) checkGradient(v *Value) {
	g := v.From.Value
	switch {
	case v.From.How == IsChanged || v.From.Role == "collective" || v.From.first != nil || !v.DType.IsFloat():
		return
	case g == nil:
	case g.Kind != capture.GradInputs && g.Call.inBackward() && !v.Call.inBackward(): // a function's own
	case g.Kind != capture.GradInputs || v.From.How != ByContent:
		return
	}
	of, at := uint64(0), u.parameter(v)
	if g != nil && g.Kind == capture.GradInputs {
		of = u.shared.key(g.argument())
	}
	if at == 0 || of == at {
		return
	}
	var own *Value
	for _, r := range u.parameters[at] {
		w := r.Call.gradientOf(r)
		if w == nil || !w.like(v) {
			continue
		}
		if own = w; w.equals(v) {
			v.unlink()
			v.From = Link{How: ByContent, Value: w}
			w.readers = append(w.readers, v)
			return
		}
	}
	if (g == nil || v.Numel() == 1) && own != nil && explained(v, u.parameters[at]) { // of several calls, added up
		v.From.How, v.From.Role, v.From.view = ByContent, "gradient", nil
		for _, r := range u.again[v] {
			r.From = v.From.again(v)
		}
		return
	}
	if g == nil || own == nil || u.parameters[of] == nil || v.Numel() <= few && v.Numel() > 1 || !v.tellsNumber() {
		return
	}
	v.unlink()
	v.From = Link{How: IsChanged, Value: own}
	v.reason = fmt.Sprintf("it is %s of %s, the gradient of another parameter than the one that is updated with it, whose "+
		"gradient is %s of %s", g.Target, g.Call, own.Target, own.Call)
	own.readers = append(own.readers, v)
}

// checkState decides about an input that is not what the step before left at its address. Where that was zero, a
// backward pass may have added gradients since.
func (u *updater) checkState(v *Value) {
	if v.From.How == IsChanged || v.From.first != nil || v.From.written || v.From.Role == "collective" ||
		!v.DType.IsFloat() {
		return
	}
	was := v.lay()
	if was == nil || was.Call.phase()%2 == 0 || was.Call.Step == v.Call.Step || !was.made() || was.leaves().zero() ||
		!v.mayBeTensorOf(was) || !u.isState(v, was.Call.Step) || u.holdsGradients(v) ||
		!v.Call.writes && v.Call.inBackward() { // a backward pass reads what it saved
		return
	}
	v.unlink()
	old := v.From.Value
	v.From = Link{How: IsChanged, Value: was}
	switch {
	case old != nil:
		v.reason = fmt.Sprintf("it holds what %s of %s has, not what the step before left in %s of %s, and no recorded "+
			"call wrote there in between", old.Target, old.Call, was.Target, was.Call)
	case was.after != nil:
		v.reason = fmt.Sprintf("it is not what the step before left in %s of %s, and no recorded call wrote there in between",
			was.Target, was.Call)
	}
	was.readers = append(was.readers, v)
}

// mayBeTensorOf reports whether torch's counts of writes let v be the tensor of w with no recorded write in between.
// Where a count was not recorded, it may. Another name of the memory, such as x.data, may have a count of its own: what
// is written by it leaves that of x.
func (v *Value) mayBeTensorOf(w *Value) bool {
	if v.version < 0 || w.version < 0 || v.isUncounted(w) {
		return true
	}
	for u := w.overwrote(); u != nil && u.From.Value != nil; u = u.From.Value.overwrote() {
		if of := u.From.Value.namedAnew(); of != nil {
			return of.version == v.version
		}
	}
	return false
}

// isState reports whether v is state that an optimizer keeps from one step to the next: an earlier step read it at the
// same place of the same operator, and it is no gradient. A recorded call made it then, or the parameter that is
// written with it has its gradient elsewhere. New state was only made in the step before: then most others that are
// written with it are kept.
func (u *updater) isState(v *Value, before *Step) bool {
	kept := v.Call.leavesState(v)
	if v.isGradient() {
		if !kept || !u.hasGradientBeside(v) { // it lies where the step before had something else
			return false
		}
		kept = false
	}
	kept = kept && u.isKept(v, before)
	var first *Value
	same := false
	for _, w := range before.tailAt[v.Address] {
		if !w.like(v) {
			continue
		}
		if first == nil {
			first = w
		}
		same = same || w.Call.Op == v.Call.Op && w.Target == v.Target
	}
	switch {
	case !same:
		return kept && v.telling()
	case kept:
		return true
	}
	if w := first.From.Value; w != nil {
		return (w.Kind == outputKind || w.after != nil) && first.From.How != IsChanged
	}
	return u.hasGradientBeside(v)
}

// hasGradientBeside reports whether the parameter that is written with v has its gradient at another address.
func (u *updater) hasGradientBeside(v *Value) bool {
	at := u.parameter(v)
	return at != 0 && at != v.Address && slices.ContainsFunc(u.gradientsOf(at), func(g *Value) bool {
		return g.Address != v.Address && g.isGradient()
	})
}

// gradientsOf are the recorded gradients with which the calls behind the loss write the parameter at an address.
func (u *updater) gradientsOf(at uint64) []*Value {
	if u.gradients == nil {
		u.gradients = map[uint64][]*Value{}
		for _, c := range u.step.Tail {
			for _, v := range c.Inputs {
				if v.isGradient() {
					u.gradients[u.parameter(v)] = append(u.gradients[u.parameter(v)], v)
				}
			}
		}
	}
	return u.gradients[at]
}

// isKept reports whether v is one of many values that a list, or a line of the program, writes in each step, and most
// of the others are as the step before left them: averages of weights, say.
func (u *updater) isKept(v *Value, before *Step) bool {
	kept, other := 0, 0
	count := func(w *Value) {
		if w == v || !w.DType.IsFloat() || w.content.plain || !w.Call.leavesState(w) {
			return
		}
		if from := w.From.Value; from != nil && from.Call.Step == before && from.Call.phase()%2 == 1 &&
			w.From.How != IsChanged {
			kept++
		} else {
			other++
		}
	}
	switch {
	case v.item >= 0:
		for _, w := range v.Call.Inputs {
			if w.item >= 0 {
				count(w)
			}
		}
	case v.Call.Entry.Location != "":
		for _, c := range u.lines[line{v.Call.Op, v.Call.place()}] {
			if w := c.Value(v.Target); w != nil && c != v.Call {
				count(w)
			}
		}
	}
	return kept > few && kept > 3*other
}

// holdsGradients reports whether calls behind the loss write parameters with parts of the memory of a value, which they
// only read: it is a bucket of gradients.
func (u *updater) holdsGradients(v *Value) bool {
	return slices.ContainsFunc(u.step.Tail, func(c *Call) bool {
		return slices.ContainsFunc(c.Inputs, func(x *Value) bool {
			return v.Address <= x.Address && x.end() <= v.end() && x.Numel() < v.Numel() &&
				u.feeds(x) && !c.returns(x) && u.parameter(x) != 0
		})
	})
}

// isGradient reports whether an input of an optimizer is known to be a gradient.
func (v *Value) isGradient() bool {
	w := v.From.Value
	return v.From.Role == "gradient" || w != nil && w.Kind == capture.GradInputs
}
