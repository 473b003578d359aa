package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/internal/num/vmath"
)

// TestNear follows the largest distance over reach through random elements,
// some of them out of reach, special or equal, and compares with a plain loop.
func TestNear(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 5))
	reach := Reach{ULPs: 3, Mant: 23, Low: 1023 - 126, High: 1023 + 127}
	for trial := range 200 {
		n := r.IntN(300)
		got, exact := make([]float64, n), make([]float64, n)
		for i := range got {
			exact[i] = math.Ldexp(r.NormFloat64(), r.IntN(20)-10)
			unit := math.Ldexp(1, math.Ilogb(exact[i])-23)
			got[i] = exact[i] + unit*(r.Float64()-0.5)*[]float64{0, 1, 1, 1, 1.5, 5, 8}[r.IntN(3+trial%5)]
			switch r.IntN(60 + 1000*(trial%2)) {
			case 0:
				got[i] = math.NaN()
			case 1:
				exact[i] = math.Inf(1)
			case 2:
				exact[i] = 0x1p-140
			case 3:
				exact[i], got[i] = 0, 0
			case 4:
				exact[i] = 0x1p200
			case 5:
				exact[i], got[i] = 0, 0x1p-149
			case 6:
				got[i], exact[i] = math.Inf(-1), math.Inf(-1)
			}
		}
		var scale []float64
		if trial%3 == 0 {
			for range n {
				scale = append(scale, r.Float64()*0x1p-10)
			}
		}
		type result struct {
			Tally
			strange, at, outAt int
			worst, beyond      float64
		}
		want, have := result{at: -1, outAt: -1}, result{at: -1, outAt: -1}
		reach.Final, reach.Gradual = trial%2 == 0, trial%7 < 3
		if reach.Covers = trial%5 < 2; reach.Covers {
			reach.Factor, reach.Constant = 0x1p-24, 0x1p-40 // at most a unit of the exact value
			for i := range scale {
				scale[i] = math.Abs(exact[i]) * (1 + r.Float64())
			}
		} else {
			reach.Factor, reach.Constant = 0x1p-13, 0x1p-30
		}
		one := func(s *result, i int) {
			y := exact[i]
			e := int(math.Float64bits(y) >> 52 & 0x7ff)
			if reach.Gradual {
				e = max(e, int(reach.Low))
			}
			unit := math.Ldexp(1, e-1023-23)
			d := got[i] - y
			if got[i] == y {
				return
			}
			most := 3 * unit
			further := func(magnitude float64) {
				if math.Abs(d) > most && math.Abs(d) > unit/2 {
					most = 3*unit + reach.Factor*magnitude
					most += reach.Constant
				}
			}
			if reach.Covers {
				further(math.Abs(y))
			}
			if scale != nil {
				further(scale[i])
			}
			in := math.Abs(d) <= most
			if uint64(e) < reach.Low || uint64(e) > reach.High || !in && !(math.Abs(d) <= math.MaxFloat64) {
				s.strange++
				return
			}
			if d > unit/2 {
				s.Above++
			}
			if d < -unit/2 {
				s.Below++
			}
			switch {
			case !in:
				s.Out++
				if math.Abs(d) > s.beyond*most {
					s.beyond, s.outAt = math.Abs(d)/most, i
				}
			case math.Abs(d) > unit/2 && math.Abs(d) > s.worst*most:
				s.worst, s.at = math.Abs(d)/most, i
			}
		}
		for i := range got {
			one(&want, i)
		}
		tally := reach.Near(got, exact, scale, &have.worst, &have.beyond, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				one(&have, i)
			}
		})
		have.Above += tally.Above
		have.Below += tally.Below
		have.Out += tally.Out
		if have != want {
			t.Fatalf("trial %d, %d elements: got %+v, want %+v", trial, n, have, want)
		}
	}
}

// TestNearTiny compares elements about the smallest that a unit is known of with those taken one by one.
func TestNearTiny(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	reach := Reach{ULPs: 2, Mant: 52, Low: 53, High: 2046, Final: true}
	for range 300 {
		got, exact := make([]float64, 32), make([]float64, 32)
		for i := range got {
			exact[i] = math.Ldexp(r.Float64(), -1022+r.IntN(60)) * float64(r.IntN(3))
			got[i] = math.Float64frombits(math.Float64bits(exact[i]) + uint64(r.IntN(4)*r.IntN(2)))
		}
		follow := func(near func(within, beyond *float64, look func(lo, hi int)) Tally) (all [2]Tally) {
			within, beyond := 1.0, math.Inf(1)
			all[1] = near(&within, &beyond, func(lo, hi int) {
				for i := lo; i < hi; i++ {
					if e := math.Float64bits(exact[i]) >> 52; e >= reach.Low {
						tally(reach, &all[0], 0, got[i:i+1], exact[i:i+1], nil, &within, &beyond, func(int, int) {})
					} else if got[i] != exact[i] {
						all[0].Out += 1000 // r does not speak of them
					}
				}
			})
			return [2]Tally{{all[0].Above + all[1].Above, all[0].Below + all[1].Below, all[0].Out + all[1].Out}}
		}
		have := follow(func(within, beyond *float64, look func(lo, hi int)) Tally {
			return reach.Near(got, exact, nil, within, beyond, look)
		})
		want := follow(func(within, beyond *float64, look func(lo, hi int)) (t Tally) {
			tally(reach, &t, 0, got, exact, nil, within, beyond, look)
			return t
		})
		if have != want {
			t.Fatalf("got %+v, want %+v of\n%g\n%g", have, want, got, exact)
		}
	}
}

// TestNear32 compares Near32 with a plain loop over the elements as float64:
// random elements up to the odd half units that only the binade below has,
// powers of two, numbers whose unit is small or whose differences overflow,
// zeros of both signs, infinite and NaN ones.
func TestNear32(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 11))
	odd := []float32{0, float32(math.Copysign(0, -1)), 1, 2, -1, 0x1p-102, 0x1p-103, 0x1p-104, 0x1p-126, 0x1p-149, 1e38,
		-3e38, math.MaxFloat32,
		float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1 - 0x1p-24, 2 - 0x1p-23, 1 + 0x1p-23}
	for trial := range 600 {
		n := r.IntN(200)
		got, exact := make([]float32, n), make([]float32, n)
		for i := range got {
			exact[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(20)-10))
			switch r.IntN(16) {
			case 0, 1, 2, 3:
				exact[i] = float32(math.Ldexp(1, r.IntN(9)))
			case 4:
				exact[i] = float32(math.Ldexp(r.NormFloat64(), -98-r.IntN(50)))
			}
			got[i] = math.Float32frombits(math.Float32bits(exact[i]) + uint32(r.IntN(1+trial%9)-trial%9/2))
			if r.IntN(50+1000*(trial%2)) == 0 {
				got[i] = exact[i] * float32(math.Exp2(float64(r.IntN(40)-20)))
			}
			if r.IntN(30+1000*(trial%3)) == 0 {
				got[i], exact[i] = odd[r.IntN(len(odd))], odd[r.IntN(len(odd))]
			}
		}
		units := []float64{0.25, 0.5, 1, 1.1, 3, 16, 1 << 20, 1 << 22}[trial%8]
		reach := Reach{ULPs: units, Mant: 23, Low: 1023 - 126, High: 1023 + 127, Final: trial%5 > 0,
			Gradual: trial%3 > 0}
		if trial%7 == 0 { // bfloat16, widened
			reach.Mant = 7
			for _, side := range [][]float32{got, exact} {
				bits := make([]uint16, len(side))
				for i, x := range side {
					bits[i] = uint16(math.Float32bits(x) >> 16)
				}
				WidenBFloat16(side, bits)
			}
		}
		if trial%11 == 0 { // float16, widened: numbers below 2^-14 are subnormal
			reach.Mant, reach.Low, reach.High = 10, 1023-14, 1023+15
			for _, side := range [][]float32{got, exact} {
				bits := make([]uint16, len(side))
				for i, x := range side {
					bits[i] = vmath.ToF16(float64(x))
				}
				WidenFloat16(side, bits)
				for i, x := range side {
					if y := float32(vmath.FromF16(bits[i])); x != y && (x == x || y == y) {
						t.Fatalf("%#x widens to %g, want %g", bits[i], x, y)
					}
				}
			}
		}
		type result struct {
			Tally
			strange, at, outAt int
			worst, beyond      float64
		}
		want, have := result{at: -1, outAt: -1}, result{at: -1, outAt: -1}
		one := func(s *result, i int) {
			x, y := float64(got[i]), float64(exact[i])
			d := x - y
			if d == 0 || x == y || x != x && y != y {
				return
			}
			e := max(math.Ilogb(y), int(reach.Low)-1023)
			unit := math.Ldexp(1, e-int(reach.Mant))
			if y == 0 && !reach.Gradual {
				s.strange++
				return
			}
			if math.IsInf(x, 0) || x != x || math.IsInf(y, 0) || y != y {
				s.Above += above(x, y)
				s.Below += above(y, x)
				s.Out++
				if !math.IsInf(s.beyond, 1) {
					s.beyond, s.outAt = math.Inf(1), i
				}
				return
			}
			if d > unit/2 {
				s.Above++
			}
			if d < -unit/2 {
				s.Below++
			}
			score := math.Abs(d) / (units * unit)
			switch {
			case score > 1:
				s.Out++
				if score > s.beyond {
					s.beyond, s.outAt = score, i
				}
			case math.Abs(d) > unit/2 && score > s.worst:
				s.worst, s.at = score, i
			}
		}
		for i := range got {
			one(&want, i)
		}
		seen := 0
		tally := reach.Near32(got, exact, &have.worst, &have.beyond, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				if i < seen {
					t.Fatalf("trial %d: element %d is looked at out of order", trial, i)
				}
				seen = i + 1
				one(&have, i)
			}
		})
		have.Above += tally.Above
		have.Below += tally.Below
		have.Out += tally.Out
		if have != want {
			t.Fatalf("trial %d, %d elements, %g units: got %+v, want %+v", trial, n, units, have, want)
		}
		if !reach.Final && tally.Out > 0 {
			t.Fatalf("trial %d: %d elements out of reach tallied although more is to be known of them",
				trial, tally.Out)
		}
	}
}
