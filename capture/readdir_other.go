//go:build !linux

package capture

import (
	"io/fs"
	"os"
)

// readLocal lists a directory in no particular order, without examining its
// files.
func readLocal(dir string) ([]dirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	entries := make([]dirEntry, len(list))
	for i, d := range list {
		kind := isFile
		switch {
		case d.IsDir():
			kind = isDir
		case d.Type()&fs.ModeSymlink != 0:
			kind = mayBeDir
		}
		entries[i] = dirEntry{d.Name(), kind}
	}
	return entries, err
}

// dirStamp is when a directory changed last, in nanoseconds; its number is not told.
func dirStamp(dir string) (changed int64, inode uint64, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, 0, err
	}
	return info.ModTime().UnixNano(), 0, nil
}
