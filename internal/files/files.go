// Package files opens regular files of this machine, and objects of stores with the interface
// of S3 (S3 itself, OBS, MinIO, GCS, ...) as if these lay in directories: s3://BUCKET/PREFIX.
//
// The slashes of a key are directories. What lies under a path is listed once per process,
// with as few requests as the store allows, and then known; parts of objects are read by
// range, small ones by way of a cache of bounded size. Where the store is and who asks it
// say the variables that AWS's own tools know; see docs/scale.md.
package files

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A File is open for reading.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

// Remote reports whether a path names something in an object store: s3://BUCKET/PREFIX. With
// one slash, as path/filepath writes it, it is the same.
func Remote(path string) bool { return strings.HasPrefix(path, "s3:/") }

// Abs is filepath.Abs; what is in an object store stays there.
func Abs(path string) (string, error) {
	if Remote(path) {
		return parse(path).String(), nil
	}
	return filepath.Abs(path)
}

// Stat describes a file or a directory. An object store has no directories, but what lies in
// them: one without objects does not exist.
func Stat(path string) (fs.FileInfo, error) {
	if Remote(path) {
		return statObject(parse(path))
	}
	return os.Stat(path)
}

// ReadDir lists a directory of an object store, in no particular order.
func ReadDir(path string) ([]fs.FileInfo, error) { return listObjects(parse(path)) }

// Open opens a regular file and says how long it is: anything else is refused, and a pipe not
// waited for. A file of this machine is an *os.File.
func Open(path string) (File, int64, error) {
	if Remote(path) {
		return openObject(parse(path))
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}
