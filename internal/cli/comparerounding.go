package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/results"
	"github.com/optool/optool/step/pairs"
)

// A holder holds back the pairs of two recordings until it is known whether these differ, and whether they have
// different precisions, and judges them then: also those that are the same on both sides, which may be wrong.
type holder struct {
	two          bool
	next         func(compared) error
	undetermined pairs.Undetermined
	precision    pairs.Precision
	rounding     *pairs.Rounding
	held         []compared
	differs      bool
	unread       bool // a pair could not be read: what it gave may be why others differ
	whole        bool // all pairs were judged, and no difference is left
}

// mostPairs bounds the memory of a holder: so many pairs without another dtype have one precision.
var mostPairs = 20_000

func (h *holder) add(c compared) error {
	if !h.two {
		return h.next(c)
	}
	h.undetermined.Look(c.pair, c.results, c.apart)
	h.precision.Look(c.results, c.apart)
	l := c.looked()
	h.differs = h.differs || l.Differs()
	h.unread = h.unread || slices.ContainsFunc(c.results, func(r *reports.Result) bool {
		return r.Verdict == verdict.Error || r.Verdict == verdict.Invalid
	})
	h.held = append(h.held, c)
	if !h.precision.Known() && len(h.held) < mostPairs {
		return nil
	}
	return h.release()
}

func (c *compared) looked() *pairs.Looked {
	return &pairs.Looked{Pair: c.pair, Results: c.results, Apart: c.apart}
}

// end releases the pairs that are held at the end of the recordings.
func (h *holder) end() error {
	if h.two && h.differs && !h.unread && !h.precision.Known() && len(h.held) < mostPairs {
		var all []pairs.Looked
		for _, c := range h.held {
			all = append(all, *c.looked())
		}
		h.rounding.Explain(all)
		h.whole = true
		for _, c := range h.held {
			f := reports.NewFinding(c.results)
			h.whole = h.whole && !f.Wrong() && f.WrongIn() == ""
		}
	}
	return h.release()
}

func (h *holder) release() error {
	for _, c := range h.held {
		h.precision.Explain(c.pair, c.results, c.apart)
		if h.precision.Known() {
			h.rounding.Besides(c.looked(), c.judged)
		}
		if err := h.next(c); err != nil {
			return err
		}
	}
	h.held = nil
	return nil
}

// says that the recordings of these names differ only by rounding, or that they do up to the place where they part; ""
// if it is not known. alone counts the calls that only one of them has.
func (h *holder) says(names []string, first *reports.Place, alone [2]int) string {
	x := h.rounding
	compared, rest := "The recordings differ", ""
	if alone != [2]int{} {
		compared, rest = "The calls of both recordings differ", " "+onlyIn(names, alone)+": not compared."
	}
	var parts []string
	switch {
	case x.Excused > 0 && h.whole:
		return fmt.Sprintf("%s only by rounding of %s: %s, and in both recordings each of them is "+
			"within rounding of what it should give.%s", compared, x.Unit, differ(x.Excused), rest)
	case x.Excused > 0 && first != nil:
		parts = append(parts, fmt.Sprintf("Before the first finding %s by no more than rounding of %s.",
			differ(x.Excused), x.Unit))
	case x.Excused > 0:
		parts = append(parts, fmt.Sprintf("%s by no more than rounding of %s.", differ(x.Excused), x.Unit))
	}
	if n := len(x.Unjudged); n > 0 {
		parts = append(parts, fmt.Sprintf("%s no more than what they read, but could not be judged: %s%s.", differ(n),
			strings.Join(x.Unjudged[:min(n, 3)], ", "), furtherOnes(n-3)))
	}
	if first != nil {
		switch in := x.WrongIn(*first); len(in) {
		case 1:
			parts = append(parts, fmt.Sprintf("The first finding is wrong in %s, not in %s.", names[in[0]],
				names[1-in[0]]))
		case 2:
			parts = append(parts, "The first finding is wrong in both recordings.")
		}
	}
	return strings.Join(parts, " ")
}

// onlyIn counts the calls that only one of two recordings of these names has.
func onlyIn(names []string, alone [2]int) string {
	return fmt.Sprintf("%s in %s only, %d in %s only", reports.Count(alone[0], "call"), names[0], alone[1], names[1])
}

func furtherOnes(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

func differ(n int) string {
	if n == 1 {
		return "1 call differs"
	}
	return fmt.Sprintf("%d calls differ", n)
}

// explain lets a finding look for what went wrong in its call, if that is wrong by itself: in the recording that has it
// wrong, the new one if both do.
func (r *compareRun) explain(p pairs.Pair, f *reports.Finding, x *pairs.Rounding) {
	for _, res := range f.Results {
		if in := x.WrongIn(reports.Place{Capture: res.Capture, Target: res.Target}); len(in) > 0 {
			f.Explain = func(until time.Time, turn reports.Turn) reports.Explained {
				return r.explained(p, in[0], until, turn)
			}
			return
		}
	}
}

// explained looks for what went wrong in the call of a pair, in one of the recordings, until a time.
func (r *compareRun) explained(p pairs.Pair, in int, until time.Time, turn reports.Turn) reports.Explained {
	e := []*capture.Entry{p.A, p.B}[in]
	seek := strings.Join(r.o.command("explain", quotePath(pathOf(e))), " ")
	if r.searches.spent(turn) {
		return reports.Explained{Unsought: true, Seek: seek}
	}
	x, err := within(r.ctx, r.o.clock.limits.by(until), e.Bytes(), func() (x reports.Explained, _ error) {
		call := replay.Open(e, replay.Options{Registry: r.a.known(), Read: r.o.read})
		defer call.Close()
		err := r.searches.explain(r.ctx, r.paths[in:in+1], e, call, call.Compare(), until, turn, &x)
		return x, err
	})
	x.Seek = seek
	x.Short = x.Short || err != nil
	for i := range x.Causes {
		c := &x.Causes[i]
		if c.Capture = p.A.Rel; in == 1 {
			c.Text += " (in the old recording)"
		}
	}
	return x
}

// skipOthers skips the gradients of a pair that differ if op_tools recorded those of another operator: no value of the
// call is wrong then. replay of the first side knows it.
func (r *compareRun) skipOthers(e *capture.Entry, found []*reports.Result) {
	isGradient := func(res *reports.Result) bool { return res.Phase == string(replay.Backward) }
	if !slices.ContainsFunc(found, func(res *reports.Result) bool { return isGradient(res) && res.Verdict.Differs() }) {
		return
	}
	out, err := r.replayed(e)
	if err != nil || !slices.ContainsFunc(out.Results, func(res replay.Result) bool {
		return res.Phase == replay.Backward && res.Verdict == verdict.Skipped && res.Reason == verdict.GradOfAnotherOp
	}) {
		return
	}
	for _, res := range found {
		if isGradient(res) && res.Verdict.Differs() {
			res.Verdict, res.Reason = verdict.Skipped, verdict.GradOfAnotherOp
		}
	}
}

// replayed is what replay finds in a call.
func (r *compareRun) replayed(e *capture.Entry) (*replay.Outcome, error) {
	return within(r.ctx, r.o.clock.limits, 0, func() (*replay.Outcome, error) {
		return replay.Run(e, replay.Options{Registry: r.a.known(), Read: r.o.read}), nil
	})
}

// judged says which results and gradients of a recorded call are within rounding of what they should be.
func (r *compareRun) judged(e *capture.Entry) pairs.Judgement {
	out, err := r.replayed(e)
	j := pairs.Judgement{Right: map[pairs.ValueName]bool{}, Wrong: map[pairs.ValueName]string{},
		Of: map[pairs.ValueName][2]string{}, Extent: map[pairs.ValueName]reports.Extent{}}
	if err != nil {
		return j
	}
	found := results.OfReplay(e, out, "", "").Results
	for i, res := range out.Results {
		at := pairs.ValueName{string(res.Phase), res.Target}
		if res.Phase == replay.Backward {
			j.Of[at] = [2]string{res.Argument, res.Parameter}
		}
		switch {
		case res.Verdict.Differs():
			j.Wrong[at], j.Extent[at] = res.Reason, found[i].Extent()
		case res.Compared != nil && res.Verdict != verdict.Unsupported, res.Verdict == verdict.Pass: // random numbers
			j.Right[at], j.Extent[at] = true, reports.Extent{}
		}
	}
	return j
}
