package pthformat

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestDTypesRead: every dtype whose elements are known is read from safetensors files and
// numpy arrays, but for those that the format does not have.
func TestDTypesRead(t *testing.T) {
	for format, known := range map[string]struct {
		types map[string]tensor.DType
		lacks []tensor.DType
	}{
		"safetensors": {safetensorsTypes, []tensor.DType{tensor.Complex32, tensor.Complex128}},
		"numpy": {arrayTypes, []tensor.DType{tensor.BFloat16, tensor.Complex32, tensor.Float8E4M3FN, tensor.Float8E5M2,
			tensor.Float8E4M3FNUZ, tensor.Float8E5M2FNUZ, tensor.Float8E8M0FNU}},
	} {
		read := slices.Collect(maps.Values(known.types))
		for dt := range tensor.DTypes() {
			switch lacks := slices.Contains(known.lacks, dt); {
			case !dt.Computable():
			case slices.Contains(read, dt) == lacks:
				t.Errorf("%s and %s: read %t, lacked by the format %t", format, dt, lacks, lacks)
			}
		}
	}
}

// TestHookSafetensors: the hook writes each dtype of safetensors under the name by which it is read.
func TestHookSafetensors(t *testing.T) {
	source, err := os.ReadFile("../hook/optool_capture.py")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)\nSAFETENSORS = \{(.*?)\n\}`).FindSubmatch(source)
	if table == nil {
		t.Fatal("optool_capture.py has no SAFETENSORS")
	}
	written := map[string]string{}
	for _, m := range regexp.MustCompile(`"(\w+)": "(\w+)"`).FindAllSubmatch(table[1], -1) {
		written[string(m[1])] = string(m[2])
	}
	for name, dt := range safetensorsTypes {
		if written[dt.String()] != name {
			t.Errorf("SAFETENSORS of hook/optool_capture.py has %q for %s, want %q", written[dt.String()], dt, name)
		}
	}
	if len(written) != len(safetensorsTypes) {
		t.Errorf("SAFETENSORS of hook/optool_capture.py has %d dtypes, want %d", len(written), len(safetensorsTypes))
	}
}
