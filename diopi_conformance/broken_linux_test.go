//go:build amd64 || arm64

package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/devicebridge"
	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/internal/faulttest"
	"github.com/optool/optool/tensor"
)

// openBroken opens a wrong device of the bridge's corpus; the test is skipped
// where it cannot be built.
func openBroken(t *testing.T, fault string) *devicebridge.Device {
	t.Helper()
	host, err := devicebridge.Open(t.Context(), devicebridge.Config{Library: devicebridge.Host})
	if err != nil {
		t.Skip(err)
	}
	host.Close()
	d, err := devicebridge.Open(t.Context(), devicebridge.Config{Library: faulttest.Library(t, fault),
		Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// verdicts are the worst verdicts of cases on a device, by name.
func verdicts(t *testing.T, s *Store, d Device, cases []*configs.Case) map[string]verdict.Verdict {
	t.Helper()
	all := map[string]verdict.Verdict{}
	for _, c := range cases {
		all[c.Name] = verdict.Pass
		for _, r := range s.CheckDevice(t.Context(), d, c, CheckOptions{}) {
			if r.Verdict != verdict.Pass {
				all[c.Name] = r.Verdict
			}
		}
	}
	return all
}

// brokenCases generates the cases of the functions that the corpus has.
func brokenCases(t *testing.T) (*Store, []*configs.Case) {
	t.Helper()
	store := NewStore(t.TempDir(), "")
	cases := suiteCases(t, "add", "sub", "relu", "mm", "nonzero")
	for _, c := range cases {
		if m := store.Generate(c, GenerateOptions{}); m.Err != nil {
			t.Fatal(m.Err)
		}
	}
	return store, cases
}

// TestBrokenDevices finds a fault in the function that has it and in no other:
// every other case gets the verdict it gets on the device without fault.
func TestBrokenDevices(t *testing.T) {
	none := openBroken(t, "none")
	store, cases := brokenCases(t)
	right := verdicts(t, store, none, cases)
	for fault, function := range map[string]string{"swapped_arguments": "sub", "wrong_shape": "nonzero",
		"off_by_one_tile": "mm"} {
		t.Run(fault, func(t *testing.T) {
			found := 0
			for name, v := range verdicts(t, store, openBroken(t, fault), cases) {
				switch {
				case v == right[name]:
				case strings.Contains(name, "::"+function+"_") && right[name] == verdict.Pass && v == verdict.Fail:
					found++
				default:
					t.Errorf("%s: %s, without the fault %s", name, v, right[name])
				}
			}
			if found == 0 {
				t.Errorf("no case of %s found it", function)
			}
		})
	}
}

// TestCrashingDevice loses the one case in which the device crashes, whatever
// comes before and after it.
func TestCrashingDevice(t *testing.T) {
	d := openBroken(t, "mixed")
	store := NewStore(t.TempDir(), "")
	cases := suiteCases(t, "relu")
	for _, c := range cases {
		if m := store.Generate(c, GenerateOptions{}); m.Err != nil {
			t.Fatal(m.Err)
		}
		in, err := store.ReadInput(c.Name)
		if err != nil {
			t.Fatal(err)
		}
		x := in.Kwargs.Items[0].Value.(*tensor.Tensor)
		v := slices.Clone(tensor.Data[float64](x))
		if len(v) == 0 {
			continue
		}
		v[0] = 0.25
		if c.Name == "relu::relu_9.pth" {
			v[0] = 1 // what the device crashes at
		}
		x = tensor.New(x.DType, x.Shape, v).Rounded()
		in.Kwargs.Items[0].Value = x
		for i, e := range v {
			v[i] = max(e, 0)
		}
		if err := errors.Join(store.WriteInput(c.Name, in),
			store.WriteOutput(c.Name, tensor.New(x.DType, x.Shape, v).Rounded(), nil)); err != nil {
			t.Fatal(err)
		}
	}
	for name, v := range verdicts(t, store, d, cases) {
		want := verdict.Pass
		if name == "relu::relu_9.pth" {
			want = verdict.Crash
		}
		if v != want {
			t.Errorf("%s: %s, want %s", name, v, want)
		}
	}
}

// A lacking is a device without one function.
type lacking struct {
	Device
	function string
}

func (l lacking) Run(ctx context.Context, p *diopi.Plan) (*devicebridge.Result, error) {
	i := slices.IndexFunc(p.Calls, func(c *diopi.Call) bool { return c.Function == l.function })
	if i < 0 {
		return l.Device.Run(ctx, p)
	}
	res := &devicebridge.Result{Calls: make([]devicebridge.CallResult, len(p.Calls))}
	res.Calls[i] = devicebridge.CallResult{Function: l.function, Status: devicebridge.Unsupported, Reason: "missing"}
	return res, nil
}

// TestLacking: a device without the in-place form of a function is judged by what it has, and the function that it
// lacks is named. What is wrong is found.
func TestLacking(t *testing.T) {
	store, cases := brokenCases(t)
	for _, x := range []struct{ fault, lacks, phase string }{
		{"none", "diopiReluInp", "inplace"}, {"nan_last_lane", "diopiReluInp", "inplace"},
	} {
		d, found := lacking{openBroken(t, x.fault), x.lacks}, map[verdict.Verdict]int{}
		named := 0
		for _, c := range cases {
			if c.Function() != "relu" {
				continue
			}
			for _, r := range store.CheckDevice(t.Context(), d, c, CheckOptions{}) {
				switch {
				case r.Phase != x.phase:
					found[r.Verdict]++
				case r.Verdict == verdict.Unsupported && strings.Contains(r.Reason, x.lacks):
					named++
				default:
					t.Errorf("%s on %s without %s: %s %s: %s", c.Name, x.fault, x.lacks, r.Phase, r.Verdict, r.Reason)
				}
			}
		}
		if named == 0 || found[verdict.Pass] == 0 || (found[verdict.Fail] > 0) != (x.fault != "none") {
			t.Errorf("%s without %s: %d times named, other phases %v", x.fault, x.lacks, named, found)
		}
	}
}
