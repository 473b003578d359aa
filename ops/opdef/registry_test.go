package opdef

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

type selfArgs struct{ Self *tensor.Tensor }

func identity() Op[selfArgs] {
	return echo("f(Tensor self) -> Tensor", "", func(a *selfArgs) *tensor.Tensor { return a.Self })
}

type extraArgs struct{ Self, Extra *tensor.Tensor }

type wrongArgs struct{ Self float64 }

// TestContradictions breaks a sound declaration in each way that a registry
// must notice.
func TestContradictions(t *testing.T) {
	build := func(change func(o *Op[selfArgs])) *Entry {
		o := identity()
		change(&o)
		return o.Entry()
	}
	schema := func(s string) *Entry { return build(func(o *Op[selfArgs]) { o.Schema = s }) }
	for _, tc := range []struct {
		name string
		e    *Entry
		want string
	}{
		{"schema", schema("f(Tensor self"), "want name(args) -> returns"},
		{"type", schema("f(Tensor self, foo bar) -> Tensor"), `unknown type "foo"`},
		{"missing field", schema("f(Tensor self, int dim) -> Tensor"),
			`argument "dim": struct opdef.selfArgs has no field Dim`},
		{"field of no argument", echo("f(Tensor self) -> Tensor", "",
			func(a *extraArgs) *tensor.Tensor { return a.Self }).Entry(),
			"field Extra of opdef.extraArgs is no argument of the schema"},
		{"field type", echo("f(Tensor self) -> Tensor", "", func(a *wrongArgs) *tensor.Tensor { return nil }).Entry(),
			"field Self is float64, want *tensor.Tensor"},
		{"optional field", echo("f(float? self) -> Tensor", "",
			func(a *wrongArgs) *tensor.Tensor { return nil }).Entry(), "field Self is float64, want *float64"},
		{"default", echo("f(float self=one) -> Tensor", "", func(a *wrongArgs) *tensor.Tensor { return nil }).Entry(),
			`default "one": not a literal`},
		{"default type", echo("f(float self='1') -> Tensor", "",
			func(a *wrongArgs) *tensor.Tensor { return nil }).Entry(), "want float, got str"},
		{"not a struct", Op[int]{Schema: "f(Tensor self) -> Tensor"}.Entry(), "argument type int is not a struct"},
		{"names", build(func(o *Op[selfArgs]) { o.Names = " " }), "no names"},
		{"namespace", build(func(o *Op[selfArgs]) { o.Names = "torch.torch_npu.f" }), "torch has no namespace torch_npu"},
		{"misspelt namespace", build(func(o *Op[selfArgs]) { o.Names = "tensor.f Tenosr.f" }),
			`name "Tenosr.f": neither a package nor a namespace of torch is called Tenosr`},
		{"name", build(func(o *Op[selfArgs]) { o.Names = "torch_npu.f,g" }), `"f,g" is no Python identifier`},
		{"uncast", build(func(o *Op[selfArgs]) { o.Uncast = "g" }), "Uncast: it has no method g"},
		{"kernel", build(func(o *Op[selfArgs]) { o.Kernel = nil }), "want Kernel, or a plan with a Value"},
		{"kernel of a random op", build(func(o *Op[selfArgs]) { o.Kernel, o.Random = nil, "draws random numbers" }),
			"want Kernel, or a plan with a Value"},
		{"summary", build(func(o *Op[selfArgs]) { o.Doc.Summary = "" }), "want a summary"},
		{"full stop", build(func(o *Op[selfArgs]) { o.Doc.Summary = "Itself." }), "summary ends in a full stop"},
		{"cases", build(func(o *Op[selfArgs]) { o.Cases = nil }), "no cases"},
		{"gradient", build(func(o *Op[selfArgs]) { o.NoGrad = "" }), "want Grad, or NoGrad with the reason"},
	} {
		_, err := NewRegistry([]*Entry{tc.e})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := NewRegistry([]*Entry{identity().Entry()}); err != nil {
		t.Errorf("sound op: %v", err)
	}
	unsourced := identity()
	unsourced.Doc.Source = ""
	if e := unsourced.Entry(); e.Doc.Source != e.Names[0] {
		t.Errorf("without a source: %q, want the first name, %q", e.Doc.Source, e.Names[0])
	}
	if _, err := NewRegistry([]*Entry{identity().Entry(), identity().Entry()}); err == nil ||
		!strings.Contains(err.Error(), "declared twice") {
		t.Errorf("two of one schema: error %v", err)
	}
	again := identity()
	again.Schema = "again" + strings.Replace(again.Schema[strings.IndexByte(again.Schema, '('):], "self", "x", 1)
	type xArgs struct{ X *tensor.Tensor }
	second := echo(again.Schema, identity().Entry().Names[0], func(a *xArgs) *tensor.Tensor { return a.X }).Entry()
	if _, err := NewRegistry([]*Entry{identity().Entry(), second}); err == nil ||
		!strings.Contains(err.Error(), "arguments of the same types") {
		t.Errorf("two of one name: error %v", err)
	}
	known, err := NewRegistry([]*Entry{identity().Entry()})
	if err != nil {
		t.Fatal(err)
	}
	name := identity().Entry().Names[0]
	if _, err := known.With([]*Entry{second}); err == nil || !strings.Contains(err.Error(), name+" is known as "+
		identity().Schema) {
		t.Errorf("a name that is known: error %v", err)
	}
	second.Replaces = true
	if all, err := known.With([]*Entry{second}); err != nil || !slices.Equal(all.Lookup(name), []*Entry{second}) ||
		len(known.Lookup(name)) != 1 {
		t.Errorf("a name that is replaced: %v", err)
	}
	_, err = NewRegistry([]*Entry{schema("f("), schema("g(")})
	if err == nil || strings.Count(err.Error(), "want name(args) -> returns") != 2 {
		t.Errorf("two contradictions: %v, want both", err)
	}
}

func TestLookup(t *testing.T) {
	two := echo("f.dim(Tensor self, int dim, *, bool keepdim=False) -> Tensor", "f Tensor.f",
		func(a *dimArgs) *tensor.Tensor { return a.Self })
	refuse := identity()
	refuse.Schema, refuse.Names = "f(Tensor self) -> Tensor", "f Tensor.f special.f"
	reg, err := NewRegistry([]*Entry{refuse.Entry()}, []*Entry{two.Entry()})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(reg.Lookup("torch.f")); got != 2 || len(reg.Entries()) != 2 {
		t.Errorf("%d overloads of torch.f, want 2", got)
	}
	c, err := reg.Bind("torch.f", []value.Value{x, int64(0)}, nil)
	if err != nil || c.Entry.Schema.Name != "f.dim" {
		t.Errorf("f(x, 0) binds to %v, error %v", c, err)
	}
	if _, err := reg.Bind("torch.g", nil, nil); !errors.Is(err, ErrUnknownOp) ||
		!strings.Contains(err.Error(), "torch.g") {
		t.Errorf("unknown op: %v", err)
	}
	if _, err := reg.Bind("torch.f", []value.Value{"text"}, nil); err == nil ||
		!strings.Contains(err.Error(), `argument "self"`) {
		t.Errorf("no overload: %v", err)
	}
	var unbound *UnboundError
	if _, err := reg.Bind("torch.f", []value.Value{x, int64(0), "text"}, nil); !errors.As(err, &unbound) ||
		unbound.Nearest != two.Schema || err.Error() != `op f.dim: takes 2 positional arguments, got 3` {
		t.Errorf("no overload: %v, nearest %+v, want f.dim, which takes two", err, unbound)
	}
	for name, want := range map[string]int{"torch.ops.aten.f": 2, "torch.ops.aten.f.default": 2, "aten.f.default": 2,
		"torch.ops.aten.special_f": 1, "torch.ops.aten.linalg_f": 0, "torch.ops.aten.g": 0, "torch.ops.mylib.f": 0} {
		if got := len(reg.Lookup(name)); got != want || reg.Knows(name) != (want > 0) {
			t.Errorf("%d overloads of %s, want %d", got, name, want)
		}
	}
	if c, err := reg.Bind("torch.ops.aten.f.default", []value.Value{x}, nil); err != nil || c.Entry.Schema.Name != "f" {
		t.Errorf("ATen's f(x) binds to %v, error %v", c, err)
	}
	for name, want := range map[string]string{"torchvision.nms": "torch.ops.torchvision.nms",
		"torchvision.nms.default": "torch.ops.torchvision.nms", "torch.ops.torchvision.nms.default": "torch.ops.torchvision.nms",
		"torch.ops.aten.f.dim": "torch.ops.aten.f.dim", "torch.torchvision.nms": "", "nms": ""} {
		reg := TrustedRegistry([]*Entry{echo("f.dim(Tensor self) -> Tensor", "f torch.ops.aten.f.dim "+
			"torch.ops.torchvision.nms", func(a *selfArgs) *tensor.Tensor { return a.Self }).Entry()})
		c, err := reg.Bind(name, []value.Value{x}, nil)
		if (err == nil) != (want != "") || err == nil && c.Name != want {
			t.Errorf("%s is called by %v, error %v, want %q", name, c, err, want)
		}
	}
	if got, want := reg.Similar("torch.linalg.f"), []string{"torch.Tensor.f", "torch.f",
		"torch.special.f"}; !slices.Equal(got, want) {
		t.Errorf("similar names %q, want %q", got, want)
	}
}

func TestRunErrors(t *testing.T) {
	e := identity()
	e.Kernel = func(*selfArgs) ([]*tensor.Tensor, error) { return nil, Refuse("self", "want %d dims", 3) }
	c, err := e.Entry().Bind("torch.f", []value.Value{x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if _, err := c.Forward(); !errors.As(err, &refused) || err.Error() != `op f: argument "self": want 3 dims` {
		t.Errorf("refusal reads %q", err)
	}
	if _, err := c.Backward(&Forward{}, nil, nil); err == nil || err.Error() != "op f: no gradient: a test" {
		t.Errorf("backward without gradient: %v", err)
	}
}

func TestGradShapes(t *testing.T) {
	e := identity()
	e.NoGrad = ""
	for name, tc := range map[string]struct {
		gr   Grads
		want string
	}{
		"right":       {Grads{"self": {x}}, ""},
		"none":        {Grads{"self": {nil}}, ""},
		"other dtype": {Grads{"self": {tensor.New(tensor.Float64, []int{2}, []float64{1, 2})}}, ""},
		"shape":       {Grads{"self": {x.Unsqueeze(0)}}, `gradient of "self" has shape [1, 2], argument [2]`},
		"count":       {Grads{"self": {x, x}}, `2 gradients for argument "self" of 1 tensors`},
		"name":        {Grads{"input": {x}}, `1 gradients for argument "input" of 0 tensors`},
	} {
		e.Grad = func(*selfArgs, *Grad) (Grads, error) { return tc.gr, nil }
		c := e.Entry().NewCall(&selfArgs{x})
		g, err := c.Backward(&Forward{Outs: []*tensor.Tensor{x}}, []*tensor.Tensor{x}, nil)
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error %v, want %q", name, err, tc.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if g["self"][0] != nil && g["self"][0].DType != tensor.Float32 {
			t.Errorf("%s: gradient has dtype %s, want the argument's", name, g["self"][0].DType)
		}
	}
}

func TestGen(t *testing.T) {
	g := Gen{R: rand.New(rand.NewPCG(1, 1))}
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16, tensor.Float64, tensor.Int32, tensor.Bool,
		tensor.Complex64} {
		y := g.Int(tensor.Int8, 0, 1, 2, 3, 4)
		if dt.Kind() >= tensor.KindFloat {
			y = g.Normal(dt, 2, 3, 4)
		}
		z := NonContiguous(y)
		if z.IsContiguous() || !slices.Equal(z.Shape, y.Shape) ||
			!slices.Equal(z.AppendBytes(nil), y.AppendBytes(nil)) || z.RequiresGrad != y.RequiresGrad {
			t.Errorf("NonContiguous of %s", y.Meta())
		}
	}
	v := tensor.Data[float64](g.Distinct(tensor.BFloat16, 40))
	slices.Sort(v)
	for i := 1; i < len(v); i++ {
		if v[i]-v[i-1] < 0.1 {
			t.Errorf("Distinct: %v and %v", v[i-1], v[i])
		}
	}
	for _, v := range tensor.Data[float64](g.Apart(tensor.Float64, []float64{-1, 0, 1}, 200)) {
		for _, p := range []float64{-1, 0, 1} {
			if v-p > -0.2 && v-p < 0.2 {
				t.Errorf("Apart: %v is near %v", v, p)
			}
		}
	}
	for _, v := range tensor.Data[float64](g.Uniform(tensor.Float64, 2, 3, 100)) {
		if v < 2 || v > 3 {
			t.Errorf("Uniform: %v", v)
		}
	}
}

// TestFamilies: a family is read when a name of one of its namespaces is met, and not before.
func TestFamilies(t *testing.T) {
	read := 0
	theirs := echo("lib_f(Tensor self) -> Tensor", "lib.f torch.ops.alib.f",
		func(a *selfArgs) *tensor.Tensor { return a.Self }).Entry()
	own, err := NewRegistry([]*Entry{identity().Entry()})
	if err != nil {
		t.Fatal(err)
	}
	reg := own.WithFamilies(NewFamily([]string{"lib", "alib"}, func() []*Entry {
		read++
		return []*Entry{theirs}
	}))
	for _, name := range []string{"torch.f", "torch.ops.aten.f", "other.f", "torch.Tensor.lib"} {
		reg.Lookup(name)
	}
	if read != 0 {
		t.Errorf("it was read before a name of it was met")
	}
	user := echo("user(Tensor self) -> Tensor", "lib.f", func(a *selfArgs) *tensor.Tensor { return a.Self }).Entry()
	other := echo("user(Tensor self) -> Tensor", "user.f", func(a *selfArgs) *tensor.Tensor { return a.Self }).Entry()
	if more, err := reg.With([]*Entry{other}); err != nil || read != 0 || len(more.Lookup("lib.f")) != 1 {
		t.Errorf("an operator beside it: error %v, read %d times", err, read)
	}
	if _, err := reg.With([]*Entry{user}); err == nil || !strings.Contains(err.Error(), "lib.f is known") {
		t.Errorf("a name that the family has: error %v", err)
	}
	user.Replaces = true
	if more, err := reg.With([]*Entry{user}); err != nil || !slices.Equal(more.Lookup("lib.f"), []*Entry{user}) ||
		!slices.Equal(more.Lookup("alib.f.default"), []*Entry{theirs}) {
		t.Errorf("a name that is replaced: error %v", err)
	}
	if c, err := reg.Bind("alib.f.default", []value.Value{x}, nil); err != nil || c.Entry != theirs {
		t.Errorf("the dispatcher's name: error %v", err)
	}
	if got := reg.Similar("any.f"); !slices.Contains(got, "lib.f") || !reg.Knows("lib.f") || reg.Knows("lib.g") ||
		len(reg.Entries()) != 2 || read != 1 {
		t.Errorf("similar names %v, %d entries, read %d times", got, len(reg.Entries()), read)
	}
}
