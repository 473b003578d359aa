package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/capture/collective"
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
	n, first := 0, (*step.Call)(nil)
	for _, t := range p.checker.trained[p.ranks[0]] {
		if !p.isCompared(t.name) {
			if n++; first == nil {
				first = t.call
			}
		}
	}
	for _, t := range p.untrained() {
		if n++; first == nil {
			first = t
		}
	}
	ranks := ranksText(p.ranks)
	add(n, "parameter", fmt.Sprintf(" whose gradient was not compared with what %s computed", ranks), first)
	if len(p.ungathered) > 0 {
		add(len(p.ungathered), "buffer", fmt.Sprintf(" of parameters of which each of %s updates its part: no call was "+
			"recorded that gives the others what it made", ranks), p.ungathered[0].update)
	}
	n, first = 0, nil
	for _, name := range p.order {
		if call := p.redundant(name); call != nil {
			if n++; first == nil {
				first = call
			}
		}
	}
	add(n, "gradient", fmt.Sprintf(" that %s add up though each has the same: nothing says whether they mean to "+
		"compute the same data", ranks), first)
	n, first = 0, nil
	for _, name := range p.order {
		if call := p.left[name]; call != nil {
			if n++; first == nil {
				first = call
			}
		}
	}
	add(n, "gradient", fmt.Sprintf(" that %s add up though some of them hold more than the recorded calls made: what "+
		"is left of a backward pass before the recording, which was not set to zero", ranks), first)
	if len(p.own) > 0 {
		what := fmt.Sprintf(" that each of %s makes of its own data, as a batch normalization without synchronisation "+
			"does: nothing says whether that of the whole data is meant", ranks)
		add(len(p.own), "call", what, p.own[0].first(p.ranks))
	}
	n, first = 0, nil
	for _, s := range p.sites {
		if call := s.first(p.ranks); call.HasBackward() && !p.isPlaced(s) {
			if n++; first == nil {
				first = call
			}
		}
	}
	add(n, "call", fmt.Sprintf(" with results of which it is not known how they lie on %s", ranks), first)
	return slices.Concat(p.unevenly(), p.addedMeans(), out, p.divided())
}

// untrained are calls that update parameters of which no gradient was recorded in the forward pass, such as DTensors:
// one for each parameter.
func (p *part) untrained() (out []*step.Call) {
	known := map[string]bool{}
	for _, t := range p.checker.trained[p.ranks[0]] {
		known[t.name] = true
	}
	for _, s := range p.tail {
		call := s.first(p.ranks)
		d, err := p.checker.load(call)
		if err != nil || collective.Name(s.op) != "" {
			continue
		}
		for i, a := range d.ins {
			if a.name != "" && !p.frozen[a.name] && !known[a.name] && d.after[i] != nil {
				known[a.name] = true
				out = append(out, call)
			}
		}
	}
	return out
}

// redundant is the exchange that adds up the gradient of a parameter, by itself, over ranks that all have the same one;
// nil if none does.
func (p *part) redundant(name string) *step.Call {
	g := p.grads[name]
	if len(p.ranks) < 2 || !p.replicates(g.sum) || g.sum[p.ranks[0]].constant() {
		return nil
	}
	for _, s := range p.tail {
		call := s.first(p.ranks)
		if collective.Name(s.op) != "all_reduce" || len(call.Entry.Group) != len(p.ranks) {
			continue
		}
		d, err := p.checker.load(call)
		if err == nil && len(d.ins) > 0 && slices.Equal(d.ins[0].array.x, g.sum[p.ranks[0]].x) {
			return call
		}
	}
	return nil
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
