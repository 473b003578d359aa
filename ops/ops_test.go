package ops

import (
	"testing"

	"github.com/optool/optool/opdef"
)

// TestTable checks every declaration, which Default trusts.
func TestTable(t *testing.T) {
	if _, err := opdef.NewRegistry(tables()...); err != nil {
		t.Fatal(err)
	}
}
