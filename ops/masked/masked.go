package masked

import (
	"slices"

	"github.com/optool/optool/ops/activation"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/pointwise"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/ops/sorting"
	"github.com/optool/optool/tensor"
)

// maskedOps are the functions of torch.masked: reductions and normalisations
// that leave out the elements where a mask is false. Each is the plain op on an
// input whose masked elements are replaced by what does not change the result.
var maskedOps = []*opdef.Entry{
	maskedReduction("sum", "Sum of the elements a mask keeps", "Integers and bool give int64.", "0",
		func(a *maskedReduceArgs) (*maskedCall, error) {
			return newMasked(elements.MustFind(reduction.Table(), "sum"), "self", a.Input, a.Mask, zeroNeutral,
				func(x *tensor.Tensor) any {
					return &reduction.ReduceArgs{Self: x, Dim: a.Dim, Keepdim: a.Keepdim, Dtype: a.Dtype}
				})
		}, numberCases).WithAutocast(opdef.AutocastFloat32),
	maskedReduction("prod", "Product of the elements a mask keeps", "Integers and bool give int64.", "1", maskedProd,
		numberCases).WithAutocast(opdef.AutocastFloat32),
	maskedReduction("mean", "Mean of the elements a mask keeps",
		"nan where it keeps none. Integers and bool are added in their own dtype and give float32.", "0", maskedMean,
		numberCases),
	maskedReduction("amax", "Largest of the elements a mask keeps", "Ties share the gradient equally.",
		"-inf, or the least integer", maskedExtremum("amax", lowestNeutral), distinctCases),
	maskedReduction("amin", "Smallest of the elements a mask keeps", "Ties share the gradient equally.",
		"inf, or the largest integer", maskedExtremum("amin", highestNeutral), distinctCases),
	maskedReduction("logsumexp", "Logarithm of the sum of exponentials of the elements a mask keeps", "", "-inf",
		func(a *maskedReduceArgs) (*maskedCall, error) {
			dims, err := opdef.Dims("dim", a.Dim, a.Input.Dim())
			if err != nil {
				return nil, err
			}
			c, err := newMasked(elements.MustFind(reduction.Table(), "logsumexp"), "self", a.Input, a.Mask,
				lowestNeutral,
				func(x *tensor.Tensor) any { return &reduction.LogSumExpArgs{Self: x, Dim: dims, Keepdim: a.Keepdim} })
			return c.as(a.Dtype, a.Input), err
		}, floatMaskedCases).WithAutocast(opdef.AutocastFloat32),
	maskedIndex("argmax", "Index of the largest of the elements a mask keeps", lowestNeutral),
	maskedIndex("argmin", "Index of the smallest of the elements a mask keeps", highestNeutral),
	maskedNorm,
	maskedSpread("var", "Variance of the elements a mask keeps", false),
	maskedSpread("std", "Standard deviation of the elements a mask keeps", true),
	maskedMedian,
	maskedAlong("cumsum", "Running sum of the elements a mask keeps", elements.MustFind(reduction.Table(), "cumsum"),
		"self", "0",
		zeroNeutral,
		func(x *tensor.Tensor, a *maskedDimArgs) any {
			return &reduction.CumulativeArgs{Self: x, Dim: a.Dim, Dtype: a.dtype()}
		}),
	maskedAlong("cumprod", "Running product of the elements a mask keeps", elements.MustFind(reduction.Table(),
		"cumprod"), "self",
		"1", oneNeutral,
		func(x *tensor.Tensor, a *maskedDimArgs) any {
			return &reduction.CumulativeArgs{Self: x, Dim: a.Dim, Dtype: a.dtype()}
		}),
	maskedSoftmax("softmax", "Softmax of the elements a mask keeps", "-inf", lowestNeutral),
	maskedSoftmax("log_softmax", "Logarithm of the softmax of the elements a mask keeps", "-inf", lowestNeutral),
	maskedSoftmax("softmin", "Softmax of the negated elements a mask keeps", "inf", highestNeutral),
	maskedNormalize,
	maskedLogAddExp,
}

type maskedReduceArgs struct {
	Input   *tensor.Tensor
	Dim     []int
	Keepdim bool
	Dtype   *tensor.DType
	Mask    *tensor.Tensor
}

type maskedIndexArgs struct {
	Input   *tensor.Tensor
	Dim     *int
	Keepdim bool
	Dtype   *tensor.DType
	Mask    *tensor.Tensor
}

type maskedNormArgs struct {
	Input   *tensor.Tensor
	Ord     opdef.Scalar
	Dim     []int
	Keepdim bool
	Dtype   *tensor.DType
	Mask    *tensor.Tensor
}

type maskedSpreadArgs struct {
	Input      *tensor.Tensor
	Dim        []int
	Unbiased   *bool
	Correction *opdef.Scalar
	Keepdim    bool
	Dtype      *tensor.DType
	Mask       *tensor.Tensor
}

// correction is what the sum of squares is divided by less than the number of elements.
func (a *maskedSpreadArgs) correction() float64 {
	switch {
	case a.Correction != nil:
		return a.Correction.Float64()
	case a.Unbiased != nil:
		return reduction.CorrectionOf(*a.Unbiased)
	}
	return 1
}

type maskedMedianArgs struct {
	Input   *tensor.Tensor
	Dim     int
	Keepdim bool
	Dtype   *tensor.DType
	Mask    *tensor.Tensor
}

type maskedDimArgs struct {
	Input *tensor.Tensor
	Dim   int
	Dtype *tensor.DType
	Mask  *tensor.Tensor
}

type maskedNormalizeArgs struct {
	Input *tensor.Tensor
	Ord   float64
	Dim   int
	Eps   float64
	Dtype *tensor.DType
	Mask  *tensor.Tensor
}

type maskedLogAddExpArgs struct {
	Input, Other         *tensor.Tensor
	Dtype                *tensor.DType
	InputMask, OtherMask *tensor.Tensor
}

func (a *maskedDimArgs) dtype() *tensor.DType {
	if a.Dtype != nil {
		return a.Dtype
	}
	return &a.Input.DType
}

func maskedReduction(name, summary, notes, neutral string, call func(*maskedReduceArgs) (*maskedCall, error),
	cases func(opdef.Gen) []*maskedReduceArgs) *opdef.Entry {
	class := opdef.Error{Class: opdef.Accumulated, ULPs: 4, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 6}}
	if name == "amax" || name == "amin" {
		class = opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Rounded, ULPs: 2}}
	}
	return maskedEntry(opdef.Planned[*maskedReduceArgs, *maskedCall]{
		Schema: "masked_" + name +
			"(Tensor input, int[1]? dim=None, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None) -> Tensor",
		Names: maskedNames(name), Doc: maskedDoc(name, summary, notes, neutral), Error: class, Cases: cases,
	}, call, func(a *maskedReduceArgs) int { return elements.TermsOver(a.Input.Shape, a.Dim) })
}

func maskedExtremum(name string, with neutral) func(*maskedReduceArgs) (*maskedCall, error) {
	return func(a *maskedReduceArgs) (*maskedCall, error) {
		c, err := newMasked(elements.MustFind(reduction.Table(), name), "self", a.Input, a.Mask, with,
			func(x *tensor.Tensor) any { return &reduction.ExtremumArgs{Self: x, Dim: a.Dim, Keepdim: a.Keepdim} })
		return c.as(a.Dtype, a.Input), err
	}
}

// maskedProd is a product over one dimension, into which those of dim are
// flattened.
func maskedProd(a *maskedReduceArgs) (*maskedCall, error) {
	dims, err := opdef.Dims("dim", a.Dim, a.Input.Dim())
	if err != nil {
		return nil, err
	}
	slices.Sort(dims)
	kept := slices.DeleteFunc(elements.AllDims(a.Input.Dim()), func(d int) bool { return slices.Contains(dims, d) })
	order := append(kept, dims...)
	inverse := make([]int, len(order))
	for i, d := range order {
		inverse[d] = i
	}
	view, shape, n := opdef.ReduceView(a.Input, dims, a.Keepdim)
	flat := append(slices.Clone(view.Shape[:view.Dim()-len(dims)]), n)
	c, err := newMasked(elements.MustFind(reduction.Table(), "prod"), "self", a.Input, a.Mask, oneNeutral,
		func(x *tensor.Tensor) any {
			return &reduction.OneDimArgs{Self: x.Permute(order...).Reshape(flat...), Dim: new(-1), Keepdim: false,
				Dtype: a.Dtype}
		})
	if err != nil {
		return nil, err
	}
	c.shape, c.steps = append([]int{}, shape...), len(dims) // torch takes one dimension after the other
	c.back = func(t *tensor.Tensor) *tensor.Tensor { return t.Reshape(view.Shape...).Permute(inverse...) }
	return c, nil
}

// maskedMean is a sum in the dtype of the input, divided by the number of
// elements kept.
func maskedMean(a *maskedReduceArgs) (*maskedCall, error) {
	dt := &a.Input.DType
	if a.Dtype != nil {
		dt = a.Dtype
	}
	dims, err := opdef.Dims("dim", a.Dim, a.Input.Dim())
	if err != nil {
		return nil, err
	}
	c, err := newMasked(elements.MustFind(reduction.Table(), "sum"), "self", a.Input, a.Mask, zeroNeutral,
		func(x *tensor.Tensor) any {
			return &reduction.ReduceArgs{Self: x, Dim: dims, Keepdim: a.Keepdim, Dtype: dt}
		})
	if err != nil {
		return nil, err
	}
	c.divisor = opdef.Sum(tensor.Float64, maskOnes(c.inputs[0].mask, a.Input.Shape), dims, a.Keepdim)
	return c, nil
}

// maskOnes is 1 where elements are kept, 0 elsewhere.
func maskOnes(mask *tensor.Tensor, shape []int) *tensor.Tensor {
	if mask == nil {
		return tensor.Full(tensor.Float64, shape, 1.0)
	}
	return mask
}

func maskedIndex(name, summary string, with neutral) *opdef.Entry {
	plan := func(a *maskedIndexArgs) (*maskedIndexCall, error) {
		c, err := newMasked(elements.MustFind(reduction.Table(), name), "self", a.Input, a.Mask, with,
			func(x *tensor.Tensor) any { return &reduction.AminmaxArgs{Self: x, Dim: a.Dim, Keepdim: a.Keepdim} })
		return &maskedIndexCall{c.as(a.Dtype, a.Input)}, err
	}
	doc := maskedDoc(name, summary,
		"The index has the dtype of the input unless dtype says otherwise. Any index of equal elements is accepted.",
		"neutral")
	return opdef.Planned[*maskedIndexArgs, *maskedIndexCall]{
		Schema: "masked_" + name +
			"(Tensor input, int? dim=None, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None) -> Tensor",
		Names: maskedNames(name), Doc: doc,
		Traits: opdef.Traits{NoGrad: "the result is an index", Trivial: true},
		Plan:   plan,
		Kernel: func(c *maskedIndexCall) ([]*tensor.Tensor, error) { return c.results() },
		Cases: opdef.Calls[maskedIndexArgs](`
			f64[3, 4]{distinct}, mask=bool[3, 4]{= 1 1 0 1 0 0 0 0 1 1 0 1}
			f32[3, 4]{distinct}, dim=-1, keepdim=True, mask=bool[4]{= 1 0 0 1}
			i64[5]{-9..9}, dim=0, mask=bool[5]{= 1 1 0 0 1}; bf16[4]{distinct}`),
	}.Entry()
}

// A maskedIndexCall is a call of argmax or argmin.
type maskedIndexCall struct{ *maskedCall }

// Accept takes any index of equal elements.
func (c *maskedIndexCall) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	as, _ := c.call.Accept(got, want)
	return as
}

var maskedMedian = maskedEntry(opdef.Planned[*maskedMedianArgs, *maskedCall]{
	Schema: "masked_median(Tensor input, int dim=-1, *, bool keepdim=False, dtype? dtype=None, Tensor? mask=None) " +
		"-> Tensor",
	Names: maskedNames("median"), Doc: maskedDoc("median", "Median of the elements a mask keeps",
		"nan elements are left out too.", "nan"),
	Cases: opdef.Calls[maskedMedianArgs](`
		f64[3, 5]{distinct}, mask=bool[3, 5]{= 1 0 0 0 0 1 1 0 1 1 1 1 0 0 0}
		f32[4, 3]{distinct}, dim=0, keepdim=True, mask=bool[3]{= 1 1 1}; i64[8]{-3..3}, dim=0
		bf16[4]{distinct}, dim=0`),
}, func(a *maskedMedianArgs) (*maskedCall, error) {
	x, isFloat := a.Input, a.Input.DType.IsFloat()
	if x.DType.IsComplex() {
		return nil, opdef.Refuse("input", "not defined for complex numbers")
	}
	if !isFloat {
		x = elements.Converted(x, tensor.Float32)
	}
	c, err := newMasked(elements.MustFind(sorting.Table(), "nanmedian.dim"), "self", x, a.Mask, nanNeutral,
		func(x *tensor.Tensor) any { return &sorting.MedianArgs{Self: x, Dim: a.Dim, Keepdim: a.Keepdim} })
	if err != nil || isFloat {
		return c, err
	}
	_, y, err := c.run()
	if err != nil {
		return nil, err
	}
	for _, v := range tensor.Data[float64](y) {
		if v != v {
			return nil, opdef.Refuse("mask", "a row of dtype %s without elements has no median", a.Input.DType)
		}
	}
	return c.as(a.Dtype, a.Input), nil
}, nil)

func maskedAlong(name, summary string, base *opdef.Entry, arg, neutral string, with neutral,
	args func(x *tensor.Tensor, a *maskedDimArgs) any) *opdef.Entry {
	class := base.Error
	class.ULPs = max(class.ULPs, 2)
	return maskedEntry(opdef.Planned[*maskedDimArgs, *maskedCall]{
		Schema: "masked_" + name + "(Tensor input, int dim, *, dtype? dtype=None, Tensor? mask=None) -> Tensor",
		Names:  maskedNames(name), Doc: maskedDoc(name, summary,
			"Masked elements have results too, which mean nothing.", neutral), Error: class,
		Traits: opdef.Traits{Autocast: base.Autocast},
		Cases: opdef.Calls[maskedDimArgs](`
			f64[3, 4], 1, mask=bool[3, 4]{= 1 0 1 1 1 0 1 1 1 0 1 1}
			f32[3, 4], 0, mask=bool[3, 4]{= 1 0 1 1 1 0 1 1 1 0 1 1}; bf16[4], -1
			f64[3, 4], 1, mask=bool[4]{= 1 0 1 1}`),
	}, func(a *maskedDimArgs) (*maskedCall, error) {
		if _, err := opdef.Dim("dim", a.Dim, a.Input.Dim()); err != nil {
			return nil, err
		}
		return newMasked(base, arg, a.Input, a.Mask, with, func(x *tensor.Tensor) any { return args(x, a) })
	}, func(a *maskedDimArgs) int { return elements.TermsOver(a.Input.Shape, []int{a.Dim}) })
}

func maskedSoftmax(name, summary, neutral string, with neutral) *opdef.Entry {
	return maskedAlong(name, summary, elements.MustFind(activation.Table(), name+".functional"), "input", neutral, with,
		func(x *tensor.Tensor, a *maskedDimArgs) any {
			return &activation.SoftmaxFunctionArgs{Input: x, Dim: &a.Dim, Dtype: a.dtype()}
		})
}

var maskedLogAddExp = maskedEntry(opdef.Planned[*maskedLogAddExpArgs, *maskedCall]{
	Schema: "masked_logaddexp(Tensor input, Tensor other, *, dtype? dtype=None, Tensor? input_mask=None, Tensor? " +
		"other_mask=None) -> Tensor",
	Names: maskedNames("logaddexp"),
	Doc:   maskedDoc("logaddexp", "Logarithm of the sum of exponentials of the elements two masks keep", "", "-inf"),
	Error: opdef.Error{Class: opdef.Elementwise, Grad: &opdef.Error{Class: opdef.Elementwise}},
	Cases: opdef.Calls[maskedLogAddExpArgs](`
		f64[3, 4], f64[3, 4], input_mask=bool[4]{= 1 0 1 1}, other_mask=bool[3, 4]{full 1}; f32[5], f32[5]`),
}, func(a *maskedLogAddExpArgs) (*maskedCall, error) {
	x, xm, err := masked("input_mask", a.Input, a.InputMask, lowestNeutral)
	if err != nil {
		return nil, err
	}
	y, ym, err := masked("other_mask", a.Other, a.OtherMask, lowestNeutral)
	if err != nil {
		return nil, err
	}
	c := &maskedCall{call: elements.MustFind(pointwise.Table(), "logaddexp").NewCall(&opdef.BinaryArgs{Self: x,
		Other: y}),
		inputs: []maskedInput{{"input", "self", xm}, {"other", "other", ym}}}
	return c.as(a.Dtype, a.Input), nil
}, nil)

// maskOfRows is a mask that takes the second element out of every row.
func maskOfRows(shape ...int) *tensor.Tensor {
	n := shape[len(shape)-1]
	v := tensor.Make[int64](tensor.Numel(shape))
	for i := range v {
		if i%n != 1 {
			v[i] = 1
		}
	}
	return tensor.New(tensor.Bool, shape, v)
}

func numberCases(g opdef.Gen) []*maskedReduceArgs {
	return append(floatMaskedCases(g), &maskedReduceArgs{Input: g.Int(tensor.Int64, -3, 3, 2, 3), Dim: []int{1},
		Mask: maskOfRows(3)},
		&maskedReduceArgs{Input: g.Normal(tensor.Complex128, 3, 2), Dim: []int{0}, Mask: maskOfRows(3, 2)})
}

var floatMaskedCases = opdef.Calls[maskedReduceArgs](`
	f64[3, 4], mask=bool[3, 4]{= 1 0 0 0 0 1 1 0 1 1 1 1}
	f64[2, 3, 4], dim=[0, -1], mask=bool[3, 4]{= 1 0 1 1 1 0 1 1 1 0 1 1}
	f32[3, 4], dim=[1], keepdim=True, mask=bool[3, 4]{= 1 0 1 1 1 0 1 1 1 0 1 1}; bf16[4]
	f64[3, 4], dim=[0], mask=bool[1, 4]{= 1 0 1 1}`)

var distinctCases = opdef.Calls[maskedReduceArgs](`
	f64[3, 4]{distinct}, mask=bool[3, 4]{= 1 1 0 1 0 0 0 0 1 1 0 1}
	f64[2, 3, 4]{distinct}, dim=[0, -1], mask=bool[3, 4]{= 1 0 1 1 1 0 1 1 1 0 1 1}
	f32[3, 4]{distinct}, dim=[1], keepdim=True, mask=bool[3, 4]{= 1 0 1 1 1 0 1 1 1 0 1 1}; bf16[4]{distinct}
	i64[2, 3]{-9..9}, dim=[0], mask=bool[2, 3]{= 1 0 1 1 0 1}`)
