//go:build !(goexperiment.simd && amd64 && !go1.27)

package vmath

// useSIMD is false in builds without vector instructions; the vector loops are
// then never called.
const useSIMD = false

func expSIMD(dst, src []float64)                                                     {}
func expm1SIMD(dst, src []float64)                                                   {}
func logSIMD(dst, src []float64)                                                     {}
func log1pSIMD(dst, src []float64)                                                   {}
func tanhSIMD(dst, src []float64)                                                    {}
func sigmoidSIMD(dst, src []float64)                                                 {}
func siluSIMD(dst, src []float64)                                                    {}
func erfSIMD(dst, src []float64)                                                     {}
func erfcSIMD(dst, src []float64)                                                    {}
func geluSIMD(dst, src []float64)                                                    {}
func geluTanhSIMD(dst, src []float64)                                                {}
func siluSlopeSIMD(dst, src []float64)                                               {}
func geluSlopeSIMD(dst, src []float64)                                               {}
func geluSlopeSizeSIMD(dst, src []float64)                                           {}
func sqrtSIMD(dst, src []float64)                                                    {}
func absSIMD(dst, src []float64)                                                     {}
func addSIMD(dst, x, y []float64)                                                    {}
func subSIMD(dst, x, y []float64)                                                    {}
func mulSIMD(dst, x, y []float64)                                                    {}
func divSIMD(dst, x, y []float64)                                                    {}
func affineSIMD(dst, x []float64, shift, scale float64)                              {}
func axpySIMD(dst []float64, a float64, x []float64)                                 {}
func blendSIMD(dst []float64, a float64, x []float64, b float64, y []float64, n int) {}
func sumSIMD(acc *[lanes]float64, x []float64)                                       {}
func dotSIMD(acc *[lanes]float64, x, y []float64)                                    {}
func normalizeSIMD(dst, x []float64, shift, scale float64, w, b []float64)           {}
func deviationsSIMD(acc, squared *[lanes]float64, x []float64, m float64)            {}
func totalSIMD(acc *[lanes]float64) float64                                          { return 0 }
func maxSIMD(x []float64) float64                                                    { return 0 }
func carriesSIMD(src []byte, e Exponent) uint64                                      { return 0 }
func widen32SIMD(dst []float64, src []byte)                                          {}
func widenBF16SIMD(dst []float64, src []byte)                                        {}
func widenF16SIMD(dst []float64, src []byte)                                         {}
func narrow32SIMD(dst []byte, src []float64)                                         {}
func narrowBF16SIMD(dst []byte, src []float64)                                       {}
func narrowF16SIMD(dst []byte, src []float64)                                        {}
func round32SIMD(v []float64)                                                        {}
func roundSIMD(v []float64, f Format, g func(x float64) float64)                     {}
func combineSIMD(dst, x, a, y, m, b, c []float64, n int)                             {}
func magnitudesSIMD(dst, x, a, y, m, b, c []float64, n int)                          {}
func projectionsSIMD(acc, dots *[lanes]float64, x, y []float64, m float64)           {}

func projectionMagnitudesSIMD(acc, aparts, wholes *[lanes]float64, x, y []float64, mean float64) {}
