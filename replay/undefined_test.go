package replay

import (
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestUndefined: None is right for an empty result beside others, not where a result
// has elements or where nothing at all was returned.
func TestUndefined(t *testing.T) {
	empty, full := tensor.New(tensor.Float32, []int{0}, []float64{}), tensor.New(tensor.Float32, []int{1}, []float64{1})
	for _, tc := range []struct {
		name string
		got  []value.Value
		want *tensor.Tensor
		is   bool
	}{
		{"left out", []value.Value{nil, full}, empty, true},
		{"missing", []value.Value{nil, full}, full, false},
		{"recorded", []value.Value{empty, full}, empty, false},
		{"nothing returned", []value.Value{nil, nil}, empty, false},
		{"the only result", []value.Value{nil}, empty, false},
	} {
		if is := undefined(tc.got, 0, tc.want); is != tc.is {
			t.Errorf("%s: %v, want %v", tc.name, is, tc.is)
		}
	}
}
