//go:build !(openblas && linux && (amd64 || arm64))

package blas

import "errors"

// openBLAS is the product of the system's OpenBLAS: none in this build.
func openBLAS() dgemm { return nil }

func load(string) (dgemm, error) {
	return nil, errors.New("this build loads no libraries: build for linux with -tags openblas")
}
