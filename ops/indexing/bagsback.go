package indexing

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// bagGradients are ATen's gradients of embedding_bag: of the table, and of the weights of the samples.
var bagGradients = []*opdef.Entry{
	bagGradient("_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor "+
		"bag_size, "+
		"Tensor maximum_indices, int num_weights, bool scale_grad_by_freq, int mode, bool sparse, Tensor? "+
		"per_sample_weights, int padding_idx=-1) -> Tensor", func(a *bagBackArgs) (*bagBack, error) {
		if a.Sparse {
			return nil, opdef.Unsupported("sparse", "the gradient is a sparse tensor")
		}
		return a.plan()
	}, func(a *bagBackArgs) *bagBackArgs { return a }),
	bagGradient("_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, "+
		"Tensor "+
		"maximum_indices, int num_weights, bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, int "+
		"padding_idx=-1) -> Tensor", func(a *bagDenseArgs) (*bagBack, error) {
		return (&bagBackArgs{Grad: a.Grad, Indices: a.Indices, Offset2bag: a.Offset2bag, BagSize: a.BagSize,
			MaximumIndices: a.MaximumIndices, NumWeights: a.NumWeights, ScaleGradByFreq: a.ScaleGradByFreq,
			Mode:             a.Mode,
			PerSampleWeights: a.PerSampleWeights, PaddingIdx: a.PaddingIdx}).plan()
	}, func(a *bagBackArgs) *bagDenseArgs {
		return &bagDenseArgs{a.Grad, a.Indices, a.Offset2bag, a.BagSize, a.MaximumIndices, a.NumWeights,
			a.ScaleGradByFreq, a.Mode, a.PerSampleWeights, a.PaddingIdx}
	}),
	bagGradient("_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor "+
		"offsets, "+
		"Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor", func(a *bagWeightArgs) (*bagBack, error) {
		if a.Mode != 0 {
			return nil, opdef.Refuse("mode", "want 0 (sum), got %d", a.Mode)
		}
		if a.Weight.Dim() != 2 || a.Weight.DType != a.Grad.DType {
			return nil, opdef.Refuse("weight", "want a matrix of %s, got %s", a.Grad.DType, a.Weight.Meta())
		}
		p, err := (&bagBackArgs{Grad: a.Grad, Indices: a.Indices, Offsets: a.Offsets, Offset2bag: a.Offset2bag,
			NumWeights: a.Weight.Shape[0], PaddingIdx: a.PaddingIdx}).plan()
		if err != nil {
			return nil, err
		}
		p.of, p.bag.table = "per_sample_weights", a.Weight
		p.bag.args.PerSampleWeights = tensor.Full(a.Grad.DType, a.Indices.Shape, 0.0)
		return p, nil
	}, func(a *bagBackArgs) *bagWeightArgs {
		if a.Mode != 0 {
			return nil
		}
		return &bagWeightArgs{a.Grad, tensor.Full(a.Grad.DType, []int{a.NumWeights, a.Grad.Shape[1]}, 0.5), a.Indices,
			a.Offsets, a.Offset2bag, 0, a.PaddingIdx}
	}),
}

type bagBackArgs struct {
	Grad, Indices, Offsets, Offset2bag, BagSize, MaximumIndices *tensor.Tensor
	NumWeights                                                  int
	ScaleGradByFreq                                             bool
	Mode                                                        int
	Sparse                                                      bool
	PerSampleWeights                                            *tensor.Tensor
	PaddingIdx                                                  int
}

type bagDenseArgs struct {
	Grad, Indices, Offset2bag, BagSize, MaximumIndices *tensor.Tensor
	NumWeights                                         int
	ScaleGradByFreq                                    bool
	Mode                                               int
	PerSampleWeights                                   *tensor.Tensor
	PaddingIdx                                         int
}

type bagWeightArgs struct {
	Grad, Weight, Indices, Offsets, Offset2bag *tensor.Tensor
	Mode, PaddingIdx                           int
}

// A bagBack is a checked gradient of an embedding_bag.
type bagBack struct {
	bag *bagged // not embedded: it has abilities that the gradient lacks
	up  *tensor.Tensor
	of  string
}

// bagGradient declares a gradient of embedding_bag; from makes its cases.
func bagGradient[A any](schema string, plan func(a *A) (*bagBack, error), from func(a *bagBackArgs) *A) *opdef.Entry {
	name := opdef.Must(opdef.ParseSchema(schema)).Name
	return opdef.Planned[*A, *bagBack]{
		Schema: schema, Names: "torch.ops.aten." + name, Plan: plan,
		Doc: opdef.Doc{Summary: "Gradient of embedding_bag by the bags of its indices",
			Formula: "the sum of grad[bag] * per_sample_weights, / bag_size for the mean, of each row",
			Source:  "aten/src/ATen/native/EmbeddingBag.cpp"},
		Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 4},
		Traits: opdef.Traits{NoGrad: "a gradient itself", Trivial: true},

		Kernel: func(p *bagBack) ([]*tensor.Tensor, error) {
			return elements.Single(p.bag.grads(p.up, p.bag.table, p.bag.scale)[p.of][0]), nil
		},
		Bounds: opdef.Bounds[*bagBack]{
			Scale: func(p *bagBack, _ []*tensor.Tensor) []*tensor.Tensor {
				s := p.bag.grads(opdef.Abs(p.up), opdef.Abs(p.bag.table), absSlice(p.bag.scale))[p.of][0]
				return elements.Single(s.WithDType(tensor.Float64))
			},
			Terms: func(p *bagBack) int { return max(len(p.bag.idx), p.bag.table.Shape[1], 1) },
		},
		Cases: func(g opdef.Gen) (out []*A) {
			ints := func(ns ...int64) *tensor.Tensor { return tensor.New(tensor.Int64, []int{len(ns)}, ns) }
			for mode := range 3 {
				a := &bagBackArgs{Grad: elements.Detached(g.Normal(tensor.Float32, 3, 2)), Indices: ints(0, 3, 3, 1),
					Offsets: ints(0, 2, 2), Offset2bag: ints(0, 0, 2, 2), BagSize: ints(2, 0, 2), NumWeights: 4,
					Mode:           mode,
					MaximumIndices: tensor.New(tensor.Int64, []int{3, 2}, []int64{0, 3, 0, 0, 3, 1}), PaddingIdx: -1}
				if mode == 0 {
					a.PerSampleWeights, a.ScaleGradByFreq = elements.Detached(g.Normal(tensor.Float32, 4)), true
				}
				if c := from(a); c != nil {
					out = append(out, c)
				}
			}
			return out
		},
	}.Entry()
}

// check refuses arguments that do not fit.
func (a *bagBackArgs) check() error {
	up := a.Grad
	switch {
	case up.Dim() != 2 || !up.DType.IsFloat():
		return opdef.Refuse("grad", "want a matrix of floating numbers, got %s", up.Meta())
	case a.Mode < 0 || a.Mode > 2:
		return opdef.Refuse("mode", "want 0 (sum), 1 (mean) or 2 (max), got %d", a.Mode)
	case a.Indices.Dim() != 1:
		return opdef.Refuse("indices", "want a vector, got %s", a.Indices.Meta())
	case a.PerSampleWeights != nil && !slices.Equal(a.PerSampleWeights.Shape, a.Indices.Shape):
		return opdef.Refuse("per_sample_weights", "want shape %s, got %s", tensor.ShapeString(a.Indices.Shape),
			tensor.ShapeString(a.PerSampleWeights.Shape))
	}
	if err := tensor.CheckSize([]int{max(0, a.NumWeights), up.Shape[1]}); err != nil || a.NumWeights < 0 {
		return opdef.Refuse("num_weights", "no table of %d rows", a.NumWeights)
	}
	return checkIndex("indices", a.Indices, 0, a.NumWeights)
}

// plan finds the bags of the indices.
func (a *bagBackArgs) plan() (*bagBack, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	of, err := a.bagOf()
	if err != nil {
		return nil, err
	}
	up := a.Grad
	b := &bagged{args: &embeddingBagArgs{ScaleGradByFreq: a.ScaleGradByFreq}, mode: []string{"sum", "mean",
		"max"}[a.Mode],
		bags: up.Shape[0], table: tensor.Full(up.DType, []int{a.NumWeights, up.Shape[1]}, 0.0)}
	idx := tensor.Data[int64](a.Indices)
	weights := slices.Repeat([]float64{1}, len(idx))
	if a.PerSampleWeights != nil {
		weights = tensor.Data[float64](a.PerSampleWeights)
	}
	count := tensor.Make[float64](b.bags)
	for i, bag := range of {
		if bag < 0 || int(bag) >= b.bags || i > 0 && bag < of[i-1] {
			return nil, opdef.Refuse("offset2bag", "%d of %d bags at position %d", bag, b.bags, i)
		}
		if idx[i] == int64(a.PaddingIdx) {
			continue
		}
		count[bag]++
		b.idx, b.bag, b.from, b.scale = append(b.idx, idx[i]), append(b.bag, bag), append(b.from, int64(i)),
			append(b.scale, weights[i])
	}
	if b.mode == "mean" {
		for k, bag := range b.bag {
			b.scale[k] /= count[bag]
		}
	}
	if b.mode == "max" {
		if !slices.Equal(a.MaximumIndices.Shape, up.Shape) {
			return nil, opdef.Refuse("maximum_indices", "want shape %s, got %s", tensor.ShapeString(up.Shape),
				tensor.ShapeString(a.MaximumIndices.Shape))
		}
		if err := checkIndex("maximum_indices", a.MaximumIndices, 0, a.NumWeights); err != nil {
			return nil, err
		}
		b.maxima = tensor.Data[int64](a.MaximumIndices)
	}
	return &bagBack{b, up, "weight"}, nil
}

// bagOf are the bags of the indices, which offsets tell where offset2bag is empty.
func (a *bagBackArgs) bagOf() ([]int64, error) {
	n := a.Indices.Numel()
	if a.Offset2bag.Numel() == n {
		return tensor.Data[int64](a.Offset2bag), nil
	}
	if a.Offsets == nil || a.Offset2bag.Numel() != 0 {
		return nil, opdef.Refuse("offset2bag", "want %d elements, got %d", n, a.Offset2bag.Numel())
	}
	starts, err := (&embeddingBagArgs{Input: a.Indices, Offsets: a.Offsets,
		IncludeLastOffset: a.Offsets.Numel() == a.Grad.Shape[0]+1}).starts()
	if err != nil {
		return nil, err
	}
	out := tensor.Make[int64](n)
	for bag := range len(starts) - 1 {
		for i := starts[bag]; i < starts[bag+1]; i++ {
			out[i] = int64(bag)
		}
	}
	return out, nil
}
