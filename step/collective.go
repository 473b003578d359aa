package step

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
	"github.com/optool/optool/verdict"
)

// collective is the name of a call between processes, without its module; "" of
// any other call.
func (c *Call) collective() string { return replay.Collective(c.Op) }

// outsideBy is the link to what another process may have changed through a call.
func outsideBy(c *Call) (Link, bool) {
	return Link{How: IsOutside, Role: "collective"}, c.collective() != ""
}

// exchanged are the addresses of what collectives write: after one that runs asynchronously, what was recorded of a
// value may be older than what its readers see.
func (p *Process) exchanged() map[uint64]bool {
	at := map[uint64]bool{}
	for _, c := range p.Calls {
		if c.collective() == "" {
			continue
		}
		for _, v := range c.Inputs {
			if v.Address != 0 {
				at[v.Address] = true
			}
		}
	}
	return at
}

// An exchange is one collective call of all ranks of a group, in the order of the
// group.
type exchange struct {
	name  string
	group []int
	calls []*Call
}

// exchanges finds the collective calls of which all ranks were recorded. Those of
// a group run in the same order on every rank.
func (t *Trace) exchanges() []exchange {
	byRank := map[int]*Process{}
	for _, p := range t.Processes {
		if byRank[p.Rank] != nil || p.Rank < 0 {
			return nil // of two runs, or nobody knows which is which
		}
		byRank[p.Rank] = p
	}
	calls := map[int]map[string][]*Call{} // by rank, then by group and step
	var order []string
	for _, p := range t.Processes {
		calls[p.Rank] = map[string][]*Call{}
		for _, c := range p.Calls {
			if len(c.Entry.Group) == 0 || c.collective() == "" || strings.Contains(c.Op, "functional") {
				continue // those of functional collectives are results, which wait_tensor completes
			}
			key := fmt.Sprint(c.Entry.Group, c.Entry.Step)
			if calls[p.Rank][key] == nil && p.Rank == c.Entry.Group[0] {
				order = append(order, key)
			}
			calls[p.Rank][key] = append(calls[p.Rank][key], c)
		}
	}
	var out []exchange
	for _, p := range t.Processes {
		for _, key := range order {
			first := calls[p.Rank][key]
			if first == nil || first[0].Entry.Group[0] != p.Rank {
				continue
			}
			for i, c := range first {
				x := exchange{c.collective(), c.Entry.Group, nil}
				for _, r := range x.group {
					if other := calls[r][key]; len(other) == len(first) && other[i].Op == c.Op {
						x.calls = append(x.calls, other[i])
					}
				}
				if len(x.calls) == len(x.group) {
					out = append(out, x)
				}
			}
		}
	}
	return out
}

// checkExchanges compares what the ranks of each group got with what they put in,
// and fails the calls that got something else.
func (t *Trace) checkExchanges(opt Options) {
	for _, x := range t.exchanges() {
		// What cannot be read has a verdict that says so.
		_ = opt.within(x.calls[0], "what the ranks got was not compared", x.check)
	}
}

// A side is what one rank gave to an exchange and has after it.
type side struct {
	rec    *capture.Call
	before []*tensor.Tensor // tensors of args, then of kwargs
	after  []*tensor.Tensor
}

func (x exchange) check(opt Options) error {
	sides := make([]side, len(x.calls))
	for i, c := range x.calls {
		rec, err := c.Entry.Load(capture.LoadOptions{Read: opt.Read, Only: capture.Of(capture.Input, capture.After)})
		if err != nil {
			return errors.Join(err, rec.Close())
		}
		defer rec.Close()
		if async, _ := option(rec, "async_op", -1).(bool); async {
			return nil // what it gave was not there when it returned
		}
		s := side{rec: rec, before: value.Tensors(value.NewTuple(append(slices.Clone(rec.Args), rec.Kwargs)...))}
		if s.after = s.before; rec.HasAfter {
			s.after = value.Tensors(value.NewTuple(append(slices.Clone(rec.After), rec.AfterKwargs)...))
		}
		sides[i] = s
	}
	for i, c := range x.calls {
		wants := x.wants(sides, i)
		if len(wants) > 0 && !slices.ContainsFunc(wants, func(w want) bool { return !w.known() }) {
			c.decide()
		}
		for _, w := range wants {
			if reason := w.differs(); reason != "" {
				c.Verdict = verdict.Fail
				reason = fmt.Sprintf("rank %d has not what ranks %s put in: %s", x.group[i],
					tensor.ShapeString(x.group), reason)
				target := fmt.Sprintf("input[%d]", w.index)
				c.Results = append(c.Results, Result{replay.Forward, target, verdict.Fail, reason})
				break
			}
		}
	}
	return nil
}

// decide takes a call that replay skipped, since other processes decide its result, for judged.
func (c *Call) decide() {
	if c.Verdict == verdict.Skipped {
		c.Verdict, c.Results = verdict.Pass, nil
	}
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
func (x exchange) wants(sides []side, i int) []want {
	s := sides[i]
	ranks := len(sides)
	column := func(k int) []*tensor.Tensor { // argument k of all ranks
		var out []*tensor.Tensor
		for _, o := range sides {
			if k >= len(o.before) {
				return nil
			}
			out = append(out, o.before[k])
		}
		return out
	}
	if len(s.after) == 0 || len(s.after) != len(s.before) {
		return nil
	}
	n := s.after[0].Numel()
	switch x.name {
	case "all_reduce":
		return []want{{0, s.after[0], 0, column(0), 0, n, reduction(s.rec, 1)}}
	case "reduce":
		if dst, ok := option(s.rec, "dst", 1).(int64); ok && int(dst) == x.group[i] {
			return []want{{0, s.after[0], 0, column(0), 0, n, reduction(s.rec, 2)}}
		}
	case "broadcast":
		if src, ok := option(s.rec, "src", 1).(int64); ok && slices.Contains(x.group, int(src)) {
			root := sides[slices.Index(x.group, int(src))]
			if len(root.before) > 0 {
				return []want{{0, s.after[0], 0, root.before[:1], 0, n, ""}}
			}
		}
	case "all_gather":
		var out []want
		for r, o := range sides {
			if len(s.after) == ranks+1 && len(o.before) == ranks+1 {
				out = append(out, want{r, s.after[r], 0, o.before[ranks:], 0, s.after[r].Numel(), ""})
			}
		}
		return out
	case "all_gather_into_tensor", "all_gather_base", "all_gather_single":
		var out []want
		for r, o := range sides {
			if len(o.before) == 2 && n%ranks == 0 {
				out = append(out, want{0, s.after[0], r * n / ranks, o.before[1:], 0, n / ranks, ""})
			}
		}
		return out
	case "all_to_all":
		var out []want
		for r, o := range sides {
			if len(s.after) == 2*ranks && len(o.before) == 2*ranks {
				out = append(out, want{r, s.after[r], 0, o.before[ranks+i:][:1], 0, s.after[r].Numel(), ""})
			}
		}
		return out
	case "all_to_all_single":
		if option(s.rec, "output_split_sizes", 2) != nil || option(s.rec, "input_split_sizes", 3) != nil {
			return nil
		}
		var out []want
		for r, o := range sides {
			if len(o.before) == 2 && n%ranks == 0 {
				out = append(out, want{0, s.after[0], r * n / ranks, o.before[1:], i * n / ranks, n / ranks, ""})
			}
		}
		return out
	case "scatter":
		for _, o := range sides { // the source alone has a list
			if len(o.before) == ranks+1 {
				return []want{{0, s.after[0], 0, o.before[i+1:][:1], 0, n, ""}}
			}
		}
	case "reduce_scatter":
		if len(s.after) == ranks+1 {
			return []want{{0, s.after[0], 0, column(i + 1), 0, n, reduction(s.rec, 2)}}
		}
	case "reduce_scatter_tensor", "reduce_scatter_base", "reduce_scatter_single":
		return []want{{0, s.after[0], 0, column(1), i * n, n, reduction(s.rec, 2)}}
	}
	return nil
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

var reductionName = regexp.MustCompile(`\b(SUM|AVG|MAX|MIN|PRODUCT)\b`)

// reduction is the name of the reduction of a call; "?" if it is another one.
func reduction(rec *capture.Call, place int) string {
	v := option(rec, "op", place)
	if v == nil {
		return "SUM"
	}
	text := value.Str(v)
	if o, ok := v.(*value.Opaque); ok {
		text = o.Global + " " + o.Reason
	}
	if m := reductionName.FindString(text); m != "" {
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

// differs says where a rank has something else than it should, "" if nowhere.
func (w want) differs() string {
	if !w.known() {
		return ""
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
		return ""
	}
	factor := ""
	switch {
	case times:
		factor = fmt.Sprintf("; all are %d times too large, the number of ranks", len(parts))
	case parted:
		factor = fmt.Sprintf("; all were divided by %d, the number of ranks", len(parts))
	}
	return fmt.Sprintf("%d of %d elements differ, first %.6g at %s, want %.6g%s", bad, w.n, got[first],
		index(w.from+first, w.got.Shape), firstWant, factor)
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
		bound = n * w.got.DType.Eps() * size
	}
	return x, bound
}

// numbers are the elements of a tensor.
func numbers(t *tensor.Tensor) []float64 {
	out := make([]float64, t.Numel())
	tensor.Load(t, 0, out)
	return out
}
