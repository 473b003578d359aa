// Package masked declares reductions and normalizations of the elements that a
// mask keeps (torch.masked). Each is a call of the plain operator on an input
// filled with that operator's neutral number, not a composition: so it has the
// plain operator's kernel, dtypes and bounds, which are tighter than those of a
// chain, and products, medians and cumulative operators are no primitives.
package masked

import "github.com/optool/optool/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return maskedOps
}
