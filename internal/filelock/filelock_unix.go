//go:build unix

package filelock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// A Lock is a locked file. The last process to release it removes the file.
type Lock struct {
	File *os.File // open for reading and writing
	name string
}

// Try makes the file of that name, if there is none, and locks it: alone, or beside others
// that do not want it alone. It does not wait; the error is ErrHeld, ErrUnsupported or one of
// the file system. Links are not followed.
func Try(name string, alone bool) (*Lock, error) {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	for {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
		case err == nil && isFile(f, name):
			return &Lock{f, name}, nil
		case err == nil: // removed since it was opened
			f.Close()
			continue
		case errors.Is(err, syscall.EINTR):
			f.Close()
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			f.Close()
			return nil, ErrHeld
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
			f.Close()
			return nil, ErrUnsupported
		default:
			f.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
}

// Release ends the lock, and removes the file unless others hold it too.
func (l *Lock) Release() {
	if syscall.Flock(int(l.File.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && isFile(l.File, l.name) {
		os.Remove(l.name)
	}
	l.File.Close()
}

// RemoveUnheld removes the file of that name if it is there and nobody holds it.
func RemoveUnheld(name string) {
	if f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW, 0); err == nil {
		(&Lock{f, name}).Release()
	}
}

// isFile reports whether name is still the name of an open file.
func isFile(f *os.File, name string) bool {
	now, err := os.Lstat(name)
	if err != nil {
		return false
	}
	st, err := f.Stat()
	return err == nil && os.SameFile(st, now)
}
