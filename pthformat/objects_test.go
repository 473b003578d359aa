package pthformat

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// objectFiles are the files of objects of one folder.
func objectFiles(t testing.TB, folder string) []string {
	t.Helper()
	var out []string
	root := filepath.Join("testdata", "objects", folder)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) != ShardExt && filepath.Ext(path) != ".txt" {
			out = append(out, path)
		}
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("no test files in objects/%s: %v", folder, err)
	}
	return out
}

// TestObjects compares what files of objects hold with golden texts. Everything in them is opened,
// but for a tensor that has no values.
func TestObjects(t *testing.T) {
	for _, path := range objectFiles(t, "a") {
		f, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		golden(t, path+".txt", fmt.Sprintf("%s protocol %d %v\n%s", f.Format, f.Protocol, f.Warnings, dump(f.Root)))
		value.Walk(f.Root, func(v value.Value) {
			if o, ok := v.(*value.Opaque); ok && !o.Whole && !strings.Contains(path, "meta.pt") {
				t.Errorf("%s: %s is not opened", path, value.Str(o))
			}
		})
		for _, x := range value.Tensors(f.Root) {
			if _, err := x.Storage().Load(); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for _, x := range value.Tensors(f.Root) { // of files inside of others too: an error, no crash
			_, _ = x.Storage().Load()
		}
	}
}

// load is the error of the first use of a value.
func load(v value.Value) error {
	for _, x := range value.Tensors(v) {
		if _, err := x.Storage().Load(); err != nil {
			return err
		}
	}
	return nil
}

// TestDamagedCheckpoint: a shard that is missing, or in a file outside of the checkpoint, costs the
// value that it belongs to.
func TestDamagedCheckpoint(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(dir string) error
		want   string // of the value w; the value step stays
	}{
		{"missing", func(dir string) error { return os.Remove(filepath.Join(dir, "__0_0.distcp")) },
			`"w": shard at [0 0]: shard file __0_0.distcp: no such file`},
		{"short", func(dir string) error { return os.Truncate(filepath.Join(dir, "__0_0.distcp"), 100) },
			"__0_0.distcp has 100 bytes, the value is at 0 to"},
		{"damaged", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "__0_0.distcp"), make([]byte, 4000), 0o600)
		}, "not a torch file"},
		{"outside", func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, MetadataName))
			if err != nil {
				return err
			}
			b = bytes.ReplaceAll(b, []byte("__0_0.distcp"), []byte("../secret.di"))
			return os.WriteFile(filepath.Join(dir, MetadataName), b, 0o600)
		}, "no place in a file"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("testdata/objects/a/dcp")); err != nil {
			t.Fatal(err)
		}
		if err := tc.change(dir); err != nil {
			t.Fatal(err)
		}
		f, err := Open(filepath.Join(dir, MetadataName), Options{})
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		w, _ := f.Root.(*value.Dict).Get("w")
		if err := load(w); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
		}
		if step, _ := f.Root.(*value.Dict).Get("step"); step != int64(3) {
			t.Errorf("%s: step is %v", tc.name, step)
		}
		f.Close()
	}
	if _, err := Open("testdata/objects/a/dcp/__0_0.distcp", Options{}); err == nil ||
		!strings.Contains(err.Error(), "read with the .metadata") {
		t.Errorf("a shard alone: %v", err)
	}
}

// TestWhole puts tensors together from shards.
func TestWhole(t *testing.T) {
	shard := func(at, sizes []int, v ...float64) chunk {
		x, err := tensor.NewView(tensor.NewStorage(tensor.New(tensor.Float32, sizes, v).AppendBytes(nil)),
			tensor.View{DType: tensor.Float32, Shape: sizes, Stride: tensor.Contiguous(sizes)})
		if err != nil {
			t.Fatal(err)
		}
		return chunk{at, sizes, x}
	}
	for _, tc := range []struct {
		name   string
		chunks []chunk
		want   []float64
		err    string
	}{
		{"rows", []chunk{shard([]int{1, 0}, []int{1, 3}, 4, 5, 6), shard([]int{0, 0}, []int{1, 3}, 1, 2, 3)},
			[]float64{1, 2, 3, 4, 5, 6}, ""},
		{"columns", []chunk{shard([]int{0, 0}, []int{2, 1}, 1, 4), shard([]int{0, 1}, []int{2, 2}, 2, 3, 5, 6)},
			[]float64{1, 2, 3, 4, 5, 6}, ""},
		{"with an empty one", []chunk{shard([]int{0, 0}, []int{2, 3}, 1, 2, 3, 4, 5, 6),
			shard([]int{2, 0}, []int{0, 3})}, []float64{1, 2, 3, 4, 5, 6}, ""},
		{"hole", []chunk{shard([]int{0, 0}, []int{1, 3}, 1, 2, 3)}, nil, "hold 3 of the 6 elements of [2, 3]"},
		{"overlap", []chunk{shard([]int{0, 0}, []int{1, 3}, 1, 2, 3), shard([]int{0, 0}, []int{2, 2}, 1, 2, 3, 4)}, nil,
			"at [0 0] and [0 0] overlap"},
	} {
		n := 0
		for _, c := range tc.chunks {
			n += c.t.Numel()
		}
		v, err := whole([]int{2, 3}, tc.chunks, n)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: got %v, want %s", tc.name, err, tc.err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.Data[float64](v.(*tensor.Tensor)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestDescriptors reads the types that a .npy file can have.
func TestDescriptors(t *testing.T) {
	for _, tc := range []struct {
		descr, shape string
		data         []byte
		want         string
	}{
		{"'<M8[10us]'", "(1,)", make([]byte, 8), `opaque numpy.ndarray "array of datetime64[10us]"|  ticks int64[1]`},
		{"'>m8[s]'", "()", []byte{0, 0, 0, 0, 0, 0, 0, 7}, `opaque numpy.ndarray "array of timedelta64[s]"|  ` +
			"ticks int64[] stride [] offset 0 of storage  (8 bytes, numpy): 0700000000000000"},
		{"'|V2'", "(2,)", []byte{1, 2, 3, 4}, `opaque numpy.ndarray "array of |V2"|  bytes bits8[2, 2]`},
		{"'|S3'", "(1,)", []byte("abc"), `opaque numpy.ndarray "array of |S3"|  bytes uint8[1, 3]`},
		{"[('a', '<i2'), ('b', '>f4', (2,))]", "(1,)", []byte{1, 0, 0x3f, 0x80, 0, 0, 0x40, 0, 0, 0},
			`opaque numpy.ndarray "structured array"|  ['a'] int16[1] stride [1] offset 0 of storage  (2 bytes, numpy): 0100|` +
				"  ['b'] float32[1, 2] stride [2 1] offset 0 of storage  (8 bytes, numpy): 0000803f00000040"},
		{"[('p', [('x', '|u1')]), (('title', 'q'), '|b1')]", "(1,)", []byte{5, 1},
			`opaque numpy.ndarray "structured array"|  ['p'] opaque numpy.ndarray "structured array"|    ['x'] uint8[1]`},
	} {
		f, err := readBytes(append(npyOf("{'descr': "+tc.descr+", 'fortran_order': False, 'shape': "+tc.shape+", }", 0),
			tc.data...))
		if err != nil {
			t.Errorf("%s: %v", tc.descr, err)
			continue
		}
		if got := strings.ReplaceAll(dump(f.Root), "\n", "|"); !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: got  %s\nwant %s", tc.descr, got, tc.want)
		}
	}
}

// TestMembers: an array that cannot be read does not lose those beside it.
func TestMembers(t *testing.T) {
	good := npyOf("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", 1)
	f, err := readBytes(makeZip(t, entry{"a.npy", []byte("no array")}, entry{"b.npy", good}))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := f.Root.(*value.Dict).Get("a")
	b, _ := f.Root.(*value.Dict).Get("b")
	if err := load(a); err == nil || !strings.Contains(err.Error(), "a.npy: npy: not an array file") {
		t.Errorf("a: %v", err)
	}
	if err := load(b); err != nil {
		t.Errorf("b: %v", err)
	}
}

// TestExtended converts numbers of 80 bits.
func TestExtended(t *testing.T) {
	number := func(sign, exponent uint16, mantissa uint64) []byte {
		b := le.AppendUint16(le.AppendUint64(nil, mantissa), sign<<15|exponent)
		return append(b, 1, 2, 3, 4, 5, 6) // what the processor leaves there
	}
	for _, tc := range []struct {
		b    []byte
		want float64
	}{
		{number(0, 16383, 1<<63), 1}, {number(1, 16384, 3<<62), -3}, {number(0, 0, 0), 0},
		{number(0, 0x7fff, 1<<63), math.Inf(1)}, {number(1, 0x7fff, 1<<63), math.Inf(-1)},
		{number(0, 0x7fff, 3<<62), math.NaN()}, {number(0, 20000, 1<<63), math.MaxFloat64},
	} {
		got := math.Float64frombits(le.Uint64(extended(tc.b)))
		if got != tc.want && !(math.IsNaN(got) && math.IsNaN(tc.want)) {
			t.Errorf("extended(%x) = %v, want %v", tc.b, got, tc.want)
		}
	}
}

// TestLegacyModule: torch.save of a module in the format before torch 1.6 names its class and
// source in a persistent id.
func TestLegacyModule(t *testing.T) {
	table := storageTable{}
	u := &unpickler{persistent: table.resolve}
	p, werr := walk([]byte(pickleOf("("+unicodeOp("module")+"cmod\nNet\n"+unicodeOp("net.py")+unicodeOp("class Net: pass")+
		"tQ)\x81}"+unicodeOp("a")+"K\x01sb")), Limits{}.withDefaults(0))
	if werr != nil {
		t.Fatal(werr)
	}
	x, err := u.run(p)
	if err != nil {
		t.Fatal(err)
	}
	c := converter{lim: Limits{}.withDefaults(0)}
	v, _, err := c.convert(x, 0)
	if got := strings.ReplaceAll(dump(v), "\n", "|"); err != nil || got != `opaque mod.Net ""|  a int64 1|` {
		t.Errorf("got %s, %v", got, err)
	}
}
