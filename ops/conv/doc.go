// Package conv declares convolutions and transposed convolutions.
package conv

import "github.com/optool/optool/ops/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return convOps
}
