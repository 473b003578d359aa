package opdef

import (
	"math"
	"slices"
)

// Uncut is the label of a dimension along which a call cannot be cut.
const Uncut = math.MinInt

// Axes labels the dimensions of the tensors of a call, as einsum does: dimensions of one
// label have one size, or 1 where they are broadcast. The operator makes of parts of its
// arguments along a label that the result has the part of the result, and of parts along
// labels of an argument, the gradients of results cut likewise, the part of its gradient.
type Axes struct {
	Args map[string][][]int // of each item of a tensor argument, a label for each dimension
	Out  []int              // of the only result
	// Linear are labels along which the result is linear in the tensors that have them, and
	// so are gradients. Without any the parts that are compared stand for the others.
	Linear []int
	// Added names an argument that is added to what the others make; "" if there is none.
	Added string
}

// Axes are those of the call; nil if it cannot be cut, for what it is or for its arguments.
func (c *Call) Axes() *Axes {
	if c.written != nil || c.out != nil || c.Plan() != nil {
		return nil
	}
	if cuttable, ok := c.plan.plan.(Cuttable); ok {
		return cuttable.Axes()
	}
	return nil
}

// Of labels the dimensions of item i (below 0 as 0) of an argument.
func (a *Axes) Of(arg Arg) []int {
	if items := a.Args[arg.Name]; max(arg.Index, 0) < len(items) {
		return items[max(arg.Index, 0)]
	}
	return nil
}

// Sizes are the sizes of labels over the arguments of a call.
func (a *Axes) Sizes(args []Arg) map[int]int {
	sizes := map[int]int{}
	for _, arg := range args {
		for d, l := range a.Of(arg) {
			if n := arg.Tensor.Shape[d]; l != Uncut && (n != 1 || sizes[l] == 0) {
				sizes[l] = n
			}
		}
	}
	return sizes
}

// Own are the labels of a tensor without those along which it is broadcast.
func (a *Axes) Own(labels, shape []int, sizes map[int]int) []int {
	var own []int
	for d, l := range labels {
		if l != Uncut && shape[d] == sizes[l] && !slices.Contains(own, l) {
			own = append(own, l)
		}
	}
	return own
}
