package step

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestMemoryInBackward: a value that was overwritten between two calls of the backward pass is the wrong gradient that
// it makes, and no finding of its own. Without it the next loss follows from what those calls read, also where they
// leave gradients out. The second micro batch has the weights of the first.
func TestMemoryInBackward(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		loss         float64
	}{
		{"memory-in-backward", "torch.ops.aten.gelu_backward/21 gave the right one, and its memory was written " +
			"before torch.ops.aten.t/22 read it at ", 1.549919605255127},
		{"memory-in-backward-masked", "torch.ops.aten.silu_backward/23 gave the right one, and its memory was " +
			"written before torch.ops.aten.convolution_backward/24 read it at ", 1.3514593839645386},
	} {
		tr := analyse(t, unpack(t, tc.name))
		var got []string
		for _, f := range tr.Findings {
			got = append(got, string(f.Rule))
		}
		if want := "nonfinite wrong"; strings.Join(got, " ") != want {
			t.Fatalf("%s: findings %q, want %q", tc.name, got, want)
		}
		if f := tr.Findings[1]; f.Rule != verdict.Wrong || !strings.Contains(f.Reason, tc.reason) {
			t.Errorf("%s: %s", tc.name, f.Reason)
		}
		m := tr.Without(context.Background(), options(t))
		if math.Abs(m.Loss-tc.loss) > 1e-6*tc.loss || m.Why != "" || !(m.Rounding > 0) || m.NotFinite == nil {
			t.Errorf("%s: without the fault %+v, want %v", tc.name, m, tc.loss)
		}
		steps := tr.Processes[0].Steps
		shares := tr.Shares(context.Background(), m, 5, options(t))
		if s, ok := shares[steps[1]]; !ok || s.Before != "" {
			t.Errorf("%s: the second micro batch: %+v", tc.name, s)
		}
		if s := shares[steps[3]]; s.Before == "" {
			t.Errorf("%s: behind the update: %+v", tc.name, s)
		}
	}
}

// TestViewsWriteNothing: a square matrix transposed lies where the matrix does and has other elements, which nothing
// wrote; what has the same layout and other elements was written.
func TestViewsWriteNothing(t *testing.T) {
	for _, tc := range []struct {
		op     string
		stride []int
		writes bool
	}{
		{"torch.ops.aten.t", []int{1, 2}, false},
		{"torch.ops.aten.mul.out", []int{2, 1}, true},
		{"torch.ops.aten.t_", []int{1, 2}, true},
	} {
		c := &Call{Op: tc.op}
		in := &Value{Call: c, Kind: inputKind, Address: 64, Shape: []int{2, 2}, Stride: []int{2, 1}}
		out := &Value{Call: c, Kind: outputKind, Address: 64, Shape: []int{2, 2}, Stride: tc.stride}
		out.content.sum = 7
		c.Inputs, c.Outputs = []*Value{in}, []*Value{out}
		if c.findWriting(); c.writes != tc.writes {
			t.Errorf("%s writes: %v, want %v", tc.op, c.writes, tc.writes)
		}
	}
}

// TestRolled: elements that moved along a dimension, and those that did not.
func TestRolled(t *testing.T) {
	y := []float64{0, 1, 2, 3, 4, 5}
	for _, tc := range []struct {
		x            []float64
		n, inner, by int
		want         bool
	}{
		{[]float64{4, 5, 0, 1, 2, 3}, 3, 2, 1, true},
		{[]float64{4, 5, 0, 1, 2, 3}, 3, 2, 2, false},
		{[]float64{1, 0, 3, 2, 5, 4}, 2, 1, 1, true},
		{[]float64{1, 0, 3, 2, 4, 5}, 2, 1, 1, false},
	} {
		if got := rolled(tc.x, y, tc.n, tc.inner, tc.by); got != tc.want {
			t.Errorf("%v by %d: %v", tc.x, tc.by, got)
		}
	}
}

// TestBufferRolled: of a buffer that was rolled in memory it is told that, and by how far.
func TestBufferRolled(t *testing.T) {
	f := analyse(t, unpack(t, "buffer-rolled")).First()
	want := "; it has its elements in another order: rolled by 1 along dimension 0"
	if f == nil || f.Rule != verdict.Changed || !strings.HasSuffix(f.Reason, want) || f.From.Made() {
		t.Errorf("got %+v", f)
	}
}
