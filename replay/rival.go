package replay

import (
	"slices"

	"github.com/optool/optool/compare"
)

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
