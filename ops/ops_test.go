package ops

import (
	"testing"

	"github.com/optool/optool/ops/gradients"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/vendors"
)

// TestTable checks every declaration, which Default trusts.
func TestTable(t *testing.T) {
	all := tables()
	for _, f := range append(vendors.Families(), gradients.Family(Default)) {
		all = append(all, f.Entries())
	}
	if _, err := opdef.NewRegistry(all...); err != nil {
		t.Fatal(err)
	}
}
