package detection

import (
	"math"

	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type roiAlignArgs struct {
	Input, Boxes  *tensor.Tensor
	OutputSize    []int
	SpatialScale  float64
	SamplingRatio int
	Aligned       bool
}

type roiAlignListArgs struct {
	Input         *tensor.Tensor
	Boxes         []*tensor.Tensor
	OutputSize    []int
	SpatialScale  float64
	SamplingRatio int
	Aligned       bool
}

type roiAlignNativeArgs struct {
	Input, Rois                              *tensor.Tensor
	SpatialScale                             float64
	PooledHeight, PooledWidth, SamplingRatio int
	Aligned                                  bool
}

var roiAlignDoc = opdef.Doc{Summary: "Regions of images, resampled to one size by bilinear interpolation",
	Formula: "output[r, c, i, j] = mean of input[box r's image, c] at sampling_ratio^2 points of bin (i, j) of box r",
	Notes: "input is (N, C, H, W), a row of boxes (image, x1, y1, x2, y2), or with one tensor of boxes per image " +
		"(x1, y1, x2, y2), times spatial_scale. Without sampling_ratio there are ceil(height of a bin) by " +
		"ceil(width) points. aligned shifts boxes by half a pixel, else they are at least 1 pixel large. Boxes " +
		"have no gradient.",
	Source: "torchvision.ops.roi_align"}

var roiAlign = compose.Declare(compose.Op[roiAlignArgs]{
	Schema: "roi_align(Tensor input, Tensor boxes, int[2] output_size, float spatial_scale=1.0, " +
		"int sampling_ratio=-1, bool aligned=False) -> Tensor",
	Names: "torchvision.roi_align torchvision.ops.roi_align torchvision.ops.roi_align.roi_align", Doc: roiAlignDoc,
	Cases: opdef.Calls[roiAlignArgs](`
		for T in f64 f32: T[2, 3, 6, 8], T[3, 5]{= 0 1 1 6 5 1 -0.75 0 8.25 7 0 3.5 2 3.75 9}, [2, 3],
		sampling_ratio=2;
		T[2, 1, 6, 8], T[3, 5]{= 0 1 1 6 5 1 -0.75 0 8.25 7 0 3.5 2 3.75 9}, [3, 2], spatial_scale=0.5,
		aligned=True
		f64[1, 2, 4, 4], f64[0, 5]{=}, [2, 2], sampling_ratio=2`),
}, compose.Fused, func(g *compose.Graph, a *roiAlignArgs) compose.Values {
	return alignRegions(g, a.Input, regionsOf(g, "boxes", a.Boxes), a.OutputSize, roiGrid{samples: a.SamplingRatio,
		scale: a.SpatialScale, aligned: a.Aligned})
})

var roiAlignList = compose.Declare(compose.Op[roiAlignListArgs]{
	Schema: "roi_align.list(Tensor input, Tensor[] boxes, int[2] output_size, float spatial_scale=1.0, " +
		"int sampling_ratio=-1, bool aligned=False) -> Tensor",
	Names: "torchvision.roi_align torchvision.ops.roi_align torchvision.ops.roi_align.roi_align", Doc: roiAlignDoc,
	Cases: func(g opdef.Gen) (cs []*roiAlignListArgs) {
		for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
			one, _ := someBoxes(g, dt, 2)
			other, _ := someBoxes(g, dt, 1)
			cs = append(cs, &roiAlignListArgs{g.Normal(dt, 2, 2, 7, 6), []*tensor.Tensor{one, other}, []int{2, 2}, 0.75,
				2, true})
		}
		return cs
	},
}, compose.Fused, func(g *compose.Graph, a *roiAlignListArgs) compose.Values {
	return alignRegions(g, a.Input, regionsOfList(g, a.Boxes), a.OutputSize, roiGrid{samples: a.SamplingRatio,
		scale:   a.SpatialScale,
		aligned: a.Aligned})
})

var roiAlignNative = compose.Declare(compose.Op[roiAlignNativeArgs]{
	Schema: "roi_align.native(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, " +
		"int sampling_ratio, bool aligned) -> Tensor",
	Names: "torch.ops.torchvision.roi_align", Doc: roiAlignDoc,
	Cases: opdef.Calls[roiAlignNativeArgs](`
		for T in f64 f32: T[2, 2, 6, 6], T[2, 5]{= 1 0.5 1 4 5 0 2 0.25 5 3}, 0.75, 2, 3, 2, False`),
}, compose.Fused, func(g *compose.Graph, a *roiAlignNativeArgs) compose.Values {
	return alignRegions(g, a.Input, regionsOf(g, "rois", a.Rois), []int{a.PooledHeight, a.PooledWidth},
		roiGrid{samples: a.SamplingRatio, scale: a.SpatialScale, aligned: a.Aligned})
})

// A region is a box (x1, y1, x2, y2) of an image.
type region struct {
	image int
	box   [4]float64
}

// regionsOf reads rows (image, x1, y1, x2, y2).
func regionsOf(g *compose.Graph, arg string, t *tensor.Tensor) []region {
	if t.Dim() != 2 || t.Shape[1] != 5 || !t.DType.IsFloat() {
		g.Refuse(arg, "want floating rows of 5 numbers, got %s", t.Meta())
	}
	v := tensor.Data[float64](t)
	out := tensor.Make[region](t.Shape[0])
	for r := range out {
		out[r] = region{int(v[5*r]), [4]float64(v[5*r+1:])}
	}
	return out
}

// alignRegions multiplies the pixels of each channel by the weights that they have
// in the bins of all regions.
func alignRegions(g *compose.Graph, input *tensor.Tensor, regions []region, size []int,
	grid roiGrid) compose.Values {
	if input.Dim() != 4 || !input.DType.IsFloat() || tensor.Numel(input.Shape[2:]) == 0 {
		g.Refuse("input", "want a floating tensor of 4 dimensions with pixels, got %s", input.Meta())
	}
	if len(size) != 2 || min(size[0], size[1]) < 1 {
		g.Refuse("output_size", "want two numbers of bins, got %v", size)
	}
	if err := tensor.CheckSize([]int{len(regions), input.Shape[1], size[0], size[1]}); err != nil {
		g.Refuse("output_size", "%v", err)
	}
	grid.rows, grid.cols = size[0], size[1]
	images, channels := input.Shape[0], input.Shape[1]
	grid.height, grid.width = input.Shape[2], input.Shape[3]
	grid.round, grid.eps = input.DType.Round, input.DType.Eps()
	pixels, bins := grid.height*grid.width, grid.rows*grid.cols
	weights := compose.NewSparseMatrix(len(regions)*bins, images*pixels)
	for r, at := range regions {
		if at.image < 0 || at.image >= images {
			g.Refuse("boxes", "image %d of %d", at.image, images)
		}
		if !grid.weights(at.box, func(bin, pixel int, weight, slack float64) {
			weights.Add(r*bins+bin, at.image*pixels+pixel, weight, slack)
		}) {
			g.Refuse("boxes", "box %v wants more than %d samples", at.box, mostSamples)
		}
	}
	x := g.Reshape(g.Transpose(g.Arg("input", input), 0, 1), channels, images*pixels)
	y := g.Reshape(g.SparseMatmul(weights, x), channels, len(regions), grid.rows, grid.cols)
	return compose.Values{g.Transpose(y, 0, 1)}
}

// A roiGrid is the way regions are sampled.
type roiGrid struct {
	height, width int // of the input
	rows, cols    int // bins
	samples       int // per bin and dimension; 0 or less: as many as fit
	scale         float64
	aligned       bool                  // pixel centres lie at half-integers
	round         func(float64) float64 // to the dtype that devices compute positions in
	eps           float64               // of that dtype
}

// coordinateRoundings is how many roundings of its magnitude a position is known
// to: the box is scaled, shifted, divided and added to.
const coordinateRoundings = 6

// mostSamples is how many points of a region are looked at at most.
const mostSamples = 1 << 24

// corners are those of a box in pixels, and the height and width of its bins.
func (g roiGrid) corners(box [4]float64) (corner [4]float64, bin [2]float64) {
	offset := 0.0
	if g.aligned {
		offset = 0.5
	}
	for i, v := range box {
		corner[i] = v*g.scale - offset
	}
	w, h := corner[2]-corner[0], corner[3]-corner[1]
	if !g.aligned {
		w, h = max(w, 1), max(h, 1)
	}
	return corner, [2]float64{h / float64(g.rows), w / float64(g.cols)}
}

// count is how many points there are along a bin of that size.
func (g roiGrid) count(bin float64) float64 {
	if g.samples > 0 {
		return float64(g.samples)
	}
	return math.Ceil(g.round(bin))
}

// weights calls add for every pixel that takes part in a bin of a region, with its
// weight and how many units of roundoff that is known to. It reports whether the
// region has samples few enough.
func (g roiGrid) weights(box [4]float64, add func(bin, pixel int, weight, slack float64)) bool {
	corner, bin := g.corners(box)
	samples := [2]float64{max(0, g.count(bin[0])), max(0, g.count(bin[1]))}
	count := max(samples[0]*samples[1], 1)
	if !(count*float64(g.rows*g.cols) <= mostSamples) {
		return bin[0] != bin[0] || bin[1] != bin[1] // of NaN no pixel takes part
	}
	ny, nx := int(samples[0]), int(samples[1])
	far := 1.0
	for _, v := range corner {
		far = max(far, math.Abs(v))
	}
	slack := coordinateRoundings * far
	reach := min(slack*g.eps, float64(g.height+g.width))
	for p := range g.rows {
		for q := range g.cols {
			for i := range ny {
				for j := range nx {
					y := corner[1] + float64(p)*bin[0] + (float64(i)+0.5)*bin[0]/float64(ny)
					x := corner[0] + float64(q)*bin[1] + (float64(j)+0.5)*bin[1]/float64(nx)
					g.sample(y, x, reach, func(pixel int, weight float64) {
						add(p*g.cols+q, pixel, weight/count, slack/count)
					})
				}
			}
		}
	}
	return true
}

// sample gives the pixels around a point with their bilinear weights, those of weight 0
// as well that a point which is off by reach has; points more than one pixel outside have none.
func (g roiGrid) sample(y, x, reach float64, add func(pixel int, weight float64)) {
	if !(y >= -1 && y <= float64(g.height) && x >= -1 && x <= float64(g.width)) {
		return
	}
	y, x = min(max(y, 0), float64(g.height-1)), min(max(x, 0), float64(g.width-1))
	top, bottom := neighbours(y, reach, g.height)
	left, right := neighbours(x, reach, g.width)
	for i := top; i <= bottom; i++ {
		for j := left; j <= right; j++ {
			add(i*g.width+j, max(0, 1-math.Abs(y-float64(i)))*max(0, 1-math.Abs(x-float64(j))))
		}
	}
}

// neighbours are the first and last of n pixels that are less than 1 away from a point between v-reach and v+reach.
func neighbours(v, reach float64, n int) (first, last int) {
	return max(0, int(math.Floor(v-reach))), min(n-1, int(math.Ceil(v+reach)))
}
