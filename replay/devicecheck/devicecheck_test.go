//go:build linux

package devicecheck_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/devicecheck"
	"github.com/optool/optool/replay/ondevice"
	"github.com/optool/optool/tensor"
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
		"RuntimeError: Unknown keyword argument 'out' for operator 'mylib::exp'. Schema: mylib::exp(Tensor x) -> Tensor",
		"RuntimeError: Overloaded torch operator invoked from Python failed to match any schema:",
		"RuntimeError: aten::exp() expected at most 1 argument(s) but received 2 argument(s)."} {
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
	return wrong(d.Device.Run(c))
}

// wrong makes the results of a run wrong in the third digit.
func wrong(run *replay.DeviceRun) *replay.DeviceRun {
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

// A limitedDevice is the built-in device without some functions, and with results that are off if wrong.
type limitedDevice struct {
	replay.Device
	lacks func(c *replay.DeviceCall) (forward, backward bool)
	hangs bool
	wrong bool
}

func (d limitedDevice) Run(c *replay.DeviceCall) *replay.DeviceRun {
	unsupported := replay.DeviceStatus{Verdict: verdict.Unsupported, Reason: "the library has no diopiX"}
	forward, backward := d.lacks(c)
	if d.hangs {
		return &replay.DeviceRun{Forward: replay.DeviceStatus{Verdict: verdict.Timeout, Reason: "diopiX: no answer"}}
	}
	if forward {
		return &replay.DeviceRun{Forward: unsupported}
	}
	run := d.Device.Run(c)
	if d.wrong {
		run = wrong(run)
	}
	if backward && len(c.Need) > 0 {
		run.Grads, run.Backward = nil, unsupported
	}
	return run
}

// TestPartsOfLibraries: what a device has of a case is judged, what it lacks is counted.
func TestPartsOfLibraries(t *testing.T) {
	d, err := devicebridge.Open(t.Context(), devicebridge.Config{Library: devicebridge.Host})
	if errors.Is(err, devicebridge.ErrNoDevices) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	host := ondevice.New(t.Context(), d, ondevice.Options{})
	e := ops.Default().Lookup("torch.tanh")[0]
	none := func(*replay.DeviceCall) (bool, bool) { return false, false }
	noBackward := func(*replay.DeviceCall) (bool, bool) { return false, true }
	noPlain := func(c *replay.DeviceCall) (bool, bool) { return !c.Call.InPlace(), true }
	nothing := func(*replay.DeviceCall) (bool, bool) { return true, true }
	for name, test := range map[string]struct {
		device        limitedDevice
		check         string // of the first finding
		lacks, judged bool
	}{
		"all of it":                       {limitedDevice{host, none, false, false}, "", false, true},
		"no backward function":            {limitedDevice{host, noBackward, false, false}, "", true, true},
		"no backward function, and wrong": {limitedDevice{host, noBackward, false, true}, "reference", true, true},
		"the in-place form alone":         {limitedDevice{host, noPlain, false, false}, "", true, true},
		"the in-place form alone, wrong":  {limitedDevice{host, noPlain, false, true}, "inplace", true, true},
		"nothing":                         {limitedDevice{host, nothing, false, true}, "", true, false},
		"a function that does not return": {limitedDevice{host, none, true, false}, "cases", false, true},
	} {
		o := devicecheck.Suite(test.device, ops.Default()).Judge(e)
		check := ""
		if len(o.Findings) > 0 {
			check = o.Findings[0].Check
		}
		lacks := slices.ContainsFunc(o.Absent, func(a *opcheck.Absence) bool { return a.Reason == "the library has no diopiX" })
		if check != test.check || lacks != test.lacks || (o.Judged > 0) != test.judged {
			t.Errorf("%s: %d of %d cases judged, findings %v, absent %v", name, o.Judged, o.Cases, o.Findings, o.Absent)
		}
		if test.device.hangs && (o.Judged != 2 || o.Unrun != o.Cases-2) {
			t.Errorf("%s: %d cases judged, %d not run of %d", name, o.Judged, o.Unrun, o.Cases)
		}
	}
}

// exact is a device that is right, and has no form that writes into a tensor.
type exact struct{}

func (exact) Run(c *replay.DeviceCall) *replay.DeviceRun {
	if len(c.Call.Written()) > 0 {
		return &replay.DeviceRun{Forward: replay.DeviceStatus{Verdict: verdict.Error,
			Reason: "RuntimeError: f() expected at most 2 argument(s) but received 3 argument(s)"}}
	}
	run := &replay.DeviceRun{Functions: []string{"f"}, Grads: map[string][]*tensor.Tensor{}}
	for _, t := range c.Forward.Outs {
		run.Outputs = append(run.Outputs, t.Rounded())
	}
	if c.GradOutputs != nil {
		grads, err := c.Call.Backward(c.Forward, c.GradOutputs, nil)
		if err != nil {
			panic(err)
		}
		for name, ts := range grads {
			for _, t := range ts {
				if t != nil {
					t = t.Rounded()
				}
				run.Grads[name] = append(run.Grads[name], t)
			}
		}
	}
	return run
}

// TestDeclaredForms: a function that a file declares has no out=, which is then not tried. That of another has, and
// what was not judged of it is said as such.
func TestDeclaredForms(t *testing.T) {
	suite := devicecheck.Suite(exact{}, ops.Default())
	suite.Forms = true
	if o := suite.Judge(ops.Default().Lookup("torch_npu.npu_swiglu")[0]); len(o.Findings) > 0 || len(o.Absent) > 0 ||
		o.Judged == 0 {
		t.Errorf("declared: %d judged, findings %v, absent %v", o.Judged, o.Findings, o.Absent)
	}
	suite = devicecheck.Suite(noForms{"TypeError: exp() got an unexpected keyword argument 'out'"}, ops.Default())
	suite.Only = []string{"inplace"}
	o := suite.Judge(ops.Default().Lookup("torch.exp")[0])
	if len(o.Absent) == 0 || len(o.Absent[0].DTypes) > 0 || !strings.HasPrefix(o.Absent[0].Reason, "in place or with out= only") {
		t.Errorf("a form is missing: absent %v", o.Absent)
	}
}

// A blocked device computes softmax of rows in blocks, as kernels do.
type blocked struct {
	row func(x []float64) []float64
}

func (d blocked) Run(c *replay.DeviceCall) *replay.DeviceRun {
	want := c.Forward.Outs[0]
	if len(c.GradOutputs) > 0 || want.Dim() != 2 || want.Shape[1] < 128 {
		return &replay.DeviceRun{Forward: replay.DeviceStatus{Verdict: verdict.Unsupported, Reason: "only long rows"}}
	}
	in := tensor.Data[float64](c.Call.Tensors()[0].Tensor)
	var out []float64
	for n := want.Shape[1]; len(in) > 0; in = in[n:] {
		out = append(out, d.row(in[:n])...)
	}
	return &replay.DeviceRun{Functions: []string{"softmax"},
		Outputs: []*tensor.Tensor{tensor.New(want.DType, want.Shape, out).Rounded()}}
}

// blockwise is softmax in blocks of n elements: keep says of the block that begins at an element whether it is added at
// all, and whether the sum before it is scaled to its maximum.
func blockwise(n int, keep func(from, size int) (added, scaled bool)) func([]float64) []float64 {
	return func(x []float64) []float64 {
		largest, sum := math.Inf(-1), 0.0
		for from := 0; from < len(x); from += n {
			block := x[from:min(from+n, len(x))]
			added, scaled := keep(from, len(block))
			if !added {
				continue
			}
			m := max(largest, slices.Max(block))
			if math.IsInf(m, -1) { // all are masked
				continue
			}
			if scaled && from > 0 {
				sum *= math.Exp(largest - m)
			}
			for _, v := range block {
				sum += math.Exp(v - m)
			}
			largest = m
		}
		out := make([]float64, len(x))
		for i, v := range x {
			out[i] = math.Exp(v-largest) / sum
		}
		return out
	}
}

// withMaximumOf is a softmax in float32 that subtracts the largest of the first elements of a row of this size.
func withMaximumOf(first func(size int) int) func(x []float64) []float64 {
	return func(x []float64) []float64 {
		largest := float32(math.Inf(-1))
		for _, v := range x[:first(len(x))] {
			largest = max(largest, float32(v))
		}
		sum, out := float32(0), make([]float64, len(x))
		for i, v := range x {
			out[i] = float64(float32(math.Exp(float64(float32(v) - largest))))
			sum += float32(out[i])
		}
		for i := range out {
			out[i] = float64(float32(out[i]) / sum)
		}
		return out
	}
}

// TestTails: a softmax is found whose maximum leaves out what is left over after the last whole block.
func TestTails(t *testing.T) {
	e := ops.Default().Lookup("torch.nn.functional.softmax")[0]
	for block, want := range map[int]bool{1: false, 4: true, 32: true, 64: true, 128: true, 1024: true} {
		suite := devicecheck.Suite(blocked{withMaximumOf(func(size int) int {
			if size < block {
				return size
			}
			return size / block * block
		})}, ops.Default())
		suite.Only = []string{"cases", "reference"}
		if out := suite.Judge(e); len(out.Findings) > 0 != want {
			t.Errorf("blocks of %d: found %v", block, out.Findings)
		}
	}
}

// TestLongRows: kernels that are wrong only about rows of several blocks, or about what is left after the last whole
// one, are found, in float32 too.
func TestLongRows(t *testing.T) {
	e := ops.Default().Lookup("torch.nn.functional.softmax")[0]
	for name, tc := range map[string]struct {
		keep func(from, size int) (added, scaled bool)
		want bool
	}{
		"right":                    {func(int, int) (bool, bool) { return true, true }, false},
		"the rest is not scaled":   {func(_, size int) (bool, bool) { return true, size == 128 }, true},
		"nothing is scaled":        {func(int, int) (bool, bool) { return true, false }, true},
		"the rest is left out":     {func(_, size int) (bool, bool) { return size == 128, true }, true},
		"the first is left out":    {func(from, _ int) (bool, bool) { return from > 0, true }, true},
		"the fourth is not scaled": {func(from, _ int) (bool, bool) { return true, from != 3*128 }, true},
	} {
		suite := devicecheck.Suite(blocked{blockwise(128, tc.keep)}, ops.Default())
		suite.Only = []string{"cases", "reference"}
		out := suite.Judge(e)
		inFloat32 := slices.ContainsFunc(out.Findings, func(f opcheck.Finding) bool {
			return strings.Contains(f.Case, "float32[3, ")
		})
		if inFloat32 != tc.want || out.LongestRow() != 1030 {
			t.Errorf("%s: found %v, longest row %d", name, out.Findings, out.LongestRow())
		}
	}
}
