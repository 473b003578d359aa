package pairs

import (
	"github.com/optool/optool/capture/checkpoint"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// A NamedPair is two values of one name, or one that has no partner.
type NamedPair struct {
	Name string // on the first side, or the only one
	File string
	A, B *checkpoint.Named // nil where there is none
	only string
}

// ByName pairs the values of two sets, in the order of the first, by what names maps
// its names to; those of the second that have no partner come last. Where each has one value
// and one of these has no name of its own, the two are a pair.
func ByName(a, b *checkpoint.Set, names *checkpoint.Map) []NamedPair {
	others := map[string]*checkpoint.Named{}
	for _, n := range b.Values {
		if others[n.Name] == nil {
			others[n.Name] = n
		}
	}
	nameless := len(a.Values) == 1 && len(b.Values) == 1 && (a.Values[0].Bare || b.Values[0].Bare)
	taken := map[*checkpoint.Named]bool{}
	var out []NamedPair
	for _, n := range a.Values {
		name, transposed := names.Rename(n.Name)
		if transposed {
			t := *n
			t.Value = checkpoint.Transposed(n.Value)
			n = &t
		}
		p := NamedPair{Name: n.Name, File: n.File, A: n, B: others[name]}
		if nameless {
			p.B = b.Values[0]
		}
		if p.B == nil || taken[p.B] {
			p.B, p.only = nil, "only in "+a.Path
		}
		taken[p.B] = true
		out = append(out, p)
	}
	for _, n := range b.Values {
		if !taken[n] {
			out = append(out, NamedPair{Name: n.Name, File: n.File, B: n, only: "only in " + b.Path})
		}
	}
	return out
}

// CompareNamed compares two values of one name; again is the command that compares
// the files again. A value that only one side has is a difference.
func (c Comparer) CompareNamed(p NamedPair, again string) *reports.Result {
	r := c.named(p, again)
	if p.A == nil || p.B == nil {
		r.whole("forward", verdict.Fail, p.only)
		return r.results[0]
	}
	r.leaf("forward", p.Name, "", p.A.Value, p.B.Value)
	return r.results[0]
}

// named is the comparison of two values of one name before anything was compared.
func (c Comparer) named(p NamedPair, again string) *comparison {
	r := &comparison{Comparer: c, op: p.Name, stored: true, sides: [2]string{"first value", "second value"}}
	r.locate = func(res *reports.Result) {
		res.Capture, res.Op, res.Phase, res.Target, res.Repro = p.File, p.Name, "forward", p.Name, &again
	}
	return r
}

// GiveUpNamed is the result of two values whose comparison ended for a reason, such as a limit.
func (c Comparer) GiveUpNamed(p NamedPair, again string, err error) *reports.Result {
	r := c.named(p, again)
	r.whole("forward", verdict.Error, err.Error())
	return r.results[0]
}

// Finding is the record of a value that only one side has; nil for others.
func (p NamedPair) Finding() *reports.FindingRecord {
	f := &reports.FindingRecord{Kind: "finding", Rule: verdict.Missing, Capture: p.File, Target: p.Name, Op: p.Name,
		Reason: p.only}
	switch {
	case p.A != nil && p.B != nil:
		return nil
	case p.A == nil:
		f.Rule = verdict.Inserted
	}
	return f
}
