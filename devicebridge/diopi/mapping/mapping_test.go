package mapping

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// TestTable reads the mapping of every operator, and demands that every line of the
// table is about one. It says which operators DIOPI cannot run.
func TestTable(t *testing.T) {
	entries := map[string]*opdef.Entry{}
	for _, e := range ops.Default().Entries() {
		entries[e.Op()] = e
	}
	for op, line := range table {
		e := entries[op]
		switch {
		case e == nil:
			t.Errorf("%s: %q: the table of operators has no %s", op, line, op)
			continue
		case line == "none":
			if _, err := parse(e, ""); err != nil {
				t.Errorf("%s: %q excludes nothing: %v", op, line, err)
			}
		}
	}
	var without []string
	for op, e := range entries {
		_, err := Of(e)
		var none *noRecipe
		switch {
		case errors.As(err, &none):
			without = append(without, op)
		case err != nil:
			t.Error(err)
		}
	}
	slices.Sort(without)
	t.Logf("%d of %d operators have no recipe: %s", len(without), len(entries), strings.Join(without, " "))
	if len(without) == 0 || len(without) == len(entries) {
		t.Error("want some operators with a recipe and some without")
	}
}

// TestParse reads lines that do not fit the operator or the recipe.
func TestParse(t *testing.T) {
	var e *opdef.Entry
	for _, x := range ops.Default().Entries() {
		if x.Op() == "rsub" {
			e = x
		}
	}
	for _, tc := range []struct{ line, want string }{
		{"sub input=other other=self", ""},
		{"sub input=other other=self -alpha", ""},
		{"subtract", "no recipe is named subtract"},
		{"sub -beta", "no argument of the op"},
		{"sub inputs=other", "no keyword of the recipe"},
		{"sub input=others", "not a literal"},
		{"sub input=other.first", "want the number of an item"},
		{"matmul input=self -alpha", ""},
		{"cat", "nothing fills tensors"},
	} {
		_, err := parse(e, tc.line)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: got %v, want %q", tc.line, err, tc.want)
		}
	}
}

// TestPlans plans the generated cases of every op that a recipe runs: forward,
// and backward where DIOPI has it. What a recipe cannot express is refused with
// the argument's name.
func TestPlans(t *testing.T) {
	planned := 0
	for _, e := range ops.Default().Entries() {
		m, err := Of(e)
		if err != nil {
			continue // TestTable
		}
		ran := 0
		var refused error
		for _, c := range e.Cases(rand.New(rand.NewPCG(1, 2))) {
			err := planCase(t, e, m.Recipe, c)
			if err != nil {
				refused = err
				continue
			}
			ran++
		}
		planned += ran
		if ran == 0 && refused != nil {
			t.Errorf("%s: no case can be planned: %v", e.Schema.Name, refused)
		}
		if refused != nil && testing.Verbose() {
			t.Logf("%s: refused: %v", e.Schema.Name, refused)
		}
	}
	t.Logf("%d cases planned", planned)
}

// planCase plans forward and backward calls of one case.
func planCase(t *testing.T, e *opdef.Entry, r *diopi.Recipe, c *opdef.Call) error {
	f, err := c.Forward()
	if err != nil {
		t.Errorf("%s: %v", e.Schema.Name, err)
		return nil
	}
	var need []string
	for _, a := range c.Tensors() {
		if e.HasGrad && r.HasBackward() && a.Tensor.DType.IsFloat() && a.Index < 0 {
			need = append(need, a.Name)
		}
	}
	if len(f.Outs) == 0 || !slices.ContainsFunc(f.Outs, func(o *tensor.Tensor) bool { return o.DType.IsFloat() }) {
		need = nil
	}
	var out []*tensor.Tensor
	if need != nil {
		for _, o := range f.Outs {
			out = append(out, tensor.Full(o.DType, o.Shape, 1.0))
		}
	}
	mc, err := NewCase(c, f, out, need)
	if err != nil {
		return err
	}
	p, err := r.Plan(mc.Case)
	if err != nil {
		return err
	}
	for i, o := range f.Outs {
		if i >= len(p.Outputs) {
			t.Errorf("%s: %d results, the plan yields %d", e.Schema.Name, len(f.Outs), len(p.Outputs))
			break
		}
		if d, ok := p.Outputs[i].(*diopi.Tensor); ok && (d.DType != o.DType || !slices.Equal(d.Shape, o.Shape)) &&
			d.Value == nil {
			t.Errorf("%s: result %d is %s, the plan yields %s%v", e.Schema.Name, i, o.Meta(), d.DType, d.Shape)
		}
	}
	for _, g := range p.Grads {
		if mc.Args[g.Name] == "" {
			t.Errorf("%s: gradient of %s", e.Schema.Name, g.Name)
		}
	}
	return nil
}
