package archtest

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A row is one line of the table of packages in docs/architecture.md. A name in
// it is a package relative to the module, or ends in "/..." and stands for that
// package and all below it, which may import each other. The most specific row
// about a package holds for it.
type row struct {
	packages []string
	reason   string
	imports  []string // the packages of ours that it may import
}

// everything is a row's word for every package of ours.
const everything = "everything"

const tableHead = "| package | its one reason to exist | may import |"

var backquoted = regexp.MustCompile("^`([a-z0-9_]+(?:/[a-z0-9_]+)*(?:/\\.\\.\\.)?)`$")

// names are the backquoted names of a cell, separated by commas.
func names(cell string) ([]string, error) {
	var out []string
	for name := range strings.SplitSeq(cell, ",") {
		m := backquoted.FindStringSubmatch(strings.TrimSpace(name))
		if m == nil {
			return nil, fmt.Errorf("%q is no package in backquotes", strings.TrimSpace(name))
		}
		out = append(out, m[1])
	}
	return out, nil
}

// parseTable returns the rows of the table under tableHead.
func parseTable(page string) ([]row, error) {
	_, body, ok := strings.Cut(page, tableHead+"\n|---|---|---|\n")
	if !ok {
		return nil, fmt.Errorf("no table with the head %q", tableHead)
	}
	var rows []row
	seen := map[string]bool{}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 3 {
			return nil, fmt.Errorf("%q has %d cells, want 3", line, len(cells))
		}
		r := row{reason: strings.TrimSpace(cells[1])}
		var err error
		if r.packages, err = names(cells[0]); err != nil {
			return nil, err
		}
		for _, p := range r.packages {
			if seen[p] {
				return nil, fmt.Errorf("`%s` has two rows", p)
			}
			seen[p] = true
		}
		switch may := strings.TrimSpace(cells[2]); may {
		case everything:
			r.imports = []string{everything}
		case "–":
		default:
			if r.imports, err = names(may); err != nil {
				return nil, err
			}
		}
		if r.reason == "" {
			return nil, fmt.Errorf("`%s` has no reason to exist", r.packages[0])
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// match reports whether a pattern of the table stands for the package.
func match(pattern, pkg string) bool {
	base, below := strings.CutSuffix(pattern, "/...")
	return pattern == everything || pkg == base || below && strings.HasPrefix(pkg, base+"/")
}

func matchAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, pkg) })
}

// rowOf is the most specific row about a package; nil if none is.
func rowOf(rows []row, pkg string) *row {
	var best *row
	bestRank := -1
	for i := range rows {
		for _, p := range rows[i].packages {
			rank := len(p)
			if p == pkg { // before any pattern that matches it
				rank = 1 << 20
			}
			if match(p, pkg) && rank > bestRank {
				best, bestRank = &rows[i], rank
			}
		}
	}
	return best
}

// differences says where the table and the tree differ: tree has, for every
// package, the packages of ours that it imports.
func differences(rows []row, tree map[string][]string) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	used := map[string]bool{} // patterns that are the most specific one of a package
	exists := func(pattern string) bool {
		for pkg := range tree {
			if match(pattern, pkg) {
				return true
			}
		}
		return false
	}
	takes := func(r *row, pattern string) bool {
		for pkg, imports := range tree {
			found := func(dep string) bool { return match(pattern, dep) }
			if rowOf(rows, pkg) == r && slices.ContainsFunc(imports, found) {
				return true
			}
		}
		return false
	}
	for pkg, imports := range tree {
		r := rowOf(rows, pkg)
		if r == nil {
			add("package %s has no row", pkg)
			continue
		}
		for _, p := range r.packages {
			used[p] = used[p] || match(p, pkg)
		}
		for _, dep := range imports {
			together := func(p string) bool { return match(p, pkg) && match(p, dep) }
			if !matchAny(r.imports, dep) && !slices.ContainsFunc(r.packages, together) {
				add("package %s may not import %s", pkg, dep)
			}
		}
	}
	for i := range rows {
		for _, p := range rows[i].packages {
			if !used[p] {
				add("the row of `%s` is about no package", p)
			}
		}
		for _, p := range rows[i].imports {
			switch {
			case p == everything:
			case !exists(p):
				add("`%s` may import `%s`, which does not exist", rows[i].packages[0], p)
			case !takes(&rows[i], p):
				add("`%s` may import `%s`, but does not", rows[i].packages[0], p)
			}
		}
	}
	slices.Sort(out)
	return out
}

// TestPackageTable compares docs/architecture.md with what the tree imports.
func TestPackageTable(t *testing.T) {
	rows := tableOf(t)
	tree := map[string][]string{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		pkg := path.Dir(f.name)
		tree[pkg] = append(tree[pkg], importsOf(t, f)...)
	}
	for _, d := range differences(rows, tree) {
		t.Errorf("docs/architecture.md: %s", d)
	}
}

// TestDifferences breaks each rule of the table.
func TestDifferences(t *testing.T) {
	page := "Text.\n\n" + tableHead + "\n|---|---|---|\n" +
		"| `cmd/tool` | starts | everything |\n" +
		"| `low`, `deep` | the ground | – |\n" +
		"| `ops/...` | operators | `low` |\n" +
		"| `ops/internal/kernel` | loops | `deep` |\n\nMore text.\n"
	rows, err := parseTable(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change map[string][]string // of the tree below; nil takes the package away
		want   []string
	}{
		{"as in the table", map[string][]string{}, nil},
		{"a package below a pattern", map[string][]string{"ops/pool": {"ops/norm"}, "ops/norm": {}}, nil},
		{"a package without a row", map[string][]string{"helpers": {}}, []string{"package helpers has no row"}},
		{"a longer name is not below", map[string][]string{"opsy": {}}, []string{"package opsy has no row"}},
		{"an import upwards", map[string][]string{"deep": {"ops"}}, []string{"package deep may not import ops"}},
		{"the most specific row", map[string][]string{"ops/internal/kernel": {"deep", "low"}},
			[]string{"package ops/internal/kernel may not import low"}},
		{"a row without a package", map[string][]string{"deep": nil, "ops/internal/kernel": {}},
			[]string{"`ops/internal/kernel` may import `deep`, which does not exist",
				"the row of `deep` is about no package"}},
		{"a permission that nobody needs", map[string][]string{"ops/internal/kernel": {}},
			[]string{"`ops/internal/kernel` may import `deep`, but does not"}},
	} {
		tree := map[string][]string{
			"cmd/tool": {"ops", "deep"}, "low": {}, "deep": {}, "ops": {"low", "ops/internal/kernel"},
			"ops/internal/kernel": {"deep"},
		}
		for pkg, imports := range tc.change {
			tree[pkg] = imports
			if imports == nil {
				delete(tree, pkg)
			}
		}
		if got := differences(rows, tree); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	for _, tc := range []struct{ old, new, want string }{
		{"| `low`, `deep` |", "| low |", `"low" is no package in backquotes`},
		{"| `low`, `deep` |", "| `low`, `ops/...` |", "`ops/...` has two rows"},
		{"the ground", "", "`low` has no reason to exist"},
		{"`low` |\n", "`low` | `deep` |\n", "has 4 cells, want 3"},
		{"its one reason", "the reason", "no table with the head"},
	} {
		_, err := parseTable(strings.Replace(page, tc.old, tc.new, 1))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s for %s: got error %v, want %q", tc.new, tc.old, err, tc.want)
		}
	}
}
