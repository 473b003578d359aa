package replay

import (
	"fmt"
	"slices"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// compareArguments compares the arguments after the call, where they were recorded.
func (r *comparison) compareArguments() {
	if !r.Record.HasAfter {
		return
	}
	before, after := flatten(r.Record.Args), flatten(r.Record.After)
	if len(before) != len(after) {
		r.addCall(verdict.Invalid, fmt.Sprintf("after.pth holds %d argument values, input.pth %d", len(after),
			len(before)))
		return
	}
	now := r.argumentsAfter()
	i := 0
	for _, arg := range r.Record.Args {
		at, items := len(r.out.Results), flatten([]value.Value{arg})
		for _, v := range items {
			if t, ok := v.(*tensor.Tensor); ok {
				r.compareArgument(leaf(Input, "input", i, len(before)), t, after[i], now)
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
			r.compareArgument(keyword(key), t, v, now)
		}
	}
}

// compareArgument compares what was recorded of an argument after the call with what the call leaves there: what it
// changes is in now.
func (r *comparison) compareArgument(l label, t *tensor.Tensor, got value.Value, now map[*tensor.Tensor]changed) {
	after, ok := now[t]
	if !ok {
		after.value = t
	}
	same := after.value == t
	if g, ok := got.(*tensor.Tensor); ok && !same && r.Record.Unseen[g] {
		r.add(l, verdict.Skipped, "what the call wrote into this argument was not recorded", t)
		return
	}
	if !same {
		after.value = r.altered(l.target, after.value)
	}
	res := r.compareValue(l, got, after.value, after.bound, tensor.Invalid)
	switch {
	case !same:
		trustChange(res, t)
	case res.Verdict == verdict.Mistrusted: // the argument did not change, whatever its elements are
		res.Verdict, res.Reason = verdict.Pass, ""
	}
}

// argumentsAfter is changedArguments where a call that draws random numbers writes the ones that it returned.
func (r *comparison) argumentsAfter() map[*tensor.Tensor]changed {
	now := r.changedArguments()
	if r.bound.Random() == "" {
		return now
	}
	drawn := tensorsOf(flatten(r.Record.Output))
	written := map[tensor.Memory]int{} // the first place of each
	for i, t := range r.bound.Written() {
		if _, ok := written[t.Memory()]; !ok {
			written[t.Memory()] = i
		}
	}
	for t := range now {
		if i, ok := written[t.Memory()]; ok && i < len(drawn) {
			now[t] = changed{value: drawn[i]}
		}
	}
	return now
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
			change(r.recorded(t), changed{r.fwd.Outs[i], r.bound.OutBound(r.fwd, i)})
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
