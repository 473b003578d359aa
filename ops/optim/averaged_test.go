package optim

import (
	"math"
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestAveragedSteps: two steps of NAdam and of ASGD from parameters 1, -2, 0.5, as torch 1.13 and 2.15 take them. The
// older one multiplies the product of the momenta once more by that of the step, but not in lists.
func TestAveragedSteps(t *testing.T) {
	no := new(bool)
	for _, c := range []struct {
		name, op string
		complex  *bool // given by newer torch
		want     []float64
	}{
		{"NAdam of torch 1.13", "nadam", nil, []float64{0.9120112887067818, -1.9182901644301948, 0.33127879745786365}},
		{"NAdam", "nadam", no, []float64{0.9107745525179131, -1.9170746276817197, 0.3297024846664808}},
		{"ASGD", "asgd", no, []float64{0.9459340217481755, -1.867521900127678, 0.18850224799440618}},
	} {
		list := func(x ...float64) []*tensor.Tensor {
			return []*tensor.Tensor{tensor.New(tensor.Float32, []int{len(x)}, x)}
		}
		number := func(x float64) []*tensor.Tensor { return []*tensor.Tensor{tensor.Full(tensor.Float32, nil, x)} }
		now := map[string][]*tensor.Tensor{"params": list(1, -2, 0.5), "exp_avgs": list(0, 0, 0),
			"exp_avg_sqs": list(0, 0, 0), "axs": list(0, 0, 0), "mu_products": number(1),
			"etas": number(0.1), "mus": number(1), "state_steps": number(0)}
		lr := tensor.Wrap(0.1)
		for _, g := range [][]float64{{0.5, -1.5, 2}, {-0.25, 0.75, 1}} {
			var args any = &nadamArgs{Params: now["params"], Grads: list(g...), ExpAvgs: now["exp_avgs"],
				ExpAvgSqs: now["exp_avg_sqs"], MuProducts: now["mu_products"], StateSteps: now["state_steps"], Lr: lr,
				HasComplex: c.complex, Beta1: 0.8, Beta2: 0.9, WeightDecay: 0.1, MomentumDecay: 0.1, Eps: 1e-3}
			if c.op == "asgd" {
				args = &asgdArgs{Params: now["params"], Grads: list(g...), Axs: now["axs"], Lr: lr,
					Mus: now["mus"], Etas: now["etas"], StateSteps: now["state_steps"], HasComplex: c.complex,
					Lambd: 0.05, Alpha: 0.75, T0: 1, WeightDecay: 0.1}
			}
			for name, ts := range after(t, "torch.optim."+c.op+"."+c.op, args, "") {
				now[name] = ts
			}
		}
		for i, want := range c.want {
			if got := tensor.At[float64](now["params"][0], i); math.Abs(got-want) > 1e-7 {
				t.Errorf("%s: element %d is %v, want %v", c.name, i, got, want)
			}
		}
		if got := tensor.At[float64](now["state_steps"][0], 0); got != 2 {
			t.Errorf("%s: step %v", c.name, got)
		}
	}
}

// TestEitherProduct: where a call does not tell which torch it is of, the step of the other one is as right.
func TestEitherProduct(t *testing.T) {
	one := func(x float64) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.New(tensor.Float32, []int{1}, []float64{x})}
	}
	args := &nadamArgs{Params: one(0.7), Grads: one(-0.3), ExpAvgs: one(0.2), ExpAvgSqs: one(0.05),
		MuProducts: []*tensor.Tensor{tensor.Wrap(0.5)}, StateSteps: []*tensor.Tensor{tensor.Wrap(3.0)},
		Lr: tensor.Wrap(0.1), Beta1: 0.8, Beta2: 0.9, MomentumDecay: 0.1}
	op := "torch.optim.nadam.nadam"
	older := after(t, op, args, "")["params"][0]
	args.HasComplex = new(bool)
	newer := after(t, op, args, "")["params"][0]
	args.HasComplex = nil
	call := optimizerEntry(t, op).NewCall(args)
	fwd, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	others := call.AfterBound("params", 0, fwd.After["params"][0]).Else()
	if x, y := tensor.At[float64](older, 0), tensor.At[float64](newer, 0); x == y || len(others) != 1 ||
		tensor.At[float64](others[0], 0) != y {
		t.Errorf("older %v, newer %v, %d others", x, y, len(others))
	}
}

// TestStepIn16Bits: the bound of a step in bfloat16 holds what its calls round, in any order, and no other rate.
func TestStepIn16Bits(t *testing.T) {
	dt := tensor.BFloat16
	list := func(x ...float64) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.New(dt, []int{len(x)}, x).Rounded()}
	}
	p, g, b := list(0.01, -0.02, 0.015), list(1, -0.75, 2), list(0.5, 0.25, -1)
	call := optimizerEntry(t, "torch.optim.sgd.sgd").NewCall(&functionalSGDArgs{Params: p, Grads: g,
		MomentumBufferList: b, Lr: tensor.Wrap(0.1), Momentum: 0.9, WeightDecay: 0.1, Fused: new(bool)})
	fwd, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	bound := call.AfterBound("params", 0, fwd.After["params"][0])
	if !bound.Coarse || bound.ULPs != 1 {
		t.Errorf("bound %+v", bound)
	}
	const perS = 8.0 / (1 << 24) // what S is multiplied by
	step := func(rate float64) (out []float64) {
		for i := range 3 {
			x, y, z := tensor.At[float64](p[0], i), tensor.At[float64](g[0], i), tensor.At[float64](b[0], i)
			sum := dt.Round(dt.Round(0.9*z) + dt.Round(y+0.1*x))
			out = append(out, dt.Round(x-rate*sum))
		}
		return out
	}
	allowed := func(i int) float64 {
		want := tensor.At[float64](fwd.After["params"][0], i)
		return dt.ULP(want) + perS*tensor.At[float64](bound.Scale(), i)
	}
	for _, c := range []struct {
		rate  float64
		sound bool
	}{{0.1, true}, {dt.Round(0.1), true}, {0.11, false}, {-0.1, false}} {
		off := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool {
			return math.Abs(step(c.rate)[i]-tensor.At[float64](fwd.After["params"][0], i)) > allowed(i)
		})
		if (off < 0) != c.sound {
			t.Errorf("rate %v: element %d is out of its bound", c.rate, off)
		}
	}
}
