//go:build amd64 || arm64 || loong64 || ppc64le || riscv64

package devicebridge

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/internal/faulttest"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/tensor"
)

func plan(calls ...*diopi.Call) *diopi.Plan { return &diopi.Plan{Calls: calls} }

func call(phase diopi.Phase, function string, args map[string]diopi.Arg) *diopi.Call {
	return &diopi.Call{Phase: phase, Function: function, Args: args}
}

func relu(phase diopi.Phase, out, in *diopi.Tensor) *diopi.Call {
	return call(phase, "diopiRelu", map[string]diopi.Arg{"out": out, "input": in})
}

// Tensors of every layout arrive and come back as their strides say.
func TestStrides(t *testing.T) {
	d := open(t, "none", Config{})
	v := floats([]int{2, 3}, -1, 2, 3, 4, -5, 6)
	for _, in := range [][]int{nil, {3, 1}, {1, 2}, {6, 2}, {4, 1}, {1, 1}} {
		if in != nil && in[0] == 1 && in[1] == 1 { // elements overlap
			v = floats([]int{2, 3}, 1, 1, 1, 1, 1, 1)
		}
		for _, out := range [][]int{nil, {1, 2}, {8, 2}} {
			x, y := input("input", v), output("out", 2, 3)
			x.Stride, y.Stride = in, out
			r := run(t, d, plan(relu(diopi.Forward, y, x)), Options{})
			var want []float64
			for _, e := range tensor.Data[float64](v) {
				want = append(want, max(0, e))
			}
			wantValues(t, r, y, want...)
			if got, _ := r.Tensor(y); out != nil && !slices.Equal(got.Stride, out) {
				t.Errorf("stride %v, want %v", got.Stride, out)
			}
			if len(r.Findings) > 0 {
				t.Errorf("in %v, out %v: %v", in, out, r.Findings)
			}
		}
	}
}

// A value that is itself a view, of a computed tensor, is written correctly.
func TestViewsAsValues(t *testing.T) {
	d := open(t, "none", Config{})
	base := tensor.New(tensor.Float32, []int{3, 2}, []float64{1, 2, 3, 4, 5, 6})
	for _, v := range []*tensor.Tensor{base.Transpose(0, 1), base.Slice(0, 2, 2, -1), base.Select(1, 1)} {
		for _, transposed := range []bool{false, true} {
			x, y := input("input", v), output("out", v.Shape...)
			if transposed && v.Dim() == 2 {
				x.Stride = []int{1, v.Shape[0]}
			}
			wantValues(t, run(t, d, plan(relu(diopi.Forward, y, x)), Options{}), y, tensor.Data[float64](v)...)
		}
	}
}

func TestGapsWritten(t *testing.T) {
	d := open(t, "writes_gaps", Config{})
	x, y := input("input", floats([]int{2, 2}, 1, 2, 3, 4)), output("out", 2, 2)
	y.Stride = []int{5, 2}
	r := run(t, d, plan(relu(diopi.Forward, y, x)), Options{})
	want := Finding{Kind: GapWritten, Call: 0, Arg: y, Role: "out", Count: 16, At: 4}
	if len(r.Findings) != 1 || r.Findings[0] != want {
		t.Errorf("findings %v, want %v", r.Findings, want)
	}
}

// Empty and 0-d tensors.
func TestDegenerateShapes(t *testing.T) {
	d := open(t, "none", Config{})
	for _, shape := range [][]int{{}, {0}, {2, 0, 3}, {1, 1}} {
		n := tensor.Numel(shape)
		v := tensor.New(tensor.Float32, shape, slices.Repeat([]float64{2}, n))
		x, y := input("input", v), output("out", shape...)
		r := run(t, d, plan(relu(diopi.Forward, y, x)), Options{})
		wantValues(t, r, y, tensor.Data[float64](v)...)
		if len(r.Findings) > 0 {
			t.Errorf("%v: %v", shape, r.Findings)
		}
	}
}

// Backward calls read what forward ones wrote; in-place ones write their input.
func TestPhases(t *testing.T) {
	d := open(t, "none", Config{})
	x, y, g := input("input", floats([]int{3}, -1, 2, 3)), output("out", 3), output("grad_input", 3)
	self := input("self", floats([]int{3}, -1, 2, -3))
	p := plan(
		relu(diopi.Forward, y, x),
		call(diopi.Backward, "diopiThresholdBackward", map[string]diopi.Arg{
			"grad_input": g, "grad_output": input("grad", floats([]int{3}, 7, 8, 9)), "input": y,
			"threshold": diopi.Scalar{DType: tensor.Int64}}),
		call(diopi.InPlace, "diopiReluInp", map[string]diopi.Arg{"input": self}),
	)
	r := run(t, d, p, Options{})
	wantValues(t, r, y, 0, 2, 3)
	wantValues(t, r, g, 0, 8, 9)
	wantValues(t, r, self, 0, 2, 0)
	if r.Worst() != nil || len(r.Findings) > 0 {
		t.Errorf("calls %+v, findings %v", r.Calls, r.Findings)
	}
	if _, ok := r.Tensor(x); ok {
		t.Error("an input has a result")
	}

	// Without its forward call the backward one does not run, the in-place one does.
	p.Calls[0] = call(diopi.Forward, "diopiExp", map[string]diopi.Arg{"out": y, "input": x})
	r = run(t, d, p, Options{})
	want := []Status{Unsupported, NotRun, OK}
	for i, c := range r.Calls {
		if c.Status != want[i] {
			t.Errorf("call %d: %v, want %v", i, c.Status, want[i])
		}
	}
	if w := r.Worst(); w == nil || w.Reason != "the library has no diopiExp" {
		t.Errorf("Worst = %+v", w)
	}
	wantValues(t, r, self, 0, 2, 0)
}

// What the calls before a crash gave is kept.
func TestResultsBeforeCrash(t *testing.T) {
	d := open(t, "mixed", Config{})
	x, y := input("input", floats([]int{2}, 5, -6)), output("out", 2)
	z := output("z", 2)
	p := plan(relu(diopi.Forward, y, x), relu(diopi.InPlace, z, input("bad", floats([]int{2}, 1, 1))))
	r := run(t, d, p, Options{})
	wantValues(t, r, y, 5, 0)
	if r.Fate == nil || r.Fate.Status != Crashed || r.Fate.Call != 1 || r.Fate.Signal != "SIGSEGV" {
		t.Errorf("fate %+v", r.Fate)
	}
	if _, ok := r.Tensor(z); ok {
		t.Error("the crashed call has a result")
	}
}

func TestCalleeMadeTensors(t *testing.T) {
	nonzero := func(fault string) (*Result, *diopi.Alloc) {
		d := open(t, fault, Config{})
		a := &diopi.Alloc{Role: "out0"}
		return run(t, d,
			plan(call(diopi.Forward, "diopiNonzero", map[string]diopi.Arg{"out": a,
				"input": input("input", floats([]int{2, 2}, 0, 1, 2, 0))})), Options{}), a
	}
	for _, test := range []struct {
		fault string
		dtype tensor.DType
		shape []int
	}{
		{"none", tensor.Int64, []int{2, 2}},
		{"wrong_dtype", tensor.Int32, []int{2, 2}},
		{"wrong_shape", tensor.Int64, []int{3, 2}},
		{"separate_memory", tensor.Int64, []int{2, 2}},
	} {
		r, a := nonzero(test.fault)
		got, ok := r.Tensor(a)
		if !ok || got.DType != test.dtype || !slices.Equal(got.Shape, test.shape) {
			t.Errorf("%s: got %v, want %v %v", test.fault, got, test.dtype, test.shape)
			continue
		}
		if v := tensor.Data[int64](got)[:4]; !slices.Equal(v, []int64{0, 1, 1, 0}) {
			t.Errorf("%s: %v", test.fault, v)
		}
		if unwritten := len(r.Findings) == 1 && r.Findings[0].Kind == Unwritten &&
			r.Findings[0].Count == 2; unwritten != (test.fault == "wrong_shape") {
			t.Errorf("%s: findings %v", test.fault, r.Findings)
		}
	}
	r, a := nonzero("wild_handle")
	if _, ok := r.Tensor(a); ok || r.Calls[0].Status != Failed ||
		!strings.Contains(r.Calls[0].Reason, "no tensor of the runtime") {
		t.Errorf("wild handle: %+v", r.Calls[0])
	}

	// A later call takes it as an argument.
	d := open(t, "none", Config{})
	b, out := &diopi.Alloc{Role: "made"}, &diopi.Tensor{Role: "out", DType: tensor.Int64, Shape: []int{2, 1}}
	in := map[string]diopi.Arg{"out": b, "input": input("input", floats([]int{3}, 0, 1, 2))}
	r = run(t, d, plan(call(diopi.Forward, "diopiNonzero", in), call(diopi.Forward, "diopiRelu",
		map[string]diopi.Arg{"out": out, "input": b})), Options{})
	wantValues(t, r, out, 1, 2)
	made, none := r.Calls[0].Memory, r.Calls[1].Memory
	if made.Kept != 16 || made.Requests < 1 || made.Bytes < made.Kept || none != (Memory{}) {
		t.Errorf("memory asked for: %+v, then %+v; want two int64 kept, then none", made, none)
	}
}

func TestPlainResults(t *testing.T) {
	d := open(t, "none", Config{})
	for _, same := range []bool{true, false} {
		o := &diopi.Out{Role: "equal"}
		other := floats([]int{2}, 1, 2)
		if !same {
			other = floats([]int{2}, 1, 3)
		}
		r := run(t, d,
			plan(call(diopi.Forward, "diopiEqual", map[string]diopi.Arg{"out": o,
				"input": input("input", floats([]int{2}, 1, 2)), "other": input("other", other)})), Options{})
		if v, _ := r.Out(o); v != same {
			t.Errorf("Out = %v, want %v", v, same)
		}
	}
}

func TestSparse(t *testing.T) {
	d := open(t, "none", Config{})
	ints := func(role string, v ...int64) *diopi.Tensor {
		return input(role, tensor.New(tensor.Int32, []int{len(v)}, v))
	}
	a := &diopi.Tensor{Role: "input", DType: tensor.Float32, Shape: []int{2, 3}, CSR: &diopi.CSR{
		CrowIndices: ints("crow", 0, 2, 3), ColIndices: ints("col", 0, 2, 1),
		Values: input("values", floats([]int{3}, 1, 2, 3))}}
	out := output("out", 2, 2)
	r := run(t, d,
		plan(call(diopi.Forward, "diopiSpMM", map[string]diopi.Arg{"out": out, "input": a,
			"mat2": input("mat2", floats([]int{3, 2}, 1, 2, 3, 4, 5, 6))})), Options{})
	wantValues(t, r, out, 11, 14, 9, 12)
	dense := input("dense", floats([]int{2, 3}, 1, 2, 3, 4, 5, 6))
	r = run(t, d, plan(call(diopi.Forward, "diopiSpMM", map[string]diopi.Arg{"out": out, "input": dense,
		"mat2": dense})), Options{})
	if c := r.Calls[0]; c.Status != Failed || c.Code != 1 ||
		c.Reason != "diopiSpMM returned 1 (diopiErrorOccurred): input is not sparse" {
		t.Errorf("call %+v", c)
	}
}

// A generator starts every run in the state the plan gives it.
func TestGenerator(t *testing.T) {
	d := open(t, "none", Config{})
	fill := func(seed uint64, o Options) []float64 {
		x := input("inout", floats([]int{4}, 0, 0, 0, 0))
		r := run(t, d,
			plan(call(diopi.InPlace, "diopiUniformInp", map[string]diopi.Arg{"inout": x, "from": diopi.Real(0),
				"to": diopi.Real(1), "generator": &diopi.Generator{Seed: seed}})), o)
		if len(r.Findings) > 0 {
			t.Errorf("findings %v", r.Findings)
		}
		v, _ := r.Tensor(x)
		return tensor.Data[float64](v)
	}
	a, b, c := fill(1, Options{}), fill(1, Options{Repeat: 3}), fill(2, Options{})
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("%v %v %v: want the first two equal, the third not", a, b, c)
	}
}

func TestRepeat(t *testing.T) {
	for fault, want := range map[string]FindingKind{"nondeterministic": Nondeterministic, "leaks": Leaked} {
		d := open(t, fault, Config{})
		p, out := addPlan()
		r := run(t, d, p, Options{Repeat: 5})
		if len(r.Findings) != 1 || r.Findings[0].Kind != want {
			t.Fatalf("%s: findings %v", fault, r.Findings)
		}
		f := r.Findings[0]
		if fault == "leaks" && f.Count < 100 || fault == "nondeterministic" && (f.Count != 1 || f.At != 0 ||
			f.Arg != out) {
			t.Errorf("%s: %+v", fault, f)
		}
	}
	d := open(t, "frees_in_thread", Config{}) // malloc keeps blocks for that thread
	p, _ := addPlan()
	if r := run(t, d, p, Options{Repeat: 3}); len(r.Findings) > 0 {
		t.Errorf("memory freed by another thread: findings %v", r.Findings)
	}
	d = open(t, "none", Config{})
	x := input("self", floats([]int{3}, -1, 2, -3)) // restored for every run
	r := run(t, d, plan(call(diopi.InPlace, "diopiReluInp", map[string]diopi.Arg{"input": x})), Options{Repeat: 4})
	wantValues(t, r, x, 0, 2, 0)
	if len(r.Findings) > 0 {
		t.Errorf("findings %v", r.Findings)
	}
}

// An operator of known time: no run is measured as shorter, whatever the caches
// hold, and one that writes its input finds it as it was.
func TestTimingKnown(t *testing.T) {
	const wanted = 300 * time.Microsecond
	for _, fault := range []string{"spins", "spins_longer"} {
		d := open(t, fault, Config{})
		for _, flush := range []int64{0, 1 << 20} {
			x, y := input("input", floats([]int{2}, 300, 1)), input("other", floats([]int{2}, 1000, 1))
			p := plan(call(diopi.InPlace, "diopiAdd", map[string]diopi.Arg{"out": x, "input": x, "other": y,
				"alpha": one}))
			r := run(t, d, p, Options{Time: &Timing{Runs: 5, FlushBytes: flush}})
			wantValues(t, r, x, 1300, 2)
			if len(r.Waited) != 5 {
				t.Errorf("%s: waits of %d runs, want those of 5", fault, len(r.Waited))
			}
			d.Renew()
			if len(r.Calls[0].Runs) != 5 || slices.Min(r.Calls[0].Runs) < wanted {
				t.Errorf("%s, %d bytes flushed: %v; want 5 runs of at least %v", fault, flush, r.Calls[0].Runs, wanted)
			}
		}
	}
}

// TestPlace: the thread of a worker that calls functions runs on the processor of a turn, of those that may be used.
func TestPlace(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	d := open(t, "none", Config{})
	d.Renew()
	d.Place(0) // no worker runs
	p, out := addPlan()
	wantValues(t, run(t, d, p, Options{}), out, 11, 22, 33, 44, 55)
	seen := map[int]bool{}
	for turn := range 2 * all.Count() {
		d.Place(turn)
		wantValues(t, run(t, d, p, Options{}), out, 11, 22, 33, 44, 55)
		var one unix.CPUSet
		if err := unix.SchedGetaffinity(d.slots[0].worker.pid(), &one); err != nil || one.Count() != 1 {
			t.Fatalf("turn %d: on %d processors, %v, want one", turn, one.Count(), err)
		}
		for cpu := range 8 * len(one) * 8 {
			if one.IsSet(cpu) && !all.IsSet(cpu) {
				t.Errorf("turn %d: on processor %d, which this process may not use", turn, cpu)
			}
			seen[cpu] = seen[cpu] || one.IsSet(cpu)
		}
	}
	maps.DeleteFunc(seen, func(_ int, yes bool) bool { return !yes })
	if len(seen) != all.Count() {
		t.Errorf("on %d processors in turn, want all %d", len(seen), all.Count())
	}
}

func TestTiming(t *testing.T) {
	d := open(t, "none", Config{})
	p, out := addPlan()
	r := run(t, d, p, Options{Time: &Timing{WarmUp: 2, Runs: 7, FlushBytes: 1 << 20}})
	wantValues(t, r, out, 11, 22, 33, 44, 55)
	if n := len(r.Calls[0].Runs); n != 7 || slices.Min(r.Calls[0].Runs) <= 0 {
		t.Errorf("%d runs: %v; want 7 positive times", n, r.Calls[0].Runs)
	}
	r = run(t, d, p, Options{Time: &Timing{Runs: 1 << 30, Budget: 20 * time.Millisecond}})
	if n := len(r.Calls[0].Runs); n == 0 || n == 1<<30 {
		t.Errorf("%d runs in 20 ms", n)
	}
}

// An exception for what a library does not support costs one call.
func TestThrowKeepsWorker(t *testing.T) {
	d := open(t, "none", Config{})
	x := input("input", tensor.New(tensor.Int8, []int{1}, []int64{1}))
	out := &diopi.Tensor{Role: "out", DType: tensor.Int8, Shape: []int{1}}
	r := run(t, d, plan(relu(diopi.Forward, out, x)), Options{})
	if c := r.Calls[0]; c.Status != Threw ||
		c.Reason != "diopiRelu threw std::runtime_error: dtype 0 is not supported" || r.Fate != nil {
		t.Errorf("call %+v, fate %+v", c, r.Fate)
	}
}

func TestPlanErrors(t *testing.T) {
	d := open(t, "none", Config{})
	x, y := input("input", floats([]int{1}, 1)), output("out", 1)
	for want, c := range map[string]*diopi.Call{
		"diopiRelu: argument input is not given": call(diopi.Forward, "diopiRelu",
			map[string]diopi.Arg{"out": y}),
		"diopiRelu: it has no parameter inplace": call(diopi.Forward, "diopiRelu",
			map[string]diopi.Arg{"out": y, "input": x, "inplace": diopi.Bool(true)}),
		"diopiRelu: argument input: want *diopi.Tensor or *diopi.Alloc for tensor_in, got diopi.Integer": call(
			diopi.Forward, "diopiRelu",
			map[string]diopi.Arg{"out": y, "input": diopi.Integer(1)}),
		"diopiNope: no such operator in DIOPI's interface":       call(diopi.Forward, "diopiNope", nil),
		"diopiGetVersion: no such operator in DIOPI's interface": call(diopi.Forward, "diopiGetVersion", nil),
		"diopiRelu: argument out: out: DIOPI has no dtype float8_e5m2": call(diopi.Forward, "diopiRelu",
			map[string]diopi.Arg{
				"out": &diopi.Tensor{Role: "out", DType: tensor.Float8E5M2, Shape: []int{1}}, "input": x}),
		"diopiRelu: argument out: out is float32[2], its value float32[1]": call(diopi.Forward, "diopiRelu",
			map[string]diopi.Arg{
				"out": &diopi.Tensor{Role: "out", DType: tensor.Float32, Shape: []int{2}, Value: x.Value}, "input": x}),
		"diopiRelu: argument out: out: shape [-1], stride [1]: negative": call(diopi.Forward, "diopiRelu",
			map[string]diopi.Arg{
				"out": output("out", -1), "input": x}),
		"diopiRelu: argument out: out: the tensors need 256 GiB, more than a worker can share": call(diopi.Forward,
			"diopiRelu", map[string]diopi.Arg{
				"out": &diopi.Tensor{Role: "out", DType: tensor.Bool, Shape: []int{1 << 62, 1 << 62}}, "input": x}),
	} {
		if _, err := d.Run(t.Context(), plan(c)); err == nil || err.Error() != want {
			t.Errorf("Run: %v, want %s", err, want)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	requireNative(t)
	crash := faulttest.Library(t, "crashes_on_load")
	content, err := os.ReadFile(crash)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	changed := func(at int, b byte) []byte {
		c := slices.Clone(content)
		c[at] = b
		return c
	}
	cut, sparc, short := file("cut.so", content[:len(content)/2]), file("sparc.so", changed(18, 2)),
		file("ehdr.so", content[:20])
	object, none := file("object.o", changed(16, 1)), faulttest.Library(t, "none")
	for want, c := range map[string]Config{
		"device /nowhere.so: no such file":                                        {Library: "/nowhere.so"},
		"device .: it is a directory, want a shared library":                      {Library: "."},
		"device ./doc.go: it is no shared library: no ELF file, or a damaged one": {Library: "./doc.go"},
		"device " + short + ": it is no shared library: no ELF file":              {Library: short},
		"device " + sparc + ": it is built for sparc (64 bits), this machine is ": {Library: sparc},
		"device " + object + ": it is no shared library but of type ET_REL":       {Library: object},
		"device " + cut + ": it is ":                                              {Library: cut},
		"device /dev/null: it is no regular file, want a shared library":          {Library: "/dev/null"},
		"device " + crash + ": loading it: killed by SIGSEGV":                     {Library: crash},
		"device " + none + ": adaptor: no such file":                              {Library: none, Adaptor: "/nowhere.so"},
		"device " + none + ": adaptor: it has none of device_mallo":               {Library: none, Adaptor: none},
	} {
		d, err := Open(t.Context(), c)
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Open(%+v): %v, want %s", c, err, want)
		}
	}
}

// Device functions may come from a library of their own.
func TestAdaptor(t *testing.T) {
	d := open(t, "separate_memory", Config{Adaptor: faulttest.Library(t, "separate_memory")})
	if !d.Info().Adaptor {
		t.Error("the device functions were not found")
	}
	x := input("self", floats([]int{4}, -1, 2, -3, 4))
	host := input("input", floats([]int{4}, 1, 2, 3, 4))
	host.Host = true
	out := output("out", 4)
	r := run(t, d, plan(
		call(diopi.InPlace, "diopiReluInp", map[string]diopi.Arg{"input": x}),
		relu(diopi.Forward, out, host)), Options{Repeat: 3})
	wantValues(t, r, x, 0, 2, 0, 4)
	wantValues(t, r, out, 1, 2, 3, 4)
	if len(r.Findings) > 0 {
		t.Errorf("findings %v", r.Findings)
	}
}

func TestCancel(t *testing.T) {
	d := open(t, "hangs", Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	p, _ := addPlan()
	if _, err := d.Run(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run: %v, want that the context ended", err)
	}
}

// The built-in device, where it was built.
func TestHost(t *testing.T) {
	if _, err := built(hostLibrary); err != nil {
		t.Skip(err)
	}
	d, err := Open(t.Context(), Config{Library: Host})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const n = 1 << 20 // enough for all its threads
	out := output("out", n)
	x := input("input", tensor.Full(tensor.Float32, []int{n}, 1.5).Rounded())
	r := run(t, d, plan(call(diopi.Forward, "diopiAdd", map[string]diopi.Arg{"out": out, "input": x, "other": x,
		"alpha": one})), Options{Repeat: 3})
	v, ok := r.Tensor(out)
	if !ok || slices.ContainsFunc(tensor.Data[float64](v), func(e float64) bool { return e != 3 }) {
		t.Errorf("1.5 + 1.5 is not 3 everywhere; calls %+v", r.Calls)
	}
	if len(r.Findings) > 0 {
		t.Errorf("findings %v", r.Findings)
	}
}

// Tensors that do not fit into memory are refused before anything is allocated.
func TestPlanMemory(t *testing.T) {
	quota.SetMemory(1 << 30)
	defer quota.SetMemory(0)
	big := func(role string) *diopi.Tensor {
		return &diopi.Tensor{Role: role, DType: tensor.Bool, Shape: []int{1 << 32}}
	}
	_, err := newRequest(plan(relu(diopi.Forward, big("out"), big("input"))))
	const want = "the memory shared with the device: needs 8." // what other tests still hold is added
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("newRequest: %v, want %s...", err, want)
	}
}
