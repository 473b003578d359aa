package replay_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A changingDevice leaves tensors in the arguments of a call, by their names.
type changingDevice map[string][]*tensor.Tensor

func (d changingDevice) Run(*replay.DeviceCall) *replay.DeviceRun {
	return &replay.DeviceRun{Functions: []string{"changes"}, After: d}
}

// TestListOnDevice: arguments of a list that a device changed have a target each, and each is compared with that of the
// second device.
func TestListOnDevice(t *testing.T) {
	one := func(x float64) *tensor.Tensor { return stored(tensor.Float32, []int{2}, x, 2*x) }
	dir := t.TempDir()
	write(t, filepath.Join(dir, "input.pth"), "torch._foreach_mul_",
		[]value.Value{value.NewList(one(1), one(2), one(3)), 2.0})
	opt := options(t)
	opt.Device = changingDevice{"self": {one(2), one(5), one(6)}}
	opt.Against = &replay.Rival{Device: changingDevice{"self": {one(2), one(4), one(7)}}, Name: "other"}
	call := replay.Open(entries(t, dir)[0], opt)
	defer call.Close()
	var got []string
	for _, r := range call.Compare().Results {
		text := r.Device + " " + r.Target + " " + string(r.Verdict)
		if r.Against != nil {
			text += " " + r.Against.Verdict
		}
		got = append(got, text)
	}
	want := []string{" input.self[0] pass same", " input.self[1] fail worse", " input.self[2] pass better",
		"other input.self[0] pass", "other input.self[1] pass", "other input.self[2] fail"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
