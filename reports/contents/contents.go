// Package contents lists what files and calls hold: as JSON, one object a file, and as
// rows of op_tools' tables.
package contents

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A File is the content of one file.
type File struct {
	File       string   `json:"file"`
	Format     string   `json:"format"`
	Bytes      int64    `json:"bytes"`
	Keys       []string `json:"keys,omitempty"`
	Op         *string  `json:"op,omitempty"`
	Identifier *string  `json:"identifier,omitempty"`
	ArgsLen    *int     `json:"args_len,omitempty"`
	Kwargs     []string `json:"kwargs,omitzero"`
	Items      []Item   `json:"items"`
	Warnings   []string `json:"warnings,omitempty"`
}

// A Failure is a file that cannot be read.
type Failure struct {
	File  string `json:"file"`
	Error string `json:"error"`
}

// An Item is one value or container of a file. Fields beyond path and
// kind are those of its kind.
type Item struct {
	Path         string   `json:"path"`
	Kind         string   `json:"kind"`
	Class        string   `json:"class,omitempty"`
	Len          *int     `json:"len,omitempty"`
	Value        any      `json:"value,omitempty"`
	Reason       string   `json:"reason,omitempty"`
	DType        string   `json:"dtype,omitempty"`
	Shape        []int    `json:"shape,omitzero"`
	Stride       []int    `json:"stride,omitzero"`
	Offset       *int     `json:"offset,omitempty"`
	Numel        *int     `json:"numel,omitempty"`
	RequiresGrad *bool    `json:"requires_grad,omitempty"`
	Parameter    *bool    `json:"parameter,omitempty"`
	Device       string   `json:"device,omitempty"`
	Storage      *int     `json:"storage,omitempty"`
	StorageBytes *int64   `json:"storage_nbytes,omitempty"`
	SHA256       string   `json:"sha256,omitempty"`
	Values       []string `json:"values,omitempty"`

	Tensor *tensor.Tensor `json:"-"` // nil for anything else
}

// OfFile lists what a file holds. A file that is no capture is listed from
// its root.
func OfFile(name string, f *pthformat.File) (*File, error) {
	r := &File{File: name, Format: f.Format, Bytes: f.Size, Items: []Item{}, Warnings: f.Warnings}
	l := lister{record: r, inside: map[any]bool{}, storages: map[*tensor.Storage]int{}}
	if d, ok := f.Root.(*value.Dict); ok {
		for _, it := range d.Items {
			r.Keys = append(r.Keys, value.Str(it.Key))
		}
	}
	rec, err := capture.ParseRecord(f.Root)
	if err != nil {
		err := l.add("root", f.Root)
		return r, err
	}
	return r, l.call(rec)
}

// OfCall lists what another producer recorded as kind k of a call.
func OfCall(name, format string, c *capture.Call, k capture.Kind) (*File, error) {
	r := &File{File: name, Format: format, Items: []Item{}}
	l := lister{record: r, inside: map[any]bool{}, storages: map[*tensor.Storage]int{}}
	rec := &capture.Record{Name: c.Op, Args: c.Values(k), Kwargs: &value.Dict{}, Identifier: c.Identifier}
	if k == capture.Input {
		rec.Kwargs = c.Kwargs
	}
	return r, l.call(rec)
}

// call lists the values of a call.
func (l *lister) call(rec *capture.Record) error {
	r, n := l.record, len(rec.Args)
	r.Op, r.Identifier, r.ArgsLen, r.Kwargs = &rec.Name, &rec.Identifier, &n, []string{}
	for i, v := range rec.Args {
		if err := l.add("args["+strconv.Itoa(i)+"]", v); err != nil {
			return err
		}
	}
	for _, it := range rec.Kwargs.Items {
		r.Kwargs = append(r.Kwargs, value.Str(it.Key))
		if err := l.add("kwargs"+keyPath(it.Key), it.Value); err != nil {
			return err
		}
	}
	return nil
}

// keyPath is how a path goes into a dict: .name for strings, [repr] otherwise.
func keyPath(key value.Value) string {
	if s, ok := key.(string); ok {
		return "." + s
	}
	return "[" + value.Repr(key) + "]"
}

// text is what a table shows of an item that is no tensor.
func (it *Item) text() string {
	switch {
	case it.Len != nil:
		return strings.TrimSpace(fmt.Sprintf("%s of %d %s", cmp.Or(it.Class, it.Kind), *it.Len, it.Reason))
	case it.Kind == "none":
		return "None"
	case it.Kind == "ellipsis":
		return "Ellipsis"
	case it.Kind == "opaque":
		return strings.TrimSpace("<" + it.Class + "> " + it.Reason)
	}
	return fmt.Sprint(it.Value)
}

type lister struct {
	record   *File
	inside   map[any]bool
	storages map[*tensor.Storage]int
}

func (l *lister) add(path string, v value.Value) error {
	if len(l.record.Items) == value.MaxItems {
		return value.ErrTooMany
	}
	it := Item{Path: path}
	put := func() { l.record.Items = append(l.record.Items, it) }
	switch v := v.(type) {
	case *value.Sequence:
		return l.sequence(it, v)
	case *value.Dict:
		n := len(v.Items)
		it.Kind, it.Len, it.Class = "dict", &n, v.Class
		if l.inside[v] {
			it.Reason = "contains itself"
			put()
			return nil
		}
		l.inside[v] = true
		defer delete(l.inside, v)
		put()
		for _, item := range v.Items {
			if err := l.add(path+keyPath(item.Key), item.Value); err != nil {
				return err
			}
		}
		return nil
	case *tensor.Tensor:
		l.tensor(&it, v)
		put()
		if l.inside[v] {
			return nil
		}
		l.inside[v] = true
		defer delete(l.inside, v)
		return l.parts(path, v)
	case *value.Opaque:
		it.Kind, it.Class, it.Reason = "opaque", v.Global, v.Reason
		put()
		if l.inside[v] {
			return nil
		}
		l.inside[v] = true
		defer delete(l.inside, v)
		return l.parts(path, v)
	default:
		it.Kind, it.Value = scalarJSON(v)
	}
	put()
	return nil
}

// parts lists what is inside of an object, or the tensors that are attached to a tensor: other attributes are
// none of the items that the interface fixes.
func (l *lister) parts(path string, v value.Value) error {
	_, attached := v.(*tensor.Tensor)
	for _, p := range value.Parts(v) {
		if attached && len(value.Tensors(p.Value)) == 0 {
			continue
		}
		if err := l.add(value.Join(path, p.Name), p.Value); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) sequence(it Item, s *value.Sequence) error {
	n := len(s.Items)
	switch {
	case s.Class == "torch.Size":
		it.Kind, it.Value = "size", plainJSON(s.Items)
		l.record.Items = append(l.record.Items, it)
		return nil
	case strings.HasPrefix(s.Class, "torch.return_types."):
		it.Kind, it.Class = "return_type", s.Class
	case s.Class != "":
		it.Kind, it.Class = "named_tuple", s.Class
	default:
		it.Kind = [...]string{"list", "tuple", "set", "frozenset"}[s.Kind]
	}
	it.Len = &n
	if l.inside[s] {
		it.Reason = "contains itself"
	}
	l.record.Items = append(l.record.Items, it)
	if l.inside[s] {
		return nil
	}
	l.inside[s] = true
	defer delete(l.inside, s)
	for i, v := range s.Items {
		if err := l.add(it.Path+"["+strconv.Itoa(i)+"]", v); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) tensor(it *Item, t *tensor.Tensor) {
	info := TensorInfo(t, "")
	offset, numel, grad, param := t.Offset, t.Numel(), t.RequiresGrad, t.Parameter
	it.Kind, it.DType, it.Shape, it.Stride, it.Device = "tensor", info.DType, nonNil(t.Shape), nonNil(t.Stride),
		info.Device
	it.Offset, it.Numel, it.RequiresGrad, it.Parameter, it.Tensor = &offset, &numel, &grad, &param, t
	if s := t.Storage(); s != nil {
		k, ok := l.storages[s]
		if !ok {
			k = len(l.storages)
			l.storages[s] = k
		}
		n := s.Len()
		it.Storage, it.StorageBytes = &k, &n
	}
}

func nonNil(v []int) []int {
	if v == nil {
		return []int{}
	}
	return v
}

// scalarJSON is the kind and JSON value of anything but a tensor or container.
// Floats are Python's repr in a string.
func scalarJSON(v value.Value) (kind string, val any) {
	switch v := v.(type) {
	case nil:
		return "none", nil
	case bool:
		return "bool", v
	case int64:
		return "int", v
	case *big.Int:
		return "int", v
	case float64:
		return "float", value.FloatRepr(v)
	case complex128:
		return "complex", []string{value.FloatRepr(real(v)), value.FloatRepr(imag(v))}
	case string:
		return "str", v
	case value.Bytes:
		return "bytes", hex.EncodeToString(v)
	case tensor.DType:
		return "dtype", v.String()
	case value.Device:
		return "device", v.String()
	case value.Slice:
		return "slice", plainJSON([]value.Value{v.Start, v.Stop, v.Step})
	case value.Ellipsis:
		return "ellipsis", nil
	case value.Layout:
		return "layout", string(v)
	case value.MemoryFormat:
		return "memory_format", string(v)
	}
	return "opaque", value.Str(v)
}

func plainJSON(items []value.Value) []any {
	out := make([]any, len(items))
	for i, v := range items {
		switch v.(type) {
		case *value.Sequence, *value.Dict, *tensor.Tensor, *value.Opaque:
			out[i] = value.Str(v)
		default:
			_, out[i] = scalarJSON(v)
		}
	}
	return out
}

// Sound compares the storages of the tensors in v with their checksums, those of at most
// pthformat.CheckedStorage bytes: larger ones take longer than to show what there is. The
// error is that of the first that cannot be read.
func Sound(v value.Value) error {
	var err error
	value.Walk(v, func(v value.Value) {
		if t, ok := v.(*tensor.Tensor); ok && err == nil {
			err = soundTensor(t)
		}
	})
	return err
}

func soundTensor(t *tensor.Tensor) error {
	s := t.Storage()
	if s == nil || s.Len() > pthformat.CheckedStorage {
		return nil
	}
	_, err := s.Load()
	return err
}

// Sound is Sound of all tensors of a file.
func (r *File) Sound() error {
	for i := range r.Items {
		if t := r.Items[i].Tensor; t != nil {
			if err := soundTensor(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// hashLimit bounds what is hashed of a tensor that is larger than its storage
// (an expanded view), in bytes.
const hashLimit = 256 << 20

// Hash adds to each tensor the SHA-256 of its elements, contiguous and little
// endian.
func (r *File) Hash() error {
	for i := range r.Items {
		t := r.Items[i].Tensor
		if t == nil {
			continue
		}
		if t.Summary() != nil {
			r.Items[i].Reason = tensor.ErrNotRecorded.Error()
			continue
		}
		if size := t.Bytes(); size > hashLimit && (t.Storage() == nil || size > t.Storage().Len()) {
			r.Items[i].Reason = fmt.Sprintf("not hashed: an expanded view of %s", reports.Bytes(size))
			continue
		}
		h := sha256.New()
		if err := eachBlock(t, func(b []byte) { h.Write(b) }); err != nil {
			return err
		}
		r.Items[i].SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	return nil
}

// eachBlock passes the elements of a stored tensor to f in row-major order, in
// blocks of about a mebibyte; a contiguous tensor is not copied.
func eachBlock(t *tensor.Tensor, f func([]byte)) error {
	const block = 1 << 20
	if t.Numel() == 0 {
		return nil
	}
	if s := t.Storage(); s != nil {
		raw, err := s.Load()
		if err != nil {
			return err
		}
		if t.IsContiguous() {
			size := t.DType.Size()
			f(raw[t.Offset*size : (t.Offset+t.Numel())*size])
			return nil
		}
	}
	if t.Bytes() <= block || t.Dim() == 0 {
		f(t.AppendBytes(nil))
		return nil
	}
	rows := max(1, int(block/(t.Bytes()/int64(t.Shape[0]))))
	for lo := 0; lo < t.Shape[0]; lo += rows {
		u := *t
		u.Offset = t.Offset + lo*t.Stride[0]
		if n := min(rows, t.Shape[0]-lo); n > 1 || t.Dim() == 1 {
			u.Shape = append([]int{n}, t.Shape[1:]...)
		} else {
			u.Shape, u.Stride = t.Shape[1:], t.Stride[1:]
		}
		if err := eachBlock(&u, f); err != nil {
			return err
		}
	}
	return nil
}

// FirstValues formats the first n elements of t, shortest in its dtype.
func FirstValues(t *tensor.Tensor, n int) ([]string, error) {
	if !t.DType.Computable() {
		return nil, errors.New("no values can be read from dtype " + t.DType.String())
	}
	if s := t.Summary(); s != nil {
		return summaryTexts(s), nil
	}
	if s := t.Storage(); s != nil {
		if _, err := s.Load(); err != nil {
			return nil, err
		}
	}
	n = min(n, t.Numel())
	out := tensor.Make[string](n)
	switch t.DType.Kind() {
	case tensor.KindFloat:
		texts(t, out, func(x float64) string { return elementText(t.DType, x) })
	case tensor.KindComplex:
		texts(t, out, func(x complex128) string { return value.Repr(x) })
	default:
		texts(t, out, func(x int64) string {
			switch t.DType {
			case tensor.Bool:
				return value.Repr(x != 0)
			case tensor.Uint64:
				return strconv.FormatUint(uint64(x), 10)
			}
			return strconv.FormatInt(x, 10)
		})
	}
	return out, nil
}

// texts stores the texts of the first elements in out, block by block: loading a block can be stopped.
func texts[T tensor.Elem](t *tensor.Tensor, out []string, text func(T) string) {
	block := make([]T, min(t.Block(), len(out)))
	for lo := 0; lo < len(out); lo += len(block) {
		part := block[:min(len(block), len(out)-lo)]
		tensor.Load(t, lo, part)
		for i, x := range part {
			out[lo+i] = text(x)
		}
	}
}

// summaryTexts are the statistics that stand for elements that were not recorded.
func summaryTexts(s *tensor.Summary) []string {
	out := []string{tensor.ErrNotRecorded.Error()}
	for _, x := range []struct {
		name string
		v    *float64
	}{{"max", s.Max}, {"min", s.Min}, {"mean", s.Mean}, {"norm", s.Norm}} {
		if x.v != nil {
			out = append(out, x.name+" "+value.FloatRepr(*x.v))
		}
	}
	if s.Checksum != "" {
		out = append(out, "checksum "+strconv.Quote(s.Checksum))
	}
	return out
}

// elementText is the shortest text that reads back as x in dtype dt, for the
// dtypes up to 32 bits in float32.
func elementText(dt tensor.DType, x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return value.FloatRepr(x)
	}
	return strconv.FormatFloat(x, 'g', -1, min(64, max(32, 8*dt.Size())))
}
