package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/optool/optool"

// imports is what each package of ours may import of ours: a package (left)
// and the packages below it by path, where not listed themselves. "..." at the
// end of a pattern matches everything below; "*" alone is everything.
var imports = []struct {
	pkg string
	may []string
}{
	{"cmd/...", []string{"internal/cli"}},
	{"internal/cli/...", []string{"*"}},
	{"internal/archtest", nil},
	{"internal/num/blas", nil},  // products of float64 matrices
	{"internal/num/vmath", nil}, // vectorised elementary functions on plain slices
	{"diopi_conformance/...", []string{"diopi_conformance/...", "devicebridge/...", "pthformat", "replay", "ops",
		"opdef", "opcheck", "compare", "fixtures", "tensor", "value"}},
	{"replay/ondevice", []string{"replay", "devicebridge/...", "opdef", "compare", "timing", "tensor"}},
	{"replay/...", []string{"replay/...", "capture", "ops", "opdef", "compare", "timing", "tensor", "value",
		"pthformat"}},
	{"opcheck", []string{"opdef", "compare", "tensor", "value"}},
	{"ops/internal/kernel/...", []string{"ops/internal/kernel/...", "internal/num/blas", "internal/num/vmath"}},
	{"ops", []string{"opdef", "ops/internal/kernel/...", "internal/num/blas", "internal/num/vmath", "tensor", "value"}},
	{"opdef", []string{"devicebridge/diopi", "internal/num/vmath", "tensor", "value"}}, // an op says how devices run it
	{"capture", []string{"pthformat", "tensor", "value"}},
	{"devicebridge/...", []string{"devicebridge/...", "opdef", "tensor", "value"}},
	{"fixtures/...", []string{"fixtures/...", "capture", "pthformat", "tensor", "value"}},
	{"pthformat", []string{"tensor", "value"}},
	{"compare/internal/...", []string{"compare/internal/...", "internal/num/vmath"}},
	{"compare", []string{"tensor", "value", "compare/internal/...", "internal/num/vmath"}},
	{"value", []string{"tensor"}},
	{"timing", nil},
	{"reports/plots", []string{"reports", "timing"}},
	{"reports/sqlite", []string{"reports"}},
	{"reports/webpage", []string{"reports"}},
	{"reports/xlsx", []string{"reports"}},
	{"reports", []string{"timing"}}, // what was measured is drawn as it is
	{"tensor", []string{"internal/num/vmath"}},
}

// unsafeFiles are the only places where package unsafe may be imported.
var unsafeFiles = []string{"devicebridge/...", "pthformat/mmap_unix.go", "compare/internal/...", "internal/num/vmath/..."}

// cgoFiles are the only places where "C" may be imported.
var cgoFiles = []string{"devicebridge/...", "ops/internal/kernel/openblas/..."}

func match(pattern, name string) bool {
	if pattern == "*" || pattern == name {
		return true
	}
	base, below := strings.CutSuffix(pattern, "/...")
	return below && (name == base || strings.HasPrefix(name, base+"/"))
}

// allowed reports whether package pkg may import package dep, both relative to
// the module; known is false if no rule is about pkg.
func allowed(pkg, dep string) (ok, known bool) {
	for _, r := range imports {
		if match(r.pkg, pkg) {
			return slices.ContainsFunc(r.may, func(p string) bool { return match(p, dep) }), true
		}
	}
	return false, false
}

// violations checks one non-test file, whose path is relative to the module.
func violations(name string, f *ast.File) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, name+": "+fmt.Sprintf(format, args...)) }
	pkg := path.Dir(name)
	if _, known := allowed(pkg, ""); !known {
		add("package %s has no rule: add it to the table of package archtest", pkg)
	}
	at := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return match(p, name) })
	}
	for _, imp := range f.Imports {
		dep, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			add("%v", err)
			continue
		}
		switch {
		case dep == "unsafe" && !at(unsafeFiles):
			add("imports unsafe")
		case dep == "C" && !at(cgoFiles):
			add("imports C")
		case imp.Name != nil && imp.Name.Name == "_" && dep != "embed":
			add("imports %s for its side effects", dep)
		}
		if ours, ok := strings.CutPrefix(dep, module+"/"); ok {
			if may, _ := allowed(pkg, ours); !may {
				add("package %s may not import %s", pkg, ours)
			}
		}
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			add("has an init function")
		}
	}
	return out
}

func root(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}

func TestImports(t *testing.T) {
	dir := root(t)
	files := 0
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != dir && (name == "testdata" || strings.HasPrefix(name, ".") ||
				strings.HasPrefix(name, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		src, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		files++
		for _, v := range violations(filepath.ToSlash(name), src) {
			t.Error(v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Errorf("%d files found", files)
	}
}

// TestRules breaks each rule.
func TestRules(t *testing.T) {
	for _, tc := range []struct{ name, src, want string }{
		{"tensor/a.go", `import "github.com/optool/optool/value"`, "package tensor may not import value"},
		{"ops/a.go", `import "github.com/optool/optool/replay"`, "package ops may not import replay"},
		{"ops/a.go", `import "github.com/optool/optool/ops/internal/kernel"`, ""},
		{"ops/internal/kernel/a.go", `import "github.com/optool/optool/tensor"`, "may not import tensor"},
		{"opdef/a.go", `import "github.com/optool/optool/ops"`, "may not import ops"},
		{"compare/internal/diff/a.go", `import "github.com/optool/optool/tensor"`, "may not import tensor"},
		{"compare/a.go", `import "github.com/optool/optool/compare/internal/diff"`, ""},
		{"replay/a.go", `import "github.com/optool/optool/internal/cli"`, "may not import internal/cli"},
		{"internal/cli/a.go", `import "github.com/optool/optool/devicebridge"`, ""},
		{"cmd/optool/main.go", `import "github.com/optool/optool/ops"`, "may not import ops"},
		{"helpers/a.go", ``, "package helpers has no rule"},
		{"tensor/a.go", `import "unsafe"`, "imports unsafe"},
		{"pthformat/zip.go", `import "unsafe"`, "imports unsafe"},
		{"pthformat/mmap_unix.go", `import "unsafe"`, ""},
		{"replay/a.go", `import "C"`, "imports C"},
		{"devicebridge/bridge.go", `import "C"`, ""},
		{"ops/a.go", `import _ "image/png"`, "for its side effects"},
		{"internal/cli/a.go", `import _ "embed"`, ""},
		{"tensor/a.go", `func init() {}`, "has an init function"},
		{"tensor/a.go", `type T struct{}; func (T) init() {}`, ""},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), tc.name, "package p\n"+tc.src, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(violations(tc.name, f), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s with %s: got %q, want %q", tc.name, tc.src, got, tc.want)
		}
	}
}
