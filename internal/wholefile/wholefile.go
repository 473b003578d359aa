// Package wholefile writes files that appear whole or not at all.
package wholefile

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Check is why Write cannot write path, nil if it can. It leaves path as it is. What exists and is no plain
// file is not looked at, but for directories.
func Check(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	f, err := create(target(path))
	if err != nil {
		return err
	}
	return cmp.Or(f.Close(), os.Remove(f.Name()))
}

// target is the file that a path names, behind its symbolic links.
func target(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	return path
}

// create creates the file that will take the place of path, which is no symbolic link.
func create(path string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
}

// Write has write fill a file that takes the place of path, readable by all, once it
// is complete; until then, and if write fails, path is as it was. A device or a pipe
// is written to: /dev/null stays what it is. Of a symbolic link the file that it names
// is replaced; the link stays.
func Write(path string, write func(f *os.File) error) (err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return cmp.Or(write(f), f.Close())
	}
	path = target(path)
	f, err := create(path)
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
