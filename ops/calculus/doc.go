// Package calculus declares differences, integrals and derivatives of sampled
// functions.
package calculus

import "github.com/optool/optool/ops/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return calculusOps
}
