package ops

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// reduceOps combine the elements along dimensions to one.
var reduceOps = []*opdef.Entry{
	opdef.Op[reduceArgs]{
		Schema: "sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc: opdef.Doc{Summary: "Sum over dimensions", Formula: "sum of self over dim",
			Notes: "Integers and bool give int64.", Source: "torch.sum"},
		Error:    opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Exact}},
		Autocast: opdef.AutocastFloat32,
		Terms:    (*reduceArgs).terms,
		Kernel: func(a *reduceArgs) ([]*tensor.Tensor, error) {
			x, dims, err := a.prepare(false)
			if err != nil {
				return nil, err
			}
			return single(opdef.Sum(x.DType, x, dims, a.Keepdim)), nil
		},
		Grad: func(a *reduceArgs, g *opdef.Grad) (opdef.Grads, error) {
			return gradOf("self", opdef.Unreduce(g.Out[0], a.Self.Shape, a.dims())), nil
		},
		Cases: reduceCases(true),
	}.Entry(),
	opdef.Op[reduceArgs]{
		Schema:   "mean(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		ExactOut: func(a *reduceArgs) bool { return a.Dtype != nil },
		Doc: opdef.Doc{Summary: "Mean over dimensions",
			Formula: "sum of self over dim, divided by the number of terms", Notes: "Of no elements: nan.",
			Source: "torch.mean"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Rounded, ULPs: 2}},
		Terms: (*reduceArgs).terms,
		Kernel: func(a *reduceArgs) ([]*tensor.Tensor, error) {
			x, dims, err := a.prepare(true)
			if err != nil {
				return nil, err
			}
			return single(times(opdef.Sum(x.DType, x, dims, a.Keepdim), 1/float64(count(x.Shape, dims)))), nil
		},
		Grad: func(a *reduceArgs, g *opdef.Grad) (opdef.Grads, error) {
			dims := a.dims()
			return gradOf("self", times(opdef.Unreduce(g.Out[0], a.Self.Shape, dims),
				1/float64(count(a.Self.Shape, dims)))), nil
		},
		Cases: reduceCases(false),
	}.Entry(),
	opdef.Op[reduceArgs]{
		Schema: "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc:    opdef.Doc{Summary: "Sum over dimensions with nan counted as zero", Source: "torch.nansum"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Exact}},
		Terms:  (*reduceArgs).terms,
		Kernel: func(a *reduceArgs) ([]*tensor.Tensor, error) {
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
			return single(opdef.Sum(x.DType, x, dims, a.Keepdim)), nil
		},
		Grad: func(a *reduceArgs, g *opdef.Grad) (opdef.Grads, error) {
			return gradOf("self", maskNaN(opdef.Unreduce(g.Out[0], a.Self.Shape, a.dims()), a.Self)), nil
		},
		Cases: func(r *rand.Rand) []*reduceArgs {
			nan := tensor.New(tensor.Float32, []int{2, 3}, []float64{1, math.NaN(), 2, math.NaN(), math.NaN(), -4})
			return append(realCases(reduceCases(true)(r)), &reduceArgs{Self: nan, Dim: []int{0}})
		},
	}.Entry(),
	opdef.Op[reduceArgs]{
		Schema: "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc:    opdef.Doc{Summary: "Mean over dimensions of the elements that are not nan", Source: "torch.nanmean"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Rounded, ULPs: 2}},
		Terms:  (*reduceArgs).terms,
		Kernel: func(a *reduceArgs) ([]*tensor.Tensor, error) {
			if !a.Self.DType.IsFloat() {
				return nil, opdef.Refuse("self", "want a floating dtype, got %s", a.Self.DType)
			}
			x, dims, err := a.prepare(true)
			if err != nil {
				return nil, err
			}
			sum := opdef.Sum(x.DType, opdef.Map(x.DType, x, nanToZero), dims, a.Keepdim)
			return single(opdef.Zip(x.DType, sum, countNumbers(x, dims, a.Keepdim),
				func(s, n float64) float64 { return s / n })), nil
		},
		Grad: func(a *reduceArgs, g *opdef.Grad) (opdef.Grads, error) {
			dims := a.dims()
			n := countNumbers(a.Self, dims, false)
			share := opdef.Zip(g.Out[0].DType, g.Out[0].Reshape(n.Shape...), n,
				func(g, n float64) float64 { return g / n })
			return gradOf("self", maskNaN(opdef.Unreduce(share, a.Self.Shape, dims), a.Self)), nil
		},
		Cases: func(r *rand.Rand) []*reduceArgs {
			nan := tensor.New(tensor.Float32, []int{2, 3}, []float64{1, math.NaN(), 2, math.NaN(), math.NaN(), -4})
			return append(floatCases(reduceCases(false)(r)), &reduceArgs{Self: nan, Dim: []int{0}})
		},
	}.Entry(),
	opdef.Op[oneDimArgs]{
		Schema: "prod(Tensor self, int? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
		Doc: opdef.Doc{Summary: "Product over all dimensions or one", Formula: "product of self over dim",
			Notes:  "Integers and bool give int64. The gradient of an element is the product of the others.",
			Source: "torch.prod"},
		Error:    opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 3}},
		Autocast: opdef.AutocastFloat32,
		Terms:    (*oneDimArgs).terms,
		Kernel:   prod,
		Grad:     prodGrad,
		Cases: func(r *rand.Rand) []*oneDimArgs {
			g := opdef.Gen{R: r}
			f64 := tensor.Float64
			zero := tensor.New(f64, []int{2, 4}, []float64{1, 0, 2, 3, 0, 0, 5, 6})
			zero.RequiresGrad = true
			return []*oneDimArgs{
				{Self: g.Normal(f64, 3, 4)}, {Self: g.Normal(f64, 3, 4), Dim: ptr(0)},
				{Self: g.Normal(tensor.Float32, 2, 5), Dim: ptr(-1), Keepdim: true},
				{Self: zero, Dim: ptr(1)}, {Self: tensor.New(f64, []int{3}, []float64{2, 0, -3})},
				{Self: g.Normal(f64)}, {Self: g.Normal(tensor.Float32, 0, 3), Dim: ptr(0)},
				{Self: opdef.NonContiguous(g.Normal(f64, 2, 3)), Dim: ptr(0)}, {Self: g.Normal(tensor.BFloat16, 4)},
				{Self: g.Int(tensor.Int32, -3, 3, 5)}, {Self: g.Int(tensor.Bool, 0, 1, 2, 2), Dim: ptr(0)},
				{Self: g.Int(tensor.Int64, 1, 3, 4), Dtype: ptr(tensor.Float32)},
				{Self: g.Normal(tensor.Complex128, 3, 2), Dim: ptr(0)},
			}
		},
	}.Entry(),
	boolReduction("any", "Whether any element is non-zero", 0),
	boolReduction("all", "Whether all elements are non-zero", 1),
	opdef.Op[plainReduceArgs]{
		Schema: "count_nonzero(Tensor self, int[1]? dim=None) -> Tensor",
		Doc:    opdef.Doc{Summary: "Number of elements that are not zero", Source: "torch.count_nonzero"},
		NoGrad: "counts",
		Kernel: func(a *plainReduceArgs) ([]*tensor.Tensor, error) {
			dims, err := opdef.Dims("dim", a.Dim, a.Self.Dim())
			if err != nil {
				return nil, err
			}
			return single(opdef.Sum(tensor.Int64, opdef.Cast(a.Self, tensor.Bool), dims, false)), nil
		},
		Cases: func(r *rand.Rand) []*plainReduceArgs {
			g := opdef.Gen{R: r}
			return []*plainReduceArgs{
				{Self: g.Int(tensor.Int32, 0, 2, 3, 4)}, {Self: g.Int(tensor.Bool, 0, 1, 3, 4), Dim: []int{-1}},
				{Self: g.Normal(tensor.Float32, 2, 3), Dim: []int{0, 1}},
				{Self: g.Normal(tensor.Complex64, 3)}, {Self: g.Normal(tensor.Float32, 0, 2), Dim: []int{0}},
				{Self: g.Normal(tensor.Float32)},
			}
		},
	}.Entry(),
	opdef.Op[logSumExpArgs]{
		Schema: "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
		Names:  "logsumexp Tensor.logsumexp special.logsumexp",
		Doc: opdef.Doc{Summary: "Logarithm of the sum of exponentials", Formula: "log(sum(exp(self)))",
			Notes: "torch takes complex numbers from 2.0 on.", Source: "torch.logsumexp"},
		Error:    opdef.Error{Class: opdef.Elementwise, ULPs: 4, Grad: &opdef.Error{Class: opdef.Elementwise, ULPs: 6}},
		Autocast: opdef.AutocastFloat32,
		Terms:    func(a *logSumExpArgs) int { return termsOver(a.Self.Shape, a.Dim) },
		Kernel:   logSumExp,
		Grad: func(a *logSumExpArgs, g *opdef.Grad) (opdef.Grads, error) {
			dims, err := opdef.Dims("dim", a.Dim, a.Self.Dim())
			if err != nil {
				return nil, err
			}
			lse, up := opdef.Unreduce(g.Outs[0], a.Self.Shape, dims), opdef.Unreduce(g.Out[0], a.Self.Shape, dims)
			if a.Self.DType.IsComplex() {
				return gradOf("self", opdef.ZipN(a.Self.DType, a.Self.Shape, func(dst []complex128, s [][]complex128) {
					for i, x := range s[0] {
						dst[i] = s[1][i] * cmplx.Conj(expDiffC(x, s[2][i]))
					}
				}, a.Self, up, lse)), nil
			}
			return gradOf("self", opdef.ZipN(g.Outs[0].DType, a.Self.Shape, func(dst []float64, s [][]float64) {
				for i, x := range s[0] {
					dst[i] = s[1][i] * expDiff(x, s[2][i])
				}
			}, a.Self, up, lse)), nil
		},
		// The logarithm of the sum is added to the largest element; the error of
		// the sum is relative to it, so 1 + log(n) in the result.
		Scale: func(a *logSumExpArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			dims, err := opdef.Dims("dim", a.Dim, a.Self.Dim())
			if err != nil {
				return []*tensor.Tensor{opdef.Abs(outs[0])}
			}
			if a.Self.DType.IsComplex() {
				return single(complexLogSumScale(a, outs[0]))
			}
			l := 1 + math.Log(float64(max(1, count(a.Self.Shape, dims))))
			return []*tensor.Tensor{opdef.Map(tensor.Float64, outs[0],
				func(y float64) float64 { return math.Abs(y) + l })}
		},
		// exp(x - lse): the difference is rounded before the exponential.
		GradScale: func(a *logSumExpArgs, g *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
			dims, err := opdef.Dims("dim", a.Dim, a.Self.Dim())
			if err != nil {
				return nil, err
			}
			lse := opdef.Unreduce(g.Outs[0], a.Self.Shape, dims)
			if a.Self.DType.IsComplex() {
				s := opdef.Unreduce(complexLogSumScale(a, g.Outs[0]), a.Self.Shape, dims)
				return gradOf("self", magnitudes(func(v []float64) float64 { return v[0] * (1 + v[1] + v[2]) },
					gr["self"][0], a.Self, s)), nil
			}
			return gradOf("self", opdef.ZipN(tensor.Float64, a.Self.Shape, func(dst []float64, s [][]float64) {
				for i, x := range s[0] {
					dst[i] = math.Abs(s[2][i]) * (1 + math.Abs(x) + math.Abs(s[1][i]))
				}
			}, a.Self, lse, gr["self"][0])), nil
		},
		Cases: func(r *rand.Rand) []*logSumExpArgs {
			g := opdef.Gen{R: r}
			return []*logSumExpArgs{
				{Self: g.Normal(tensor.Float64, 3, 4), Dim: []int{1}}, {Self: g.Normal(tensor.Float64, 2, 3, 2),
					Dim: []int{0, -1}, Keepdim: true},
				{Self: g.Normal(tensor.Float32, 5), Dim: []int{0}}, {Self: g.Normal(tensor.BFloat16, 2, 3),
					Dim: []int{0}},
				{Self: g.Normal(tensor.Float64), Dim: []int{0}}, {Self: g.Normal(tensor.Float32, 3, 0), Dim: []int{1}},
				{Self: opdef.NonContiguous(g.Normal(tensor.Float64, 3, 4)), Dim: []int{0}},
				{Self: tensor.Full(tensor.Float32, []int{2, 2}, math.Inf(-1)), Dim: []int{0}},
				{Self: g.Int(tensor.Int64, -3, 3, 4), Dim: []int{0}},
				{Self: g.Normal(tensor.Complex128, 3, 4), Dim: []int{1}}, {Self: g.Normal(tensor.Complex64, 5),
					Dim: []int{0}, Keepdim: true},
			}
		},
	}.Entry(),
	opdef.Op[opdef.UnaryArgs]{
		Schema: "trace(Tensor self) -> Tensor",
		Doc:    opdef.Doc{Summary: "Sum of the diagonal of a matrix", Source: "torch.trace"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Exact}},
		Terms:  func(a *opdef.UnaryArgs) int { return slices.Max(append(a.Self.Shape, 1)) },
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
			return single(opdef.Sum(dt, d, []int{0}, false)), nil
		},
		Grad: func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
			cols := a.Self.Shape[1]
			if a.Self.DType.IsComplex() {
				v := tensor.At[complex128](g.Out[0], 0)
				return gradOf("self", diagonalMatrix(a.Self.DType, a.Self.Shape, cols, v)), nil
			}
			return gradOf("self", diagonalMatrix(a.Self.DType, a.Self.Shape, cols, g.Out[0].Item())), nil
		},
		Cases: func(r *rand.Rand) []*opdef.UnaryArgs {
			g := opdef.Gen{R: r}
			return []*opdef.UnaryArgs{
				{Self: g.Normal(tensor.Float64, 3, 4)}, {Self: g.Normal(tensor.Float32, 4, 2)},
				{Self: g.Int(tensor.Int32, -3, 3, 3, 3)},
				{Self: opdef.NonContiguous(g.Normal(tensor.Float64, 3, 3))}, {Self: g.Normal(tensor.Float32, 0, 3)},
				{Self: g.Normal(tensor.Complex128, 2, 2)},
			}
		},
	}.Entry(),
	opdef.Op[sumToSizeArgs]{
		Schema: "sum_to_size(Tensor self, int[]... size) -> Tensor",
		Names:  "Tensor.sum_to_size",
		Doc: opdef.Doc{Summary: "Sum over the dimensions a smaller shape broadcasts over",
			Source: "torch.Tensor.sum_to_size"},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 1, Grad: &opdef.Error{Class: opdef.Exact}},
		Terms: func(a *sumToSizeArgs) int { return max(1, a.Self.Numel()/max(1, numel(a.Size))) },
		Kernel: func(a *sumToSizeArgs) ([]*tensor.Tensor, error) {
			if s, err := tensor.Broadcast(a.Self.Shape, a.Size); err != nil || !slices.Equal(s, a.Self.Shape) {
				return nil, opdef.Refuse("size", "size %s does not expand to shape %s", tensor.ShapeString(a.Size),
					tensor.ShapeString(a.Self.Shape))
			}
			if slices.Equal(a.Size, a.Self.Shape) && len(a.Size) > 0 {
				return single(a.Self), nil
			}
			return single(opdef.SumTo(opdef.Cast(a.Self, sumDType(a.Self.DType)), a.Size)), nil
		},
		Grad: func(a *sumToSizeArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := g.Out[0].Expand(a.Self.Shape...)
			return gradOf("self", t), err
		},
		Cases: func(r *rand.Rand) []*sumToSizeArgs {
			g := opdef.Gen{R: r}
			return []*sumToSizeArgs{
				{g.Normal(tensor.Float64, 3, 4), []int{3, 1}}, {g.Normal(tensor.Float64, 2, 3, 4), []int{4}},
				{g.Normal(tensor.Float32, 2, 3), []int{}},
				{g.Int(tensor.Int32, 0, 5, 2, 3), []int{1, 3}},
			}
		},
	}.Entry(),
}

type reduceArgs struct {
	Self    *tensor.Tensor
	Dim     []int
	Keepdim bool
	Dtype   *tensor.DType
}

type oneDimArgs struct {
	Self    *tensor.Tensor
	Dim     *int
	Keepdim bool
	Dtype   *tensor.DType
}

type plainReduceArgs struct {
	Self *tensor.Tensor
	Dim  []int
}

type logSumExpArgs struct {
	Self    *tensor.Tensor
	Dim     []int
	Keepdim bool
}

type sumToSizeArgs struct {
	Self *tensor.Tensor
	Size []int
}

// single wraps the single result of a kernel.
func single(t *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{t} }

// gradOf is the gradient of an op with one differentiable argument.
func gradOf(arg string, t *tensor.Tensor) opdef.Grads {
	g := opdef.Grads{}
	g.Set(arg, t)
	return g
}

func ptr[T any](v T) *T { return &v }

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

func allDims(n int) []int {
	d := make([]int, n)
	for i := range d {
		d[i] = i
	}
	return d
}

// count is the number of elements that one result of a reduction over dims is
// made of.
func count(shape, dims []int) int {
	n := 1
	for _, d := range dims {
		n *= shape[d]
	}
	return n
}

// termsOver is count for a dim argument that may be unchecked.
func termsOver(shape, dim []int) int {
	dims, err := opdef.Dims("dim", dim, len(shape))
	if err != nil {
		return 1
	}
	return count(shape, dims)
}

// sumDType is the dtype of a sum of dt: int64 for integers and bool.
func sumDType(dt tensor.DType) tensor.DType {
	if dt.Kind() < tensor.KindFloat {
		return tensor.Int64
	}
	return dt
}

// converted is t in dtype dt as torch converts an argument before it computes:
// with the rounding or wrapping that goes with a narrower dtype.
func converted(t *tensor.Tensor, dt tensor.DType) *tensor.Tensor {
	if t.DType == dt {
		return t
	}
	u := opdef.Cast(t, dt)
	switch {
	case dt.IsFloat() && (t.DType.Size() > dt.Size() || !t.DType.IsFloat()):
		return opdef.MapBlock(dt, u, func(dst, src []float64) {
			copy(dst, src)
			tensor.RoundBlock(dt, dst)
		})
	case dt.IsComplex() && t.DType.Size() > dt.Size():
		p := dt.Real()
		return opdef.Map(dt, u, func(z complex128) complex128 { return complex(p.Round(real(z)), p.Round(imag(z))) })
	case dt.Kind() <= tensor.KindInt && dt != tensor.Bool && t.DType != tensor.Bool:
		return opdef.Map(dt, u, func(x int64) int64 { return tensor.WrapInt(dt, x) })
	}
	return u
}

// prepare resolves the dimensions and converts self to the dtype of the result.
// floating refuses a result that is not floating or complex.
func (a *reduceArgs) prepare(floating bool) (*tensor.Tensor, []int, error) {
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
	return converted(a.Self, dt), dims, nil
}

// dims are the resolved dimensions of a call whose kernel has accepted them.
func (a *reduceArgs) dims() []int {
	dims, _ := opdef.Dims("dim", a.Dim, a.Self.Dim())
	return dims
}

func (a *reduceArgs) terms() int { return termsOver(a.Self.Shape, a.Dim) }

func (a *oneDimArgs) terms() int { return termsOver(a.Self.Shape, dimList(a.Dim)) }

// dimList is an optional dimension as a list; none means all.
func dimList(d *int) []int {
	if d == nil {
		return nil
	}
	return []int{*d}
}

// times is k*t, t itself if k is 1.
func times(t *tensor.Tensor, k float64) *tensor.Tensor {
	if k == 1 {
		return t
	}
	if t.DType.IsComplex() {
		return opdef.Map(t.DType, t, func(x complex128) complex128 { return complex(k*real(x), k*imag(x)) })
	}
	return opdef.Map(t.DType, t, func(x float64) float64 { return k * x })
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

// countNumbers counts the elements that are not nan.
func countNumbers(x *tensor.Tensor, dims []int, keepdim bool) *tensor.Tensor {
	return opdef.Sum(tensor.Float64, opdef.Map(tensor.Float64, x, func(x float64) float64 {
		if x != x {
			return 0
		}
		return 1
	}), dims, keepdim)
}

// A factor is a product so far; its zero value is the empty product.
type factor[T tensor.Elem] struct {
	v   T
	any bool
}

func multiplying[T tensor.Elem]() opdef.Fold[T, factor[T]] {
	join := func(acc *factor[T], p T) {
		if acc.any {
			p *= acc.v
		}
		acc.v, acc.any = p, true
	}
	return opdef.Fold[T, factor[T]]{
		Add: func(acc *factor[T], _ int, v [][]T) {
			var p T = 1
			for _, x := range v[0] {
				p *= x
			}
			join(acc, p)
		},
		Join: func(acc *factor[T], next factor[T]) { join(acc, next.v) },
	}
}

func prodOf[T tensor.Elem](x *tensor.Tensor, dims []int, keepdim bool) *tensor.Tensor {
	return opdef.Collect(opdef.FoldDims(multiplying[T](), dims, keepdim, x), x.DType, func(a *factor[T]) T {
		if !a.any {
			return 1
		}
		return a.v
	})
}

func prod(a *oneDimArgs) ([]*tensor.Tensor, error) {
	if a.Dim == nil && a.Keepdim {
		return nil, opdef.Refuse("keepdim", "needs dim")
	}
	dims, err := opdef.Dims("dim", dimList(a.Dim), a.Self.Dim())
	if err != nil {
		return nil, err
	}
	dt := sumDType(a.Self.DType)
	if a.Dtype != nil {
		dt = *a.Dtype
	}
	x := converted(a.Self, dt)
	switch dt.Kind() {
	case tensor.KindComplex:
		return single(prodOf[complex128](x, dims, a.Keepdim)), nil
	case tensor.KindFloat:
		return single(prodOf[float64](x, dims, a.Keepdim)), nil
	}
	return single(prodOf[int64](x, dims, a.Keepdim)), nil
}

func prodGrad(a *oneDimArgs, g *opdef.Grad) (opdef.Grads, error) {
	x := a.Self
	dims, err := opdef.Dims("dim", dimList(a.Dim), x.Dim())
	if err != nil {
		return nil, err
	}
	up, shape, dim := opdef.Unreduce(g.Out[0], x.Shape, dims), x.Shape, 0
	if a.Dim == nil {
		x, up = x.Reshape(x.Numel()), up.Reshape(x.Numel())
	} else if len(dims) > 0 {
		dim = dims[0]
	}
	dt := g.Outs[0].DType
	if dt.IsComplex() {
		return gradOf("self", opdef.AlongDimN(dt, dim, func(s [][]complex128, dst []complex128) {
			othersProduct(s[0], dst)
			for i, p := range dst {
				dst[i] = s[1][i] * cmplx.Conj(p)
			}
		}, x, up).Reshape(shape...)), nil
	}
	return gradOf("self", opdef.AlongDimN(dt, dim, func(s [][]float64, dst []float64) {
		othersProduct(s[0], dst)
		for i, p := range dst {
			dst[i] = s[1][i] * p
		}
	}, x, up).Reshape(shape...)), nil
}

// othersProduct stores in dst[i] the product of all elements of x but x[i].
func othersProduct[T tensor.Elem](x, dst []T) {
	var p T = 1
	for i, v := range x {
		dst[i] = p
		p *= v
	}
	p = 1
	for i := len(x) - 1; i >= 0; i-- {
		dst[i] *= p
		p *= x[i]
	}
}

// boolReduction declares any and all: whether an element differs in truth from
// rest, the result of no elements.
func boolReduction(name, summary string, rest int64) *opdef.Entry {
	return opdef.Op[boolArgs]{
		Schema: name + "(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
		Doc: opdef.Doc{Summary: summary, Notes: "The result is bool, of uint8 it is uint8. nan is not zero.",
			Source: "torch." + name},
		NoGrad:  "the result is not differentiable",
		Trivial: true,
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
			return single(opdef.Collect(opdef.FoldDims(f, dims, a.Keepdim, opdef.Cast(a.Self, tensor.Bool)), dt,
				func(found *bool) int64 {
					if *found {
						return 1 - rest
					}
					return rest
				})), nil
		},
		Cases: func(r *rand.Rand) []*boolArgs {
			g := opdef.Gen{R: r}
			return []*boolArgs{
				{Self: g.Int(tensor.Bool, 0, 1, 3, 4)}, {Self: g.Int(tensor.Bool, 0, 1, 3, 4), Dim: []int{1}},
				{Self: g.Int(tensor.Uint8, 0, 2, 3, 4), Dim: []int{-2}, Keepdim: true},
				{Self: g.Int(tensor.Int64, 0, 1, 2, 2), Dim: []int{0, 1}}, {Self: g.Normal(tensor.Float32, 3)},
				{Self: g.Normal(tensor.Float32, 0, 3), Dim: []int{0}},
				{Self: g.Normal(tensor.Complex64, 2)}, {Self: g.Int(tensor.Bool, 0, 1)},
			}
		},
	}.Entry()
}

type boolArgs struct {
	Self    *tensor.Tensor
	Dim     []int
	Keepdim bool
}

// A logSum is the sum of exponentials so far: sum * exp(max).
type logSum struct {
	max, sum float64
	any      bool
}

func (a *logSum) join(b logSum) {
	switch {
	case !b.any:
	case !a.any:
		*a = b
	case a.max >= b.max || a.max != a.max:
		a.sum += b.sum * expDiff(b.max, a.max)
	default:
		a.sum = a.sum*expDiff(a.max, b.max) + b.sum
		a.max = b.max
	}
}

// expDiff is exp(x - y), where equal infinities differ by nothing.
func expDiff(x, y float64) float64 {
	if x == y {
		return 1
	}
	return math.Exp(x - y)
}

// value is the logarithm of the sum, -Inf of nothing.
func (a *logSum) value() float64 {
	if !a.any || math.IsInf(a.max, -1) {
		return math.Inf(-1)
	}
	return a.max + math.Log(a.sum)
}

var logSumming = opdef.Fold[float64, logSum]{
	Add: func(acc *logSum, _ int, v [][]float64) {
		m := vmath.Max(v[0])
		if math.IsInf(m, 0) {
			s := 0.0
			for _, x := range v[0] {
				s += expDiff(x, m)
			}
			acc.join(logSum{m, s, true})
			return
		}
		e := opdef.Scratch[float64](len(v[0]))
		vmath.Affine(*e, v[0], -m, 1)
		vmath.Exp(*e, *e)
		acc.join(logSum{m, vmath.Sum(*e), true})
		opdef.Release(e)
	},
	Join: func(acc *logSum, next logSum) { acc.join(next) },
}

func logSumExp(a *logSumExpArgs) ([]*tensor.Tensor, error) {
	dims, err := opdef.Dims("dim", a.Dim, a.Self.Dim())
	if err != nil {
		return nil, err
	}
	x := a.Self
	if x.DType.IsComplex() {
		return single(opdef.Collect(opdef.FoldDims(complexLogSumming, dims, a.Keepdim, x), x.DType,
			(*complexLogSum).value)), nil
	}
	if x.DType.Kind() < tensor.KindFloat {
		x = converted(x, tensor.DefaultDType)
	}
	return single(opdef.Collect(opdef.FoldDims(logSumming, dims, a.Keepdim, x), x.DType, (*logSum).value)), nil
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
func reduceCases(integers bool) func(*rand.Rand) []*reduceArgs {
	return func(r *rand.Rand) []*reduceArgs {
		g := opdef.Gen{R: r}
		f64, f32 := tensor.Float64, tensor.Float32
		cs := []*reduceArgs{
			{Self: g.Normal(f64, 3, 4)}, {Self: g.Normal(f64, 3, 4), Dim: []int{-1}}, {Self: g.Normal(f64, 2, 3, 4),
				Dim: []int{0, 2}, Keepdim: true},
			{Self: g.Normal(f32, 2, 3), Dim: []int{0}}, {Self: g.Normal(f32), Dim: []int{-1}},
			{Self: g.Normal(f32, 0, 3), Dim: []int{0}},
			{Self: g.Normal(tensor.BFloat16, 4, 5), Dim: []int{1}}, {Self: g.Normal(tensor.Float16, 8), Dtype: &f32},
			{Self: opdef.NonContiguous(g.Normal(f64, 3, 4)), Dim: []int{0}}, {Self: g.Int(tensor.Int32, -4, 4, 5),
				Dtype: &f64},
			{Self: g.Normal(tensor.Complex128, 2, 3), Dim: []int{1}},
		}
		if integers {
			cs = append(cs, &reduceArgs{Self: g.Int(tensor.Int8, -100, 100, 2, 6), Dim: []int{1}},
				&reduceArgs{Self: g.Int(tensor.Bool, 0, 1, 7)})
		}
		return cs
	}
}

// realCases drops cases with complex arguments.
func realCases(cs []*reduceArgs) []*reduceArgs {
	return slices.DeleteFunc(cs, func(a *reduceArgs) bool { return a.Self.DType.IsComplex() })
}

// floatCases drops cases with arguments that are not floating.
func floatCases(cs []*reduceArgs) []*reduceArgs {
	return slices.DeleteFunc(cs, func(a *reduceArgs) bool { return !a.Self.DType.IsFloat() })
}
