package step

import (
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
)

// became says in which of two runs calls are wrong by themselves, and which of the findings the other run, a, has too.
func (t *Trace) became(a *Trace) {
	t.Runs.Faulty = reports.Faulty{}
	for _, c := range t.Calls() {
		t.Runs.Faulty.Count(c.Op, reports.WorseIn(c.wrongIn(false), c.wrongIn(true)))
	}
	type value struct {
		call   *Call
		target string
	}
	changed := map[value]bool{}
	for _, f := range a.Findings {
		if f.Rule == verdict.Changed {
			changed[value{f.Call, f.Target}] = true
		}
	}
	for _, f := range t.Findings {
		switch {
		case f.Rule == verdict.Wrong || f.Rule == verdict.Diverged:
			f.WrongIn = f.Call.wrongIn(f.backward)
		case f.Rule == verdict.Changed && f.Call.Peer != nil:
			f.WrongIn = reports.InWhich(true, changed[value{f.Call.Peer, f.Target}])
		}
	}
}

// wrongIn says in which of two runs a pass of a call is wrong; "" if one of them was not judged, or none is wrong.
func (c *Call) wrongIn(backward bool) reports.WrongIn {
	p := c.Peer
	if p == nil || !c.judged() || !p.judged() {
		return ""
	}
	return reports.InWhich(c.fails(backward), p.fails(backward))
}
