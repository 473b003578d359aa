// Package attention declares scaled dot-product and multi-head attention.
package attention

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(attentionOps, kernelOps)
}
