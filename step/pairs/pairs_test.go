package pairs

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// write writes a file of a capture.
func write(t *testing.T, root, path, op string, args ...value.Value) {
	t.Helper()
	rec := &value.Dict{Items: []value.Item{{Key: "name", Value: op}, {Key: "args", Value: value.NewTuple(args...)},
		{Key: "kwargs", Value: &value.Dict{}}, {Key: "identifier", Value: "1"}}}
	name := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := pthformat.WriteFile(name, rec); err != nil {
		t.Fatal(err)
	}
}

func floats(v ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(v)}, v) }

// compareAll compares pairs and gives "capture phase target verdict: reason" for
// each result.
func compareAll(t *testing.T, all iter.Seq[Pair], env ...string) []string {
	t.Helper()
	tol, err := compare.NewTolerances(env, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Comparer{Tolerances: tol, Repro: func(p Pair) string { return "again " + p.A.Rel }}
	var out []string
	for p := range all {
		if p.Err != nil {
			out = append(out, "error")
			continue
		}
		rs, _ := c.Compare(p)
		for _, r := range rs {
			if *r.Repro != "again "+r.Capture {
				t.Errorf("%s: repro %q", r.Capture, *r.Repro)
			}
			out = append(out, strings.TrimSuffix(fmt.Sprintf("%s %s %s %s: %s", r.Capture, r.Phase, r.Target, r.Verdict,
				r.Reason), ": "))
		}
	}
	return out
}

func between(t *testing.T, a, b string) iter.Seq[Pair] {
	t.Helper()
	all, err := Corresponding(context.Background(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCorresponding pairs by path, then by op, number and process.
func TestCorresponding(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, a, "torch.abs/7/1/2024-01-01-00-00-00/output.pth", "torch.abs", floats(1))
	write(t, b, "torch.abs/7/1/2024-01-01-00-00-00/output.pth", "torch.abs", floats(1))
	write(t, a, "torch.neg/8/2/2024-01-01-00-00-00/output.pth", "torch.neg", floats(1, 2))
	write(t, b, "torch.neg/9/2/2024-01-01-00-00-09/output.pth", "torch.neg", floats(1, 3))
	write(t, a, "torch.exp/7/3/2024-01-01-00-00-00/output.pth", "torch.exp", floats(1))
	write(t, b, "torch.log/9/4/2024-01-01-00-00-00/output.pth", "torch.log", floats(1))
	got := compareAll(t, between(t, a, b))
	want := []string{
		"torch.abs/7/1/2024-01-01-00-00-00 forward output[0] pass",
		"torch.exp/7/3/2024-01-01-00-00-00   skipped: only in " + a,
		"torch.log/9/4/2024-01-01-00-00-00   skipped: only in " + b,
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("no %q", w)
		}
	}
	if len(got) != 4 || !slices.ContainsFunc(got, func(s string) bool {
		return strings.HasPrefix(s, "torch.neg/8/2/2024-01-01-00-00-00 forward output[0] fail: 1 of 2 elements")
	}) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// TestShifted: one more call in one run shifts all numbers after it; calls at the same
// place of the sequence belong together. Numbers hold where they are in order.
func TestShifted(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b string // operators in order, with the size and the value of their result; "-" takes a number alone
		want string // places in a and b of the pairs, then who is alone
	}{
		{"equal", "add:2 mul:2 add:2", "add:2 mul:2 add:2", "1-1 2-2 3-3"},
		{"one more", "add:2 mul:2 add:2", "clone:2 add:2 mul:2 add:2", "1-2 2-3 3-4 only-1"},
		{"one more of the same operator", "add:2 mul:2 add:3 mul:3", "add:9 add:2 mul:2 add:3 mul:3",
			"1-2 2-3 3-4 4-5 only-1"},
		{"in place", "add:2 relu:2", "neg:2 add:2 relu_:2", "1-2 2-3 only-1"},
		{"twice where the other run does it once", "add:1 detach:8 detach:2 mul:1",
			"add:1 detach:8 detach:8 detach:2 detach:2 mul:1", "1-1 2-2 3-5 4-6 only-3 only-4"},
		{"twice, of one shape", "add:1 detach:2=8 detach:2=2 mul:1",
			"add:1 detach:2=8 detach:2=8 detach:2=2 detach:2=2 mul:1", "1-1 2-2 3-4 4-6 only-3 only-5"},
		{"once where the other run does it twice", "add:1 detach:2=8 detach:2=8 detach:2=2 detach:2=2 mul:1",
			"add:1 detach:2=8 detach:2=2 mul:1", "1-1 2-2 3-only 4-3 5-only 6-4"},
		{"a part of the calls", "add:2 mul:2 add:2 mul:2", "- - add:2", "1-only 2-only 3-3 4-only"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := t.TempDir(), t.TempDir()
			for root, text := range map[string]string{a: tc.a, b: tc.b} {
				for i, call := range strings.Fields(text) {
					op, size, ok := strings.Cut(call, ":")
					if !ok {
						continue
					}
					v := make([]float64, int(size[0]-'0'))
					if _, of, ok := strings.Cut(size, "="); ok {
						for i := range v {
							v[i] = float64(of[0] - '0')
						}
					}
					write(t, root, fmt.Sprintf("torch.%s/%d/%d/2024-01-01-00-00-00/output.pth", op, 7+len(text), i+1),
						"torch."+op, floats(v...))
				}
			}
			var got []string
			for p := range between(t, a, b) {
				switch {
				case p.B != nil:
					got = append(got, fmt.Sprintf("%d-%d", p.A.ID, p.B.ID))
				case p.inserted:
					got = append(got, fmt.Sprintf("only-%d", p.A.ID))
				default:
					got = append(got, fmt.Sprintf("%d-only", p.A.ID))
				}
			}
			if text := strings.Join(got, " "); text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
		})
	}
}

// TestOtherShapes: calls of one line and module whose shapes differ are not sure to be the same.
func TestOtherShapes(t *testing.T) {
	at := &capture.Entry{Module: "m", Location: "train.py:1"}
	x := placed{Entry: at, operator: "detach", shapes: []string{"[2, 3]"}}
	y := placed{Entry: at, operator: "detach", shapes: []string{"[2]"}}
	if x.likeness(&y) >= sameShapes || x.likeness(&x) < sameShapes {
		t.Errorf("likeness of other shapes %d, of the same %d", x.likeness(&y), x.likeness(&x))
	}
}

// TestGivenItself: two captures given themselves belong together, whatever their
// names are.
func TestGivenItself(t *testing.T) {
	root := t.TempDir()
	write(t, root, "x/output.pth", "torch.abs", floats(1))
	write(t, root, "y/output.pth", "torch.neg", floats(1))
	x, y := filepath.Join(root, "x"), filepath.Join(root, "y")
	for _, paths := range [][2]string{{x, y}, {x + "/output.pth", y + "/output.pth"}} {
		if got := compareAll(t, between(t, paths[0], paths[1])); len(got) != 1 || !strings.HasSuffix(got[0], " pass") {
			t.Errorf("%v: got %q", paths, got)
		}
	}
}

func TestMissingTree(t *testing.T) {
	if _, err := Corresponding(context.Background(), t.TempDir()+"/none", t.TempDir()); err == nil {
		t.Error("a tree that is not there is no error")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Corresponding(ctx, t.TempDir(), t.TempDir()); err == nil {
		t.Error("an interrupted walk is no error")
	}
}

// TestSaved compares the sides of a saved failure, file by file.
func TestSaved(t *testing.T) {
	root := t.TempDir()
	const dir = "torch.add/7/autocompare/3/2024-01-01-00-00-00"
	for _, side := range []string{"/device/", "/cpu/"} {
		write(t, root, dir+side+"input.pth", "torch.add", floats(1), int64(4))
		write(t, root, dir+side+"grad_inputs.pth", "torch.add", floats(1))
	}
	write(t, root, dir+"/device/output.pth", "torch.add", floats(1), floats(2))
	write(t, root, dir+"/cpu/output.pth", "torch.add", floats(1))
	write(t, root, "torch.abs/7/1/2024-01-01-00-00-00/output.pth", "torch.abs", floats(1)) // no pair
	got := compareAll(t, Saved(context.Background(), root))
	want := []string{dir + " input input[0] pass", dir + " input input[1] pass",
		dir + " forward  fail: output: 2 values against 1", dir + " backward grad[0] pass"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTolerance: a unit in the last place is rounding; op_tools' tolerance may allow
// more, and gradients have the precision of their argument.
func TestTolerance(t *testing.T) {
	half := tensor.New(tensor.Float16, []int{1}, []float64{1})
	for _, tc := range []struct {
		name        string
		input       *tensor.Tensor
		file        string
		got, want   float64
		environment string
		wantVerdict verdict.Verdict
	}{
		{"one unit", floats(1), "output", 1 + 1.0/(1<<23), 1, "AUTOCOMPARE_ERROR_TOLERANCE=0,0", verdict.Fail},
		{"one unit by default", floats(1), "output", 1 + 1.0/(1<<23), 1, "", verdict.Pass},
		{"op_tools' allclose", floats(1), "output", 1.00001, 1, "", verdict.Pass},
		{"too far", floats(1), "output", 1.001, 1, "", verdict.Fail},
		{"allowed", floats(1), "output", 1.001, 1, "AUTOCOMPARE_ERROR_TOLERANCE=0.1,0", verdict.Pass},
		{"gradient of float32", floats(1), "grad_inputs", 1.0005, 1, "", verdict.Fail},
		{"gradient of float16", half, "grad_inputs", 1.0005, 1, "", verdict.Pass},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			for side, v := range map[string]float64{"x/": tc.got, "y/": tc.want} {
				write(t, root, side+"input.pth", "torch.abs", tc.input)
				write(t, root, side+tc.file+".pth", "torch.abs", floats(v))
			}
			got := compareAll(t, between(t, root+"/x", root+"/y"), tc.environment)
			if last := got[len(got)-1]; !strings.Contains(last, " "+string(tc.wantVerdict)) {
				t.Errorf("got %q, want %s", got, tc.wantVerdict)
			}
		})
	}
}

// TestValues: what is no tensor is compared by op_tools' rule, and what cannot be
// read is invalid.
func TestValues(t *testing.T) {
	root := t.TempDir()
	write(t, root, "x/output.pth", "torch.abs", int64(3), "a", floats(1))
	write(t, root, "y/output.pth", "torch.abs", int64(4), "a", int64(1))
	got := compareAll(t, between(t, root+"/x", root+"/y"))
	for i, want := range []verdict.Verdict{verdict.Fail + ": 3 against 4", verdict.Pass, verdict.Fail} {
		if !strings.HasPrefix(got[i], fmt.Sprintf(". forward output[%d] %s", i, want)) {
			t.Errorf("value %d: got %q, want %s", i, got[i], want)
		}
	}
	bad := Pair{A: &capture.Entry{Rel: "z"}, B: &capture.Entry{}, kinds: capture.Kinds()}
	if got := compareAll(t, func(yield func(Pair) bool) { yield(bad) }); len(got) != 1 ||
		got[0] != "z   skipped: the two sides have no file in common" {
		t.Errorf("no files: got %q", got)
	}
}

// TestLeavesOfLoop: a container that holds itself, as in a damaged file, has no places in memory.
func TestLeavesOfLoop(t *testing.T) {
	loop := value.NewList(nil)
	loop.Items[0] = loop
	if ls := leaves(&capture.Call{Args: []value.Value{loop}}, capture.Input); ls != nil {
		t.Errorf("%d leaves, want none", len(ls))
	}
}
