package pairs

import (
	"fmt"
	"math"
	mathbits "math/bits"
	"slices"
	"strings"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Difference says how far two values are apart as a whole: tensors of real numbers and of one shape, numbers, or
// dtypes.
type Difference struct {
	DTypes   [2]tensor.DType // Invalid of numbers
	Relative float64         // root mean square of the difference over that of the larger tensor
	Largest  float64         // largest difference over the largest element
	Unlike   bool            // tensors of other shapes: nothing is known of how far they are apart
	Sums     [2]uint64       // of the elements of tensors that are not the same, in their order
}

// differ measures two values that compare to res. It is nil if they are of other kinds, or cannot be measured.
func differ(got, want value.Value, res *compare.Result) *Difference {
	switch g := got.(type) {
	case tensor.DType:
		if w, ok := want.(tensor.DType); ok && g.IsFloat() && w.IsFloat() {
			return &Difference{DTypes: [2]tensor.DType{g, w}}
		}
	case value.Device:
		if _, ok := want.(value.Device); ok {
			return &Difference{} // where a run computed is no difference of its program
		}
	case float64:
		if w, ok := want.(float64); ok {
			return &Difference{Relative: math.Abs(g-w) / max(math.Abs(g), math.Abs(w))}
		}
	case *tensor.Tensor:
		w, ok := want.(*tensor.Tensor)
		if ok && !slices.Equal(g.Shape, w.Shape) {
			return &Difference{Relative: math.NaN(), Unlike: true}
		}
		if !ok || !measurable(g) || !measurable(w) || !slices.Equal(g.Shape, w.Shape) ||
			res.Verdict == verdict.Invalid {
			return nil
		}
		d := &Difference{DTypes: [2]tensor.DType{g.DType, w.DType}}
		if res.OpTools.MaxAbs == 0 {
			return d
		}
		d.measure(g, w)
		return d
	}
	return nil
}

// measurable reports whether the elements of t are real numbers, and were recorded.
func measurable(t *tensor.Tensor) bool {
	return t.DType.IsFloat() && !t.DType.IsComplex() && t.Summary() == nil && t.Numel() > 0
}

// measure finds how far two tensors of one shape are apart. Elements that are the same infinity on both sides, or NaN,
// say nothing of that, such as those behind a mask of -inf. An infinity on one side only is infinitely far off.
func (d *Difference) measure(g, w *tensor.Tensor) {
	n, step := g.Numel(), max(g.Block(), w.Block())
	x, y := tensor.Make[float64](min(step, n)), tensor.Make[float64](min(step, n))
	var apart, largest, most float64
	var squares [2]float64
	var sums [2]uint64
	compared := 0
	for lo := 0; lo < n; lo += step {
		k := min(step, n-lo)
		tensor.Load(g, lo, x[:k])
		tensor.Load(w, lo, y[:k])
		for i, a := range x[:k] {
			b := y[i]
			sums[0], sums[1] = mixed(sums[0], a), mixed(sums[1], b)
			if !finite(a) && !finite(b) && same(a, b) {
				continue
			}
			compared++
			if finite(a) {
				squares[0] += a * a
			}
			if finite(b) {
				squares[1] += b * b
				most = max(most, math.Abs(b))
			}
			e := a - b
			apart += e * e
			largest = max(largest, math.Abs(e)) // NaN stays
		}
	}
	if apart == 0 {
		return
	}
	d.Sums = sums
	d.Relative = math.Sqrt(apart / max(squares[0], squares[1]))
	// The largest of a million normal numbers is 5 times their root mean square.
	d.Largest = largest / max(most, 5*math.Sqrt(squares[1]/float64(compared)))
}

// near reports whether it is known that two values are no further apart than a limit, as a whole and in each element.
func (d *Difference) near(limit float64) bool {
	return d != nil && d.Relative <= limit && d.Largest <= standOut*limit
}

// mixed adds an element to a sum that shows which elements there are and in which order.
func mixed(sum uint64, x float64) uint64 {
	return mathbits.RotateLeft64(sum^math.Float64bits(x), 27) * 0x9e3779b97f4a7c15 // of SplitMix64
}

func finite(x float64) bool { return x-x == 0 }

// same reports whether two numbers are equal, as are two NaN here.
func same(x, y float64) bool { return x == y || x != x && y != y }

// A Precision tells what a lower precision of one of two recordings explains from what it
// does not. It takes the pairs in the order in which the calls ran.
type Precision struct {
	Fine, Coarse tensor.DType // of the first call whose values have different dtypes; Invalid until Look found one
	First        string       // that call
	// Calls counts the calls of both recordings, Explained those without a difference that the precision does
	// not explain. Same are those of them without any difference.
	Calls, Explained, Same int
	// Unexplained is the first value of the others, nil if there is none.
	Unexplained *reports.Result

	largest map[[2]int]float64 // by rank and process: how far apart the results are so far
}

// How far results may be apart: growth times what the inputs are apart, or half a unit of the dtype if that is more.
// One element may be off by standOut times that share of the largest element.
//
// Measured on 15 pairs of recordings of one step without a mistake (two transformers, BERT, ViT, ResNet, recurrent
// layers; float32 against bfloat16, float16 and autocast). Of 2,570 calls up to the loss, with their gradients, 5 are
// beyond growth; 4 of them normalise two values. Updates of Adam in bfloat16 are beyond it in 24 of 3,941 calls, since
// it divides elements that are nearly 0. In float16 it overflows. A silu that was computed as a fast gelu is 13 times
// its input apart.
const (
	growth   = 8
	standOut = 4
)

// Known reports whether the recordings are known to have different precisions.
func (p *Precision) Known() bool { return p.Coarse != tensor.Invalid }

// Look looks for different dtypes among the values of a pair.
func (p *Precision) Look(rs []*reports.Result, ds map[*reports.Result]*Difference) {
	for _, r := range rs {
		if d := ds[r]; d != nil && !p.Known() && d.DTypes[0] != d.DTypes[1] {
			p.Fine, p.Coarse = d.DTypes[0], d.DTypes[1]
			if p.Fine.Eps() > p.Coarse.Eps() {
				p.Fine, p.Coarse = p.Coarse, p.Fine
			}
			p.First = r.Title()
		}
	}
}

// Explain lets values of the next pair pass that the precision explains, if it is known.
func (p *Precision) Explain(pair Pair, rs []*reports.Result, ds map[*reports.Result]*Difference) {
	if pair.B == nil {
		return
	}
	p.Calls++
	if !slices.ContainsFunc(rs, func(r *reports.Result) bool { return differs(r, ds[r]) }) {
		p.Same++
	}
	if !p.Known() {
		p.Explained++
		return
	}
	if p.largest == nil {
		p.largest = map[[2]int]float64{}
	}
	process := [2]int{pair.A.Rank, pair.A.PID}
	unit := p.Coarse.Eps() / 2
	before := max(p.largest[process], unit)
	forward, backward, given, good := unit, unit, false, true
	for _, r := range rs {
		apart := 0.0
		if d := ds[r]; d != nil && d.Relative == d.Relative {
			apart = d.Relative
		}
		limit := 0.0
		arrived := strings.HasPrefix(r.Target, "grad_output")
		switch {
		case r.Phase == "input" && !given: // what an earlier call gave, or a parameter
			forward, limit = max(forward, apart), 2*before
		case r.Phase == "backward" && arrived: // what a later call gave: judged there
			backward, limit = max(backward, apart), math.Inf(1)
		case r.Phase == "backward":
			limit = growth * max(forward, backward, incoming(rs, ds))
		default: // results, and arguments as the call left them
			given = given || r.Phase == "forward"
			limit = growth * forward
		}
		if !arrived {
			limit = min(limit, math.MaxFloat64) // nothing explains an infinity on one side only
		}
		if r.Phase != "input" || given {
			p.largest[process] = max(p.largest[process], min(apart, limit))
		}
		good = p.judge(r, ds[r], limit) && good
	}
	if good {
		p.Explained++
	}
}

// String says what the precision explains, and the first value that it does not.
func (p *Precision) String() string {
	s := fmt.Sprintf("Explained by %s instead of %s: %d of %s with other arguments or results", p.Coarse, p.Fine,
		p.Explained-p.Same, reports.Count(p.Calls-p.Same, "call"))
	if p.Same > 0 {
		s += fmt.Sprintf("; %d of %s %s the same", p.Same, reports.Count(p.Calls, "call"),
			reports.Plural(p.Same, "has", "have"))
	}
	s += "."
	if r := p.Unexplained; r != nil {
		verb := "are"
		if p.Calls-p.Explained == 1 {
			verb = "is"
		}
		name := r.Op
		if r.ForwardID != nil {
			name += fmt.Sprintf("/%d", *r.ForwardID)
		}
		if r.Module != "" {
			name += " in " + r.Module
		}
		s += fmt.Sprintf(" %d %s not explained, first %s: %s: %s", p.Calls-p.Explained, verb, name, r.Target, r.Reason)
	}
	return s
}

// Record is what JSON lines say of it; nil if the recordings have one precision.
func (p *Precision) Record() *reports.Precision {
	if !p.Known() {
		return nil
	}
	return &reports.Precision{Fine: p.Fine.String(), Coarse: p.Coarse.String(), From: p.First, Calls: p.Calls,
		Explained: p.Explained, Same: p.Same}
}

// incoming is how far apart the gradients are that arrive at a call.
func incoming(rs []*reports.Result, ds map[*reports.Result]*Difference) float64 {
	most := 0.0
	for _, r := range rs {
		if d := ds[r]; d != nil && strings.HasPrefix(r.Target, "grad_output") && d.Relative == d.Relative {
			most = max(most, d.Relative)
		}
	}
	return most
}

// judge lets a value pass that is no further apart than a limit, relative to its size.
func (p *Precision) judge(r *reports.Result, d *Difference, limit float64) bool {
	switch {
	case r.Verdict != verdict.Fail:
		return true
	case d != nil && d.Relative <= limit && d.Largest <= standOut*limit:
		r.Verdict, r.Mismatch = verdict.Pass, new(int)
		r.Reason = fmt.Sprintf("explained by %s: root mean square of the differences %.2g of the values", p.Coarse,
			d.Relative)
		return true
	case d != nil && math.IsInf(d.Relative, 1):
	case d != nil && d.Relative > limit:
		r.Reason += fmt.Sprintf("; root mean square of the differences %.2g of the values, %s explains %.2g",
			d.Relative, p.Coarse, limit)
	case d != nil && d.Largest > standOut*limit:
		r.Reason += fmt.Sprintf("; the largest difference is %.2g of the largest value, %s explains %.2g", d.Largest,
			p.Coarse, standOut*limit)
	}
	if p.Unexplained == nil {
		p.Unexplained = r
	}
	return false
}
