package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestNear follows the largest distance over reach through random elements,
// some of them out of reach, special or equal, and compares with a plain loop.
func TestNear(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 5))
	reach := Reach{ULPs: 3, Factor: 0x1p-13, Constant: 0x1p-30, Mant: 23, Low: 1023 - 126, High: 1023 + 127}
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
		reach.Final = trial%2 == 0
		one := func(s *result, i int) {
			y := exact[i]
			e := int(math.Float64bits(y) >> 52 & 0x7ff)
			unit := math.Ldexp(1, e-1023-23)
			d := got[i] - y
			most := 3 * unit
			if scale != nil && math.Abs(d) > most && math.Abs(d) > unit/2 {
				most += 0x1p-13 * scale[i]
				most += 0x1p-30
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
