package replay

import (
	"slices"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/tensor"
)

// Against compares what two devices gave of the same value, both against the reference.
type Against struct {
	RMSE, Other float64 // root mean squared errors of the first device, and of the second
	Apart       float64 // root mean square of what the two are apart
	Verdict     string  // the first is better, same or worse
}

// A deviceValue is what a device gave of a value that was compared.
type deviceValue struct {
	result    int // index among the results
	got, want *tensor.Tensor
}

// compareDevices compares the values of two devices with each other.
func (r *comparison) compareDevices(first, second []deviceValue) {
	for _, v := range first {
		res := &r.out.Results[v.result]
		i := slices.IndexFunc(second, func(w deviceValue) bool {
			other := &r.out.Results[w.result]
			return other.Phase == res.Phase && other.Target == res.Target
		})
		if i < 0 {
			continue
		}
		w := second[i]
		if !slices.Equal(v.got.Shape, v.want.Shape) || !slices.Equal(v.got.Shape, w.got.Shape) {
			continue
		}
		is := newWitness(compare.RMSE(v.got, v.want), compare.RMSE(w.got, w.want), res.Compared.OpTools.Atol)
		res.Against = &Against{RMSE: is.Device, Other: is.Recorded, Apart: compare.RMSE(v.got, w.got),
			Verdict: is.Verdict}
	}
}

// of says that a result is of the device of that name.
func (r *Result) of(name string) {
	r.Device = name
	if r.Label != "" {
		r.Label += " on " + name
	}
	if r.Reason != "" {
		r.Reason = "on " + name + ": " + r.Reason
	}
}
