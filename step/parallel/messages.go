package parallel

import (
	"fmt"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/step"
)

// A message is a value that one rank sent to another.
type message struct {
	sent, received *step.Call
	from, to       int
	value          *array
	address        uint64 // of the value where it was received
}

// messages checks the values that ranks send to each other: the gradient of a value that was received goes back to the
// call that made it. Package step checks that what arrives is what was sent.
func (c *checker) messages() []*violation {
	sent, received := map[[2]int][]message{}, map[[2]int][]message{}
	for _, p := range c.trace.Processes {
		for _, call := range p.Calls {
			name := collective.Name(call.Op)
			if call.Entry.Within >= 0 || !slices.Contains([]string{"send", "isend", "recv", "irecv"}, name) {
				continue
			}
			d, peer := c.message(call)
			if d == nil || peer < 0 {
				continue
			}
			if name == "send" || name == "isend" {
				k := [2]int{p.Rank, peer}
				sent[k] = append(sent[k], message{sent: call, from: p.Rank, to: peer, value: d.ins[0].array})
				continue
			}
			k := [2]int{peer, p.Rank}
			received[k] = append(received[k], message{received: call, from: peer, to: p.Rank,
				address: d.ins[0].address})
		}
	}
	var there []message
	for k, list := range sent {
		if len(received[k]) != len(list) {
			continue // part of it was not recorded
		}
		for i, m := range list {
			r := received[k][i]
			m.received, m.address = r.received, r.address
			there = append(there, m)
		}
	}
	slices.SortFunc(there, func(a, b message) int { return a.sent.Entry.Order - b.sent.Entry.Order })
	if v := c.returned(there); v != nil {
		return []*violation{v}
	}
	return nil
}

// message reads a call that sends or receives, and finds the other rank; it is -1 if it is not known.
func (c *checker) message(call *step.Call) (d *side, peer int) {
	d, err := c.load(call)
	if err != nil || len(d.ins) != 1 {
		return nil, -1
	}
	for _, name := range []string{"dst", "src", "group_dst", "group_src"} {
		if v, ok := d.rec.Kwargs.Get(name); ok && v != nil {
			if n, ok := v.(int64); ok {
				return d, int(n)
			}
		}
	}
	if len(d.rec.Args) > 1 {
		if n, ok := d.rec.Args[1].(int64); ok {
			return d, int(n)
		}
	}
	return nil, -1
}

// returned checks that the gradient of each value that was sent forward is the one that the receiver's calls gave.
func (c *checker) returned(there []message) *violation {
	for _, m := range there {
		made := c.maker(m)
		given := c.readers(m)
		if made == nil || given == nil || made.gradOuts[0] == nil || len(made.gradOuts[0].x) != len(given.x) {
			continue
		}
		got := made.gradOuts[0]
		scale := max(got.largest(), given.largest())
		if nearly(got.x, given.x, max(1e-4, 16*got.dtype.Eps())*scale) {
			continue
		}
		for _, o := range there {
			if o.sent == m.sent || o.from != m.from {
				continue
			}
			if other := c.readers(o); other != nil && len(other.x) == len(got.x) &&
				nearly(got.x, other.x, max(1e-4, 16*got.dtype.Eps())*scale) {
				return &violation{kind: "collective", call: made.call, ranks: []int{m.from, m.to},
					target: "grad_output[0]", backward: true,
					reason: fmt.Sprintf("rank %d sent its result to rank %d by %s; the gradient that it gets is "+
						"that of what %s sent: "+
						"microbatches were swapped", m.from, m.to, m.sent, o.sent)}
			}
		}
	}
	return nil
}

// maker is the call whose result was sent, with its gradient; nil if there is none.
func (c *checker) maker(m message) *side {
	p := m.sent.Process
	for i := m.sent.Order - 1; i >= 0; i-- {
		call := p.Calls[i]
		if !call.Entry.Files.Has(capture.GradOutputs) || len(call.Outputs) != 1 ||
			!slices.Equal(call.Outputs[0].Shape, m.value.shape) {
			continue
		}
		if d, err := c.load(call); err == nil && d.outs[0].near(m.value, 0) && d.gradOuts[0] != nil {
			return d
		}
	}
	return nil
}

// readers adds up the gradients of a value that was received; nil if some are not known.
func (c *checker) readers(m message) (total *array) {
	p := m.received.Process
	for _, call := range p.Calls[m.received.Order+1:] {
		if !call.Entry.Files.Has(capture.GradInputs) {
			continue
		}
		for i, v := range call.Inputs {
			if v.Address != m.address || v.Address == 0 || !slices.Equal(v.Shape, m.value.shape) {
				continue
			}
			d, err := c.load(call)
			if err != nil || i >= len(d.ins) || !d.ins[i].array.near(m.value, 0) {
				continue
			}
			if d.gradIns[i] == nil {
				return nil
			}
			if total == nil {
				total = d.gradIns[i]
			} else if len(total.x) == len(d.gradIns[i].x) {
				total = total.plus(d.gradIns[i].reshaped(total.shape))
			}
		}
	}
	return total
}
