package pthformat

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/tensor/value"
)

// badFiles says what is reported of each file in testdata/bad; "" means that
// the file is readable, and its value is in TestBadButReadable.
var badFiles = map[string]string{
	"args-list": "", "crc-mismatch": "", "huge-memo": "", "key-not-string": "", "runpy-build": "", "self-list": "",
	"state-dict":   "",
	"stride0-huge": "", "top-list": "", "top-tensor": "", "unknown-class": "", "version-99": "", "zip-tail-garbage": "",
	"bad-memo":      "data.pkl: offset 37: malformed pickle: opcode 0x68: memo slot 99 was never set",
	"bad-opcode":    "data.pkl: offset 2: malformed pickle: opcode 0xff: unknown opcode",
	"bad-utf8":      "data.pkl: offset 2: malformed pickle: opcode 0x58: BINUNICODE is not UTF-8",
	"builtins-eval": "data.pkl: offset 37: forbidden global __builtin__.eval",
	"dup-bomb":      "data.pkl: value expands to more than 4194304 items",
	"empty":         "empty file",
	"empty-storage": "data.pkl: offset 124: storage 0 is 0 bytes, 24 declared",
	"huge-frame": "data.pkl: offset 2: opcode 0x95: frame of 4611686018427387904 bytes exceeds 3 " +
		"bytes left",
	"huge-long":               "data.pkl: offset 2: opcode 0x8b: length 2147483647 exceeds 4 bytes left",
	"huge-storage":            "data.pkl: offset 131: storage 0 is 24 bytes, 4503599627370496 declared",
	"huge-string":             "data.pkl: offset 2: opcode 0x58: length 4294967295 exceeds 4 bytes left",
	"huge-string8":            "data.pkl: offset 2: opcode 0x8d: length 1152921504606846976 exceeds 4 bytes left",
	"inst-os-system":          "data.pkl: offset 59: forbidden global os.system",
	"legacy-huge-count":       "storage 419929888: count of 1125899906842624 elements at offset 420, 128 declared",
	"legacy-truncated-data":   "storage 419929888: truncated: storage needs 512 bytes, 312 remain",
	"legacy-truncated-pickle": "object: offset 6: truncated pickle: opcode 0x58: length 4 exceeds 2 bytes left",
	"legacy-wrong-magic":      "offset 0: not a torch file: wrong magic number",
	"legacy-wrong-protocol":   "protocol version: unsupported protocol version 7777",
	"local-header-offset": "offset 386: corrupt zip: record \"input/data.pkl\" of 231 bytes at offset " +
		"2147483647 reaches past offset 386",
	"long-storage":      "data.pkl: offset 124: storage 0 is 32 bytes, 24 declared",
	"missing-storage":   "data.pkl: offset 124: missing storage record data/0",
	"negative-numel":    "data.pkl: offset 127: storage 0: negative storage size -6",
	"negative-offset":   "negative storage offset -1",
	"negative-size":     "negative dimension -2",
	"negative-stride":   "negative stride -3",
	"no-mark":           "data.pkl: offset 4: malformed pickle: opcode 0x74: TUPLE without MARK",
	"no-stop":           "data.pkl: offset 229: truncated pickle: no STOP",
	"offset-outside":    "tensor reaches past its storage",
	"one-byte":          "not a torch file: 1 bytes are too short",
	"os-system":         "data.pkl: offset 37: forbidden global os.system",
	"overflow-extent":   "tensor reaches past its storage",
	"overflow-numel":    "element count overflows",
	"persistent-module": "data.pkl: offset 84: unexpected persistent id",
	"persistent-short":  "data.pkl: offset 77: unexpected persistent id",
	"persistent-string": "data.pkl: offset 49: unexpected persistent id",
	"pickle-only":       "not a torch file: wrong magic number",
	"posix-system":      "data.pkl: offset 37: forbidden global posix.system",
	"protocol-9":        "data.pkl: offset 0: unsupported pickle protocol 9",
	"rank-mismatch":     "shape and stride differ in length",
	"rebuild-arity": "data.pkl: offset 76: torch._utils._rebuild_tensor_v2: malformed tensor: 2 arguments, want " +
		"6 to 7",
	"rebuild-types":   "data.pkl: offset 86: torch._utils._rebuild_tensor_v2: malformed tensor: the storage is an int",
	"shape-outside":   "tensor reaches past its storage",
	"short-storage":   "data.pkl: offset 124: storage 0 is 20 bytes, 24 declared",
	"stack-underflow": "data.pkl: offset 2: malformed pickle: opcode 0x52: REDUCE needs 2 objects, the stack has 0",
	"storage-two-types": "storage 0 declared with two types or sizes: torch.FloatStorage of 6 and torch.LongStorage " +
		"of 3 elements",
	"stride-outside":  "tensor reaches past its storage",
	"text":            "not a torch file: neither a zip nor a pickle",
	"traversal-key":   "missing storage record data/../../../etc/passwd",
	"two-pickles":     "more than one root folder: \"input\" and \"other\"",
	"unhashable-key":  "data.pkl: unhashable dict key or set member: list or set",
	"unknown-storage": "data.pkl: offset 84: unknown storage type torch.FooStorage",
	"zip-empty":       "no data.pkl record",
	"zip-no-end":      "truncated zip: no end-of-central-directory record",
	"zip-no-pickle":   "no data.pkl record",
	"zip-truncated":   "truncated zip: no end-of-central-directory record",
}

func TestBad(t *testing.T) {
	files := testFiles(t, "bad")
	if len(files) != len(badFiles) {
		t.Errorf("%d files in testdata/bad, %d in the table", len(files), len(badFiles))
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".pth")
		want, ok := badFiles[name]
		if !ok {
			t.Errorf("%s is not in the table", name)
			continue
		}
		f, err := Open(path, Options{})
		if err == nil {
			f.Close()
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: got %v, want no error", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

func TestBadButReadable(t *testing.T) {
	open := func(name string) *File {
		t.Helper()
		f, err := Open(filepath.Join("testdata", "bad", name+".pth"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	arg := func(f *File, i int) value.Value {
		args, _ := f.Root.(*value.Dict).Get("args")
		return args.(*value.Sequence).Items[i]
	}
	if f := open("self-list"); !f.Cyclic {
		t.Error("self-list: not marked as cyclic")
	}
	if f := open("unknown-class"); f.Cyclic || len(value.Tensors(f.Root)) != 1 {
		t.Errorf("unknown-class: want the tensor inside, got %s", dump(f.Root))
	} else if op, ok := arg(f, 0).(*value.Opaque); !ok || op.Global != "mypkg.layers.FancyTensor" {
		t.Errorf("unknown-class: got %s", dump(f.Root))
	}
	if f := open("version-99"); len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "99 is newer") {
		t.Errorf("version-99: warnings %q", f.Warnings)
	}
	f := open("crc-mismatch")
	if _, err := value.Tensors(f.Root)[0].Storage().Load(); err == nil ||
		!strings.Contains(err.Error(), "data/0: checksum mismatch") {
		t.Errorf("crc-mismatch: got %v", err)
	}
}

// TestLimits checks that depth, expansion and inflation are bounded.
func TestLimits(t *testing.T) {
	deflated := func(content []byte, declared byte) []byte {
		var b, packed bytes.Buffer
		fw, _ := flate.NewWriter(&packed, flate.BestCompression)
		fw.Write(content)
		fw.Close()
		z := zip.NewWriter(&b)
		for _, r := range []struct {
			h    zip.FileHeader
			data []byte
		}{
			{zip.FileHeader{Name: "x/data.pkl", Method: zip.Store},
				[]byte(pickleOf(storageOp("ByteStorage", "0", declared)))},
			{zip.FileHeader{Name: "x/data/0", Method: zip.Deflate, UncompressedSize64: uint64(len(content)),
				CRC32: crc32.ChecksumIEEE(content)}, packed.Bytes()},
		} {
			r.h.CompressedSize64 = uint64(len(r.data))
			if r.h.Method == zip.Store {
				r.h.UncompressedSize64, r.h.CRC32 = uint64(len(r.data)), crc32.ChecksumIEEE(r.data)
			}
			w, err := z.CreateRaw(&r.h)
			if err == nil {
				_, err = w.Write(r.data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		z.Close()
		return b.Bytes()
	}
	packedPickle := func(pickle string) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, err := z.Create("x/data.pkl")
		if err == nil {
			_, err = io.WriteString(w, pickle)
		}
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	number := "G" + strings.Repeat("\x00", 8)
	numbers := pickleOf("(" + strings.Repeat(number, 1<<20) + "t") // as many objects as a large checkpoint has
	for _, tt := range []struct {
		name string
		file []byte
		want string
	}{
		{"many objects in a large file", pth(t, numbers), ""},
		{"many objects in a small file", packedPickle(numbers), "more than 1048576 objects"},
		{"many objects in a small pickle", pth(t, pickleOf("("+strings.Repeat("N", 1<<20)+"t"), make([]byte, 16<<20)),
			"more than 1048576 objects"},
		{"many small numbers in a large file", pth(t, pickleOf("("+strings.Repeat("M\x00\x00", 1<<20)+"t"),
			make([]byte, 16<<20)), ""},
		{"lists", pth(t, pickleOf(strings.Repeat("](", 900)+strings.Repeat("e", 900))), ""},
		{"marks", pth(t, pickleOf(strings.Repeat("(", 200000))), "more than 1000 open marks"},
		{"tuples", pth(t, pickleOf("N"+strings.Repeat("\x85", 200000))), "objects are nested more than 1000 deep"},
		{"lists by append", pth(t, pickleOf(strings.Repeat("]", 200000)+strings.Repeat("a", 199999))),
			"objects are nested more than 1000 deep"},
		{"objects", pth(t, pickleOf("("+strings.Repeat("N", 1<<20)+"t")), "more than 1048576 objects"},
		{"memo", pth(t, pickleOf("\x80\x04N"+strings.Repeat("\x94", 1<<20+1))), "more than 1048576 memo slots"},
		{"expansion", pth(t, pickleOf(")"+strings.Repeat("2\x86", 22))), "value expands to more than 4194304 items"},
		{"globals", pth(t, pickleOf("("+manyGlobals(1001)+"t")), "more than 1000 different globals"},
		{"long", pth(t, pickleOf("\x8b\x01\x04\x00\x00"+strings.Repeat("a", 1025))),
			"integer of 1025 bytes, the limit is 1 to 1024"},
		{"digits", pth(t, pickleOf("L"+strings.Repeat("1", 4301)+"L\n")), "integer of 4301 digits"},
		{"inflated size", deflated(make([]byte, 1<<20), 24), "storage 0 is 1048576 bytes, 24 declared"},
	} {
		_, err := readBytes(tt.file)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
	// The same limits can be lowered.
	file := pth(t, pickleOf("(NNNt"))
	for _, lim := range []Limits{{Objects: 3}, {Expanded: 3}, {Records: 1}, {Pickle: 7}} {
		if _, err := read("test.pth", memory(file), lim); err == nil {
			t.Errorf("limits %+v: no error", lim)
		}
	}
	if _, err := read("test.pth", memory(file), Limits{Objects: 4, Expanded: 4, Records: 2, Pickle: 8,
		Depth: 1}); err != nil {
		t.Error(err)
	}
	// What inflates to the declared size is read, unless a limit forbids it.
	file = deflated(bytes.Repeat([]byte{7}, 200), 200)
	for limit, ok := range map[int64]bool{199: false, 200: true} {
		f, err := read("test.pth", memory(file), Limits{Inflate: limit})
		if err != nil {
			t.Fatal(err)
		}
		b, err := value.Tensors(f.Root)[0].Storage().Load()
		if ok != (err == nil) || ok && (len(b) != 200 || b[199] != 7) {
			t.Errorf("inflate limit %d: got %d bytes, %v", limit, len(b), err)
		}
	}
}

func manyGlobals(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("cm\nc" + strings.Repeat("x", i) + "\n")
	}
	return b.String()
}
