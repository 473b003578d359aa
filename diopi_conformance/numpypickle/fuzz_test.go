package numpypickle

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor/value"
)

// FuzzRead reads pickles. What was read and can be written is read again from
// that as the same.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.pkl")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 1<<14 {
			f.Add(b)
		}
	}
	for _, p := range []string{
		"\x80\x04N.", "\x80\x04]\x94h\x00a.", "\x80\x02}q\x00U\x01ah\x00s.", "\x80\x04cnumpy\nfloat32\n.",
		"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02f4\x89\x88\x87R.", "\x80\x04cos\nsystem\n\x8c\x02ls\x85R.", "",
	} {
		f.Add([]byte(p))
	}
	lim := pthformat.Limits{Pickle: 1 << 20, Objects: 5000, Depth: 50, Expanded: 5000}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v value.Value
		var err error
		fuzzcheck.Bounded(t, len(b), 1<<12, func() { v, err = read(b, lim) })
		fuzzcheck.Sentence(t, err)
		if err != nil {
			return
		}
		var once, twice bytes.Buffer
		if err := Write(&once, v); err != nil {
			fuzzcheck.Sentence(t, err)
			return
		}
		again, err := Read(once.Bytes())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if err := Write(&twice, again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Errorf("read, written and read again, the pickle changes:\n%q\n%q", once.Bytes(), twice.Bytes())
		}
	})
}
