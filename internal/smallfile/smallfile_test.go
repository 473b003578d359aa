//go:build unix

package smallfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/optool/optool/internal/smallfile"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, tc := range []struct{ path, text, err string }{
		{put("a", "text"), "text", ""},
		{put("full", strings.Repeat("x", 1<<20)), strings.Repeat("x", 1<<20), ""},
		{put("large", strings.Repeat("x", 1<<20+1)), "", "want at most 1 MiB"},
		{pipe, "", "want a regular file, found a pipe"},
		{"/dev/zero", "", "want a regular file, found a device"},
		{dir, "", "want a regular file, found a directory"},
		{filepath.Join(dir, "none"), "", "no such file"},
	} {
		got, err := smallfile.Read(tc.path, 1<<20)
		switch {
		case tc.err == "" && (err != nil || string(got) != tc.text):
			t.Errorf("%s: %d bytes, %v", tc.path, len(got), err)
		case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.path) ||
			!strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s: %v, want %q", tc.path, err, tc.err)
		}
	}
}
