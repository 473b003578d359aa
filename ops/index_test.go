package ops

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// invoke calls an op by a captured name; keywords come in pairs at the end.
func invoke(t *testing.T, name string, args []value.Value, keywords ...value.Value) (*opdef.Call,
	*opdef.Forward, error) {
	t.Helper()
	r := Default()
	kw := &value.Dict{}
	for i := 0; i < len(keywords); i += 2 {
		kw.Items = append(kw.Items, value.Item{Key: keywords[i], Value: keywords[i+1]})
	}
	c, err := r.Bind(name, args, kw)
	if err != nil {
		return nil, nil, err
	}
	f, err := c.Forward()
	return c, f, err
}

func floats32(shape []int, v ...float64) *tensor.Tensor {
	t := tensor.New(tensor.Float32, shape, v).Rounded()
	t.RequiresGrad = true
	return t
}

func ints64(shape []int, v ...int64) *tensor.Tensor { return tensor.New(tensor.Int64, shape, v) }

func maskOf(shape []int, v ...int64) *tensor.Tensor { return tensor.New(tensor.Bool, shape, v) }

// upTo is arange(n) in a shape.
func upTo(shape ...int) *tensor.Tensor {
	v := make([]float64, tensor.Numel(shape))
	for i := range v {
		v[i] = float64(i)
	}
	return floats32(shape, v...)
}

// wantValues compares a result, rounded, with values of torch 1.13.
func wantValues(t *testing.T, what string, got *tensor.Tensor, shape []int, want ...float64) {
	t.Helper()
	v := tensor.Data[float64](got.Rounded())
	same := slices.EqualFunc(v, want, func(x, y float64) bool { return float32(x) == float32(y) || x != x && y != y })
	if !slices.Equal(got.Shape, shape) || !same {
		t.Errorf("%s = %v of shape %v, want %v of shape %v", what, v, got.Shape, want, shape)
	}
}

func TestGetItem(t *testing.T) {
	all := value.Slice{}
	ints := func(v ...int64) value.Value {
		l := value.NewList()
		for _, x := range v {
			l.Items = append(l.Items, x)
		}
		return l
	}
	row := maskOf([]int{3}, 1, 0, 1)
	for name, tc := range map[string]struct {
		index value.Value
		shape []int
		want  []float64
	}{
		"x[m]": {maskOf([]int{2, 3}, 1, 0, 1, 0, 1, 1), []int{4, 4}, []float64{0, 1, 2, 3, 8, 9, 10,
			11, 16, 17, 18, 19, 20, 21, 22, 23}},
		"x[0,m[0]]": {value.NewTuple(int64(0), row), []int{2, 4}, []float64{0, 1, 2, 3, 8, 9, 10, 11}},
		"x[...,m[0],0]": {value.NewTuple(value.Ellipsis{}, row, int64(0)), []int{2, 2},
			[]float64{0, 8, 12, 20}},
		"x[[True,False]]": {value.NewList(true, false), []int{1, 3, 4}, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8,
			9, 10, 11}},
		"x[[[0,1],[1,2]]]": {value.NewList(ints(0, 1), ints(1, 2)), []int{2, 4},
			[]float64{4, 5, 6, 7, 20, 21, 22, 23}},
		"x[[0,1],:,[1,2]]": {value.NewTuple(ints(0, 1), all, ints(1, 2)), []int{2, 3},
			[]float64{1, 5, 9, 14, 18, 22}},
		"x[0,:,[1,2]]": {value.NewTuple(int64(0), all, ints(1, 2)), []int{3, 2}, []float64{1, 2, 5, 6, 9, 10}},
		"x[None,i,None,...,i]": {value.NewTuple(nil, ints(0, 1), nil, value.Ellipsis{}, ints(1, 2)), []int{2, 1, 1, 3},
			[]float64{1, 5, 9, 14, 18, 22}},
		"x[tensor(1),tensor]": {value.NewTuple(tensor.Scalar(tensor.Int64, int64(1)), ints64([]int{2}, 0, 2)),
			[]int{2, 4}, []float64{12, 13, 14, 15, 20, 21, 22, 23}},
		"x[:,[[0,1],[1,0]],1:]": {value.NewTuple(all, value.NewList(ints(0, 1), ints(1, 0)),
			value.Slice{Start: int64(3)}), []int{2, 2, 2, 1}, []float64{3, 7, 7, 3, 15, 19, 19, 15}},
		"x[True,0]": {value.NewTuple(true, int64(0)), []int{1, 3, 4}, []float64{0, 1, 2, 3, 4, 5, 6, 7, 8,
			9, 10, 11}},
		"x[tensor(False),...]": {value.NewTuple(tensor.Scalar(tensor.Bool, int64(0)), value.Ellipsis{}),
			[]int{0, 2, 3, 4}, nil},
		"x[[]]": {value.NewList(), []int{0, 3, 4}, nil},
		"x[-5:5:2,1,-1]": {value.NewTuple(value.Slice{Start: int64(-5), Stop: int64(5), Step: int64(2)}, int64(1),
			int64(-1)), []int{1}, []float64{7}},
		"x[0,1,2]": {value.NewTuple(int64(0), int64(1), int64(2)), []int{}, []float64{6}},
	} {
		t.Run(name, func(t *testing.T) {
			_, f, err := invoke(t, "torch.Tensor.__getitem__", []value.Value{upTo(2, 3, 4), tc.index})
			if err != nil {
				t.Fatal(err)
			}
			wantValues(t, name, f.Outs[0], tc.shape, tc.want...)
		})
	}
}

func TestGetItemRefused(t *testing.T) {
	m := maskOf([]int{2, 3}, 1, 0, 1, 0, 1, 1)
	for name, tc := range map[string]struct {
		index value.Value
		want  string
	}{
		"too many": {value.NewTuple(int64(0), int64(0), int64(0), int64(0)),
			"4 indices for a tensor of 3 dimensions"},
		"range":      {int64(2), "index 2 is out of range for dimension 0 of size 2"},
		"list range": {value.NewList(int64(0), int64(5)), "index 5 is out of range for dimension 0 of size 2"},
		"mask shape": {value.NewTuple(m, int64(0)), "mask of shape [2, 3]"},
		"float":      {floats32([]int{1}, 1), "want integers or bool, got float32[1]"},
		"step":       {value.Slice{Step: int64(-1)}, "slice step -1 is not positive"},
		"string":     {"x", "str is no index"},
		"no broadcast": {value.NewTuple(ints64([]int{2}, 0, 1), ints64([]int{3}, 0, 1, 2)),
			"indices cannot be broadcast"},
		"ragged list": {value.NewTuple(value.NewList(value.NewList(int64(0)), value.NewList(int64(0), int64(1)))),
			"nested lists"},
		"list of floats": {value.NewList(0.5), "float is no index"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := invoke(t, "torch.Tensor.__getitem__", []value.Value{upTo(2, 3, 4), tc.index})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// TestGetItemNode: the last of several views saw what the one before shows.
func TestGetItemNode(t *testing.T) {
	for name, tc := range map[string]struct {
		index value.Value
		g     *tensor.Tensor
		shape []int
		want  []float64
		weak  bool
	}{
		"[:, 1]": {value.NewTuple(value.Slice{}, int64(1)), floats32([]int{2}, 5, 6), []int{2, 3},
			[]float64{0, 5, 0, 0, 6, 0}, false},
		"[1, :]": {value.NewTuple(int64(1), value.Slice{}), floats32([]int{3}, 5, 6, 7), []int{3},
			[]float64{5, 6, 7}, true},
		"[1, [0, 0]]": {value.NewTuple(int64(1), value.NewList(int64(0), int64(0))), floats32([]int{2}, 5, 6),
			[]int{3}, []float64{11, 0, 0}, false},
		"[0:2, 1]": {value.NewTuple(value.Slice{Start: int64(0), Stop: int64(2)}, int64(1)),
			floats32([]int{2}, 5, 6), nil, nil, false},
		"[[0]] simple": {value.NewList(int64(0)), floats32([]int{1, 3}, 5, 6, 7), nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, f, err := invoke(t, "torch.Tensor.__getitem__", []value.Value{upTo(2, 3), tc.index})
			if err != nil {
				t.Fatal(err)
			}
			n, ok, err := c.Node(f, []*tensor.Tensor{tc.g})
			if err != nil || ok != (tc.shape != nil) {
				t.Fatalf("Node: %v, %v; want a node: %v", ok, err, tc.shape != nil)
			}
			if !ok {
				return
			}
			wantValues(t, name, n.Grads[0], tc.shape, tc.want...)
			if (n.Weak != "") != tc.weak {
				t.Errorf("weak: %q", n.Weak)
			}
		})
	}
}

func TestSetItem(t *testing.T) {
	for name, tc := range map[string]struct {
		index, v value.Value
		want     []float64
	}{
		"x[0] = 7": {int64(0), int64(7), []float64{7, 7, 7, 3, 4, 5}},
		"x[:, ::2] = column": {value.NewTuple(value.Slice{}, value.Slice{Step: int64(2)}), floats32([]int{2, 1}, 8, 9),
			[]float64{8, 1, 8, 9, 4, 9}},
		"x[:, None, 1] = 2": {value.NewTuple(value.Slice{}, nil, int64(1)), 2.5, []float64{0, 2.5, 2, 3, 2.5, 5}},
		"x[[1, 0], [0, 2]]": {value.NewTuple(value.NewList(int64(1), int64(0)), value.NewList(int64(0), int64(2))),
			floats32([]int{2}, 8, 9), []float64{0, 1, 9, 8, 4, 5}},
		"x[1, mask] = 1": {value.NewTuple(int64(1), maskOf([]int{3}, 1, 0, 1)), int64(-1),
			[]float64{0, 1, 2, -1, 4, -1}},
		"x[:, 1:][i] = [1,2]": {value.NewTuple(ints64([]int{1}, 1), value.Slice{Start: int64(1)}),
			floats32([]int{1, 1, 2}, 8, 9), []float64{0, 1, 2, 3, 8, 9}},
		"x[...] = 0.1": {value.Ellipsis{}, 0.1, []float64{.1, .1, .1, .1, .1, .1}},
	} {
		t.Run(name, func(t *testing.T) {
			_, f, err := invoke(t, "torch.Tensor.__setitem__", []value.Value{upTo(2, 3), tc.index, tc.v})
			if err != nil {
				t.Fatal(err)
			}
			if f.Value != nil || f.Outs != nil {
				t.Errorf("returns %v, want None", f.Value)
			}
			wantValues(t, name, f.After["self"][0], []int{2, 3}, tc.want...)
		})
	}
	if _, _, err := invoke(t, "torch.Tensor.__setitem__", []value.Value{upTo(2, 3), int64(0),
		floats32([]int{2}, 1, 2)}); err == nil {
		t.Error("a value of another size was written")
	}
}

func TestScatterAndGather(t *testing.T) {
	i := ints64([]int{2, 3}, 0, 1, 1, 2, 0, 1)
	s := floats32([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	z := floats32([]int{3, 3}, .5, 1, 2, 2, 3, 4, 8, 9, 10)
	zero, one, n33 := int64(0), int64(1), []int{3, 3}
	for name, tc := range map[string]struct {
		op    string
		args  []value.Value
		kw    []value.Value
		shape []int
		want  []float64
	}{
		"scatter": {"torch.scatter", []value.Value{z, zero, i, s}, nil, n33,
			[]float64{1, 5, 2, 2, 2, 6, 4, 9, 10}},
		"multiply": {"torch.Tensor.scatter_", []value.Value{z, zero, i, 2.0},
			[]value.Value{"reduce", "multiply"}, n33, []float64{1, 2, 2, 2, 6, 16, 16, 9, 10}},
		"scatter_add": {"torch.Tensor.scatter_add", []value.Value{z, one, i, s}, nil, n33,
			[]float64{1.5, 6, 2, 7, 9, 8, 8, 9, 10}},
		"prod": {"torch.scatter_reduce", []value.Value{z, zero, i, s, "prod"}, nil, n33,
			[]float64{.5, 5, 2, 2, 6, 72, 32, 9, 10}},
		"mean": {"torch.scatter_reduce", []value.Value{z, zero, i, s, "mean"}, nil, n33,
			[]float64{.75, 3, 2, 2, 2.5, 4.333333492279053, 6, 9, 10}},
		"mean without self": {"torch.scatter_reduce", []value.Value{z, zero, i, s, "mean"},
			[]value.Value{"include_self", false}, n33, []float64{1, 5, 2, 2, 2, 4.5, 4, 9, 10}},
		"amax without self": {"torch.scatter_reduce", []value.Value{z, zero, i, s, "amax"},
			[]value.Value{"include_self", false}, n33, []float64{1, 5, 2, 2, 2, 6, 4, 9, 10}},
		"gather": {"torch.gather", []value.Value{z, one, i}, nil, []int{2, 3},
			[]float64{.5, 1, 1, 4, 2, 3}},
		"index_add": {"torch.index_add", []value.Value{z, one, ints64([]int{3}, 2, 0, 2), z},
			[]value.Value{"alpha", int64(-2)}, n33, []float64{-1.5, 1, -3, -4, 3, -8, -10, 9, -26}},
		"index_reduce": {"torch.index_reduce", []value.Value{z, zero, ints64([]int{2}, 1, 1), s, "mean"}, nil,
			n33, []float64{.5, 1, 2, 2.3333332538604736, 3.3333332538604736, 4.333333492279053, 8, 9, 10}},
		"masked_scatter": {"torch.masked_scatter", []value.Value{z, maskOf(n33, 0, 0, 0, 0, 1, 1, 1, 1, 1), s},
			nil, n33, []float64{.5, 1, 2, 2, 1, 2, 3, 4, 5}},
		"put, accumulating": {"torch.Tensor.put_", []value.Value{z, ints64([]int{3}, -1, 0, 0),
			floats32([]int{3}, 1, 2, 3)}, []value.Value{"accumulate", true}, n33, []float64{5.5, 1, 2, 2, 3, 4,
			8, 9, 11}},
		"take": {"torch.take", []value.Value{z, ints64([]int{2, 2}, -1, 0, 4, -9)}, nil, []int{2, 2},
			[]float64{10, .5, 3, .5}},
		"integers round down": {"torch.scatter_reduce", []value.Value{ints64([]int{1}, -3), zero, ints64([]int{1}, 0),
			ints64([]int{1}, -4), "mean"}, nil, []int{1}, []float64{-4}},
	} {
		t.Run(name, func(t *testing.T) {
			_, f, err := invoke(t, tc.op, tc.args, tc.kw...)
			if err != nil {
				t.Fatal(err)
			}
			wantValues(t, name, f.Outs[0], tc.shape, tc.want...)
		})
	}
}

// TestGradients holds gradients that are not derivatives, or at zeros and ties,
// to torch's.
func TestGradients(t *testing.T) {
	i := ints64([]int{2, 3}, 0, 1, 1, 2, 0, 1)
	z := floats32([]int{3, 3}, .5, 1, 2, 2, 3, 4, 8, 9, 10)
	zero := int64(0)
	table := floats32([]int{3, 2}, 0, 0, 1, 5, 3, 2)
	for name, tc := range map[string]struct {
		op   string
		args []value.Value
		kw   []value.Value
		want map[string][]float64
	}{
		"prod with zeros": {"torch.scatter_reduce", []value.Value{z, zero, i, floats32([]int{2, 3}, 0, 2, 0, 4, 5, 0),
			"prod"}, nil,
			map[string][]float64{"self": {0, 10, 3, 4, 10, 0, 28, 8, 9}, "src": {.5, 15, 0, 56, 2, 0}}},
		"mean without self": {"torch.scatter_reduce", []value.Value{z, zero, i, floats32([]int{2, 3}, 1, 2, 3, 4, 5, 6),
			"mean"}, []value.Value{"include_self", false},
			map[string][]float64{"self": {0, 0, 3, 4, 0, 0, 0, 8, 9}, "src": {1, 5, 3, 7, 2, 3}}},
		"amax with ties": {"torch.scatter_reduce", []value.Value{z, zero, i, floats32([]int{2, 3}, .5, 3, 4, 8, 9, 10),
			"amax"}, nil,
			map[string][]float64{"self": {.5, 0, 3, 4, 2.5, 0, 3.5, 8, 9}, "src": {.5, 2.5, 0, 3.5, 2, 6}}},
		"embedding": {"torch.nn.functional.embedding", []value.Value{ints64([]int{4}, 1, 0, 1, 2), table, zero},
			[]value.Value{"scale_grad_by_freq", true},
			map[string][]float64{"weight": {0, 0, 3, 4, 7, 8}}},
		"bags, max": {"torch.nn.functional.embedding_bag", []value.Value{ints64([]int{4}, 1, 2, 1, 2), table,
			ints64([]int{3}, 0, 3, 3)}, []value.Value{"mode", "max"},
			map[string][]float64{"weight": {0, 0, 0, 2, 6, 6}}},
		"bags, weights": {"torch.nn.functional.embedding_bag", []value.Value{ints64([]int{3}, 1, 2, 1), table,
			ints64([]int{2}, 0, 2)},
			[]value.Value{"mode", "sum", "per_sample_weights", floats32([]int{3}, 2, 3, 4), "padding_idx", int64(2)},
			map[string][]float64{"weight": {0, 0, 14, 20, 0, 0}, "per_sample_weights": {11, 0, 23}}},
		"as_strided": {"torch.as_strided", []value.Value{upTo(2, 3), value.NewTuple(int64(3), int64(2)),
			value.NewTuple(int64(1), int64(1)), int64(1)}, nil,
			map[string][]float64{"self": {0, 1, 5, 9, 6, 0}}},
		"median of equal": {"torch.median", []value.Value{floats32([]int{5}, 1, 2, 2, 3, 2)}, nil,
			map[string][]float64{"self": {0, 1. / 3, 1. / 3, 0, 1. / 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, f, err := invoke(t, tc.op, tc.args, tc.kw...)
			if err != nil {
				t.Fatal(err)
			}
			g := make([]float64, f.Outs[0].Numel())
			for k := range g {
				g[k] = float64(k + 1)
			}
			gr, err := c.Backward(f, []*tensor.Tensor{floats32(f.Outs[0].Shape, g...)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for arg, want := range tc.want {
				wantValues(t, arg, gr[arg][0], gr[arg][0].Shape, want...)
			}
		})
	}
	// A tensor that shows its storage twice gives each showing a half.
	wide, err := upTo(1, 3).Expand(2, 3)
	if err != nil {
		t.Fatal(err)
	}
	c, f, err := invoke(t, "torch.as_strided", []value.Value{wide, value.NewTuple(int64(3)), value.NewTuple(int64(1))})
	if err != nil {
		t.Fatal(err)
	}
	gr, err := c.Backward(f, []*tensor.Tensor{floats32([]int{3}, 1, 1, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "as_strided of an expanded tensor", gr["self"][0], []int{2, 3}, .5, .5, .5, .5, .5, .5)
}

func TestEmbeddingMaxNorm(t *testing.T) {
	w := floats32([]int{3, 2}, 3, 4, .3, .4, 6, 8)
	_, f, err := invoke(t, "torch.nn.functional.embedding", []value.Value{ints64([]int{2}, 0, 1), w}, "max_norm", 2.5)
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "rows", f.Outs[0], []int{2, 2}, 1.5, 2, .3, .4)
	wantValues(t, "weight", f.After["weight"][0], []int{3, 2}, 1.5, 2, .3, .4, 6, 8)
}

func TestViewDType(t *testing.T) {
	_, f, err := invoke(t, "torch.Tensor.view", []value.Value{floats32([]int{2}, 1.5, -2), tensor.Int32})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "bits", f.Outs[0], []int{2}, 1069547520, -1073741824)
	_, f, err = invoke(t, "torch.Tensor.view", []value.Value{tensor.New(tensor.Int16, []int{1, 2}, []int64{1, 2}),
		tensor.Int32})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "pairs", f.Outs[0], []int{1, 1}, 131073)
}

func TestOrder(t *testing.T) {
	nan := math.NaN()
	v := floats32([]int{6}, 2, nan, math.Copysign(0, -1), 0, nan, -1)
	for name, tc := range map[string]struct {
		op              string
		args, kw        []value.Value
		shape           []int
		values, indices []float64
	}{
		"sort": {"torch.sort", nil, nil, []int{6}, []float64{-1, 0, 0, 2, nan, nan}, []float64{5, 2, 3, 0, 1, 4}},
		"descending": {"torch.Tensor.sort", nil, []value.Value{"descending", true, "stable", true}, []int{6},
			[]float64{nan, nan, 2, 0, 0, -1}, []float64{1, 4, 0, 2, 3, 5}},
		"topk":     {"torch.topk", []value.Value{int64(3)}, nil, []int{3}, []float64{nan, nan, 2}, []float64{1, 4, 0}},
		"kthvalue": {"torch.kthvalue", []value.Value{int64(4)}, nil, nil, []float64{2}, []float64{0}},
		"median":   {"torch.median", []value.Value{int64(0)}, nil, nil, []float64{nan}, []float64{1}},
		"nanmedian": {"torch.nanmedian", []value.Value{int64(0)}, []value.Value{"keepdim", true}, []int{1},
			[]float64{0}, []float64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			_, f, err := invoke(t, tc.op, append([]value.Value{v}, tc.args...), tc.kw...)
			if err != nil {
				t.Fatal(err)
			}
			wantValues(t, "values", f.Outs[0], tc.shape, tc.values...)
			wantValues(t, "indices", f.Outs[1], tc.shape, tc.indices...)
		})
	}
	_, f, err := invoke(t, "torch.searchsorted", []value.Value{floats32([]int{4}, 1, 2, 2, nan),
		floats32([]int{3}, 2, nan, 5)})
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "searchsorted", f.Outs[0], []int{3}, 1, 4, 4)
	_, f, err = invoke(t, "torch.functional.unique", []value.Value{floats32([]int{4}, nan, 2, nan, 2)},
		"return_counts", true)
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "unique", f.Outs[0], []int{3}, 2, nan, nan)
	wantValues(t, "counts", f.Outs[1], []int{3}, 2, 1, 1)
}

// TestTies: indices of equal elements may be swapped, others not, and the
// gradient goes where the accepted indices point.
func TestTies(t *testing.T) {
	v := floats32([]int{4}, 3, 1, 3, 2)
	c, f, err := invoke(t, "torch.topk", []value.Value{v, int64(1)})
	if err != nil {
		t.Fatal(err)
	}
	for idx, ok := range map[int64]bool{0: true, 2: true, 1: false, 9: false} {
		as, _ := c.Accept([]*tensor.Tensor{f.Outs[0], ints64([]int{1}, idx)}, f.Outs)
		if as[1].OK != ok {
			t.Errorf("index %d accepted: %v, want %v (%s)", idx, as[1].OK, ok, as[1].Reason)
		}
	}
	c.Accept([]*tensor.Tensor{f.Outs[0], ints64([]int{1}, 2)}, f.Outs)
	gr, err := c.Backward(f, []*tensor.Tensor{floats32([]int{1}, 5), nil}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, "gradient", gr["self"][0], []int{4}, 0, 0, 5, 0)

	c, f, err = invoke(t, "torch.sort", []value.Value{v})
	if err != nil {
		t.Fatal(err)
	}
	if as, _ := c.Accept([]*tensor.Tensor{f.Outs[0], ints64([]int{4}, 1, 3, 0, 0)}, f.Outs); as[1].OK {
		t.Error("an index that occurs twice was accepted")
	}
	c, f, err = invoke(t, "torch.unique", []value.Value{v, false, true, true})
	if err != nil {
		t.Fatal(err)
	}
	as, _ := c.Accept([]*tensor.Tensor{floats32([]int{3}, 3, 2, 1), ints64([]int{4}, 0, 2, 0, 1),
		ints64([]int{3}, 2, 1, 1)}, f.Outs)
	if !as[0].OK || !as[1].OK || !as[2].OK {
		t.Errorf("another order was not accepted: %v", as)
	}
	as, _ = c.Accept([]*tensor.Tensor{floats32([]int{3}, 3, 2, 1), ints64([]int{4}, 0, 2, 0, 0),
		ints64([]int{3}, 1, 2, 1)}, f.Outs)
	if as[1].OK || as[2].OK {
		t.Errorf("wrong inverse and counts were accepted: %v", as)
	}
}

func TestJoinRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		op   string
		args []value.Value
		want string
	}{
		"cat numbers":  {"torch.cat", []value.Value{value.NewList(floats32(nil, 1))}, "no dimensions"},
		"cat sizes":    {"torch.cat", []value.Value{value.NewList(upTo(2, 3), upTo(2, 2))}, "size 2 in dimension 1"},
		"stack shapes": {"torch.stack", []value.Value{value.NewList(upTo(2), upTo(3))}, "has shape [3]"},
		"split sizes": {"torch.functional.split", []value.Value{upTo(4), value.NewList(int64(1), int64(2))},
			"add up to 3"},
		"view": {"torch.Tensor.view", []value.Value{upTo(2, 3).Transpose(0, 1), int64(6)}, "cannot have shape"},
		"reshape": {"torch.reshape", []value.Value{upTo(6), value.NewTuple(int64(4), int64(-1))},
			"does not hold 6 elements"},
		"huge": {"torch.reshape", []value.Value{upTo(6), value.NewTuple(int64(1)<<40, int64(1)<<40)},
			"does not hold 6 elements"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := invoke(t, tc.op, tc.args)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestNonzeroStatic(t *testing.T) {
	x := tensor.New(tensor.Int64, []int{4}, []int64{0, 3, 0, 7})
	for size, want := range map[int][]int64{1: {1}, 3: {1, 3, -1}} {
		c, err := Default().Bind("torch.nonzero_static", []value.Value{x},
			&value.Dict{Items: []value.Item{{Key: "size", Value: int64(size)}}})
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Forward()
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.Data[int64](f.Outs[0]); !slices.Equal(got, want) {
			t.Errorf("nonzero_static([0 3 0 7], size=%d) = %v, want %v", size, got, want)
		}
	}
}

// TestManyCombinations: combinations of few elements that are too many to be held are refused, not made.
func TestManyCombinations(t *testing.T) {
	x := tensor.Full(tensor.Float64, []int{60}, 1.0)
	_, _, err := invoke(t, "torch.combinations", []value.Value{x, int64(30)})
	if err == nil || !strings.Contains(err.Error(), "more than can be held") {
		t.Errorf("got %v", err)
	}
}
