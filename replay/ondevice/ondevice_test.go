//go:build linux

package ondevice_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/internal/faulttest"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/ondevice"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func openLibrary(t *testing.T, c devicebridge.Config) *devicebridge.Device {
	t.Helper()
	d, err := devicebridge.Open(t.Context(), c)
	if errors.Is(err, devicebridge.ErrNoDevices) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// openBroken opens the device with a fault.
func openBroken(t *testing.T, fault string, timeout time.Duration) *devicebridge.Device {
	t.Helper()
	return openLibrary(t, devicebridge.Config{Library: faulttest.Library(t, fault), Timeout: timeout})
}

// record writes a capture of a call; output may be nil.
func record(t *testing.T, op string, output value.Value, args ...value.Value) *capture.Entry {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, args []value.Value) {
		root := &value.Dict{Items: []value.Item{
			{Key: "name", Value: op}, {Key: "args", Value: value.NewTuple(args...)},
			{Key: "kwargs", Value: &value.Dict{}}, {Key: "identifier", Value: "1/x"},
		}}
		if err := pthformat.WriteFile(filepath.Join(dir, name), root); err != nil {
			t.Fatal(err)
		}
	}
	write("input.pth", args)
	if output != nil {
		write("output.pth", []value.Value{output})
	}
	for e, err := range capture.Scan(t.Context(), []string{dir}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	t.Fatal("no capture found")
	return nil
}

// normal is a tensor of normal numbers, the same for the same shape and dtype.
func normal(dt tensor.DType, shape ...int) *tensor.Tensor {
	r := rand.New(rand.NewPCG(uint64(dt), uint64(tensor.Numel(shape))))
	data := make([]float64, tensor.Numel(shape))
	for i := range data {
		data[i] = r.NormFloat64()
	}
	return tensor.New(dt, shape, data).Rounded()
}

func options(t *testing.T, d *devicebridge.Device, o ondevice.Options) replay.Options {
	t.Helper()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return replay.Options{Registry: ops.Default(), Tolerances: tol, Device: ondevice.New(t.Context(), d, o)}
}

// verdicts lists the results as "layout target verdict: reason".
func verdicts(o *replay.Outcome) string {
	var b strings.Builder
	for _, r := range o.Results {
		b.WriteString(strings.Join([]string{r.Layout, r.Target, string(r.Verdict) + ":", r.Reason}, " ") + "\n")
	}
	return b.String()
}

// TestBrokenDevices: each wrong device gets its verdict on a call that shows its
// fault, and the reason says what it was.
func TestBrokenDevices(t *testing.T) {
	f32, f16 := tensor.Float32, tensor.Float16
	x, y := normal(f32, 6, 7), normal(f32, 6, 7)
	x.RequiresGrad = true
	add := []value.Value{x, normal(f32, 6, 7)}
	long := func(dt tensor.DType) []value.Value { return []value.Value{normal(dt, 8, 512), normal(dt, 512, 8)} }
	for _, tc := range []struct {
		fault  string
		op     string
		args   []value.Value
		want   verdict.Verdict
		reason string // part of one
	}{
		{"none", "torch.add", add, verdict.Pass, ""},
		{"none", "torch.mm", long(f32), verdict.Pass, ""},
		{"none", "torch.mm", long(f16), verdict.Pass, ""},
		{"separate_memory", "torch.add", add, verdict.Pass, ""},
		{"off_by_one_tile", "torch.mm", long(f32), verdict.Fail, ""},
		{"half_accumulate", "torch.mm", long(f32), verdict.Fail, ""},
		{"half_accumulate", "torch.mm", long(f16), verdict.Warn, ""},
		{"swapped_arguments", "torch.sub", []value.Value{x, normal(f32, 7)}, verdict.Fail, ""},
		{"nan_last_lane", "torch.add", add, verdict.Fail, "is NaN where"},
		{"ignores_strides", "torch.add", []value.Value{x, normal(f32, 7, 6).Transpose(0, 1)}, verdict.Fail, ""},
		{"wrong_dtype", "torch.nonzero", []value.Value{y}, verdict.Fail, "dtype is int32, want int64"},
		{"wrong_shape", "torch.nonzero", []value.Value{y}, verdict.Fail, "shape is"},
		{"no_tensor", "torch.nonzero", []value.Value{y}, verdict.Fail, "diopiNonzero: it stores no tensor for out0"},
		{"rounds_up", "torch.add", add, verdict.Fail, "another floating-point mode"},
		{"overruns_workspace", "torch.add", add, verdict.Fail,
			"1 bytes written outside of memory the operator asked for"},
		{"overwrites_input", "torch.add", add, verdict.Fail, "elements of the input input changed"},
		{"out_of_bounds", "torch.add", add, verdict.Fail, "written outside of"},
		{"out_of_bounds_before", "torch.add", add, verdict.Fail, "written outside of"},
		{"partly_unwritten", "torch.add", add, verdict.Fail, "never written"},
		{"unwritten", "torch.add", add, verdict.Fail, "never written"},
		{"stale_workspace", "torch.add", add, verdict.Fail, "never written"},
		{"nondeterministic", "torch.add", add, verdict.Fail, "differ between runs"},
		{"leaks", "torch.add", add, verdict.Fail, "memory grows"},
		{"changes_shape", "torch.add", add, verdict.Fail, "changed behind its handle"},
		{"hangs", "torch.add", add, verdict.Timeout, "no answer in time"},
		{"stuck_stream", "torch.add", add, verdict.Timeout, "no answer in time"},
		{"segfaults", "torch.add", add, verdict.Crash, "SIGSEGV"},
		{"aborts", "torch.add", add, verdict.Crash, "SIGABRT"},
		{"exits", "torch.add", add, verdict.Crash, "exit code 3"},
		{"throws", "torch.add", add, verdict.Crash, "not today"},
		{"throws_custom", "torch.add", add, verdict.Crash, "Unsupported"},
		{"lacks_dtype", "torch.add", add, verdict.Unsupported, "not implemented for 'Half'"},
		{"throws_lines", "torch.add", add, verdict.Crash, "diopiAdd threw std::runtime_error: index out of range\n"},
		{"kills_parent", "torch.add", add, verdict.Pass, ""},
		{"forks", "torch.add", add, verdict.Pass, ""},
		{"skips_mask", "torch.dropout", []value.Value{y, 0.5, false}, verdict.Pass, ""},
		{"none", "torch.exp", []value.Value{y}, verdict.Unsupported, "diopiExp"},
	} {
		t.Run(tc.fault+" "+tc.op, func(t *testing.T) {
			timeout := 30 * time.Second
			if tc.want == verdict.Timeout {
				timeout = 300 * time.Millisecond
			}
			d := openBroken(t, tc.fault, timeout)
			repeat := 1
			if tc.fault == "nondeterministic" || tc.fault == "leaks" {
				repeat = 20
			}
			o := replay.Run(record(t, tc.op, nil, tc.args...), options(t, d, ondevice.Options{Repeat: repeat}))
			if o.Verdict() != tc.want || !strings.Contains(verdicts(o), tc.reason) {
				t.Errorf("%s, want %s with %q:\n%s", o.Verdict(), tc.want, tc.reason, verdicts(o))
			}
		})
	}
}

// TestNoCalls: what DIOPI computes without a call, as the softmax of nothing, is no
// error.
func TestNoCalls(t *testing.T) {
	o := replay.Run(record(t, "torch.softmax", nil, normal(tensor.Float32, 0, 4), int64(1)),
		options(t, openBroken(t, "none", 0), ondevice.Options{}))
	if want := "  skipped: takes no call of the device\n"; o.Verdict() != verdict.Skipped || verdicts(o) != want {
		t.Errorf("%s:\n%swant %s", o.Verdict(), verdicts(o), want)
	}
}

// TestStress: a device that ignores strides passes as recorded and fails in the
// layouts that have some.
func TestStress(t *testing.T) {
	args := []value.Value{normal(tensor.Float32, 4, 6), normal(tensor.Float32, 4, 6)}
	for fault, want := range map[string]map[string]verdict.Verdict{
		"ignores_strides": {"": verdict.Pass, "non-contiguous": verdict.Fail, "transposed": verdict.Fail,
			"storage offset": verdict.Pass, "transposed results": verdict.Fail},
		"none": {"": verdict.Pass, "non-contiguous": verdict.Pass, "transposed": verdict.Pass,
			"storage offset": verdict.Pass, "transposed results": verdict.Pass},
	} {
		opt := options(t, openBroken(t, fault, 0), ondevice.Options{})
		opt.Stress = true
		o := replay.Run(record(t, "torch.add", nil, args...), opt)
		got := map[string]verdict.Verdict{}
		for _, r := range o.Results {
			got[r.Layout] = verdict.Worse(got[r.Layout], r.Verdict)
			if r.Source != "device" || len(r.Functions) != 1 || r.Functions[0] != "diopiAdd" {
				t.Errorf("%s %s: source %q, functions %v", fault, r.Layout, r.Source, r.Functions)
			}
		}
		for layout, v := range want {
			if got[layout] != v {
				t.Errorf("%s, layout %q: %s, want %s\n%s", fault, layout, got[layout], v, verdicts(o))
			}
		}
	}
}

// TestGaps: results have gaps only in the layout of the stress test that has them.
func TestGaps(t *testing.T) {
	opt := options(t, openBroken(t, "writes_gaps", 0), ondevice.Options{})
	opt.Stress = true
	o := replay.Run(record(t, "torch.dropout", nil, normal(tensor.Float32, 8, 6).Slice(0, 0, 4, 2), 0.5, false), opt)
	for _, r := range o.Results {
		if gaps := strings.Contains(r.Reason, "between the elements"); gaps && r.Layout == "" {
			t.Errorf("as recorded: %s", r.Reason)
		}
	}
	if !strings.Contains(verdicts(o), "non-contiguous  fail: diopiDropout: ") {
		t.Errorf("no gap of a layout with gaps was found written:\n%s", verdicts(o))
	}
}

// TestWitness: what was recorded is the measure of the device.
func TestWitness(t *testing.T) {
	x, y := normal(tensor.Float32, 50), normal(tensor.Float32, 50)
	sum := tensor.New(tensor.Float32, []int{50}, make([]float64, 50))
	data := tensor.Data[float64](sum)
	for i := range data {
		data[i] = tensor.At[float64](x, i) + tensor.At[float64](y, i)
	}
	good := tensor.New(tensor.Float32, []int{50}, data).Rounded()
	data[3] += 1
	bad := tensor.New(tensor.Float32, []int{50}, data).Rounded()
	for _, tc := range []struct {
		fault    string
		recorded *tensor.Tensor
		want     string
	}{{"none", good, "same"}, {"none", bad, "better"}, {"nan_last_lane", good, "worse"}} {
		o := replay.Run(record(t, "torch.add", tc.recorded, x, y), options(t, openBroken(t, tc.fault, 0),
			ondevice.Options{}))
		if w := o.Results[0].Witness; w == nil || w.Verdict != tc.want {
			t.Errorf("%s: witness %+v, want %s", tc.fault, w, tc.want)
		}
	}
}

// TestConvertConfig: tensors get the dtype and layout that the library wants, and
// results are judged as computed in it, on the values that were converted.
func TestConvertConfig(t *testing.T) {
	config := func(text string) ondevice.Options {
		c, err := diopi.ParseConvertConfig("convert_config.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return ondevice.Options{Convert: c}
	}
	host := openLibrary(t, devicebridge.Config{Library: devicebridge.Host})
	x, y := normal(tensor.Float64, 3, 4), normal(tensor.Float64, 3, 4)
	for _, tc := range []struct {
		config, want string
	}{
		{"", "diopiMul"},
		{"- common_config: {dtype: (float64)->float32}", "diopiCastDtype diopiMul"},
		{"- diopiMul: {dtype: (float64)->float16}", "diopiCastDtype diopiMul"},
		{"- diopiMul: {tensor_dtype: {input: (float64)->float32}, layout: NCHW}",
			"diopiCastDtype diopiCopyInp diopiMul"},
	} {
		o := replay.Run(record(t, "torch.mul", nil, x.Transpose(0, 1), y.Transpose(0, 1)),
			options(t, host, config(tc.config)))
		if r := o.Results[0]; r.Verdict != verdict.Pass || r.DType != tensor.Float64 ||
			strings.Join(r.Functions, " ") != tc.want {
			t.Errorf("%s: %v, want %s:\n%s", tc.config, r.Functions, tc.want, verdicts(o))
		}
	}
}

// TestInterrupted: a call that was not finished is nobody's error.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	opt := options(t, openBroken(t, "none", 0), ondevice.Options{})
	opt.Device = ondevice.New(ctx, openBroken(t, "hangs", time.Minute), ondevice.Options{})
	for range 2 { // in the call, and before it
		o := replay.Run(record(t, "torch.add", nil, normal(tensor.Float32, 2), normal(tensor.Float32, 2)), opt)
		if o.Verdict() != verdict.Skipped || o.Results[0].Reason != "interrupted" {
			t.Errorf("%s", verdicts(o))
		}
	}
}
