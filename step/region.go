package step

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Range are the forward ids of the calls of a region, From and To included.
type Range struct {
	From, To int
	// Op, if not empty, is the operator that the region is: one that takes the tensors
	// that the region reads, in the order in which it reads them.
	Op string
}

// ParseRange parses "FROM..TO" or "FROM..TO=OP".
func ParseRange(s string) (Range, error) {
	ids, op, named := strings.Cut(s, "=")
	from, to, ok := strings.Cut(ids, "..")
	var r Range
	var errFrom, errTo error
	r.From, errFrom = strconv.Atoi(strings.TrimSpace(from))
	r.To, errTo = strconv.Atoi(strings.TrimSpace(to))
	r.Op = strings.TrimSpace(op)
	switch {
	case !ok || errFrom != nil || errTo != nil || r.From < 0:
		return Range{}, fmt.Errorf("want FROM..TO, the ids of the first and the last call, got %q", s)
	case r.To < r.From:
		return Range{}, fmt.Errorf("want ids in order, got %d..%d", r.From, r.To)
	case named && r.Op == "":
		return Range{}, fmt.Errorf("want the name of an operator after =, got %q", s)
	}
	return r, nil
}

func (r Range) String() string {
	if r.Op != "" {
		return fmt.Sprintf("%d..%d=%s", r.From, r.To, r.Op)
	}
	return fmt.Sprintf("%d..%d", r.From, r.To)
}

// Has reports whether a capture is one of the range's.
func (r Range) Has(e *capture.Entry) bool {
	id := e.ID
	if id < 0 {
		id = e.Position()
	}
	return r.From <= id && id <= r.To
}

// A Region is the calls of a process that a compiler makes one kernel of: what one of
// them gives another stays inside, unrounded.
type Region struct {
	Range
	Process *Process
	Calls   []*Call
	// Inputs are the tensors that the region reads, each where it is read first; Results
	// are those that leave it: that calls behind it read, or none that was recorded.
	Inputs, Results []*Value
	// Op is the operator's name: that of the range, or one of its own.
	Op string
}

// Regions finds the calls of a range in each process that has some.
func (t *Trace) Regions(ranges []Range) ([]*Region, error) {
	var out []*Region
	for _, rg := range ranges {
		found := false
		for _, p := range t.Processes {
			r := &Region{Range: rg, Process: p, Op: rg.Op}
			for _, c := range p.Calls {
				if rg.Has(c.Entry) {
					r.Calls = append(r.Calls, c)
				}
			}
			if len(r.Calls) == 0 {
				continue
			}
			found = true
			if r.Op == "" {
				r.Op = fmt.Sprintf("fused.calls_%d_%d", rg.From, rg.To)
			}
			if err := r.bounds(); err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		if !found {
			return nil, fmt.Errorf("%s: no call has an id from %d to %d", rg, rg.From, rg.To)
		}
	}
	for i, r := range out {
		for _, s := range out[:i] {
			if r.Process == s.Process && r.From <= s.To && s.From <= r.To {
				return nil, fmt.Errorf("%s and %s have calls in common", s.Range, r.Range)
			}
		}
	}
	return out, nil
}

// bounds finds what enters the region and what leaves it.
func (r *Region) bounds() error {
	inside := map[*Call]bool{}
	for _, c := range r.Calls {
		inside[c] = true
	}
	known := map[*Value]bool{}
	for _, c := range r.Calls {
		for _, v := range c.Inputs {
			w := v.From.origin()
			if w != nil && inside[w.Call] {
				continue
			}
			if w == nil {
				w = v.first()
			}
			if !known[w] {
				known[w] = true
				r.Inputs = append(r.Inputs, v)
			}
		}
		for _, o := range c.Outputs {
			outside := slices.ContainsFunc(o.readers, func(v *Value) bool {
				return !inside[v.Call] || len(v.Call.Outputs) == 0 // item() and the like take it out
			})
			if (outside || len(o.readers) == 0) && o.DType.Computable() {
				r.Results = append(r.Results, o)
			}
		}
	}
	if len(r.Results) == 0 {
		return fmt.Errorf("%s: nothing leaves the calls: none of their results is read behind them", r.Range)
	}
	return nil
}

// Last is the capture of the last call.
func (r *Region) Last() *capture.Entry { return r.Calls[len(r.Calls)-1].Entry }

// Open is the region as one call, bound to its operator: arguments are the Inputs,
// results the Results as they were recorded. Call closed after it; before it nothing of
// the call is gone.
func (r *Region) Open(ctx context.Context, opt Options) (call *replay.Call, closed func(), err error) {
	var done []func()
	closed = func() {
		for _, f := range done {
			f()
		}
	}
	defer func() {
		if err != nil {
			closed()
		}
	}()
	reading := opt
	reading.files = &files{}
	done = append(done, reading.files.end)
	load := func(vs []*Value) ([]value.Value, error) {
		var out []value.Value
		for _, v := range vs {
			t, closer, err := v.load(reading)
			if err != nil {
				return nil, err
			}
			done = append(done, closer)
			out = append(out, t)
		}
		return out, nil
	}
	args, err := load(r.Inputs)
	if err != nil {
		return nil, closed, err
	}
	results, err := load(r.Results)
	if err != nil {
		return nil, closed, err
	}
	one := opt.Options
	one.ForwardOnly = true
	if r.Range.Op == "" {
		if one.Registry, err = one.Registry.With([]*opdef.Entry{r.entry(ctx, opt)}); err != nil {
			return nil, closed, err
		}
		args = []value.Value{value.NewTuple(args...)}
	}
	if len(results) > 1 {
		results = []value.Value{value.NewTuple(results...)}
	}
	rec := capture.Made(map[capture.Kind]*capture.Record{
		capture.Input:  {Name: r.Op, Args: args, Kwargs: &value.Dict{}},
		capture.Output: {Name: r.Op, Args: results, Kwargs: &value.Dict{}}})
	return replay.Of(rec, one), closed, nil
}

type regionArgs struct{ Inputs []*tensor.Tensor }

// entry is the region as an operator: the reference of each call on the results of
// those before it, unrounded, and a bound of what rounding in float32 inside does to
// the results.
func (r *Region) entry(ctx context.Context, opt Options) *opdef.Entry {
	returns := " -> Tensor"
	if len(r.Results) > 1 {
		returns = " -> (Tensor" + strings.Repeat(", Tensor", len(r.Results)-1) + ")"
	}
	_, name, _ := strings.Cut(r.Op, ".")
	return opdef.Op[regionArgs]{
		Schema: name + "(Tensor[] inputs)" + returns, Names: r.Op,
		Doc:   opdef.Doc{Summary: "Calls that were recorded, as one", Source: "the recording"},
		Error: opdef.Error{Class: opdef.Composed, Operand: r.coarse()},
		Kernel: func(*regionArgs) ([]*tensor.Tensor, error) {
			return r.run(ctx, opt, nil)
		},
		Bounds: opdef.Bounds[*regionArgs]{
			Scale: func(_ *regionArgs, outs []*tensor.Tensor) []*tensor.Tensor {
				return opdef.Must(r.scale(ctx, opt, outs))
			},
		},
		Cases:  func(opdef.Gen) []*regionArgs { return nil },
		Traits: opdef.Traits{NoGrad: "gradients of calls that are fused belong to another kernel"},
	}.Entry()
}

// coarse is a dtype of 16 bits that results inside the region were recorded in, Invalid if
// there is none.
func (r *Region) coarse() tensor.DType {
	for _, c := range r.Calls {
		for _, o := range c.Outputs {
			if o.DType.IsHalf() {
				return o.DType
			}
		}
	}
	return tensor.Invalid
}

// run computes the results of the region, unrounded. move, if not nil, changes the
// results of each call.
func (r *Region) run(ctx context.Context, opt Options, move mover) ([]*tensor.Tensor, error) {
	opt.Within = nil // the region as a whole is within the limits
	var broken error
	x := &rerun{process: r.Process, opt: opt, ctx: ctx, values: map[*Value]*tensor.Tensor{}}
	x.keep, x.move = r.Results, move
	x.broken = func(c *Call, reason string) {
		if broken == nil && reason != opdef.Uninitialised { // which calls behind it fill
			broken = fmt.Errorf("%s, id %d: %s", c.Op, c.Entry.ID, reason)
		}
	}
	x.averaged = func(c *Call) { x.broken(c, cmp.Or(c.random, "the operator is not known")) }
	x.loss = func(*Step, float64) {}
	if err := x.run(r.Calls); err != nil {
		return nil, err
	}
	if broken != nil {
		return nil, broken
	}
	out := make([]*tensor.Tensor, len(r.Results))
	for i, v := range r.Results {
		if out[i] = x.values[v]; out[i] == nil {
			return nil, fmt.Errorf("%s, id %d: %s is not known", v.Call.Op, v.Call.Entry.ID, v.Target)
		}
	}
	return out, nil
}

// Of the bound of a region's results: how often the region runs again with moved
// results, and the bound in root mean squares of what that does. An error beyond it
// has a probability below 1e-9 where results depend on many independent roundings.
const (
	moves     = 12
	moveBound = 3
)

// scale is S of the results: the region runs again and again with the results of each
// call moved by the error that a sound device may make in float32, to random sides:
// element by element, all elements of a row to one side, and all of a tensor.
func (r *Region) scale(ctx context.Context, opt Options, exact []*tensor.Tensor) ([]*tensor.Tensor, error) {
	squares := make([][]float64, len(exact))
	for i, t := range exact {
		squares[i] = tensor.Make[float64](t.Numel())
	}
	random := rand.New(rand.NewPCG(1, uint64(r.From)))
	for n := range moves {
		outs, err := r.run(ctx, opt, movedBy(random, together(n%3)))
		if err != nil {
			return nil, err
		}
		for i, t := range outs {
			addSquares(squares[i], t, exact[i])
		}
	}
	out := make([]*tensor.Tensor, len(exact))
	for i, t := range exact {
		u := roundoff.U32
		if accumulatesIn64(t.DType) {
			u = roundoff.U64
		}
		for k, s := range squares[i] {
			squares[i][k] = moveBound * math.Sqrt(s/moves) / (roundoff.Growth(1) * u)
		}
		out[i] = tensor.New(tensor.Float64, t.Shape, squares[i])
	}
	return out, nil
}

// addSquares adds |t-exact|^2, element by element; differences from infinities and NaN
// count for nothing.
func addSquares(sums []float64, t, exact *tensor.Tensor) {
	add := func(k int, d float64) {
		if d-d == 0 {
			sums[k] += d * d
		}
	}
	switch {
	case t.DType.IsFloat():
		x, y := tensor.Data[float64](t), tensor.Data[float64](exact)
		for k := range x {
			add(k, x[k]-y[k])
		}
	case t.DType.IsComplex():
		x, y := tensor.Data[complex128](t), tensor.Data[complex128](exact)
		for k := range x {
			add(k, math.Hypot(real(x[k]-y[k]), imag(x[k]-y[k])))
		}
	}
}

// A mover gives results of a call instead of those that the reference gave.
type mover func(bound *opdef.Call, f *opdef.Forward, outs []*tensor.Tensor) []*tensor.Tensor

// together says which elements are moved to the same side.
type together int

const (
	scattered together = iota
	inRows
	inTensors
)

// movedBy moves each element by the error of a sound device.
func movedBy(random *rand.Rand, sides together) mover {
	return func(bound *opdef.Call, f *opdef.Forward, outs []*tensor.Tensor) []*tensor.Tensor {
		outs = slices.Clone(outs)
		for i, t := range outs {
			k := slices.Index(f.Outs, t)
			if k < 0 || !t.DType.IsFloat() && !t.DType.IsComplex() {
				continue
			}
			b := bound.OutBound(f, k)
			if b.Class == opdef.Exact {
				continue
			}
			outs[i] = moved(random, sides, t, b)
		}
		return outs
	}
}

func moved(random *rand.Rand, sides together, t *tensor.Tensor, b opdef.Bound) *tensor.Tensor {
	u, eps := roundoff.U32, tensor.Float32.Eps()
	if accumulatesIn64(t.DType) {
		u, eps = roundoff.U64, tensor.Float64.Eps()
	}
	var s []float64
	if b.Scale != nil {
		s = tensor.Data[float64](b.Scale())
	}
	row := t.Numel()
	if sides == inRows && t.Dim() > 0 {
		row = t.Shape[t.Dim()-1]
	}
	side := 1.0
	// by is the error of element k, of magnitude size and sign sign, with its side.
	by := func(k int, size, sign float64) float64 {
		if sides == scattered || k%max(row, 1) == 0 {
			side = float64(2*random.IntN(2) - 1)
		}
		d := b.ULPs * eps * size
		if s != nil {
			d += roundoff.Growth(b.Terms) * u * s[k]
		}
		if d-d != 0 { // of infinities and NaN
			return 0
		}
		if sides == scattered {
			return side * d
		}
		return side * sign * d
	}
	if t.DType.IsComplex() {
		z := slices.Clone(tensor.Data[complex128](t))
		for k := range z {
			z[k] += complex(by(k, math.Hypot(real(z[k]), imag(z[k])), 1), 0)
		}
		return tensor.New(t.DType, t.Shape, z)
	}
	x := slices.Clone(tensor.Data[float64](t))
	for k := range x {
		x[k] += by(k, math.Abs(x[k]), math.Copysign(1, x[k]))
	}
	return tensor.New(t.DType, t.Shape, x)
}

// accumulatesIn64 reports whether devices compute in float64 to give dt.
func accumulatesIn64(dt tensor.DType) bool { return dt == tensor.Float64 || dt == tensor.Complex128 }
