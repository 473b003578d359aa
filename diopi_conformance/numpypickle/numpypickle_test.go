package numpypickle

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestRoundTrip reads what Python wrote (testdata/golden.py) and writes it
// again: the bytes must be the same.
func TestRoundTrip(t *testing.T) {
	files, err := filepath.Glob("testdata/*.pkl")
	if err != nil || len(files) != 3 {
		t.Fatalf("found %v, %v; want 3 files", files, err)
	}
	for _, f := range files {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		v, err := Read(want)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		path := filepath.Join(t.TempDir(), "out")
		if err := WriteFile(path, v); err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			n := 0
			for n < len(got) && n < len(want) && got[n] == want[n] {
				n++
			}
			t.Errorf("%s: %d bytes, want %d; the first that differs is %d", f, len(got), len(want), n)
		}
	}
}

// What is no file is not read, since it may have no end.
func TestReadFileRefuses(t *testing.T) {
	for _, path := range []string{t.TempDir(), os.DevNull} {
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

func TestRead(t *testing.T) {
	v, err := ReadFile("testdata/arrays.pkl")
	if err != nil {
		t.Fatal(err)
	}
	items := v.(*value.Sequence).Items
	for i, want := range map[int]string{
		0: "float32[2, 3]", 1: "float32[3, 2]", 2: "float64[]", 3: "int64[0, 3]", 4: "bool[1]", 7: "complex64[2]",
		8: "float16[2]", 9: "uint8[4, 3, 2]",
	} {
		if got := items[i].(*tensor.Tensor).Meta(); got != want {
			t.Errorf("array %d is %s, want %s", i, got, want)
		}
	}
	if x := tensor.At[float64](items[1].(*tensor.Tensor), 1); x != 3 {
		t.Errorf("element [0, 1] of the transposed array is %v, want 3", x)
	}
	if v, err = ReadFile("testdata/item.pkl"); err != nil {
		t.Fatal(err)
	}
	a, _ := v.(*value.Dict).Get("a")
	if dt, _ := a.(*value.Dict).Get("dtype"); dt != tensor.Float32 {
		t.Errorf("dtype is %v, want numpy.float32", dt)
	}
}

func TestLabel(t *testing.T) {
	var b bytes.Buffer
	v := value.NewList("grad", Label("grad"), "grad", Label("grad"))
	if err := Write(&b, v); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b.Bytes(), []byte("grad")); n != 2 {
		t.Errorf("%d strings written, want one and its label", n)
	}
}

func TestRefused(t *testing.T) {
	loop := value.NewList()
	loop.Items = append(loop.Items, value.NewTuple(loop))
	deep := value.Value(nil)
	for range maxDepth {
		deep = value.NewTuple(deep)
	}
	for name, c := range map[string]struct {
		v    value.Value
		want string
	}{
		"bfloat16": {tensor.Full(tensor.BFloat16, []int{1}, 1.0), "numpy has no dtype bfloat16"},
		"type":     {tensor.BFloat16, "numpy has no type bfloat16"},
		"set":      {&value.Sequence{Kind: value.Set}, "cannot be written"},
		"opaque":   {&value.Opaque{Global: "x.y"}, "cannot be written"},
		"slice":    {value.Slice{Start: loop}, "cannot be written"},
		"deep":     {deep, "nested too deep"},
	} {
		err := Write(&bytes.Buffer{}, c.v)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	if err := Write(&bytes.Buffer{}, loop); err != nil {
		t.Errorf("a list that contains itself: %v", err)
	}
	if _, err := Read([]byte("\x80\x04N.x")); err == nil {
		t.Error("bytes behind the pickle are accepted")
	}
}
