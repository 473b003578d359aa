package pooling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/tensor"
)

type lpPoolArgs struct {
	Input              *tensor.Tensor
	NormType           float64
	KernelSize, Stride []int
	CeilMode           bool
}

// plan is the average that torch multiplies by the window's full size.
func (a *lpPoolArgs) plan(nd int) (*pooling, float64, error) {
	in, err := elements.PlanesOf("input", a.Input, nd)
	if err != nil {
		return nil, 0, err
	}
	if err := elements.WantFloat("input", a.Input); err != nil {
		return nil, 0, err
	}
	in.Tensor = opdef.Map(a.Input.DType, a.Input, func(x float64) float64 { return math.Pow(x, a.NormType) })
	p := &pooling{Planes: in}
	if err := p.slidingWindows(a.KernelSize, a.Stride, []int{0}, []int{1}, a.CeilMode); err != nil {
		return nil, 0, err
	}
	full := 1.0
	for d := range nd {
		full *= float64(a.KernelSize[min(d, len(a.KernelSize)-1)])
	}
	return p, full, nil
}

func lpPoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("lp_pool%dd", nd)
	// inner is the power sum whose root is taken.
	inner := func(a *lpPoolArgs) (*pooling, float64, *tensor.Tensor, error) {
		p, full, err := a.plan(nd)
		if err != nil {
			return nil, 0, nil, err
		}
		return p, full, opdef.Map(a.Input.DType, p.mean(), func(x float64) float64 { return full * x }), nil
	}
	// rootGrad is the gradient that flows into the power sum.
	rootGrad := func(a *lpPoolArgs, s, g *tensor.Tensor) *tensor.Tensor {
		q := 1 / a.NormType
		return opdef.Zip(a.Input.DType, g, s, func(g, s float64) float64 {
			if g == 0 && s == 0 {
				return 0
			}
			return g * q * math.Pow(s, q-1)
		})
	}
	return []*opdef.Entry{opdef.Op[lpPoolArgs]{
		Schema: fmt.Sprintf("%s(Tensor input, float norm_type, int[%d] kernel_size, int[%d]? stride=None, bool "+
			"ceil_mode=False) -> Tensor", name, nd, nd),
		Names: "F." + name,
		Doc: opdef.Doc{
			Summary: fmt.Sprintf("Power average of sliding windows of %d dimensions", nd),
			Formula: "(sum over the window of input^p)^(1/p)",
			Notes:   "A window cut off by ceil_mode counts as if it were whole.", Source: "torch.nn.functional." + name,
		},
		Error: opdef.Error{Class: opdef.Elementwise, ULPs: 8},
		Kernel: func(a *lpPoolArgs) ([]*tensor.Tensor, error) {
			_, _, s, err := inner(a)
			if err != nil {
				return nil, err
			}
			return []*tensor.Tensor{opdef.Map(a.Input.DType, s,
				func(x float64) float64 { return math.Pow(x, 1/a.NormType) })}, nil
		},
		Scale: func(a *lpPoolArgs, outs []*tensor.Tensor) []*tensor.Tensor {
			b := *a
			b.Input = opdef.Abs(a.Input)
			_, _, s, err := inner(a)
			_, _, t, err2 := inner(&b)
			if err != nil || err2 != nil {
				return []*tensor.Tensor{opdef.Abs(outs[0])}
			}
			return []*tensor.Tensor{opdef.ZipN(tensor.Float64, outs[0].Shape, func(dst []float64, v [][]float64) {
				for i, y := range v[0] { // the relative error of the sum, carried through the root
					dst[i] = math.Abs(y) * math.Max(1, v[2][i]/math.Abs(v[1][i])/a.NormType)
				}
			}, outs[0], s, t)}
		},
		Terms: func(a *lpPoolArgs) int {
			if p, _, err := a.plan(nd); err == nil {
				return p.largestWindow()
			}
			return 1
		},
		Grad: func(a *lpPoolArgs, g *opdef.Grad) (opdef.Grads, error) {
			p, full, s, err := inner(a)
			if err != nil {
				return nil, err
			}
			ds := rootGrad(a, s, g.Out[0])
			dp := p.meanGrad(opdef.Map(a.Input.DType, ds, func(x float64) float64 { return full * x }))
			return opdef.Grads{"input": {opdef.Zip(a.Input.DType, dp, a.Input, func(d, x float64) float64 {
				return d * a.NormType * math.Pow(x, a.NormType-1)
			})}}, nil
		},
		Node: func(a *lpPoolArgs, g *opdef.Grad) (opdef.Node, error) {
			_, _, s, err := inner(a)
			if err != nil {
				return opdef.Node{}, err
			}
			return opdef.Node{Grads: []*tensor.Tensor{rootGrad(a, s, g.Out[0])}}, nil
		},
		Cases: func(r *rand.Rand) []*lpPoolArgs {
			g := opdef.Gen{R: r}
			list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
			in := append([]int{2, 2}, list(5)...)
			return []*lpPoolArgs{
				{g.Uniform(tensor.Float64, 0.5, 2, in...), 2, list(2), nil, false},
				{g.Uniform(tensor.Float64, 0.5, 2, in...), 3, list(3), list(2), true},
				{g.Uniform(tensor.Float32, 0.5, 2, in...), 1.5, list(2), list(1), false},
			}
		},
	}.Entry()}
}
