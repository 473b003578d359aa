package step

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// findOwnGradients judges the gradients of functions that the program differentiates itself (autograd.Function) and
// that the reference does not know: the calls that such a function made in its forward pass have a derivative. One
// whose backward pass exchanges values with other ranks gives something else on purpose: package parallel judges it.
func (p *Process) findOwnGradients(opt Options) {
	inner := map[*Call][]*Call{}
	for _, c := range p.Calls {
		o := c.outer
		if o != nil && o.Verdict == verdict.Unsupported && o.HasBackward() && len(o.Grads) > 0 && !o.inJudged() {
			inner[o] = append(inner[o], c)
		}
	}
	for _, c := range p.Calls {
		if inner[c] == nil || p.exchangesBack(c) {
			continue
		}
		_ = opt.within(c, "its gradients were not compared with the derivative of the calls that it made",
			func(opt Options) error { return c.checkOwnGradients(inner[c], opt) })
	}
}

// exchangesBack reports whether a process exchanges values with others after the gradients of a call's results arrived,
// and before those of another call's did.
func (p *Process) exchangesBack(c *Call) bool {
	if !p.exchanges {
		return false
	}
	next := math.MaxInt
	for _, o := range p.Calls {
		if at := o.Entry.BackwardOrder; at > c.Entry.BackwardOrder {
			next = min(next, at)
		}
	}
	return slices.ContainsFunc(p.Calls, func(o *Call) bool {
		return o.collective() != "" && o.Entry.Order > c.Entry.BackwardOrder && o.Entry.Order < next
	})
}

// inJudged reports whether a judged call made the call.
func (c *Call) inJudged() bool {
	for o := c.outer; o != nil; o = o.outer {
		if o.judged() {
			return true
		}
	}
	return false
}

// An ownGradient is a gradient that a function of the program gave, and the derivative of the calls that it made.
type ownGradient struct {
	g     *Value
	x, y  []float64 // the gradient and the derivative
	shape []int
	right bool
}

// checkOwnGradients compares the gradients of a function with the derivative of the calls that it made. Some functions
// have another gradient on purpose: a reversed one, or one that is smooth where the function is not. So a gradient is
// wrong only if that of another argument is right, or if it is the derivative in the wrong place or times a number.
func (c *Call) checkOwnGradients(inner []*Call, opt Options) error {
	given, err := c.recordedGiven(opt)
	if err != nil {
		return err
	}
	got, err := c.derivative(inner, given, opt)
	if err != nil || got == nil {
		return err
	}
	var all []ownGradient
	for k, v := range c.Inputs {
		g := c.gradientOf(v)
		if got[k] == nil || g == nil {
			continue
		}
		one := ownGradient{g: g, shape: v.Shape, y: tensor.Data[float64](got[k])}
		if err := g.with(opt, func(t *tensor.Tensor) { one.x = slices.Clone(tensor.Data[float64](t)) }); err != nil {
			return err
		}
		if len(one.x) != len(one.y) || !slices.ContainsFunc(one.y, func(y float64) bool { return y != 0 }) {
			continue
		}
		one.right = c.nearDerivative(one.x, one.y)
		all = append(all, one)
	}
	c.ownRight = len(all) == len(c.Grads) && !slices.ContainsFunc(all, func(o ownGradient) bool {
		return !o.right || apartBy(o.x, o.y) > worthDoubt
	})
	someRight := slices.ContainsFunc(all, func(o ownGradient) bool { return o.right })
	same := c.returnsArgument() || slices.ContainsFunc(c.Outputs, func(o *Value) bool {
		return slices.ContainsFunc(c.Inputs, o.equals)
	})
	for _, o := range all {
		if o.right {
			continue
		}
		apart := apartBy(o.x, o.y)
		how, meant := c.misplaced(o, all), apart < far
		if how == "" {
			how = departs(o.x, o.y, o.shape)
			unlike := strings.HasPrefix(how, differs)
			meant = how == "" || !someRight && (same || unlike || how == allZero) || meant && unlike
		}
		if meant {
			c.doubted = append(c.doubted, doubt{o.g.Target, apart})
			continue
		}
		c.Results = append(c.Results, Result{Phase: replay.Backward, Target: o.g.Target, Verdict: verdict.Fail,
			Reason: "it is not the derivative of the calls that the function made: " + how})
		c.Verdict, c.ownWrong = verdict.Fail, true
	}
	return nil
}

// ByDerivative reports whether a call is wrong since its gradients are not the derivative of the calls that it made.
// The reference does not know the function, so only the step tells.
func (c *Call) ByDerivative() bool { return c.ownWrong }

// A doubt is a gradient of a function that is not the derivative of the calls that it made, perhaps on purpose.
type doubt struct {
	target string
	apart  float64 // relative to the derivative
}

// doubts reports whether a gradient of a function is not the derivative of the calls that it made.
func (c *Call) doubts(target string) bool {
	return slices.ContainsFunc(c.doubted, func(d doubt) bool { return d.target == target && d.apart > worthDoubt })
}

// worthDoubt is how far a gradient is from the derivative that is neither said to be it nor hardly explained by
// rounding.
const worthDoubt = 0.01

// notDerivative is the gap of such gradients.
const notDerivative = "not the derivative of the calls that it made"

// Doubted are gradients that are right only if the program means them, so that they are no findings. They are those of
// Bypassed, those that a call did not give to a parameter, and those of functions of the program that are not the
// derivative of the calls that these made, by function and line.
func (t *Trace) Doubted() []Gap { return slices.Concat(t.Bypassed(), t.notDerivatives(), t.ungiven()) }

func (t *Trace) notDerivatives() (all []Gap) {
	type key struct{ op, at, target string }
	type group struct {
		Gap
		key
		apart float64
	}
	var groups []*group
	for _, c := range t.Calls() {
		for _, d := range c.doubted {
			if !(d.apart > worthDoubt) {
				continue
			}
			k := key{c.Op, c.Entry.Location, d.target}
			i := slices.IndexFunc(groups, func(g *group) bool { return g.key == k })
			if i < 0 {
				i, groups = len(groups), append(groups, &group{Gap: Gap{First: c.String()}, key: k})
			}
			groups[i].N++
			groups[i].apart = max(groups[i].apart, d.apart)
		}
	}
	for _, g := range groups {
		at, calls := "", ""
		if g.at != "" {
			at = " at " + path.Base(g.at)
		}
		if g.N > 1 {
			calls = fmt.Sprintf(" in %d calls", g.N)
		}
		g.What = fmt.Sprintf("%s of %s%s is %s%s (error %.2g %%): that is right only if it is meant, as in a "+
			"straight-through estimator; declare the function with --ops to have it judged", g.target, g.op, at,
			notDerivative, calls, 100*g.apart)
		all = append(all, g.Gap)
	}
	return all
}

// far is how far a gradient is from the derivative, relative to it, that is none of its approximations: an implicit
// derivative is one.
const far = 0.25

// nearDerivative reports whether a gradient is the derivative, up to what the rounding of a few calls makes of it.
func (c *Call) nearDerivative(x, y []float64) bool {
	eps := 0.0
	for _, v := range slices.Concat(c.Inputs, c.Outputs) {
		if v.DType.IsFloat() {
			eps = max(eps, v.DType.Eps())
		}
	}
	return apartBy(x, y) <= min(128*eps, 0.1)
}

// apartBy is the root of the mean square of x - y, relative to that of y.
func apartBy(x, y []float64) float64 {
	d, n := 0.0, 0.0
	for i := range y {
		d += (x[i] - y[i]) * (x[i] - y[i])
		n += y[i] * y[i]
	}
	return math.Sqrt(d / n)
}

// misplaced says that a gradient is the derivative by another argument, or the right one with its elements in other
// places; "" if it is not.
func (c *Call) misplaced(o ownGradient, all []ownGradient) string {
	for _, p := range all {
		if p.g != o.g && slices.Equal(p.shape, o.shape) && c.nearDerivative(o.x, p.y) {
			return fmt.Sprintf("it is that by %s", strings.Replace(p.g.Target, "grad", "input", 1))
		}
	}
	if len(o.shape) == 2 && o.shape[0] == o.shape[1] {
		n := o.shape[0]
		turned := make([]float64, len(o.y))
		for i := range n {
			for j := range n {
				turned[i*n+j] = o.y[j*n+i]
			}
		}
		if c.nearDerivative(o.x, turned) {
			return "it is transposed"
		}
	}
	x, y := slices.Sorted(slices.Values(o.x)), slices.Sorted(slices.Values(o.y))
	const many = 16
	if len(x) >= many && x[0] < x[len(x)-1] && apartBy(x, y) <= 1e-4 {
		return otherOrder
	}
	return ""
}

// notSmooth are operators whose derivative is zero or has jumps: programs give them another gradient on purpose.
var notSmooth = []string{"round", "floor", "ceil", "trunc", "fix", "frac", "sign", "sgn", "heaviside", "clamp", "clip",
	"clamp_min", "clamp_max", "maximum", "minimum", "fmax", "fmin", "hardtanh", "relu6", "detach"}

// isSmooth reports whether a call has a derivative, which is what a program wants as its gradient. One that writes
// an argument has none that its results alone tell.
func (c *Call) isSmooth() bool {
	name := c.Op[strings.LastIndexByte(c.Op, '.')+1:]
	return !c.writesArgument() && !slices.Contains(notSmooth, name) && !strings.Contains(name, "quant")
}

// madeCalls are the calls that a call made itself, in order. They follow it, with those that they made.
func (c *Call) madeCalls() (inner []*Call) {
	for _, i := range c.Process.Calls[c.Order+1:] {
		if !c.encloses(i) {
			break
		}
		if i.outer == c {
			inner = append(inner, i)
		}
	}
	return inner
}

// recordedGiven are the recorded gradients of the results of a call; nil if one belongs to no result.
func (c *Call) recordedGiven(opt Options) (map[*Value]*tensor.Tensor, error) {
	given := map[*Value]*tensor.Tensor{}
	for _, g := range c.GradOutputs {
		out := c.result(g)
		if out == nil {
			return nil, nil
		}
		err := g.with(opt, func(t *tensor.Tensor) {
			given[out] = tensor.New(tensor.Float64, t.Shape, slices.Clone(tensor.Data[float64](t)))
		})
		if err != nil {
			return nil, err
		}
	}
	return given, nil
}

// derivative are the derivatives by the inputs of a function, by their number, that the calls which it made give
// for gradients of its results; nil if they do not tell.
func (c *Call) derivative(inner []*Call, given map[*Value]*tensor.Tensor, opt Options) (map[int]*tensor.Tensor, error) {
	of, got := map[*Value]*tensor.Tensor{}, map[int]*tensor.Tensor{}
	if given == nil {
		return nil, nil
	}
	for _, out := range c.Outputs {
		t := given[out]
		if t == nil {
			continue
		}
		w := madeIn(inner, out)
		if w == nil {
			return nil, nil
		}
		addTo(of, w, t)
	}
	for _, i := range slices.Backward(inner) {
		if !slices.ContainsFunc(i.Outputs, func(o *Value) bool { return of[o] != nil }) {
			continue
		}
		if !i.isSmooth() || i.Failed != "" {
			return nil, nil
		}
		grads, err := i.pullFrom(of, opt)
		if err != nil || grads == nil {
			return nil, err
		}
		for k, t := range grads {
			v := i.Inputs[k]
			to, known := c.innerSource(v, inner)
			switch {
			case !known:
				return nil, nil
			case to >= 0:
				addTo(got, to, t)
			case v.From.Value != nil && v.From.Value.Call.outer == c:
				addTo(of, v.From.Value, t)
			}
		}
	}
	return got, nil
}

// addTo adds up gradients.
func addTo[K *Value | int](all map[K]*tensor.Tensor, at K, t *tensor.Tensor) {
	if had := all[at]; had != nil {
		t = solid(opdef.Zip(t.DType, had, t, func(x, y float64) float64 { return x + y }))
	}
	all[at] = t
}

// madeIn is the result of one of the calls that a result of the call around them is; nil if there is none.
func madeIn(inner []*Call, out *Value) *Value {
	for _, i := range slices.Backward(inner) {
		for _, o := range i.Outputs {
			if o.equals(out) && (o.Address == out.Address || o.Address == 0 || out.Address == 0) {
				return o
			}
		}
	}
	return nil
}

// findHanded finds which results of the calls that an unknown function made are its own.
func (p *Process) findHanded() {
	inner := map[*Call][]*Call{}
	for _, c := range p.Calls {
		if o := c.outer; o != nil && o.Verdict == verdict.Unsupported {
			inner[o] = append(inner[o], c)
		}
	}
	for c, made := range inner {
		from := make([]*Value, len(c.Outputs))
		for i, o := range c.Outputs {
			if from[i] = madeIn(made, o); from[i] == nil {
				break
			}
		}
		if slices.Contains(from, nil) {
			continue
		}
		for i, w := range from {
			c.handed, w.handedTo = true, append(w.handedTo, c.Outputs[i])
		}
	}
}

// innerSource is the number of the input of a function that an inner call reads, -1 if it reads something else: what
// another inner call made, or what was there before. known is false if that is not known.
func (c *Call) innerSource(v *Value, inner []*Call) (number int, known bool) {
	if w := v.From.Value; w != nil && w.Call.outer == c {
		return -1, slices.Contains(inner, w.Call)
	}
	number = -1
	for k, u := range c.Inputs {
		switch {
		case u.Address == 0 || v.Address == 0:
			return -1, false
		case u.Address == v.Address && u.equals(v):
			if number >= 0 {
				return -1, false // it is given twice
			}
			number = k
		case u.Address < v.end() && v.Address < u.end():
			return -1, false // a view that was not recorded
		}
	}
	if number >= 0 {
		return number, true
	}
	w := v.From.Value
	return -1, w != nil && w.Call.Order < c.Order || v.named != "" || v.Parameter || v.From.first != nil
}

// Pull computes the gradients of the inputs of a call, by their number, from those of its results, by theirs; nil if
// the reference does not, or if the call writes to its arguments.
func (c *Call) Pull(of []*tensor.Tensor, opt Options) (map[int]*tensor.Tensor, error) {
	if c.Failed != "" || c.writesArgument() {
		return nil, nil
	}
	given := map[*Value]*tensor.Tensor{}
	for i, t := range of {
		if t != nil && i < len(c.Outputs) {
			given[c.Outputs[i]] = t
		}
	}
	return c.pullFrom(given, opt)
}

// writesArgument reports whether a call writes to its arguments.
func (c *Call) writesArgument() bool {
	name := c.Op[strings.LastIndexByte(c.Op, '.')+1:]
	return strings.HasSuffix(name, "_") && !strings.HasSuffix(name, "__") ||
		slices.ContainsFunc(c.Inputs, func(v *Value) bool { return v.after != nil || v.isOut() })
}

// pullFrom computes the gradients of the inputs of a call, by their number, from those of its results; nil if the
// reference does not.
func (c *Call) pullFrom(of map[*Value]*tensor.Tensor, opt Options) (map[int]*tensor.Tensor, error) {
	wanted := map[int]bool{}
	for k, v := range c.Inputs {
		wanted[k] = v.DType.IsFloat()
	}
	load := capture.LoadOptions{Read: opt.Read, Only: capture.Of(capture.Input, capture.Output)}
	return c.pullGiven(wanted, load, opt, func(_ *capture.Call, f *opdef.Forward) []*tensor.Tensor {
		if len(f.Outs) != len(c.Outputs) {
			return nil
		}
		out := make([]*tensor.Tensor, len(f.Outs))
		for i, o := range c.Outputs {
			if t := of[o]; t != nil && o.DType.IsFloat() && sameShape(t.Shape, f.Outs[i].Shape) {
				out[i] = t
			}
		}
		return out
	})
}
