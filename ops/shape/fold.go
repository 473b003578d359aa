package shape

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type unfoldArgs struct {
	Input                                 *tensor.Tensor
	KernelSize, Dilation, Padding, Stride []int
}

type foldArgs struct {
	Input                                             *tensor.Tensor
	OutputSize, KernelSize, Dilation, Padding, Stride []int
}

// windowsOver is the geometry of sliding windows over images of the given size.
func windowsOver(batch, channels int, size, kernelSize, dilation, padding, stride []int) (*kernel.Conv, error) {
	c := &kernel.Conv{Batch: batch, Groups: 1, InC: channels, OutC: 1, In: [3]int{1, size[0], size[1]}}
	var err error
	if c.Kernel, err = elements.SpatialSizes("kernel_size", kernelSize, 2, 1, 1); err != nil {
		return nil, err
	}
	if c.Dilation, err = elements.SpatialSizes("dilation", dilation, 2, 1, 1); err != nil {
		return nil, err
	}
	if c.Pad, err = elements.SpatialSizes("padding", padding, 2, 0, 0); err != nil {
		return nil, err
	}
	if c.Stride, err = elements.SpatialSizes("stride", stride, 2, 1, 1); err != nil {
		return nil, err
	}
	for d := range 3 {
		room := c.In[d] + 2*c.Pad[d] - c.Dilation[d]*(c.Kernel[d]-1) - 1
		if room < 0 {
			return nil, opdef.Refuse("input", "padded size %d is smaller than the window", c.In[d]+2*c.Pad[d])
		}
		c.Out[d] = room/c.Stride[d] + 1
	}
	return c, nil
}

// columns are windows of images as columns, of the images or back: what is given, and the shape of the result.
type columns struct {
	*kernel.Conv
	in    *tensor.Tensor
	shape []int
}

func (c *columns) terms() int { return max(1, c.Kernel[0]*c.Kernel[1]*c.Kernel[2]) }

func (a *unfoldArgs) plan() (*columns, error) {
	p, err := elements.PlanesOf("input", a.Input, 2)
	if err != nil {
		return nil, err
	}
	lead := a.Input.Shape[:a.Input.Dim()-3]
	batch := tensor.Numel(lead)
	channels := a.Input.Shape[len(lead)]
	c, err := windowsOver(batch, channels, p.Size[1:], a.KernelSize, a.Dilation, a.Padding, a.Stride)
	if err != nil {
		return nil, err
	}
	return &columns{c, a.Input, append(slices.Clone(lead), c.Patch(), c.Out[1]*c.Out[2])}, nil
}

func (c *columns) unfold(x *tensor.Tensor, shape []int) *tensor.Tensor {
	switch x.DType.Kind() {
	case tensor.KindComplex:
		return unfoldAs[complex128](c.Conv, x, shape)
	case tensor.KindFloat:
		return unfoldAs[float64](c.Conv, x, shape)
	}
	return unfoldAs[int64](c.Conv, x, shape)
}

func unfoldAs[T kernel.Number](c *kernel.Conv, x *tensor.Tensor, shape []int) *tensor.Tensor {
	n, in := c.Patch()*c.Out[1]*c.Out[2], c.InC*c.In[1]*c.In[2]
	return opdef.Rows(x.DType, shape, n, func(row int, dst []T) {
		s := opdef.Scratch[T](in)
		tensor.Load(x, row*in, *s)
		kernel.Unfold(c, *s, dst)
		opdef.Release(s)
	})
}

func (a *foldArgs) plan() (*columns, error) {
	x := a.Input
	if x.Dim() != 2 && x.Dim() != 3 || x.Numel() == 0 && (x.Dim() == 2 || x.Shape[0] != 0) {
		return nil, opdef.Refuse("input", "want 2 or 3 dimensions, none empty but the batch, got shape %s",
			tensor.ShapeString(x.Shape))
	}
	size, err := elements.SpatialSizes("output_size", a.OutputSize, 2, 1, 1)
	if err != nil {
		return nil, err
	}
	k, err := elements.SpatialSizes("kernel_size", a.KernelSize, 2, 1, 1)
	if err != nil {
		return nil, err
	}
	lead := x.Shape[:x.Dim()-2]
	rows, cols := x.Shape[len(lead)], x.Shape[len(lead)+1]
	if rows%(k[1]*k[2]) != 0 {
		return nil, opdef.Refuse("input", "%d rows are not a multiple of kernel size %d x %d", rows, k[1], k[2])
	}
	channels := rows / (k[1] * k[2])
	c, err := windowsOver(tensor.Numel(lead), channels, size[1:], a.KernelSize, a.Dilation, a.Padding, a.Stride)
	if err != nil {
		return nil, err
	}
	if want := c.Out[1] * c.Out[2]; cols != want {
		return nil, opdef.Refuse("input", "want %d columns, one per window, got %d", want, cols)
	}
	return &columns{c, x, append(slices.Clone(lead), channels, size[1], size[2])}, nil
}

func (c *columns) fold(x *tensor.Tensor, shape []int) *tensor.Tensor {
	switch x.DType.Kind() {
	case tensor.KindComplex:
		return foldAs[complex128](c.Conv, x, shape)
	case tensor.KindFloat:
		return foldAs[float64](c.Conv, x, shape)
	}
	return foldAs[int64](c.Conv, x, shape)
}

func foldAs[T kernel.Number](c *kernel.Conv, x *tensor.Tensor, shape []int) *tensor.Tensor {
	n, in := c.Patch()*c.Out[1]*c.Out[2], c.InC*c.In[1]*c.In[2]
	return opdef.Rows(x.DType, shape, in, func(row int, dst []T) {
		clear(dst)
		s := opdef.Scratch[T](n)
		tensor.Load(x, row*n, *s)
		kernel.Fold(c, dst, *s)
		opdef.Release(s)
	})
}
