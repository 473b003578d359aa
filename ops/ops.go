// Package ops is the table of operators the CPU reference knows. A package
// below it holds a family, whose Table it lists here; what families share is in
// internal/elements. See docs/adding-an-op.md.
package ops

import (
	"sync"

	"github.com/optool/optool/ops/activation"
	"github.com/optool/optool/ops/attention"
	"github.com/optool/optool/ops/calculus"
	"github.com/optool/optool/ops/conv"
	"github.com/optool/optool/ops/creation"
	"github.com/optool/optool/ops/detection"
	"github.com/optool/optool/ops/distance"
	"github.com/optool/optool/ops/foreach"
	"github.com/optool/optool/ops/formulas"
	"github.com/optool/optool/ops/gated"
	"github.com/optool/optool/ops/gradients"
	"github.com/optool/optool/ops/grouped"
	"github.com/optool/optool/ops/indexing"
	"github.com/optool/optool/ops/linalg"
	"github.com/optool/optool/ops/loss"
	"github.com/optool/optool/ops/masked"
	"github.com/optool/optool/ops/matmul"
	"github.com/optool/optool/ops/normalization"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/optim"
	"github.com/optool/optool/ops/pointwise"
	"github.com/optool/optool/ops/pooling"
	"github.com/optool/optool/ops/properties"
	"github.com/optool/optool/ops/random"
	"github.com/optool/optool/ops/recurrent"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/ops/shape"
	"github.com/optool/optool/ops/sorting"
	"github.com/optool/optool/ops/special"
	"github.com/optool/optool/ops/spectral"
	"github.com/optool/optool/ops/statistics"
	"github.com/optool/optool/ops/vendors"
	"github.com/optool/optool/ops/vision"
)

// tables are those of all families, in the order in which overloads are tried.
func tables() [][]*opdef.Entry {
	return [][]*opdef.Entry{
		pointwise.Table(),
		activation.Table(),
		gated.Table(),
		special.Table(),
		creation.Table(),
		random.Table(),
		shape.Table(),
		indexing.Table(),
		sorting.Table(),
		reduction.Table(),
		statistics.Table(),
		calculus.Table(),
		normalization.Table(),
		loss.Table(),
		distance.Table(),
		attention.Table(),
		recurrent.Table(),
		matmul.Table(),
		grouped.Table(),
		linalg.Table(),
		conv.Table(),
		pooling.Table(),
		vision.Table(),
		spectral.Table(),
		masked.Table(),
		foreach.Table(),
		optim.Table(),
		properties.Table(),
		detection.Table(),
		gradients.Table(),
	}
}

// Default is the registry of all operators, built on first use. Those of other libraries are read when one is met.
var Default = sync.OnceValue(func() *opdef.Registry {
	var r *opdef.Registry
	r = opdef.TrustedRegistry(tables()...).
		WithFamilies(append(vendors.Families(), gradients.Family(func() *opdef.Registry { return r }))...).
		WithFormulas(formulas.Entries)
	return r
})
