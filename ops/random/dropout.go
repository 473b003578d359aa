package random

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/ops/creation"
	"github.com/optool/optool/ops/internal/draws"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type dropoutArgs struct {
	Self              *tensor.Tensor
	P                 float64
	Training, Inplace bool
}

type nativeDropoutArgs struct {
	Self  *tensor.Tensor
	P     float64
	Train bool
}

// A dropping is a call of the dropout of that name.
type dropping struct {
	name     string
	self     *tensor.Tensor
	p        float64
	training bool
}

// Random is nothing outside training.
func (d *dropping) Random() string { return drops(d.p, d.training) }

// GradElse are the gradients of elements that may have been dropped or kept.
func (d *dropping) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	return keepElse(d.name, d.self, d.p, d.training, g)
}

// Drawn judges what was dropped.
func (d *dropping) Drawn(got []*tensor.Tensor) opdef.Drawn {
	return judgeMask(masked(d.name, d.self, d.p), d.self, got)
}

// dropout declares a dropout of torch.nn.functional.
func dropout(name, names, params string) *opdef.Entry {
	return opdef.Planned[*dropoutArgs, *dropping]{
		Schema: name + "(Tensor self, " + params + ") -> Tensor", Names: names,
		Doc: opdef.Doc{Summary: "Random elements set to zero, the others scaled; the tensor itself outside training",
			Formula: "self when training is off or p is 0",
			Notes:   "Training with p = 1 gives zeros."},
		Error:  dropoutError,
		Plan:   func(a *dropoutArgs) (*dropping, error) { return &dropping{name, a.Self, a.P, a.Training}, nil },
		Kernel: func(d *dropping) ([]*tensor.Tensor, error) { return keep(d.self, d.p, d.training) },
		Grad: func(d *dropping, g *opdef.Grad) (opdef.Grads, error) {
			return keepGrad(name, d.self, d.p, d.training, g)
		},
		Node: func(d *dropping, g *opdef.Grad) (opdef.Node, error) {
			return keepNode(name, d.self, d.p, d.training, g)
		},
		Cases: func(g opdef.Gen) []*dropoutArgs {
			x := func() *tensor.Tensor { return g.Normal(tensor.Float64, 2, 3, 4) }
			return []*dropoutArgs{{x(), 0.5, false, false}, {x(), 0, true, false}, {x(), 1, true, false},
				{x(), 0.5, true, false}, {g.Normal(tensor.BFloat16, 0, 3), 0.5, false, false}}
		},
	}.Entry()
}

// nativeDropout declares a dropout of the torch namespace.
func nativeDropout(name, names string) *opdef.Entry {
	return opdef.Planned[*nativeDropoutArgs, *dropping]{
		Schema: name + "(Tensor self, float p, bool train) -> Tensor", Names: names,
		Traits: opdef.Traits{InPlace: true},
		Doc: opdef.Doc{Summary: "Random elements set to zero, the others scaled; the tensor itself outside training",
			Formula: "self when train is off or p is 0",
			Notes:   "Training with p = 1 gives zeros.", Source: "torch.nn.functional.dropout"},
		Error:  dropoutError,
		Plan:   func(a *nativeDropoutArgs) (*dropping, error) { return &dropping{name, a.Self, a.P, a.Train}, nil },
		Kernel: func(d *dropping) ([]*tensor.Tensor, error) { return keep(d.self, d.p, d.training) },
		Grad: func(d *dropping, g *opdef.Grad) (opdef.Grads, error) {
			return keepGrad(name, d.self, d.p, d.training, g)
		},
		Node: func(d *dropping, g *opdef.Grad) (opdef.Node, error) {
			return keepNode(name, d.self, d.p, d.training, g)
		},
		Cases: opdef.Calls[nativeDropoutArgs](`f64[3, 4], 0.5, False; f64[3, 4], 0.0, True; f32[3], 0.5, True`),
	}.Entry()
}

// dropoutWithMask returns what was kept too.
var dropoutWithMask = opdef.Op[dropoutMaskArgs]{
	Schema: "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", Names: "native_dropout",
	Doc: opdef.Doc{Summary: "Random elements set to zero, the others scaled, and where they were kept; outside " +
		"training the tensor itself", Formula: "input, all true when train is off",
		Notes: "Training with p = 1 gives zeros. train is on where it is None.", Source: "ATen/native/Dropout.cpp"},
	Error:  dropoutError,
	Traits: opdef.Traits{Trivial: true},
	Kernel: func(a *dropoutMaskArgs) ([]*tensor.Tensor, error) {
		out, err := keep(a.Input, a.P, a.training())
		if err != nil {
			return nil, err
		}
		kept := 1
		if a.training() && a.P == 1 {
			kept = 0
		}
		mask, err := creation.Constant(a.Input.Shape, opdef.Int(int64(kept)), tensor.Bool)
		return append(out, mask...), err
	},
	Grad: func(a *dropoutMaskArgs, g *opdef.Grad) (opdef.Grads, error) {
		if drops(a.P, a.training()) != "" {
			return opdef.Grads{"input": {opdef.Zip(tensor.Float64, g.Out[0], g.Outs[1],
				func(up, kept float64) float64 { return up * kept / (1 - a.P) })}}, nil
		}
		gr, err := keepGrad("dropout", a.Input, a.P, a.training(), g)
		if err != nil {
			return nil, err
		}
		return opdef.Grads{"input": gr["self"]}, nil
	},
	Cases: opdef.Calls[dropoutMaskArgs](`
		f64[3, 4], 0.5, False; f64[3, 4], 0.0, True; f32[3], 0.5, None; f64[3], 1.0, True`),
}.Entry()

func (a *dropoutMaskArgs) Random() string { return drops(a.P, a.training()) }

func (a *dropoutMaskArgs) Drawn(got []*tensor.Tensor) opdef.Drawn {
	d := judgeMask(draws.Dropout(a.P), a.Input, got)
	if d.Wrong != "" || d.Checked == "" {
		return d
	}
	x, y, kept := tensor.Data[float64](a.Input), tensor.Data[float64](got[0]), tensor.Data[int64](got[1])
	for i, k := range kept {
		if might, mightNot := draws.Dropout(a.P).Kept(got[0].DType, x[i], y[i]); k != 0 && !might ||
			k == 0 && !mightNot {
			return opdef.Drawn{Wrong: fmt.Sprintf("the mask is %t at element %d, where %v became %v", k != 0, i,
				x[i], y[i])}
		}
	}
	d.Checked += "; the mask"
	return d
}

type dropoutMaskArgs struct {
	Input *tensor.Tensor
	P     float64
	Train *bool
}

func (a *dropoutMaskArgs) training() bool { return a.Train == nil || *a.Train }

// masked is the mask of the dropout of this name: those of the alpha kinds keep mean and
// variance, those of features drop whole channels.
func masked(name string, x *tensor.Tensor, p float64) draws.Mask {
	m := draws.Dropout(p)
	if strings.Contains(name, "alpha_") {
		m = draws.AlphaDropout(p)
	}
	channels := 2 // dimensions that number samples and channels
	switch {
	case strings.HasPrefix(name, "dropout1d") && x.Dim() == 2, strings.HasPrefix(name, "dropout3d") && x.Dim() == 4:
		channels = 1 // no samples
	case strings.HasPrefix(name, "dropout1d"), strings.HasPrefix(name, "dropout2d"),
		strings.HasPrefix(name, "dropout3d"), strings.HasPrefix(name, "feature_"):
	default:
		return m
	}
	if x.Dim() > channels {
		m.Group = tensor.Numel(x.Shape[channels:])
	}
	return m
}

// judgeMask judges what was dropped.
func judgeMask(m draws.Mask, x *tensor.Tensor, got []*tensor.Tensor) opdef.Drawn {
	if len(got) == 0 || !x.DType.IsFloat() || !got[0].DType.IsFloat() || !slices.Equal(x.Shape, got[0].Shape) {
		return opdef.Drawn{}
	}
	return m.Judge(x, got[0])
}

// dropoutError: of gradients, since the factor is rounded too.
var dropoutError = opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 2}}

func drops(p float64, training bool) string {
	if training && p > 0 && p < 1 {
		return elements.DrawsRandomNumbers
	}
	return ""
}

func keep(x *tensor.Tensor, p float64, training bool) ([]*tensor.Tensor, error) {
	if !(p >= 0 && p <= 1) {
		return nil, opdef.Refuse("p", "want a probability from 0 to 1, got %v", p)
	}
	if training && p == 1 {
		return creation.Constant(x.Shape, opdef.Int(0), x.DType)
	}
	return elements.Result(x)
}

// keepGrad is the gradient of x; where numbers are drawn g.Outs shows the mask.
func keepGrad(name string, x *tensor.Tensor, p float64, training bool, g *opdef.Grad) (opdef.Grads, error) {
	switch {
	case training && p == 1:
		return opdef.Grads{"self": {tensor.Full(g.Out[0].DType, g.Out[0].Shape, 0.0)}}, nil
	case drops(p, training) != "":
		return opdef.Grads{"self": {masked(name, x, p).Grad(x, g.Outs[0], g.Out[0])}}, nil
	}
	return elements.PassGrad(g)
}

// keepElse are the other gradients of the mask.
func keepElse(name string, x *tensor.Tensor, p float64, training bool, g *opdef.Grad) ([]opdef.Grads, error) {
	if drops(p, training) == "" {
		return nil, nil
	}
	return othersOf("self", masked(name, x, p), x, g), nil
}

// othersOf are draws.Mask.Others as gradients of an argument.
func othersOf(arg string, m draws.Mask, x *tensor.Tensor, g *opdef.Grad) (all []opdef.Grads) {
	for _, t := range m.Others(x, g.Outs[0], g.Out[0]) {
		all = append(all, opdef.Grads{arg: {t}})
	}
	return all
}

// keepNode: without training the argument itself is returned, without samples it is seen with one; what is kept
// is multiplied by a mask, which has no gradient, and alpha dropout ends in an addition.
func keepNode(name string, x *tensor.Tensor, p float64, training bool, g *opdef.Grad) (opdef.Node, error) {
	switch {
	case !training || p == 0:
		return opdef.Node{Skip: elements.GradOfOtherOp}, nil
	case strings.HasPrefix(name, "dropout3d") && x.Dim() == 4, strings.HasPrefix(name, "dropout1d") && x.Dim() == 2:
		return elements.ReshapedNode(g, append([]int{1}, x.Shape...)...), nil
	case strings.Contains(name, "alpha_") && p < 1:
		return opdef.Node{Grads: []*tensor.Tensor{g.Out[0], nil}, Weak: "the incoming gradient"}, nil
	case p == 1:
		return opdef.Node{Grads: []*tensor.Tensor{tensor.Full(g.Out[0].DType, g.Out[0].Shape, 0.0), nil}}, nil
	}
	return opdef.Node{}, nil
}
