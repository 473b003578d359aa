package replay_test

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A largeCall is a call that is large for the threshold of these tests, with what a sound
// implementation gives, which a test may spoil.
type largeCall struct {
	op      string
	args    []*tensor.Tensor
	kwargs  *value.Dict
	output  []float64
	grads   [][]float64 // of what the last node received, in its order
	gradOut *tensor.Tensor
	shapes  [][]int // of grads
	shape   []int   // of the result
	dt      tensor.DType
	dir     string
}

// newLarge runs the call on the reference and rounds what it gives.
func newLarge(t testing.TB, op string, dt tensor.DType, r *rand.Rand, shapes ...[]int) *largeCall {
	t.Helper()
	return newLargeWith(t, op, dt, r, &value.Dict{}, shapes...)
}

// newLargeWith is newLarge with keyword arguments, which get no gradients.
func newLargeWith(t testing.TB, op string, dt tensor.DType, r *rand.Rand, kwargs *value.Dict,
	shapes ...[]int) *largeCall {
	t.Helper()
	g := opdef.Gen{R: r}
	l := &largeCall{op: op, dt: dt, kwargs: kwargs}
	var args []value.Value
	for _, shape := range shapes {
		x := g.Normal(dt, shape...)
		x.RequiresGrad = true
		l.args, args = append(l.args, x), append(args, x)
	}
	call, err := options(t).Registry.Bind(op, args, l.kwargs)
	if err != nil {
		t.Fatal(err)
	}
	f, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	l.shape = f.Outs[0].Shape
	l.output = rounded(f.Outs[0])
	l.gradOut = g.Normal(dt, l.shape...)
	out := []*tensor.Tensor{l.gradOut}
	if n, ok, err := call.Node(f, out); err != nil {
		t.Fatal(err)
	} else if ok && n.Grads != nil {
		for _, x := range n.Grads {
			l.grads, l.shapes = append(l.grads, rounded(x)), append(l.shapes, x.Shape)
		}
		return l
	}
	grads, err := call.Backward(f, out, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range call.Tensors()[:len(shapes)] {
		x := grads[a.Name][0]
		l.grads, l.shapes = append(l.grads, rounded(x)), append(l.shapes, x.Shape)
	}
	return l
}

func rounded(t *tensor.Tensor) []float64 {
	return append([]float64{}, tensor.Data[float64](t.Rounded())...)
}

// replay compares the call; spoil changes what was recorded of the result, or of gradient i.
func (l *largeCall) replay(t testing.TB, sample *replay.Sampling,
	spoil func(output []float64, grads [][]float64)) *replay.Outcome {
	t.Helper()
	output := append([]float64{}, l.output...)
	var grads [][]float64
	for _, g := range l.grads {
		grads = append(grads, append([]float64{}, g...))
	}
	if spoil != nil {
		spoil(output, grads)
	}
	stored := func(shape []int, data []float64) value.Value { return tensor.New(l.dt, shape, data).Rounded() }
	if l.dir == "" {
		l.dir = t.TempDir()
		var args []value.Value
		for _, x := range l.args {
			args = append(args, x)
		}
		l.write(t, "input", args...)
		l.write(t, "grad_outputs", l.gradOut)
	}
	l.write(t, "output", stored(l.shape, output))
	var gs []value.Value
	for i, g := range grads {
		gs = append(gs, stored(l.shapes[i], g))
	}
	l.write(t, "grad_inputs", gs...)
	opt := options(t)
	opt.Sample = sample
	return replay.Run(entries(t, l.dir)[0], opt)
}

// write writes a file of the capture.
func (l *largeCall) write(t testing.TB, name string, args ...value.Value) {
	t.Helper()
	record := &capture.Record{Name: l.op, Args: args, Kwargs: l.kwargs, Identifier: "1/2026-11-20-21-06-02/" + name}
	if err := pthformat.WriteFile(filepath.Join(l.dir, name+".pth"), record.Value()); err != nil {
		t.Fatal(err)
	}
}

// sampling is a threshold that calls of these tests are beyond.
var sampling = &replay.Sampling{Over: 1e6, Elements: 1 << 10}

func TestSampledSound(t *testing.T) {
	shorttest.Computes(t)
	for _, x := range []struct {
		op     string
		shapes [][]int
	}{
		{"torch.matmul", [][]int{{300, 200}, {200, 700}}},
		{"torch.mm", [][]int{{300, 1000}, {1000, 400}}},
		{"torch.bmm", [][]int{{5, 200, 300}, {5, 300, 280}}},
		{"torch.nn.functional.linear", [][]int{{300, 256}, {600, 256}, {600}}},
		{"torch.nn.functional.linear", [][]int{{300, 256}, {600, 256}}},
		{"torch.addmm", [][]int{{400}, {300, 200}, {200, 400}}},
		{"torch.addmm", [][]int{{300, 400}, {300, 200}, {200, 400}}},
		{"torch.conv2d", [][]int{{4, 40, 14, 14}, {300, 40, 3, 3}, {300}}},
		{"torch.conv1d", [][]int{{20, 3, 300}, {32, 3, 5}}},
		{"torch.conv_transpose2d", [][]int{{4, 40, 7, 7}, {40, 300, 3, 3}, {300}}},
		{"torch.baddbmm", [][]int{{3, 200, 300}, {3, 200, 100}, {3, 100, 300}}},
	} {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float64} {
			l := newLarge(t, x.op, dt, rand.New(rand.NewPCG(1, 2)), x.shapes...)
			o := l.replay(t, sampling, nil)
			if !o.Sampled() {
				t.Errorf("%s %s %v: checked whole", x.op, dt, x.shapes)
			}
			for _, r := range o.Results {
				if r.Verdict != verdict.Pass {
					t.Errorf("%s %s %v %s %s: %s: %s", x.op, dt, x.shapes, r.Phase, r.Target, r.Verdict, r.Reason)
				}
				if r.Compared == nil {
					continue
				}
				if s := r.Sampled; s == nil || s.Checked < r.Compared.Numel && !(s.Projected < 1) {
					t.Errorf("%s %s %v %s %s: looked at %+v of %d", x.op, dt, x.shapes, r.Phase, r.Target, s,
						r.Compared.Numel)
				}
			}
		}
	}
}

// TestSampledGroups: of a convolution with groups some images are checked, and all of it is projected;
// one wrong element is found wherever it is.
func TestSampledGroups(t *testing.T) {
	shorttest.Computes(t)
	for _, x := range []struct {
		op     string
		groups int64
		shapes [][]int
	}{
		{"torch.conv2d", 4, [][]int{{300, 8, 12, 12}, {16, 2, 3, 3}, {16}}},
		{"torch.conv2d", 16, [][]int{{300, 16, 12, 12}, {16, 1, 3, 3}}},
		{"torch.conv_transpose2d", 2, [][]int{{300, 8, 12, 12}, {8, 6, 3, 3}, {12}}},
	} {
		kwargs := &value.Dict{Items: []value.Item{{Key: "groups", Value: x.groups}}}
		l := newLargeWith(t, x.op, tensor.Float32, rand.New(rand.NewPCG(1, 2)), kwargs, x.shapes...)
		o := l.replay(t, sampling, nil)
		if !o.Sampled() {
			t.Errorf("%s of %d groups: checked whole", x.op, x.groups)
		}
		for _, r := range o.Results {
			if r.Verdict != verdict.Pass {
				t.Errorf("%s of %d groups, %s %s: %s: %s", x.op, x.groups, r.Phase, r.Target, r.Verdict, r.Reason)
			}
		}
		for _, at := range []int{0, len(l.output) / 3, len(l.output) - 1} {
			o := l.replay(t, sampling, func(output []float64, grads [][]float64) {
				output[at] += 0.01
				grads[0][at%len(grads[0])] += 0.01
				grads[1][at%len(grads[1])] += 100
			})
			for i, r := range o.Results {
				if i < 3 && r.Verdict != verdict.Fail {
					t.Errorf("%s of %d groups, %s %s, element %d: %s", x.op, x.groups, r.Phase, r.Target, at, r.Verdict)
				}
			}
		}
	}
}

// TestSampledAttention: of an attention some batches and heads are checked, and some queries where
// their position does not matter; what is wrong throughout is found in each value.
func TestSampledAttention(t *testing.T) {
	shorttest.Computes(t)
	const op = "torch.nn.functional.scaled_dot_product_attention"
	g := opdef.Gen{R: rand.New(rand.NewPCG(3, 4))}
	hides := tensor.New(tensor.Bool, []int{96, 80}, make([]int64, 96*80))
	for i := range 96 {
		for j := range 80 {
			tensor.Data[int64](hides)[i*80+j] = int64((i + j) % 2)
		}
	}
	shapes := func(keyHeads int) [][]int {
		return [][]int{{2, 8, 96, 16}, {2, keyHeads, 80, 16}, {2, keyHeads, 80, 24}}
	}
	for _, x := range []struct {
		name   string
		shapes [][]int
		kwargs []value.Item
	}{
		{"plain", shapes(8), nil},
		{"no heads", [][]int{{300, 32}, {200, 32}, {200, 32}}, nil},
		{"causal", shapes(8), []value.Item{{Key: "is_causal", Value: true}}},
		{"grouped", shapes(2), []value.Item{{Key: "enable_gqa", Value: true}}},
		{"one head of keys", shapes(1), nil},
		{"mask", shapes(8), []value.Item{{Key: "attn_mask", Value: constant(g.Normal(tensor.Float32, 8, 96, 80))}}},
		{"mask of keys", shapes(8), []value.Item{{Key: "attn_mask", Value: constant(g.Normal(tensor.Float32, 1, 80))}}},
		{"bool mask", shapes(8), []value.Item{{Key: "attn_mask", Value: hides.Rounded()}}},
	} {
		l := newLargeWith(t, op, tensor.Float32, rand.New(rand.NewPCG(1, 2)), &value.Dict{Items: x.kwargs}, x.shapes...)
		o := l.replay(t, &replay.Sampling{Over: 1e5, Elements: 1 << 10}, nil)
		for _, r := range o.Results {
			s := r.Sampled
			if r.Verdict != verdict.Pass || s == nil || !math.IsNaN(s.Projected) {
				t.Errorf("%s %s %s: %s: %s, %+v", x.name, r.Phase, r.Target, r.Verdict, r.Reason, s)
				continue
			}
			cut := x.name != "no heads" && !(x.name == "one head of keys" && r.Phase == replay.Backward) ||
				r.Phase == replay.Forward
			if cut && s.Checked*2 > r.Compared.Numel || s.Checked == 0 {
				t.Errorf("%s %s %s: %d of %d elements were looked at", x.name, r.Phase, r.Target, s.Checked,
					r.Compared.Numel)
			}
		}
		for wrong := -1; wrong < len(l.grads); wrong++ {
			o := l.replay(t, &replay.Sampling{Over: 1e5, Elements: 1 << 10}, func(output []float64, grads [][]float64) {
				spoiled := output
				if wrong >= 0 {
					spoiled = grads[wrong]
				}
				for i := range spoiled {
					spoiled[i] *= 1.001
				}
			})
			if wrong < 0 && !o.FailedForward() || wrong >= 0 && (o.FailedForward() || !o.FailedBackward()) {
				t.Errorf("%s: value %d times 1.001: %s: %+v", x.name, wrong, o.Verdict(), o.Results)
			}
		}
	}
}

// TestSampledWild: rows without finite elements are as sound in parts as whole, unless finite
// ones are due.
func TestSampledWild(t *testing.T) {
	l := newLarge(t, "torch.mm", tensor.Float32, rand.New(rand.NewPCG(5, 6)), []int{300, 200}, []int{200, 600})
	wild := append([]float64{}, tensor.Data[float64](l.args[0])...)
	for i := range 20 {
		wild[i*200] = math.NaN()
	}
	a := tensor.New(tensor.Float32, []int{300, 200}, wild).Rounded()
	a.RequiresGrad = true
	for i := range 20 {
		for j := range 600 {
			l.output[i*600+j] = math.NaN()
		}
	}
	for j := range 600 { // of the first inner index
		l.grads[1][j] = math.NaN()
	}
	sound := *l
	sound.args = []*tensor.Tensor{a, l.args[1]}
	if o := sound.replay(t, sampling, nil); o.Verdict() != verdict.Pass {
		t.Errorf("sound: %s: %+v", o.Verdict(), o.Results)
	}
	wrong := *l
	if o := wrong.replay(t, sampling, nil); !o.FailedForward() || !o.FailedBackward() {
		t.Errorf("nan where numbers are due: %s: %+v", o.Verdict(), o.Results)
	}
}

// A planted is a mistake in a matrix of recorded values that l's call gave.
type planted struct {
	name  string
	plant func(l *largeCall, x []float64, rows, cols int, r *rand.Rand)
	least float64 // share of seeds with which it has to be found, of float32 and of bfloat16
	low   float64
}

// mistakes are those that kernels of large products make.
var mistakes = []planted{
	{"one element of another sign", func(_ *largeCall, x []float64, _, _ int, r *rand.Rand) {
		i := r.IntN(len(x))
		for math.Abs(x[i]) < 1 { // what is nearly 0 may be of any sign
			i = r.IntN(len(x))
		}
		x[i] = -x[i]
	}, 0.95, 0.9},
	{"one element of another place", func(_ *largeCall, x []float64, _, _ int, r *rand.Rand) {
		x[r.IntN(len(x))] = x[r.IntN(len(x))]
	}, 0.9, 0.8},
	{"a tile of 16 x 16 left out", func(_ *largeCall, x []float64, rows, cols int, r *rand.Rand) {
		zeroTile(x, rows, cols, 16, r)
	}, 1, 1},
	{"a tile of 64 x 64 left out", func(_ *largeCall, x []float64, rows, cols int, r *rand.Rand) {
		zeroTile(x, rows, cols, 64, r)
	}, 1, 1},
	{"a row of the one before", func(_ *largeCall, x []float64, rows, cols int, r *rand.Rand) {
		i := 1 + r.IntN(rows-1)
		copy(x[i*cols:(i+1)*cols], x[(i-1)*cols:i*cols])
	}, 1, 1},
	{"a column left out", func(_ *largeCall, x []float64, rows, cols int, r *rand.Rand) {
		j := r.IntN(cols)
		for i := range rows {
			x[i*cols+j] = 0
		}
	}, 1, 1},
	{"the last 16 terms left out", func(l *largeCall, x []float64, rows, cols int, _ *rand.Rand) {
		a, b := tensor.Data[float64](l.args[0]), tensor.Data[float64](l.args[1])
		k := l.args[0].Shape[1]
		for i := range rows {
			for j := range cols {
				for q := k - 16; q < k; q++ {
					x[i*cols+j] -= a[i*k+q] * b[q*cols+j]
				}
			}
		}
	}, 1, 1},
	{"a factor 1.001", func(_ *largeCall, x []float64, _, _ int, _ *rand.Rand) {
		for i := range x {
			x[i] *= 1.001
		}
	}, 1, 0}, // less than a rounding to bfloat16: only many elements together show it
	{"rounded to bfloat16", func(_ *largeCall, x []float64, _, _ int, _ *rand.Rand) {
		for i := range x {
			x[i] = tensor.BFloat16.Round(x[i])
		}
	}, 1, 0},
}

func zeroTile(x []float64, rows, cols, size int, r *rand.Rand) {
	i0, j0 := r.IntN((rows+size-1)/size)*size, r.IntN((cols+size-1)/size)*size
	for i := i0; i < min(i0+size, rows); i++ {
		for j := j0; j < min(j0+size, cols); j++ {
			x[i*cols+j] = 0
		}
	}
}

// matrix is a shape as rows and columns.
func matrix(shape []int) (rows, cols int) {
	half := len(shape) / 2
	return tensor.Numel(shape[:half]), tensor.Numel(shape[half:])
}

// TestSampledPlanted plants mistakes in large calls, and counts with how many seeds they are
// found. OPTOOL_PLANTED=100 has it take so many, of larger calls, and print the table.
func TestSampledPlanted(t *testing.T) {
	shorttest.Computes(t)
	seeds, sample := 2, sampling
	calls := map[string][][]int{
		"torch.mm":     {{320, 200}, {200, 700}},
		"torch.conv2d": {{3, 24, 12, 12}, {80, 24, 3, 3}},
	}
	all := os.Getenv("OPTOOL_PLANTED")
	if all != "" {
		var err error
		if seeds, err = strconv.Atoi(all); err != nil {
			t.Fatal(err)
		}
		sample = &replay.Sampling{Over: 1e8, Elements: 1 << 14}
		calls["torch.mm"] = [][]int{{1024, 1024}, {1024, 3000}}
		calls["torch.conv2d"] = [][]int{{32, 64, 14, 14}, {512, 64, 3, 3}}
	}
	for op, shapes := range calls {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			l := newLarge(t, op, dt, rand.New(rand.NewPCG(3, 4)), shapes...)
			for _, p := range mistakes {
				least := p.least
				if dt == tensor.BFloat16 {
					least = p.low
				}
				for _, phase := range []replay.Phase{replay.Forward, replay.Backward} {
					terms := strings.HasPrefix(p.name, "the last") // of the result of a product of matrices
					if least == 0 && all == "" || terms && (phase == replay.Backward || op != "torch.mm") {
						continue
					}
					found, share := l.found(t, p, phase, sample, seeds)
					t.Logf("| %s %s | %s | %s | %d of %d | %.2g %% |", op, dt, p.name, phase, found, seeds, 100*share)
					if float64(found) < math.Floor(least*float64(seeds)) {
						t.Errorf("%s %s %s in %s: found with %d of %d seeds, want %g of them", op, dt, p.name,
							phase, found, seeds, least)
					}
				}
			}
		}
	}
}

// found plants a mistake with several seeds and counts with how many it is found; share is that
// of the elements that were compared one by one.
func (l *largeCall) found(t *testing.T, p planted, phase replay.Phase, sample *replay.Sampling,
	seeds int) (found int, share float64) {
	t.Helper()
	checked, numel := 0, 0
	var spoiled []float64 // the result
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		o := l.replay(t, sample, func(output []float64, grads [][]float64) {
			if phase == replay.Forward {
				rows, cols := matrix(l.shape)
				p.plant(l, output, rows, cols, r)
				spoiled = output
				return
			}
			i := seed % 2
			rows, cols := matrix(l.shapes[i])
			p.plant(l, grads[i], rows, cols, r)
		})
		for _, x := range o.Results {
			if x.Compared != nil && x.Sampled != nil {
				checked, numel = checked+x.Sampled.Checked, numel+x.Compared.Numel
			}
			if x.Verdict == verdict.Fail && phase == replay.Forward && x.Phase == phase {
				at := 0
				for d, i := range x.Compared.WorstIndex {
					at = at*l.shape[d] + i
				}
				if got := x.Compared.Actual.(float64); got != l.dt.Round(spoiled[at]) ||
					!strings.Contains(x.Reason, "at "+tensor.ShapeString(x.Compared.WorstIndex)) {
					t.Errorf("%s %s %s: %s: there is %g at %v", l.op, l.dt, p.name, x.Reason, spoiled[at],
						x.Compared.WorstIndex)
				}
			}
			if x.Verdict == verdict.Fail && x.Phase != phase {
				t.Errorf("%s %s %s in %s: %s fails: %s", l.op, l.dt, p.name, phase, x.Target, x.Reason)
			}
		}
		if o.Verdict() == verdict.Fail {
			found++
		}
	}
	return found, float64(checked) / float64(max(numel, 1))
}

// constant is a tensor that gets no gradient.
func constant(t *tensor.Tensor) *tensor.Tensor {
	t.RequiresGrad = false
	return t
}
