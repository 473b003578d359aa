//go:build !unix

package filelock

import "os"

// A Lock is a locked file; there are none on this system.
type Lock struct{ File *os.File }

// Try returns ErrUnsupported.
func Try(string, bool) (*Lock, error) { return nil, ErrUnsupported }

// Release does nothing.
func (l *Lock) Release() {}

// RemoveUnheld does nothing.
func RemoveUnheld(string) {}
