package pthformat

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestMemoryOfValues: a file may hold a million small tensors. What each takes of memory while the file is open is
// its tensor, its storage and the way to its bytes.
func TestMemoryOfValues(t *testing.T) {
	const n = 20_000
	list, dict := &value.Sequence{}, &value.Dict{}
	header := map[string]any{}
	for i := range n {
		name := fmt.Sprintf("model.layers.%d.weight_%d", i/10, i%10)
		x := tensor.New(tensor.Float32, []int{1}, []float64{1})
		list.Items = append(list.Items, x)
		dict.Items = append(dict.Items, value.Item{Key: name, Value: x})
		header[name] = map[string]any{"dtype": "F32", "shape": []int{1}, "data_offsets": []int{4 * i, 4*i + 4}}
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, write := range map[string]func(path string) error{
		"list.pth": func(path string) error { return WriteFile(path, list) },
		"dict.pth": func(path string) error { return WriteFile(path, dict) },
		"dict.safetensors": func(path string) error {
			b := append(le.AppendUint64(nil, uint64(len(text))), text...)
			return os.WriteFile(path, append(b, make([]byte, 4*n)...), 0o666)
		},
	} {
		path := filepath.Join(dir, name)
		if err := write(path); err != nil {
			t.Fatal(err)
		}
		before := live()
		f, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if each := (live() - before) / n; each > 700 {
			t.Errorf("%s: %d bytes a value", name, each)
		}
		runtime.KeepAlive(f)
		f.Close()
	}
}

// live is how many bytes of the heap are in use.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
