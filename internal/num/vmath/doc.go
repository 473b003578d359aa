// Package vmath is elementary mathematics on blocks of float64, and the
// conversions between float64 and the dtypes that tensors are stored in.
//
// Every function exists twice: in pure Go and with 256-bit vectors (simd_amd64.go, built with
// GOEXPERIMENT=simd, used where the CPU has AVX2 and FMA). Both evaluate the same formula in
// the same order with the same fused operations. So their results have the same bits. Outside
// the range of the formula the vector loops call the pure Go functions.
//
// Errors, in units in the last place of float64, over the whole range, as
// measured against values of 25 digits (testdata/golden.py):
//
//	Exp 1, Expm1 2, Log 1, Log1p 2, Tanh 3, Sigmoid 2, SiLU 3, Erf 2, Erfc 4, GELU 4, GELUSlopeSize 4
//
// GELUSlope has 4 and SiLUSlope 3 of the sum of its terms' magnitudes, which cancel near -0.75 and -1.28.
// GELUTanh has 3 + 4|u|, where u is the argument of the hyperbolic tangent. SiLU
// and GELU have these errors relative to the result also where it is tiny.
// Subnormal results are off by at most one more of their units.
//
// dst and src have the same length; they may be the same slice but must not
// overlap otherwise.
package vmath
