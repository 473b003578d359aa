package causes

import (
	"slices"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestKeptTails: tensors of a list that are as they were behind the last whole tile of each have one cause.
func TestKeptTails(t *testing.T) {
	x, y := rows(1, 9, 17), rows(2, 200)
	c, _ := searched(t, "torch._foreach_mul_", value.NewList(x, y), 0.25)
	after := c.Ran.After["self"]
	if len(after) != 2 {
		t.Fatalf("%d tensors are changed, want 2", len(after))
	}
	c.Changed = func(_ *opdef.Forward, target string) *tensor.Tensor {
		return map[string]*tensor.Tensor{"input[0]": after[0], "input[1]": after[1]}[target]
	}
	var fails []Wrong
	for i, target := range []string{"output[0]", "output[1]", "input[0]", "input[1]"} {
		was := []*tensor.Tensor{x, y}[i%2]
		got := opdef.ZipAt(tensor.Float32, was.Shape, func(lo int, dst []float64, src [][]float64) {
			for k := range dst {
				dst[k] = src[btoi(lo+k >= was.Numel()/64*64)][k]
			}
		}, after[i%2], was).Rounded()
		fails = append(fails, Wrong{Target: target, Got: got, Want: after[i%2]})
	}
	found := 0
	for m := range c.keptTails(fails) {
		way, err := m.Make()
		if err != nil {
			t.Fatal(err)
		}
		exact := true
		for _, f := range fails {
			exact = exact && slices.Equal(elements(f.Got), elements(way.Alter(f.Target, f.Want).Rounded()))
		}
		if found += btoi(exact); exact && m.Text != "nothing is written behind a multiple of 32 or 64 elements of each tensor: "+
			"what was there before the call stays" {
			t.Errorf("%s", m.Text)
		}
	}
	if found != 1 {
		t.Errorf("%d mistakes give what was recorded, want 1", found)
	}
}

// TestPiledUp: a gradient that is added to the first index of a dimension, whatever its own is.
func TestPiledUp(t *testing.T) {
	c, _ := searched(t, "torch.sigmoid", rows(1, 3, 4, 10))
	want := rows(2, 3, 4, 10)
	sums := make([]float64, 120)
	for i, x := range elements(want) {
		sums[i-i/10%4*10] += x
	}
	got := tensor.New(tensor.Float32, want.Shape, sums).Rounded()
	found := texts(c.piledUp([]Wrong{{Target: "grad[0]", Got: got, Want: want}}))
	if !slices.Equal(found, []string{"all of dimension 1 is added to index 0: its offset is ignored",
		"all of dimension 1 is written to index 0: its offset is ignored"}) {
		t.Errorf("found %v", found)
	}
}

// TestGradientOfRoundedOperands: a backward pass may round what it reads, and the forward pass not.
func TestGradientOfRoundedOperands(t *testing.T) {
	c, _ := searched(t, "torch.sigmoid", rows(1, 9, 40))
	const text = "operands and the incoming gradient are rounded to bfloat16 first"
	for target, want := range map[string]bool{"grad[0]": true, "output[0]": false} {
		if found := texts(c.rounded([]Wrong{{Target: target}})); slices.Contains(found, text) != want {
			t.Errorf("%s: found %v", target, found)
		}
	}
}

// TestRegionAtItsEnd: the number at which a region ends is in it if it is wrong itself.
func TestRegionAtItsEnd(t *testing.T) {
	for want, r := range map[string]region{
		"at least 0": {wrong: 0, right: -0.5}, "above 0": {wrong: 0.5, right: 0},
		"at most 0": {below: true, wrong: 0, right: 0.5}, "below 0": {below: true, wrong: -0.5, right: 0},
	} {
		if got := r.String(); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}
