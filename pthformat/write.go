package pthformat

import (
	"archive/zip"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/optool/optool/internal/wholefile"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Write writes v as a .pth file in the zip format whose records lie in the
// folder root. torch.load reads it, with weights_only=True too if v holds only
// what that allows. Tensors that share a storage share it in the file; a
// storage is written whole. Tensors that have no storage are rounded once to
// their dtype and written contiguously.
//
// What has no counterpart in torch is an error: opaque values, named tuples of
// unknown classes, quantised tensors. A numpy array becomes a tensor on the
// CPU, bytearray becomes bytes, and a defaultdict loses its factory.
//
// At most one storage is held in memory at a time.
func Write(w io.Writer, root string, v value.Value) error {
	if root == "" || strings.ContainsAny(root, "/\\\x00") {
		return fmt.Errorf("write .pth: %q cannot be the name of a folder", root)
	}
	p := newPickler()
	if err := p.encode(v); err != nil {
		return fmt.Errorf("write .pth: %w", err)
	}
	z := newRecordWriter(w, root)
	if err := z.write("data.pkl", p.out); err != nil {
		return err
	}
	if err := z.write("byteorder", []byte("little")); err != nil {
		return err
	}
	for i, s := range p.storages {
		b, err := s.bytes()
		if err != nil {
			return fmt.Errorf("write .pth: data/%d: %w", i, err)
		}
		if err := z.write(fmt.Sprintf("data/%d", i), b); err != nil {
			return err
		}
	}
	if err := z.write("version", []byte("3\n")); err != nil {
		return err
	}
	return z.close()
}

// WriteFile writes v to path as Write does; the root folder is the stem of the
// file's name, as torch.save names it. The file appears whole or not at all.
func WriteFile(path string, v value.Value) error {
	base := filepath.Base(path)
	root := strings.TrimSuffix(base, filepath.Ext(base))
	if root == "" {
		root = "archive"
	}
	return wholefile.Write(path, func(f *os.File) error { return Write(f, root, v) })
}

// alignment is where the data of a record begins, in bytes.
//
// Source: caffe2/serialize/inline_container.h, kFieldAlignment.
const alignment = 64

// recordWriter writes stored, aligned records.
type recordWriter struct {
	n          *countingWriter
	zip        *zip.Writer
	root       string
	descriptor int64 // bytes that follow the last record, written before the next one
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

func newRecordWriter(w io.Writer, root string) *recordWriter {
	n := &countingWriter{w: w}
	return &recordWriter{n: n, zip: zip.NewWriter(n), root: root}
}

// write adds a record. Its local header is padded by an extra field "FB".
func (z *recordWriter) write(name string, data []byte) error {
	if err := z.zip.Flush(); err != nil {
		return err
	}
	h := &zip.FileHeader{
		// UTF-8; sizes follow in a descriptor, as torch 1 writes them
		Name: z.root + "/" + name, Method: zip.Store, Flags: 0x808,
		CRC32: crc32.ChecksumIEEE(data), CompressedSize64: uint64(len(data)), UncompressedSize64: uint64(len(data)),
	}
	begin := z.n.n + z.descriptor + lenLocal + int64(len(h.Name)) + 4
	pad := (alignment - begin%alignment) % alignment
	h.Extra = append([]byte{'F', 'B', byte(pad), 0}, strings.Repeat("Z", int(pad))...)
	w, err := z.zip.CreateRaw(h)
	if err != nil {
		return err
	}
	z.descriptor = lenDescriptor
	if len(data) >= math.MaxUint32 {
		z.descriptor = lenDescriptor64
	}
	_, err = w.Write(data)
	return err
}

func (z *recordWriter) close() error { return z.zip.Close() }

// A savedStorage is a storage to be written: a stored one whole, or the
// elements of a computed tensor.
type savedStorage struct {
	stored   *tensor.Storage
	size     int64 // bytes of stored: whole elements
	computed *tensor.Tensor
}

func (s savedStorage) bytes() ([]byte, error) {
	if s.stored != nil {
		b, err := s.stored.Load()
		if err != nil {
			return nil, err
		}
		return b[:s.size], nil
	}
	return appendElements(s.computed)
}

// appendElements turns the panic of an unreadable storage beneath a computed
// tensor into an error.
func appendElements(t *tensor.Tensor) (b []byte, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *tensor.ReadError:
			err = r
		default:
			panic(r)
		}
	}()
	return t.AppendBytes(nil), nil
}
