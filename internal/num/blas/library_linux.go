//go:build openblas && linux && (amd64 || arm64)

package blas

import (
	"errors"
	"runtime"
	"sync"

	"github.com/ebitengine/purego"
)

// openBLAS is the product of the system's OpenBLAS, nil if there is none. A
// libblas of another make is not taken: the reference BLAS is slower than this
// package.
var openBLAS = sync.OnceValue(func() dgemm {
	for _, name := range []string{"libopenblas.so.0", "libblas.so.3"} {
		h, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			continue
		}
		if _, err := purego.Dlsym(h, "openblas_set_num_threads"); err != nil {
			continue
		}
		if f, err := bind(h); err == nil {
			return f
		}
	}
	return nil
})

func load(path string) (dgemm, error) {
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	return bind(h)
}

// bind finds the product in a loaded library and limits an OpenBLAS to
// GOMAXPROCS threads. Builds of OpenBLAS with 64-bit sizes append "64_" to
// their names.
func bind(h uintptr) (f dgemm, err error) {
	for _, suffix := range []string{"", "64_"} {
		at, err := purego.Dlsym(h, "cblas_dgemm"+suffix)
		if err != nil {
			continue
		}
		purego.RegisterFunc(&f, at)
		if at, err := purego.Dlsym(h, "openblas_set_num_threads"+suffix); err == nil {
			var limit func(int32)
			purego.RegisterFunc(&limit, at)
			limit(int32(runtime.GOMAXPROCS(0)))
		}
		return f, nil
	}
	return nil, errors.New("no function cblas_dgemm")
}
