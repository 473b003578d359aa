//go:build !race

package bench

import (
	"context"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
)

// TestAllocations is a gate: replaying the calls of the demo takes no more allocations than it did, and a tenth. Times
// depend on the machine, this does not. Who needs more raises the number, and says why.
func TestAllocations(t *testing.T) {
	const most = 33_000
	reg := ops.Default()
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var entries []*capture.Entry
	for e, err := range capture.Scan(context.Background(), []string{"../fixtures/demo"}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		t.Fatal("no calls")
	}
	got := testing.AllocsPerRun(3, func() {
		for _, e := range entries {
			replay.Run(e, replay.Options{Registry: reg, Tolerances: tol})
		}
	})
	if got > most {
		t.Errorf("%d calls take %.0f allocations, want at most %d", len(entries), got, most)
	}
}
