// Package ops is the table of operators the CPU reference knows: one
// declaration per operator overload, in files by family. See docs/adding-an-op.md.
package ops

import (
	"sync"

	"github.com/optool/optool/opdef"
)

// Default is the registry of all operators. It is built once, on first use; an
// error means a declaration contradicts itself, which TestTable prevents.
var Default = sync.OnceValues(func() (*opdef.Registry, error) {
	return opdef.NewRegistry(
		arithmeticOps,
		binaryOps,
		pointwiseOps,
		trigOps,
		activationOps,
		gatedOps,
		compareOps,
		bitwiseOps,
		convertOps,
		complexOps,
		createOps,
		randomOps,
		shapeOps,
		arrangeOps,
		repeatOps,
		bandOps,
		joinOps,
		splitOps,
		indexOps,
		gatherOps,
		scatterOps,
		embeddingOps,
		sortOps,
		uniqueOps,
		histogramOps,
		reduceOps,
		extremaOps,
		momentOps,
		statisticsOps,
		vectorNormOps,
		scaledOps,
		cumulativeOps,
		softmaxOps,
		normOps,
		lossOps,
		crossEntropyOps,
		rowLossOps,
		ctcOps,
		attentionOps,
		matmulOps,
		einsumOps,
		convOps,
		poolOps,
		visionOps,
		padOps,
		gridOps,
		fftOps,
		stftOps,
		windowOps,
		linalgOps,
		factorOps,
		spectralOps,
		systemOps,
		specialOps,
		besselOps,
		polynomialOps,
		foreachOps(),
		optimizerOps,
		queryOps,
		segmentOps,
		nativeNormOps,
		calculusOps,
		maskedOps,
	)
})
