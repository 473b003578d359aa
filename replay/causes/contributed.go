package causes

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
)

// contributed are sums of what several indices of a tensor give to one element, where windows overlap: in a transposed
// convolution, and in the gradient of a convolution, a pool or a resizing. A kernel keeps one of these contributions,
// or their mean; it adds a bias with each; or it loses those of other tiles.
func (c *Search) contributed(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		r := &fails[0]
		_, want, ok := r.floats()
		if !ok || want.Numel() > mostContributed {
			return
		}
		for _, s := range c.contributors(r) {
			for _, dims := range windowDims(s.t) {
				var of *contributions
				if c.Work.Over() ||
					c.Guard(func() error { of = c.contributionsTo(r, s, dims); return nil }) != nil || of == nil {
					continue
				}
				for _, m := range of.mistakes(s.text, r.Backward()) {
					if !yield(Mistake{Text: m.text, Rounds: true, Gradients: r.Backward(), OnlyHere: true,
						Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
							if target != r.Target || !slices.Equal(t.Shape, want.Shape) {
								return t
							}
							return tensor.New(t.DType, t.Shape, m.made)
						})}) {
						return
					}
				}
			}
		}
	}
}

// mostContributed is the number of elements up to which contributions are told apart.
const mostContributed = 1 << 16

// A contributor is a tensor in which a value is linear. way runs the call with another tensor in its place.
type contributor struct {
	text string
	t    *tensor.Tensor
	way  func(t *tensor.Tensor) (Way, error)
}

// contributors are the operands of a result, and the incoming gradient of a gradient.
func (c *Search) contributors(r *Wrong) (all []contributor) {
	if r.Backward() {
		if len(c.Incoming) == 1 && c.Incoming[0] != nil {
			all = append(all, contributor{"the incoming gradient", c.Incoming[0], func(t *tensor.Tensor) (Way, error) {
				return c.alteringIncoming(func(*tensor.Tensor) *tensor.Tensor { return t })()
			}})
		}
		return all
	}
	for _, a := range c.operands() {
		all = append(all, contributor{argName(a), a.Tensor, func(t *tensor.Tensor) (Way, error) {
			return c.one(a, func() *tensor.Tensor { return t })()
		}})
	}
	return all
}

// windowDims are the dimensions of a tensor along which windows may lie: all from the third on, and each of these.
func windowDims(t *tensor.Tensor) (all [][]int) {
	if t.Dim() < 3 || t.Dim() > mostDimensions || !t.DType.IsFloat() || t.Numel() > mostContributed {
		return nil
	}
	all = [][]int{upTo(2, t.Dim())}
	for d := 2; d < t.Dim() && t.Dim() > 3; d++ {
		all = append(all, []int{d})
	}
	return all
}

// contributions are the terms of each element of a value, one for each index of some dimensions of a tensor: for each
// element the terms that are not zero, and their indices.
type contributions struct {
	dims, from, shape []int // shape: of the value
	base              []float64
	parts             [][]float64
	places            [][]int
}

// contributionsTo finds the term of each index, by runs on every second, third or fourth index. It is nil if several of
// these add to one element, or if the value is not linear.
func (c *Search) contributionsTo(r *Wrong, s contributor, dims []int) *contributions {
	run := func(f func(place []int) float64) []float64 {
		c.Work.Whole()
		v, place := elements(s.t), make([]int, len(dims))
		for i := range v {
			for k, d := range dims {
				place[k] = i / tensor.Numel(s.t.Shape[d+1:]) % s.t.Shape[d]
			}
			v[i] *= f(place)
		}
		way, err := s.way(tensor.New(s.t.DType, s.t.Shape, v))
		if err != nil || way.Call == nil {
			return nil
		}
		t := c.Under(way, r.Target)
		if t == nil || !slices.Equal(t.Shape, r.Want.Shape) {
			return nil
		}
		return elements(t)
	}
	want := elements(r.Want)
	size := rms(want)
	out := &contributions{dims: dims, from: s.t.Shape, shape: r.Want.Shape, base: run(func([]int) float64 { return 0 })}
	if out.base == nil {
		return nil
	}
	sizes := make([]int, len(dims))
	for k, d := range dims {
		sizes[k] = s.t.Shape[d]
	}
	flat := func(place []int) (at int) {
		for k, n := range sizes {
			at = at*n + place[k]
		}
		return at
	}
	for every := 2; every <= mostEvery; every++ {
		out.parts, out.places = make([][]float64, len(want)), make([][]int, len(want))
		left, several := slices.Clone(want), false
		classes := 1
		for range dims {
			classes *= every
		}
		for class := 0; class < classes && !several; class++ {
			in := func(place []int) bool {
				rest := class
				for _, at := range place {
					if at%every != rest%every {
						return false
					}
					rest /= every
				}
				return true
			}
			part := run(func(place []int) float64 { return float64(btoi(in(place))) })
			moved := run(func(place []int) float64 { return float64(btoi(in(place))) * (1 + float64(flat(place))) })
			if part == nil || moved == nil || c.Work.Over() {
				return nil
			}
			off := 0
			for i := range part {
				x, y := part[i]-out.base[i], moved[i]-out.base[i]
				if math.Abs(x) <= 1e-9*size {
					continue
				}
				left[i] -= x
				at := math.Round(y/x) - 1
				off += btoi(!(math.Abs(y/x-1-at) <= 1e-3) || at < 0 || int(at) >= tensor.Numel(sizes))
				out.parts[i], out.places[i] = append(out.parts[i], x), append(out.places[i], int(at))
			}
			several = 100*off > len(part)
		}
		if several {
			continue
		}
		for i := range left { // linear: nothing is left besides the parts
			if math.Abs(left[i]-out.base[i]) > 1e-5*size {
				return nil
			}
		}
		return out
	}
	return nil
}

// mostEvery is how many indices windows hold at most along a dimension for which contributions are told apart.
const mostEvery = 4

type contributedMistake struct {
	text string
	made []float64
}

// mistakes are the wrong values that a kernel can compute from the contributions.
func (k *contributions) mistakes(name string, backward bool) (all []contributedMistake) {
	most, based := 0, false
	for i := range k.parts {
		most, based = max(most, len(k.parts[i])), based || k.base[i] != 0
	}
	if most < 2 {
		return nil
	}
	of := make([]string, len(k.dims))
	for i, d := range k.dims {
		of[i] = fmt.Sprint(d)
	}
	indices := "indices of dimension " + of[0]
	if len(of) > 1 {
		indices = "places in dimensions " + strings.Join(of, ", ")
	}
	add := func(text string, f func(i int, parts []float64, places []int) float64) {
		made := make([]float64, len(k.parts))
		for i := range made {
			made[i] = f(i, k.parts[i], k.places[i])
		}
		all = append(all, contributedMistake{text, made})
	}
	for _, which := range []string{"last", "first"} {
		add(fmt.Sprintf("of the %s of %s that add to one element only the %s counts", indices, name, which),
			func(i int, parts []float64, places []int) float64 {
				best := -1
				for j, at := range places {
					if best < 0 || (at > places[best]) == (which == "last") {
						best = j
					}
				}
				if best < 0 {
					return k.base[i]
				}
				return k.base[i] + parts[best]
			})
	}
	add(fmt.Sprintf("the sum over %s of %s that add to one element is divided by their number", indices, name),
		func(i int, parts []float64, _ []int) float64 {
			return k.base[i] + sumOf(parts)/float64(max(1, len(parts)))
		})
	if based && !backward {
		add(fmt.Sprintf("what is added besides, such as a bias, is added once for each of the %s of %s that add to one "+
			"element", indices, name), func(i int, parts []float64, _ []int) float64 {
			return float64(len(parts))*k.base[i] + sumOf(parts)
		})
	}
	if len(k.from) != len(k.shape) {
		return all
	}
	return append(all, k.tiled(name, indices)...)
}

// tiled are the values of tiles that get no contribution from indices of other tiles.
func (k *contributions) tiled(name, indices string) (all []contributedMistake) {
	for size := 2; ; size *= 2 {
		made, lost, more := make([]float64, len(k.parts)), false, false
		for i, parts := range k.parts {
			made[i] = k.base[i]
			for j, x := range parts {
				in, at := true, k.places[i][j]
				for e := len(k.dims) - 1; e >= 0; e-- {
					d := k.dims[e]
					n, to := k.from[d], k.shape[d]
					here := i / tensor.Numel(k.shape[d+1:]) % to
					in = in && at%n*to/n/size == here/size
					more = more || size < to
					at /= n
				}
				lost = lost || !in
				made[i] += x * float64(btoi(in))
			}
		}
		if !more {
			return all
		}
		if lost {
			all = append(all, contributedMistake{fmt.Sprintf("tiles of %d are taken by themselves: nothing is added from "+
				"the %s of %s that lie in another tile", size, indices, name), made})
		}
	}
}
