package reduce

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/ops"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A losing device adds nothing in rows of index_add to which several are added.
type losing struct{}

func (losing) Run(c *replay.DeviceCall) *replay.DeviceRun {
	out := tensor.New(tensor.Float32, c.Forward.Outs[0].Shape,
		slices.Clone(tensor.Data[float64](c.Forward.Outs[0].Rounded())))
	seen := map[int64]int{}
	for _, a := range c.Call.Tensors() {
		if a.Name != "index" {
			continue
		}
		for _, i := range tensor.Data[int64](a.Tensor) {
			if seen[i]++; seen[i] == 2 {
				tensor.Data[float64](out)[int(i)*out.Shape[1]] += 1
			}
		}
	}
	return &replay.DeviceRun{Functions: []string{"f"}, Outputs: []*tensor.Tensor{out.Rounded()}}
}

// TestRenumbered: the indices that are left of a call on a device are renumbered, so that what they choose from can
// be cut. The call has what the device gave: explain has something to read.
func TestRenumbered(t *testing.T) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	index := tensor.New(tensor.Int64, []int{6}, []int64{40, 7, 23, 45, 45, 12})
	in := &capture.Record{Name: "torch.index_add",
		Args:   []value.Value{random(1, 50, 3), int64(0), index, random(2, 6, 3)},
		Kwargs: &value.Dict{}, Identifier: "torch.index_add/0/input"}
	rec := capture.Made(map[capture.Kind]*capture.Record{capture.Input: in})
	opt := replay.Options{Registry: ops.Default(), Tolerances: tol, Device: losing{}}
	r, err := Of(t.Context(), rec, opt, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	const want = "self float32[1, 1], index int64[2], source float32[2, 1]"
	got := strings.Join(r.Is, ", ")
	if got != want || !slices.Contains(r.Indifferent, "for indices renumbered from 0") {
		t.Errorf("got %s, %q, want %s", got, r.Indifferent, want)
	}
	opt.Device = nil
	if o := replay.Of(r.Call, opt).Compare(); len(o.Results) != 1 || o.Results[0].Reason != r.Failure {
		t.Errorf("explained as %+v, want %s", o.Results, r.Failure)
	}
}
