// Package ops is the table of operators the CPU reference knows: one
// declaration per operator overload, in files by family. See docs/adding-an-op.md.
package ops

import (
	"sync"

	"github.com/optool/optool/opdef"
)

// tables are those of all families.
func tables() [][]*opdef.Entry {
	return [][]*opdef.Entry{
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
		covarianceOps,
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
		recurrentOps,
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
		{vandermonde, unravelIndex},
		quantizeOps,
		histogramddOps,
		lowRankOps,
		factorOps,
		eigenOps,
		pseudoinverseOps,
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
		syncNormOps,
		calculusOps,
		maskedOps,
		atenOps(),
	}
}

// Default is the registry of all operators, built on first use.
var Default = sync.OnceValue(func() *opdef.Registry { return opdef.TrustedRegistry(tables()...) })
