package parallel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/tensor/value"
)

// Ranks that compute one function of their parts of a batch, or of their heads, must give it the same settings: whether
// it is causal, whether it trains, by how much it drops. Sizes and places can be those of a rank's part.

// A setting is an argument that says how a function computes.
type setting struct {
	name string // "" if it was given by its place
	at   int
	text string
}

func (s setting) String() string {
	if s.name != "" {
		return s.name + "=" + s.text
	}
	return s.text
}

// settings are those of a call of torch.nn.functional: truth values and numbers with a fraction.
func (d *side) settings() (out []setting) {
	if !strings.HasPrefix(d.call.Op, "torch.nn.functional.") {
		return nil
	}
	note := func(name string, i int, v value.Value) {
		switch v := v.(type) {
		case bool, float64:
			out = append(out, setting{name, i, value.Repr(v)})
		}
	}
	for i, v := range d.rec.Args {
		note("", i, v)
	}
	for i, it := range d.rec.Kwargs.Items {
		note(value.Str(it.Key), i, it.Value)
	}
	return out
}

// otherSetting finds a call to which a rank gives another setting than the first one does, though all have parts of its
// arguments along a dimension that it computes by itself for each element, such as the batch or the heads.
func (p *part) otherSetting(s *site, sides map[int]*side) bool {
	lead := sides[p.ranks[0]]
	if !lead.call.HasBackward() || len(lead.settings()) == 0 || slices.ContainsFunc(s.in, func(n *info) bool {
		return !n.sound() || n.guess || slices.ContainsFunc(n.places, func(q place) bool {
			return q.kind != replicated && (q.kind != sharded || q.dim > 1)
		})
	}) {
		return false
	}
	if method(s.op) == "scaled_dot_product_attention" { // queries that see keys of other ranks differ in what they see
		n := len(lead.ins[0].array.shape)
		for m := range p.dims {
			first := s.in[0].places[m]
			if slices.ContainsFunc(s.in[:min(3, len(s.in))], func(n *info) bool { return n.places[m] != first }) ||
				first.kind == sharded && first.dim >= n-2 {
				return false
			}
		}
	}
	for _, r := range p.ranks[1:] {
		ours, theirs := lead.settings(), sides[r].settings()
		if len(ours) != len(theirs) {
			continue
		}
		for i := range ours {
			if ours[i] == theirs[i] || ours[i].name != theirs[i].name || ours[i].at != theirs[i].at {
				continue
			}
			p.found(true, &violation{kind: "replica", site: s, call: sides[r].call, ranks: []int{r}, target: "output[0]",
				reason: fmt.Sprintf("rank %d computes its part with another setting than rank %d: %s, and not %s", r,
					p.ranks[0], theirs[i], ours[i])})
			return true
		}
	}
	return false
}
