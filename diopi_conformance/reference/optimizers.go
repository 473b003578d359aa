package reference

import (
	"math"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// optimizerFunctions make one step of an optimizer. They return the new values
// of the parameter and of its state, None where there is no state.
//
// Source: torch.optim, the algorithms in the documentation of each class.
var optimizerFunctions = map[string]function{
	"sgd":      sgd,
	"adadelta": adadelta,
	"rmsprop":  rmsprop,
}

// update replaces, element by element, the values of ts by what rule makes of
// them; a nil tensor has value 0 and stays nil. Tensors have one shape.
func update(ts []*tensor.Tensor, rule func(v []float64)) []*tensor.Tensor {
	data := make([][]float64, len(ts))
	n := 0
	for i, t := range ts {
		if t != nil {
			data[i] = append([]float64(nil), tensor.Data[float64](t)...)
			n = len(data[i])
		}
	}
	v := make([]float64, len(ts))
	for e := range n {
		for i, d := range data {
			if v[i] = 0; d != nil && e < len(d) {
				v[i] = d[e]
			}
		}
		rule(v)
		for i, d := range data {
			if d != nil && e < len(d) {
				d[e] = v[i]
			}
		}
	}
	out := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		if t != nil {
			out[i] = tensor.New(t.DType, t.Shape, data[i])
		}
	}
	return out
}

// optional is a tensor argument that may be None.
func (a *arguments) optional(name string) *tensor.Tensor {
	t, _ := a.value(name).(*tensor.Tensor)
	return t
}

// sgd is torch.optim's sequence of tensor operations: what they pass on has the
// dtype of the parameter. The configuration's tolerance of float16 is one ulp,
// less than leaving the roundings out makes.
func sgd(_ *Tape, a *arguments) value.Value {
	lr, momentum, dampening, decay, nesterov := a.float("lr"), a.float("momentum"), a.float("dampening"),
		a.float("weight_decay"), a.bool("nesterov")
	param, buf := a.tensor("param"), a.optional("buf")
	pass := param.DType.Round
	out := update([]*tensor.Tensor{param, a.tensor("param_grad"), buf}, func(v []float64) {
		g := pass(v[1] + decay*v[0])
		if momentum != 0 {
			b := g
			if buf != nil {
				b = pass(pass(momentum*v[2]) + (1-dampening)*g)
			}
			v[2] = b
			if nesterov {
				g = pass(g + momentum*b)
			} else {
				g = b
			}
		}
		v[0] -= lr * g
	})
	return list(out[0], out[2])
}

func adadelta(_ *Tape, a *arguments) value.Value {
	lr, rho, eps, decay := a.float("lr"), a.float("rho"), a.float("eps"), a.float("weight_decay")
	out := update([]*tensor.Tensor{a.tensor("param"), a.tensor("param_grad"), a.tensor("square_avg"),
		a.tensor("acc_delta")}, func(v []float64) {
		g := v[1] + decay*v[0]
		v[2] = rho*v[2] + (1-rho)*g*g
		delta := math.Sqrt(v[3]+eps) / math.Sqrt(v[2]+eps) * g
		v[3] = rho*v[3] + (1-rho)*delta*delta
		v[0] -= lr * delta
	})
	return list(out[0], out[2], out[3])
}

func rmsprop(_ *Tape, a *arguments) value.Value {
	lr, alpha, eps, decay, momentum, centered := a.float("lr"), a.float("alpha"), a.float("eps"),
		a.float("weight_decay"), a.float("momentum"), a.bool("centered")
	out := update([]*tensor.Tensor{a.tensor("param"), a.tensor("param_grad"), a.tensor("square_avg"),
		a.optional("grad_avg"), a.optional("momentum_buffer")}, func(v []float64) {
		g := v[1] + decay*v[0]
		v[2] = alpha*v[2] + (1-alpha)*g*g
		sq := v[2]
		if centered {
			v[3] = alpha*v[3] + (1-alpha)*g
			sq -= v[3] * v[3]
		}
		avg := math.Sqrt(sq) + eps
		if momentum > 0 {
			v[4] = momentum*v[4] + g/avg
			v[0] -= lr * v[4]
		} else {
			v[0] -= lr * g / avg
		}
	})
	return list(out[0], out[2], out[3], out[4])
}
