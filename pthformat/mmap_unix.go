//go:build unix

package pthformat

import (
	"os"

	"golang.org/x/sys/unix"
)

const canMap = true

func mapFile(f *os.File, n int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(b []byte) error { return unix.Munmap(b) }
