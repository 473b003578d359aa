package ops_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func floats(shape []int, v ...float64) *tensor.Tensor {
	t := tensor.New(tensor.Float64, shape, v)
	t.RequiresGrad = true
	return t
}

func ints64(shape []int, v ...int64) *tensor.Tensor { return tensor.New(tensor.Int64, shape, v) }

func named(kv ...value.Value) *value.Dict {
	d := &value.Dict{}
	for i := 0; i < len(kv); i += 2 {
		d.Items = append(d.Items, value.Item{Key: kv[i], Value: kv[i+1]})
	}
	return d
}

func bound(t *testing.T, name string, args []value.Value, kwargs *value.Dict) *opdef.Call {
	t.Helper()
	reg := ops.Default()
	c, err := reg.Bind(name, args, kwargs)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

func closeTo(got, want []float64, tol float64) bool {
	return slices.EqualFunc(got, want, func(g, w float64) bool {
		return g == w || g != g && w != w || math.Abs(g-w) <= tol*max(1, math.Abs(w))
	})
}

// TestReductionsGolden holds results and gradients to what torch 1.13.1
// computes in float64. The incoming gradient is up, or 1 everywhere.
func complexPair(z, w complex128) *tensor.Tensor {
	return tensor.New(tensor.Complex128, []int{2}, []complex128{z, w})
}

func TestReductionsGolden(t *testing.T) {
	x := floats([]int{3, 4}, 0.5, -1.25, 2, 0.25, 1.5, 0.75, -0.5, 3, -2, 0.125, 1, -0.75)
	w := tensor.New(tensor.Float64, []int{4}, []float64{0.5, 1, 2, 1.5})
	target := ints64([]int{3}, 2, -100, 1)
	var sum float64
	q := make([]float64, 12) // softmax of 0, 1/3, 2/3, 1 in each row
	for i := range 4 {
		sum += math.Exp(float64(i) / 3)
	}
	for i := range q {
		q[i] = math.Exp(float64(i%4)/3) / sum
	}
	rolled := floats([]int{3, 4}, 0.25, 0.5, -1.25, 2, 3, 1.5, 0.75, -0.5, -0.75, -2, 0.125, 1)
	half := floats([]int{3, 4}, -1, 0.0625, 0.5, -0.375, 0.75, 0.375, -0.25, 1.5, 0.25, -0.625, 1, 0.125)
	logs := floats([]int{4, 1, 3}, -1.2506003020246401, -0.6506003020246401, -1.6506003020246403, -1.0189247158518508,
		-1.618924715851851, -0.8189247158518508,
		-0.6657319272479287, -1.3657319272479287, -1.4657319272479288, -2.050718171513068, -1.050718171513068,
		-0.6507181715130681)
	tests := []struct {
		name      string
		args      []value.Value
		kwargs    *value.Dict
		up        []float64
		out, grad []float64
		arg       string
	}{
		{
			name: "torch.nn.functional.cross_entropy", args: []value.Value{x, target},
			kwargs: named("weight", w, "label_smoothing", 0.1), arg: "input",
			out: []float64{0.7605350193945729},
			grad: []float64{0.09555984236764062, 0.008996535408104685, -0.1697234611046414, 0.06516708332889605, 0, 0,
				0, 0, 0.006202964438080791, -0.22150947510358698, 0.1916129417675737, 0.023693568897932542},
		},
		{
			name: "torch.nn.functional.cross_entropy", args: []value.Value{x, floats([]int{3, 4}, q...)},
			kwargs: named("weight", w, "label_smoothing", 0.2), arg: "input",
			out: []float64{2.393842420823908},
			grad: []float64{0.04365514129623053, -0.05705352669897696, 0.13717967170790202, -0.12378128630515552,
				0.04766885863597963, -0.033996364113020296, -0.170302620143965, 0.15663012562100573,
				-0.013375196261300307, 0.046508050427149075, 0.09753725177837855, -0.1306701059442273},
		},
		{
			name: "torch.std", args: []value.Value{x, int64(1)}, up: []float64{1, 2, 3}, arg: "self",
			out: []float64{1.3307266185559425, 2.9261749776799064 / 2, 3.8410813907023624 / 3},
			grad: []float64{0.03131121455425748, -0.4070457892053472, 0.4070457892053472, -0.03131121455425748,
				0.14239294295279348, -0.1993501201339109, -0.7689218919450849, 0.8258790691262022, -1.244766646073522,
				0.4149222153578407, 1.098323511241343, -0.2684790805256616},
		},
		{
			name: "torch.functional.norm", args: []value.Value{x}, kwargs: named("p", int64(3), "dim", int64(1),
				"keepdim", false, "out", nil, "dtype", nil), arg: "self",
			out: []float64{2.1611463679369765, 3.1387395038010144, 2.1122360581970065},
			grad: []float64{0.05352684502630283, -0.3345427814143927, 0.8564295204208453, 0.013381711256575708,
				0.2283873110395888, 0.0570968277598972, -0.025376367893287642, 0.9135492441583551, -0.8965511807642422,
				0.003502153049860321, 0.22413779519106056, -0.12607750979497157},
		},
		{
			name: "torch.logcumsumexp", args: []value.Value{x, int64(1)}, up: []float64{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3,
				4}, arg: "self",
			out: []float64{0.5, 1.3204483008761745 / 2, 6.697865949306098 / 3, 9.446549713683359 / 4, 1.5,
				3.7737420122297998 / 2, 5.924417184528943 / 3, 13.226192245346528 / 4, -2, 0.4756445575431385 / 2,
				4.1489408002840555 / 3, 5.979816618433572 / 4},
			grad: []float64{3.856037894888402, 0.4963049676386655, 5.163498695942151, 0.4841584415307806,
				4.881255195224291, 1.8333751368762528, 0.34143708791690197, 2.9439325799825538, 1.4366201530406626,
				3.655775782659907, 4.4838744772016845, 0.42372958709774683},
		},
		{
			name: "torch.nn.functional.layer_norm", args: []value.Value{x, value.NewTuple(int64(4))},
			kwargs: named("weight", w, "bias", w, "eps", 1e-3), up: []float64{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4},
			arg: "input",
			out: []float64{0.5542122089927604, -0.8190348676235399 / 2, 14.457104602870618 / 3, 5.349453492086876 / 4,
				0.6232775188947729, 1.3096458941892715 / 2, -1.9883832243812867 / 3, 14.580115315076196 / 4,
				-0.2183742748920573, 2.957832366522743 / 2, 13.606315851798254 / 3, 4.140678347338205 / 4},
			grad: []float64{-2.829150265219857, 0.1315001687521189, 0.5190463391610054, 2.178603757306732,
				-2.4667494122574602, -1.2804075483988373, 1.8802930727553537, 1.8668638879009425, -0.8787206761426631,
				-2.111064537656585, 0.4306546930727122, 2.5591305207265367},
		},
		{
			name: "torch.nn.functional.huber_loss", args: []value.Value{x, half}, kwargs: named("delta", 0.7),
			arg: "input",
			out: []float64{0.4702604166666666},
			grad: []float64{0.05833333333333333, -0.05833333333333333, 0.05833333333333333, 0.05208333333333333,
				0.05833333333333333, 0.03125, -0.020833333333333332, 0.05833333333333333, -0.05833333333333333,
				0.05833333333333333, 0, -0.05833333333333333},
		},
		{
			name: "torch.nn.functional.cosine_similarity", args: []value.Value{x, rolled, int64(1)}, arg: "x1",
			out: []float64{-0.42553191489361697, 0.31088082901554404, 0.11204481792717086},
			grad: []float64{0.07876867360796738, -0.005432322317790839, -0.0679040289723857, 0.3585332729741964,
				0.2100459072726785, 0.10502295363633925, 0.07506241778302773, -0.11876828908158607,
				-0.09428084959473987, -0.3610542256118133, 0.002322497626501583, 0.1943365581526728},
		},
		{
			name: "torch.quantile", args: []value.Value{x, floats([]int{2}, 0.3, 0.9)}, kwargs: named("dim", int64(1)),
			arg: "self",
			out: []float64{0.09999999999999987, 0.6249999999999999, -0.8750000000000001, 1.5500000000000003,
				2.5500000000000003, 0.7375000000000002},
			grad: []float64{0.2999999999999998, 0.10000000000000009, 0.7000000000000002, 0.8999999999999999,
				0.2999999999999998, 0.8999999999999999, 0.10000000000000009, 0.7000000000000002, 0.10000000000000009,
				0.2999999999999998, 0.7000000000000002, 0.8999999999999999},
		},
		{
			name: "torch.nn.functional.ctc_loss", args: []value.Value{logs, ints64([]int{1, 2}, 1, 2),
				ints64([]int{1}, 4), ints64([]int{1}, 2)}, arg: "log_probs",
			out: []float64{0.7336439396365827},
			grad: []float64{0.045492441851700025, -0.14145976948602423, 0.09596732763432425, -0.020184513245906394,
				-0.09237378001752092, 0.11255829326342726, 0.02139308952509708, 0.051534966203753876,
				-0.07292805572885083, -0.0059244998777663455, 0.1748432620052749, -0.16891876212750845},
		},
		{name: "torch.max", args: []value.Value{floats([]int{4}, 1, 3, 3, 2)}, arg: "self", out: []float64{3},
			grad: []float64{0, 0.5, 0.5, 0}},
		{name: "torch.Tensor.amax", args: []value.Value{floats([]int{4}, 1, 3, 3, 2)}, arg: "self", out: []float64{3},
			grad: []float64{0, 0.5, 0.5, 0}},
		{name: "torch.Tensor.max", args: []value.Value{floats([]int{4}, 1, 3, 3, 2), int64(0)}, arg: "self",
			out: []float64{3}, grad: []float64{0, 1, 0, 0}},
		{name: "torch.norm", args: []value.Value{floats([]int{4}, 1, 3, 3, 2), math.Inf(1)}, arg: "self",
			out: []float64{3}, grad: []float64{0, 0.5, 0.5, 0}},
		{name: "torch.pdist", args: []value.Value{floats([]int{3, 2}, 0, 0, 3, 4, 0, 1)}, arg: "input",
			out:  []float64{5, 1, 3 * math.Sqrt2},
			grad: []float64{-0.6, -1.8, 0.6 + math.Sqrt2/2, 0.8 + math.Sqrt2/2, -math.Sqrt2 / 2, 1 - math.Sqrt2/2}},
		{name: "torch.nn.functional.l1_loss", args: []value.Value{complexPair(3+4i, 1), complexPair(0, 1+2i)}, arg: "",
			out: []float64{3.5}},
		{name: "torch.dist", args: []value.Value{complexPair(3+4i, 1), complexPair(0, 1+2i)}, arg: "",
			out: []float64{math.Sqrt(29)}},
		{name: "torch.nn.functional.pairwise_distance", args: []value.Value{ints64([]int{1, 2}, 1, 2),
			ints64([]int{1, 2}, 4, 6), 2.0, 0.0}, arg: "", out: []float64{5}},
		{name: "torch.batch_norm", args: []value.Value{floats([]int{1, 1}, 3), floats([]int{1}, 2), floats([]int{1}, 1),
			floats([]int{1}, 1), floats([]int{1}, 4), false, 0.1, 0.0, true}, arg: "input", out: []float64{3},
			grad: []float64{1}},
		{name: "torch.cummax", args: []value.Value{floats([]int{4}, 1, 3, 3, 2), int64(0)}, arg: "self",
			out: []float64{1, 3, 3, 3}, grad: []float64{1, 1, 2, 0}},
		{name: "torch.maximum", args: []value.Value{floats([]int{2}, math.Inf(1), 1), floats([]int{2}, math.NaN(), 1)},
			arg: "other", out: []float64{math.NaN(), 1}, grad: []float64{1, 0.5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := bound(t, tt.name, tt.args, tt.kwargs)
			f, err := c.Forward()
			if err != nil {
				t.Fatal(err)
			}
			if got := tensor.Data[float64](f.Outs[0]); !closeTo(got, tt.out, 1e-14) {
				t.Errorf("result: got %v, want %v", got, tt.out)
			}
			if tt.arg == "" {
				return
			}
			up := tensor.Full(tensor.Float64, f.Outs[0].Shape, 1.0)
			if tt.up != nil {
				up = tensor.New(tensor.Float64, f.Outs[0].Shape, tt.up)
			}
			outs := make([]*tensor.Tensor, len(f.Outs))
			outs[0] = up
			g, err := c.Backward(f, outs, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := tensor.Data[float64](g[tt.arg][0]); !closeTo(got, tt.grad, 1e-13) {
				t.Errorf("gradient of %s: got %v, want %v", tt.arg, got, tt.grad)
			}
		})
	}
}

// TestNodes checks what the last autograd node of a result received, where that
// is not the gradient of the arguments.
func TestNodes(t *testing.T) {
	x, y := floats([]int{2, 2}, 1, 2, -3, 4), tensor.New(tensor.Float64, []int{2, 2}, []float64{0, 0, 0, 0})
	third := 1.0 / 3
	tests := []struct {
		name   string
		args   []value.Value
		kwargs *value.Dict
		want   [][]float64 // nil: None
		shape  []int       // of the first
		weak   bool
	}{
		{"torch.nn.functional.l1_loss", []value.Value{x, y}, nil, [][]float64{{0.25, 0.25, 0.25, 0.25}},
			[]int{2, 2}, true},
		{"torch.nn.functional.l1_loss", []value.Value{x, y}, named("reduction", "none"), [][]float64{{1, 1, -1, 1}},
			[]int{2, 2}, false},
		{"torch.nn.functional.mse_loss", []value.Value{x, floats([]int{2}, 0, 1)}, named("reduction", "sum"),
			[][]float64{{2, 2, -6, 6}, {-2, -2, 6, -6}}, []int{2, 2}, false},
		{"torch.nn.functional.cross_entropy", []value.Value{x, ints64([]int{2}, 1, 0)}, nil,
			[][]float64{{0, -0.5, -0.5, 0}}, []int{2, 2}, false},
		{"torch.nn.functional.cross_entropy", []value.Value{x, ints64([]int{2}, 1, 0)}, named("label_smoothing", 0.1),
			[][]float64{{1}, {1}}, []int{}, true},
		{"torch.nn.functional.cross_entropy", []value.Value{floats([]int{1, 2, 3}, 1, 2, 3, 4, 5, 6),
			ints64([]int{1, 3}, 1, 0, 1)}, nil, [][]float64{{0, -third, 0, -third, 0, -third}},
			[]int{1, 2, 1, 3}, false},
		{"torch.norm", []value.Value{floats([]int{2, 2}, 3, 0, 0, 4), "fro", value.NewTuple(int64(0), int64(1))}, nil,
			[][]float64{{0.1}}, []int{}, false},
		{"torch.nn.functional.kl_div", []value.Value{x, y}, named("reduction", "batchmean"), [][]float64{{0.5}, nil},
			[]int{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := bound(t, tt.name, tt.args, tt.kwargs)
			f, err := c.Forward()
			if err != nil {
				t.Fatal(err)
			}
			n, ok, err := c.Node(f, []*tensor.Tensor{tensor.Full(tensor.Float64, f.Outs[0].Shape, 1.0)})
			if err != nil || !ok {
				t.Fatalf("Node: got %v, %v, want gradients", ok, err)
			}
			if len(n.Grads) != len(tt.want) || !slices.Equal(n.Grads[0].Shape, tt.shape) || (n.Weak != "") != tt.weak {
				t.Fatalf("Node: got %d gradients, the first of shape %v, weak %q, want %d, %v, %v", len(n.Grads),
					n.Grads[0].Shape, n.Weak, len(tt.want), tt.shape, tt.weak)
			}
			for i, g := range n.Grads {
				if (g == nil) != (tt.want[i] == nil) {
					t.Errorf("gradient %d: got %v, want %v", i, g, tt.want[i])
				} else if g != nil && !closeTo(tensor.Data[float64](g), tt.want[i], 1e-15) {
					t.Errorf("gradient %d: got %v, want %v", i, tensor.Data[float64](g), tt.want[i])
				}
			}
		})
	}
}

// TestNoClasses: without classes, losses by probabilities are sums of nothing;
// torch makes their mean nan.
func TestNoClasses(t *testing.T) {
	x, q := floats([]int{3, 0}), floats([]int{3, 0})
	for _, tt := range []struct {
		reduction string
		want      float64
	}{{"none", 0}, {"sum", 0}, {"mean", math.NaN()}} {
		f, err := bound(t, "torch.nn.functional.cross_entropy", []value.Value{x, q}, named("reduction", tt.reduction,
			"label_smoothing", 0.5)).Forward()
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range tensor.Data[float64](f.Outs[0]) {
			if got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
				t.Errorf("reduction %s: loss %d is %v, want %v", tt.reduction, i, got, tt.want)
			}
		}
	}
}

// TestTiesAccepted gives other indices of equal elements, and wrong ones.
func TestTiesAccepted(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{2, 3}, []float64{5, 1, 5, 2, 7, 7})
	for _, tt := range []struct {
		name string
		args []value.Value
		got  *tensor.Tensor
		out  int
		ok   bool
	}{
		{"torch.argmax", []value.Value{x, int64(1)}, ints64([]int{2}, 2, 2), 0, true},
		{"torch.argmax", []value.Value{x, int64(1)}, ints64([]int{2}, 1, 1), 0, false},
		{"torch.argmax", []value.Value{x}, ints64(nil, 5), 0, true},
		{"torch.argmax", []value.Value{x}, ints64(nil, 6), 0, false},
		{"torch.max", []value.Value{x, int64(0)}, ints64([]int{3}, 0, 1, 1), 1, true},
		{"torch.cummax", []value.Value{x, int64(1)}, ints64([]int{2, 3}, 0, 0, 0, 0, 1, 1), 1, true},
		{"torch.cummax", []value.Value{x, int64(1)}, ints64([]int{2, 3}, 2, 2, 2, 0, 1, 2), 1, false},
	} {
		c := bound(t, tt.name, tt.args, nil)
		f, err := c.Forward()
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Clone(f.Outs)
		got[tt.out] = tt.got
		as, ok := c.Accept(got, f.Outs)
		if !ok || as[tt.out].OK != tt.ok {
			t.Errorf("%s: accepting indices %v: got %+v, want %v", tt.name, tensor.Data[int64](tt.got), as, tt.ok)
		}
	}
}

// TestReductionsRefused checks that calls torch refuses are refused for the
// argument to blame.
func TestReductionsRefused(t *testing.T) {
	x, ints := floats([]int{2, 3}, 1, 2, 3, 4, 5, 6), ints64([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	reg := ops.Default()
	for _, tt := range []struct {
		name   string
		args   []value.Value
		kwargs *value.Dict
		arg    string
	}{
		{"torch.sum", []value.Value{x, int64(2)}, nil, "dim"},
		{"torch.mean", []value.Value{ints}, nil, "self"},
		{"torch.amax", []value.Value{floats([]int{0, 2}), int64(0)}, nil, "self"},
		{"torch.nn.functional.cross_entropy", []value.Value{x, ints64([]int{2}, 0, 3)}, nil, "target"},
		{"torch.nn.functional.cross_entropy", []value.Value{x, ints64([]int{3}, 0, 1, 2)}, nil, "target"},
		{"torch.nn.functional.mse_loss", []value.Value{x, x}, named("reduction", "max"), "reduction"},
		{"torch.nn.functional.binary_cross_entropy", []value.Value{x, x}, nil, "input"},
		{"torch.nn.functional.layer_norm", []value.Value{x, value.NewTuple(int64(2))}, nil, "input"},
		{"torch.nn.functional.group_norm", []value.Value{x, int64(2)}, nil, "num_groups"},
		{"torch.nn.functional.batch_norm", []value.Value{x, nil, nil}, nil, "running_mean"},
		{"torch.quantile", []value.Value{x, 1.5}, nil, "q"},
	} {
		c, err := reg.Bind(tt.name, tt.args, tt.kwargs)
		if err == nil {
			_, err = c.Forward()
		}
		var r *opdef.RefusedError
		if !errors.As(err, &r) || r.Arg != tt.arg {
			t.Errorf("%s: got error %v, want one that blames %q", tt.name, err, tt.arg)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error of several lines: %q", tt.name, err)
		}
	}
}

// TestRunningStatistics checks what batch_norm leaves in its running
// statistics: torch 1.13.1 gives these.
func TestRunningStatistics(t *testing.T) {
	x := floats([]int{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 9)
	mean, vari := tensor.New(tensor.Float64, []int{2}, []float64{0, 1}), tensor.New(tensor.Float64, []int{2},
		[]float64{1, 2})
	c := bound(t, "torch.nn.functional.batch_norm", []value.Value{x, mean, vari},
		named("training", true, "momentum", 0.1))
	f, err := c.Forward()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{"running_mean": {0.35, 1.475}, "running_var": {0.9 + 0.1*17.0/3,
		1.8 + 0.1*22.75/3}} {
		if got := tensor.Data[float64](f.After[name][0]); !closeTo(got, want, 1e-15) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
