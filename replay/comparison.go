package replay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Options of a Call.
type Options struct {
	Registry    *opdef.Registry
	Tolerances  *compare.Tolerances
	ForwardOnly bool      // skip gradients
	Runs        int       // how many times to run the forward pass; 0 means once
	Sample      *Sampling // if not nil, large calls are checked in parts
	Read        pthformat.ReadMode
	// Ranks, if not nil, finds the recordings of the other ranks of collectives.
	Ranks *collective.Index

	// Device, if not nil, is what is compared with the reference instead of what
	// was recorded; Stress also runs it in other memory layouts.
	Device Device
	Stress bool
	// Against, if not nil, is a second device that is compared too, and with Device.
	Against *Rival
}

// A Rival is a second device, under the name that results have it.
type Rival struct {
	Device
	Name string
}

// Run replays one capture. It never panics and always gives at least one result.
func Run(e *capture.Entry, opt Options) *Outcome {
	c := Open(e, opt)
	defer c.Close()
	return c.Compare()
}

// Compare runs the call and compares what was recorded with it, or what a device
// gives. It never panics and always gives at least one result. The outcome owns
// what it says; Values has the tensors behind it.
func (c *Call) Compare() *Outcome {
	r := &comparison{Call: c, out: &Outcome{Op: c.Op}}
	r.guard(r.run)
	r.skipParts()
	c.values = r.values
	r.out.NotFinite = c.notFinite()
	_ = Guard(func() error { c.reconsider(r.out); return nil })
	if r.out.asked() {
		plain := *c
		plain.opt.Tolerances = nil
		d := &comparison{Call: &plain, out: &Outcome{Op: c.Op}}
		d.guard(d.run)
		plain.values = d.values
		_ = Guard(func() error { plain.reconsider(d.out); return nil })
		r.out.note(d.out)
	}
	return r.out
}

// On compares what a device gives with the reference, as Compare does with Options.Device.
// Values stay those of Compare.
func (c *Call) On(d Device) *Outcome {
	on := *c
	on.opt.Device = d
	return on.Compare()
}

// asked reports whether a tolerance that was asked for decided any verdict.
func (o *Outcome) asked() bool {
	return slices.ContainsFunc(o.Results, func(r Result) bool { return r.Compared != nil && r.Compared.Setting != "" })
}

// note says in the results where their verdicts differ from those of the same call
// without tolerances that were asked for.
func (o *Outcome) note(plain *Outcome) {
	for i := range o.Results {
		r := &o.Results[i]
		if r.Compared == nil || r.Compared.Setting == "" {
			continue
		}
		k := slices.IndexFunc(plain.Results, func(p Result) bool {
			return p.Phase == r.Phase && p.Target == r.Target && p.Layout == r.Layout && p.Device == r.Device
		})
		if k >= 0 && plain.Results[k].Verdict != r.Verdict {
			r.Default, r.Setting = plain.Results[k].Verdict, r.Compared.Setting
		}
	}
}

// Values are the tensors that Compare compared, until Close. Reading them can
// panic: use Guard.
func (c *Call) Values() Values { return c.values }

// A comparison is a run of a call while its results are compared.
type comparison struct {
	*Call
	out    *Outcome
	values Values
	// recordedOuts are the recorded results that were found sound, by their place among
	// the results of the operator, nil for others.
	recordedOuts []*tensor.Tensor
	// shown: the call draws random numbers, and starts its gradients from the recorded
	// results, which show them.
	shown bool
	// drawnOuts are recorded results of a call that draws random numbers which they do not
	// show.
	drawnOuts []*tensor.Tensor
	part      bool    // what is compared are elements that were picked
	glance    *glance // a few elements of each value are compared; nil: all are
	mistaken  bool    // the call runs another way, and nobody asks for op_tools' rows
	// device is that which runs the call, deviceValues what it gave, with Options.Against.
	device       Device
	deviceValues []deviceValue
}

// guard runs f and makes a result of a panic.
func (r *comparison) guard(f func()) {
	if err := Guard(func() error { f(); return nil }); err != nil {
		r.addStop(err)
	}
}

// addCall adds a result about the call as such.
func (r *comparison) addCall(v verdict.Verdict, reason string) { r.addPhase(Forward, v, reason) }

// addPhase adds a result about a pass as such.
func (r *comparison) addPhase(p Phase, v verdict.Verdict, reason string) {
	r.out.Results = append(r.out.Results, Result{Phase: p, Verdict: v, Reason: reason})
}

// addInvalid adds the result of a file that cannot be used.
func (r *comparison) addInvalid(err error) {
	r.addCall(verdict.Invalid, err.Error())
	r.out.Results[len(r.out.Results)-1].Unwritten = errors.Is(err, pthformat.ErrNothingSaved)
}

// addStop adds the result of a call that came to nothing.
func (r *comparison) addStop(err error) {
	if errors.As(err, new(*quota.MemoryError)) {
		r.out.TooLarge = err
	}
	var s *stopped
	if errors.As(err, &s) {
		if s.verdict == verdict.Invalid {
			r.addInvalid(err)
			return
		}
		r.addCall(s.verdict, err.Error())
		return
	}
	r.addRefusal(err)
}

func (r *comparison) run() {
	if r.Record.Err(capture.Input) == nil && r.loadErr != nil {
		for _, k := range capture.Kinds() { // a broken file: say so, then do what can be done
			var fe *capture.FileError
			if errors.As(r.Record.Err(k), &fe) {
				r.addInvalid(fe)
			}
		}
	}
	if r.err != nil {
		r.addStop(r.err)
		return
	}
	r.compareCall()
	r.sayVersion()
	r.tryReadings()
}

// skipParts skips the results that differ where values are parts of DTensors: the result's part need not follow
// from the parts of the arguments, which the call may have moved between processes.
func (r *comparison) skipParts() {
	if r.Record == nil || r.Record.Placed == "" || r.opt.Device != nil {
		return
	}
	for i := range r.out.Results {
		switch res := &r.out.Results[i]; res.Verdict {
		case verdict.Fail, verdict.Warn, verdict.Error:
			res.Verdict = verdict.Skipped
			res.Reason = "only this process's parts of DTensors (" + r.Record.Placed + ") were recorded"
		}
	}
}

// compareCall runs the bound call and compares.
func (r *comparison) compareCall() {
	if r.fwd == nil {
		if r.misshaped() {
			return
		}
		if err := r.start(); err != nil {
			r.addRefusal(err)
			return
		}
	}
	for range r.opt.Runs - 1 {
		if err := r.repeatForward(); err != nil {
			r.addCall(verdict.Error, err.Error())
			return
		}
	}
	if r.opt.Device != nil {
		r.compareDevicePasses()
		return
	}
	if r.Record.Err(capture.Output) != nil {
		if r.loadErr == nil {
			r.addCall(verdict.Skipped, cmp.Or(r.raised(), verdict.NoOutput))
		}
	} else {
		r.compareResults()
	}
	if !r.opt.ForwardOnly && r.Record.Has(capture.GradInputs) && r.Record.Has(capture.GradOutputs) {
		r.guard(r.compareGradients)
	}
	if len(r.out.Results) == 0 {
		r.addCall(verdict.Skipped, verdict.NothingReturned)
	}
}

// giant is the number of elements of which none are computed where another shape was recorded.
const giant = 1 << 24

// misshaped adds a failure where the recorded result has not the shape that is known beforehand, of a
// call that takes long to compute.
func (r *comparison) misshaped() bool {
	shape, known := r.bound.Shape()
	if !known || r.opt.Device != nil || r.Record.Err(capture.Output) != nil ||
		!slices.ContainsFunc(r.bound.Tensors(), func(a opdef.Arg) bool { return a.Tensor.Numel() > giant }) {
		return false
	}
	got, ok := append(flatten(r.Record.Output), nil)[0].(*tensor.Tensor)
	if !ok || slices.Equal(got.Shape, shape) {
		return false
	}
	r.compareValue(leaf(Forward, "output", 0, len(flatten(r.Record.Output))), got, tensor.Full(got.DType, shape, 0.0),
		opdef.Bound{}, tensor.Invalid)
	return true
}

// repeatForward runs the forward pass once more and demands the same bits.
func (r *comparison) repeatForward() error {
	f, err := r.bound.Forward()
	if err != nil {
		return err
	}
	for i, t := range f.Outs {
		if !bytes.Equal(t.AppendBytes(nil), r.fwd.Outs[i].AppendBytes(nil)) {
			return fmt.Errorf("output %d of the reference differs between two runs", i)
		}
	}
	return nil
}

// mostSimilar is how many names like that of an unknown operator are said.
const mostSimilar = 5

// addRefusal adds the result of a call that the reference does not run.
func (r *comparison) addRefusal(err error) {
	var refused *opdef.RefusedError
	var unbound *opdef.UnboundError
	switch {
	case errors.Is(err, opdef.ErrUnknownOp) && collective.Name(r.Op) != "":
		r.compareExchange()
	case errors.Is(err, opdef.ErrUnknownOp) && r.withoutValues():
		r.addCall(verdict.Skipped, verdict.NothingReturned)
	case errors.Is(err, opdef.ErrUnknownOp):
		reason := "unknown op " + r.Op
		if near := r.opt.Registry.Similar(r.Op); len(near) > 0 {
			reason += "; known: " + strings.Join(near[:min(len(near), mostSimilar)], ", ")
			if more := len(near) - mostSimilar; more > 0 {
				reason += fmt.Sprintf(" and %d more", more)
			}
		}
		r.addCall(verdict.Unsupported, reason)
	case errors.As(err, &refused):
		if what := opaque(r.Record); what != "" {
			r.addCall(verdict.Unsupported, "argument cannot be computed with: "+what)
			return
		}
		if r.Record.Unknown.Has(capture.Input) {
			r.addCall(verdict.Unsupported, "an argument that was recorded as None may be another value: "+err.Error())
			return
		}
		switch {
		case r.raised() != "": // so does the reference
			r.addCall(verdict.Skipped, r.raised())
		case errors.As(err, &unbound) && !r.torchRefuses():
			r.addCall(verdict.Unsupported, "no known form of "+r.Op+" takes these arguments: "+err.Error()+
				"; nearest: "+unbound.Nearest)
		case refused.Limit:
			r.addCall(verdict.Unsupported, err.Error())
		default:
			r.addCall(verdict.Error, err.Error())
		}
	default:
		r.addCall(verdict.Error, err.Error())
	}
}

// raised says what error the call raised, "" if it returned or that was not recorded.
func (r *comparison) raised() string {
	if r.entry == nil || r.entry.Raised == "" {
		return ""
	}
	return verdict.Raised + r.entry.Raised
}

// torchRefuses reports whether the function itself refuses arguments that fit no overload: the forms
// of torch's Python API are known, and a call that returned was not refused.
func (r *comparison) torchRefuses() bool {
	return opdef.OfTorch(r.Op) && r.Record.Err(capture.Output) != nil
}

// withoutValues reports whether the call took no tensor and returned None, as what sets a mode or
// asserts something does.
func (r *comparison) withoutValues() bool {
	if r.Record.Err(capture.Output) != nil || r.Record.Unknown.Has(capture.Input) {
		return false
	}
	for _, v := range flatten(r.Record.Output) {
		if v != nil {
			return false
		}
	}
	return len(r.Record.Inputs()) == 0 && opaque(r.Record) == ""
}

// opaque names the first value among the arguments that is not understood.
func opaque(rec *capture.Call) (what string) {
	value.Walk(value.NewTuple(value.NewTuple(rec.Args...), rec.Kwargs), func(v value.Value) {
		if what != "" {
			return
		}
		switch v := v.(type) {
		case *value.Opaque:
			what = v.Global
			if v.Reason != "" {
				what = v.Reason
			}
		case *tensor.Tensor:
			if !v.DType.Computable() {
				what = "dtype " + v.DType.String()
			}
		}
	})
	return what
}

// compareResults compares the recorded result, then the arguments after the call.
func (r *comparison) compareResults() {
	r.values.RecordedOutput, r.values.Output = r.Record.Output, []value.Value{r.returnedValue()}
	if !r.mistaken {
		r.addInputRows()
	}
	got, want := flatten(r.Record.Output), flatten(r.values.Output)
	if n := len(got) - r.bound.Entry.Schema.Numbers(); n == len(want) {
		got = got[:n]
	}
	wrong := func(reason string) {
		r.out.Results = append(r.out.Results, Result{Phase: Forward, Verdict: verdict.Fail, Reason: reason})
	}
	if of := r.Record.Name(capture.Output); of != r.Record.Op {
		wrong(fmt.Sprintf("output.pth is of %s, not of %s", of, r.Record.Op))
		return
	}
	switch {
	case len(got) != len(want):
		wrong(fmt.Sprintf("%d values recorded, the op returns %d", len(got), len(want)))
		return
	case r.misnested() != "":
		wrong(r.misnested())
		return
	case r.bound.Random() != "":
		r.compareRandom(got, want)
	case !(len(got) == 1 && got[0] == nil && want[0] == nil):
		r.compareOutputs(got, want)
	}
	r.compareArguments()
}

// misnested says that one tensor was recorded in another nesting than the call returns it
// in: by itself, or in a sequence of one; "" if not.
func (r *comparison) misnested() string {
	recorded := r.Record.Output
	sequence, known := r.bound.Sequence()
	if !known || len(recorded) != 1 || len(r.fwd.Outs) != 1 || len(tensorsOf(flatten(recorded))) != 1 {
		return ""
	}
	depth := 0
	for v := recorded[0]; depth < 2; depth++ {
		s, ok := v.(*value.Sequence)
		if !ok || len(s.Items) != 1 {
			break
		}
		v = s.Items[0]
	}
	switch _, itself := recorded[0].(*tensor.Tensor); { // not in a sequence beside None either
	case itself && sequence:
		return "recorded a tensor, the op returns a tuple of one"
	case depth > 0 && !sequence:
		return "recorded a sequence of one tensor, the op returns the tensor itself"
	case depth > 1:
		return "recorded a sequence in a sequence, the op returns a tuple of one tensor"
	}
	return ""
}

// returnedValue is what the call returns. Ops that change a list in place return
// nothing in torch 1 and the list in torch 2; what was recorded tells which.
func (r *comparison) returnedValue() value.Value {
	list := r.fwd.After["self"]
	if r.fwd.Value != nil || len(list) == 0 || len(tensorsOf(flatten(r.Record.Output))) != len(list) {
		return r.fwd.Value
	}
	out := make([]value.Value, len(list))
	for i, t := range list {
		out[i] = t
	}
	return value.NewList(out...)
}

// mixedDType is the dtype that is due of a result that was recorded as got and computed as want: under autocast, states
// are added up in float32 or in 16 bits.
func (r *comparison) mixedDType(got, want *tensor.Tensor) tensor.DType {
	switch {
	case r.mixed == tensor.Invalid:
		return want.DType
	case got.DType == tensor.Float32 || got.DType == r.mixed:
		return got.DType
	}
	return r.recordedDType()
}

// compareRandom checks dtype and shape of results whose values are not reproducible.
func (r *comparison) compareRandom(got, want []value.Value) {
	for i := range got {
		g, ok1 := got[i].(*tensor.Tensor)
		w, ok2 := want[i].(*tensor.Tensor)
		if ok2 && withoutElements(got[i]) {
			r.add(leaf(Forward, "output", i, len(got)), verdict.Skipped, unread(got[i]), nil)
			return
		}
		if ok1 != ok2 || ok1 && (g.DType != r.mixedDType(g, w) || !slices.Equal(g.Shape, w.Shape)) {
			reason := "recorded " + opdef.TypeName(got[i]) + ", want " + opdef.TypeName(want[i])
			r.add(leaf(Forward, "output", i, len(got)), verdict.Fail, reason, g)
			return
		}
	}
	if ts := tensorsOf(got); len(ts) > 0 && len(ts) == len(tensorsOf(want)) {
		switch d := r.bound.Drawn(ts); {
		case d.Wrong != "":
			r.add(leaf(Forward, "output", 0, len(got)), verdict.Fail, d.Wrong, ts[0])
			return
		case d.Plan != nil:
			r.compareDrawn(d, got)
			return
		case d.Checked != "":
			r.drawnOuts = ts
			v, what := verdict.Pass, "random numbers: "+d.Checked
			if !slices.ContainsFunc(ts, func(t *tensor.Tensor) bool { return !zeros(t) }) {
				v, what = verdict.Mistrusted, what+"; all are zero"
			}
			r.add(leaf(Forward, "output", 0, len(got)), v, what, ts[0])
			if d.Shown {
				shown := *r.Call
				shown.bound = r.bound.From(ts)
				r.Call, r.shown = &shown, true
			}
			return
		}
	}
	r.addCall(verdict.Skipped, r.bound.Random())
}

// compareDrawn compares results that show what was drawn with those of the call that
// draws just that.
func (r *comparison) compareDrawn(d opdef.Drawn, got []value.Value) {
	shown := *r.Call
	var err error
	if shown.bound, err = r.bound.With(d.Plan); err != nil {
		r.addCall(verdict.Error, err.Error())
		return
	}
	if shown.fwd, err = shown.bound.Forward(); err != nil {
		r.addCall(verdict.Error, err.Error())
		return
	}
	r.Call, r.shown = &shown, true
	at := len(r.out.Results)
	r.compareOutputs(got, flatten([]value.Value{shown.fwd.Value}))
	if res := r.out.Results[at:]; len(res) > 0 && res[0].Verdict == verdict.Pass && res[0].Reason == "" {
		res[0].Reason = "random numbers: " + d.Checked
	}
}

func (r *comparison) compareOutputs(got, want []value.Value) {
	at := len(r.out.Results)
	failed := false
	k := 0 // index among tensors
	r.recordedOuts = make([]*tensor.Tensor, len(r.fwd.Outs))
	for i := range got {
		var bound opdef.Bound
		result := -1 // index among the operator's results
		if w, ok := want[i].(*tensor.Tensor); ok {
			if k < len(r.fwd.Outs) && r.fwd.Outs[k] == w {
				bound = r.bound.OutBound(r.fwd, k)
				result = k
				k++
			} else if j := slices.Index(r.fwd.After["self"], w); j >= 0 {
				bound = r.bound.AfterBound("self", j, w)
			}
		}
		w, l := want[i], leaf(Forward, "output", i, len(got))
		switch t, ok := w.(*tensor.Tensor); {
		case undefined(got, i, w):
			w = nil
		case ok:
			a := r.altered(l.target, t)
			if scale := bound.Scale; scale != nil && !slices.Equal(a.Shape, t.Shape) { // see cropped
				bound.Scale = func() *tensor.Tensor { return r.altered(l.target, scale()) }
			}
			w = a
		}
		var res *Result
		if t, ok := w.(*tensor.Tensor); ok && r.sampler != nil && result == 0 {
			res = r.compareSampled(l, got[i], t, &sampledValue{labels: r.sampler.axes.Out}, tensor.Invalid)
		} else {
			if g, is := got[i].(*tensor.Tensor); is && ok {
				w = opdef.Cast(t, r.mixedDType(g, t))
			}
			res = r.compareValue(l, got[i], w, bound, r.mixed)
		}
		failed = failed || res.Verdict == verdict.Fail
		if t, ok := got[i].(*tensor.Tensor); ok && result >= 0 && res.Verdict != verdict.Fail {
			r.recordedOuts[result] = t
		}
	}
	if failed {
		r.accept(r.out.Results[at:], got, want)
	}
	if r.bound.Entry.Schema.Returns == "Tensor[]" || len(r.fwd.After["self"]) == len(got) {
		trustZeros(r.out.Results[at:])
	}
	if before := r.replaced(); len(before) == len(got) && len(r.out.Results)-at == len(got) {
		for i, t := range before {
			trustChange(&r.out.Results[at+i], t)
		}
	}
}

// replaced are the tensors whose elements the results replace, before the call.
func (r *comparison) replaced() []*tensor.Tensor {
	if ts := r.bound.Written(); ts != nil || r.fwd.After["self"] == nil {
		return ts
	}
	var list []*tensor.Tensor
	for _, a := range r.bound.Tensors() {
		if a.Name == "self" {
			list = append(list, a.Tensor)
		}
	}
	return list
}

// trustChange passes a value that is zero, as it should be, and was not zero before the call: the call wrote it.
func trustChange(r *Result, before *tensor.Tensor) {
	if r.Verdict == verdict.Mistrusted && r.Compared != nil && r.Compared.Zeros && !zeros(before) {
		r.Verdict, r.Reason = verdict.Pass, ""
	}
}

// trustZeros passes the items of a list that are zero, as they should be, if other items of the list passed: the same
// kernel computed all of them, so it ran and does not give zeros for everything.
func trustZeros(list []Result) {
	passed := func(r Result) bool { return r.Verdict == verdict.Pass || r.Verdict == verdict.Warn }
	if !slices.ContainsFunc(list, passed) {
		return
	}
	for i := range list {
		if r := &list[i]; r.Verdict == verdict.Mistrusted && r.Compared != nil && r.Compared.Zeros {
			r.Verdict, r.Reason = verdict.Pass, ""
		}
	}
}

// accept asks the op whether results that differ are right nevertheless: ties,
// unordered results, factors defined up to sign.
func (r *comparison) accept(results []Result, got, want []value.Value) {
	gs, ws := tensorsOf(got), tensorsOf(want)
	if len(gs) != len(got) || len(ws) != len(want) {
		return
	}
	for i := range gs {
		if gs[i].DType != ws[i].DType || !slices.Equal(gs[i].Shape, ws[i].Shape) {
			return
		}
	}
	as, ok := r.bound.Accept(gs, ws)
	if !ok {
		return
	}
	for i := range results {
		res := &results[i]
		switch {
		case res.Verdict != verdict.Fail:
		case as[i].OK:
			res.Verdict, res.Reason = verdict.Pass, as[i].Doubt
			if as[i].Doubt != "" {
				res.Verdict = verdict.Warn
			}
			if res.Compared != nil {
				res.Compared.Rule = as[i].Rule
			}
		case as[i].Reason != "":
			res.Reason = as[i].Reason
		}
	}
}

func tensorsOf(vs []value.Value) []*tensor.Tensor {
	var ts []*tensor.Tensor
	for _, v := range vs {
		if t, ok := v.(*tensor.Tensor); ok {
			ts = append(ts, t)
		}
	}
	return ts
}

// compareArguments compares the arguments after the call, where they were recorded.
func (r *comparison) compareArguments() {
	if !r.Record.HasAfter {
		return
	}
	now := r.changedArguments()
	written := map[tensor.Memory]int{} // the first place of each
	for i, t := range r.bound.Written() {
		if _, ok := written[t.Memory()]; !ok {
			written[t.Memory()] = i
		}
	}
	var drawn []*tensor.Tensor // what random numbers were returned, which are those written
	if r.bound.Random() != "" {
		drawn = tensorsOf(flatten(r.Record.Output))
	}
	expected := func(t *tensor.Tensor) (*tensor.Tensor, opdef.Bound) {
		n, changed := now[t]
		switch k, ok := written[t.Memory()]; {
		case !changed:
			return t, opdef.Bound{}
		case ok && k < len(drawn):
			return drawn[k], opdef.Bound{}
		}
		return n.value, n.bound
	}
	compareArgument := func(l label, t *tensor.Tensor, got value.Value) {
		want, bound := expected(t)
		if g, ok := got.(*tensor.Tensor); ok && want != t && r.Record.Unseen[g] {
			r.add(l, verdict.Skipped, "what the call wrote into this argument was not recorded", t)
			return
		}
		res := r.compareValue(l, got, want, bound, tensor.Invalid)
		if want == t && res.Verdict == verdict.Mistrusted { // the argument did not change, whatever its elements are
			res.Verdict, res.Reason = verdict.Pass, ""
		}
		if want != t {
			trustChange(res, t)
		}
	}
	before, after := flatten(r.Record.Args), flatten(r.Record.After)
	if len(before) != len(after) {
		r.addCall(verdict.Invalid, fmt.Sprintf("after.pth holds %d argument values, input.pth %d", len(after),
			len(before)))
		return
	}
	i := 0
	for _, arg := range r.Record.Args {
		at, items := len(r.out.Results), flatten([]value.Value{arg})
		for _, v := range items {
			if t, ok := v.(*tensor.Tensor); ok {
				compareArgument(leaf(Input, "input", i, len(before)), t, after[i])
			}
			i++
		}
		if len(items) > 1 {
			trustZeros(r.out.Results[at:])
		}
	}
	for _, it := range r.Record.Kwargs.Items {
		t, ok := it.Value.(*tensor.Tensor)
		key, _ := it.Key.(string)
		if !ok {
			continue
		}
		if v, has := r.Record.AfterKwargs.Get(key); has {
			compareArgument(keyword(key), t, v)
		}
	}
}

type changed struct {
	value *tensor.Tensor
	bound opdef.Bound
}

// changedArguments maps the tensors the call changes to their values after it. One that is given twice, as in
// a.mul_(a), changes in both places.
func (r *comparison) changedArguments() map[*tensor.Tensor]changed {
	last, memory := map[tensor.Memory]changed{}, map[*tensor.Tensor]tensor.Memory{}
	of := func(t *tensor.Tensor) tensor.Memory { // a list may hold one tensor many times
		m, ok := memory[t]
		if !ok {
			m = t.Memory()
			memory[t] = m
		}
		return m
	}
	given := flatten(r.Record.Args)
	for _, it := range r.Record.Kwargs.Items {
		given = append(given, flatten([]value.Value{it.Value})...)
	}
	tensors := tensorsOf(given)
	change := func(t *tensor.Tensor, n changed) {
		last[of(t)] = n
		tensors = append(tensors, t)
	}
	written := r.bound.Written()
	if ts := r.bound.Tensors(); len(written) == 0 && len(ts) > 0 && opdef.IsInPlaceName(r.Op) { // t_ and other views
		written = []*tensor.Tensor{ts[0].Tensor}
	}
	for i, t := range written {
		if i < len(r.fwd.Outs) {
			change(t, changed{r.fwd.Outs[i], r.bound.OutBound(r.fwd, i)})
		}
	}
	for _, a := range r.bound.Tensors() {
		quota.Check() // a list may be long
		ts := r.fwd.After[a.Name]
		if i := max(a.Index, 0); i < len(ts) && ts[i] != nil {
			change(r.recorded(a.Tensor), changed{ts[i], r.bound.AfterBound(a.Name, i, ts[i])})
		}
	}
	now := map[*tensor.Tensor]changed{}
	for _, t := range tensors {
		if n, ok := last[of(t)]; ok {
			now[t] = n
		}
	}
	return now
}

// addInputRows adds op_tools' rows for the positional arguments.
func (r *comparison) addInputRows() {
	now := r.changedArguments()
	args := flatten(r.Record.Args)
	recorded := args
	known := r.Record.HasAfter || len(r.bound.Written()) > 0
	if after := flatten(r.Record.After); r.Record.HasAfter && len(after) == len(args) {
		recorded = after
	} else if w := r.bound.Written(); len(w) > 0 {
		recorded = slices.Clone(args)
		returned := map[*tensor.Tensor]*tensor.Tensor{} // of those written
		for k, out := range tensorsOf(flatten(r.Record.Output)) {
			if k < len(w) && returned[w[k]] == nil {
				returned[w[k]] = out
			}
		}
		for i := range recorded {
			if t, ok := recorded[i].(*tensor.Tensor); ok && returned[t] != nil {
				recorded[i] = returned[t]
			}
		}
	}
	for i := range args {
		row := InputRow{Label: leaf(Input, "input", i, len(args)).label}
		t, isTensor := args[i].(*tensor.Tensor)
		g, gotTensor := recorded[i].(*tensor.Tensor)
		if isTensor && gotTensor && t.DType.Computable() && g.DType.Computable() {
			want := t
			if n, ok := now[t]; ok && known { // running statistics are seldom recorded after the call
				want = n.value
			}
			tol, _ := r.opt.Tolerances.For(r.Op, "", row.Label, g.DType)
			row.Numbers = compare.OpToolsTensors(g, want.Rounded(), tol)
		} else {
			row.Numbers = compare.OpToolsValues(recorded[i], args[i])
		}
		r.out.Inputs = append(r.out.Inputs, row)
	}
}

// A label names a value in results.
type label struct {
	phase  Phase
	target string // Result.Target
	label  string // Result.Label
}

// leaf labels leaf i of n of what a phase takes or gives; op_tools numbers them
// only when there are several.
func leaf(p Phase, what string, i, n int) label {
	target := fmt.Sprintf("%s[%d]", what, i)
	if n == 1 {
		return label{p, target, what}
	}
	return label{p, target, target}
}

// undefined reports whether result i of several is an undefined tensor, which Python
// sees as None, where the reference has an empty one: the gradients that the
// output_mask of convolution_backward leaves out.
func undefined(got []value.Value, i int, want value.Value) bool {
	w, ok := want.(*tensor.Tensor)
	return ok && got[i] == nil && slices.Equal(w.Shape, []int{0}) &&
		slices.ContainsFunc(got, func(v value.Value) bool { return v != nil })
}

// keyword labels a keyword argument after the call.
func keyword(name string) label { return label{Input, "input." + name, "input " + name} }

// compareValue adds the comparison of a value.
func (r *comparison) compareValue(l label, got, want value.Value, b opdef.Bound, precision tensor.DType) *Result {
	res := Result{Phase: l.phase, Target: l.target, Label: l.label}
	g, isTensor := got.(*tensor.Tensor)
	w, wantTensor := want.(*tensor.Tensor)
	switch {
	case r.glance != nil && isTensor && wantTensor && g.DType.IsFloat():
		res = r.glance.look(l, g, w)
	case isTensor && wantTensor && g.DType.Computable():
		res.DType, res.Shape, res.Reference = g.DType, g.Shape, reference(w)
		tol, asked := r.opt.Tolerances.For(r.Op, b.Class.String(), l.label, g.DType)
		m := r.model(l.phase, b, precision)
		e := r.bound.Entry
		m.Moved = l.phase == Forward && (e.Moves || e.MovesOnCPU && r.opt.Device == nil && g.OnCPU())
		m.Signed = l.phase != Backward && e.Signed
		c := compare.Check(g, w, m, tol, asked)
		res.Compared, res.Verdict, res.Reason = &c, c.Verdict, c.Reason
	case isTensor && wantTensor:
		res.Verdict, res.Reason = verdict.Unsupported, fmt.Sprintf("values of dtype %s cannot be compared", g.DType)
	case wantTensor && withoutElements(got):
		res.Verdict, res.Reason = verdict.Skipped, unread(got)
	default:
		numbers := compare.OpToolsValues(got, want)
		c := compare.Result{OpTools: numbers, Rule: "equal", Numel: 1}
		res.Compared, res.Verdict, res.Reference = &c, verdict.Pass, "python"
		if !equalValues(got, want) {
			c.Mismatched = 1
			res.Verdict = verdict.Fail
			res.Reason = fmt.Sprintf("recorded %s, want %s", value.Str(got), value.Str(want))
			if l.phase == Forward && got == nil && wantTensor {
				res.Reason += ": the call may have raised an error there"
			}
		}
	}
	r.out.Results = append(r.out.Results, res)
	return &r.out.Results[len(r.out.Results)-1]
}

// withoutElements reports whether a value is a tensor of a class that has no memory of its own, as stand-ins of
// compilers and tensors on several processes.
func withoutElements(v value.Value) bool {
	o, ok := v.(*value.Opaque)
	return ok && strings.HasSuffix(o.Global, "Tensor")
}

func unread(v value.Value) string { return "its elements were not recorded: it is a " + value.Str(v) }

// model is the error model of a value. The gradients of a call with operands of
// different precisions may have been summed in the lower one, as torch sums
// those of a float32 weight applied to bfloat16 activations.
func (r *comparison) model(p Phase, b opdef.Bound, precision tensor.DType) compare.Model {
	operand := b.Operand
	if p == Backward {
		for _, a := range r.bound.Tensors() {
			if a.Tensor.DType.IsHalf() {
				operand = a.Tensor.DType
			}
		}
	}
	coarse := b.Coarse
	if r.mixed != tensor.Invalid && r.bound.Entry.Autocast == opdef.AutocastInner {
		operand, coarse = r.mixed, false // S counts float32, in which the products were not computed
	}
	return compare.Model{
		Operand: operand,
		Exact:   b.Class == opdef.Exact,
		ULPs:    b.ULPs, Scale: b.Scale, Least: b.Least, LeastShare: b.LeastShare,
		Covers: b.Covers, Terms: b.Terms,
		Coarse: coarse, Shared: p != Forward || b.Shared, Sum: b.Class == opdef.Accumulated, Single: b.Single(),
		Chain: b.Chain, Else: b.Else, Factors: b.Factors, Steps: b.Steps, OtherDType: b.OtherDType,
		Trivial: r.bound.Entry.Trivial, Round: precision, Part: r.part,
	}
}

// add adds a result of a value that was not compared; t is nil if it was not recorded.
func (r *comparison) add(l label, v verdict.Verdict, reason string, t *tensor.Tensor) {
	res := Result{Phase: l.phase, Target: l.target, Label: l.label, Verdict: v, Reason: reason}
	if t != nil {
		res.DType, res.Shape = t.DType, t.Shape
	}
	r.out.Results = append(r.out.Results, res)
}

func reference(t *tensor.Tensor) string {
	switch t.DType.Kind() {
	case tensor.KindComplex:
		return "complex128"
	case tensor.KindFloat:
		return "float64"
	case tensor.KindBool:
		return "bool"
	}
	return "int64"
}

// equalValues compares two Python values that are not tensors; NaN equals NaN.
func equalValues(a, b value.Value) bool {
	if x, ok := a.(float64); ok {
		y, ok := b.(float64)
		return ok && (x == y || x != x && y != y)
	}
	_, ta := a.(*tensor.Tensor)
	_, tb := b.(*tensor.Tensor)
	return !ta && !tb && value.Repr(a) == value.Repr(b)
}

// flatten lists the leaves of values that expandable accepted.
func flatten(vs []value.Value) []value.Value {
	leaves, _ := value.Leaves(vs)
	return leaves
}

// expandable checks that everything to be flattened can be.
func expandable(rec *capture.Call) error {
	for _, vs := range [][]value.Value{rec.Args, rec.Output, rec.GradInputs, rec.GradOutputs, rec.After} {
		if _, err := value.Leaves(vs); err != nil {
			return err
		}
	}
	return nil
}
