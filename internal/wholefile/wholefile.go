// Package wholefile writes files that appear whole or not at all.
package wholefile

import (
	"os"
	"path/filepath"
)

// Write has write fill a file that takes the place of path, readable by all, once it
// is complete; until then, and if write fails, path is as it was.
func Write(path string, write func(f *os.File) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
