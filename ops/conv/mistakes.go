package conv

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// borders are what kernels take in place of zeros beside the input: the element of which
// index, of n, stands at i.
var borders = []struct {
	text string
	at   func(i, n int) int
}{
	{"replicated", func(i, n int) int { return min(max(i, 0), n-1) }},
	{"reflected", func(i, n int) int {
		if n == 1 {
			return 0
		}
		for i < 0 || i >= n {
			i = max(-i, min(i, 2*(n-1)-i))
		}
		return i
	}},
	{"taken from the other side", func(i, n int) int { return ((i % n) + n) % n }},
}

// mistakes are borders that are not zero.
func (cc *convCall) mistakes() []opdef.Mistake[*convCall] {
	c := &cc.c
	if c.Pad == [3]int{} || cc.extra != [3]int{} || cc.input.Numel() == 0 || !cc.input.DType.IsFloat() {
		return nil
	}
	var out []opdef.Mistake[*convCall]
	for _, b := range borders {
		out = append(out, opdef.Mistake[*convCall]{Text: "the border of input is " + b.text + ", not 0",
			Plan: func() (*convCall, error) {
				m := *cc
				m.input = cc.bordered(b.at)
				for d := range 3 {
					m.c.In[d] += 2 * c.Pad[d]
				}
				m.c.Pad = [3]int{}
				return &m, m.finish()
			}})
	}
	return out
}

// bordered is the input with its padding, whose elements are those at other places.
func (cc *convCall) bordered(at func(i, n int) int) *tensor.Tensor {
	c := &cc.c
	var size [3]int
	for d := range size {
		size[d] = c.In[d] + 2*c.Pad[d]
	}
	volume := c.In[0] * c.In[1] * c.In[2]
	x := make([]float64, cc.input.Numel())
	tensor.Load(cc.input, 0, x)
	out := make([]float64, 0, len(x)/volume*size[0]*size[1]*size[2])
	for plane := x; len(plane) > 0; plane = plane[volume:] {
		for i := range size[0] {
			for j := range size[1] {
				row := (at(i-c.Pad[0], c.In[0])*c.In[1] + at(j-c.Pad[1], c.In[1])) * c.In[2]
				for k := range size[2] {
					out = append(out, plane[row+at(k-c.Pad[2], c.In[2])])
				}
			}
		}
	}
	return tensor.New(cc.input.DType, cc.sizes(c.InC, size), out)
}
