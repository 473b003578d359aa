package pthformat

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// tensorTruth is what torch reads.
type tensorTruth struct {
	DType  string
	Shape  []int
	Stride []int
	Offset int
	SHA256 string
}

// TestTruth compares every tensor with what torch read from the same file.
func TestTruth(t *testing.T) {
	for _, list := range []string{"torch1.truth.json", "torch2.truth.json"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "torch", list))
		if err != nil {
			t.Fatal(err)
		}
		var truth map[string]map[string]tensorTruth
		if err := json.Unmarshal(raw, &truth); err != nil {
			t.Fatal(err)
		}
		for file, tensors := range truth {
			t.Run(file, func(t *testing.T) {
				f, err := Open(filepath.Join("testdata", "torch", file), Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				got := map[string]*tensor.Tensor{}
				collect(f.Root, "", got)
				for path, want := range tensors {
					x := got[path]
					if x == nil {
						t.Errorf("%s: no such tensor", path)
						continue
					}
					sum := fmt.Sprintf("%x", sha256.Sum256(x.AppendBytes(nil)))
					if x.DType.String() != want.DType || !slices.Equal(x.Shape, want.Shape) ||
						!slices.Equal(x.Stride, want.Stride) || x.Offset != want.Offset || sum != want.SHA256 {
						t.Errorf("%s: got %s stride %v offset %d %s, want %+v", path, x.Meta(), x.Stride,
							x.Offset, sum, want)
					}
				}
			})
		}
	}
}

// collect finds tensors under the paths of the truth files: the keys name and
// args of a capture are left out.
func collect(v value.Value, path string, out map[string]*tensor.Tensor) {
	switch v := v.(type) {
	case *tensor.Tensor:
		out[path] = v
	case *value.Sequence:
		for i, it := range v.Items {
			collect(it, fmt.Sprintf("%s[%d]", path, i), out)
		}
	case *value.Dict:
		for _, it := range v.Items {
			k := fmt.Sprint(it.Key)
			if path != "" {
				k = path + "." + k
			}
			collect(it.Value, k, out)
		}
	}
}

// TestDump compares the whole value of each file with its golden text, in both
// read modes.
func TestDump(t *testing.T) {
	for _, path := range testFiles(t, "torch") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			text := fmt.Sprintf("%s protocol %d %v %v\n%s", f.Format, f.Protocol, f.Globals, f.Warnings, dump(f.Root))
			golden(t, strings.TrimSuffix(path, ".pth")+".txt", text)
		})
	}
}

// TestLargeFile reads a file beyond smallFile, so that it is mapped or read in
// parts, in both formats.
func TestLargeFile(t *testing.T) {
	data := make([]int64, 20000)
	for i := range data {
		data[i] = int64(i) * 0x0101010101
	}
	dir := t.TempDir()
	zipPath := filepath.Join(dir, "a.pth")
	if err := WriteFile(zipPath, value.NewTuple(tensor.New(tensor.Int64, []int{len(data)}, data))); err != nil {
		t.Fatal(err)
	}
	legacyPath := filepath.Join(dir, "b.pth")
	if err := os.WriteFile(legacyPath, legacyFile(len(data)*8), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{zipPath, legacyPath} {
		var sums []string
		for _, mode := range []ReadMode{Mmap, Plain} {
			f, err := Open(path, Options{Read: mode})
			if err != nil {
				t.Fatal(err)
			}
			ts := value.Tensors(f.Root)
			if len(ts) != 1 {
				t.Fatalf("%s: %d tensors, want 1", path, len(ts))
			}
			sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(ts[0].AppendBytes(nil))))
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("second Close: got %v, want fs.ErrClosed", err)
			}
		}
		if sums[0] != sums[1] {
			t.Errorf("%s: Mmap and Plain give different bytes", path)
		}
	}
}

// legacyFile is a legacy file with one uint8 tensor of n bytes 0, 1, 2, ...
// and 30000 None, so that the pickle is longer than the first window.
func legacyFile(n int) []byte {
	var b bytes.Buffer
	b.WriteString("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.")
	count := string(le.AppendUint32([]byte("J"), uint32(n)))
	b.WriteString(pickleOf("(ctorch._utils\n_rebuild_tensor\n((" + unicodeOp("storage") + "ctorch\nByteStorage\n" +
		unicodeOp("7") + unicodeOp("cpu") + count + "NtQK\x00" + count + "\x85K\x01\x85tR" +
		strings.Repeat("N", 30000) + "t"))
	b.WriteString(pickleOf("](" + unicodeOp("7") + "e"))
	b.Write(le.AppendUint64(nil, uint64(n)))
	for i := range n {
		b.WriteByte(byte(i))
	}
	return b.Bytes()
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none.pth"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v, want fs.ErrNotExist", err)
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil {
		t.Error("a directory was opened")
	}
	_, err := Open(filepath.Join("testdata", "bad", "negative-size.pth"), Options{})
	var fe *FormatError
	if !errors.As(err, &fe) {
		t.Fatalf("got %T, want *FormatError", err)
	}
	if !errors.Is(err, tensor.ErrNegative) || fe.Record != "data.pkl" || fe.Offset != 171 ||
		!strings.HasSuffix(fe.File, "negative-size.pth") {
		t.Errorf("got %+v", fe)
	}
}

// TestNoPayloadRead opens files whose storages cannot be read: only their use
// may fail.
func TestNoPayloadRead(t *testing.T) {
	data := make([]float64, 1<<16)
	var b bytes.Buffer
	if err := Write(&b, "a", value.NewTuple(tensor.New(tensor.Float64, []int{len(data)}, data))); err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"zip": b.Bytes(), "legacy": legacyFile(1 << 19)} {
		src := &watched{memory: raw, limit: 1 << 17}
		f, err := read(name, src, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := src.read; got > 1<<17 {
			t.Errorf("%s: open looked at %d bytes of %d", name, got, len(raw))
		}
		if _, err := value.Tensors(f.Root)[0].Storage().Load(); err == nil {
			t.Errorf("%s: the storage was loaded from a source that refuses it", name)
		}
	}
}

// watched counts what is looked at and refuses large views.
type watched struct {
	memory
	read, limit int64
}

func (w *watched) view(off, n int64) ([]byte, error) {
	if w.read += n; n > w.limit {
		return nil, errors.New("refused")
	}
	return w.memory.view(off, n)
}

func TestSharing(t *testing.T) {
	f, err := Open(filepath.Join("testdata", "torch", "nested-containers.pth"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	args, _ := f.Root.(*value.Dict).Get("args")
	items := args.(*value.Sequence).Items
	if items[0] != items[2] {
		t.Error("an object memoised in the pickle was read as two")
	}
	ts := value.Tensors(f.Root)
	if len(ts) != 3 || ts[0].Storage() != ts[2].Storage() || ts[0].Storage() == ts[1].Storage() {
		t.Error("storages are not shared as in the file")
	}
}

func TestChecksums(t *testing.T) {
	good, err := os.ReadFile(filepath.Join("testdata", "torch", "byteorder-record.pth"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := openArchive(memory(good), 100)
	if err != nil {
		t.Fatal(err)
	}
	root, err := a.root()
	if err != nil {
		t.Fatal(err)
	}
	r, _ := a.lookup(root + "/data/0")
	content, err := a.raw(r)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(good)
	changed[bytes.Index(good, content)] ^= 1
	f, err := readBytes(changed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := value.Tensors(f.Root)[0].Storage().Load(); err == nil ||
		!strings.Contains(err.Error(), "test.pth: data/0: checksum mismatch") {
		t.Errorf("changed storage: got %v", err)
	}
	// A file without checksums: both are wrong, both are readable.
	b := bytes.Clone(good)
	for i := 0; i+4 < len(b); i++ {
		if le.Uint32(b[i:]) == sigCentral {
			le.PutUint32(b[i+16:], 0)
		}
	}
	f, err = readBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := value.Tensors(f.Root)[0].Storage().Load(); err != nil {
		t.Error(err)
	}
	if !slices.Contains(f.Warnings, "data.pkl: written without checksums") {
		t.Errorf("warnings: got %q", f.Warnings)
	}
	// Any record whose content is not what its checksum says, also one that is not read.
	for name, want := range map[string]string{"/data.pkl": "test.pth: data.pkl: checksum mismatch",
		"/version": "test.pth: version: checksum mismatch", "/byteorder": "test.pth: byteorder: checksum mismatch"} {
		b := bytes.Clone(good)
		at := bytes.LastIndex(b, []byte(root+name)) - lenCentral
		if at < 0 {
			continue // not every version of torch writes it
		}
		b[at+16] ^= 1
		if _, err := readBytes(b); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}
