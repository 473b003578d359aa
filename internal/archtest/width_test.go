package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Lines of Go are at most maxWidth columns wide, a tab counting tabWidth. A
// line may be wider where a single literal reaches beyond it that must be read
// whole: a signature in a table, a recorded output, a key of hexadecimal digits.
const (
	maxWidth = 120
	tabWidth = 4
)

func width(line string) int {
	return utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
}

// wide names the lines of f that are too wide.
func wide(f source) []string {
	var out []string
	lines := strings.Split(f.text, "\n")
	var literals []*ast.BasicLit
	for n, line := range lines {
		if width(line) <= maxWidth {
			continue
		}
		if literals == nil {
			literals = stringLiterals(f.file)
		}
		if !slices.ContainsFunc(literals, func(l *ast.BasicLit) bool { return crosses(f.set, l, n+1, line) }) {
			out = append(out, fmt.Sprintf("%s:%d: the line is %d columns wide, want at most %d",
				f.name, n+1, width(line), maxWidth))
		}
	}
	return out
}

func stringLiterals(f *ast.File) []*ast.BasicLit {
	out := []*ast.BasicLit{}
	ast.Inspect(f, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			out = append(out, l)
		}
		return true
	})
	return out
}

// crosses reports whether a literal reaches the last column of a line that is
// too wide, so that at most what follows it (a comma) is beyond.
func crosses(set *token.FileSet, l *ast.BasicLit, number int, line string) bool {
	from, to := set.Position(l.Pos()), set.Position(l.End())
	if number < from.Line || number > to.Line {
		return false
	}
	start, end := 0, width(line)
	if number == from.Line {
		start = width(line[:from.Column-1])
	}
	if number == to.Line {
		end = width(line[:to.Column-1])
	}
	return start < maxWidth && end >= maxWidth
}

func TestWidth(t *testing.T) {
	for _, f := range sources(t) {
		for _, w := range wide(f) {
			t.Error(w)
		}
	}
}

func TestWide(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, tc := range []struct {
		name, src string
		want      int // wide lines
	}{
		{"narrow", "var a = 1", 0},
		{"at the limit", "// " + x(maxWidth-3), 0},
		{"one beyond", "// " + x(maxWidth-2), 1},
		{"runes are columns", "// " + strings.Repeat("é", maxWidth-3), 0},
		{"tabs are four", "var (\n\t// " + x(maxWidth-7) + "\n\t// " + x(maxWidth-6) + "\n)", 1},
		{"a long literal", `var a = "` + x(maxWidth) + `"`, 0},
		{"a raw literal of many lines", "var a = `\n" + x(2*maxWidth) + "\n`", 0},
		{"a comma after a literal", "var a = []string{\n\"" + x(maxWidth-2) + "\",\n}", 0},
		{"a literal and more beyond it", `var a = "` + x(maxWidth) + `" + "b"`, 0},
		{"short literals that add up", `var a = "` + x(60) + `" + "` + x(40) + `" + b + "` + x(10) + `"`, 1},
	} {
		f, err := parse("p/a.go", "package p\n"+tc.src+"\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := wide(f); len(got) != tc.want {
			t.Errorf("%s: got %q, want %d lines", tc.name, got, tc.want)
		}
	}
}
