package pthformat

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// A source gives byte ranges of one file. The bytes must not be written and
// are valid until close.
type source interface {
	size() int64
	view(off, n int64) ([]byte, error)
	close() error
}

// smallFile is the size up to which a file is read whole with one call:
// mapping, faulting and unmapping two pages costs more than that.
const smallFile = 64 << 10

// openSource opens the regular file at path. Opening a pipe must not wait for
// somebody to write to it.
func openSource(path string, mode ReadMode) (source, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &FormatError{File: path, Offset: -1, Msg: "not a regular file"}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	switch n := fi.Size(); {
	case n <= smallFile:
		defer f.Close()
		b := make([]byte, n)
		if _, err := io.ReadFull(f, b); err != nil {
			return nil, &FormatError{File: path, Offset: -1, Msg: "file changed while it was read", Err: err}
		}
		return memory(b), nil
	case mode == Mmap && canMap && int64(int(n)) == n:
		defer f.Close()
		b, err := mapFile(f, int(n))
		if err != nil {
			return nil, fmt.Errorf("%s: mmap: %w", path, err)
		}
		return mapped{b}, nil
	default:
		return &plain{f, n}, nil
	}
}

// memory is a file that lies in memory.
type memory []byte

func (m memory) size() int64 { return int64(len(m)) }

func (m memory) view(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > int64(len(m)) || n > int64(len(m))-off {
		return nil, io.ErrUnexpectedEOF
	}
	return m[off : off+n : off+n], nil
}

func (m memory) close() error { return nil }

// mapped is a memory-mapped file.
type mapped struct{ memory }

func (m mapped) close() error { return unmapFile(m.memory) }

// plain reads each range when it is asked for.
type plain struct {
	f *os.File
	n int64
}

func (p *plain) size() int64 { return p.n }

func (p *plain) view(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > p.n || n > p.n-off {
		return nil, io.ErrUnexpectedEOF
	}
	b := make([]byte, n)
	if _, err := p.f.ReadAt(b, off); err != nil {
		return nil, err
	}
	return b, nil
}

func (p *plain) close() error { return p.f.Close() }
