//go:build !amd64

package blas

// packed computes the product and reports true where there is code for the
// processor's vector instructions: not here.
func (*product) packed() bool { return false }
