//go:build !amd64

package kernel

// Products with windows are computed where there is code for the processor's vector instructions: not here.

func (*Conv) forwardWindows(Crew[float64], []float64, []float64, []float64) bool { return false }

func (*Conv) inputGradWindows(Crew[float64], []float64, []float64, []float64) bool { return false }

func (*Conv) weightGradWindows(Crew[float64], []float64, []float64, []float64) bool { return false }
