// Package optim declares fused steps of optimizers.
package optim

import "github.com/optool/optool/ops/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return optimizerOps
}
