package indexing

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/shape"
	"github.com/optool/optool/tensor"
)

type embeddingBagArgs struct {
	Input, Weight     *tensor.Tensor
	Offsets           *tensor.Tensor
	MaxNorm           *float64
	NormType          float64
	ScaleGradByFreq   bool
	Mode              string
	PerSampleWeights  *tensor.Tensor
	IncludeLastOffset bool
	PaddingIdx        *int
}

var embeddingBagOp = opdef.Planned[*embeddingBagArgs, *bagged]{
	Schema: "embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float " +
		"norm_type=2, bool scale_grad_by_freq=False, str mode='mean', " +
		"ignored sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int? " +
		"padding_idx=None) -> Tensor",
	Names: "F.embedding_bag",
	Doc: opdef.Doc{Summary: "Sums, means or maxima of bags of rows of a table",
		Formula: "out[b] = reduce(per_sample_weights[i]*weight[input[i]] for i in bag b)",
		Notes:   "An empty bag gives 0; entries equal to padding_idx are left out."},
	Error:  opdef.Error{Class: opdef.Accumulated, ULPs: 2},
	Plan:   (*embeddingBagArgs).bags,
	Kernel: func(b *bagged) ([]*tensor.Tensor, error) { return []*tensor.Tensor{b.reduce(b.table, b.scale)}, nil },
	Bounds: opdef.Bounds[*bagged]{
		Scale: func(b *bagged, outs []*tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{b.reduce(opdef.Abs(b.table), absSlice(b.scale))}
		},
		Terms: func(b *bagged) int { return max(1, b.args.Input.Numel()) },
		GradScale: func(b *bagged, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
			table := opdef.Abs(b.table)
			if b.mode == "max" {
				table = b.table
			}
			return b.grads(opdef.Abs(g.Out[0]), table, absSlice(b.scale)), nil
		},
		GradTerms: func(b *bagged) int { return max(b.args.Input.Numel(), b.args.Weight.Shape[1], 1) },
	},
	Grad: func(b *bagged, g *opdef.Grad) (opdef.Grads, error) { return b.grads(g.Out[0], b.table, b.scale), nil },
	// The weights of the samples come second, None without any.
	Node: func(b *bagged, g *opdef.Grad) (opdef.Node, error) {
		gr := b.grads(g.Out[0], b.table, b.scale)
		n := opdef.Node{Grads: []*tensor.Tensor{gr["weight"][0], nil}}
		if p := gr["per_sample_weights"]; p != nil && b.args.PerSampleWeights.RequiresGrad {
			n.Grads[1] = p[0].Reshape(p[0].Numel()) // of bags as rows too
		}
		if !b.args.Weight.RequiresGrad {
			n.Grads[0] = nil
		}
		return n, nil
	},
	Cases: opdef.Calls[embeddingBagArgs](`
		i64[2, 3]{0..4}, f32[5, 3]
		i64[6]{0..4}, f64[5, 3], offsets=i64[3]{= 0 2 2}, mode='sum', per_sample_weights=f64[6]
		i64[6]{0..4}, f64[5, 3]{distinct}, offsets=i64[3]{= 0 2 2}, mode='max'
		i64[4]{0..4}, f64[5, 2], offsets=i64[3]{= 0 2 2}, mode='sum', include_last_offset=True, padding_idx=1`),
}.Entry()

func (b *bagged) ErrorOf() opdef.Error {
	if b.args.Mode == "max" && b.args.MaxNorm == nil {
		return opdef.Error{Class: opdef.Exact, Grad: embeddingGradError}
	}
	return opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}}
}

func (b *bagged) After([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	if b.args.MaxNorm == nil {
		return nil, nil
	}
	return map[string][]*tensor.Tensor{"weight": {b.table}}, nil
}

// Mistakes are indices at one end of each bag that are left out, and count in the mean or do not, weights of other
// samples, and other numbers by which a mean is divided.
func (b *bagged) Mistakes() (out []opdef.Mistake[any]) {
	if b.mode == "max" || len(b.bag) < 2 {
		return nil
	}
	size := map[int64]float64{}
	for _, bag := range b.bag {
		size[bag]++
	}
	if b.mode == "mean" && b.args.PaddingIdx != nil {
		if starts, err := b.args.starts(); err == nil {
			text := "indices that equal padding_idx count in the number by which is divided"
			out = append(out, opdef.Mistake[any]{Text: text,
				Plan: func() (any, error) {
					m := *b
					m.scale = slices.Clone(b.scale)
					for k, bag := range b.bag {
						m.scale[k] = 1 / float64(starts[bag+1]-starts[bag])
					}
					return &m, nil
				}})
		}
	}
	first := slices.Clone(b.from) // of the bag of each entry
	for k := range first {
		if k > 0 && b.bag[k] == b.bag[k-1] {
			first[k] = first[k-1]
		}
	}
	scaled := func(text string, by func(k int) float64) {
		out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			m := *b
			m.scale = make([]float64, len(b.scale))
			for k := range m.scale {
				m.scale[k] = by(k)
			}
			return &m, nil
		}})
	}
	if w := b.args.PerSampleWeights; w != nil {
		weights := tensor.Make[float64](w.Numel())
		tensor.Load(w, 0, weights)
		scaled("per_sample_weights are read from the first one on in each bag", func(k int) float64 {
			return weights[b.from[k]-first[k]]
		})
	}
	if b.mode == "mean" {
		largest := 0.0
		for _, n := range size {
			largest = max(largest, n)
		}
		scaled("all bags are divided by the size of the largest", func(int) float64 { return 1 / largest })
		scaled("all bags are divided by the number of all indices", func(int) float64 {
			return 1 / float64(b.args.Input.Numel())
		})
		scaled("bags are divided by the number of indices from their first one on, up to the end of all",
			func(k int) float64 { return 1 / float64(int64(b.args.Input.Numel())-first[k]) })
	}
	for _, end := range []struct {
		text string
		is   func(k int) bool
	}{
		{"the last index of each bag is left out", func(k int) bool {
			return k == len(b.bag)-1 || b.bag[k] != b.bag[k+1]
		}},
		{"the first index of each bag is left out", func(k int) bool { return k == 0 || b.bag[k] != b.bag[k-1] }},
	} {
		for _, counts := range []bool{true, false} {
			text := end.text
			switch {
			case b.mode != "mean" && !counts:
				continue
			case b.mode == "mean" && counts:
				text += ", but counts in the number by which is divided"
			case b.mode == "mean":
				text += ", and does not count"
			}
			out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
				m := *b
				m.scale = slices.Clone(b.scale)
				for k := range m.scale {
					if n := size[b.bag[k]]; end.is(k) {
						m.scale[k] = 0
					} else if !counts {
						m.scale[k] *= n / (n - 1)
					}
				}
				return &m, nil
			}})
		}
	}
	return out
}

func absSlice(v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = math.Abs(x)
	}
	return out
}

// bagged are the entries of an embedding_bag, without padding: entry k is the
// element from[k] of the input, reads row idx[k] of the table with the factor
// scale[k], and belongs to bag bag[k]; entries of a bag are adjacent.
type bagged struct {
	args           *embeddingBagArgs
	table          *tensor.Tensor // after max_norm
	mode           string
	bags           int
	idx, bag, from []int64
	scale          []float64
	// maxima are the rows of the table that the elements of the result are of, where that is given.
	maxima []int64
}

func (a *embeddingBagArgs) bags() (*bagged, error) {
	if a.Weight.Dim() != 2 || !a.Weight.DType.IsFloat() {
		return nil, opdef.Refuse("weight", "want a matrix of floating numbers, got %s", a.Weight.Meta())
	}
	if err := checkIndex("input", a.Input, 0, a.Weight.Shape[0]); err != nil {
		return nil, err
	}
	pad, err := paddingRow(a.PaddingIdx, a.Weight.Shape[0])
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"sum", "mean", "max"}, a.Mode) {
		return nil, opdef.Refuse("mode", "want \"sum\", \"mean\" or \"max\", got %q", a.Mode)
	}
	if p := a.PerSampleWeights; p != nil {
		switch {
		case a.Mode != "sum":
			return nil, opdef.Refuse("per_sample_weights", "only mode \"sum\" has weights, not %q", a.Mode)
		case !slices.Equal(p.Shape, a.Input.Shape):
			return nil, opdef.Refuse("per_sample_weights", "want shape %s, got %s", tensor.ShapeString(a.Input.Shape),
				tensor.ShapeString(p.Shape))
		case p.DType != a.Weight.DType:
			return nil, opdef.Refuse("per_sample_weights", "want dtype %s, got %s", a.Weight.DType, p.DType)
		}
	}
	starts, err := a.starts()
	if err != nil {
		return nil, err
	}
	b := &bagged{args: a, mode: a.Mode, bags: len(starts) - 1}
	idx := tensor.Data[int64](a.Input)
	var weights []float64
	if a.PerSampleWeights != nil {
		weights = tensor.Data[float64](a.PerSampleWeights)
	}
	for bag := range b.bags {
		first := len(b.idx)
		for i := starts[bag]; i < starts[bag+1]; i++ {
			if idx[i] == int64(pad) {
				continue
			}
			b.idx, b.bag, b.from = append(b.idx, idx[i]), append(b.bag, int64(bag)), append(b.from, int64(i))
			w := 1.0
			if weights != nil {
				w = weights[i]
			}
			b.scale = append(b.scale, w)
		}
		if n := len(b.idx) - first; a.Mode == "mean" {
			for k := range n {
				b.scale[first+k] = 1 / float64(n)
			}
		}
	}
	l := &lookup{weight: a.Weight, index: a.Input, idx: idx}
	b.table, err = l.renormed(a.MaxNorm, a.NormType)
	return b, err
}

// starts are the elements of the input at which the bags start, and its length.
func (a *embeddingBagArgs) starts() ([]int, error) {
	n := a.Input.Numel()
	switch {
	case a.Input.Dim() == 2 && a.Offsets != nil:
		return nil, opdef.Refuse("offsets", "the rows of a matrix are its bags")
	case a.Input.Dim() == 2:
		out := tensor.Make[int](a.Input.Shape[0] + 1)
		for i := range out {
			out[i] = i * a.Input.Shape[1]
		}
		return out, nil
	case a.Input.Dim() != 1:
		return nil, opdef.Refuse("input", "want one or two dimensions, got %s", a.Input.Meta())
	case a.Offsets == nil || a.Offsets.Dim() != 1:
		return nil, opdef.Refuse("offsets", "want a vector for an input of one dimension")
	}
	if err := checkIndex("offsets", a.Offsets, 0, n+1); err != nil {
		return nil, err
	}
	out := shape.ToInts(tensor.Data[int64](a.Offsets))
	if len(out) > 0 && out[0] != 0 || a.IncludeLastOffset && len(out) == 0 {
		return nil, opdef.Refuse("offsets", "the first bag does not start at 0")
	}
	if !slices.IsSorted(out) {
		return nil, opdef.Refuse("offsets", "offsets decrease")
	}
	if a.IncludeLastOffset {
		return out, nil
	}
	return append(out, n), nil
}

// entries are the entries [lo, hi) of a bag.
func (b *bagged) entries(bag int) (lo, hi int) {
	lo, _ = slices.BinarySearch(b.bag, int64(bag))
	hi, _ = slices.BinarySearch(b.bag, int64(bag+1))
	return lo, hi
}

func (b *bagged) reduce(table *tensor.Tensor, scale []float64) *tensor.Tensor {
	n := table.Shape[1]
	return opdef.Rows(table.DType, []int{b.bags, n}, n, func(bag int, dst []float64) {
		clear(dst)
		row := opdef.Scratch[float64](n)
		lo, hi := b.entries(bag)
		for k := lo; k < hi; k++ {
			tensor.Load(table, int(b.idx[k])*n, *row)
			for i, x := range *row {
				switch {
				case b.mode != "max":
					dst[i] += scale[k] * x
				case k == lo || x > dst[i]:
					dst[i] = x
				}
			}
		}
		opdef.Release(row)
	})
}

// grads are the gradients of the table and the weights of the samples.
func (b *bagged) grads(g, table *tensor.Tensor, scale []float64) opdef.Grads {
	n := table.Shape[1]
	gr := opdef.Grads{}
	if b.mode == "max" {
		from, to := b.largest()
		gr.Set("weight", runs.ScatterAdd(table.Shape, runs.Pick(g, []int{len(from)}, runs.AtStarts(1, from)),
			runs.AtStarts(1, to)))
	} else {
		factor := scale
		if b.args.ScaleGradByFreq {
			count := map[int64]float64{}
			for _, i := range b.idx {
				count[i]++
			}
			factor = make([]float64, len(scale))
			for k, i := range b.idx {
				factor[k] = scale[k] / count[i]
			}
		}
		rows := opdef.Rows(g.DType, []int{len(b.idx), n}, n, func(k int, dst []float64) {
			tensor.Load(g, int(b.bag[k])*n, dst)
			for i := range dst {
				dst[i] *= factor[k]
			}
		})
		gr.Set("weight", runs.ScatterAdd(table.Shape, rows, SlicesOf(table.Shape, 0, b.idx)))
	}
	if p := b.args.PerSampleWeights; p != nil {
		dots := tensor.Lazy(p.DType, []int{len(b.idx)}, 1, func(lo int, dst []float64) {
			x, y := opdef.Scratch[float64](n), opdef.Scratch[float64](n)
			for i := range dst {
				tensor.Load(g, int(b.bag[lo+i])*n, *x)
				tensor.Load(table, int(b.idx[lo+i])*n, *y)
				for k, v := range *y {
					(*x)[k] *= v
				}
				dst[i] = opdef.PairwiseSum(*x)
			}
			opdef.Release(x)
			opdef.Release(y)
		})
		gr.Set("per_sample_weights", runs.ScatterAdd(p.Shape, dots, runs.AtStarts(1, b.from)))
	}
	return gr
}

// largest lists the elements of the result that are maxima of a bag that is
// not empty, and the elements of the table that they are.
func (b *bagged) largest() (from, to []int64) {
	n := b.table.Shape[1]
	if b.maxima != nil {
		for bag := range b.bags {
			if lo, hi := b.entries(bag); lo == hi {
				continue
			}
			for i := bag * n; i < (bag+1)*n; i++ {
				from, to = append(from, int64(i)), append(to, b.maxima[i]*int64(n)+int64(i%n))
			}
		}
		return from, to
	}
	best, at, row := tensor.Make[float64](n), tensor.Make[int64](n), tensor.Make[float64](n)
	for bag := range b.bags {
		lo, hi := b.entries(bag)
		for k := lo; k < hi; k++ {
			tensor.Load(b.table, int(b.idx[k])*n, row)
			for i, x := range row {
				if k == lo || x > best[i] {
					best[i], at[i] = x, b.idx[k]*int64(n)+int64(i)
				}
			}
		}
		for i := range n {
			if lo < hi {
				from, to = append(from, int64(bag*n+i)), append(to, at[i])
			}
		}
	}
	return from, to
}
