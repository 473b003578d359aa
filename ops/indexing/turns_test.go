package indexing_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestLostTurns: of five values that go to one place, each may be lost, or all behind the first ones: the mistakes have
// these results, and these gradients of an embedding.
func TestLostTurns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(shape ...int) *tensor.Tensor {
		v := make([]float64, tensor.Numel(shape))
		for i := range v {
			v[i] = r.NormFloat64()
		}
		x := tensor.New(tensor.Float32, shape, v).Rounded()
		x.RequiresGrad = true
		return x
	}
	index := tensor.New(tensor.Int64, []int{7}, []int64{2, 0, 2, 2, 1, 2, 2})
	src, table := random(7, 3), random(4, 3)
	for _, c := range []struct {
		op, text string
		args     []value.Value
		lost     []int // rows of src
	}{
		{"torch.index_add", "of several additions to one place the 3rd is lost",
			[]value.Value{table, int64(0), index, src}, []int{3}},
		{"torch.index_add", "of several additions to one place only the first 4 count",
			[]value.Value{table, int64(0), index, src}, []int{6}},
		{"torch.nn.functional.embedding", "of several gradients of one row the 5th is lost",
			[]value.Value{index, table}, []int{6}},
		{"torch.nn.functional.embedding", "of several gradients of one row only the first counts",
			[]value.Value{index, table}, []int{2, 3, 5, 6}},
	} {
		call, err := ops.Default().Bind(c.op, c.args, &value.Dict{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := call.Forward(); err != nil {
			t.Fatal(err)
		}
		all := call.Mistakes()
		at := slices.IndexFunc(all, func(m opdef.Mistake[*opdef.Call]) bool { return m.Text == c.text })
		if at < 0 {
			t.Errorf("%s: no mistake %q", c.op, c.text)
			continue
		}
		wrong, err := all[at].Plan()
		if err != nil {
			t.Fatal(err)
		}
		f, err := wrong.Forward()
		if err != nil {
			t.Fatal(err)
		}
		got, base := f.Outs[0], table
		if c.op != "torch.index_add" {
			grads, err := wrong.Backward(f, []*tensor.Tensor{src}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, base = grads["weight"][0], tensor.Full(tensor.Float32, table.Shape, 0.0)
		}
		want := slices.Clone(tensor.Data[float64](base))
		for i, row := range tensor.Data[int64](index) {
			if !slices.Contains(c.lost, i) {
				for k := range 3 {
					want[int(row)*3+k] += tensor.Data[float64](src)[i*3+k]
				}
			}
		}
		for i, x := range tensor.Data[float64](got) {
			if math.Abs(x-want[i]) > 1e-12 {
				t.Errorf("%s, %s: element %d is %v, want %v", c.op, c.text, i, x, want[i])
				break
			}
		}
	}
}
