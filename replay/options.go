package replay

import (
	"github.com/optool/optool/capture/collective"
	"github.com/optool/optool/compare"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
)

// Options of a Call.
type Options struct {
	Registry    *opdef.Registry
	Tolerances  *compare.Tolerances
	ForwardOnly bool      // skip gradients
	Runs        int       // how many times to run the forward pass; 0 means once
	Sample      *Sampling // if not nil, large calls are checked in parts
	Read        pthformat.ReadMode
	// Ranks, if not nil, finds the recordings of the other ranks of collectives.
	Ranks *collective.Index

	// Device, if not nil, is what is compared with the reference instead of what
	// was recorded; Stress also runs it in other memory layouts.
	Device Device
	Stress bool
	// Against, if not nil, is a second device that is compared too, and with Device.
	Against *Rival
}

// A Rival is a second device, under the name that results have it.
type Rival struct {
	Device
	Name string
}
