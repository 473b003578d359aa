package replay

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor/value"
)

// TestOpaque: an argument that is not understood is named by its class, also where its text says more.
func TestOpaque(t *testing.T) {
	for want, v := range map[string]value.Value{
		"a.AsyncCollectiveTensor: float32 (2, 3)": &value.Opaque{Global: "a.AsyncCollectiveTensor", Reason: "float32 (2, 3)"},
		"a.Thing": &value.Opaque{Global: "a.Thing"},
		"":        int64(1),
	} {
		if got := opaque(&capture.Call{Args: []value.Value{v}, Kwargs: &value.Dict{}}); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
