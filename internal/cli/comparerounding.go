package cli

import (
	"fmt"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step/pairs"
	"github.com/optool/optool/tensor"
)

// A holder holds back the pairs of two recordings from the first difference on until it is known whether the
// recordings have different precisions, and judges them then.
type holder struct {
	two       bool
	next      func(compared) error
	precision pairs.Precision
	held      []compared
	differs   bool
	// within reports whether a recorded call is within rounding of what it should give.
	within func(e *capture.Entry) bool
	// rounded counts the calls that differ by no more than rounding of the dtype unit: all that differ, or those before
	// a call that is wrong.
	rounded int
	unit    tensor.DType
	wrong   []int // the recordings, of 0 and 1, in which that call is wrong
}

// mostPairs bounds the memory of a holder: so many pairs without another dtype have one precision.
const mostPairs = 20_000

func (h *holder) add(c compared) error {
	if !h.two {
		return h.next(c)
	}
	h.precision.Look(c.results, c.apart)
	h.differs = h.differs || reports.NewFinding(c.results).Wrong()
	h.held = append(h.held, c)
	if h.differs && !h.precision.Known() && len(h.held) < mostPairs {
		return nil
	}
	return h.release()
}

// end releases the pairs that are held at the end of the recordings.
func (h *holder) end() error {
	if h.two && h.differs && !h.precision.Known() && len(h.held) < mostPairs {
		h.round()
	}
	return h.release()
}

func (h *holder) release() error {
	for _, c := range h.held {
		h.precision.Explain(c.pair, c.results, c.apart)
		if err := h.next(c); err != nil {
			return err
		}
	}
	h.held = nil
	return nil
}

// round lets the differences of two recordings of one precision pass, if rounding explains all of them: no value is
// further apart than the inputs of its call and the precision of its dtypes explain, and in both recordings each call
// that differs is within rounding of what it should give. If a call is not, those before it pass.
func (h *holder) round() {
	unit := tensor.Invalid
	for _, c := range h.held {
		for _, r := range c.results {
			d := c.apart[r]
			if d != nil && d.DTypes[0].IsFloat() && (unit == tensor.Invalid || d.DTypes[0].Eps() > unit.Eps()) {
				unit = d.DTypes[0]
			}
		}
	}
	if unit == tensor.Invalid {
		return
	}
	p := pairs.Precision{Fine: unit, Coarse: unit}
	judged, differing, made := make([]compared, len(h.held)), 0, unit.Eps()/2
	for i, c := range h.held {
		if !given(c, made) {
			return
		}
		for _, r := range c.results {
			if d := c.apart[r]; d != nil && r.Phase == "forward" {
				made = max(made, d.Relative)
			}
		}
		wrong := reports.NewFinding(c.results).Wrong()
		judged[i] = copied(c)
		p.Explain(c.pair, judged[i].results, judged[i].apart)
		if !wrong {
			continue
		}
		if c.pair.B == nil {
			return
		}
		for side, e := range []*capture.Entry{c.pair.A, c.pair.B} {
			if !h.within(e) {
				h.wrong = append(h.wrong, side)
			}
		}
		if h.wrong != nil {
			copy(h.held, judged[:i])
			h.rounded, h.unit = differing, unit
			return
		}
		if reports.NewFinding(judged[i].results).Wrong() {
			return
		}
		differing++
	}
	h.held, h.rounded, h.unit = judged, differing, unit
}

// mostGrown is how many times as far apart as all results before it an input may be: it may be a part of one.
const mostGrown = 8

// given reports whether no input of a pair is further apart than the results before it explain, which are made apart at
// the most. Else another value was read, or something wrote that was not compared, such as an optimizer.
func given(c compared, made float64) bool {
	for _, r := range c.results {
		if r.Phase != "input" {
			return true
		}
		if d := c.apart[r]; r.Verdict.Differs() && (d == nil || !(d.Relative <= mostGrown*made)) {
			return false
		}
	}
	return true
}

// copied is a pair whose results can be judged anew.
func copied(c compared) compared {
	results, apart := make([]*reports.Result, len(c.results)), map[*reports.Result]*pairs.Difference{}
	for i, r := range c.results {
		same := *r
		results[i] = &same
		if d := c.apart[r]; d != nil {
			apart[&same] = d
		}
	}
	c.results, c.apart = results, apart
	return c
}

// says that the recordings of these names differ only by rounding, or where they do; "" if it is not known.
func (h *holder) says(names []string) string {
	switch {
	case h.rounded == 0:
		return ""
	case h.wrong != nil:
		in := names[h.wrong[0]] + ", not in " + names[1-h.wrong[0]]
		if len(h.wrong) == 2 {
			in = "both recordings"
		}
		return fmt.Sprintf("Before the first finding %s by no more than rounding of %s. The first finding is wrong in %s.",
			differ(h.rounded), h.unit, in)
	}
	return fmt.Sprintf("The recordings differ only by rounding of %s: %s, and in both recordings each of them is within "+
		"rounding of what it should give.", h.unit, differ(h.rounded))
}

func differ(n int) string {
	if n == 1 {
		return "1 call differs"
	}
	return fmt.Sprintf("%d calls differ", n)
}

// rounds reports whether the results and the gradients of a recorded call are within rounding of what they should be.
func (r *compareRun) rounds(e *capture.Entry) bool {
	out := replay.Run(e, replay.Options{Registry: r.a.known(), Read: r.o.read})
	compared := false
	for _, res := range out.Results {
		if res.Verdict.Differs() || res.Compared == nil && res.Verdict != verdict.Skipped {
			return false
		}
		compared = compared || res.Compared != nil
	}
	return compared
}
