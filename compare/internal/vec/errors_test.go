package vec

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestErrors compares the vector loop with the plain one, bit for bit, and both with sums in higher
// precision, on random elements and on ones that do not count.
func TestErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 8))
	p := Precision{Least: 0x1p-125, Top: math.MaxFloat32, Mant: 23}
	odd := []float64{0, math.Copysign(0, -1), 0x1p-126, -0x1p-125, 0x1.8p-125, 1, -2, math.MaxFloat32, -3.5e38,
		math.Inf(1), math.Inf(-1), math.NaN()}
	for trial := range 400 {
		n := r.IntN(70)
		got, exact, near := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range got {
			exact[i] = math.Ldexp(r.NormFloat64(), r.IntN(20)-10)
			if r.IntN(8) == 0 {
				exact[i] = odd[r.IntN(len(odd))]
			}
			if r.IntN(4) == 0 { // an element that the format has
				exact[i] = float64(float32(exact[i]))
			}
			near[i] = float64(float32(exact[i]))
			got[i] = float64(float32(exact[i] * (1 + float64(r.IntN(5)-2)*0x1p-24)))
			if r.IntN(16) == 0 {
				got[i] = odd[r.IntN(len(odd))]
			}
		}
		have := p.Errors(got, exact, near)
		var lanes [errorLanes]Errors
		for i := range got {
			p.add(&lanes[i%errorLanes], got[i], exact[i], near[i])
		}
		var plain Errors
		for k := range lanes {
			plain.Add(&lanes[k])
		}
		if have != plain {
			t.Fatalf("trial %d, %d elements: vectors give %+v, the plain loop %+v", trial, n, have, plain)
		}
		checkErrors(t, have, got, exact, near)
	}
}

// checkErrors adds up some of the sums by their definitions.
func checkErrors(t *testing.T, have Errors, got, exact, near []float64) {
	t.Helper()
	want := Errors{}
	sum := map[*float64]*big.Float{&want.R: {}, &want.RD: {}, &want.D2: {}, &want.Away: {}, &want.ULP2: {}}
	size := map[*float64]float64{}
	add := func(s *float64, x float64) {
		sum[s].SetPrec(2000).Add(sum[s], big.NewFloat(x))
		size[s] += math.Abs(x)
	}
	for i, e := range exact {
		d := got[i] - near[i]
		if math.IsNaN(d) || math.IsInf(d, 0) || math.Abs(e) < 0x1p-125 {
			continue
		}
		want.N++
		add(&want.R, e)
		add(&want.RD, e*d)
		add(&want.D2, d*d)
		if math.Abs(e) >= math.MaxFloat32 || float64(float32(e)) == e {
			continue
		}
		want.Inexact++
		ulp := math.Ldexp(1, math.Ilogb(e)-23)
		off := (got[i] - e) / ulp
		add(&want.Away, math.Copysign(1, e)*d/ulp)
		add(&want.ULP2, off*off)
		if off < 0 {
			want.Below++
		}
		if off < 0 == (e > 0) {
			want.Toward++
		}
		if math.Abs(off) >= 1 {
			want.Beyond++
		}
	}
	if have.N != want.N || have.Inexact != want.Inexact || have.Below != want.Below || have.Toward != want.Toward ||
		have.Beyond != want.Beyond {
		t.Fatalf("counts are %+v, want %+v", have, want)
	}
	for s, x := range map[*float64]float64{&want.R: have.R, &want.RD: have.RD, &want.D2: have.D2, &want.Away: have.Away,
		&want.ULP2: have.ULP2} {
		if w, _ := sum[s].Float64(); !(math.Abs(x-w) <= 1e-13*size[s]) {
			t.Fatalf("a sum is %v, want %v", x, w)
		}
	}
}
