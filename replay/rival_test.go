package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A sumDevice gives the elements of a sum that it is told, or the status.
type sumDevice struct {
	elements []float64
	status   replay.DeviceStatus
}

func (d *sumDevice) Run(c *replay.DeviceCall) *replay.DeviceRun {
	run := &replay.DeviceRun{Functions: []string{"sum"}, Forward: d.status}
	if d.status.Verdict == "" {
		run.Outputs = []*tensor.Tensor{stored(tensor.Float32, []int{len(d.elements)}, d.elements...)}
	}
	return run
}

// TestAgainst: each of two devices is compared with the reference, and the first with the
// second.
func TestAgainst(t *testing.T) {
	x := func() *tensor.Tensor { return stored(tensor.Float32, []int{2}, 1, 2) }
	e := entries(t, record(t, "torch.add", []value.Value{x(), x()}, stored(tensor.Float32, []int{2}, 2, 4)))[0]
	right := &sumDevice{elements: []float64{2, 4}}
	wrong := &sumDevice{elements: []float64{2, 5}}
	long := &sumDevice{elements: []float64{2, 4, 6}}
	dead := &sumDevice{status: replay.DeviceStatus{Verdict: verdict.Crash, Reason: "it is gone"}}
	for _, tc := range []struct {
		name          string
		first, second *sumDevice
		verdicts      []string // with the devices
		against       string
		apart         float64
	}{
		{"the same", right, right, []string{"pass", "pass other"}, "same", 0},
		{"nearer", right, wrong, []string{"pass", "fail other"}, "better", 0.5 * 1.4142135623730951},
		{"further", wrong, right, []string{"fail", "pass other"}, "worse", 0.5 * 1.4142135623730951},
		{"of another shape", right, long, []string{"pass", "fail other"}, "", 0},
		{"the second dies", right, dead, []string{"pass", "crash other"}, "", 0},
		{"the first dies", dead, wrong, []string{"crash", "fail other"}, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opt := options(t)
			opt.Device, opt.Against = tc.first, &replay.Rival{Device: tc.second, Name: "other"}
			c := replay.Open(e, opt)
			defer c.Close()
			o := c.Compare()
			var verdicts []string
			for _, r := range o.Results {
				verdicts = append(verdicts, strings.TrimSpace(fmt.Sprint(r.Verdict, " ", r.Device)))
				if r.Source != "device" || r.Device != "" && r.Reason != "" && !strings.HasPrefix(r.Reason, "on other: ") {
					t.Errorf("source %q, reason %q of device %q", r.Source, r.Reason, r.Device)
				}
			}
			if !slices.Equal(verdicts, tc.verdicts) {
				t.Errorf("verdicts %q, want %q", verdicts, tc.verdicts)
			}
			against, apart := "", 0.0
			if a := o.Results[0].Against; a != nil {
				against, apart = a.Verdict, a.Apart
			}
			if against != tc.against || apart != tc.apart {
				t.Errorf("the first is %q, %g apart, want %q, %g", against, apart, tc.against, tc.apart)
			}
			if got := o.FailedForward(); got != (tc.verdicts[0] == "fail") {
				t.Errorf("the first device failed: %t", got)
			}
			if vs := c.Values().RecordedOutput; len(vs) > 0 && tc.first == dead {
				t.Errorf("the values are those of the second device: %v", vs)
			}
		})
	}
}
