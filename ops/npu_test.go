package ops_test

import (
	"os"
	"strings"
	"testing"

	"github.com/optool/optool/ops"
)

// TestNPULeft: docs/custom-ops.md calls no function of torch_npu's unknown that is known.
func TestNPULeft(t *testing.T) {
	text, err := os.ReadFile("../docs/custom-ops.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Functions of torch_npu that are missing")
	n := 0
	for row := range strings.Lines(section) {
		cells := strings.Split(row, "|")
		if len(cells) < 3 {
			continue
		}
		for i, name := range strings.Split(cells[1], "`") { // names are at odd places
			if i%2 == 0 || strings.Contains(name, "*") {
				continue
			}
			n++
			if ops.Default().Knows("torch_npu.npu_" + name) {
				t.Errorf("torch_npu.npu_%s is known", name)
			}
		}
	}
	if n < 50 {
		t.Errorf("%d functions are listed", n)
	}
}
