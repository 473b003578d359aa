package pthformat

import (
	"bytes"
	"compress/flate"
	"io"
	"strconv"
	"strings"

	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// npyMagic begins a .npy file.
//
// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
const npyMagic = "\x93NUMPY"

// npyHeader bounds the header in bytes. numpy refuses longer ones too (10,000).
const npyHeader = 64 << 10

var (
	npyFortran = lazyregexp.New(`'fortran_order':\s*(True|False)`)
	npyShape   = lazyregexp.New(`'shape':\s*\(([^()]*)\)\s*,?\s*}`)
	npyDescr   = lazyregexp.New(`'descr':\s*`)
	npyCode    = lazyregexp.New(`^([<>|=]?)([A-Za-z]\d*)(?:\[(\w+)\])?$`)
)

// A npyArray is what the header of a .npy file says.
type npyArray struct {
	*arrayType
	fortran bool
	dims    []int64
	start   int64 // of the elements
}

// parseNpy reads the header at the start of b, the first bytes of an array file.
func parseNpy(b []byte) (a npyArray, err error) {
	if len(b) < 10 || string(b[:6]) != npyMagic {
		return a, malformed("npy: not an array file")
	}
	length := 2
	switch major := b[6]; major {
	case 1:
	case 2, 3:
		length = 4
	default:
		return a, malformed("npy: version %d is not known", major)
	}
	a.start = int64(8 + length)
	if int64(len(b)) < a.start {
		return a, malformed("npy: the header is cut off")
	}
	n := int64(le.Uint16(b[8:]))
	if length == 4 {
		n = int64(le.Uint32(b[8:]))
	}
	if n > npyHeader {
		return a, malformed("npy: header of %d bytes exceeds the limit of %d", n, npyHeader)
	}
	if n > int64(len(b))-a.start {
		return a, malformed("npy: header of %d bytes exceeds the file", n)
	}
	text := b[a.start:][:n]
	a.start += n
	at, fortran, shape := npyDescr().FindIndex(text), npyFortran().FindSubmatch(text), npyShape().FindSubmatch(text)
	if fortran == nil || shape == nil {
		return a, malformed("npy: the header lacks fortran_order or shape")
	}
	if at == nil {
		return a, malformed("npy: the header has no descr")
	}
	d := descriptor{string(text[at[1]:])}
	if a.arrayType, err = d.dtype(0); err == nil {
		err = a.check()
	}
	if err != nil {
		return a, malformed("npy: %s", err)
	}
	a.fortran = string(fortran[1]) == "True"
	for part := range strings.SplitSeq(string(shape[1]), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		d, err := strconv.ParseInt(strings.TrimSuffix(part, "L"), 10, 64)
		if err != nil {
			return a, malformed("npy: dimension %q in the shape", part)
		}
		a.dims = append(a.dims, d)
	}
	return a, nil
}

// A descriptor is what is left to read of a descr: a text such as '<f4', or a list of fields
// (name, descr) or (name, descr, shape).
type descriptor struct{ text string }

func (d *descriptor) next(token string) bool {
	d.text = strings.TrimLeft(d.text, " \n")
	rest, ok := strings.CutPrefix(d.text, token)
	if ok {
		d.text = rest
	}
	return ok
}

// quoted reads a string without escapes.
func (d *descriptor) quoted() (string, error) {
	d.next("")
	if len(d.text) > 0 && (d.text[0] == '\'' || d.text[0] == '"') {
		if s, rest, ok := strings.Cut(d.text[1:], d.text[:1]); ok && !strings.Contains(s, `\`) {
			d.text = rest
			return s, nil
		}
	}
	return "", malformed("the descr has no text where one should be")
}

func (d *descriptor) dtype(depth int) (*arrayType, error) {
	if depth > 32 {
		return nil, malformed("the descr is nested too deep")
	}
	if !d.next("[") {
		text, err := d.quoted()
		if err != nil {
			return nil, err
		}
		m := npyCode().FindStringSubmatch(text)
		if m == nil {
			return nil, malformed("the descr %q is not known", text)
		}
		return &arrayType{order: m[1], code: m[2], unit: m[3]}, nil
	}
	t := &arrayType{code: "V", fields: []arrayField{}}
	for !d.next("]") {
		f, err := d.field(depth, t.bytes)
		if err != nil {
			return nil, err
		}
		t.bytes += f.of.size()
		if t.fields = append(t.fields, f); len(t.fields) > 1000 {
			return nil, malformed("the descr has too many fields")
		}
		d.next(",")
	}
	return t, nil
}

// field reads a field of a structured type: (name, type) or (name, type, shape).
func (d *descriptor) field(depth, offset int) (f arrayField, err error) {
	if !d.next("(") {
		return f, malformed("the descr is no list of fields")
	}
	f.offset = offset
	if f.name, err = d.fieldName(); err != nil {
		return f, err
	}
	if !d.next(",") {
		return f, malformed("the descr has a field without type")
	}
	if f.of, err = d.dtype(depth + 1); err != nil {
		return f, err
	}
	if d.next(",") && d.next("(") {
		sub := &arrayType{sub: f.of, code: f.of.code}
		if sub.shape, err = d.fieldShape(); err != nil {
			return f, err
		}
		f.of = sub
	}
	if size := f.of.size(); !d.next(")") || size < 0 || size > maxElement-offset {
		return f, malformed("the descr has a field %q that is not known", f.name)
	}
	return f, nil
}

// fieldName reads the name of a field, alone or in a pair behind its title.
func (d *descriptor) fieldName() (name string, err error) {
	if !d.next("(") {
		return d.quoted()
	}
	if _, err = d.quoted(); err == nil && d.next(",") {
		if name, err = d.quoted(); err == nil && d.next(")") {
			return name, nil
		}
	}
	return "", malformed("the descr is no list of fields")
}

// fieldShape reads the sizes of a field that is an array itself, up to the parenthesis that ends them.
func (d *descriptor) fieldShape() (shape []int, err error) {
	for !d.next(")") {
		d.next(",")
		d.next("")
		end := strings.IndexAny(d.text, ",)")
		if end <= 0 {
			return nil, malformed("the descr has a field of no shape")
		}
		n, err := strconv.Atoi(strings.TrimSpace(d.text[:end]))
		if err != nil || n < 0 || len(shape) == maxDim {
			return nil, malformed("the descr has a field of no shape")
		}
		shape, d.text = append(shape, n), d.text[end:]
		d.next(",")
	}
	return shape, nil
}

// value makes the array of a file of size bytes; load gives its bytes from at on.
func (a npyArray) value(size int64, load func(at, n int64) ([]byte, error)) (value.Value, error) {
	for _, d := range a.dims {
		if d < 0 {
			return nil, malformed("npy: negative dimension %d in shape %v", d, a.dims)
		}
	}
	shape, _, err := sized(a.dims, max(a.arrayType.size(), 1))
	if err != nil {
		return nil, malformed("npy: %s", err)
	}
	n := size - a.start
	v, err := a.arrayType.array(shape, a.fortran, n, func() ([]byte, error) { return load(a.start, n) })
	if err != nil {
		return nil, malformed("npy: %s", err)
	}
	return v, nil
}

// member is the value of an array of size bytes that begin with head. One that cannot be read
// is a value whose use gives the error, so that it does not lose those beside it.
func (f *File) member(head []byte, size int64, load func(at, n int64) ([]byte, error)) (value.Value, error) {
	a, err := parseNpy(head)
	if err != nil {
		return nil, err
	}
	if a.code != "O" || a.fields != nil || a.sub != nil {
		return a.value(size, load)
	}
	b, err := load(a.start, size-a.start) // the elements are pickled
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > f.lim.Pickle {
		return nil, malformed("%d bytes exceed the limit of %d for a pickle", len(b), f.lim.Pickle)
	}
	cyclic := f.Cyclic
	_, v, err := f.decode(b, &unpickler{})
	f.Cyclic = f.Cyclic || cyclic
	return v, err
}

// readNpy reads one array.
func (f *File) readNpy() error {
	f.Format, f.Expanded = "npy", 1
	b, err := f.src.view(0, min(f.Size, npyHeader+16))
	if err != nil {
		return err
	}
	v, err := f.member(b, f.Size, f.src.view)
	if err != nil {
		return err
	}
	f.setRoot(v)
	return nil
}

// setRoot is the value of a file that no pickle describes.
func (f *File) setRoot(v value.Value) {
	f.Root, f.Expanded = v, 0
	value.Walk(v, func(value.Value) { f.Expanded++ })
}

// isNpz reports whether a zip holds nothing but arrays.
func (a *archive) isNpz() bool {
	for i := range a.records {
		if !strings.HasSuffix(a.records[i].name, ".npy") {
			return false
		}
	}
	return len(a.records) > 0
}

// readNpz reads the arrays of a zip, as numpy.savez and savez_compressed write it.
func (f *File) readNpz(a *archive) error {
	f.Format = "npz"
	root := &value.Dict{}
	for i := range a.records {
		r := &a.records[i]
		inRecord := func(err error) error {
			if fe, ok := err.(*FormatError); ok {
				return fe.in(r.name)
			}
			return err
		}
		head, err := a.start(r, npyHeader+16)
		if err != nil {
			root.Items = append(root.Items, value.Item{Key: strings.TrimSuffix(r.name, ".npy"),
				Value: f.damaged(inRecord(err))})
			continue
		}
		v, err := f.member(head, r.size, func(at, n int64) ([]byte, error) {
			b, err := a.read(r, f.lim.Inflate)
			if err == nil && (f.verify || r.size <= CheckedStorage) && !r.intact(b) {
				err = malformed("checksum mismatch")
			}
			if err != nil {
				return nil, f.named(inRecord(err))
			}
			return b[at : at+n], nil
		})
		if err != nil {
			v = f.damaged(inRecord(err))
		}
		root.Items = append(root.Items, value.Item{Key: strings.TrimSuffix(r.name, ".npy"), Value: v})
	}
	f.setRoot(root)
	return nil
}

// damaged is a value that cannot be read: its use gives the error.
func (f *File) damaged(err error) value.Value {
	err = f.named(err)
	s := tensor.OpenStorage(1, func() ([]byte, error) { return nil, err })
	t, _ := tensor.NewView(s, tensor.View{DType: tensor.Uint8, Shape: []int{1}, Stride: []int{1}})
	return t
}

// start returns the first bytes of a record's content, at most n.
func (a *archive) start(r *record, n int64) ([]byte, error) {
	n = min(n, r.size)
	if r.method != methodDeflated || r.flags&1 != 0 {
		b, err := a.read(r, n)
		if err != nil {
			return nil, err
		}
		return b[:n], nil
	}
	b, err := a.raw(r)
	if err != nil {
		return nil, err
	}
	out := make([]byte, n)
	if _, err := io.ReadFull(flate.NewReader(bytes.NewReader(b)), out); err != nil {
		return nil, &FormatError{Offset: -1, Msg: "corrupt zip: cannot inflate", Err: err}
	}
	return out, nil
}
