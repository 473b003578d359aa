package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// aheadStep is what one request asks for: the kernel cuts off what is longer than a device's
// read-ahead, by default 128 KiB.
const aheadStep = 128 << 10

// readAhead has the kernel begin to read the bytes of a file from at to end. It waits only where
// the disk has more to do than it takes.
func readAhead(f *os.File, at, end int64) {
	for ; at < end; at += aheadStep {
		if unix.Fadvise(int(f.Fd()), at, min(aheadStep, end-at), unix.FADV_WILLNEED) != nil {
			return // of a file system that cannot
		}
	}
}
