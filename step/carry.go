package step

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Carry runs the calls that some results depend on in float64, from the recorded leaves: once exactly, and
// once for each variation. All of them are run together, call by call, so that each file is read once.
type Carry struct {
	// Of are the results to return.
	Of []*Value
	// Variations are the runs beside the exact one.
	Variations []Variation
	// Decisions keeps whole numbers that floating ones decide as they were recorded: routes of experts, masks
	// of comparisons. Values that were chosen with them (topk, sort) are the exact ones at the recorded places.
	Decisions bool
	// Each, if not nil, is told the exact results of each call that runs.
	Each func(c *Call, exact []*tensor.Tensor)
}

// A Variation is how a run differs from the exact one.
type Variation struct {
	// Errors, if not nil, reports the calls that keep the error that they were recorded with: the recorded result
	// minus the reference on the recorded arguments.
	Errors func(c *Call) bool
	// Replace, if not nil, gives a call other results than the exact ones, nil for those that stay. args are the
	// recorded tensors that it reads.
	Replace func(c *Call, args, exact []*tensor.Tensor) []*tensor.Tensor
}

// errs reports whether a call keeps its error.
func (v Variation) errs(c *Call) bool { return v.Errors != nil && v.Errors(c) }

// Carried is what became of the results.
type Carried struct {
	Exact []*tensor.Tensor   // nil where a result could not be computed
	With  [][]*tensor.Tensor // by variation
	// Breaks are the calls whose results were taken as they were recorded.
	Breaks []Break
	// Strays are the calls where the exact run leaves the way that the program was recorded on, so that what comes
	// behind them is not exact. There are none where decisions are kept.
	Strays []Break
	// Cuts are floating inputs that are taken as they were recorded although other calls made them: what those do
	// differently does not reach the results. Each is named where it is read first.
	Cuts []*Value
	// Calls are those that the results depend on.
	Calls []*Call
}

// mostLive is how many elements the runs of a Carry may hold at a time.
const mostLive = 1 << 28

// Run runs the calls. All results are of one process. Where all variations together would hold too much, some of
// them are run at a time.
func (k *Carry) Run(ctx context.Context, opt Options) (*Carried, error) {
	if len(k.Of) == 0 {
		return &Carried{}, nil
	}
	calls := Cone(k.Of...)
	if !k.Decisions {
		calls = steered(k.Of)
	}
	most := max(1, mostLive/max(1, live(calls, k.Of))-1)
	out, err := k.some(ctx, calls, k.Variations[:min(most, len(k.Variations))], opt)
	for at := most; at < len(k.Variations) && err == nil; at += most {
		again := *k
		again.Each = nil
		var more *Carried
		if more, err = again.some(ctx, calls, k.Variations[at:min(at+most, len(k.Variations))], opt); err == nil {
			out.With = append(out.With, more.With...)
		}
	}
	return out, err
}

// live is how many elements of results are in use at the most while calls run.
func live(calls []*Call, keep []*Value) int {
	n, most := 0, 0
	left := uses(calls, keep)
	for _, c := range calls {
		for _, v := range c.Outputs {
			if left[v] > 0 {
				n += v.Numel()
			}
		}
		most = max(most, n)
		for _, v := range c.Inputs {
			if w := v.From.origin(); w != nil {
				if left[w]--; left[w] == 0 {
					n -= w.Numel()
				}
			}
		}
	}
	return most
}

// Decides reports whether a call decides whole numbers by floating ones (topk, a comparison) that another call
// reads.
func (c *Call) Decides() bool {
	return !c.decided() && slices.ContainsFunc(c.Outputs, func(v *Value) bool {
		return !v.DType.IsFloat() && !v.DType.IsComplex() && len(v.readers) > 0
	})
}

// some runs the calls with some of the variations.
func (k *Carry) some(ctx context.Context, calls []*Call, variations []Variation, opt Options) (*Carried, error) {
	out := &Carried{Calls: Cone(k.Of...)}
	rerunOf := func(under *rerun) *rerun {
		return &rerun{process: k.Of[0].Call.Process, opt: opt, ctx: ctx, values: map[*Value]*tensor.Tensor{},
			keep: k.Of, under: under, decisions: k.Decisions, averaged: func(*Call) {}, broken: func(*Call, string) {},
			loss: func(*Step, float64) {}}
	}
	exact := rerunOf(nil)
	seen := map[*Value]bool{}
	exact.cuts = func(v *Value) {
		if v = v.first(); !seen[v] {
			seen[v] = true
			out.Cuts = append(out.Cuts, v)
		}
	}
	exact.uses = uses(calls, k.Of)
	with := make([]*rerun, len(variations))
	for i := range with {
		with[i] = rerunOf(exact)
		with[i].uses = exact.uses
	}
	for _, v := range detached(out.Calls, k.Of) {
		exact.cuts(v)
	}
	for _, c := range calls {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := opt.within(c, "", func(Options) error { return k.call(c, exact, with, variations) }); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if !strayed(&out.Strays, c, err) {
				out.Breaks = append(out.Breaks, Break{c, err.Error()})
			}
			exact.recorded(c)
			for _, x := range with {
				x.recorded(c)
			}
		}
		for _, v := range c.Inputs {
			w := v.From.origin()
			if w == nil {
				continue
			}
			if exact.uses[w]--; exact.uses[w] == 0 {
				delete(exact.values, w)
				for _, x := range with {
					delete(x.values, w)
				}
			}
		}
	}
	results := func(x *rerun) []*tensor.Tensor {
		ts := make([]*tensor.Tensor, len(k.Of))
		for i, v := range k.Of {
			ts[i] = x.value(v)
		}
		return ts
	}
	out.Exact = results(exact)
	for _, x := range with {
		out.With = append(out.With, results(x))
	}
	return out, nil
}

// uses counts the readers of each value among calls, and those that are kept.
func uses(calls []*Call, keep []*Value) map[*Value]int {
	n := map[*Value]int{}
	for _, v := range keep {
		n[v]++
	}
	for _, c := range calls {
		for _, v := range c.Inputs {
			if w := v.From.origin(); w != nil {
				n[w]++
			}
		}
	}
	return n
}

// Cone is the calls that results depend on, in order, their own included.
func Cone(of ...*Value) []*Call {
	calls := make([]*Call, len(of))
	for i, v := range of {
		calls[i] = v.Call
	}
	return coneOf(calls)
}

// coneOf is the calls that calls of a process depend on, in order, their own included.
func coneOf(of []*Call) []*Call {
	in := map[*Call]bool{}
	var todo []*Call
	add := func(c *Call) {
		if !in[c] {
			in[c] = true
			todo = append(todo, c)
		}
	}
	for _, c := range of {
		add(c)
	}
	for len(todo) > 0 {
		c := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, v := range c.Inputs {
			if w := v.From.origin(); w != nil && w.Call.Order < c.Order {
				add(w.Call)
			}
		}
	}
	var out []*Call
	for _, c := range of[0].Process.Calls {
		if in[c] {
			out = append(out, c)
		}
	}
	return out
}

// call runs a call exactly and in each variation that tells it from the exact run.
func (k *Carry) call(c *Call, exact *rerun, with []*rerun, variations []Variation) error {
	if c.notRun != nil {
		return c.notRun
	}
	rec, err := c.Entry.Load(capture.LoadOptions{Read: exact.opt.Read, Only: capture.Of(capture.Input, capture.Output)})
	//lint:ignore SA5001 Load always returns a Call
	defer rec.Close()
	if err != nil && rec.Err(capture.Input) != nil {
		return rec.Err(capture.Input)
	}
	if c.hands() {
		return exact.tells(c, rec)
	}
	outs, err := k.run(exact, c, rec)
	if err != nil {
		return err
	}
	if k.Each != nil {
		k.Each(c, outs)
	}
	var errors []*tensor.Tensor // of the call's own
	if slices.ContainsFunc(variations, func(v Variation) bool { return v.errs(c) }) {
		if errors, err = exact.errors(rec, len(c.Outputs)); err != nil {
			return err
		}
	}
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, x := range with {
		inserts := errors != nil && variations[i].errs(c)
		var others []*tensor.Tensor
		if replace := variations[i].Replace; replace != nil {
			others = replace(c, rec.Inputs(), outs)
		}
		touched := slices.ContainsFunc(c.Inputs, func(v *Value) bool {
			w := v.From.origin()
			return w != nil && x.values[w] != nil
		})
		if !inserts && !touched && others == nil {
			continue
		}
		all.Go(func() error {
			return replay.Guard(func() (err error) {
				now := outs
				if others != nil {
					x.store(c, rec, others)
					return nil
				}
				if touched {
					if now, err = k.run(x, c, rec); err != nil {
						return err
					}
				}
				if inserts {
					now = added(now, errors)
				}
				x.store(c, rec, now)
				return nil
			})
		})
	}
	return all.Wait()
}

// run computes a call in one of the runs and keeps the results.
func (k *Carry) run(x *rerun, c *Call, rec *capture.Call) ([]*tensor.Tensor, error) {
	args, kwargs, err := x.arguments(c, rec)
	if err != nil {
		return nil, err
	}
	bound, f, err := x.forward(rec, args, kwargs)
	if err != nil {
		return nil, err
	}
	if why := bound.Random(); why != "" {
		return nil, errRandom(why)
	}
	if err := x.strays(c, f); err != nil {
		return nil, err
	}
	outs, err := results(f, len(c.Outputs))
	if err != nil {
		return nil, err
	}
	outs = slices.Clone(outs)
	for i, t := range outs {
		if t != nil && t.IsLazy() { // computed once, not by each of its readers
			outs[i] = solid(t)
		}
	}
	if k.Decisions && !c.decided() {
		outs = atRecorded(c, rec, args, outs)
	}
	x.store(c, rec, outs)
	x.storeChanged(c, x.changed(c, ran{bound, f, args, kwargs}))
	return outs, nil
}

// An errRandom says why a call is not run.
type errRandom string

func (e errRandom) Error() string { return string(e) }

// errors are what the recorded results of a call differ by from the reference on the recorded arguments; nil
// where they are no floating numbers, or equal. It is nil if all are.
func (x *rerun) errors(rec *capture.Call, n int) ([]*tensor.Tensor, error) {
	want, err := x.reference(rec, n)
	if err != nil {
		return nil, err
	}
	got := rec.Outputs()
	var out []*tensor.Tensor
	for i := range n {
		if i >= len(got) || i >= len(want) || want[i] == nil || !comparable(got[i], want[i]) {
			continue
		}
		d := solid(opdef.Zip(got[i].DType, got[i], want[i], func(g, w float64) float64 {
			if d := g - w; d-d == 0 { // else both infinite: a mask
				return d
			}
			return 0
		}))
		if slices.ContainsFunc(tensor.Data[float64](d), func(v float64) bool { return v != 0 }) {
			if out == nil {
				out = make([]*tensor.Tensor, n)
			}
			out[i] = d
		}
	}
	return out, nil
}

// reference are the n results of a call on its recorded arguments, unrounded.
func (x *rerun) reference(rec *capture.Call, n int) ([]*tensor.Tensor, error) {
	bound, f, err := x.forward(rec, rec.Args, rec.Kwargs)
	if err != nil {
		return nil, err
	}
	if why := bound.Random(); why != "" {
		return nil, errRandom(why)
	}
	return results(f, n)
}

// Reference are the results of a call on its recorded arguments, unrounded.
func (c *Call) Reference(opt Options) (out []*tensor.Tensor, err error) {
	err = opt.within(c, "", func(opt Options) error {
		rec, err := c.Entry.Load(capture.LoadOptions{Read: opt.Read, Only: capture.Of(capture.Input, capture.Output)})
		//lint:ignore SA5001 Load always returns a Call
		defer rec.Close()
		if err != nil {
			return err
		}
		if out, err = (&rerun{opt: opt}).reference(rec, len(c.Outputs)); err != nil {
			return err
		}
		for i, t := range out {
			if t != nil {
				out[i] = solid(t)
			}
		}
		return nil
	})
	return out, err
}

// LastIndex is the last of the numbers that index a tensor, where a call reads one tensor by an index without tensors;
// nil for other calls. It is called where the call is loaded already, within its limits.
func (c *Call) LastIndex(opt Options) []int64 {
	if len(c.Inputs) != 1 {
		return nil
	}
	rec, err := c.Entry.Load(capture.LoadOptions{Read: opt.Read, Only: capture.Of(capture.Input)})
	//lint:ignore SA5001 Load always returns a Call
	defer rec.Close()
	if err != nil || len(rec.Args) != 2 {
		return nil
	}
	last := rec.Args[1]
	if list, ok := last.(*value.Sequence); ok && len(list.Items) > 0 {
		last = list.Items[len(list.Items)-1]
	}
	if i, ok := last.(int64); ok && i >= 0 {
		return []int64{i}
	}
	return nil
}

// added are results with errors added.
func added(outs, errors []*tensor.Tensor) []*tensor.Tensor {
	outs = slices.Clone(outs)
	for i, e := range errors {
		if e != nil && i < len(outs) && outs[i] != nil && comparable(outs[i], e) {
			outs[i] = solid(opdef.Zip(outs[i].DType, outs[i], e, func(x, d float64) float64 { return x + d }))
		}
	}
	return outs
}

// atRecorded are the results of a call that chooses elements and says which (topk, sort, max of a dimension):
// values are those at the recorded places.
func atRecorded(c *Call, rec *capture.Call, args []value.Value, outs []*tensor.Tensor) []*tensor.Tensor {
	got := rec.Outputs()
	var from, was *tensor.Tensor
	if ts, before := value.Tensors(value.NewTuple(args...)), value.Tensors(value.NewTuple(rec.Args...)); len(ts) > 0 &&
		len(before) == len(ts) {
		from, was = ts[0], before[0]
	}
	if from == nil || len(got) != len(outs) {
		return outs
	}
	for i, at := range got {
		if at.DType.Kind() != tensor.KindInt {
			continue
		}
		for k, v := range got {
			if !v.DType.IsFloat() || !sameShape(v.Shape, at.Shape) || !comparable(v, outs[k]) {
				continue
			}
			places := tensor.Data[int64](got[i])
			for d := range from.Shape {
				if t := gathered(was, d, at.Shape, places); t == nil || !slices.Equal(t, tensor.Data[float64](v)) {
					continue
				}
				outs[k] = tensor.New(outs[k].DType, outs[k].Shape, gathered(from, d, at.Shape, places))
				break
			}
		}
	}
	return outs
}

// gathered are the elements of t at places of dimension d, in the shape of the places; nil if the shapes do not
// belong together.
func gathered(t *tensor.Tensor, d int, shape []int, places []int64) []float64 {
	if len(shape) != len(t.Shape) || !t.DType.IsFloat() {
		return nil
	}
	for i := range shape {
		if i != d && shape[i] != t.Shape[i] {
			return nil
		}
	}
	all := tensor.Data[float64](t)
	inner := tensor.Numel(t.Shape[d+1:])
	out := make([]float64, len(places))
	for i, p := range places {
		if p < 0 || int(p) >= t.Shape[d] {
			return nil
		}
		row := i / inner / shape[d]
		out[i] = all[(row*t.Shape[d]+int(p))*inner+i%inner]
	}
	return out
}

// Name is that of a parameter or buffer in the model; "" if none is known.
func (v *Value) Name() string { return v.named }

// Named reports whether the call is the one that people call so: OP/ID, as String gives it, the name as it was
// recorded, or the path of its capture.
func (c *Call) Named(name string) bool {
	return name == c.String() || name == fmt.Sprintf("%s/%d", c.Op, c.Entry.ID) || name == c.Entry.Rel
}

// Floats are the recorded elements of a value; nil if they cannot be read.
func (v *Value) Floats(opt Options) []float64 { return elements[float64](v, opt) }

// Whole are the recorded elements of a value of whole numbers; nil if they cannot be read.
func (v *Value) Whole(opt Options) []int64 { return elements[int64](v, opt) }

func elements[T tensor.Elem](v *Value, opt Options) (out []T) {
	_ = opt.within(v.Call, "", func(opt Options) error {
		t, done, err := v.load(opt)
		if err != nil {
			return err
		}
		defer done()
		out = slices.Clone(tensor.Data[T](t))
		return nil
	})
	return out
}

// Recorded is the value as it was recorded, independent of any file.
func (v *Value) Recorded(opt Options) (out *tensor.Tensor, err error) {
	err = opt.within(v.Call, "", func(opt Options) error {
		t, done, err := v.load(opt)
		if err != nil {
			return err
		}
		defer done()
		out = solid(t)
		return nil
	})
	return out, err
}

// First is where the value of a leaf is read first.
func (v *Value) First() *Value { return v.first() }
