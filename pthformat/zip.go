package pthformat

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"strings"
)

var le = binary.LittleEndian

// Signatures and fixed lengths of zip structures.
//
// Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3.7 to 4.3.16.
const (
	sigLocal   = 0x04034b50
	sigCentral = 0x02014b50
	sigEnd     = 0x06054b50
	sigEnd64   = 0x06064b50
	sigLoc64   = 0x07064b50

	lenLocal   = 30
	lenCentral = 46
	lenEnd     = 22
	lenEnd64   = 56
	lenLoc64   = 20

	lenDescriptor   = 16 // sizes of 4 bytes
	lenDescriptor64 = 24 // sizes of 8 bytes

	methodStored   = 0
	methodDeflated = 8

	extraZip64 = 1 // header ID of the zip64 extra field
)

// deflateRatio is more than deflate can shrink anything: 1032:1.
//
// Source: zlib's technical notes, "Maximum Compression Factor".
const deflateRatio = 1100

// maxDirectory bounds the central directory in bytes; it is copied.
const maxDirectory = 256 << 20

// A record is one entry of the central directory.
type record struct {
	name          string
	method, flags uint16
	crc           uint32
	packed, size  int64 // bytes in the file, bytes of content
	header        int64 // offset of the local header
}

// An archive is the index of a zip file. Building it reads the central
// directory only.
type archive struct {
	src     source
	dir     int64 // offset of the central directory; no record reaches past it
	records []record
	byName  map[string]int
}

// end is the end-of-central-directory record, in its zip64 form where needed.
type end struct {
	count, dirSize, dirOffset uint64
}

func openArchive(src source, maxRecords int) (*archive, error) {
	e, err := findEnd(src)
	if err != nil {
		return nil, err
	}
	switch size := uint64(src.size()); {
	case e.dirOffset > size || e.dirSize > size-e.dirOffset:
		return nil,
			malformed("corrupt zip: central directory of %d bytes at offset %d lies outside the file of %d bytes",
				e.dirSize, e.dirOffset, size)
	case e.count > e.dirSize/lenCentral:
		return nil, malformed("corrupt zip: %d records cannot fit in a central directory of %d bytes",
			e.count, e.dirSize)
	case e.count > uint64(maxRecords) || e.dirSize > maxDirectory:
		return nil, malformed("zip of %d records (directory of %d bytes) exceeds the limit of %d records", e.count,
			e.dirSize, maxRecords)
	}
	raw, err := src.view(int64(e.dirOffset), int64(e.dirSize))
	if err != nil {
		return nil, &FormatError{Offset: int64(e.dirOffset), Msg: "cannot read the central directory", Err: err}
	}
	a := &archive{src: src, dir: int64(e.dirOffset), records: make([]record, e.count),
		byName: make(map[string]int, e.count)}
	var names strings.Builder // one allocation for all names
	names.Grow(max(0, len(raw)-lenCentral*len(a.records)))
	at := 0
	for i := range a.records {
		n, err := a.records[i].parse(raw[at:], &names)
		if err == nil {
			err = a.check(&a.records[i])
		}
		if err != nil {
			return nil, err.at(a.dir + int64(at))
		}
		name := a.records[i].name
		if _, dup := a.byName[name]; dup {
			return nil, malformed("corrupt zip: record %q appears twice", name).at(a.dir + int64(at))
		}
		a.byName[name] = i
		at += n
	}
	return a, nil
}

// findEnd looks for the end record from the end of the file backwards; a
// comment or up to 64 KiB of foreign bytes may follow it.
func findEnd(src source) (end, error) {
	size := src.size()
	for _, window := range []int64{1024, lenEnd + math.MaxUint16} {
		n := min(window, size)
		tail, err := src.view(size-n, n)
		if err != nil {
			return end{}, &FormatError{Offset: size - n, Msg: "cannot read the end of the file", Err: err}
		}
		for i := len(tail) - lenEnd; i >= 0; i-- {
			b := tail[i:]
			if le.Uint32(b) != sigEnd || int(le.Uint16(b[20:])) > len(b)-lenEnd {
				continue
			}
			at := size - n + int64(i)
			if le.Uint16(b[4:]) != le.Uint16(b[6:]) {
				return end{}, malformed("corrupt zip: split over several disks").at(at)
			}
			e := end{uint64(le.Uint16(b[10:])), uint64(le.Uint32(b[12:])), uint64(le.Uint32(b[16:]))}
			if e.count == math.MaxUint16 || e.dirSize == math.MaxUint32 || e.dirOffset == math.MaxUint32 {
				return findEnd64(src, at, e)
			}
			return e, nil
		}
	}
	return end{}, malformed("truncated zip: no end-of-central-directory record")
}

// findEnd64 reads the zip64 end record that the locator before the end record
// at offset at points to. Without a locator the values are taken as they are.
func findEnd64(src source, at int64, e end) (end, error) {
	loc, err := src.view(at-lenLoc64, lenLoc64)
	if err != nil || le.Uint32(loc) != sigLoc64 {
		return e, nil
	}
	off := le.Uint64(loc[8:])
	if off > uint64(at-lenLoc64) || uint64(at-lenLoc64)-off < lenEnd64 {
		return e, malformed("corrupt zip: zip64 end record at offset %d lies outside the file", off).at(at - lenLoc64)
	}
	b, err := src.view(int64(off), lenEnd64)
	if err != nil {
		return e, &FormatError{Offset: int64(off), Msg: "cannot read the zip64 end record", Err: err}
	}
	if le.Uint32(b) != sigEnd64 {
		return e, malformed("corrupt zip: no zip64 end record where the locator points").at(int64(off))
	}
	return end{le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint64(b[48:])}, nil
}

// parse reads one central directory entry from the start of b and returns its
// length; names takes its name.
func (r *record) parse(b []byte, names *strings.Builder) (int, *FormatError) {
	if len(b) < lenCentral || le.Uint32(b) != sigCentral {
		return 0, malformed("corrupt zip: no record where the central directory should have one")
	}
	nameLen, extraLen, commentLen := int(le.Uint16(b[28:])), int(le.Uint16(b[30:])), int(le.Uint16(b[32:]))
	n := lenCentral + nameLen + extraLen + commentLen
	if n > len(b) {
		return 0, malformed("corrupt zip: record of %d bytes in a directory with %d left", n, len(b))
	}
	from := names.Len()
	names.Write(b[lenCentral:][:nameLen])
	name := names.String()[from:]
	packed, size, header := uint64(le.Uint32(b[20:])), uint64(le.Uint32(b[24:])), uint64(le.Uint32(b[42:]))
	for extra := b[lenCentral+nameLen:][:extraLen]; len(extra) >= 4; {
		id, k := le.Uint16(extra), int(le.Uint16(extra[2:]))
		if k > len(extra)-4 {
			break // other writers leave padding; sizes are checked below
		}
		field := extra[4 : 4+k]
		extra = extra[4+k:]
		if id != extraZip64 {
			continue
		}
		for _, v := range []*uint64{&size, &packed, &header} {
			if *v != math.MaxUint32 {
				continue
			}
			if len(field) < 8 {
				return 0, malformed("corrupt zip: zip64 field of record %q is too short", name)
			}
			*v, field = le.Uint64(field), field[8:]
		}
	}
	if packed > math.MaxInt64 || size > math.MaxInt64 || header > math.MaxInt64 {
		return 0, malformed("corrupt zip: sizes of record %q overflow", name)
	}
	*r = record{
		name:   name,
		method: le.Uint16(b[10:]), flags: le.Uint16(b[8:]), crc: le.Uint32(b[16:]),
		packed: int64(packed), size: int64(size), header: int64(header),
	}
	return n, nil
}

// check compares r with the space there is before the central directory.
func (a *archive) check(r *record) *FormatError {
	room := a.dir - lenLocal - int64(len(r.name))
	switch {
	case r.header > room || r.packed > room-r.header:
		return malformed("corrupt zip: record %q of %d bytes at offset %d reaches past offset %d", r.name, r.packed,
			r.header, a.dir)
	case r.method == methodStored && r.packed != r.size:
		return malformed("corrupt zip: stored record %q has two sizes, %d and %d", r.name, r.packed, r.size)
	case r.method == methodDeflated && r.size/deflateRatio > r.packed:
		return malformed("corrupt zip: record %q cannot inflate from %d to %d bytes", r.name, r.packed, r.size)
	}
	return nil
}

// lookup returns the record of that name.
func (a *archive) lookup(name string) (*record, bool) {
	i, ok := a.byName[name]
	if !ok {
		return nil, false
	}
	return &a.records[i], true
}

// root returns the folder that holds data.pkl.
func (a *archive) root() (string, error) {
	var root string
	for i := range a.records {
		dir, ok := strings.CutSuffix(a.records[i].name, "/data.pkl")
		if !ok || strings.Contains(dir, "/") {
			continue
		}
		if root != "" {
			return "", malformed("more than one root folder: %q and %q", root, dir)
		}
		root = dir
	}
	if root != "" {
		return root, nil
	}
	for i := range a.records {
		if _, value, ok := strings.Cut(a.records[i].name, "/data/"); ok && value != "" {
			return "", malformed("no data.pkl record beside those of values")
		}
	}
	return "", &FormatError{Offset: -1, Err: ErrNothingSaved}
}

// raw returns the bytes of r as they lie in the file. Only now is its local
// header read.
func (a *archive) raw(r *record) ([]byte, error) {
	h, err := a.src.view(r.header, lenLocal+int64(len(r.name)))
	if err != nil {
		return nil, &FormatError{Offset: r.header, Msg: "cannot read the local header", Err: err}
	}
	if le.Uint32(h) != sigLocal || int(le.Uint16(h[26:])) != len(r.name) || string(h[lenLocal:]) != r.name {
		return nil, malformed("corrupt zip: no local header of record %q at offset %d", r.name, r.header)
	}
	start := r.header + int64(len(h)) + int64(le.Uint16(h[28:]))
	if start > a.dir || r.packed > a.dir-start {
		return nil, malformed("corrupt zip: record %q of %d bytes at offset %d reaches past offset %d", r.name,
			r.packed, start, a.dir)
	}
	b, err := a.src.view(start, r.packed)
	if err != nil {
		return nil, &FormatError{Offset: -1, Msg: "cannot read the record", Err: err}
	}
	return b, nil
}

// read returns the content of r. The caller has compared r.size with what it
// needs; more than limit bytes are not inflated. Inflated content is always
// compared with its checksum.
func (a *archive) read(r *record, limit int64) ([]byte, error) {
	if r.flags&1 != 0 {
		return nil, malformed("record %q is encrypted", r.name)
	}
	if r.method != methodStored && r.method != methodDeflated {
		return nil, malformed("record %q has compression method %d: only stored and deflated records can be read",
			r.name, r.method)
	}
	if r.method == methodDeflated && r.size > limit {
		return nil, malformed("record %q inflates to %d bytes, the limit is %d", r.name, r.size, limit)
	}
	b, err := a.raw(r)
	if err != nil || r.method == methodStored {
		return b, err
	}
	out := make([]byte, r.size)
	z := flate.NewReader(bytes.NewReader(b))
	if _, err := io.ReadFull(z, out); err != nil {
		return nil, &FormatError{Offset: -1, Msg: "corrupt zip: cannot inflate", Err: err}
	}
	if n, err := z.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return nil, malformed("corrupt zip: record inflates to more than %d bytes", r.size)
	}
	if !r.intact(out) {
		return nil, malformed("checksum mismatch")
	}
	return out, nil
}

// intact compares content with the checksum of the directory.
func (r *record) intact(content []byte) bool { return crc32.ChecksumIEEE(content) == r.crc }
