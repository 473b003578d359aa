package replay_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// explain replays a capture and looks for the causes of what fails.
func explain(e *capture.Entry, opt replay.Options) []causes.Cause {
	c := replay.Open(e, opt)
	defer c.Close()
	return c.Causes(c.Compare(), &causes.Allowance{})
}

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
	kernels := random(tensor.Float32, 2, 2, 3, 3)
	backwards := func(x *tensor.Tensor) *tensor.Tensor {
		v := make([]float64, x.Numel())
		tensor.Load(x, 0, v)
		for i := 0; i < len(v); i += 9 {
			slices.Reverse(v[i : i+9])
		}
		return tensor.New(x.DType, x.Shape, v).Rounded()
	}
	// padded has an element more on each side of a square: that at another index, or fill for -1.
	padded := func(x *tensor.Tensor, fill float64, at func(i, n int) int) *tensor.Tensor {
		n := x.Shape[3]
		v := make([]float64, x.Numel())
		tensor.Load(x, 0, v)
		var out []float64
		for ; len(v) > 0; v = v[n*n:] {
			for i := -1; i <= n; i++ {
				for j := -1; j <= n; j++ {
					if i >= 0 && i < n && j >= 0 && j < n {
						out = append(out, v[i*n+j])
					} else if a, b := at(i, n), at(j, n); a < 0 {
						out = append(out, fill)
					} else {
						out = append(out, v[a*n+b])
					}
				}
			}
		}
		return tensor.New(x.DType, []int{x.Shape[0], x.Shape[1], n + 2, n + 2}, out).Rounded()
	}
	edged := padded(images, 0, func(i, n int) int { return min(max(i, 0), n-1) })
	below := edit(images, func(i int, v []float64) { v[i] = -1 - v[i]*v[i] })
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
			"the causal mask is aligned to the last key: query i sees the keys up to i + 5, not up to i"},
		{"torch.matmul", args(p, q), args(tail(p, 1), q), "the last of the 37 terms of each sum is left out"},
		{"torch.matmul", args(p, q), args(tail(p, 5), q), "the last 5 of the 37 terms of each sum are left out"},
		{"torch.matmul", args(p, q), args(half, halfQ), "the factors are rounded to bfloat16 first"},
		{"torch.matmul", args(square, p.Slice(0, 0, 7, 1)), args(square.Transpose(0, 1), p.Slice(0, 0, 7, 1)),
			"self is transposed"},
		{"torch.sub", args(square, p.Slice(1, 0, 7, 1).Slice(0, 0, 7, 1)),
			args(p.Slice(1, 0, 7, 1).Slice(0, 0, 7, 1), square), "self and other are swapped"},
		{"torch.var", args(x, int64(1)), args(x, int64(1), false), "unbiased is False, not True"},
		{"torch.nn.functional.leaky_relu", args(x, 0.2), args(x, 0.01), "negative_slope is 0.01, not 0.2"},
		{"torch.nn.functional.avg_pool2d", args(images, int64(3), int64(2), int64(1)),
			args(images, int64(3), int64(2), int64(1), false, false), "count_include_pad is False, not True"},
		{"torch.softmax", args(square, int64(0)), args(square, int64(1)), "dim is 1, not 0"},
		{"torch.nn.functional.conv2d", args(images, kernels), args(images, backwards(kernels)),
			"weight is read backwards from dimension 2 on"},
		{"torch.nn.functional.conv2d", args(images, kernels), args(images, kernels.Transpose(0, 1)),
			"dimensions 0 and 1 of weight are exchanged"},
		{"torch.nn.functional.conv2d", args(images, kernels, nil, int64(1), int64(1)), args(edged, kernels),
			"the border of input is replicated, not 0"},
		{"torch.nn.functional.max_pool2d", args(below, int64(3), int64(2), int64(1)),
			args(padded(below, 0, func(int, int) int { return -1 }), int64(3), int64(2)), "what is beside input counts as 0"},
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
			causes := explain(entries(t, dir)[0], opt)
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

// TestCausesOfGradients: a wrong gradient beside a right result, and results in each other's place.
func TestCausesOfGradients(t *testing.T) {
	const f32 = tensor.Float32
	x := needsGrad(stored(f32, []int{2, 4}, 1, -2, 3, 4, -5, 6, -7, 8))
	up := stored(f32, []int{2, 4}, 1, 2, 3, 4, 5, 6, 7, 9)
	half := func(v ...float64) *tensor.Tensor { return stored(f32, []int{2, 2}, v...) }
	points := make([]float64, 20)
	for i := range points {
		points[i] = float64(float32(float64(i)/4 - 2.4))
	}
	grid, one := needsGrad(stored(f32, []int{20}, points...)), tensor.Full(f32, []int{20}, 1.0).Rounded()
	of := func(f func(x float64) float64) *tensor.Tensor {
		out := make([]float64, len(points))
		for i, x := range points {
			out[i] = f(x)
		}
		return stored(f32, []int{20}, out...)
	}
	sigmoids := func(f func(x, s float64) float64) *tensor.Tensor {
		return of(func(x float64) float64 { return f(x, 1/(1+math.Exp(-x))) })
	}
	square := func(k, power, more float64) *tensor.Tensor { // k x^power + more x
		return of(func(x float64) float64 { return k*math.Pow(x, power) + more*x })
	}
	left, right := half(1, -2, -5, 6), half(3, 4, -7, 8)
	row := needsGrad(stored(f32, []int{4}, 1.3, -0.7, 2.1, 0.9))
	ofRows := func(f func(i int) float64) *tensor.Tensor {
		v := make([]float64, 20)
		for i := range v {
			v[i] = f(i)
		}
		return stored(f32, []int{5, 4}, v...)
	}
	rows := needsGrad(ofRows(func(i int) float64 { return points[i] }))
	element := func(t *tensor.Tensor, i int) float64 { return tensor.At[float64](t, i) }
	for _, tc := range []struct {
		want   string
		op     string
		args   []value.Value
		result value.Value
		grads  []value.Value
	}{
		{"the incoming gradient is passed on as it is", "torch.nn.functional.relu", []value.Value{x},
			stored(f32, []int{2, 4}, 1, 0, 3, 4, 0, 6, 0, 8),
			[]value.Value{value.NewTuple(up), value.NewTuple(up)}},
		{"in the gradient, the addition is left out",
			"torch.nn.functional.silu", []value.Value{grid}, sigmoids(func(x, s float64) float64 { return x * s }),
			[]value.Value{value.NewTuple(sigmoids(func(_, s float64) float64 { return s })), value.NewTuple(one)}},
		{"the gradient is computed at the result, not at self", "torch.sigmoid", []value.Value{grid},
			sigmoids(func(_, s float64) float64 { return s }),
			[]value.Value{value.NewTuple(sigmoids(func(_, s float64) float64 {
				return 1 / (1 + math.Exp(-s)) / (1 + math.Exp(s))
			})), value.NewTuple(one)}},
		{"self is added", "torch.square", []value.Value{grid}, square(1, 2, 0),
			[]value.Value{value.NewTuple(square(2, 1, 1)), value.NewTuple(one)}},
		{"it is the incoming gradient times square(self) + 1", "torch.tan", []value.Value{grid}, of(math.Tan),
			[]value.Value{value.NewTuple(of(func(x float64) float64 { return x*x + 1 })), value.NewTuple(one)}},
		{"the first 4 of 5 rows of the incoming gradient are left out", "torch.mul", []value.Value{rows, row},
			ofRows(func(i int) float64 { return points[i] * element(row, i%4) }),
			[]value.Value{value.NewTuple(ofRows(func(i int) float64 { return element(row, i%4) }),
				stored(f32, []int{4}, points[16:]...)), value.NewTuple(ofRows(func(int) float64 { return 1 }))}},
		{"results 0 and 1 are exchanged", "torch.chunk", []value.Value{x, int64(2), int64(1)},
			value.NewTuple(right, left), nil},
	} {
		causes := explain(entries(t, record(t, tc.op, tc.args, tc.result, tc.grads...))[0], options(t))
		if len(causes) == 0 || !says(causes[0], tc.want) {
			t.Errorf("%s: causes %+v, want first %q", tc.op, causes, tc.want)
		}
	}
}

// TestCausesBeyond: a gradient that is wrong only where the argument is beyond some number has the mistake there, or
// the number if there is none. Far beyond it the mistake may be as small as rounding.
func TestCausesBeyond(t *testing.T) {
	shorttest.Computes(t)
	const n, f32 = 2000, tensor.Float32
	r := rand.New(rand.NewPCG(3, 5))
	x, y, up, lacks, noise := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n),
		make([]float64, n)
	for i := range x {
		x[i], up[i] = f32.Round(3*r.NormFloat64()), f32.Round(r.NormFloat64())
		cdf, pdf := math.Erfc(-x[i]/math.Sqrt2)/2, math.Exp(-x[i]*x[i]/2)/math.Sqrt(2*math.Pi)
		y[i] = x[i] * cdf
		lacks[i] = up[i] * (cdf + x[i]*pdf)
		if noise[i] = lacks[i]; math.Abs(x[i]) > 1.5 {
			lacks[i], noise[i] = up[i]*cdf, lacks[i]*(1+r.Float64())
		}
	}
	of := func(v []float64) *tensor.Tensor { return stored(f32, []int{40, 50}, v...) }
	for _, tc := range []struct {
		grad []float64
		want string
	}{{lacks, "where abs(self) is above 1.5: it is the incoming gradient times result / self: a term of the product " +
		"rule is missing"}, {noise, "wrong only where abs(self) is above 1.5"}} {
		dir := record(t, "torch.nn.functional.gelu", []value.Value{needsGrad(of(x))}, of(y),
			value.NewTuple(of(tc.grad)), value.NewTuple(of(up)))
		causes := explain(entries(t, dir)[0], options(t))
		if len(causes) != 1 || !says(causes[0], tc.want) || causes[0].Pattern != strings.HasPrefix(tc.want, "wrong") {
			t.Errorf("causes %+v, want %q", causes, tc.want)
		}
	}
}

// TestNoCauses: damage that no mistake makes has no cause, nor has a call that passes.
func TestNoCauses(t *testing.T) {
	shorttest.Computes(t)
	r := rand.New(rand.NewPCG(7, 7))
	tried := 0
	for _, e := range entries(t, demo) {
		if e.IsPair() || !strings.HasPrefix(e.Op, "torch.nn.functional.") {
			continue
		}
		opt := options(t)
		if causes := explain(e, opt); causes != nil {
			t.Errorf("%s passes, but has causes %+v", e.Rel, causes)
		}
		dir := filepath.Join(t.TempDir(), "call")
		if !plant(t, r, e, errorKinds[0], dir) {
			continue
		}
		tried++
		if causes := explain(entries(t, dir)[0], opt); causes != nil {
			t.Errorf("%s with one wrong element: causes %+v", e.Rel, causes)
		}
	}
	if tried == 0 {
		t.Error("nothing was planted")
	}
}

// TestNothingIsWritten: what a call should have changed, and has not, is told by its name: a tensor of a list, or all.
func TestNothingIsWritten(t *testing.T) {
	const op = "torch._foreach_mul_"
	one := func(k float64) *tensor.Tensor {
		v := []float64{0.3, -1.7, 2.9, 4.1, -5.3, 6.7, 7.9, -8.3}
		for i := range v {
			v[i] *= k
		}
		return tensor.New(tensor.Float32, []int{8}, v).Rounded()
	}
	list := func(k ...float64) value.Value {
		var all []value.Value
		for _, x := range k {
			all = append(all, one(x))
		}
		return value.NewList(all...)
	}
	for _, tc := range []struct {
		after value.Value
		want  string
	}{
		{list(2, 4, 3), "nothing is written to self[2]: it is as it was before the call"},
		{list(1, 2, 3), "nothing is written to self: it is as it was before the call"},
		{list(3, 6, 9), "all elements are multiplied by 1.5"}, // as of a result
	} {
		dir := record(t, op, []value.Value{list(1, 2, 3), 2.0}, nil)
		write(t, filepath.Join(dir, "after.pth"), op, []value.Value{tc.after, 2.0})
		causes := explain(entries(t, dir)[0], options(t))
		if len(causes) != 1 || causes[0].Text != tc.want {
			t.Errorf("causes %+v, want %q", causes, tc.want)
		}
	}
}

// TestMistakesOfSelf: an argument that a call changes is what the call makes of another one that is read in its place.
func TestMistakesOfSelf(t *testing.T) {
	const op, f32 = "torch.Tensor.sub_", tensor.Float32
	r := rand.New(rand.NewPCG(5, 3))
	x, y, v := normal(r, []int{8, 16}), normal(r, []int{8, 16}), make([]float64, 128)
	for i := range v {
		v[i] = 0.3*tensor.At[float64](x, i) - tensor.At[float64](y, i)
	}
	gave := stored(f32, []int{8, 16}, v...)
	kwargs := &value.Dict{Items: []value.Item{{Key: "alpha", Value: 0.3}}}
	dir := t.TempDir()
	for name, args := range map[string][]value.Value{"input.pth": {x, y}, "output.pth": {gave},
		"after.pth": {gave, y}} {
		root := &value.Dict{Items: []value.Item{{Key: "name", Value: op}, {Key: "args", Value: value.NewTuple(args...)},
			{Key: "kwargs", Value: kwargs}, {Key: "identifier", Value: op + "/1"}}}
		if name == "output.pth" {
			root.Items[2].Value = &value.Dict{}
		}
		if err := pthformat.WriteFile(filepath.Join(dir, name), root); err != nil {
			t.Fatal(err)
		}
	}
	found := explain(entries(t, dir)[0], options(t))
	if len(found) != 1 || found[0].Text != "alpha multiplies self" || len(found[0].Targets) != 2 {
		t.Errorf("causes %+v, want alpha multiplies self, of the result and the argument", found)
	}
}

// TestRightResultRefutesCause: indices that are those of an operand of zeros have another cause where the values, which
// would be zeros then, are right.
func TestRightResultRefutesCause(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	var v, sorted []float64
	var indices []int64
	for range 6 {
		row := make([]float64, 20)
		for i := range row {
			row[i] = r.NormFloat64()
			indices = append(indices, int64(i))
		}
		v = append(v, row...)
		slices.Sort(row)
		sorted = append(sorted, row...)
	}
	shape := []int{6, 20}
	of := func(v []float64) *tensor.Tensor { return tensor.New(tensor.Float32, shape, v).Rounded() }
	gave := value.NewTuple(of(sorted), tensor.New(tensor.Int64, shape, indices).Rounded())
	for _, c := range explain(entries(t, record(t, "torch.sort", []value.Value{of(v)}, gave))[0], options(t)) {
		if strings.Contains(c.Text, "self") {
			t.Errorf("%q is a cause, though the values are right", c.Text)
		}
	}
}

// TestDoubledElementIsNoCause: a flipped bit doubles an element, as a mistake may that counts it twice.
func TestDoubledElementIsNoCause(t *testing.T) {
	x := stored(tensor.Float32, []int{1, 3}, 0.7175, 0.51, -0.9998)
	gave := stored(tensor.Float32, []int{1, 3}, 0.7175, 0.51, 2*0.9998)
	for _, c := range explain(entries(t, record(t, "torch.abs", []value.Value{x}, gave))[0], options(t)) {
		t.Errorf("%q is a cause", c.Text)
	}
}

// TestHalfIsNoCause: what explains half of the elements, while the others are wrong at random, is no cause.
func TestHalfIsNoCause(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	random := func() []float64 {
		v := make([]float64, 24*16)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return v
	}
	shape := []int{24, 16}
	x := tensor.New(tensor.Float32, shape, random()).Rounded()
	due := func(i int) float64 { return math.Tanh(tensor.At[float64](x, i)) }
	for name, half := range map[string]func(i int) float64{
		"shifted":    func(i int) float64 { return due((i + 1) % (24 * 16)) },
		"rows moved": func(i int) float64 { return due((i + 16) % (24 * 16)) },
		"doubled":    func(i int) float64 { return 2 * due(i) },
		"an operand": func(i int) float64 { return tensor.At[float64](x, i) },
	} {
		gave := random()
		for i := range gave {
			if i%2 == 0 {
				gave[i] = half(i)
			}
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, "input.pth"), "torch.tanh", []value.Value{x})
		write(t, filepath.Join(dir, "output.pth"), "torch.tanh",
			[]value.Value{tensor.New(tensor.Float32, shape, gave).Rounded()})
		for _, c := range explain(entries(t, dir)[0], options(t)) {
			if !c.Pattern {
				t.Errorf("%s: %q is a cause", name, c.Text)
			}
		}
	}
}

// normal is a float32 tensor of normally distributed elements.
func normal(r *rand.Rand, shape []int) *tensor.Tensor {
	v := make([]float64, tensor.Numel(shape))
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return tensor.New(tensor.Float32, shape, v).Rounded()
}

// TestCausesOfResults: results as kernels with a mistake give them, which no argument says.
func TestCausesOfResults(t *testing.T) {
	shorttest.Computes(t)
	r := rand.New(rand.NewPCG(5, 1))
	opt := options(t)
	random := func(shape ...int) *tensor.Tensor { return normal(r, shape) }
	load := func(x *tensor.Tensor) []float64 {
		v := make([]float64, x.Numel())
		tensor.Load(x, 0, v)
		return v
	}
	run := func(op string, args ...value.Value) *tensor.Tensor {
		call, err := opt.Registry.Bind(op, args, nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := call.Forward()
		if err != nil {
			t.Fatal(err)
		}
		return f.Outs[0]
	}
	edited := func(x *tensor.Tensor, f func(i int, v []float64) float64) *tensor.Tensor {
		v := load(x)
		out := make([]float64, len(v))
		for i := range v {
			out[i] = f(i, v)
		}
		return tensor.New(x.DType, x.Shape, out)
	}
	a, b := random(17, 48), random(48, 19)
	kept := func(round func(float64) float64, every int) *tensor.Tensor {
		x, y, out := load(a), load(b), make([]float64, 17*19)
		for i := range out {
			for from := 0; from < 48; from += every {
				part := 0.0
				for k := from; k < min(from+every, 48); k++ {
					part += float64(float32(x[i/19*48+k] * y[k*19+i%19])) // as a device of float32 multiplies
				}
				out[i] = round(out[i] + part)
			}
		}
		return tensor.New(tensor.Float32, []int{17, 19}, out)
	}
	others := rand.New(rand.NewPCG(6, 1))
	loud := tensor.New(tensor.Float32, []int{12, 20}, load(normal(others, []int{12, 20})))
	loud = edited(loud, func(i int, v []float64) float64 { return v[i] * math.Exp2(float64(i/20*5%12)-5.5) }).Rounded()
	narrow := tensor.New(tensor.Float16, []int{12, 40}, load(normal(others, []int{12, 40}))).Rounded()
	squares := tensor.New(tensor.BFloat16, []int{4, 5, 5}, load(normal(others, []int{4, 5, 5}))).Rounded()
	q, k, v := random(1, 4, 16, 8), random(1, 4, 16, 8), random(1, 4, 16, 8)
	attention, norm := "torch.nn.functional.scaled_dot_product_attention", "torch.nn.functional.layer_norm"
	swapped := func(x *tensor.Tensor) *tensor.Tensor {
		return edited(x, func(i int, v []float64) float64 { return v[i^128] }).Rounded()
	}
	x, w, size := random(6, 20), random(20), value.NewList(int64(20))
	bias, back := random(20), func(x *tensor.Tensor) *tensor.Tensor {
		return edited(x, func(i int, v []float64) float64 { return v[(i+len(v)-1)%len(v)] })
	}
	zeros, ones := tensor.Full(tensor.Float32, []int{20}, 0.0), tensor.Full(tensor.Float32, []int{20}, 1.0)
	table, rows := random(9, 20), tensor.New(tensor.Int64, []int{6}, []int64{3, 0, 8, 0, 2, 7})
	images, kernels := random(2, 4, 6, 6), random(4, 4, 3, 3)
	batches, factors := random(2, 5, 7), random(2, 7, 4)
	pairs := func(x *tensor.Tensor) *tensor.Tensor { // heads 0 0 2 2
		return edited(x, func(i int, v []float64) float64 { return v[i&^128] })
	}
	columns := func(of func(v []float64) (mean, divisor float64)) *tensor.Tensor {
		return edited(x, func(i int, v []float64) float64 {
			mean, divisor := of(v[i/20*20 : i/20*20+20])
			return (v[i] - mean) / divisor * load(w)[i%20]
		})
	}
	moments := func(v []float64) (mean, sum float64) {
		for _, x := range v {
			mean += x / 20
		}
		for _, x := range v {
			sum += (x - mean) * (x - mean)
		}
		return mean, sum
	}
	// attended is the attention whose weights of a row are those that a function makes of its scores.
	attended := func(weights func(scores []float64)) *tensor.Tensor {
		qs, ks, vs := load(q), load(k), load(v)
		return edited(q, func(i int, _ []float64) float64 {
			head, row, at := i/128, i/8, i%8
			scores := make([]float64, 16)
			for c := range scores {
				for e := range 8 {
					scores[c] += qs[row*8+e] * ks[(head*16+c)*8+e] / math.Sqrt(8)
				}
			}
			weights(scores)
			sum := 0.0
			for c, w := range scores {
				sum += w * vs[(head*16+c)*8+at]
			}
			return sum
		})
	}
	sumOf := func(scores []float64) (sum float64) {
		for _, s := range scores {
			sum += math.Exp(s)
		}
		return sum
	}
	tiled := func(own bool) func(scores []float64) { // the largest score of 8 keys at a time, own: sums too
		return func(scores []float64) {
			tops := [2]float64{slices.Max(scores[:8]), slices.Max(scores)}
			sum := sumOf(scores) / math.Exp(tops[1])
			if own {
				sum = sumOf(scores[:8])/math.Exp(tops[0]) + sumOf(scores[8:])/math.Exp(tops[1])
			}
			for c, s := range scores {
				scores[c] = math.Exp(s-tops[c/8]) / sum
			}
		}
	}
	exponentials := func(extra float64, summed, kept int) *tensor.Tensor { // of rows of 20
		return edited(x, func(i int, v []float64) float64 {
			if i%20 >= kept {
				return 0
			}
			return math.Exp(v[i]) / (extra + sumOf(v[i/20*20:i/20*20+summed]))
		})
	}
	short := func(n float64) *tensor.Tensor { // statistics of 16 of 20 elements, divided by n
		return columns(func(v []float64) (float64, float64) {
			var sum, squares float64
			for _, x := range v[:16] {
				sum += x
				squares += x * x
			}
			return sum / n, math.Sqrt(squares/n - sum*sum/n/n + 1e-5)
		})
	}
	y, square := random(6, 20), random(20, 20)
	names := random(300, 4)
	heads, far := random(3, 4, 20), tensor.New(tensor.Int64, []int{3}, []int64{200, 7, 299})
	quantized := func(x *tensor.Tensor, each int) *tensor.Tensor { // to 8 bits, so many with one scale
		return edited(x, func(i int, v []float64) float64 {
			top := 0.0
			for _, x := range v[i/each*each : i/each*each+each] {
				top = max(top, math.Abs(x))
			}
			return math.RoundToEven(v[i]*127/top) * top / 127
		}).Rounded()
	}
	rms, batch, group := "torch.nn.functional.rms_norm", "torch.nn.functional.batch_norm", "torch.nn.functional.group_norm"
	conv, pool := "torch.nn.functional.conv2d", "torch.nn.functional.avg_pool2d"
	average, entropy := "torch.nn.functional.adaptive_avg_pool2d", "torch.nn.functional.cross_entropy"
	two := func(a, b int64) value.Value { return value.NewList(a, b) }
	// normalised are images whose elements have the statistics of those that are of one kind with them.
	normalised := func(alike func(i, j int) bool) *tensor.Tensor {
		return edited(images, func(i int, v []float64) float64 {
			var n, sum, squares float64
			for j, x := range v {
				if alike(i, j) {
					n, sum, squares = n+1, sum+x, squares+x*x
				}
			}
			return (v[i] - sum/n) / math.Sqrt(squares/n-sum*sum/n/n+1e-5)
		})
	}
	// windows are sums of 2 x 2 elements, of which some count, divided by a number.
	windows := func(counts func(i, j int) bool, by float64) *tensor.Tensor {
		v := load(images)
		out := make([]float64, len(v)/4)
		for o := range out {
			for k := range 4 {
				if counts(k/2, k%2) {
					out[o] += v[o/9*36+(o/3%3*2+k/2)*6+o%3*2+k%2] / by
				}
			}
		}
		return tensor.New(tensor.Float32, []int{2, 4, 3, 3}, out)
	}
	wide := edited(x, func(i int, v []float64) float64 { return 4 * v[i] })
	seen := make([]int64, 256)
	for i := range seen {
		if i%16 < i/16 || i < 16 { // what the first query sees does not matter
			seen[i] = 1
		}
	}
	before := tensor.New(tensor.Bool, []int{16, 16}, seen).Rounded()
	flat := load(images.Slice(2, 0, 1, 1))
	between := make([]float64, 2*len(flat)) // elements and the means of neighbours
	for i := range between {
		between[i] = flat[i/2]
		if i%2 == 1 && i%12 < 11 {
			between[i] = (flat[i/2] + flat[i/2+1]) / 2
		}
	}
	edges := tensor.New(tensor.Float32, []int{2, 4, 1, 12}, between)
	half := func(x *tensor.Tensor) *tensor.Tensor {
		return edited(x, func(i int, v []float64) float64 { return tensor.BFloat16.Round(v[i]) })
	}
	offset, classes := random(4), tensor.New(tensor.Int64, []int{9}, []int64{3, 0, 8, 0, 2, 7, 19, 4, 4})
	// divided are the means of windows of each row of x that begin and end at these places.
	divided := func(at [][2]int) *tensor.Tensor {
		var out []float64
		for v := load(x); len(v) > 0; v = v[20:] {
			for _, w := range at {
				sum := 0.0
				for _, y := range v[w[0]:w[1]] {
					sum += y
				}
				out = append(out, sum/float64(w[1]-w[0]))
			}
		}
		return tensor.New(tensor.Float32, []int{6, len(at)}, out)
	}
	ninths := edited(random(4, 1, 3, 3), func(i int, _ []float64) float64 { return float64(min(8-i%9, 1)) / 9 })
	above := func(i, _ int) bool { return i == 0 }
	// scan are sums of rows of x, in tiles, of the elements before each, with itself if own.
	scan := func(tile int, own bool) *tensor.Tensor {
		return edited(x, func(i int, v []float64) float64 {
			sum := 0.0
			for j := i/20*20 + i%20/tile*tile; j < i; j++ {
				sum += v[j]
			}
			if own {
				sum += v[i]
			}
			return sum
		})
	}
	mask := func(other bool) *tensor.Tensor {
		v := make([]int64, 120)
		for i := range v {
			if (i%3 == 0) != other {
				v[i] = 1
			}
		}
		return tensor.New(tensor.Bool, []int{6, 20}, v).Rounded()
	}
	// causal is the attention of queries that see so many keys, those that they do not see in the sum or not.
	causal := func(seen int, hidden bool) *tensor.Tensor {
		row := -1
		return attended(func(scores []float64) {
			row++ // of 8 elements, which are computed in order
			r := row / 8 % 16
			sum := 0.0
			for c, s := range scores {
				if scores[c] = math.Exp(s); c > r || c <= r-seen {
					if scores[c] = 0; !hidden {
						continue
					}
				}
				sum += math.Exp(s)
			}
			for c := range scores {
				scores[c] /= sum
			}
		})
	}
	// lacking are losses whose logarithms are of the sum over 16 of 20 classes.
	lacking := edited(tensor.Full(tensor.Float32, []int{9}, 0.0), func(p int, _ []float64) float64 {
		scores := load(table)[20*p : 20*p+20]
		target := []int{3, 0, 8, 0, 2, 7, 19, 4, 4}[p]
		return math.Log(sumOf(scores[:16])) - scores[target]
	})
	long, tiles := random(4, 300), random(4, 64)
	cut := func(t *tensor.Tensor, bits int) *tensor.Tensor {
		return edited(t, func(i int, v []float64) float64 {
			return float64(math.Float32frombits(math.Float32bits(float32(v[i])) >> bits << bits))
		})
	}
	for _, tc := range []struct {
		op   string
		args []value.Value
		gave *tensor.Tensor
		want string
	}{
		{"torch.matmul", []value.Value{a, b}, kept(tensor.BFloat16.Round, 1),
			"sums are kept in bfloat16, rounded after each of 48 terms"},
		{"torch.matmul", []value.Value{a, b}, kept(tensor.Float16.Round, 16),
			"sums are kept in float16, rounded after every 16 of 48 terms"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			return tensor.BFloat16.Round(v[i])
		}), "results are rounded to bfloat16"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			if i%19 >= 16 {
				return 0
			}
			return v[i]
		}), "the last 3 of dimension 1 are zero, as if not written"},
		{attention, []value.Value{q, k, v}, swapped(run(attention, q, k, v)),
			"its dimension 1 is in the order 1 0 3 2"},
		{attention, []value.Value{q, k, v}, run(attention, q, swapped(k), swapped(v)),
			"key and value are read with neighbours exchanged along dimension 1"},
		{attention, []value.Value{q, k, v}, run(attention, q, k, v, nil, 0.0, false, math.Sqrt(1.0/32)),
			"scale is 1/sqrt(32), not 0.3536"},
		{attention, []value.Value{q, k, v}, run(attention, q, k.Slice(2, 0, 8, 1), v.Slice(2, 0, 8, 1)),
			"the last 8 of 16 keys are left out"},
		{norm, []value.Value{x, size, w, nil, 1e-5}, columns(func(v []float64) (float64, float64) {
			mean, sum := moments(v)
			return mean, math.Sqrt(sum/19 + 1e-5)
		}), "the variance is divided by n - 1, not by n"},
		{norm, []value.Value{x, size, w, nil, 1e-3}, columns(func(v []float64) (float64, float64) {
			mean, sum := moments(v)
			return mean, math.Sqrt(sum/20) + 1e-3
		}), "eps is added to the square root, not under it"},
		{norm, []value.Value{x, size, w, nil, 1e-5}, run(norm, x, size, w, nil, 3e-4), "eps is 0.0003, not 1e-05"},
		{"torch.softmax", []value.Value{x, int64(1)}, run("torch.softmax",
			edited(x, func(i int, v []float64) float64 { return 1.02 * v[i] }), int64(1)),
			"self is multiplied by 1.02"},
		{"torch.softmax", []value.Value{long, int64(1)}, run("torch.softmax",
			edited(long, func(i int, v []float64) float64 { return v[i] / 300 }), int64(1)),
			"self is multiplied by 0.00333, that is 1/300: dimension 1 of self has 300"},
		{"torch.mul", []value.Value{a, a}, edited(run("torch.mul", a, a), func(i int, v []float64) float64 {
			return 1.02 * float64(float32(v[i]))
		}), "all elements are multiplied by 1.02"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			if i%19%8 == 3 {
				return 0
			}
			return v[i]
		}), "it is zero at indices 3 11 of dimension 1, as if not written"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			if i/19 >= 8 && i/19 < 12 {
				i -= 4 * 19
			}
			return v[i]
		}), "its dimension 0 holds at 8 to 11 what is due at 4 to 7"},
		{"torch.exp", []value.Value{tiles}, run("torch.exp", edited(tiles, func(i int, v []float64) float64 {
			if i%64 >= 48 {
				return 0
			}
			return v[i]
		})), "the last 16 of dimension 1 of self are taken for 0"},
		{"torch.matmul", []value.Value{a, b}, run("torch.matmul", cut(a, 13), cut(b, 13)),
			"the factors are cut off after the bits of TF32 first"},
		{"torch.nn.functional.conv2d", []value.Value{images, kernels},
			run("torch.nn.functional.conv2d", cut(images, 16), cut(kernels, 16)),
			"the factors are cut off after the bits of bfloat16 first"},
		{"torch.exp", []value.Value{long}, edited(run("torch.exp", long), func(i int, v []float64) float64 {
			if i%300 == 7 {
				return v[i-1]
			}
			return v[i]
		}), "its dimension 1 holds at 7 what is due at 6"},
		{"torch.exp", []value.Value{long}, edited(run("torch.exp", long), func(i int, v []float64) float64 {
			if i%300 == 7 || i%300 == 290 {
				return v[i-6]
			}
			return v[i]
		}), "its dimension 1 holds at 7 290 what is due at 1 284"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			return v[i%17*19+i/17]
		}), "it is written in the order of dimensions 1 0"},
		{"torch.matmul", []value.Value{batches, factors}, run("torch.matmul", batches, factors.Slice(0, 0, 1, 1)),
			"other is read at the first index alone along dimension 0"},
		{"torch.matmul", []value.Value{batches, factors}, run("torch.matmul",
			edited(batches, func(i int, v []float64) float64 { return v[i/35*35+i%35%5*7+i%35/5] }), factors),
			"self is read as if its dimensions lay in memory in the order 0 2 1"},
		{"torch.nn.functional.conv2d", []value.Value{images, kernels, nil, int64(1), int64(1)}, edited(
			run("torch.nn.functional.conv2d", images, kernels, nil, int64(1), int64(1)),
			func(i int, v []float64) float64 { return v[i/36*36+i%6*6+i/6%6] }),
			"its dimensions 2 and 3 are exchanged"},
		{"torch.nn.functional.embedding", []value.Value{rows, table}, run("torch.nn.functional.embedding", rows,
			edited(table, func(i int, v []float64) float64 {
				if i < 20 {
					return 0
				}
				return v[i]
			})), "index 0 of dimension 0 of weight is taken for 0"},
		{attention, []value.Value{q, k, v}, run(attention, q, pairs(k), pairs(v)),
			"key and value are read at even indices alone along dimension 1"},
		{"torch.nn.functional.batch_norm", []value.Value{x, zeros, ones, w, bias},
			run("torch.nn.functional.batch_norm", x, zeros, ones, back(w), back(bias)),
			"weight and bias are read one back along dimension 0"},
		{attention, []value.Value{q, k, v}, attended(tiled(false)),
			"what tiles of 8 keys add is not rescaled where the largest score grows"},
		{attention, []value.Value{q, k, v}, attended(tiled(true)),
			"what tiles of 8 keys add and their sums are not rescaled where the largest score grows"},
		{attention, []value.Value{q, k, v}, attended(func(scores []float64) {
			sum := sumOf(scores)
			for c, s := range scores {
				scores[c] = tensor.BFloat16.Round(math.Exp(s) / sum)
			}
		}), "the weights are rounded to bfloat16"},
		{attention, []value.Value{q, k, v}, attended(func(scores []float64) {
			top, sum := slices.Max(scores), sumOf(scores)
			for c, s := range scores {
				scores[c] = tensor.BFloat16.Round(math.Exp(s-top)) / (sum / math.Exp(top))
			}
		}), "the exponentials of the scores are rounded to bfloat16"},
		{attention, []value.Value{q, k, v}, attended(func(scores []float64) {
			for c, s := range scores {
				scores[c] = tensor.BFloat16.Round(s)
			}
			sum := sumOf(scores)
			for c, s := range scores {
				scores[c] = math.Exp(s) / sum
			}
		}), "the scores are rounded to bfloat16"},
		{"torch.softmax", []value.Value{x, int64(1)}, exponentials(1, 20, 20), "1 is added to the sum of the exponentials"},
		{"torch.softmax", []value.Value{x, int64(1)}, edited(x, func(i int, v []float64) float64 {
			return math.Exp(v[i] - slices.Max(v[i/20*20:i/20*20+20]))
		}), "the exponentials are not divided by their sum"},
		{"torch.softmax", []value.Value{x, int64(1)}, edited(x, func(i int, v []float64) float64 {
			row := v[i/20*20 : i/20*20+20]
			first, all := slices.Max(row[:10]), slices.Max(row)
			own, sum := all, 0.0
			if i%20 < 10 {
				own = first
			}
			for k, s := range row {
				if k < 10 {
					sum += math.Exp(s - first)
				} else {
					sum += math.Exp(s - all)
				}
			}
			return math.Exp(v[i]-own) / sum
		}), "each 10 elements have their own maximum, to which their exponentials stay scaled"},
		{"torch.cumsum", []value.Value{x, int64(1)}, scan(8, true),
			"it begins anew after every 8 elements"},
		{"torch.cumsum", []value.Value{x, int64(1)}, scan(20, false),
			"each element lacks itself"},
		{"torch.index_add", []value.Value{table, int64(0), rows, x}, edited(table, func(i int, v []float64) float64 {
			if last, ok := map[int]int{3: 0, 0: 3, 8: 2, 2: 4, 7: 5}[i/20]; ok {
				return v[i] + load(x)[last*20+i%20]
			}
			return v[i]
		}), "of several additions to one place the last alone counts"},
		{"torch.index_add", []value.Value{table, int64(0), rows, x}, edited(table, func(i int, v []float64) float64 {
			if first, ok := map[int]int{3: 0, 0: 1, 8: 2, 2: 4, 7: 5}[i/20]; ok {
				return v[i] + load(x)[first*20+i%20]
			}
			return v[i]
		}), "of several additions to one place the 2nd is lost"},
		{group, []value.Value{images, int64(2)}, normalised(func(i, j int) bool { return i/36 == j/36 }),
			"each channel is a group"},
		{"torch.softmax", []value.Value{x, int64(1)}, exponentials(0, 16, 20), "the sum lacks the last 4 of 20 elements"},
		{"torch.softmax", []value.Value{x, int64(1)}, exponentials(0, 16, 16),
			"the last 4 of 20 elements are left out"},
		{attention, []value.Value{q, k, v, nil, 0.0, true}, edited(q, func(i int, _ []float64) float64 {
			if i/8%16 == 0 {
				return 0
			}
			return load(run(attention, q, k, v, before))[i]
		}), "the causal mask hides each query's own key"},
		{"torch.nn.functional.gelu", []value.Value{x}, edited(x, func(i int, v []float64) float64 {
			t := 1 / (1 + 0.47047*math.Abs(v[i])/math.Sqrt2)
			erf := 1 - (0.3480242*t-0.0958798*t*t+0.7478556*t*t*t)*math.Exp(-v[i]*v[i]/2)
			return v[i] / 2 * (1 + math.Copysign(erf, v[i]))
		}), "the error function is approximated by Abramowitz and Stegun's formula 7.1.25"},
		{"torch.nn.functional.hardswish", []value.Value{wide}, edited(wide, func(i int, v []float64) float64 {
			return v[i] * max(v[i]+3, 0) / 6
		}), "self + 3 is not limited to 6"},
		{"torch.nn.functional.interpolate", []value.Value{images.Slice(2, 0, 1, 1), two(1, 12), nil, "bilinear"},
			edges, "element o lies at o * step in input, not at (o + 1/2) * step - 1/2"},
		{"torch.nn.functional.interpolate", []value.Value{images, nil, 1.3, "bilinear"},
			run("torch.nn.functional.interpolate", images, two(7, 7), nil, "bilinear"),
			"scale_factor is taken for the quotient of the sizes"},
		{rms, []value.Value{x, size, w, 1e-5}, run(rms, x, size, edited(w, func(i int, v []float64) float64 {
			return 1 + v[i]
		}), 1e-5), "weight is 1 + weight"},
		{norm, []value.Value{x, size, w, nil, 1e-5}, columns(func(v []float64) (float64, float64) {
			mean, sum := moments(v)
			return mean, math.Sqrt(sum/20 + mean*mean + 1e-5)
		}), "the mean of squares stands for the variance"},
		{norm, []value.Value{x, size, w, nil, 1e-5}, short(16), "the statistics leave out the last 4 of 20 elements"},
		{norm, []value.Value{x, size, w, nil, 1e-5}, short(20), "the statistics take the last 4 of 20 elements for 0"},
		{batch, []value.Value{images, nil, nil, nil, nil, true}, normalised(func(i, j int) bool {
			return j < 144 && i/36%4 == j/36
		}), "the statistics are those of the first of the batch"},
		{group, []value.Value{images, int64(2)}, normalised(func(i, j int) bool {
			return i/144 == j/144 && i/36%2 == j/36%2
		}), "channel c belongs to group c mod 2, not c / 2"},
		{conv, []value.Value{images, kernels, nil, int64(1), int64(1)},
			run(conv, images, kernels, nil, int64(1), int64(2)).Slice(2, 0, 6, 1).Slice(3, 0, 6, 1),
			"all of input's padding is before it"},
		{conv, []value.Value{images, kernels, nil, int64(1), int64(1)},
			run(conv, images, kernels, nil, int64(1), int64(2)).Slice(2, 2, 6, 1).Slice(3, 2, 6, 1),
			"all of input's padding is behind it"},
		{conv, []value.Value{images, kernels}, run(conv, images, edited(kernels, func(i int, v []float64) float64 {
			if i%9 == 8 {
				return 0
			}
			return v[i]
		})), "the last of the 9 elements of each kernel is left out"},
		{conv, []value.Value{images, kernels, nil, int64(1), two(1, 2), two(1, 2)},
			run(conv, images, kernels, nil, int64(1), two(2, 1), two(2, 1)),
			"padding and dilation are that of the last two dimensions exchanged"},
		{conv, []value.Value{images, kernels, offset}, run(conv, half(images), half(kernels), offset),
			"the factors are rounded to bfloat16 first"},
		{pool, []value.Value{images, int64(3), int64(2), int64(1)},
			run(conv, images, ninths, nil, int64(2), int64(1), int64(1), int64(4)),
			"the last of the 9 elements of each window is left out"},
		{pool, []value.Value{images, int64(2)}, windows(above, 4), "the last of dimension -2 of each window is left out"},
		{average, []value.Value{images, int64(3)}, windows(above, 2),
			"the last of dimension -2 of each window is left out and does not count"},
		{"torch.nn.functional.adaptive_avg_pool1d", []value.Value{x, int64(3)},
			divided([][2]int{{0, 6}, {6, 13}, {13, 20}}), "windows end where the next begins"},
		{"torch.nn.functional.adaptive_avg_pool1d", []value.Value{x, int64(3)},
			divided([][2]int{{0, 8}, {6, 14}, {12, 20}}), "all windows have one size and one step"},
		{entropy, []value.Value{table, classes}, edited(run(entropy, table, classes),
			func(i int, v []float64) float64 { return v[i] * 9 / 8 }), "the sum is divided by 8, not by 9"},
		{entropy, []value.Value{table, classes, nil, nil, int64(4)},
			edited(run(entropy, table, classes, nil, nil, int64(4)),
				func(i int, v []float64) float64 { return v[i] * 7 / 9 }),
			"ignored positions count: the sum is divided by 9, not by 7"},
		{"torch.masked_fill", []value.Value{x, mask(false), -1.0}, run("torch.masked_fill", x, mask(true), -1.0),
			"mask is taken the other way round"},
		{"torch.index_select", []value.Value{table, int64(0), rows.Slice(0, 3, 3, 1)},
			run("torch.index_select", table, int64(0), tensor.New(tensor.Int64, []int{3}, []int64{1, 3, 8})),
			"index is one too high"},
		{"torch.clamp", []value.Value{x, nil, 0.5}, run("torch.clamp", x, 0.5), "max is taken for min"},
		{conv, []value.Value{images, kernels, nil, int64(1), int64(2), int64(2)},
			run(conv, images, kernels, nil, int64(1), int64(2)).Slice(2, 0, 6, 1).Slice(3, 0, 6, 1),
			"dilation is [1, 1], not [2, 2]"},
		{"torch.exp", []value.Value{x}, edited(x, func(i int, v []float64) float64 {
			return math.Exp(math.Max(v[i], -0.5))
		}), "self is limited to -0.5 from below"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			return v[(i+14*19)%len(v)]
		}), "its dimension 0 is rolled by 3"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			return v[len(v)-1-i]
		}), "it is written backwards from dimension 0 on"},
		{"torch.nn.functional.softplus", []value.Value{x}, edited(x, func(i int, v []float64) float64 {
			if v[i] > 0.1 {
				return v[i]
			}
			return math.Log1p(math.Exp(v[i]))
		}), "threshold is 0.1, not 20"},
		{"torch.sigmoid", []value.Value{x}, edited(x, func(i int, v []float64) float64 {
			if v[i] > 0.1 {
				return v[i]
			}
			return 1 / (1 + math.Exp(-v[i]))
		}), "where self is above 0.1, it is computed as self"},
		{"torch.tanh", []value.Value{x}, edited(x, func(i int, v []float64) float64 {
			return v[i] * (27 + v[i]*v[i]) / (27 + 9*v[i]*v[i])
		}), "it is computed by (27 + x^2)*x/(27 + 9*x^2) with x = self"},
		{"torch.tanh", []value.Value{x}, edited(x, func(i int, v []float64) float64 {
			return v[i] * (26 + v[i]*v[i]) / (26 + 9*v[i]*v[i])
		}), "another function of self, wrong by up to 1.4 % where it is -1.208: an approximation that is too coarse?"},
		{"torch.tanh", []value.Value{x}, edited(run("torch.tanh", x), func(i int, v []float64) float64 {
			return v[i] * (1.013 + 0.011*float64((i/20)*(i/20)%5))
		}), "each index of dimension 0 is multiplied by a factor of its own, between 1.013 and 1.057"},
		{"torch.tanh", []value.Value{x}, edited(run("torch.tanh", x), func(i int, v []float64) float64 {
			return v[i] * (1 + 0.011*float64((i/20)*(i/20)%5))
		}), "each of 4 of 6 indices of dimension 0 is multiplied by a factor of its own, between 1.011 and 1.044; the others " +
			"are right"},
		{"torch.quantile", []value.Value{x, 0.3, int64(1)},
			run("torch.kthvalue", x, int64(6), int64(1)),
			"interpolation is 'lower', not 'linear'"},
		{"torch.cdist", []value.Value{a, a}, edited(run("torch.cdist", a, a), func(i int, v []float64) float64 {
			return v[i] * v[i]
		}), "the result is squared"},
		{norm, []value.Value{loud, size, w, nil, 1e-5}, edited(run(norm, loud, size, w, nil, 1e-5),
			func(i int, v []float64) float64 {
				if mean, sum := moments(load(loud)[i/20*20 : i/20*20+20]); sum/20 > 1 && mean < 1e9 {
					return v[i] / load(w)[i%20]
				}
				return v[i]
			}), "in rows where the variance of input is above 2: weight is left out"},
		{norm, []value.Value{x, size, nil, nil, 1e-5}, edited(run(norm, x, size, nil, nil, 1e-5),
			func(i int, v []float64) float64 {
				if i%20 >= 16 {
					return 0.5 * v[i]
				}
				return v[i]
			}), "at indices 16 to 19 of dimension 1: elements are multiplied by 0.5"},
		{"torch.nn.functional.selu", []value.Value{narrow}, edited(run("torch.nn.functional.selu", narrow),
			func(i int, v []float64) float64 {
				return v[i] / max(1, math.Copysign(1.0507009873554805, -v[i]))
			}).Rounded(), "scale is missing where x is negative"},
		{"torch.heaviside", []value.Value{edited(x, func(i int, v []float64) float64 { return 2.5 * float64(i%3-1) }),
			tensor.Full(tensor.Float32, nil, 0.5)}, edited(x, func(i int, v []float64) float64 {
			return float64(i % 3 / 2)
		}), "where self is 0, it is 0, not 0.5"},
		{"torch.linalg.matrix_exp", []value.Value{squares}, edited(squares, func(i int, v []float64) float64 {
			return math.Exp(v[i])
		}).Rounded(), "it is computed as exp"},
		{"torch.std", []value.Value{a, int64(1)}, edited(run("torch.std", a, int64(1)), func(i int,
			v []float64) float64 {
			return v[i] * v[i]
		}), "the result is squared"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			return math.Max(v[i], 0)
		}), "negative elements of the result are set to 0"},
		{"torch.matmul", []value.Value{a, b}, run("torch.matmul", edited(a, func(i int, v []float64) float64 {
			if i%48/8 == 3 {
				return 2 * v[i]
			}
			return v[i]
		}), b), "indices 24 to 31 of dimension 1 of self are counted twice"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			if i/19 < 8 {
				return v[i]
			}
			for k := 8; k < 16; k++ { // of the sums
				v[i] -= load(a)[i/19*48+k] * load(b)[k*19+i%19]
			}
			return v[i]
		}), "at indices 8 to 16 of dimension 0: indices 8 to 15 of dimension 1 of self are left out"},
		{"torch.add", []value.Value{x, y}, edited(run("torch.add", x, y), func(i int, v []float64) float64 {
			if i >= 116 {
				return load(x)[i]
			}
			return v[i]
		}), "at index 5 of dimension 0, indices 16 to 19 of dimension 1: it is self"},
		{"torch.matmul", []value.Value{square, square}, edited(run("torch.matmul", square, square),
			func(i int, v []float64) float64 { return v[i] + load(square)[i] }), "self is added"},
		{"torch.matmul", []value.Value{square, square}, edited(run("torch.matmul", square, square),
			func(i int, v []float64) float64 {
				if i%20 < i/20 {
					return 0
				}
				return v[i]
			}), "elements below the diagonal are zero, as if not written"},
		{"torch.matmul", []value.Value{batches, factors}, edited(run("torch.matmul", batches, factors),
			func(i int, v []float64) float64 { return v[i/4%8*4+i%4] }), "its sequence of 10 rows holds at 8 to 9 what is due at 0 to 1"},
		{"torch.matmul", []value.Value{a, b}, run("torch.matmul", quantized(a, 48), b),
			"self is rounded to 8 bits, scaled by index of dimension 0"},
		{"torch.mul", []value.Value{heads, x.Slice(0, 0, 4, 1)}, edited(run("torch.mul", heads, x.Slice(0, 0, 4, 1)),
			func(i int, _ []float64) float64 { return load(heads)[i] * load(x)[i/80%3*20+i%20] }),
			"other is read along dimension 0 of the result, not along 1"},
		{"torch.nn.functional.embedding", []value.Value{far, names}, run("torch.nn.functional.embedding",
			tensor.New(tensor.Int64, []int{3}, []int64{200 & 127, 7, 299 & 127}), names),
			"input is taken modulo 128"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			return math.Max(math.Min(v[i], 4), -4)
		}), "results are limited to -4 to 4"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", a, b), func(i int, v []float64) float64 {
			return math.Min(v[i], 0)
		}), "results above zero are zero"},
		{"torch.matmul", []value.Value{a, b}, edited(run("torch.matmul", edited(a, func(i int, v []float64) float64 {
			if i%48 == 47 {
				return 0
			}
			return v[i]
		}), b), func(i int, v []float64) float64 { return 1.01 * v[i] }),
			"the last of the 48 terms of each sum is left out, and all elements are multiplied by 1.01"},
		{rms, []value.Value{x, size, w, 0.0}, edited(run(rms, x, size, w, 0.0), func(i int, v []float64) float64 {
			return v[i] * math.Sqrt(32.0/20)
		}), "the statistics count zeros that fill up 20 elements to 32"},
		{"torch.linalg.vector_norm", []value.Value{a, 2.0, int64(1)}, run("torch.linalg.vector_norm", a, math.Inf(1),
			int64(1)), "ord is +Inf, not 2"},
		{attention, []value.Value{q, k, v}, attended(func(scores []float64) {
			sum := sumOf(scores)
			for c, s := range scores {
				scores[c] = math.Exp(s) / (sum + 16)
			}
		}), "16 keys that pad them to 32 count with a score of 0"},
		{attention, []value.Value{q, k, v}, attended(func(scores []float64) {
			for c := 8; c < 16; c++ {
				scores[c] += math.Ln2
			}
			sum := sumOf(scores)
			for c, s := range scores {
				scores[c] = math.Exp(s) / sum
			}
		}), "keys 8 to 15 are counted twice"},
		{attention, []value.Value{q, k, v, nil, 0.0, true}, causal(8, false), "each query sees the last 8 keys alone"},
		{attention, []value.Value{q, k, v, nil, 0.0, true}, causal(16, true),
			"keys that a query does not see count in the sum of its weights"},
		{norm, []value.Value{x, size, w, bias, 1e-5}, edited(x, func(i int, v []float64) float64 {
			mean, sum := moments(v[i/20*20 : i/20*20+20])
			return ((v[i]-mean)/math.Sqrt(sum/20+1e-5) + load(bias)[i%20]) * load(w)[i%20]
		}), "bias is added before weight is multiplied"},
		{norm, []value.Value{x, size, w, nil, 1e-5}, columns(func(v []float64) (float64, float64) {
			_, sum := moments(v)
			return 0, math.Sqrt(sum/20 + 1e-5)
		}), "the mean is not subtracted, the variance is about it"},
		{norm, []value.Value{x, size, w, nil, 1e-5}, columns(func(v []float64) (float64, float64) {
			mean, _ := moments(v)
			squares := 0.0
			for _, half := range [][]float64{v[:10], v[10:]} {
				m := 0.0
				for _, x := range half {
					m += x / 10
				}
				for _, x := range half {
					squares += (x - m) * (x - m)
				}
			}
			return mean, math.Sqrt(squares/20 + 1e-5)
		}), "the variance is the mean of those of 2 parts of a row"},
		{norm, []value.Value{x, size, w, nil, 1e-5}, edited(x, func(i int, v []float64) float64 {
			first := i / 80 * 80 // of four rows
			mean, sum := moments(v[first : first+20])
			return (v[i] - mean) / math.Sqrt(sum/20+1e-5) * load(w)[i%20]
		}), "the statistics are those of the first of 4 rows"},
		{batch, []value.Value{images, nil, nil, nil, nil, true},
			normalised(func(i, j int) bool { return i/36 == j/36 }), "the statistics are those of each of the batch"},
		{"torch.nn.functional.max_pool2d", []value.Value{images, int64(2)},
			windows(func(int, int) bool { return true }, 4), "it is computed as avg_pool2d"},
		{entropy, []value.Value{table, classes, nil, nil, int64(-100), nil, "none"}, lacking,
			"the sum of exponentials lacks the last 4 of 20 classes"},
	} {
		t.Run(tc.op+"/"+tc.want, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "input.pth"), tc.op, tc.args)
			write(t, filepath.Join(dir, "output.pth"), tc.op, []value.Value{tc.gave.Rounded()})
			causes := explain(entries(t, dir)[0], opt)
			if len(causes) == 0 || !says(causes[0], tc.want) {
				t.Errorf("causes %+v, want first %q", causes, tc.want)
			}
		})
	}
}

// says reports whether a cause has a text, which formulas may follow in place of what stays.
func says(k causes.Cause, want string) bool {
	text, formulas, _ := strings.Cut(k.Text, ": it computes ")
	if formulas != "" && strings.HasSuffix(want, " stays") {
		want = want[:strings.LastIndex(want, ": ")]
	}
	return text == want
}
