package diopi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
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
		{"slice", from(int64(1), int64(-1), nil), "Slice SliceBackward", "CopyInp SliceScatter CopyInp", []int{2, 5, 6},
			0, 1, 3, 1},
		{"slice with a step", tuple(whole, from(nil, nil, int64(2))), "Slice SliceBackward",
			"CopyInp SliceScatter CopyInp", []int{4, 3, 6}, 1, 0, 5, 2},
		{"beyond the end", from(int64(3), int64(99), nil), "Slice SliceBackward", "CopyInp SliceScatter CopyInp",
			[]int{1, 5, 6}, 0, 3, 4, 1},
		{"nothing", from(int64(3), int64(1), nil), "Slice SliceBackward", "CopyInp SliceScatter CopyInp",
			[]int{0, 5, 6}, 0, 3, 3, 1},
		{"last dimension", tuple(value.Ellipsis{}, int64(2)), "Select SelectBackward", "CopyInp SelectScatter CopyInp",
			[]int{4, 5}, 2, 2, 0, 0},
		{"number and slice", tuple(int64(0), from(nil, int64(3), nil)), "Select Slice SliceBackward SelectBackward",
			"Select CopyInp SliceScatter SelectScatter CopyInp", []int{3, 6}, 0, 0, 0, 0},
		{"everything", tuple(whole, value.Ellipsis{}), "Slice SliceBackward", "CopyInp SliceScatter CopyInp",
			[]int{4, 5, 6}, 0, 0, 4, 1},
		{"tensor", longs(1, 2), "Index Fill IndexBackward", "CopyInp CopyInp IndexPut CopyInp", nil, 0, 0, 0, 0},
		{"list after a number", tuple(int64(1), value.NewList(int64(0), int64(2))),
			"Select Index Fill IndexBackward SelectBackward",
			"Select CopyInp CopyInp IndexPut SelectScatter CopyInp", nil, 0, 1, 0, 0},
		{"None", nil, "Stack Select", "CopyInp Select CopyInp", []int{1, 4, 5, 6}, 0, 0, 0, 0},
		{"None behind a number", tuple(int64(1), value.Ellipsis{}, nil), "Select Stack Select SelectBackward",
			"Select CopyInp Select SelectScatter CopyInp", []int{5, 6, 1}, 0, 1, 0, 0},
		{"None before a tensor", tuple(nil, longs(1, 2)), "Stack Index Fill IndexBackward Select",
			"Stack CopyInp CopyInp IndexPut Select CopyInp", nil, 0, 0, 0, 0},
		{"mask, then tensor", tuple(mask, longs(3)), "Index Fill IndexBackward", "CopyInp CopyInp IndexPut CopyInp",
			nil, 0, 0, 0, 0},
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
			if out, ok := p.Outputs[0].(*Tensor); ok != (tc.shape != nil) || ok &&
				tensor.ShapeString(out.Shape) != tensor.ShapeString(tc.shape) {
				t.Errorf("result %+v, want shape %v", p.Outputs[0], tc.shape)
			}
			if len(p.Grads) != 1 || p.Grads[0].Name != "input" ||
				tensor.ShapeString(p.Grads[0].Arg.(*Tensor).Shape) != "[4, 5, 6]" {
				t.Errorf("gradients %+v", p.Grads)
			}
			first := p.Calls[0]
			for name, want := range map[string]int64{"dim": tc.dim, "index": tc.a, "start": tc.a, "end": tc.b,
				"step": tc.c} {
				if got, ok := first.Args[name]; ok && got != Integer(want) {
					t.Errorf("%s of %s is %v, want %d", name, first.Function, got, want)
				}
			}
			v := tensor.Full(tensor.Float64, nil, 2.0)
			if got := called(planOf(t, "setitem",
				&Case{Args: dict("input", x, "index", tc.index, "value", v)})); got != tc.set {
				t.Errorf("assignment calls %s, want %s", got, tc.set)
			}
			number := called(planOf(t, "setitem", &Case{Args: dict("input", x, "index", tc.index, "value", 2.0)}))
			if n := strings.Count(number, "Fill"); n != 1 {
				t.Errorf("assignment of a number calls %s", number)
			}
		})
	}
	positions := planOf(t, "getitem", &Case{Args: dict("input", x, "index", tuple(whole, longs(1), longs(2)))}).Calls[0]
	if list := positions.Args["indices"].(Tensors); len(list) != 3 || list[0] != nil ||
		positions.Args["nums"] != Integer(3) {
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
	p := planOf(t, "unbind", &Case{Args: dict("input", tensor.Full(tensor.Float32, []int{2, 3}, 1.0), "dim",
		int64(-1))})
	if called(p) != "Select Select Select" || len(p.Outputs) != 3 || p.Calls[2].Args["index"] != Integer(2) ||
		p.Calls[2].Args["dim"] != Integer(1) {
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

// TestConvolutionsByViews: what a convolution without a batch or of one spatial
// dimension makes of DIOPI's, which has neither.
func TestConvolutionsByViews(t *testing.T) {
	full := func(shape ...int) *tensor.Tensor { return tensor.Full(tensor.Float32, shape, 1.0) }
	for _, tc := range []struct {
		name, function          string
		input, weight           *tensor.Tensor
		more                    []value.Value // arguments
		want                    string
		shape, stride, padding  string // of the result; of the C call
		result, grad, gradOther string // shapes that the plan gives
	}{
		{"one dimension", "conv1d", full(2, 3, 9), full(4, 3, 5), []value.Value{"stride", int64(2),
			"padding", int64(1)},
			"Convolution2d Select Convolution2dBackward Select Select", "[2, 4, 1, 4]", "[1 2]", "[0 1]", "[2, 4, 4]",
			"[2, 3, 9]", "[4, 3, 5]"},
		{"one dimension, no batch", "conv1d", full(3, 9), full(4, 3, 5), nil,
			"Convolution2d Select Select Convolution2dBackward Select Select Select", "[1, 4, 1, 5]", "[1 1]", "[0 0]",
			"[4, 5]", "[3, 9]", "[4, 3, 5]"},
		{"same", "conv1d", full(2, 3, 9), full(4, 3, 5), []value.Value{"padding", "same", "dilation", int64(2)},
			"Convolution2d Select Convolution2dBackward Select Select", "[2, 4, 1, 9]", "[1 1]", "[0 4]", "[2, 4, 9]",
			"[2, 3, 9]", "[4, 3, 5]"},
		{"valid", "conv2d", full(2, 3, 9, 9), full(4, 3, 5, 5), []value.Value{"padding", "valid"},
			"Convolution2d Convolution2dBackward", "[2, 4, 5, 5]", "[1 1]", "[0 0]", "[2, 4, 5, 5]", "[2, 3, 9, 9]",
			"[4, 3, 5, 5]"},
		{"no batch", "conv2d", full(3, 9, 9), full(4, 3, 5, 5), nil,
			"Convolution2d Select Convolution2dBackward Select", "[1, 4, 5, 5]", "[1 1]", "[0 0]", "[4, 5, 5]",
			"[3, 9, 9]", "[4, 3, 5, 5]"},
		{"transposed", "conv_transpose1d", full(2, 3, 9), full(3, 4, 5), []value.Value{"stride", int64(2),
			"output_padding", int64(1)},
			"ConvTranspose2d Select ConvTranspose2dBackward Select Select", "[2, 4, 1, 22]", "[1 2]", "[0 0]",
			"[2, 4, 22]", "[2, 3, 9]", "[3, 4, 5]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := dict(append([]value.Value{"input", tc.input, "weight", tc.weight}, tc.more...)...)
			p := planOf(t, tc.function, &Case{Args: args, RequiresGrad: []string{"input", "weight"}})
			if got := called(p); got != tc.want {
				t.Fatalf("calls %s, want %s", got, tc.want)
			}
			first := p.Calls[0].Args
			shape := func(a Arg) string { return tensor.ShapeString(a.(*Tensor).Shape) }
			if got := shape(first["out"]); got != tc.shape {
				t.Errorf("the call gives %s, want %s", got, tc.shape)
			}
			if s, d := fmt.Sprint(first["stride"]), fmt.Sprint(first["padding"]); s != tc.stride || d != tc.padding {
				t.Errorf("stride %s, padding %s; want %s, %s", s, d, tc.stride, tc.padding)
			}
			if got := shape(p.Outputs[0]); got != tc.result {
				t.Errorf("result %s, want %s", got, tc.result)
			}
			for i, want := range []string{tc.grad, tc.gradOther} {
				if got := shape(p.Grads[i].Arg); got != want {
					t.Errorf("gradient of %s is %s, want %s", p.Grads[i].Name, got, want)
				}
			}
		})
	}
	r, _ := Find("conv1d")
	_, err := r.Plan(&Case{Args: dict("input", full(2, 3, 9), "weight", full(4, 3, 4), "padding", "same")})
	if err == nil || !strings.Contains(err.Error(), "DIOPI pads both sides alike") {
		t.Errorf("padding on one side more: %v", err)
	}
}
