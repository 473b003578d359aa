package devicebridge

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestDTypeSwitches: every dtype of DIOPI's header is one of tensor, and has a case in every
// switch over dtypes of the C side, but for those that are named here.
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
	notFloat := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		dt, _ := tensor.ParseDType(n)
		return dt.IsFloat()
	})
	byWidth := slices.DeleteFunc(slices.Clone(notFloat), func(n string) bool { return n == "bool" || n == "uint64" })
	fourBytes := []string{"int32", "uint32", "float32", "tfloat32", "complex32"}
	lacks := map[string][]string{ // by the file and the function of a switch
		"host.cc itemsize":          {"tfloat32", "complex32"}, // not computed with
		"convert.cc to":             {"complex32"},
		"convert.cc converter":      {"complex32"},
		"host.h visitFloat":         notFloat,
		"random.cc integers":        byWidth,
		"diopi_runtime.h item_size": fourBytes,
		"diopi_runtime.h number":    {"float32", "tfloat32", "complex32"}, // float32, by default
	}
	var files []string
	for _, pattern := range []string{"native/host/*.h", "native/host/*.cc", "native/runtime/*.cc",
		"../reports/bundle/diopi_runtime.h"} {
		found, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	function := regexp.MustCompile(`(?m)^[A-Za-z][\w:<>* ]*?(\w+)\(.*\{$`)
	over := regexp.MustCompile(`(?s)\n *switch \([^\n]*\{\n(.*?)\n *\}`)
	dtype := regexp.MustCompile(`case diopi_dtype_(\w+):`)
	switches := 0
	for _, file := range files {
		source := read(file)
		for _, at := range over.FindAllStringSubmatchIndex(source, -1) {
			cases := map[string]bool{}
			for _, m := range dtype.FindAllStringSubmatch(source[at[2]:at[3]], -1) {
				cases[m[1]] = true
			}
			if len(cases) == 0 {
				continue
			}
			switches++
			before := function.FindAllStringSubmatch(source[:at[0]+1], -1)
			of := filepath.Base(file) + " " + before[len(before)-1][1]
			for _, n := range names {
				if lacks := slices.Contains(lacks[of], n); cases[n] == lacks {
					t.Errorf("%s: case diopi_dtype_%s: %t; it may do without: %t", of, n, cases[n], lacks)
				}
			}
		}
	}
	if switches != 9 {
		t.Errorf("%d switches over dtypes were found", switches)
	}
}
