package replay

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

// Options of Run.
type Options struct {
	Registry    *opdef.Registry
	Tolerances  *compare.Tolerances
	ForwardOnly bool // skip gradients
	Runs        int  // how many times to run the forward pass; 0 means once
	Read        pthformat.ReadMode

	// Device, if not nil, is what is compared with the reference instead of what
	// was recorded; Stress also runs it in other memory layouts.
	Device Device
	Stress bool
}

// Run replays one capture. It never panics and always gives at least one
// result. use, if not nil, sees the outcome while the tensors of the capture
// can still be read; they must not be kept.
func Run(e *capture.Entry, opt Options, use func(*Outcome)) *Outcome {
	rec, err := e.Load(capture.LoadOptions{Read: opt.Read}) // gives what could be read, also with an error
	r := &runner{Options: opt, rec: rec, out: &Outcome{Op: rec.Op, Args: rec.Args, Kwargs: rec.Kwargs}}
	defer r.rec.Close()
	r.guard(func() { r.run(err) })
	if use != nil {
		r.guard(func() { use(r.out) })
	}
	r.out.drop()
	return r.out
}

// drop forgets tensors whose file is about to be closed.
func (o *Outcome) drop() {
	o.Output, o.GradInputs, o.RecordedOutput, o.RecordedGradInputs, o.RecordedGradOutputs, o.Args, o.Kwargs = nil, nil,
		nil, nil, nil, nil, nil
}

type runner struct {
	Options
	rec  *capture.Call
	call *opdef.Call
	fwd  *opdef.Forward
	out  *Outcome
	// original maps arguments of call that were replaced to the recorded ones.
	original map[*tensor.Tensor]*tensor.Tensor
}

// guard runs f and turns a panic into a result: a storage that cannot be read
// (also a file that shrank under its memory map) is invalid input, anything
// else an error of the reference.
func (r *runner) guard(f func()) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		var read *tensor.ReadError
		var memory *tensor.MemoryError
		var fault interface{ Addr() uintptr }
		err, _ := p.(error)
		switch {
		case errors.As(err, &read):
			r.whole(verdict.Invalid, read.Error())
		case errors.As(err, &memory):
			r.whole(verdict.Skipped, memory.Error())
		case errors.As(err, &fault):
			r.whole(verdict.Invalid, "a file changed while it was read")
		default:
			r.whole(verdict.Error, fmt.Sprintf("internal error of the reference: %v", p))
		}
	}()
	f()
}

// whole adds the result of a call that could not be compared.
func (r *runner) whole(v verdict.Verdict, reason string) {
	r.out.Results = append(r.out.Results, Result{Phase: Forward, Verdict: v, Reason: reason})
}

func (r *runner) run(loadErr error) {
	if err := r.rec.Err(capture.Input); err != nil {
		r.whole(verdict.Invalid, err.Error())
		return
	}
	if loadErr != nil { // another file is broken: say so, then do what can be done
		for _, k := range capture.Kinds() {
			var fe *capture.FileError
			if errors.As(r.rec.Err(k), &fe) {
				r.whole(verdict.Invalid, fe.Error())
			}
		}
	}
	err := r.expandable()
	if err != nil {
		r.whole(verdict.Invalid, err.Error())
		return
	}
	if r.call, err = r.Registry.Bind(r.rec.Op, r.rec.Args, r.rec.Kwargs); err != nil {
		r.refused(err)
		return
	}
	r.attempt(loadErr)
	if r.Device == nil {
		r.readAgain(loadErr)
	}
}

// attempt runs the bound call and compares what was recorded with it.
func (r *runner) attempt(loadErr error) {
	var err error
	if r.fwd, err = r.call.Forward(); err != nil {
		r.refused(err)
		return
	}
	for range r.Runs - 1 {
		if err := r.again(); err != nil {
			r.whole(verdict.Error, err.Error())
			return
		}
	}
	if r.Device != nil {
		r.onDevice()
		return
	}
	if r.rec.Err(capture.Output) != nil {
		if loadErr == nil {
			r.whole(verdict.Skipped, verdict.NoOutput)
		}
	} else {
		r.forward()
	}
	if !r.ForwardOnly && r.rec.Has(capture.GradInputs) && r.rec.Has(capture.GradOutputs) {
		r.guard(r.backward)
	}
	if len(r.out.Results) == 0 {
		r.whole(verdict.Skipped, verdict.NothingReturned)
	}
}

// again runs the forward pass once more and demands the same bits.
func (r *runner) again() error {
	f, err := r.call.Forward()
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

// refused reports a call that the reference does not run.
func (r *runner) refused(err error) {
	var refused *opdef.RefusedError
	switch {
	case errors.Is(err, opdef.ErrUnknownOp):
		reason := "unknown op " + r.rec.Op
		if near := r.Registry.Similar(r.rec.Op); len(near) > 0 {
			reason += "; known: " + strings.Join(near, ", ")
		}
		r.whole(verdict.Unsupported, reason)
	case errors.As(err, &refused):
		if what := opaque(r.rec); what != "" {
			r.whole(verdict.Unsupported, "argument cannot be computed with: "+what)
			return
		}
		r.whole(verdict.Error, err.Error())
	default:
		r.whole(verdict.Error, err.Error())
	}
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

// forward compares the recorded result, then the arguments after the call.
func (r *runner) forward() {
	r.out.RecordedOutput, r.out.Output = r.rec.Output, []value.Value{r.returned()}
	r.inputRows()
	got, want := flatten(r.rec.Output), flatten(r.out.Output)
	switch {
	case len(got) != len(want):
		r.out.Results = append(r.out.Results, Result{Phase: Forward, Verdict: verdict.Fail,
			Reason: fmt.Sprintf("%d values recorded, the op returns %d", len(got), len(want))})
		return
	case r.call.Random() != "":
		r.random(got, want)
	case !(len(got) == 1 && got[0] == nil && want[0] == nil):
		r.compareOutputs(got, want)
	}
	r.after()
}

// returned is what the call returns. Ops that change a list in place return
// nothing in torch 1 and the list in torch 2; what was recorded tells which.
func (r *runner) returned() value.Value {
	list := r.fwd.After["self"]
	if r.fwd.Value != nil || len(list) == 0 || len(tensorsOf(flatten(r.rec.Output))) != len(list) {
		return r.fwd.Value
	}
	out := make([]value.Value, len(list))
	for i, t := range list {
		out[i] = t
	}
	return value.NewList(out...)
}

// random checks dtype and shape of results whose values are not reproducible.
func (r *runner) random(got, want []value.Value) {
	for i := range got {
		g, ok1 := got[i].(*tensor.Tensor)
		w, ok2 := want[i].(*tensor.Tensor)
		if ok1 != ok2 || ok1 && (g.DType != w.DType || !slices.Equal(g.Shape, w.Shape)) {
			reason := "recorded " + opdef.TypeName(got[i]) + ", want " + opdef.TypeName(want[i])
			r.add(Forward, "output", i, len(got), verdict.Fail, reason, nil, g)
			return
		}
	}
	r.whole(verdict.Skipped, r.call.Random())
}

func (r *runner) compareOutputs(got, want []value.Value) {
	at := len(r.out.Results)
	failed := false
	k := 0 // index among tensors
	for i := range got {
		var bound opdef.Bound
		if w, ok := want[i].(*tensor.Tensor); ok {
			if k < len(r.fwd.Outs) && r.fwd.Outs[k] == w {
				bound = r.call.OutBound(r.fwd, k)
				k++
			} else if j := slices.Index(r.fwd.After["self"], w); j >= 0 {
				bound = r.call.AfterBound("self", j, w)
			}
		}
		res := r.compare(Forward, "output", i, len(got), got[i], want[i], bound, tensor.Invalid)
		failed = failed || res.Verdict == verdict.Fail
	}
	if failed {
		r.accept(r.out.Results[at:], got, want)
	}
}

// accept asks the op whether results that differ are right nevertheless: ties,
// unordered results, factors defined up to sign.
func (r *runner) accept(results []Result, got, want []value.Value) {
	gs, ws := tensorsOf(got), tensorsOf(want)
	if len(gs) != len(got) || len(ws) != len(want) {
		return
	}
	for i := range gs {
		if gs[i].DType != ws[i].DType || !slices.Equal(gs[i].Shape, ws[i].Shape) {
			return
		}
	}
	as, ok := r.call.Accept(gs, ws)
	if !ok {
		return
	}
	for i := range results {
		res := &results[i]
		switch {
		case res.Verdict != verdict.Fail:
		case as[i].OK:
			res.Verdict, res.Reason = verdict.Pass, ""
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

// after compares the arguments after the call, where they were recorded.
func (r *runner) after() {
	if !r.rec.HasAfter {
		return
	}
	now := r.newValues()
	before, after := flatten(r.rec.Args), flatten(r.rec.After)
	if len(before) != len(after) {
		r.whole(verdict.Invalid, fmt.Sprintf("after.pth holds %d argument values, input.pth %d", len(after),
			len(before)))
		return
	}
	for i := range before {
		t, ok := before[i].(*tensor.Tensor)
		if !ok {
			continue
		}
		want, bound := t, opdef.Bound{}
		if n, changed := now[t]; changed {
			want, bound = n.value, n.bound
		}
		r.compare(Input, "input", i, len(before), after[i], want, bound, tensor.Invalid)
	}
	for _, it := range r.rec.Kwargs.Items {
		t, ok := it.Value.(*tensor.Tensor)
		key, _ := it.Key.(string)
		if !ok {
			continue
		}
		if v, has := r.rec.AfterKwargs.Get(key); has {
			want, bound := t, opdef.Bound{}
			if n, changed := now[t]; changed {
				want, bound = n.value, n.bound
			}
			r.compareAs(Input, "input."+key, "input "+key, v, want, bound, tensor.Invalid)
		}
	}
}

type changed struct {
	value *tensor.Tensor
	bound opdef.Bound
}

// newValues maps the tensors the call changes to their values after it.
func (r *runner) newValues() map[*tensor.Tensor]changed {
	now := map[*tensor.Tensor]changed{}
	for i, t := range r.call.Written() {
		if i < len(r.fwd.Outs) {
			now[t] = changed{r.fwd.Outs[i], r.call.OutBound(r.fwd, i)}
		}
	}
	for _, a := range r.call.Tensors() {
		ts := r.fwd.After[a.Name]
		if i := max(a.Index, 0); i < len(ts) && ts[i] != nil {
			now[r.source(a.Tensor)] = changed{ts[i], r.call.AfterBound(a.Name, i, ts[i])}
		}
	}
	return now
}

// inputRows makes op_tools' rows for the positional arguments.
func (r *runner) inputRows() {
	now := r.newValues()
	args := flatten(r.rec.Args)
	recorded := args
	known := r.rec.HasAfter || len(r.call.Written()) > 0
	if after := flatten(r.rec.After); r.rec.HasAfter && len(after) == len(args) {
		recorded = after
	} else if w := r.call.Written(); len(w) > 0 {
		recorded = slices.Clone(args)
		outs := tensorsOf(flatten(r.rec.Output))
		for i := range recorded {
			if t, ok := recorded[i].(*tensor.Tensor); ok {
				if k := slices.Index(w, t); k >= 0 && k < len(outs) {
					recorded[i] = outs[k]
				}
			}
		}
	}
	for i := range args {
		row := InputRow{Label: label("input", i, len(args))}
		t, isTensor := args[i].(*tensor.Tensor)
		g, gotTensor := recorded[i].(*tensor.Tensor)
		if isTensor && gotTensor && t.DType.Computable() && g.DType.Computable() {
			want := t
			if n, ok := now[t]; ok && known { // running statistics are seldom recorded after the call
				want = n.value
			}
			row.Numbers = compare.OpToolsTensors(g, want.Rounded(), r.Tolerances.For(r.rec.Op, "", row.Label, g.DType))
		} else {
			row.Numbers = compare.OpToolsValues(recorded[i], args[i])
		}
		r.out.Inputs = append(r.out.Inputs, row)
	}
}

// compare adds the comparison of leaf i of n.
func (r *runner) compare(p Phase, what string, i, n int, got, want value.Value, b opdef.Bound,
	precision tensor.DType) *Result {
	return r.compareAs(p, fmt.Sprintf("%s[%d]", what, i), label(what, i, n), got, want, b, precision)
}

// label is op_tools' name of leaf i of n: numbered only when there are several.
func label(what string, i, n int) string {
	if n == 1 {
		return what
	}
	return fmt.Sprintf("%s[%d]", what, i)
}

func (r *runner) compareAs(p Phase, target, label string, got, want value.Value, b opdef.Bound,
	precision tensor.DType) *Result {
	res := Result{Phase: p, Target: target, Label: label}
	g, isTensor := got.(*tensor.Tensor)
	w, wantTensor := want.(*tensor.Tensor)
	switch {
	case isTensor && wantTensor && g.DType.Computable():
		res.DType, res.Shape, res.Reference = g.DType, g.Shape, reference(w)
		tol := r.Tolerances.For(r.rec.Op, b.Class.String(), label, g.DType)
		c := compare.Check(g, w, r.model(p, b, precision), tol, r.Tolerances.Override(r.rec.Op, b.Class.String(),
			label, g.DType))
		res.Compared, res.Verdict, res.Reason = &c, c.Verdict, c.Reason
	case isTensor && wantTensor:
		res.Verdict, res.Reason = verdict.Unsupported, fmt.Sprintf("values of dtype %s cannot be compared", g.DType)
	default:
		numbers := compare.OpToolsValues(got, want)
		c := compare.Result{OpTools: numbers, Rule: "equal", Numel: 1}
		res.Compared, res.Verdict, res.Reference = &c, verdict.Pass, "python"
		if !equalValues(got, want) {
			c.Mismatched = 1
			res.Verdict = verdict.Fail
			res.Reason = fmt.Sprintf("recorded %s, want %s", value.Str(got), value.Str(want))
			if p == Forward && got == nil && wantTensor {
				res.Reason += ": the call may have raised an error there"
			}
		}
	}
	r.out.Results = append(r.out.Results, res)
	return &r.out.Results[len(r.out.Results)-1]
}

// model is the error model of a value. The gradients of a call with operands of
// different precisions may have been summed in the lower one, as torch sums
// those of a float32 weight applied to bfloat16 activations.
func (r *runner) model(p Phase, b opdef.Bound, precision tensor.DType) compare.Model {
	operand := tensor.Invalid
	if p == Backward {
		for _, a := range r.call.Tensors() {
			if a.Tensor.DType.IsFloat() && a.Tensor.DType.Size() == 2 {
				operand = a.Tensor.DType
			}
		}
	}
	return compare.Model{
		Operand: operand,
		Exact:   b.Class == opdef.Exact, ULPs: b.ULPs, Scale: b.Scale, Covers: b.Covers, Terms: b.Terms,
		Coarse:  b.Coarse,
		Trivial: r.call.Entry.Trivial, Round: precision,
	}
}

func (r *runner) add(p Phase, what string, i, n int, v verdict.Verdict, reason string, c *compare.Result,
	t *tensor.Tensor) {
	res := Result{Phase: p, Target: fmt.Sprintf("%s[%d]", what, i), Label: label(what, i, n), Verdict: v,
		Reason: reason, Compared: c}
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
func (r *runner) expandable() error {
	for _, vs := range [][]value.Value{r.rec.Args, r.rec.Output, r.rec.GradInputs, r.rec.GradOutputs, r.rec.After} {
		if _, err := value.Leaves(vs); err != nil {
			return err
		}
	}
	return nil
}
