package step

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/reports"
	found "github.com/optool/optool/reports/results"
)

// Seen says how much of a trace was looked at: an all-clear is worth no more.
type Seen struct {
	Calls  int `json:"calls"`
	Judged int `json:"judged"` // calls that replay decided about
	// Links are the inputs and the gradients of results that are no leaves. Proven are those whose producer is known,
	// by their elements or because the address tells equal values apart.
	Links     int `json:"links"`
	Proven    int `json:"proven"`
	ByContent int `json:"by_content"`
	ByAddress int `json:"by_address"`
	// ByContentOnly are further links, of inputs without recorded addresses: an older value may have been read.
	ByContentOnly int `json:"by_content_only,omitempty"`
	Leaves        int `json:"leaves"` // parameters, data and state
	// Unexplained are inputs that the program made or changed without a recorded call.
	Unexplained int `json:"unexplained"`
	LeftOut     int `json:"left_out,omitempty"` // captures that are no part of the step
	// Gaps say what was not judged and why, the largest first.
	Gaps []Gap `json:"gaps"`
}

// A Gap is something that could not be judged.
type Gap struct {
	N     int    `json:"n"`
	What  string `json:"what"`  // with the number: "3 calls were not judged: draws random numbers"
	First string `json:"first"` // the first call
}

// String is the gap with its first call.
func (g Gap) String() string { return g.What + " (first " + g.First + ")" }

// urgency orders gaps: 0 and 1 may be a fault that the recording does not prove, 2 are calls of operators that nobody
// knows, such as the program's own, 4 are values that were compared though little follows.
func (g Gap) urgency() int {
	switch {
	case strings.Contains(g.What, drewTheSame):
		return 0
	case strings.HasSuffix(g.What, innerUnlinked):
		return 1
	case strings.HasSuffix(g.What, derivativeRight):
		return 4
	case strings.Contains(g.What, " not judged: "+opdef.ErrUnknownOp.Error()):
		return 2
	case strings.HasSuffix(g.What, " not judged: zero on both sides"):
		return 4
	}
	return 3
}

// derivativeRight says of calls of an unknown operator what was compared.
const derivativeRight = ", but the gradients were compared and are the derivative of the calls that it made"

// partOfGradient is the gap of gradients that are not what the backward pass gave, as far as it was recorded.
const partOfGradient = "gradient%s read by an update, but not the sum of what the calls that read the parameter gave"

// innerUnlinked is the gap of gradients that no recorded gradient is: what gave them may have been changed on the way.
const innerUnlinked = " of inner nodes not linked to what gave them"

// All reports whether every call was judged and everything that was read is known.
func (s *Seen) All() bool { return len(s.Gaps) == 0 }

// Linked reports whether of every value that calls handed on it is known that it is the one that was made.
func (s *Seen) Linked() bool { return s.Proven == s.Links && s.Unexplained == 0 }

// Add adds what was seen of another trace.
func (s *Seen) Add(o *Seen) {
	s.Calls, s.Judged, s.Links, s.Proven = s.Calls+o.Calls, s.Judged+o.Judged, s.Links+o.Links, s.Proven+o.Proven
	s.ByContent, s.ByAddress = s.ByContent+o.ByContent, s.ByAddress+o.ByAddress
	s.ByContentOnly, s.Leaves = s.ByContentOnly+o.ByContentOnly, s.Leaves+o.Leaves
	s.Unexplained, s.LeftOut = s.Unexplained+o.Unexplained, s.LeftOut+o.LeftOut
	s.Gaps = append(s.Gaps, o.Gaps...)
}

// gaps counts what is missing, by kind.
type gaps struct {
	order []string
	by    map[string]*Gap
}

func (g *gaps) add(what string, c *Call) {
	if g.by[what] == nil {
		g.by[what] = &Gap{First: c.String()}
		g.order = append(g.order, what)
	}
	g.by[what].N++
}

// Seen counts what was judged and linked.
func (t *Trace) Seen() *Seen {
	s := &Seen{Gaps: []Gap{}}
	g := &gaps{by: map[string]*Gap{}}
	for _, c := range t.Calls() {
		s.Calls++
		if c.judged() {
			s.Judged++
			for _, r := range c.Results {
				if r.Verdict == verdict.Skipped || r.Verdict == verdict.Mistrusted || r.Verdict == verdict.Unsupported {
					g.add("value%s not judged: "+general(r.Reason), c)
				}
			}
		} else {
			why := general(c.unjudged())
			if c.ownRight {
				why += derivativeRight
			}
			g.add("call%s not judged: "+why, c)
		}
		for _, v := range slices.Concat(c.Inputs, c.GradOutputs) {
			s.link(v, g)
		}
		if c.lacksWeightGradient() {
			g.add("call%s without recorded weight gradients: faults there cannot be seen", c)
		}
	}
	for _, p := range t.Processes {
		redrawn := p.redrawn()
		for _, s := range p.Steps {
			for _, r := range redrawn[s].again {
				if r.follows == nil && !r.isFinding() {
					g.add(drewAgain, r.call)
				}
			}
			for _, r := range redrawn[s].before {
				if r.follows == nil && !r.isFinding() {
					g.add(r.drewBefore(), r.call)
				}
			}
		}
	}
	s.Proven = s.ByContent + s.ByAddress
	for _, what := range g.order {
		gap := g.by[what]
		plural := "s"
		if gap.N == 1 {
			plural = ""
		}
		gap.What = fmt.Sprintf("%d "+what, gap.N, plural)
		s.Gaps = append(s.Gaps, *gap)
	}
	slices.SortStableFunc(s.Gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(a.urgency(), b.urgency()), cmp.Compare(b.N, a.N))
	})
	for _, p := range t.Processes {
		if len(p.Steps) == 0 && !t.staged(p) {
			if c := p.firstUpdate(); c != nil {
				s.first("no loss was recorded, only what updates parameters (torch.compile may hide the calls before it): "+
					"gradients cannot be judged", c)
			}
		}
		if i := slices.IndexFunc(p.Calls, func(c *Call) bool { return c.Entry.Unended != "" }); i >= 0 {
			s.first("a recording is not whole: "+p.Calls[i].Entry.Unended, p.Calls[len(p.Calls)-1])
		}
	}
	s.Gaps = slices.Concat(t.Wrapped(), t.Unjoined, s.Gaps)
	s.leaveOut(t)
	s.Gaps = slices.Concat(t.Doubted(), s.Gaps)
	return s
}

// Wrapped are the functions of torch that the program wraps: only the calls inside were recorded and judged.
func (t *Trace) Wrapped() (all []Gap) {
	for _, c := range t.Calls() {
		for _, w := range found.Wrapped(c.Entry) {
			i := slices.IndexFunc(all, func(g Gap) bool { return g.What == w.String() })
			if i < 0 {
				i, all = len(all), append(all, Gap{What: w.String(), First: c.String()})
			}
			all[i].N++
		}
	}
	return all
}

// first puts a gap before all others.
func (s *Seen) first(what string, c *Call) {
	s.Gaps = slices.Insert(s.Gaps, 0, Gap{N: 1, What: what, First: c.String()})
}

// leaveOut puts the captures that are no part of the step before all other gaps.
func (s *Seen) leaveOut(t *Trace) {
	var all []Gap
	t.LeftOut(func(why string, e *capture.Entry) {
		s.LeftOut++
		i := slices.IndexFunc(all, func(g Gap) bool { return g.What == why })
		if i < 0 {
			i, all = len(all), append(all, Gap{What: why, First: e.Rel})
		}
		all[i].N++
	})
	for i := range all {
		all[i].What = reports.Count(all[i].N, "capture") + " left out of the step: " + all[i].What
	}
	s.Gaps = append(all, s.Gaps...)
}

// firstUpdate is the first call that writes a parameter in place, as optimizers do; nil if none does.
func (p *Process) firstUpdate() *Call {
	i := slices.IndexFunc(p.Calls, (*Call).updatesParameter)
	if i < 0 {
		return nil
	}
	return p.Calls[i]
}

// Piecewise is the first of several calls, such as mul_ and addcdiv_, that update a parameter together; nil if there is
// none. Each call is judged by itself. Whether they are the rule of an optimizer is not judged.
func (t *Trace) Piecewise() *Call {
	for _, c := range t.Calls() {
		basic := strings.HasPrefix(c.Op, "torch.Tensor.") || strings.HasPrefix(c.Op, "torch._foreach_")
		if basic && c.outer == nil && c.phase()%2 == 1 && c.judged() && c.updatesParameter() &&
			!slices.ContainsFunc(c.Inputs, (*Value).refilled) {
			return c
		}
	}
	return nil
}

// turns reports whether a result is a view of an argument with other strides, such as a transposed square matrix: its
// elements differ in order, and none was written.
func (c *Call) turns(v *Value) bool {
	return v.after == nil && slices.ContainsFunc(c.Outputs, func(o *Value) bool {
		return o.Address == v.Address && !slices.Equal(o.Stride, v.Stride)
	})
}

// link counts what is known of where a value came from.
func (s *Seen) link(v *Value, g *gaps) {
	unaddressed := v.Kind == inputKind && v.Address == 0 && v.Numel() > 0
	if unaddressed {
		g.add("value%s read without a recorded address: a stale or changed value cannot be seen", v.Call)
	}
	if v.uncompared {
		g.add(partOfGradient, v.Call)
	}
	switch from := v.From; {
	case v.lacks:
		s.Links++
		g.add("gradient%s of an update without that of a loss before: set to zero, or lost", v.Call)
	case v.kept:
		s.Links++
		g.add("gradient%s of parameters that no recorded call updates: earlier backward passes may have added to them",
			v.Call)
	case from.How == IsLeaf && from.Role == "inner":
		s.Links++
		g.add("gradient%s"+innerUnlinked, v.Call)
	case from.How == IsLeaf, v.readAtFirst():
		s.Leaves++
	case from.How == IsOutside && !from.unknown():
		s.Links++
		s.ByContent++
	case from.How == IsOutside && from.Role == "collective":
		s.Links++
		g.add("value%s not linked: a collective call made them", v.Call)
	case from.How == IsOutside:
		s.Links++
		s.Unexplained++
		g.add("value%s made or changed by calls that were not recorded", v.Call)
	case from.unsure:
		s.Links++
		g.add("value%s not compared with what calls wrote to parts of the memory", v.Call)
	case from.How == ByStorage:
		s.Links++
		s.ByAddress++
	case unaddressed:
		s.Links++
		s.ByContentOnly++
	default:
		s.Links++
		s.ByContent++
	}
}

// readAtFirst reports whether v comes from outside and is read before any call gives a tensor, by a call that gives
// none. A program that begins with print(loss.item()) reads the loss of the step before so.
func (v *Value) readAtFirst() bool {
	if v.From.How != IsOutside {
		return false
	}
	gives := func(c *Call) bool { return len(c.Outputs) > 0 }
	return !slices.ContainsFunc(v.Call.Process.Calls[:v.Call.Order+1], gives)
}

var similarOps = lazyregexp.New(`; known: .*`)

// general is a reason without its words about one single call, and without verbs of fmt.
func general(reason string) string {
	if strings.Contains(reason, "zero on both sides") {
		return "zero on both sides"
	}
	return strings.ReplaceAll(similarOps().ReplaceAllString(reason, ""), "%", "%%")
}

// unjudged says why replay did not decide about a call.
func (c *Call) unjudged() string {
	for _, r := range c.Results {
		if r.Reason != "" && r.Verdict == c.Verdict {
			return r.Reason
		}
	}
	return cmp.Or(c.Failed, "nothing to compare")
}

// lacksWeightGradient reports whether a call took part in the backward pass and read a parameter whose gradient is not
// among those that were recorded.
func (c *Call) lacksWeightGradient() bool {
	return c.HasBackward() && slices.ContainsFunc(c.Inputs, func(v *Value) bool {
		return v.RequiresGrad && v.From.Role == "parameter" && !c.hasGradient(v)
	})
}

// String is the count in a sentence.
func (s *Seen) String() string {
	only := ""
	if s.ByContentOnly > 0 {
		only = fmt.Sprintf(", %d known by content only", s.ByContentOnly)
	}
	judged := fmt.Sprintf("%d of %s judged", s.Judged, reports.Count(s.Calls, "call"))
	if n := s.Calls - s.Judged; n > 0 {
		judged = fmt.Sprintf("%d of %s not judged", n, reports.Count(s.Calls, "call"))
	}
	if s.LeftOut > 0 {
		judged += fmt.Sprintf(", %s left out of the step", reports.Count(s.LeftOut, "capture"))
	}
	return fmt.Sprintf("%s, %d of %s proven (by content %d, by address %d)%s, %s, %d unexplained", judged, s.Proven,
		reports.Count(s.Links, "link"), s.ByContent, s.ByAddress, only, leavesCount(s.Leaves), s.Unexplained)
}

func leavesCount(n int) string {
	if n == 1 {
		return "1 leaf"
	}
	return fmt.Sprintf("%d leaves", n)
}

// staged reports whether a process is a stage of a pipeline whose loss another one computes: its calls have gradients.
func (t *Trace) staged(p *Process) bool {
	return slices.ContainsFunc(p.Calls, (*Call).HasBackward) &&
		slices.ContainsFunc(t.Processes, func(q *Process) bool { return len(q.Steps) > 0 })
}
