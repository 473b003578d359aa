// Package loss declares loss functions.
package loss

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		lossOps,
		crossEntropyOps,
		rowLossOps,
		ctcOps,
		numberedLossOps,
		nllForwardOps,
		[]*opdef.Entry{linearCrossEntropy, rnntLoss},
	)
}
