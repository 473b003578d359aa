package opdef

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

type callArgs struct {
	Self, Other *tensor.Tensor
	Dim         []int
	Alpha       Scalar
	Mode        string
	Dtype       *tensor.DType
}

// generated are the generated calls of an operator with these cases, as Python would show them.
func generated(text string) (calls []*Call, shown []string) {
	e := Op[callArgs]{
		Schema: "op(Tensor self, Tensor? other=None, int[]? dim=None, *, Scalar alpha=1, str mode='a', dtype? " +
			"dtype=None) -> Tensor",
		Doc:    Doc{Summary: "An operator"},
		Traits: Traits{NoGrad: "none is needed"},
		Kernel: func(a *callArgs) ([]*tensor.Tensor, error) { return []*tensor.Tensor{a.Self}, nil },
		Cases:  Calls[callArgs](text),
	}.Entry()
	if err := e.Ready(); err != nil {
		panic(err)
	}
	calls = e.Cases(rand.New(rand.NewPCG(1, 2)))
	for _, c := range calls {
		args, kwargs := c.concise()
		shown = append(shown, value.Repr(value.NewTuple(args...))+" "+value.Repr(kwargs))
	}
	return calls, shown
}

func TestCalls(t *testing.T) {
	_, got := generated(`
		f64[2, 3]; bf16[], i64[3]{0..9}, alpha=0.5
		f32[0, 2], None, [1, -1], mode='b', dtype=f16
		for T in f32 c64: T[4],
			alpha=-2; T[1], alpha=1e-3`)
	want := []string{
		"(tensor(float64[2, 3]),) {}",
		"(tensor(bfloat16[]),) {'other': tensor(int64[3]), 'alpha': 0.5}",
		"(tensor(float32[0, 2]),) {'dim': [1, -1], 'mode': 'b', 'dtype': torch.float16}",
		"(tensor(float32[4]),) {'alpha': -2}", "(tensor(float32[1]),) {'alpha': 0.001}",
		"(tensor(complex64[4]),) {'alpha': -2}", "(tensor(complex64[1]),) {'alpha': 0.001}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCallsValues(t *testing.T) {
	for text, ok := range map[string]func(x *tensor.Tensor) bool{
		"f64[5]{2..3}": func(x *tensor.Tensor) bool {
			v := tensor.Data[float64](x)
			return x.RequiresGrad && slices.Min(v) >= 2 && slices.Max(v) <= 3
		},
		"i8[50]{-1..1}": func(x *tensor.Tensor) bool {
			v := tensor.Data[int64](x)
			return !x.RequiresGrad && slices.Min(v) == -1 && slices.Max(v) == 1
		},
		"f64[3]{= 1 inf -2.5}": func(x *tensor.Tensor) bool {
			return !x.RequiresGrad && fmt.Sprint(tensor.Data[float64](x)) == "[1 +Inf -2.5]"
		},
		"bool[2]{= 1 0}": func(x *tensor.Tensor) bool { return fmt.Sprint(tensor.Data[int64](x)) == "[1 0]" },
		"f32[2, 3]{full 4}": func(x *tensor.Tensor) bool {
			return slices.Equal(x.Stride, []int{0, 0}) && ScalarAt(x, 5).Float64() == 4
		},
		"f32[2, 3]{fixed}":          func(x *tensor.Tensor) bool { return !x.RequiresGrad },
		"f32[2, 3]{distinct gaps}":  func(x *tensor.Tensor) bool { return x.RequiresGrad && !x.IsContiguous() },
		"f32[4, 2, 3]{turned}":      func(x *tensor.Tensor) bool { return slices.Equal(x.Stride, []int{6, 1, 2}) },
		"f32[9]{apart 0 0.5}":       func(x *tensor.Tensor) bool { return MaxAbs(x) >= 0.2 },
		"f64[2, 2]{positive fixed}": func(x *tensor.Tensor) bool { return ScalarAt(x, 1) == ScalarAt(x, 2) },
		"c128[2, 3, 3]{regular}":    func(x *tensor.Tensor) bool { return x.RequiresGrad && x.DType.IsComplex() },
	} {
		calls, _ := generated(text)
		if x := calls[0].Tensors()[0].Tensor; !ok(x) {
			t.Errorf("%s: %s, strides %v, requires_grad %v", text, x.Meta(), x.Stride, x.RequiresGrad)
		}
	}
}

func TestCallsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"f64[2], 5":        "other",
		"f64[2], beta=1":   `unexpected keyword argument "beta"`,
		"()":               "missing",
		"f64[x]":           "invalid syntax",
		"f64[2]{= 1}":      "want LOW..HIGH",
		"f64[2]{odd}":      "want LOW..HIGH",
		"f99[2]":           "not a literal",
		"f64[2], mode=a b": "not a literal",
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("%s: %s, want %s", text, got, want)
				}
			}()
			generated(text)
		}()
	}
}
