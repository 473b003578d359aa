package step

import (
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// TestOverwrittenBeforeBackward: a recorded call wrote a weight, or a result that the backward pass reads, through data
// between the passes. The gradient is right with what it left, so that is the cause, not a mistake of the operator.
func TestOverwrittenBeforeBackward(t *testing.T) {
	for tree, value := range map[string]string{"weight-data": "input[1]", "result-data": "output[0]"} {
		f := open(t, tree).First()
		if f == nil || f.Rule != verdict.Wrong || len(f.Causes) != 1 {
			t.Fatalf("%s: found %+v, want a wrong gradient with its cause", tree, f)
		}
		got := f.Causes[0].Text
		if f.Causes[0].Pattern || !strings.HasPrefix(got, value+" was overwritten by torch.Tensor.mul_/") ||
			!strings.HasSuffix(got, ") before the backward pass read it") {
			t.Errorf("%s: the cause is %q", tree, got)
		}
	}
}

// TestLossNames: several losses of one step have its number, and are numbered within it.
func TestLossNames(t *testing.T) {
	p := &Process{}
	for i, number := range []int{1, 1, 2} {
		loss := &Call{Entry: &capture.Entry{Step: number}, Process: p}
		p.Steps = append(p.Steps, &Step{Number: i, Loss: loss})
	}
	for i, want := range []string{"loss 1 of 2 of step 1", "loss 2 of 2 of step 1", "step 2"} {
		if got := p.Steps[i].Name(); got != want {
			t.Errorf("loss %d is %q, want %q", i, got, want)
		}
	}
	if steps, losses := p.CountSteps(); steps != 2 || losses != 3 {
		t.Errorf("%d steps with %d losses, want 2 with 3", steps, losses)
	}
}

// TestBlamedOnce: gradients are counted, not how often an update reads them.
func TestBlamedOnce(t *testing.T) {
	at := func(address uint64) *Value { return &Value{Address: address} }
	v := at(1)
	v.alike = []*Value{at(2), at(1), at(2), at(3)}
	u := &updater{blamed: map[string]*Value{"unzeroed": v}}
	if u.countBlamed(); !strings.HasSuffix(v.reason, "so are 2 other gradients") {
		t.Errorf("of three gradients: %q", v.reason)
	}
}

// TestParameterName: a gradient belongs to the parameter at its place in another list of the update.
func TestParameterName(t *testing.T) {
	c := &Call{Entry: &capture.Entry{}}
	in := func(item int, name string) *Value {
		return &Value{Call: c, DType: tensor.Float32, Shape: []int{2}, item: item, named: name}
	}
	c.Inputs = []*Value{in(0, "a.weight"), in(1, "b.weight"), in(0, ""), in(1, "")}
	if got := c.Inputs[3].parameterName(); got != "b.weight" {
		t.Errorf("the second gradient is of %q", got)
	}
}

// TestGapsOfUnknownOperators come before values that are zero on both sides.
func TestGapsOfUnknownOperators(t *testing.T) {
	unknown := Gap{What: "4 calls not judged: unknown op mine.gelu"}
	zero := Gap{What: "11 calls not judged: zero on both sides"}
	if unknown.urgency() >= zero.urgency() {
		t.Error("zeros come first")
	}
}
