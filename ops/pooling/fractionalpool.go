package pooling

import (
	"fmt"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

type fractionalArgs struct {
	Input         *tensor.Tensor
	KernelSize    []int
	OutputSize    []int
	OutputRatio   []float64
	ReturnIndices bool
	RandomSamples *tensor.Tensor
}

// plan sets pseudo-random windows from the samples, one triple a channel.
// Source: aten/src/ATen/native/FractionalMaxPool2d.cpp
func (a *fractionalArgs) plan(nd int) (in elements.Planes, k, out [3]int, err error) {
	if in, err = elements.PlanesOf("input", a.Input, nd); err != nil {
		return
	}
	if err = elements.WantFloat("input", a.Input); err != nil {
		return
	}
	if k, err = elements.SpatialSizes("kernel_size", a.KernelSize, nd, 1, 1); err != nil {
		return
	}
	switch {
	case a.OutputSize != nil:
		out, err = elements.SpatialSizes("output_size", a.OutputSize, nd, 1, 1)
	case a.OutputRatio == nil:
		err = opdef.Refuse("output_size", "want output_size or output_ratio")
	case len(a.OutputRatio) != nd:
		err = opdef.Refuse("output_ratio", "want %d numbers, got %d", nd, len(a.OutputRatio))
	default:
		out = [3]int{1, 1, 1}
		for d, r := range a.OutputRatio {
			if !(r > 0 && r < 1) {
				err = opdef.Refuse("output_ratio", "want numbers between 0 and 1, got %v", r)
				return
			}
			out[3-nd+d] = int(float64(in.Size[3-nd+d]) * r)
		}
	}
	for d := range out {
		if err == nil && out[d] < 1 {
			err = opdef.Refuse("output_ratio", "output size %d is too small", out[d])
		}
		if err == nil && out[d]+k[d]-1 > in.Size[d] {
			err = opdef.Refuse("kernel_size", "%d windows of %d do not fit size %d", out[d], k[d], in.Size[d])
		}
	}
	return
}

// fractionalStarts are the first elements of the windows of one dimension.
func fractionalStarts(in, out, k int, sample float64, single bool) []int {
	at := tensor.Make[int](out)
	if out > 1 {
		alpha := float64(in-k) / float64(out-1)
		if single {
			alpha = float64(float32(in-k) / float32(out-1))
		}
		for i := range out - 1 {
			if single {
				at[i] = int((float32(i)+float32(sample))*float32(alpha)) - int(float32(sample)*float32(alpha))
			} else {
				at[i] = int((float64(i)+sample)*alpha) - int(sample*alpha)
			}
		}
	}
	at[out-1] = in - k
	return at
}

func (a *fractionalArgs) max(nd int) (values, indices *tensor.Tensor, p elements.Planes, err error) {
	in, k, out, err := a.plan(nd)
	if err != nil {
		return nil, nil, in, err
	}
	batch, channels := 1, a.Input.Shape[0]
	if a.Input.Dim() == nd+2 {
		batch, channels = channels, a.Input.Shape[1]
	}
	samples := tensor.Make[float64](in.Rows * nd)
	if s := a.RandomSamples; s != nil {
		if !slices.Equal(s.Shape, []int{batch, channels, nd}) {
			return nil, nil, in, opdef.Refuse("_random_samples", "want shape [%d, %d, %d], got %s", batch, channels, nd,
				tensor.ShapeString(s.Shape))
		}
		samples = tensor.Data[float64](s)
	}
	shape := in.Shape(out)
	m := out[0] * out[1] * out[2]
	at := tensor.Make[int64](in.Rows * m)
	tensor.Parallel(in.Rows, 1, func(lo, hi int) {
		buf := tensor.Make[int](m)
		for row := lo; row < hi; row++ {
			p := pooling{Planes: in, win: kernel.Windows{In: in.Size, Step: [3]int{1, 1, 1}}}
			for d := range 3 {
				sample := 0.0
				if j := d - 3 + nd; j >= 0 { // the samples come in the order width, height, (time): depth first in 3-D
					sample = samples[row*nd+sampleOf(nd, j)]
				}
				for _, s := range fractionalStarts(in.Size[d], out[d], k[d], sample, a.Input.DType != tensor.Float64) {
					p.win.Lo[d] = append(p.win.Lo[d], s)
					p.win.Hi[d] = append(p.win.Hi[d], s+k[d])
				}
			}
			p.argmax(row, buf)
			for i, x := range buf {
				at[row*m+i] = int64(x)
			}
		}
	})
	return elements.GatherPlanes(in, shape, at), tensor.New(tensor.Int64, shape, at), in, nil
}

// sampleOf is the position of the sample of spatial dimension d: torch draws
// (width, height) in two dimensions and (time, height, width) in three.
func sampleOf(nd, d int) int {
	if nd == 2 {
		return 1 - d
	}
	return d
}

func fractionalPoolOps(nd int) []*opdef.Entry {
	name := fmt.Sprintf("fractional_max_pool%dd", nd)
	args := fmt.Sprintf("Tensor input, int[%d] kernel_size, int[%d]? output_size=None, float[%d]? "+
		"output_ratio=None, bool return_indices=False, Tensor? _random_samples=None", nd, nd, nd)
	declare := func(schema, names string, always bool) *opdef.Entry {
		grad := func(a *fractionalArgs, g *opdef.Grad) (opdef.Grads, error) {
			_, at, in, err := a.max(nd)
			if err != nil {
				return nil, err
			}
			gr := opdef.Grads{"input": {elements.ScatterPlanes(in, g.Out[0], tensor.Data[int64](at))}}
			if a.RandomSamples != nil {
				gr["_random_samples"] = []*tensor.Tensor{nil}
			}
			return gr, nil
		}
		return opdef.Op[fractionalArgs]{
			Schema: schema, Names: names,
			Doc: opdef.Doc{
				Summary: fmt.Sprintf("Largest element of windows at pseudo-random distances in %d dimensions", nd),
				Formula: "max of input[s(o) : s(o)+k], s(o) = int((o+u)*alpha) - int(u*alpha), alpha = (in-k)/(out-1)",
				Notes:   "u is _random_samples, drawn when absent.", Source: "torch.nn.functional." + name,
			},
			Error: opdef.Error{Class: opdef.Exact, Grad: &opdef.Error{Class: opdef.Accumulated}},
			Kernel: func(a *fractionalArgs) ([]*tensor.Tensor, error) {
				v, i, _, err := a.max(nd)
				if err != nil || !always && !a.ReturnIndices {
					return []*tensor.Tensor{v}, err
				}
				return []*tensor.Tensor{v, i}, nil
			},
			Grad: grad,
			Cases: func(g opdef.Gen) []*fractionalArgs {
				in := append([]int{2, 2}, slices.Repeat([]int{6}, nd)...)
				s := func(dt tensor.DType) *tensor.Tensor {
					return elements.Detached(g.Uniform(dt, 0, 1, 2, 2, nd))
				}
				list := func(n int) []int { return slices.Repeat([]int{n}, nd) }
				return []*fractionalArgs{
					{g.Distinct(tensor.Float64, in...), list(2), list(3), nil, false, s(tensor.Float64)},
					{g.Distinct(tensor.Float32, in...), list(2), nil, slices.Repeat([]float64{0.5}, nd), true,
						s(tensor.Float32)},
				}
			},
		}.Entry()
	}
	return []*opdef.Entry{
		declare(name+"("+args+") -> Tensor|Tensor[]", "F."+name, false),
		declare(name+"_with_indices("+args+") -> (Tensor, Tensor)", "F."+name+"_with_indices", true),
	}
}

func (a *fractionalArgs) Random() string {
	if a.RandomSamples == nil {
		return elements.DrawsRandomNumbers
	}
	return ""
}
