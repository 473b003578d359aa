package pooling

import (
	"fmt"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type unpoolArgs struct {
	Input, Indices              *tensor.Tensor
	KernelSize, Stride, Padding []int
	OutputSize                  []int
}

// An unpooling is a call after its arguments were checked: the planes of the input, the shape of the
// result and the indices.
type unpooling struct {
	in    elements.Planes
	shape []int
	at    []int64
}

func (a *unpoolArgs) plan(nd int) (*unpooling, error) {
	p, err := elements.PlanesOf("input", a.Input, nd)
	if err != nil {
		return nil, err
	}
	if err := elements.WantReal("input", a.Input); err != nil {
		return nil, err
	}
	if a.Indices.DType != tensor.Int64 {
		return nil, opdef.Refuse("indices", "want dtype int64, got %s", a.Indices.DType)
	}
	if !slices.Equal(a.Indices.Shape, a.Input.Shape) {
		return nil, opdef.Refuse("indices", "want shape %s as of input, got %s", tensor.ShapeString(a.Input.Shape),
			tensor.ShapeString(a.Indices.Shape))
	}
	stride := a.Stride
	if len(stride) == 0 {
		stride = a.KernelSize
	}
	k, err := elements.SpatialSizes("kernel_size", a.KernelSize, nd, 1, 1)
	if err != nil {
		return nil, err
	}
	s, err := elements.SpatialSizes("stride", stride, nd, 1, 1)
	if err != nil {
		return nil, err
	}
	pad, err := elements.SpatialSizes("padding", a.Padding, nd, 0, 0)
	if err != nil {
		return nil, err
	}
	var size [3]int
	for d := range size {
		size[d] = (p.Size[d]-1)*s[d] - 2*pad[d] + k[d]
	}
	if len(a.OutputSize) > 0 {
		given := a.OutputSize
		if len(given) == nd+2 {
			given = given[2:]
		}
		if len(given) != nd {
			return nil, opdef.Refuse("output_size", "want %d numbers, got %d", nd, len(a.OutputSize))
		}
		for d, n := range given {
			def := size[3-nd+d]
			if n <= def-s[3-nd+d] || n >= def+s[3-nd+d] {
				return nil, opdef.Refuse("output_size", "%d is not within a stride of %d", n, def)
			}
			size[3-nd+d] = n
		}
	}
	shape, volume := p.Shape(size), int64(size[0]*size[1]*size[2])
	at := tensor.Data[int64](a.Indices)
	for _, i := range at {
		if i < 0 || i >= volume {
			return nil, opdef.Refuse("indices", "%d is out of range for planes of %d elements", i, volume)
		}
	}
	return &unpooling{p, shape, at}, nil
}

func unpoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("max_unpool%dd", nd)
	return []*opdef.Entry{opdef.Planned[*unpoolArgs, *unpooling]{
		Schema: fmt.Sprintf("%s(Tensor input, Tensor indices, int[%d] kernel_size, int[%d]? stride=None, int[%d] "+
			"padding=0, int[]? output_size=None) -> Tensor", name, nd, nd, nd),
		Names: "F." + name,
		Traits: opdef.Traits{
			Composite: nd == 1, LastView: nd == 1, // it runs in two dimensions
			Autocast: opdef.AutocastFloat32,
		},
		Doc: opdef.Doc{
			Summary: fmt.Sprintf("Partial inverse of max_pool%dd: elements placed at the indices it returned, zeros "+
				"elsewhere", nd),
			Formula: "out[n, c, indices[n, c, i]] = input[n, c, i]",
			Notes:   "Of elements with equal indices the last counts.",
		},
		Error: elements.ExactError,
		Plan:  func(a *unpoolArgs) (*unpooling, error) { return a.plan(nd) },
		Kernel: func(u *unpooling) ([]*tensor.Tensor, error) {
			if u.in.Tensor.DType.IsFloat() {
				return elements.Single(placePlanes[float64](u)), nil
			}
			return elements.Single(placePlanes[int64](u)), nil
		},
		Grad: func(u *unpooling, g *opdef.Grad) (opdef.Grads, error) {
			out, err := elements.PlanesOf("input", g.Out[0], nd)
			if err != nil {
				return nil, err
			}
			return opdef.Grads{"input": {elements.GatherPlanes(out, u.in.Tensor.Shape, u.at)}}, nil
		},
		Cases: func(g opdef.Gen) (cs []*unpoolArgs) {
			for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.BFloat16} {
				x := g.Distinct(dt, append([]int{2, 1}, slices.Repeat([]int{4}, nd)...)...)
				two := slices.Repeat([]int{2}, nd)
				pool := &maxPoolArgs{Input: x, KernelSize: two, Padding: []int{0}, Dilation: []int{1}}
				p := opdef.Must(pool.plan(nd, true))
				_, at := p.max()
				cs = append(cs, &unpoolArgs{g.Normal(dt, p.outShape()...), at, two, nil, slices.Repeat([]int{0}, nd),
					nil})
			}
			return cs
		},
	}.Entry()}
}

func placePlanes[T float64 | int64](u *unpooling) *tensor.Tensor {
	m, n := u.in.Volume(), tensor.Numel(u.shape)/max(u.in.Rows, 1)
	return opdef.Rows(u.in.Tensor.DType, u.shape, n, func(row int, dst []T) {
		clear(dst)
		s := opdef.Scratch[T](m)
		tensor.Load(u.in.Tensor, row*m, *s)
		for i, k := range u.at[row*m : (row+1)*m] {
			dst[k] = (*s)[i]
		}
		opdef.Release(s)
	})
}
