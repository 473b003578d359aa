// Package spectral declares Fourier transforms, short-time ones and window
// functions.
package spectral

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// Table lists the operators of this package.
func Table() []*opdef.Entry {
	table := slices.Concat(
		fftOps,
		stftOps,
		windowOps,
	)
	for _, e := range table {
		if slices.Contains(float32OnCPU, e.Names[0]) {
			e.WithAutocast(opdef.AutocastFloat32)
		}
	}
	return table
}

// float32OnCPU are the operators whose arguments torch.autocast casts to float32 on the CPU.
var float32OnCPU = []string{"torch.fft.fft", "torch.fft.ifft", "torch.fft.fft2", "torch.fft.ifft2", "torch.fft.fftn",
	"torch.fft.ifftn", "torch.fft.rfft", "torch.fft.irfft", "torch.fft.rfft2", "torch.fft.irfft2", "torch.fft.rfftn",
	"torch.fft.irfftn", "torch.fft.hfft", "torch.fft.ihfft"}
