package step

import (
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/verdict"
)

// TestNonFinite: the first call that makes a value which is not finite of finite ones is a finding; -inf, which masks
// have, is one only where other such values follow.
func TestNonFinite(t *testing.T) {
	inf := math.Inf(1)
	value := func(x float64, made bool) *replay.NotFinite {
		return &replay.NotFinite{Phase: replay.Forward, Target: "output[0]", Index: []int{3}, Value: x,
			DType: tensor.Float16, Made: made, Exact: x, Known: true}
	}
	undue := value(-inf, true)
	undue.Exact = -1e5
	ofMask := value(math.NaN(), false)
	ofMask.OfMask = true
	for name, tc := range map[string]struct {
		values []*replay.NotFinite // of calls one after the other
		want   string              // the start of the finding
	}{
		"none":             {[]*replay.NotFinite{nil, nil}, ""},
		"a mask":           {[]*replay.NotFinite{value(-inf, true), nil}, ""},
		"made":             {[]*replay.NotFinite{nil, value(inf, true)}, "op/1 at [3] is inf, all inputs are finite"},
		"passed on":        {[]*replay.NotFinite{value(inf, true), value(inf, false)}, "op/0 at [3] is inf"},
		"made of -inf":     {[]*replay.NotFinite{undue, ofMask}, "op/0 at [3] is -inf"},
		"made of a mask":   {[]*replay.NotFinite{value(-inf, true), ofMask}, "op/1 at [3] is nan, its inputs are finite or"},
		"of a given mask":  {[]*replay.NotFinite{nil, ofMask}, "op/1 at [3] is nan, its inputs are finite or -inf"},
		"beside a mask":    {[]*replay.NotFinite{value(-inf, true), value(inf, true)}, "op/1 at [3] is inf"},
		"from the outside": {[]*replay.NotFinite{value(inf, false), nil}, ""},
	} {
		p := &Process{}
		for i, n := range tc.values {
			p.Calls = append(p.Calls, &Call{Op: "op", Order: i, Process: p, notFinite: n,
				Entry: &capture.Entry{Name: capture.Name{ID: i}}})
		}
		got := ""
		if f := (&Trace{Processes: []*Process{p}}).nonFinite(); f != nil {
			if f.Rule != verdict.NonFinite {
				t.Errorf("%s: rule %s", name, f.Rule)
			}
			got = f.Call.String() + " " + f.Reason
		}
		if !strings.HasPrefix(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestCausesOfFindings: a wrong value has the cause that replay says, on the screen's data and in its record.
func TestCausesOfFindings(t *testing.T) {
	f := open(t, "scaled").First()
	if f == nil || len(f.Causes) == 0 || f.Causes[0].Text != "all elements are multiplied by 1.01" {
		t.Fatalf("finding %+v, want the cause that all elements are multiplied by 1.01", f)
	}
	if r := f.Record(); r.Cause != f.Causes[0].Text || r.Phase != "forward" {
		t.Errorf("record %+v", r)
	}
}
