package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestRelease makes the archive of this platform twice, unpacks it and runs the demo.
func TestRelease(t *testing.T) {
	t.Chdir("../..")
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	here := runtime.GOOS + "/" + runtime.GOARCH
	name := fmt.Sprintf("optool-v0.0.0-test-%s-%s.tar.gz", runtime.GOOS, runtime.GOARCH)
	var archives [2][]byte
	for i := range archives {
		dir := t.TempDir()
		if err := release("v0.0.0-test", dir, here); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(archives[i]), name); err != nil || string(sums) != want {
			t.Errorf("SHA256SUMS: %q, %v, want %q", sums, err, want)
		}
	}
	dir := unpack(t, archives[0])
	if !bytes.Equal(archives[0], archives[1]) {
		t.Errorf("the archive is another the second time:\n%s", differing(t, dir, unpack(t, archives[1])))
	}
	for _, name := range []string{"completions/optool.bash", "completions/_optool", "completions/optool.fish",
		"README.md", "LICENSE", "man/man1/optool-replay.1"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var bill struct {
		Format     string `json:"bomFormat"`
		Components []struct {
			Name, Version string
			Hashes        []struct{ Content string }
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "sbom.cdx.json"))
	if err != nil || json.Unmarshal(text, &bill) != nil || bill.Format != "CycloneDX" {
		t.Fatalf("bill of materials: %v\n%.300s", err, text)
	}
	found := false
	for _, c := range bill.Components {
		found = found || c.Name == "github.com/spf13/cobra" && strings.HasPrefix(c.Version, "v1.") &&
			len(c.Hashes) == 1 && len(c.Hashes[0].Content) == 64
	}
	if !found {
		t.Errorf("cobra is not among %d components", len(bill.Components))
	}
	said, err := exec.Command(filepath.Join(dir, "optool"), "version").Output()
	if err != nil || !bytes.HasPrefix(said, []byte("optool v0.0.0-test ")) {
		t.Errorf("optool version: %v, %q", err, said)
	}
	cmd := exec.Command(filepath.Join(dir, "optool"), "replay", "--acc_check", "--out", t.TempDir(), "demo")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !bytes.Contains(out, []byte("First wrong call:")) {
		t.Errorf("the demo: %v\n%s", err, out)
	}
}

// differing says which files of two folders differ, and what git said of the tree when their programs were built.
func differing(t *testing.T, a, b string) string {
	said, err := exec.Command("diff", "-rq", a, b).CombinedOutput()
	text := fmt.Sprintf("%s(%v)\n", said, err)
	for _, dir := range []string{a, b} {
		info, err := buildinfo.ReadFile(filepath.Join(dir, "optool"))
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintln(info.Settings)
	}
	return text
}

// unpack writes an archive's files to a directory, whose folder it returns.
func unpack(t *testing.T, archive []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	dir, folder := t.TempDir(), ""
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return filepath.Join(dir, folder)
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(1767225600, 0)) {
			t.Errorf("%s: of %d %q, %v", h.Name, h.Uid, h.Uname, h.ModTime)
		}
		folder, _, _ = strings.Cut(h.Name, "/")
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, os.FileMode(h.Mode)); err != nil {
			t.Fatal(err)
		}
	}
}
