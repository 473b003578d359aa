//go:build !(linux && (amd64 || arm64 || loong64 || ppc64le || riscv64))

package devicebridge

import (
	"context"
	"errors"

	"github.com/optool/optool/devicebridge/diopi"
)

// A Device is a loaded library; there is none on this system.
type Device struct{}

// Open fails: devices need Linux on a little-endian 64-bit machine.
func Open(context.Context, Config) (*Device, error) {
	return nil, errors.New("devices need Linux on a little-endian 64-bit machine")
}

// Info describes the library.
func (d *Device) Info() Info { return Info{} }

// Renew ends the workers; new ones start when they are needed.
func (d *Device) Renew() {}

// Place does nothing.
func (d *Device) Place(int) {}

// Close ends the workers.
func (d *Device) Close() error { return nil }

// Run carries out a plan.
func (d *Device) Run(ctx context.Context, p *diopi.Plan) (*Result, error) {
	return d.RunWith(ctx, p, Options{})
}

// RunWith is Run with repetitions or measurements.
func (d *Device) RunWith(context.Context, *diopi.Plan, Options) (*Result, error) {
	return nil, errors.New("no device is open")
}
