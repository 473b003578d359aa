// Package creation declares operators that make tensors from sizes and numbers,
// and those that convert a tensor to another dtype or device.
package creation

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		opdef.Moving(convertOps...),
		createOps,
	)
}
