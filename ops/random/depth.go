package random

import (
	"github.com/optool/optool/ops/internal/draws"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type depthArgs struct {
	Input    *tensor.Tensor
	P        float64
	Mode     string
	Training bool
}

// mask is what is dropped: all, or rows.
func (a *depthArgs) mask() draws.Mask {
	m := draws.Dropout(a.P)
	if m.Group = max(a.Input.Numel(), 1); a.Mode == "row" {
		m.Group = max(tensor.Numel(a.Input.Shape[1:]), 1)
	}
	return m
}

var stochasticDepth = opdef.Op[depthArgs]{
	Schema: "stochastic_depth(Tensor input, float p, str mode, bool training=True) -> Tensor",
	Names:  "torchvision.ops.stochastic_depth torchvision.ops.stochastic_depth.stochastic_depth",
	Doc: opdef.Doc{Summary: "Random rows, or all of a batch, set to zero, the others scaled by 1/(1-p); the tensor " +
		"itself outside training",
		Formula: "input when training is off or p is 0", Notes: "mode is row or batch. Training with p = 1 gives " +
			"zeros."},
	Error: dropoutError,
	Kernel: func(a *depthArgs) ([]*tensor.Tensor, error) {
		if a.Mode != "batch" && a.Mode != "row" {
			return nil, opdef.Refuse("mode", "want batch or row, got %q", a.Mode)
		}
		if a.Input.Dim() == 0 || !a.Input.DType.IsFloat() {
			return nil, opdef.Refuse("input", "want floating rows, got %s", a.Input.Meta())
		}
		return keep(a.Input, a.P, a.Training)
	},
	Grad: func(a *depthArgs, g *opdef.Grad) (opdef.Grads, error) {
		switch {
		case a.Training && a.P == 1:
			return opdef.Grads{"input": {tensor.Full(g.Out[0].DType, g.Out[0].Shape, 0.0)}}, nil
		case drops(a.P, a.Training) != "":
			return opdef.Grads{"input": {a.mask().Grad(a.Input, g.Outs[0], g.Out[0])}}, nil
		}
		return opdef.Grads{"input": {g.Out[0]}}, nil
	},
	Node: func(a *depthArgs, _ *opdef.Grad) (opdef.Node, error) {
		if !a.Training || a.P == 0 {
			return opdef.Node{Skip: elements.GradOfOtherOp}, nil
		}
		return opdef.Node{}, nil
	},
	Cases: opdef.Calls[depthArgs](`
		f64[2, 3, 4], 0.5, 'row', training=False; f64[2, 3, 4], 0.0, 'batch'; f64[2, 3, 4], 1.0, 'row'
		f64[2, 3, 4], 0.5, 'row'; f64[2, 3, 4], 0.5, 'batch'; bf16[3, 2], 0.5, 'row', training=False`),
}.Entry()

func (a *depthArgs) Random() string { return drops(a.P, a.Training) }

func (a *depthArgs) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	if drops(a.P, a.Training) == "" {
		return nil, nil
	}
	return othersOf("input", a.mask(), a.Input, g), nil
}

func (a *depthArgs) Drawn(got []*tensor.Tensor) opdef.Drawn { return judgeMask(a.mask(), a.Input, got) }
