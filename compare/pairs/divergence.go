package pairs

import (
	"math"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// A Divergence looks for the place where two recordings part: the first call, in
// order of execution, whose inputs agree and whose results do not. What follows
// may have inherited its difference. Each process and step has its own.
type Divergence struct {
	first    map[[3]int]candidate // by step, rank and process
	unpaired []reports.FindingRecord
	added    int
}

type candidate struct {
	at int
	reports.FindingRecord
}

// Add looks at the results of a pair.
func (d *Divergence) Add(p Pair, rs []*reports.Result) {
	e := p.A
	if p.B == nil {
		f := reports.FindingRecord{Kind: "finding", Rule: verdict.Missing, Capture: e.Rel, Op: e.Op,
			Module: e.Module, Location: e.Location, Reason: p.only}
		if p.inserted {
			f.Rule = verdict.Inserted
		}
		d.unpaired = append(d.unpaired, f)
		return
	}
	given := len(rs) // where results begin: what follows under the phase "input" are arguments after the call
	if i := slices.IndexFunc(rs, func(r *reports.Result) bool { return r.Phase != "input" }); i >= 0 {
		given = i
	}
	failed := func(phase, target string) (first *reports.Result, any bool) {
		i := slices.IndexFunc(rs, func(r *reports.Result) bool {
			isGradOutput := len(r.Target) > 11 && r.Target[:11] == "grad_output"
			return r.Phase == phase && (target == "grad_output") == isGradOutput && r.Verdict == verdict.Fail
		})
		if i < 0 {
			return nil, false
		}
		return rs[i], true
	}
	if slices.ContainsFunc(rs[:given], func(r *reports.Result) bool { return r.Verdict == verdict.Fail }) {
		return
	}
	d.added++
	at, backward := e.Position(), false
	if at < 0 { // the order in which pairs come
		at = d.added
	}
	r, wrong := failed("forward", "")
	if !wrong {
		if _, arrived := failed("backward", "grad_output"); arrived {
			return
		}
		if r, wrong = failed("backward", ""); !wrong {
			return
		}
		backward = true
		at = math.MaxInt32 - at // where its order was not recorded, the reverse of forward's
		if e.BackwardOrder >= 0 {
			at = e.BackwardOrder
		}
	}
	key := [3]int{e.Step, e.Rank, e.PID}
	if old, ok := d.first[key]; ok && old.at <= at {
		return
	}
	reason := "inputs agree, the result does not: "
	switch {
	case backward:
		reason = "what arrives agrees, the gradient does not: "
	case !p.A.Has(capture.Device, capture.Input):
		reason = "the first value that differs: "
	}
	if d.first == nil {
		d.first = map[[3]int]candidate{}
	}
	d.first[key] = candidate{at, reports.FindingRecord{Kind: "finding", Rule: verdict.Diverged, Capture: e.Rel,
		Target: r.Target, From: &reports.Place{Capture: p.B.Rel, Target: r.Target}, Op: r.Op, Peer: p.B.Rel,
		Module: e.Module, Location: e.Location, Reason: reason + r.Reason}}
}

// Findings are the places where processes part, in order of execution, then what
// only one recording has.
func (d *Divergence) Findings() []reports.FindingRecord {
	var keys [][3]int
	for k := range d.first {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [3]int) int {
		if a[0] != b[0] {
			return a[0] - b[0]
		}
		if x, y := d.first[a].at, d.first[b].at; x != y {
			return x - y
		}
		return slices.Compare(a[:], b[:])
	})
	var out []reports.FindingRecord
	for _, k := range keys {
		out = append(out, d.first[k].FindingRecord)
	}
	return append(out, d.unpaired...)
}

// First is where the recordings part first; nil if they do not.
func (d *Divergence) First() *reports.Place {
	if fs := d.Findings(); len(fs) > 0 && fs[0].Rule == verdict.Diverged {
		return &reports.Place{Capture: fs[0].Capture, Target: fs[0].Target}
	}
	return nil
}
