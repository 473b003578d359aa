package step

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Bridge explains gradients that equal no recorded one: those that op_tools saw at
// an inner node of a call, sums of several, and weight gradients that an optimizer
// read. The reference computes what the calls that read the value give for it, from
// their recorded gradients.
//
// Gradients do not depend on each other: several are looked at at once.
func (p *Process) Bridge(ctx context.Context, opt Options) error {
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	if p.large() {
		all.SetLimit(1)
	}
	for _, s := range p.Steps {
		viewed := s.viewed()
		for _, c := range s.Calls {
			if ctx.Err() == nil {
				all.Go(func() error {
					c.bridge(viewed, opt)
					return ctx.Err()
				})
			}
		}
	}
	if err := all.Wait(); err != nil {
		return err
	}
	p.confirm(opt)
	return nil
}

// large reports whether calls of the process are looked at one at a time, since in
// float64 one of them fills much of a machine's memory.
func (p *Process) large() bool {
	const most = 64 << 20 // elements
	return slices.ContainsFunc(p.Calls, func(c *Call) bool {
		n := 0
		for _, vs := range [...][]*Value{c.Inputs, c.Outputs} {
			for _, v := range vs {
				n += v.Numel()
			}
		}
		return n > most
	})
}

// names are v and the results of calls that return it as it is.
func (v *Value) names(c *Call) []*Value {
	out := []*Value{v}
	for i := 0; i < len(out); i++ {
		for _, r := range out[i].readers {
			if o := r.Call.passes(r); r.Kind == inputKind && o != nil && !slices.Contains(out, o) {
				out = append(out, o)
			}
		}
	}
	return out
}

// bridge decides whether the gradients of results of c that equal no recorded one are what the calls
// that read the results give. viewed are those of Step.viewed.
func (c *Call) bridge(viewed map[*Value]bool, opt Options) {
	readings := map[*Value][]*Value{} // by gradient
	var open []*Value
	pulled := newPulls()
	for _, g := range c.GradOutputs {
		out := c.result(g)
		if g.From.Role != "inner" || out == nil || viewed[out] {
			continue
		}
		for _, n := range out.names(c) {
			for _, r := range n.readers {
				if r.Kind == inputKind && r.Call.HasBackward() && r.Call.passes(r) == nil {
					readings[g] = append(readings[g], r)
				}
			}
		}
		if len(readings[g]) > 0 {
			open = append(open, g)
			pulled.want(readings[g])
		}
	}
	if len(open) == 0 {
		return
	}
	// What the reference does not differentiate stays unexplained.
	_ = opt.within(c, "its gradients were not compared with those of the calls that read its results",
		func(opt Options) error {
			return each(open, func(g *Value) error {
				want, size, err := pulled.gradient(readings[g], opt)
				if err != nil || want == nil {
					return err
				}
				_, err = g.settleSum(want, size, readings[g], opt)
				return err
			})
		})
}

// BridgeParameters finds weight gradients among the inputs of the optimizer's calls.
// Which parameter one belongs to is told by the calls beside it, which write it. A
// gradient is the sum of what all calls gave that read the parameter since it was
// written last, in one step or in several.
func (p *Process) BridgeParameters(ctx context.Context, opt Options) {
	p.findGiven()
	for _, s := range p.Steps {
		s.findHooks()
	}
	all := map[argument]*count{}
	var bridged []unlike
	for _, u := range p.updaters() {
		of := newUnlike(all)
		u.bridgeParameters(ctx, of, opt)
		of.sort()
		bridged = append(bridged, of)
	}
	for _, of := range bridged {
		of.settle()
	}
}

func (up *updater) bridgeParameters(ctx context.Context, of unlike, opt Options) {
	const beside = 12 // calls of one parameter's update
	s, parameters := up.step, up.parameters
	b := weightBridge{u: of}
	for i, c := range s.Tail {
		if ctx.Err() != nil {
			return
		}
		readings := map[*Value][]*Value{} // by gradient
		updated := updated(s.Tail[max(0, i-beside):min(len(s.Tail), i+beside+1)], c, parameters)
		var open []*Value
		for _, v := range c.Inputs {
			if v.hasSource() || !v.DType.IsFloat() || parameters[v.Address] != nil {
				if at := up.parameter(v); v.isGradient() && parameters[at] != nil {
					b.u.add(v, parameters[at], v.lacking(parameters[at]), nil)
				}
				continue
			}
			if r := up.readingsFor(v, parameters, updated); r != nil {
				readings[v], open = r, append(open, v)
			}
		}
		if len(open) == 0 {
			continue
		}
		_ = opt.within(c, "gradients that it read were not compared with those of the calls", func(opt Options) error {
			return each(open, func(v *Value) error { return b.settle(v, readings[v], opt) })
		})
		for _, v := range open {
			if v.isPartOfGradient() && v.reason == "" && severalCalls(readings[v]) {
				// A sum of gradients of which one has most elements: rows of an embedding that
				// shares its weight.
				v.From = Link{How: IsLeaf, Role: "gradient", Parts: []*Value{v.From.Value}}
			}
		}
	}
}

// A weightBridge compares gradients that an optimizer reads with what the calls give that read the parameter.
type weightBridge struct {
	u          unlike
	readings   []*Value     // of the parameter that was looked at last
	recorded   *recordedSum // what the calls gave for it, nil if that was not added up
	pulled     bool         // the reference was asked what they give
	given      pulls
	want, size *tensor.Tensor // the answer: see pulls.gradient
}

// settle decides about a gradient by the readings of its parameter.
func (b *weightBridge) settle(v *Value, readings []*Value, opt Options) (err error) {
	off, want := "", (*Value)(nil) // how it differs from what
	defer func() {
		v.wants = want
		b.u.add(v, readings, off, want)
	}()
	switch {
	case hooked(readings):
		v.settleHooked(readings)
		return nil
	case severalPasses(readings, v.Call):
		var sum *tensor.Tensor
		if off, sum, err = v.settlePasses(readings, opt); sum != nil {
			want = computed(sum)
		}
		return err
	}
	if !slices.Equal(readings, b.readings) {
		b.readings, b.recorded, b.pulled = readings, nil, false
	}
	if done, err := b.settleRecorded(v, readings, opt); done || err != nil {
		if done {
			want = computed(tensor.New(tensor.Float64, v.Shape, b.recorded.sums))
		}
		return err
	}
	if !b.pulled {
		b.pulled, b.want, b.given = true, nil, newPulls(readings...)
		if b.want, b.size, err = b.given.gradient(readings, opt); err != nil {
			return err
		}
	}
	if b.want == nil {
		return nil
	}
	off, err = v.settleSum(b.want, b.size, readings, opt)
	if off != "" {
		off = cmp.Or(v.lacking(readings), off)
		v.given = b.given.byLoss(readings)
	} else if v.From.How == IsChanged {
		v.right = gradientOf(readings)
	}
	want = computed(b.want)
	return err
}

// hasSource reports whether an input was linked to a value from which it came as it is.
func (v *Value) hasSource() bool {
	return v.From.Value != nil && !v.isPartOfGradient() && !v.isCopied() || v.From.first != nil ||
		v.From.Role == "collective"
}

// isCopied reports whether an input holds what a recorded call made at another address, and how it got there was not
// recorded.
func (v *Value) isCopied() bool {
	w := v.From.Value
	return v.From.How == ByContent && w.Kind == outputKind && w.Address != 0 && v.Address != 0 && w.Address != v.Address
}

// readingsFor are the readings of the parameter whose gradient a value may be, of those that are updated nearby if it
// does not tell; nil if it is too small to say, or if there are none.
func (u *updater) readingsFor(v *Value, parameters map[uint64][]*Value, updated map[form][]*Value) []*Value {
	r := parameters[u.parameter(v)]
	if v.isCopied() && (r == nil || r[0].form() != v.form() || !v.telling()) {
		return nil
	}
	tells := v.Numel() > few || v.tellsNumber()
	if (v.Numel() < sampled || v.content.plain) && (r == nil && !v.isPartOfGradient() || !tells) {
		return nil
	}
	if r == nil || r[0].form() != v.form() {
		r = updated[v.form()]
	}
	if r == nil && v.isPartOfGradient() { // far from the update: clipping reads all gradients first
		r = parameters[v.From.Value.argument().Address]
	}
	return r
}

// isPartOfGradient reports whether the value was taken for a recorded gradient of
// which some elements changed.
func (v *Value) isPartOfGradient() bool {
	return v.From.How == IsChanged && v.From.Value != nil && v.From.Value.Kind == capture.GradInputs
}

// argument is the input that a recorded gradient belongs to.
func (v *Value) argument() *Value {
	if in := v.Call.Inputs; v.leaf < len(in) && sameShape(in[v.leaf].Shape, v.Shape) {
		return in[v.leaf]
	}
	if in := v.Call.Value(strings.Replace(v.Target, "grad", "input", 1)); in != nil {
		return in
	}
	return &Value{}
}

func severalCalls(vs []*Value) bool {
	return slices.ContainsFunc(vs, func(v *Value) bool { return v.Call != vs[0].Call })
}

// updated are, for each dtype and shape, the readings of the parameter that is written nearest to call c.
func updated(near []*Call, c *Call, parameters map[uint64][]*Value) map[form][]*Value {
	best, distance := map[form][]*Value{}, map[form]int{}
	for _, n := range near {
		for _, u := range n.Inputs {
			r := parameters[u.Address]
			if r == nil {
				continue
			}
			f, d := r[0].form(), max(n.Order-c.Order, c.Order-n.Order)
			if had, ok := distance[f]; !ok || d < had {
				best[f], distance[f] = r, d
			}
		}
	}
	return best
}

// pulls are gradients that calls give, computed once for all values that are asked for.
type pulls struct {
	wanted map[*Value]bool
	got    map[*Call]pulled
}

type pulled struct {
	grads map[int]*tensor.Tensor // by the number of the input
	err   error
}

// newPulls is for the gradients of those values.
func newPulls(wanted ...*Value) pulls {
	p := pulls{map[*Value]bool{}, map[*Call]pulled{}}
	p.want(wanted)
	return p
}

// want asks for the gradients of values, before the first is computed.
func (p pulls) want(vs []*Value) {
	for _, v := range vs {
		p.wanted[v] = true
	}
}

// of are the gradients that c gives.
func (p pulls) of(c *Call, opt Options) (map[int]*tensor.Tensor, error) {
	had, ok := p.got[c]
	if !ok {
		numbers := map[int]bool{}
		for k, v := range c.Inputs {
			if p.wanted[v] {
				numbers[k] = true
			}
		}
		if had.grads, had.err = c.pull(numbers, opt); had.err == nil {
			had.err = c.wrongGradients(had.grads, opt)
		}
		p.got[c] = had
	}
	return had.grads, had.err
}

// wrongGradients puts the recorded gradients that are wrong in the place of those that the reference gives: what is
// made of them is a consequence.
func (c *Call) wrongGradients(grads map[int]*tensor.Tensor, opt Options) error {
	for k, t := range grads {
		g := c.gradientOf(c.Inputs[k])
		if g == nil || !c.failsAt(g.Target) {
			continue
		}
		err := g.with(opt, func(got *tensor.Tensor) {
			if comparable(got, t) {
				grads[k] = tensor.New(t.DType, t.Shape, slices.Clone(tensor.Data[float64](got)))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// gradient is the sum of what the calls that read a value give for it, and the sum of the magnitudes of these parts;
// nil if one of them does not say.
func (p pulls) gradient(readings []*Value, opt Options) (sum, size *tensor.Tensor, err error) {
	done, of := map[*Call]bool{}, map[*Value]bool{}
	for _, r := range readings {
		of[r] = true
	}
	for _, r := range readings {
		if done[r.Call] {
			continue
		}
		done[r.Call] = true
		gs, err := p.of(r.Call, opt)
		if err != nil {
			return nil, nil, err
		}
		for k, v := range r.Call.Inputs {
			switch {
			case !of[v]:
				continue
			case gs[k] == nil:
				return nil, nil, nil
			case sum == nil:
				sum, size = gs[k], gs[k]
			default:
				sum = solid(opdef.Zip(sum.DType, sum, gs[k], func(x, y float64) float64 { return x + y }))
				size = solid(opdef.Zip(size.DType, size, gs[k], func(x, y float64) float64 {
					return math.Abs(x) + math.Abs(y)
				}))
			}
		}
	}
	return sum, size, nil
}

// computed is a gradient that the reference gives, by its samples.
func computed(t *tensor.Tensor) *Value {
	return &Value{Kind: capture.GradInputs, DType: tensor.Float64, Shape: t.Shape,
		content: newFingerprint(opdef.Cast(t, tensor.Float64))}
}

// gradientOf computes what the calls that read a value give for it.
func gradientOf(readings []*Value) func(opt Options) (*tensor.Tensor, error) {
	return func(opt Options) (t *tensor.Tensor, err error) {
		err = opt.within(readings[0].Call, "", func(opt Options) error {
			t, _, err = newPulls(readings...).gradient(readings, opt)
			return err
		})
		return t, err
	}
}

// byLoss are what the calls give that read a parameter, by loss, once that is computed; nil of a single loss. They are
// known by their samples.
func (p pulls) byLoss(readings []*Value) (parts [][]*Value) {
	by := map[*Step]int{}
	for _, r := range readings {
		k, had := by[r.Call.Step]
		if !had {
			k = len(parts)
			by[r.Call.Step], parts = k, append(parts, nil)
		}
		t := p.got[r.Call].grads[slices.Index(r.Call.Inputs, r)]
		if t == nil {
			return nil
		}
		g := computed(t)
		g.Call, g.Target = r.Call, strings.Replace(r.Target, "input", "grad", 1)
		parts[k] = append(parts[k], g)
	}
	if len(parts) < 2 {
		return nil
	}
	return parts
}

// pull computes the gradients of inputs of a call, by their number, from the
// recorded gradients of its results.
func (c *Call) pull(wanted map[int]bool, opt Options) (map[int]*tensor.Tensor, error) {
	if c.notRun != nil {
		return nil, c.notRun
	}
	return c.pullGiven(wanted, capture.LoadOptions{Read: opt.Read}, opt, recordedGrads)
}

// pullGiven computes the gradients of inputs of a call, by their number, from those that given says of its results;
// nil if the reference does not, or given says none.
func (c *Call) pullGiven(wanted map[int]bool, load capture.LoadOptions, opt Options,
	given func(rec *capture.Call, f *opdef.Forward) []*tensor.Tensor) (map[int]*tensor.Tensor, error) {
	rec, err := c.Entry.Load(load)
	if err != nil {
		rec.Close()
		return nil, err
	}
	defer rec.Close()
	bound, err := opt.Registry.Bind(rec.Op, rec.Args, rec.Kwargs)
	if err != nil || bound.Random() != "" || !bound.Entry.HasGrad {
		return nil, err
	}
	run, f, err := forwardAs(rec, bound)
	if err != nil || f == nil {
		return nil, err
	}
	return vjp(rec, bound, run, f, given(rec, f), wanted)
}

// recordedGrads are the recorded gradients of the results of a call, nil where there is none that fits.
func recordedGrads(rec *capture.Call, f *opdef.Forward) []*tensor.Tensor {
	out := make([]*tensor.Tensor, len(f.Outs))
	saved, _ := value.Leaves(rec.GradOutputs) // what cannot be read is none
	for i, g := range saved {
		t, ok := g.(*tensor.Tensor)
		if ok && i < len(out) && t.DType.Computable() && sameShape(t.Shape, f.Outs[i].Shape) {
			out[i] = t
		}
	}
	return out
}

// vjp computes the gradients of tensor arguments of a call, by their number, from those of its results; none if all of
// these are nil. run is the call as it was run: see forwardAs.
func vjp(rec *capture.Call, bound, run *opdef.Call, f *opdef.Forward, out []*tensor.Tensor,
	wanted map[int]bool) (map[int]*tensor.Tensor, error) {
	if !slices.ContainsFunc(out, func(t *tensor.Tensor) bool { return t != nil }) {
		return nil, nil
	}
	ls, err := rec.Leaves(capture.Input)
	if err != nil {
		return nil, err
	}
	need, number := map[string]bool{}, map[*tensor.Tensor]int{}
	for k, l := range ls {
		if wanted[k] {
			number[l.Tensor] = k
		}
	}
	for _, a := range bound.Tensors() {
		if _, ok := number[a.Tensor]; ok {
			need[a.Name] = true
		}
	}
	// Which of equal elements were chosen (topk, sort, max) the recorded indices say, and what was dropped all results.
	chosen, random := make([]*tensor.Tensor, len(f.Outs)), bound.Random() != ""
	for i, o := range rec.Outputs() {
		if i < len(chosen) && (random || !o.DType.IsFloat()) && o.DType == f.Outs[i].DType &&
			sameShape(o.Shape, f.Outs[i].Shape) {
			chosen[i] = o
		}
	}
	grads, err := run.From(chosen).Backward(f, out, need)
	if err != nil {
		return nil, err
	}
	all := map[int]*tensor.Tensor{}
	for _, a := range bound.Tensors() {
		k, ok := number[a.Tensor]
		g, i := grads[a.Name], max(a.Index, 0)
		if !ok || i >= len(g) || g[i] == nil || !g[i].DType.IsFloat() {
			continue
		}
		t := tensor.New(g[i].DType, g[i].Shape, tensor.Data[float64](g[i]))
		if had := all[k]; had != nil { // one tensor given twice
			t = solid(opdef.Zip(t.DType, had, t, func(x, y float64) float64 { return x + y }))
		}
		all[k] = t
	}
	return all, nil
}

// drawn is a call that was recorded as it can be differentiated: one that draws random numbers with those that its
// results show. Of one whose results do not show them known is false: it is differentiated as without them, which is
// right on average.
func drawn(rec *capture.Call, c *opdef.Call) (run *opdef.Call, known bool) {
	if c.Random() == "" {
		return c, true
	}
	switch d := c.Drawn(rec.Outputs()); {
	case d.Wrong == "" && d.Plan != nil:
		if with, err := c.With(d.Plan); err == nil {
			return with, true
		}
	case d.Wrong == "" && d.Shown: // vjp starts from the results
		return c, true
	}
	return c, false
}

// coarsest is the dtype of fewest digits among those of v and of what the calls give that read it: their gradients were
// rounded to it, as those of weights are under autocast.
func (v *Value) coarsest(readings []*Value) tensor.DType {
	dt := v.DType
	for _, r := range readings {
		for _, o := range r.Call.Outputs {
			if o.DType.IsFloat() && o.DType.Eps() > dt.Eps() {
				dt = o.DType
			}
		}
	}
	return dt
}

// settleSum decides about a gradient for which the reference gives want, unrounded, the sum of parts whose magnitudes
// add up to size: it is that, or that with a part overwritten, or something else: off says how that differs.
func (v *Value) settleSum(want, size *tensor.Tensor, readings []*Value, opt Options) (off string, err error) {
	t, done, err := v.load(opt)
	if err != nil {
		return "", err
	}
	defer done()
	if !comparable(t, want) {
		return "", nil
	}
	x, y := tensor.Data[float64](t), tensor.Data[float64](want)
	dt := v.coarsest(readings)
	most := 0.75
	if v.addedInPlace(readings) {
		most = leastShare
	}
	first, n, telling, ok := outliers(x, y, tensor.Data[float64](size), len(readings), dt, most)
	if v.Kind == inputKind {
		ok = ok && 4*n < telling // what else an optimizer reads may be next to zero in the same places
	}
	switch {
	case !ok && farthest(x, y) <= float64(len(readings)+1)*dt.ULP(0):
		// Rounding of the smallest numbers is all that there is.
	case !ok:
		if off = departs(x, y, v.Shape); off != "" && reordered(x, y, v.DType) {
			off = otherOrder
		}
	case n == 0:
		if off, err = v.offRecorded(readings, x, opt); off != "" || err != nil {
			return off, err
		}
		v.explained()
	default:
		v.unlink()
		v.From.How, v.From.Role = IsChanged, ""
		v.From.Value = readings[0]
		if len(v.From.Parts) == 1 {
			v.From.Value = v.From.Parts[0]
		}
		v.reason = fmt.Sprintf("%d of %d elements are not what the calls that read the value give as its gradient, the "+
			"others are: at %s %.6g instead of %.6g, and no recorded call wrote there", n, len(x),
			index(first, v.Shape), x[first], y[first])
	}
	return off, nil
}

// addedInPlace reports whether the gradient of a result lies where that of a reader lay to which autograd added those
// of the others, and torch has counted no more writes than these additions: no hook of the program changed it by torch.
// Where ranks exchange values, a backward pass can add what others have, which is nothing in some elements.
func (v *Value) addedInPlace(readings []*Value) bool {
	if v.Kind != capture.GradOutputs || v.Address == 0 || v.Call.Process.exchanges {
		return false
	}
	return slices.ContainsFunc(readings, func(r *Value) bool {
		g := r.Call.gradientOf(r)
		return g != nil && g.Address == v.Address && g.version >= 0 && v.version == g.version+len(readings)-1
	})
}

// farthest is the largest distance of elements.
func farthest(x, y []float64) (most float64) {
	for i := range x {
		most = max(most, math.Abs(x[i]-y[i]))
	}
	return most
}

// outliers counts the elements of x that are far from y, where most, by that share, are near; first is the first of
// them. ok is false if not most are near. telling are the elements that zero would be far from: the others are near in
// most tensors. dt is the coarsest dtype that the elements were rounded to.
//
// Near is relative to sizes, the magnitudes of the parts that y is the sum of, since parts may cancel, and to what the
// other elements differ by. It is also near by what parts and their sum, each rounded to the smallest numbers of dt,
// may be off.
func outliers(x, y, sizes []float64, parts int, dt tensor.DType, most float64) (first, n, telling int, ok bool) {
	eps, largest, smallest := dt.Eps(), dt.Max(), float64(parts+1)*dt.ULP(0)
	gap := func(i int) float64 {
		if x[i]-x[i] != 0 && !(math.Abs(sizes[i]) <= largest*(1-eps)) {
			return 0 // it overflows
		}
		return math.Abs(x[i] - y[i])
	}
	square := 0.0
	gaps := make([]float64, 0, 4096)
	for i := range y {
		if s := sizes[i]; s-s == 0 {
			square += s * s
		}
		if i%max(1, len(y)/4096) == 0 && (x[i] != 0 || y[i] != 0) {
			gaps = append(gaps, gap(i))
		}
	}
	rms := math.Sqrt(square / float64(max(1, len(y))))
	if rms == 0 || len(gaps) == 0 {
		return 0, 0, 0, false
	}
	slices.Sort(gaps)
	usual := gaps[int(float64(len(gaps))*most)]
	near, factor := min(512*eps, 0.0625), 1024.0
	if eps > 1e-4 {
		factor = 32 // of 16-bit dtypes: rounding is a hundredth of the values
	}
	if usual > near*rms {
		return 0, 0, 0, false
	}
	first = -1
	for i := range x {
		may := max(near*(math.Abs(sizes[i])+rms), factor*usual) + smallest
		if max(math.Abs(y[i]), math.Abs(x[i])) > may {
			telling++
		}
		if g := gap(i); g == 0 || g <= may {
			continue
		}
		if n++; first < 0 {
			first = i
		}
	}
	return first, n, telling, float64(n) < (1-most)*float64(len(x))
}
