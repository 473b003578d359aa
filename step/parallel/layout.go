package parallel

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/optool/optool/step"
)

// layout is what was found of how the ranks hold the parameters.
func (p *part) layout(ps []*step.Process) *step.Layout {
	var mesh []step.MeshGroups
	var names []string
	for _, d := range p.dims {
		name := meshName(ps, d)
		if p.checker.plan.covers(p.ranks) {
			name = p.checker.plan.names[len(names)]
		}
		mesh = append(mesh, step.MeshGroups{Name: name, Groups: d.groups})
		names = append(names, name)
	}
	count := map[string]int{}
	var placed []step.Placed
	for _, name := range p.names {
		count[p.placement(p.shards[name])]++
	}
	for _, name := range p.order {
		if p.unsettled(name, p.grads[name]) {
			count[p.placement(nil)]++
			continue
		}
		if p.shards[name] == nil && slices.ContainsFunc(p.ranks, func(r int) bool {
			return !p.grads[name].value[r].near(p.grads[name].value[p.ranks[0]], 0)
		}) {
			if len(p.broken) > 0 { // the call that would show it can be the wrong one
				count[p.placement(nil)]++
				continue
			}
			count["another on each rank"]++ // experts
		}
	}
	for text, n := range count {
		placed = append(placed, step.Placed{Placement: text, Count: n})
	}
	slices.SortFunc(placed, func(a, b step.Placed) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(a.Placement, b.Placement))
	})
	text := ranksText(p.ranks)
	if len(p.dims) > 0 {
		text = p.mesh.String()
	}
	if named := strings.Join(names, " x "); strings.Trim(named, " x") != "" {
		text = named + " = " + text
	}
	if len(p.checker.missing) > 0 {
		text += " of a program of more ranks: " + ranksText(slices.Sorted(maps.Keys(p.checker.missing))) +
			" not recorded"
		if p.incomplete {
			text += ", so gradients and updates were not compared"
		}
	}
	return step.NewLayout(p.ranks, mesh, placed, text)
}

// placement is a place in words: "replicated" if it is so along all dimensions.
func (p *part) placement(ps []place) string {
	switch {
	case len(p.dims) == 0:
		return "whole"
	case ps == nil:
		return "of unknown placement"
	}
	if !slices.ContainsFunc(ps, func(q place) bool { return q.kind != replicated }) {
		return "replicated"
	}
	return placesText(ps)
}

// meshName is what the program calls a dimension of its mesh; "" if it has no name.
func meshName(ps []*step.Process, d dimension) string {
	for _, p := range ps {
		for _, c := range p.Calls {
			g := slices.Sorted(slices.Values(c.Entry.Group))
			if i := strings.Index(c.Entry.GroupName, "mesh_"); i >= 0 && slices.ContainsFunc(d.groups,
				func(h []int) bool { return slices.Equal(g, h) }) {
				return strings.TrimSpace(c.Entry.GroupName[i+len("mesh_"):])
			}
		}
	}
	return ""
}
