package pooling

import (
	"fmt"
	"slices"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type lpPoolArgs struct {
	Input              *tensor.Tensor
	NormType           float64
	KernelSize, Stride []int
	CeilMode           bool
}

func lpPoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("lp_pool%dd", nd)
	return []*opdef.Entry{compose.Declare(compose.Op[lpPoolArgs]{
		Schema: fmt.Sprintf("%s(Tensor input, float norm_type, int[%d] kernel_size, int[%d]? stride=None, bool "+
			"ceil_mode=False) -> Tensor", name, nd, nd),
		Names: "F." + name,
		Doc: opdef.Doc{
			Summary: fmt.Sprintf("Power average of sliding windows of %d dimensions", nd),
			Formula: "(sum over the window of input^p)^(1/p)",
			Notes:   "A window cut off by ceil_mode counts as if it were whole.",
		},
		Cases: func(g opdef.Gen) []*lpPoolArgs {
			list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
			in := append([]int{2, 2}, list(5)...)
			return []*lpPoolArgs{
				{g.Uniform(tensor.Float64, 0.5, 2, in...), 2, list(2), nil, false},
				{g.Uniform(tensor.Float64, 0.5, 2, in...), 3, list(3), list(2), true},
				{g.Uniform(tensor.Float32, 0.5, 2, in...), 1.5, list(2), list(1), false},
			}
		},
	}, compose.Unfused, func(g *compose.Graph, a *lpPoolArgs) compose.Values { return lpPool(g, a, nd) })}
}

// lpPool follows torch's own composition (torch/nn/functional.py): averages of
// powers times the size of a whole window. No gradient passes where they are 0.
func lpPool(g *compose.Graph, a *lpPoolArgs, nd int) compose.Values {
	if a.NormType == 0 {
		g.Refuse("norm_type", "want a number other than 0")
	}
	p, err := poolingOf(a.Input, nd, elements.WantFloat)
	g.Check(err)
	g.Check(p.slidingWindows(a.KernelSize, a.Stride, []int{0}, []int{1}, a.CeilMode))
	whole := 1.0
	for d := range nd {
		whole *= float64(a.KernelSize[min(d, len(a.KernelSize)-1)])
	}
	powers := g.Reshape(g.Pow(g.Arg("input", a.Input), a.NormType), p.Rows, p.Volume())
	mean := g.Reshape(g.SparseMatmul(p.averages(), powers), p.outShape()...)
	zero := opdef.Map(tensor.Bool, mean.T, func(x float64) int64 {
		if x == 0 {
			return 1
		}
		return 0
	})
	sum := g.Scale(g.Where(zero, g.Full(mean.DType(), nil, 0), mean), whole)
	return compose.Values{g.Pow(sum, 1/a.NormType)}
}

// averages is the matrix that makes the averages of the windows of a plane's
// elements.
func (p *pooling) averages() *compose.SparseMatrix {
	out, size := p.win.Out(), p.Size
	m := compose.NewSparseMatrix(out[0]*out[1]*out[2], p.Volume())
	p.divisors(func(i int, by float64) {
		x, y, z := i/(out[1]*out[2]), i/out[2]%out[1], i%out[2]
		for j := p.win.Lo[0][x]; j < p.win.Hi[0][x]; j++ {
			for k := p.win.Lo[1][y]; k < p.win.Hi[1][y]; k++ {
				for l := p.win.Lo[2][z]; l < p.win.Hi[2][z]; l++ {
					m.Add(i, (j*size[1]+k)*size[2]+l, 1/by, 0)
				}
			}
		}
	})
	return m
}
