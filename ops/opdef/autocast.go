package opdef

import (
	"slices"
	"strings"
)

// Autocast says what torch.autocast does to the floating tensors among an op's
// arguments: "CUDA Ops that can autocast" in the documentation of torch.amp,
// which other devices follow.
type Autocast uint8

// Classes of autocast.
const (
	AutocastNone    Autocast = iota // nothing
	AutocastLower                   // casts them to autocast's 16-bit dtype
	AutocastFloat32                 // casts them to float32
	AutocastWidest                  // casts them to the widest dtype among them
	AutocastProduct                 // does that, and on the CPU casts those of the products that make it to 16 bits
	AutocastInner                   // casts nothing, but on the CPU factors of the products that make it to 16 bits
)

// WithAutocast sets what torch.autocast does to the arguments; see Traits.Autocast.
func (e *Entry) WithAutocast(a Autocast) *Entry {
	e.Autocast = a
	return e
}

// WithUncast sets the methods that op_tools' dtype casts leave alone; see
// Traits.Uncast.
func (e *Entry) WithUncast(methods string) *Entry {
	e.Uncast = methods
	return e
}

// AsComposite says that torch computes it with several operators; see
// Traits.Composite and Traits.LastTakes.
func (e *Entry) AsComposite(lastTakes int) *Entry {
	e.Composite, e.LastTakes = true, lastTakes
	return e
}

// AsMoving says that an op of class Exact moves values, so that a zero keeps its sign.
// Those that select one of several equal values may give either zero.
func (e *Entry) AsMoving() *Entry {
	e.Moves = true
	return e
}

// AsSigned says that IEEE 754 fixes the sign of a zero among the results: products, quotients, square roots, rounding.
func (e *Entry) AsSigned() *Entry {
	e.Signed = true
	return e
}

// AsMovingOnCPU says that torch's CPU kernel keeps the sign of zero, and others may not:
// CUDA's maximum of -0 and 0 is 0.
func (e *Entry) AsMovingOnCPU() *Entry {
	e.MovesOnCPU = true
	return e
}

// ShapedAs says that the results have the shape of an argument, a tensor, so that it is known before
// anything is computed. Only operators need say so that compute all elements as they are called.
func (e *Entry) ShapedAs(arg string) *Entry {
	e.Like = arg
	return e
}

// Moving is AsMoving for each of es.
func Moving(es ...*Entry) []*Entry {
	for _, e := range es {
		e.AsMoving()
	}
	return es
}

// Autocast is what torch.autocast does to the arguments of the call. In-place
// forms and calls with out= do not go through it.
func (c *Call) Autocast() Autocast {
	if c.written != nil || c.out != nil {
		return AutocastNone
	}
	return c.Entry.Autocast
}

// Uncast reports whether op_tools' dtype casts leave the call alone.
func (c *Call) Uncast() bool {
	method, ok := strings.CutPrefix(c.Name, "torch.Tensor.")
	return ok && slices.Contains(strings.Fields(c.Entry.Uncast), method)
}
