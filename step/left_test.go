package step

import (
	"testing"

	"github.com/optool/optool/compare/verdict"
)

// TestMayBeLeft: gradients that may hold what was there before the recording are one kind of finding, which says so. It
// comes behind what the backward pass made wrong before an update read them. Where the recording has what lay in the
// memory before, they are of no such kind.
func TestMayBeLeft(t *testing.T) {
	tr := analyse(t, unpack(t, "left-before"))
	kinds := tr.Kinds()
	if len(kinds) != 2 || kinds[0][0].Rule != verdict.Wrong || kinds[0][0].Call.Op != "torch.nn.functional.gelu" ||
		len(kinds[1]) != 2 {
		t.Fatalf("got %v", kinds)
	}
	for _, f := range kinds[1] {
		if may, record := f.MayBeLeft(); !may || record != ": steps=[0, 1]" {
			t.Errorf("%s: %t, %q", f.Target, may, record)
		}
	}
	f := kinds[1][0]
	v := f.Call.Value(f.Target)
	o := other{v: v, readings: []*Value{f.From}, off: "at [0] 1 instead of 2"}
	forward := v.Call.Step.Calls[0].Outputs[0]
	if !o.mayBeLeft() {
		t.Error("nothing lay there")
	}
	was := forward.Address
	forward.Address = v.Address
	if o.mayBeLeft() {
		t.Error("the forward pass had the memory for something else")
	}
	forward.Address = was
	if o.off = allZero; o.mayBeLeft() {
		t.Error("zeros are nothing that was left")
	}
}
