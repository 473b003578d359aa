package archtest

import (
	"go/ast"
	"strings"
	"testing"
)

// TestPatternsAreLazy: no regular expression is compiled when the process starts; internal/lazyregexp does it later.
func TestPatternsAreLazy(t *testing.T) {
	for _, f := range sources(t) {
		if strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		for _, d := range f.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			ast.Inspect(g, func(n ast.Node) bool {
				if _, later := n.(*ast.FuncLit); later {
					return false
				}
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "MustCompile" {
					t.Errorf("%s: compiled at the start of every process, want lazyregexp.New", f.set.Position(s.Pos()))
				}
				return true
			})
		}
	}
}
