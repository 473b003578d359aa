// Package masked declares reductions and normalizations of the elements that a
// mask keeps (torch.masked).
package masked

import "github.com/optool/optool/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return maskedOps
}
