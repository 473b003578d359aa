package step

import (
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// collective is the name of a call between processes, without its module; "" of
// any other call.
func (c *Call) collective() string { return collective.Name(c.Op) }

// findExchanges notes whether the process exchanges values with other ranks.
func (p *Process) findExchanges() {
	p.exchanges = slices.ContainsFunc(p.Calls, func(c *Call) bool { return c.collective() != "" })
}

// outsideBy is the link to what another process may have changed through a call.
func outsideBy(c *Call) (Link, bool) {
	return Link{How: IsOutside, Role: "collective"}, c.collective() != ""
}

// exchanged are the addresses of what collectives write: after one that runs asynchronously, what was recorded of a
// value may be older than what its readers see.
func (p *Process) exchanged() map[uint64]bool {
	at := map[uint64]bool{}
	for _, c := range p.Calls {
		if c.collective() == "" {
			continue
		}
		for _, v := range c.Inputs {
			if v.Address != 0 {
				at[v.Address] = true
			}
		}
	}
	return at
}

// checkExchanges compares what the ranks of each group got with what they put in, and fails the calls that got
// something else. A call that replay skipped, since other processes decide its result, says why it cannot be judged.
func (t *Trace) checkExchanges(opt Options) {
	ranks, calls := map[int][]*capture.Entry{}, map[*capture.Entry]*Call{}
	for _, p := range t.Processes {
		if ranks[p.Rank] != nil || p.Rank < 0 {
			return // of two runs, or nobody knows which is which
		}
		ranks[p.Rank] = []*capture.Entry{}
		for _, c := range p.Calls {
			ranks[p.Rank] = append(ranks[p.Rank], c.Entry)
			calls[c.Entry] = c
		}
	}
	t.exchanges = collective.MatchAll(ranks, opt.Read)
	for _, p := range t.Processes {
		for _, c := range p.Calls {
			m, ok := t.exchanges[c.Entry]
			switch {
			case !ok:
			case m.Exchange == nil:
				c.undecided(m.Why)
			case m.At == 0 && len(m.Exchange.Calls) > 1: // replay judged those of one rank
				// What cannot be read has a verdict that says so.
				_ = opt.within(c, "what the ranks got was not compared", func(opt Options) error {
					return checkExchange(m.Exchange, calls, opt)
				})
			}
		}
	}
}

// Exchange lists the recordings by which a call is judged: its own, or those of all ranks of a collective.
func (t *Trace) Exchange(c *Call) []*capture.Entry {
	if m := t.exchanges[c.Entry]; m.Exchange != nil {
		return m.Exchange.Calls
	}
	return []*capture.Entry{c.Entry}
}

func checkExchange(x *collective.Exchange, calls map[*capture.Entry]*Call, opt Options) error {
	at := make([]int, len(x.Calls))
	for i := range at {
		at[i] = i
	}
	settled := func(e *capture.Entry) []*tensor.Tensor { return calls[e].Settled(opt) }
	judgements, err := x.Judge(opt.Read, settled, at...)
	if err != nil {
		return err
	}
	for i, j := range judgements {
		c := calls[x.Calls[i]]
		if j.Why == "" {
			c.decide()
			for _, w := range c.waits() {
				w.decide()
			}
		} else {
			c.undecided(j.Why)
		}
		for _, v := range j.Values {
			if v.Reason != "" {
				c.Verdict = verdict.Fail
				c.Results = append(c.Results,
					Result{Phase: replay.Forward, Target: v.Target, Verdict: verdict.Fail, Reason: v.Reason})
				break
			}
		}
	}
	return nil
}

// Settled is what the readers of an asynchronous collective find in its arguments, or as the result of a functional
// one: nil for what no recorded call read before it was written again.
func (c *Call) Settled(opt Options) []*tensor.Tensor {
	vs := c.Inputs
	if functional(c) {
		vs = c.Outputs
	}
	out := make([]*tensor.Tensor, len(vs))
	for i, v := range vs {
		if w := v.readAfter(); w != nil {
			if t, err := w.Recorded(Options{Options: opt.Options}); err == nil {
				out[i] = t
			}
		}
	}
	return out
}

// readAfter is the first value other than v that a later call found where v lies, v again if none did until the memory
// was written, or what wait_tensor returned there; nil if nobody read there. Calls before the wait find v. The result
// of a functional collective is there when a call reads its elements, as calls that return views of it do not: what
// lies there later can be another value.
func (v *Value) readAfter() (waited *Value) {
	if v.Address == 0 {
		return nil
	}
	complete := false // after wait_tensor
	from, to := v.Call.accumulates()
	for _, c := range v.Call.Process.Calls[v.Call.Order+1:] {
		behind := c.phase()%2 == 1 && v.Call.phase()%2 == 1
		if at := c.Entry.Order; from < at && at < to || behind && c.Step != v.Call.Step {
			return waited // behind another loss it is a gradient of that
		}
		switch name := c.collective(); {
		case name == "wait_tensor":
			for _, w := range c.Outputs {
				if w.Address == v.Address && w.like(v) {
					waited, complete = w, true
				}
			}
			continue
		case name != "":
			if slices.ContainsFunc(c.Inputs, func(w *Value) bool { return w.Address == v.Address }) && !functional(c) {
				return waited // it may write there
			}
			continue
		}
		there := slices.ContainsFunc(c.Outputs, func(w *Value) bool {
			return w.Address < v.end() && v.Address < w.end()
		})
		view := there && !c.writes && functional(v.Call)
		for _, w := range c.Inputs {
			if w.Address != v.Address || !w.like(v) {
				continue
			}
			if complete || w.content.sum != v.content.sum || !view && functional(v.Call) {
				return w
			}
			if !view {
				waited = w
			}
		}
		if there && !view {
			return waited
		}
	}
	return waited
}

// accumulates is between which places in the order of execution autograd may have added gradients, in place, to what a
// call of the backward pass left: behind the backward pass of another call, up to the last one.
func (c *Call) accumulates() (from, to int) {
	from, to = 1<<62, -1
	for _, o := range c.Process.Calls {
		if b := o.Entry.BackwardOrder; b > c.Entry.Order {
			from = min(from, b)
		}
		to = max(to, o.Entry.BackwardOrder)
	}
	return from, to
}

// waits are the calls that only wait for the result of a functional collective, or wrap it.
func (c *Call) waits() (out []*Call) {
	if !functional(c) || len(c.Outputs) == 0 {
		return nil
	}
	o := c.Outputs[0]
	for _, w := range c.Process.Calls[c.Order+1:] {
		name := w.collective()
		if name != "wait_tensor" && name != "wrap_tensor_autograd" {
			continue
		}
		there := func(v *Value) bool { return v.Address == o.Address }
		if slices.ContainsFunc(w.Inputs, there) || slices.ContainsFunc(w.Outputs, there) {
			out = append(out, w)
			if name == "wait_tensor" {
				break
			}
		}
	}
	return out
}

func functional(c *Call) bool { return strings.Contains(c.Op, "c10d_functional") }

// decide takes a call that replay skipped, since other processes decide its result, for judged.
func (c *Call) decide() {
	if c.Verdict == verdict.Skipped {
		c.Verdict, c.Results = verdict.Pass, nil
	}
}

// undecided says why a call that replay skipped cannot be judged.
func (c *Call) undecided(why string) {
	for i := range c.Results {
		if c.Results[i].Verdict == verdict.Skipped {
			c.Results[i].Reason = why
		}
	}
}
