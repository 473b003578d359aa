// Package faulttest gives tests the libraries of devicebridge/native/broken: DIOPI devices
// that have one planted fault each.
package faulttest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Library is the path of the library with a fault. It builds the libraries first if a source is
// newer. The test is skipped where there is no make or no C++ compiler.
func Library(t testing.TB, fault string) string {
	t.Helper()
	dir, err := Build()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, fault+".so")
}

// Build builds the libraries, once in each process, and returns their folder, an absolute path.
// Processes may build at the same time: make renames each library when it is whole. With
// OPTOOL_SAN they have that sanitizer. The error is exec.ErrNotFound where there is no make
// or no C++ compiler.
var Build = sync.OnceValues(func() (dir string, err error) {
	for _, tool := range []string{"make", "g++"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", err
		}
	}
	native, err := nativeDir()
	if err != nil {
		return "", err
	}
	san := os.Getenv("OPTOOL_SAN")
	if out, err := exec.Command("make", "-s", "-C", native, "SAN="+san, "broken").CombinedOutput(); err != nil {
		return "", fmt.Errorf("make broken: %w: %s", err, out)
	}
	if san != "" {
		san = "-" + san
	}
	return filepath.Join(native, "build"+san, "broken"), nil
})

// nativeDir is devicebridge/native of the module that the working directory, a package's own in
// its tests, lies in.
func nativeDir() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "devicebridge", "native"), nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		err = errors.New("no go.mod above the working directory")
	}
	return "", err
}
