package collective

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A side is what one rank gave to an exchange and has after it.
type side struct {
	rec    *capture.Call
	before []*tensor.Tensor // tensors of args, then of kwargs
	after  []*tensor.Tensor
}

// settle completes what was found after an asynchronous call, which need not be all of its arguments. It is false if
// something is missing that the call writes.
func (s *side) settle(ranks int) bool {
	if isFunctional(s.rec.Op) {
		if len(s.after) != 1 || s.after[0] == nil {
			return false
		}
		s.functional()
		return true
	}
	if len(s.after) != len(s.before) {
		return false
	}
	from, to := 0, 1 // what the call writes
	switch name := Name(s.rec.Op); name {
	case "all_gather":
		to = ranks
	case "all_to_all":
		to = len(s.before) / 2
	case "gather":
		from, to = 1, len(s.before)
	}
	for i, t := range s.after {
		if t == nil && i >= from && i < to {
			return false
		} else if t == nil {
			s.after[i] = s.before[i]
		}
	}
	return true
}

// functional gives a functional collective the tensors that the form with a result among the arguments has: those that
// gather or scatter have the result first.
func (s *side) functional() {
	switch Name(s.rec.Op) {
	case "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single":
		s.before, s.after = append(s.after[:1:1], s.before...), append(s.after[:1:1], s.before...)
	}
}

// place is that of an option of a call, which has its result among the arguments unless it is functional.
func (s *side) place(n int) int {
	if isFunctional(s.rec.Op) && n > 1 {
		return n - 1
	}
	return n
}

// A Judgement is what an exchange says of one rank.
type Judgement struct {
	Values []Value
	Why    string // why there are no values
}

// A Value is an argument that a rank has after an exchange.
type Value struct {
	Target     string // "input[0]"
	DType      tensor.DType
	Shape      []int
	Mismatched int
	Reason     string // "" if it is what the ranks put in
}

// A Settled gives what the readers of an asynchronous call find: its arguments, or the result of a functional
// collective, nil for those that nobody read.
type Settled func(e *capture.Entry) []*tensor.Tensor

// Judge compares what ranks have after an exchange with what all ranks put in. at are the places in the group of the
// ranks that are judged. Without settled, calls that run asynchronously are not judged.
func (x *Exchange) Judge(read pthformat.ReadMode, settled Settled, at ...int) ([]Judgement, error) {
	sides := make([]side, len(x.Calls))
	for i, e := range x.Calls {
		rec, err := e.Load(capture.LoadOptions{Read: read, Only: capture.Of(capture.Input, capture.After)})
		if err != nil {
			return nil, errors.Join(err, rec.Close())
		}
		defer rec.Close()
		s := side{rec: rec, before: value.Tensors(value.NewTuple(append(slices.Clone(rec.Args), rec.Kwargs)...))}
		async, _ := option(rec, "async_op", -1).(bool)
		switch name := Name(e.Op); {
		case name == "isend":
			s.after = s.before // what it sends
		case async || name == "irecv" || isFunctional(e.Op):
			if settled != nil {
				s.after = settled(e)
			}
			if !s.settle(len(x.Calls)) {
				why := "it ran asynchronously, and no call read its result afterwards"
				return slices.Repeat([]Judgement{{Why: why}}, len(at)), nil
			}
		case rec.HasAfter:
			s.after = value.Tensors(value.NewTuple(append(slices.Clone(rec.After), rec.AfterKwargs)...))
		default:
			s.after = s.before
		}
		sides[i] = s
	}
	out := x.judged(sides, at)
	if wrong := func(j Judgement) bool {
		return slices.ContainsFunc(j.Values, func(v Value) bool { return v.Reason != "" })
	}; !slices.ContainsFunc(out, wrong) || slices.ContainsFunc(sides, side.wrote) {
		return out, nil
	}
	for i := range sides { // it wrote nothing on any rank before it returned
		s := &sides[i]
		if s.after = nil; settled != nil {
			s.after = settled(x.Calls[i])
		}
		if !s.settle(len(x.Calls)) {
			why := "it had written nothing on any rank when it returned, as one of a coalesced group does, and no call read " +
				"its result afterwards"
			return slices.Repeat([]Judgement{{Why: why}}, len(at)), nil
		}
	}
	return x.judged(sides, at), nil
}

// judged are the judgements of some ranks.
func (x *Exchange) judged(sides []side, at []int) []Judgement {
	out := make([]Judgement, len(at))
	for k, i := range at {
		out[k] = x.judge(sides, i)
	}
	return out
}

// wrote reports whether a rank has something else after a call than it gave it.
func (s side) wrote() bool {
	if len(s.after) != len(s.before) {
		return true
	}
	for i, t := range s.after {
		b := s.before[i]
		if (t == nil) != (b == nil) || t != nil && !slices.Equal(numbers(t), numbers(b)) {
			return true
		}
	}
	return false
}

func (x *Exchange) judge(sides []side, i int) (j Judgement) {
	wants := x.wants(sides, i)
	if len(wants) == 0 || slices.ContainsFunc(wants, func(w want) bool { return !w.known() }) {
		j.Why = "what rank " + fmt.Sprint(x.Group[i]) + " should have is not known for this call"
	}
	for _, w := range wants {
		if !w.known() {
			continue
		}
		n, reason := w.differs()
		if reason != "" {
			reason = fmt.Sprintf("rank %d has not what ranks %s put in: %s", x.Group[i],
				tensor.ShapeString(x.Group), reason)
		}
		target := fmt.Sprintf("input[%d]", w.index)
		if isFunctional(sides[i].rec.Op) {
			target = "output[0]"
		}
		if last := len(j.Values) - 1; last >= 0 && j.Values[last].Target == target { // of another rank's part of it
			v := &j.Values[last]
			v.Mismatched += n
			if v.Reason == "" {
				v.Reason = reason
			}
			continue
		}
		j.Values = append(j.Values, Value{target, w.got.DType, w.got.Shape, n, reason})
	}
	return j
}

// A want is what a rank should have after an exchange: the elements of parts, one
// of each rank, reduced.
type want struct {
	index  int // of the tensor among the arguments
	got    *tensor.Tensor
	from   int // its first element that parts tell
	parts  []*tensor.Tensor
	offset int // of the elements in each part
	n      int
	reduce string // SUM, AVG, MAX, MIN, PRODUCT; "" for the elements of the only part
}

// wants lists what rank number i of the group should have; nothing where that is
// not known.
func (x *Exchange) wants(sides []side, i int) []want {
	s := sides[i]
	rule := rules[x.Name]
	if rule == nil || len(s.after) == 0 || len(s.after) != len(s.before) {
		return nil
	}
	return rule(x, sides, i)
}

// rules tell by the name of a collective what rank number i of the group should have.
var rules = map[string]func(x *Exchange, sides []side, i int) []want{
	"all_reduce": func(_ *Exchange, sides []side, i int) []want {
		return wholeOf(sides[i], column(sides, 0), sides[i].reduction())
	},
	"reduce":    (*Exchange).reduced,
	"broadcast": (*Exchange).broadcast,
	"send": func(_ *Exchange, sides []side, i int) []want {
		if i == 1 { // what the receiver has
			return wholeOf(sides[1], sides[0].before[:1], "")
		}
		return wholeOf(sides[i], sides[i].before[:1], "")
	},
	"scatter":                (*Exchange).scattered,
	"gather":                 (*Exchange).gathered,
	"all_gather":             (*Exchange).allGathered,
	"all_gather_into_tensor": (*Exchange).joined, "all_gather_base": (*Exchange).joined,
	"all_gather_single": (*Exchange).joined,
	"all_to_all":        (*Exchange).exchanged,
	"all_to_all_single": (*Exchange).parted,
	"reduce_scatter": func(_ *Exchange, sides []side, i int) []want {
		if len(sides[i].after) == len(sides)+1 {
			return wholeOf(sides[i], column(sides, i+1), sides[i].reduction())
		}
		return nil
	},
	"reduce_scatter_tensor": (*Exchange).reducedPart, "reduce_scatter_base": (*Exchange).reducedPart,
	"reduce_scatter_single": (*Exchange).reducedPart,
}

// wholeOf wants the first argument of a rank to be parts, reduced.
func wholeOf(s side, parts []*tensor.Tensor, reduce string) []want {
	return []want{{0, s.after[0], 0, parts, 0, s.after[0].Numel(), reduce}}
}

// column is argument k of all ranks, nil if one of them has none.
func column(sides []side, k int) (out []*tensor.Tensor) {
	for _, o := range sides {
		if k >= len(o.before) {
			return nil
		}
		out = append(out, o.before[k])
	}
	return out
}

func (x *Exchange) reduced(sides []side, i int) []want {
	if dst, ok := option(sides[i].rec, "dst", 1).(int64); ok && int(dst) == x.Group[i] {
		return wholeOf(sides[i], column(sides, 0), sides[i].reduction())
	}
	return nil
}

func (x *Exchange) broadcast(sides []side, i int) []want {
	src, ok := option(sides[i].rec, "src", 1).(int64)
	if !ok {
		return nil
	}
	if k := slices.Index(x.Group, int(src)); k >= 0 && len(sides[k].before) > 0 {
		return wholeOf(sides[i], sides[k].before[:1], "")
	}
	return nil
}

// scattered is an item of the list that only the source has.
func (x *Exchange) scattered(sides []side, i int) []want {
	for _, o := range sides {
		if len(o.before) == len(sides)+1 {
			return wholeOf(sides[i], o.before[i+1:][:1], "")
		}
	}
	return nil
}

// gathered is the list of what all ranks have, which only the destination has.
func (x *Exchange) gathered(sides []side, i int) (out []want) {
	after := sides[i].after
	for r, o := range sides {
		if len(after) == len(sides)+1 && len(o.before) > 0 {
			out = append(out, want{r + 1, after[r+1], 0, o.before[:1], 0, after[r+1].Numel(), ""})
		}
	}
	return out
}

func (x *Exchange) allGathered(sides []side, i int) (out []want) {
	after, ranks := sides[i].after, len(sides)
	for r, o := range sides {
		if len(after) == ranks+1 && len(o.before) == ranks+1 {
			out = append(out, want{r, after[r], 0, o.before[ranks:], 0, after[r].Numel(), ""})
		}
	}
	return out
}

// joined is one tensor with a part of each rank.
func (x *Exchange) joined(sides []side, i int) (out []want) {
	t, ranks := sides[i].after[0], len(sides)
	n := t.Numel()
	for r, o := range sides {
		if len(o.before) == 2 && n%ranks == 0 {
			out = append(out, want{0, t, r * n / ranks, o.before[1:], 0, n / ranks, ""})
		}
	}
	return out
}

func (x *Exchange) exchanged(sides []side, i int) (out []want) {
	after, ranks := sides[i].after, len(sides)
	for r, o := range sides {
		if len(after) == 2*ranks && len(o.before) == 2*ranks {
			out = append(out, want{r, after[r], 0, o.before[ranks+i:][:1], 0, after[r].Numel(), ""})
		}
	}
	return out
}

// reducedPart is the part of a rank of what all ranks give.
func (x *Exchange) reducedPart(sides []side, i int) []want {
	n := sides[i].after[0].Numel()
	return []want{{0, sides[i].after[0], 0, column(sides, 1), i * n, n, sides[i].reduction()}}
}

// parted is what rank number i has after all_to_all_single, whose tensors may be cut into unequal parts.
func (x *Exchange) parted(sides []side, i int) []want {
	var out []want
	from := 0
	for r, o := range sides {
		if len(o.before) != 2 || len(sides[i].before) != 2 {
			return nil
		}
		got, given := sides[i].after[0], o.before[1]
		into := splits(option(sides[i].rec, "output_split_sizes", sides[i].place(2)), got, len(sides))
		of := splits(option(o.rec, "input_split_sizes", o.place(3)), given, len(sides))
		if into == nil || of == nil || into[r] != of[i] {
			return nil
		}
		offset := 0
		for _, n := range of[:i] {
			offset += n
		}
		if into[r] > 0 || len(sides) == 1 {
			out = append(out, want{0, got, from, []*tensor.Tensor{given}, offset, into[r], ""})
		}
		from += into[r]
	}
	if len(out) == 0 && from == 0 && len(sides) > 0 { // nothing for this rank
		return []want{{0, sides[i].after[0], 0, sides[i].after[:1], 0, 0, ""}}
	}
	return out
}

// splits are the elements of a tensor for each rank: sizes of its first dimension, or equal parts; nil if they do not
// fit.
func splits(sizes value.Value, t *tensor.Tensor, ranks int) []int {
	var rows []int
	if s, ok := sizes.(*value.Sequence); ok {
		for _, v := range s.Items {
			n, ok := v.(int64)
			if !ok || n < 0 {
				return nil
			}
			rows = append(rows, int(n))
		}
	}
	row, total := 1, 0
	if len(t.Shape) == 0 {
		return nil
	}
	for _, n := range t.Shape[1:] {
		row *= n
	}
	if len(rows) == 0 {
		if t.Shape[0]%ranks != 0 {
			return nil
		}
		rows = slices.Repeat([]int{t.Shape[0] / ranks}, ranks)
	}
	for i := range rows {
		total += rows[i]
		rows[i] *= row
	}
	if len(rows) != ranks || total != t.Shape[0] {
		return nil
	}
	return rows
}

// option is an argument of a call by its name or place; nil if it is not given.
func option(rec *capture.Call, name string, place int) value.Value {
	if v, ok := rec.Kwargs.Get(name); ok {
		return v
	}
	if place >= 0 && place < len(rec.Args) {
		return rec.Args[place]
	}
	return nil
}

var reductionName = lazyregexp.New(`\b(SUM|AVG|MAX|MIN|PRODUCT)\b`)

// reduction is the name of the reduction of a call; "" if it has none, "?" if it is another one.
func (s *side) reduction() string {
	place := 2
	switch Name(s.rec.Op) {
	case "all_reduce", "all_reduce_coalesced":
		place = 1
	case "reduce", "reduce_scatter":
	case "reduce_scatter_tensor", "reduce_scatter_base", "reduce_scatter_single":
		place = s.place(2)
	default:
		return ""
	}
	v := option(s.rec, "op", place)
	if v == nil {
		return "SUM"
	}
	text := value.Str(v)
	if o, ok := v.(*value.Opaque); ok {
		text = o.Global + " " + o.Reason
	}
	if m := reductionName().FindString(strings.ToUpper(text)); m != "" {
		return m
	}
	return "?"
}

// known reports whether the parts tell what a rank should have.
func (w want) known() bool {
	return len(w.parts) > 0 && w.reduce != "?" && !w.got.DType.IsComplex() && w.from+w.n <= w.got.Numel() &&
		!slices.ContainsFunc(w.parts, func(p *tensor.Tensor) bool {
			return p.DType != w.got.DType || w.offset+w.n > p.Numel()
		})
}

// differs counts the elements of a rank that are not what they should be, and says where; "" if none are.
func (w want) differs() (n int, reason string) {
	if !w.known() {
		return 0, ""
	}
	parts := make([][]float64, len(w.parts))
	for i, p := range w.parts {
		parts[i] = numbers(p)
	}
	got := numbers(w.got)[w.from : w.from+w.n]
	bad, first, firstWant := 0, 0, 0.0
	ranks := float64(len(parts))
	times, parted := ranks > 1, ranks > 1 // all are as many times, or as many parts of, what they should be
	for k, g := range got {
		x, bound := w.element(parts, w.offset+k)
		times = times && math.Abs(g-ranks*x) <= ranks*bound
		parted = parted && math.Abs(ranks*g-x) <= ranks*bound
		if g == x || g != g && x != x || math.Abs(g-x) <= bound {
			continue
		}
		if largest := w.got.DType.Max(); g-g != 0 && (x-x != 0 || math.Abs(x) > largest) {
			continue // an overflow
		}
		if bad++; bad == 1 {
			first, firstWant = k, x
		}
	}
	if bad == 0 {
		return 0, ""
	}
	factor := ""
	switch {
	case times:
		factor = fmt.Sprintf("; all are %d times too large, the number of ranks", len(parts))
	case parted:
		factor = fmt.Sprintf("; all were divided by %d, the number of ranks", len(parts))
	}
	return bad, fmt.Sprintf("%d of %d elements differ, first %.6g at %s, want %.6g%s", bad, w.n, got[first],
		tensor.ShapeString(tensor.Unravel(w.from+first, w.got.Shape)), firstWant, factor)
}

// element reduces element k of the parts; bound is what rounding in any order may
// change.
func (w want) element(parts [][]float64, k int) (x, bound float64) {
	x = parts[0][k]
	size := math.Abs(x)
	for _, p := range parts[1:] {
		size += math.Abs(p[k])
		switch w.reduce {
		case "SUM", "AVG":
			x += p[k]
		case "PRODUCT":
			x *= p[k]
		case "MAX":
			x = max(x, p[k])
		case "MIN":
			x = min(x, p[k])
		}
	}
	n := float64(len(parts))
	if w.reduce == "AVG" {
		x, size = x/n, size/n
	}
	if w.reduce == "PRODUCT" {
		size = math.Abs(x)
	}
	// The result of one rank is what it put in.
	if n > 1 && w.got.DType.IsFloat() && w.reduce != "" && w.reduce != "MAX" && w.reduce != "MIN" {
		bound = n * w.got.DType.Eps() * (size + w.got.DType.SmallestNormal())
	}
	if w.got.DType.IsIntegral() && w.reduce != "" {
		x, bound = wrapped(x, w.got.DType), 0x1p-52*size // int64 beyond 2^53
	}
	return x, bound
}

// wrapped is an integer as its dtype holds it.
func wrapped(x float64, dt tensor.DType) float64 {
	lo, hi := dt.IntRange()
	span := math.Ldexp(1, dt.Bits())
	if x < float64(lo) || x > float64(hi) {
		x -= span * math.Floor((x-float64(lo))/span)
	}
	return x
}

// numbers are the elements of a tensor.
func numbers(t *tensor.Tensor) []float64 {
	out := make([]float64, t.Numel())
	tensor.Load(t, 0, out)
	return out
}
