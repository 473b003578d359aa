package replay

import (
	"fmt"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// compareRandom checks dtype and shape of results whose values are not reproducible.
func (r *comparison) compareRandom(got, want []value.Value) {
	r.values.OnAverage = true
	for i := range got {
		g, ok1 := got[i].(*tensor.Tensor)
		w, ok2 := want[i].(*tensor.Tensor)
		if ok2 && withoutElements(got[i]) {
			r.add(leaf(Forward, "output", i, len(got)), verdict.Skipped, unread(got[i]), nil)
			return
		}
		if ok1 != ok2 || ok1 && (g.DType != r.mixedDType(g.DType, w.DType) || !slices.Equal(g.Shape, w.Shape)) {
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
	r.values.Output, r.values.OnAverage = []value.Value{shown.fwd.Value}, false
	at := len(r.out.Results)
	r.compareOutputs(got, flatten([]value.Value{shown.fwd.Value}))
	if res := r.out.Results[at:]; len(res) > 0 && res[0].Verdict == verdict.Pass && res[0].Reason == "" {
		res[0].Reason = "random numbers: " + d.Checked
	}
}

// judgeDrawn judges the recorded gradients of a call that draws random numbers which its
// results do not show. It reports whether anything could be said.
func (r *comparison) judgeDrawn(saved []value.Value) bool {
	if r.drawnOuts == nil || !r.bound.Entry.HasGrad {
		return false
	}
	out, reason := r.recordedGradOutputs()
	if reason != "" {
		return false
	}
	var targets []opdef.Arg
	if !r.Record.ByOpTools {
		var ok bool
		if targets, ok = r.perTensor(saved); !ok {
			return true
		}
	} else if _, ok := viewed(saved, out); !ok {
		targets, _ = r.align(saved, out)
	}
	got, first, fit := r.drawnGradients(saved, targets)
	if !fit || first < 0 {
		return !fit
	}
	l, t := leaf(Backward, "grad", first, len(saved)), saved[first].(*tensor.Tensor)
	switch d := r.bound.DrawnGrads(r.drawnOuts, out, got); {
	case d.Wrong != "":
		r.add(l, verdict.Fail, d.Wrong, t)
	case d.Checked != "":
		r.add(l, verdict.Pass, "random numbers: "+d.Checked, t)
	default:
		return false
	}
	return true
}

// drawnGradients are the recorded gradients by argument, and the place of the first, -1 if there is none. One that is
// no gradient of its argument does not fit, and is reported.
func (r *comparison) drawnGradients(saved []value.Value, targets []opdef.Arg) (got opdef.Grads, first int, fit bool) {
	got, first, r.arguments = opdef.Grads{}, -1, argumentsOf(targets)
	for i, a := range targets {
		t, ok := saved[i].(*tensor.Tensor)
		if !ok || a.Tensor == nil {
			continue
		}
		// Under autocast the gradient of what was cast is that of the recorded argument.
		if !slices.Equal(t.Shape, a.Tensor.Shape) ||
			t.DType != a.Tensor.DType && (r.Record.ByOpTools || t.DType != r.recorded(a.Tensor).DType) {
			r.add(leaf(Backward, "grad", i, len(saved)), verdict.Fail, fmt.Sprintf("recorded %s, want the gradient "+
				"of %q, %s", t.Meta(), a.Name, a.Tensor.Meta()), t)
			return nil, -1, false
		}
		k := max(a.Index, 0)
		for len(got[a.Name]) <= k {
			got[a.Name] = append(got[a.Name], nil)
		}
		got[a.Name][k] = opdef.Cast(t, a.Tensor.DType)
		if first < 0 {
			first = i
		}
	}
	return got, first, true
}
