package reduction

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// cumulativeOps are running results along a dimension.
var cumulativeOps = []*opdef.Entry{
	opdef.Planned[*CumulativeArgs, *scan]{
		Schema: "cumsum(Tensor self, int dim, *, dtype? dtype=None) -> Tensor",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Doc:    opdef.Doc{Summary: "Running sum along a dimension", Notes: "Integers and bool give int64."},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 1},
		Bounds: opdef.Bounds[*scan]{Terms: func(a *scan) int { return a.terms() }},
		Plan:   func(a *CumulativeArgs) (*scan, error) { return &scan{a, RunningSum[float64], 0}, nil },
		Kernel: func(a *scan) ([]*tensor.Tensor, error) {
			return a.running(RunningSum[float64], RunningSum[int64], RunningSum[complex128])
		},
		Grad: func(a *scan, g *opdef.Grad) (opdef.Grads, error) {
			dim := opdef.Must(opdef.Dim("dim", a.Dim, a.Self.Dim()))
			if g.Outs[0].DType.IsComplex() {
				return elements.GradOf("self", opdef.AlongDim(g.Outs[0].DType, g.Out[0], dim, SuffixSum[complex128])),
					nil
			}
			return elements.GradOf("self", opdef.AlongDim(g.Outs[0].DType, g.Out[0], dim, SuffixSum[float64])), nil
		},
		Cases: opdef.Calls[CumulativeArgs](cumulativeCases +
			`; f32[3, 133]{rows}, 1; bf16[3, 133]{rows}, 1; f32[3, 1030]{rows}, 1`),
	}.Entry(),
	opdef.Planned[*CumulativeArgs, *scan]{
		Schema: "cumprod(Tensor self, int dim, *, dtype? dtype=None) -> Tensor",
		Traits: opdef.Traits{InPlace: true, Autocast: opdef.AutocastFloat32},
		Doc:    opdef.Doc{Summary: "Running product along a dimension", Notes: "Integers and bool give int64."},
		Error: opdef.Error{Class: opdef.Accumulated, ULPs: 1, Factors: true,
			Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 3, Factors: true}},
		Bounds: opdef.Bounds[*scan]{Terms: func(a *scan) int { return a.terms() }},
		Plan:   func(a *CumulativeArgs) (*scan, error) { return &scan{a, runningProduct[float64], 1}, nil },
		Kernel: func(a *scan) ([]*tensor.Tensor, error) {
			return a.running(runningProduct[float64], runningProduct[int64], runningProduct[complex128])
		},
		Grad: func(a *scan, g *opdef.Grad) (opdef.Grads, error) {
			dim := opdef.Must(opdef.Dim("dim", a.Dim, a.Self.Dim()))
			if dt := g.Outs[0].DType; dt.IsComplex() {
				return elements.GradOf("self", opdef.AlongDimN(dt, dim, func(s [][]complex128, dst []complex128) {
					for i, x := range s[0] {
						s[0][i] = cmplx.Conj(x)
					}
					runningProductGrad(s[0], s[1], dst)
				}, a.Self, g.Out[0])), nil
			}
			return elements.GradOf("self", opdef.AlongDimN(g.Outs[0].DType, dim, func(s [][]float64, dst []float64) {
				runningProductGrad(s[0], s[1], dst)
			}, a.Self, g.Out[0])), nil
		},
		Cases: func(g opdef.Gen) []*CumulativeArgs {
			zero := tensor.New(tensor.Float64, []int{2, 4}, []float64{1, 0, 2, 3, 4, -1, 0, 6}).Rounded()
			zero.RequiresGrad = true
			return append(opdef.Calls[CumulativeArgs](cumulativeCases+`; f32[3, 133]{0.9..1.1}, 1`)(g),
				&CumulativeArgs{Self: zero, Dim: 1})
		},
	}.Entry().AsSigned(),
	runningExtremum("cummax", "Running maximum along a dimension and its indices", false),
	runningExtremum("cummin", "Running minimum along a dimension and its indices", true),
	opdef.Op[opdef.DimArgs]{
		Schema: "logcumsumexp(Tensor self, int dim) -> Tensor",
		Doc: opdef.Doc{Summary: "Logarithm of the running sum of exponentials",
			Notes: "torch takes complex numbers from 2.0 on."},
		Error: opdef.Error{Class: opdef.Elementwise, ULPs: 4, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 6}},
		Bounds: opdef.Bounds[*opdef.DimArgs]{
			Terms: func(a *opdef.DimArgs) int { return elements.TermsOver(a.Self.Shape, []int{a.Dim}) },
			Scale: func(a *opdef.DimArgs, outs []*tensor.Tensor) []*tensor.Tensor {
				if dim := opdef.Must(opdef.Dim("dim", a.Dim, a.Self.Dim())); a.Self.DType.IsComplex() {
					angle := 1 + opdef.MaxAbs(elements.Imag(a.Self))
					sizes := opdef.AlongDim(tensor.Float64, elements.Real(a.Self), dim, runningLogSum)
					return elements.Single(opdef.Zip(tensor.Float64, sizes, elements.Real(outs[0]),
						func(l, r float64) float64 { return math.Abs(r) + math.Pi + angle*kernel.ExpDiff(l, r) }))
				}
				l := 1 + math.Log(float64(max(1, elements.TermsOver(a.Self.Shape, []int{a.Dim}))))
				return elements.Single(opdef.Map(tensor.Float64, outs[0],
					func(y float64) float64 { return math.Abs(y) + l }))
			},
			GradScale: func(a *opdef.DimArgs, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
				return elements.GradOf("self", logSumGrad(a, g, true)), nil
			},
		},
		Kernel: func(a *opdef.DimArgs) ([]*tensor.Tensor, error) {
			dim, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
			if err != nil {
				return nil, err
			}
			if a.Self.DType.IsComplex() {
				return elements.Single(opdef.AlongDim(a.Self.DType, a.Self, dim, runningComplexLogSum)), nil
			}
			if err := elements.WantFloat("self", a.Self); err != nil {
				return nil, err
			}
			return elements.Single(opdef.AlongDim(a.Self.DType, a.Self, dim, runningLogSum)), nil
		},
		Grad: func(a *opdef.DimArgs, g *opdef.Grad) (opdef.Grads, error) {
			return elements.GradOf("self", logSumGrad(a, g, false)), nil
		},
		Cases: opdef.Calls[opdef.DimArgs](`
			f64[3, 4], 1; f64[3, 4], 0; f32[6], -1; bf16[2, 3], 1; f32[5]{-90..90}, 0; f64[], 0; f32[0, 2], 0
			c128[3, 4], 1; c64[5], 0; f32[3, 133]{rows}, 1; bf16[3, 133]{rows}, 1; f32[3, 1030]{rows}, 1`),
	}.Entry(),
}

// CumulativeArgs are the arguments of cumsum and cumprod.
type CumulativeArgs struct {
	Self  *tensor.Tensor
	Dim   int
	Dtype *tensor.DType

	wrong func(src, dst []float64) // a mistake
}

func (a *CumulativeArgs) terms() int { return elements.TermsOver(a.Self.Shape, []int{a.Dim}) }

// running applies the function of self's category along the dimension.
func (a *CumulativeArgs) running(f func(src, dst []float64), i func(src, dst []int64),
	c func(src, dst []complex128)) ([]*tensor.Tensor, error) {
	dim, err := opdef.Dim("dim", a.Dim, a.Self.Dim())
	if err != nil {
		return nil, err
	}
	x := inSumDType(a.Self, a.Dtype)
	dt := x.DType
	switch dt.Kind() {
	case tensor.KindComplex:
		return elements.Single(opdef.AlongDim(dt, x, dim, c)), nil
	case tensor.KindFloat:
		if a.wrong != nil {
			f = a.wrong
		}
		return elements.Single(opdef.AlongDim(dt, x, dim, f)), nil
	}
	return elements.Single(opdef.AlongDim(dt, x, dim, i)), nil
}

// A scan is a call of cumsum or cumprod.
type scan struct {
	*CumulativeArgs
	right func(src, dst []float64) // of a row
	unit  float64                  // what it gives of no elements
}

// Mistakes are what kernels of scans get wrong: where they begin, and what passes from one tile to
// the next.
func (a *scan) Mistakes() []opdef.Mistake[any] {
	f, unit := a.right, a.unit
	if !inSumDType(a.Self, a.Dtype).DType.IsFloat() {
		return nil
	}
	var out []opdef.Mistake[any]
	add := func(text string, wrong func(src, dst []float64)) {
		out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			m := *a.CumulativeArgs
			m.wrong = wrong
			return &scan{&m, f, unit}, nil
		}})
	}
	add("each element lacks itself", func(src, dst []float64) {
		f(src, dst)
		if n := len(dst); n > 0 {
			copy(dst[1:], dst[:n-1])
			dst[0] = unit
		}
	})
	add("it runs from the last element to the first", func(src, dst []float64) {
		slices.Reverse(src)
		f(src, dst)
		slices.Reverse(dst)
	})
	for tile := 2; tile < a.terms() && tile <= 1<<14; tile *= 2 {
		tiles := func(src, dst []float64, each func(lo, hi int)) {
			for lo := 0; lo < len(src); lo += tile {
				each(lo, min(lo+tile, len(src)))
			}
		}
		add(fmt.Sprintf("of what is before a tile of %d elements it carries only the tile before", tile),
			func(src, dst []float64) {
				tiles(src, dst, func(lo, hi int) {
					from := max(0, lo-tile)
					out := make([]float64, hi-from)
					f(src[from:hi], out)
					copy(dst[lo:hi], out[lo-from:])
				})
			})
		add(fmt.Sprintf("the first of each %d elements is left out of its own tile", tile),
			func(src, dst []float64) {
				f(src, dst)
				one, pair := make([]float64, 2), make([]float64, 2)
				for lo := 0; lo < len(src); lo += tile { // as if the carry were written there
					if pair[0], pair[1] = unit, unit; lo > 0 {
						pair[0] = dst[lo-1]
					}
					f(pair, one)
					dst[lo] = one[1]
				}
			})
		add(fmt.Sprintf("it begins anew after every %d elements", tile), func(src, dst []float64) {
			for lo := 0; lo < len(src); lo += tile {
				hi := min(lo+tile, len(src))
				f(src[lo:hi], dst[lo:hi])
			}
		})
	}
	return out
}

// RunningSum stores the sums of the elements of src up to each in dst.
func RunningSum[T tensor.Elem](src, dst []T) {
	var s T
	for i, x := range src {
		s += x
		dst[i] = s
	}
}

// SuffixSum stores the sums of the elements of src from each on in dst.
func SuffixSum[T tensor.Elem](src, dst []T) {
	var s T
	for i := len(src) - 1; i >= 0; i-- {
		s += src[i]
		dst[i] = s
	}
}

func runningProduct[T tensor.Elem](src, dst []T) {
	var p T = 1
	for i, x := range src {
		p *= x
		dst[i] = p
	}
}

// runningProductGrad stores in dst[k] the sum over i >= k of g[i] times the
// product of x[0..i] without x[k]: the product of what is before k times a sum
// that a step back multiplies by x and adds to.
func runningProductGrad[T tensor.Elem](x, g, dst []T) {
	if len(x) > 1 && !finite(x) {
		dividedProductGrad(x, g, dst)
		return
	}
	var p T = 1
	for k, v := range x {
		dst[k] = p
		p *= v
	}
	var s T // sum over i >= k of g[i]*x[k+1]*...*x[i]
	for k := len(x) - 1; k >= 0; k-- {
		if k+1 < len(x) {
			s *= x[k+1]
		}
		s += g[k]
		dst[k] *= s
	}
}

// finite reports that no element is infinite or nan.
func finite[T tensor.Elem](x []T) bool {
	for _, v := range x {
		if d := v - v; d != d {
			return false
		}
	}
	return true
}

// dividedProductGrad is runningProductGrad by torch's formula, which says where nan goes:
// before the first 0, it divides sums of products by the element.
func dividedProductGrad[T tensor.Elem](x, g, dst []T) {
	clear(dst)
	first := slices.Index(x, 0)
	if first < 0 {
		first = len(x)
	}
	y := make([]T, first+1) // products of the elements before
	y[0] = 1
	for k, v := range x[:first] {
		y[k+1] = y[k] * v
	}
	var s T
	for k := first - 1; k >= 0; k-- {
		s += y[k+1] * g[k]
		dst[k] = s / x[k]
	}
	if first == len(x) {
		return
	}
	s = g[first]
	var p T = 1
	for k := first + 1; k < len(x); k++ {
		if x[k] == 0 { // torch multiplies the products that follow by 0
			s += 0 * p
			break
		}
		p *= x[k]
		s += g[k] * p
	}
	dst[first] = s * y[first]
}

// runningLogSum stores logarithms of the running sums of exponentials.
func runningLogSum(src, dst []float64) {
	var s LogSum
	for i, x := range src {
		s.Join(LogSum{x, 1, true})
		dst[i] = s.Value()
	}
}

// logSumGrad is exp(x[k]) * sum over i >= k of g[i]/exp(y[i]), kept in range by
// adding from the end relative to the latest y, which does not decrease. With
// magnitudes it is the sum of the terms' magnitudes, each exponent being known
// to its own size.
func logSumGrad(a *opdef.DimArgs, g *opdef.Grad, magnitudes bool) *tensor.Tensor {
	dim := opdef.Must(opdef.Dim("dim", a.Dim, a.Self.Dim()))
	if a.Self.DType.IsComplex() {
		t := opdef.AlongDimN(a.Self.DType, dim, func(s [][]complex128, dst []complex128) {
			complexLogSumGrad(s[0], s[1], s[2], dst, magnitudes)
		}, a.Self, g.Outs[0], g.Out[0])
		if magnitudes {
			t = opdef.Abs(t)
		}
		return t
	}
	return opdef.AlongDimN(a.Self.DType, dim, func(s [][]float64, dst []float64) {
		x, y, up := s[0], s[1], s[2]
		if !magnitudes && !finite(y) {
			infiniteLogSumGrad(x, y, up, dst)
			return
		}
		var sum float64 // times exp(-y[k])
		for k := len(x) - 1; k >= 0; k-- {
			if k+1 < len(x) {
				sum *= kernel.ExpDiff(y[k], y[k+1])
			}
			if !magnitudes {
				sum += up[k]
				dst[k] = kernel.ExpDiff(x[k], y[k]) * sum
				continue
			}
			sum += math.Abs(up[k]) * (2 + math.Abs(y[k]))
			dst[k] = kernel.ExpDiff(x[k], y[k]) * sum * (1 + math.Abs(x[k]))
		}
	}, a.Self, g.Outs[0], g.Out[0])
}

// infiniteLogSumGrad is logSumGrad by torch's formula, which says where nan goes: exp of x[k]
// plus the logarithmic sum of log(g[i]) - y[i], for positive g less that for negative ones.
func infiniteLogSumGrad(x, y, up, dst []float64) {
	clear(dst)
	for _, sign := range []float64{1, -1} {
		var s LogSum
		for k := len(x) - 1; k >= 0; k-- {
			l := -math.MaxFloat64
			if up[k]*sign > 0 {
				l = math.Log(math.Abs(up[k]))
			}
			s.Join(LogSum{l - y[k], 1, true})
			dst[k] += sign * math.Exp(s.Value()+x[k])
		}
	}
}

// runningExtremum declares cummax and cummin.
func runningExtremum(name, summary string, least bool) *opdef.Entry {
	return opdef.Planned[*opdef.DimArgs, *runningExtrema]{
		Schema: name + "(Tensor self, int dim) -> (Tensor values, Tensor indices)",
		Doc: opdef.Doc{Summary: summary,
			Notes: "The index of the last of equal elements; any of them is accepted. nan stays."},
		Error: elements.MovedError,
		Plan:  func(a *opdef.DimArgs) (*runningExtrema, error) { return (*runningExtrema)(a), nil },
		Kernel: func(a *runningExtrema) ([]*tensor.Tensor, error) {
			x := a.Self
			dim, err := opdef.Dim("dim", a.Dim, x.Dim())
			if err != nil {
				return nil, err
			}
			if x.DType.IsComplex() {
				return nil, opdef.Refuse("self", "not defined for complex numbers")
			}
			if x.DType.IsFloat() {
				return runningExtremes[float64](x, dim, least), nil
			}
			return runningExtremes[int64](x, dim, least), nil
		},
		Grad: func(a *runningExtrema, g *opdef.Grad) (opdef.Grads, error) {
			dim := opdef.Must(opdef.Dim("dim", a.Dim, a.Self.Dim()))
			return elements.GradOf("self", opdef.AlongDimN(a.Self.DType, dim, func(s [][]float64, dst []float64) {
				clear(dst)
				for i, at := range s[0] {
					dst[int(at)] += s[1][i]
				}
			}, g.Outs[1], g.Out[0])), nil
		},
		Bounds: opdef.Bounds[*runningExtrema]{
			GradTerms: func(a *runningExtrema) int { return elements.TermsOver(a.Self.Shape, []int{a.Dim}) },
		},
		Cases: opdef.Calls[opdef.DimArgs](`
			f64[3, 4]{distinct}, 1; f64[3, 4]{distinct}, 0; f32[6]{distinct}, -1; i32[2, 5]{-3..3}, 1
			bf16[5]{distinct}, 0; f64[]{distinct}, 0; f32[0, 2]{distinct}, 0
			f32[3, 133]{rows}, 1; bf16[3, 133]{rows}, 1; f32[3, 1030]{rows}, 1`),
	}.Entry()
}

// A runningExtrema is a call of cummax or cummin.
type runningExtrema opdef.DimArgs

// Accept takes any index of equal elements.
func (a *runningExtrema) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	if len(got) < 2 {
		return make([]opdef.Acceptance, len(got))
	}
	return []opdef.Acceptance{{}, acceptRunning(a, got[1], want[1])}
}

// runningExtremes are the running extremes of x along dim, and their indices.
func runningExtremes[T int64 | float64](x *tensor.Tensor, dim int, least bool) []*tensor.Tensor {
	return []*tensor.Tensor{
		opdef.AlongDim(x.DType, x, dim, func(src, dst []T) { runningExtreme(src, dst, nil, least) }),
		opdef.AlongDim(tensor.Int64, x, dim, func(src []T, dst []int64) { runningExtreme(src, nil, dst, least) }),
	}
}

// runningExtreme stores the running extremes of src, or their indices: the
// last of equal ones, the last nan once there is one.
func runningExtreme[T int64 | float64](src, values []T, indices []int64, least bool) {
	at := 0
	for i, x := range src {
		m := src[at]
		if x != x || m == m && (!least && x >= m || least && x <= m) {
			at = i
		}
		if values != nil {
			values[i] = src[at]
		} else {
			indices[i] = int64(at)
		}
	}
}

// acceptRunning decides on indices of running extremes that differ: the
// elements at both must be the same, and neither may look ahead.
func acceptRunning(a *runningExtrema, got, want *tensor.Tensor) opdef.Acceptance {
	dim := opdef.Must(opdef.Dim("dim", a.Dim, a.Self.Dim()))
	if a.Self.Dim() == 0 {
		return opdef.Acceptance{}
	}
	inner := tensor.Numel(a.Self.Shape[dim+1:])
	g, w := tensor.Data[int64](got), tensor.Data[int64](want)
	for i, at := range g {
		col := int64(i / inner % a.Self.Shape[dim])
		if at == w[i] {
			continue
		}
		if at < 0 || at > col {
			return opdef.Acceptance{Reason: "an index points past its element"}
		}
		p := tensor.At[float64](a.Self, i+int(at-col)*inner)
		q := tensor.At[float64](a.Self, i+int(w[i]-col)*inner)
		if p != q && (p == p || q == q) {
			return opdef.Acceptance{Reason: "an index points to another value"}
		}
	}
	return opdef.Acceptance{OK: true, Rule: "ties"}
}

const cumulativeCases = `
	f64[3, 4], 1; f64[2, 3, 2], -2; f32[5], 0; bf16[2, 4], 1, dtype=f32; i32[2, 3]{-3..3}, 0; bool[6]{0..1}, 0
	f32[], -1; f32[0, 3], 1; c128[3], 0`
