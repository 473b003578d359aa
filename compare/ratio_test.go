package compare

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestBoundRatio: how near the worst element comes to what is allowed.
func TestBoundRatio(t *testing.T) {
	const ulp = 0x1p-23
	f := func(v ...float64) *tensor.Tensor { return floats(tensor.Float32, []int{len(v)}, v...) }
	scale := func() *tensor.Tensor { return floats(tensor.Float64, []int{2}, 1, 1) }
	for _, tc := range []struct {
		name     string
		got, ref *tensor.Tensor
		m        Model
		override *Tolerance
		want     float64
	}{
		{"equal", f(1, 2), f(1, 2), Model{ULPs: 1}, nil, 0},
		{"exact", f(1, 2), f(1, 3), Model{Exact: true}, nil, 0},
		{"within ulps", f(1, 1+ulp), f(1, 1), Model{ULPs: 2}, nil, 0.5},
		{"beyond ulps", f(1, 1+6*ulp), f(1, 1), Model{ULPs: 2}, nil, 3},
		// 1 ulp and c u S, with c = 8, u = ulp/2 and S = 1: 5 ulp
		{"beyond a sum", f(1, 1+10*ulp), f(1, 1), Model{ULPs: 1, Scale: scale, Covers: true, Terms: 1}, nil, 2},
		{"within a sum", f(1, 1+4*ulp), f(1, 1), Model{ULPs: 1, Scale: scale, Covers: true, Terms: 1}, nil, 0.8},
		{"within ulps of a sum", f(1, 1+ulp), f(1, 1), Model{ULPs: 1, Scale: scale, Covers: true, Terms: 1}, nil, 0.2},
		{"tolerance", f(1, 2.5), f(1, 2), Model{}, &Tolerance{Atol: 1, Rule: "flag"}, 0.5},
		{"integers by tolerance", ints(tensor.Int32, []int{1}, 2), ints(tensor.Int32, []int{1}, 5), Model{},
			&Tolerance{Atol: 1, Rule: "flag"}, 3},
		{"not finite", f(1, math.NaN()), f(1, 1), Model{ULPs: 1}, nil, math.Inf(1)},
	} {
		tol := Tolerance{Atol: 1e-5, Rtol: 1e-5}
		got := Check(tc.got, tc.ref, tc.m, tol, tc.override).BoundRatio
		if got != tc.want && !(math.Abs(got-tc.want) <= 1e-9*tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
