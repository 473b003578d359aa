package activation

import (
	"math"
	"math/rand/v2"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// gatedOps are activations with learned or random slopes and gates.
var gatedOps = []*opdef.Entry{
	opdef.Op[preluArgs]{
		Schema: "prelu(Tensor self, Tensor weight) -> Tensor", Names: "prelu Tensor.prelu F.prelu",
		Doc: opdef.Doc{Summary: "Leaky rectifier with a slope for each channel",
			Formula: "self if self > 0, else weight*self",
			Notes: "weight has one element or one for each channel, dimension 1 of self (N, C, ...). The gradient " +
				"at 0 is weight.", Source: "torch.nn.functional.prelu"},
		Error:    opdef.Error{Class: opdef.Rounded, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 2}},
		Autocast: opdef.AutocastLower,
		Kernel:   prelu,
		Grad: func(a *preluArgs, g *opdef.Grad) (opdef.Grads, error) {
			return preluGrad(a, g, func(v float64) float64 { return v })
		},
		GradScale: func(a *preluArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			return preluGrad(a, g, math.Abs)
		},
		GradTerms: func(a *preluArgs) int { return a.Self.Numel() / max(a.Weight.Numel(), 1) },
		Cases: func(r *rand.Rand) []*preluArgs {
			g := opdef.Gen{R: r}
			zero := []float64{0}
			return []*preluArgs{
				{g.Apart(tensor.Float64, zero, 2, 3, 4), g.Normal(tensor.Float64, 3)},
				{g.Apart(tensor.Float64, zero, 5), g.Normal(tensor.Float64, 1)}, {g.Apart(tensor.Float64, zero),
					g.Normal(tensor.Float64, 1)},
				{g.Apart(tensor.Float32, zero, 2, 3), g.Normal(tensor.Float32, 3)},
				{g.Apart(tensor.BFloat16, zero, 2, 3), g.Normal(tensor.BFloat16, 1)}, {g.Normal(tensor.Float32, 0, 3),
					g.Normal(tensor.Float32, 3)},
				{opdef.NonContiguous(g.Apart(tensor.Float64, zero, 2, 3)), g.Normal(tensor.Float64, 3)},
			}
		},
	}.Entry(),
	opdef.Op[gluArgs]{
		Schema: "glu(Tensor self, int dim=-1) -> Tensor", Names: "F.glu _C._nn.glu",
		Doc: opdef.Doc{Summary: "Gated linear unit", Formula: "a * sigmoid(b), a and b the halves of self along dim",
			Source: "torch.nn.functional.glu"},
		Error: elements.ElementwiseError,
		Kernel: func(a *gluArgs) ([]*tensor.Tensor, error) {
			x, gate, err := halves(a)
			if err != nil {
				return nil, err
			}
			return elements.Result(opdef.Zip(a.Self.DType, x, gate,
				func(x, b float64) float64 { return x * kernel.Sigmoid(b) }))
		},
		Grad: gluGrad,
		GradScale: func(a *gluArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			abs := &gluArgs{a.Self, a.Dim}
			return gluGradOf(abs, opdef.Abs(g.Out[0]), func(x, s float64) float64 { return math.Abs(x) * s })
		},
		Cases: func(r *rand.Rand) []*gluArgs {
			g := opdef.Gen{R: r}
			return []*gluArgs{
				{g.Normal(tensor.Float64, 3, 4), -1}, {g.Normal(tensor.Float64, 2, 4, 3), 1},
				{g.Normal(tensor.Float32, 6), 0}, {g.Normal(tensor.BFloat16, 2, 4), -1},
				{g.Normal(tensor.Float32, 0, 4), -1}, {opdef.NonContiguous(g.Normal(tensor.Float64, 4, 3)), 0},
			}
		},
	}.Entry(),
	rrelu("rrelu", "F.rrelu",
		"float lower=0.125, float upper=0.3333333333333333, bool training=False, bool inplace=False"),
	rreluNative("rrelu.native", "rrelu Tensor.rrelu"),
}

type preluArgs struct{ Self, Weight *tensor.Tensor }

type gluArgs struct {
	Self *tensor.Tensor
	Dim  int
}

type rreluArgs struct {
	Self              *tensor.Tensor
	Lower, Upper      float64
	Training, Inplace bool
}

type rreluNativeArgs struct {
	Self         *tensor.Tensor
	Lower, Upper opdef.Scalar
	Training     bool
}

// slopes is weight with its channels at dimension 1 of self.
func slopes(a *preluArgs) (*tensor.Tensor, error) {
	x, w := a.Self, a.Weight
	switch {
	case !x.DType.IsFloat():
		return nil, opdef.Refuse("self", "not defined for dtype %s", x.DType)
	case w.DType != x.DType:
		return nil, opdef.Refuse("weight", "want dtype %s, got %s", x.DType, w.DType)
	case w.Numel() == 1:
		return w.Reshape(), nil
	case x.Dim() == 0:
		return nil, opdef.Refuse("weight", "want one element for a 0-d tensor, got %d", w.Numel())
	case w.Dim() > 1:
		return nil, opdef.Refuse("weight", "want at most 1 dim, got shape %s", tensor.ShapeString(w.Shape))
	}
	channels := 1
	if x.Dim() > 1 {
		channels = x.Shape[1]
	}
	if w.Numel() != channels {
		return nil, opdef.Refuse("weight", "want 1 or %d elements, got %d", channels, w.Numel())
	}
	shape := make([]int, max(x.Dim()-1, 1))
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = channels
	return w.Reshape(shape...), nil
}

func prelu(a *preluArgs) ([]*tensor.Tensor, error) {
	w, err := slopes(a)
	if err != nil {
		return nil, err
	}
	t, err := elements.MapN(a.Self.DType, nil, func(v []float64) float64 {
		return v[0] * elements.IfElse(v[0] > 0, 1, v[1])
	}, a.Self, w)
	return []*tensor.Tensor{t}, err
}

func preluGrad(a *preluArgs, g *opdef.Grad, term func(float64) float64) (opdef.Grads, error) {
	w, err := slopes(a)
	if err != nil {
		return nil, err
	}
	dt := a.Self.DType
	gx, err := elements.MapN(dt, nil,
		func(v []float64) float64 { return term(v[0] * elements.IfElse(v[1] > 0, 1, v[2])) },
		g.Out[0], a.Self, w)
	if err != nil {
		return nil, err
	}
	gw, err := elements.MapN(dt, nil,
		func(v []float64) float64 { return term(v[0] * elements.IfElse(v[1] > 0, 0, v[1])) },
		g.Out[0], a.Self)
	if err != nil {
		return nil, err
	}
	return opdef.Grads{"self": {gx}, "weight": {opdef.SumTo(gw, w.Shape).Reshape(a.Weight.Shape...)}}, nil
}

// halves are the two halves of self along dim.
func halves(a *gluArgs) (x, gate *tensor.Tensor, err error) {
	t := a.Self
	if !t.DType.IsFloat() {
		return nil, nil, opdef.Refuse("self", "not defined for dtype %s", t.DType)
	}
	if t.Dim() == 0 {
		return nil, nil, opdef.Refuse("self", "a 0-d tensor has no halves")
	}
	d, err := opdef.Dim("dim", a.Dim, t.Dim())
	if err != nil {
		return nil, nil, err
	}
	n := t.Shape[d]
	if n%2 != 0 {
		return nil, nil, opdef.Refuse("dim", "want an even size, got %d in dimension %d", n, d)
	}
	return t.Slice(d, 0, n/2, 1), t.Slice(d, n/2, n/2, 1), nil
}

func gluGrad(a *gluArgs, g *opdef.Grad) (opdef.Grads, error) {
	return gluGradOf(a, g.Out[0], func(x, s float64) float64 { return x * s * (1 - s) })
}

// gluGradOf joins up*sigmoid(b) and up*slope(a, sigmoid(b)) along dim.
func gluGradOf(a *gluArgs, up *tensor.Tensor, slope func(x, s float64) float64) (opdef.Grads, error) {
	x, gate, err := halves(a)
	if err != nil {
		return nil, err
	}
	d, _ := opdef.Dim("dim", a.Dim, a.Self.Dim())
	n := a.Self.Shape[d] / 2
	inner := tensor.Numel(a.Self.Shape[d+1:])
	gs, xs, bs := tensor.Data[float64](up), tensor.Data[float64](x), tensor.Data[float64](gate)
	out := make([]float64, a.Self.Numel())
	half := n * inner
	tensor.Parallel(len(gs), 4096, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			at, s := i/half*2*half+i%half, kernel.Sigmoid(bs[i])
			out[at], out[at+half] = gs[i]*s, gs[i]*slope(xs[i], s)
		}
	})
	return opdef.Grads{"self": {tensor.New(a.Self.DType, a.Self.Shape, out)}}, nil
}

// leaky is the rectifier with the mean of the bounds as slope, which rrelu is
// outside training.
func leaky(x *tensor.Tensor, lower, upper float64) ([]*tensor.Tensor, error) {
	if !x.DType.IsFloat() {
		return nil, opdef.Refuse("self", "not defined for dtype %s", x.DType)
	}
	if !(lower <= upper) {
		return nil, opdef.Refuse("upper", "want at least %v, got %v", lower, upper)
	}
	k := (lower + upper) / 2
	return elements.Result(opdef.Map(x.DType, x, func(x float64) float64 { return x * elements.IfElse(x > 0, 1, k) }))
}

func leakyGrad(x *tensor.Tensor, lower, upper float64, g *opdef.Grad) (opdef.Grads, error) {
	k := (lower + upper) / 2
	return opdef.Grads{"self": {opdef.Zip(x.DType, g.Out[0], x, func(gi, x float64) float64 {
		return gi * elements.IfElse(x > 0, 1, k)
	})}}, nil
}

var rreluDoc = opdef.Doc{Summary: "Leaky rectifier with random slopes",
	Formula: "self if self > 0, else self*(lower + upper)/2 outside training",
	Notes:   "In training the slopes are drawn and the result is not compared.", Source: "torch.nn.functional.rrelu"}

func rrelu(name, names, params string) *opdef.Entry {
	return opdef.Op[rreluArgs]{
		Schema: name + "(Tensor self, " + params + ") -> Tensor", Names: names, InPlace: true, Doc: rreluDoc,
		Error:    opdef.Error{Class: opdef.Rounded, ULPs: 2, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 2}},
		RandomIf: func(a *rreluArgs) string { return drawsIf(a.Training) },
		Kernel:   func(a *rreluArgs) ([]*tensor.Tensor, error) { return leaky(a.Self, a.Lower, a.Upper) },
		Grad: func(a *rreluArgs, g *opdef.Grad) (opdef.Grads, error) {
			return leakyGrad(a.Self, a.Lower, a.Upper, g)
		},
		Cases: func(r *rand.Rand) []*rreluArgs {
			var cs []*rreluArgs
			for _, c := range activationCases(r, []float64{0}, false) {
				cs = append(cs, &rreluArgs{Self: c.Self, Lower: 0.125, Upper: 1.0 / 3})
			}
			return append(cs, &rreluArgs{Self: cs[0].Self, Lower: 0.1, Upper: 0.3, Training: true})
		},
	}.Entry()
}

func rreluNative(name, names string) *opdef.Entry {
	return opdef.Op[rreluNativeArgs]{
		Schema: name +
			"(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? " +
			"generator=None) -> Tensor", Names: names, InPlace: true, Doc: rreluDoc,
		Error:    opdef.Error{Class: opdef.Rounded, ULPs: 2, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 2}},
		RandomIf: func(a *rreluNativeArgs) string { return drawsIf(a.Training) },
		Kernel: func(a *rreluNativeArgs) ([]*tensor.Tensor, error) {
			return leaky(a.Self, a.Lower.Float64(), a.Upper.Float64())
		},
		Grad: func(a *rreluNativeArgs, g *opdef.Grad) (opdef.Grads, error) {
			return leakyGrad(a.Self, a.Lower.Float64(), a.Upper.Float64(), g)
		},
		Cases: func(r *rand.Rand) []*rreluNativeArgs {
			var cs []*rreluNativeArgs
			for _, c := range activationCases(r, []float64{0}, false) {
				cs = append(cs, &rreluNativeArgs{Self: c.Self, Lower: opdef.Float(0.125), Upper: opdef.Float(0.25)})
			}
			return cs
		},
	}.Entry()
}

func drawsIf(training bool) string {
	if training {
		return elements.DrawsRandomNumbers
	}
	return ""
}
