package opdef

import (
	"math"

	"github.com/optool/optool/tensor"
)

// jumpReach is how many units in the last place an argument may be away from a jump for both of its sides to be right.
// A sound implementation may compare x+3, rounded, with 6, or x with a limit that is rounded to the dtype.
const jumpReach = 2

// beyondJumps are two functions for MapBlock: f beyond the next jump below the argument, and above it. Only jumps
// within rounding of an argument of dtype dt count. An element without one keeps its value. So does one with a jump at
// 0, since the sign of a number is exact in every dtype.
func beyondJumps(dt tensor.DType, f func(dst, src []float64)) []func(dst, src []float64) {
	var out []func(dst, src []float64)
	for _, reach := range []float64{-jumpReach, jumpReach} {
		out = append(out, func(dst, src []float64) {
			for lo := 0; lo < len(src); lo += jumpPiece {
				hi := min(lo+jumpPiece, len(src))
				acrossJumps(f, dst[lo:hi], src[lo:hi], func(x float64) float64 { return x + reach*dt.ULP(x) })
			}
		})
	}
	return out
}

// jumpPiece is how many elements are looked at together.
const jumpPiece = 512

// An interval of arguments that may hold a jump, with the values at its ends.
type interval struct {
	element           int
	lo, hi, low, high float64
	least             float64 // the change that a jump has, however narrow the interval
}

// acrossJumps stores in dst what f is just beyond a jump between x and end(x), for at most jumpPiece elements x of src.
// It stores f(x) where there is no jump. A jump is a change that stays more than half of f(end(x)) - f(x) however
// narrow the interval is.
func acrossJumps(f func(dst, src []float64), dst, src []float64, end func(float64) float64) {
	f(dst, src)
	a, v := Scratch[float64](len(src)), Scratch[float64](len(src))
	defer Release(a)
	defer Release(v)
	at, value := *a, *v
	for i, x := range src {
		at[i] = end(x)
	}
	f(value, at)
	var all [jumpPiece]interval
	open := all[:0]
	for i, x := range src {
		least := math.Abs(value[i]-dst[i]) / 2
		if x != 0 && x-x == 0 && x*at[i] > 0 && least > 0 {
			open = append(open, interval{i, x, at[i], dst[i], value[i], least})
		}
	}
	for len(open) > 0 {
		at, value = at[:len(open)], value[:len(open)]
		for k, j := range open {
			at[k] = j.lo + (j.hi-j.lo)/2
		}
		f(value, at)
		rest := open[:0]
		for k, j := range open {
			mid, m := at[k], value[k]
			switch {
			case mid == j.lo || mid == j.hi:
				dst[j.element] = j.high
				continue
			case math.Abs(m-j.low) >= math.Abs(j.high-m):
				j.hi, j.high = mid, m
			default:
				j.lo, j.low = mid, m
			}
			if math.Abs(j.high-j.low) >= j.least {
				rest = append(rest, j)
			}
		}
		open = rest
	}
}
