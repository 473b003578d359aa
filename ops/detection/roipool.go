package detection

import (
	"math"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type (
	roiPoolArgs struct {
		Input, Boxes *tensor.Tensor
		OutputSize   []int
		SpatialScale float64
	}
	roiPoolListArgs struct {
		Input        *tensor.Tensor
		Boxes        []*tensor.Tensor
		OutputSize   []int
		SpatialScale float64
	}
	roiPoolNativeArgs struct {
		Input, Rois               *tensor.Tensor
		SpatialScale              float64
		PooledHeight, PooledWidth int
	}
	psAlignArgs struct {
		Input, Boxes  *tensor.Tensor
		OutputSize    []int
		SpatialScale  float64
		SamplingRatio int
	}
	psAlignListArgs struct {
		Input         *tensor.Tensor
		Boxes         []*tensor.Tensor
		OutputSize    []int
		SpatialScale  float64
		SamplingRatio int
	}
	psAlignNativeArgs struct {
		Input, Rois                              *tensor.Tensor
		SpatialScale                             float64
		PooledHeight, PooledWidth, SamplingRatio int
	}
)

// poolNames are those of a pooling of regions.
func poolNames(name string) string {
	return "torchvision." + name + " torchvision.ops." + name + " torchvision.ops." + name + "." + name
}

const regionNotes = "input is (N, C, H, W), a row of boxes (image, x1, y1, x2, y2), or with one tensor of boxes per " +
	"image (x1, y1, x2, y2), times spatial_scale. Boxes have no gradient."

var (
	roiPoolDoc = opdef.Doc{Summary: "The largest pixel of each bin of regions of images",
		Formula: "output[r, c, i, j] = max of input[box r's image, c] in bin (i, j) of box r, 0 if it is empty",
		Notes:   regionNotes + " Corners are rounded to pixels.", Source: "torchvision.ops.roi_pool"}
	psPoolDoc = opdef.Doc{Summary: "Means of bins of regions of images, each bin of channels of its own",
		Formula: "output[r, c, i, j] = mean of input[box r's image, (c*rows + i)*columns + j] in bin (i, j) of box r",
		Notes:   regionNotes + " Corners are rounded to pixels; an empty bin is 0.",
		Source:  "torchvision.ops.ps_roi_pool"}
	psAlignDoc = opdef.Doc{Summary: "Regions of images, resampled to one size, each bin of channels of its own",
		Formula: "output[r, c, i, j] = mean of input[box r's image, (c*rows + i)*columns + j] at points of bin (i, j)",
		Notes:   regionNotes + " Points are those of roi_align, aligned; a bin without any is NaN.",
		Source:  "torchvision.ops.ps_roi_align"}
)

// regionsOfList are those of a tensor of boxes for each image.
func regionsOfList(g *compose.Graph, boxes []*tensor.Tensor) (all []region) {
	for i, t := range boxes {
		if t == nil || t.Dim() != 2 || t.Shape[1] != 4 || !t.DType.IsFloat() {
			g.Refuse("boxes", "item %d: want floating boxes of 4 numbers", i)
		}
		v := tensor.Data[float64](t)
		for r := range t.Shape[0] {
			all = append(all, region{i, [4]float64(v[4*r:])})
		}
	}
	return all
}

// A binning cuts regions into bins of whole pixels.
type binning struct {
	images, channels, height, width int
	rows, cols                      int
	scale                           float64
	round                           func(float64) float64 // to the dtype that devices compute positions in
	inclusive                       bool                  // the last pixel belongs to a region
	short                           int                   // how many pixels before the end of an image bins stop
}

// newBinning is that of an input.
func newBinning(g *compose.Graph, input *tensor.Tensor, regions []region, size []int, scale float64,
	inclusive bool) *binning {
	if input.Dim() != 4 || !input.DType.IsFloat() || tensor.Numel(input.Shape[2:]) == 0 {
		g.Refuse("input", "want a floating tensor of 4 dimensions with pixels, got %s", input.Meta())
	}
	if len(size) != 2 || min(size[0], size[1]) < 1 {
		g.Refuse("output_size", "want two numbers of bins, got %v", size)
	}
	s := input.Shape
	if err := tensor.CheckSize([]int{len(regions), s[1], size[0], size[1]}); err != nil {
		g.Refuse("output_size", "%v", err)
	}
	for _, r := range regions {
		if r.image < 0 || r.image >= s[0] {
			g.Refuse("boxes", "image %d of %d", r.image, s[0])
		}
		for _, v := range r.box {
			if !(math.Abs(v*scale) < 1<<30) {
				g.Refuse("boxes", "box %v is too large", r.box)
			}
		}
	}
	return &binning{s[0], s[1], s[2], s[3], size[0], size[1], scale, input.DType.Round, inclusive, 0}
}

// span are the pixels [lo, hi) of bin i of n, of a region from start to end along size pixels.
func (b *binning) span(start, end float64, i, n, size int) (lo, hi int) {
	first, last := math.Round(b.round(start*b.scale)), math.Round(b.round(end*b.scale))
	length := max(last-first, 1)
	if b.inclusive {
		length = max(last-first+1, 1)
	}
	bin := b.round(length / float64(n))
	cut := func(v float64) int { return int(min(max(v+first, 0), float64(size-b.short))) }
	return cut(math.Floor(b.round(float64(i) * bin))), cut(math.Ceil(b.round(float64(i+1) * bin)))
}

// each calls f for every bin of every region with its pixels [top, bottom) and [left, right).
func (b *binning) each(regions []region, f func(r, bin, top, bottom, left, right int)) {
	for r, at := range regions {
		for i := range b.rows {
			top, bottom := b.span(at.box[1], at.box[3], i, b.rows, b.height)
			for j := range b.cols {
				left, right := b.span(at.box[0], at.box[2], j, b.cols, b.width)
				f(r, i*b.cols+j, top, bottom, left, right)
			}
		}
	}
}

// poolRegions are the largest pixels of bins, and their places among those of a channel, -1 in
// empty ones.
func poolRegions(g *compose.Graph, input *tensor.Tensor, regions []region, size []int,
	scale float64) (*compose.Value, *tensor.Tensor) {
	b := newBinning(g, input, regions, size, scale, true)
	x, v := g.Arg("input", input), tensor.Data[float64](input)
	shape := []int{len(regions), b.channels, b.rows, b.cols}
	bins, pixels := b.rows*b.cols, b.height*b.width
	places, at := tensor.Make[int64](tensor.Numel(shape)), tensor.Make[int64](tensor.Numel(shape))
	b.each(regions, func(r, bin, top, bottom, left, right int) {
		for c := range b.channels {
			base, best := (regions[r].image*b.channels+c)*pixels, -1
			for y := top; y < bottom; y++ {
				for k := y*b.width + left; k < y*b.width+right; k++ {
					if best < 0 || v[base+k] > v[base+best] {
						best = k
					}
				}
			}
			o := (r*b.channels+c)*bins + bin
			if at[o], places[o] = int64(best), int64(base+best); best < 0 {
				places[o] = int64(len(v))
			}
		}
	})
	padded := g.Cat(0, g.Reshape(x, len(v)), g.Full(x.DType(), []int{1}, 0)) // empty bins are 0
	return g.Take(padded, shape, places), tensor.New(tensor.Int32, shape, at)
}

// ownChannels are, of bins y [regions, channels, rows, columns], those of the channel that bin
// belongs to; and the channels.
func ownChannels(g *compose.Graph, y *compose.Value) (*compose.Value, *tensor.Tensor) {
	s := y.Shape()
	bins := s[2] * s[3]
	if s[1]%bins != 0 {
		g.Refuse("input", "%d channels are no multiple of %d bins", s[1], bins)
	}
	shape := []int{s[0], s[1] / bins, s[2], s[3]}
	places, channels := tensor.Make[int64](tensor.Numel(shape)), tensor.Make[int64](tensor.Numel(shape))
	for o := range places {
		r, bin := o/s[1], o%bins
		c := o % s[1]
		channels[o], places[o] = int64(c), int64((r*s[1]+c)*bins+bin)
	}
	return g.Take(y, shape, places), tensor.New(tensor.Int32, shape, channels)
}

// meanRegions are the means of bins, each of the channel it belongs to, and the channels. The
// result leaves the last row and column of images out, the gradient does not.
func meanRegions(g *compose.Graph, input *tensor.Tensor, regions []region, size []int,
	scale float64) (*compose.Value, *tensor.Tensor) {
	b := newBinning(g, input, regions, size, scale, false)
	bins, pixels := b.rows*b.cols, b.height*b.width
	means := func(short int) *compose.SparseMatrix {
		b.short = short
		weights := compose.NewSparseMatrix(len(regions)*bins, b.images*pixels)
		b.each(regions, func(r, bin, top, bottom, left, right int) {
			count := float64(max(bottom-top, 0) * max(right-left, 0))
			for y := top; y < bottom; y++ {
				for k := y*b.width + left; k < y*b.width+right; k++ {
					weights.Add(r*bins+bin, regions[r].image*pixels+k, 1/count, 1/count)
				}
			}
		})
		return weights
	}
	x := g.Reshape(g.Transpose(g.Arg("input", input), 0, 1), b.channels, b.images*pixels)
	y := g.Reshape(g.SparseMatmulBack(means(1), means(0), x), b.channels, len(regions), b.rows, b.cols)
	return ownChannels(g, g.Transpose(y, 0, 1))
}

// alignOwn are regions sampled as roi_align does, each bin of the channel it belongs to, and the
// channels.
func alignOwn(g *compose.Graph, input *tensor.Tensor, regions []region, size []int, scale float64,
	samples int) (*compose.Value, *tensor.Tensor) {
	grid := roiGrid{samples: samples, scale: scale, aligned: true}
	y, channels := ownChannels(g, alignRegions(g, input, regions, size, grid)[0])
	grid.rows, grid.cols, grid.round = size[0], size[1], input.DType.Round
	none := tensor.Make[int64](len(regions)) // the mean of no points
	for i, r := range regions {
		if _, bins := grid.corners(r.box); grid.count(bins[0])*grid.count(bins[1]) == 0 {
			none[i] = 1
		}
	}
	return g.MaskedFill(y, tensor.New(tensor.Bool, []int{len(regions), 1, 1, 1}, none), math.NaN()), channels
}

// someRegions are rows of boxes of two images.
func someRegions(dt tensor.DType) *tensor.Tensor {
	return tensor.New(dt, []int{3, 5}, []float64{0, 1, 1, 6, 5, 1, -0.75, 0, 8.25, 7, 0, 3.25, 2, 3.75, 9}).Rounded()
}

// poolings declares a pooling of regions, of a tensor or of a list of boxes, and its kernel, which
// returns places or channels too. Its input has channels of that many for one of the result.
func poolings(name string, doc opdef.Doc, exempt map[string]string, channels int, of func(g *compose.Graph,
	input *tensor.Tensor,
	regions []region, size []int, scale float64) (*compose.Value, *tensor.Tensor)) []*opdef.Entry {
	const tail = "int[2] output_size, float spatial_scale=1.0) -> Tensor"
	input := func(g opdef.Gen, dt tensor.DType) *tensor.Tensor { return g.Distinct(dt, 2, channels, 6, 8) }
	return []*opdef.Entry{
		compose.Declare(compose.Op[roiPoolArgs]{
			Schema: name + "(Tensor input, Tensor boxes, " + tail, Names: poolNames(name), Doc: doc, Exempt: exempt,
			Cases: func(g opdef.Gen) (cs []*roiPoolArgs) {
				for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
					cs = append(cs, &roiPoolArgs{input(g, dt), someRegions(dt), []int{2, 2}, 0.75})
				}
				return cs
			},
		}, compose.Fused, func(g *compose.Graph, a *roiPoolArgs) compose.Values {
			y, _ := of(g, a.Input, regionsOf(g, "boxes", a.Boxes), a.OutputSize, a.SpatialScale)
			return compose.Values{y}
		}),
		compose.Declare(compose.Op[roiPoolListArgs]{
			Schema: name + ".list(Tensor input, Tensor[] boxes, " + tail, Names: poolNames(name), Doc: doc,
			Exempt: exempt,
			Cases: func(g opdef.Gen) (cs []*roiPoolListArgs) {
				for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
					one, _ := someBoxes(g, dt, 2)
					other, _ := someBoxes(g, dt, 1)
					cs = append(cs, &roiPoolListArgs{input(g, dt), []*tensor.Tensor{one, other},
						[]int{2, 2}, 1})
				}
				return cs
			},
		}, compose.Fused, func(g *compose.Graph, a *roiPoolListArgs) compose.Values {
			y, _ := of(g, a.Input, regionsOfList(g, a.Boxes), a.OutputSize, a.SpatialScale)
			return compose.Values{y}
		}),
		compose.Declare(compose.Op[roiPoolNativeArgs]{
			Schema: name + ".native(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int " +
				"pooled_width) " +
				"-> (Tensor, Tensor)", Names: "torch.ops.torchvision." + name, Doc: doc, Exempt: exempt,
			Cases: func(g opdef.Gen) (cs []*roiPoolNativeArgs) {
				for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
					cs = append(cs, &roiPoolNativeArgs{input(g, dt), someRegions(dt), 0.75, 2, 2})
				}
				return cs
			},
		}, compose.Fused, func(g *compose.Graph, a *roiPoolNativeArgs) compose.Values {
			y, at := of(g, a.Input, regionsOf(g, "rois", a.Rois), []int{a.PooledHeight, a.PooledWidth}, a.SpatialScale)
			return compose.Values{y, g.Const(at)}
		}),
	}
}

// psAligns declares ps_roi_align, of a tensor or of a list of boxes, and its kernel.
func psAligns() []*opdef.Entry {
	const tail = "int[2] output_size, float spatial_scale=1.0, int sampling_ratio=-1) -> Tensor"
	return []*opdef.Entry{
		compose.Declare(compose.Op[psAlignArgs]{
			Schema: "ps_roi_align(Tensor input, Tensor boxes, " + tail, Names: poolNames("ps_roi_align"),
			Doc: psAlignDoc,
			Cases: opdef.Calls[psAlignArgs](`
				for T in f64 f32: T[2, 12, 6, 8], T[3, 5]{= 0 1 1 6 5 1 -0.75 0 8.25 7 0 3.25 2 3.75 9}, [2, 3],
				spatial_scale=0.75, sampling_ratio=2;
				T[2, 8, 6, 8], T[3, 5]{= 0 1 1 6 5 1 -0.75 0 8.25 7 0 3.25 2 3.75 9}, [2, 2], spatial_scale=0.5`),
		}, compose.Fused, func(g *compose.Graph, a *psAlignArgs) compose.Values {
			y, _ := alignOwn(g, a.Input, regionsOf(g, "boxes", a.Boxes), a.OutputSize, a.SpatialScale, a.SamplingRatio)
			return compose.Values{y}
		}),
		compose.Declare(compose.Op[psAlignListArgs]{
			Schema: "ps_roi_align.list(Tensor input, Tensor[] boxes, " + tail, Names: poolNames("ps_roi_align"),
			Doc: psAlignDoc,
			Cases: func(g opdef.Gen) (cs []*psAlignListArgs) {
				for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
					one, _ := someBoxes(g, dt, 2)
					other, _ := someBoxes(g, dt, 1)
					cs = append(cs, &psAlignListArgs{g.Normal(dt, 2, 8, 7, 6), []*tensor.Tensor{one, other},
						[]int{2, 2},
						0.75, 2})
				}
				return cs
			},
		}, compose.Fused, func(g *compose.Graph, a *psAlignListArgs) compose.Values {
			y, _ := alignOwn(g, a.Input, regionsOfList(g, a.Boxes), a.OutputSize, a.SpatialScale, a.SamplingRatio)
			return compose.Values{y}
		}),
		compose.Declare(compose.Op[psAlignNativeArgs]{
			Schema: "ps_roi_align.native(Tensor input, Tensor rois, float spatial_scale, int pooled_height, " +
				"int pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
			Names: "torch.ops.torchvision.ps_roi_align", Doc: psAlignDoc,
			Cases: opdef.Calls[psAlignNativeArgs](`
				for T in f64 f32: T[2, 12, 6, 8], T[3, 5]{= 0 1 1 6 5 1 -0.75 0 8.25 7 0 3.25 2 3.75 9}, 0.75, 2,
				3, 2`),
		}, compose.Fused, func(g *compose.Graph, a *psAlignNativeArgs) compose.Values {
			y, at := alignOwn(g, a.Input, regionsOf(g, "rois", a.Rois), []int{a.PooledHeight, a.PooledWidth},
				a.SpatialScale, a.SamplingRatio)
			return compose.Values{y, g.Const(at)}
		}),
	}
}
