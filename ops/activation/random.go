package activation

import (
	"fmt"
	"slices"

	"github.com/optool/optool/ops/internal/draws"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// randomOps are activations with random slopes.
var randomOps = []*opdef.Entry{
	rrelu("rrelu", "F.rrelu",
		"float lower=0.125, float upper=0.3333333333333333, bool training=False, bool inplace=False"),
	rreluNative("rrelu.native", "rrelu Tensor.rrelu"),
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
		Schema: name + "(Tensor self, " + params + ") -> Tensor", Names: names,
		Traits: opdef.Traits{InPlace: true},
		Doc:    rreluDoc,
		Error:  opdef.Error{Class: opdef.Rounded, ULPs: 2, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 2}},
		Kernel: func(a *rreluArgs) ([]*tensor.Tensor, error) { return leaky(a.Self, a.Lower, a.Upper) },
		Grad: func(a *rreluArgs, g *opdef.Grad) (opdef.Grads, error) {
			return rreluGrad(a.Self, a.Lower, a.Upper, a.Training, g)
		},
		Cases: opdef.Calls[rreluArgs](`
			f64[3, 4]{apart 0}; f32[5]{apart 0}; bf16[2, 3]{apart 0}; f16[4]{apart 0}; f32[]{apart 0}; f32[0, 3]
			f32[5]{= NaN +Inf -Inf 50 -50}; f64[3, 4]{apart 0}, lower=0.1, upper=0.3, training=True`),
	}.Entry()
}

func (a *rreluArgs) Random() string { return drawsIf(a.Training) }

func (a *rreluArgs) Drawn(got []*tensor.Tensor) opdef.Drawn {
	return slopes(a.Self, a.Lower, a.Upper, got)
}

func rreluNative(name, names string) *opdef.Entry {
	return opdef.Op[rreluNativeArgs]{
		Schema: name +
			"(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? " +
			"generator=None) -> Tensor", Names: names,
		Traits: opdef.Traits{InPlace: true},
		Doc:    rreluDoc,
		Error:  opdef.Error{Class: opdef.Rounded, ULPs: 2, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 2}},
		Kernel: func(a *rreluNativeArgs) ([]*tensor.Tensor, error) {
			return leaky(a.Self, a.Lower.Float64(), a.Upper.Float64())
		},
		Grad: func(a *rreluNativeArgs, g *opdef.Grad) (opdef.Grads, error) {
			return rreluGrad(a.Self, a.Lower.Float64(), a.Upper.Float64(), a.Training, g)
		},
		Cases: opdef.Calls[rreluNativeArgs](`
			f64[3, 4]{apart 0}, upper=0.25; f32[5]{apart 0}, upper=0.25; bf16[2, 3]{apart 0}, upper=0.25
			f16[4]{apart 0}, upper=0.25; f32[]{apart 0}, upper=0.25; f32[0, 3], upper=0.25
			f32[5]{= NaN +Inf -Inf 50 -50}, upper=0.25`),
	}.Entry()
}

func (a *rreluNativeArgs) Random() string { return drawsIf(a.Training) }

func (a *rreluNativeArgs) Drawn(got []*tensor.Tensor) opdef.Drawn {
	return slopes(a.Self, a.Lower.Float64(), a.Upper.Float64(), got)
}

// slopes judges the slopes that rrelu drew for what is not positive.
func slopes(x *tensor.Tensor, lower, upper float64, got []*tensor.Tensor) opdef.Drawn {
	if len(got) == 0 || !x.DType.IsFloat() || got[0].DType != x.DType || !slices.Equal(x.Shape, got[0].Shape) {
		return opdef.Drawn{}
	}
	v, y := tensor.Data[float64](x), tensor.Data[float64](got[0])
	drawn, zeros := []float64(nil), 0
	for i, a := range v {
		switch {
		case a-a != 0: // no number
		case a > 0 && y[i] != a, a == 0 && y[i] != 0:
			return opdef.Drawn{Wrong: fmt.Sprintf("element %d is %v, want %v", i, y[i], a)}
		case a == 0:
			zeros++
		case a < -x.DType.SmallestNormal()/x.DType.Eps(): // whose product with a slope is precise
			k, off := y[i]/a, 2*x.DType.ULP(upper)
			if !(k >= lower-off && k <= upper+off) {
				return opdef.Drawn{Wrong: fmt.Sprintf("element %d is %v: the slope is %v, want %v to %v", i, y[i], k,
					lower, upper)}
			}
			drawn = append(drawn, min(max(k, lower), upper))
		}
	}
	d := draws.Uniform(lower, upper).Judge(tensor.New(x.DType, []int{len(drawn)}, drawn).Rounded())
	d.Shown = d.Wrong == "" && zeros == 0
	return d
}

// rreluGrad is leakyGrad; in training the results show the slopes.
func rreluGrad(x *tensor.Tensor, lower, upper float64, training bool, g *opdef.Grad) (opdef.Grads, error) {
	if !training {
		return leakyGrad(x, lower, upper, g)
	}
	return opdef.Grads{"self": {opdef.ZipN(tensor.Float64, x.Shape, func(dst []float64, v [][]float64) {
		for i := range dst {
			dst[i] = v[2][i]
			if v[0][i] < 0 {
				dst[i] *= v[1][i] / v[0][i]
			}
		}
	}, x, g.Outs[0], g.Out[0])}}, nil
}

func drawsIf(training bool) string {
	if training {
		return elements.DrawsRandomNumbers
	}
	return ""
}
