//go:build amd64 || arm64 || loong64 || ppc64le || riscv64

package devicebridge

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
)

// library is the smallest file that passes for a library of this machine, with
// one segment.
func library(off, size uint64) []byte {
	var b bytes.Buffer
	head := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(machines[runtime.GOARCH]), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	copy(head.Ident[:], elf.ELFMAG)
	head.Ident[elf.EI_CLASS], head.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.EV_CURRENT)
	head.Ident[elf.EI_DATA] = byte(elf.ELFDATA2LSB)
	segment := elf.Prog64{Type: uint32(elf.PT_LOAD), Off: off, Filesz: size, Memsz: size}
	for _, part := range []any{head, segment} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func TestExamine(t *testing.T) {
	for _, tc := range []struct {
		name      string
		off, size uint64
		want      string
	}{
		{"whole", 0, 120, ""}, {"an empty segment at the end", 120, 0, ""},
		{"a segment beyond the end", 0, 121, "it is cut off: 120 bytes, and a segment of 121 from 0"},
		{"an end that wraps around", 16, 1<<64 - 8, "it is no shared library: no ELF file, or a damaged one"},
		{"an end that wraps to the file", 1<<63 - 8, 1 << 63, "it is no shared library: no ELF file, or a damaged one"},
	} {
		b := library(tc.off, tc.size)
		got := ""
		if err := examine(bytes.NewReader(b), uint64(len(b))); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// FuzzExamine looks at files that may be libraries.
func FuzzExamine(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte(elf.ELFMAG))
	f.Add(library(0, 120))
	f.Add(library(0, 121))
	f.Add(library(16, 1<<64-8))
	for _, at := range []int{4, 5, 16, 18, 32, 40, 54, 56, 58, 60, 62} { // fields of the header
		b := library(0, 120)
		b[at] ^= 0xff
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var err error
		fuzzcheck.Bounded(t, len(b), 1<<10, func() { err = examine(bytes.NewReader(b), uint64(len(b))) })
		fuzzcheck.Sentence(t, err)
	})
}
