package replay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestSides: where the two sides of a pair hold different values of an argument, the first result says so, unless the
// call writes the argument. The results are judged by the device side.
func TestSides(t *testing.T) {
	f32 := func(v ...float64) *tensor.Tensor { return stored(tensor.Float32, []int{len(v)}, v...) }
	for _, tc := range []struct {
		name, op    string
		device, cpu []value.Value
		output      *tensor.Tensor
		differs     bool
	}{
		{"other operand", "torch.abs", []value.Value{f32(-1, 2, 3)}, []value.Value{f32(-1, 5, 3)}, f32(1, 2, 3), true},
		{"the same", "torch.abs", []value.Value{f32(-1, 2, 3)}, []value.Value{f32(-1, 2, 3)}, f32(1, 2, 3), false},
		{"converted", "torch.abs", []value.Value{f32(-1, 2.001, 3)},
			[]value.Value{stored(tensor.BFloat16, []int{3}, -1, 2, 3)}, f32(1, 2.001, 3), false},
		{"written", "torch.Tensor.abs_", []value.Value{f32(-1, 2, 3)}, []value.Value{f32(1, 2, 3)}, f32(1, 2, 3),
			false},
		{"second operand", "torch.Tensor.add_", []value.Value{f32(1, 2), f32(1, 1)},
			[]value.Value{f32(2, 3), f32(1, 7)}, f32(2, 3), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), tc.op, "7", "autocompare", "3", "2024-01-01-00-00-00")
			for side, args := range map[string][]value.Value{"device": tc.device, "cpu": tc.cpu} {
				dir := filepath.Join(root, side)
				if err := os.MkdirAll(dir, 0o777); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, "input.pth"), tc.op, args)
				write(t, filepath.Join(dir, "output.pth"), tc.op, []value.Value{tc.output})
			}
			o := replay.Run(entries(t, root)[0], options(t))
			if o.FailedForward() {
				t.Error("the call fails")
			}
			sides := o.Results[0].Sides
			if !tc.differs {
				if len(sides) > 0 {
					t.Errorf("found %q", sides)
				}
				return
			}
			if len(sides) != 1 || !strings.HasPrefix(sides[0], fmt.Sprintf("input[%d]: 1 of ", len(tc.device)-1)) ||
				!strings.Contains(sides[0], "elements differ between device/input.pth and cpu/input.pth, by up to ") {
				t.Errorf("found %q", sides)
			}
			if n := len(tc.device) - 1; o.Inputs[n].Numbers.AllClose {
				t.Errorf("op_tools' row says that argument %d is the same", n)
			}
		})
	}
}
