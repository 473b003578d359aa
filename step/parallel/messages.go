package parallel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// calls that ranks exchange values by must be the same on all of them, in one order; departed finds the first that is
// not.
func (c *checker) departed() []*violation {
	ranks, calls := c.entries()
	for _, d := range collective.Departures(ranks, c.opt.Read) {
		return []*violation{{kind: "collective", call: calls[cmp.Or(d.Call, d.Usual)], ranks: d.Group,
			target: "input[0]", reason: d.Reason}}
	}
	return nil
}

// exchange are the recordings of one exchange by all its ranks, or of a message by the one that sends and the one that
// receives.
func (c *checker) exchange(call *step.Call) []*capture.Entry {
	if c.exchanges == nil {
		ranks, _ := c.entries()
		c.exchanges = collective.MatchAll(ranks, c.opt.Read)
	}
	if m := c.exchanges[call.Entry]; m.Exchange != nil {
		return m.Exchange.Calls
	}
	return nil
}

// entries are the recorded calls by rank, and whose they are.
func (c *checker) entries() (map[int][]*capture.Entry, map[*capture.Entry]*step.Call) {
	ranks, calls := map[int][]*capture.Entry{}, map[*capture.Entry]*step.Call{}
	for _, p := range c.trace.Processes {
		for _, call := range p.Calls {
			ranks[p.Rank] = append(ranks[p.Rank], call.Entry)
			calls[call.Entry] = call
		}
	}
	return ranks, calls
}

// messages checks the values that ranks send to each other: each is received, and the gradient of a value that was
// received goes back to the call that made it. Package step checks that what arrives is what was sent.
func (c *checker) messages() []*violation {
	m := c.mail()
	if v := lonely(m.sent, m.received); v != nil {
		return []*violation{v}
	}
	var passed []message
	for _, call := range m.ordered() {
		x := c.exchange(call)
		if len(x) != 2 || x[0] != call.Entry {
			continue
		}
		s, r := m.calls[x[0]], m.calls[x[1]]
		d, _ := c.message(s)
		e, _ := c.message(r)
		if d == nil || e == nil {
			continue
		}
		if a, b := d.ins[0].array, e.ins[0].array; len(a.x) != len(b.x) || a.dtype != b.dtype {
			return []*violation{{kind: "collective", call: r, ranks: []int{s.Process.Rank, r.Process.Rank},
				target: "input[0]", reason: fmt.Sprintf("rank %d sends %d elements of %s by %s, and rank %d receives "+
					"%d of %s", s.Process.Rank, len(a.x), a.dtype, at(s), r.Process.Rank, len(b.x), b.dtype)}}
		}
		passed = append(passed, message{s, r, s.Process.Rank, r.Process.Rank, d.ins[0].array, e.ins[0].address})
	}
	slices.SortFunc(passed, func(a, b message) int {
		return cmp.Or(a.sent.Entry.Order-b.sent.Entry.Order, a.from-b.from, a.to-b.to)
	})
	if v := c.returned(passed); v != nil {
		return []*violation{v}
	}
	return nil
}

// A mail is the calls that send and receive messages.
type mail struct {
	calls          map[*capture.Entry]*step.Call
	sent, received map[[2]int][]*step.Call // by the ranks that send and receive, where both were recorded whole
}

func (c *checker) mail() mail {
	m := mail{map[*capture.Entry]*step.Call{}, map[[2]int][]*step.Call{}, map[[2]int][]*step.Call{}}
	there := map[int]bool{}
	for _, p := range c.trace.Processes {
		there[p.Rank] = len(p.Calls) > 0 && p.Calls[0].Entry.Unended == ""
	}
	for _, p := range c.trace.Processes {
		for _, call := range p.Calls {
			if !messaging(call) {
				continue
			}
			m.calls[call.Entry] = call
			_, peer := c.message(call)
			if peer < 0 || !there[peer] || !there[p.Rank] || call.Entry.GroupName == "" {
				continue
			}
			if receives(call) {
				m.received[[2]int{peer, p.Rank}] = append(m.received[[2]int{peer, p.Rank}], call)
			} else {
				m.sent[[2]int{p.Rank, peer}] = append(m.sent[[2]int{p.Rank, peer}], call)
			}
		}
	}
	return m
}

// ordered are the calls, by rank and then in its order.
func (m mail) ordered() []*step.Call {
	return slices.SortedFunc(maps.Values(m.calls), func(a, b *step.Call) int {
		return cmp.Or(a.Process.Rank-b.Process.Rank, a.Entry.Order-b.Entry.Order)
	})
}

// messaging reports whether a call of the program itself sends or receives a message.
func messaging(call *step.Call) bool { return call.Entry.Within < 0 && messages(call) }

// messages reports whether a call passes a value between two ranks.
func messages(call *step.Call) bool {
	return slices.Contains([]string{"send", "isend", "recv", "irecv"}, collective.Name(call.Op))
}

// receives reports whether a call that is messaging receives.
func receives(call *step.Call) bool { return strings.HasSuffix(collective.Name(call.Op), "recv") }

// lonely finds two ranks of which one sends more messages than the other receives, or receives more.
func lonely(sent, received map[[2]int][]*step.Call) *violation {
	pairs := slices.Concat(slices.Collect(maps.Keys(sent)), slices.Collect(maps.Keys(received)))
	slices.SortFunc(pairs, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	for _, k := range pairs {
		s, r := sent[k], received[k]
		if len(s) == len(r) {
			continue
		}
		more, text := s, fmt.Sprintf("rank %d sends %d messages to rank %d, which receives %d", k[0], len(s), k[1],
			len(r))
		if len(r) > len(s) {
			more = r
		}
		call := more[min(len(s), len(r))]
		return &violation{kind: "collective", call: call, ranks: []int{k[0], k[1]}, target: "input[0]",
			reason: text + ": nothing answers " + at(call)}
	}
	return nil
}

// at is a call with its line.
func at(call *step.Call) string {
	if call.Entry.Location == "" {
		return call.String()
	}
	return call.String() + " (" + call.Entry.Location + ")"
}

// message reads a call that sends or receives, and finds the other rank; it is -1 if it is not known.
func (c *checker) message(call *step.Call) (d *side, peer int) {
	d, err := c.load(call)
	if err != nil || len(d.ins) != 1 {
		return nil, -1
	}
	if peer = collective.Peer(call.Entry, d.rec); peer < 0 {
		return nil, -1
	}
	return d, peer
}

// returned checks that the gradient of each value that was sent forward is the one that the receiver's calls gave.
func (c *checker) returned(there []message) *violation {
	for _, m := range there {
		made := c.maker(m)
		given := c.readers(m)
		if made == nil && given != nil && slices.ContainsFunc(there, func(o message) bool {
			return o.from == m.from && o.to == m.to && c.maker(o) != nil
		}) && c.made(m) {
			return &violation{kind: "collective", call: m.sent, ranks: []int{m.from, m.to}, target: "input[0]",
				reason: fmt.Sprintf("rank %d computes the gradient of what %s sent, and no backward pass of rank %d goes "+
					"on with it: a microbatch is lost", m.to, m.sent, m.from)}
		}
		if made == nil || given == nil || made.gradOuts[0] == nil || len(made.gradOuts[0].x) != len(given.x) {
			continue
		}
		if v := c.otherGradient(there, m, made, given); v != nil {
			return v
		}
	}
	return nil
}

// otherGradient says what is wrong with the gradient that the maker of a value got for it: it is another than the one
// that was given. It is nil if nothing is, or if it is not known what.
func (c *checker) otherGradient(there []message, m message, made *side, given *array) *violation {
	got := made.gradOuts[0]
	scale := max(got.largest(), given.largest())
	tolerance := max(1e-4, 16*got.dtype.Eps()) * scale
	if nearly(got.x, given.x, tolerance) {
		return nil
	}
	v := &violation{call: made.call, ranks: []int{m.from, m.to}, target: "grad_output[0]", backward: true}
	text := fmt.Sprintf("rank %d sent its result to rank %d by %s; the gradient that it gets is ", m.from, m.to, m.sent)
	if k, ok := got.ratio(given, max(1e-3, 16*got.dtype.Eps())); ok && integral(k, 1e-2) {
		v.kind, v.reason = "scale", text+fmt.Sprintf("%.4g times that of what rank %d made of it", k, m.to)
		return v
	}
	for _, o := range there {
		if o.sent == m.sent || o.from != m.from {
			continue
		}
		if other := c.readers(o); other != nil && len(other.x) == len(got.x) && nearly(got.x, other.x, tolerance) {
			v.kind, v.reason = "collective", text+fmt.Sprintf("that of what %s sent: microbatches were swapped", o.sent)
			return v
		}
	}
	if n, call := c.kept(there, m, got, given, tolerance); n > 0 {
		v.kind, v.reason = "collective", text+fmt.Sprintf("the sum of those of %d values that rank %d received: it "+
			"sends a gradient that adds up over microbatches and is not cleared", n+1, m.to)
		if call != nil {
			v.call, v.target, v.backward = call, "input[0]", false
			v.reason = fmt.Sprintf("rank %d sends back to rank %d the sum of the gradients of %d values that it "+
				"received, the last by %s: the gradient adds up over microbatches and is not cleared", m.to, m.from,
				n+1, m.received)
		}
		return v
	}
	return nil
}

// kept finds the messages before m whose gradients are in the one that came back for m, and the call that sent it.
func (c *checker) kept(there []message, m message, got, given *array, tolerance float64) (n int, sent *step.Call) {
	total := given
	for i := slices.IndexFunc(there, func(o message) bool { return o.sent == m.sent }) - 1; i >= 0; i-- {
		o := there[i]
		if o.from != m.from || o.to != m.to || len(o.value.x) != len(m.value.x) {
			continue
		}
		before := c.readers(o)
		if before == nil || len(before.x) != len(total.x) || o.value.near(m.value, 0) || before.largest() <= tolerance {
			return 0, nil
		}
		total = total.plus(before.reshaped(total.shape))
		if n++; !nearly(got.x, total.x, tolerance) {
			continue
		}
		for _, back := range there {
			if back.from == m.to && back.to == m.from && back.value.near(got.reshaped(back.value.shape), 0) {
				return n, back.sent
			}
		}
		return n, nil
	}
	return 0, nil
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

// made reports whether a recorded call made the value that was sent, from values that need gradients.
func (c *checker) made(m message) bool {
	p := m.sent.Process
	for i := m.sent.Order - 1; i >= 0; i-- {
		call := p.Calls[i]
		if len(call.Outputs) != 1 || !slices.Equal(call.Outputs[0].Shape, m.value.shape) ||
			!call.Outputs[0].RequiresGrad {
			continue
		}
		if d, err := c.load(call); err == nil && d.outs[0].near(m.value, 0) {
			return true
		}
	}
	return false
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
