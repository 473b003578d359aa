package compare

import (
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/tensor"
)

// FuzzParseTolerances reads tolerance files. What is found in one is a
// tolerance, and says which line it comes from.
func FuzzParseTolerances(f *testing.F) {
	for _, text := range []string{
		"default: {atol: 1e-5, rtol: 1e-4}\ndtype:\n  float32: {ulp: 2}\nclass:\n  accumulated:\n    rtol: 1e-3\n" +
			"op:\n  add: {atol: 0.1}\noutput:\n  torch.add:\n    output: {atol: 0, rtol: 0}\n",
		"", "#", "---\n...", "null", "default: &a {atol: *a}", "default: &a {default: *a}", "x: &x [*x]",
		"default: {atol: .nan}", "default: {atol: -1}", "default: {ulp: 0x10}", "op: {? [a] : {ulp: 1}}",
		"default: {atol: 1}\ndefault: {atol: 2}", "<<: {default: {atol: 1}}", "\tx", "default: !!float '1'", "\x00",
		"output: {a: &a {b: &b {ulp: 1}}, c: *a, d: *a}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var file *ToleranceFile
		var err error
		fuzzcheck.Bounded(t, len(data), 1<<14, func() { file, err = ParseTolerances("tol.yaml", data) })
		fuzzcheck.Sentence(t, err)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tol.yaml:") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		got := file.find("torch.add", "accumulated", "output", tensor.Float32)
		if got == nil {
			return
		}
		for _, x := range []float64{got.Atol, got.Rtol, got.ULP} {
			if !(x >= 0) || math.IsInf(x, 0) {
				t.Errorf("%+v is no tolerance", got)
			}
		}
		if !strings.HasPrefix(got.Rule, "tol.yaml:") {
			t.Errorf("the rule %q does not name the line", got.Rule)
		}
	})
}

// FuzzEnvironment reads op_tools' variables.
func FuzzEnvironment(f *testing.F) {
	f.Add("AUTOCOMPARE_ERROR_TOLERANCE", "1e-3, 1e-3")
	f.Add("ADD_AUTOCOMPARE_ERROR_TOLERANCE_FLOAT32", "0x1p-3,1_0")
	f.Add("AUTOCOMPARE_ERROR_TOLERANCE_", "nan,\n")
	f.Fuzz(func(t *testing.T, name, numbers string) {
		tols, err := NewTolerances([]string{name + "=" + numbers}, nil)
		fuzzcheck.Sentence(t, err)
		if err != nil {
			return
		}
		if got, _ := tols.For("torch.add", "", "output", tensor.Float32); !(got.Atol >= 0 && got.Rtol >= 0) {
			t.Errorf("%s=%s gives %+v", name, numbers, got)
		}
	})
}
