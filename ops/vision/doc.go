// Package vision declares the resampling of images: interpolation and sampling
// at computed positions.
package vision

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		visionOps,
		gridOps,
		atenOps(),
	)
}
