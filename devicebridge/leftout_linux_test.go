package devicebridge

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestLeftOut: docs/device.md lists just the functions that the built-in device leaves out.
func TestLeftOut(t *testing.T) {
	text, err := os.ReadFile("../docs/device.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Functions that the built-in device leaves out\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for row := range strings.Lines(section) {
		cells := strings.Split(row, "|")
		if len(cells) < 2 {
			continue
		}
		for i, word := range strings.Split(cells[1], "`") { // what is in backquotes is at odd places
			listed[word] = listed[word] || i%2 == 1
		}
	}
	src, err := os.ReadFile("diopi/abi.json")
	if err != nil {
		t.Fatal(err)
	}
	var abi struct {
		Functions []struct{ Name, Group string }
	}
	if err := json.Unmarshal(src, &abi); err != nil {
		t.Fatal(err)
	}
	dev, err := Open(t.Context(), Config{Library: Host})
	if err != nil {
		t.Skip(err)
	}
	defer dev.Close()
	for _, f := range abi.Functions {
		if slices.Contains([]string{"diopiGetVendorName", "diopiGetImplVersion", "diopiGetLastErrorString"}, f.Name) {
			continue // no operators, so they are not among those exported
		}
		says := listed[f.Name] || listed[f.Group]
		if has := slices.Contains(dev.Info().Functions, f.Name); f.Group != "runtime" && has == says {
			t.Errorf("%s of %s: the device has it: %v, the page lists it: %v", f.Name, f.Group, has, says)
		}
	}
}
