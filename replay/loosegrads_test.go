package replay_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/internal/shorttest"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A rowKernel gives the result of a row, and the gradient for the incoming one, unrounded. lacks is how many terms its
// sums lack in the backward pass, after every of which sums are rounded.
type rowKernel func(x, g []float64, lacks int, round func(float64) float64) (y, grad []float64)

// total is the sum of f of the first n, rounded after each term.
func total(n int, round func(float64) float64, f func(i int) float64) (sum float64) {
	for i := range n {
		sum = round(sum + round(f(i)))
	}
	return sum
}

func unrounded(x float64) float64 { return x }

// softmaxOf is a softmax whose backward pass reads what kept makes of its result.
func softmaxOf(log bool, kept func(float64) float64) rowKernel {
	return func(x, g []float64, lacks int, round func(float64) float64) (y, grad []float64) {
		sum := total(len(x), unrounded, func(i int) float64 { return math.Exp(x[i]) })
		for _, v := range x {
			p := math.Exp(v) / sum
			if log {
				p = math.Log(p)
			}
			y = append(y, p)
		}
		n := len(x) - lacks
		if log {
			dot := total(n, round, func(i int) float64 { return g[i] })
			for i := range x {
				grad = append(grad, g[i]-math.Exp(kept(y[i]))*dot)
			}
			return y, grad
		}
		dot := total(n, round, func(i int) float64 { return kept(y[i]) * g[i] })
		for i := range x {
			grad = append(grad, kept(y[i])*(g[i]-dot))
		}
		return y, grad
	}
}

// normOf is a layer_norm, or an rms_norm.
func normOf(rms bool) rowKernel {
	return func(x, g []float64, lacks int, round func(float64) float64) (y, grad []float64) {
		n := float64(len(x))
		mean := total(len(x), unrounded, func(i int) float64 { return x[i] / n })
		if rms {
			mean = 0
		}
		variance := total(len(x), unrounded, func(i int) float64 { return (x[i] - mean) * (x[i] - mean) / n })
		r := 1 / math.Sqrt(variance+1e-5)
		for _, v := range x {
			y = append(y, (v-mean)*r)
		}
		up := total(len(x)-lacks, round, func(i int) float64 { return g[i] }) / n
		dot := total(len(x)-lacks, round, func(i int) float64 { return g[i] * y[i] }) / n
		if rms {
			up = 0
		}
		for i := range x {
			grad = append(grad, r*(g[i]-up-y[i]*dot))
		}
		return y, grad
	}
}

// TestLooseGradients: of gradients in 16 bits that a coarse accumulator would explain, what a mistake of their sums
// explains better is a failure, and what follows from a rounded result is right. What follows from a wrong one says so.
func TestLooseGradients(t *testing.T) {
	shorttest.Computes(t)
	const rows, width = 24, 133
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	list := value.NewList(int64(width))
	softmax, norm := []value.Value{int64(-1)}, []value.Value{list, nil, nil, 1e-5}
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		r := rand.New(rand.NewPCG(4, 2))
		draw := func(size float64) []float64 {
			v := make([]float64, rows*width)
			for i := range v {
				v[i] = dt.Round(size * r.NormFloat64())
			}
			return v
		}
		x, g := draw(2), draw(1)
		too := func(x float64) float64 { return dt.Round(1.2 * x) }
		for _, tc := range []struct {
			name, op string
			args     []value.Value
			kernel   rowKernel
			lacks    int
			round    func(float64) float64
			result   func(float64) float64
			want     verdict.Verdict
			reason   string
		}{
			{"right", "softmax", softmax, softmaxOf(false, unrounded), 0, unrounded, dt.Round, verdict.Pass, ""},
			{"reads the rounded result", "softmax", softmax, softmaxOf(false, dt.Round), 0, unrounded, dt.Round,
				verdict.Pass, ""},
			{"coarse sum", "softmax", softmax, softmaxOf(false, dt.Round), 0, dt.Round, dt.Round, verdict.Warn,
				"accumulated in"},
			{"lacks one", "softmax", softmax, softmaxOf(false, unrounded), 1, unrounded, dt.Round, verdict.Fail,
				"the sum in the gradient lacks the last 1 of 133 terms"},
			{"lacks five", "softmax", softmax, softmaxOf(false, dt.Round), 5, unrounded, dt.Round, verdict.Fail,
				"the sum in the gradient lacks the last 5 of 133 terms"},
			{"reads the wrong result", "softmax", softmax, softmaxOf(false, too), 0, unrounded, too, verdict.Warn,
				"it follows from the result that is wrong"},
			{"lacks five", "log_softmax", softmax, softmaxOf(true, unrounded), 5, unrounded, dt.Round, verdict.Fail,
				"the sum in the gradient lacks the last 5 of 133 terms"},
			{"right", "layer_norm", norm, normOf(false), 0, unrounded, dt.Round, verdict.Pass, ""},
			{"coarse sum", "layer_norm", norm, normOf(false), 0, dt.Round, dt.Round, verdict.Warn, "accumulated in"},
			{"lacks five", "layer_norm", norm, normOf(false), 5, unrounded, dt.Round, verdict.Fail,
				"the sum in the gradient lacks the last 5 of 133 terms"},
			{"lacks five", "rms_norm", []value.Value{list, nil, 1e-5}, normOf(true), 5, unrounded,
				dt.Round, verdict.Fail,
				"the sum in the gradient lacks the last 5 of 133 terms"},
		} {
			var y, grad []float64
			for i := 0; i < len(x); i += width {
				out, dx := tc.kernel(x[i:i+width], g[i:i+width], tc.lacks, tc.round)
				for k := range out {
					y, grad = append(y, tc.result(out[k])), append(grad, dx[k])
				}
			}
			of := func(v []float64) *tensor.Tensor { return tensor.New(dt, []int{rows, width}, v).Rounded() }
			op := "torch.nn.functional." + tc.op
			rec := func(vs ...value.Value) *capture.Record {
				return &capture.Record{Name: op, Args: vs, Kwargs: &value.Dict{}, Identifier: op + "/0"}
			}
			in := of(x)
			in.RequiresGrad = true
			for _, device := range []bool{false, true} {
				opt := replay.Options{Registry: ops.Default(), Tolerances: tol}
				records := map[capture.Kind]*capture.Record{
					capture.Input: rec(append([]value.Value{in}, tc.args...)...), capture.GradOutputs: rec(of(g))}
				if device {
					opt.Device = giving{of(y), of(grad)}
				} else {
					records[capture.Output], records[capture.GradInputs] = rec(of(y)), rec(of(grad))
				}
				call := replay.Of(capture.Made(records), opt)
				o := call.Compare()
				call.Close()
				name := fmt.Sprintf("%s %s, %s, device %t", dt, tc.op, tc.name, device)
				last := o.Results[len(o.Results)-1]
				if last.Target != "grad[0]" || last.Verdict != tc.want && !(tc.want == verdict.Warn && last.Follows) ||
					!strings.Contains(last.Reason+last.Mistake, tc.reason) && last.Compared.Loose > 0 {
					t.Errorf("%s: %s is %s: %s", name, last.Target, last.Verdict, last.Reason)
				}
			}
		}
	}
}

// TestLooseElements: a gradient in 16 bits of a function of single elements is wrong if another argument explains it
// better than intermediate results of 16 bits do, also where there are many elements.
func TestLooseElements(t *testing.T) {
	const n, k = 1 << 16, 0.7978845608028654 // sqrt(2/pi)
	bf16 := tensor.BFloat16
	r := rand.New(rand.NewPCG(7, 3))
	x, y, g, tanh, coarse := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n),
		make([]float64, n)
	for i := range x {
		x[i], g[i] = bf16.Round(2*r.NormFloat64()), bf16.Round(r.NormFloat64())
		v := x[i]
		cdf, pdf := (1+math.Erf(v/math.Sqrt2))/2, math.Exp(-v*v/2)/math.Sqrt(2*math.Pi)
		y[i] = v * cdf
		coarse[i] = g[i] * bf16.Round(bf16.Round(cdf)+bf16.Round(v*bf16.Round(pdf)))
		u := math.Tanh(k * (v + 0.044715*v*v*v))
		tanh[i] = g[i] * ((1+u)/2 + v*(1-u*u)*k*(1+3*0.044715*v*v)/2)
	}
	of := func(v []float64) *tensor.Tensor { return tensor.New(bf16, []int{n / 64, 64}, v).Rounded() }
	rec := func(v value.Value) *capture.Record {
		return &capture.Record{Name: "torch.nn.functional.gelu", Args: []value.Value{v}, Kwargs: &value.Dict{},
			Identifier: "torch.nn.functional.gelu/0"}
	}
	for _, tc := range []struct {
		name    string
		grad    []float64
		want    verdict.Verdict
		mistake string
	}{
		{"by tanh", tanh, verdict.Fail, "approximate is 'tanh', not 'none'"},
		{"every step rounded", coarse, verdict.Warn, ""},
	} {
		in := of(x)
		in.RequiresGrad = true
		tol, err := compare.NewTolerances(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		call := replay.Of(capture.Made(map[capture.Kind]*capture.Record{capture.Input: rec(in),
			capture.Output: rec(of(y)), capture.GradOutputs: rec(of(g)), capture.GradInputs: rec(of(tc.grad))}),
			replay.Options{Registry: ops.Default(), Tolerances: tol})
		o := call.Compare()
		call.Close()
		if last := o.Results[len(o.Results)-1]; last.Target != "grad[0]" || last.Verdict != tc.want ||
			last.Mistake != tc.mistake {
			t.Errorf("%s: %s is %s: %s", tc.name, last.Target, last.Verdict, last.Reason)
		}
	}
}

// giving is a device that gives a result and a gradient of the first argument.
type giving struct{ result, grad *tensor.Tensor }

func (d giving) Run(c *replay.DeviceCall) *replay.DeviceRun {
	return &replay.DeviceRun{Functions: []string{"kernel"}, Outputs: []*tensor.Tensor{d.result},
		Grads: map[string][]*tensor.Tensor{c.Call.Tensors()[0].Name: {d.grad}}}
}

// TestGradientWitness: the gradients of a device are compared with the recorded ones, as results are.
func TestGradientWitness(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const op = "torch.square"
	of := func(v ...float64) *tensor.Tensor { return tensor.New(tensor.Float32, []int{len(v)}, v).Rounded() }
	x := of(1, 2, 3)
	x.RequiresGrad = true
	right, wrong := of(2, 4, 6), of(2, 4, 5)
	none, inf := of(2, 4, math.NaN()), of(2, 4, math.Inf(1))
	rec := func(vs ...value.Value) *capture.Record {
		return &capture.Record{Name: op, Args: vs, Kwargs: &value.Dict{}, Identifier: op + "/0"}
	}
	for _, tc := range []struct {
		device, recorded *tensor.Tensor
		want             string
	}{{right, wrong, "better"}, {right, right, "same"}, {wrong, right, "worse"}, {right, none, "better"},
		{none, right, "worse"}, {none, none, "same"}, {right, inf, "better"}, {inf, none, "same"}} {
		call := replay.Of(capture.Made(map[capture.Kind]*capture.Record{
			capture.Input: rec(x), capture.Output: rec(of(1, 4, 9)),
			capture.GradOutputs: rec(of(1, 1, 1)), capture.GradInputs: rec(tc.recorded),
		}), replay.Options{Registry: ops.Default(), Tolerances: tol, Device: giving{of(1, 4, 9), tc.device}})
		o := call.Compare()
		call.Close()
		last := o.Results[len(o.Results)-1]
		if last.Target != "grad[0]" || last.Witness == nil || last.Witness.Verdict != tc.want {
			t.Errorf("%s: %+v, want %s", last.Target, last.Witness, tc.want)
		}
	}
}

// TestFarGradients: gradients that are warned of, and far from those due, have a failure if they are those of another
// argument, though the result is right. Those of a coarse accumulator stay a warning.
func TestFarGradients(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const op, dt = "torch.nn.functional.interpolate", tensor.BFloat16
	r := rand.New(rand.NewPCG(4, 3))
	draw := func(shape ...int) *tensor.Tensor {
		v := make([]float64, tensor.Numel(shape))
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return tensor.New(dt, shape, v).Rounded()
	}
	x, g := draw(2, 3, 5, 6), draw(2, 3, 9, 12)
	x.RequiresGrad = true
	args := func(corners bool) []value.Value {
		return []value.Value{x, value.NewList(int64(9), int64(12)), nil, "bilinear", corners}
	}
	run := func(corners bool) (y, dx *tensor.Tensor) {
		call, err := ops.Default().Bind(op, args(corners), nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := call.Forward()
		if err != nil {
			t.Fatal(err)
		}
		grads, err := call.Backward(f, []*tensor.Tensor{g}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return f.Outs[0].Rounded(), grads["input"][0].Rounded()
	}
	y, right := run(false)
	_, wrong := run(true)
	for _, tc := range []struct {
		grad *tensor.Tensor
		want verdict.Verdict
	}{{right, verdict.Pass}, {wrong, verdict.Fail}} {
		rec := func(vs ...value.Value) *capture.Record {
			return &capture.Record{Name: op, Args: vs, Kwargs: &value.Dict{}, Identifier: op + "/0"}
		}
		call := replay.Of(capture.Made(map[capture.Kind]*capture.Record{
			capture.Input: rec(args(false)...), capture.Output: rec(y), capture.GradOutputs: rec(g),
			capture.GradInputs: rec(tc.grad)}), replay.Options{Registry: ops.Default(), Tolerances: tol})
		o := call.Compare()
		call.Close()
		last := o.Results[len(o.Results)-1]
		if last.Target != "grad[0]" || last.Verdict != tc.want ||
			tc.want == verdict.Fail && last.Mistake != "align_corners is True, not False" {
			t.Errorf("%s is %s, want %s: %s", last.Target, last.Verdict, tc.want, last.Reason)
		}
	}
}
