// Package pooling declares pools over windows and their inverses.
package pooling

import "github.com/optool/optool/ops/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return poolOps
}
