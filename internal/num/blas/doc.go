// Package blas multiplies float64 matrices behind gonum's blas64 interface.
//
// On amd64 with AVX2 and FMA, in builds with GOEXPERIMENT=simd, products are
// computed by packed panels and a 4x8 register tile (simd_amd64.go);
// elsewhere, and for products too small to pay for packing, by gonum.
//
// Builds with the tag openblas can call an OpenBLAS found at run time for large
// products (see Use). The tag is needed because the binary is then linked
// dynamically: without it, it also runs on systems without a C library.
//
// Measured in the same minutes on two busy cores of an AMD EPYC (Zen 3), in
// GFLOP/s, 1024 by 1024 by 1024: this package 24-29, OpenBLAS 35-38 (0.7x); one
// core, 64 by 576 by 455: 24 and 40 (0.6x).
package blas
