package devicebridge

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"testing/fstest"
)

// TestBuild: an optool without devices gets them from its own sources.
func TestBuild(t *testing.T) {
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++ to build the worker with")
	}
	t.Setenv("CXXFLAGS", "-O0") // the last -O counts, and it need not be fast here
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	before := programs
	defer func() { programs = before }()
	programs = fs.FS(fstest.MapFS{})
	if _, err := built("worker"); !errors.Is(err, ErrNoDevices) {
		t.Fatalf("a worker before it is built: %v", err)
	}
	dir, err := Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v, want mode 700", dir, info.Mode(), err)
	}
	if err := sameSources(); err != nil {
		t.Error(err)
	}
	dev, err := Open(t.Context(), Config{Library: Host})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if len(dev.Info().Functions) < 100 {
		t.Errorf("the built-in device has %d functions", len(dev.Info().Functions))
	}
}

func TestBuildWithoutCompiler(t *testing.T) {
	t.Setenv("CXX", "no-such-compiler")
	if _, err := Build(t.Context()); err == nil {
		t.Error("it built without a compiler")
	}
}
