package replay

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Causes looks for what went wrong in a call that failed with this outcome: the
// reference runs again under what kernels get wrong, each mistake by itself, until the work is
// done that is allowed. What a mistake has to explain: see package causes.
func (c *Call) Causes(o *Outcome, allowed *causes.Allowance) []causes.Cause {
	if c.bound != nil && c.bound.Random() != "" && c.opt.Device == nil {
		var found []causes.Cause
		_ = Guard(func() error { found = c.drawnCauses(o); return nil }) // what cannot be read has no cause
		return found
	}
	fails := c.comparedFails(o)
	if len(fails) == 0 || c.bound.Random() != "" {
		return nil
	}
	if c.opt.Device != nil {
		return c.deviceCauses(fails, allowed)
	}
	c = c.AsRead().requiring()
	var said []causes.Cause
	for _, f := range fails {
		if f.Mistake != "" && !slices.ContainsFunc(said, func(k causes.Cause) bool { return k.Text == f.Mistake }) {
			said = append(said, causes.Cause{Text: f.Mistake, Targets: []string{f.Target}, Share: 1})
		}
	}
	wrongs := c.wrongs(fails)
	c.wrong = map[string]causes.Wrong{}
	for i := range wrongs {
		wrongs[i].Want = computed(wrongs[i].Want)
		c.wrong[wrongs[i].Target] = wrongs[i]
	}
	c.right = map[string]bool{}
	for _, r := range o.Results {
		c.right[r.Target] = r.Verdict == verdict.Pass
	}
	c.faults = map[string]fault{}
	elements := c.elements()
	c.work = causes.NewWork(c.searchWork(elements), elements, len(c.bound.Tensors()), allowed)
	defer c.work.End()
	c.glanceAtSound(fails)
	search := c.search()
	search.Likely = allowed.Likely
	search.Few = func(w causes.Way, target string) (got, due, made []float64) {
		if i := slices.IndexFunc(fails, func(f Result) bool { return f.Target == target }); i >= 0 {
			return c.few(w, &fails[i])
		}
		return nil, nil, nil
	}
	return search.Find(wrongs, said, func(m causes.Mistake, left []causes.Wrong) causes.Cause {
		return c.explains(m, slices.DeleteFunc(slices.Clone(fails), func(f Result) bool {
			return !slices.ContainsFunc(left, func(w causes.Wrong) bool { return w.Target == f.Target })
		}))
	})
}

// AsRead is the call under the reading that Compare kept, which is most often the call itself.
func (c *Call) AsRead() *Call {
	if c.kept == nil {
		return c
	}
	c.kept.values = c.values
	return c.kept
}

// comparedFails are the values of an operator that are wrong and have a reference. A collective has none, nor has what
// the registry does not know.
func (c *Call) comparedFails(o *Outcome) (fails []Result) {
	for _, r := range o.Results {
		if c.bound != nil && r.Verdict == verdict.Fail && r.Compared != nil && r.Layout == "" && r.Device == "" {
			fails = append(fails, r)
		}
	}
	return fails
}

// Seeks reports whether Causes has something to look for.
func (c *Call) Seeks(o *Outcome) bool {
	random := c.bound != nil && c.bound.Random() != "" &&
		slices.ContainsFunc(o.Results, func(r Result) bool { return r.Verdict == verdict.Fail && r.Layout == "" })
	return random || len(c.comparedFails(o)) > 0
}

// requiring is the call with arguments that require a gradient where one was recorded: see gradientsOf. What follows
// from a formula of the call depends on it.
func (c *Call) requiring() *Call {
	inputs, saved := c.Record.Inputs(), flatten(c.values.RecordedGradInputs)
	if c.sampler != nil || len(inputs) != len(saved) {
		return c
	}
	detached := map[*tensor.Tensor]*tensor.Tensor{}
	for i, t := range inputs {
		if _, ok := saved[i].(*tensor.Tensor); ok && !t.RequiresGrad && (t.DType.IsFloat() || t.DType.IsComplex()) {
			u := *t
			u.RequiresGrad = true
			detached[t] = &u
		}
	}
	if len(detached) == 0 {
		return c
	}
	way := reading{original: map[*tensor.Tensor]*tensor.Tensor{}, alter: c.alter, mixed: c.mixed}
	way.call = c.bound.Map(func(a opdef.Arg) *tensor.Tensor {
		t, recorded := a.Tensor, c.recorded(a.Tensor)
		if d := detached[recorded]; d != nil && recorded == t {
			t = d
		}
		if recorded != t {
			way.original[t] = recorded
		}
		return t
	})
	call := c.readAs(way)
	if call.start() != nil {
		return c
	}
	return call
}

// deviceCauses are the causes of values that a device gave.
func (c *Call) deviceCauses(fails []Result, allowed *causes.Allowance) []causes.Cause {
	d, place := c.asRecorded()
	fails = slices.DeleteFunc(fails, func(r Result) bool {
		return r.Phase == Input || r.Phase == Forward && d.values.Output == nil || r.Phase == Backward && place == nil
	})
	toRecorded(fails, place)
	found := d.Causes(&Outcome{Results: fails}, allowed)
	for i := range found {
		found[i].Targets = toDevice(found[i].Targets, place)
	}
	return found
}

// toRecorded gives results of a device the targets that their values have among the recorded ones: see asRecorded.
func toRecorded(results []Result, place []int) {
	for i := range results {
		for k := range place {
			if results[i].Target == gradTarget(k) {
				results[i].Target = gradTarget(place[k])
				break
			}
		}
	}
}

// toDevice are the targets that recorded values have on a device.
func toDevice(targets []string, place []int) []string {
	out := slices.Clone(targets)
	for i := range out {
		for k := range place {
			if out[i] == gradTarget(place[k]) {
				out[i] = gradTarget(k)
				break
			}
		}
	}
	return out
}

// gradTarget is the target of a gradient.
func gradTarget(i int) string { return fmt.Sprintf("grad[%d]", i) }

// elements are those of the arguments.
func (c *Call) elements() (n int) {
	for _, a := range c.bound.Tensors() {
		n += a.Tensor.Numel()
	}
	return n
}

// SearchWork is the work of comparing the call, after Compare, in the unit of the search for causes.
func (c *Call) SearchWork() float64 {
	if c.bound == nil {
		return 0
	}
	return c.searchWork(c.elements())
}

func (c *Call) searchWork(elements int) float64 {
	flops := 0.0
	if c.fwd != nil {
		flops = c.bound.Flops(c.fwd)
		for _, t := range c.fwd.Outs {
			elements += t.Numel()
		}
	}
	if len(flatten(c.values.RecordedGradInputs)) > 0 {
		flops, elements = 3*flops, 2*elements
	}
	return causes.RunWork(flops, elements)
}

// search is what the search for causes knows of the call.
func (c *Call) search() *causes.Search {
	s := &causes.Search{Bound: c.bound, Op: c.Record.Op, Registry: c.opt.Registry, Ran: c.fwd, Original: c.original,
		Incoming: tensorsOf(flatten(c.values.RecordedGradOutputs)),
		Recorded: tensorsOf(flatten(c.values.RecordedOutput)), Work: c.work, Guard: Guard}
	s.Due = func(pass string) iter.Seq2[string, *tensor.Tensor] {
		values := c.values.Output
		if pass == "grad" {
			values = c.values.GradInputs
		}
		return func(yield func(string, *tensor.Tensor) bool) {
			for i, v := range flatten(values) {
				if t, ok := v.(*tensor.Tensor); ok && !yield(fmt.Sprintf("%s[%d]", pass, i), t) {
					return
				}
			}
		}
	}
	s.Changed = c.changed
	s.Elsewhere = c.elsewhere
	s.Under = func(w causes.Way, target string) *tensor.Tensor {
		alt := c.ranAs(w)
		phase := Forward
		if strings.HasPrefix(target, "grad") {
			phase = Backward
		}
		_, want, ok := alt.Pair(&Result{Phase: phase, Target: target})
		if !ok {
			return nil
		}
		return want
	}
	return s
}

// elsewhere runs f while the operands of the call hold other numbers: see causes.Search.Elsewhere. Nothing else reads
// them meanwhile.
func (c *Call) elsewhere(like func(t *tensor.Tensor) []byte,
	f func(under func(w causes.Way, target string) *tensor.Tensor)) {
	fwd := c.fwd
	defer func() { c.fwd = fwd }()
	run := func() {
		var err error
		anew := c.bound.Map(func(a opdef.Arg) *tensor.Tensor { return a.Tensor }) // which has computed nothing yet
		if c.fwd, err = anew.Forward(); err != nil {
			return
		}
		f(func(w causes.Way, target string) *tensor.Tensor {
			r := Result{Phase: Forward, Target: target}
			switch {
			case strings.HasPrefix(target, "grad"):
				r.Phase = Backward
			case strings.HasPrefix(target, "input"):
				r.Phase = Input
			}
			c.work.Whole()
			if w.Call == c.bound {
				w.Call = anew
			}
			alt := c.ranAs(w)
			want := alt.Call.wrongs([]Result{r})[0].Want
			if want == nil {
				return nil
			}
			return alt.altered(target, want).Rounded()
		})
	}
	held := map[*tensor.Storage]bool{}
	for _, a := range c.bound.Tensors() {
		s := a.Tensor.Storage()
		if s == nil || held[s] {
			continue
		}
		held[s] = true
		if data, inner := like(a.Tensor), run; data != nil {
			run = func() { _ = s.Holding(data, inner) } // what cannot be read holds no other numbers
		}
	}
	_ = Guard(func() error { run(); return nil })
}

// wrongs are values that failed, for the search for causes.
func (c *Call) wrongs(fails []Result) []causes.Wrong {
	out := make([]causes.Wrong, len(fails))
	for i := range fails {
		got, want, ok := c.Pair(&fails[i])
		if fails[i].Phase == Input {
			if got, ok = c.after(fails[i].Target); c.fwd != nil {
				want = c.changed(c.fwd, fails[i].Target)
			}
		}
		if !ok {
			got, want, ok = c.numbers(&fails[i])
		}
		if out[i].Target = fails[i].Target; ok {
			out[i].Got, out[i].Want = got, want
		}
		if r := fails[i].Compared; ok && r != nil && r.Limit != nil && got.DType.IsFloat() {
			out[i].Allowed = func(at int) float64 { return r.Limit(tensor.Unravel(at, got.Shape)).Allowed }
		}
	}
	return out
}

// numbers is Pair of numbers that are no tensors.
func (c *Call) numbers(r *Result) (got, want *tensor.Tensor, ok bool) {
	xs, ys := flatten(c.values.RecordedOutput), flatten(c.values.Output)
	for i := range min(len(xs), len(ys)) {
		if r.Phase == Forward && r.Target == fmt.Sprintf("output[%d]", i) {
			var ok1, ok2 bool
			got, ok1 = tensor.FromNumber(xs[i])
			want, ok2 = tensor.FromNumber(ys[i])
			return got, want, ok1 && ok2
		}
	}
	return nil, nil, false
}

// ranAs is a comparison of the call that runs another way.
func (c *Call) ranAs(way causes.Way) *comparison {
	alt := c.under(way)
	alt.guard(alt.compareCall)
	alt.Call.values = alt.values
	return alt
}

// under is a comparison, not yet done, of the call that runs another way. What the call gave is not computed again.
func (c *Call) under(way causes.Way) *comparison {
	original := way.Original
	if len(c.original) > 0 { // of what the way leaves as it is
		original = maps.Clone(c.original)
		maps.Copy(original, way.Original)
	}
	alt := &comparison{Call: c.readAs(reading{call: way.Call, original: original, alter: way.Alter}),
		out: &Outcome{Op: c.Op}, mistaken: true}
	if way.Call == c.bound && c.sampler == nil {
		alt.fwd = c.fwd
	}
	alt.opt.Runs, alt.incoming, alt.sound, alt.planted = 1, way.OnlyIncoming, c.bound, way.Mistaken
	return alt
}

// asRecorded is the call with what a device gave in place of what was recorded. place says where the gradients of the
// device are among those of the recorded tensors; nil: there are none.
func (c *Call) asRecorded() (d *Call, place []int) {
	call := *c
	d = &call
	rec := func(k capture.Kind, vs []value.Value) *capture.Record {
		r := &capture.Record{Name: c.Record.Op, Args: vs, Kwargs: &value.Dict{}}
		if k == capture.Input {
			*r = *c.Record.Record(k)
		}
		r.Identifier = r.Name + "/" + k.String() // gradients are those of the arguments: see Record.ByOpTools
		return r
	}
	out := c.values.RecordedOutput
	if len(out) > 1 {
		out = []value.Value{value.NewTuple(out...)}
	}
	records := map[capture.Kind]*capture.Record{capture.Input: rec(capture.Input, nil),
		capture.Output: rec(capture.Output, out)}
	if len(c.values.GradInputs) > 0 {
		inputs := c.Record.Inputs()
		got, want := make([]value.Value, len(inputs)), make([]value.Value, len(inputs))
		for i, a := range c.wantGradients() {
			k := slices.Index(inputs, c.recorded(a.Tensor))
			if k < 0 || got[k] != nil { // the gradient of one tensor at several places
				place = nil
				break
			}
			got[k], want[k] = c.values.RecordedGradInputs[i], c.values.GradInputs[i]
			place = append(place, k)
		}
		if place != nil {
			d.values.RecordedGradInputs, d.values.GradInputs = got, want
			records[capture.GradInputs] = rec(capture.GradInputs, got)
			records[capture.GradOutputs] = rec(capture.GradOutputs, c.Record.GradOutputs)
		}
	}
	d.Record = capture.Made(records)
	d.opt.Device, d.opt.Stress, d.opt.ForwardOnly = nil, false, place == nil
	return d, place
}

// explains runs the call with a mistake. The cause has no targets if it explains none.
func (c *Call) explains(m causes.Mistake, fails []Result) causes.Cause {
	k := causes.Cause{Text: m.Text, Exact: true, Share: 1}
	var way causes.Way
	if m.Gradients && !slices.ContainsFunc(fails, func(f Result) bool { return f.Phase == Backward }) {
		return k
	}
	if err := Guard(func() (err error) { way, err = m.Make(); return err }); err != nil || way.Call == nil {
		k.Moot = true
		return k
	}
	if is, idle := c.refuted(m, way, fails); is {
		k.Moot = idle
		return k
	}
	c.work.Whole()
	alt := c.ranAs(way)
	unexplained, of := map[Phase]bool{}, map[string]float64{}
	for _, f := range fails {
		r := alt.out.explanation(m, f)
		bits, nearer := 0.0, false
		if r != nil {
			// Where elements are equal but for rounding, a gradient goes to another one.
			strict := r.Verdict == verdict.Fail && (f.Phase != Backward || m.Numbers)
			bits, nearer = c.evidence(alt, &f, m, strict)
		}
		if !nearer || (f.Phase != Backward || m.Everywhere) && c.spoils(way, alt.out, m.Everywhere) {
			unexplained[f.Phase] = true
			continue
		}
		k.Targets = append(k.Targets, f.Target)
		k.Exact = k.Exact && r.Compared.MaxULP == 0
		if r.Verdict == verdict.Fail {
			k.Share = min(k.Share, 1-float64(r.Compared.Mismatched)/float64(r.Compared.Numel))
		}
		of[f.Target] = bits
	}
	k.Targets = slices.DeleteFunc(k.Targets, func(t string) bool { // part of a pass is no explanation of it
		return slices.ContainsFunc(fails, func(f Result) bool { return f.Target == t && unexplained[f.Phase] })
	})
	for _, target := range k.Targets {
		k.Bits, k.BitsOf = k.Bits+of[target], append(k.BitsOf, of[target])
	}
	return k
}

// explanation is the result of a run with a mistake that explains a failure, nil if none does.
func (o *Outcome) explanation(m causes.Mistake, f Result) *Result {
	i := slices.IndexFunc(o.Results, func(r Result) bool { return r.Phase == f.Phase && r.Target == f.Target })
	if i < 0 || m.Gradients && f.Phase != Backward {
		return nil
	}
	r := &o.Results[i]
	wrong := f.Verdict == verdict.Fail
	if within(*r, f) && !(wrong && m.Rival && r.Verdict == verdict.Warn) || wrong &&
		(m.Rounds && mostly(*r, f, m.Few()) || asAWhole(*r, f) || butForZeros(*r, f)) {
		return r
	}
	return nil
}

// evidence is how many bits of a value the call that runs another way explains, and whether it comes near to it;
// strict: no element may be far off.
func (c *Call) evidence(alt *comparison, f *Result, m causes.Mistake, strict bool) (bits float64, nearer bool) {
	got, want, ok := c.wrongs([]Result{*f})[0].Pair()
	_, other, ok2 := alt.Call.wrongs([]Result{*f})[0].Pair()
	if !ok || !ok2 {
		return 0, true
	}
	var operands []*tensor.Tensor
	for _, a := range c.bound.Tensors() {
		operands = append(operands, a.Tensor)
	}
	if Guard(func() error {
		made := alt.altered(f.Target, other)
		nearer = causes.Nearer(got, want, made) && !(strict && causes.Strays(got, made))
		bits = min(m.Evidence(got, want, made), causes.Picked(operands, got, want), m.Held(got.DType))
		if m.Numbers {
			bits = min(bits, c.search().AtSpot(&causes.Wrong{Target: f.Target, Got: got, Want: want}))
		}
		return nil
	}) != nil {
		return 0, true
	}
	return bits, nearer
}

// spoils reports whether the call that runs with other arguments gives another result than one that was recorded as it
// is due, or another gradient, where those count. An argument that is read as another is not what the call writes to.
func (c *Call) spoils(way causes.Way, alt *Outcome, gradients bool) bool {
	return way.Call != c.bound && slices.ContainsFunc(alt.Results, func(r Result) bool {
		if r.Phase == Backward && !gradients || r.Verdict != verdict.Fail || !c.right[r.Target] {
			return false
		}
		was, ok := argumentAt(r.Target, c.Record.Args, c.Record.Kwargs)
		return r.Phase != Input || !ok || !slices.Contains(slices.Collect(maps.Values(way.Original)), was)
	})
}

// argumentAt is one of the arguments of a record, by its target: "input[3]", "input.out".
func argumentAt(target string, args []value.Value, kwargs *value.Dict) (*tensor.Tensor, bool) {
	if name, named := strings.CutPrefix(target, keyword("").target); named && kwargs != nil {
		v, _ := kwargs.Get(name)
		t, ok := v.(*tensor.Tensor)
		return t, ok
	}
	for i, v := range flatten(args) {
		if fmt.Sprintf("input[%d]", i) == target {
			t, ok := v.(*tensor.Tensor)
			return t, ok
		}
	}
	return nil, false
}

// after is an argument as it was recorded after the call.
func (c *Call) after(target string) (*tensor.Tensor, bool) {
	return argumentAt(target, c.Record.After, c.Record.AfterKwargs)
}

// changed is an argument as the call has changed it, nil if it has not.
func (c *Call) changed(f *opdef.Forward, target string) *tensor.Tensor {
	was, ok := argumentAt(target, c.Record.Args, c.Record.Kwargs)
	if !ok {
		return nil
	}
	for _, a := range c.bound.Tensors() {
		if ts, i := f.After[a.Name], max(a.Index, 0); i < len(ts) && ts[i] != nil && c.recorded(a.Tensor) == was {
			return ts[i]
		}
	}
	return nil
}

// within reports whether a value that failed as f is explained by r so far as its bounds say; evidence says the rest.
func within(r, f Result) bool {
	switch {
	case r.Verdict != verdict.Pass && r.Verdict != verdict.Warn || r.Compared == nil:
		return false
	case f.Compared.Loose > 0:
		return explainsLoose(r, f)
	}
	return true
}

// mostly reports whether all elements but one in so many of those that were wrong in f are
// explained by r. There are enough of both to tell. Integers and booleans are not rounded, and no rounding gives a zero
// the other sign.
func mostly(r, f Result, few int) bool {
	return r.Compared != nil && !r.DType.IsIntegral() && r.DType != tensor.Bool && f.Compared.Mismatched >= 2*few &&
		few*r.Compared.Mismatched <= f.Compared.Mismatched && (r.Compared.Mismatched == 0 || r.Compared.MaxULP > 0)
}

// asAWhole reports whether r is what was recorded of f to the precision of its largest element, though a few elements
// are off: those that are small because terms cancel, and that a kernel rounds at other places than the reference.
func asAWhole(r, f Result) bool {
	if r.Compared == nil || !r.DType.IsFloat() || f.Compared.Mismatched < fewestAsAWhole {
		return false
	}
	off, was := r.Compared.RelativeError, f.Compared.RelativeError
	return r.Compared.Mismatched*fewestAsAWhole <= f.Compared.Mismatched && off > 0 && off <= r.DType.Eps() &&
		off*nearerAsAWhole <= was
}

// fewestAsAWhole is of how many elements that were wrong one may be off, nearerAsAWhole how much smaller the largest
// error has to be.
const (
	fewestAsAWhole = 16
	nearerAsAWhole = 256
)

// butForZeros reports whether all elements of r that are not those recorded of f are zeros of the other sign, of a
// kernel that multiplies by 0 where another one writes it, while many of f were not.
func butForZeros(r, f Result) bool {
	return r.Compared != nil && r.DType.IsFloat() && r.Compared.MaxULP == 0 && f.Compared.MaxULP > 0 &&
		r.Compared.Mismatched > 0 && f.Compared.Mismatched >= 2*r.Compared.Mismatched
}

// SumOf is the cause of a value that failed that it is t, which text names, or that t is added to what is due; it has
// no targets if it is neither. It is one of so many that were tried.
func (c *Call) SumOf(r *Result, tried int, text string, t *tensor.Tensor) causes.Cause {
	if c.opt.Device != nil {
		c, _ = c.asRecorded()
	}
	for m := range c.search().Sums(&c.wrongs([]Result{*r})[0], text, t) {
		k := c.explains(m, []Result{*r})
		if len(k.Targets) > 0 && k.Bits >= causes.Required(tried)+m.Cost {
			return k
		}
	}
	return causes.Cause{}
}

// Explained reports whether t, one of so many that were tried, explains a value that failed, whose elements it has.
func (c *Call) Explained(r *Result, tried int, t *tensor.Tensor) bool {
	got, want, ok := c.Pair(r)
	return ok && causes.Evidence(got, want, t) >= causes.Required(tried)
}
