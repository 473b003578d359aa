// Package statistics declares quantiles, covariances and histograms.
package statistics

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		statisticsOps,
		covarianceOps,
		histogramOps,
		binOps,
	)
}
