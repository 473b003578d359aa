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
	"sync"
	"testing"
)

const module = "github.com/optool/optool"

// unsafePlaces are the packages and files that may import unsafe: vector loops,
// which read bytes as elements, and what keeps operators of all types as one.
var unsafePlaces = []string{"compare/internal/vec", "internal/num/vmath", "ops/opdef/op.go", "ops/opdef/operator.go"}

// drivers are the packages that import a database's driver, which registers
// itself with database/sql: the only import for its side effects.
var drivers = map[string]string{"reports/sqlite": "modernc.org/sqlite"}

// A source is one Go file of the tree.
type source struct {
	name string // relative to the module
	test bool
	text string
	file *ast.File
	set  *token.FileSet
}

// load reads every Go file of the tree, once.
var load = sync.OnceValues(func() ([]source, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	var out []source
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != dir &&
				(name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		f, err := parse(filepath.ToSlash(name), string(text))
		out = append(out, f)
		return err
	})
	return out, err
})

// in reports whether f is one of places, or in one of them.
func (f source) in(places []string) bool {
	return matchAny(places, f.name) || matchAny(places, path.Dir(f.name))
}

func parse(name, text string) (source, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution|parser.ParseComments)
	return source{name, strings.HasSuffix(name, "_test.go"), text, f, set}, err
}

func sources(t *testing.T) []source {
	t.Helper()
	files, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("%d files found", len(files))
	}
	return files
}

// root is the folder of the module.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the test")
		}
		dir = up
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func tableOf(t *testing.T) []row {
	t.Helper()
	rows, err := parseTable(page(t, "docs/architecture.md"))
	if err != nil {
		t.Fatalf("docs/architecture.md: %v", err)
	}
	return rows
}

// importsOf are the packages of ours that a file imports, relative to the module.
func importsOf(t *testing.T, f source) []string {
	t.Helper()
	out := []string{}
	for _, imp := range f.file.Imports {
		dep, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if ours, ok := strings.CutPrefix(dep, module+"/"); ok {
			out = append(out, ours)
		}
	}
	return out
}

// violations checks what no file may do, apart from the imports of ours.
func violations(f source) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, f.name+": "+fmt.Sprintf(format, args...)) }
	for _, imp := range f.file.Imports {
		switch dep, _ := strconv.Unquote(imp.Path.Value); {
		case dep == "unsafe" && !f.in(unsafePlaces):
			add("imports unsafe")
		case dep == "C":
			add("imports C: devices run in a worker process, and the binary has no cgo")
		case imp.Name != nil && imp.Name.Name == "_" && dep != "embed" && drivers[path.Dir(f.name)] != dep:
			add("imports %s for its side effects", dep)
		}
	}
	for _, d := range f.file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			add("has an init function")
		}
	}
	return out
}

func TestViolations(t *testing.T) {
	unsafeIn := map[string]bool{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		for _, v := range violations(f) {
			t.Error(v)
		}
		for _, imp := range f.file.Imports {
			unsafeIn[f.name] = unsafeIn[f.name] || imp.Path.Value == `"unsafe"`
		}
	}
	for _, place := range unsafePlaces {
		if !slices.ContainsFunc(sources(t), func(f source) bool { return f.in([]string{place}) && unsafeIn[f.name] }) {
			t.Errorf("nothing at %s imports unsafe: take it out of unsafePlaces", place)
		}
	}
}

// TestRules breaks each rule of violations.
func TestRules(t *testing.T) {
	for _, tc := range []struct{ name, src, want string }{
		{"tensor/a.go", `import "unsafe"`, "imports unsafe"},
		{"internal/num/vmath/a.go", `import "unsafe"`, ""},
		{"internal/num/a.go", `import "unsafe"`, "imports unsafe"},
		{"devicebridge/bridge.go", `import "C"`, "imports C"},
		{"ops/a.go", `import _ "image/png"`, "for its side effects"},
		{"internal/cli/a.go", `import _ "embed"`, ""},
		{"reports/sqlite/a.go", `import _ "modernc.org/sqlite"`, ""},
		{"reports/a.go", `import _ "modernc.org/sqlite"`, "for its side effects"},
		{"tensor/a.go", `func init() {}`, "has an init function"},
		{"tensor/a.go", `type T struct{}; func (T) init() {}`, ""},
	} {
		f, err := parse(tc.name, "package p\n"+tc.src)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(violations(f), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s with %s: got %q, want %q", tc.name, tc.src, got, tc.want)
		}
	}
}

// TestPackageComments: every package says what it is for.
func TestPackageComments(t *testing.T) {
	says := map[string]bool{}
	for _, f := range sources(t) {
		if !f.test {
			pkg := path.Dir(f.name)
			says[pkg] = says[pkg] || f.file.Doc != nil
		}
	}
	for pkg, ok := range says {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}
