package replay_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// TestCauses: kernels with a known mistake are written as captures; the mistake is the
// first cause. done are the arguments that the kernel computes with.
func TestCauses(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	random := func(dt tensor.DType, shape ...int) *tensor.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		v := make([]float64, n)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return tensor.New(dt, shape, v).Rounded()
	}
	edit := func(x *tensor.Tensor, f func(i int, v []float64)) *tensor.Tensor {
		v := make([]float64, x.Numel())
		tensor.Load(x, 0, v)
		for i := range v {
			f(i, v)
		}
		return tensor.New(x.DType, x.Shape, v).Rounded()
	}
	tail := func(x *tensor.Tensor, n int) *tensor.Tensor {
		last := x.Shape[x.Dim()-1]
		return edit(x, func(i int, v []float64) {
			if i%last >= last-n {
				v[i] = 0
			}
		})
	}
	shape := func(n ...int) value.Value {
		var items []value.Value
		for _, x := range n {
			items = append(items, int64(x))
		}
		return value.NewList(items...)
	}
	args := func(vs ...value.Value) []value.Value { return vs }
	x, w, b := random(tensor.Float32, 6, 20), random(tensor.Float32, 20), random(tensor.Float32, 20)
	small := edit(x, func(i int, v []float64) { v[i] *= 1e-2 })
	p, q := random(tensor.Float32, 9, 37), random(tensor.Float32, 37, 11)
	square := random(tensor.Float32, 7, 7)
	heads, keys, values := random(tensor.Float32, 1, 4, 9, 8), random(tensor.Float32, 1, 4, 9, 8),
		random(tensor.Float32, 1, 4, 9, 8)
	kv := make([]float64, keys.Numel())
	tensor.Load(keys, 0, kv)
	shifted := tensor.New(keys.DType, keys.Shape, append(slices.Clone(kv[72:]), kv[:72]...)).Rounded()
	mask := random(tensor.Float32, 9, 9)
	lower := func(rows, cols int) *tensor.Tensor { // all that a causal mask of the last rows lets through
		v := make([]int64, rows*cols)
		for i := range v {
			if i%cols <= i/cols+cols-rows {
				v[i] = 1
			}
		}
		return tensor.New(tensor.Bool, []int{rows, cols}, v).Rounded()
	}
	images := random(tensor.Float32, 1, 2, 5, 5)
	half := edit(p, func(i int, v []float64) { v[i] = tensor.BFloat16.Round(v[i]) })
	halfQ := edit(q, func(i int, v []float64) { v[i] = tensor.BFloat16.Round(v[i]) })
	for _, tc := range []struct {
		op          string
		asked, done []value.Value
		want        string
	}{
		{"torch.nn.functional.layer_norm", args(small, shape(20), w, b, 1e-5), args(small, shape(20), w, b, 1e-2),
			"eps is 0.01, not 1e-05"},
		{"torch.nn.functional.layer_norm", args(x, shape(20), w, b, 1e-5), args(x, shape(20), w, nil, 1e-5),
			"bias is left out"},
		{"torch.nn.functional.gelu", args(x), args(x, "tanh"), `approximate is 'tanh', not 'none'`},
		{"torch.nn.functional.scaled_dot_product_attention", args(heads, keys, values, mask),
			args(heads, keys, values), "attn_mask is left out"},
		{"torch.nn.functional.scaled_dot_product_attention", args(heads, keys, values, nil, 0.0, true),
			args(heads, keys, values), "is_causal is False, not True"},
		{"torch.nn.functional.scaled_dot_product_attention", args(heads, keys, values),
			args(heads, shifted, values), "key is read one further along dimension 1"},
		{"torch.nn.functional.scaled_dot_product_attention",
			args(heads.Slice(2, 0, 4, 1), keys, values, nil, 0.0, true),
			args(heads.Slice(2, 0, 4, 1), keys, values, lower(4, 9)),
			"the causal mask begins at the last key, not at the first"},
		{"torch.matmul", args(p, q), args(tail(p, 1), q), "the last of dimension 1 of self is left out"},
		{"torch.matmul", args(p, q), args(tail(p, 5), q), "the last 5 of dimension 1 of self are left out"},
		{"torch.matmul", args(p, q), args(half, halfQ), "operands are rounded to bfloat16 first"},
		{"torch.matmul", args(square, p.Slice(0, 0, 7, 1)), args(square.Transpose(0, 1), p.Slice(0, 0, 7, 1)),
			"self is transposed"},
		{"torch.sub", args(square, p.Slice(1, 0, 7, 1).Slice(0, 0, 7, 1)),
			args(p.Slice(1, 0, 7, 1).Slice(0, 0, 7, 1), square), "self and other are swapped"},
		{"torch.var", args(x, int64(1)), args(x, int64(1), false), "unbiased is False, not True"},
		{"torch.nn.functional.leaky_relu", args(x, 0.2), args(x, 0.01), "negative_slope is 0.01, not 0.2"},
		{"torch.nn.functional.avg_pool2d", args(images, int64(3), int64(2), int64(1)),
			args(images, int64(3), int64(2), int64(1), false, false), "count_include_pad is False, not True"},
		{"torch.softmax", args(square, int64(0)), args(square, int64(1)), "dim is 1, not 0"},
	} {
		t.Run(tc.op+"/"+tc.want, func(t *testing.T) {
			opt := options(t)
			kwargs := &value.Dict{}
			if word, ok := tc.done[len(tc.done)-1].(string); ok { // gelu takes it by name alone
				tc.done = tc.done[:len(tc.done)-1]
				kwargs.Items = []value.Item{{Key: "approximate", Value: word}}
			}
			call, err := opt.Registry.Bind(tc.op, tc.done, kwargs)
			if err != nil {
				t.Fatal(err)
			}
			f, err := call.Forward()
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			write(t, filepath.Join(dir, "input.pth"), tc.op, tc.asked)
			write(t, filepath.Join(dir, "output.pth"), tc.op, []value.Value{f.Outs[0].Rounded()})
			causes := replay.Explain(entries(t, dir)[0], opt, time.Now().Add(time.Minute))
			if len(causes) == 0 || causes[0].Text != tc.want || !causes[0].Exact {
				t.Errorf("causes %+v, want first and exactly %q", causes, tc.want)
			}
		})
	}
}

func write(t *testing.T, path, op string, args []value.Value) {
	t.Helper()
	record := &value.Dict{Items: []value.Item{{Key: "name", Value: op}, {Key: "args", Value: value.NewTuple(args...)},
		{Key: "kwargs", Value: &value.Dict{}}, {Key: "identifier", Value: "0/now/device"}}}
	if err := pthformat.WriteFile(path, record); err != nil {
		t.Fatal(err)
	}
}

// TestNoCauses: damage that no mistake makes has no cause, nor has a call that passes.
func TestNoCauses(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	tried := 0
	for _, e := range entries(t, demo) {
		if e.IsPair() || !strings.HasPrefix(e.Op, "torch.nn.functional.") {
			continue
		}
		opt := options(t)
		if causes := replay.Explain(e, opt, time.Now().Add(time.Minute)); causes != nil {
			t.Errorf("%s passes, but has causes %+v", e.Rel, causes)
		}
		dir := filepath.Join(t.TempDir(), "call")
		if !plant(t, r, e, errorKinds[0], dir) {
			continue
		}
		tried++
		if causes := replay.Explain(entries(t, dir)[0], opt, time.Now().Add(time.Minute)); causes != nil {
			t.Errorf("%s with one wrong element: causes %+v", e.Rel, causes)
		}
	}
	if tried == 0 {
		t.Error("nothing was planted")
	}
}
