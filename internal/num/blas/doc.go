// Package blas multiplies float64 matrices behind gonum's blas64 interface.
//
// On amd64 products are computed by packed panels and register tiles of 4 rows and three vectors,
// in assembly (tile_amd64.s): 4x12 with AVX2 and FMA, 4x24 with AVX-512. Elsewhere, and where
// products are too small to pay for packing, gonum computes them. The bits are the same for both
// tiles and any number of cores. The loops are assembly, because the compiler's code for simd/archsimd
// moves the sums from register to register: 29 instead of 45 GFLOP/s a core at 2048 (AVX2, below).
//
// Slide and Gather multiply windows of numbers where they lie, as those of a convolution's input, by tiles of
// the same kind.
//
// Builds with the tag openblas can call an OpenBLAS found at run time for large
// products (see Use). The tag is needed because the binary is then linked
// dynamically: without it, it also runs on systems without a C library.
//
// Measured in the same minute on a busy AMD EPYC with AVX2, by processor time, one core, best of
// 3, in GFLOP/s: 1024 by 1024 by 1024 this package 37, MKL of torch 2.15 39 (0.95x); 2048 by 2048
// by 2048 45 and 40 (1.1x).
package blas
