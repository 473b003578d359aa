package replay

import (
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
)

// A reading understands a recorded call in another way than its arguments say: what torch does with them in some
// settings. It is tried only on calls that fail as they are written. It is kept if nothing fails then. It is also kept
// if it explains what the plain reading cannot: arguments that the operator refuses, or results of another dtype.
type reading struct {
	call *opdef.Call
	// original maps the tensors of call to the recorded ones they stand for.
	original map[*tensor.Tensor]*tensor.Tensor
	alter    causes.Alteration // see Call.alter
	mixed    tensor.DType      // see Call.mixed
	verdict  verdict.Verdict   // of the values that failed as written
	version  bool              // as another sound implementation computes it
	forward  bool              // perhaps of the forward pass only: the kernels of the gradients are others
	reason   string
}

// readings are the ways to understand the call apart from the plain one. A device's result has the recorded arguments
// and no other reading.
func (r *comparison) readings() []reading {
	if r.opt.Device != nil {
		return nil
	}
	dt := r.recordedDType()
	if dt == tensor.Invalid && r.Record.Err(capture.Output) != nil { // a call that did not return
		return r.autocast(r.autocastDType())
	}
	switch {
	case dt.IsComplex(): // of real arguments in float32
		return r.autocast(dt.Real())
	case !dt.IsFloat():
		return nil
	}
	return slices.Concat(r.autocast(dt), r.mixedProducts(dt), r.roundedNumbers(dt))
}

// versions are the call, read in one way, as other sound implementations compute it (opdef.Versioned).
func (r *comparison) versions(way reading) []reading {
	if r.fwd == nil { // the call was not run, which may take long
		return nil
	}
	_, others := r.bound.Versions()
	ways := make([]reading, 0, len(others))
	for _, v := range others {
		call, err := v.Plan()
		if err != nil {
			continue
		}
		reason := v.Text
		if way.reason != "" {
			reason = way.reason + "; " + reason
		}
		ways = append(ways, reading{call: call, original: r.original, verdict: way.verdict, version: true,
			reason: reason})
	}
	return ways
}

// sayVersion says which of several sound results a value that passes is.
func (r *comparison) sayVersion() {
	if r.fwd == nil {
		return
	}
	if own, _ := r.bound.Versions(); own != "" {
		for i := range r.out.Results {
			if res := &r.out.Results[i]; res.Verdict == verdict.Pass && res.Reason == "" {
				res.Reason = own
			}
		}
	}
}

// recordedDType is the dtype of the first recorded result.
func (r *comparison) recordedDType() tensor.DType {
	for _, t := range tensorsOf(flatten(r.Record.Output)) {
		return t.DType
	}
	return tensor.Invalid
}

// autocastDType is the dtype to which torch.autocast casts arguments of the call, where the recording says so.
func (r *comparison) autocastDType() tensor.DType {
	switch r.bound.Autocast() {
	case opdef.AutocastLower, opdef.AutocastProduct:
		for _, a := range r.bound.Tensors() {
			if dt, ok := tensor.ParseDType(capture.AutocastOf(r.autocasts, a.Tensor.Device)); ok {
				return dt
			}
		}
	case opdef.AutocastFloat32:
		if len(r.autocasts) > 0 {
			return tensor.Float32
		}
	}
	return tensor.Invalid
}

// autocast reads the call as one under torch.autocast, which casts arguments
// below the level at which calls are recorded.
func (r *comparison) autocast(dt tensor.DType) []reading {
	switch r.bound.Autocast() {
	case opdef.AutocastNone:
		return nil
	case opdef.AutocastLower:
		if !dt.IsHalf() {
			return nil
		}
	case opdef.AutocastFloat32:
		if dt != tensor.Float32 {
			return nil
		}
	case opdef.AutocastWidest: // on the CPU these are cast to float32
		among := func(a opdef.Arg) bool { return a.Tensor.DType == dt }
		if dt != tensor.Float32 && !slices.ContainsFunc(r.bound.Tensors(), among) {
			return nil
		}
	case opdef.AutocastProduct:
		if dt != tensor.Float32 && !dt.IsHalf() {
			return nil
		}
	case opdef.AutocastInner:
		return r.autocastInside(dt)
	}
	cast := false
	original := map[*tensor.Tensor]*tensor.Tensor{}
	call := r.bound.Map(func(a opdef.Arg) *tensor.Tensor {
		t := a.Tensor
		if t.Wrapped || t.DType == dt || t.DType != tensor.Float32 && !t.DType.IsHalf() {
			return t
		}
		c := converted(t, dt)
		c.RequiresGrad = t.RequiresGrad
		original[c], cast = t, true
		return c
	})
	if !cast {
		return nil
	}
	return []reading{{call: call, original: original, verdict: verdict.Pass,
		reason: "as under autocast: arguments cast to " + dt.String()}}
}

// autocastInside reads a call for which torch.autocast casts only the factors of the products inside. Its results have
// dtype dt.
func (r *comparison) autocastInside(dt tensor.DType) (out []reading) {
	if r.autocasts != nil && len(r.autocasts) == 0 {
		return nil
	}
	original := map[*tensor.Tensor]*tensor.Tensor{}
	call := r.bound.Map(func(a opdef.Arg) *tensor.Tensor {
		t := a.Tensor
		if t.Wrapped || !t.DType.IsHalf() {
			return t
		}
		c := converted(t, tensor.Float32)
		c.RequiresGrad = t.RequiresGrad
		original[c] = t
		return c
	})
	for _, half := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		if dt != half && dt != tensor.Float32 {
			continue
		}
		way := reading{call: call, original: original, mixed: half, verdict: verdict.Pass,
			reason: "as under autocast: products in " + half.String()}
		if dt == tensor.Float32 && r.autocasts == nil { // nobody recorded whether autocast was on
			way.verdict = verdict.Warn
		}
		out = append(out, way)
	}
	return out
}

// mixedProducts reads a call with results in float32 as torch computes it under autocast with several kernels: products
// in 16 bits, added up in float32. Recurrent networks make their states so. Where the recording does not say whether
// autocast was on, such a result is a warning.
func (r *comparison) mixedProducts(dt tensor.DType) (out []reading) {
	e := r.bound.Entry
	off := r.autocasts != nil && len(r.autocasts) == 0
	cell := e.Autocast == opdef.AutocastLower && e.Composite && e.Error.Coarse
	several := len(r.bound.Tensors()) > 2 // one product of two gives 16 bits
	if off || !cell && !(several && e.Autocast == opdef.AutocastProduct) {
		return nil
	}
	halves := []tensor.DType{tensor.Float16, tensor.BFloat16}
	switch {
	case dt.IsHalf() && cell && slices.ContainsFunc(tensorsOf(flatten(r.Record.Output)),
		func(t *tensor.Tensor) bool { return t.DType == tensor.Float32 }): // the state of a projected lstm
		halves = []tensor.DType{dt}
	case dt != tensor.Float32:
		return nil
	}
	for _, half := range halves {
		for _, way := range r.autocast(half) {
			way.mixed, way.reason = half, "as under autocast: products in "+half.String()
			if r.autocasts == nil {
				way.verdict = verdict.Warn
			}
			out = append(out, way)
		}
	}
	return out
}

// converted is t in another dtype with the strides that torch gives it: those of t if t fills memory without gaps.
func converted(t *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	if len(t.Stride) != t.Dim() {
		return opdef.Cast(t, dt).Rounded()
	}
	order := make([]int, t.Dim()) // of the dimensions, from the largest stride to the smallest
	for d := range order {
		order[d] = d
	}
	slices.SortStableFunc(order, func(a, b int) int { return t.Stride[b] - t.Stride[a] })
	packed := t.Permute(order...)
	if !packed.IsContiguous() {
		return opdef.Cast(t, dt).Rounded()
	}
	back := make([]int, t.Dim())
	for i, d := range order {
		back[d] = i
	}
	return opdef.Cast(packed, dt).Rounded().Permute(back...)
}

// roundedNumbers reads the call with Python numbers and 0-d tensors rounded to the dtype of the result before anything
// is computed. In 16 bits torch did so on the CPU before 2.0, and kernels whose operands have one dtype do so. In
// float32 all do.
func (r *comparison) roundedNumbers(dt tensor.DType) []reading {
	v := verdict.Warn
	switch {
	case dt == tensor.Float32:
		v = verdict.Pass
	case !dt.IsHalf():
		return nil
	}
	changed, numbers := false, false // numbers: of Python
	round := func(x float64) float64 {
		y := dt.Round(x)
		changed = changed || x == x && x != y
		return y
	}
	original := map[*tensor.Tensor]*tensor.Tensor{}
	call := r.bound.Map(func(a opdef.Arg) *tensor.Tensor {
		t := a.Tensor
		if t.Dim() != 0 || !t.DType.IsFloat() || t.DType == dt {
			return t
		}
		n := tensor.Scalar(t.DType, round(tensor.At[float64](t, 0)))
		numbers = numbers || t.Wrapped
		n.Wrapped, n.RequiresGrad = t.Wrapped, t.RequiresGrad
		original[n] = t
		return n
	})
	call = call.MapScalars(func(s opdef.Scalar) opdef.Scalar {
		if x, ok := s.Python().(float64); ok {
			y := round(x)
			numbers = numbers || x == x && x != y
			return opdef.Float(y)
		}
		return s
	})
	if !changed {
		return nil
	}
	what := "numbers among the arguments"
	if !numbers { // torch converts operands to the dtype in which it computes
		v, what = verdict.Pass, "tensors without dimensions"
	}
	return []reading{{call: call, original: original, verdict: v, forward: true,
		reason: what + " were rounded to " + dt.String() + " first"}}
}

// tryReadings tries the other readings of a call that failed as written. It keeps the first under which nothing fails.
// If there is none, it keeps the first that leaves fewer results unexplained. Of other sound implementations it also
// keeps the first under which fewer values fail, so that one mistake is not reported for every value.
func (r *comparison) tryReadings() {
	var ways []reading
	switch {
	case r.out.bad():
		ways = append(r.versions(reading{verdict: verdict.Pass}), r.readings()...)
	case r.out.loose() && r.opt.Device == nil:
		ways = r.roundedNumbers(r.recordedDType())
	}
	var closer *comparison
	for len(ways) > 0 {
		way := ways[0]
		ways = ways[1:]
		alt := &comparison{Call: r.readAs(way), out: &Outcome{Op: r.Op}}
		alt.guard(alt.compareCall)
		for i := range alt.out.Results {
			switch res := &alt.out.Results[i]; {
			case r.out.passed(res.Phase, res.Target):
			case res.Verdict == verdict.Pass:
				res.Verdict, res.Reason = way.verdict, way.reason
			case res.Verdict == verdict.Fail || res.Verdict == verdict.Warn:
				res.Reason += "; " + way.reason
			}
		}
		if way.mixed != tensor.Invalid && r.autocasts == nil && r.out.unexplained() == 0 && !alt.out.nearer(r.out) {
			continue
		}
		if alt.out.omits(r.out) {
			continue
		}
		if !alt.out.bad() && (r.out.bad() || !alt.out.loose()) {
			r.takeOver(alt)
			return
		}
		if mixed := r.out.withForwardOf(alt.out); way.forward && r.out.bad() && !mixed.bad() {
			r.out, r.values.Output = mixed, alt.values.Output
			return
		}
		if closer == nil && (alt.out.unexplained() < r.out.unexplained() ||
			way.version && alt.out.failing() < r.out.failing()) {
			closer = alt
		}
		ways = append(alt.versions(way), ways...)
	}
	if closer != nil {
		r.takeOver(closer)
	}
}

// takeOver keeps another reading and what the call gave under it.
func (r *comparison) takeOver(alt *comparison) {
	r.out, r.values, r.kept = alt.out, alt.values, alt.Call
}

// withForwardOf is an outcome with the forward results of another one: torch rounds the exponent of a power to the
// dtype of the result, but not the exponent in the gradient.
func (o *Outcome) withForwardOf(other *Outcome) *Outcome {
	mixed := *o
	mixed.Results = slices.Clone(o.Results)
	for i := range mixed.Results {
		r := &mixed.Results[i]
		same := func(x Result) bool { return x.Phase == r.Phase && x.Target == r.Target }
		j := slices.IndexFunc(other.Results, same)
		if r.Phase == Forward && j >= 0 {
			*r = other.Results[j]
		}
	}
	return &mixed
}

// nearer reports whether an outcome under a reading that nothing recorded tells is nearer to what was recorded than
// another outcome: errors of values that failed are smaller, and no value that passed is off. The bounds of products in
// 16 bits are wide, and would take much else for those.
func (o *Outcome) nearer(than *Outcome) bool {
	for _, r := range than.Results {
		i := slices.IndexFunc(o.Results, func(x Result) bool { return x.Phase == r.Phase && x.Target == r.Target })
		if i < 0 || r.Compared == nil || o.Results[i].Compared == nil {
			continue
		}
		x := &o.Results[i]
		switch {
		case x.Verdict == verdict.Pass:
		case r.Verdict == verdict.Pass || r.Verdict == verdict.Fail && r.Compared.RelativeError > 0 &&
			x.Compared.RelativeError > mostLeft*r.Compared.RelativeError:
			return false
		}
	}
	return true
}

// omits reports whether an outcome compares nothing of a phase in which another outcome fails. That explains nothing.
func (o *Outcome) omits(than *Outcome) bool {
	return slices.ContainsFunc(than.Results, func(r Result) bool {
		return r.Verdict == verdict.Fail && !slices.ContainsFunc(o.Results, func(x Result) bool {
			return x.Phase == r.Phase && x.Verdict != verdict.Skipped
		})
	})
}

// mostLeft is the part of an error that the reading which is its cause may leave.
const mostLeft = 0.75

// unexplained counts the results that say nothing about values: the operator refuses the arguments, or the dtype is
// another one.
func (o *Outcome) unexplained() int {
	n := 0
	for _, r := range o.Results {
		if r.Verdict == verdict.Error || r.Verdict == verdict.Fail && r.Compared != nil &&
			r.Compared.Rule == compare.RuleDType {
			n++
		}
	}
	return n
}

// failing counts the results that fail or are errors.
func (o *Outcome) failing() int {
	n := 0
	for _, r := range o.Results {
		if r.Verdict == verdict.Fail || r.Verdict == verdict.Error {
			n++
		}
	}
	return n
}

// bad reports whether some result needs another reading. A result that is rounded to one side does too: a product with
// a rounded number is.
func (o *Outcome) bad() bool {
	return slices.ContainsFunc(o.Results, func(r Result) bool {
		return r.Verdict == verdict.Fail || r.Verdict == verdict.Error ||
			r.Verdict == verdict.Warn && r.Compared != nil && r.Compared.Pattern != ""
	})
}

// loose reports whether some result is as far off as intermediate results in a lower precision explain, or as a number
// that is rounded to it explains.
func (o *Outcome) loose() bool {
	return slices.ContainsFunc(o.Results, func(r Result) bool { return r.loose() })
}

// passed reports whether a value passed.
func (o *Outcome) passed(p Phase, target string) bool {
	return slices.ContainsFunc(o.Results, func(r Result) bool {
		return r.Phase == p && r.Target == target && r.Verdict == verdict.Pass
	})
}

// readAs is the call under another reading.
func (c *Call) readAs(way reading) *Call {
	d := *c
	d.bound, d.original, d.alter, d.mixed, d.fwd = way.call, way.original, way.alter, way.mixed, nil
	d.sampler = nil
	return &d
}

// An Autocast is what torch.autocast did in a call, which a program that repeats the call does, too.
type Autocast struct {
	// Casts are the dtypes to which the tensors among the arguments are cast, in their order; Invalid for those that
	// are not. It is nil if none is.
	Casts []tensor.DType
	// Inside is the dtype of torch.autocast that casts within the call, Invalid for none.
	Inside tensor.DType
	// Recorded is the dtype of torch.autocast around the call as far as it was recorded, Invalid if it was not, or off.
	Recorded tensor.DType
}

// Autocast is what torch.autocast did under the reading of the call: see AsRead.
func (c *Call) Autocast() Autocast {
	k := Autocast{Inside: c.mixed}
	args := c.bound.Tensors()
	for _, a := range args {
		if dt, ok := tensor.ParseDType(capture.AutocastOf(c.autocasts, a.Tensor.Device)); ok {
			k.Recorded = dt
			break
		}
	}
	if c.mixed != tensor.Invalid {
		return k
	}
	inputs, cast := c.Record.Inputs(), false
	dtypes := make([]tensor.DType, len(inputs))
	for i, t := range inputs {
		for _, a := range args {
			if c.recorded(a.Tensor) == t && a.Tensor.DType != t.DType {
				dtypes[i], cast = a.Tensor.DType, true
			}
		}
	}
	if cast {
		k.Casts = dtypes
	}
	return k
}

// readLike makes c, which has the tensors of another call as they were recorded, read as that one.
func (c *Call) readLike(other *Call) {
	read := map[*tensor.Tensor]*tensor.Tensor{}
	for t, recorded := range other.original {
		read[recorded] = t
	}
	c.bound = c.bound.Map(func(a opdef.Arg) *tensor.Tensor {
		if t := read[a.Tensor]; t != nil {
			return t
		}
		return a.Tensor
	})
	c.original, c.mixed, c.autocasts = other.original, other.mixed, other.autocasts
}
