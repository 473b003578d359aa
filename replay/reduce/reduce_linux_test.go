package reduce_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/internal/faulttest"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/ondevice"
	"github.com/optool/optool/replay/reduce"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// broken opens the device with a fault.
func broken(t *testing.T, fault string) replay.Device {
	t.Helper()
	d, err := devicebridge.Open(t.Context(), devicebridge.Config{Library: faulttest.Library(t, fault), Workers: 1,
		Timeout: 2 * time.Second})
	if errors.Is(err, devicebridge.ErrNoDevices) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return ondevice.New(context.Background(), d, ondevice.Options{})
}

func options(t *testing.T, d replay.Device) replay.Options {
	t.Helper()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return replay.Options{Registry: ops.Default(), Tolerances: tol, Device: d}
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

func made(op string, output value.Value, args ...value.Value) *capture.Call {
	records := map[capture.Kind]*capture.Record{
		capture.Input: {Name: op, Args: args, Kwargs: &value.Dict{}, Identifier: "1/x/input"}}
	if output != nil {
		records[capture.Output] = &capture.Record{Name: op, Args: []value.Value{output}, Identifier: "1/x/output"}
	}
	return capture.Made(records)
}

// TestDevice plants a fault in a device and wants its cause, and the smallest call that
// shows it: also its cause, if that of the recorded call is found. Depends are all sentences about what the failure
// depends on.
func TestDevice(t *testing.T) {
	f32, f16 := tensor.Float32, tensor.Float16
	for _, c := range []struct {
		fault   string
		call    *capture.Call
		is      string
		depends []string
		cause   string // of the smallest call
	}{
		{"short_tail", made("torch.mm", nil, normal(f32, 37, 100), normal(f32, 100, 52)),
			"self float32[1, 17], mat2 float32[17, 1]",
			[]string{"dimension 1 of self, 0 of mat2 is not a multiple of 16"},
			"the last of the 17 terms of each sum is left out"},
		{"odd_rows", made("torch.mm", nil, normal(f32, 37, 100), normal(f32, 100, 52)),
			"self float32[3, 1], mat2 float32[1, 2]", []string{"dimension 0 of self is odd"}, // one zero shows no cause
			"the last of dimension 0 is zero, as if not written"},
		{"wide_columns", made("torch.mm", nil, normal(f32, 12, 20), normal(f32, 20, 300)),
			"self float32[2, 1], mat2 float32[1, 129]", []string{"dimension 1 of mat2 is at least 129"},
			"the last of dimension 1 is zero, as if not written"},
		{"half_products", made("torch.mm", nil, normal(f16, 24, 24), normal(f16, 24, 24)),
			"self float16[1, 2], mat2 float16[2, 2]", []string{"the dtype is float16, not float32 or float64"},
			"the last of the 2 terms of each sum is left out"},
		{"half_accumulate", made("torch.mm", nil, normal(f32, 12, 48), normal(f32, 48, 24)),
			"self float32[2, 2], mat2 float32[2, 1]", []string{"the dtype is float32 or float64, not float16",
				"the values are about those recorded: ones and small integers pass"},
			"products and their sums are kept in float16"},
		{"twice_biased", made("torch.nn.functional.linear", nil, normal(f32, 6, 5, 40), normal(f32, 30, 40),
			normal(f32, 30)),
			"input float32[1, 2, 1], weight float32[1, 1], bias float32[1]", []string{"there is bias"},
			"bias is multiplied by 2"},
		{"transposed_reads", made("torch.mm", nil, normal(f32, 12, 20), normal(f32, 40, 20).Transpose(0, 1)),
			"self float32[1, 2], mat2 float32[2, 2] strides [1 2]",
			[]string{"mat2 is not contiguous (strides [1 20])"}, "the strides of mat2 are ignored"},
		{"ignores_strides", made("torch.relu", nil, normal(f32, 33, 20).Slice(1, 0, 10, 2)),
			"self float32[1, 2] strides [4 2]", []string{"self is not contiguous (strides [20 2])"}, ""},
		{"nan_last_lane", made("torch.add", nil, normal(f32, 9, 33, 5), normal(f32, 33, 5)),
			"self float32[1, 1, 1], other float32[1, 1]", nil, ""},
		{"segfaults", made("torch.sub", nil, normal(f32, 64), normal(f32, 64)),
			"self float32[1], other float32[1]", nil, ""},
	} {
		t.Run(c.fault, func(t *testing.T) {
			r, err := reduce.Of(t.Context(), c.call, options(t, broken(t, c.fault)), time.Now().Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d calls: %v, only if %q, whatever %q", r.Runs, r.Is, r.Depends, r.Indifferent)
			if got := strings.Join(r.Is, ", "); got != c.is {
				t.Errorf("smallest call: got %s, want %s", got, c.is)
			}
			if !slices.Equal(r.Depends, c.depends) {
				t.Errorf("it depends on %q, want %q", r.Depends, c.depends)
			}
			cause := ""
			if r.Cause != nil {
				cause = r.Cause.Text
			}
			if cause != c.cause {
				t.Errorf("the cause of the smallest call is %q, want %q", cause, c.cause)
			}
			if !r.Done {
				t.Error("there was not enough time")
			}
		})
	}
}

func TestSound(t *testing.T) {
	call := made("torch.mm", nil, normal(tensor.Float32, 3, 4), normal(tensor.Float32, 4, 5))
	_, err := reduce.Of(t.Context(), call, options(t, broken(t, "none")), time.Now().Add(time.Minute))
	if !errors.Is(err, reduce.ErrSound) {
		t.Errorf("of a sound device: %v", err)
	}
}
