package ops

import (
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestLeast: what stands in for the magnitudes S is nowhere more than S, and enough of it to tell sound
// elements by.
func TestLeast(t *testing.T) {
	f32, bf16 := tensor.Float32, tensor.BFloat16
	g := opdef.Gen{R: rand.New(rand.NewPCG(3, 8))}
	normal := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		x := g.Normal(dt, shape...)
		x.RequiresGrad = true
		return x
	}
	heads := func(dt tensor.DType) []value.Value {
		return []value.Value{normal(dt, 2, 3, 150, 16), normal(dt, 2, 3, 130, 16), normal(dt, 2, 3, 130, 24)}
	}
	attention := "torch.nn.functional.scaled_dot_product_attention"
	keep := tensor.Full(tensor.Bool, []int{150, 130}, int64(1))
	for _, tc := range []struct {
		name, op string
		args     []value.Value
		kwargs   []value.Value
		share    float64 // of S, that is there on average at least; 0: there is none
	}{
		{"matmul", "torch.matmul", []value.Value{normal(f32, 3, 90, 200), normal(f32, 200, 80)}, nil, 0.05},
		{"few terms", "torch.matmul", []value.Value{normal(f32, 4, 5), normal(f32, 5, 6)}, nil, 0},
		{"linear", "torch.nn.functional.linear", []value.Value{normal(f32, 2, 70, 300), normal(f32, 64, 300),
			normal(f32, 64)}, nil, 0.05},
		{"addmm", "torch.addmm", []value.Value{normal(bf16, 70), normal(bf16, 100, 256), normal(bf16, 256, 70)},
			[]value.Value{"beta", 0.5, "alpha", -2.0}, 0.05},
		{"einsum", "torch.functional.einsum", []value.Value{"bhid,bhjd->bhij", normal(f32, 2, 2, 90, 128),
			normal(f32, 2, 2, 100, 128)}, nil, 0.05},
		{"conv2d", "torch.nn.functional.conv2d", []value.Value{normal(f32, 70, 80, 5, 5), normal(f32, 96, 80, 3, 3),
			normal(f32, 96)}, nil, 0.05},
		{"conv_transpose1d", "torch.nn.functional.conv_transpose1d", []value.Value{normal(f32, 80, 90, 6),
			normal(f32, 90, 70, 3)}, nil, 0.05},
		{"attention", attention, heads(f32), nil, 0.005},
		{"causal attention", attention, heads(f32), []value.Value{"is_causal", true}, 0.005},
		{"attention, mask", attention, append(heads(f32), keep), []value.Value{"scale", 0.3}, 0.005},
		{"attention in bfloat16", attention, heads(bf16), nil, 0.02},
		{"gelu", "torch.nn.functional.gelu", []value.Value{normal(f32, 90, 90)}, nil, 0.4},
		{"gelu by tanh", "torch.nn.functional.gelu", []value.Value{normal(f32, 90, 90)},
			[]value.Value{"approximate", "tanh"}, 0.3},
	} {
		c, f, err := invoke(t, tc.op, tc.args, tc.kwargs...)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		held := func(what string, b opdef.Bound) {
			t.Helper()
			if b.Least == nil || b.Least() == nil {
				if tc.share > 0 {
					t.Errorf("%s: %s: nothing stands in for S", tc.name, what)
				}
				return
			}
			if tc.share == 0 {
				t.Errorf("%s: %s: something stands in for S of few terms", tc.name, what)
			}
			least, whole := tensor.Data[float64](b.Least()), tensor.Data[float64](b.Scale())
			if len(least) != len(whole) {
				t.Fatalf("%s: %s: %d elements, S has %d", tc.name, what, len(least), len(whole))
			}
			some, all := 0.0, 0.0
			for i, x := range least {
				if !(x <= whole[i]*(1+1e-12)) {
					t.Fatalf("%s: %s: element %d is %g, S is %g", tc.name, what, i, x, whole[i])
				}
				some, all = some+x, all+whole[i]
			}
			if some < tc.share*all {
				t.Errorf("%s: %s: %.2g of S on average, want %g", tc.name, what, some/all, tc.share)
			}
		}
		held("result", c.OutBound(f, 0))
		up := []*tensor.Tensor{g.Normal(f.Outs[0].DType, f.Outs[0].Shape...)}
		grads, err := c.Backward(f, up, nil)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		for _, a := range c.Tensors() {
			if len(a.Tensor.Shape) > 1 && a.Tensor.RequiresGrad {
				i := max(a.Index, 0)
				held("gradient of "+a.Name, c.GradBound(f, up, grads, a.Name, i))
			}
		}
		if n, ok, err := c.Node(f, up); err == nil && ok && n.Axes != nil {
			for i, d := range n.Grads {
				if d != nil && d.Dim() > 1 {
					held("gradient of the node", c.NodeBound(f, up, n, i))
				}
			}
		}
	}
}
