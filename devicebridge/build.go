package devicebridge

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Of what the built-in device is built, with the headers of the worker.
//
//go:embed native/host
var hostSources embed.FS

// Build compiles the worker and the built-in device from the sources that this optool
// holds, with CXX or g++ and CXXFLAGS, for an optool that was built without them. They go to the user's
// cache, where Open finds those of the same sources; Build returns the directory.
func Build(ctx context.Context) (dir string, err error) {
	if dir, err = cacheDir(); err != nil {
		return "", err
	}
	compiler := strings.Fields(os.Getenv("CXX"))
	if len(compiler) == 0 {
		compiler = []string{"g++"}
	}
	if _, err := exec.LookPath(compiler[0]); err != nil {
		return "", fmt.Errorf("no C++ compiler: %w; install g++ or set CXX", err)
	}
	work, err := os.MkdirTemp("", "optool-build-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	for _, part := range []fs.FS{sources, hostSources} {
		if err := os.CopyFS(work, part); err != nil {
			return "", err
		}
	}
	digest, err := digestOf(sources)
	if err != nil {
		return "", err
	}
	mark := fmt.Sprintf("extern const char optoolWorker[]; const char optoolWorker[] = \"optool worker of %s\";\n",
		digest)
	if err := os.WriteFile(filepath.Join(work, "native/worker/mark.cc"), []byte(mark), 0o666); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// The options are those of native/Makefile.
	for _, p := range []struct {
		name    string
		parts   []string
		options []string
	}{
		{"libdiopi_host.so", []string{"host"}, []string{"-O3", "-fno-math-errno", "-fno-trapping-math", "-shared"}},
		{"worker", []string{"worker", "runtime"}, []string{"-O2", "-rdynamic"}},
	} {
		args := append(slices.Clone(compiler[1:]), "-std=c++17", "-fPIC", "-fvisibility=hidden", "-pthread", "-s")
		args = append(append(args, p.options...), "-o", filepath.Join(work, p.name))
		for _, part := range p.parts {
			files, err := filepath.Glob(filepath.Join(work, "native", part, "*.cc"))
			if err != nil {
				return "", err
			}
			for _, f := range files {
				if filepath.Base(f) != "direct.cc" { // of libraries that are driven without a worker
					args = append(args, filepath.Join(part, filepath.Base(f)))
				}
			}
		}
		args = append(append(args, strings.Fields(os.Getenv("CXXFLAGS"))...), "-ldl")
		cmd := exec.CommandContext(ctx, compiler[0], args...)
		cmd.Dir = filepath.Join(work, "native")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:1], " "), err, out)
		}
		content, err := os.ReadFile(filepath.Join(work, p.name))
		if err != nil {
			return "", err
		}
		// Under another name first: another process may be reading it.
		part := filepath.Join(dir, fmt.Sprintf("%s.%d", p.name, os.Getpid()))
		err = errors.Join(os.WriteFile(part, content, 0o700), os.Rename(part, filepath.Join(dir, p.name)))
		if err != nil {
			return "", err
		}
	}
	return dir, nil
}

// cacheDir is where Build puts what is built of these sources.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	digest, err := digestOf(sources)
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "optool", "device-"+digest[:16]), nil
}

// fromCache is a program that Build left; an error if there is none.
func fromCache(name string) ([]byte, error) {
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, name))
}
