//go:build unix

package rundir

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPipe: a journal that is a pipe is refused, and not waited for.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, journalFile), 0o600); err != nil {
		t.Skip(err)
	}
	if _, _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "a journal is a regular file") {
		t.Errorf("got %v, want that it is no regular file", err)
	}
}
