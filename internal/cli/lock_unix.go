//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/optool/optool/torchbridge"
)

// lockDevice waits until this process may use a device: alone, to measure it, or
// beside others that do not measure. The lock is an empty file in the directory for
// temporary files that all processes of the machine share. It ends with the
// process; the last to release it removes the file. Where no file can be made, the
// user is told and goes on without.
func lockDevice(ctx context.Context, a *app, device string, alone bool) (release func(), err error) {
	named := device == "host" || strings.HasPrefix(device, torchbridge.Prefix)
	if path, err := filepath.Abs(device); err == nil && !named {
		device = path
	}
	h := fnv.New64a()
	h.Write([]byte(device))
	name := filepath.Join(os.TempDir(), fmt.Sprintf("optool-device-%d-%x.lock", os.Getuid(), h.Sum64()))
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	removeStale(name)
	for told := false; ; {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			a.warn("other runs on device %s are not waited for: %v", device, err)
			return func() {}, nil
		}
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
		case err == nil && isFile(f, name):
			return func() { unlock(f, name) }, nil
		case err == nil: // removed since it was opened
			f.Close()
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			f.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f.Close()
		if !told {
			a.warn("device %s is in use by another optool; waiting", device)
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// removeStale removes the files that killed runs on other devices left, which nobody
// holds; that of this device is taken over.
func removeStale(own string) {
	names, _ := filepath.Glob(filepath.Join(os.TempDir(), fmt.Sprintf("optool-device-%d-*.lock", os.Getuid())))
	for _, name := range names {
		if name == own {
			continue
		}
		if f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW, 0); err == nil {
			unlock(f, name)
		}
	}
}

// unlock removes the file unless others hold it too, and ends the lock.
func unlock(f *os.File, name string) {
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && isFile(f, name) {
		os.Remove(name)
	}
	f.Close()
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
