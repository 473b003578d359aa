// Package kernel is the mathematics of operators that is longer than a screen:
// products of matrices, convolutions, pools, Fourier transforms, factorisations,
// resampling, recurrent cells, special functions.
//
// A kernel gets slices of float64, int64 or complex128 and sizes, and knows
// neither tensors nor schemas nor dtypes: package ops checks the arguments
// before, so a kernel may panic on sizes that do not fit. Products go through
// gonum's blas64 and cblas128 to internal/num/blas; elementary functions through
// internal/num/vmath.
package kernel
