package foreach

import (
	"errors"
	"math"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// foreachBind binds a call of one of the list ops.
func foreachBind(t *testing.T, name string, kwargs *value.Dict, args ...value.Value) (*opdef.Call, error) {
	t.Helper()
	reg, err := opdef.NewRegistry(foreachOps())
	if err != nil {
		t.Fatal(err)
	}
	return reg.Bind(name, args, kwargs)
}

func foreachList(dt tensor.DType, vs ...float64) *value.Sequence {
	l := value.NewList()
	for _, v := range vs {
		l.Items = append(l.Items, tensor.New(dt, []int{1}, []float64{v}).Rounded())
	}
	return l
}

// TestForeachForms: every way to give the second operand, both forms.
func TestForeachForms(t *testing.T) {
	f32 := tensor.Float32
	alpha := &value.Dict{Items: []value.Item{{Key: "alpha", Value: int64(2)}}}
	for _, c := range []struct {
		name   string
		kwargs *value.Dict
		args   []value.Value
		want   []float64
	}{
		{"add", alpha, []value.Value{foreachList(f32, 1, 2), foreachList(f32, 10, 20)}, []float64{21, 42}},
		{"add", nil, []value.Value{foreachList(f32, 1, 2), 0.5}, []float64{1.5, 2.5}},
		{"add", nil, []value.Value{foreachList(f32, 1, 2), value.NewList(int64(1), 0.5)}, []float64{2, 2.5}},
		{"mul", nil, []value.Value{foreachList(f32, 1, 2), tensor.Scalar(f32, 3.0)}, []float64{3, 6}},
		{"div", nil, []value.Value{foreachList(f32, 1, 2), int64(2)}, []float64{0.5, 1}},
		{"clamp_min", nil, []value.Value{foreachList(f32, -1, 2), int64(0)}, []float64{0, 2}},
		{"clamp_max", nil, []value.Value{foreachList(f32, -1, 2), foreachList(f32, 0, 1)}, []float64{-1, 1}},
		{"pow", nil, []value.Value{foreachList(f32, 3, 2), value.NewList(int64(2), int64(3))}, []float64{9, 8}},
		{"addcdiv", nil, []value.Value{foreachList(f32, 1, 2), foreachList(f32, 1, 1), foreachList(f32, 2, 4),
			value.NewList(int64(2), int64(4))}, []float64{2, 3}},
		{"lerp", nil, []value.Value{foreachList(f32, 0, 2), foreachList(f32, 4, 4), 0.25}, []float64{1, 2.5}},
		{"copy", nil, []value.Value{foreachList(f32, 0, 2), foreachList(tensor.Float64, 4, 5)}, []float64{4, 5}},
	} {
		for _, suffix := range []string{"", "_"} {
			call, err := foreachBind(t, "torch._foreach_"+c.name+suffix, c.kwargs, c.args...)
			if err != nil {
				t.Errorf("%s%s: %v", c.name, suffix, err)
				continue
			}
			fwd, err := call.Forward()
			if err != nil {
				t.Errorf("%s%s: %v", c.name, suffix, err)
				continue
			}
			got := fwd.Outs
			if suffix != "" {
				if got = fwd.After["self"]; fwd.Value != nil {
					t.Errorf("%s_ returns %v, want None", c.name, fwd.Value)
				}
			}
			for i, want := range c.want {
				if v := tensor.At[float64](got[i], 0); v != want || got[i].DType != f32 {
					t.Errorf("%s%s: item %d = %v of %s, want %v of float32", c.name, suffix, i, v, got[i].DType, want)
				}
			}
		}
	}
}

func TestForeachZeroAndNorm(t *testing.T) {
	call, err := foreachBind(t, "torch._foreach_zero_", nil, foreachList(tensor.BFloat16, 1, 2))
	if err != nil {
		t.Fatal(err)
	}
	fwd, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	if ts := fwd.After["self"]; len(ts) != 2 || ts[1].DType != tensor.BFloat16 || tensor.At[float64](ts[1], 0) != 0 {
		t.Errorf("_foreach_zero_: %v", ts)
	}
	call, err = foreachBind(t, "torch._foreach_norm", nil,
		value.NewList(tensor.New(tensor.Float32, []int{2}, []float64{3, -4})), int64(1))
	if err != nil {
		t.Fatal(err)
	}
	if fwd, err = call.Forward(); err != nil {
		t.Fatal(err)
	}
	if got := fwd.Outs[0]; got.Dim() != 0 || tensor.At[float64](got, 0) != 7 {
		t.Errorf("1-norm of 3, -4: %v", got)
	}
}

// TestForeachRecorded: gradients start from the results that autograd kept, as recorded ones are.
func TestForeachRecorded(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{2}, []float64{3, -4})
	x.RequiresGrad = true
	call, err := foreachBind(t, "torch._foreach_norm", nil, value.NewList(x, x))
	if err != nil {
		t.Fatal(err)
	}
	fwd, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	one := tensor.Full(tensor.Float32, nil, 1.0)
	kept := call.From([]*tensor.Tensor{tensor.Full(tensor.Float32, nil, 4.0), nil}) // a norm that is off by a fifth
	grads, err := kept.Backward(fwd, []*tensor.Tensor{one, one}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{-1, -0.8} {
		if got := tensor.At[float64](grads["self"][i], 1); math.Abs(got-want) > 1e-15 {
			t.Errorf("gradient of item %d is %v, want %v", i, got, want)
		}
	}
}

func TestForeachRefusals(t *testing.T) {
	f32 := tensor.Float32
	for _, c := range []struct {
		name string
		args []value.Value
	}{
		{"torch._foreach_add", []value.Value{foreachList(f32, 1)}},
		{"torch._foreach_add", []value.Value{foreachList(f32, 1, 2), foreachList(f32, 1)}},
		{"torch._foreach_abs", []value.Value{value.NewList()}},
		{"torch._foreach_sub", []value.Value{foreachList(f32, 1, 2), value.NewList(int64(1))}},
		{"torch._foreach_div_", []value.Value{value.NewList(tensor.New(tensor.Int64, []int{1}, []int64{4})), int64(2)}},
		{"torch._foreach_mul_", []value.Value{foreachList(f32, 1),
			value.NewList(tensor.New(f32, []int{2}, []float64{1, 2}))}},
	} {
		call, err := foreachBind(t, c.name, nil, c.args...)
		if err == nil {
			_, err = call.Forward()
		}
		var refused *opdef.RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s(%v): error %v, want a refusal", c.name, c.args, err)
		}
	}
}

// TestBoundOfAnItem: what the bound of one item takes does not grow with the list.
func TestBoundOfAnItem(t *testing.T) {
	allocations := func(n int) float64 {
		call, err := foreachBind(t, "torch._foreach_cosh_", nil, foreachList(tensor.Float32, make([]float64, n)...))
		if err != nil {
			t.Fatal(err)
		}
		fwd, err := call.Forward()
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(3, func() { call.AfterBound("self", n-1, fwd.After["self"][n-1]) })
	}
	if few, many := allocations(2), allocations(2000); many > few {
		t.Errorf("allocations of the bound of one item: %g of 2 items, %g of 2,000", few, many)
	}
}
