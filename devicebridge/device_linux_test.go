//go:build amd64 || arm64 || loong64 || ppc64le || riscv64

package devicebridge

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/internal/faulttest"
	"github.com/optool/optool/tensor"
)

// open opens the device with a fault; the test is skipped where nothing can be
// compiled.
func open(t testing.TB, fault string, c Config) *Device {
	t.Helper()
	requireNative(t)
	c.Library = faulttest.Library(t, fault)
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	d, err := Open(t.Context(), c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func requireNative(t testing.TB) {
	t.Helper()
	if _, err := built("worker"); err != nil {
		t.Skip(err)
	}
}

func run(t testing.TB, d *Device, p *diopi.Plan, o Options) *Result {
	t.Helper()
	r, err := d.RunWith(context.Background(), p, o)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return r
}

func floats(shape []int, v ...float64) *tensor.Tensor {
	return tensor.New(tensor.Float32, shape, v).Rounded()
}

func input(role string, v *tensor.Tensor) *diopi.Tensor {
	return &diopi.Tensor{Role: role, DType: v.DType, Shape: v.Shape, Value: v}
}

func output(role string, shape ...int) *diopi.Tensor {
	return &diopi.Tensor{Role: role, DType: tensor.Float32, Shape: shape}
}

var one = diopi.Scalar{DType: tensor.Float32, Float: 1}

// addPlan is out = x + y on five elements.
func addPlan() (*diopi.Plan, *diopi.Tensor) {
	out := output("out", 5)
	return &diopi.Plan{Calls: []*diopi.Call{{Phase: diopi.Forward, Function: "diopiAdd", Args: map[string]diopi.Arg{
		"out": out, "input": input("input", floats([]int{5}, 10, 20, 30, 40, 50)),
		"other": input("other", floats([]int{5}, 1, 2, 3, 4, 5)), "alpha": one,
	}}}, Outputs: []diopi.Arg{out}}, out
}

func wantValues(t *testing.T, r *Result, a diopi.Arg, want ...float64) {
	t.Helper()
	got, ok := r.Tensor(a)
	if !ok {
		t.Fatalf("%s: no value; calls %+v", role(a), r.Calls)
	}
	if v := tensor.Data[float64](got); !slices.Equal(v, want) {
		t.Errorf("%s = %v, want %v", role(a), v, want)
	}
}

func TestRun(t *testing.T) {
	d := open(t, "none", Config{})
	p, out := addPlan()
	r := run(t, d, p, Options{})
	wantValues(t, r, out, 11, 22, 33, 44, 55)
	if len(r.Findings) != 0 || r.Fate != nil || r.Calls[0].Status != OK {
		t.Errorf("Run = %+v, want no finding", r)
	}
	info := d.Info()
	if info.Vendor != "Stranger" || info.Version != "0.1" || !info.LastError || info.Adaptor ||
		!slices.Contains(info.Functions, "diopiMm") || slices.Contains(info.Missing, "diopiMm") ||
		!slices.Contains(info.Missing, "diopiExp") {
		t.Errorf("Info = %+v", info)
	}
}

// Each wrong device, run on add, gets its verdict.
func TestFaults(t *testing.T) {
	type finding struct {
		kind      FindingKind
		role      string
		count, at int64
	}
	tests := []struct {
		fault    string
		status   Status
		reason   string // part of it
		findings []finding
	}{
		{fault: "none"},
		{fault: "chatters"},
		{fault: "separate_memory"},
		{fault: "leaves_child"},
		{fault: "overwrites_input", findings: []finding{{InputChanged, "input", 1, 1}}},
		{fault: "out_of_bounds", findings: []finding{{OutOfBounds, "out", 4, 20}}},
		{fault: "out_of_bounds_before", findings: []finding{{OutOfBounds, "out", 4, -4}}},
		{fault: "partly_unwritten", findings: []finding{{Unwritten, "out", 3, 2}}},
		{fault: "unwritten", findings: []finding{{Unwritten, "out", 5, 0}}},
		{fault: "stale_workspace", findings: []finding{{Unwritten, "out", 5, 0}}},
		{fault: "changes_shape", findings: []finding{{MetadataChanged, "out", 1, 0}}},
		{fault: "flushes_subnormals", findings: []finding{{FloatModeChanged, "memory the operator asked for", 1, 0}}},
		{fault: "writes_wider", findings: []finding{{OutOfBounds, "out", 20, 20}}},
		{fault: "rounds_up", findings: []finding{{FloatModeChanged, "memory the operator asked for", 1, 0}}},
		{fault: "overruns_workspace", findings: []finding{{OutOfBounds, "memory the operator asked for", 1, 100}}},
		{fault: "hangs", status: TimedOut, reason: "diopiAdd: no answer in time"},
		{fault: "busy_hangs", status: TimedOut, reason: "diopiAdd: no answer in time"},
		{fault: "stuck_stream", status: TimedOut, reason: "diopiAdd: no answer in time"},
		{fault: "segfaults", status: Crashed,
			reason: "diopiAdd: killed by SIGSEGV; stderr ends: about to touch address 16"},
		{fault: "aborts", status: Crashed, reason: "diopiAdd: killed by SIGABRT; stderr ends: internal error 42"},
		{fault: "divides_by_zero", status: Crashed, reason: "diopiAdd: killed by SIGFPE"},
		{fault: "frees_tensor", status: Crashed, reason: "diopiAdd: killed by SIGABRT"},
		{fault: "throws_in_thread", status: Crashed, reason: "diopiAdd: killed by SIGABRT"},
		{fault: "dribbles", status: TimedOut, reason: "diopiAdd: no answer in time"},
		{fault: "answers_others", status: TimedOut, reason: "diopiAdd: no answer in time"},
		{fault: "garbles", status: Crashed, reason: "diopiAdd: it broke the connection to optool: an answer of 4294967295 bytes"},
		{fault: "forges", status: Crashed, reason: "diopiAdd: it broke the connection to optool: the last answer before"},
		{fault: "forges_findings", status: Crashed, reason: "diopiAdd: it broke the connection to optool: a finding about"},
		{fault: "stops_itself", status: TimedOut, reason: "diopiAdd: no answer in time"},
		{fault: "catches_signals", status: TimedOut, reason: "diopiAdd: no answer in time"},
		{fault: "frees_input", status: Crashed, reason: "diopiAdd: killed by SIGABRT"},
		{fault: "kills_group", status: Crashed, reason: "diopiAdd: killed by SIGKILL"},
		{fault: "recurses", status: Crashed, reason: "diopiAdd: killed by SIGSEGV"},
		{fault: "jumps_out", status: Crashed, reason: "diopiAdd: killed by SIGSEGV"},
		{fault: "unloads_itself", status: Crashed, reason: "diopiAdd: killed by SIGSEGV"},
		{fault: "exits_at_once", status: Exited, reason: "diopiAdd: it ended the process with exit code 0"},
		{fault: "closes_files", status: Exited, reason: "diopiAdd: it ended the process with exit code 1"},
		{fault: "dangling_error", status: Failed,
			reason: "diopiAdd returned 1 (diopiErrorOccurred): diopiGetLastErrorString gives an address that cannot be read"},
		{fault: "exits", status: Exited, reason: "diopiAdd: it ended the process with exit code 3"},
		{fault: "throws", status: Threw, reason: "diopiAdd threw std::runtime_error: not today"},
		{fault: "throws_custom", status: Threw, reason: "diopiAdd threw (anonymous namespace)::Unsupported"},
		{fault: "lacks_dtype", status: Unsupported,
			reason: "diopiAdd threw std::runtime_error: \"add_stub\" not implemented for 'Half'"},
		{fault: "throws_lines", status: Threw, reason: "diopiAdd threw std::runtime_error: index out of range"},
		{fault: "floods"},
		{fault: "traces_parent"},
		{fault: "kills_parent"},
		{fault: "forks"},
		{fault: "answers_late"},
		{fault: "out_of_memory", status: Threw, reason: "diopiAdd threw std::bad_alloc: std::bad_alloc"},
		{fault: "truncates", status: Crashed, reason: "diopiAdd: killed by SIGBUS"},
		{fault: "traps_floats", findings: []finding{{FloatModeChanged, "memory the operator asked for", 1, 0}}},
		{fault: "rounds_short", findings: []finding{{FloatModeChanged, "memory the operator asked for", 1, 0}}},
		{fault: "throws_foreign", status: Threw, reason: "diopiAdd threw a foreign exception"},
		{fault: "throws_nothing", status: Threw, reason: "diopiAdd threw (anonymous namespace)::Silent"},
		{fault: "executes", status: Exited, reason: "diopiAdd: it ended the process with exit code 0"},
		{fault: "executes_long", status: Crashed,
			reason: "diopiAdd: it broke the connection to optool: it was closed"},
		{fault: "ends_thread", status: Exited, reason: "diopiAdd: it ended the process with exit code 1; " +
			"stderr ends: the operator ended the thread that called it"},
		{fault: "traces_itself", status: TimedOut, reason: "diopiAdd: no answer in time"},
		{fault: "waits_for_child", status: TimedOut, reason: "diopiAdd: no answer in time"},
		{fault: "writes_without_end", status: TimedOut, reason: "diopiAdd: no answer in time"},
		{fault: "forks_many"},
		{fault: "leaves_zombies"},
		{fault: "asks_too_much"},
		{fault: "queues_files"},
	}
	for _, test := range tests {
		t.Run(test.fault, func(t *testing.T) {
			timeout := 30 * time.Second
			if test.status == TimedOut {
				timeout = 300 * time.Millisecond
			}
			d := open(t, test.fault, Config{})
			d.config.Timeout = timeout
			p, out := addPlan()
			r := run(t, d, p, Options{})
			if c := r.Calls[0]; c.Status != test.status || !strings.HasPrefix(c.Reason, test.reason) ||
				(test.status == OK) != (c.Reason == "") || strings.Contains(c.Reason, "frame #") {
				t.Errorf("status %v, reason %q; want %v, %q", c.Status, c.Reason, test.status, test.reason)
			}
			dead := test.status == Crashed || test.status == TimedOut || test.status == Exited
			if (r.Fate != nil) != dead {
				t.Errorf("fate %+v, want one: %v", r.Fate, dead)
			}
			var got []finding
			for _, f := range r.Findings {
				got = append(got, finding{f.Kind, f.Role, f.Count, f.At})
			}
			if !slices.Equal(got, test.findings) {
				t.Errorf("findings %v, want %v", got, test.findings)
			}
			if test.status == OK && test.findings == nil {
				wantValues(t, r, out, 11, 22, 33, 44, 55)
			}
			// Whatever happened, the device runs on.
			if _, err := d.Run(t.Context(), p); err != nil {
				t.Errorf("a second Run: %v", err)
			}
		})
	}
}

// TestKeptError: a function that is not implemented does not get the text of an earlier failure.
func TestKeptError(t *testing.T) {
	d := open(t, "keeps_error", Config{})
	p, _ := addPlan()
	want := "diopiAdd returned 1 (diopiErrorOccurred): add: launch failed"
	if got := run(t, d, p, Options{}).Calls[0].Reason; got != want {
		t.Errorf("add: %q, want %q", got, want)
	}
	p, _ = addPlan()
	p.Calls[0].Function, want = "diopiSub", "diopiSub returned 1000 (diopiDtypeNotSupported)"
	if got := run(t, d, p, Options{}).Calls[0].Reason; got != want {
		t.Errorf("sub: %q, want %q", got, want)
	}
}

// TestLateAnswers: what a library does behind the worker's back, in copies of its
// process and in threads that outlive a call, is no other call's fault.
func TestLateAnswers(t *testing.T) {
	for _, fault := range []string{"answers_late", "forks"} {
		d := open(t, fault, Config{})
		for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
			p, out := addPlan()
			r := run(t, d, p, Options{})
			if got, ok := r.Tensor(out); r.Worst() != nil || len(r.Findings) > 0 || r.Fate != nil || !ok {
				t.Fatalf("%s: %+v, findings %v, fate %+v, result %v", fault, r.Calls, r.Findings, r.Fate, got)
			}
		}
	}
}

// TestLeftBehind: what a call leaves behind in the worker changes no later call, in namespaces and outside.
func TestLeftBehind(t *testing.T) {
	own := []string{"writes_late", "holds_handles", "maps_over", "shrinks"} // which may also spoil the call itself
	for _, fault := range slices.Concat(own, []string{"changes_locale", "changes_directory", "sets_alarm",
		"takes_addresses", "takes_descriptors", "lowers_as", "lowers_cpu", "lowers_data", "lowers_fsize", "lowers_nofile",
		"lowers_nproc", "lowers_stack", "changes_mask", "protects", "seals", "filters_calls"}) {
		t.Run(fault, func(t *testing.T) {
			d := open(t, fault, Config{})
			for _, way := range []isolation{d.launcher.isolation, 0} {
				d.launcher.isolation = way
				d.Renew()
				p, out := addPlan()
				r := run(t, d, p, Options{})
				if !slices.Contains(own, fault) {
					if r.Worst() != nil || len(r.Findings) > 0 {
						t.Fatalf("%+v, findings %v", r.Calls, r.Findings)
					}
					wantValues(t, r, out, 11, 22, 33, 44, 55)
				}
				for end := time.Now().Add(40 * time.Millisecond); time.Now().Before(end) && !t.Failed(); {
					y := output("out", 5)
					x := input("input", floats([]int{5}, 1, -2, 3, -4, 5))
					r := run(t, d, plan(relu(diopi.Forward, y, x)), Options{})
					if r.Worst() != nil || len(r.Findings) > 0 {
						t.Fatalf("the call after it: %+v, findings %v", r.Calls, r.Findings)
					}
					wantValues(t, r, y, 1, 0, 3, 0, 5)
				}
			}
		})
	}
}

// TestLateFaults: a call that ends or blocks the worker only while another runs does not make that one a
// crash or a timeout: it is run again, alone.
func TestLateFaults(t *testing.T) {
	for _, fault := range []string{"throws_late", "exits_late", "closes_late", "swaps_late", "garbles_late",
		"times_late", "stops_late"} {
		t.Run(fault, func(t *testing.T) {
			d := open(t, fault, Config{})
			p, out := addPlan()
			wantValues(t, run(t, d, p, Options{}), out, 11, 22, 33, 44, 55)
			if fault == "garbles_late" || fault == "stops_late" {
				d.config.Timeout = time.Second // after which the worker is known to be blocked
			}
			y := output("out", 5)
			r := run(t, d, plan(relu(diopi.Forward, y, input("input", floats([]int{5}, 1, -2, 3, -4, 5)))), Options{})
			if r.Worst() != nil || len(r.Findings) > 0 || r.Fate != nil {
				t.Fatalf("the call after it: %+v, findings %v, fate %+v", r.Calls, r.Findings, r.Fate)
			}
			wantValues(t, r, y, 1, 0, 3, 0, 5)
		})
	}
}

// TestNames: a library that cannot say who it is runs all the same.
func TestNames(t *testing.T) {
	for fault, remark := range map[string]string{
		"none":          "",
		"null_name":     "diopiGetVendorName gives no text but a null pointer",
		"dangling_name": "diopiGetVendorName gives an address that cannot be read",
		"endless_name":  "diopiGetVendorName gives a text that does not end after 1024 bytes",
		"throws_name":   "diopiGetVendorName threw std::runtime_error: no name",
	} {
		d := open(t, fault, Config{})
		i := d.Info()
		if got := strings.Join(i.Remarks, "; "); got != remark || (i.Vendor == "") != (remark != "") || i.Version != "0.1" {
			t.Errorf("%s: %q %q, remarks %q, want %q", fault, i.Vendor, i.Version, got, remark)
		}
		p, out := addPlan()
		wantValues(t, run(t, d, p, Options{}), out, 11, 22, 33, 44, 55)
	}
}

// TestOtherSources: a worker of other sources is refused before it is started.
func TestOtherSources(t *testing.T) {
	requireNative(t)
	before := programs
	defer func() { programs = before }()
	worker, err := built("worker")
	if err != nil {
		t.Fatal(err)
	}
	old := bytes.Replace(worker, []byte("optool worker of "), []byte("optool worker by "), 1)
	programs = fstest.MapFS{"native/dist/worker": &fstest.MapFile{Data: old}}
	if _, err := Open(t.Context(), Config{Library: Host}); err == nil || err.Error() != "device host: the worker was "+
		"built of other sources than this optool: run make" {
		t.Errorf("Open: %v", err)
	}
}

// TestFunctionNumbers: the worker numbers the operators as this package does.
func TestFunctionNumbers(t *testing.T) {
	list, err := sources.ReadFile("native/worker/functions.inc")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, m := range regexp.MustCompile(`(?m)^DIOPI_FUNCTION\((\w+)\)$`).FindAllSubmatch(list, -1) {
		got = append(got, string(m[1]))
	}
	for _, f := range diopi.Operators() {
		want = append(want, f.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d functions, want %d: run make generate", len(got), len(want))
	}
}

func TestDigest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib.so")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, B.1
	if got, err := Digest(path); got != want || err != nil {
		t.Errorf("Digest: %s, %v; want %s", got, err, want)
	}
	if got, err := Digest(path + "x"); got != "" || err == nil {
		t.Errorf("Digest of no file: %q, %v", got, err)
	}
}
