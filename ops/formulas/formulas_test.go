package formulas_test

import (
	"testing"

	"github.com/optool/optool/ops/formulas"
)

// TestEntries: the declarations can be read.
func TestEntries(t *testing.T) {
	if n := len(formulas.Entries()); n < 40 {
		t.Errorf("%d formulas", n)
	}
}
