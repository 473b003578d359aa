// Package smallfile reads files that people write: settings, tolerances, operators. They are plain files of
// bounded size. A named pipe or a device in their place is refused, because reading it may never end.
package smallfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Most is how many bytes a file may have where nothing else is said.
const Most = 16 << 20

// Read reads a file of at most most bytes.
func Read(path string, most int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe does not wait for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		err := fmt.Errorf("want a regular file, found %s", kind(info.Mode()))
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(text) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("want at most " + size(most))}
	}
	return text, err
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

func size(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
