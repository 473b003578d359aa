//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockDevice waits until this process may use a device: alone, to measure it, or
// beside others that do not measure. The lock is a file in the directory for
// temporary files that all processes of the machine share; it ends with the
// process.
func lockDevice(ctx context.Context, a *app, device string, alone bool) (release func(), err error) {
	if path, err := filepath.Abs(device); err == nil && device != "host" {
		device = path
	}
	h := fnv.New64a()
	h.Write([]byte(device))
	name := filepath.Join(os.TempDir(), fmt.Sprintf("optool-device-%d-%x.lock", os.Getuid(), h.Sum64()))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	for told := false; ; told = true {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			f.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !told {
			a.warn("device %s is in use by another optool; waiting", device)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
