package cli

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/timing"
)

// TestMapsOfTwoDevices: the functions of --map-function are those of the first device only. Otherwise a kernel would be
// compared with itself. The screen says what each side ran.
func TestMapsOfTwoDevices(t *testing.T) {
	mine := map[string]string{"torch.add": "kernels:add"}
	d := &deviceFlags{device: "torch:cpu", against: "torch:cpu", devices: 1,
		torch: torchFlags{python: defaultPython, maps: mine}}
	if got := d.second().torch.maps; len(got) > 0 {
		t.Errorf("the second device runs %v", got)
	}
	if d.sameFunctions() {
		t.Error("a kernel and torch's own function are called the same")
	}
	if got := d.rivalName(); got != "the second torch:cpu" {
		t.Errorf("of two devices of one name the second is %q", got)
	}
	if got := (&deviceFlags{device: "host", against: "torch:cpu"}).rivalName(); got != "torch:cpu" {
		t.Errorf("the second device is %q", got)
	}
	all := func(string) bool { return true }
	names := reports.OldAndNew
	want := []string{"torch.add: new ran kernels:add, old ran torch's own function"}
	own := &deviceFlags{device: "torch:cpu", against: "torch:cpu", torch: torchFlags{maps: map[string]string{
		"torch.ops.mylib.norm": "kernels:norm"}}}
	says := []string{"torch.ops.mylib.norm: new ran kernels:norm, old ran mylib's own function"}
	if got := own.ranInstead(names, all); !slices.Equal(got, says) {
		t.Errorf("of an operator of a library's: got %q, want %q", got, says)
	}
	if got := d.ranInstead(names, all); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := d.ranInstead(names, func(string) bool { return false }); len(got) > 0 {
		t.Errorf("said of what was not measured: %q", got)
	}
	d.againstMaps = map[string]string{"torch.add": "kernels:add2"}
	if got := d.second().torch.maps; !maps.Equal(got, d.againstMaps) {
		t.Errorf("the second device runs %v", got)
	}
	if got := strings.Join(d.repro(), " "); !strings.Contains(got, "--against-map-function torch.add=kernels:add2") {
		t.Errorf("repeated by %q", got)
	}
	d.againstMaps, d.againstImports = mine, []string{"theirs"}
	if d.sameFunctions() {
		t.Error("two devices that other modules bring are called the same")
	}
	if got := d.second().torch.imports; !slices.Equal(got, d.againstImports) {
		t.Errorf("the second device imports %v", got)
	}
	if got := strings.Join(d.repro(), " "); !strings.Contains(got, "--against-torch-import theirs") {
		t.Errorf("repeated by %q", got)
	}
	d.againstImports = nil
	if !d.sameFunctions() {
		t.Error("nobody says that both sides ran the same")
	}
	for want, d := range map[string]*deviceFlags{
		"--against-map-function: ": {device: "torch:cpu", devices: 1, againstMaps: mine},
		"--map-function: --device is no device of PyTorch": {device: "./lib.so", against: "torch:cpu", devices: 1,
			torch: torchFlags{maps: mine}},
	} {
		if err := d.check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s...", err, want)
		}
	}
}

// TestQuietTimes: without a device, the first line says what is measured. --quiet leaves the tables out, as in replay.
func TestQuietTimes(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		var out, errs bytes.Buffer
		args := []string{"time", "--max-time", "1ms", "--op", "torch.nn.functional.gelu", "--out", t.TempDir(),
			"../../fixtures/demo"}
		if quiet {
			args = append(args, "--quiet")
		}
		if code := Main(args, Streams{In: strings.NewReader(""), Out: &out, Err: &errs}); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		first, _, _ := strings.Cut(out.String(), "\n")
		if !strings.Contains(first, "optool's own float64 reference") || !strings.Contains(first, "--device") {
			t.Errorf("quiet %t: the first line is %q", quiet, first)
		}
		for _, part := range []string{"median", "by op", "host clock"} {
			if strings.Contains(out.String(), part) == quiet {
				t.Errorf("quiet %t: %q\n%s", quiet, part, out.String())
			}
		}
		if !strings.Contains(out.String(), "distinct calls measured") {
			t.Errorf("quiet %t: no totals\n%s", quiet, out.String())
		}
	}
}

// TestColumnsOfChanges: the columns of a comparison of times are explained below it; with --quiet it lists what got
// slower only.
func TestColumnsOfChanges(t *testing.T) {
	change := func(op string, v timing.Verdict, in *timing.Interval) reports.TimingChange {
		return reports.TimingChange{TimingKey: reports.TimingKey{Op: op, Phase: "forward", Cache: "hot"},
			Change: timing.Change{Verdict: v, Ratio: 1.5, Interval: in, OldRound: time.Second, NewRound: time.Second}}
	}
	for want, in := range map[string]*timing.Interval{"5 % quantile": nil, "median of the rounds": {Low: 1, High: 2}} {
		for _, quiet := range []bool{false, true} {
			var out bytes.Buffer
			a := &app{Streams: Streams{Out: &out, Err: &out}, quiet: quiet}
			changes := []reports.TimingChange{change("torch.add", timing.Slower, in),
				change("torch.mul", timing.Same, in)}
			if err := a.printChanges(&out, changes, reports.OldAndNew); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if !strings.Contains(got, want) || !strings.Contains(got, "torch.add") ||
				strings.Contains(got, "torch.mul") == quiet {
				t.Errorf("quiet %t: want %q in\n%s", quiet, want, got)
			}
		}
	}
}

// TestRepeatedWithModules: a command that is printed to run a call again on a device of PyTorch finds the modules that
// this run found.
func TestRepeatedWithModules(t *testing.T) {
	t.Setenv("PYTHONPATH", "/opt/kernels:/opt/more")
	for device, want := range map[string]string{"torch:cpu": "PYTHONPATH=/opt/kernels:/opt/more optool",
		"none": "optool", "./lib.so": "optool"} {
		d := &deviceFlags{device: device}
		if got := d.withModules([]string{"optool"}); got != want {
			t.Errorf("%s: got %q, want %q", device, got, want)
		}
	}
}
