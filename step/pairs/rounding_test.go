package pairs

import (
	"math"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// TestJudgedByItself: every call behind the first wrong one is judged by its own inputs, however many there are, and
// though a tolerance allows the difference. What it was given is not wrong, nor are results that are right by
// themselves.
func TestJudgedByItself(t *testing.T) {
	const calls = 600
	value := func(phase, target string, v verdict.Verdict) *reports.Result {
		return &reports.Result{Phase: phase, Target: target, Verdict: v}
	}
	var all []Looked
	for i := range calls {
		l := Looked{Apart: map[*reports.Result]*Difference{}}
		l.Pair.A = &capture.Entry{Order: i, BackwardOrder: -1}
		l.Pair.B = &capture.Entry{Order: i, BackwardOrder: -1}
		given, arrives := verdict.Fail, verdict.Fail
		if i == 0 {
			given = verdict.Pass
		}
		l.Results = []*reports.Result{value("input", "input[0]", given), value("forward", "output[0]", verdict.Fail),
			value("backward", "grad[0]", verdict.Pass), value("backward", "grad_output[0]", arrives)}
		for k, r := range l.Results {
			if l.Apart[r] = (&Difference{DTypes: [2]tensor.DType{tensor.BFloat16, tensor.BFloat16}}); i > 0 || k > 0 {
				l.Apart[r].Relative = []float64{0.5, 0.4, 0.1, 0.5}[k]
			}
		}
		all = append(all, l)
	}
	output, grad := ValueName{"forward", "output[0]"}, ValueName{"backward", "grad[0]"}
	x := Rounding{Judge: func(e *capture.Entry) Judgement {
		first := e.Order == 0
		j := Judgement{Right: map[ValueName]bool{output: true, grad: true}, Wrong: map[ValueName]string{}}
		for _, l := range all {
			if at := grad; l.Pair.A == e {
				if first {
					at = output
				}
				delete(j.Right, at)
				j.Wrong[at] = "wrong"
			}
		}
		return j
	}}
	x.Explain(all)
	for i, l := range all {
		want := []verdict.Verdict{verdict.Pass, verdict.Pass, verdict.Fail, verdict.Pass}
		if i == 0 {
			want = []verdict.Verdict{verdict.Pass, verdict.Fail, verdict.Pass, verdict.Pass}
		}
		for k, r := range l.Results {
			if r.Verdict != want[k] {
				t.Fatalf("call %d: %s is %q, want %q: %s", i, r.Target, r.Verdict, want[k], r.Reason)
			}
		}
	}
}

// TestBesideRepaired: values of a call that only the old recording has wrong, in another value, differ because of that.
// Those that nobody can judge are not judged, and those that are right in the new recording pass.
func TestBesideRepaired(t *testing.T) {
	output := ValueName{"forward", "output[0]"}
	first, second := ValueName{"backward", "grad[0]"}, ValueName{"backward", "grad[1]"}
	l := Looked{Apart: map[*reports.Result]*Difference{}}
	for _, at := range []ValueName{output, first, second} {
		r := &reports.Result{Phase: at[0], Target: at[1], Verdict: verdict.Fail}
		l.Results = append(l.Results, r)
		l.Apart[r] = &Difference{DTypes: [2]tensor.DType{tensor.Float32, tensor.Float32}, Relative: 0.5}
	}
	l.Pair.A, l.Pair.B = &capture.Entry{BackwardOrder: -1}, &capture.Entry{BackwardOrder: -1}
	x := Rounding{Judge: func(e *capture.Entry) Judgement {
		if e == l.Pair.B {
			return Judgement{Wrong: map[ValueName]string{output: "off by one"}}
		}
		return Judgement{Right: map[ValueName]bool{output: true, second: true}}
	}}
	x.Explain([]Looked{l})
	for _, r := range l.Results {
		r.Repair()
	}
	want := []verdict.Verdict{verdict.Repaired, verdict.Skipped, verdict.Pass}
	for i, r := range l.Results {
		if r.Verdict != want[i] {
			t.Errorf("%s is %s, want %s: %s", r.Target, r.Verdict, want[i], r.Reason)
		}
	}
}

// TestOtherShapesAreNoRounding: results of other shapes that are right in both recordings differ, and are no rounding.
func TestOtherShapesAreNoRounding(t *testing.T) {
	at := ValueName{"forward", "output[0]"}
	r := &reports.Result{Phase: at[0], Target: at[1], Verdict: verdict.Fail, Reason: "shape is [2], want [3]"}
	l := Looked{Results: []*reports.Result{r},
		Apart: map[*reports.Result]*Difference{r: {Relative: math.NaN(), Unlike: true}}}
	l.Pair.A, l.Pair.B = &capture.Entry{BackwardOrder: -1}, &capture.Entry{BackwardOrder: -1}
	x := Rounding{Judge: func(*capture.Entry) Judgement { return Judgement{Right: map[ValueName]bool{at: true}} }}
	if x.Explain([]Looked{l}); r.Verdict != verdict.Fail || x.Excused != 0 {
		t.Errorf("the result is %s: %s, %d excused", r.Verdict, r.Reason, x.Excused)
	}
}

// TestStillWrong: a call that is wrong in both recordings, and no further apart than what it was given, is told.
func TestStillWrong(t *testing.T) {
	r := &reports.Result{Phase: "forward", Target: "output[0]", Verdict: verdict.Fail}
	in := &reports.Result{Phase: "input", Target: "input[0]", Verdict: verdict.Pass}
	of := [2]tensor.DType{tensor.BFloat16, tensor.BFloat16}
	l := Looked{Results: []*reports.Result{in, r}, Apart: map[*reports.Result]*Difference{
		in: {DTypes: of, Relative: 0.1, Largest: 0.1}, r: {DTypes: of, Relative: 0.1, Largest: 0.1}}}
	l.Pair.A, l.Pair.B = &capture.Entry{BackwardOrder: -1}, &capture.Entry{BackwardOrder: -1}
	x := Rounding{Judge: func(*capture.Entry) Judgement {
		return Judgement{Wrong: map[ValueName]string{{"forward", "output[0]"}: "off by one"}}
	}}
	x.Explain([]Looked{l})
	if r.Verdict != verdict.StillWrong || r.WrongIn != reports.WrongInBoth ||
		r.Reason != "wrong in both recordings: off by one" {
		t.Errorf("the result is %s, wrong in %q: %s", r.Verdict, r.WrongIn, r.Reason)
	}
}
