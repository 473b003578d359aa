// Package blas multiplies float64 matrices behind gonum's blas64 interface.
//
// On amd64 with AVX2 and FMA, in builds with GOEXPERIMENT=simd, products are
// computed by packed panels and a 4x8 register tile (simd_amd64.go);
// elsewhere, and for products too small to pay for packing, by gonum.
package blas
