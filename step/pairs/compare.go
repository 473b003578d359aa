package pairs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Comparer compares the values of pairs.
type Comparer struct {
	Tolerances *compare.Tolerances
	Read       pthformat.ReadMode
	Repro      func(Pair) string // the command that compares a pair again
	Registry   *opdef.Registry   // has the schemas by which arguments are bound; nil if nothing is known
}

// Compare compares the files of a pair. It gives at least one result, and how far apart the values are.
func (c Comparer) Compare(p Pair) ([]*reports.Result, map[*reports.Result]*Difference) {
	r := c.of(p)
	if p.B == nil {
		r.whole("", verdict.Skipped, p.only)
		return r.results, nil
	}
	a, _ := p.A.Load(capture.LoadOptions{Read: c.Read, Only: capture.Of(p.kinds...)})
	defer a.Close()
	b, _ := p.B.Load(capture.LoadOptions{Read: c.Read, Side: p.bSide, Only: capture.Of(p.kinds...)})
	defer b.Close()
	r.op, r.cut = a.Op, [2]bool{p.A.Unended != "", p.B.Unended != ""}
	x, y := r.bind(a), r.bind(b)
	if x != nil && y != nil {
		r.vacant = x.Random() == opdef.Uninitialised && y.Random() == opdef.Uninitialised
	}
	for _, k := range p.kinds {
		r.precision = tensor.Invalid
		if k == capture.GradInputs {
			r.precision = precision(a.Inputs())
		}
		r.kind(k, a, b)
	}
	if len(r.results) == 0 {
		r.whole("", verdict.Skipped, "the two sides have no file in common")
	}
	r.settleUnset()
	nameParameters(r.results, a, x)
	return r.results, r.apart
}

// nameParameters names, of the results of a call that did not pass, the parameter that an argument is, and the argument
// and the parameter that a gradient belongs to. op_tools records gradients of inner nodes, which are not named.
func nameParameters(rs []*reports.Result, of *capture.Call, bound *opdef.Call) {
	inputs := of.Inputs()
	for _, r := range rs {
		if r.Verdict == verdict.Pass {
			continue
		}
		if r.Phase == "input" {
			r.Parameter = cmp.Or(of.ParameterAt(r.Target),
				parameterOf(strings.TrimPrefix(r.Target, "input."), of, bound))
			continue
		}
		n := 0
		if _, err := fmt.Sscanf(r.Target, "grad[%d]", &n); err != nil || of.ByOpTools || bound == nil ||
			n >= len(inputs) || len(inputs) != len(of.GradInputs) {
			continue
		}
		for _, arg := range bound.Tensors() {
			if arg.Tensor == inputs[n] {
				r.Argument, r.Parameter = arg.Name, of.ParameterName(inputs[n])
			}
		}
	}
}

// parameterOf is the parameter that an argument of the operator is, which a call may have by its place.
func parameterOf(argument string, of *capture.Call, bound *opdef.Call) string {
	if bound == nil {
		return ""
	}
	for _, arg := range bound.Tensors() {
		if arg.Name == argument {
			return of.ParameterName(arg.Tensor)
		}
	}
	return ""
}

// of is the comparison of a pair before anything was compared.
func (c Comparer) of(p Pair) *comparison {
	r := &comparison{Comparer: c, op: p.A.Op, apart: map[*reports.Result]*Difference{}, sides: recordings}
	if p.A == p.B {
		r.sides = [2]string{"device's side", "CPU's side"}
	}
	r.locate = func(res *reports.Result) {
		repro := c.Repro(p)
		results.Locate(res, p.A, r.op)
		if res.RecordedOn = results.RecordedOn(p.A, r.places[0]); p.B != nil && res.RecordedOn != "" {
			if on := results.RecordedOn(p.B, r.places[1]); on != "" && on != res.RecordedOn {
				res.RecordedOn += ", compared with " + on
			}
		}
		res.Repro = &repro
	}
	return r
}

// GiveUp is the result of a pair whose comparison ended for a reason, such as a limit.
func (c Comparer) GiveUp(p Pair, err error) []*reports.Result {
	r := c.of(p)
	r.whole("", verdict.Error, err.Error())
	return r.results
}

// A comparison is that of one pair.
type comparison struct {
	Comparer
	op      string
	locate  func(*reports.Result) // fills in what is compared
	sides   [2]string             // what is compared, in words
	places  [2]string             // the devices of the values that are compared
	results []*reports.Result
	apart   map[*reports.Result]*Difference // nil if nobody asks

	cut [2]bool // the recordings of the two sides are not whole

	unset []*reports.Result // arguments that only one of the calls sets

	vacant bool // both calls leave the memory of their results as it was

	// stored says that values were saved, not computed: integers that differ are no rounding.
	stored bool

	// precision is the dtype that gradients have the precision of although
	// op_tools stored them wider; Invalid if there is none.
	precision tensor.DType
}

// precision is the narrowest floating dtype among the tensors of a call.
func precision(ts []*tensor.Tensor) tensor.DType {
	least := tensor.Invalid
	for _, t := range ts {
		if t.DType.IsFloat() && (least == tensor.Invalid || t.DType.Eps() > least.Eps()) {
			least = t.DType
		}
	}
	return least
}

// recordings are the two recordings that are compared, in words: screens say which is which.
var recordings = [2]string{"new recording", "old recording"}

// inWords are what the files of a call hold, in words.
var inWords = map[capture.Kind]string{capture.Input: "its arguments", capture.Output: "its results",
	capture.GradInputs: "its gradients", capture.GradOutputs: "the gradients that arrive",
	capture.After: "its arguments after the call, which it changed there"}

// kind compares one file of both sides.
func (c *comparison) kind(k capture.Kind, a, b *capture.Call) {
	phase, target := results.Phase(k)
	noA, noB := errors.Is(a.Err(k), capture.ErrNoFile), errors.Is(b.Err(k), capture.ErrNoFile)
	switch {
	case noA && noB:
		return
	case k == capture.After && (noB && keeps(a) || noA && keeps(b)):
		return // what it was given, which was compared
	case errors.As(a.Err(k), new(*capture.FileError)) || errors.As(b.Err(k), new(*capture.FileError)): // see below
	case noA:
		c.whole(phase, verdict.Skipped, "only the "+c.sides[1]+" has "+inWords[k])
		return
	case noB:
		c.whole(phase, verdict.Skipped, "only the "+c.sides[0]+" has "+inWords[k])
		return
	}
	for _, err := range []error{a.Err(k), b.Err(k)} {
		if err != nil {
			c.whole(phase, verdict.Invalid, err.Error())
			c.results[len(c.results)-1].Unwritten = errors.Is(err, pthformat.ErrNothingSaved)
			return
		}
	}
	if (k == capture.Input || k == capture.After) && c.arguments(k, a, b) {
		return
	}
	got, errA := value.Leaves(a.Values(k))
	want, errB := value.Leaves(b.Values(k))
	if err := errors.Join(errA, errB); err != nil {
		c.whole(phase, verdict.Invalid, err.Error())
		return
	}
	if len(got) != len(want) {
		if k != capture.Input || !empty(got) || !empty(want) {
			c.whole(phase, verdict.Fail, fmt.Sprintf("%s: %d values against %d", k, len(got), len(want)))
		}
		return
	}
	for i := range got {
		label := target
		if len(got) > 1 {
			label = fmt.Sprintf("%s[%d]", target, i)
		}
		if c.unwritten(k, phase, fmt.Sprintf("%s[%d]", target, i), label, got[i], want[i]) {
			continue
		}
		if reason := c.lost(k, got[i], want[i]); reason != "" {
			c.add(&reports.Result{Phase: phase, Target: fmt.Sprintf("%s[%d]", target, i), Label: label,
				Verdict: verdict.Skipped, Reason: reason})
			continue
		}
		c.opened(phase, fmt.Sprintf("%s[%d]", target, i), label, got[i], want[i])
	}
	switch k {
	case capture.Input:
		c.keywords(phase, a.Kwargs, b.Kwargs, false)
	case capture.After:
		c.keywords(phase, a.AfterKwargs, b.AfterKwargs, true)
	}
}

// keeps reports whether a call left all arguments that were recorded after it as they were.
func keeps(rec *capture.Call) bool {
	then, after := leaves(rec, capture.Input), leaves(rec, capture.After)
	return len(then) > 0 && len(then) == len(after) && !slices.ContainsFunc(after, func(l leaf) bool {
		i := slices.IndexFunc(then, func(t leaf) bool { return t.Path == l.Path })
		if i < 0 {
			return true
		}
		x, y := then[i].Tensor, l.Tensor
		switch {
		case x == y || rec.Unseen[y]:
			return false
		case x.Meta() != y.Meta() || x.Summary() != nil || y.Summary() != nil || readable(x, y) != nil:
			return true
		}
		return !bytes.Equal(x.AppendBytes(nil), y.AppendBytes(nil))
	})
}

// unwritten adds the result of a call that leaves its memory as it was, and reports whether it did: only the shape is
// determined.
func (c *comparison) unwritten(k capture.Kind, phase, target, label string, got, want value.Value) bool {
	g, isTensor := got.(*tensor.Tensor)
	w, wantTensor := want.(*tensor.Tensor)
	if !c.vacant || k != capture.Output && k != capture.After || !isTensor || !wantTensor ||
		!slices.Equal(g.Shape, w.Shape) {
		return false
	}
	r := results.OfComparison(nil, g.DType, g.Shape)
	r.Phase, r.Target, r.Label, r.Verdict, r.Reason = phase, target, label, verdict.Skipped, opdef.Uninitialised
	c.add(r)
	return true
}

// lost says that one side has no gradient, and may have lost it: its recording is not whole. It is "" otherwise.
func (c *comparison) lost(k capture.Kind, got, want value.Value) string {
	gradients := k == capture.GradInputs || k == capture.GradOutputs
	switch {
	case gradients && got == nil && want != nil && c.cut[0]:
		return "only the " + c.sides[1] + " has it: the " + c.sides[0] + " is not whole"
	case gradients && want == nil && got != nil && c.cut[1]:
		return "only the " + c.sides[0] + " has it: the " + c.sides[1] + " is not whole"
	}
	return ""
}

// keywords compares keyword arguments by name. One that only one side recorded is no difference: versions of torch
// record more or fewer defaults. The former content of out is not compared: the call overwrites it.
func (c *comparison) keywords(phase string, a, b *value.Dict, after bool) {
	for _, it := range a.Items {
		name := "input." + value.Str(it.Key)
		other, ok := lookup(b, it.Key)
		if it.Key == "out" && ok && !after {
			continue // written, not read
		}
		if !ok {
			c.add(&reports.Result{Phase: phase, Target: name, Label: name, Verdict: verdict.Skipped,
				Reason: "a keyword that only the " + c.sides[0] + " has"})
			continue
		}
		got, errA := value.Leaves([]value.Value{it.Value})
		want, errB := value.Leaves([]value.Value{other})
		if err := errors.Join(errA, errB); err != nil {
			c.whole(phase, verdict.Invalid, err.Error())
			continue
		}
		if len(got) != len(want) && empty(got) && empty(want) {
			continue
		}
		if len(got) != len(want) {
			c.add(&reports.Result{Phase: phase, Target: name, Label: name, Verdict: verdict.Fail,
				Reason: fmt.Sprintf("%d values against %d", len(got), len(want))})
			continue
		}
		for i := range got {
			target := name
			if len(got) > 1 {
				target = fmt.Sprintf("%s[%d]", name, i)
			}
			c.opened(phase, target, target, got[i], want[i])
		}
	}
	for _, it := range b.Items {
		if _, ok := lookup(a, it.Key); !ok {
			name := "input." + value.Str(it.Key)
			c.add(&reports.Result{Phase: phase, Target: name, Label: name, Verdict: verdict.Skipped,
				Reason: "a keyword that only the " + c.sides[1] + " has"})
		}
	}
}

// empty reports whether an argument holds nothing. Versions of torch give an optimizer without momentum no buffers, or
// None for each parameter.
func empty(leaves []value.Value) bool {
	return !slices.ContainsFunc(leaves, func(v value.Value) bool { return v != nil })
}

// lookup finds the value of a key.
func lookup(d *value.Dict, key value.Value) (value.Value, bool) {
	if name, ok := key.(string); ok {
		return d.Get(name)
	}
	return nil, false
}

// whole adds the one result of a phase that could not be compared.
func (c *comparison) whole(phase string, v verdict.Verdict, reason string) {
	c.add(&reports.Result{Phase: phase, Verdict: v, Reason: reason})
}

func (c *comparison) add(r *reports.Result) {
	c.locate(r)
	c.results = append(c.results, r)
}

// opened compares two values and, of objects, what is in them.
func (c *comparison) opened(phase, target, label string, got, want value.Value) {
	if len(value.Parts(got)) == 0 && len(value.Parts(want)) == 0 {
		c.leaf(phase, target, label, got, want)
		return
	}
	a, errA := value.Open(target, got)
	b, errB := value.Open(target, want)
	if err := errors.Join(errA, errB); err != nil {
		c.whole(phase, verdict.Invalid, err.Error())
		return
	}
	// The label of an only value is shorter than its target.
	labelOf := func(name string) string { return label + strings.TrimPrefix(name, target) }
	others := make(map[string]value.Value, len(b))
	for _, n := range b {
		others[n.Name] = n.Value
	}
	only := func(name, side string) {
		c.add(&reports.Result{Phase: phase, Target: name, Label: labelOf(name), Verdict: verdict.Fail,
			Reason: "only the " + side + " has it"})
	}
	plain := c.stored
	c.stored = true
	defer func() { c.stored = plain }()
	for _, n := range a {
		other, ok := others[n.Name]
		if !ok {
			only(n.Name, c.sides[0])
			continue
		}
		delete(others, n.Name)
		c.leaf(phase, n.Name, labelOf(n.Name), n.Value, other)
	}
	for _, n := range b {
		if _, left := others[n.Name]; left {
			only(n.Name, c.sides[1])
		}
	}
}

// objects compares the kinds of two objects; their contents are compared separately. Those of
// which there is more than was recorded are not compared.
func objects(a, b *value.Opaque) (verdict.Verdict, string) {
	if a.Global == "torch.Generator" && b.Global == a.Global {
		return verdict.Skipped, "a generator of random numbers, whose state is not recorded"
	}
	for _, o := range []*value.Opaque{a, b} {
		if a.Global == b.Global && !o.Whole {
			return verdict.Unsupported, cmp.Or(o.Reason, "object of class "+o.Global)
		}
	}
	if a.Global != b.Global || a.Reason != b.Reason {
		return verdict.Fail, fmt.Sprintf("%s against %s", value.Str(a), value.Str(b))
	}
	return verdict.Pass, ""
}

// unset reports whether an argument asks for nothing: versions of torch give a flag that is not set as None or False.
func unset(v value.Value) bool { return v == nil || v == value.Value(false) }

// leaf compares one value with its reference.
func (c *comparison) leaf(phase, target, label string, got, want value.Value) {
	var res compare.Result
	dt, reference := tensor.Invalid, "python"
	var shape []int
	var plain verdict.Verdict
	if phase == "input" && unset(got) && unset(want) {
		want = got
	}
	g, isTensor := got.(*tensor.Tensor)
	w, wantTensor := want.(*tensor.Tensor)
	if isTensor && wantTensor {
		dt, shape, reference = g.DType, g.Shape, w.DType.String()
		c.places = [2]string{g.Device, w.Device}
		res, plain = c.tensors(label, g, w)
		if c.stored && res.Verdict == verdict.Mistrusted && res.OpTools.MaxAbs == 0 {
			res.Verdict, res.Reason = verdict.Pass, "" // zeros that were saved are what they are
		}
	} else {
		res = c.plainValues(got, want, isTensor || wantTensor)
	}
	r := results.OfComparison(&res, dt, shape)
	switch res.Rule {
	case ruleStatistics, ruleChecksum, ruleObjects, ruleBits:
		r = results.OfComparison(nil, dt, shape) // no element was compared: op_tools' numbers are not known
		r.Numel, r.Rule = &res.Numel, &res.Rule
	}
	source := "captured"
	r.Phase, r.Target, r.Label, r.Verdict, r.Reason, r.Source, r.Reference = phase, target, label, res.Verdict,
		res.Reason, &source, &reference
	if plain != "" {
		r.Default, r.Setting = plain, res.Setting
	}
	if c.apart != nil {
		c.apart[r] = differ(got, want, &res)
	}
	if phase == "input" && r.Verdict == verdict.Fail && onlyOneSet(got, want) {
		c.unset = append(c.unset, r)
	}
	c.add(r)
}

// onlyOneSet reports whether one of two arguments is None, or was not given, and the other is neither a tensor nor an
// object.
func onlyOneSet(a, b value.Value) bool {
	if a == nil {
		a, b = b, a
	}
	switch a.(type) {
	case nil, *tensor.Tensor, *value.Opaque:
		return false
	}
	return b == nil
}

// settleUnset lets arguments pass that only one of the calls sets, such as a dtype, if the results agree: their values
// are what torch takes by itself. Versions of torch give more or fewer arguments to the calls that they make inside.
func (c *comparison) settleUnset() {
	if len(c.unset) == 0 {
		return
	}
	p := newCompared(Pair{A: &capture.Entry{}}, c.results, c.apart, 0)
	for i, r := range c.results {
		switch {
		case i < p.given && !slices.Contains(c.unset, r):
			further(&p.in, nil, r, c.apart[r])
		case r.Phase == "backward" && !result(r):
			further(&p.back, nil, r, c.apart[r])
		}
	}
	for _, r := range c.results[p.given:] {
		limit := growth * p.in
		if r.Phase == "backward" {
			limit = gradientGrowth * max(p.in, p.back)
		}
		if limit = max(min(limit, mostApart), growth*p.unit); result(r) && !agrees(r, c.apart[r], limit) {
			return
		}
	}
	if p.given == len(c.results) {
		return // there are no results
	}
	for _, r := range c.unset {
		r.Verdict, r.Mismatch = verdict.Pass, new(int)
		r.Reason += ": the results agree"
	}
}

// agrees reports whether a result is of one dtype and shape in both recordings, and no further apart than a limit.
func agrees(r *reports.Result, d *Difference, limit float64) bool {
	switch {
	case r.DType != nil && r.Reference != nil && *r.DType != *r.Reference:
		return false
	case r.Verdict != verdict.Fail:
		return r.Verdict != verdict.Invalid && r.Verdict != verdict.Error
	}
	return d != nil && !d.Unlike && d.Relative <= limit && d.Largest <= standOut*limit
}

// plainValues compares values that are not both tensors; one: one of them is.
func (c *comparison) plainValues(got, want value.Value, one bool) compare.Result {
	res := compare.Result{Verdict: verdict.Pass, Numel: 1, MaxULP: math.NaN()}
	o, isObject := got.(*value.Opaque)
	p, wantObject := want.(*value.Opaque)
	unlike := false
	switch {
	case isObject && wantObject:
		res.Rule = ruleObjects
		res.Verdict, res.Reason = objects(o, p)
	case isObject || wantObject:
		res.Rule, unlike = ruleObjects, true
	default:
		res.OpTools, res.Rule = compare.OpToolsValues(got, want), "op_tools' rule for values"
		if c.stored && integer(got) && integer(want) && value.Repr(got) != value.Repr(want) {
			res.OpTools.AllClose = false
		}
		unlike = !res.OpTools.AllClose && (one || !sameText(got, want))
	}
	if unlike {
		res.Verdict, res.Mismatched = verdict.Fail, 1
		res.Reason = fmt.Sprintf("%s against %s", value.Str(got), value.Str(want))
	}
	return res
}

func integer(v value.Value) bool {
	switch v.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

// sameText reports whether two values print the same, as two NaN do, which equal nothing. Texts
// and bytes are what they are.
func sameText(a, b value.Value) bool {
	switch a.(type) {
	case string, value.Bytes:
		return false
	}
	return value.LongRepr(a) == value.LongRepr(b)
}

// bits compares two tensors of elements that are no numbers.
func bits(g, w *tensor.Tensor) compare.Result {
	res := compare.Result{MaxULP: math.NaN(), Numel: g.Numel(), Rule: ruleBits}
	if g.Meta() != w.Meta() {
		res.Verdict, res.Reason = verdict.Fail, fmt.Sprintf("%s against %s", g.Meta(), w.Meta())
		return res
	}
	short, times, err := tensor.Distinct(g, w)
	if err != nil {
		res.Verdict, res.Reason = verdict.Error, err.Error()
		return res
	}
	a, b, size, first := short[0].AppendBytes(nil), short[1].AppendBytes(nil), g.DType.Size(), -1
	for i := range short[0].Numel() {
		if !bytes.Equal(a[i*size:(i+1)*size], b[i*size:(i+1)*size]) {
			if res.Mismatched++; first < 0 {
				first = i
			}
		}
	}
	res.Mismatched *= times
	res.Verdict = verdict.Pass
	if first >= 0 {
		res.Verdict = verdict.Fail
		res.Reason = fmt.Sprintf("%d of %d elements of dtype %s differ, the first at %v", res.Mismatched, res.Numel,
			g.DType, tensor.Unravel(first, short[0].Shape))
	}
	return res
}

// tensors compares two tensors. A unit in the last place is rounding for every op; op_tools'
// tolerance decides beyond that. plain is the verdict without the requested tolerance, if that
// verdict differs.
func (c *comparison) tensors(label string, g, w *tensor.Tensor) (res compare.Result, plain verdict.Verdict) {
	if g.Summary() != nil || w.Summary() != nil {
		tol, _ := c.Tolerances.For(c.op, "", label, g.DType)
		return summaries(g, w, tol), ""
	}
	if err := readable(g, w); err != nil {
		return compare.Result{Verdict: verdict.Invalid, Reason: err.Error(), MaxULP: math.NaN()}, ""
	}
	if !g.DType.Computable() && !w.DType.Computable() {
		return bits(g, w), ""
	}
	if (pthformat.IsTime(g) || pthformat.IsTime(w)) && g.Layout != w.Layout { // units
		return compare.Result{Verdict: verdict.Fail, Reason: fmt.Sprintf("%s against %s", g.Layout, w.Layout),
			MaxULP: math.NaN()}, ""
	}
	tol, asked := c.Tolerances.For(c.op, "", label, g.DType)
	res = c.judge(g, w, tol, asked)
	if asked != nil {
		tol, _ = (*compare.Tolerances)(nil).For(c.op, "", label, g.DType)
		if plain := c.judge(g, w, tol, nil).Verdict; plain != res.Verdict {
			return res, plain
		}
	}
	return res, ""
}

// judge compares two tensors by a tolerance that was asked for or, if override is nil,
// by the built-in rule.
func (c *comparison) judge(g, w *tensor.Tensor, tol compare.Tolerance, override *compare.Tolerance) compare.Result {
	model := compare.Model{ULPs: 1, Cast: true}
	if c.precision != tensor.Invalid && g.DType.IsFloat() && c.precision.Eps() > g.DType.Eps() {
		model.Round = c.precision
	}
	res := compare.Check(g, w, model, tol, override)
	exact := override != nil || c.stored && g.DType.IsIntegral()
	if n := res.OpTools; !exact && n.AllClose && (res.Verdict == verdict.Fail || res.Verdict == verdict.Warn) {
		res.Verdict, res.Reason, res.Mismatched = verdict.Pass, "", 0
		res.Rule = fmt.Sprintf("allclose atol=%g rtol=%g", n.Atol, n.Rtol)
	}
	return res
}

// readable reads the storages of tensors once, so that what follows cannot
// fail.
func readable(ts ...*tensor.Tensor) error {
	for _, t := range ts {
		if s := t.Storage(); s != nil {
			if _, err := s.Load(); err != nil {
				return err
			}
		}
	}
	return nil
}
