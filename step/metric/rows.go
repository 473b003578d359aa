package metric

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/compare/alignment"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
	"github.com/optool/optool/step/pairs"
	"github.com/optool/optool/tensor"
)

// Rows is what a comparison of two batches of one program gave: the rows of the smaller one in the larger one.
type Rows struct {
	Of       int // calls of A
	Calls    int // of these, those that B has too
	Compared int // of these, those with a value whose rows were found
	// Differ are the calls whose row is not the same bit for bit, in order.
	Differ []*RowDifference
	// Logits is what the difference does to the last result, A's as the exact one; nil if that is no logits.
	Logits *Effect
}

// A RowDifference is a call whose row differs.
type RowDifference struct {
	A, B   *step.Call
	Target string
	Shape  []int // of the row
	// Elements, of which Differing are not the same bits, MaxAbs the largest difference, Relative that of the norms.
	Elements, Differing int
	MaxAbs, Relative    float64
	// Origin reports that what the call read of the row is the same bit for bit.
	Origin bool
	// Within reports that both calls are within rounding of the exact values; nil if that is not known.
	Within *bool
	// Why is what the kernels do otherwise, as far as it can be told.
	Why string
}

// A rowFinder finds the values of one batch in those of another.
type rowFinder struct {
	opt step.Options
	// begins are the places where a dimension of n elements begins in one of m.
	begins map[[2]int]int
	// maybe are the places that values had in common which are equal at several of them.
	maybe map[[2]int][]int
}

// of is the finder for a value: a number made of no tensor from outside does not say which row it is.
func (f *rowFinder) of(number bool) *rowFinder {
	if !number {
		return f
	}
	return &rowFinder{opt: f.opt, begins: maps.Clone(f.begins), maybe: maps.Clone(f.maybe)}
}

// Unlike reports whether the rows of fewer than half of A's calls were found: the runs are not of one program, and
// equal rows say nothing.
func (r *Rows) Unlike() bool { return 2*r.Compared < r.Of }

// CompareRows finds the rows of batch A in batch B and compares them bit for bit, call by call.
func CompareRows(ctx context.Context, a, b *step.Trace, opt step.Options) (*Rows, error) {
	r := &Rows{}
	for i, p := range a.Processes {
		if i >= len(b.Processes) {
			break
		}
		if err := r.compare(ctx, p.Calls, b.Processes[i].Calls, opt); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Rows) compare(ctx context.Context, a, b []*step.Call, opt step.Options) error {
	f := &rowFinder{opt: opt, begins: map[[2]int]int{}, maybe: map[[2]int][]int{}}
	var last [2]*tensor.Tensor
	numbers := map[*step.Call]bool{} // made of no tensor from outside, such as the places of rows in the batch
	mixed := map[*step.Call]bool{}   // calls that depend on all rows, such as those on tokens in the order of experts
	r.Of += len(a)
	for _, at := range alignRows(a, b).Pairs {
		if err := ctx.Err(); err != nil {
			return err
		}
		x, y := a[at[0]], b[at[1]]
		r.Calls++
		made := func(v *step.Value) bool { return v.From.Value != nil && numbers[v.From.Value.Call] }
		numbers[x] = !slices.ContainsFunc(x.Inputs, func(v *step.Value) bool { return !made(v) })
		origin, told := f.reads(x, y, made) // first: tokens say which row it is
		mixed[x] = slices.ContainsFunc(x.Inputs, func(v *step.Value) bool {
			return v.From.Value != nil && mixed[v.From.Value.Call]
		})
		found, worst := false, (*RowDifference)(nil)
		for _, v := range x.Outputs {
			w := counterpart(y.Outputs, v)
			if w == nil {
				continue
			}
			d, ok := f.of(numbers[x]).differ(v, w)
			if !ok {
				continue
			}
			found = true
			if v.DType.IsFloat() {
				last = d.rows
			}
			if d.Differing == 0 {
				mixed[x] = false
			} else if mixed[x] = mixed[x] || origin && told && f.mixes(x, y, v); mixed[x] {
				if missing := f.missing(v, w); missing == 0 {
					continue
				} else if worst == nil {
					worst = f.reordered(x, y, v, w, missing)
				}
			}
			if d.Differing > 0 && worst == nil && (!numbers[x] || v.DType.IsFloat() && computes(x, origin && told)) {
				worst = &RowDifference{A: x, B: y, Target: v.Target, Shape: d.rows[0].Shape,
					Elements: d.rows[0].Numel(), Differing: d.Differing, MaxAbs: d.maxAbs, Relative: d.relative,
					Origin: origin, Within: within(x, y)}
				worst.Why = f.reason(worst, d)
			}
		}
		if found {
			r.Compared++
		}
		if worst != nil {
			r.Differ = append(r.Differ, worst)
		}
	}
	r.logits(last)
	return nil
}

// mixes reports whether the exact result of a call differs between two batches though it reads the same of the row: it
// depends on other rows.
func (f *rowFinder) mixes(x, y *step.Call, v *step.Value) bool {
	i := slices.Index(x.Outputs, v)
	a, errA := x.Reference(f.opt)
	b, errB := y.Reference(f.opt)
	if errA != nil || errB != nil || i >= len(a) || i >= len(b) || a[i] == nil || b[i] == nil {
		return false
	}
	m, n, ok := f.common(a[i], b[i])
	return ok && (m.DType.IsFloat() && off(m, n) > rowTolerance || !m.DType.IsFloat() && equalShare(m, n) < 1)
}

// reordered is the difference of a call whose rows are in another order in the other batch.
func (f *rowFinder) reordered(x, y *step.Call, v, w *step.Value, missing int) *RowDifference {
	if v.Numel() > w.Numel() {
		v = w
	}
	n := v.Numel() / rowSize(v)
	origin := !slices.ContainsFunc(x.Inputs, func(in *step.Value) bool {
		there := counterpart(y.Inputs, in)
		return there != nil && f.missing(in, there) > 0
	})
	return &RowDifference{A: x, B: y, Target: v.Target, Shape: v.Shape, Elements: v.Numel(),
		Differing: missing * rowSize(v), MaxAbs: math.NaN(), Relative: math.NaN(), Origin: origin, Within: within(x, y),
		Why: fmt.Sprintf("rows of the other batch are in another order, and %d of %d are none of them", missing, n)}
}

// rowSize is the size of a row of a value; that of numbers without rows is 1.
func rowSize(v *step.Value) int {
	if len(v.Shape) < 2 {
		return 1
	}
	return max(1, lastSize(v))
}

// missing counts the rows of the smaller of two mixed values that are none of the larger one, bit for bit, in any
// order. Whole numbers, such as places, and numbers of all rows together, such as counts, are not compared.
func (f *rowFinder) missing(v, w *step.Value) (n int) {
	if !v.DType.IsFloat() || slices.Equal(v.Shape, w.Shape) {
		return 0
	}
	if v.Numel() > w.Numel() {
		v, w = w, v
	}
	has := map[string]bool{}
	for row := range slices.Chunk(w.Floats(f.opt), rowSize(w)) {
		has[fmt.Sprint(row)] = true
	}
	for row := range slices.Chunk(v.Floats(f.opt), rowSize(v)) {
		if !has[fmt.Sprint(row)] {
			n++
		}
	}
	return n
}

// logits measures the difference of the last results as one of logits.
func (r *Rows) logits(last [2]*tensor.Tensor) {
	if last[0] == nil || r.Logits != nil {
		return
	}
	if d, err := NewDistribution(last[0], nil); err == nil {
		e := d.Effect(tensor.Data[float64](last[1]))
		r.Logits = &e
	}
}

// reads reports whether all that two calls read of the row is the same, as far as it was found, and whether all was
// found. made says which values are made of no tensor from outside.
func (f *rowFinder) reads(x, y *step.Call, made func(v *step.Value) bool) (same, found bool) {
	same, found = true, true
	for _, v := range x.Inputs {
		if w := counterpart(y.Inputs, v); w != nil {
			d, ok := f.of(made(v)).differ(v, w)
			found = found && ok
			same = same && !(ok && d.Differing > 0)
		}
	}
	return same, found
}

// computes reports whether numbers made of no tensor from outside differ because a call computes them otherwise: it
// draws them, or it read the same bits. Others are numbers of the program, such as the places of rows in the batch.
func computes(c *step.Call, same bool) bool { return c.Draws() || len(c.Inputs) > 0 && same }

// alignRows pairs the calls of two batches: operators, and lines of the program.
func alignRows(a, b []*step.Call) alignment.Alignment {
	names := func(calls []*step.Call) []string {
		out := make([]string, len(calls))
		for i, c := range calls {
			out[i] = pairs.Operator(c.Op)
		}
		return out
	}
	inA, inB := names(a), names(b)
	return alignment.Sequences(len(a), len(b), func(i, j int) int {
		if inA[i] != inB[j] {
			return 0
		}
		n := 1
		if a[i].Entry.Location == b[j].Entry.Location && a[i].Entry.Module == b[j].Entry.Module {
			n += 2
		}
		if slices.EqualFunc(a[i].Outputs, b[j].Outputs, func(v, w *step.Value) bool {
			return len(v.Shape) == len(w.Shape)
		}) {
			n++
		}
		return n
	}, 4, nil)
}

func counterpart(vs []*step.Value, v *step.Value) *step.Value {
	for _, w := range vs {
		if w.Target == v.Target && w.DType == v.DType && len(w.Shape) == len(v.Shape) {
			return w
		}
	}
	return nil
}

// within reports whether two calls are both within rounding, as replay judged them.
func within(a, b *step.Call) *bool {
	yes := true
	for _, c := range []*step.Call{a, b} {
		switch c.ForwardVerdict() {
		case verdict.Pass, verdict.Warn:
		case verdict.Fail:
			no := false
			return &no
		default:
			return nil
		}
	}
	return &yes
}

// A rowGap is how a row differs.
type rowGap struct {
	rows             [2]*tensor.Tensor
	Differing        int
	maxAbs, relative float64
}

// differ compares the part that two values have in common; ok is false if there is none that can be told.
func (f *rowFinder) differ(v, w *step.Value) (g rowGap, ok bool) {
	x, errX := v.Recorded(f.opt)
	y, errY := w.Recorded(f.opt)
	if errX != nil || errY != nil {
		return g, false
	}
	x, y, ok = f.common(x, y)
	if !ok {
		return g, false
	}
	g.rows = [2]*tensor.Tensor{x, y}
	if !x.DType.IsFloat() {
		m, n := tensor.Data[int64](x), tensor.Data[int64](y)
		for i := range m {
			if m[i] != n[i] {
				g.Differing++
				g.maxAbs = max(g.maxAbs, math.Abs(float64(m[i]-n[i])))
			}
		}
		return g, true
	}
	m, n := tensor.Data[float64](x), tensor.Data[float64](y)
	square, norm := 0.0, 0.0
	for i := range m {
		norm += n[i] * n[i]
		if math.Float64bits(m[i]) == math.Float64bits(n[i]) || m[i] != m[i] && n[i] != n[i] {
			continue
		}
		g.Differing++
		d := math.Abs(m[i] - n[i])
		g.maxAbs = max(g.maxAbs, d)
		square += d * d
	}
	if square > 0 {
		g.relative = math.Sqrt(square / norm)
	}
	return g, true
}

// A dimension of both is taken whole where it has one size; otherwise the smaller one's elements begin somewhere
// in the larger one: at the row of a batch, behind padding, in a packed sequence.
func (f *rowFinder) common(x, y *tensor.Tensor) (a, b *tensor.Tensor, ok bool) {
	if x.Dim() != y.Dim() {
		return nil, nil, false
	}
	var unknown []int
	narrow := func(dims []int) {
		a, b = x, y
		for _, d := range dims {
			m, n := x.Shape[d], y.Shape[d]
			at := f.begins[[2]int{min(m, n), max(m, n)}]
			if m < n {
				b = b.Slice(d, at, m, 1)
			} else {
				a = a.Slice(d, at, n, 1)
			}
		}
	}
	var dims []int
	for d := range x.Shape {
		m, n := min(x.Shape[d], y.Shape[d]), max(x.Shape[d], y.Shape[d])
		if m == n {
			continue
		}
		if m == 0 {
			return nil, nil, false
		}
		dims = append(dims, d)
		if _, known := f.begins[[2]int{m, n}]; !known && !slices.ContainsFunc(unknown, func(u int) bool {
			return min(x.Shape[u], y.Shape[u]) == m && max(x.Shape[u], y.Shape[u]) == n
		}) {
			unknown = append(unknown, d)
		}
	}
	narrowed := func() (*tensor.Tensor, *tensor.Tensor) {
		narrow(dims)
		return a, b
	}
	if len(unknown) == 0 {
		narrow(dims)
		return a.Dense(), b.Dense(), true
	}
	keys := make([][2]int, len(unknown))
	for i, d := range unknown {
		keys[i] = [2]int{min(x.Shape[d], y.Shape[d]), max(x.Shape[d], y.Shape[d])}
	}
	least := 0.5 // of floating elements, which rounding may change
	if !x.DType.IsFloat() {
		least = 1 // others are of a batch that mixes its rows, such as the order of all tokens by expert
	}
	found, sure := f.search(keys, least, narrowed)
	if found {
		narrow(dims)
		a, b = a.Dense(), b.Dense()
	}
	if !sure {
		for _, k := range keys {
			delete(f.begins, k)
		}
	}
	return a, b, found
}

// search finds where the elements begin in dimensions of which that is not known yet, and sets begins: at the place
// where most of them are the same, and more than the share of least, or all. It is not sure where several places are as
// good as each other.
func (f *rowFinder) search(keys [][2]int, least float64, narrowed func() (a, b *tensor.Tensor)) (found, sure bool) {
	const most = 1 << 14 // places
	places := 1
	for _, k := range keys {
		places *= k[1] - k[0] + 1
	}
	if places > most {
		return false, false
	}
	before := f.maybe[keys[0]]
	var best []int
	share := least
	set := func(place int) {
		for _, k := range keys {
			n := k[1] - k[0] + 1
			f.begins[k] = place % n
			place /= n
		}
	}
	for place := range places {
		if len(keys) == 1 && before != nil && !slices.Contains(before, place) {
			continue
		}
		set(place)
		switch s := equalShare(narrowed()); {
		case s > share:
			best, share = []int{place}, s
		case s == share && (best != nil || s == 1):
			best = append(best, place)
		}
	}
	if best == nil || len(best) > 1 && share < 1 && before == nil {
		return false, false
	}
	set(best[0])
	if len(best) > 1 && len(keys) == 1 {
		f.maybe[keys[0]] = best // rows that are equal so far
	}
	return true, len(best) == 1
}

// equalShare is the share of elements that are the same.
func equalShare(a, b *tensor.Tensor) float64 {
	same := 0
	if a.DType.IsFloat() {
		x, y := tensor.Data[float64](a), tensor.Data[float64](b)
		for i := range x {
			if x[i] == y[i] {
				same++
			}
		}
	} else {
		x, y := tensor.Data[int64](a), tensor.Data[int64](b)
		for i := range x {
			if x[i] == y[i] {
				same++
			}
		}
	}
	return float64(same) / float64(max(1, a.Numel()))
}

// reason says what the two kernels do otherwise, as far as it can be told.
func (f *rowFinder) reason(r *RowDifference, g rowGap) string {
	if !r.Origin {
		return "what it reads differs already"
	}
	i := slices.IndexFunc(r.A.Outputs, func(v *step.Value) bool { return v.Target == r.Target })
	outs, err := r.A.Reference(f.opt)
	if err != nil || i >= len(outs) || outs[i] == nil || !outs[i].DType.IsFloat() {
		return ""
	}
	w := counterpart(r.B.Outputs, r.A.Outputs[i])
	y, err := w.Recorded(f.opt)
	if err != nil {
		return ""
	}
	exact, _, ok := f.common(outs[i], y)
	if !ok {
		return ""
	}
	once := [2]bool{step.RoundsOnce(g.rows[0], exact), step.RoundsOnce(g.rows[1], exact)}
	if once[0] && once[1] {
		return "each rounds the same sum once: another order of the sums in float32 explains it"
	}
	var parts [2]int
	for k, c := range []*step.Call{r.A, r.B} {
		if parts[k] = 1; !once[k] {
			parts[k] = f.parts(c, i, g.rows[k], k == 1)
		}
	}
	if parts[0] > 0 && parts[1] > 0 {
		return fmt.Sprintf("%s, %s", summed("this one", parts[0]), summed("the other", parts[1]))
	}
	return oftener(off(g.rows[0], exact), off(g.rows[1], exact))
}

// oftener says how far two runs are off, and which of them rounds more often where its error is clearly larger.
func oftener(this, other float64) string {
	const clearly = 1.5
	s := fmt.Sprintf("this one is off by %.2g, the other by %.2g", this, other)
	switch {
	case this > clearly*other:
		return s + ": this one rounds more often"
	case other > clearly*this:
		return s + ": the other rounds more often"
	}
	return s
}

func summed(who string, parts int) string {
	if parts == 1 {
		return who + " rounds its sum once"
	}
	return fmt.Sprintf("%s splits the sum in %d parts and rounds each", who, parts)
}

// off is the relative distance from the exact values.
func off(t, exact *tensor.Tensor) float64 {
	x, y := tensor.Data[float64](t), tensor.Data[float64](exact)
	square, norm := 0.0, 0.0
	for i := range x {
		square += (x[i] - y[i]) * (x[i] - y[i])
		norm += y[i] * y[i]
	}
	return math.Sqrt(square / norm)
}

// parts is in how many parts, each rounded, a call splits the sums of its products; 0 if that does not explain its
// results. row has those of the row, which lies in a larger batch if within is set.
func (f *rowFinder) parts(c *step.Call, i int, row *tensor.Tensor, within bool) int {
	if len(c.Inputs) < 2 || !multiplies(c) {
		return 0
	}
	x, errX := c.Inputs[0].Recorded(f.opt)
	w, errW := c.Inputs[1].Recorded(f.opt)
	if errX != nil || errW != nil || w.Dim() != 2 || x.Dim() == 0 || x.Shape[x.Dim()-1] != w.Shape[1] {
		return 0
	}
	m, n := tensor.Data[float64](x), tensor.Data[float64](w)
	k, cols := w.Shape[1], w.Shape[0]
	rows := len(m) / k
	for _, parts := range []int{2, 4, 8, 16, 32} {
		if k%parts != 0 {
			continue
		}
		for _, each := range []bool{true, false} { // the sums of parts are rounded too, or only the last one
			got := tensor.New(row.DType, c.Outputs[i].Shape, splitProducts(row.DType, m, n, rows, cols, k, parts, each))
			if ok := false; within {
				if _, got, ok = f.common(row, got); !ok {
					return 0
				}
			}
			const most = 0.99 // a sum in float32 rounds otherwise now and then
			if slices.Equal(got.Shape, row.Shape) && equalShare(got, row) >= most {
				return parts
			}
		}
	}
	return 0
}

// splitProducts multiplies rows of k elements with columns of as many, each sum in parts that are rounded.
func splitProducts(dt tensor.DType, m, n []float64, rows, cols, k, parts int, each bool) []float64 {
	out := make([]float64, rows*cols)
	round := func(x float64) float64 {
		one := []float64{x}
		tensor.RoundBlock(dt, one)
		return one[0]
	}
	for r := range rows {
		for j := range cols {
			sum := 0.0
			for p := range parts {
				part := 0.0
				for q := p * k / parts; q < (p+1)*k/parts; q++ {
					part += m[r*k+q] * n[j*k+q]
				}
				if sum += round(part); each {
					sum = round(sum)
				}
			}
			out[r*cols+j] = round(sum)
		}
	}
	return out
}

// multiplies reports whether the results of a call are products of a matrix with the transposed second one.
func multiplies(c *step.Call) bool {
	op := pairs.Operator(c.Op)
	return len(c.Inputs) == 2 && (op == "linear" || strings.HasSuffix(op, ".linear"))
}

// First is the first call whose row differs, nil if none does.
func (r *Rows) First() *RowDifference {
	if len(r.Differ) == 0 {
		return nil
	}
	return r.Differ[0]
}

// Origins counts the calls whose row differs though what they read of it is the same.
func (r *Rows) Origins() (n int) {
	for _, d := range r.Differ {
		if d.Origin {
			n++
		}
	}
	return n
}

// Record is the finding about the difference.
func (r *RowDifference) Record() *RowRecord {
	c := r.A
	return &RowRecord{FindingRecord: reports.FindingRecord{Kind: "finding", Rule: verdict.Diverged,
		Capture: c.Entry.Rel, Target: r.Target, Op: c.Op, Module: c.Entry.Module, Location: c.Entry.Location,
		Peer: r.B.Entry.Rel, Reason: r.Reason()}, Within: r.Within, Origin: r.Origin, Elements: r.Elements,
		Differing: r.Differing, MaxAbs: known(r.MaxAbs), Relative: known(r.Relative)}
}

// Reason is one sentence about the difference.
func (r *RowDifference) Reason() string {
	s := fmt.Sprintf("%d of %d elements of the row differ", r.Differing, r.Elements)
	if r.MaxAbs == r.MaxAbs {
		s += fmt.Sprintf(", by %.2g at most", r.MaxAbs)
	}
	if r.Within != nil {
		if *r.Within {
			s += "; both are within rounding of the exact values"
		} else {
			s += "; not both are within rounding of the exact values"
		}
	}
	if r.Why != "" {
		s += "; " + r.Why
	}
	return s
}

// A RowRecord is the finding about a call whose row differs.
type RowRecord struct {
	reports.FindingRecord
	Within    *bool           `json:"within_rounding"`
	Origin    bool            `json:"inputs_equal"`
	Elements  int             `json:"elements"`
	Differing int             `json:"differing"`
	MaxAbs    *reports.Number `json:"max_abs"`
	Relative  *reports.Number `json:"relative"`
}
