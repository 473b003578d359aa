// Package formulas has torch's operators once more, as the formulas by which kernels compute them.
//
// The operators themselves are declared elsewhere, with gradients written by hand. Of a formula the mistakes follow: a
// step that is left out, an operand through which no gradient flows, another number. Other formulas that kernels have
// for the same operator are listed with it. Package causes asks for them. Nothing else computes with a formula.
package formulas

import (
	_ "embed"

	"github.com/optool/optool/ops/custom"
	"github.com/optool/optool/ops/opdef"
)

//go:embed formulas.star
var source []byte

// Entries reads the declarations.
func Entries() []*opdef.Entry { return custom.Embedded("ops/formulas/formulas.star", source) }
