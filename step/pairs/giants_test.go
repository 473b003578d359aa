package pairs

import (
	"errors"
	"testing"

	"github.com/optool/optool/capture/checkpoint"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// TestGiantBits: elements that are no numbers and repeat are read once.
func TestGiantBits(t *testing.T) {
	giant := func(x byte) *tensor.Tensor {
		v, err := tensor.NewView(tensor.NewStorage([]byte{x}), tensor.View{DType: tensor.Bits8, Shape: []int{1 << 40},
			Stride: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for x, want := range map[byte]verdict.Verdict{1: verdict.Pass, 2: verdict.Fail} {
		p := ByName(set("a", "w", giant(1)), set("b", "w", giant(x)), (*checkpoint.Map)(nil))[0]
		if r := (Comparer{Tolerances: tol}).CompareNamed(p, ""); r.Verdict != want {
			t.Errorf("1 and %d: %s, want %s: %s", x, r.Verdict, want, r.Reason)
		}
	}
}

// TestGiveUp: a comparison that ended before its time is an error that names what was compared.
func TestGiveUp(t *testing.T) {
	p := ByName(set("a", "w", floats(1)), set("b", "w", floats(1)), nil)[0]
	r := Comparer{}.GiveUpNamed(p, "again", errors.New("not done after 1s"))
	if r.Verdict != verdict.Error || r.Reason != "not done after 1s" || r.Target != "w" || *r.Repro != "again" {
		t.Errorf("got %+v", r)
	}
}
