package wholefile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/optool/optool/internal/wholefile"
)

// TestWrite: a file is replaced when it is complete; what fails leaves it and nothing
// beside it.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put := func(text string, err error) error {
		return wholefile.Write(path, func(f *os.File) error {
			if _, err := f.WriteString(text); err != nil {
				return err
			}
			return err
		})
	}
	if err := put("whole", nil); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := put("half", broken); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "whole" {
		t.Errorf("got %q, %v", got, err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%d files, %v, want 1", len(all), err)
	}
}

// TestCheck: what Write could not write is told before, and nothing is left behind or changed.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	for p, ok := range map[string]bool{path: true, filepath.Join(dir, "new"): true, os.DevNull: true, dir: false,
		filepath.Join(dir, "none", "f"): false, filepath.Join(path, "f"): false} {
		if err := wholefile.Check(p); (err == nil) != ok {
			t.Errorf("%s: %v", p, err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("got %q, %v", got, err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%d files, %v, want 1", len(all), err)
	}
}

// TestWriteToDevice: a device is written to, not replaced.
func TestWriteToDevice(t *testing.T) {
	put := func(f *os.File) error {
		_, err := f.WriteString("text")
		return err
	}
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Skip(err)
	}
	if err := wholefile.Write(link, put); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(link); err != nil || info.Mode().IsRegular() {
		t.Errorf("%v, %v: the device was replaced", info, err)
	}
}

// TestWriteThroughLink: the file behind a link is replaced, where that file lies.
func TestWriteThroughLink(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	file, link := filepath.Join(elsewhere, "f"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	if err := wholefile.Check(link); err != nil {
		t.Error(err)
	}
	err := wholefile.Write(link, func(f *os.File) error {
		_, err := f.WriteString("new")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "new" {
		t.Errorf("got %q, %v", got, err)
	}
	if at, err := os.Readlink(link); err != nil || at != file {
		t.Errorf("the link names %q, %v", at, err)
	}
}
