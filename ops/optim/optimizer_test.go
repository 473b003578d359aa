package optim

import (
	"math"
	"slices"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// optimizerEntry is the op of a schema name.
func optimizerEntry(t *testing.T, name string) *opdef.Entry {
	t.Helper()
	for _, e := range slices.Concat(optimizerOps, functionalOps) {
		if e.Op() == name || slices.Contains(e.Names, name) {
			return e
		}
	}
	t.Fatalf("no op %s", name)
	return nil
}

// optimizerCase starts from parameters 1, -2, 0.5 with states of zeros and takes
// two steps with the gradients below; want are parameters and states after them,
// from torch.optim (torch 1.13, 2.x) in float64.
type optimizerCase struct {
	name, op string
	args     func(self, grads, s1, s2, s3, step []*tensor.Tensor, first bool) any
	state    []string
	want     [][]float64
}

func optimizerCases() []optimizerCase {
	lr := tensor.Wrap(0.1)
	adam := func(amsgrad, maximize bool) func(self, grads, s1, s2, s3, step []*tensor.Tensor, first bool) any {
		return func(self, grads, s1, s2, s3, step []*tensor.Tensor, _ bool) any {
			a := &adamArgs{Self: self, Grads: grads, ExpAvgs: s1, ExpAvgSqs: s2, StateSteps: step, Lr: lr, Beta1: 0.8,
				Beta2: 0.9, WeightDecay: 0.1, Eps: 1e-3, Maximize: maximize}
			if amsgrad {
				a.Amsgrad, a.MaxExpAvgSqs = true, s3
			}
			return a
		}
	}
	sgd := func(momentum, dampening float64, nesterov bool) func(self, grads, s1, s2, s3, step []*tensor.Tensor,
		first bool) any {
		return func(self, grads, s1, _, _, _ []*tensor.Tensor, first bool) any {
			a := &sgdArgs{Self: self, Grads: grads, Lr: lr, WeightDecay: 0.1, Momentum: momentum, Dampening: dampening,
				Nesterov: nesterov, IsFirstStep: first}
			if momentum != 0 {
				a.MomentumBufferList = s1
			}
			return a
		}
	}
	rmsprop := func(momentum float64, centered bool) func(self, grads, s1, s2, s3, step []*tensor.Tensor,
		first bool) any {
		return func(self, grads, s1, s2, s3, _ []*tensor.Tensor, _ bool) any {
			return &rmspropArgs{Self: self, Grads: grads, SquareAvgs: s1, GradAvgs: s2, MomentumBufferList: s3, Lr: 0.1,
				Alpha: 0.8, Eps: 1e-3, WeightDecay: 0.1, Momentum: momentum, Centered: centered}
		}
	}
	m, v := "exp_avgs", "exp_avg_sqs"
	return []optimizerCase{
		{"Adam amsgrad", "_fused_adam_", adam(true, false), []string{m, v, "max_exp_avg_sqs"}, [][]float64{
			{0.8594162567593758, -1.8642031078178534, 0.30704981914337615}, {0.06400332778702161, -0.16000117577895356,
				0.5360009751340808},
			{0.034959467581761945, 0.29145934156724207, 0.48638601414182125}, {0.03599999999999999, 0.29145934156724207,
				0.48638601414182125},
		}},
		{"AdamW", "_fused_adamw_", adam(false, false), []string{m, v}, [][]float64{
			{0.8599297164764117, -1.8398614782360336, 0.2983268806687472}, {0.03, -0.09, 0.5199999999999999},
			{0.028749999999999994, 0.2587499999999999, 0.4599999999999999},
		}},
		{"Adam maximize", "_fused_adam_", adam(false, true), []string{m, v}, [][]float64{
			{1.093913395531077, -2.1038399079339647, 0.6921478832992747}, {0.00799501246882793, 0.01600153727901614,
				-0.5000010251153254},
			{0.02735820455096672, 0.24425852421805253, 0.430585963611033},
		}},
		{"SGD dampening", "_fused_sgd_", sgd(0.9, 0.5, false), []string{"momentum_buffer_list"}, [][]float64{
			{0.8937999999999999, -1.7053500000000001, 0.05902499999999997}, {0.462, -1.2465000000000002, 2.35975},
		}},
		{"SGD nesterov", "_fused_sgd_", sgd(0.9, 0, true), []string{"momentum_buffer_list"}, [][]float64{
			{0.868066, -1.649937, -0.2476495}, {0.37860000000000005, -0.9477, 2.8560499999999998},
		}},
		{"SGD", "_fused_sgd_", sgd(0, 0, false), nil, [][]float64{{0.9555999999999999, -1.8867, 0.19204999999999997}}},
		{"Adagrad", "_fused_adagrad_", func(self, grads, s1, _, _, step []*tensor.Tensor, _ bool) any {
			return &adagradArgs{Self: self, Grads: grads, StateSums: s1, StateSteps: step, Lr: lr, LrDecay: 0.5,
				WeightDecay: 0.1, Eps: 1e-3}
		}, []string{"state_sums"}, [][]float64{
			{0.9173146160697494, -1.920905182790101, 0.36990000759099084}, {0.3855946758176195, 3.203593415672421,
				5.284110141418214},
		}},
		{"Adadelta", "adadelta", func(self, grads, s1, s2, _, _ []*tensor.Tensor, _ bool) any {
			return &adadeltaArgs{Self: self, Grads: grads, SquareAvgs: s1, AccDeltas: s2, Lr: 0.1, Rho: 0.8, Eps: 1e-3,
				WeightDecay: 0.1}
		}, []string{"square_avgs", "acc_deltas"}, [][]float64{
			{0.9956504288155726, -1.9963356676690922, 0.4879705213073678}, {0.062142233443127574, 0.523055528923019,
				0.8926032915471072},
			{0.0009319287325535691, 0.0010299035282462631, 0.0012915999907671257},
		}},
		{"RMSprop", "rmsprop", rmsprop(0, false), []string{"square_avgs"}, [][]float64{
			{0.84530033807013, -1.855349690217828, 0.16742823954885805},
			{0.06353591814127892, 0.527912624913371, 0.8836185294388639},
		}},
		{"RMSprop centered", "rmsprop", rmsprop(0.5, true), []string{"square_avgs", "grad_avgs",
			"momentum_buffer_list"}, [][]float64{
			{0.697670227294644, -1.7064363178623148, -0.006875185749748239}, {0.0637177407413784, 0.5285165568040434,
				0.8825374849601134},
			{0.0610207468879668, -0.157007342143906, 0.5330060901339828}, {0.533671171036962, -0.43930789332986364,
				2.5717969244889556},
		}},
	}
}

func optimizerTensors(v ...float64) []*tensor.Tensor {
	return []*tensor.Tensor{tensor.New(tensor.Float64, []int{len(v)}, v)}
}

func TestFusedOptimizers(t *testing.T) {
	for _, c := range optimizerCases() {
		t.Run(c.name, func(t *testing.T) {
			e := optimizerEntry(t, c.op)
			states := map[string][]*tensor.Tensor{"self": optimizerTensors(1, -2, 0.5)}
			zeros := func(name string) []*tensor.Tensor {
				if s, ok := states[name]; ok {
					return s
				}
				return optimizerTensors(0, 0, 0)
			}
			name := func(k int) string {
				if k < len(c.state) {
					return c.state[k]
				}
				return "-"
			}
			for n, g := range [][]float64{{0.5, -1.5, 2}, {-0.25, 0.75, 1}} {
				args := c.args(states["self"], optimizerTensors(g...), zeros(name(0)), zeros(name(1)), zeros(name(2)),
					optimizerTensors(float64(n+1)), n == 0)
				call := e.NewCall(args)
				fwd, err := call.Forward()
				if err != nil {
					t.Fatal(err)
				}
				states = fwd.After
				for k := range states {
					if s := tensor.Data[float64](call.AfterBound(k, 0, states[k][0]).Scale()); s[0] < math.Abs(
						tensor.Data[float64](states[k][0])[0])*(1-1e-9) {
						t.Errorf("scale of %s is %v, less than the value", k, s)
					}
				}
			}
			for k, want := range c.want {
				name := append([]string{"self"}, c.state...)[k]
				got := tensor.Data[float64](states[name][0])
				for i := range want {
					if !(math.Abs(got[i]-want[i]) <= 1e-14*(1+math.Abs(want[i]))) {
						t.Errorf("%s = %v, want %v", name, got, want)
						break
					}
				}
			}
		})
	}
}

func TestFusedLossScale(t *testing.T) {
	e := optimizerEntry(t, "_fused_sgd_")
	step := func(found float64) map[string][]*tensor.Tensor {
		fwd, err := e.NewCall(&sgdArgs{
			Self: optimizerTensors(1), Grads: optimizerTensors(8), Lr: tensor.Wrap(0.5),
			GradScale: tensor.Scalar(tensor.Float32, 4.0), FoundInf: tensor.Scalar(tensor.Float32, found),
		}).Forward()
		if err != nil {
			t.Fatal(err)
		}
		return fwd.After
	}
	after := step(0)
	if p, g := tensor.At[float64](after["self"][0], 0), tensor.At[float64](after["grads"][0], 0); p != 0 || g != 2 {
		t.Errorf("step with grad_scale 4: self %v, grads %v, want 0 and 2", p, g)
	}
	after = step(1)
	if p, g := tensor.At[float64](after["self"][0], 0), tensor.At[float64](after["grads"][0], 0); p != 1 || g != 8 {
		t.Errorf("step with found_inf: self %v, grads %v, want 1 and 8", p, g)
	}
}

func TestUnscale(t *testing.T) {
	e := optimizerEntry(t, "_amp_foreach_non_finite_check_and_unscale_")
	for _, c := range []struct{ x, found, want float64 }{{3, 0, 0}, {3, 1, 1}, {math.Inf(-1), 0, 1},
		{math.NaN(), 0, 1}} {
		fwd, err := e.NewCall(&unscaleArgs{Self: optimizerTensors(2, c.x), FoundInf: tensor.Scalar(tensor.Float32,
			c.found), InvScale: tensor.Scalar(tensor.Float32, 0.25)}).Forward()
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.At[float64](fwd.After["self"][0], 0); got != 0.5 {
			t.Errorf("2 * 0.25 = %v", got)
		}
		if got := tensor.At[float64](fwd.After["found_inf"][0], 0); got != c.want {
			t.Errorf("gradient %v with found_inf %v: found_inf = %v, want %v", c.x, c.found, got, c.want)
		}
	}
}

func TestUpdateScale(t *testing.T) {
	for _, c := range []struct {
		scale   float64
		tracker int64
		found   float64
		want    float64
		count   int64
	}{{1024, 0, 0, 1024, 1}, {1024, 4, 0, 2048, 0}, {1024, 3, 1, 512, 0}, {3e38, 4, 0, 3e38, 0}} {
		a := &updateScaleArgs{tensor.Scalar(tensor.Float32, c.scale), tensor.Scalar(tensor.Int32, c.tracker),
			tensor.Scalar(tensor.Float32, c.found), 2, 0.5, 5}
		s, n, err := a.update()
		if err != nil {
			t.Fatal(err)
		}
		if got, count := tensor.At[float64](s, 0), tensor.At[int64](n, 0); got != c.want || count != c.count {
			t.Errorf("scale %v after %d steps, found_inf %v: %v and %d, want %v and %d", c.scale, c.tracker, c.found,
				got, count, c.want, c.count)
		}
	}
}

// TestFusedRefusals: lists that do not belong together.
func TestFusedRefusals(t *testing.T) {
	one, two := optimizerTensors(1), optimizerTensors(1, 2)
	for _, c := range []struct {
		op   string
		args any
	}{
		{"_fused_sgd_", &sgdArgs{Self: one, Grads: nil}},
		{"_fused_sgd_", &sgdArgs{}},
		{"_fused_sgd_", &sgdArgs{Self: one, Grads: two}},
		{"_fused_adam_", &adamArgs{Self: one, Grads: one, ExpAvgs: one, ExpAvgSqs: one}},
		{"_fused_adagrad_", &adagradArgs{Self: one, Grads: one, StateSums: one}},
		{"_amp_foreach_non_finite_check_and_unscale_", &unscaleArgs{Self: one, FoundInf: two[0], InvScale: one[0]}},
	} {
		if _, err := optimizerEntry(t, c.op).NewCall(c.args).Forward(); err == nil {
			t.Errorf("%s of %+v: no error", c.op, c.args)
		}
	}
}

// TestRoundedSGD tells the step whose sums and products have the dtype of the parameter
// from the fused one: 1/3 is no float16.
func TestRoundedSGD(t *testing.T) {
	half := func(v float64) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.New(tensor.Float16, []int{1}, []float64{v})}
	}
	round := tensor.Float16.Round
	for name, want := range map[string]float64{"sgd": round(round(1./3) + 0.0625), "_fused_sgd_": 1./3 + 0.0625} {
		fwd, err := optimizerEntry(t, name).NewCall(&sgdArgs{Self: half(2), Grads: half(0.0625),
			MomentumBufferList: half(1), Lr: tensor.Wrap(0.5), Momentum: 1. / 3}).Forward()
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.At[float64](fwd.After["momentum_buffer_list"][0], 0); got != want {
			t.Errorf("%s: the buffer becomes %v, want %v", name, got, want)
		}
	}
}

// TestMistakes: the mistakes that are declared are what their texts say, of one element, by formulas of their own.
func TestMistakes(t *testing.T) {
	const p, g, m, v, step, lr, b1, b2, decay, eps = 0.7, -0.3, 0.2, 0.05, 3.0, 0.1, 0.8, 0.9, 0.1, 1e-3
	one := func(x float64) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.New(tensor.Float64, []int{1}, []float64{x}).Rounded()}
	}
	adam := &adamArgs{Self: one(p), Grads: one(g), ExpAvgs: one(m), ExpAvgSqs: one(v), StateSteps: one(step),
		Lr: tensor.Wrap(lr), Beta1: b1, Beta2: b2, WeightDecay: decay, Eps: eps}
	sgd := &sgdArgs{Self: one(p), Grads: one(g), MomentumBufferList: one(m), Lr: tensor.Wrap(lr), Momentum: b1,
		WeightDecay: decay}
	first, second := b1*m+(1-b1)*g, b2*v+(1-b2)*g*g
	c1, c2 := 1-math.Pow(b1, step), 1-math.Pow(b2, step)
	left := p * (1 - lr*decay)
	adamw := func(m, v, c1, c2 float64) float64 { return left - lr*m/c1/(math.Sqrt(v/c2)+eps) }
	coupled := g + decay*p
	want := map[string]float64{
		"exp_avg is not corrected for its beginning":     adamw(first, second, 1, c2),
		"exp_avg_sq is not corrected for its beginning":  adamw(first, second, c1, 1),
		"neither average is corrected for its beginning": adamw(first, second, 1, 1),
		"the corrections of both averages are exchanged": adamw(first, second, c2, c1),
		"exp_avg is corrected by beta2, not by beta1":    adamw(first, second, c2, c2),
		"exp_avg_sq is corrected by beta1, not by beta2": adamw(first, second, c1, c1),
		"state_steps is one less":                        adamw(first, second, 1-b1*b1, 1-b2*b2),
		"state_steps is one more":                        adamw(first, second, 1-b1*b1*b1*b1, 1-b2*b2*b2*b2),
		"eps is added under the root":                    left - lr*first/c1/math.Sqrt(second/c2+eps),
		"eps is added before the root is corrected":      left - lr*first/c1/(math.Sqrt(second)+eps)*math.Sqrt(c2),
		"eps is added under the root before that is corrected": left - lr*first/c1/
			(math.Sqrt(second+eps)/math.Sqrt(c2)),
		"the correction of exp_avg_sq is applied to its root": left - lr*first/c1/(math.Sqrt(second)/c2+eps),
		"weight_decay*self is added to the gradient, as in Adam": p - lr*(b1*m+(1-b1)*coupled)/c1/
			(math.Sqrt((b2*v+(1-b2)*coupled*coupled)/c2)+eps),
		"weight_decay is not multiplied by lr":   adamw(first, second, c1, c2) - left + p*(1-decay),
		"self decays after the step, not before": (adamw(first, second, c1, c2) - left + p) * (1 - lr*decay),
		"exp_avg is taken from before the step":  adamw(m, second, c1, c2),
		"exp_avg_sq is made of the square of exp_avg, not of the gradient's": adamw(first,
			b2*v+(1-b2)*first*first, c1, c2),
		"self is multiplied by 1 - lr*weight_decay, nothing is added to the gradient": left - lr*(b1*m+g),
		"self is multiplied by 1 - weight_decay, nothing is added to the gradient":    p*(1-decay) - lr*(b1*m+g),
		"dampening is momentum":                                             p - lr*(b1*m+(1-b1)*coupled),
		"lr is multiplied into the buffer":                                  p - (b1*m + lr*coupled),
		"_fused_sgd_ weight_decay has the wrong sign":                       p - lr*(b1*m+g-decay*p),
		"the root is not taken":                                             left - lr*first/c1/(second/c2+eps),
		"the weights of exp_avg are exchanged":                              adamw(b1*g+(1-b1)*m, second, c1, c2),
		"exp_avg has the weights of the other average":                      adamw(b2*m+(1-b2)*g, second, c1, c2),
		"exp_avg_sq does not decay: what is kept of it is not multiplied":   adamw(first, v+(1-b2)*g*g, c1, c2),
		"exp_avg_sq is made of the gradient's magnitude, not of its square": adamw(first, b2*v-(1-b2)*g, c1, c2),
		"_fused_sgd_ the update is not multiplied by lr":                    p - (b1*m + coupled),
	}
	want["what is new in exp_avg_sq has its weight in the other average"] = adamw(first, b2*v+(1-b1)*g*g, c1, c2)
	want["what is kept of exp_avg has its weight in the other average"] = adamw(b2*m+(1-b1)*g, second, c1, c2)
	ahead := &sgdArgs{Self: one(p), Grads: one(g), MomentumBufferList: one(m), Lr: tensor.Wrap(lr), Momentum: b1,
		Dampening: 0.25, Nesterov: true}
	want["nesterov: the gradient is not added to momentum*momentum_buffer"] = p - lr*b1*(b1*m+0.75*g)
	want["lr is multiplied into the buffer, dampening is not looked at"] = p - g - b1*(b1*m+lr*g)
	want["the gradient is added to exp_avg once more for the update, as in NAdam"] = adamw(b1*first+(1-b1)*g, second,
		c1, c2)
	for _, step := range []struct {
		name string
		args any
	}{{"_fused_adamw_", adam}, {"_fused_sgd_", sgd}, {"_fused_sgd_", ahead}} { // ahead has mistakes of sgd, too
		name := step.name
		for _, m := range optimizerEntry(t, name).NewCall(step.args).Mistakes() {
			text := m.Text
			if _, ok := want[text]; !ok {
				text = name + " " + text
			}
			due, ok := want[text]
			if !ok {
				continue
			}
			call, err := m.Plan()
			if err != nil {
				t.Fatalf("%s: %v", m.Text, err)
			}
			fwd, err := call.Forward()
			if err != nil {
				t.Fatalf("%s: %v", m.Text, err)
			}
			if got := tensor.At[float64](fwd.After["self"][0], 0); math.Abs(got-due) > 1e-12 {
				t.Errorf("%s: got %v, want %v", m.Text, got, due)
			}
			delete(want, text)
		}
	}
	for text := range want {
		t.Errorf("no mistake %q", text)
	}
}

// TestSlips: each mistake of each optimizer changes what the step gives.
func TestSlips(t *testing.T) {
	some := func(x ...float64) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.New(tensor.Float64, []int{len(x)}, x).Rounded()}
	}
	p, g, m, v := some(0.7, -2), some(-0.3, 1.5), some(0.2, 0.4), some(0.05, 0.01)
	lr, steps := tensor.Wrap(0.2), some(3)
	steps[0] = steps[0].Reshape(1)
	for name, args := range map[string]any{
		"_fused_adam_": &adamArgs{Self: p, Grads: g, ExpAvgs: m, ExpAvgSqs: v, MaxExpAvgSqs: some(0.3, 0.03), Lr: lr,
			StateSteps: steps, Beta1: 0.8, Beta2: 0.9, WeightDecay: 0.1, Eps: 0.3, Amsgrad: true,
			GradScale: tensor.Wrap(2.0)},
		"_fused_sgd_": &sgdArgs{Self: p, Grads: g, MomentumBufferList: m, Lr: lr, Momentum: 0.8, WeightDecay: 0.1,
			Dampening: 0.3, Nesterov: true},
		"_fused_adagrad_": &adagradArgs{Self: p, Grads: g, StateSums: v, StateSteps: steps, Lr: lr, LrDecay: 0.1,
			WeightDecay: 0.1, Eps: 0.3},
		"adadelta": &adadeltaArgs{Self: p, Grads: g, SquareAvgs: v, AccDeltas: some(0.1, 0.3), Lr: 0.2, Rho: 0.9,
			Eps: 0.1, WeightDecay: 0.1},
		"rmsprop": &rmspropArgs{Self: p, Grads: g, SquareAvgs: v, GradAvgs: some(0.1, -0.1), MomentumBufferList: m,
			Lr: 0.2, Alpha: 0.9, Eps: 0.3, WeightDecay: 0.1, Momentum: 0.8, Centered: true},
		"torch.optim.adamax.adamax": &adamaxArgs{Params: p, Grads: g, ExpAvgs: m, ExpInfs: some(0.5, 0.01),
			StateSteps: steps, Lr: lr, Beta1: 0.8, Beta2: 0.9, WeightDecay: 0.1, Eps: 0.02},
		"torch.optim.radam.radam": &radamArgs{Params: []*tensor.Tensor{p[0], p[0]}, Grads: []*tensor.Tensor{g[0], g[0]},
			ExpAvgs: []*tensor.Tensor{m[0], m[0]}, ExpAvgSqs: []*tensor.Tensor{v[0], v[0]}, Lr: lr, Beta1: 0.8,
			StateSteps: slices.Concat(some(8), some(4)), Beta2: 0.9, WeightDecay: 0.1, Eps: 0.3},
		"torch.optim.nadam.nadam": &nadamArgs{Params: p, Grads: g, ExpAvgs: m, ExpAvgSqs: v, MuProducts: steps,
			StateSteps: steps, Lr: lr, Beta1: 0.8, Beta2: 0.9, WeightDecay: 0.1, MomentumDecay: 2, Eps: 0.3},
		"torch.optim.asgd.asgd": &asgdArgs{Params: p, Grads: g, Axs: m, Mus: []*tensor.Tensor{tensor.Wrap(0.4)},
			Etas: []*tensor.Tensor{tensor.Wrap(0.3)}, StateSteps: steps, Lr: lr, Lambd: 0.1, Alpha: 0.7, T0: 1,
			WeightDecay: 0.1},
		"torch.optim.rprop.rprop": &rpropArgs{Params: some(0.7, -2, 1, 0), Grads: some(-0.3, 1.5, 1, -2),
			Prevs: some(0.2, 0.4, -1, -1), StepSizes: some(0.05, 0.5, 0.4, 0.1), StateSteps: steps, StepSizeMin: 0.04,
			StepSizeMax: 0.55, Etaminus: 0.5, Etaplus: 1.2},
	} {
		call := optimizerEntry(t, name).NewCall(args)
		sound, err := call.Forward()
		if err != nil {
			t.Fatal(err)
		}
		if len(call.Mistakes()) < 10 {
			t.Errorf("%s has %d mistakes", name, len(call.Mistakes()))
		}
		for _, mistake := range call.Mistakes() {
			wrong, err := mistake.Plan()
			if err != nil {
				t.Fatal(err)
			}
			fwd, err := wrong.Forward()
			if err != nil {
				t.Fatal(err)
			}
			same := true
			for list, ts := range sound.After {
				for k, x := range ts {
					for i := range tensor.Data[float64](x) {
						same = same && tensor.At[float64](x, i) == tensor.At[float64](fwd.After[list][k], i)
					}
				}
			}
			if same {
				t.Errorf("%s: %s: the step is the sound one", name, mistake.Text)
			}
		}
	}
}

// TestDampenedFirstStep: dampening that applies in the first step of a buffer, too, which is the gradient then.
func TestDampenedFirstStep(t *testing.T) {
	one := func(x float64) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.New(tensor.Float64, []int{1}, []float64{x}).Rounded()}
	}
	call := optimizerEntry(t, "_fused_sgd_").NewCall(&sgdArgs{Self: one(0.7), Grads: one(-0.3),
		MomentumBufferList: one(0), Lr: tensor.Wrap(0.1), Momentum: 0.8, Dampening: 0.25, IsFirstStep: true})
	for _, m := range call.Mistakes() {
		if m.Text != "dampening applies in the first step, too" {
			continue
		}
		wrong, err := m.Plan()
		if err != nil {
			t.Fatal(err)
		}
		fwd, err := wrong.Forward()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := tensor.At[float64](fwd.After["self"][0], 0), 0.7+0.1*0.75*0.3; math.Abs(got-want) > 1e-12 {
			t.Errorf("got %v, want %v", got, want)
		}
		return
	}
	t.Error("no such mistake")
}

// TestFunctionalMistakes: what steps of functions leave with a mistake, by formulas of their own, of one element.
func TestFunctionalMistakes(t *testing.T) {
	const p, g, v, u, m, lr, rho, eps = 0.7, -0.3, 0.05, 0.02, -0.1, 0.1, 0.8, 1e-3
	one := func(x float64) []*tensor.Tensor { return optimizerTensors(x) }
	square, mean := rho*v+(1-rho)*g*g, rho*m+(1-rho)*g
	delta := math.Sqrt(u+eps) / math.Sqrt(square+eps) * g
	rms := func(m float64) float64 { return p - lr*g/(math.Sqrt(square-m*m)+eps) }
	adadelta := &functionalAdadeltaArgs{Params: one(p), Grads: one(g), SquareAvgs: one(v), AccDeltas: one(u),
		StateSteps: one(3), Lr: tensor.Wrap(lr), Rho: rho, Eps: eps}
	rmsprop := &functionalRMSpropArgs{Params: one(p), Grads: one(g), SquareAvgs: one(v), GradAvgs: one(m),
		StateSteps: one(3), Lr: tensor.Wrap(lr), Alpha: rho, Eps: eps, Centered: true}
	adamax := &adamaxArgs{Params: one(p), Grads: one(g), ExpAvgs: one(m), ExpInfs: one(0.4), StateSteps: one(3),
		Lr: tensor.Wrap(lr), Beta1: 0.9, Beta2: rho, Eps: eps}
	largest := func(u, corrected float64) float64 { return p - lr/corrected*(0.9*m+0.1*g)/u }
	rprop := &rpropArgs{Params: one(p), Grads: one(g), Prevs: one(0.2), StepSizes: one(0.1), StateSteps: one(3),
		StepSizeMin: 0, StepSizeMax: 1, Etaminus: 0.5, Etaplus: 1.2}
	for _, c := range []struct {
		op   string
		args any
		text string
		list string
		want float64
	}{
		{"torch.optim.adadelta.adadelta", adadelta,
			"acc_delta is made of the square of the gradient, not of the update's", "acc_deltas", rho*u + (1-rho)*g*g},
		{"torch.optim.adadelta.adadelta", adadelta, "acc_delta is made of the square of the update times lr",
			"acc_deltas", rho*u + (1-rho)*lr*delta*lr*delta},
		{"torch.optim.adadelta.adadelta", adadelta, "the roots of acc_delta and square_avg are exchanged", "params",
			p - lr*math.Sqrt(square+eps)/math.Sqrt(u+eps)*g},
		{"torch.optim.adadelta.adadelta", adadelta, "state_steps is not counted up", "state_steps", 3},
		{"torch.optim.rmsprop.rmsprop", rmsprop, "the square of grad_avg from before the step is subtracted", "params",
			rms(m)},
		{"torch.optim.rmsprop.rmsprop", rmsprop, "the weights of grad_avg are exchanged", "params",
			rms((1-rho)*m + rho*g)},
		{"torch.optim.rmsprop.rmsprop", rmsprop, "", "params", rms(mean)},
		{"torch.optim.adamax.adamax", adamax, "", "params", largest(rho*0.4, 1-0.9*0.9*0.9*0.9)},
		{"torch.optim.adamax.adamax", adamax, "exp_inf does not decay: what is kept of it is not multiplied",
			"exp_infs", 0.4},
		{"torch.optim.adamax.adamax", adamax, "exp_avg is corrected by beta2, not by beta1", "params",
			largest(rho*0.4, 1-rho*rho*rho*rho)},
		{"torch.optim.rprop.rprop", rprop, "", "params", p},
		{"torch.optim.rprop.rprop", rprop,
			"the parameter steps all the same where the sign of the gradient is another one", "params", p + 0.5*0.1},
		{"torch.optim.rprop.rprop", rprop, "the gradient is stored also where its sign is another one", "prevs", g},
	} {
		got := after(t, c.op, c.args, c.text)[c.list]
		if x := tensor.At[float64](got[0], 0); math.Abs(x-c.want) > 1e-12 {
			t.Errorf("%s, %q: %s %v, want %v", c.op, c.text, c.list, x, c.want)
		}
	}
}

// after is what a step leaves with a mistake, or, for "", the sound one.
func after(t *testing.T, op string, args any, mistake string) map[string][]*tensor.Tensor {
	t.Helper()
	call := optimizerEntry(t, op).NewCall(args)
	for _, m := range call.Mistakes() {
		if m.Text == mistake {
			wrong, err := m.Plan()
			if err != nil {
				t.Fatal(err)
			}
			call, mistake = wrong, ""
			break
		}
	}
	if mistake != "" {
		t.Fatalf("%s has no mistake %q", op, mistake)
	}
	fwd, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	return fwd.After
}

// TestListsOfOlderTorch: torch 1.13 adds the weight decay to the gradients themselves where it updates lists, and
// computes the rate of Adagrad in float32. Such a call gives no has_complex.
func TestListsOfOlderTorch(t *testing.T) {
	yes, no, one := true, false, optimizerTensors(1)
	adagrad := func(foreach, complex *bool, decay float64, maximize bool) any {
		return &functionalAdagradArgs{Params: one, Grads: one, StateSums: one, StateSteps: one, Foreach: foreach,
			HasComplex: complex, Lr: tensor.Wrap(0.1), WeightDecay: decay, Maximize: maximize}
	}
	sgd := func(fused *bool) any {
		return &functionalSGDArgs{Params: one, Grads: one, Foreach: &yes, Fused: fused, Lr: tensor.Wrap(0.1),
			WeightDecay: 0.1}
	}
	counts := &functionalAdagradArgs{Params: one, Grads: one, StateSums: one, Foreach: &yes, Lr: tensor.Wrap(0.1),
		StateSteps: []*tensor.Tensor{tensor.Full(tensor.Float32, nil, 3.0)}}
	for _, c := range []struct {
		name, op string
		args     any
		judged   bool
	}{
		{"decay", "torch.optim.adagrad.adagrad", adagrad(&yes, nil, 0.1, false), false},
		{"no decay", "torch.optim.adagrad.adagrad", adagrad(&yes, nil, 0, false), true},
		{"maximize", "torch.optim.adagrad.adagrad", adagrad(&yes, nil, 0.1, true), true},
		{"single tensors", "torch.optim.adagrad.adagrad", adagrad(&no, nil, 0.1, false), true},
		{"torch 2", "torch.optim.adagrad.adagrad", adagrad(&yes, &no, 0.1, false), true},
		{"float32 numbers of float64 steps", "torch.optim.adagrad.adagrad", counts, false},
		{"SGD of torch 2", "torch.optim.sgd.sgd", sgd(nil), true},
		{"SGD", "torch.optim.sgd.sgd", sgd(&no), false},
	} {
		if _, err := optimizerEntry(t, c.op).NewCall(c.args).Forward(); (err == nil) != c.judged {
			t.Errorf("%s: error %v, want a judgement: %v", c.name, err, c.judged)
		}
	}
}

// TestNumbersAsTensors: where the corrections are tensors of float32, an early one has few correct digits.
func TestNumbersAsTensors(t *testing.T) {
	size := func(capturable bool) float64 {
		one := func(x float64) []*tensor.Tensor { return []*tensor.Tensor{tensor.Full(tensor.Float32, []int{1}, x)} }
		beta := tensor.Wrap(0.999)
		call := optimizerEntry(t, "torch.optim.adam.adam").NewCall(&functionalAdamArgs{Params: one(0), Grads: one(1),
			ExpAvgs: one(0), ExpAvgSqs: one(0), StateSteps: one(0), Lr: tensor.Wrap(0.1), Beta1: tensor.Wrap(0.9),
			Beta2: beta, Capturable: capturable})
		fwd, err := call.Forward()
		if err != nil {
			t.Fatal(err)
		}
		return tensor.At[float64](call.AfterBound("params", 0, fwd.After["params"][0]).Scale(), 0)
	}
	if numbers, tensors := size(false), size(true); tensors < 900*numbers || tensors > 1100*numbers {
		t.Errorf("scale %v with tensors, %v with numbers", tensors, numbers)
	}
}

// TestRectification: with beta2 = 0.9 the length is 4.58 in step 5 and 5.39 in step 6. It is a difference of larger
// numbers, so that few digits of it are right in float64.
func TestRectification(t *testing.T) {
	const most, five, six = 19, 0.59049, 0.531441
	length := func(steps, power float64) float64 { return most - 2*steps*power/(1-power) }
	scale := func(l float64) float64 { return math.Sqrt((l - 4) * (l - 2) * most / ((most - 4) * (most - 2) * l)) }
	for _, c := range []struct {
		how     rectification
		steps   float64
		factor  float64
		divided bool
	}{
		{rectifyLate, 5, 1, false}, {rectifyLate, 6, scale(length(6, six)), true},
		{rectifyTooEarly, 5, scale(length(5, five)), true}, {rectifyOnly, 5, 1, true}, {rectifyNone, 6, 1, true},
		{rectifySquare, 6, math.Pow(scale(length(6, six)), 2), true},
		{rectifyInverse, 6, 1 / scale(length(6, six)), true},
	} {
		factor, divided, _ := c.how.of(0.9, c.steps)
		if math.Abs(factor-c.factor) > 1e-12 || divided != c.divided {
			t.Errorf("%d, step %v: %v and %v, want %v and %v", c.how, c.steps, factor, divided, c.factor, c.divided)
		}
	}
	if _, _, lost := rectifyLate.of(0.999, 6); lost < 1e5 {
		t.Errorf("%v of the rounding error", lost)
	}
}
