// Package blas multiplies float64 matrices behind gonum's blas64 interface.
//
// On amd64 with AVX2 and FMA, in builds with GOEXPERIMENT=simd, products are
// computed by packed panels and a register tile of 4x8, with AVX-512 of 4x16
// (simd_amd64.go); elsewhere, and for products too small to pay for packing, by
// gonum. The bits are the same for both tiles and any number of cores.
//
// Builds with the tag openblas can call an OpenBLAS found at run time for large
// products (see Use). The tag is needed because the binary is then linked
// dynamically: without it, it also runs on systems without a C library.
//
// Measured in the same minute on two busy cores of an AMD EPYC with AVX-512, best
// of 8, in GFLOP/s: 1024 by 1024 by 1024 this package 65, MKL of torch 2.15 72
// (0.9x); 2048 by 2048 by 2048 79 and 72 (1.1x).
package blas
