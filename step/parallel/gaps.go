package parallel

import (
	"fmt"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// gaps say what could not be judged of the ranks as one program; none where something is wrong, since what follows is
// left out then.
func (p *part) gaps() (out []step.Gap) {
	if len(p.broken) > 0 {
		return nil
	}
	add := func(n int, noun, what string, first *step.Call) {
		if n > 0 {
			out = append(out, step.Gap{N: n, What: reports.Count(n, noun) + what, First: first.String()})
		}
	}
	names, calls := p.trained()
	n, first := 0, (*step.Call)(nil)
	for i, name := range names {
		if !p.isCompared(name) {
			if n++; first == nil {
				first = calls[i]
			}
		}
	}
	ranks := ranksText(p.ranks)
	add(n, "parameter", fmt.Sprintf(" whose gradient was not compared with what %s computed", ranks), first)
	n, first = 0, nil
	for _, s := range p.sites {
		if call := s.first(p.ranks); call.HasBackward() && !p.isPlaced(s) {
			if n++; first == nil {
				first = call
			}
		}
	}
	add(n, "call", fmt.Sprintf(" with results of which it is not known how they lie on %s", ranks), first)
	return append(out, p.divided()...)
}

// isPlaced reports whether something is known of all results of a call; of one that ranks leave out it is not.
func (p *part) isPlaced(s *site) bool {
	if len(p.owners(s)) < len(p.ranks) || len(s.out) == 0 {
		return false
	}
	for _, n := range s.out {
		if n == nil || n.guess || n.places == nil && n.rows == nil && n.pending == nil && n.source == nil {
			return false
		}
	}
	return true
}

// isCompared reports whether the gradient of a parameter was compared, by itself or under another of its names.
func (p *part) isCompared(name string) bool {
	return p.compared[name] || p.compared[p.alias[name]]
}

// trained are the parameters that calls of the backward pass read on the first rank, and the first such call of each.
func (p *part) trained() (names []string, calls []*step.Call) {
	seen := map[string]bool{}
	for _, call := range p.trainedCalls() {
		rec, _ := call.Entry.Load(capture.LoadOptions{Read: p.checker.opt.Read, Only: capture.Of(capture.Input)})
		for t, name := range rec.Names {
			if t.RequiresGrad && !seen[name] {
				seen[name] = true
				names, calls = append(names, name), append(calls, call)
			}
		}
		rec.Close()
	}
	return names, calls
}

// trainedCalls are the calls of the first rank that take part in the backward pass and read a parameter.
func (p *part) trainedCalls() (out []*step.Call) {
	for _, s := range p.sites {
		call := s.calls[p.ranks[0]]
		if call == nil || !call.HasBackward() {
			continue
		}
		for _, v := range call.Inputs {
			if v.Parameter {
				out = append(out, call)
				break
			}
		}
	}
	return out
}
