package step

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestUnseen: a call whose result is what it gives with a value that a later reader finds
// changed is a consequence of the change, although its recorded argument is as it was; a
// call that is wrong in another way is wrong before.
func TestUnseen(t *testing.T) {
	x := make([]float64, 32)
	for i := range x {
		x[i] = float64(i) + 1
	}
	stray := slices.Clone(x)
	stray[13], stray[14] = 99, 98
	times := func(k float64, x []float64) []float64 {
		out := slices.Clone(x)
		for i := range out {
			out[i] *= k
		}
		return out
	}
	for _, tc := range []struct {
		name  string
		shape []int     // in which the first reader has it
		gave  []float64 // what the first reader made of it
		want  []string
	}{
		{"before the change", []int{4, 8}, times(2, x), []string{"changed torch.Tensor.mul/3: 2 of 32 elements changed, " +
			"the first at [1, 5], the last at [1, 6]: from 14 to 99 " +
			"since output[0] of torch.relu/1, and no recorded call wrote there"}},
		{"during the call", []int{4, 8}, times(2, stray), []string{"changed torch.Tensor.mul/3: 2 of 32 elements changed, " +
			"the first at [1, 5], the last at [1, 6]: from 14 to 99 " +
			"since output[0] of torch.relu/1, and no recorded call wrote there; " +
			"torch.Tensor.mul/2 had computed with it, though its recorded argument is what was there before"}},
		{"in another shape", []int{32}, times(2, stray), []string{"changed torch.Tensor.mul/3: 2 of 32 elements changed, " +
			"the first at [1, 5], the last at [1, 6]: from 14 to 99 " +
			"since output[0] of torch.relu/1, and no recorded call wrote there; " +
			"torch.Tensor.mul/2 had computed with it, though its recorded argument is what was there before"}},
		{"wrong by itself", []int{4, 8}, times(3, x), []string{"wrong torch.Tensor.mul/2: ", "changed torch.Tensor.mul/3: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			const made = 8000
			record(t, root, 1, "torch.relu", []any{located{1000, []int{4, 8}, x}}, nil, located{made, []int{4, 8}, x})
			record(t, root, 2, "torch.Tensor.mul", []any{located{made, tc.shape, x}, 2.0}, nil,
				located{20000, tc.shape, tc.gave})
			record(t, root, 3, "torch.Tensor.mul", []any{located{made, []int{4, 8}, stray}, 2.0}, nil,
				located{30000, []int{4, 8}, times(2, stray)})
			tr := analyse(t, root)
			var got []string
			for i, f := range tr.Findings {
				s := fmt.Sprintf("%s %s: %s", f.Rule, f.Call, f.Reason)
				if i < len(tc.want) && strings.HasSuffix(tc.want[i], ": ") && strings.HasPrefix(s, tc.want[i]) {
					s = tc.want[i]
				}
				got = append(got, s)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if f := tr.First(); f.Call.Entry.ID == 3 && f.Behind != len(tr.Calls()[1].Results) {
				t.Errorf("%d values are behind it, want %d", f.Behind, len(tr.Calls()[1].Results))
			}
		})
	}
}
