package opdef

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/optool/optool/internal/fuzzcheck"
)

func TestParseSchema(t *testing.T) {
	s,
		err := ParseSchema(
		`f.out(Tensor|Scalar self, Tensor?[] indices, int[2]? size=None, *, str mode="a, b", int[]... dims=[1, 2], Device? device=None) -> (Tensor, Tensor)`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Param{
		{Name: "self", Type: Type{Base: "Tensor", Scalar: true}, Required: true},
		{Name: "indices", Type: Type{Base: "Tensor", List: true, ListOpt: true}, Required: true},
		{Name: "size", Type: Type{Base: "int", List: true, Len: 2, Optional: true}, Default: "None"},
		{Name: "mode", Type: Type{Base: "str"}, Default: `"a, b"`, Keyword: true},
		{Name: "dims", Type: Type{Base: "int", List: true, Variadic: true}, Default: "[1, 2]", Keyword: true},
		{Name: "device", Type: Type{Base: "Device", Optional: true}, Default: "None", Keyword: true},
	}
	if d := cmp.Diff(want, s.Params); d != "" {
		t.Errorf("parameters (-want +got):\n%s", d)
	}
	if s.Name != "f.out" || s.Returns != "(Tensor, Tensor)" {
		t.Errorf("name %q, returns %q", s.Name, s.Returns)
	}
}

func TestParseSchemaErrors(t *testing.T) {
	for _, tc := range []struct{ schema, want string }{
		{"", "want name(args) -> returns"},
		{"f", "want name(args) -> returns"},
		{"(Tensor self) -> Tensor", "want name(args) -> returns"},
		{"f(Tensor self)", "want name(args) -> returns"},
		{") -> f(", "want name(args) -> returns"},
		{"f(Tensor) -> Tensor", "want type and name"},
		{"f(Tensr self) -> Tensor", `unknown type "Tensr"`},
		{"f(int[x] self) -> Tensor", `bad length "x"`},
		{"f(Tensor self, int self) -> Tensor", `"self" appears twice`},
		{"f(Tensor 2x) -> Tensor", `bad name "2x"`},
		{"f(Tensor a b) -> Tensor", `bad name "a b"`},
		{"f(int... n) -> Tensor", "only a list can be variadic"},
		{"f(int[]?... n) -> Tensor", ""},
	} {
		_, err := ParseSchema(tc.schema)
		if tc.want == "" {
			if err != nil {
				t.Errorf("ParseSchema(%q): %v", tc.schema, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ParseSchema(%q): error %v, want %q", tc.schema, err, tc.want)
		}
	}
}

func TestTypeString(t *testing.T) {
	for _, s := range []string{"Tensor", "Tensor?", "Tensor|Scalar", "Tensor?[]", "int[2]?", "Scalar[]", "float"} {
		p, err := parseParam(s + " x")
		if err != nil || p.Type.String() != s {
			t.Errorf("type %s prints as %s, error %v", s, p.Type, err)
		}
	}
}

func FuzzParseSchema(f *testing.F) {
	for _, s := range []string{
		"add(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
		"view(Tensor self, int[]... size) -> Tensor",
		`pad(Tensor self, int[] pad, str mode="constant", Scalar? value=None) -> Tensor`,
		"index(Tensor self, Tensor?[] indices) -> Tensor",
		"max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)",
		"f(int[2] k=[1, 2], any x=[[], \"]\"]) -> ()",
		") -> (", "f(*, *) -> ",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s *Schema
		var err error
		fuzzcheck.Bounded(t, len(text), 1<<12, func() { s, err = ParseSchema(text) })
		fuzzcheck.Sentence(t, err)
		if err != nil {
			return
		}
		again, err := ParseSchema(written(s))
		if err != nil {
			t.Fatalf("%q, written as %q, is refused: %v", text, written(s), err)
		}
		if d := cmp.Diff(s.Params, again.Params); d != "" || again.Name != s.Name || again.Returns != s.Returns {
			t.Fatalf("%q, written as %q, is another: %s", text, written(s), d)
		}
		for _, p := range s.Params {
			if p.Name == "" || p.Type.Base == "" {
				t.Fatalf("%q: parameter %+v", text, p)
			}
			if !p.Required {
				_, err := parseDefault(p.Default)
				fuzzcheck.Sentence(t, err)
			}
		}
	})
}

// written is a schema from its parts.
func written(s *Schema) string {
	var args []string
	keyword := false
	for _, p := range s.Params {
		if p.Keyword && !keyword {
			keyword = true
			args = append(args, "*")
		}
		arg := p.Type.String()
		if p.Type.Variadic {
			arg += "..."
		}
		arg += " " + p.Name
		if !p.Required {
			arg += "=" + p.Default
		}
		args = append(args, arg)
	}
	return s.Name + "(" + strings.Join(args, ", ") + ") -> " + s.Returns
}
