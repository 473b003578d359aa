package devicecheck

import (
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/ops/opcheck"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Causes looks for mistakes under which the reference gives what the device made of a call, as for a recorded one.
func Causes(d replay.Device, registry *opdef.Registry, m *opcheck.Made,
	allowed *causes.Allowance) (found []causes.Cause) {
	tol, err := compare.NewTolerances(nil, nil)
	if err != nil {
		return nil
	}
	_ = replay.Guard(func() error { // what cannot be computed has no cause
		name := m.Call.Entry.Names[0]
		record := func(args []value.Value, kwargs *value.Dict) *capture.Record {
			return &capture.Record{Name: name, Args: args, Kwargs: kwargs, Identifier: name + "/0"}
		}
		records := map[capture.Kind]*capture.Record{capture.Input: record(m.Call.Python())}
		if slices.ContainsFunc(m.Out, func(t *tensor.Tensor) bool { return t != nil }) {
			var out []value.Value
			for _, t := range m.Out {
				if t == nil {
					out = append(out, nil)
				} else {
					out = append(out, t)
				}
			}
			records[capture.GradOutputs] = record(out, &value.Dict{})
		}
		call := replay.Of(capture.Made(records), replay.Options{Registry: registry, Tolerances: tol, Device: d})
		defer call.Close()
		found = call.Causes(call.Compare(), allowed)
		return nil
	})
	return found
}
