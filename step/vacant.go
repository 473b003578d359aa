package step

import (
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
)

// findVacant finds the calls that make uninitialised memory, and those that compute with it though nothing was written
// there.
func (p *Process) findVacant() {
	for _, c := range p.Calls {
		reads := func(v *Value) bool {
			w := v.From.Value
			return w != nil && w.Call.vacant && w.Call != c && v.From.How != IsChanged && !v.From.written
		}
		c.vacant = c.random == opdef.Uninitialised || c.computes() && slices.ContainsFunc(c.Inputs, reads)
	}
}

// computes reports whether the results of a call follow from the elements of its arguments: it does not fill one, and
// takes more of them than their shape.
func (c *Call) computes() bool {
	name := c.Op[strings.LastIndexByte(c.Op, '.')+1:]
	return c.collective() == "" && !strings.HasSuffix(name, "_") && !strings.HasSuffix(name, "_like") &&
		!strings.HasPrefix(name, "new_") && !slices.ContainsFunc(c.Inputs, func(v *Value) bool {
		return v.after != nil || v.isOut()
	})
}
