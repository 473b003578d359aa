// Package tail keeps the end of what another process writes, for error messages.
package tail

import (
	"bytes"
	"os"
	"strings"
	"sync"
)

// kept is how many bytes.
const kept = 4096

// A Tail reads a pipe to its end.
type Tail struct {
	mu   sync.Mutex
	b    []byte
	n    int64 // bytes since reset
	done chan struct{}
	r    *os.File
}

// New reads r until it ends.
func New(r *os.File) *Tail {
	t := &Tail{done: make(chan struct{}), r: r}
	go func() {
		defer close(t.done)
		buf := make([]byte, kept)
		for {
			n, err := r.Read(buf)
			t.mu.Lock()
			t.b = append(t.b, buf[:n]...)
			t.b = t.b[max(0, len(t.b)-kept):]
			t.n += int64(n)
			t.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return t
}

// Done is closed when the pipe has ended.
func (t *Tail) Done() <-chan struct{} { return t.done }

// Close closes the pipe.
func (t *Tail) Close() error { return t.r.Close() }

// Reset forgets what was written so far.
func (t *Tail) Reset() {
	t.mu.Lock()
	t.b, t.n = t.b[:0], 0
	t.mu.Unlock()
}

// Size is how many bytes were written since Reset, of which the last may not have come yet.
func (t *Tail) Size() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// String is the end of what was written.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(bytes.ToValidUTF8(t.b, []byte("\uFFFD"))))
}

// LastLine is the last line, for a sentence.
func (t *Tail) LastLine() string {
	text := t.String()
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
