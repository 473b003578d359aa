package capture

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/optool/optool/internal/files"
)

// A span is a part of a file.
type span struct{ at, end int64 }

// readDir lists a directory in no particular order.
func readDir(dir string) ([]dirEntry, error) {
	if !files.Remote(dir) {
		return readLocal(dir)
	}
	names, err := files.ReadDir(dir)
	entries := make([]dirEntry, len(names))
	for i, n := range names {
		entries[i] = dirEntry{n.Name(), isFile}
		if n.IsDir() {
			entries[i].kind = isDir
		}
	}
	return entries, err
}

// readSmall reads a file whole, or says that it is larger than limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	f, size, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%d bytes exceed the limit of %d", size, limit)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, errors.New("file changed while it was read")
	}
	return b, nil
}

// head is the beginning of a file, by which its kind is told; empty if it cannot be
// read.
func head(path string) []byte {
	f, _, err := files.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, 4096)
	n, _ := io.ReadFull(f, b)
	return b[:n]
}

// readSpans reads parts of a file.
func readSpans(path string, spans ...span) ([][]byte, error) {
	f, _, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	parts := make([][]byte, len(spans))
	for i, s := range spans {
		parts[i] = make([]byte, s.end-s.at)
		if _, err := f.ReadAt(parts[i], s.at); err != nil {
			return nil, fmt.Errorf("%s changed while it was read", filepath.Base(path))
		}
	}
	return parts, nil
}

// objects are JSON objects in parts of a file, each parsed at most once.
type objects struct {
	file   string
	text   map[span][]byte
	parsed map[span]*object
}

// readObjects reads the text of objects; an empty span stands for one that is not there.
func readObjects(path string, spans ...span) (*objects, error) {
	parts, err := readSpans(path, spans...)
	if err != nil {
		return nil, err
	}
	o := &objects{filepath.Base(path), map[span][]byte{}, map[span]*object{}}
	for i, s := range spans {
		o.text[s] = parts[i]
	}
	return o, nil
}

// at is the object of a span that was read, an empty one if there is none.
func (o *objects) at(s span) (*object, error) {
	if parsed := o.parsed[s]; parsed != nil {
		return parsed, nil
	}
	if s == (span{}) {
		return &object{}, nil
	}
	v, err := parseJSON(plainJSON(o.text[s]))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.file, err)
	}
	parsed, ok := v.(*object)
	if !ok {
		return nil, fmt.Errorf("%s: the entry is not an object", o.file)
	}
	o.parsed[s] = parsed
	return parsed, nil
}
