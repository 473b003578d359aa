package tensor

import (
	"fmt"
	"sync"
)

// Storage is the run of bytes that one or more tensors view. The bytes may
// come from a memory map, from memory, or from a reader that is asked on first
// use; they are never written.
type Storage struct {
	nbytes int64
	once   sync.Once
	open   func() ([]byte, error)
	data   []byte
	err    error
	// Key names the storage inside its file (the record name in a .pth zip).
	Key string
	// Location is the device tag torch wrote: "cpu", "cuda:0", "npu:0".
	Location string

	summary *Summary // of a tensor without elements, else nil
}

// NewStorage returns a storage over data, which must not be changed later.
func NewStorage(data []byte) *Storage {
	s := &Storage{nbytes: int64(len(data)), data: data}
	s.once.Do(func() {})
	return s
}

// OpenStorage returns a storage of nbytes bytes that calls open on first use.
func OpenStorage(nbytes int64, open func() ([]byte, error)) *Storage {
	return &Storage{nbytes: nbytes, open: open}
}

// Holding runs f while the storage holds other bytes, as many as it has. Nobody else may use it meanwhile, and what was
// computed on demand from what it holds must not be read afterwards.
func (s *Storage) Holding(data []byte, f func()) error {
	was, err := s.Load()
	if err != nil {
		return err
	}
	if len(data) != len(was) {
		return fmt.Errorf("storage %s: %d bytes for %d", s.Key, len(data), len(was))
	}
	s.data = data
	defer func() { s.data = was }()
	f()
	return nil
}

// Len is the number of bytes, known without touching them.
func (s *Storage) Len() int64 { return s.nbytes }

// Load returns the bytes.
func (s *Storage) Load() ([]byte, error) {
	s.once.Do(func() {
		s.data, s.err = s.open()
		if s.err == nil && int64(len(s.data)) != s.nbytes {
			s.err = fmt.Errorf("storage %s: %d bytes read, %d declared", s.Key, len(s.data), s.nbytes)
		}
	})
	return s.data, s.err
}

// A ReadError is the panic value of a tensor access whose storage cannot be
// read. Code that runs kernels recovers it; everything else calls
// Storage.Load first.
type ReadError struct{ Err error }

func (e *ReadError) Error() string { return e.Err.Error() }
func (e *ReadError) Unwrap() error { return e.Err }

func (s *Storage) mustLoad() []byte {
	b, err := s.Load()
	if err != nil {
		panic(&ReadError{err})
	}
	return b
}
