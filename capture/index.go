package capture

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/optool/optool/internal/wholefile"
)

// An Index knows the names in the directories of a tree, so that a directory which did not
// change is not read again: one that is the same file, with the same time of its last change.
// It may be used by several goroutines.
type Index struct {
	mu    sync.Mutex
	old   []byte         // records, as they were read
	at    map[uint64]int // where the record of a directory begins in old, by a hash of its path
	used  map[uint64]bool
	fresh []byte // records of directories that were read
}

// indexHeader begins the file. A record is, in little endian, the hash of the directory's path (8 bytes),
// the time of its last change in nanoseconds (8) and its number in the file system (8), how
// many names it has (4), and for each its kind (1), its length (2) and itself.
const indexHeader = "optool tree 1\n"

const recordHeader = 8 + 8 + 8 + 4

// settled is how long ago a directory has to have changed last for what was read to be
// believed: later changes then have another time on any file system.
const settled = 2 * time.Second

// ReadIndex reads a file that Write wrote. One that is not there, or damaged, gives an index
// that knows nothing, or less.
func ReadIndex(path string) (*Index, error) {
	x := &Index{at: map[uint64]int{}, used: map[uint64]bool{}}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(text, []byte(indexHeader))
	if !ok {
		return x, nil
	}
	x.old = rest
	for at := 0; at < len(rest); {
		n := recordSize(rest[at:])
		if n == 0 {
			break
		}
		x.at[binary.LittleEndian.Uint64(rest[at:])] = at
		at += n
	}
	return x, nil
}

// recordSize is the length of the record that b begins with, 0 if it is cut off.
func recordSize(b []byte) int {
	if len(b) < recordHeader {
		return 0
	}
	at := recordHeader
	for range binary.LittleEndian.Uint32(b[recordHeader-4:]) {
		if len(b) < at+3 {
			return 0
		}
		if at += 3 + int(binary.LittleEndian.Uint16(b[at+1:])); len(b) < at {
			return 0
		}
	}
	return at
}

// Write writes what is known of the directories that were asked for since ReadIndex, unless
// that is what the file has.
func (x *Index) Write(path string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.fresh) == 0 && len(x.used) == len(x.at) {
		return nil
	}
	return wholefile.Write(path, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<20)
		w.WriteString(indexHeader)
		for hash := range x.used {
			at := x.at[hash]
			w.Write(x.old[at : at+recordSize(x.old[at:])])
		}
		w.Write(x.fresh)
		return w.Flush() // the first error of all
	})
}

// readDir lists a directory, which it reads if that is not known.
func (x *Index) readDir(dir string) ([]dirEntry, error) {
	changed, inode, err := dirStamp(dir)
	if err != nil {
		return readDir(dir) // which has the better error
	}
	h := fnv.New64a()
	h.Write([]byte(filepath.ToSlash(dir)))
	hash := h.Sum64()
	x.mu.Lock()
	at, ok := x.at[hash]
	if ok {
		r := x.old[at:]
		ok = binary.LittleEndian.Uint64(r[8:]) == uint64(changed) && binary.LittleEndian.Uint64(r[16:]) == inode
		if ok {
			x.used[hash] = true
		}
	}
	x.mu.Unlock()
	if ok {
		return recordEntries(x.old[at:]), nil
	}
	entries, err := readDir(dir)
	if err != nil || time.Since(time.Unix(0, changed)) < settled {
		return entries, err
	}
	r := binary.LittleEndian.AppendUint64(nil, hash)
	r = binary.LittleEndian.AppendUint64(r, uint64(changed))
	r = binary.LittleEndian.AppendUint64(r, inode)
	r = binary.LittleEndian.AppendUint32(r, uint32(len(entries)))
	for _, e := range entries {
		r = append(r, byte(e.kind))
		r = binary.LittleEndian.AppendUint16(r, uint16(len(e.name)))
		r = append(r, e.name...)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fresh = append(x.fresh, r...)
	return entries, nil
}

// recordEntries are the names in a record.
func recordEntries(r []byte) []dirEntry {
	entries := make([]dirEntry, binary.LittleEndian.Uint32(r[recordHeader-4:]))
	text := string(r[recordHeader:recordSize(r)]) // which all names are parts of
	for i := range entries {
		n := int(text[1]) | int(text[2])<<8
		entries[i] = dirEntry{text[3 : 3+n], dirKind(text[0])}
		text = text[3+n:]
	}
	return entries
}
