// Package files opens regular files of this machine, and objects of stores with the interface
// of S3 (S3 itself, OBS, MinIO, GCS, ...) as if these lay in directories: s3://BUCKET/PREFIX.
//
// The slashes of a key are directories. What lies under a path is listed once per process,
// with as few requests as the store allows, and then known; parts of objects are read by
// range, small ones by way of a cache of bounded size. Where the store is and who asks it
// say the variables that AWS's own tools know; see docs/scale.md.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrNotRegular is the error of opening what is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// A File is open for reading.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

// Remote reports whether a path names something in an object store: s3://BUCKET/PREFIX. With
// one slash, as path/filepath writes it, it is the same.
func Remote(path string) bool { return strings.HasPrefix(path, "s3:/") }

// A place is a bucket, and a key or the beginning of keys in it.
type place struct{ bucket, key string }

// parse reads s3://bucket/key. No ".." leads out of the bucket.
func parse(name string) place {
	bucket, key, _ := strings.Cut(strings.TrimLeft(strings.TrimPrefix(name, "s3:"), "/"), "/")
	return place{bucket, strings.Trim(path.Clean("/"+key), "/")}
}

func (p place) String() string { return strings.TrimSuffix("s3://"+p.bucket+"/"+p.key, "/") }

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

// A Part is a range of bytes of a file.
type Part struct {
	Path         string
	Begin, Bytes int64
}

// Wholes are files as parts of themselves. Those that cannot be examined are left out.
func Wholes(paths ...string) []Part {
	var parts []Part
	for _, path := range paths {
		if info, err := Stat(path); err == nil {
			parts = append(parts, Part{Path: path, Bytes: info.Size()})
		}
	}
	return parts
}

// Bytes is how long parts are together. A recording may say more than a number holds.
func Bytes(parts []Part) int64 {
	var n int64
	for _, p := range parts {
		n += min(p.Bytes, math.MaxInt64-n)
	}
	return n
}

// Ahead begins to read a part of a file that is about to be opened, limit bytes of it at most, so
// that it lies in memory by then. Of an object in a store it reads the first and the last block
// into the cache, and waits for them. What goes wrong is left to who opens the file.
func (p Part) Ahead(limit int64) {
	f, size, err := Open(p.Path)
	if err != nil {
		return
	}
	defer f.Close()
	end := min(p.Begin+min(p.Bytes, limit), size)
	if local, ok := f.(*os.File); ok {
		readAhead(local, p.Begin, end)
		return
	}
	for _, at := range []int64{p.Begin, max(end-1, p.Begin)} {
		_, _ = f.ReadAt(make([]byte, 1), at)
	}
}

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
