package pthformat

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

var update = flag.Bool("update", false, "write the golden files")

// readBytes reads a file that lies in memory.
func readBytes(b []byte) (*File, error) { return read("test.pth", memory(b), Limits{}) }

// entry is a record of a zip to be made.
type entry struct {
	name string
	data []byte
}

// makeZip returns a zip of stored records with correct checksums.
func makeZip(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(e.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pth returns a file of that pickle and storages "0", "1", ...
func pth(t testing.TB, pickle string, storages ...[]byte) []byte {
	t.Helper()
	es := []entry{{"x/data.pkl", []byte(pickle)}}
	for i, s := range storages {
		es = append(es, entry{fmt.Sprintf("x/data/%d", i), s})
	}
	return makeZip(t, append(es, entry{"x/version", []byte("3\n")})...)
}

// The pieces of pickles written by hand.

func unicodeOp(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// storageOp pushes storage key of the class with count elements.
func storageOp(class, key string, count byte) string {
	return "(" + unicodeOp("storage") + "ctorch\n" + class + "\n" + unicodeOp(key) + unicodeOp("cpu") + "K" +
		string([]byte{count}) + "tQ"
}

const hooksOp = "ccollections\nOrderedDict\n)R"

// tensorOp pushes a tensor of 2 elements over storage "0", with further
// arguments after the hooks.
func tensorOp(class, extra string) string {
	return "ctorch._utils\n_rebuild_tensor_v2\n(" + storageOp(class, "0", 2) + "K\x00K\x02\x85K\x01\x85\x89" + hooksOp +
		extra + "tR"
}

func pickleOf(body string) string { return "\x80\x02" + body + "." }

// dump writes a value as text, one line per object.
func dump(v value.Value) string {
	var b strings.Builder
	dumpTo(&b, v, "", map[any]bool{})
	return b.String()
}

func dumpTo(b *strings.Builder, v value.Value, indent string, open map[any]bool) {
	line := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	children := func(key any, names []string, items []value.Value) {
		if open[key] {
			line("%s  ...", indent)
			return
		}
		open[key] = true
		defer delete(open, key)
		for i, it := range items {
			fmt.Fprintf(b, "%s  %s", indent, names[i])
			dumpTo(b, it, indent+"  ", open)
		}
	}
	switch v := v.(type) {
	case nil:
		line("None")
	case *tensor.Tensor:
		s := ""
		if v.RequiresGrad {
			s += " requires_grad"
		}
		if v.Parameter {
			s += " parameter"
		}
		data := "?"
		if raw, err := v.Storage().Load(); err != nil {
			data = err.Error()
		} else if len(raw) <= 128 {
			data = fmt.Sprintf("%x", v.AppendBytes(nil))
		}
		line("%s stride %v offset %d of storage %s (%d bytes, %s)%s: %s", v.Meta(), v.Stride, v.Offset, v.Storage().Key,
			v.Storage().Len(), v.Device, s, data)
		for _, p := range value.Parts(v) {
			children(v, []string{p.Name + " "}, []value.Value{p.Value})
		}
	case *value.Sequence:
		line("%s %s (%d)", []string{"list", "tuple", "set", "frozenset"}[v.Kind], v.Class, len(v.Items))
		names := make([]string, len(v.Items))
		for i := range names {
			names[i] = fmt.Sprintf("[%d] ", i)
		}
		children(v, names, v.Items)
	case *value.Dict:
		line("dict %s (%d)", v.Class, len(v.Items))
		var names []string
		var items []value.Value
		for _, it := range v.Items {
			names = append(names, strings.ReplaceAll(strings.TrimSpace(dump(it.Key)), "\n", ";")+": ")
			items = append(items, it.Value)
		}
		children(v, names, items)
	case *value.Opaque:
		lacking := ""
		if !v.Whole {
			lacking = " (not whole)"
		}
		line("opaque %s %q%s", v.Global, v.Reason, lacking)
		var names []string
		var items []value.Value
		for _, p := range v.Parts {
			names, items = append(names, p.Name+" "), append(items, p.Value)
		}
		children(v, names, items)
	case value.Slice:
		line("slice")
		children(nil, []string{"start ", "stop ", "step "}, []value.Value{v.Start, v.Stop, v.Step})
	case *big.Int:
		line("int %v", v)
	case value.Bytes:
		line("value.Bytes %v", []byte(v))
	case value.Ellipsis:
		line("Ellipsis")
	case value.Device:
		line("device %s %d", v.Type, v.Index)
	default:
		line("%T %v", v, v)
	}
}

// golden compares got with the file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\ngot\n%s\nwant\n%s", path, got, want)
	}
}

// testFiles lists the files of a folder of testdata.
func testFiles(t testing.TB, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.pth"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files in %s: %v", folder, err)
	}
	return files
}
