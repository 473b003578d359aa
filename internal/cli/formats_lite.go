//go:build lite

package cli

import (
	"errors"

	"github.com/optool/optool/reports"
)

// notBuilt says of a part that this program does not have it.
const notBuilt = "is not in this optool, which was built with -tags lite"

var (
	workbook = absent("xlsx")
	database = absent("sqlite")
)

// absent is a format that is refused before the run.
func absent(name string) reportFormat {
	refused := func(string) error { return errors.New(notBuilt + "; use --csv or --html") }
	return reportFormat{name: name, usage: "not in this optool: `FILE` is refused", check: refused,
		file: func(path string, _ *reports.Recording, _ []reports.Sheet) error { return refused(path) }}
}
