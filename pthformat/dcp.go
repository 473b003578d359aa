package pthformat

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// MetadataName is the file of a distributed checkpoint that says which shard is where.
const MetadataName = ".metadata"

// ShardExt is the extension of the files that hold the shards.
const ShardExt = ".distcp"

func asFormat(err error, fe **FormatError) bool { return errors.As(err, fe) }

// isMetadata reports whether the file is the metadata of a distributed checkpoint: by name, as
// its content is a pickle like others.
func (f *File) isMetadata() bool { return filepath.Base(f.Path) == MetadataName }

// section is a part of another source, which stays open.
type section struct {
	of    source
	at, n int64
}

func (s section) size() int64 { return s.n }

func (s section) view(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > s.n || n > s.n-off {
		return nil, io.ErrUnexpectedEOF
	}
	return s.of.view(s.at+off, n)
}

func (s section) close() error { return nil }

// several is a source with others that are closed with it.
type several struct {
	source
	others map[string]source
}

func (s *several) close() error {
	errs := []error{s.source.close()}
	for _, o := range s.others {
		errs = append(errs, o.close())
	}
	return errors.Join(errs...)
}

// shards reads the files beside the metadata.
type shards struct {
	f     *File
	dir   string
	files *several
}

// readMetadata reads a distributed checkpoint: each tensor is put together from the shards that
// the metadata names. A value with a shard that is missing, or that others overlap, is damaged;
// those beside it are read.
//
// Source: torch/distributed/checkpoint/{metadata,filesystem}.py (2.15).
func (f *File) readMetadata() error {
	f.Format = "distributed checkpoint"
	if f.Size > f.lim.Pickle {
		return malformed("%d bytes exceed the limit of %d for a pickle", f.Size, f.lim.Pickle)
	}
	b, err := f.src.view(0, f.Size)
	if err != nil {
		return err
	}
	p, v, err := f.decode(b, &unpickler{})
	if err != nil {
		return err
	}
	f.Protocol, f.Globals = p.protocol, p.globals
	meta, ok := v.(*value.Opaque)
	if !ok || !strings.HasPrefix(meta.Global, "torch.distributed") || !strings.HasSuffix(meta.Global, ".Metadata") {
		return malformed("no metadata of a distributed checkpoint: %s", value.Str(v))
	}
	entries, ok1 := part(meta, "state_dict_metadata").(*value.Dict)
	stored, ok2 := part(meta, "storage_data").(*value.Dict)
	if !ok1 || !ok2 {
		return malformed("the metadata lacks state_dict_metadata or storage_data")
	}
	places := map[string]*value.Opaque{}
	for _, it := range stored.Items {
		info, ok := it.Value.(*value.Opaque)
		name, isText := part(it.Key, "fqn").(string)
		if !ok || !isText {
			return malformed("storage_data holds %s", value.Str(it.Value))
		}
		places[placeOf(name, part(it.Key, "offset"))] = info
	}
	s := &shards{f: f, dir: strings.TrimSuffix(f.Path, MetadataName), files: &several{f.src, map[string]source{}}}
	f.src = s.files
	root := &value.Dict{}
	for _, it := range entries.Items {
		name, ok := it.Key.(string)
		if !ok {
			return malformed("a name is %s", value.Str(it.Key))
		}
		v, err := s.value(name, it.Value, places)
		if err != nil {
			var fe *FormatError
			if errors.As(err, &fe) {
				fe.Record = strings.TrimSuffix(fmt.Sprintf("%q: %s", name, fe.Record), ": ")
			}
			v = f.damaged(err)
		}
		root.Items = append(root.Items, value.Item{Key: name, Value: v})
	}
	f.setRoot(root)
	return nil
}

// part is a part of an object, nil if it has none of the name.
func part(v value.Value, name string) value.Value {
	for _, p := range value.Parts(v) {
		if p.Name == name {
			return p.Value
		}
	}
	return nil
}

// placeOf tells the shards of one name apart by their offsets.
func placeOf(name string, offsets value.Value) string {
	return fmt.Sprintf("%q %s", name, value.Repr(offsets))
}

// ints are the numbers of a torch.Size.
func intsOf(v value.Value) ([]int, bool) {
	s, ok := v.(*value.Sequence)
	if !ok || len(s.Items) > maxDim {
		return nil, false
	}
	out := make([]int, len(s.Items))
	for i, it := range s.Items {
		n, ok := it.(int64)
		if !ok || n < 0 {
			return nil, false
		}
		out[i] = int(n)
	}
	return out, true
}

// A chunk is a shard of a tensor.
type chunk struct {
	offsets, sizes []int
	t              *tensor.Tensor
}

// value reads one name of the checkpoint.
func (s *shards) value(name string, meta value.Value, places map[string]*value.Opaque) (value.Value, error) {
	size := part(meta, "size")
	if size == nil { // not a tensor
		return s.read(places[placeOf(name, nil)], name)
	}
	shape, ok := intsOf(size)
	list, isList := part(meta, "chunks").(*value.Sequence)
	if !ok || !isList {
		return nil, malformed("the metadata of a tensor lacks size or chunks")
	}
	var chunks []chunk
	numel := 0
	for _, it := range list.Items {
		c := chunk{}
		var ok1, ok2 bool
		c.offsets, ok1 = intsOf(part(it, "offsets"))
		c.sizes, ok2 = intsOf(part(it, "sizes"))
		if !ok1 || !ok2 || len(c.offsets) != len(shape) || len(c.sizes) != len(shape) {
			return nil, malformed("a shard of %s has no place in it", tensor.ShapeString(shape))
		}
		for d := range shape {
			if c.sizes[d] > shape[d] || c.offsets[d] > shape[d]-c.sizes[d] {
				return nil, malformed("the shard of %s at %v reaches past %s", tensor.ShapeString(c.sizes), c.offsets,
					tensor.ShapeString(shape))
			}
		}
		v, err := s.read(places[placeOf(name, part(it, "offsets"))], name)
		if err != nil {
			return nil, within(err, "shard at %v", c.offsets)
		}
		c.t, ok = v.(*tensor.Tensor)
		if !ok {
			return v, nil // an object, shown as it is
		}
		if !slices.Equal(c.t.Shape, c.sizes) || c.t.DType != cmp.Or(firstType(chunks), c.t.DType) {
			return nil, malformed("the shard at %v is %s, the metadata say %s", c.offsets, c.t.Meta(),
				tensor.ShapeString(c.sizes))
		}
		chunks = append(chunks, c)
		numel += c.t.Numel()
	}
	if len(chunks) == 0 {
		return nil, malformed("a tensor of no shards")
	}
	return whole(shape, chunks, numel)
}

func firstType(chunks []chunk) tensor.DType {
	if len(chunks) == 0 {
		return tensor.Invalid
	}
	return chunks[0].t.DType
}

// whole puts a tensor together when it is first used.
func whole(shape []int, chunks []chunk, numel int) (value.Value, error) {
	wide := make([]int64, len(shape))
	for i, n := range shape {
		wide[i] = int64(n)
	}
	dt := chunks[0].t.DType
	_, size, err := sized(wide, dt.Size())
	if err != nil {
		return nil, err
	}
	for i, c := range chunks {
		for _, other := range chunks[:min(i, 1<<12)] {
			if overlap(c, other) {
				return nil, malformed("the shards at %v and %v overlap", other.offsets, c.offsets)
			}
		}
	}
	if all := int(size) / dt.Size(); numel != all {
		return nil, malformed("the shards hold %d of the %d elements of %s", numel, all, tensor.ShapeString(shape))
	}
	if len(chunks) == 1 {
		return chunks[0].t, nil
	}
	st := tensor.OpenStorage(size, func() ([]byte, error) {
		out := make([]byte, size)
		for _, c := range chunks {
			if s := c.t.Storage(); s != nil {
				if _, err := s.Load(); err != nil {
					return nil, err
				}
			}
			place(out, shape, c, dt.Size())
		}
		return out, nil
	})
	t, err := tensor.NewView(st, tensor.View{DType: dt, Shape: shape, Stride: tensor.Contiguous(shape)})
	if err != nil {
		return nil, err
	}
	t.Device = chunks[0].t.Device
	return t, nil
}

// overlap reports whether two shards have an element in common.
func overlap(a, b chunk) bool {
	for d := range a.sizes {
		if a.offsets[d] >= b.offsets[d]+b.sizes[d] || b.offsets[d] >= a.offsets[d]+a.sizes[d] {
			return false
		}
	}
	return true
}

// place copies a shard, row by row, to where it belongs in the elements of the whole.
func place(out []byte, shape []int, c chunk, size int) {
	from := c.t.AppendBytes(nil)
	if len(from) == 0 {
		return
	}
	if len(shape) == 0 {
		copy(out, from)
		return
	}
	last := len(shape) - 1
	row, stride := c.sizes[last]*size, tensor.Contiguous(shape)
	for i := 0; i*row < len(from); i++ {
		at := c.offsets[last]
		for d, rest := last-1, i; d >= 0; d-- {
			at += (c.offsets[d] + rest%c.sizes[d]) * stride[d]
			rest /= c.sizes[d]
		}
		copy(out[at*size:], from[i*row:(i+1)*row])
	}
}

// read reads one value: a file of torch.save that is a part of a file beside the metadata.
func (s *shards) read(info *value.Opaque, name string) (value.Value, error) {
	if info == nil {
		return nil, malformed("no file holds it")
	}
	file, ok1 := part(info, "relative_path").(string)
	offset, ok2 := part(info, "offset").(int64)
	length, ok3 := part(info, "length").(int64)
	if !ok1 || !ok2 || !ok3 || !filepath.IsLocal(file) {
		return nil, malformed("no place in a file: %s", value.Str(info))
	}
	if by, ok := part(info, "transform_descriptors").(*value.Sequence); ok && len(by.Items) > 0 {
		return &value.Opaque{Global: name, Reason: "stored through " + value.Repr(by) + ", which is not read"}, nil
	}
	src, ok := s.files.others[file]
	if !ok {
		var err error
		if src, err = openSource(s.dir+file, s.f.mode); err != nil {
			return nil, malformed("shard file %s: %s", file, reasonOf(err))
		}
		s.files.others[file] = src
	}
	if offset < 0 || length < 0 || offset > src.size() || length > src.size()-offset {
		return nil, malformed("%s has %d bytes, the value is at %d to %d", file, src.size(), offset, offset+length)
	}
	return s.f.inner(fmt.Sprintf("%s at %d", file, offset), section{src, offset, length})
}

// reasonOf is an error without the path in it.
func reasonOf(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}
