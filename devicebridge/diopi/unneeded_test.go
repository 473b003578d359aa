package diopi

import (
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestUnneeded: what functions may leave as it is depends on their arguments, and
// every tensor has a name.
func TestUnneeded(t *testing.T) {
	x := tensor.Full(tensor.Float32, []int{2, 3}, 1.0)
	norm := func(training bool) *value.Dict {
		return dict("input", x, "running_mean", nil, "running_var", nil, "weight", nil, "bias", nil,
			"training", training)
	}
	for _, tc := range []struct {
		function string
		args     *value.Dict
		want     []string // parameters of the first call
	}{
		{"batch_norm", norm(false), []string{"save_invstd", "save_mean"}},
		{"batch_norm", norm(true), nil},
		{"dropout", dict("input", x, "training", false), []string{"mask"}},
		{"dropout", dict("input", x), nil},
		{"layer_norm", dict("input", x, "normalized_shape", value.NewList(int64(3))), nil},
	} {
		r, _ := Find(tc.function)
		p, err := r.Plan(&Case{Args: tc.args})
		if err != nil {
			t.Fatalf("%s: %v", tc.function, err)
		}
		var got []string
		for name, a := range p.Calls[0].Args {
			if u, ok := a.(*Tensor); ok {
				if u.Optional {
					got = append(got, name)
				}
				if u.Role == "" {
					t.Errorf("%s: %s has no name", tc.function, name)
				}
			}
		}
		if slices.Sort(got); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q need not be written, want %q", tc.function, got, tc.want)
		}
	}
	for name := range unneeded {
		if _, ok := Lookup(name); !ok {
			t.Errorf("%s: no such function", name)
		}
	}
}

// TestDenseResults: results copy an argument's gaps only where that is asked for, and
// its order always.
func TestDenseResults(t *testing.T) {
	all := tensor.New(tensor.Float32, []int{8, 6}, make([]float64, 48)).Rounded()
	x := all.Slice(0, 0, 4, 2).Transpose(0, 1) // [6 4], strides [1 12]
	r, _ := Find("dropout")
	for dense, want := range map[bool][]int{false: {1, 12}, true: {1, 6}} {
		p, err := r.Plan(&Case{Args: dict("input", x), DenseResults: dense})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Calls[0].Args["out"].(*Tensor).Stride; !slices.Equal(got, want) {
			t.Errorf("dense %v: strides %v, want %v", dense, got, want)
		}
	}
}

// TestSoftmaxDType: the cast that PyTorch makes comes first, and the gradient goes back
// through it.
func TestSoftmaxDType(t *testing.T) {
	x := tensor.Full(tensor.Float16, []int{2, 3}, 1.0)
	r, _ := Find("log_softmax")
	p, err := r.Plan(&Case{Args: dict("input", x, "dim", int64(1), "dtype", tensor.Float32), RequiresGrad: []string{"input"}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range p.Calls {
		names = append(names, c.Function)
	}
	want := []string{"diopiCastDtype", "diopiLogSoftmax", "diopiLogSoftmaxBackward", "diopiCastDtype"}
	if !slices.Equal(names, want) {
		t.Fatalf("calls %q, want %q", names, want)
	}
	in, g := p.Calls[1].Args["input"].(*Tensor), p.Grads[0].Arg.(*Tensor)
	if in.DType != tensor.Float32 || g.DType != tensor.Float16 {
		t.Errorf("input of %s, gradient of %s; want float32 and float16", in.DType, g.DType)
	}
}
