package reduction

import (
	"fmt"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Functions of two elements that are steps of compositions too.
var (
	Maximum = opdef.Binary{
		Name: "maximum", Names: "maximum Tensor.maximum max Tensor.max",
		Doc:       opdef.Doc{Summary: "Larger of two elements", Notes: "nan wins. Equal elements share the gradient."},
		Error:     opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 1}},
		F:         func(x, y float64) float64 { return max(x, y) },
		I:         func(x, y int64) int64 { return max(x, y) },
		DF:        func(x, y, _ float64) (float64, float64) { return GradShare(x, y), GradShare(y, x) },
		NoNumbers: true,
	}
	Minimum = opdef.Binary{
		Name: "minimum", Names: "minimum Tensor.minimum min Tensor.min",
		Doc:       opdef.Doc{Summary: "Smaller of two elements", Notes: "nan wins. Equal elements share the gradient."},
		Error:     opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 1}},
		F:         func(x, y float64) float64 { return min(x, y) },
		I:         func(x, y int64) int64 { return min(x, y) },
		DF:        func(x, y, _ float64) (float64, float64) { return GradShare(y, x), GradShare(x, y) },
		NoNumbers: true,
	}
)

// extremaOps are the largest and smallest elements and where they stand.
var extremaOps = []*opdef.Entry{
	extremum("amax", "Largest element over dimensions", false),
	extremum("amin", "Smallest element over dimensions", true),
	opdef.Op[AminmaxArgs]{
		Schema: "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
		Doc: opdef.Doc{Summary: "Smallest and largest element over all dimensions or one",
			Notes: "Ties share the gradient equally."},
		Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Rounded, ULPs: 2}},
		Kernel: func(a *AminmaxArgs) ([]*tensor.Tensor, error) {
			lo, err := Extreme(a.Self, elements.OptionalDim(a.Dim), a.Keepdim, true)
			if err != nil {
				return nil, err
			}
			hi, err := Extreme(a.Self, elements.OptionalDim(a.Dim), a.Keepdim, false)
			return []*tensor.Tensor{lo, hi}, err
		},
		Grad: func(a *AminmaxArgs, g *opdef.Grad) (opdef.Grads, error) {
			var sum *tensor.Tensor
			for k, up := range g.Out {
				if up == nil {
					continue
				}
				t := SplitAmongTies(a.Self, g.Outs[k], up, elements.OptionalDim(a.Dim))
				if sum != nil {
					t = opdef.Zip(t.DType, sum, t, func(x, y float64) float64 { return x + y })
				}
				sum = t
			}
			return elements.GradOf("self", sum), nil
		},
		Cases: opdef.Calls[AminmaxArgs](`
			f64[3, 4]{distinct}; f32[3, 4]{distinct}, dim=-1, keepdim=True; f64[2, 5]{distinct}, dim=0
			i32[5]{-9..9}; bf16[]{distinct}; f32[0, 3]{distinct}, dim=1; bool[4]{0..1}
			f32[3, 133]{rows}, dim=1; bf16[3, 133]{rows}, dim=1; f32[3, 1030]{rows}, dim=1`),
	}.Entry(),
	wholeExtremum("max", "Largest element", false),
	wholeExtremum("min", "Smallest element", true),
	Maximum.Entry().WithTakenFor("torch.minimum"),
	Minimum.Entry().WithTakenFor("torch.maximum"),
	dimExtremum("max", "Largest elements along a dimension and their indices", false),
	dimExtremum("min", "Smallest elements along a dimension and their indices", true),
	argExtremum("argmax", "Index of the largest element", false),
	argExtremum("argmin", "Index of the smallest element", true),
	opdef.Binary{
		Name: "fmax",
		Doc: opdef.Doc{Summary: "Larger of two elements, a number before nan",
			Notes: "The gradient of equal elements goes to self, or, as from torch 2.15 on, half to each."},
		Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 1}},
		F: func(x, y float64) float64 {
			if x >= y || y != y {
				return x
			}
			return y
		},
		I:         func(x, y int64) int64 { return max(x, y) },
		DF:        func(x, y, _ float64) (float64, float64) { return oneSided(x >= y || y != y) },
		DFElse:    func(x, y, _ float64) (float64, float64) { return shared(x, y, x >= y || y != y) },
		NoNumbers: true,
	}.Entry(),
	opdef.Binary{
		Name: "fmin",
		Doc: opdef.Doc{Summary: "Smaller of two elements, a number before nan",
			Notes: "The gradient of equal elements goes to self, or, as from torch 2.15 on, half to each."},
		Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 1}},
		F: func(x, y float64) float64 {
			if x <= y || y != y {
				return x
			}
			return y
		},
		I:         func(x, y int64) int64 { return min(x, y) },
		DF:        func(x, y, _ float64) (float64, float64) { return oneSided(x <= y || y != y) },
		DFElse:    func(x, y, _ float64) (float64, float64) { return shared(x, y, x <= y || y != y) },
		NoNumbers: true,
	}.Entry(),
}

// ExtremumArgs are the arguments of amax and amin.
type ExtremumArgs struct {
	Self    *tensor.Tensor
	Dim     []int
	Keepdim bool
}

// AminmaxArgs are the arguments of aminmax.
type AminmaxArgs struct {
	Self    *tensor.Tensor
	Dim     *int
	Keepdim bool
}

type dimExtremumArgs struct {
	Self    *tensor.Tensor
	Dim     int
	Keepdim bool
}

// GradShare is the share of the gradient that the larger of two elements gets:
// all if x is larger or a comparison with nan decides nothing, half if equal.
func GradShare(x, y float64) float64 {
	switch {
	case x == y:
		return 0.5
	case x < y:
		return 0
	}
	return 1
}

func oneSided(first bool) (dx, dy float64) {
	if first {
		return 1, 0
	}
	return 0, 1
}

// shared gives equal elements half of the gradient each.
func shared(x, y float64, first bool) (dx, dy float64) {
	if x == y {
		return 0.5, 0.5
	}
	return oneSided(first)
}

// An extreme element so far, with its index within what is reduced.
type extremeAt[T tensor.Elem] struct {
	v   T
	at  int
	any bool
}

// extremeFold is the fold for the first of the largest (or smallest, if least)
// elements; the first nan comes before everything.
func extremeFold[T int64 | float64](least bool) opdef.Fold[T, extremeAt[T]] {
	join := func(acc *extremeAt[T], b extremeAt[T]) {
		a := acc.v
		if !acc.any || a == a && (b.v != b.v || !least && b.v > a || least && b.v < a) {
			*acc = b
		}
	}
	return opdef.Fold[T, extremeAt[T]]{
		Add: func(acc *extremeAt[T], at int, v [][]T) {
			i := extremeIndex(v[0], least)
			join(acc, extremeAt[T]{v[0][i], at + i, true})
		},
		Join: func(acc *extremeAt[T], next extremeAt[T]) {
			if next.any {
				join(acc, next)
			}
		},
	}
}

// extremeIndex is the index of the first extreme element of v, which is not
// empty.
func extremeIndex[T int64 | float64](v []T, least bool) int {
	at, m := 0, v[0]
	if m != m {
		return 0
	}
	if least {
		for i, x := range v {
			if !(x >= m) {
				at, m = i, x
				if x != x {
					break
				}
			}
		}
		return at
	}
	if f, ok := any(v).([]float64); ok {
		return highestIndex(f)
	}
	for i, x := range v {
		if x > m {
			at, m = i, x
		}
	}
	return at
}

// highestIndex is extremeIndex of the largest number: most blocks have none that is larger than the largest so far.
func highestIndex(v []float64) int {
	const block = 1 << 10
	at, m := 0, v[0]
	for lo := 0; lo < len(v); lo += block {
		part := v[lo:min(lo+block, len(v))]
		if vmath.Max(part) <= m {
			continue
		}
		for i, x := range part {
			if !(x <= m) {
				at, m = lo+i, x
				if x != x {
					return at
				}
			}
		}
	}
	return at
}

// extremeOver resolves the dimensions of an extremum and checks that it exists.
func extremeOver(x *tensor.Tensor, dim []int) ([]int, error) {
	if x.DType.IsComplex() {
		return nil, opdef.Refuse("self", "not defined for complex numbers")
	}
	dims, err := opdef.Dims("dim", dim, x.Dim())
	if err != nil {
		return nil, err
	}
	if x.Numel() == 0 {
		for _, d := range dims {
			if x.Shape[d] == 0 {
				return nil, opdef.Refuse("self", "dimension %d has no elements, which have no largest or smallest one",
					d)
			}
		}
	}
	return dims, nil
}

// Extreme is the largest element over dimensions, or the least.
func Extreme(x *tensor.Tensor, dim []int, keepdim, least bool) (*tensor.Tensor, error) {
	dims, err := extremeOver(x, dim)
	if err != nil {
		return nil, err
	}
	if x.DType.IsFloat() {
		f := opdef.FoldDims(extremeFold[float64](least), dims, keepdim, x)
		return opdef.Collect(f, x.DType, func(a *extremeAt[float64]) float64 { return a.v }), nil
	}
	f := opdef.FoldDims(extremeFold[int64](least), dims, keepdim, x)
	return opdef.Collect(f, x.DType, func(a *extremeAt[int64]) int64 { return a.v }), nil
}

// indexed returns the extreme elements and their indices.
func indexed(x *tensor.Tensor, dims []int, keepdim, least bool) (values, indices *tensor.Tensor) {
	if x.DType.IsFloat() {
		f := opdef.FoldDims(extremeFold[float64](least), dims, keepdim, x)
		return opdef.Collect(f, x.DType, func(a *extremeAt[float64]) float64 { return a.v }),
			opdef.Collect(f, tensor.Int64, func(a *extremeAt[float64]) int64 { return int64(a.at) })
	}
	f := opdef.FoldDims(extremeFold[int64](least), dims, keepdim, x)
	return opdef.Collect(f, x.DType, func(a *extremeAt[int64]) int64 { return a.v }),
		opdef.Collect(f, tensor.Int64, func(a *extremeAt[int64]) int64 { return int64(a.at) })
}

// SplitAmongTies divides the gradient of an extremum among the elements equal
// to it.
func SplitAmongTies(x, y, up *tensor.Tensor, dim []int) *tensor.Tensor {
	dims := opdef.Must(opdef.Dims("dim", dim, x.Dim()))
	yy := opdef.Unreduce(y, x.Shape, dims)
	same := func(x, y float64) float64 {
		if x == y || x != x && y != y {
			return 1
		}
		return 0
	}
	n := opdef.FoldDims(opdef.Fold[float64, float64]{
		Add: func(acc *float64, _ int, v [][]float64) {
			for i, x := range v[0] {
				*acc += same(x, v[1][i])
			}
		},
		Join: func(acc *float64, next float64) { *acc += next },
	}, dims, false, x, yy)
	ties := opdef.Collect(n, tensor.Float64, func(n *float64) float64 { return *n })
	return opdef.ZipN(up.DType, x.Shape, func(dst []float64, s [][]float64) {
		for i, x := range s[0] {
			dst[i] = 0
			if same(x, s[1][i]) == 1 {
				dst[i] = s[2][i] / s[3][i]
			}
		}
	}, x, yy, opdef.Unreduce(up, x.Shape, dims), opdef.Unreduce(ties, x.Shape, dims))
}

// nanAmongTies is the gradient t, NaN where the extremum is: torch divides by the number of elements equal to it.
func nanAmongTies(a *ExtremumArgs, g *opdef.Grad, t *tensor.Tensor) *tensor.Tensor {
	y := opdef.Unreduce(g.Outs[0], a.Self.Shape, opdef.Must(opdef.Dims("dim", a.Dim, a.Self.Dim())))
	return opdef.Zip(t.DType, t, y, func(ti, yi float64) float64 { return elements.IfElse(yi != yi, yi, ti) })
}

// extremum declares amax and amin.
func extremum(name, summary string, least bool) *opdef.Entry {
	return opdef.Op[ExtremumArgs]{
		Schema: name + "(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
		Doc:    opdef.Doc{Summary: summary, Notes: "nan wins. Ties share the gradient equally."},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Rounded, ULPs: 2}},
		Kernel: func(a *ExtremumArgs) ([]*tensor.Tensor, error) {
			t, err := Extreme(a.Self, a.Dim, a.Keepdim, least)
			return elements.Single(t), err
		},
		Grad: func(a *ExtremumArgs, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("self", nanAmongTies(a, g, SplitAmongTies(a.Self, g.Outs[0], g.Out[0], a.Dim))), nil
		},
		Cases: opdef.Calls[ExtremumArgs](`
			f64[3, 4]{distinct}; f64[2, 3, 4]{distinct}, dim=[0, -1]; f32[3, 4]{distinct}, dim=[1], keepdim=True
			i64[2, 3]{-9..9}, dim=[0]; bf16[4]{distinct}; f32[]{distinct}; f32[0, 3]{distinct}, dim=[1]
			bool[4]{0..1}; f32[3, 133]{rows}, dim=[1]; bf16[3, 133]{rows}, dim=[1]; f32[3, 1030]{rows}, dim=[1]`),
	}.Entry()
}

// wholeExtremum declares max and min over all elements.
func wholeExtremum(name, summary string, least bool) *opdef.Entry {
	return opdef.Op[opdef.UnaryArgs]{
		Schema: name + "(Tensor self) -> Tensor",
		Doc:    opdef.Doc{Summary: summary, Notes: "nan wins. Ties share the gradient equally."},
		Error:  opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Rounded, ULPs: 2}},
		Kernel: func(a *opdef.UnaryArgs) ([]*tensor.Tensor, error) {
			t, err := Extreme(a.Self, nil, false, least)
			return elements.Single(t), err
		},
		Grad: func(a *opdef.UnaryArgs, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("self", SplitAmongTies(a.Self, g.Outs[0], g.Out[0], nil)), nil
		},
		Cases: opdef.Calls[opdef.UnaryArgs](`
			f64[3, 4]{distinct}; f32[]{distinct}; i64[2, 3]{-9..9}; bf16[4]{distinct}; bool[4]{0..1}
			f32[133]{rows}; bf16[133]{rows}; f32[1030]{rows}`),
	}.Entry()
}

// dimExtremum declares max and min along a dimension.
func dimExtremum(name, summary string, least bool) *opdef.Entry {
	return opdef.Op[dimExtremumArgs]{
		Schema: name + ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
		Doc: opdef.Doc{Summary: summary,
			Notes: "nan wins. Any index of equal elements is accepted; the gradient goes to the one returned."},
		Error: elements.ExactError,
		Kernel: func(a *dimExtremumArgs) ([]*tensor.Tensor, error) {
			dims, err := extremeOver(a.Self, []int{a.Dim})
			if err != nil {
				return nil, err
			}
			values, indices := indexed(a.Self, dims, a.Keepdim, least)
			return []*tensor.Tensor{values, indices}, nil
		},
		Grad: func(a *dimExtremumArgs, g *opdef.Grad) (opdef.Grads, error) {
			t, err := scatterAlong(a.Self.Shape, a.Dim, g.Outs[1], g.Out[0])
			return elements.GradOf("self", t), err
		},
		Cases: opdef.Calls[dimExtremumArgs](`
			f64[3, 4]{distinct}, 1; f64[2, 3, 4]{distinct}, -2, keepdim=True; f32[5]{distinct}, 0
			i32[2, 3]{-9..9}, 0; bf16[4, 2]{distinct}, 0; f32[]{distinct}, -1; f32[0, 3]{distinct}, 1
			f32[3, 133]{rows}, 1; bf16[3, 133]{rows}, 1; f32[3, 1030]{rows}, 1`),
	}.Entry()
}

func (a *dimExtremumArgs) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	dims := opdef.Must(opdef.Dims("dim", []int{a.Dim}, a.Self.Dim()))
	if len(got) < 2 {
		return make([]opdef.Acceptance, len(got))
	}
	return []opdef.Acceptance{{}, acceptIndices(a.Self, dims, got[1], want[1])}
}

// scatterAlong is the tensor of shape that is zero except where indices along
// dim says, where it is up.
func scatterAlong(shape []int, dim int, indices, up *tensor.Tensor) (*tensor.Tensor, error) {
	dims, err := opdef.Dims("dim", []int{dim}, len(shape))
	if err != nil {
		return nil, err
	}
	if len(dims) == 0 {
		return up, nil
	}
	return opdef.AlongDimN(up.DType, dims[0], func(s [][]float64, dst []float64) {
		clear(dst)
		if len(dst) > 0 {
			dst[int(s[1][0])] = s[0][0]
		}
	}, opdef.Unreduce(up, shape, dims), opdef.Unreduce(indices, shape, dims)), nil
}

// argExtremum declares argmax and argmin.
func argExtremum(name, summary string, least bool) *opdef.Entry {
	return opdef.Planned[*AminmaxArgs, *argExtreme]{
		Schema: name + "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
		Doc: opdef.Doc{Summary: summary,
			Notes: "Of all elements in row-major order without dim. nan wins. Any index of equal elements is " +
				"accepted."},
		Traits: opdef.Traits{
			NoGrad:  "the result is an index",
			Trivial: true, // the index of a single element is 0
		},
		Plan: func(a *AminmaxArgs) (*argExtreme, error) { return (*argExtreme)(a), nil },
		Kernel: func(a *argExtreme) ([]*tensor.Tensor, error) {
			dims, err := extremeOver(a.Self, elements.OptionalDim(a.Dim))
			if err != nil {
				return nil, err
			}
			if a.Self.DType == tensor.Bool {
				return nil, opdef.Refuse("self", "not defined for bool")
			}
			_, indices := indexed(a.Self, dims, a.Keepdim, least)
			return elements.Single(indices), nil
		},
		Cases: opdef.Calls[AminmaxArgs](`
			f64[3, 4]; f32[3, 4], dim=-1, keepdim=True; f64[2, 5], dim=0; i32[5]{-9..9}; bf16[]; f32[0, 3], dim=1
			f32[3, 133]{rows}, dim=1; bf16[3, 133]{rows}, dim=1; f32[3, 1030]{rows}, dim=1`),
	}.Entry()
}

// An argExtreme is a call of argmax or argmin.
type argExtreme AminmaxArgs

// Accept takes any index of equal elements.
func (a *argExtreme) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	dims := opdef.Must(opdef.Dims("dim", elements.OptionalDim(a.Dim), a.Self.Dim()))
	if len(got) != 1 {
		return make([]opdef.Acceptance, len(got))
	}
	return []opdef.Acceptance{acceptIndices(a.Self, dims, got[0], want[0])}
}

// acceptIndices decides on indices of extreme elements that differ: where they
// do, the element at either index must be the same.
func acceptIndices(x *tensor.Tensor, dims []int, got, want *tensor.Tensor) opdef.Acceptance {
	if got.Numel() != want.Numel() {
		return opdef.Acceptance{}
	}
	n, inner := elements.NumelOver(x.Shape, dims), 1
	if len(dims) == 1 && x.Dim() > 1 {
		inner = tensor.Numel(x.Shape[dims[0]+1:])
	}
	g, w := tensor.Data[int64](got), tensor.Data[int64](want)
	at := func(row int, i int64) float64 {
		return tensor.At[float64](x, (row/inner*n+int(i))*inner+row%inner)
	}
	others := 0
	for row, i := range g {
		if i == w[row] {
			continue
		}
		if i < 0 || int(i) >= n {
			return opdef.Acceptance{Reason: fmt.Sprintf("index %d at result element %d is out of range [0, %d)",
				i, row, n)}
		}
		if p, q := at(row, i), at(row, w[row]); p != q && (p == p || q == q) {
			return opdef.Acceptance{Reason: fmt.Sprintf("index %d at result element %d points to %v, not to %v", i,
				row, p, q)}
		}
		others++
	}
	return opdef.Acceptance{OK: true, Rule: "ties", Doubt: fmt.Sprintf("%d of %d indices are of equal elements, but not of "+
		"the first, which torch documents", others, len(g))}
}
