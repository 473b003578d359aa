package replay

import (
	"fmt"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

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

// mixedDType is the dtype that is due of a result that was recorded in dtype got and computed in dtype want: under
// autocast, states are added up in float32 or in 16 bits.
func (r *comparison) mixedDType(got, want tensor.DType) tensor.DType {
	switch {
	case r.mixed == tensor.Invalid:
		return want
	case got == tensor.Float32 || got == r.mixed:
		return got
	}
	return r.recordedDType()
}

// compareOutputs compares the recorded results with those of the call, one by one, then all together where the operator
// or its list says more than each of them.
func (r *comparison) compareOutputs(got, want []value.Value) {
	at := len(r.out.Results)
	failed := false
	met := 0 // of the operator's results
	given := make([]*tensor.Tensor, len(r.fwd.Outs))
	for i := range got {
		result, bound := r.boundOf(want[i], met)
		if result >= 0 {
			met++
		}
		w := want[i]
		if undefined(got, i, w) {
			w = nil
		}
		res := r.compareOutput(leaf(Forward, "output", i, len(got)), got[i], w, result, bound)
		failed = failed || res.Verdict == verdict.Fail
		if t, ok := got[i].(*tensor.Tensor); ok && result >= 0 {
			given[result] = t
		}
	}
	if failed {
		r.accept(r.out.Results[at:], got, want)
	}
	r.keep(given, r.fwd.Outs, at)
	if r.bound.Entry.Schema.Returns == "Tensor[]" || len(r.fwd.After["self"]) == len(got) {
		trustZeros(r.out.Results[at:])
	}
	if before := r.replaced(); len(before) == len(got) && len(r.out.Results)-at == len(got) {
		for i, t := range before {
			trustChange(&r.out.Results[at+i], t)
		}
	}
}

// keep notes the results that were given where want is due, of which the outcome has the results from at on.
func (r *comparison) keep(given, want []*tensor.Tensor, at int) {
	failed := slices.ContainsFunc(r.out.Results[at:], func(res Result) bool { return res.Verdict == verdict.Fail })
	for i, t := range given {
		if failed && t != nil &&
			(t.DType != want[i].DType || !slices.Equal(t.Shape, want[i].Shape) || !t.DType.Computable()) {
			given[i] = nil
		}
	}
	r.given, r.givenWrong = given, failed
}

// boundOf is the bound of a value that the call gives, and its place among the operator's results, of which so many
// were met before; -1 for what is none of them.
func (r *comparison) boundOf(v value.Value, met int) (result int, b opdef.Bound) {
	t, ok := v.(*tensor.Tensor)
	switch {
	case !ok:
		return -1, opdef.Bound{}
	case met < len(r.fwd.Outs) && r.fwd.Outs[met] == t:
		return met, r.bound.OutBound(r.fwd, met)
	}
	if i := slices.Index(r.fwd.After["self"], t); i >= 0 {
		return -1, r.bound.AfterBound("self", i, t)
	}
	return -1, opdef.Bound{}
}

// compareOutput compares one value that the call gives, which is the operator's result of that number or, where that is
// below 0, none.
func (r *comparison) compareOutput(l label, got, want value.Value, result int, b opdef.Bound) *Result {
	t, ok := want.(*tensor.Tensor)
	if !ok {
		return r.compareValue(l, got, want, b, r.mixed)
	}
	due := r.altered(l.target, t)
	if scale := b.Scale; scale != nil && !slices.Equal(due.Shape, t.Shape) { // see cropped
		b.Scale = func() *tensor.Tensor { return r.altered(l.target, scale()) }
	}
	if r.sampler != nil && result == 0 {
		return r.compareSampled(l, got, due, &sampledValue{labels: r.sampler.axes.Out}, tensor.Invalid)
	}
	if g, ok := got.(*tensor.Tensor); ok {
		due = opdef.Cast(due, r.mixedDType(g.DType, due.DType))
	}
	return r.compareValue(l, got, due, b, r.mixed)
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

// undefined reports whether result i of several is an undefined tensor, which Python
// sees as None, where the reference has an empty one: the gradients that the
// output_mask of convolution_backward leaves out.
func undefined(got []value.Value, i int, want value.Value) bool {
	w, ok := want.(*tensor.Tensor)
	return ok && got[i] == nil && slices.Equal(w.Shape, []int{0}) &&
		slices.ContainsFunc(got, func(v value.Value) bool { return v != nil })
}
