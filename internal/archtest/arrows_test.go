package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostUpward are the arrows between the files of a package that may go upward, whatever the order of its files.
var mostUpward = map[string]int{"replay": 14, "internal/cli": 24}

// TestArrows: in a large package there is an order of the files, from roof to ground, in which nearly all files use
// only what files below them declare. An arrow goes from a file to another of which it uses a function, a method, a
// type, a variable or a constant.
func TestArrows(t *testing.T) {
	for dir, most := range mostUpward {
		files, arrows := arrowsOf(t, filepath.Join("../..", dir))
		upward := feedback(len(files), arrows)
		t.Logf("%s: %d files, %d arrows, %d of them upward", dir, len(files), len(arrows), len(upward))
		if len(upward) > most {
			t.Errorf("%s: %d arrows go upward, want at most %d:", dir, len(upward), most)
			for _, a := range upward {
				t.Logf("%s uses %s", files[a[0]], files[a[1]])
			}
		}
	}
}

// arrowsOf are the arrows between the files of a package, by their indices.
func arrowsOf(t *testing.T, dir string) (files []string, arrows [][2]int) {
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_other.go") ||
			strings.HasSuffix(name, "_lite.go") {
			continue // others than this build's declare the same
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed, files = append(parsed, f), append(files, name)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	// What comes from other packages is not known, and of no interest.
	conf := types.Config{Importer: nothing{}, Error: func(error) {}}
	pkg, _ := conf.Check(dir, set, parsed, info)
	seen := map[[2]int]bool{}
	for id, o := range info.Uses {
		_, method := o.(*types.Func)
		if o.Pkg() != pkg || !o.Pos().IsValid() || !method && o.Parent() != pkg.Scope() {
			continue
		}
		at := func(p token.Pos) int { return slices.Index(files, set.Position(p).Filename) }
		if a := [2]int{at(id.Pos()), at(o.Pos())}; a[0] != a[1] {
			seen[a] = true
		}
	}
	for a := range seen {
		arrows = append(arrows, a)
	}
	return files, arrows
}

// nothing imports packages that declare nothing.
type nothing struct{}

func (nothing) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// feedback are the arrows that go upward in the best order of n files that is found: from many orders by chance, each
// file is moved where fewest go upward until no move is better.
func feedback(n int, arrows [][2]int) (least [][2]int) {
	uses := make([][]int, n)
	for i := range uses {
		uses[i] = make([]int, n)
	}
	for _, a := range arrows {
		uses[a[0]][a[1]] = 1
	}
	r := rand.New(rand.NewPCG(1, 2))
	for try := range 200 {
		order := r.Perm(n)
		for i := 0; i < n; i++ {
			if to := bestPlace(uses, order, i); to != i {
				file := order[i]
				order = slices.Insert(slices.Delete(order, i, i+1), to, file)
				i = -1
			}
		}
		var upward [][2]int
		for _, a := range arrows {
			if slices.Index(order, a[0]) > slices.Index(order, a[1]) {
				upward = append(upward, a)
			}
		}
		if try == 0 || len(upward) < len(least) {
			least = upward
		}
	}
	return least
}

// bestPlace is where the file at i has the fewest arrows upward.
func bestPlace(uses [][]int, order []int, i int) (to int) {
	file := order[i]
	least, change := 0, 0
	to = i
	for k := i + 1; k < len(order); k++ {
		if change += uses[file][order[k]] - uses[order[k]][file]; change < least {
			least, to = change, k
		}
	}
	change = 0
	for k := i - 1; k >= 0; k-- {
		if change += uses[order[k]][file] - uses[file][order[k]]; change < least {
			least, to = change, k
		}
	}
	return to
}
