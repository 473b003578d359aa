//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package devicebridge

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// machines are the processors a worker runs on, by GOARCH.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "loong64": elf.EM_LOONGARCH, "ppc64le": elf.EM_PPC64,
	"riscv64": elf.EM_RISCV,
}

// libraryPath is the absolute path of a library, so that the loader does not search. The error says what keeps it from
// being loaded, as far as that is seen without loading it.
func libraryPath(path string) (string, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("no such file")
	case err != nil:
		return "", errors.Unwrap(err)
	case st.IsDir():
		return "", errors.New("it is a directory, want a shared library")
	case !st.Mode().IsRegular():
		return "", errors.New("it is no regular file, want a shared library")
	}
	file, err := os.Open(path)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	defer file.Close()
	if err := examine(file, uint64(st.Size())); err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// examine says what keeps a file of size bytes from being a library that this
// machine can load.
func examine(file io.ReaderAt, size uint64) error {
	lib, err := elf.NewFile(file)
	if err != nil {
		return errors.New("it is no shared library: no ELF file, or a damaged one")
	}
	name := func(m elf.Machine) string { return strings.ToLower(strings.TrimPrefix(m.String(), "EM_")) }
	if want := machines[runtime.GOARCH]; lib.Class != elf.ELFCLASS64 || lib.Machine != want {
		bits := 64
		if lib.Class == elf.ELFCLASS32 {
			bits = 32
		}
		return fmt.Errorf("it is built for %s (%d bits), this machine is %s (64 bits)", name(lib.Machine), bits,
			name(want))
	}
	if lib.Type != elf.ET_DYN {
		return fmt.Errorf("it is no shared library but of type %s", lib.Type)
	}
	for _, p := range lib.Progs {
		if p.Type == elf.PT_LOAD && (p.Filesz > size || p.Off > size-p.Filesz) {
			return fmt.Errorf("it is cut off: %d bytes, and a segment of %d from %d", size, p.Filesz, p.Off)
		}
	}
	return nil
}
