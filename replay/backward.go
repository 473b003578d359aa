package replay

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// compareGradients computes and compares the recorded gradients.
func (r *comparison) compareGradients() {
	saved := flatten(r.Record.GradInputs)
	r.values.RecordedGradInputs, r.values.RecordedGradOutputs = r.Record.GradInputs, r.Record.GradOutputs
	skip := func(reason string) {
		r.addPhase(Backward, verdict.Skipped, reason)
	}
	for i, v := range r.Record.GradInputs {
		if seq, ok := v.(*value.Sequence); ok && !r.pair {
			r.addPhase(Backward, verdict.Fail, fmt.Sprintf("gradient %d was recorded in a sequence of %d", i,
				len(seq.Items)))
			return
		}
	}
	if r.bound.Random() != "" && !r.shown {
		if !r.judgeDrawn(saved) {
			skip(r.bound.Random())
		}
		return
	}
	out, reason := r.recordedGradOutputs()
	if reason != "" {
		skip(reason)
		return
	}
	for i, t := range out {
		if t != nil {
			out[i] = r.altered(causes.Incoming, t)
		}
	}
	if r.Record.ByOpTools {
		r.compareReceived(saved, out)
	} else if r.hasGradient() {
		if targets, ok := r.perTensor(saved); ok {
			r.compareTargets(saved, targets, out)
		}
	}
}

// compareTargets compares recorded gradients with those of arguments, an Arg without tensor where
// there is nothing to compare.
func (r *comparison) compareTargets(saved []value.Value, targets []opdef.Arg, out []*tensor.Tensor) {
	need := map[string]bool{}
	r.arguments = argumentsOf(targets)
	for _, a := range targets {
		if a.Tensor != nil {
			need[a.Name] = true
		}
	}
	grads, err := r.gradientsOf(saved, targets, out, need)
	if err != nil {
		r.addPhase(Backward, verdict.Error, err.Error())
		return
	}
	kept := r.keeping(r.bound, r.fwd, out, need)
	r.values.GradInputs = make([]value.Value, len(saved))
	for i, a := range targets {
		if a.Tensor == nil {
			continue
		}
		k := max(a.Index, 0)
		want := gradient(grads, a)
		got, ok := saved[i].(*tensor.Tensor)
		if !ok || want == nil {
			r.compareMissing(saved, targets, i, want)
			continue
		}
		r.values.GradInputs[i] = want
		l, arg := leaf(Backward, "grad", i, len(saved)), r.recorded(a.Tensor)
		if r.sampler != nil {
			want, precision := r.gradientAs(got, want, arg.DType)
			r.compareSampled(l, got, want, r.sampler.gradient(a, out), precision)
			continue
		}
		res := r.compareGradient(l, got, r.altered(l.target, want), arg.DType,
			r.bound.GradBound(r.fwd, out, grads, a.Name, k))
		r.orOfKept(res, kept, func(c *opdef.Call, grads opdef.Grads) *Result {
			return r.compareGradient(l, got, grads[a.Name][k], arg.DType, c.GradBound(r.fwd, out, grads, a.Name, k))
		})
	}
}

// argumentsOf are the arguments whose gradients are compared, by the targets of these.
func argumentsOf(targets []opdef.Arg) map[string]opdef.Arg {
	out := map[string]opdef.Arg{}
	for i, a := range targets {
		if a.Tensor != nil {
			out[gradTarget(i)] = a
		}
	}
	return out
}

// nameGradients says of each gradient whose it is, and of those that did not pass the name of the parameter.
func (r *comparison) nameGradients() {
	for i := range r.out.Results {
		res := &r.out.Results[i]
		if a, ok := r.arguments[res.Target]; ok && res.Phase == Backward {
			if res.Argument = a.Name; res.Verdict != verdict.Pass {
				res.Parameter = r.Record.ParameterName(r.recorded(a.Tensor))
			}
		}
	}
}

// keeping is the call whose results are the given ones, since those are what autograd kept, and its gradients; nil
// where there is no such call. It is computed when it is needed.
func (r *comparison) keeping(c *opdef.Call, f *opdef.Forward, out []*tensor.Tensor,
	need map[string]bool) func() (*opdef.Call, opdef.Grads) {
	return sync.OnceValues(func() (*opdef.Call, opdef.Grads) {
		none := !slices.ContainsFunc(r.given, func(t *tensor.Tensor) bool { return t != nil })
		if none || r.givenWrong && r.mistaken {
			return nil, nil
		}
		c := c.From(r.given)
		grads, err := c.Backward(f, out, need)
		if err != nil {
			return nil, nil
		}
		return c, grads
	})
}

// orOfKept compares a gradient, the last of the results, once more if it is not right: with that of the call whose
// results are the given ones. It is no worse than that, and no better where it reads them. Where a given result is
// wrong, the gradient is not right either, but may follow from it.
func (r *comparison) orOfKept(res *Result, kept func() (*opdef.Call, opdef.Grads),
	again func(c *opdef.Call, grads opdef.Grads) *Result) {
	if res.Verdict != verdict.Fail && res.Verdict != verdict.Warn || r.alter != nil {
		return
	}
	c, grads := kept()
	if c == nil {
		return
	}
	n := len(r.out.Results)
	was := r.out.Results[n-1]
	better := *again(c, grads)
	better.Witness = was.Witness
	r.out.Results = r.out.Results[:n]
	switch {
	case !r.givenWrong:
		if r.glance == nil && better.Verdict == verdict.Fail && c.ReadsResults() { // nothing else excuses it
			r.out.Results[n-1] = better
		} else if verdict.Worse(was.Verdict, better.Verdict) != better.Verdict {
			r.out.Results[n-1] = better
		}
	case better.Verdict == verdict.Pass && r.glance == nil:
		at := &r.out.Results[n-1]
		at.Follows = true
		if at.Verdict == verdict.Warn {
			at.Reason = fmt.Sprintf("%d of %d elements are off by more than rounding", at.Compared.Loose,
				at.Compared.Numel)
		}
		at.Reason += "; " + followsFromResult
	}
}

// followsFromResult is what is said of a gradient that is right for the result that was given.
const followsFromResult = "it follows from the result that is wrong: for that result it is right"

// gradient is that of an argument; nil: none flows to it.
func gradient(grads opdef.Grads, a opdef.Arg) *tensor.Tensor {
	if list, k := grads[a.Name], max(a.Index, 0); k < len(list) {
		return list[k]
	}
	return nil
}

// compareMissing judges gradient i where none was recorded, or where none flows to its argument: want is nil.
func (r *comparison) compareMissing(saved []value.Value, targets []opdef.Arg, i int, want *tensor.Tensor) {
	a, l := targets[i], leaf(Backward, "grad", i, len(saved))
	got, ok := saved[i].(*tensor.Tensor)
	switch {
	case ok:
		r.add(l, verdict.Fail, fmt.Sprintf("a gradient of %q was recorded, but none flows to it", a.Name), got)
	case want == nil:
	case r.givenTwice(targets, i, saved):
		r.add(l, verdict.Skipped, "the tensor was given for several arguments, and no gradient of it was recorded",
			want)
	case a.Name != r.bound.Entry.Copied && !zeros(want):
		arg := r.recorded(a.Tensor)
		r.add(l, verdict.Fail, fmt.Sprintf("None was recorded, want the gradient of %q, %s", a.Name,
			tensor.ShapeString(arg.Shape)), arg)
	}
}

// gradientsOf computes the gradients that are needed. That one of an argument was recorded says
// that it required one, whatever the recorder kept of it: targets are then of a call that has it so.
func (r *comparison) gradientsOf(saved []value.Value, targets []opdef.Arg, out []*tensor.Tensor,
	need map[string]bool) (opdef.Grads, error) {
	grads, err := r.backward(out, need)
	if err != nil {
		return nil, err
	}
	detached := map[*tensor.Tensor]*tensor.Tensor{}
	for i, a := range targets {
		if _, ok := saved[i].(*tensor.Tensor); !ok || a.Tensor == nil || a.Tensor.RequiresGrad {
			continue
		}
		if g, k := grads[a.Name], max(a.Index, 0); r.sampler != nil || k >= len(g) || g[k] == nil {
			t := *a.Tensor
			t.RequiresGrad = true
			detached[a.Tensor] = &t
		}
	}
	if len(detached) == 0 {
		return grads, nil
	}
	way := reading{original: map[*tensor.Tensor]*tensor.Tensor{}, alter: r.alter}
	way.call = r.bound.Map(func(a opdef.Arg) *tensor.Tensor {
		t, ok := detached[a.Tensor]
		if !ok {
			t = a.Tensor
		}
		if o := r.recorded(a.Tensor); o != t {
			way.original[t] = o
		}
		return t
	})
	call := r.readAs(way)
	if err := call.start(); err != nil {
		return nil, err
	}
	r.Call = call
	for i, a := range targets {
		if t, ok := detached[a.Tensor]; ok {
			targets[i].Tensor = t
		}
	}
	return r.backward(out, need)
}

// compareReceived compares what op_tools recorded: what the last autograd node of the result
// received. Which node that is differs between versions of torch, devices and settings, so it is
// compared as what each node that may be the last received, and the first of these counts that does
// not fail. Autograd sees to the shapes: gradients in others are no wrong ones of these nodes, but those of a
// node that is not known.
func (r *comparison) compareReceived(saved []value.Value, out []*tensor.Tensor) {
	node, composed, err := r.node(out)
	several := composed || r.bound.Entry.Composite
	why := node.Skip
	switch {
	case err != nil:
		why = err.Error()
	case why == "" && len(tensorsOf(saved)) == 0 && (several || !r.bound.Entry.HasGrad):
		why = verdict.NoGradient
	}
	if why != "" {
		r.addPhase(Backward, verdict.Skipped, why)
		return
	}
	nodes := append([]opdef.Node{node}, node.Else...)
	var ways, weak []func()
	if composed {
		ways, weak = r.nodeWays(nodes, saved, out)
	}
	misfit, known := "", len(ways)+len(weak) > 0 // not the gradients of the arguments alone
	if r.bound.Entry.HasGrad {
		targets, no := r.align(saved, out)
		if misfit = no; misfit == "" && !(several && r.converted(saved, targets)) {
			ways = append(ways, func() { r.compareTargets(saved, slices.Clone(targets), out) })
		}
	}
	ways = append(ways, weak...)
	if r.firstSound(ways) {
		return
	}
	if several {
		if n, ok := viewed(saved, out); ok {
			r.compareNode(n, out, saved)
			return
		}
	}
	if known || len(ways) > 0 && (!r.bound.Entry.Composite || r.ofArguments(saved, out)) {
		r.nearest(ways)
		return
	}
	r.reportMisfit(saved, nodes, several, misfit)
}

// ofArguments reports whether gradients that fit the arguments of a call of several operators cannot be those of the
// last of these: that gives another number of them, or its first one is known, or it is a view (see viewed), or there
// are too many, or of too many shapes.
func (r *comparison) ofArguments(saved []value.Value, out []*tensor.Tensor) bool {
	if e := r.bound.Entry; e.LastTakes > 0 && len(saved) != e.LastTakes {
		return true
	} else if e.LastTimes != "" {
		return !r.isTimes(saved, out, e.LastTimes)
	} else if e.LastView || len(tensorsOf(saved)) > mostTaken {
		return true
	}
	var shapes [][]int
	for _, v := range saved {
		t, ok := v.(*tensor.Tensor)
		if ok && !slices.ContainsFunc(shapes, func(s []int) bool { return slices.Equal(s, t.Shape) }) {
			shapes = append(shapes, t.Shape)
		}
	}
	return len(shapes) >= manyShapes
}

// mostTaken is how many gradients one operator gives at most that others are composed of.
const mostTaken = 3

// manyShapes is how many shapes gradients have that are those of the arguments, and not of one operator.
const manyShapes = 3

// isTimes reports whether the first recorded gradient may be the incoming one times an argument.
func (r *comparison) isTimes(saved []value.Value, out []*tensor.Tensor, name string) bool {
	var by *tensor.Tensor
	for _, a := range r.bound.Tensors() {
		if a.Name == name {
			by = a.Tensor
		}
	}
	got, ok := saved[0].(*tensor.Tensor)
	if !ok || by == nil || len(out) == 0 || out[0] == nil || !slices.Equal(got.Shape, out[0].Shape) {
		return true
	}
	factor, err := by.Expand(got.Shape...)
	if err != nil {
		return true
	}
	made := opdef.Zip(tensor.Float64, out[0], factor, func(g, w float64) float64 { return g * w })
	x, y := causes.Pieces(got), causes.Pieces(made)
	far := 0
	for i := range x {
		if !(math.Abs(x[i]-y[i]) <= 0.05*math.Abs(y[i])+1e-30) {
			far++
		}
	}
	return 4*far < len(x)
}

// nodeWays compare the recorded gradients as those of each node that they fit; weak are nodes that the recording may
// have by chance.
func (r *comparison) nodeWays(nodes []opdef.Node, saved []value.Value, out []*tensor.Tensor) (ways, weak []func()) {
	for _, n := range nodes {
		way := func() { r.compareNode(n, out, saved) }
		switch {
		case !r.fits(saved, n):
		case n.Weak != "":
			weak = append(weak, way)
		default:
			ways = append(ways, way)
		}
	}
	return ways, weak
}

// reportMisfit reports gradients that fit neither the arguments, for the reason misfit, nor a node. several: the call
// has more than one.
func (r *comparison) reportMisfit(saved []value.Value, nodes []opdef.Node, several bool, misfit string) {
	switch {
	case !r.hasGradient():
	case several && !r.nearly(saved, nodes):
		r.addPhase(Backward, verdict.Skipped, verdict.GradOfAnotherOp)
	case r.inBase(saved):
		r.addPhase(Backward, verdict.Skipped, "the call wrote to a view: its gradients are those of the view's base")
	default:
		r.addPhase(Backward, verdict.Fail, "gradients "+shapesOfValues(saved)+" were recorded: "+misfit)
	}
}

// nearly reports whether several recorded gradients are those of the arguments or of a node, but for some dtypes, or
// for one of at least three: then these are wrong, and not the gradients of another node. One of two that fits
// proves nothing: rms_norm ends in a product of a tensor with the weight.
func (r *comparison) nearly(saved []value.Value, nodes []opdef.Node) bool {
	var candidates [][]*tensor.Tensor
	all, wanting := r.differentiable()
	for _, args := range [][]opdef.Arg{all, wanting} {
		candidates = append(candidates, tensorsOfArgs(args))
	}
	for _, n := range nodes {
		candidates = append(candidates, n.Grads)
	}
	return slices.ContainsFunc(candidates, func(want []*tensor.Tensor) bool {
		if len(want) != len(saved) || len(want) < 2 {
			return false
		}
		misfits, wrong, right := 0, 0, 0 // shapes, then dtypes
		for i, w := range want {
			t, ok := saved[i].(*tensor.Tensor)
			switch {
			case ok != (w != nil) || ok && !slices.Equal(t.Shape, w.Shape):
				misfits++
			case ok && t.DType != w.DType:
				wrong++
			case ok:
				right++
			}
		}
		return misfits == 0 && wrong > 0 && right > 0 || misfits == 1 && wrong == 0 && right >= 2
	})
}

// firstSound keeps what the first of several comparisons found in which nothing fails. It reports
// whether there is one.
func (r *comparison) firstSound(ways []func()) bool {
	at, call, values := len(r.out.Results), r.Call, r.values
	for _, way := range ways {
		way()
		if !slices.ContainsFunc(r.out.Results[at:], func(x Result) bool {
			return x.Verdict == verdict.Fail || x.Verdict == verdict.Error
		}) {
			return true
		}
		r.out.Results, r.Call, r.values = r.out.Results[:at], call, values
	}
	return false
}

// nearest keeps what that comparison found which finds the smallest errors: what was recorded is wrong, but it is the
// gradient that it is nearest to. Of equal ones the first counts.
func (r *comparison) nearest(ways []func()) {
	at, call, values := len(r.out.Results), r.Call, r.values
	best, least := 0, math.Inf(1)
	for i, way := range ways {
		if len(ways) == 1 {
			break
		}
		way()
		if far := wrongness(r.out.Results[at:]); far < least {
			best, least = i, far
		}
		r.out.Results, r.Call, r.values = r.out.Results[:at], call, values
	}
	ways[best]()
}

// wrongness is the size of errors, each counted by the part of the elements that are wrong: infinite where one is not
// known.
func wrongness(rs []Result) float64 {
	sum := 0.0
	for _, r := range rs {
		switch c := r.Compared; {
		case r.Verdict != verdict.Fail && r.Verdict != verdict.Error:
		case c == nil || !(c.RelativeError > 0) || c.Numel == 0:
			return math.Inf(1)
		default:
			sum += c.RelativeError * float64(c.Mismatched) / float64(c.Numel)
		}
	}
	return sum
}

// hasGradient reports whether the operator has a gradient, and says so if not.
func (r *comparison) hasGradient() bool {
	if !r.bound.Entry.HasGrad {
		r.addPhase(Backward, verdict.Skipped, verdict.NoGradientOfOp+r.bound.Entry.NoGrad)
	}
	return r.bound.Entry.HasGrad
}

// perTensor gives the arguments of gradients that another writer than op_tools
// recorded, one for each tensor among the arguments; of None too where the argument
// requires a gradient and the writer would have known it.
func (r *comparison) perTensor(saved []value.Value) (targets []opdef.Arg, ok bool) {
	byTensor := map[*tensor.Tensor]opdef.Arg{}
	for _, a := range r.bound.Tensors() {
		if t := r.recorded(a.Tensor); byTensor[t].Tensor == nil {
			byTensor[t] = a
		}
	}
	inputs := r.Record.Inputs()
	if len(inputs) != len(saved) {
		r.addPhase(Backward, verdict.Fail, fmt.Sprintf("%d gradients were recorded for %d tensor arguments", len(saved),
			len(inputs)))
		return nil, false
	}
	targets = make([]opdef.Arg, len(saved))
	for i, s := range saved {
		_, ok := s.(*tensor.Tensor)
		if ok || inputs[i].RequiresGrad && !r.Record.Unknown.Has(capture.GradInputs) {
			targets[i] = byTensor[inputs[i]]
		}
	}
	return targets, true
}

// align gives the argument of each gradient that op_tools recorded of an operator
// of one autograd node: in the order of the arguments one for each that requires
// one, None or another gradient for the others. misfit says what was wanted where
// it cannot be so.
func (r *comparison) align(saved []value.Value, out []*tensor.Tensor) (targets []opdef.Arg, misfit string) {
	all, wanting := r.differentiable()
	// Dropout multiplies by its mask, which is no argument.
	if most := r.bound.TensorArguments(); len(saved) > most && r.bound.Random() == "" {
		return nil, fmt.Sprintf("%d gradients for %d tensor arguments", len(saved), most)
	}
	none := func(a opdef.Arg) bool { return !a.Tensor.RequiresGrad }
	for _, args := range [][]opdef.Arg{all, wanting} {
		if targets = assign(saved, args, none); targets != nil {
			return targets, ""
		}
		if len(saved) == len(all) {
			break
		}
	}
	grads, err := r.bound.Backward(r.fwd, out, nil)
	if err != nil {
		return nil, err.Error()
	}
	of := func(a opdef.Arg) *tensor.Tensor {
		if g, k := grads[a.Name], max(a.Index, 0); k < len(g) {
			return g[k]
		}
		return nil
	}
	// Nothing flows to some arguments (the other of type_as), and only zeros to others,
	// for which torch may give None.
	nothing := func(a opdef.Arg) bool { return of(a) == nil }
	none = func(a opdef.Arg) bool { return !a.Tensor.RequiresGrad || nothing(a) || zeros(of(a)) }
	all, wanting = slices.DeleteFunc(all, nothing), slices.DeleteFunc(wanting, nothing)
	for _, args := range [][]opdef.Arg{all, wanting, slices.DeleteFunc(slices.Clone(wanting), none)} {
		if targets = assign(saved, args, none); targets != nil {
			return targets, ""
		}
		if len(saved) == len(all) {
			break
		}
	}
	return nil, "want " + shapesOf(tensorsOfArgs(wanting))
}

// differentiable are the arguments that can have a gradient, and those of them that want one.
func (r *comparison) differentiable() (all, wanting []opdef.Arg) {
	for _, a := range r.bound.Tensors() {
		if a.Tensor.DType.IsFloat() || a.Tensor.DType.IsComplex() {
			all = append(all, a)
			if a.Tensor.RequiresGrad {
				wanting = append(wanting, a)
			}
		}
	}
	return all, wanting
}

// assign gives each saved tensor an argument, in order; nil where that leaves an
// argument without one. Where there are as many of both, each gradient is that of
// the argument in its place, or None where none says so.
func assign(saved []value.Value, args []opdef.Arg, none func(opdef.Arg) bool) []opdef.Arg {
	targets := make([]opdef.Arg, len(saved))
	inPlace := len(saved) == len(args)
	k := 0
	for i, s := range saved {
		t, ok := s.(*tensor.Tensor)
		switch {
		case !ok && inPlace:
			if !none(args[k]) {
				return nil
			}
			k++
		case !ok:
		case k < len(args) && slices.Equal(args[k].Tensor.Shape, t.Shape):
			targets[i] = args[k]
			k++
		default:
			return nil
		}
	}
	if k != len(args) {
		return nil
	}
	return targets
}

// givenTwice reports whether target i is the tensor of another argument too, and no gradient was recorded for any of
// them: the hook cannot tell their gradients apart and saves none.
func (r *comparison) givenTwice(targets []opdef.Arg, i int, saved []value.Value) bool {
	t, n := r.recorded(targets[i].Tensor), 0
	for k, a := range targets {
		if a.Tensor == nil {
			continue
		}
		if u := r.recorded(a.Tensor); u.Memory() != t.Memory() && (!slices.Equal(u.Shape, t.Shape) ||
			u.DType != t.DType || !bytes.Equal(u.AppendBytes(nil), t.AppendBytes(nil))) {
			continue
		}
		if _, ok := saved[k].(*tensor.Tensor); ok {
			return false
		}
		n++
	}
	return n > 1
}

// inBase reports whether what was recorded can be the gradient of a larger tensor
// that the call wrote to through a view.
func (r *comparison) inBase(saved []value.Value) bool {
	w := r.bound.Written()
	ts := tensorsOf(saved)
	return r.fwd.Written && len(w) > 0 && len(ts) > 0 && ts[0].Numel() >= w[0].Numel() &&
		!slices.Equal(ts[0].Shape, w[0].Shape)
}

// viewed is the node of a result that is another operator's, seen in another shape, in another order of
// its dimensions or converted: it received the only gradient of a result so. It is one only if saved is
// just that.
func viewed(saved []value.Value, out []*tensor.Tensor) (opdef.Node, bool) {
	ts := tensorsOf(saved)
	ups := slices.DeleteFunc(slices.Clone(out), func(t *tensor.Tensor) bool { return t == nil })
	if len(ts) != 1 || len(saved) != 1 || len(ups) != 1 || ts[0].Numel() != ups[0].Numel() ||
		ts[0].DType.Kind() != ups[0].DType.Kind() {
		return opdef.Node{}, false
	}
	up, weak := ups[0], "the incoming gradient reshaped"
	if ts[0].DType != up.DType {
		up, weak = opdef.Cast(up, ts[0].DType), "the incoming gradient converted"
	}
	for turned := range seenAs(up, ts[0].Shape) {
		c := compare.Check(ts[0], turned, compare.Model{Exact: true}, compare.DefaultTolerance(up.DType), nil)
		if c.Mismatched == 0 {
			return opdef.Node{Grads: []*tensor.Tensor{turned}, Weak: weak}, true
		}
	}
	return opdef.Node{}, false
}

// mostTurned is the number of dimensions up to which a tensor is seen in all orders of them.
const mostTurned = 5

// seenAs are t in a shape of as many elements: in the order that it has, and with its dimensions
// in any other that gives the shape.
func seenAs(t *tensor.Tensor, shape []int) iter.Seq[*tensor.Tensor] {
	return func(yield func(*tensor.Tensor) bool) {
		if !yield(t.Reshape(shape...)) || t.Dim() != len(shape) || t.Dim() > mostTurned {
			return
		}
		var try func(dims []int) bool
		try = func(dims []int) bool {
			if len(dims) == t.Dim() {
				return slices.IsSorted(dims) || yield(t.Permute(dims...))
			}
			for d := range t.Dim() {
				if t.Shape[d] == shape[len(dims)] && !slices.Contains(dims, d) && !try(append(slices.Clone(dims), d)) {
					return false
				}
			}
			return true
		}
		try(nil)
	}
}

// converted reports whether a gradient has another dtype than its argument: it belongs to the node of a
// conversion. Those of a live comparison are wider.
func (r *comparison) converted(saved []value.Value, targets []opdef.Arg) bool {
	for i, a := range targets {
		if t, ok := saved[i].(*tensor.Tensor); ok && a.Tensor != nil && t.DType != a.Tensor.DType && !r.pair {
			return true
		}
	}
	return false
}

// fits reports whether saved can be what a node received: tensors of its shapes and dtypes,
// and at least one.
func (r *comparison) fits(saved []value.Value, n opdef.Node) bool {
	any := false
	for i := range max(len(saved), len(n.Grads)) {
		if i >= len(saved) && n.Grads[i] != nil || i >= len(n.Grads) && saved[i] != nil {
			return false
		}
		if i >= len(saved) || i >= len(n.Grads) { // None for a number, which not all versions have
			continue
		}
		t, ok := saved[i].(*tensor.Tensor)
		if !ok || n.Grads[i] == nil {
			continue
		}
		if !slices.Equal(t.Shape, n.Grads[i].Shape) || t.DType != n.Grads[i].DType && !r.pair {
			return false
		}
		any = true
	}
	return any
}

// compareNode compares what the last autograd node received.
func (r *comparison) compareNode(node opdef.Node, out []*tensor.Tensor, saved []value.Value) {
	r.values.GradInputs = make([]value.Value, len(saved))
	for i, s := range saved {
		t, ok := s.(*tensor.Tensor)
		var want *tensor.Tensor
		if i < len(node.Grads) {
			want = node.Grads[i]
		}
		if !ok || want == nil {
			continue
		}
		r.values.GradInputs[i] = want
		l := leaf(Backward, "grad", i, len(saved))
		if r.sampler != nil && node.Axes != nil {
			want, precision := r.gradientAs(t, want, want.DType)
			r.compareSampled(l, t, want, r.sampler.ofNode(node, i, out), precision)
			continue
		}
		res := r.compareGradient(l, t, r.altered(l.target, want), want.DType,
			r.bound.NodeBound(r.fwd, out, node, i))
		if node.Weak != "" && (res.Verdict == verdict.Pass || res.Verdict == verdict.Warn) {
			res.Verdict, res.Reason = verdict.Mistrusted, node.Weak
		}
	}
}

// compareGradient compares one gradient, of an argument recorded in dtype dt. op_tools'
// live comparison saves gradients in the wider dtype its host computed in; they have the
// precision of the argument. And under autocast the gradient of an argument, where that
// is what was recorded, passes through the cast: it has the argument's dtype, and no
// more precision than what the argument was cast to; so it does through a conversion by
// dtype=.
func (r *comparison) compareGradient(l label, got, want *tensor.Tensor, dt tensor.DType, b opdef.Bound) *Result {
	want, precision := r.gradientAs(got, want, dt)
	return r.compareValue(l, got, want, b, precision)
}

// gradientAs is what a gradient is compared with, and its precision, Invalid for that of its
// dtype.
func (r *comparison) gradientAs(got, want *tensor.Tensor, dt tensor.DType) (*tensor.Tensor, tensor.DType) {
	precision := tensor.Invalid
	wider := got.DType.Kind() == want.DType.Kind() && got.DType.Size() > want.DType.Size()
	if cast := r.original != nil && !r.Record.ByOpTools; wider && (r.pair || cast) || cast && got.DType == dt {
		precision = want.DType
		want = opdef.Cast(want, got.DType)
	} else if narrow := r.narrowed(got.DType); got.DType == dt && narrow != tensor.Invalid {
		precision = narrow
	}
	return want, precision
}

// backward computes gradients, of a call that is checked in parts only when they are read.
func (r *comparison) backward(out []*tensor.Tensor, need map[string]bool) (opdef.Grads, error) {
	if r.sampler != nil {
		return r.sampler.grads(out, need), nil
	}
	return r.bound.Backward(r.fwd, out, need)
}

// node computes what the last autograd node received, likewise.
func (r *comparison) node(out []*tensor.Tensor) (opdef.Node, bool, error) {
	if r.sampler != nil {
		return r.sampler.node(out)
	}
	return r.bound.Node(r.fwd, out)
}

// narrowed is the dtype of the results where these are floating point numbers narrower
// than dt, Invalid otherwise: the call has converted its argument first.
func (r *comparison) narrowed(dt tensor.DType) tensor.DType {
	widest := tensor.Invalid
	for _, o := range r.fwd.Outs {
		if !dt.IsFloat() || !o.DType.IsFloat() || o.DType.Size() >= dt.Size() {
			return tensor.Invalid
		}
		if widest == tensor.Invalid || o.DType.Size() > widest.Size() {
			widest = o.DType
		}
	}
	return widest
}
