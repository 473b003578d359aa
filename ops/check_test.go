package ops_test

import (
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opcheck"
)

// TestChecks runs every check of package opcheck on every op.
func TestChecks(t *testing.T) {
	reg := ops.Default()
	s := &opcheck.Suite{Registry: reg, Seed: 1}
	for _, e := range reg.Entries() {
		if e.Place != "" { // of a file: ops/vendors checks it
			continue
		}
		t.Run(e.Schema.Name, func(t *testing.T) {
			t.Parallel()
			for _, f := range s.Entry(e) {
				t.Error(f)
			}
		})
	}
}

// TestDeterminism computes everything on one processor and on several.
func TestDeterminism(t *testing.T) {
	reg := ops.Default()
	s := &opcheck.Suite{Seed: 1}
	for _, f := range s.Determinism(reg.Entries()) {
		t.Error(f)
	}
}
