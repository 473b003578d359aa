//go:build !unix

package torchbridge

import (
	"context"
	"errors"
)

// A Device runs calls in workers; there are none on this system.
type Device struct{}

// Open says that there are no workers on this system.
func Open(context.Context, Config) (*Device, error) {
	return nil, errors.New("devices of PyTorch: not on this system")
}

// Start says the same.
func Start(ctx context.Context, c Config) (*Device, error) { return Open(ctx, c) }

// Ready is never called.
func (*Device) Ready() error { return errors.New("devices of PyTorch: not on this system") }

// Info describes nothing.
func (*Device) Info() Info { return Info{} }

// Function is never called.
func (*Device) Function(op string) string { return op }

// Close does nothing.
func (*Device) Close() error { return nil }

// Time is never called.
func (*Device) Time(context.Context, *Call, Timing) (*Times, Pass, error) {
	return nil, Pass{}, errors.New("devices of PyTorch: not on this system")
}

// Run is never called.
func (*Device) Run(context.Context, *Call) (*Result, error) {
	return nil, errors.New("devices of PyTorch: not on this system")
}
