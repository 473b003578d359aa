package pthformat

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// written are the values whose files are kept in testdata/write and checked
// with torch (testdata/check.py).
func written(t testing.TB) map[string]value.Value {
	f32 := tensor.New(tensor.Float32, []int{2, 3}, []float64{0, 1, -2.5, 1e-3, math.Inf(1), 0.1})
	raw := make([]byte, 32)
	for i := range raw {
		raw[i] = byte(i)
	}
	base := tensor.NewStorage(raw)
	base.Location = "npu:0"
	view := func(dt tensor.DType, offset int, shape, stride []int) *tensor.Tensor {
		v, err := tensor.NewView(base, tensor.View{DType: dt, Shape: shape, Stride: stride, Offset: offset})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	par := view(tensor.Int16, 4, []int{2, 2}, []int{4, 1})
	grad := *f32
	grad.RequiresGrad, grad.Parameter, grad.Device = true, true, "cuda:1"
	all := value.NewTuple()
	for dt := tensor.Bool; dt <= tensor.Complex128; dt++ {
		switch {
		case dt.IsComplex():
			all.Items = append(all.Items, tensor.New(dt, []int{2}, []complex128{1 + 2i, -0.5}))
		case dt.IsFloat():
			all.Items = append(all.Items, tensor.New(dt, []int{2}, []float64{1.5, -2}))
		default:
			all.Items = append(all.Items, tensor.New(dt, []int{2}, []int64{1, 3}))
		}
	}
	huge, _ := new(big.Int).SetString("-1180591620717411303424", 10)
	list := value.NewList(int64(1), "é")
	many := value.NewList() // more objects than memo slots of one byte
	for i := range 300 {
		many.Items = append(many.Items, value.NewList(int64(i)))
	}
	many.Items = append(many.Items, many.Items[299], many.Items[0])
	return map[string]value.Value{
		"capture": &value.Dict{Items: []value.Item{
			{Key: "name", Value: "torch.add"},
			{Key: "args", Value: value.NewTuple(f32, f32)},
			{Key: "kwargs", Value: &value.Dict{Items: []value.Item{{Key: "alpha", Value: int64(2)},
				{Key: "out", Value: nil}}}},
			{Key: "identifier", Value: "1/2024-10-24-10-00-00/input"},
		}},
		"shared": value.NewTuple(par, view(tensor.Int16, 0, []int{16}, []int{1}), par,
			view(tensor.Uint8, 3, []int{1, 2}, []int{9, 4}), &grad),
		"dtypes": all,
		"float8": value.NewList(tensor.New(tensor.Float8E5M2, []int{2}, []float64{1, -2}),
			tensor.New(tensor.Float8E4M3FN, nil, []float64{448})),
		"empty": value.NewTuple(tensor.New(tensor.Float32, []int{0, 3}, []float64{}),
			tensor.Scalar(tensor.Int64, int64(-7)), value.NewTuple(), value.NewList(), &value.Dict{}),
		"integers": value.NewList(int64(0), int64(255), int64(256), int64(65535), int64(65536), int64(-1),
			int64(math.MaxInt32), int64(math.MinInt32)-1, int64(math.MaxInt64), int64(math.MinInt64), huge,
			new(big.Int).Neg(huge)),
		"many": many,
		"size": &value.Sequence{Kind: value.Tuple, Class: "torch.Size", Items: []value.Value{int64(2), int64(3)}},
		"named": &value.Sequence{Kind: value.Tuple, Class: "torch.return_types.max",
			Items: []value.Value{tensor.Scalar(tensor.Float32, 3.0), tensor.Scalar(tensor.Int64, int64(1))}},
		"ordered": &value.Dict{Class: "collections.OrderedDict", Items: []value.Item{{Key: int64(1), Value: list},
			{Key: value.NewTuple("k", nil), Value: list}}},
		"pythonic": value.NewTuple(true, false, 2.5, math.Inf(-1), 3-4i, value.Bytes{0, 65, 255},
			value.Slice{Stop: int64(3)}, value.Ellipsis{}, &value.Sequence{Kind: value.Set,
				Items: []value.Value{int64(1)}}),
		"torchlike": value.NewTuple(tensor.BFloat16, tensor.Bool, value.Device{Type: "cuda", Index: 1},
			value.Device{Type: "cpu", Index: -1}, value.Layout("torch.strided")),
	}
}

// TestWriteGolden compares the files byte by byte with those that were checked
// with torch, and reads them back.
func TestWriteGolden(t *testing.T) {
	for name, v := range written(t) {
		var b bytes.Buffer
		if err := Write(&b, name, v); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		path := filepath.Join("testdata", "write", name+".pth")
		if *update {
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s: the file differs from the one checked with torch", name)
		}
		f, err := readBytes(b.Bytes())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(f.Warnings) > 0 {
			t.Errorf("%s: warnings %q", name, f.Warnings)
		}
		golden(t, filepath.Join("testdata", "write", name+".txt"), dump(f.Root))
	}
}

// TestRoundTrip reads real files, writes them and reads them again.
func TestRoundTrip(t *testing.T) {
	opaque := 0
	for _, path := range testFiles(t, "torch") {
		f, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var b bytes.Buffer
		if err := Write(&b, "x", f.Root); err != nil {
			if !strings.Contains(dump(f.Root), "opaque") {
				t.Errorf("%s: %v", path, err)
			}
			opaque++
			continue
		}
		g, err := readBytes(b.Bytes())
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		for _, x := range value.Tensors(f.Root) { // attributes of tensors are not written
			x.Attrs = nil
		}
		// Keys of storages are numbered anew; sharing is compared on its own.
		norm := func(s string) string {
			lines := strings.Split(s, "\n")
			for i, l := range lines {
				if at := strings.Index(l, " of storage "); at >= 0 {
					lines[i] = l[:at] + l[at+strings.Index(l[at:], " ("):]
				}
			}
			return strings.ReplaceAll(strings.Join(lines, "\n"), ", numpy)", ", cpu)")
		}
		if got, want := norm(dump(g.Root)), norm(dump(f.Root)); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
		if got, want := sharing(g.Root), sharing(f.Root); got != want {
			t.Errorf("%s: storages are shared as %s, want %s", path, got, want)
		}
	}
	if opaque != 5 {
		t.Errorf("%d files hold opaque values, want 5 (quantized, sparse, three of torch 2)", opaque)
	}
}

// sharing numbers the storages of tensors in order of appearance.
func sharing(v value.Value) string {
	ids := map[*tensor.Storage]rune{}
	var b strings.Builder
	for _, t := range value.Tensors(v) {
		if _, ok := ids[t.Storage()]; !ok {
			ids[t.Storage()] = rune('a' + len(ids))
		}
		b.WriteRune(ids[t.Storage()])
	}
	return b.String()
}

func TestWriteErrors(t *testing.T) {
	cyclic := value.NewTuple(nil)
	cyclic.Items[0] = cyclic
	broken := tensor.OpenStorage(4, func() ([]byte, error) { return nil, errors.New("disk on fire") })
	bt, err := tensor.NewView(broken, tensor.View{DType: tensor.Uint8, Shape: []int{4}, Stride: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		root string
		v    value.Value
		want string
	}{
		{"opaque", "x", &value.Opaque{Global: "a.B"}, `"a.B" cannot be written`},
		{"go type", "x", []int{1}, "a []int cannot be written"},
		{"tuple in itself", "x", cyclic, "nested too deep"},
		{"class of dict", "x", &value.Dict{Class: "my.Dict"}, `a dict of class "my.Dict"`},
		{"class of tuple", "x", &value.Sequence{Kind: value.Tuple, Class: "my.Point"},
			`a sequence of class "my.Point"`},
		{"memory format", "x", value.MemoryFormat("torch.odd"), "memory format"},
		{"text", "x", "\xff", "not UTF-8"},
		{"huge integer", "x", new(big.Int).Lsh(big.NewInt(1), 3000), "is too long"},
		{"unreadable storage", "x", bt, "data/0: disk on fire"},
		{"root", "a/b", nil, "cannot be the name of a folder"},
		{"no root", "", nil, "cannot be the name of a folder"},
	} {
		var b bytes.Buffer
		if err := Write(&b, tt.root, tt.v); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "output.pth")
	if err := WriteFile(path, value.NewList(int64(1))); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, &value.Opaque{}); err == nil {
		t.Fatal("an opaque value was written")
	}
	f, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if l, ok := f.Root.(*value.Sequence); !ok || len(l.Items) != 1 {
		t.Errorf("a failed write changed the file: %s", dump(f.Root))
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte("output/data.pkl")) {
		t.Error("the root folder is not the stem of the file")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// TestAlignment checks that the data of every record begins at a multiple of
// 64, for names of any length.
func TestAlignment(t *testing.T) {
	for n := 1; n < 70; n++ {
		var b bytes.Buffer
		if err := Write(&b, strings.Repeat("r", n), tensor.Full(tensor.Uint8, []int{5}, int64(1))); err != nil {
			t.Fatal(err)
		}
		a, err := openArchive(memory(b.Bytes()), 10)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.records {
			r := &a.records[i]
			start := r.header + lenLocal + int64(len(r.name)) + int64(le.Uint16(b.Bytes()[r.header+28:]))
			if start%64 != 0 {
				t.Errorf("root of %d bytes: %s begins at %d", n, r.name, start)
			}
		}
	}
}

// TestWriteBackwards: a view with a negative stride, which torch cannot hold,
// is written as a copy of its values.
func TestWriteBackwards(t *testing.T) {
	base := tensor.New(tensor.Float32, []int{4}, []float64{1, 2, 3, 4}).Rounded()
	path := filepath.Join(t.TempDir(), "x.pth")
	if err := WriteFile(path, base.Slice(0, 3, 4, -1)); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := f.Root.(*tensor.Tensor)
	if v := tensor.Data[float64](got); !slices.Equal(v, []float64{4, 3, 2, 1}) || !slices.Equal(got.Stride, []int{1}) {
		t.Errorf("read back %v with stride %v, want [4 3 2 1] with stride [1]", v, got.Stride)
	}
}
