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
	// rounded counts the calls that differ, where all of them differ by no more than rounding of the dtype unit.
	rounded int
	unit    tensor.DType
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
// that differs is within rounding of what it should give.
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
		if differing++; reports.NewFinding(judged[i].results).Wrong() || c.pair.B == nil || !h.within(c.pair.A) ||
			!h.within(c.pair.B) {
			return
		}
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

// String says that the recordings differ only by rounding; "" if it is not known.
func (h *holder) String() string {
	if h.rounded == 0 {
		return ""
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
