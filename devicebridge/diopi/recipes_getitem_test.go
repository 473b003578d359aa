package diopi

import (
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// TestSubscripts: the calls of x[index] and of its gradient, and of x[index] = v,
// for an x of shape [4, 5, 6].
func TestSubscripts(t *testing.T) {
	longs := func(v ...int64) *tensor.Tensor { return tensor.New(tensor.Int64, []int{len(v)}, v) }
	mask := tensor.Full(tensor.Bool, []int{4, 5}, int64(1))
	whole := value.Slice{}
	from := func(start, stop, step value.Value) value.Slice {
		return value.Slice{Start: start, Stop: stop, Step: step}
	}
	tuple := func(v ...value.Value) value.Value { return value.NewTuple(v...) }
	tests := []struct {
		name         string
		index        value.Value
		get, set     string // the functions called
		shape        []int  // of the result; nil where the callee makes it
		dim, a, b, c int64  // of the first call: dim, then index, or start, end, step
	}{
		{"number", int64(-1), "Select SelectBackward", "CopyInp SelectScatter CopyInp", []int{5, 6}, 0, 3, 0, 0},
		{"slice", from(int64(1), int64(-1), nil), "Slice SliceBackward", "CopyInp SliceScatter CopyInp", []int{2, 5, 6}, 0, 1, 3, 1},
		{"slice with a step", tuple(whole, from(nil, nil, int64(2))), "Slice SliceBackward", "CopyInp SliceScatter CopyInp", []int{4, 3, 6}, 1, 0, 5, 2},
		{"beyond the end", from(int64(3), int64(99), nil), "Slice SliceBackward", "CopyInp SliceScatter CopyInp", []int{1, 5, 6}, 0, 3, 4, 1},
		{"nothing", from(int64(3), int64(1), nil), "Slice SliceBackward", "CopyInp SliceScatter CopyInp", []int{0, 5, 6}, 0, 3, 3, 1},
		{"last dimension", tuple(value.Ellipsis{}, int64(2)), "Select SelectBackward", "CopyInp SelectScatter CopyInp", []int{4, 5}, 2, 2, 0, 0},
		{"number and slice", tuple(int64(0), from(nil, int64(3), nil)), "Select Slice SliceBackward SelectBackward",
			"Select CopyInp SliceScatter SelectScatter CopyInp", []int{3, 6}, 0, 0, 0, 0},
		{"everything", tuple(whole, value.Ellipsis{}), "Slice SliceBackward", "CopyInp SliceScatter CopyInp", []int{4, 5, 6}, 0, 0, 4, 1},
		{"tensor", longs(1, 2), "Index Fill IndexBackward", "CopyInp CopyInp IndexPut CopyInp", nil, 0, 0, 0, 0},
		{"list after a number", tuple(int64(1), value.NewList(int64(0), int64(2))), "Select Index Fill IndexBackward SelectBackward",
			"Select CopyInp CopyInp IndexPut SelectScatter CopyInp", nil, 0, 1, 0, 0},
		{"None", nil, "Stack Select", "CopyInp Select CopyInp", []int{1, 4, 5, 6}, 0, 0, 0, 0},
		{"None behind a number", tuple(int64(1), value.Ellipsis{}, nil), "Select Stack Select SelectBackward",
			"Select CopyInp Select SelectScatter CopyInp", []int{5, 6, 1}, 0, 1, 0, 0},
		{"None before a tensor", tuple(nil, longs(1, 2)), "Stack Index Fill IndexBackward Select",
			"Stack CopyInp CopyInp IndexPut Select CopyInp", nil, 0, 0, 0, 0},
		{"mask, then tensor", tuple(mask, longs(3)), "Index Fill IndexBackward", "CopyInp CopyInp IndexPut CopyInp", nil, 0, 0, 0, 0},
	}
	x := tensor.Full(tensor.Float32, []int{4, 5, 6}, 1.0)
	x.RequiresGrad = true
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := &Case{Args: dict("input", x, "index", tc.index), RequiresGrad: []string{"input"}}
			if tc.shape == nil {
				c.GradOutputs = []*tensor.Tensor{tensor.Full(tensor.Float32, []int{2, 6}, 1.0)}
			}
			p := planOf(t, "getitem", c)
			if got := called(p); got != tc.get {
				t.Errorf("calls %s, want %s", got, tc.get)
			}
			if out, ok := p.Outputs[0].(*Tensor); ok != (tc.shape != nil) || ok && tensor.ShapeString(out.Shape) != tensor.ShapeString(tc.shape) {
				t.Errorf("result %+v, want shape %v", p.Outputs[0], tc.shape)
			}
			if len(p.Grads) != 1 || p.Grads[0].Name != "input" || tensor.ShapeString(p.Grads[0].Arg.(*Tensor).Shape) != "[4, 5, 6]" {
				t.Errorf("gradients %+v", p.Grads)
			}
			first := p.Calls[0]
			for name, want := range map[string]int64{"dim": tc.dim, "index": tc.a, "start": tc.a, "end": tc.b, "step": tc.c} {
				if got, ok := first.Args[name]; ok && got != want {
					t.Errorf("%s of %s is %v, want %d", name, first.Function, got, want)
				}
			}
			v := tensor.Full(tensor.Float64, nil, 2.0)
			if got := called(planOf(t, "setitem", &Case{Args: dict("input", x, "index", tc.index, "value", v)})); got != tc.set {
				t.Errorf("assignment calls %s, want %s", got, tc.set)
			}
			number := called(planOf(t, "setitem", &Case{Args: dict("input", x, "index", tc.index, "value", 2.0)}))
			if n := strings.Count(number, "Fill"); n != 1 {
				t.Errorf("assignment of a number calls %s", number)
			}
		})
	}
	positions := planOf(t, "getitem", &Case{Args: dict("input", x, "index", tuple(whole, longs(1), longs(2)))}).Calls[0]
	if list := positions.Args["indices"].([]*Tensor); len(list) != 3 || list[0] != nil || positions.Args["nums"] != int64(3) {
		t.Errorf("indices %v", positions.Args)
	}
	for want, index := range map[string]value.Value{
		"getitem: too many indices for shape [4 5 6]":             tuple(int64(0), int64(0), int64(0), int64(0)),
		"getitem: the step of the slice must be positive, got -1": from(nil, nil, int64(-1)),
		"getitem: DIOPI has no function for an index of True":     true,
		"getitem: index is out of range for 4 dimensions":         int64(4),
		"getitem: index[0] is [True, False]: DIOPI takes tensors": value.NewList(true, false),
	} {
		r, _ := Find("getitem")
		if _, err := r.Plan(&Case{Args: dict("input", x, "index", index)}); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", index, err, want)
		}
	}
}

// TestUnbind: a call for each part.
func TestUnbind(t *testing.T) {
	p := planOf(t, "unbind", &Case{Args: dict("input", tensor.Full(tensor.Float32, []int{2, 3}, 1.0), "dim", int64(-1))})
	if called(p) != "Select Select Select" || len(p.Outputs) != 3 || p.Calls[2].Args["index"] != int64(2) || p.Calls[2].Args["dim"] != int64(1) {
		t.Errorf("got %s", shown(p))
	}
}

func dict(kv ...value.Value) *value.Dict {
	d := &value.Dict{}
	for i := 0; i < len(kv); i += 2 {
		d.Items = append(d.Items, value.Item{Key: kv[i], Value: kv[i+1]})
	}
	return d
}

func planOf(t *testing.T, function string, c *Case) *Plan {
	t.Helper()
	r, ok := Find(function)
	if !ok {
		t.Fatalf("no recipe %s", function)
	}
	p, err := r.Plan(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// called are the functions of a plan.
func called(p *Plan) string {
	var names []string
	for _, c := range p.Calls {
		names = append(names, strings.TrimPrefix(c.Function, prefix))
	}
	return strings.Join(names, " ")
}
