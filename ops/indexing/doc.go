// Package indexing declares operators that read and write the elements at
// indices: subscripts, gather, scatter and embeddings.
package indexing

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	return slices.Concat(
		opdef.Moving(indexOps...),
		opdef.Moving(gatherOps...),
		scatterOps,
		opdef.Moving(embeddingOps...),
		bagGradients,
		[]*opdef.Entry{unravelIndex},
	)
}
