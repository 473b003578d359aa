package replay

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
)

// Values that a warning lets pass are off by more than rounding, but by no more than
// intermediate results in a lower precision explain. Where a mistake explains them better,
// they are wrong.

const (
	looseShare  = 16 // how much smaller the squared error is under a mistake that explains it
	fewestLoose = 8  // elements of results, and of gradients alone, of which a mistake may be told
	fewestGrads = 64
	fewestFar   = 4       // of those whose errors are so large a part of them
	farOffShare = 64      // of their squares
	looseFlops  = 1 << 27 // of calls that are run again under mistakes
	allLoose    = 1 << 30 // of all these runs together
	gradLoose   = 1 << 25 // of those for gradients alone,
	elementRun  = 1 << 6  // where an element of the operands takes so many
	looseNumel  = 1 << 20 // of their results
)

// retryWarnings makes a failure of what is only a warning where the reference gives the values
// to rounding under another argument or a mistake that the operator declares. Precision is
// no such mistake: that is what the warning is about.
func (c *Call) retryWarnings(o *Outcome) {
	c = c.AsRead()
	loose := c.mistakable(o)
	if len(loose) == 0 {
		return
	}
	look := c.glimpseOf(loose)
	as := c
	var place []int
	if c.opt.Device != nil {
		if as, place = c.asRecorded(); place == nil {
			loose = slices.DeleteFunc(loose, func(r Result) bool { return r.Phase == Backward })
		}
	}
	as = as.requiring()
	seen := slices.Clone(loose)
	toRecorded(seen, place)
	explained := func(m causes.Mistake, tried int) []string {
		if k := as.explains(m, seen); k.Bits >= causes.Required(tried)+m.Cost {
			return toDevice(k.Targets, place)
		}
		return nil
	}
	results := slices.ContainsFunc(loose, func(r Result) bool { return r.Phase != Backward })
	switch {
	case len(loose) == 0:
		return
	case !results:
		c.settleGradients(o, loose, as, explained)
		return
	case !slices.ContainsFunc(loose, func(r Result) bool { return r.Phase == Backward }):
		forward := *as
		forward.opt.ForwardOnly = true
		as = &forward
	}
	first, rest := as.search().Plausible(c.wrongs(loose))
	tried := 0
	if c.settle(o, loose, look, slices.Concat(first, rest), explained, &tried) {
		return
	}
	c.settle(o, loose, look, first, func(m causes.Mistake, _ int) []string {
		for i := range loose {
			if loose[i].Target == "output[0]" && c.inclined(m, &loose[i]) && as.within(m, loose[i]) {
				return []string{loose[i].Target}
			}
		}
		return nil
	}, nil)
}

// mistakable are the values of a call with a warning that a mistake may explain: none of calls that are large or draw
// random numbers. Gradients by themselves have to have many elements, of many sums, and errors larger than roundings.
func (c *Call) mistakable(o *Outcome) (loose []Result) {
	if c.bound == nil || c.fwd == nil || c.bound.Random() != "" || c.bound.Flops(c.fwd) > looseFlops {
		return nil
	}
	results := false
	for _, r := range o.Results {
		given := c.opt.Device == nil || r.Phase == Forward && c.values.Output != nil ||
			r.Phase == Backward && len(c.values.GradInputs) > 0
		if r.loose() && given {
			loose, results = append(loose, r), results || r.Phase == Forward
		}
	}
	if results {
		return loose
	}
	return slices.DeleteFunc(loose, func(r Result) bool {
		return !r.farOff() && r.Compared.Distribution.N < fewestGrads || !c.single() && !c.inRows(&r)
	})
}

// farOff reports whether the errors of a value are a large part of it. Few elements may then show a mistake: it has to
// explain as many bits as any.
func (r *Result) farOff() bool {
	d := r.Compared.Distribution
	return d.N >= fewestFar && farOffShare*d.D2 >= d.R2
}

// single reports whether the first result is a function of single elements: see opdef.Bound.Single.
func (c *Call) single() bool { return len(c.fwd.Outs) > 0 && c.bound.OutBound(c.fwd, 0).Single() }

// settleGradients is settle where results are right and gradients are warned of. Only a mistake of the gradient then
// explains them, unless the result has no sum in which another mistake would show, or the errors are a large part of
// the gradients: a backward pass may have another argument than the forward pass.
func (c *Call) settleGradients(o *Outcome, loose []Result, as *Call,
	explained func(m causes.Mistake, tried int) []string) {
	run := max(c.bound.Flops(c.fwd), elementRun*float64(c.elements()))
	glance := run
	if c.opt.Device == nil && (c.single() || c.bound.Axes() != nil) { // few elements can be computed by themselves
		glance = min(run, elementRun*glancedRuns*glancedRun)
	}
	far := !slices.ContainsFunc(loose, func(r Result) bool { return !r.farOff() })
	wrongs := c.wrongs(loose)
	as.lookAt(wrongs)
	tried, work := 0, 0.0
	for _, source := range as.search().PlausibleGradients(wrongs, looseNumel) {
		for m := range source {
			if !m.Gradients && !c.single() && !far {
				continue
			}
			if work += glance; work > gradLoose {
				return
			}
			tried++
			if glance < run && !as.nearerAt(m, loose) {
				continue
			}
			if work += run; work > gradLoose {
				return
			}
			if c.blame(o, m.Text, explained(m, tried)) {
				return
			}
		}
	}
}

// lookAt keeps the values that nearerAt looks at.
func (c *Call) lookAt(wrongs []causes.Wrong) {
	c.wrong, c.faults = map[string]causes.Wrong{}, map[string]fault{}
	for _, w := range wrongs {
		c.wrong[w.Target] = w
	}
}

// nearerAt reports whether a mistake brings some elements of a gradient nearer: most do not, which a look at few is
// enough to see. Values that it knows nothing of may be.
func (c *Call) nearerAt(m causes.Mistake, loose []Result) bool {
	var way causes.Way
	if err := Guard(func() (err error) { way, err = m.Make(); return err }); err != nil || way.Call == nil {
		return false
	}
	return slices.ContainsFunc(loose, func(r Result) bool {
		var x, due, made []float64
		if Guard(func() error { x, due, made = c.few(way, &r); return nil }) != nil {
			return false
		}
		before, after := 0.0, 0.0
		for i := range x {
			d, e := x[i]-r.DType.Round(due[i]), x[i]-r.DType.Round(made[i])
			before, after = before+d*d, after+e*e
		}
		return looseShare*after <= before
	})
}

// inRows reports whether the errors of a gradient are of many sums: what the elements of a row have in common is one
// observation. The gradient of an operand that rows share has sums of its own. Without one of n terms of random signs,
// these are off by 1/sqrt(n), by far more than roundings leave.
func (c *Call) inRows(r *Result) bool {
	n, d := r.numel(), r.Compared.Distribution
	switch incoming := tensorsOf(flatten(c.values.RecordedGradOutputs)); {
	case n == 0:
		return false
	case len(incoming) > 0 && incoming[0].Numel() >= fewestRows*n:
		return d.D2 > 64*d.Eps*d.Eps*d.R2
	}
	return n/slices.Max(r.Shape) >= fewestRows
}

// settle makes failures of values that a mistake explains, the first that explains any, and
// reports whether one does. tried counts them; nil: intermediate results are rounded too, so that no
// element need come out to rounding.
func (c *Call) settle(o *Outcome, loose []Result, look *glimpse, sources []iter.Seq[causes.Mistake],
	explained func(m causes.Mistake, tried int) []string, tried *int) bool {
	rounds := tried == nil
	for _, source := range sources {
		for m := range source {
			n := 0
			if rounds && m.Rounds {
				continue
			}
			if !rounds {
				*tried++
				if n = *tried; float64(n)*max(1, c.bound.Flops(c.fwd)) > allLoose {
					return false
				}
				if !look.promising(m, loose) {
					continue
				}
			}
			text := m.Text
			if rounds {
				text += ", with intermediate results in " + loose[0].DType.String()
			}
			if c.blame(o, text, explained(m, n)) {
				return true
			}
		}
	}
	return false
}

// blame makes failures of the values with a warning that a mistake explains, and reports whether there are any.
func (c *Call) blame(o *Outcome, mistake string, targets []string) bool {
	if len(targets) == 0 {
		return false
	}
	for i := range o.Results {
		if r := &o.Results[i]; r.loose() && slices.Contains(targets, r.Target) {
			r.Verdict, r.Mistake = verdict.Fail, mistake
			x := r.Compared
			r.Reason = fmt.Sprintf("%d of %d elements differ by more than rounding: at %s got %v want %v; "+
				"reproduced if %s", x.Loose, x.Numel, tensor.ShapeString(x.WorstIndex), short(x.Actual),
				short(x.Expected), r.Mistake)
			r.Compared.Verdict, r.Compared.Reason = r.Verdict, r.Reason
			o.sameOnSecond(r)
		}
	}
	return true
}

// sameOnSecond gives the value of a second device the verdict of that of the first one, r, if it is the same: only the
// mistakes of the first device are looked for.
func (o *Outcome) sameOnSecond(r *Result) {
	if r.Against == nil || r.Against.Apart != 0 {
		return
	}
	for i := range o.Results {
		s := &o.Results[i]
		if s.Device != "" && s.Compared != nil && s.Phase == r.Phase && s.Target == r.Target && s.Layout == r.Layout {
			s.Verdict, s.Mistake, s.Reason = r.Verdict, r.Mistake, fmt.Sprintf("on %s: %s", s.Device, r.Reason)
			s.Compared.Verdict, s.Compared.Reason = r.Verdict, s.Reason
		}
	}
}

const (
	fewestRows = 8    // of values of which the errors of each may have a common cause
	inclined   = 0.1  // how far the share of a mistake that is in the errors may be from 1
	steadiness = 0.05 // its standard error at most
)

// inclined reports whether the errors of the first result are what a mistake makes, and
// roundings besides: the share of it that is in them, by least squares, is 1, and it explains at
// least half of their squares. The standard error takes each row for one observation, since
// what a row has in common may have been rounded.
func (c *Call) inclined(m causes.Mistake, r *Result) bool {
	got, want, ok := c.Pair(r)
	if !ok || m.Gradients || got.Dim() == 0 || got.Numel() == 0 || got.Numel()/got.Shape[got.Dim()-1] < fewestRows {
		return false
	}
	found := false
	err := Guard(func() error {
		way, err := m.Make()
		if err != nil || way.Call == nil {
			return err
		}
		f, err := way.Call.Forward()
		if err != nil || len(f.Outs) == 0 || !slices.Equal(f.Outs[0].Shape, got.Shape) {
			return err
		}
		found = partOf(someRows(got), someRows(want), someRows(f.Outs[0]))
		return nil
	})
	return err == nil && found
}

// partOf reports whether x - y is z - y and noise; all are rows.
func partOf(x, y, z [][]float64) bool {
	var products, squares, before, after float64
	for i := range x {
		for j := range x[i] {
			e, d := x[i][j]-y[i][j], z[i][j]-y[i][j]
			products += e * d
			squares += d * d
			before += e * e
			after += (e - d) * (e - d)
		}
	}
	share := products / squares
	var scatter float64
	for i := range x {
		row := 0.0
		for j := range x[i] {
			e, d := x[i][j]-y[i][j], z[i][j]-y[i][j]
			row += d * (e - share*d)
		}
		scatter += row * row
	}
	sigma := math.Sqrt(scatter) / squares
	return math.Abs(share-1) <= inclined && sigma <= steadiness && 2*after <= before
}

// someRows are rows of t along its last dimension, evenly spread, of long ones the beginnings.
func someRows(t *tensor.Tensor) [][]float64 {
	width := t.Shape[t.Dim()-1]
	rows := t.Numel() / width
	n := min(rows, max(causes.SampleSize/width, 4*fewestRows))
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, min(width, causes.SampleSize))
		tensor.Load(t, i*rows/n*width, out[i])
	}
	return out
}

// within reports whether a value of the call with a mistake is within its bounds, or those of a
// lower precision.
func (c *Call) within(m causes.Mistake, r Result) bool {
	var way causes.Way
	if err := Guard(func() (err error) { way, err = m.Make(); return err }); err != nil || way.Call == nil {
		return false
	}
	alt := c.ranAs(way)
	return slices.ContainsFunc(alt.out.Results, func(x Result) bool {
		return x.Phase == r.Phase && x.Target == r.Target && (x.Verdict == verdict.Pass || x.Verdict == verdict.Warn)
	})
}

// short is an element with as many digits as tell it from its neighbours.
func short(v any) any {
	if x, ok := v.(float64); ok {
		return float32(x)
	}
	return v
}

// loose reports whether r is a warning of a lower precision, of enough elements to tell it
// from something else.
func (r *Result) loose() bool {
	return r.Verdict == verdict.Warn && !r.Follows &&
		r.Compared != nil && r.Compared.Loose > 0 && r.Compared.Distribution != nil &&
		(r.Compared.Distribution.N >= fewestLoose || r.farOff()) && r.Layout == "" && r.Device == "" && r.Sampled == nil
}

// explainsLoose reports whether a value that was off by more than rounding is explained by r.
func explainsLoose(r, was Result) bool {
	if r.Verdict != verdict.Pass {
		return false
	}
	left := 0.0 // all elements are the nearest value
	if d := r.Compared.Distribution; d != nil {
		left = d.D2
	}
	return looseShare*left <= was.Compared.Distribution.D2
}

// A glimpse is some elements of the first result, if that is warned of.
type glimpse struct {
	got *tensor.Tensor // nil: it is not
	x   []float64
	off float64 // the sum of their squared errors
}

func (c *Call) glimpseOf(loose []Result) *glimpse {
	l := &glimpse{}
	for i := range loose {
		got, want, ok := c.Pair(&loose[i])
		if !ok || loose[i].Phase != Forward || loose[i].Target != "output[0]" {
			continue
		}
		_ = Guard(func() error { // what cannot be read has no mistake
			l.got, l.x = got, causes.Pieces(got)
			for k, y := range causes.Pieces(want) {
				d := l.x[k] - got.DType.Round(y)
				l.off += d * d
			}
			return nil
		})
	}
	return l
}

// promising reports whether a mistake brings some elements of the first result nearer: most
// do not, which a look at few is enough to see. Values that it knows nothing of may be.
func (l *glimpse) promising(m causes.Mistake, loose []Result) bool {
	if l.got == nil { // of other results than the first
		return loose[0].Compared.Numel <= looseNumel
	}
	if m.Gradients || !(l.off > 0) {
		return false
	}
	better := false
	err := Guard(func() error {
		way, err := m.Make()
		if err != nil || way.Call == nil {
			return err
		}
		f, err := way.Call.Forward()
		if err != nil || len(f.Outs) == 0 || !slices.Equal(f.Outs[0].Shape, l.got.Shape) {
			return err
		}
		made := f.Outs[0]
		if way.Alter != nil {
			made = way.Alter("output[0]", made)
		}
		off := 0.0
		for i, z := range causes.Pieces(made) {
			d := l.x[i] - l.got.DType.Round(z)
			if off += d * d; !(looseShare*off <= l.off) {
				return nil
			}
		}
		better = true
		return nil
	})
	return err == nil && better
}
