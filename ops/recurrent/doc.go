// Package recurrent declares recurrent networks and their cells.
package recurrent

import "github.com/optool/optool/ops/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return append(recurrentOps, sequenceOps...)
}
