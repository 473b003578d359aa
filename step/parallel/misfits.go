package parallel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/step"
)

// misfits looks again at calls that were taken to be each rank's own business, and whose whole arguments do not fit
// each other: a later exchange can show that their data are parts of a whole. So it is with positions that count from 0
// on each rank, though the ranks share out a sequence.
func (p *part) misfits() {
	for _, s := range p.sizes {
		sides := p.read(s)
		if sides == nil || p.ownBusiness(s, sides, p.local(sides)) {
			continue
		}
		v := &violation{kind: "shard", site: s, ranks: p.ranks, target: "output[0]",
			reason: fmt.Sprintf("%s; together the results of ranks %s are not what the call gives on the whole (%s)",
				p.argumentsText(s, sides), rankList(p.ranks), p.misfit(s, sides))}
		at := slices.IndexFunc(p.broken, func(o *violation) bool {
			return o.site != nil && (o.backward || o.site.first(p.ranks).Order > s.first(p.ranks).Order)
		})
		if at < 0 {
			at = len(p.broken)
		}
		p.broken = slices.Insert(p.broken, at, v)
		return
	}
}

// messaged notes that ranks which run one program sent each other what they made of their data, as blocks of keys in a
// ring: these are parts of a whole.
func (p *part) messaged() {
	for _, s := range p.sites {
		lead := s.first(p.ranks)
		if !slices.ContainsFunc(s.in, func(n *info) bool { return n != nil && len(n.data) > 0 }) {
			continue
		}
		for _, call := range append(slices.Clone(p.checker.inside[lead]), lead) {
			if !messages(call) {
				continue
			}
			_, peer := p.checker.message(call)
			for m, d := range p.dims {
				if peer >= 0 && slices.Contains(d.of(p.ranks[0]), peer) {
					for _, n := range s.in {
						n.sent(m)
					}
				}
			}
		}
	}
}

// sent notes that ranks along a dimension of the mesh exchanged the data that a value was made of.
func (n *info) sent(m int) {
	if n != nil {
		for _, d := range n.data {
			d.moved |= 1 << m
		}
	}
}

// farFromMessage is how many calls may lie between a message and the call that reads what was received.
const farFromMessage = 6

// fromMessage reports whether a value was received in a message, perhaps after its call had returned, up to some calls
// of one argument before.
func fromMessage(v *step.Value, within int) bool {
	if v.From.Value == nil || within == 0 {
		return v.From.Role == "collective" && // written when the call had returned
			slices.ContainsFunc(v.Call.Process.Calls, func(c *step.Call) bool {
				return messages(c) && c.Order < v.Call.Order
			})
	}
	call := v.From.Value.Call
	return messages(call) || len(call.Inputs) == 1 && fromMessage(call.Inputs[0], within-1)
}

// uninitialized reports whether an operator makes memory without writing to it.
func uninitialized(method string) bool {
	return strings.HasPrefix(strings.TrimPrefix(method, "new_"), "empty")
}

// misfit says why the whole arguments of a call do not fit each other: their sizes, and positions that all ranks count
// alike.
func (p *part) misfit(s *site, sides map[int]*side) string {
	return "joined so, their sizes do not fit each other: " + p.shapesText(sides) + p.countedAlike(sides)
}

// countedAlike names the arguments of a call that were made of positions that all ranks count alike; "" if there are
// none.
func (p *part) countedAlike(sides map[int]*side) (text string) {
	lead := sides[p.ranks[0]]
	for i, v := range lead.call.Inputs {
		if len(lead.call.Inputs) != len(lead.ins) || !p.same(sides, i) {
			continue
		}
		if d := p.checker.counting(v, lead.ins[i].array.shape, 12); d != nil {
			x := d.outs[0].x
			text += fmt.Sprintf("; %s was made of the positions %g to %g, which %s counts on all ranks alike",
				nameOf(lead.ins[i], i), x[0], x[len(x)-1], at(d.call))
		}
	}
	return text
}

// counting is the call that counted the positions, from 0 on, that a value of some shape was made of; nil if there is
// none within some calls.
func (c *checker) counting(v *step.Value, shape []int, within int) *side {
	if v.From.Value == nil || within == 0 {
		return nil
	}
	call := v.From.Value.Call
	if method(call.Op) == "arange" {
		d, err := c.load(call)
		if err != nil || len(d.outs) != 1 {
			return nil
		}
		if x := d.outs[0].x; len(x) < 2 || x[0] != 0 || !counts(x) || !slices.Contains(shape, len(x)) {
			return nil
		}
		return d
	}
	for _, in := range call.Inputs {
		if d := c.counting(in, shape, within-1); d != nil {
			return d
		}
	}
	return nil
}

// otherData says which data differ between ranks that share out a parameter of a call; "" if there are none. Such ranks
// need the same data: those of other replicas may have been meant.
func (p *part) otherData(s *site, sides map[int]*side) string {
	lead := sides[p.ranks[0]]
	for m, d := range p.dims {
		name := ""
		for i, a := range lead.ins {
			values := p.column(sides, func(d *side) *array { return d.ins[i].array })
			if a.name != "" && len(a.array.shape) > 1 && !p.equal(m, values, 0) && !p.alike(m, values) {
				name = a.name
			}
		}
		for _, n := range s.in {
			if name == "" || !n.sound() || n.places[m].kind != sharded || n.firmAlong(m) || len(n.data) != 1 ||
				n.data[0].site == nil {
				continue
			}
			from := n.data[0]
			text := fmt.Sprintf("; ranks %s share out %s, and input[%d] of %s differs between them, though they need the "+
				"same data", rankList(d.groups[0]), name, from.number, at(from.site.first(p.ranks)))
			reads := p.read(from.site)
			for o, e := range p.dims {
				if o != m && reads != nil && p.equal(o, p.column(reads, func(d *side) *array {
					return d.ins[from.number].array
				}), 0) {
					text += fmt.Sprintf(": ranks %s have the same", rankList(e.groups[0]))
				}
			}
			return text
		}
	}
	return ""
}
