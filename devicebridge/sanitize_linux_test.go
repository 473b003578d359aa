//go:build amd64 || arm64 || loong64 || ppc64le || riscv64

package devicebridge

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// With OPTOOL_SAN=thread or address,undefined the tests use the worker and the
// built-in device that make -C native SAN=... built: a report ends it, which fails the test.
func TestMain(m *testing.M) {
	if san := os.Getenv("OPTOOL_SAN"); san != "" {
		files := fstest.MapFS{}
		for _, name := range []string{"worker", hostLibrary} {
			content, err := os.ReadFile(filepath.Join("native", "build-"+san, "dist", name))
			if err != nil {
				panic(err)
			}
			files["native/dist/"+name] = &fstest.MapFile{Data: content}
		}
		programs = files
		// Faults of the library are the worker's to die of, not the sanitizer's.
		os.Setenv("ASAN_OPTIONS",
			"halt_on_error=1:exitcode=66:handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:detect_leaks=0:allocator_may_return_null=1")
		os.Setenv("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
		os.Setenv("TSAN_OPTIONS", "halt_on_error=1:exitcode=66:handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0")
	}
	os.Exit(m.Run())
}
