//go:build linux

package devicecheck_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/devicecheck"
	"github.com/optool/optool/replay/ondevice"
)

// TestHost runs the checks on the built-in device, for every operator it can run.
func TestHost(t *testing.T) {
	d, err := devicebridge.Open(t.Context(), devicebridge.Config{Library: devicebridge.Host, Workers: 2})
	if errors.Is(err, devicebridge.ErrNoDevices) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	suite := devicecheck.Suite(ondevice.New(t.Context(), d, ondevice.Options{}), ops.Default())
	for _, e := range ops.Default().Entries() {
		for _, f := range suite.Entry(e) {
			t.Error(f)
		}
	}
}

// A noForms device is one whose functions of Python have neither out= nor keywords.
type noForms struct{ reason string }

func (d noForms) Run(*replay.DeviceCall) *replay.DeviceRun {
	return &replay.DeviceRun{Forward: replay.DeviceStatus{Verdict: verdict.Error,
		Reason: d.reason}}
}

// TestForms: a function of Python that does not take the arguments is a finding only if the user named it.
func TestForms(t *testing.T) {
	for _, reason := range []string{"TypeError: exp() got an unexpected keyword argument 'out'",
		"RuntimeError: Unknown keyword argument 'out' for operator 'mylib::exp'. Schema: mylib::exp(Tensor x) -> Tensor"} {
		suite := devicecheck.Suite(noForms{reason}, ops.Default())
		e := ops.Default().Lookup("torch.exp")[0]
		if found := suite.Entry(e); len(found) > 0 {
			t.Errorf("a function of PyTorch: %v", found)
		}
		suite.Forms = true
		found := suite.Entry(e)
		if len(found) == 0 || slices.ContainsFunc(found, func(f opcheck.Finding) bool { return f.Check != "cases" }) {
			t.Errorf("a function of the user's: found %v, want the cases alone", found)
		}
	}
}

// wrongDevice is the built-in device with results and gradients that are off.
type wrongDevice struct{ *ondevice.Device }

func (d wrongDevice) Run(c *replay.DeviceCall) *replay.DeviceRun {
	run := d.Device.Run(c)
	for i, t := range run.Outputs {
		run.Outputs[i] = opdef.Map(t.DType, t, func(x float64) float64 { return x * (1 + 1e-3) }).Rounded()
	}
	return run
}

// TestWrongDevice: a device that is wrong in the third digit is found.
func TestWrongDevice(t *testing.T) {
	d, err := devicebridge.Open(t.Context(), devicebridge.Config{Library: devicebridge.Host})
	if errors.Is(err, devicebridge.ErrNoDevices) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	suite := devicecheck.Suite(wrongDevice{ondevice.New(t.Context(), d, ondevice.Options{})}, ops.Default())
	for _, e := range ops.Default().Lookup("torch.exp") {
		found := suite.Entry(e)
		if len(found) == 0 || found[0].Check != "reference" {
			t.Errorf("%s: found %v, want the reference to differ", e.Op(), found)
		}
	}
}
