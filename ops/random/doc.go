// Package random declares operators that draw random numbers, of which only
// what does not depend on the numbers can be compared.
package random

import "github.com/optool/optool/ops/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return randomOps
}
