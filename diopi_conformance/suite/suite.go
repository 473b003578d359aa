// Package suite holds optool's own cases for the functions of DIOPI's
// conformance test: small, of every family, dtype and kind of shape.
package suite

import (
	_ "embed"

	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/value"
)

//go:embed functions.star
var functions []byte

// Functions returns the configuration entries of the suite.
func Functions() (*value.Dict, error) { return configs.Parse("functions.star", functions, "functions") }
