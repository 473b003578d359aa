package pthformat

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// fuzzLimits keep a single input fast; the limits themselves are exercised.
var fuzzLimits = Limits{Objects: 5000, Depth: 50, Expanded: 5000, Records: 100, Pickle: 1 << 20, Inflate: 1 << 20}

func seed(f *testing.F, add func(b []byte)) {
	for _, folder := range []string{"torch", "bad", "write"} {
		for _, path := range testFiles(f, folder) {
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			add(b)
		}
	}
	for _, path := range objectFiles(f, "a") {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		add(b)
	}
}

// FuzzOpen reads a whole file. What can be read is used, written and read
// again, and must be the same.
func FuzzOpen(f *testing.F) {
	seed(f, func(b []byte) { f.Add(b) })
	f.Add(legacyFile(20))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := read("fuzz.pth", memory(b), fuzzLimits)
		fuzzcheck.Sentence(t, err)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz.pth: ") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		useValue(t, file)
	})
}

// FuzzMetadata reads the metadata of a checkpoint, of which the shards are not there.
func FuzzMetadata(f *testing.F) {
	b, err := os.ReadFile("testdata/objects/a/dcp/.metadata")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := read("nowhere/"+MetadataName, memory(b), fuzzLimits)
		fuzzcheck.Sentence(t, err)
		if err == nil {
			value.Walk(file.Root, func(value.Value) {})
			_ = load(file.Root)
		}
	})
}

// FuzzPickle reads a pickle over two storages.
func FuzzPickle(f *testing.F) {
	seed(f, func(b []byte) {
		a, err := openArchive(memory(b), 100)
		if err != nil {
			return
		}
		root, err := a.root()
		if err != nil {
			return
		}
		r, _ := a.lookup(root + "/data.pkl")
		if p, err := a.read(r, 1<<20); err == nil {
			f.Add(p)
		}
	})
	f.Add([]byte(pickleOf(tensorOp("FloatStorage", ""))))
	storages := [][]byte{make([]byte, 8), make([]byte, 60)}
	f.Fuzz(func(t *testing.T, p []byte) {
		file, err := read("fuzz.pth", memory(pth(t, string(p), storages...)), fuzzLimits)
		fuzzcheck.Sentence(t, err)
		if err == nil {
			useValue(t, file)
		}
	})
}

// FuzzIndex reads the index of a zip and every record in it.
func FuzzIndex(f *testing.F) {
	seed(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := openArchive(memory(b), 100)
		if err != nil {
			return
		}
		for i := range a.records {
			r := &a.records[i]
			content, err := a.read(r, 1<<16)
			if err == nil && int64(len(content)) != r.size {
				t.Errorf("%s: %d bytes read, the index says %d", r.name, len(content), r.size)
			}
		}
	})
}

// useValue does what callers do with a file.
func useValue(t *testing.T, f *File) {
	n := 0
	value.Walk(f.Root, func(value.Value) { n++ })
	if n > 3*f.Expanded { // keys and absent states of opaque values are visited too
		t.Errorf("a walk visits %d objects, Expanded is %d", n, f.Expanded)
	}
	small := true
	for _, x := range value.Tensors(f.Root) {
		if _, err := x.Storage().Load(); err != nil || x.Bytes() > 1<<16 || x.Storage().Len() > 1<<16 {
			small = false
			continue
		}
		if got := len(x.AppendBytes(nil)); int64(got) != x.Bytes() {
			t.Errorf("%s has %d bytes, want %d", x.Meta(), got, x.Bytes())
		}
		if x.DType.Computable() && x.Numel() > 0 {
			tensor.At[float64](x, x.Numel()-1)
		}
	}
	if f.Cyclic || !small {
		return
	}
	var b bytes.Buffer
	if err := Write(&b, "fuzz", f.Root); err != nil {
		return
	}
	g, err := read("again.pth", memory(b.Bytes()), Limits{})
	if err != nil {
		t.Fatalf("what was written cannot be read: %v", err)
	}
	var c bytes.Buffer
	if err := Write(&c, "fuzz", g.Root); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), c.Bytes()) {
		t.Errorf("read, written and read again, the file changes:\n%s\n%s", dump(f.Root), dump(g.Root))
	}
}
