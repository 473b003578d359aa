// Package masked declares reductions and normalizations of the elements that a
// mask keeps (torch.masked). Most are calls of the plain operator on an input
// filled with that operator's neutral number. They have the plain operator's kernel,
// dtypes and bounds. These bounds are tighter than those of a composition, and
// products, medians and cumulative operators are no primitives. var, std and
// normalize are torch's own compositions.
package masked

import "github.com/optool/optool/ops/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return maskedOps
}
