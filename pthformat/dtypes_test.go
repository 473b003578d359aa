package pthformat

import (
	"maps"
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
