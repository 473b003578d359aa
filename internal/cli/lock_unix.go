//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"time"

	"github.com/optool/optool/internal/filelock"
)

// lockDevice waits until this process may use a device: alone, to measure it, or
// beside others that do not measure. The lock is an empty file in the directory for
// temporary files that all processes of the machine share. It ends with the
// process; the last to release it removes the file. Where no file can be made, the
// user is told and goes on without.
func lockDevice(ctx context.Context, a *app, device string, alone bool) (release func(), err error) {
	device = deviceName(device)
	h := fnv.New64a()
	h.Write([]byte(device))
	name := filepath.Join(os.TempDir(), fmt.Sprintf("optool-device-%d-%x.lock", os.Getuid(), h.Sum64()))
	removeStale(name)
	for told := false; ; {
		lock, err := filelock.Try(name, alone)
		switch {
		case err == nil:
			return lock.Release, nil
		case !errors.Is(err, filelock.ErrHeld):
			a.warn("other runs on device %s are not waited for: %v", device, err)
			return func() {}, nil
		}
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
		if name != own {
			filelock.RemoveUnheld(name)
		}
	}
}
