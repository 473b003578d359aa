// Package suite holds optool's own cases for the functions of DIOPI's
// conformance test, small, of every family, dtype and kind of shape, and for the
// training of models.
package suite

import (
	_ "embed"
	"fmt"

	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/tensor/value"
)

//go:embed functions.star
var functions []byte

//go:embed models.star
var models []byte

// Models returns the models that have a suite as keys, and for the one called
// wanted its configuration entries.
func Models(wanted string) (*value.Dict, error) {
	src := append(fmt.Appendf(nil, "wanted = %q; ", wanted), models...)
	return configs.Parse("models.star", src, "models")
}

// Functions returns the configuration entries of the suite.
func Functions() (*value.Dict, error) { return configs.Parse("functions.star", functions, "functions") }
