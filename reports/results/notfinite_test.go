package results

import (
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
)

// TestNotFiniteOfDevice: with a device, the value that is not finite is a recorded one, and the line says so.
func TestNotFiniteOfDevice(t *testing.T) {
	n := &replay.NotFinite{Phase: replay.Forward, Target: "output[0]", Value: math.NaN(), Index: []int{3}, Made: true}
	for source, says := range map[string]bool{"captured": false, "device": true} {
		r := &reports.Result{Phase: "forward", Target: "output[0]", Source: &source}
		MarkNotFinite([]*reports.Result{r}, n)
		got := r.NotFinite
		if got == nil || strings.HasPrefix(got.Text, "as it was recorded, not on the device, ") != says {
			t.Errorf("%s: %+v", source, r.NotFinite)
		}
	}
}
