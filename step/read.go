package step

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Options say how calls are read and run.
type Options struct {
	replay.Options
	// Within, if not nil, runs f, which computes what a call of so many bytes on disk asks
	// for, within limits of time and memory, once more where it was stopped for the sake of
	// another. Its error is f's, or says which limit did not suffice.
	Within func(bytes int64, f func() error) error
	// Rerun, if not nil, is a device that each call is run on again, beside what was recorded.
	Rerun replay.Device
	// Causes, if not nil, looks for the causes of what fails in a call, also in other calls.
	Causes func(e *capture.Entry, call *replay.Call, o *replay.Outcome, a *causes.Allowance) ([]reports.Cause, error)

	files *files // of one piece of work; nil outside of one
}

// within runs f, which computes with a call, within the limits. A panic is its error. f is given
// options with which values are loaded. If a limit or a mistake of optool ends it, what is what the
// call says was not looked at: it is not said where that is "".
func (o Options) within(c *Call, what string, f func(opt Options) error) error {
	guarded := func() error {
		opt := o
		opt.files = &files{}
		defer opt.files.end()
		return replay.Guard(func() error { return f(opt) })
	}
	var err error
	if o.Within == nil {
		err = guarded()
	} else {
		err = o.Within(c.bytes, guarded)
	}
	if what != "" && gaveUp(err) {
		c.giveUp(what, err)
	}
	return err
}

// each calls f with each value. What cannot be read costs one value; what ends all work ends this too.
func each(vs []*Value, f func(v *Value) error) error {
	for _, v := range vs {
		quota.Check()
		err := replay.Guard(func() error { return f(v) })
		if errors.Is(err, quota.ErrStopped) || gaveUp(err) {
			return err
		}
	}
	return nil
}

// gaveUp reports whether an error says that a limit or a mistake of optool ended something, not that
// there is nothing to find.
func gaveUp(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, new(*quota.MemoryError)) ||
		errors.As(err, new(*quota.StepsError)) || errors.As(err, new(*replay.InternalError))
}

// A GivenUp is a question about a call that the analysis gave up.
type GivenUp struct {
	Call *Call
	What string // what was not looked at
	Err  error
}

// String says what was not looked at, and why.
func (g GivenUp) String() string { return g.What + ": " + g.Err.Error() }

func (c *Call) giveUp(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.givenUp = append(c.givenUp, GivenUp{c, what, err})
}

// GivenUp are the questions that the analysis gave up, in order of the calls.
func (t *Trace) GivenUp() []GivenUp {
	var all []GivenUp
	for _, c := range t.Calls() {
		all = append(all, c.givenUp...)
	}
	return all
}

// NotRun is a call that is not run, for a reason: a limit that it went beyond. What it
// read and gave is as it was recorded.
func NotRun(e *capture.Entry, reason error, opt Options) *Call {
	c := &Call{Entry: e, bytes: e.Bytes(), Op: e.Op, LocalError: math.NaN(), TotalError: math.NaN(), Effect: math.NaN(),
		Verdict: verdict.Error, Failed: reason.Error(), notRun: reason}
	call := replay.Open(e, opt.Options)
	defer call.Close()
	c.Op = call.Op
	if err := replay.Guard(func() error { return errors.Join(c.index(call.Record), c.indexLater()) }); err != nil {
		c.Inputs, c.Outputs, c.Grads, c.GradOutputs = nil, nil, nil, nil
	}
	return c
}

// Read replays a capture and takes what the step needs of it. It never fails: a
// call that cannot be read or run has a verdict that says so.
func Read(e *capture.Entry, opt Options) *Call {
	c := &Call{Entry: e, bytes: e.Bytes(), Op: e.Op, LocalError: math.NaN(), TotalError: math.NaN(), Effect: math.NaN()}
	call := replay.Open(e, opt.Options)
	defer call.Close()
	c.Op = call.Op
	err := replay.Guard(func() error { return errors.Join(c.index(call.Record), c.indexLater()) })
	outcome := call.Compare()
	c.judge(outcome)
	c.searchWork = call.SearchWork()
	c.TooLarge = outcome.TooLarge
	if !functional(c) || c.collective() == "wait_tensor" { // else the result may not be there yet
		c.notFinite = outcome.NotFinite
		if c.notFinite == nil && c.collective() == "" {
			c.notFinite = call.NotFiniteAfter()
		}
	}
	if err != nil {
		c.Verdict, c.Failed = verdict.Invalid, err.Error()
		c.Damaged = cmp.Or(c.Damaged, c.Failed)
		return c
	}
	err = replay.Guard(func() error {
		b := call.Bound()
		if b != nil {
			c.random, c.moves = b.Random(), b.Entry.Moves || b.Uncast()
			c.generator = c.readGenerator()
			c.drew(call.Record)
			c.attributes = attributes(b)
		}
		c.after(call)
		if call.Record.Placed == "" { // what the parts of DTensors give need not be a part of the result
			c.measure(call.Values())
		}
		if c.random != "" {
			c.measureMasked(call.Record)
		}
		if b != nil && c.measured && (b.Autocast() == opdef.AutocastLower || b.Autocast() == opdef.AutocastProduct) {
			return c.addCasts(b, call.Record)
		}
		return nil
	})
	if err != nil && c.Failed == "" {
		c.Failed = err.Error()
	}
	if opt.Rerun != nil {
		c.Rerun = call.On(opt.Rerun)
		if c.TooLarge == nil {
			c.TooLarge = c.Rerun.TooLarge
		}
	}
	return c
}

// judge takes what replay said about the call.
func (c *Call) judge(o *replay.Outcome) {
	c.Verdict = o.Verdict()
	c.byPass = worstOf(o.Results)
	for _, r := range o.Results {
		if r.Default != "" {
			if c.Changed == nil {
				c.Changed = map[string]bool{}
			}
			c.Changed[r.Setting] = c.Changed[r.Setting] || r.Default == verdict.Fail
		}
		if r.Verdict != verdict.Pass {
			c.Results = append(c.Results, Result{r.Phase, r.Target, r.Verdict, r.Reason, r.Argument, once(r.Parameter)})
		} else if r.Compared == nil {
			c.passed = append(c.passed, Result{Phase: r.Phase, Target: r.Target, Verdict: r.Verdict, Reason: r.Reason})
		}
		if x := r.Compared; x != nil {
			c.device = cmp.Or(c.device, r.Place)
			check := Check{Phase: r.Phase, Target: once(r.Target), Verdict: r.Verdict, MaxULP: x.MaxULP,
				WorstULP: x.WorstULP, BoundRatio: x.BoundRatio}
			if r.Verdict != verdict.Pass {
				check.Actual, check.Expected = x.Actual, x.Expected
			}
			c.Checks = append(c.Checks, check)
		}
		if r.Verdict == verdict.Invalid && !r.Unwritten {
			c.Damaged = cmp.Or(c.Damaged, r.Reason)
		}
		if r.Target != "" {
			continue
		}
		switch r.Verdict {
		case verdict.Error, verdict.Invalid, verdict.Unsupported:
			c.Failed = r.Reason
		}
	}
}

// itemOf is the last index of a path below an argument, as in "args[0][1]"; -1 for an argument that is no list.
func itemOf(path string) int {
	i := strings.LastIndexByte(path, '[')
	if i < 0 || !strings.HasSuffix(path, "]") || strings.Count(path, "[") < 2 && strings.HasPrefix(path, "args") {
		return -1
	}
	n, err := strconv.Atoi(path[i+1 : len(path)-1])
	if err != nil {
		return -1
	}
	return n
}

var targetNames = map[capture.Kind]string{capture.Input: "input", capture.Output: "output", capture.GradInputs: "grad",
	capture.GradOutputs: "grad_output"}

// index lists and hashes the tensors of the call. Their values lie side by side, and so do their shapes: the garbage
// collector goes through two objects of a call, not through several of each value.
func (c *Call) index(rec *capture.Call) error {
	var leaves [capture.After][]capture.Leaf // by kind
	var failed error
	n, dims := 0, 0
	for _, k := range indexed {
		if !rec.Has(k) {
			continue
		}
		if leaves[k], failed = rec.Leaves(k); failed != nil {
			break
		}
		n += len(leaves[k])
		for _, l := range leaves[k] {
			dims += 2 * l.Tensor.Dim()
		}
	}
	r := room{make([]Value, 0, n), make([]int, 0, dims)}
	for i, of := range []*[]*Value{&c.Inputs, &c.Outputs, &c.Grads, &c.GradOutputs} {
		if k := indexed[i]; len(leaves[k]) > 0 {
			*of = make([]*Value, 0, len(leaves[k]))
			at := rec.Memories(k)
			for _, l := range leaves[k] {
				*of = append(*of, r.value(c, k, l, at))
			}
		}
	}
	return failed
}

// indexed are the files that index reads.
var indexed = [...]capture.Kind{capture.Input, capture.Output, capture.GradInputs, capture.GradOutputs}

// A room is where the values of a call lie, and their shapes and strides.
type room struct {
	values []Value
	dims   []int
}

// value is a leaf of a file of kind k, of whose tensors at is known.
func (r *room) value(c *Call, k capture.Kind, l capture.Leaf, at map[string]capture.Memory) *Value {
	t := l.Tensor
	r.values = append(r.values, Value{Call: c, Kind: k, Target: once(l.Target(targetNames[k])), DType: t.DType,
		Shape: r.copied(t.Shape), Stride: r.copied(t.Stride), RequiresGrad: t.RequiresGrad, Parameter: t.Parameter,
		leaf: l.Number, item: itemOf(l.Path), summary: t.Summary(), version: -1})
	v := &r.values[len(r.values)-1]
	if m, known := at[l.Path]; known {
		v.Address, _ = strconv.ParseUint(m.Address, 10, 64)
		v.version, v.named = m.Version, once(m.Name)
		if m.Stride != "" && m.Stride != fmt.Sprint(t.Stride) {
			for s := range strings.FieldsSeq(strings.Trim(m.Stride, "[]")) {
				n, _ := strconv.Atoi(s)
				v.lies = append(v.lies, n)
			}
		}
	}
	v.content = newFingerprint(t)
	return v
}

// copied is a copy of a shape or of strides.
func (r *room) copied(of []int) []int {
	from := len(r.dims)
	r.dims = append(r.dims, of...)
	return r.dims[from:len(r.dims):len(r.dims)]
}

// once is a text that many values have, which is kept once.
func once(text string) string { return unique.Make(text).Value() }

// after notes what arguments that the call changes, but does not return, hold after it: as they were recorded then, or
// as the reference leaves them.
func (c *Call) after(call *replay.Call) {
	changed := call.Changed()
	if len(changed) == 0 {
		return
	}
	ls, err := call.Record.Leaves(capture.Input)
	if err != nil {
		return
	}
	recorded, err := call.Record.Leaves(capture.After)
	at := call.Record.Memories(capture.After)
	for i, l := range ls {
		if now := changed[l.Tensor]; now != nil && i < len(c.Inputs) {
			if to := at[l.Path].Address; to != "" && to != strconv.FormatUint(c.Inputs[i].Address, 10) {
				continue // x.data = y: the tensor lies elsewhere now, and its memory is as it was
			}
			if err == nil && len(recorded) == len(ls) && !call.Record.Unseen[recorded[i].Tensor] {
				now = recorded[i].Tensor
			}
			f := newFingerprint(now)
			c.Inputs[i].after = &f
		}
	}
}

// measure compares the recorded results with the reference: the relative error,
// and the effect on the loss by the recorded gradients.
func (c *Call) measure(v replay.Values) {
	got, err1 := value.Leaves(v.RecordedOutput)
	want, err2 := value.Leaves(v.Output)
	grads, err3 := value.Leaves(v.RecordedGradOutputs)
	if errors.Join(err1, err2, err3) != nil || len(got) != len(want) || c.random != "" {
		return
	}
	k := 0 // among the tensors of the result, to which the gradients belong
	for i := range got {
		g, ok1 := got[i].(*tensor.Tensor)
		w, ok2 := want[i].(*tensor.Tensor)
		if !ok1 || !ok2 {
			continue
		}
		var grad *tensor.Tensor
		if k < len(grads) {
			grad, _ = grads[k].(*tensor.Tensor)
		}
		k++
		if !comparable(g, w) {
			continue
		}
		d := distance(g, w, grad)
		c.LocalError = worse(c.LocalError, d.relative())
		if grad != nil {
			c.effect, c.spread, c.measured = c.effect+d.dot, c.spread+d.spread(), true
		}
	}
}

// measureMasked measures what a dropout that was recorded keeps against what it was given.
func (c *Call) measureMasked(rec *capture.Call) {
	want, err := c.keepMask(rec, rec.Args)
	if want == nil || err != nil {
		return
	}
	var grad *tensor.Tensor
	if grads := tensorsIn(value.NewTuple(rec.GradOutputs...)); len(grads) > 0 {
		grad = grads[0]
	}
	d := distance(rec.Outputs()[0], want, grad)
	c.LocalError, c.effect, c.spread, c.measured = d.relative(), d.dot, d.spread(), grad != nil
}

// addCasts adds to the effect of a call what it does to the loss that torch.autocast rounded arguments inside: by their
// recorded gradients, or where one was not recorded, by another run of the reference on what the call was given.
func (c *Call) addCasts(b *opdef.Call, rec *capture.Call) error {
	ls, err := rec.Leaves(capture.Input)
	if err != nil || len(ls) != len(c.Inputs) || len(c.Outputs) == 0 || !c.Outputs[0].DType.IsHalf() {
		return err
	}
	dt := c.Outputs[0].DType
	grads := tensorsIn(value.NewTuple(rec.GradInputs...))
	var added, spread float64
	for i, v := range c.Inputs {
		t := ls[i].Tensor
		if t.DType != tensor.Float32 || t.Wrapped {
			continue
		}
		k := -1
		if g := c.gradientOf(v); g != nil {
			k = slices.Index(c.Grads, g)
		}
		if k < 0 || k >= len(grads) {
			return c.measureUnrounded(unrounded(b, dt), rec)
		}
		d := distance(roundedTo(t, dt), t, grads[k])
		added, spread = added+d.dot, spread+d.spread()
	}
	c.effect, c.spread = c.effect+added, c.spread+spread
	return nil
}

// measureUnrounded measures the effect of a call against the reference b on unrounded arguments.
func (c *Call) measureUnrounded(b *opdef.Call, rec *capture.Call) error {
	f, err := b.Forward()
	if err != nil {
		return err
	}
	got, grads := rec.Outputs(), tensorsIn(value.NewTuple(rec.GradOutputs...))
	want, err := results(f, len(got))
	if err != nil || len(grads) > len(got) {
		return err
	}
	c.effect, c.spread = 0, 0
	for i, g := range grads {
		if comparable(got[i], want[i]) {
			d := distance(got[i], want[i], g)
			c.effect, c.spread = c.effect+d.dot, c.spread+d.spread()
		}
	}
	return nil
}

// comparable reports whether two tensors are floating and of one shape.
func comparable(a, b *tensor.Tensor) bool {
	if !a.DType.IsFloat() || !b.DType.IsFloat() || len(a.Shape) != len(b.Shape) {
		return false
	}
	for i := range a.Shape {
		if a.Shape[i] != b.Shape[i] {
			return false
		}
	}
	return true
}

// worse is the larger of two errors, of which one may not be known.
func worse(a, b float64) float64 {
	if a != a || b > a {
		return b
	}
	return a
}

// A gap is the distance of two tensors.
type gap struct {
	square  float64 // of got - want
	norm    float64 // square of want
	dot     float64 // gradient times got - want
	weighed float64 // the square of that, element by element
	rounded float64 // and where each element is rounded to the dtype of got
	odd     int     // elements of which one side is not finite, and the other is or differs
}

// relative is the relative error, infinite if something is not finite that should be.
func (g gap) relative() float64 {
	switch {
	case g.odd > 0:
		return math.Inf(1)
	case g.square == 0:
		return 0
	case g.norm == 0:
		return math.Inf(1)
	}
	return math.Sqrt(g.square / g.norm)
}

// spread is the sum of the squares of gradient times error. An error may be small by chance, above all in a result of
// few elements: it counts at least as what rounding to the dtype makes of it. A result without any error was not
// rounded.
func (g gap) spread() float64 {
	if g.square == 0 {
		return 0
	}
	return max(g.weighed, g.rounded)
}

// meanRounding is the root mean square of the error of rounding, relative to a value, in units of half the dtype's eps.
const meanRounding = 0.4

// distance compares two floating tensors of one shape; grad, if not nil and of
// that shape, weighs their difference. Elements that are not finite on both
// sides alike count as equal.
func distance(got, want, grad *tensor.Tensor) gap {
	if grad != nil && !comparable(got, grad) {
		grad = nil
	}
	n, step := got.Numel(), want.Block()
	rounding := meanRounding * got.DType.Eps() / 2
	blocks := (n + step - 1) / step
	parts := tensor.Make[gap](blocks)
	tensor.Parallel(blocks, 1, func(a, b int) {
		sx, sy, sz := opdef.Scratch[float64](min(step, n)), opdef.Scratch[float64](min(step, n)),
			opdef.Scratch[float64](min(step, n))
		defer opdef.Release(sx)
		defer opdef.Release(sy)
		defer opdef.Release(sz)
		x, y, z := *sx, *sy, *sz
		clear(z) // without a gradient nothing is weighed
		for k := a; k < b; k++ {
			lo := k * step
			m := min(step, n-lo)
			tensor.Load(got, lo, x[:m])
			tensor.Load(want, lo, y[:m])
			if grad != nil {
				tensor.Load(grad, lo, z[:m])
			}
			p := &parts[k]
			for i := range m {
				d := x[i] - y[i]
				if d-d != 0 {
					if x[i] != y[i] && (x[i] == x[i] || y[i] == y[i]) {
						p.odd++
					}
					continue
				}
				p.square += d * d
				p.norm += y[i] * y[i]
				if z[i] != 0 {
					e, r := d*z[i], rounding*y[i]*z[i]
					p.dot, p.weighed, p.rounded = p.dot+e, p.weighed+e*e, p.rounded+r*r
				}
			}
		}
	})
	var sum gap
	for _, p := range parts {
		sum.square, sum.norm, sum.dot, sum.odd = sum.square+p.square, sum.norm+p.norm, sum.dot+p.dot, sum.odd+p.odd
		sum.weighed, sum.rounded = sum.weighed+p.weighed, sum.rounded+p.rounded
	}
	return sum
}
