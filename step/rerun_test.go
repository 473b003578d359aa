package step

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// A referenceDevice gives what the reference gives, but for the ops that it maps: to fail,
// for a result of another shape, or to how the call ends.
type referenceDevice map[string]verdict.Verdict

func (d referenceDevice) Run(c *replay.DeviceCall) *replay.DeviceRun {
	run := &replay.DeviceRun{Functions: []string{c.Call.Name}}
	switch v := d[c.Call.Name]; v {
	case "", verdict.Fail:
	default:
		run.Forward = replay.DeviceStatus{Verdict: v, Reason: "as the test asks"}
		return run
	}
	for _, t := range c.Forward.Outs {
		if d[c.Call.Name] == verdict.Fail {
			t = t.Select(0, 0)
		}
		run.Outputs = append(run.Outputs, t.Rounded())
	}
	return run
}

// TestReruns: what a device repeats of what was recorded wrong, what it does not, and what
// it alone gets wrong.
func TestReruns(t *testing.T) {
	for _, tc := range []struct {
		name, tree string
		device     referenceDevice
		want       []string
		counts     Reruns
	}{
		{"nothing wrong", "clean", nil, nil, Reruns{Run: 24, NotRun: 2}}, // dropout draws
		{"wrong there alone", "clean", referenceDevice{"torch.nn.functional.gelu": verdict.Fail},
			[]string{"torch.nn.functional.gelu/4 new pass fail", "torch.nn.functional.gelu/17 new pass fail"},
			Reruns{Run: 24, NotRun: 2, New: 2, Wrong: 2}},
		{"ends with an error", "scaled", referenceDevice{"torch.nn.functional.layer_norm": verdict.Error},
			[]string{"torch.nn.functional.layer_norm/2 new pass error",
				"torch.nn.functional.gelu/4 not_repeated fail pass"},
			Reruns{Run: 12, NotRun: 1, NotRepeated: 1, New: 1, Errors: 1}},
		{"has no function", "scaled", referenceDevice{"torch.nn.functional.gelu": verdict.Unsupported}, nil,
			Reruns{Run: 11, NotRun: 2}},
		{"repeated", "scaled", referenceDevice{"torch.nn.functional.gelu": verdict.Crash},
			[]string{"torch.nn.functional.gelu/4 repeated fail crash"},
			Reruns{Run: 12, NotRun: 1, Repeated: 1, Wrong: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opt := options(t)
			opt.Rerun, opt.ForwardOnly = tc.device, true
			var calls []*Call
			for e, err := range capture.Scan(context.Background(), []string{"testdata/" + tc.tree}, capture.Options{}) {
				if err != nil {
					t.Fatal(err)
				}
				calls = append(calls, Read(e, opt))
			}
			wrong, n := New(calls).Reruns()
			var got []string
			for _, r := range wrong {
				got = append(got, fmt.Sprintf("%s %s %s %s", r.Call, r.Standing, r.Recorded, r.Verdict))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("wrong %q, want %q", got, tc.want)
			}
			if !reflect.DeepEqual(*n, tc.counts) {
				t.Errorf("counts %+v, want %+v", *n, tc.counts)
			}
		})
	}
	if _, n := open(t, "clean").Reruns(); n != nil {
		t.Errorf("counts without a device: %+v", *n)
	}
}

// TestRoundingKeepsSigns: recorded rounding takes no result of an imagined run below 0, such as an average of squares
// whose gradients are 0 without the fault. A larger error does.
func TestRoundingKeepsSigns(t *testing.T) {
	of := func(x ...float64) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.New(tensor.Float32, []int{len(x)}, x)}
	}
	want := []float64{1, 1, 1, 1}
	got := []float64{1 - 1e-7, 1 - 1e-7, 1 - 1e-7, 0.5}
	outs := (&rerun{}).withErrors(of(got...), of(0, 1e-9, 1, 0.25), of(want...))
	for i, v := range tensor.Data[float64](outs[0]) {
		if w := []float64{0, 1e-9, 1 - 1e-7, -0.25}[i]; math.Abs(v-w) > 1e-12 {
			t.Errorf("element %d is %v, want %v", i, v, w)
		}
	}
}
