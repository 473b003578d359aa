package bundle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// functions are those of Go files, tests left out.
func functions(t *testing.T, pattern string) (all []*ast.FuncDecl) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				all = append(all, f)
			}
		}
	}
	return all
}

// TestArgTypes: arg writes, or refuses in words of its own, each type that is a diopi.Arg.
func TestArgTypes(t *testing.T) {
	cases := map[string]bool{}
	for _, f := range functions(t, "program.go") {
		ast.Inspect(f, func(n ast.Node) bool {
			if c, ok := n.(*ast.CaseClause); ok {
				for _, typ := range c.List {
					cases[strings.Replace(types.ExprString(typ), "diopi.", "", 1)] = true
				}
			}
			return true
		})
	}
	found := 0
	for _, f := range functions(t, "../../devicebridge/diopi/*.go") {
		if f.Name.Name != "isArg" {
			continue
		}
		found++
		if typ := types.ExprString(f.Recv.List[0].Type); !cases[typ] {
			t.Errorf("program.go has no case for arguments of type %s", typ)
		}
	}
	if found < 10 {
		t.Errorf("%d types of arguments were found", found)
	}
}
