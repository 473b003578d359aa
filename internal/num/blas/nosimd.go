//go:build !(goexperiment.simd && amd64 && !go1.27)

package blas

// packed computes the product and reports true where vector instructions can be
// used: not in this build.
func (*product) packed() bool { return false }
