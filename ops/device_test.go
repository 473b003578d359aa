package ops

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// TestDevice plans the generated cases of every op that a recipe runs: forward,
// and backward where DIOPI has it. What a recipe cannot express is refused with
// the argument's name.
func TestDevice(t *testing.T) {
	reg, err := opdef.NewRegistry(tables()...)
	if err != nil {
		t.Fatal(err)
	}
	planned := 0
	for _, e := range reg.Entries() {
		r, err := e.Recipe()
		if err != nil {
			if strings.Contains(err.Error(), `DIOPI "`) {
				t.Error(err)
			}
			continue
		}
		ran := 0
		var refused error
		for _, c := range e.Cases(rand.New(rand.NewPCG(1, 2))) {
			err := planCase(t, e, r, c)
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
	dc, err := c.DeviceCase(f, out, need)
	if err != nil {
		return err
	}
	p, err := r.Plan(dc.Case)
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
		if dc.Args[g.Name] == "" {
			t.Errorf("%s: gradient of %s", e.Schema.Name, g.Name)
		}
	}
	return nil
}
