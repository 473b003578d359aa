package normalization

import (
	"fmt"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

// paddedMoments adds statistics of rows whose incomplete tile is filled up with zeros that count somewhere.
func (n *normalisation) paddedMoments(add func(text string, with func(m *normalisation))) {
	size := 1
	for _, d := range n.dims {
		size *= n.x.Shape[d]
	}
	for _, padded := range paddedSizes(size) {
		p := float64(padded)
		zeros := fmt.Sprintf("zeros that fill up %d elements to %d", size, padded)
		skewed := func(text string, of func(a reduction.Moments) reduction.Moments) {
			add(fmt.Sprintf(text, zeros), func(m *normalisation) { m.skewed = of })
		}
		skewed("the statistics count %s", func(a reduction.Moments) reduction.Moments {
			mean := a.Mean * a.N / p
			return reduction.Moments{N: p, Mean: mean, M2: a.M2 + a.N*a.Mean*a.Mean - p*mean*mean}
		})
		if n.rms {
			continue
		}
		skewed("the variance counts what %s differ from the mean", func(a reduction.Moments) reduction.Moments {
			return reduction.Moments{N: a.N, Mean: a.Mean, M2: a.M2 + (p-a.N)*a.Mean*a.Mean}
		})
		skewed("the mean counts %s", func(a reduction.Moments) reduction.Moments {
			mean := a.Mean * a.N / p
			return reduction.Moments{N: a.N, Mean: mean, M2: a.M2 + a.N*(a.Mean-mean)*(a.Mean-mean)}
		})
		skewed("the number by which the variance is divided counts %s", func(a reduction.Moments) reduction.Moments {
			return reduction.Moments{N: p, Mean: a.Mean, M2: a.M2}
		})
	}
}

// paddedSizes are those to which a number of elements is filled up: the next power of two, and multiples of tiles.
func paddedSizes(n int) (sizes []int) {
	power := 1
	for power < n {
		power *= 2
	}
	for _, size := range []int{power, (n + 7) / 8 * 8, (n + 15) / 16 * 16, (n + 31) / 32 * 32, (n + 127) / 128 * 128} {
		if size > n && !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// otherDims adds statistics that are taken over one dimension less, or one more.
func (n *normalisation) otherDims(add func(text string, with func(m *normalisation))) {
	over := func(dims []int) func(m *normalisation) {
		return func(m *normalisation) { m.dims, m.stats = dims, nil }
	}
	name := func(d int) string {
		switch d {
		case 0:
			return "the batch"
		case n.x.Dim() - 1:
			return "the last dimension"
		}
		return fmt.Sprintf("dimension %d", d)
	}
	for d, size := range n.x.Shape {
		at := slices.Index(n.dims, d)
		switch {
		case size < 2 || n.moves != nil:
		case at < 0 && len(n.dims)+1 < n.x.Dim():
			dims := append(slices.Clone(n.dims), d)
			slices.Sort(dims)
			add(fmt.Sprintf("the statistics are taken over %s, too", name(d)), over(dims))
		case at >= 0 && d > 0 && len(n.dims) > 1:
			add(fmt.Sprintf("the statistics are not taken over %s", name(d)),
				over(slices.Delete(slices.Clone(n.dims), at, at+1)))
		}
	}
}

// byGroup is a weight or bias of channels of which each has the one with the number of its group.
func byGroup(t *tensor.Tensor, each int) *tensor.Tensor {
	if t == nil {
		return nil
	}
	return opdef.ZipAt(t.DType, t.Shape, func(lo int, dst []float64, src [][]float64) {
		all := tensor.Make[float64](t.Numel())
		tensor.Load(t, 0, all)
		for i := range dst {
			dst[i] = all[(lo+i)/each]
		}
	}, t)
}
