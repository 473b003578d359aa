package parallel

import (
	"slices"
	"strings"

	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// ownBatch reports whether a call that the ranks' results do not fit computes something of each replica's own data,
// such as a batch normalization that is not synchronised, or a contrastive loss with the negatives of one rank: along
// some dimensions of the mesh the replicas exchange nothing in the forward pass, and within each of them the call fits.
func (p *part) ownBatch(s *site, sides map[int]*side) bool {
	var within []int // the other dimensions
	for m := range p.dims {
		if p.joint(m) {
			within = append(within, m)
		}
	}
	if len(within) == len(p.dims) {
		return false
	}
	done := map[int]bool{}
	for _, r := range p.ranks {
		if !done[r] && !p.replica(r, within, done).fitsAlone(s, sides, within) {
			return false
		}
	}
	p.own = append(p.own, s)
	return true
}

// replica is a part with only the ranks that differ from one along some dimensions of the mesh.
func (p *part) replica(rank int, within []int, done map[int]bool) *part {
	one := *p
	one.mesh = &mesh{ranks: []int{rank}}
	for _, m := range within {
		var all []int
		for _, r := range one.ranks {
			all = append(all, p.dims[m].of(r)...)
		}
		one.ranks = all
	}
	slices.Sort(one.ranks)
	for _, r := range one.ranks {
		done[r] = true
	}
	for _, m := range within {
		d := dimension{size: p.dims[m].size}
		for _, g := range p.dims[m].groups {
			if slices.Contains(one.ranks, g[0]) {
				d.groups = append(d.groups, g)
			}
		}
		one.dims = append(one.dims, d)
	}
	return &one
}

// fitsAlone reports whether the results of a replica make what a call gives on its whole values.
func (p *part) fitsAlone(s *site, sides map[int]*side, within []int) bool {
	if len(p.ranks) == 1 {
		return true
	}
	t := &site{op: s.op, calls: s.calls, in: make([]*info, len(s.in)), out: make([]*info, len(s.out))}
	for i, n := range s.in {
		if n == nil || n.places == nil {
			continue
		}
		t.in[i] = &info{}
		for _, m := range within {
			t.in[i].places = append(t.in[i].places, n.places[m])
		}
	}
	local := p.local(sides)
	lists := make([][][]place, len(s.in))
	for i := range lists {
		lists[i] = p.candidates(i, t, sides)
	}
	return local.err == nil && combinations(lists, func(in [][]place) bool {
		outs, _ := p.try(t, sides, local, in)
		return outs != nil
	})
}

// joint reports whether the ranks along a dimension of the mesh share out parameters, or exchange values in the forward
// pass: then they compute one result together.
func (p *part) joint(m int) bool {
	for _, places := range p.shards {
		if places[m].kind == sharded {
			return true
		}
	}
	return slices.ContainsFunc(p.sites, func(s *site) bool {
		call := s.first(p.ranks)
		return p.dtensors || p.across(call, m) && activations(call) || slices.ContainsFunc(p.checker.inside[call],
			func(c *step.Call) bool { return p.across(c, m) })
	})
}

// across reports whether a call exchanges values between ranks along a dimension of the mesh.
func (p *part) across(c *step.Call, m int) bool {
	if !isExchange(c.Op) && !strings.HasSuffix(collective.Name(c.Op), "send") {
		return false
	}
	return slices.ContainsFunc(p.dims[m].groups, func(g []int) bool {
		return slices.Contains(c.Entry.Group, g[0]) && slices.Contains(c.Entry.Group, g[1])
	})
}

// activations reports whether an exchange that the program calls by itself takes more than a number, and no parameters.
func activations(c *step.Call) bool {
	return collective.Name(c.Op) != "broadcast" && !strings.HasPrefix(c.Op, "torch.ops.fsdp.") &&
		slices.ContainsFunc(c.Inputs, func(v *step.Value) bool {
			return v.DType.IsFloat() && numel(v.Shape) > 1 && !v.Parameter
		})
}
