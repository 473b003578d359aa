package ops

import "testing"

// TestTable builds the registry, which checks every declaration.
func TestTable(t *testing.T) {
	if _, err := Default(); err != nil {
		t.Fatal(err)
	}
}
