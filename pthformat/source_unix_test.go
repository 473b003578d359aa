//go:build unix

package pthformat

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPipe opens a pipe that nobody writes to.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "input.pth")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Skip("no pipes here:", err)
	}
	_, err := Open(path, Options{}) // must not wait for a writer
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v, want an error: not a regular file", err)
	}
}
