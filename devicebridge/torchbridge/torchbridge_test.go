//go:build unix

package torchbridge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/optool/optool/devicebridge/torchbridge"
	"github.com/optool/optool/devicebridge/torchdouble"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/ontorch"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

const asDouble = "OPTOOL_TEST_TORCH_DOUBLE"

// TestMain makes the test binary a stand-in for Python with torch.
func TestMain(m *testing.M) {
	if os.Getenv(asDouble) != "" {
		torchdouble.Main()
		return
	}
	os.Exit(m.Run())
}

// open opens a device that the double stands in for, with a fault.
func open(t *testing.T, fault string, c torchbridge.Config) *torchbridge.Device {
	t.Helper()
	c.Device, c.Python = "cpu", os.Args[0]
	c.Env = []string{asDouble + "=1", torchdouble.Fault + "=" + fault}
	d, err := torchbridge.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func add(x, y *tensor.Tensor) *torchbridge.Call {
	return &torchbridge.Call{Op: "torch.add", Args: []value.Value{x, y}, Kwargs: &value.Dict{Items: []value.Item{
		{Key: "alpha", Value: int64(2)}}}}
}

func f32(shape []int, data ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, shape, data) }

// TestRun: tensors arrive with their strides, and with what they share.
func TestRun(t *testing.T) {
	d := open(t, "", torchbridge.Config{})
	x := f32([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	for _, c := range []struct {
		x, y *tensor.Tensor
		want string
	}{
		{x, f32([]int{3}, 10, 20, 30), "[21 42 63 24 45 66]"},
		{x.Transpose(0, 1), f32([]int{2}, 1, 2), "[3 8 4 9 5 10]"},
		{stored(t, x).Slice(1, 1, 2, 1), f32(nil, 0.5), "[3 4 6 7]"},
		{f32([]int{0, 2}), f32([]int{2}, 1, 2), "[]"},
	} {
		res, err := d.Run(t.Context(), add(c.x, c.y))
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(tensor.Data[float64](res.Outputs[0]))
		if res.Forward.Status != torchbridge.OK || got != c.want {
			t.Errorf("%s + 2*%s: %+v, %s, want %s", c.x.Meta(), c.y.Meta(), res.Forward, got, c.want)
		}
	}
}

// stored is a tensor over bytes.
func stored(t *testing.T, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	s, err := tensor.NewView(tensor.NewStorage(x.AppendBytes(nil)), tensor.View{DType: x.DType, Shape: x.Shape,
		Stride: tensor.Contiguous(x.Shape)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFaults: whatever a call does, it costs that call alone, and it is said what it was.
func TestFaults(t *testing.T) {
	for fault, want := range map[string]struct {
		status torchbridge.Status
		reason string // or fault
	}{
		"crash":       {torchbridge.Crashed, "the worker crashed with SIGKILL"},
		"exit":        {torchbridge.Exited, "exit code 7: the driver gave up"},
		"hang":        {torchbridge.TimedOut, "did not come back in time"},
		"raise":       {torchbridge.Failed, "ValueError: nonsense"},
		"unsupported": {torchbridge.Unsupported, "not implemented for 'Half'"},
		"garbage":     {torchbridge.Failed, "the worker's answer cannot be read"},
		"late":        {torchbridge.OK, ""},
		"flood":       {torchbridge.OK, "it printed"},
	} {
		t.Run(fault, func(t *testing.T) {
			d := open(t, fault+" torch.sub", torchbridge.Config{Timeout: 5 * time.Second})
			x := f32([]int{2}, 1, 2)
			bad := add(x, x)
			bad.Op = "torch.sub"
			for _, c := range []*torchbridge.Call{add(x, x), bad, add(x, x)} {
				res, err := d.Run(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				status, reason := torchbridge.OK, ""
				if c == bad {
					status, reason = want.status, want.reason
				}
				said := res.Forward.Reason + strings.Join(res.Forward.Faults, "; ")
				if res.Forward.Status != status || !strings.Contains(said, reason) || reason == "" && said != "" {
					t.Errorf("%s: %+v, want status %d and %q", c.Op, res.Forward, status, reason)
				}
				if status == torchbridge.OK && len(res.Outputs) != 1 {
					t.Errorf("%s: %d results", c.Op, len(res.Outputs))
				}
			}
		})
	}
}

// TestOpenErrors: what keeps a device from being used is one sentence.
func TestOpenErrors(t *testing.T) {
	silent := filepath.Join(t.TempDir(), "silent")
	if err := os.WriteFile(silent, []byte("#!/bin/sh\necho no torch here >&2; exit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config torchbridge.Config
		want   string
	}{
		{torchbridge.Config{Python: "/no/such/python"}, "device torch:cpu: /no/such/python does not start"},
		{torchbridge.Config{Python: silent}, "exit code 3: no torch here"},
		{torchbridge.Config{Python: os.Args[0], Env: []string{asDouble + "=1", torchdouble.Fault + "=start"}},
			"RuntimeError: no such device"},
	} {
		c.config.Device, c.config.Timeout = "cpu", 5*time.Second
		if d, err := torchbridge.Open(t.Context(), c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.config.Python, err, c.want)
			if d != nil {
				d.Close()
			}
		}
	}
}

// TestStart: a device that starts is not waited for, calls wait for it, and say why there is
// none.
func TestStart(t *testing.T) {
	start := func(fault string) *torchbridge.Device {
		t.Helper()
		d, err := torchbridge.Start(t.Context(), torchbridge.Config{Device: "cpu", Python: os.Args[0],
			Env: []string{asDouble + "=1", torchdouble.Fault + "=" + fault}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	x := f32([]int{2}, 1, 2)
	if res, err := start("").Run(t.Context(), add(x, x)); err != nil || len(res.Outputs) != 1 {
		t.Errorf("the first call: %+v, %v", res, err)
	}
	d := start("start")
	_, err := d.Run(t.Context(), add(x, x))
	if want := d.Ready(); want == nil || err != want {
		t.Errorf("the first call of a device that does not start: %v, want %v", err, want)
	}
	start("startless").Close() // comes back
}

// TestTime: runs, whose clock they are of and what memory the last took come back.
func TestTime(t *testing.T) {
	d := open(t, "", torchbridge.Config{})
	x := f32([]int{1}, 1)
	got, pass, err := d.Time(t.Context(), add(x, x), torchbridge.Timing{Runs: 2})
	want := &torchbridge.Times{Runs: []time.Duration{1000, 1010}, OnDevice: true,
		Memory: &torchbridge.Memory{Peak: 4096, Kept: 1024, Requests: 3}}
	if err != nil || pass.Status != torchbridge.OK || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %+v, %v, want %+v", got, pass, err, want)
	}
}

// TestRefused: what cannot be sent is told before anything runs.
func TestRefused(t *testing.T) {
	d := open(t, "", torchbridge.Config{})
	generator := &value.Opaque{Global: "torch.Generator"}
	for _, v := range []value.Value{generator, value.NewList(generator)} {
		if res, err := d.Run(t.Context(), &torchbridge.Call{Op: "torch.rand", Args: []value.Value{v}}); err == nil {
			t.Errorf("%s: %+v, want an error", value.Repr(v), res)
		}
	}
}

// TestConcurrent: several goroutines share workers; a context that ends stops a call.
func TestConcurrent(t *testing.T) {
	d := open(t, "hang torch.sub", torchbridge.Config{Workers: 3})
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			x := f32([]int{1}, float64(i))
			res, err := d.Run(t.Context(), add(x, x))
			if err != nil || res.Forward.Status != torchbridge.OK || res.Outputs[0].Item() != float64(3*i) {
				t.Errorf("call %d: %+v, %v", i, res, err)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	x := f32([]int{1}, 1)
	c := add(x, x)
	c.Op = "torch.sub"
	if _, err := d.Run(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that its time is over", err)
	}
}

// TestOperators: calls of every operator, forms and gradients of them, come back as the
// reference computes them; the double decodes what is sent on its own.
func TestOperators(t *testing.T) {
	d := ontorch.New(t.Context(), open(t, "", torchbridge.Config{}), ontorch.Options{})
	r := rand.New(rand.NewPCG(1, 1))
	ran, graded := 0, 0
	for _, e := range ops.Default().Entries() {
		cases := e.Cases(r)
		for _, c := range cases[:min(2, len(cases))] {
			f, err := c.Forward()
			if err != nil || c.Random() != "" || len(f.Outs) == 0 || slices.Contains(f.Outs, nil) {
				continue
			}
			dc := &replay.DeviceCall{Call: c, Forward: f}
			grads := gradients(dc)
			run := d.Run(dc)
			if run.Forward.Verdict != "" { // a property, or an argument that is no value
				continue
			}
			ran++
			for i, w := range f.Outs {
				if g := run.Outputs[i]; g == nil || string(g.AppendBytes(nil)) != string(w.AppendBytes(nil)) {
					t.Errorf("%s: result %d differs", c.Name, i)
				}
			}
			for name, want := range grads {
				got := run.Grads[name]
				if run.Backward.Verdict == "" && len(got) == len(want) && want[0] != nil {
					graded++
					if string(got[0].AppendBytes(nil)) != string(want[0].AppendBytes(nil)) {
						t.Errorf("%s: gradient of %s differs", c.Name, name)
					}
				}
			}
		}
	}
	if ran < 1000 || graded < 300 {
		t.Errorf("%d calls and %d gradients were compared, want more", ran, graded)
	}
}

// gradients asks for the gradients of a call, with ones for those of its results, and
// gives what the reference has for them.
func gradients(dc *replay.DeviceCall) opdef.Grads {
	c := dc.Call
	if !c.Entry.HasGrad || c.InPlace() {
		return nil
	}
	need := map[string]bool{}
	for _, a := range c.Tensors() {
		if a.Index < 0 && a.Tensor.DType.IsFloat() && a.Tensor.RequiresGrad {
			need[a.Name] = true
			dc.Need = append(dc.Need, a.Name)
		}
	}
	for _, o := range dc.Forward.Outs {
		if !o.DType.IsFloat() {
			dc.Need, dc.GradOutputs = nil, nil
			return nil
		}
		dc.GradOutputs = append(dc.GradOutputs, tensor.Full(o.DType, o.Shape, 1.0))
	}
	grads, err := c.Backward(dc.Forward, dc.GradOutputs, need)
	if err != nil || len(need) == 0 {
		dc.Need, dc.GradOutputs = nil, nil
		return nil
	}
	return grads
}
