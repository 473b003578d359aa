package cli

import (
	"strings"
	"testing"

	"github.com/optool/optool/step/metric"
)

// TestEqualRows: rows of a few calls being equal is no all-clear for the others.
func TestEqualRows(t *testing.T) {
	for _, c := range []struct {
		rows   metric.Rows
		unlike bool
		says   string
	}{
		{metric.Rows{Of: 98, Calls: 98, Compared: 98}, false, "all 98 calls are the same"},
		{metric.Rows{Of: 201, Calls: 201, Compared: 200}, false, "those of the others were not found"},
		{metric.Rows{Of: 79, Calls: 20, Compared: 1}, true, "different programs"},
	} {
		if c.rows.Unlike() != c.unlike {
			t.Errorf("%+v: unlike is %v", c.rows, !c.unlike)
		}
		if s := equalRows(&c.rows); !strings.Contains(s, c.says) {
			t.Errorf("%+v: %q, want %q in it", c.rows, s, c.says)
		}
	}
}
