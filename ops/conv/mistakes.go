package conv

import (
	"fmt"
	"slices"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// borders are the elements that kernels read beside the input in place of zeros. A border gives the index, of n,
// that is read at i, or -1 for 0. It is as wide as pad on each side.
var borders = []struct {
	text string
	at   func(i, n, pad int) int
}{
	{"the border of input is replicated, not 0", func(i, n, _ int) int { return min(max(i, 0), n-1) }},
	{"the border of input is reflected, not 0", func(i, n, _ int) int {
		if n == 1 {
			return 0
		}
		for i < 0 || i >= n {
			i = max(-i, min(i, 2*(n-1)-i))
		}
		return i
	}},
	{"the border of input is taken from the other side, not 0", func(i, n, _ int) int { return ((i % n) + n) % n }},
}

// sides are wrong distributions of the padding. A side gives how much of it lies before the input, for the padding
// of each side.
var sides = []struct {
	text string
	of   func(pad int) int
}{
	{"all of input's padding is before it", func(pad int) int { return 2 * pad }},
	{"all of input's padding is behind it", func(int) int { return 0 }},
}

// Mistakes are borders that are not zero or lie on one side, kernels without their last element,
// arguments of exchanged dimensions and factors that are rounded first.
func (cc *convCall) Mistakes() []opdef.Mistake[any] {
	c := &cc.c
	if cc.input.Numel() == 0 || !cc.input.DType.IsFloat() {
		return nil
	}
	var out []opdef.Mistake[any]
	add := func(text string, with func(m *convCall) error) {
		out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			m := *cc
			return &m, with(&m)
		}})
	}
	plain := cc.extra == [3]int{} && !cc.transposed
	if plain && c.Pad != [3]int{} {
		for _, b := range borders {
			add(b.text, func(m *convCall) error {
				m.input = cc.bordered(b.at, [3]bool{true, true, true})
				for d := range 3 {
					m.c.In[d] += 2 * c.Pad[d]
				}
				m.c.Pad = [3]int{}
				return m.finish()
			})
			for d := range 3 { // of one of the dimensions that are padded
				if c.Pad[d] == 0 || c.Pad[d] == c.Pad[0]+c.Pad[1]+c.Pad[2] {
					continue
				}
				text := fmt.Sprintf("%s, along dimension %d", b.text, d-3)
				add(text, func(m *convCall) error {
					var only [3]bool
					only[d] = true
					m.input = cc.bordered(b.at, only)
					m.c.In[d] += 2 * c.Pad[d]
					m.c.Pad[d] = 0
					return m.finish()
				})
			}
		}
	}
	for _, side := range sides {
		with := func(dims ...int) func(m *convCall) error {
			return func(m *convCall) error {
				for _, d := range dims {
					m.c.Pad[d] = side.of(c.Pad[d])
				}
				return nil
			}
		}
		if plain && c.Pad != [3]int{} {
			add(side.text, with(0, 1, 2))
		}
		for d := 3 - cc.nd; plain && cc.nd > 1 && d < 3; d++ {
			if c.Pad[d] > 0 {
				add(fmt.Sprintf("in dimension %d, %s", d-3+cc.input.Dim(), side.text), with(d))
			}
		}
	}
	if cc.extra != [3]int{} && !cc.transposed {
		for _, x := range []struct {
			text string
			of   func(pad, extra int) int
		}{
			{"the padding that is one more on one side is one more before the input, not behind it",
				func(pad, extra int) int { return pad + extra }},
			{"all of input's padding is before it", func(pad, extra int) int { return 2*pad + extra }},
			{"all of input's padding is behind it", func(int, int) int { return 0 }},
		} {
			add(x.text, func(m *convCall) error {
				m.extra = [3]int{}
				for d := range 3 {
					m.c.Pad[d] = x.of(c.Pad[d], cc.extra[d])
				}
				return nil
			})
		}
	}
	if n := c.Kernel[0] * c.Kernel[1] * c.Kernel[2]; n > 1 {
		add(fmt.Sprintf("the last of the %d elements of each kernel is left out", n), func(m *convCall) error {
			v := make([]float64, cc.weight.Numel())
			tensor.Load(cc.weight, 0, v)
			for i := n - 1; i < len(v); i += n {
				v[i] = 0
			}
			m.weight = tensor.New(cc.weight.DType, cc.weight.Shape, v)
			return nil
		})
	}
	for _, x := range []struct {
		name string
		of   func(c *kernel.Conv) []*[3]int
	}{
		{"padding is", func(c *kernel.Conv) []*[3]int { return []*[3]int{&c.Pad} }},
		{"stride is", func(c *kernel.Conv) []*[3]int { return []*[3]int{&c.Stride} }},
		{"dilation is", func(c *kernel.Conv) []*[3]int { return []*[3]int{&c.Dilation} }},
		{"padding and dilation are", func(c *kernel.Conv) []*[3]int { return []*[3]int{&c.Pad, &c.Dilation} }},
		{"stride, padding and dilation are", func(c *kernel.Conv) []*[3]int {
			return []*[3]int{&c.Stride, &c.Pad, &c.Dilation}
		}},
	} {
		m := *cc
		for _, v := range x.of(&m.c) {
			v[1], v[2] = v[2], v[1]
		}
		changed := true // all that are exchanged
		for i, v := range x.of(&m.c) {
			changed = changed && *v != *x.of(c)[i]
		}
		if plain && cc.nd > 1 && changed && m.finish() == nil && slices.Equal(m.shape, cc.shape) {
			add(x.name+" that of the last two dimensions exchanged", func(w *convCall) error { *w = m; return nil })
		}
	}
	// In the gradient alone, where the result has its size.
	for _, x := range []struct {
		name string
		of   func(c *kernel.Conv) *[3]int
	}{
		{"stride", func(c *kernel.Conv) *[3]int { return &c.Stride }},
		{"dilation", func(c *kernel.Conv) *[3]int { return &c.Dilation }},
	} {
		if cc.extra != [3]int{} {
			break
		}
		var dims []int
		one := func(text string, dims ...int) {
			add(text, func(m *convCall) error {
				for _, d := range dims {
					x.of(&m.c)[d] = 1
				}
				return nil
			})
			out[len(out)-1].Gradients = true
		}
		for d, n := range x.of(c) {
			if n > 1 {
				dims = append(dims, d)
				one(fmt.Sprintf("in the gradient, %s is 1, not %d, along dimension %d", x.name, n, d-3), d)
			}
		}
		if len(dims) > 1 {
			one(fmt.Sprintf("in the gradient, %s is 1 along all dimensions", x.name), dims...)
		}
	}
	for _, g := range opdef.FactorGrids(cc.input.DType) {
		add("the factors are "+g.Rounded()+" first", func(m *convCall) error {
			m.input, m.weight = g.OnGrid(cc.input), g.OnGrid(cc.weight)
			return nil
		})
		out[len(out)-1].Rounds = true
	}
	return out
}

// bordered is the input with its padding along some dimensions, filled with elements of other places.
func (cc *convCall) bordered(of func(i, n, pad int) int, along [3]bool) *tensor.Tensor {
	c := &cc.c
	var size, pads [3]int
	for d := range size {
		if along[d] {
			pads[d] = c.Pad[d]
		}
		size[d] = c.In[d] + 2*pads[d]
	}
	volume := c.In[0] * c.In[1] * c.In[2]
	x := make([]float64, cc.input.Numel())
	tensor.Load(cc.input, 0, x)
	out := make([]float64, 0, len(x)/volume*size[0]*size[1]*size[2])
	at := func(d, i int) int { // -1: of none
		at := i
		if along[d] {
			at = of(i-pads[d], c.In[d], pads[d])
		}
		if at >= c.In[d] {
			return -1
		}
		return at
	}
	for plane := x; len(plane) > 0; plane = plane[volume:] {
		for i := range size[0] {
			for j := range size[1] {
				for k := range size[2] {
					x := 0.0
					if a, b, c1 := at(0, i), at(1, j), at(2, k); min(a, b, c1) >= 0 {
						x = plane[(a*c.In[1]+b)*c.In[2]+c1]
					}
					out = append(out, x)
				}
			}
		}
	}
	return tensor.New(cc.input.DType, cc.sizes(c.InC, size), out)
}
