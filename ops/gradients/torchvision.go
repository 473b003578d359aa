package gradients

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// torchvision are the operators that torchvision's own backward passes call, from version 0.29 on.
var torchvision = []form{
	{schema: "torchvision::_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, int pooled_height, int " +
		"pooled_width, int batch_size, int channels, int height, int width, int sampling_ratio, bool aligned) -> " +
		"Tensor",
		of: "input", origin: regions("roi_align", "sampling_ratio", "aligned"),
		call: vision + "roi_align", rows: func(g opdef.Gen) [][]value.Value {
			return [][]value.Value{row(normal(g, 2, 2, 2, 3), boxes(), 0.75, 2, 3, 2, 2, 6, 6, 2, false)}
		}},
	{schema: "torchvision::_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float " +
		"spatial_scale, " +
		"int pooled_height, int pooled_width, int sampling_ratio, int batch_size, int channels, int height, int " +
		"width) " +
		"-> Tensor", of: "input", origin: regions("ps_roi_align", "sampling_ratio"), call: vision + "ps_roi_align",
		rows: func(g opdef.Gen) [][]value.Value {
			return [][]value.Value{row(normal(g, 2, 2, 2, 3), boxes(), g.Int(tensor.Int32, 0, 11, 2, 2, 2, 3), 0.75,
				2, 3,
				2, 2, 12, 6, 6)}
		}},
	{schema: "torchvision::_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float " +
		"spatial_scale, " +
		"int pooled_height, int pooled_width, int batch_size, int channels, int height, int width) -> Tensor",
		of: "input", origin: regions("ps_roi_pool"), call: vision + "ps_roi_pool",
		rows: func(g opdef.Gen) [][]value.Value {
			return [][]value.Value{row(normal(g, 2, 2, 2, 3), boxes(), g.Int(tensor.Int32, 0, 11, 2, 2, 2, 3), 0.75,
				2, 3,
				2, 12, 6, 6)}
		}},
	{schema: "torchvision::_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, " +
		"Tensor mask, " +
		"Tensor bias, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int " +
		"groups, int " +
		"offset_groups, bool use_mask) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
		of: "input weight offset mask bias", origin: deform, call: vision + "deform_conv2d",
		rows: func(g opdef.Gen) (out [][]value.Value) {
			for _, masked := range []bool{true, false} {
				mask := elements.Detached(g.Uniform(tensor.Float32, 0, 1, 2, 4, 4, 5))
				if !masked {
					mask = normal(g, 2, 1)
				}
				out = append(out, row(normal(g, 2, 4, 4, 5), normal(g, 2, 4, 5, 6), normal(g, 4, 2, 2, 2),
					elements.Detached(g.Uniform(tensor.Float32, 0.1, 0.9, 2, 8, 4, 5)), mask, normal(g, 4), 1, 1, 0,
					0, 1, 1,
					2, 1, masked))
			}
			return out
		}},
}

const vision = "torch.ops.torchvision."

func boxes() *tensor.Tensor {
	return tensor.New(tensor.Float32, []int{2, 5}, []float64{1, 0.5, 1, 4, 5, 0, 2, 0.25, 5, 3}).Rounded()
}

// regions is a pooling of regions, whose gradient does not depend on the input.
func regions(name string, more ...string) func(a args) (origin, error) {
	return func(a args) (origin, error) {
		x, err := zeros("batch_size", a.up(), []int{int(a.int("batch_size")), int(a.int("channels")),
			int(a.int("height")),
			int(a.int("width"))})
		o := origin{name: vision + name, args: []value.Value{x}, of: []string{"input"}}
		for _, arg := range append([]string{"rois", "spatial_scale", "pooled_height", "pooled_width"}, more...) {
			o.args = append(o.args, a.any(arg))
		}
		return o, err
	}
}

// deform: the gradient of a mask that is not used is zeros.
func deform(a args) (origin, error) {
	o, err := a.read(vision+"deform_conv2d(input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, "+
		"dilation_h, "+
		"dilation_w, groups, offset_groups, use_mask)", "input weight offset mask bias")
	if !a.bool("use_mask") {
		o.of[3], o.left = "", a.tensor("mask").Shape
	}
	return o, err
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
	Error:  opdef.Error{Class: opdef.Accumulated},
	Traits: opdef.Traits{NoGrad: "a gradient itself", Trivial: true},

	Exempt: map[string]string{"bounds": "the image of a region is a number without its fraction"},
	Bounds: opdef.Bounds[*roiPoolArgs]{
		Terms: func(a *roiPoolArgs) int { return max(1, a.Grad.Shape[0]) },
	},
	Kernel: func(a *roiPoolArgs) ([]*tensor.Tensor, error) {
		x, err := zeros("batch_size", a.Grad, []int{a.BatchSize, a.Channels, a.Height, a.Width})
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
	Cases: opdef.Calls[roiPoolArgs](`
		f32[2, 2, 2, 2], f32[2, 5]{= 1 0 1 4 5 0 2 0 5 3}, i32[2, 2, 2, 2]{-1..35}, 1.0, 2, 2, 2, 2, 6, 6`),
}.Entry()
