//go:build !(goexperiment.simd && amd64 && !go1.27)

package vec

// useSIMD is false in builds without vector instructions; the SIMD entry
// points are then the pure Go loops.
const useSIMD = false

func float32SIMD(a, b []float32, c *consts) Stats { return scalar32(a, b, c) }
func halfSIMD(a, b []uint16, c *consts) Stats     { return scalar16(a, b, c) }
func float64SIMD(a, b []float64, r Rule) Stats    { return scalar64(a, b, r) }

func (p Precision) errorsSIMD(got, exact, near []float64, lanes *[errorLanes]Errors) {}

func widenBF16SIMD(dst []float32, src []uint16) {}
func widenF16SIMD(dst []float32, src []uint16)  {}

func (r Reach) nearSIMD(got, exact, scale []float64, within, beyond *float64, look func(lo, hi int)) Tally {
	return Tally{}
}

func (r Reach) near32SIMD(got, exact []float32, within, beyond *float64, look func(lo, hi int)) Tally {
	return Tally{}
}
