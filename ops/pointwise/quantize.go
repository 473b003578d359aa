package pointwise

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

const (
	fakeQuantizeFormula = "(q - zero_point)*scale, q = round(self/scale) + zero_point, limited to quant_min ... " +
		"quant_max"
	fakeQuantizeNotes = "self is multiplied by the reciprocal of scale in float32 (float64 for float64), as torch " +
		"does. The gradient passes where q is within the limits."
)

var straightThrough = map[string]string{
	"gradients": "the gradient is that of the identity: the function itself has steps",
	"dtypes":    "an argument rounded to another dtype falls on another step",
}

// quantizeOps round to the steps of a quantized tensor and back, for
// quantization-aware training.
var quantizeOps = []*opdef.Entry{
	fakeQuantize(opdef.Op[fakeQuantizeArgs]{
		Schema: "fake_quantize_per_tensor_affine(Tensor self, Tensor|Scalar scale, Tensor|Scalar zero_point, int " +
			"quant_min, int quant_max) -> Tensor",
		Names:  "fake_quantize_per_tensor_affine",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Rounds to the steps of a quantized tensor", Formula: fakeQuantizeFormula,
			Notes: fakeQuantizeNotes},
		Cases: opdef.Calls[fakeQuantizeArgs](`
			f32[3, 4], 0.1, 3, -8, 7; f64[5], 0.05, 0, 0, 255; f32[4], f32[1]{0.1..0.2 fixed}, i32[1]{0..3}, 0, 15
			f32[0, 3], 0.1, 0, 0, 1`),
	}, func(a *fakeQuantizeArgs) (*steps, error) {
		if a.Scale.Numel() != 1 || a.ZeroPoint.Numel() != 1 {
			return nil, opdef.Refuse("scale", "want one scale and one zero point, got %d and %d", a.Scale.Numel(),
				a.ZeroPoint.Numel())
		}
		return newSteps(a.Self, a.Scale.Reshape(), a.ZeroPoint.Reshape(), a.QuantMin, a.QuantMax)
	}),
	fakeQuantize(opdef.Op[fakeQuantizeChannelArgs]{
		Schema: "fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int " +
			"quant_min, int quant_max) -> Tensor",
		Names: "fake_quantize_per_channel_affine",
		Doc: opdef.Doc{Summary: "Rounds to the steps of a tensor quantized by channels", Formula: fakeQuantizeFormula,
			Notes: fakeQuantizeNotes},
		Cases: opdef.Calls[fakeQuantizeChannelArgs](`
			f32[3, 4], f32[3]{0.1..0.2 fixed}, i32[3]{0..3}, 0, -8, 7
			f64[2, 3, 2], f32[3]{0.1..0.2 fixed}, i32[3]{0..3}, 1, 0, 255`),
	}, func(a *fakeQuantizeChannelArgs) (*steps, error) {
		n := a.Self.Dim()
		axis, err := opdef.Dim("axis", a.Axis, n)
		if err != nil {
			return nil, err
		}
		if n == 0 || !slices.Equal(a.Scale.Shape, []int{a.Self.Shape[axis]}) ||
			!slices.Equal(a.ZeroPoint.Shape, a.Scale.Shape) {
			return nil,
				opdef.Refuse("scale",
					"want a scale and a zero point for each index of dimension %d of shape %s, got shapes %s and %s",
					axis, tensor.ShapeString(a.Self.Shape), tensor.ShapeString(a.Scale.Shape),
					tensor.ShapeString(a.ZeroPoint.Shape))
		}
		shape := slices.Repeat([]int{1}, n)
		shape[axis] = a.Self.Shape[axis]
		return newSteps(a.Self, a.Scale.Reshape(shape...), a.ZeroPoint.Reshape(shape...), a.QuantMin, a.QuantMax)
	}),
}

type fakeQuantizeArgs struct {
	Self               *tensor.Tensor
	Scale, ZeroPoint   *tensor.Tensor
	QuantMin, QuantMax int
}

type fakeQuantizeChannelArgs struct {
	Self               *tensor.Tensor
	Scale, ZeroPoint   *tensor.Tensor
	Axis               int
	QuantMin, QuantMax int
}

// steps are the steps a tensor is rounded to; scale and zero have its shape.
type steps struct {
	x, scale, zero *tensor.Tensor
	lo, hi         float64
}

func newSteps(x, scale, zero *tensor.Tensor, lo, hi int) (*steps, error) {
	if !x.DType.IsFloat() {
		return nil, opdef.Refuse("self", "want a floating dtype, got %s", x.DType)
	}
	if lo > hi {
		return nil, opdef.Refuse("quant_min", "want at most quant_max, got %d and %d", lo, hi)
	}
	for _, z := range tensor.Data[float64](zero) {
		if z < float64(lo) || z > float64(hi) {
			return nil, opdef.Refuse("zero_point", "want a number from %d to %d, got %v", lo, hi, z)
		}
	}
	s, err := scale.Expand(x.Shape...)
	if err != nil {
		return nil, opdef.Refuse("scale", "%v", err)
	}
	z, err := zero.Expand(x.Shape...)
	if err != nil {
		return nil, opdef.Refuse("zero_point", "%v", err)
	}
	return &steps{x, s, z, float64(lo), float64(hi)}, nil
}

// each is f of the step q an element falls on, before it is limited, of its
// zero point and scale and of the elements of more.
func (s *steps) each(f func(q, zero, scale float64, more []float64) float64, more ...*tensor.Tensor) *tensor.Tensor {
	round := tensor.Float32.Round
	if s.x.DType == tensor.Float64 {
		round = func(x float64) float64 { return x }
	}
	return elements.ZipEach(s.x.DType, s.x.Shape, func(v []float64) float64 {
		scale := tensor.Float32.Round(v[1])
		q := math.RoundToEven(round(v[0]*tensor.Float32.Round(1/scale))) + v[2]
		return f(q, v[2], scale, v[3:])
	}, append([]*tensor.Tensor{s.x, s.scale, s.zero}, more...))
}

func fakeQuantize[A any](op opdef.Op[A], plan func(*A) (*steps, error)) *opdef.Entry {
	op.Error = opdef.Error{Class: opdef.Rounded, Grad: &opdef.Error{Class: opdef.Exact}}
	op.Exempt = straightThrough
	op.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		s, err := plan(a)
		if err != nil {
			return nil, err
		}
		return elements.Single(s.each(func(q, zero, scale float64, _ []float64) float64 {
			return (min(max(q, s.lo), s.hi) - zero) * scale
		})), nil
	}
	op.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		s, err := plan(a)
		if err != nil {
			return nil, err
		}
		gr := elements.GradOf("self", s.each(func(q, _, _ float64, up []float64) float64 {
			return elements.IfElse(q >= s.lo && q <= s.hi, up[0], 0)
		}, g.Out[0]))
		gr.Set("scale", nil)
		gr.Set("zero_point", nil)
		return gr, nil
	}
	return op.Entry()
}
