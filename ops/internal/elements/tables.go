package elements

import "github.com/optool/optool/ops/opdef"

// MustFind is the op of a table with the given schema name.
func MustFind(table []*opdef.Entry, name string) *opdef.Entry {
	for _, e := range table {
		if e.Op() == name {
			return e
		}
	}
	panic("no op " + name)
}
