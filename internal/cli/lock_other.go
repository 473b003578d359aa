//go:build !unix

package cli

import "context"

// lockDevice does nothing: there are no devices on this system.
func lockDevice(context.Context, *app, string, bool) (release func(), err error) {
	return func() {}, nil
}
