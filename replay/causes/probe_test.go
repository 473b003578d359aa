package causes

import (
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestProbeRefutesByRank: a decomposition of long rows, whose first result has another rank than the recorded one, is
// refuted by a small part, and not computed.
func TestProbeRefutesByRank(t *testing.T) {
	rows := tensor.Full(tensor.Float32, []int{40, 1000}, 1.0).Rounded()
	call, err := ops.Default().Bind("torch.linalg.svd", []value.Value{rows}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{got: tensor.Full(tensor.Float32, []int{8}, 1.0), of: func(shape []int) []int {
		t.Error("the part is computed")
		return leastOf(shape)
	}}
	if !p.refutes(call, 0) {
		t.Error("a matrix is no vector")
	}
}
