package coverage_test

import (
	"slices"
	"testing"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/coverage"
	"github.com/optool/optool/tensor"
)

// A picky device runs calls of one name without tensors of one dtype.
type picky struct {
	name string
	not  tensor.DType
}

func (p picky) Run(c *replay.DeviceCall) *replay.DeviceRun {
	run := &replay.DeviceRun{Functions: []string{"f"}}
	for _, a := range c.Call.Tensors() {
		if a.Tensor.DType == p.not || c.Call.Name != p.name {
			run.Forward = replay.DeviceStatus{Verdict: verdict.Unsupported, Reason: "not here"}
		}
	}
	return run
}

// TestTry: an operator is tried with every dtype that its reference takes, by each of its
// names until one is known.
func TestTry(t *testing.T) {
	for _, tc := range []struct {
		name     string
		runs     []string
		does, no string
	}{
		{"torch.nn.functional.softmax", []string{"float32", "float64", "float16"}, "float32", "bfloat16"},
		{"torch.Tensor.softmax", []string{"float32", "float64"}, "float64", "bfloat16"},
		{"torch.bitwise_and", []string{"int64", "int8", "uint8", "bool"}, "int16", "float32"},
		{"torch.nn.functional.embedding", []string{"float32", "float16"}, "float64", "int64"},
	} {
		trials := coverage.Try(picky{tc.name, tensor.BFloat16}, ops.Default().Lookup(tc.name)[0])
		of := func(dtype string) *coverage.Trial {
			i := slices.IndexFunc(trials, func(x coverage.Trial) bool { return x.DType == dtype })
			if i < 0 {
				return nil
			}
			return &trials[i]
		}
		for _, dtype := range append(tc.runs, tc.does) {
			if x := of(dtype); x == nil || x.Err != nil || !slices.Equal(x.Functions, []string{"f"}) {
				t.Errorf("%s of %s: got %v, want that it runs", tc.name, dtype, x)
			}
		}
		if x := of(tc.no); x != nil && x.Err == nil {
			t.Errorf("%s of %s: got %v, want that it does not run", tc.name, tc.no, x)
		}
	}
}
