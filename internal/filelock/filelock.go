// Package filelock locks files between processes: a lock ends with the process that holds it.
package filelock

import "errors"

// ErrHeld says that another process holds the lock.
var ErrHeld = errors.New("held by another process")

// ErrUnsupported says that the file system or the operating system has no locks.
var ErrUnsupported = errors.New("file locks are not supported here")
