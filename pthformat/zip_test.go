package pthformat

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

// sameIndex compares our index of b with that of archive/zip.
func sameIndex(t *testing.T, b []byte) {
	t.Helper()
	a, err := openArchive(memory(b), 1000)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if len(a.records) != len(z.File) {
		t.Fatalf("got %d records, archive/zip finds %d", len(a.records), len(z.File))
	}
	for i, f := range z.File {
		r := a.records[i]
		if r.name != f.Name || r.method != f.Method || r.crc != f.CRC32 || uint64(r.packed) != f.CompressedSize64 ||
			uint64(r.size) != f.UncompressedSize64 {
			t.Errorf("record %d: got %+v, archive/zip finds %+v", i, r, f.FileHeader)
			continue
		}
		got, err := a.read(&r, 1<<20)
		if err != nil {
			t.Errorf("%s: %v", r.name, err)
			continue
		}
		rc, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(rc)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: content differs from what archive/zip reads", r.name)
		}
	}
}

func TestIndexAgainstArchiveZip(t *testing.T) {
	for _, path := range testFiles(t, "torch") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(b, []byte("PK")) {
			t.Run(path, func(t *testing.T) { sameIndex(t, b) })
		}
	}
	t.Run("comment", func(t *testing.T) {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		z.SetComment(strings.Repeat("comment ", 400))
		w, _ := z.Create("x/data.pkl") // deflated
		w.Write(bytes.Repeat([]byte("N"), 500))
		z.Close()
		sameIndex(t, b.Bytes())
	})
	t.Run("many", func(t *testing.T) { // more than 65535 records need zip64
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for range 66000 {
			if _, err := z.CreateRaw(&zip.FileHeader{Name: "x", Method: zip.Store}); err != nil {
				t.Fatal(err)
			}
		}
		z.Close()
		e, err := findEnd(memory(b.Bytes()))
		if err != nil || e.count != 66000 {
			t.Errorf("got %d records, %v, want 66000", e.count, err)
		}
	})
}

// TestZip64Fields reads sizes and the offset from the zip64 extra field, which
// a file above 4 GiB has; here they are small.
func TestZip64Fields(t *testing.T) {
	b := makeZip(t, entry{"x/data.pkl", []byte("N.")})
	a, err := openArchive(memory(b), 10)
	if err != nil {
		t.Fatal(err)
	}
	dir := b[a.dir:]
	central := bytes.Clone(dir[:lenCentral+len("x/data.pkl")])
	var extra []byte
	extra = le.AppendUint16(extra, extraZip64)
	extra = le.AppendUint16(extra, 24)
	for _, v := range []uint64{2, 2, 0} { // size, packed size, offset
		extra = le.AppendUint64(extra, v)
	}
	le.PutUint32(central[20:], 0xffffffff)
	le.PutUint32(central[24:], 0xffffffff)
	le.PutUint32(central[42:], 0xffffffff)
	le.PutUint16(central[30:], uint16(len(extra)))
	dir64 := append(central, extra...)

	out := append(bytes.Clone(b[:a.dir]), dir64...)
	end64 := uint64(len(out))
	rec := make([]byte, lenEnd64)
	le.PutUint32(rec, sigEnd64)
	le.PutUint64(rec[4:], lenEnd64-12)
	le.PutUint64(rec[24:], 1)
	le.PutUint64(rec[32:], 1)
	le.PutUint64(rec[40:], uint64(len(dir64)))
	le.PutUint64(rec[48:], uint64(a.dir))
	loc := make([]byte, lenLoc64)
	le.PutUint32(loc, sigLoc64)
	le.PutUint64(loc[8:], end64)
	le.PutUint32(loc[16:], 1)
	end := make([]byte, lenEnd)
	le.PutUint32(end, sigEnd)
	copy(end[8:], bytes.Repeat([]byte{0xff}, 12))
	out = append(append(append(out, rec...), loc...), end...)

	f, err := readBytes(out)
	if err != nil || f.Root != nil || f.Format != "zip" {
		t.Fatalf("got %v, %v, want None", f, err)
	}
	sameIndex(t, out)

	for name, spoil := range map[string]func(b []byte){
		"locator outside":       func(b []byte) { le.PutUint64(b[len(b)-lenEnd-lenLoc64+8:], 1<<63) },
		"locator elsewhere":     func(b []byte) { le.PutUint64(b[len(b)-lenEnd-lenLoc64+8:], 1) },
		"more records":          func(b []byte) { le.PutUint64(b[end64+32:], 1<<62) },
		"huge directory":        func(b []byte) { le.PutUint64(b[end64+40:], 1<<62) },
		"directory outside":     func(b []byte) { le.PutUint64(b[end64+48:], 1<<63) },
		"size beyond int64":     func(b []byte) { le.PutUint64(b[end64-24:], 1<<63) },
		"packed size too large": func(b []byte) { le.PutUint64(b[end64-16:], 1<<62) },
		"header outside":        func(b []byte) { le.PutUint64(b[end64-8:], 1<<62) },
		"field too short":       func(b []byte) { le.PutUint16(b[end64-26:], 8) },
	} {
		bad := bytes.Clone(out)
		spoil(bad)
		if _, err := readBytes(bad); err == nil || !strings.Contains(err.Error(), "corrupt zip") {
			t.Errorf("%s: got %v, want a corrupt zip", name, err)
		}
	}
}

func TestCorruptZips(t *testing.T) {
	good := pth(t, pickleOf(storageOp("ByteStorage", "0", 2)), []byte{1, 2})
	a, err := openArchive(memory(good), 10)
	if err != nil {
		t.Fatal(err)
	}
	dir := int(a.dir)
	for _, tt := range []struct {
		name  string
		want  string
		spoil func(b []byte)
	}{
		{"no central header", "no record where the central directory should have one", func(b []byte) { b[dir] = 0 }},
		{"long name", "record of", func(b []byte) { le.PutUint16(b[dir+28:], 60000) }},
		{"two sizes", "has two sizes", func(b []byte) { le.PutUint32(b[dir+24:], 1) }},
		{"two disks", "split over several disks", func(b []byte) { le.PutUint16(b[len(b)-lenEnd+4:], 1) }},
		{"local header", "no local header of record", func(b []byte) { b[26] = 9 }},
		{"name in the local header", "no local header of record", func(b []byte) { b[lenLocal] = 'y' }},
		{"long local extra", "reaches past offset", func(b []byte) { le.PutUint16(b[28:], 60000) }},
		{"encrypted", "is encrypted", func(b []byte) { b[dir+8] |= 1 }},
		{"method", "compression method 12", func(b []byte) { b[dir+10] = 12 }},
		{"cannot inflate so far", "cannot inflate from",
			func(b []byte) { b[dir+10] = methodDeflated; le.PutUint32(b[dir+24:], 1<<30) }},
		{"not deflated", "cannot inflate", func(b []byte) { b[dir+10] = methodDeflated }},
	} {
		b := bytes.Clone(good)
		tt.spoil(b)
		if _, err := readBytes(b); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
	twice := makeZip(t, entry{"x/data.pkl", []byte("N.")}, entry{"x/data.pkl", []byte("N.")})
	if _, err := readBytes(twice); err == nil || !strings.Contains(err.Error(), `record "x/data.pkl" appears twice`) {
		t.Errorf("duplicate: got %v", err)
	}
	order := makeZip(t, entry{"x/data.pkl", []byte("N.")}, entry{"x/byteorder", []byte("middle")})
	if _, err := readBytes(order); err == nil || !strings.Contains(err.Error(), `byteorder: byte order "middle"`) {
		t.Errorf("byte order: got %v", err)
	}
}
