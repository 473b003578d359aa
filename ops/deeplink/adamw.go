package deeplink

import (
	"math"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

// An adamOptions is what steps of AdamW have in common.
type adamOptions struct {
	Amsgrad                            bool
	Beta1, Beta2, Lr, WeightDecay, Eps float64
}

// step is the step number n of AdamW.
func (o *adamOptions) step(g *compose.Graph, n float64) fused.AdamW {
	if !(n >= 1) {
		g.Refuse("step", "want a number from 1, got %g", n)
	}
	return fused.AdamW{Beta1: o.Beta1, Beta2: o.Beta2, Power1: math.Pow(o.Beta1, n), Power2: math.Pow(o.Beta2, n),
		Lr: o.Lr, Decay: o.WeightDecay, Eps: o.Eps}
}

// someOptions are those of cases.
func someOptions(amsgrad bool) adamOptions {
	return adamOptions{Amsgrad: amsgrad, Beta1: 0.9, Beta2: 0.99, Lr: 0.01, WeightDecay: 0.1, Eps: 1e-3}
}

const (
	adamFormula = "m = beta1*m + (1-beta1)*grad, v = beta2*v + (1-beta2)*grad^2, param = param*(1 - lr*weight_decay) " +
		"- lr * m/(1-beta1^step) / (sqrt(v/(1-beta2^step)) + eps)"
	adamNotes = "m and v are exp_avg and exp_avg_sq. With amsgrad the largest v so far takes its place, which is " +
		"max_exp_avg_sq."
)

type extAdamArgs struct {
	Param, ExpAvg, ExpAvgSq, MaxExpAvgSq, Grad *tensor.Tensor
	Lr, Beta1, Beta2, Epsilon, WeightDecay     float64
	Step                                       int
	Amsgrad                                    bool
}

var extAdamW = compose.DeclareInPlace(compose.Op[extAdamArgs]{
	Schema: "deeplink_ext_cpp_adamw(Tensor param, Tensor exp_avg, Tensor exp_avg_sq, Tensor? max_exp_avg_sq, " +
		"Tensor grad, float lr, float beta1, float beta2, float epsilon, float weight_decay, int step, bool amsgrad) " +
		"-> ()",
	Names: ext("adamw"),
	Doc: opdef.Doc{Summary: "A step of AdamW, in place", Formula: adamFormula, Notes: adamNotes,
		Source: "diopiAdamW"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *extAdamArgs {
		a := &extAdamArgs{g.Normal(dt, 3, 4), g.Normal(dt, 3, 4), g.Uniform(dt, 0.1, 1, 3, 4), nil,
			g.Normal(dt, 3, 4), 0.01, 0.9, 0.99, 1e-3, 0.1, 2, false}
		if g.Nth == 1 {
			a.Amsgrad, a.MaxExpAvgSq = true, g.Uniform(dt, 0.1, 1, 3, 4)
		}
		return a
	}),
}, []string{"param", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, func(g *compose.Graph,
	a *extAdamArgs) compose.Values {
	o := adamOptions{a.Amsgrad, a.Beta1, a.Beta2, a.Lr, a.WeightDecay, a.Epsilon}
	top := g.Arg("max_exp_avg_sq", a.MaxExpAvgSq)
	if a.Amsgrad == (top == nil) {
		g.Refuse("max_exp_avg_sq", "it is given with amsgrad, and only then")
	}
	return o.step(g, float64(a.Step)).Step(g, g.Arg("param", a.Param), g.Arg("exp_avg", a.ExpAvg),
		g.Arg("exp_avg_sq", a.ExpAvgSq), top, g.AtLeast(g.Arg("grad", a.Grad), tensor.Float32))
})

// An adamLists are parameters with their gradients and moments.
type adamLists struct {
	Params, Grads, ExpAvgs, ExpAvgSqs, MaxExpAvgSqs []*tensor.Tensor
}

const adamSchema = "Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] " +
	"max_exp_avg_sqs, "

// someLists are those of cases.
func someLists(g opdef.Gen, dt tensor.DType, amsgrad bool) (l adamLists) {
	for _, shape := range [][]int{{3, 4}, {5}} {
		l.Params = append(l.Params, g.Normal(dt, shape...))
		l.Grads = append(l.Grads, g.Normal(dt, shape...))
		l.ExpAvgs = append(l.ExpAvgs, g.Normal(dt, shape...))
		l.ExpAvgSqs = append(l.ExpAvgSqs, g.Uniform(dt, 0.1, 1, shape...))
		if amsgrad {
			l.MaxExpAvgSqs = append(l.MaxExpAvgSqs, g.Uniform(dt, 0.1, 1, shape...))
		}
	}
	return l
}

// update is the step number at(i) of each parameter i, whose gradient is first multiplied by
// factor; it returns parameters, first and second moments.
func (l *adamLists) update(g *compose.Graph, o *adamOptions, factor float64, at func(i int) float64) compose.Values {
	lists := []struct {
		name   string
		values []*compose.Value
	}{{"params", g.Args("params", l.Params)}, {"exp_avgs", g.Args("exp_avgs", l.ExpAvgs)},
		{"exp_avg_sqs", g.Args("exp_avg_sqs", l.ExpAvgSqs)}, {"max_exp_avg_sqs", g.Args("max_exp_avg_sqs",
			l.MaxExpAvgSqs)}}
	grads, n := g.Args("grads", l.Grads), len(l.Params)
	if !o.Amsgrad {
		lists = lists[:3]
	}
	for _, list := range lists {
		if len(list.values) != n || len(grads) != n {
			g.Refuse(list.name, "want %d tensors, one per parameter, got %d", n, len(list.values))
		}
	}
	out := make(compose.Values, 3*n)
	for i := range n {
		var top *compose.Value
		if o.Amsgrad {
			top = lists[3].values[i]
		}
		grad := g.AtLeast(grads[i], tensor.Float32)
		if factor != 1 {
			grad = g.Scale(grad, factor)
		}
		results := o.step(g, at(i)).Step(g, lists[0].values[i], lists[1].values[i], lists[2].values[i], top, grad)
		for k, list := range lists {
			if g.Update(list.name, results[k]); k < 3 {
				out[k*n+i] = results[k]
			}
		}
	}
	return out
}

type fusedAdamArgs struct {
	adamLists
	Step int
	adamOptions
	Maximize bool
}

var fusedAdamW = compose.DeclareInPlace(compose.Op[fusedAdamArgs]{
	Schema: "deeplink_ext_fused_adamw(" + adamSchema + "int step, *, bool amsgrad, float beta1, float beta2, float " +
		"lr, " +
		"float weight_decay, float eps, bool maximize) -> ()",
	Names: names("interntrain_ops._adamw_dipu.fused_adamw"),
	Doc: opdef.Doc{Summary: "A step of AdamW on lists of tensors, in place", Formula: adamFormula,
		Notes: adamNotes + " maximize is refused.", Source: "deeplink_ext.interntrain_ops.adamw"},
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *fusedAdamArgs {
		return &fusedAdamArgs{someLists(g, dt, g.Nth == 1), 3, someOptions(g.Nth == 1), false}
	}),
}, nil, func(g *compose.Graph, a *fusedAdamArgs) compose.Values {
	refuseMaximize(g, a.Maximize)
	a.update(g, &a.adamOptions, 1, func(int) float64 { return float64(a.Step) })
	return nil
})

// refuseMaximize refuses what DeepLinkExt does.
func refuseMaximize(g *compose.Graph, maximize bool) {
	if maximize {
		g.Refuse("maximize", "DeepLinkExt does not support it")
	}
}

type adamArgs struct {
	adamLists
	StateSteps []int
	adamOptions
	Maximize       bool
	NormCoeffScale *float64
}

var adamw = compose.Declare(compose.Op[adamArgs]{
	Schema: "deeplink_ext_adamw(" + adamSchema + "int[] state_steps, *, bool amsgrad, float beta1, float beta2, " +
		"float lr, float weight_decay, float eps, bool maximize, float? norm_coeff_scale) -> Tensor[]",
	Names: names("ascend_speed.adamw", "ascend_speed.adamw.adamw"),
	Doc: opdef.Doc{Summary: "A step of AdamW on lists of tensors, in place", Formula: adamFormula,
		Notes: adamNotes + " Gradients are multiplied by norm_coeff_scale, if that is given. Results are the lists " +
			"of " +
			"parameters, m and v, one after the other. maximize is refused."},
	NoGrad: "it is a step of an optimizer",
	Cases: opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *adamArgs {
		half := 0.5
		a := &adamArgs{someLists(g, dt, g.Nth == 1), []int{3, 1}, someOptions(g.Nth == 1), false, nil}
		if g.Nth == 0 {
			a.NormCoeffScale = &half
		}
		return a
	}),
}, compose.Fused, func(g *compose.Graph, a *adamArgs) compose.Values {
	refuseMaximize(g, a.Maximize)
	if len(a.StateSteps) != len(a.Params) {
		g.Refuse("state_steps", "want %d steps, one per parameter, got %d", len(a.Params), len(a.StateSteps))
	}
	factor := 1.0
	if a.NormCoeffScale != nil {
		factor = *a.NormCoeffScale
	}
	return a.update(g, &a.adamOptions, factor, func(i int) float64 { return float64(a.StateSteps[i]) })
})
