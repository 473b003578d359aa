package pthformat

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestArrays reads files that safetensors and numpy wrote of
// [[-2, -1, 0], [1, 2, 3]] in several dtypes.
func TestArrays(t *testing.T) {
	want := []float64{-2, -1, 0, 1, 2, 3}
	for name, tc := range map[string]struct {
		format  string
		tensors map[string]string // by key, "" for the root: dtype and shape
	}{
		"all.safetensors": {"safetensors", map[string]string{
			"f32": "float32[2, 3]", "bf16": "bfloat16[2, 3]", "f16": "float16[2, 3]", "f64": "float64[2, 3]",
			"i64": "int64[2, 3]", "e4m3": "float8_e4m3fn[2, 3]", "e5m2": "float8_e5m2[2, 3]",
			"empty": "float32[0, 3]", "scalar": "float32[]", "u8": "uint8[2, 3]", "bool": "bool[2, 3]",
		}},
		"c.npy":        {"npy", map[string]string{"": "float32[2, 3]"}},
		"fortran.npy":  {"npy", map[string]string{"": "float32[2, 3]"}},
		"big.npy":      {"npy", map[string]string{"": "float32[2, 3]"}},
		"scalar.npy":   {"npy", map[string]string{"": "float16[]"}},
		"plain.npz":    {"npz", map[string]string{"a": "float32[2, 3]", "b": "int32[2, 3]"}},
		"deflated.npz": {"npz", map[string]string{"a": "float32[2, 3]", "b": "int32[2, 3]"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Open(filepath.Join("testdata", "arrays", name), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if f.Format != tc.format {
				t.Errorf("format %q, want %q", f.Format, tc.format)
			}
			found := map[string]value.Value{"": f.Root}
			if d, ok := f.Root.(*value.Dict); ok {
				found = map[string]value.Value{}
				for _, it := range d.Items {
					found[it.Key.(string)] = it.Value
				}
			}
			if len(found) != len(tc.tensors) {
				t.Errorf("%d values, want %d", len(found), len(tc.tensors))
			}
			for key, meta := range tc.tensors {
				x, ok := found[key].(*tensor.Tensor)
				if !ok {
					t.Errorf("%q is %s, want a tensor", key, value.Str(found[key]))
					continue
				}
				if x.Meta() != meta {
					t.Errorf("%q is %s, want %s", key, x.Meta(), meta)
				}
				w := want
				switch key {
				case "u8":
					w = []float64{2, 1, 0, 1, 2, 3}
				case "bool":
					w = []float64{0, 0, 0, 1, 1, 1}
				case "empty":
					w = nil
				}
				if x.Dim() == 0 {
					w = []float64{2.5}
				}
				if got := tensor.Data[float64](x); !slices.Equal(got, w) {
					t.Errorf("%q holds %v, want %v", key, got, w)
				}
			}
		})
	}
}

// TestText: an array of strings is an object that holds its characters.
func TestText(t *testing.T) {
	f, err := Open("testdata/arrays/text.npy", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if o, ok := f.Root.(*value.Opaque); !ok || o.Reason != "array of <U2" || !o.Whole {
		t.Errorf("got %s", value.Str(f.Root))
	}
}

// safetensorsOf is a file with that header and so many bytes of data.
func safetensorsOf(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func npyOf(header string, data int) []byte {
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

// TestHostileArrays: what a file declares and does not hold is refused, in words.
func TestHostileArrays(t *testing.T) {
	const f4 = `{"descr":0}`
	for _, tc := range []struct {
		file, name string
		content    []byte
		want       string // in the error
	}{
		{"short", "x.safetensors", []byte("abc"), "3 bytes are too short"},
		{"length", "x.safetensors", append(binary.LittleEndian.AppendUint64(nil, 1<<60), '{'), "exceeds the file"},
		{"no object", "x.safetensors", safetensorsOf(`[]`, 0), "not a JSON object"},
		{"cut off", "x.safetensors", safetensorsOf(`{"a":`, 0), `tensor "a"`},
		{"rest", "x.safetensors", safetensorsOf(`{} {}`, 0), "3 bytes follow"},
		{"twice", "x.safetensors", safetensorsOf(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},`+
			`"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), `key "a" appears twice`},
		{"size", "x.safetensors", safetensorsOf(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4),
			"float32[2] has 8 bytes, data_offsets [0 4] hold 4"},
		{"outside", "x.safetensors", safetensorsOf(`{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, 4),
			"outside the 4 bytes"},
		{"backwards", "x.safetensors", safetensorsOf(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[3,2]}}`, 4),
			"outside the 4 bytes"},
		{"overflow", "x.safetensors", safetensorsOf(`{"a":{"dtype":"U8","shape":[4294967296,4294967296],`+
			`"data_offsets":[0,4]}}`, 4), "too many elements"},
		{"negative", "x.safetensors", safetensorsOf(`{"a":{"dtype":"U8","shape":[-1,-4],"data_offsets":[0,4]}}`, 4),
			"negative dimension"},
		{"no shape", "x.safetensors", safetensorsOf(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1), "no shape"},
		{"hole", "x.safetensors", safetensorsOf(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2),
			"belong to no tensor"},
		{"tail", "x.safetensors", safetensorsOf(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2),
			"2 bytes of data, the tensors have 1"},
		{"overlap", "x.safetensors", safetensorsOf(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},`+
			`"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), "overlap at byte 1"},
		{"metadata", "x.safetensors", safetensorsOf(`{"__metadata__":{"a":1}}`, 0), "__metadata__"},
		{"npy version", "x.npy", append([]byte(npyMagic), 9, 0, 0, 0), "version 9"},
		{"npy header", "x.npy", npyOf("{}", 0), "lacks fortran_order or shape"},
		{"npy length", "x.npy", npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 8), "has 12 bytes"},
		{"npy overflow", "x.npy", npyOf("{'descr': '<f4', 'fortran_order': True, "+
			"'shape': (4294967296, 4294967296)}", 8), "too many elements"},
		{"npy negative", "x.npy", npyOf("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 8), "negative"},
		{"npy no descr", "x.npy", npyOf("{'fortran_order': False, 'shape': (1,)}", 4), "no descr"},
		{"npy descr", "x.npy", npyOf("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}", 4), "not known"},
		{"npy fields", "x.npy", npyOf("{'descr': [('a', '<f4'), 'b'], 'fortran_order': False, 'shape': (1,)}", 4),
			"no list of fields"},
		{"npy field shape", "x.npy", npyOf("{'descr': [('a', '<f4', (1073741824, 4))], 'fortran_order': False, "+
			"'shape': (1,)}", 4), `field "a"`},
		{"npy deep", "x.npy", npyOf("{'descr': "+strings.Repeat("[('a', ", 50)+", 'fortran_order': False, 'shape': (1,)}",
			4), "nested too deep"},
		{"neither", "x.bin", []byte(f4), "neither a zip nor a pickle"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			_, err := read(tc.name, memory(tc.content), Limits{})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), tc.name+": ") {
				t.Errorf("got %v, want %s: ... %s", err, tc.name, tc.want)
			}
			fuzzcheck.Sentence(t, err)
		})
	}
}

// FuzzArrays reads .safetensors, .npy and .npz files.
func FuzzArrays(f *testing.F) {
	files, _ := filepath.Glob("testdata/arrays/*")
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, strings.HasSuffix(path, ".safetensors"))
	}
	f.Fuzz(func(t *testing.T, b []byte, safetensors bool) {
		name := "fuzz.npy"
		if safetensors {
			name = "fuzz.safetensors"
		}
		fuzzcheck.Bounded(t, len(b), 1<<14, func() {
			file, err := read(name, memory(b), fuzzLimits)
			fuzzcheck.Sentence(t, err)
			if err == nil {
				useValue(t, file)
			}
		})
	})
}
