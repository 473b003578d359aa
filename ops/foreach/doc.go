// Package foreach declares operators that apply another to every tensor of a
// list (torch._foreach_*).
package foreach

import "github.com/optool/optool/ops/opdef"

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return foreachOps()
}
