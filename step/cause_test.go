package step

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
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

// TestWayToNorm: the first value that is not finite is followed through the calls to the gradient of a parameter.
func TestWayToNorm(t *testing.T) {
	f32 := func(grad bool, shape []int, v ...float64) *tensor.Tensor {
		x := tensor.New(tensor.Float32, shape, v).Rounded()
		x.RequiresGrad = grad
		return x
	}
	inf, dir := math.Inf(1), t.TempDir()
	call := func(id, op string, out *tensor.Tensor, args []value.Value, grads, incoming value.Value) {
		for name, v := range map[string]value.Value{"input": value.NewTuple(args...), "output": value.NewTuple(out),
			"grad_inputs": grads, "grad_outputs": incoming} {
			if v == nil {
				continue
			}
			rec := &value.Dict{Items: []value.Item{{Key: "name", Value: op}, {Key: "args", Value: v},
				{Key: "kwargs", Value: &value.Dict{}}, {Key: "identifier", Value: id + "/x/" + name}}}
			at := filepath.Join(dir, op, "7", id, "2026-11-22-10-00-0"+id)
			err := errors.Join(os.MkdirAll(at, 0o777), pthformat.WriteFile(filepath.Join(at, name+".pth"), rec))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	pair, ones := []int{2}, f32(false, []int{2}, 1, 1)
	y, z := f32(false, pair, math.E, inf), f32(true, pair, 2*math.E, inf)
	call("1", "torch.exp", y, []value.Value{f32(false, pair, 1, 1000)}, nil, nil)
	call("2", "torch.mul", z, []value.Value{y, f32(true, pair, 2, 3)},
		value.NewTuple(nil, f32(false, pair, math.E, inf)), value.NewTuple(ones))
	call("3", "torch.sum", f32(true, nil, inf), []value.Value{z}, value.NewTuple(ones),
		value.NewTuple(f32(false, nil, 1)))
	const want = "; through torch.mul/2 it reaches the gradient of the parameter input[1] of torch.mul/2, and the " +
		"gradient norm"
	tr := analyse(t, dir)
	if f := tr.Findings[0]; f.Rule != verdict.NonFinite || !strings.Contains(f.Reason, want) {
		t.Errorf("%s %s: %s, want %s", f.Rule, f.Call, f.Reason, want)
	}
}

// TestPrepackedWeight: a wrong result that a call gives with what an earlier call found where its weight lies has that
// as its cause.
func TestPrepackedWeight(t *testing.T) {
	f := analyse(t, unpack(t, "weight-prepacked")).First()
	if f == nil || f.Rule != verdict.Wrong || f.Call.Entry.ID != 27 || len(f.Causes) != 1 ||
		!strings.HasPrefix(f.Causes[0].Text, "input[1] is what torch.Tensor.add_/20 read there before") {
		t.Errorf("got %+v, want linear/27 with the weight of the step before", f)
	}
}

// TestForgetUnfinished: that a search was cut short is not told of a finding that is like one whose search ended.
func TestForgetUnfinished(t *testing.T) {
	of := func(op string) *Finding {
		return &Finding{Rule: verdict.Wrong, Call: &Call{Op: op}, Target: "output[0]", Reason: "3 elements differ",
			Causes: []reports.Cause{{Pattern: true, Unfinished: true}}}
	}
	ended, like, other := of("torch.exp"), of("torch.exp"), of("torch.sin")
	ended.Causes = nil
	forgetUnfinished([]*Finding{ended, like, other}, map[*Finding]bool{ended: true})
	if len(like.Causes) != 0 || len(other.Causes) != 1 {
		t.Errorf("like: %v, other: %v", like.Causes, other.Causes)
	}
}

// TestInTurn: causes are looked for in each kind of findings before a second one of a kind.
func TestInTurn(t *testing.T) {
	of := func(op string) *Finding {
		return &Finding{Rule: verdict.Wrong, Call: &Call{Op: op}, Target: "output[0]", Reason: "differs"}
	}
	a, b, c := of("torch.exp"), of("torch.exp"), of("torch.sin")
	if got := inTurn([]*Finding{a, b, c}); got[0] != a || got[1] != c || got[2] != b {
		t.Errorf("got %v", got)
	}
}

// TestMends: another argument explains a wrong value only if that value is right with it: one that was not compared, or
// that another value of the call is right, says nothing.
func TestMends(t *testing.T) {
	c := &Call{Results: []Result{{Phase: replay.Input, Target: "input[1]", Verdict: verdict.Fail},
		{Phase: replay.Forward, Target: "output[0]", Verdict: verdict.Pass}}}
	for _, tc := range []struct {
		phase  replay.Phase
		target string
		v      verdict.Verdict
		want   bool
	}{
		{replay.Forward, "output[0]", verdict.Pass, false}, {replay.Input, "input[1]", verdict.Fail, false},
		{replay.Input, "input[1]", verdict.Warn, true},
	} {
		results := []replay.Result{{Phase: tc.phase, Target: tc.target, Verdict: tc.v}}
		got := c.mends(results, replay.Forward, replay.Input)
		if got != tc.want {
			t.Errorf("%s is %s: %t", tc.target, tc.v, got)
		}
	}
}
