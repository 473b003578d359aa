package reports

import (
	"encoding/json"
	"fmt"
	"math"
)

// farWorse is how many times worse a wrong value gets before it counts as another failure: other random data of the
// same mistake seldom change it by that much.
const farWorse = 10

// toldWorse is from how many times worse on the reader is told.
const toldWorse = 1.5

// An Extent is how wrong a value is. Numbers that are not known are 0.
type Extent struct {
	ratio  float64 // error of the worst element over its bound
	abs    float64 // largest absolute error
	share  float64 // of the elements that are wrong
	broken bool    // the worst element is infinite or NaN, and should not be, or the other way round
}

// Extent is how wrong r is, or how far apart its two sides are.
func (r *Result) Extent() Extent {
	actual, expected := isFinite(r.Actual), isFinite(r.Expected)
	return Extent{ratio: positive(r.BoundRatio), abs: positive(r.MaxAbs), share: r.wrongShare(),
		broken: actual != nil && expected != nil && *actual != *expected}
}

// BySelf says of a value of two recordings how wrong it is by itself in the new one, which is 0 if it is right there.
func (r *Result) BySelf(e Extent) { r.bySelf = &e }

// extent is how wrong r is: by itself if it is of two recordings, where nothing else is said about that.
func (r *Result) extent() Extent {
	switch {
	case r.bySelf != nil:
		return *r.bySelf
	case r.WrongIn != "":
		return Extent{}
	}
	return r.Extent()
}

// worse is how wrong the worse of two values is, measure by measure.
func (e Extent) worse(f Extent) Extent {
	return Extent{max(e.ratio, f.ratio), max(e.abs, f.abs), max(e.share, f.share), e.broken || f.broken}
}

// positive is a number that is finite and above 0, 0 for others.
func positive(n *Number) float64 {
	if n == nil || !(*n > 0) || math.IsInf(float64(*n), 0) {
		return 0
	}
	return float64(*n)
}

// wrongShare is the share of the elements that are wrong, 0 if it is not known.
func (r *Result) wrongShare() float64 {
	if r.Mismatch == nil || r.Numel == nil || *r.Numel == 0 {
		return 0
	}
	return float64(*r.Mismatch) / float64(*r.Numel)
}

// isFinite reports whether a recorded number is finite, nil of what is no number.
func isFinite(raw json.RawMessage) *bool {
	n, ok := valueCell(raw).(float64)
	if !ok {
		return nil
	}
	finite := !math.IsNaN(n) && !math.IsInf(n, 0)
	return &finite
}

// timesWorse is how many times as wrong r is as a value was: infinitely where only r has infinities or NaN that should
// not be there, 0 if it cannot be told. Two measures of the error must agree. The ratio to the bound is arbitrary where
// the right value is almost zero, and the absolute error follows the size of the data.
func (r *Result) timesWorse(was Extent) float64 { return r.Extent().timesWorse(was) }

// timesWorse is the same of how wrong a value is now.
func (now Extent) timesWorse(was Extent) float64 {
	times := 0.0
	for _, m := range [][2]float64{{was.ratio, now.ratio}, {was.abs, now.abs}} {
		if m[0] > 0 && m[1] > 0 && (times == 0 || m[1]/m[0] < times) {
			times = m[1] / m[0]
		}
	}
	if was.share > 0 {
		times = max(times, now.share/was.share)
	}
	if now.broken && !was.broken {
		times = math.Inf(1)
	}
	return times
}

// worseText says how much worse a value is, "" if it is not much.
func worseText(times float64) string {
	switch {
	case math.IsInf(times, 1):
		return "now infinite or NaN"
	case times >= toldWorse:
		return fmt.Sprintf("%.3g times worse", times)
	}
	return ""
}
