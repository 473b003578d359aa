package pairs

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// Undetermined knows what two runs of one program need not have alike: memory that no call has written, which is what
// empty and its like give, and random numbers. What stands in such memory is no difference, and no difference comes
// from it, unless a call computes with it. That call is a finding.
type Undetermined struct {
	Registry *opdef.Registry
	of       map[[3]int]unwritten // by step, rank and process of the first recording
}

// unwritten is what stood in memory that no call had written, by where it lies and by its shape and dtype.
type unwritten map[string][]*both

// readsUnwritten begins the reason of a result that depends on memory that nothing wrote.
const readsUnwritten = "the call reads memory that nothing wrote"

// Look takes the results of the next pair, and changes what is said of memory that nothing wrote and of random numbers.
func (v *Undetermined) Look(p Pair, rs []*reports.Result, apart map[*reports.Result]*Difference) {
	if p.B == nil {
		return
	}
	v.memory(p, rs)
	v.draws(p, rs, apart)
	for _, r := range rs {
		if isVacant(r) {
			delete(apart, r)
		}
	}
}

// memory looks for memory that nothing wrote.
func (v *Undetermined) memory(p Pair, rs []*reports.Result) {
	made := slices.ContainsFunc(rs, isVacant)
	u := v.of[processOf(p.A)]
	if !made && (u == nil || !slices.ContainsFunc(rs, u.may)) {
		return
	}
	if v.of == nil {
		v.of = map[[3]int]unwritten{}
	}
	if u == nil {
		u = unwritten{}
		at := processOf(p.A)
		maps.DeleteFunc(v.of, func(old [3]int, _ unwritten) bool { // of the steps before
			return old[1] == at[1] && old[2] == at[2]
		})
		v.of[at] = u
	}
	l := bothSides(p)
	defer l.close()
	if made {
		for _, r := range rs {
			if isVacant(r) {
				u.add(l.leaf(r, false), r)
			}
		}
		return
	}
	read := u.excuse(l, rs)
	if read == "" || fails(before(rs)) {
		return
	}
	v.depends(u, l, rs, read)
}

func isVacant(r *reports.Result) bool {
	return r.Verdict == verdict.Skipped && r.Reason == opdef.Uninitialised
}

func formOf(r *reports.Result) string {
	if r.DType == nil {
		return ""
	}
	return *r.DType + tensor.ShapeString(r.Shape)
}

// may reports whether a value that differs has the form of unwritten memory.
func (u unwritten) may(r *reports.Result) bool { return r.Verdict.Differs() && len(u[formOf(r)]) > 0 }

func (u unwritten) add(x *both, r *reports.Result) {
	if form := formOf(r); x != nil && form != "" {
		if x.at[0] != "" { // it lies where others lay that are gone
			u[form] = slices.DeleteFunc(u[form], func(old *both) bool { return old.at == x.at })
		}
		u[form] = append(u[form], x)
	}
}

// has reports whether a value differs only in elements that no call wrote, where it lies.
func (u unwritten) has(x *both, r *reports.Result) bool {
	return slices.ContainsFunc(u[formOf(r)], func(old *both) bool { return old.leaves(x) })
}

// excuse says of arguments that they are unwritten memory, and names the first of them.
func (u unwritten) excuse(l *sides, rs []*reports.Result) (read string) {
	for _, r := range before(rs) {
		if !u.may(r) {
			continue
		}
		if x := l.leaf(r, false); x != nil && u.has(x, r) {
			if read == "" {
				read = r.Target
			}
			skip(r)
		}
	}
	return read
}

func skip(r *reports.Result) {
	r.Verdict, r.Reason, r.Mismatch = verdict.Skipped, opdef.Uninitialised, nil
}

// depends looks at the results of a call whose only arguments that differ are unwritten memory: what it left as it was,
// or moved, is unwritten still.
func (v *Undetermined) depends(u unwritten, l *sides, rs []*reports.Result, read string) {
	behind := len(before(rs))
	moves, random := v.kind(l.recs[0])
	for _, after := range []bool{true, false} { // a result may be the argument that was written
		for i, r := range rs {
			if i < behind || !r.Verdict.Differs() || r.Phase == "backward" || (r.Phase == "input") != after {
				continue
			}
			x := l.leaf(r, after)
			switch {
			case x == nil || random:
			case u.has(x, r), after && l.untouched(r, x), !after && moves:
				u.add(x, r)
				skip(r)
			case !strings.HasPrefix(r.Reason, readsUnwritten):
				r.Reason = readsUnwritten + " (" + read + "), and no other argument differs: " + r.Reason
			}
		}
	}
}

// kind says whether a call moves elements as they are, and whether it draws random numbers.
func (v *Undetermined) kind(rec *capture.Call) (moves, random bool) {
	if v.Registry == nil {
		return false, false
	}
	b, err := v.Registry.Bind(rec.Op, rec.Args, rec.Kwargs)
	if err != nil {
		return false, false
	}
	return b.Entry.Moves || b.Uncast(), b.Random() != "" && b.Random() != opdef.Uninitialised
}

// says reports whether a result that differs is said to do so for a cause of its own.
func says(r *reports.Result) bool {
	return slices.ContainsFunc([]string{readsUnwritten, OtherNumbers, SameState},
		func(why string) bool { return strings.HasPrefix(r.Reason, why) })
}

// ofNumbers is a reason without what it says of random numbers.
func ofNumbers(reason string) string {
	if !strings.HasPrefix(reason, OtherNumbers) && !strings.HasPrefix(reason, SameState) {
		return reason
	}
	_, reason, _ = strings.Cut(reason, ": ")
	return strings.TrimPrefix(reason, otherStates)
}

// otherStates is what shows that numbers are different random ones.
const otherStates = "the generators had other states: "

// OtherNumbers is, or begins, the reason of random numbers that differ, as of other seeds.
const OtherNumbers = "different random numbers"

// SameState is, or begins, the reason of other numbers of one seed.
const SameState = "other numbers from the same state of the generator"

// draws says of the results of a call that they are different random numbers, unless what the arguments differ by may
// explain the difference: the call may have drawn the same numbers.
func (v *Undetermined) draws(p Pair, rs []*reports.Result, apart map[*reports.Result]*Difference) {
	c := newCompared(p, rs, apart, 0)
	c.look(nil)
	given, gave := rs[:c.given], rs[c.given:]
	alike := !fails(given) && c.in == 0
	if c.plain != nil || !slices.ContainsFunc(gave, func(r *reports.Result) bool {
		return r.Verdict.Differs() && r.Phase != "backward" && (alike || !apart[r].near(growth*max(c.in, c.unit)))
	}) {
		return
	}
	rec, _ := p.A.Load(capture.LoadOptions{Only: capture.Of(capture.Input)})
	defer rec.Close()
	if _, random := v.kind(rec); !random {
		return
	}
	why := OtherNumbers
	a, errA := p.A.Generator()
	b, errB := p.B.Generator()
	switch {
	case errA != nil || errB != nil || len(a) == 0 || len(b) == 0:
		why += " (the states of the generators were not recorded)"
	case bytes.Equal(a, b): // so it is no matter of seeds
		why = SameState
	default:
		why += ": " + strings.TrimSuffix(otherStates, ": ")
	}
	for _, r := range gave {
		if r.Verdict.Differs() && r.Phase != "backward" {
			r.Reason = why + ": " + r.Reason
		}
	}
}

func fails(rs []*reports.Result) bool {
	return slices.ContainsFunc(rs, func(r *reports.Result) bool { return r.Verdict.Differs() })
}

// sides are the values of a pair, loaded.
type sides struct{ recs [2]*capture.Call }

func bothSides(p Pair) *sides {
	l := &sides{}
	only := capture.Of(capture.Input, capture.Output, capture.After)
	l.recs[0], _ = p.A.Load(capture.LoadOptions{Only: only})
	l.recs[1], _ = p.B.Load(capture.LoadOptions{Only: only, Side: p.bSide})
	return l
}

func (l *sides) close() {
	for _, rec := range l.recs {
		rec.Close()
	}
}

// before are the results of arguments before the call.
func before(rs []*reports.Result) []*reports.Result {
	for i, r := range rs {
		if r.Phase != "input" {
			return rs[:i]
		}
	}
	return rs
}

// both is one value in both recordings, and where it lies.
type both struct {
	bytes [2][]byte
	at    [2]string // "" if addresses were not recorded
	size  int       // of an element
}

// leaves reports whether two values that lie at one place differ now only in elements that are as they were.
func (x *both) leaves(now *both) bool {
	if x.size != now.size || x.at != now.at {
		return false
	}
	for i := range x.bytes {
		if len(x.bytes[i]) != len(now.bytes[0]) || len(now.bytes[i]) != len(now.bytes[0]) {
			return false
		}
	}
	whole := x.at[0] != "" && x.at[1] != "" // else equal elements may be of other memory
	for i := 0; i < len(now.bytes[0]); i += x.size {
		same := func(a, b []byte) bool { return bytes.Equal(a[i:i+x.size], b[i:i+x.size]) }
		kept := same(x.bytes[0], now.bytes[0]) && same(x.bytes[1], now.bytes[1])
		if !kept && (!whole || !same(now.bytes[0], now.bytes[1])) {
			return false
		}
	}
	return true
}

// leaf finds the value that a result is about; nil if it has none on one side, or cannot be read.
func (l *sides) leaf(r *reports.Result, after bool) *both {
	k, target := capture.Output, "output"
	switch {
	case after:
		k, target = capture.After, "input"
	case r.Phase == "input":
		k, target = capture.Input, "input"
	}
	x := &both{}
	for i, rec := range l.recs {
		ls := leaves(rec, k)
		at := slices.IndexFunc(ls, func(l leaf) bool {
			t := l.Target(target)
			return t == r.Target || t == r.Target+"[0]"
		})
		if at < 0 || ls[at].Tensor.Summary() != nil || readable(ls[at].Tensor) != nil {
			return nil
		}
		x.bytes[i], x.at[i], x.size = ls[at].Tensor.AppendBytes(nil), ls[at].address, ls[at].Tensor.DType.Size()
	}
	return x
}

// untouched reports whether an argument differs, after the call, only in elements that the call left as they were.
func (l *sides) untouched(r *reports.Result, after *both) bool {
	earlier := *r
	earlier.Phase = "input"
	x := l.leaf(&earlier, false)
	return x != nil && x.leaves(after)
}
