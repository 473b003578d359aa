package pthformat

import (
	"bytes"
	"compress/flate"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// npyMagic begins a .npy file.
//
// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
const npyMagic = "\x93NUMPY"

// npyHeader bounds the header in bytes. numpy refuses longer ones too (10,000).
const npyHeader = 64 << 10

var (
	npyDescr   = regexp.MustCompile(`'descr':\s*'([<>|=]?)([A-Za-z]\d*)'`)
	npyFortran = regexp.MustCompile(`'fortran_order':\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape':\s*\(([^()]*)\)`)
)

// A npyArray is what the header of a .npy file says.
type npyArray struct {
	arrayType
	fortran bool
	shape   []int64
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
	descr, fortran, shape := npyDescr.FindSubmatch(text), npyFortran.FindSubmatch(text), npyShape.FindSubmatch(text)
	if fortran == nil || shape == nil {
		return a, malformed("npy: the header lacks fortran_order or shape")
	}
	if descr == nil {
		return a, malformed("npy: the header has no plain descr, such as '<f4'")
	}
	a.order, a.code, a.fortran = string(descr[1]), string(descr[2]), string(fortran[1]) == "True"
	for part := range strings.SplitSeq(string(shape[1]), ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		d, err := strconv.ParseInt(strings.TrimSuffix(part, "L"), 10, 64)
		if err != nil {
			return a, malformed("npy: dimension %q in the shape", part)
		}
		a.shape = append(a.shape, d)
	}
	return a, nil
}

// value makes the tensor of a file of size bytes; load gives its bytes from at on.
func (a npyArray) value(size int64, load func(at, n int64) ([]byte, error)) (value.Value, error) {
	dt, ok := arrayTypes[a.code]
	if !ok {
		return &value.Opaque{Global: "numpy.ndarray", Reason: "elements of numpy type " + a.order + a.code}, nil
	}
	shape, n, err := sized(a.shape, dt)
	if err != nil {
		return nil, malformed("npy: %s", err)
	}
	if have := size - a.start; have != n {
		return nil, malformed("npy: %s%s has %d bytes, the file holds %d", dt, tensor.ShapeString(shape), n, have)
	}
	s := tensor.OpenStorage(n, func() ([]byte, error) {
		b, err := load(a.start, n)
		if err != nil {
			return nil, err
		}
		return a.decode(b), nil
	})
	stride := tensor.Contiguous(shape)
	if a.fortran {
		step := 1
		for i, d := range shape {
			stride[i] = step
			step *= max(d, 1)
		}
	}
	t, err := tensor.NewView(s, tensor.View{DType: dt, Shape: shape, Stride: stride})
	if err != nil {
		return nil, malformed("npy: %s", err)
	}
	t.Device = "numpy"
	return t, nil
}

// readNpy reads one array.
func (f *File) readNpy() error {
	f.Format, f.Expanded = "npy", 1
	b, err := f.src.view(0, min(f.Size, npyHeader+16))
	if err != nil {
		return err
	}
	a, err := parseNpy(b)
	if err != nil {
		return err
	}
	f.Root, err = a.value(f.Size, func(at, n int64) ([]byte, error) { return f.src.view(at, n) })
	return err
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
			return inRecord(err)
		}
		array, err := parseNpy(head)
		if err != nil {
			return inRecord(err)
		}
		v, err := array.value(r.size, func(at, n int64) ([]byte, error) {
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
			return inRecord(err)
		}
		root.Items = append(root.Items, value.Item{Key: strings.TrimSuffix(r.name, ".npy"), Value: v})
	}
	f.Root, f.Expanded = root, 2*len(root.Items)+1
	return nil
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
