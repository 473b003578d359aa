package devicebridge

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestDTypeSwitches: every dtype of DIOPI's header is one of tensor, and has a case where
// the C side asks for dtypes, but for those that are named here.
func TestDTypeSwitches(t *testing.T) {
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var names []string
	for _, m := range regexp.MustCompile(`diopi_dtype_(\w+) *= *\d+`).FindAllStringSubmatch(
		read("native/include/diopi.h"), -1) {
		names = append(names, m[1])
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "unsupported" })
	if len(names) < 10 {
		t.Fatalf("dtypes of the header: %v", names)
	}
	for _, n := range names {
		if _, ok := tensor.ParseDType(n); !ok && n != "tfloat32" {
			t.Errorf("diopi_dtype_%s is no dtype of tensor", n)
		}
	}
	for file, lacks := range map[string][]string{
		"native/runtime/tensor.cc":  nil,
		"native/host/host.cc":       nil, // names; sizes of those it computes with
		"native/host/convert.cc":    {"complex32"},
		"../bundle/diopi_runtime.h": {"int32", "uint32", "float32", "tfloat32", "complex32"}, // four bytes, by default
	} {
		cases := map[string]bool{}
		source := read(filepath.FromSlash(file))
		for _, m := range regexp.MustCompile(`case diopi_dtype_(\w+):`).FindAllStringSubmatch(source, -1) {
			cases[m[1]] = true
		}
		for _, n := range names {
			if !cases[n] && !slices.Contains(lacks, n) {
				t.Errorf("%s has no case for diopi_dtype_%s", file, n)
			}
		}
	}
}
