package step

import "slices"

// giver is the call in whose backward pass a call was made that reads v, and which read v itself and gave its gradient.
// The gradient of v that the inner call gives is that of a graph of its own, from which a function of the program
// (autograd.Function) computes what it returns: it reaches the program's values through the gradient of the function
// alone, also where that graph is differentiated again (create_graph). It is nil if there is none. What a checkpoint
// runs again reads parameters that the checkpoint was not given: it gives their gradients itself.
func (v *Value) giver() *Call {
	if v.Address == 0 {
		return nil
	}
	for c := v.Call; c != nil; c = c.outer {
		for b := c.inside; b != nil; b = b.inside {
			for _, u := range b.Inputs {
				if u.Address != 0 && u.Address <= v.Address && v.end() <= u.end() && b.givesGradientOf(u) {
					return b
				}
			}
		}
	}
	return nil
}

// givesGradientOf reports whether some backward pass through the call gave the gradient of an input.
func (c *Call) givesGradientOf(v *Value) bool {
	return c.gradientOf(v) != nil || slices.ContainsFunc(c.later, func(g *Value) bool { return c.Inputs[g.leaf] == v })
}

// isOwnOf reports whether v, which holds w, is what the function in whose backward pass it is read had read of it.
func (v *Value) isOwnOf(w *Value) bool {
	b := v.giver()
	return b != nil && w.Call.Order < b.Order
}
