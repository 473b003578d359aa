package reduction

import (
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// reduceOps combine the elements along dimensions to one.
var reduceOps = []*opdef.Entry{
	opdef.Op[ReduceArgs]{
		Schema: "sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc: opdef.Doc{Summary: "Sum over dimensions", Formula: "sum of self over dim",
			Notes: "Integers and bool give int64."},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Exact}},
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Bounds: opdef.Bounds[*ReduceArgs]{Terms: (*ReduceArgs).terms},
		Kernel: func(a *ReduceArgs) ([]*tensor.Tensor, error) {
			x, dims, err := a.prepare(false)
			if err != nil {
				return nil, err
			}
			return elements.Single(opdef.Sum(x.DType, x, dims, a.Keepdim)), nil
		},
		Grad: func(a *ReduceArgs, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("self", opdef.Unreduce(g.Out[0], a.Self.Shape, a.dims())), nil
		},
		Cases: reduceCases(true),
	}.Entry().WithTakenFor("torch.mean"),
	opdef.Planned[*ReduceArgs, *mean]{
		Schema: "mean(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc: opdef.Doc{Summary: "Mean over dimensions",
			Formula: "sum of self over dim, divided by the number of terms", Notes: "Of no elements: nan."},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Rounded, ULPs: 2}},
		Bounds: opdef.Bounds[*mean]{Terms: func(a *mean) int { return a.terms() }},
		Plan:   func(a *ReduceArgs) (*mean, error) { return &mean{a}, nil },
		Kernel: func(a *mean) ([]*tensor.Tensor, error) {
			x, dims, err := a.prepare(true)
			if err != nil {
				return nil, err
			}
			return elements.Single(elements.Scaled(opdef.Sum(x.DType, x, dims, a.Keepdim),
				1/float64(elements.NumelOver(x.Shape, dims)))), nil
		},
		Grad: func(a *mean, g *opdef.Grad) (opdef.Grads, error) {
			dims := a.dims()
			return elements.GradOf("self", elements.Scaled(opdef.Unreduce(g.Out[0], a.Self.Shape, dims),
				1/float64(elements.NumelOver(a.Self.Shape, dims)))), nil
		},
		Cases: reduceCases(false),
	}.Entry().WithTakenFor("torch.sum"),
	opdef.Op[ReduceArgs]{
		Schema: "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc:    opdef.Doc{Summary: "Sum over dimensions with nan counted as zero"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Exact}},
		Bounds: opdef.Bounds[*ReduceArgs]{Terms: (*ReduceArgs).terms},
		Kernel: func(a *ReduceArgs) ([]*tensor.Tensor, error) {
			if a.Self.DType.IsComplex() {
				return nil, opdef.Refuse("self", "not defined for complex numbers")
			}
			x, dims, err := a.prepare(false)
			if err != nil {
				return nil, err
			}
			if x.DType.IsFloat() {
				x = opdef.Map(x.DType, x, nanToZero)
			}
			return elements.Single(opdef.Sum(x.DType, x, dims, a.Keepdim)), nil
		},
		Grad: func(a *ReduceArgs, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("self", maskNaN(opdef.Unreduce(g.Out[0], a.Self.Shape, a.dims()), a.Self)), nil
		},
		Cases: opdef.Calls[ReduceArgs](`
			f64[3, 4]; f64[3, 4], dim=[-1]; f64[2, 3, 4], dim=[0, 2], keepdim=True; f32[2, 3], dim=[0]
			f32[], dim=[-1]; f32[0, 3], dim=[0]; bf16[4, 5], dim=[1]; f16[8], dtype=f32; i32[5]{-4..4}, dtype=f64
			i8[2, 6]{-100..100}, dim=[1]; bool[7]{0..1}; f32[2, 3]{= 1 NaN 2 NaN NaN -4}, dim=[0]
			f32[3, 133]{rows}, dim=[1]; bf16[3, 133]{rows}, dim=[1]; f32[3, 1030]{rows}, dim=[1]`),
	}.Entry(),
	opdef.Op[ReduceArgs]{
		Schema: "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc:    opdef.Doc{Summary: "Mean over dimensions of the elements that are not nan"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Rounded, ULPs: 2}},
		Bounds: opdef.Bounds[*ReduceArgs]{Terms: (*ReduceArgs).terms},
		Kernel: func(a *ReduceArgs) ([]*tensor.Tensor, error) {
			if !a.Self.DType.IsFloat() {
				return nil, opdef.Refuse("self", "want a floating dtype, got %s", a.Self.DType)
			}
			x, dims, err := a.prepare(true)
			if err != nil {
				return nil, err
			}
			sum := opdef.Sum(x.DType, opdef.Map(x.DType, x, nanToZero), dims, a.Keepdim)
			return elements.Single(opdef.Zip(x.DType, sum, countNumbers(x, dims, a.Keepdim),
				func(s, n float64) float64 { return s / n })), nil
		},
		Grad: func(a *ReduceArgs, g *opdef.Grad) (opdef.Grads, error) {
			up := opdef.Unreduce(a.share(g.Out[0]), a.Self.Shape, a.dims())
			return elements.GradOf("self", maskNaN(up, a.Self)), nil
		},
		// The last step divides the sum.
		Node: func(a *ReduceArgs, g *opdef.Grad) (opdef.Node, error) {
			return opdef.Node{Grads: []*tensor.Tensor{a.share(g.Out[0]).Reshape(g.Out[0].Shape...), nil}}, nil
		},
		Cases: opdef.Calls[ReduceArgs](`
			f64[3, 4]; f64[3, 4], dim=[-1]; f64[2, 3, 4], dim=[0, 2], keepdim=True; f32[2, 3], dim=[0]
			f32[], dim=[-1]; f32[0, 3], dim=[0]; bf16[4, 5], dim=[1]; f16[8], dtype=f32
			f32[2, 3]{= 1 NaN 2 NaN NaN -4}, dim=[0]
			f32[3, 133]{rows}, dim=[1]; bf16[3, 133]{rows}, dim=[1]; f32[3, 1030]{rows}, dim=[1]`),
	}.Entry(),
	opdef.Op[OneDimArgs]{
		Schema: "prod(Tensor self, int? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc: opdef.Doc{Summary: "Product over all dimensions or one", Formula: "product of self over dim",
			Notes: "Integers and bool give int64. The gradient of an element is the product of the others."},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 1, Factors: true,
			Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 3, Factors: true}},
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Bounds: opdef.Bounds[*OneDimArgs]{Terms: (*OneDimArgs).terms},
		Kernel: prod,
		Grad:   prodGrad,
		Cases: func(g opdef.Gen) []*OneDimArgs {
			f64 := tensor.Float64
			zero := tensor.New(f64, []int{2, 4}, []float64{1, 0, 2, 3, 0, 0, 5, 6})
			zero.RequiresGrad = true
			return []*OneDimArgs{
				{Self: g.Normal(f64, 3, 4)}, {Self: g.Normal(f64, 3, 4), Dim: new(0)},
				{Self: g.Normal(tensor.Float32, 2, 5), Dim: new(-1), Keepdim: true},
				{Self: zero, Dim: new(1)}, {Self: tensor.New(f64, []int{3}, []float64{2, 0, -3})},
				{Self: g.Normal(f64)}, {Self: g.Normal(tensor.Float32, 0, 3), Dim: new(0)},
				{Self: g.Normal(tensor.BFloat16, 4)},
				{Self: g.Int(tensor.Int32, -3, 3, 5)}, {Self: g.Int(tensor.Bool, 0, 1, 2, 2), Dim: new(0)},
				{Self: g.Int(tensor.Int64, 1, 3, 4), Dtype: new(tensor.Float32)},
				{Self: g.Normal(tensor.Complex128, 3, 2), Dim: new(0)},
				{Self: g.Uniform(tensor.Float32, 0.9, 1.1, 3, 133), Dim: new(1)},
				{Self: g.Uniform(tensor.Float32, 0.9, 1.1, 3, 1030), Dim: new(1)},
			}
		},
	}.Entry().AsSigned(),
	anyTrue,
	allTrue,
	opdef.Overload[boolArgs, opdef.UnaryArgs]{Schema: "_is_any_true(Tensor self) -> Tensor", Of: anyTrue,
		Names: "_is_any_true Tensor._is_any_true", To: ofBools, From: wholeBools}.Entry(),
	opdef.Overload[boolArgs, opdef.UnaryArgs]{Schema: "_is_all_true(Tensor self) -> Tensor", Of: allTrue,
		Names: "_is_all_true Tensor._is_all_true", To: ofBools, From: wholeBools}.Entry(),
	opdef.Op[plainReduceArgs]{
		Schema: "count_nonzero(Tensor self, int[1]? dim=None) -> Tensor",
		Doc:    opdef.Doc{Summary: "Number of elements that are not zero"},
		Traits: opdef.Traits{NoGrad: "counts"},
		Kernel: func(a *plainReduceArgs) ([]*tensor.Tensor, error) {
			dims, err := opdef.Dims("dim", a.Dim, a.Self.Dim())
			if err != nil {
				return nil, err
			}
			return elements.Single(opdef.Sum(tensor.Int64, opdef.Cast(a.Self, tensor.Bool), dims, false)), nil
		},
		Cases: opdef.Calls[plainReduceArgs](`
			i32[3, 4]{0..2}; bool[3, 4]{0..1}, dim=[-1]; f32[2, 3], dim=[0, 1]; c64[3]; f32[0, 2], dim=[0]; f32[]`),
	}.Entry(),
	opdef.Op[LogSumExpArgs]{
		Schema: "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
		Names:  "logsumexp Tensor.logsumexp special.logsumexp",
		Doc: opdef.Doc{Summary: "Logarithm of the sum of exponentials", Formula: "log(sum(exp(self)))",
			Notes: "torch takes complex numbers from 2.0 on."},
		Error:  opdef.Error{Class: opdef.Elementwise, ULPs: 4, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 6}},
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Bounds: opdef.Bounds[*LogSumExpArgs]{
			Terms: func(a *LogSumExpArgs) int { return elements.TermsOver(a.Self.Shape, a.Dim) },
			// The logarithm of the sum is added to the largest element; the error of
			// the sum is relative to it, so 1 + log(n) in the result.
			Scale: func(a *LogSumExpArgs, outs []*tensor.Tensor) []*tensor.Tensor {
				dims := opdef.Must(opdef.Dims("dim", a.Dim, a.Self.Dim()))
				if a.Self.DType.IsComplex() {
					return elements.Single(complexLogSumScale(a, outs[0]))
				}
				l := 1 + math.Log(float64(max(1, elements.NumelOver(a.Self.Shape, dims))))
				return []*tensor.Tensor{opdef.Map(tensor.Float64, outs[0],
					func(y float64) float64 { return math.Abs(y) + l })}
			},
			// exp(x - lse): the difference is rounded before the exponential.
			GradScale: func(a *LogSumExpArgs, g *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
				dims := opdef.Must(opdef.Dims("dim", a.Dim, a.Self.Dim()))
				lse := opdef.Unreduce(g.Outs[0], a.Self.Shape, dims)
				if a.Self.DType.IsComplex() {
					s := opdef.Unreduce(complexLogSumScale(a, g.Outs[0]), a.Self.Shape, dims)
					return elements.GradOf("self",
						elements.MapMagnitudes(func(v []float64) float64 { return v[0] * (1 + v[1] + v[2]) },
							gr["self"][0], a.Self, s)), nil
				}
				t := opdef.ZipN(tensor.Float64, a.Self.Shape, func(dst []float64, s [][]float64) {
					for i, x := range s[0] {
						if s[2][i] != 0 || !math.IsInf(x, -1) { // whose exponential is exact
							dst[i] = math.Abs(s[2][i]) * (1 + math.Abs(x) + math.Abs(s[1][i]))
						} else {
							dst[i] = 0
						}
					}
				}, a.Self, lse, gr["self"][0])
				return elements.GradOf("self", t), nil
			},
		},
		Kernel: logSumExp,
		Grad: func(a *LogSumExpArgs, g *opdef.Grad) (opdef.Grads, error) {
			dims := opdef.Must(opdef.Dims("dim", a.Dim, a.Self.Dim()))
			lse, up := opdef.Unreduce(g.Outs[0], a.Self.Shape, dims), opdef.Unreduce(g.Out[0], a.Self.Shape, dims)
			if a.Self.DType.IsComplex() {
				return elements.GradOf("self", opdef.ZipN(a.Self.DType, a.Self.Shape,
					func(dst []complex128, s [][]complex128) {
						for i, x := range s[0] {
							dst[i] = s[1][i] * cmplx.Conj(kernel.ExpDiffC(x, s[2][i]))
						}
					}, a.Self, up, lse)), nil
			}
			return elements.GradOf("self", opdef.ZipN(g.Outs[0].DType, a.Self.Shape,
				func(dst []float64, s [][]float64) {
					for i, x := range s[0] {
						dst[i] = s[1][i] * kernel.ExpDiff(x, s[2][i])
					}
				}, a.Self, up, lse)), nil
		},
		Cases: opdef.Calls[LogSumExpArgs](`
			f64[3, 4], [1]; f64[2, 3, 2], [0, -1], keepdim=True; f32[5], [0]; bf16[2, 3], [0]; f64[], [0]
			f32[3, 0], [1]; f32[2, 2]{full -Inf}, [0]; i64[4]{-3..3}, [0]; c128[3, 4], [1]
			c64[5], [0], keepdim=True
			f32[3, 133]{rows}, [1]; bf16[3, 133]{rows}, [1]; f32[3, 1030]{rows}, [1]
			f32[3, 133]{tails}, [1]; bf16[3, 133]{tails}, [1]; f32[3, 1030]{tails}, [1]`),
	}.Entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "trace(Tensor self) -> Tensor",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc:    opdef.Doc{Summary: "Sum of the diagonal of a matrix"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Exact}},
		Bounds: opdef.Bounds[*opdef.UnaryArgs]{
			Terms: func(a *opdef.UnaryArgs) int { return slices.Max(append(a.Self.Shape, 1)) },
		},
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			x := a.Self
			if x.Dim() != 2 {
				return nil, opdef.Refuse("self", "want a matrix, got shape %s", tensor.ShapeString(x.Shape))
			}
			dt := sumDType(x.DType)
			d, err := x.Strided([]int{min(x.Shape[0], x.Shape[1])}, []int{x.Stride[0] + x.Stride[1]}, x.Offset)
			if err != nil {
				return nil, err
			}
			return elements.Single(opdef.Sum(dt, d, []int{0}, false)), nil
		},
		Grad: func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
			cols := a.Self.Shape[1]
			if a.Self.DType.IsComplex() {
				v := tensor.At[complex128](g.Out[0], 0)
				return elements.GradOf("self", diagonalMatrix(a.Self.DType, a.Self.Shape, cols, v)), nil
			}
			return elements.GradOf("self", diagonalMatrix(a.Self.DType, a.Self.Shape, cols, g.Out[0].Item())), nil
		},
		Cases: opdef.Calls[opdef.UnaryArgs](`f64[3, 4]; f32[4, 2]; i32[3, 3]{-3..3}; f32[0, 3]; c128[2, 2]`),
	}.Entry(),
	opdef.Op[sumToSizeArgs]{
		Schema: "sum_to_size(Tensor self, int[]... size) -> Tensor",
		Names:  "Tensor.sum_to_size",
		Doc:    opdef.Doc{Summary: "Sum over the dimensions a smaller shape broadcasts over"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Exact}},
		Bounds: opdef.Bounds[*sumToSizeArgs]{
			Terms: func(a *sumToSizeArgs) int { return max(1, a.Self.Numel()/max(1, numel(a.Size))) },
		},
		Kernel: func(a *sumToSizeArgs) ([]*tensor.Tensor, error) {
			if s, err := tensor.Broadcast(a.Self.Shape, a.Size); err != nil || !slices.Equal(s, a.Self.Shape) {
				return nil, opdef.Refuse("size", "size %s does not expand to shape %s", tensor.ShapeString(a.Size),
					tensor.ShapeString(a.Self.Shape))
			}
			if slices.Equal(a.Size, a.Self.Shape) && len(a.Size) > 0 {
				return elements.Single(a.Self), nil
			}
			return elements.Single(opdef.SumTo(opdef.Cast(a.Self, sumDType(a.Self.DType)), a.Size)), nil
		},
		Grad: func(a *sumToSizeArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := g.Out[0].Expand(a.Self.Shape...)
			return elements.GradOf("self", t), err
		},
		Cases: opdef.Calls[sumToSizeArgs](`
			f64[3, 4], [3, 1]; f64[2, 3, 4], [4]; f32[2, 3], []; i32[2, 3]{0..5}, [1, 3]`),
	}.Entry(),
}

// A mean is a call of mean.
type mean struct{ *ReduceArgs }

// ExactOut is true where a dtype is given.
func (a *mean) ExactOut() bool { return a.Dtype != nil }

// GradElse is the result divided by the element, as torch computes it: NaN and infinity pass on to the gradients of the
// others. An element of 0 has the product of the others, as torch has it where any element is 0.
func (a *OneDimArgs) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	if !a.Self.DType.IsFloat() {
		return nil, nil
	}
	others, err := prodGrad(a, g)
	if err != nil {
		return nil, err
	}
	divided := byResult(a.Self, elements.OptionalDim(a.Dim), g, func(x, y float64) float64 { return y / x })
	either := func(dst []float64, s [][]float64) {
		for i, x := range s[0] {
			dst[i] = s[1][i]
			if x == 0 {
				dst[i] = s[2][i]
			}
		}
	}
	t := opdef.ZipN(a.Self.DType, a.Self.Shape, either, a.Self, divided["self"][0], others["self"][0])
	return []opdef.Grads{elements.GradOf("self", t)}, nil
}

// GradElse: the exponent is infinity less infinity.
func (a *LogSumExpArgs) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	if !a.Self.DType.IsFloat() {
		return nil, nil
	}
	return []opdef.Grads{byResult(a.Self, a.Dim, g, func(x, y float64) float64 { return math.Exp(x - y) })}, nil
}

// ReduceArgs are the arguments of reductions over dimensions with a dtype.
type ReduceArgs struct {
	Self    *tensor.Tensor
	Dim     []int
	Keepdim bool
	Dtype   *tensor.DType
}

// OneDimArgs are the arguments of reductions over one dimension with a dtype.
type OneDimArgs struct {
	Self    *tensor.Tensor
	Dim     *int
	Keepdim bool
	Dtype   *tensor.DType
}

type plainReduceArgs struct {
	Self *tensor.Tensor
	Dim  []int
}

type sumToSizeArgs struct {
	Self *tensor.Tensor
	Size []int
}

// numel is the product of a shape that has not been checked: 0 if it is
// negative anywhere.
func numel(shape []int) int {
	for _, n := range shape {
		if n < 0 {
			return 0
		}
	}
	return tensor.Numel(shape)
}

// inSumDType is x in the dtype asked for, or in that of its sums.
func inSumDType(x *tensor.Tensor, dt *tensor.DType) *tensor.Tensor {
	if dt != nil {
		return elements.Converted(x, *dt)
	}
	return elements.Converted(x, sumDType(x.DType))
}

// sumDType is the dtype of a sum of dt: int64 for integers and bool.
func sumDType(dt tensor.DType) tensor.DType {
	if dt.Kind() < tensor.KindFloat {
		return tensor.Int64
	}
	return dt
}

// prepare resolves the dimensions and converts self to the dtype of the result.
// floating refuses a result that is not floating or complex.
func (a *ReduceArgs) prepare(floating bool) (*tensor.Tensor, []int, error) {
	dims, err := opdef.Dims("dim", a.Dim, a.Self.Dim())
	if err != nil {
		return nil, nil, err
	}
	dt := a.Self.DType
	switch {
	case a.Dtype != nil:
		dt = *a.Dtype
	case !floating:
		dt = sumDType(dt)
	}
	if floating && dt.Kind() < tensor.KindFloat {
		return nil, nil, opdef.Refuse("self", "want a floating or complex dtype, got %s", dt)
	}
	return elements.Converted(a.Self, dt), dims, nil
}

// dims are the resolved dimensions of a call whose kernel has accepted them.
func (a *ReduceArgs) dims() []int {
	return opdef.Must(opdef.Dims("dim", a.Dim, a.Self.Dim()))
}

func (a *ReduceArgs) terms() int { return elements.TermsOver(a.Self.Shape, a.Dim) }

func (a *OneDimArgs) terms() int {
	return elements.TermsOver(a.Self.Shape, elements.OptionalDim(a.Dim))
}

func nanToZero(x float64) float64 {
	if x != x {
		return 0
	}
	return x
}

// maskNaN is g where x is a number, 0 where it is nan.
func maskNaN(g, x *tensor.Tensor) *tensor.Tensor {
	return opdef.Zip(g.DType, g, x, func(g, x float64) float64 {
		if x != x {
			return 0
		}
		return g
	})
}

// share is the gradient of each sum that nanmean divides.
func (a *ReduceArgs) share(up *tensor.Tensor) *tensor.Tensor {
	n := countNumbers(a.Self, a.dims(), false)
	return opdef.Zip(up.DType, up.Reshape(n.Shape...), n, func(g, n float64) float64 { return g / n })
}

// countNumbers counts the elements that are not nan.
func countNumbers(x *tensor.Tensor, dims []int, keepdim bool) *tensor.Tensor {
	return opdef.Sum(tensor.Float64, opdef.Map(tensor.Float64, x, func(x float64) float64 {
		if x != x {
			return 0
		}
		return 1
	}), dims, keepdim)
}

// boolReduction declares any and all: whether an element differs in truth from
// rest, the result of no elements.
var (
	anyTrue = boolReduction("any", "Whether any element is non-zero", 0)
	allTrue = boolReduction("all", "Whether all elements are non-zero", 1)
)

// ofBools are the arguments of a reduction of all elements, which must be bool.
func ofBools(a *opdef.UnaryArgs) (*boolArgs, error) {
	if a.Self.DType != tensor.Bool {
		return nil, opdef.Refuse("self", "want dtype bool, got %s", a.Self.DType)
	}
	return &boolArgs{Self: a.Self}, nil
}

// wholeBools are the arguments of ofBools, nil where it has none for a.
func wholeBools(a *boolArgs) *opdef.UnaryArgs {
	if a.Self.DType != tensor.Bool || a.Dim != nil || a.Keepdim {
		return nil
	}
	return &opdef.UnaryArgs{Self: a.Self}
}

func boolReduction(name, summary string, rest int64) *opdef.Entry {
	return opdef.Op[boolArgs]{
		Schema: name + "(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
		Doc:    opdef.Doc{Summary: summary, Notes: "The result is bool, of uint8 it is uint8. nan is not zero."},
		Traits: opdef.Traits{NoGrad: "the result is not differentiable", Trivial: true},
		Kernel: func(a *boolArgs) ([]*tensor.Tensor, error) {
			dims, err := opdef.Dims("dim", a.Dim, a.Self.Dim())
			if err != nil {
				return nil, err
			}
			dt := tensor.Bool
			if a.Self.DType == tensor.Uint8 {
				dt = tensor.Uint8
			}
			f := opdef.Fold[int64, bool]{
				Add: func(acc *bool, _ int, v [][]int64) {
					*acc = *acc || slices.Contains(v[0], 1-rest)
				},
				Join: func(acc *bool, next bool) { *acc = *acc || next },
			}
			return elements.Single(opdef.Collect(opdef.FoldDims(f, dims, a.Keepdim, opdef.Cast(a.Self, tensor.Bool)),
				dt,
				func(found *bool) int64 {
					if *found {
						return 1 - rest
					}
					return rest
				})), nil
		},
		Cases: opdef.Calls[boolArgs](`
			bool[3, 4]{0..1}; bool[3, 4]{0..1}, dim=[1]; u8[3, 4]{0..2}, dim=[-2], keepdim=True
			i64[2, 2]{0..1}, dim=[0, 1]; f32[3]; f32[0, 3], dim=[0]; c64[2]; bool[]{0..1}`),
	}.Entry()
}

type boolArgs struct {
	Self    *tensor.Tensor
	Dim     []int
	Keepdim bool
}

// diagonalMatrix is the matrix of shape with v on its diagonal.
func diagonalMatrix[T tensor.Elem](dt tensor.DType, shape []int, cols int, v T) *tensor.Tensor {
	if tensor.Numel(shape) == 0 {
		return tensor.New(dt, shape, []T{})
	}
	return opdef.Rows(dt, shape, cols, func(row int, dst []T) {
		clear(dst)
		if row < cols {
			dst[row] = v
		}
	})
}

// reduceCases are calls of a reduction over several dimensions with dtype=.
func reduceCases(integers bool) func(opdef.Gen) []*ReduceArgs {
	return func(g opdef.Gen) []*ReduceArgs {
		f64, f32 := tensor.Float64, tensor.Float32
		cs := []*ReduceArgs{
			{Self: g.Normal(f64, 3, 4)}, {Self: g.Normal(f64, 3, 4), Dim: []int{-1}}, {Self: g.Normal(f64, 2, 3, 4),
				Dim: []int{0, 2}, Keepdim: true},
			{Self: g.Normal(f32, 2, 3), Dim: []int{0}}, {Self: g.Normal(f32), Dim: []int{-1}},
			{Self: g.Normal(f32, 0, 3), Dim: []int{0}},
			{Self: g.Normal(tensor.BFloat16, 4, 5), Dim: []int{1}}, {Self: g.Normal(tensor.Float16, 8), Dtype: &f32},
			{Self: g.Int(tensor.Int32, -4, 4, 5),
				Dtype: &f64},
			{Self: g.Normal(tensor.Complex128, 2, 3), Dim: []int{1}},
		}
		if integers {
			cs = append(cs, &ReduceArgs{Self: g.Int(tensor.Int8, -100, 100, 2, 6), Dim: []int{1}},
				&ReduceArgs{Self: g.Int(tensor.Bool, 0, 1, 7)})
		}
		cs = append(cs, &ReduceArgs{Self: g.Normal(f32, 2, 33), Dim: []int{1}},
			&ReduceArgs{Self: g.Rows(tensor.BFloat16, 3, 133), Dim: []int{1}},
			&ReduceArgs{Self: g.Rows(f32, 3, 133), Dim: []int{1}},
			&ReduceArgs{Self: g.Rows(f32, 3, 1030), Dim: []int{1}})
		return cs
	}
}

// byResult is the gradient of a reduction of x, whose slope is f of an element and the result.
func byResult(x *tensor.Tensor, dim []int, g *opdef.Grad, f func(x, y float64) float64) opdef.Grads {
	dims := opdef.Must(opdef.Dims("dim", dim, x.Dim()))
	return elements.GradOf("self", opdef.ZipN(x.DType, x.Shape, func(dst []float64, s [][]float64) {
		for i, xi := range s[0] {
			dst[i] = s[2][i] * f(xi, s[1][i])
		}
	}, x, opdef.Unreduce(g.Outs[0], x.Shape, dims), opdef.Unreduce(g.Out[0], x.Shape, dims)))
}
