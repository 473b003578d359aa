package pthformat

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/optool/optool/internal/files"
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

// openSource opens the regular file at path, or an object in a store, which is read by range.
func openSource(path string, mode ReadMode) (source, error) {
	f, n, err := files.Open(path)
	if errors.Is(err, files.ErrNotRegular) {
		return nil, &FormatError{File: path, Offset: -1, Msg: "not a regular file"}
	}
	if err != nil {
		return nil, err
	}
	local, _ := f.(*os.File)
	switch {
	case n <= smallFile:
		defer f.Close()
		b := make([]byte, n)
		if _, err := io.ReadFull(f, b); err != nil && local == nil {
			return nil, err
		} else if err != nil {
			return nil, &FormatError{File: path, Offset: -1, Msg: "file changed while it was read", Err: err}
		}
		return memory(b), nil
	case mode == Mmap && canMap && int64(int(n)) == n && local != nil:
		defer f.Close()
		b, err := mapFile(local, int(n))
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
	f files.File
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
