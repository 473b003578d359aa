package reference

import (
	"math"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// layerFunctions are layers and losses composed of operators.
var layerFunctions = map[string]function{
	"im2col": func(t *Tape, a *arguments) value.Value {
		return t.Call("torch.nn.functional.unfold", []value.Value{a.value("input")}, a.without("input"))
	},
	"col2im": func(t *Tape, a *arguments) value.Value {
		return t.Call("torch.nn.functional.fold", []value.Value{a.value("input")}, a.without("input"))
	},
	"layer_normGB": func(t *Tape, a *arguments) value.Value {
		return t.Call("torch.nn.functional.layer_norm", []value.Value{a.value("input")}, a.without("input"))
	},
	"nll_loss_v2": func(t *Tape, a *arguments) value.Value {
		return t.Call("torch.nn.functional.nll_loss", []value.Value{a.value("input"), a.value("target")},
			a.without("input", "target"))
	},
	"ctc_loss": func(t *Tape, a *arguments) value.Value {
		x := t.op("torch.log_softmax", a.tensor("log_probs"), number(2))
		return t.Call("torch.nn.functional.ctc_loss", []value.Value{x}, a.without("log_probs"))
	},
	"linalgqr": func(t *Tape, a *arguments) value.Value {
		return t.Call("torch.linalg.qr", []value.Value{a.value("input"), a.value("mode")}, nil)
	},
	// torch has no gradient for the number of elements that are not zero.
	"norm": func(t *Tape, a *arguments) value.Value {
		out := t.Call("torch.norm", []value.Value{a.value("input")}, a.without("input"))
		if p := a.value("p"); p == int64(0) || p == 0.0 {
			return detached(out)
		}
		return out
	},
	"pool1d":          pool("1d"),
	"pool2d":          pool("2d"),
	"pool3d":          pool("3d"),
	"rms_norm":        rmsNorm,
	"clip_grad_norm_": clipGradNorm,
	"spmm": func(t *Tape, a *arguments) value.Value {
		return t.op("torch.matmul", a.tensor("input"), a.tensor("mat2"))
	},
}

// pool chooses the pooling function that mode and adaptive name.
func pool(rank string) function {
	return func(t *Tape, a *arguments) value.Value {
		x, mode := a.value("input"), ""
		if mode, _ = a.value("mode").(string); mode != "avg" && mode != "max" {
			t.fail("argument mode: want avg or max, got %s", value.Repr(a.value("mode")))
			return nil
		}
		name := "torch.nn.functional." + mode + "_pool" + rank
		if a.bool("adaptive") {
			name = strings.Replace(name, mode, "adaptive_"+mode, 1)
			return t.Call(name, []value.Value{x, a.value("output_size")}, nil)
		}
		args := []value.Value{x, a.value("kernel_size"), a.value("stride"), a.value("padding")}
		if mode == "avg" {
			return t.Call(name, append(args, a.value("ceil_mode"), a.value("count_include_pad")), nil)
		}
		return t.Call(name, append(args, a.value("dilation"), a.value("ceil_mode")), nil)
	}
}

// rmsNorm divides by the root of the mean square over the last dimensions, as
// many as normalized_shape has, then applies weight and bias.
func rmsNorm(t *Tape, a *arguments) value.Value {
	x := a.tensor("input")
	dims := sizes(-1)
	if a.has("normalized_shape") {
		dims = value.NewList()
		for d := range a.ints("normalized_shape") {
			dims.Items = append(dims.Items, number(-1-d))
		}
	}
	wide := t.op("torch.Tensor.to", x, tensor.Float64)
	square := t.op("torch.mul", wide, wide)
	root := t.op("torch.rsqrt", t.op("torch.add", t.op("torch.mean", square, dims, true), a.float("eps")))
	out := t.op("torch.mul", t.op("torch.mul", wide, root), a.tensor("weight"))
	if a.has("bias") {
		out = t.op("torch.add", out, a.tensor("bias"))
	}
	return t.op("torch.Tensor.to", out, x.DType)
}

// clipGradNorm returns the norm of the norms of all tensors; that they are
// scaled in place is not part of the result.
func clipGradNorm(t *Tape, a *arguments) value.Value {
	grads := a.tensors("tensors")
	p := value.Value(2.0)
	if a.has("norm_type") {
		p = a.value("norm_type")
	}
	if s, ok := p.(string); ok && s == "inf" {
		p = math.Inf(1)
	}
	if len(grads) == 0 {
		return tensor.Scalar(tensor.Float32, 0.0)
	}
	norms := value.NewList()
	for _, g := range grads {
		norms.Items = append(norms.Items, t.op("torch.norm", g, p))
	}
	if p == math.Inf(1) && len(grads) == 1 {
		return norms.Items[0]
	}
	total := t.op("torch.norm", t.op("torch.stack", norms), p)
	if t.err == nil && a.bool("error_if_nonfinite") {
		if v := total.DType.Round(total.Item()); math.IsNaN(v) || math.IsInf(v, 0) {
			t.fail("the total norm is %v, and error_if_nonfinite is set", v)
		}
	}
	return total
}
