// Package spectral declares Fourier transforms, short-time ones and window
// functions.
package spectral

import (
	"slices"

	"github.com/optool/optool/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		fftOps,
		stftOps,
		windowOps,
	)
}
