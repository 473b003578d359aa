package compare

import (
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
)

func TestEnvironment(t *testing.T) {
	tols, err := NewTolerances([]string{
		"PATH=/bin", "AUTOCOMPARE_ERROR_TOLERANCE=0.01,0.02", "AUTOCOMPARE_ERROR_TOLERANCE_FLOAT32=0.5, 0",
		"LINEAR_AUTOCOMPARE_ERROR_TOLERANCE_FLOAT32=1,2", "LINEAR_AUTOCOMPARE_ERROR_TOLERANCE_INT64=3,4",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		op         string
		dt         tensor.DType
		atol, rtol float64
		rule       string
	}{
		{"torch.nn.functional.linear", tensor.Float32, 1, 2, "LINEAR_AUTOCOMPARE_ERROR_TOLERANCE_FLOAT32"},
		{"torch.add", tensor.Float32, 0.5, 0, "AUTOCOMPARE_ERROR_TOLERANCE_FLOAT32"},
		{"torch.nn.functional.linear", tensor.BFloat16, 0.01, 0.02, "AUTOCOMPARE_ERROR_TOLERANCE"},
		{"torch.nn.functional.linear", tensor.Int64, 0.01, 0.02, "AUTOCOMPARE_ERROR_TOLERANCE"},
	} {
		got, asked := tols.For(tc.op, "", "output", tc.dt)
		if got.Atol != tc.atol || got.Rtol != tc.rtol || got.Rule != tc.rule {
			t.Errorf("%s %s: %v, want atol=%g rtol=%g (%s)", tc.op, tc.dt, got, tc.atol, tc.rtol, tc.rule)
		}
		if o := asked; o == nil || *o != got {
			t.Errorf("%s %s: override %v, want %v", tc.op, tc.dt, o, got)
		}
	}
	none, err := NewTolerances([]string{"HOME=/"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for dt, want := range map[tensor.DType]float64{tensor.Float16: 1e-4, tensor.BFloat16: 1e-3, tensor.Float32: 1e-5,
		tensor.Float64: 1e-8, tensor.Complex64: 1e-3, tensor.Bool: 1e-3} {
		got, asked := none.For("torch.add", "", "output", dt)
		if got.Atol != want || got.Rtol != want {
			t.Errorf("default for %s: %v, want %g", dt, got, want)
		}
		if o := asked; o != nil {
			t.Errorf("override without being asked for: %v", o)
		}
	}
	for _, bad := range []string{"1", "a,b", "1,", "-1,2", "nan,1", "inf,1", "1,2,3"} {
		if _, err := NewTolerances([]string{"AUTOCOMPARE_ERROR_TOLERANCE=" + bad}, nil); err == nil ||
			!strings.Contains(err.Error(), "AUTOCOMPARE_ERROR_TOLERANCE") {
			t.Errorf("%q: error %v, want one that names the variable", bad, err)
		}
	}
}

func TestToleranceFile(t *testing.T) {
	file, err := ParseTolerances("tol.yaml", []byte(`default: {atol: 1e-5, rtol: 1e-4}
dtype:
  bfloat16: {ulp: 2}
class:
  accumulate:
    rtol: 1e-3
op:
  linear: {atol: 0.1}
  torch.nn.functional.linear: {atol: 0.2}
output:
  torch.sort:
    output[1]: {atol: 0, rtol: 0}
`))
	if err != nil {
		t.Fatal(err)
	}
	tols, err := NewTolerances([]string{"AUTOCOMPARE_ERROR_TOLERANCE=9,9"}, file)
	if err != nil {
		t.Fatal(err)
	}
	inFile := func(atol, rtol, ulp float64, rule string) Tolerance {
		return Tolerance{atol, rtol, ulp, rule, FileSetting}
	}
	for _, tc := range []struct {
		op, class, output string
		dt                tensor.DType
		want              Tolerance
	}{
		{"torch.add", "", "output", tensor.Float32, inFile(1e-5, 1e-4, 0, "tol.yaml:1 default")},
		{"torch.add", "", "output", tensor.BFloat16, inFile(1e-5, 1e-4, 2, "tol.yaml:3 dtype bfloat16")},
		{"torch.sum", "accumulate", "output", tensor.Float32, inFile(1e-5, 1e-3, 0, "tol.yaml:6 class accumulate")},
		{"torch.Tensor.linear", "", "output", tensor.Float32, inFile(0.1, 1e-4, 0, "tol.yaml:8 op linear")},
		{"torch.nn.functional.linear", "accumulate", "output", tensor.Float32,
			inFile(0.2, 1e-3, 0, "tol.yaml:9 op torch.nn.functional.linear")},
		{"torch.sort", "", "output[1]", tensor.Int64, inFile(0, 0, 0, "tol.yaml:12 torch.sort output[1]")},
		{"torch.sort", "", "output[0]", tensor.Int64, inFile(1e-5, 1e-4, 0, "tol.yaml:1 default")},
	} {
		if _, got := tols.For(tc.op, tc.class, tc.output, tc.dt); got == nil || *got != tc.want {
			t.Errorf("%s %s %s %s: %v, want %v", tc.op, tc.class, tc.output, tc.dt, got, tc.want)
		}
	}
	flagged, err := NewTolerances(nil, file, Tolerance{Atol: 7})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := flagged.For("torch.sort", "", "output[1]", tensor.Int64); got.Atol != 7 || got.Rule != "flag" {
		t.Errorf("with a flag: %v, want atol=7 (flag)", got)
	}
	ulpOnly, err := ParseTolerances("t", []byte("default: {ulp: 3}"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := NewTolerances(nil, ulpOnly)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := u.For("torch.add", "", "output", tensor.Float32); got != DefaultTolerance(tensor.Float32) {
		t.Errorf("op_tools' tolerance with only ulp set: %v, want the default", got)
	}
}

func TestToleranceFileErrors(t *testing.T) {
	for text, want := range map[string]string{
		"defaults: {atol: 1}":                 "t.yaml:1: unknown layer \"defaults\"",
		"default: {atol: 1, atoll: 2}":        "t.yaml:1: default: unknown field \"atoll\"",
		"op:\n  linear: {atol: -1}":           "t.yaml:2: op linear: atol: want a number",
		"op:\n  linear: {atol: x}":            "t.yaml:2: op linear: atol: want a number",
		"op:\n  linear: {}":                   "t.yaml:2: op linear: sets none",
		"op: [1]":                             "t.yaml:1: op: want a mapping",
		"dtype:\n  float33: {atol: 1}":        "unknown dtype \"float33\"",
		"op:\n  a: {atol: 1}\n  a: {atol: 2}": "t.yaml:3: \"a\" is set twice",
		"default: {atol: 1":                   "t.yaml: ",
		"output:\n  torch.sort: {atol: 1}":    "t.yaml:2: torch.sort atol: want a mapping",
	} {
		if _, err := ParseTolerances("t.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	if f, err := ParseTolerances("empty", nil); err != nil || f.find("a", "", "", tensor.Float32) != nil {
		t.Errorf("empty file: %v, %v", f, err)
	}
	if _, err := LoadToleranceFile("testdata/missing.yaml"); err == nil {
		t.Error("missing file was read")
	}
}
