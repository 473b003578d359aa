package diopi

import (
	"math"

	"github.com/optool/optool/tensor"
)

// Creation, filling and random numbers.
var creations = []*Recipe{
	{Function: "fill_", sig: "input value", fwd: "Fill", returns: "input"},
	{Function: "zero_", sig: "input", fwd: "ZeroInp", bind: bindings{"self": "input"}, returns: "input"},
	{Function: "ones", sig: "size dtype=None", fwd: "Ones",
		outs: []out{result(orDType(constant(tensor.Float32)), sizeOf("size"))}},
	{Function: "zeros", sig: "size dtype=None", fwd: "Zeros",
		outs: []out{result(orDType(constant(tensor.Float32)), sizeOf("size"))}},
	{Function: "arange", sig: "end start=0 step=1 dtype=None", fwd: "Arange",
		outs: []out{result(orDType(func(b *build) tensor.DType {
			for _, a := range []string{"start", "end", "step"} {
				if _, isFloat := b.args[a].(float64); isFloat {
					return tensor.Float32
				}
			}
			return index(b)
		}), func(b *build) []int {
			n := math.Ceil((b.float("end") - b.float("start")) / b.float("step"))
			if !(n >= 0 && n < 1<<40) {
				b.fail("arange of %v from %v by %v has no length", b.float("end"), b.float("start"), b.float("step"))
			}
			return []int{int(n)}
		})}},
	{Function: "linspace", sig: "start end steps dtype=None", fwd: "Linspace",
		outs: []out{result(orDType(constant(tensor.Float32)), sizeOf("steps"))}},
	{Function: "randperm", sig: "n dtype=None generator=None", fwd: "Randperm",
		outs: []out{result(orDType(index), sizeOf("n"))}},
	{Function: "multinomial", sig: "input num_samples replacement generator=None", fwd: "Multinomial",
		outs: []out{result(constant(tensor.Int64), func(b *build) []int {
			x := b.rank("input", 1, 2)
			return replaced(x, len(x)-1, b.int("num_samples"))
		})}},
	{Function: "uniform", sig: "input start=0 end=1 generator=None", fwd: "UniformInp",
		bind: bindings{"inout": "input", "from": "start", "to": "end"}, returns: "input"},
	{Function: "random", sig: "input start=0 end=None generator=None", fwd: "RandomInp",
		bind: bindings{"inout": "input", "from": "start", "to": "end"}, returns: "input"},
	{Function: "normal_", sig: "input mean std shape=None generator=None", fwd: "NormalInp",
		bind: bindings{"inout": "input"}, returns: "input"},
	{Function: "normal", sig: "mean std size=None generator=None",
		fwd: "Normal NormalTensorScalar NormalScalarTensor NormalTensor",
		outs: []out{result(func(b *build) tensor.DType {
			mean, isMean := b.args["mean"].(*Tensor)
			std, isStd := b.args["std"].(*Tensor)
			switch {
			case isMean && isStd && tensor.Numel(mean.Shape) <= tensor.Numel(std.Shape):
				return std.DType
			case isMean:
				return mean.DType
			case isStd:
				return std.DType
			}
			return tensor.Float32
		}, func(b *build) []int {
			if b.args["size"] != nil {
				return b.ints("size")
			}
			return broadcast("mean", "std")(b)
		})}},
	// With a number p the kit writes into the input, in place or not.
	{Function: "bernoulli", sig: "input p=None generator=None", fwd: "Bernoulli", inp: "BernoulliInp",
		also: "BernoulliScalar",
		outs: []out{like("input")},
		bind: bindings{"inout": "input"},
		forward: func(b *build) {
			if b.args["p"] == nil {
				b.callForward(b.r.fwd)
				return
			}
			b.returnArgument("input")
			b.bernoulliScalar()
		},
		inplace: func(b *build) {
			if b.args["p"] == nil {
				b.callInPlace()
				return
			}
			b.bernoulliScalar()
			b.plan.InPlace = b.tensor("input")
		}},
}

func (b *build) bernoulliScalar() {
	b.call("BernoulliScalar", nil, map[string]Arg{"out": b.tensor("input")})
}

var optimizers = []*Recipe{
	{Function: "sgd", sig: "param param_grad lr buf=None momentum=0 dampening=0 weight_decay=0 nesterov=False",
		fwd:  "Sgd",
		bind: bindings{"grad": "param_grad"}, returns: "param buf"},
	{Function: "adam", sig: adamSig, fwd: "Adam", bind: bindings{"grad": "param_grad"},
		returns: "param exp_avg exp_avg_sq max_exp_avg_sq"},
	{Function: "adamw", sig: adamSig, fwd: "AdamW", bind: bindings{"grad": "param_grad"},
		returns: "param exp_avg exp_avg_sq max_exp_avg_sq"},
	{Function: "adadelta", sig: "param param_grad square_avg acc_delta lr rho eps weight_decay", fwd: "Adadelta",
		bind: bindings{"grad": "param_grad"}, returns: "param square_avg acc_delta"},
	{Function: "rmsprop",
		sig:     "param param_grad square_avg grad_avg momentum_buffer lr alpha eps weight_decay momentum centered",
		fwd:     "Rmsprop",
		bind:    bindings{"grad": "param_grad", "momentum_buf": "momentum_buffer"},
		returns: "param square_avg grad_avg momentum_buffer"},
	{Function: "fused_adamw",
		sig: "params grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps lr beta1 beta2 eps weight_decay " +
			"amsgrad=False maximize=False",
		fwd: "FusedAdamW", returns: "params exp_avgs exp_avg_sqs max_exp_avg_sqs"},
}

const adamSig = "param param_grad exp_avg exp_avg_sq max_exp_avg_sq lr beta1 beta2 eps weight_decay step amsgrad=False"
