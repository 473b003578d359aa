package replay_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// stepwise is a layer_norm of rows whose every intermediate result is rounded.
func stepwise(x []float64, width int, eps, divisor float64, round func(float64) float64) []float64 {
	out := make([]float64, 0, len(x))
	for ; len(x) > 0; x = x[width:] {
		var mean, variance float64
		for _, v := range x[:width] {
			mean += v
		}
		mean = round(mean / float64(width))
		for _, v := range x[:width] {
			d := round(v - mean)
			variance += d * d
		}
		deviation := round(math.Sqrt(round(round(variance/divisor) + eps)))
		for _, v := range x[:width] {
			out = append(out, round(round(v-mean)/deviation))
		}
	}
	return out
}

// TestLoose: in 16 bits a mistake may be no larger than what intermediate results in 16 bits
// explain. It fails all the same, and what is only imprecise stays a warning.
func TestLoose(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	const width = 80
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		v := make([]float64, 48*width)
		for i := range v {
			v[i] = dt.Round(r.NormFloat64())
		}
		each := func(f func(float64) float64) []float64 {
			out := make([]float64, len(v))
			for i, x := range v {
				out[i] = f(x)
			}
			return out
		}
		x := tensor.New(dt, []int{48, width}, v).Rounded()
		shape := value.NewList(int64(width))
		exact := func(x float64) float64 { return x }
		norm, gelu := []value.Value{x, shape, nil, nil, 1e-5}, []value.Value{x}
		for _, tc := range []struct {
			name, op string
			args     []value.Value
			got      []float64
			want     string // "" for a warning at most
		}{
			{"sound in steps", "torch.nn.functional.layer_norm", norm, stepwise(v, width, 1e-5, width, dt.Round), ""},
			{"unbiased in steps", "torch.nn.functional.layer_norm", norm, stepwise(v, width, 1e-5, width-1, dt.Round),
				"the variance is divided by n - 1, not by n, with intermediate results in " + dt.String()},
			{"unbiased", "torch.nn.functional.layer_norm", norm, stepwise(v, width, 1e-5, width-1, exact),
				"the variance is divided by n - 1, not by n"},
			{"eps", "torch.nn.functional.layer_norm", norm, stepwise(v, width, 1e-2, width, exact),
				"eps is 0.01, not 1e-05"},
			{"sound in steps", "torch.nn.functional.gelu", gelu, each(func(x float64) float64 {
				return dt.Round(dt.Round(x/2) * dt.Round(1+dt.Round(math.Erf(dt.Round(x*math.Sqrt2/2)))))
			}), ""},
			{"quick", "torch.nn.functional.gelu", gelu, each(func(x float64) float64 {
				return x / (1 + math.Exp(-1.702*x))
			}), "it is computed as quick_gelu"},
			{"quick in steps", "torch.nn.functional.gelu", gelu, each(func(x float64) float64 {
				return x * dt.Round(1/(1+math.Exp(-dt.Round(1.702*x))))
			}), "it is computed as quick_gelu"},
		} {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "input.pth"), tc.op, tc.args)
			write(t, filepath.Join(dir, "output.pth"), tc.op, []value.Value{tensor.New(dt, x.Shape, tc.got).Rounded()})
			call := replay.Open(entries(t, dir)[0], options(t))
			res := call.Compare().Results[0]
			call.Close()
			name := dt.String() + " " + tc.op + " " + tc.name
			switch {
			case tc.want == "" && res.Verdict != verdict.Warn && res.Verdict != verdict.Pass:
				t.Errorf("%s: %s: %s", name, res.Verdict, res.Reason)
			case tc.want != "" && (res.Verdict != verdict.Fail || !strings.Contains(res.Mistake, tc.want) &&
				!strings.Contains(tc.want, res.Mistake)):
				t.Errorf("%s: %s: %s; want a failure for %q", name, res.Verdict, res.Reason, tc.want)
			}
		}
	}
}

// A givingDevice gives a tensor as the result of any call.
type givingDevice struct{ out *tensor.Tensor }

func (d givingDevice) Run(*replay.DeviceCall) *replay.DeviceRun {
	return &replay.DeviceRun{Functions: []string{"gelu"}, Outputs: []*tensor.Tensor{d.out}}
}

// TestLooseOnTwoDevices: where a mistake makes a failure of what one device gave, a second one that gave the same bits
// fails, too. One that gave others keeps its own verdict.
func TestLooseOnTwoDevices(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	const dt, n = tensor.BFloat16, 48 * 80
	v, quick, right := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range v {
		v[i] = dt.Round(r.NormFloat64())
		quick[i] = v[i] * dt.Round(1/(1+math.Exp(-dt.Round(1.702*v[i]))))
		right[i] = v[i] / 2 * (1 + math.Erf(v[i]/math.Sqrt2))
	}
	of := func(v []float64) *tensor.Tensor { return tensor.New(dt, []int{48, 80}, v).Rounded() }
	dir := t.TempDir()
	write(t, filepath.Join(dir, "input.pth"), "torch.nn.functional.gelu", []value.Value{of(v)})
	e := entries(t, dir)[0]
	for second, want := range map[*tensor.Tensor]verdict.Verdict{of(quick): verdict.Fail, of(right): verdict.Pass} {
		opt := options(t)
		opt.Device = givingDevice{of(quick)}
		opt.Against = &replay.Rival{Device: givingDevice{second}, Name: "other"}
		call := replay.Open(e, opt)
		for _, res := range call.Compare().Results {
			if is := map[string]verdict.Verdict{"": verdict.Fail, "other": want}[res.Device]; res.Verdict != is {
				t.Errorf("device %q is %s, want %s: %s", res.Device, res.Verdict, is, res.Reason)
			}
			if res.Device != "" && want == verdict.Fail && (!strings.HasPrefix(res.Reason, "on other: ") ||
				!strings.Contains(res.Reason, "quick_gelu")) {
				t.Errorf("the reason is %q", res.Reason)
			}
		}
		call.Close()
	}
}

// TestLooseProducts: a linear layer of bfloat16 whose errors a coarse sum would explain fails where an operand of
// 8 bits or a factor explains them to rounding. Numbers that are rounded to bfloat16 are no mistake.
func TestLooseProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	dt := tensor.BFloat16
	numbers := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = dt.Round(r.NormFloat64())
		}
		return v
	}
	x, w := numbers(20*32), numbers(24*32)
	product := func(w []float64, terms int, factor float64) []float64 {
		out := make([]float64, 20*24)
		for i := range out {
			for k := range terms {
				out[i] += factor * x[i/24*32+k] * w[i%24*32+k]
			}
		}
		return out
	}
	narrow := make([]float64, len(w))
	for i, v := range w {
		narrow[i] = tensor.Float8E4M3FN.Round(v)
	}
	added := func(factor float64) []float64 {
		out := make([]float64, 20*32)
		for i := range out {
			out[i] = x[i] + factor*w[i]
		}
		return out
	}
	const linear, add = "torch.nn.functional.linear", "torch.add"
	a, b := tensor.New(dt, []int{20, 32}, x).Rounded(), tensor.New(dt, []int{24, 32}, w).Rounded()
	for _, tc := range []struct {
		op, want string // "" for a warning at most
		args     []value.Value
		shape    []int
		got      []float64
	}{
		{linear, "weight is rounded to float8_e4m3fn", []value.Value{a, b}, []int{20, 24}, product(narrow, 32, 1)},
		{linear, "all elements are multiplied by 1.02", []value.Value{a, b}, []int{20, 24}, product(w, 32, 1.02)},
		{linear, "", []value.Value{a, b}, []int{20, 24}, product(w, 32, 1)},
		{add, "", []value.Value{a, tensor.New(dt, []int{20, 32}, w[:640]).Rounded()}, []int{20, 32},
			added(1 + dt.Eps()/4)},
	} {
		dir := record(t, tc.op, tc.args, tensor.New(dt, tc.shape, tc.got).Rounded())
		call := replay.Open(entries(t, dir)[0], options(t))
		res := call.Compare().Results[0]
		call.Close()
		switch {
		case tc.want == "" && res.Verdict == verdict.Fail:
			t.Errorf("%s: %s: %s", tc.op, res.Verdict, res.Reason)
		case tc.want != "" && (res.Verdict != verdict.Fail || res.Mistake != tc.want):
			t.Errorf("%s: %s: %s; want a failure for %q", tc.op, res.Verdict, res.Reason, tc.want)
		}
	}
}
