package ops_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestMistakes: what operators declare as mistakes of kernels can be computed for every
// generated call, has the results' shapes, and is not what is due.
func TestMistakes(t *testing.T) {
	shorttest.Computes(t)
	tried := 0
	for _, e := range ops.Default().Entries() {
		differs := map[string]bool{} // by text without numbers: mistakes of some calls change nothing
		for i, c := range e.Cases(rand.New(rand.NewPCG(1, 2))) {
			f, err := c.Forward()
			if err != nil {
				continue
			}
			for _, m := range c.Mistakes() {
				tried++
				wrong, err := m.Plan()
				if err != nil {
					t.Errorf("%s, case %d: %s: %v", e.Op(), i, m.Text, err)
					continue
				}
				g, err := wrong.Forward()
				if err != nil {
					t.Errorf("%s, case %d: %s: %v", e.Op(), i, m.Text, err)
					continue
				}
				for k, y := range g.Outs {
					if x := f.Outs[k]; x.Meta() != y.Meta() {
						t.Errorf("%s, case %d: %s: %s, want %s", e.Op(), i, m.Text, y.Meta(), x.Meta())
					} else {
						changed := differs[e.Op()] || !same(x, y) || otherGradients(c, wrong, f)
						if changed || !m.Gradients { // a gradient may have no sum over what the composition spreads
							differs[e.Op()] = changed
						}
					}
				}
			}
		}
		for op, d := range differs {
			if !d {
				t.Errorf("%s: no mistake changes anything", op)
			}
		}
	}
	if tried == 0 {
		t.Error("no operator declares a mistake")
	}
}

// TestConstants: with the numbers that they declare the formulas of operators give what the operators do, and something
// else with other numbers.
func TestConstants(t *testing.T) {
	shorttest.Computes(t)
	tried := 0
	for _, e := range ops.Default().Entries() {
		differs := map[string]bool{}
		for i, c := range e.Cases(rand.New(rand.NewPCG(1, 2))) {
			f, err := c.Forward()
			if err != nil {
				continue
			}
			for _, k := range c.Constants() {
				name := e.Op() + ": " + k.Name
				differs[name] = differs[name] || len(f.Outs) == 0 || k.Step // in-place, or nothing of it in some calls
				sound, err := k.Plan(k.Value)
				if err != nil {
					t.Fatalf("%s, case %d: %v", name, i, err)
				}
				g, err := sound.Forward()
				if err != nil {
					t.Fatalf("%s, case %d: %v", name, i, err)
				}
				for n, y := range g.Outs {
					tried++
					if !nearlySame(f.Outs[n], y) {
						t.Errorf("%s, case %d: the formula does not give result %d", name, i, n)
					}
				}
				wrong, err := k.Plan(k.Value*1.5 + 0.25)
				if err != nil {
					continue
				}
				if w, err := wrong.Forward(); err == nil && len(w.Outs) > 0 {
					differs[name] = differs[name] || !nearlySame(f.Outs[0], w.Outs[0]) || otherGradients(c, wrong, f)
				}
			}
		}
		for name, d := range differs {
			if !d {
				t.Errorf("%s: another number changes nothing", name)
			}
		}
	}
	if tried < 50 {
		t.Errorf("%d results were compared", tried)
	}
}

// nearlySame compares results that are computed in another order. Formulas need not have the limits of functions.
func nearlySame(x, y *tensor.Tensor) bool {
	if x.Meta() != y.Meta() || !x.DType.IsFloat() {
		return x.Meta() == y.Meta()
	}
	a, b := tensor.Data[float64](opdef.Cast(x, tensor.Float64)), tensor.Data[float64](opdef.Cast(y, tensor.Float64))
	for i := range a {
		if d := math.Abs(a[i] - b[i]); d > 1e-9+2*x.DType.Eps()*math.Abs(a[i]) {
			return false
		}
	}
	return true
}

// otherGradients reports whether a mistake changes gradients.
func otherGradients(c, wrong *opdef.Call, f *opdef.Forward) bool {
	if !c.Entry.HasGrad || !f.Outs[0].DType.IsFloat() {
		return false
	}
	up := make([]*tensor.Tensor, len(f.Outs))
	up[0] = opdef.Map(f.Outs[0].DType, f.Outs[0], func(x float64) float64 { return 1 + x/4 })
	x, err := c.Backward(f, up, nil)
	y, wrongErr := wrong.Backward(f, up, nil)
	if err != nil || wrongErr != nil {
		return false
	}
	for name, ts := range x {
		for i, t := range ts {
			if t != nil && t.DType.IsFloat() && !same(t, y[name][i]) {
				return true
			}
		}
	}
	return false
}

func same(x, y *tensor.Tensor) bool {
	a, b := tensor.Data[float64](opdef.Cast(x, tensor.Float64)), tensor.Data[float64](opdef.Cast(y, tensor.Float64))
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestTakenFor: what operators are taken for is another operator, of the same tensors.
func TestTakenFor(t *testing.T) {
	all := ops.Default()
	tried := 0
	for _, e := range all.Entries() {
		for _, name := range e.TakenFor {
			tried++
			bound := 0
			for _, c := range e.Cases(rand.New(rand.NewPCG(1, 2))) {
				args, kwargs := c.Python()
				other, err := all.Bind(name, args, kwargs)
				if err != nil {
					args = nil
					for _, a := range c.Arguments() {
						if a.Required {
							args = append(args, a.Python())
						}
					}
					other, err = all.Bind(name, args, &value.Dict{})
				}
				if err == nil && other.Entry.Op() != e.Op() {
					bound++
				}
			}
			if bound == 0 {
				t.Errorf("%s: no call of it can be run as %s", e.Op(), name)
			}
		}
	}
	if tried == 0 {
		t.Error("no operator is taken for another")
	}
}

// TestMistakenDefault: the default stands for numbers, a list and a dtype that were given.
func TestMistakenDefault(t *testing.T) {
	x := value.NewTuple(tensor.New(tensor.Float32, []int{1, 1, 5, 5}, make([]float64, 25)))
	for _, tc := range []struct {
		op, name string
		given    value.Value
		want     value.Value
	}{
		{"torch.flatten", "end_dim", int64(2), int64(-1)},
		{"torch.nn.functional.conv2d", "padding", int64(1), int64(0)},
		{"torch.nn.functional.avg_pool2d", "stride", value.NewList(int64(3), int64(3)), nil},
		{"torch.sum", "dtype", tensor.Float64, nil},
	} {
		args, kwargs := x.Items, &value.Dict{Items: []value.Item{{Key: tc.name, Value: tc.given}}}
		switch tc.name {
		case "stride":
			args = append(args[:1:1], int64(2))
		case "padding":
			args = append(args[:1:1], args[0])
		}
		c, err := ops.Default().Bind(tc.op, args, kwargs)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := c.Argument(tc.name)
		if of := a.Mistaken(); len(of) == 0 || value.Repr(of[0]) != value.Repr(tc.want) {
			t.Errorf("%s of %s: %v, want %v first", tc.name, tc.op, of, tc.want)
		}
	}
}
