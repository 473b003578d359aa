// Package random declares operators that draw random numbers. It compares only the
// properties that do not depend on these numbers.
package random

import "github.com/optool/optool/ops/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return randomOps
}
