package gradients

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators that are composed.
func Table() []*opdef.Entry { return append(slices.Clip(composed), roiPool) }

// Family has the operators that others compute, which find is asked for when a call is bound.
func Family(find func() *opdef.Registry) *opdef.Family {
	return opdef.NewFamily([]string{"aten", "torchvision"}, func() []*opdef.Entry {
		var out []*opdef.Entry
		for _, f := range append(forms(), torchvision...) {
			out = append(out, f.entry(find))
		}
		return out
	})
}
