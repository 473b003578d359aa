package gradients

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// torchvision are the operators that torchvision's own backward passes call, from version 0.29 on.
func torchvision(find func() *opdef.Registry) []*opdef.Entry {
	boxes := func() *tensor.Tensor {
		return tensor.New(tensor.Float32, []int{2, 5}, []float64{1, 0.5, 1, 4, 5, 0, 2, 0.25, 5, 3}).Rounded()
	}
	return []*opdef.Entry{
		derived[alignArgs]{"torchvision::_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, int " +
			"pooled_height, int pooled_width, int batch_size, int channels, int height, int width, int " +
			"sampling_ratio, bool aligned) -> Tensor",
			"Gradient of roi_align", (*alignArgs).origin, func(g opdef.Gen) []*alignArgs {
				return []*alignArgs{{g.Normal(tensor.Float32, 2, 2, 2, 3), boxes(), 0.75, 2, 3, 2, 2, 6, 6, 2, false}}
			}}.entry(find),
		derived[ownAlignArgs]{"torchvision::_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, " +
			"float spatial_scale, int pooled_height, int pooled_width, int sampling_ratio, int batch_size, " +
			"int channels, int height, int width) -> Tensor", "Gradient of ps_roi_align",
			(*ownAlignArgs).origin, func(g opdef.Gen) []*ownAlignArgs {
				return []*ownAlignArgs{{g.Normal(tensor.Float32, 2, 2, 2, 3), boxes(),
					g.Int(tensor.Int32, 0, 11, 2, 2, 2, 3), 0.75, 2, 3, 2, 2, 12, 6, 6}}
			}}.entry(find),
		derived[ownPoolArgs]{"torchvision::_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, " +
			"float spatial_scale, int pooled_height, int pooled_width, int batch_size, int channels, int height, " +
			"int width) -> Tensor",
			"Gradient of ps_roi_pool", (*ownPoolArgs).origin, func(g opdef.Gen) []*ownPoolArgs {
				return []*ownPoolArgs{{g.Normal(tensor.Float32, 2, 2, 2, 3), boxes(),
					g.Int(tensor.Int32, 0, 11, 2, 2, 2, 3), 0.75, 2, 3, 2, 12, 6, 6}}
			}}.entry(find),
		derived[deformArgs]{"torchvision::_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor " +
			"offset, Tensor mask, Tensor bias, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int " +
			"dilation_w, int groups, int offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
			"Gradients of deform_conv2d", (*deformArgs).origin, func(g opdef.Gen) (cs []*deformArgs) {
				for _, masked := range []bool{true, false} {
					mask := g.Uniform(tensor.Float32, 0, 1, 2, 4, 4, 5)
					if !masked {
						mask = g.Normal(tensor.Float32, 2, 1)
					}
					cs = append(cs, &deformArgs{g.Normal(tensor.Float32, 2, 4, 4, 5),
						g.Normal(tensor.Float32, 2, 4, 5, 6),
						g.Normal(tensor.Float32, 4, 2, 2, 2), g.Uniform(tensor.Float32, 0.1, 0.9, 2, 8, 4, 5), mask,
						g.Normal(tensor.Float32, 4), 1, 1, 0, 0, 1, 1, 2, 1, masked})
				}
				return cs
			}}.entry(find),
		roiPool,
	}
}

// pooled is the call of a pooling of regions whose gradient is asked for. Its gradient does not depend on the input.
func pooled(name string, up, rois *tensor.Tensor, input []int, more ...value.Value) (origin, error) {
	x, err := zeros(up, input)
	return origin{name: name, args: append([]value.Value{x, rois}, more...), up: up, of: of("input")}, err
}

type alignArgs struct {
	Grad, Rois                         *tensor.Tensor
	SpatialScale                       float64
	PooledHeight, PooledWidth          int
	BatchSize, Channels, Height, Width int
	SamplingRatio                      int
	Aligned                            bool
}

func (a *alignArgs) origin() (origin, error) {
	return pooled("torch.ops.torchvision.roi_align", a.Grad, a.Rois,
		[]int{a.BatchSize, a.Channels, a.Height, a.Width}, a.SpatialScale, int64(a.PooledHeight),
		int64(a.PooledWidth), int64(a.SamplingRatio), a.Aligned)
}

type ownAlignArgs struct {
	Grad, Rois, ChannelMapping               *tensor.Tensor
	SpatialScale                             float64
	PooledHeight, PooledWidth, SamplingRatio int
	BatchSize, Channels, Height, Width       int
}

func (a *ownAlignArgs) origin() (origin, error) {
	return pooled("torch.ops.torchvision.ps_roi_align", a.Grad, a.Rois,
		[]int{a.BatchSize, a.Channels, a.Height, a.Width}, a.SpatialScale, int64(a.PooledHeight),
		int64(a.PooledWidth), int64(a.SamplingRatio))
}

type ownPoolArgs struct {
	Grad, Rois, ChannelMapping         *tensor.Tensor
	SpatialScale                       float64
	PooledHeight, PooledWidth          int
	BatchSize, Channels, Height, Width int
}

func (a *ownPoolArgs) origin() (origin, error) {
	return pooled("torch.ops.torchvision.ps_roi_pool", a.Grad, a.Rois,
		[]int{a.BatchSize, a.Channels, a.Height, a.Width}, a.SpatialScale, int64(a.PooledHeight), int64(a.PooledWidth))
}

type deformArgs struct {
	Grad, Input, Weight, Offset, Mask, Bias            *tensor.Tensor
	StrideH, StrideW, PadH, PadW, DilationH, DilationW int
	Groups, OffsetGroups                               int
	UseMask                                            bool
}

// origin: the gradient of a mask that is not used is zeros.
func (a *deformArgs) origin() (origin, error) {
	o := origin{name: "torch.ops.torchvision.deform_conv2d",
		args: []value.Value{a.Input, a.Weight, a.Offset, a.Mask, a.Bias}, up: a.Grad, of: []string{"input", "weight", "offset", "mask", "bias"}}
	for _, n := range []int{a.StrideH, a.StrideW, a.PadH, a.PadW, a.DilationH, a.DilationW, a.Groups, a.OffsetGroups} {
		o.args = append(o.args, int64(n))
	}
	o.args = append(o.args, a.UseMask)
	if !a.UseMask {
		o.of[3], o.left = "", a.Mask.Shape
	}
	return o, nil
}

type roiPoolArgs struct {
	Grad, Rois, Argmax                 *tensor.Tensor
	SpatialScale                       float64
	PooledHeight, PooledWidth          int
	BatchSize, Channels, Height, Width int
}

var roiPool = opdef.Op[roiPoolArgs]{
	Schema: "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, int pooled_height, " +
		"int pooled_width, int batch_size, int channels, int height, int width) -> Tensor",
	Names: "torch.ops.torchvision._roi_pool_backward",
	Doc: opdef.Doc{Summary: "Gradient of roi_pool by the places of the largest pixels",
		Formula: "the sum of grad where argmax says so, in the image of the region",
		Notes:   "A place of -1 is that of an empty bin.",
		Source:  "torchvision/csrc/ops"},
	Error: opdef.Error{Class: opdef.Accumulated}, NoGrad: "a gradient itself", Trivial: true,
	Exempt: map[string]string{"bounds": "the image of a region is a number without its fraction"},
	Terms:  func(a *roiPoolArgs) int { return max(1, a.Grad.Shape[0]) },
	Kernel: func(a *roiPoolArgs) ([]*tensor.Tensor, error) {
		x, err := zeros(a.Grad, []int{a.BatchSize, a.Channels, a.Height, a.Width})
		if err != nil {
			return nil, err
		}
		shape := []int{a.Rois.Numel() / 5, a.Channels, a.PooledHeight, a.PooledWidth}
		if !slices.Equal(a.Grad.Shape, shape) || !slices.Equal(a.Argmax.Shape, shape) ||
			!slices.Equal(a.Rois.Shape, []int{shape[0], 5}) || !a.Grad.DType.IsFloat() {
			return nil, opdef.Refuse("grad", "want %s, as argmax, and rows of 5 numbers, got %s, %s and %s",
				tensor.ShapeString(shape), a.Grad.Meta(), a.Argmax.Meta(), a.Rois.Meta())
		}
		up, at := tensor.Data[float64](a.Grad), tensor.Data[int64](a.Argmax)
		rois := tensor.Data[float64](a.Rois)
		sums, plane, bins := tensor.Make[float64](x.Numel()), a.Height*a.Width, a.PooledHeight*a.PooledWidth
		for i, place := range at {
			image := int(rois[i/(bins*a.Channels)*5])
			if image < 0 || image >= a.BatchSize || place < -1 || int(place) >= plane {
				return nil, opdef.Refuse("argmax", "place %d of a plane of %d elements, image %d of %d", place, plane,
					image, a.BatchSize)
			}
			if place >= 0 {
				sums[(image*a.Channels+i/bins%a.Channels)*plane+int(place)] += up[i]
			}
		}
		return elements.Single(tensor.New(x.DType, x.Shape, sums)), nil
	},
	Cases: func(g opdef.Gen) []*roiPoolArgs {
		return []*roiPoolArgs{{g.Normal(tensor.Float32, 2, 2, 2, 2), tensor.New(tensor.Float32, []int{2, 5},
			[]float64{1, 0, 1, 4, 5, 0, 2, 0, 5, 3}), g.Int(tensor.Int32, -1, 35, 2, 2, 2, 2), 1, 2, 2, 2, 2, 6, 6}}
	},
}.Entry()
