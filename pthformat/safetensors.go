package pthformat

import (
	"bytes"
	"encoding/json"
	"math"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// safetensorsTypes are the dtypes of a header that tensors can have here. Others
// (F4, F6_*) are shown as their bytes.
//
// Source: safetensors/src/tensor.rs, enum Dtype.
var safetensorsTypes = map[string]tensor.DType{
	"BOOL": tensor.Bool, "U8": tensor.Uint8, "I8": tensor.Int8, "U16": tensor.Uint16, "I16": tensor.Int16,
	"U32": tensor.Uint32, "I32": tensor.Int32, "U64": tensor.Uint64, "I64": tensor.Int64,
	"F16": tensor.Float16, "BF16": tensor.BFloat16, "F32": tensor.Float32, "F64": tensor.Float64,
	"C64": tensor.Complex64, "F8_E4M3": tensor.Float8E4M3FN, "F8_E5M2": tensor.Float8E5M2,
	"F8_E4M3FNUZ": tensor.Float8E4M3FNUZ, "F8_E5M2FNUZ": tensor.Float8E5M2FNUZ,
	"F8_E8M0": tensor.Float8E8M0FNU,
}

// safetensorsHeader bounds the header in bytes, as the reference implementation
// does (MAX_HEADER_SIZE).
const safetensorsHeader = 100_000_000

// isSafetensors reports whether a file is one of safetensors': by what a header
// begins with, or else by its name, so that a damaged one is called by its name.
func (f *File) isSafetensors() bool {
	if strings.EqualFold(filepath.Ext(f.Path), ".safetensors") {
		return true
	}
	b, err := f.src.view(0, 9)
	return err == nil && b[8] == '{' && le.Uint64(b) <= uint64(f.Size)-8
}

// A headerEntry is what a header says of a tensor.
type headerEntry struct {
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}

// readSafetensors reads the header: a length of 8 bytes, JSON, then the bytes of
// the tensors without holes.
//
// Source: https://github.com/huggingface/safetensors#format
func (f *File) readSafetensors() error {
	f.Format = "safetensors"
	bad := func(format string, args ...any) error { return malformed(format, args...).in("safetensors header") }
	if f.Size < 8 {
		return bad("%d bytes are too short", f.Size)
	}
	head, err := f.src.view(0, 8)
	if err != nil {
		return err
	}
	n := le.Uint64(head)
	switch {
	case n > uint64(f.Size)-8:
		return bad("length of %d bytes exceeds the file of %d", n, f.Size)
	case n > safetensorsHeader:
		return bad("length of %d bytes exceeds the limit of %d", n, safetensorsHeader)
	}
	text, err := f.src.view(8, int64(n))
	if err != nil {
		return err
	}
	names, entries, err := f.parseHeader(text)
	if err != nil {
		return bad("%s", err)
	}
	root := &value.Dict{}
	buffer := 8 + int64(n)
	for i, e := range entries {
		v, err := f.safetensor(e, buffer)
		if err != nil {
			return bad("tensor %q: %s", names[i], err)
		}
		root.Items = append(root.Items, value.Item{Key: names[i], Value: v})
	}
	if err := covers(entries, f.Size-buffer); err != nil {
		return bad("%s", err)
	}
	f.setRoot(root)
	return nil
}

// parseHeader reads the JSON of a header in the order of the file.
func (f *File) parseHeader(text []byte) (names []string, entries []headerEntry, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, malformed("not a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, nil, jsonError(err)
		}
		name, _ := t.(string)
		if seen[name] {
			return nil, nil, malformed("key %q appears twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			var meta map[string]string
			if err := d.Decode(&meta); err != nil {
				return nil, nil, malformed("__metadata__ is not an object of strings")
			}
			continue
		}
		var e headerEntry
		if err := d.Decode(&e); err != nil {
			return nil, nil, malformed("tensor %q: %s", name, jsonError(err))
		}
		names, entries = append(names, name), append(entries, e)
		if len(names) > f.lim.Records {
			return nil, nil, malformed("more than %d tensors", f.lim.Records)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, jsonError(err)
	}
	if rest := bytes.TrimRight(text[d.InputOffset():], " \n\r\t"); len(rest) > 0 {
		return nil, nil, malformed("%d bytes follow the JSON object", len(rest))
	}
	return names, entries, nil
}

// jsonError is an error of encoding/json in the words of this package.
func jsonError(err error) error { return malformed("%s", strings.TrimPrefix(err.Error(), "json: ")) }

// safetensor makes the value of an entry; buffer is where the bytes begin.
func (f *File) safetensor(e headerEntry, buffer int64) (value.Value, error) {
	if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > f.Size-buffer {
		return nil, malformed("data_offsets %v lie outside the %d bytes of data", e.Offsets, f.Size-buffer)
	}
	if e.Shape == nil {
		return nil, malformed("no shape")
	}
	size := e.Offsets[1] - e.Offsets[0]
	dt, ok := safetensorsTypes[e.DType]
	if !ok {
		return f.packed(e, buffer), nil
	}
	shape, want, err := sized(e.Shape, dt.Size())
	if err != nil {
		return nil, err
	}
	if want != size {
		return nil, malformed("%s%s has %d bytes, data_offsets %v hold %d", dt, tensor.ShapeString(shape), want,
			e.Offsets, size)
	}
	at := buffer + e.Offsets[0]
	s := tensor.OpenStorage(size, func() ([]byte, error) { return f.src.view(at, size) })
	s.Location = "cpu"
	t, err := tensor.NewView(s, tensor.View{DType: dt, Shape: shape, Stride: tensor.Contiguous(shape)})
	if err != nil {
		return nil, err
	}
	t.Device = "cpu"
	return t, nil
}

// packed is a tensor of a dtype that is not known here: its shape and its bytes. Those of 4 and 6
// bits have neither inf nor nan.
func (f *File) packed(e headerEntry, buffer int64) value.Value {
	size, at := e.Offsets[1]-e.Offsets[0], buffer+e.Offsets[0]
	shape := &value.Sequence{Kind: value.Tuple, Class: "torch.Size"}
	for _, n := range e.Shape {
		shape.Items = append(shape.Items, n)
	}
	dt := tensor.Bits8
	if e.DType == "F4" || strings.HasPrefix(e.DType, "F6_") {
		dt = tensor.Uint8
	}
	s := tensor.OpenStorage(size, func() ([]byte, error) { return f.src.view(at, size) })
	t, err := tensor.NewView(s, tensor.View{DType: dt, Shape: []int{int(size)}, Stride: []int{1}})
	if err != nil {
		return f.damaged(err)
	}
	t.Device = "cpu"
	return &value.Opaque{Global: "safetensors." + e.DType, Reason: "dtype " + e.DType, Whole: true,
		Parts: []value.Part{{Name: "shape", Value: shape}, {Name: "bytes", Value: t}}}
}

// sized checks a shape that a file declares and gives the bytes that its elements
// take.
func sized(declared []int64, each int) (shape []int, size int64, err error) {
	n, empty := uint64(each), false
	overflow := false
	shape = make([]int, len(declared))
	for i, d := range declared {
		if d < 0 {
			return nil, 0, malformed("negative dimension %d in shape %v", d, declared)
		}
		shape[i] = int(d)
		empty = empty || d == 0
		hi, lo := bits.Mul64(n, uint64(d))
		overflow = overflow || hi != 0 || lo > math.MaxInt64
		n = lo
	}
	switch {
	case empty:
		return shape, 0, nil
	case overflow:
		return nil, 0, malformed("shape %v has too many elements", declared)
	}
	return shape, int64(n), nil
}

// covers checks that the entries share no byte of the buffer and leave none out:
// what nobody reads is where a file can hide another.
func covers(entries []headerEntry, size int64) error {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b headerEntry) int { return slices.Compare(a.Offsets, b.Offsets) })
	at := int64(0)
	for _, e := range sorted {
		switch {
		case e.Offsets[0] < at:
			return malformed("tensors overlap at byte %d of the data", e.Offsets[0])
		case e.Offsets[0] > at:
			return malformed("bytes %d to %d of the data belong to no tensor", at, e.Offsets[0])
		}
		at = e.Offsets[1]
	}
	if at != size {
		return malformed("%d bytes of data, the tensors have %d", size, at)
	}
	return nil
}
