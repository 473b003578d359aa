package replay_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestForeignNames replays captures of operators that are no functions of torch,
// found in the layout that op_tools writes.
func TestForeignNames(t *testing.T) {
	reg, err := opdef.NewRegistry([]*opdef.Entry{opdef.Unary{
		Name: "npu_twice", Names: "torch_npu.npu_twice torch.ops.npu.npu_twice dlinfer.ops.llm.twice Tensor.npu_twice",
		Traits: opdef.Traits{InPlace: true},
		Doc:    opdef.Doc{Summary: "Twice the elements", Source: "an example"},
		F:      func(x float64) float64 { return 2 * x },
		DF:     func(_, _ float64) float64 { return 2 },
	}.Entry()})
	if err != nil {
		t.Fatal(err)
	}
	opt := options(t)
	opt.Registry = reg
	x, y := stored(tensor.Float32, []int{2}, 1, -3), stored(tensor.Float32, []int{2}, 2, -6)
	for _, op := range []string{
		"torch_npu.npu_twice", "torch_npu.npu_twice_", "torch.ops.npu.npu_twice", "dlinfer.ops.llm.twice",
		"torch.Tensor.npu_twice_",
	} {
		root := t.TempDir()
		dir := filepath.Join(root, op, "312", "1", "2026-11-20-21-05-57")
		if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(record(t, op, []value.Value{x}, y), dir); err != nil {
			t.Fatal(err)
		}
		e := entries(t, root)[0]
		o := replay.Run(e, opt)
		if e.Op != op || e.PID != 312 || o.Op != op || o.Verdict() != verdict.Pass {
			t.Errorf("%s: found as %s, replayed as %s: %+v", op, e.Op, o.Op, o.Results)
		}
	}
	o := replay.Run(entries(t, record(t, "torchvision.npu_twice", []value.Value{x}, y))[0], opt)
	want := "unknown op torchvision.npu_twice; known: torch.Tensor.npu_twice, torch.ops.npu.npu_twice, " +
		"torch_npu.npu_twice"
	if o.Verdict() != verdict.Unsupported || o.Results[0].Reason != want {
		t.Errorf("got %+v, want %q", o.Results, want)
	}
	const gather = "torch.distributed.distributed_c10d.all_gather_single"
	o = replay.Run(entries(t, record(t, gather, []value.Value{x}, y))[0], opt)
	if o.Verdict() != verdict.Skipped || o.Results[0].Reason != verdict.BetweenProcesses {
		t.Errorf("a collective: got %+v", o.Results)
	}
	reasonOf := func(op string) string {
		all := replay.Options{Registry: ops.Default()}
		return replay.Run(entries(t, record(t, op, []value.Value{x}, y))[0], all).Results[0].Reason
	}
	if r := reasonOf("mine.softmax"); strings.Count(r, ", ") != 4 || !strings.Contains(r, " more") {
		t.Errorf("got %q, want five names and how many more there are", r)
	}
	// Other functions that have an apply are no hint at what this one computes.
	if r := reasonOf("mine.Reverse.apply"); r != "unknown op mine.Reverse.apply" {
		t.Errorf("got %q, want no other names", r)
	}
}

// TestNoOperatorNames looks for names of operators in the source of this package
// and of those below it: what is known of an operator stands in its declaration.
func TestNoOperatorNames(t *testing.T) {
	names := map[string]bool{} // full public names and their last parts
	for _, e := range ops.Default().Entries() {
		for _, n := range e.Names {
			names[n], names[n[strings.LastIndexByte(n, '.')+1:]] = true, true
		}
	}
	// Names of operators that say something else here.
	for _, word := range []string{"equal", "bool", "forward", "backward", "dim"} {
		delete(names, word)
	}
	files, err := filepath.Glob("*.go")
	below, err2 := filepath.Glob("*/*.go")
	if err != nil || err2 != nil || len(files) == 0 || len(below) == 0 {
		t.Fatalf("no source: %v, %v", err, err2)
	}
	found := 0
	for _, path := range append(files, below...) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			words := strings.Fields(text)
			if err != nil || len(words) == 0 {
				return true
			}
			for _, w := range words {
				if !names[w] {
					return true
				}
			}
			found += len(words)
			t.Errorf("%s names operators: %s", path, lit.Value)
			return true
		})
	}
	if found > 0 {
		t.Errorf("%d names of operators, want 0", found)
	}
}
