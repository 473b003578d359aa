package custom_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/ops/custom"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestChecks runs on operators of files what must hold of every operator.
func TestChecks(t *testing.T) {
	es, err := custom.Load("testdata", "../../fixtures/custom-ops/mylib.star")
	if err != nil {
		t.Fatal(err)
	}
	reg, err := opdef.NewRegistry(es)
	if err != nil {
		t.Fatal(err)
	}
	s := &opcheck.Suite{Registry: reg, Seed: 1}
	for _, e := range es {
		t.Run(e.Op(), func(t *testing.T) {
			t.Parallel()
			for _, f := range s.Entry(e) {
				t.Error(f)
			}
		})
	}
}

// TestNoCases: an argument that the checks cannot make is told in one sentence.
func TestNoCases(t *testing.T) {
	source := `op("mylib.step(Tensor x, int step) -> Tensor", lambda x, step: x * step)`
	es, err := custom.Parse("x.star", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	reg, err := opdef.NewRegistry(es)
	if err != nil {
		t.Fatal(err)
	}
	found := (&opcheck.Suite{Registry: reg, Seed: 1}).Entry(es[0])
	if want := `no cases: argument "step" has no default: give op() cases=[dict(step=..., ...)]`; len(found) != 1 ||
		found[0].Detail != want {
		t.Errorf("found %v, want %s", found, want)
	}
}

// TestEveryFunction: testdata, or a file of operators that are checked too, uses each function that Functions lists.
func TestEveryFunction(t *testing.T) {
	var files []string
	for _, dir := range []string{"testdata", "../vendors", "."} {
		more, err := filepath.Glob(dir + "/*.star")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	text := ""
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	for _, f := range custom.Functions() {
		name, _, _ := strings.Cut(f.Signature, "(")
		if !strings.Contains(text, name+"(") {
			t.Errorf("no operator of %s uses %s", files, name)
		}
	}
}

// parse reads one operator.
func parse(t *testing.T, src string) *opdef.Entry {
	t.Helper()
	es, err := custom.Parse("f.star", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return es[0]
}

// run computes an operator.
func run(t *testing.T, e *opdef.Entry, args ...value.Value) ([]*tensor.Tensor, error) {
	t.Helper()
	c, err := e.Bind(e.Names[0], args, nil)
	if err != nil {
		return nil, err
	}
	f, err := c.Forward()
	if err != nil {
		return nil, err
	}
	return f.Outs, nil
}

func TestValues(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{2, 3}, []float64{1, 2, 3, 4, 5, 6})
	for src, want := range map[string]string{
		`op("f(Tensor x) -> Tensor", lambda x: 2 * x[1] - 1)`:                                               "7 9 11",
		`op("f(Tensor x) -> Tensor", lambda x: x[0:1] / 4)`:                                                 "0.25 0.5 0.75",
		`op("f(Tensor x) -> Tensor", lambda x: sum(where(gt(x, 2), x, 0)) + len(x))`:                        "20",
		`op("f(Tensor x) -> Tensor", lambda x: full(x.shape, x.ndim) * (1 if x.dtype == "float32" else 0))`: "2 2 2 2 2 2",
		`op("f(Tensor x) -> Tensor", lambda x: slice(x, 1, -2, None))`:                                      "2 3 5 6",
		`op("f(Tensor x) -> Tensor", lambda x: x.index_select(1, [2, 0]))`:                                  "3 1 6 4",
		`op("f(Tensor x) -> Tensor", lambda x: embedding(arange(2), x))`:                                    "1 2 3 4 5 6",
		`op("f(Tensor x) -> Tensor", lambda x: x.var(1))`:                                                   "1 1",
		`op("f(Tensor x) -> Tensor", lambda x: cat([-x, math.floor(2.5) + x], 0).select(0, -1))`:            "6 7 8",
		`op("f(Tensor x) -> (Tensor, Tensor)", lambda x: topk(x, 2))`:                                       "3 2 6 5 2 1 2 1",
		`op("f(Tensor x) -> (Tensor, Tensor)", lambda x: (x[0], x[1]))`:                                     "1 2 3 4 5 6",
	} {
		outs, err := run(t, parse(t, src), x)
		got := ""
		for _, o := range outs {
			for _, v := range tensor.Data[float64](opdef.Cast(o, tensor.Float64)) {
				got += " " + opdef.Float(v).String()
			}
		}
		if err != nil || strings.TrimSpace(strings.ReplaceAll(got, ".0", "")) != want {
			t.Errorf("%s: got %s, %v, want %s", src, got, err, want)
		}
	}
}

// TestPythonValue: an operator that gives a number, of arguments by name.
func TestPythonValue(t *testing.T) {
	e := parse(t, `op("f(Tensor x, any how=None) -> int", lambda **a: a["x"].shape[1] + (0 if a["how"] == None else 1))`)
	x := tensor.New(tensor.Float32, []int{2, 3}, make([]float64, 6))
	for _, tc := range []struct {
		how  value.Value
		want int64
	}{{nil, 3}, {&value.Opaque{}, 4}, {x, 4}} {
		c, err := e.Bind("f", []value.Value{x, tc.how}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := c.Forward(); err != nil || f.Value != value.Value(tc.want) {
			t.Errorf("how %v: got %v, %v, want %d", tc.how, f, err, tc.want)
		}
	}
}

// TestKernelsMistakes: a file says what kernels get wrong, as causes of wrong values.
func TestKernelsMistakes(t *testing.T) {
	e := parse(t, `op("f(Tensor x, float eps=0.5) -> Tensor", lambda x, eps: x + eps,
   mistakes=[("eps is taken twice", lambda x, eps: x + 2 * eps)])`)
	x := tensor.New(tensor.Float32, []int{1}, []float64{3})
	x.RequiresGrad = true
	c, err := e.Bind("f", []value.Value{x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Forward(); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range c.Mistakes() {
		if m.Text != "eps is taken twice" {
			continue
		}
		found = true
		d, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		f, err := d.Forward()
		if err != nil || tensor.At[float64](f.Outs[0], 0) != 4 {
			t.Errorf("got %v, %v, want 4", f, err)
		}
		if _, err := d.Backward(f, []*tensor.Tensor{tensor.Full(tensor.Float32, []int{1}, 1.0)}, nil); err != nil {
			t.Error(err)
		}
	}
	if !found {
		t.Error("the mistake is not among those of the call")
	}
}

// TestRoundedMistakes: a mistake of a file that names a dtype rounds each of its steps to that.
func TestRoundedMistakes(t *testing.T) {
	e := parse(t, `op("f(Tensor x) -> Tensor", lambda x: x + 1,
   mistakes=[("a large number is added, then subtracted", lambda x: (x + 1e8) - 99999999, "float32")])`)
	c, err := e.Bind("f", []value.Value{tensor.New(tensor.Float32, []int{1}, []float64{3})}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Forward(); err != nil {
		t.Fatal(err)
	}
	d, err := c.Mistakes()[0].Plan()
	if err != nil {
		t.Fatal(err)
	}
	if f, err := d.Forward(); err != nil || tensor.At[float64](f.Outs[0], 0) != 1 {
		t.Errorf("got %v, %v, want 1: 3 is lost beside 1e8", tensor.At[float64](f.Outs[0], 0), err)
	}
}

// TestUnread: an argument that a function does not read has no part in bounds, also if its dtype is narrow.
func TestUnread(t *testing.T) {
	e := parse(t, `op("f(Tensor x, Tensor y) -> Tensor", lambda x, y: x * x + y.ndim)`)
	x := tensor.New(tensor.Float32, []int{3}, []float64{1, 2, 3})
	var bounds []float64
	for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
		c, err := e.Bind("f", []value.Value{x, tensor.New(dt, []int{2}, []float64{1, 1})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Forward()
		if err != nil {
			t.Fatal(err)
		}
		bounds = append(bounds, tensor.At[float64](c.OutBound(f, 0).Scale(), 2))
	}
	if bounds[0] != bounds[1] {
		t.Errorf("bounds %v beside float32 and bfloat16", bounds)
	}
}

// TestLongChain: a loop whose steps each read the last one three times takes work in
// proportion to its length.
func TestLongChain(t *testing.T) {
	e := parse(t, `
def chain(x):
    for _ in range(1000):
        x = x + x * x * 0.0001
    return x

op("f(Tensor x) -> Tensor", chain)`)
	x := tensor.New(tensor.Float32, []int{2}, []float64{1, -1})
	x.RequiresGrad = true
	c, err := e.Bind("f", []value.Value{x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Forward()
	if err != nil {
		t.Fatal(err)
	}
	up := []*tensor.Tensor{tensor.Full(tensor.Float32, []int{2}, 1.0)}
	grads, err := c.Backward(f, up, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, slope := 1.0, 1.0
	for range 1000 {
		slope *= 1 + 2*want*0.0001
		want += want * want * 0.0001
	}
	if y, d := tensor.At[float64](f.Outs[0], 0), tensor.At[float64](grads["x"][0], 0); math.Abs(y-want) > 1e-9 ||
		math.Abs(d-slope) > 1e-9 {
		t.Errorf("got %v with slope %v, want %v with %v", y, d, want, slope)
	}
	for what, b := range map[string]opdef.Bound{"value": c.OutBound(f, 0),
		"gradient": c.GradBound(f, up, grads, "x", 0)} {
		if s := tensor.At[float64](b.Scale(), 0); !(s > 1 && s < 1e6) {
			t.Errorf("bound of the %s: %v", what, s)
		}
	}
}

// TestMistakes: what is wrong with a file is said with its place, what is wrong with a
// call costs the call.
func TestMistakes(t *testing.T) {
	for src, want := range map[string]string{
		"op(\n":                "f.star:2:1",
		`op("f", lambda x: x)`: `f.star:1:3: schema "f": want name(args) -> returns`,
		`op("f(Tensor x) -> Tensor", lambda y: y)`:                                       "the function takes (y), the schema says (x)",
		`op("f(Tensor x) -> Tensor", 1)`:                                                 "got int, want callable",
		`op("f(Tensor x) -> Tensor", abs)`:                                               "want one that the file defines",
		`op("f(Tensor x) -> Tensor", lambda x: x, no_grad=["y"])`:                        "the schema has no Tensor y",
		`op("f(Tensor x) -> Tensor", lambda x: x, torch="both")`:                         `want "fused"`,
		`op("f(Tensor x) -> Tensor", lambda x: x, ulps=1e9)`:                             "want a number from 0 to 1000",
		`op("f(Tensor x) -> Tensor", lambda x: x, cases=[1])`:                            "case 0: want a dict of arguments, got int",
		`op("f(Tensor x) -> Tensor", lambda x: x, cases=[dict(x=normal(1 << 20))])`:      "at most 16384 elements",
		`op("f(Tensor x) -> Tensor", lambda x: x, cases=[only("int9", x=normal(1))])`:    "want the name of a dtype",
		`op("f(Tensor x) -> Tensor", lambda x: x, cases=[dict(x=given([[1], [2, 3]]))])`: "lists are of different lengths",
		`op("f(Tensor x) -> Tensor", lambda x: x, mistakes=["a"])`:                       "want a text and a function, got string",
		`op("f(Tensor x) -> Tensor", lambda x: x, mistakes=[("a", lambda y: y)])`:        "mistakes: the function takes (y)",
		`op("f(Tensor x) -> Tensor", lambda x: x, exempt=dict(dtypes=""))`:               "names of checks with the reason",
		`op("F.f(Tensor x) -> Tensor", lambda x: x, names="9.f")`:                        "is no Python identifier",
		`op("m.f.<locals>(Tensor x) -> Tensor", lambda x: x)`:                            `"<locals>" is no`,
		`op("f(Tensor x, Tensor _x) -> Tensor", lambda x, _x: x)`:                        "told apart by underscores alone",
		`exp(1)`:                            "there are tensors in the function of an operator only",
		`x = [0] * (1 << 40)`:               "repeated",
		"def f():\n  while True: pass\nf()": "too many steps",
		`load("other.star", "x")`:           "load not implemented by this application",
	} {
		_, err := custom.Parse("f.star", []byte(src))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
	x := tensor.New(tensor.Float32, []int{2, 3}, []float64{1, 2, 3, 4, 5, 6})
	for src, want := range map[string]string{
		`op("f(Tensor x) -> Tensor", lambda x: chunk(x, 2, 1)[0])`:                                    "f.star:1:44: chunk: ",
		`op("f(Tensor x) -> Tensor", lambda x: x[5])`:                                                 "f.star:1:40: ",
		`op("f(Tensor x) -> Tensor", lambda x: x if x else x)`:                                        "f.star:1:44: a Tensor is neither true nor false",
		"\ufeff" + `op("f(Tensor x) -> Tensor", lambda x: x[5])`:                                      "f.star:1:40: ",
		`op("f(Tensor x) -> Tensor", lambda x: refuse("x", "want less"))`:                             `op f: argument "x": want less`,
		`op("f(Tensor x) -> Tensor", lambda x: unsupported("x", "no"))`:                               `op f: argument "x": no`,
		`op("f(Tensor x) -> Tensor", lambda x: x // 2)`:                                               "want integers",
		`op("f(Tensor x) -> Tensor", lambda x: arange(3) // 0)`:                                       "divided by 0",
		`op("f(Tensor x) -> Tensor", lambda x: bincount(arange(3), 1 << 30)[0] * x)`:                  "want at most",
		`op("f(Tensor x) -> Tensor", lambda x: within(arange(3), 2, "row"))`:                          "row 2 is not among 2",
		`op("f(Tensor x) -> int", lambda x: x)`:                                                       "want a Python value",
		`op("f(Tensor x) -> Tensor", lambda x: x @ x)`:                                                "",
		`op("f(Tensor x) -> Tensor", lambda x: x + "a")`:                                              "want a Tensor or a number, got string",
		`op("f(Tensor x) -> Tensor", lambda x: 1)`:                                                    "the function gives int, want the results",
		`op("f(Tensor x) -> Tensor", lambda x: [x, x])`:                                               "the function gives 2 results, the schema says 1; [0] is the first",
		`op("f(Tensor x) -> ()", lambda x: x)`:                                                        "the schema says nothing",
		`op("f(Tensor x) -> Tensor", lambda x: reshape(x, 4))`:                                        "does not hold the elements",
		`op("f(Tensor x) -> Tensor", lambda x: zeros([1 << 30, 1 << 30]))`:                            "f.star:1:44: zeros: ",
		`op("f(Tensor x) -> Tensor", lambda x: matmul(x, x))`:                                         "matmul",
		`op("f(Tensor x) -> Tensor", lambda x: where(x, x, x))`:                                       "want a bool Tensor",
		`op("f(Tensor x) -> Tensor", lambda x: x.split([1, 1], 1)[0])`:                                "want 3 in all, got 2",
		`op("f(Tensor x) -> Tensor", lambda x: attention(x, x, x, scale="a"))`:                        "want a number, got string",
		`op("f(Tensor x) -> Tensor", lambda x: fail("no"))`:                                           "no",
		`op("f(Tensor x) -> Tensor", lambda x: [i for i in range(1 << 20) for j in range(9)][0] * x)`: "too many steps",
	} {
		es, err := custom.Parse("f.star", []byte(src))
		if err == nil {
			_, err = run(t, es[0], x)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
}

// TestWrites: an operator that changes its arguments.
func TestWrites(t *testing.T) {
	e := parse(t, `op("mylib.append(Tensor cache, Tensor x, int at) -> ()",
   lambda cache, x, at: update("cache", cat([cache[:at], x, cache[at + len(x):]])))`)
	cache := tensor.New(tensor.Float32, []int{4, 1}, []float64{1, 2, 3, 4})
	x := tensor.New(tensor.Float32, []int{2, 1}, []float64{8, 9})
	c, err := e.Bind("mylib.append", []value.Value{cache, x, int64(1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Forward()
	if err != nil {
		t.Fatal(err)
	}
	if got := tensor.Data[float64](f.After["cache"][0]); len(got) != 4 || got[1] != 8 || got[2] != 9 || got[3] != 4 {
		t.Errorf("got %v", got)
	}
}

// TestRefusedFiles: what is no file of operators is refused at once, with its place.
func TestRefusedFiles(t *testing.T) {
	if _, err := custom.Load(os.DevNull); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("%s: %v", os.DevNull, err)
	}
	if _, err := custom.Parse("f.star", []byte("x = 1\ny = \"a\".replace(\"a\", \"b\")")); err == nil ||
		err.Error() != "f.star:2:9: replace is not known here" {
		t.Errorf("a method that is not known: %v", err)
	}
}

// FuzzParse: any file is read or refused, within bounds.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`op("f(Tensor x) -> Tensor", lambda x: x)`))
	f.Add([]byte(`op("f(Tensor[] xs, float? p=None) -> (Tensor, Tensor)", lambda xs, p: xs, cases=[dict(xs=[normal(1)])])`))
	f.Add([]byte("def f(x):\n  return x\nop(\"f(Tensor x) -> ()\", f, names=\"a.b c.d\", torch=\"composed\", ulps=3)"))
	f.Fuzz(func(t *testing.T, src []byte) {
		fuzzcheck.Bounded(t, 1, 4<<30, func() {
			_, err := custom.Parse("f.star", src)
			if err != nil && err.Error() == "" {
				t.Error("an error without words")
			}
		})
	})
}

// TestNamesInsideFunctions: what a function of a program defines has a name with <locals>, which explain prints and a
// file declares.
func TestNamesInsideFunctions(t *testing.T) {
	for _, name := range []string{"bugs.install.<locals>.S.apply", "bugs.install.<locals>.<lambda>"} {
		entries, err := custom.Parse("f.star", []byte(`op("`+name+`(Tensor x) -> Tensor", lambda x: x)`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := opdef.NewRegistry(entries); err != nil || !slices.Contains(entries[0].Names, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
