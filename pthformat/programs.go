package pthformat

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// program adds to the root of a TorchScript archive what lies beside its data.pkl: constants,
// and the digests of other records, such as code. It does nothing for files of torch.save.
func (f *File) program(a *archive, root string, bigEndian bool, sound soundness) error {
	r, ok := a.lookup(root + "/constants.pkl")
	module, object := f.Root.(*value.Opaque)
	if !ok || !object {
		return nil
	}
	b, err := a.read(r, f.lim.Pickle)
	if err != nil {
		return err
	}
	expanded, cyclic := f.Expanded, f.Cyclic
	table := f.table(a, root, "constants", bigEndian, sound)
	_, constants, err := f.decode(b, &unpickler{persistent: table.resolve})
	if err != nil {
		return err
	}
	f.Expanded, f.Cyclic = f.Expanded+expanded, f.Cyclic || cyclic
	value.Walk(module, func(v value.Value) {
		if o, ok := v.(*value.Opaque); ok {
			o.Global = mangled().ReplaceAllString(o.Global, "")
		}
	})
	module.Parts = append(module.Parts, value.Part{Name: "(constants)", Value: constants})
	for i := range a.records {
		r := &a.records[i]
		name := strings.TrimPrefix(r.name, root+"/")
		if folder, _, _ := strings.Cut(name, "/"); folder == "data" || folder == "constants" || unnamed(name) {
			continue
		}
		module.Parts = append(module.Parts, value.Part{Name: "(" + mangled().ReplaceAllString(name, "") + ")",
			Value: f.digest(a, r, plainCode)})
		f.Expanded++
	}
	return nil
}

// mangled is the number that tells classes of one name apart. It counts what the process had
// compiled before.
var mangled = lazyregexp.New(`___torch_mangle_\d+\.?`)

// plainCode is TorchScript without what depends on the process: numbers of classes, and the
// order of constants.
func plainCode(b []byte) []byte {
	var code, constants []string
	for line := range strings.Lines(mangled().ReplaceAllString(string(b), "")) {
		if strings.Contains(line, " : Final[") {
			constants = append(constants, line)
		} else {
			code = append(code, line)
		}
	}
	slices.Sort(constants)
	return []byte(strings.Join(append(code, constants...), ""))
}

// unnamed reports whether a record of an archive says nothing of what is saved.
func unnamed(name string) bool {
	return slices.Contains([]string{"data.pkl", "constants.pkl", "version", "byteorder", "archive_format",
		"archive_version"}, name) || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".debug_pkl") ||
		strings.HasSuffix(name, "/") || name == "extra/module_info.json"
}

// digest stands for a record that is compared as a whole.
func (f *File) digest(a *archive, r *record, plain func([]byte) []byte) value.Value {
	b, err := a.read(r, f.lim.Inflate)
	if err == nil && !r.intact(b) && r.crc != 0 {
		err = malformed("checksum mismatch").in(r.name)
	}
	if err != nil {
		return f.damaged(err)
	}
	sum := sha256.Sum256(plain(b))
	return "sha256 " + hex.EncodeToString(sum[:])
}

// isExport returns the root folder of an archive of torch.export.save, with its slash; ok is
// false for other archives.
func (a *archive) isExport() (root string, ok bool) {
	for i := range a.records {
		switch dir, name := path.Split(a.records[i].name); name {
		case "archive_format", "serialized_exported_program.json": // since torch 2.6; before
			return dir, true
		}
	}
	return "", false
}

// exportTypes are the dtypes of an archive of torch.export.
//
// Source: torch/_export/serde/schema.py, enum ScalarType (2.15).
var exportTypes = map[int]tensor.DType{1: tensor.Uint8, 2: tensor.Int8, 3: tensor.Int16, 4: tensor.Int32,
	5: tensor.Int64, 6: tensor.Float16, 7: tensor.Float32, 8: tensor.Float64, 9: tensor.Complex32, 10: tensor.Complex64,
	11: tensor.Complex128, 12: tensor.Bool, 13: tensor.BFloat16, 28: tensor.Uint16, 29: tensor.Float8E4M3FN,
	30: tensor.Float8E5M2, 31: tensor.Float8E4M3FNUZ, 32: tensor.Float8E5M2FNUZ, 33: tensor.Float8E8M0FNU,
	34: tensor.Uint32, 35: tensor.Uint64}

// readExport reads an archive of torch.export.save: weights by name, constants, sample inputs
// and the digest of the program.
func (f *File) readExport(a *archive, root string) error {
	f.Format = "pt2"
	out := &value.Dict{}
	add := func(name string, v value.Value) { out.Items = append(out.Items, value.Item{Key: name, Value: v}) }
	read := map[string]bool{}
	for i := range a.records { // the lists of tensors say which records they read
		r := &a.records[i]
		name := strings.TrimPrefix(r.name, root)
		kind, list := strings.CutSuffix(name, "_config.json")
		if !list || !strings.HasPrefix(name, "data/") {
			continue
		}
		read[name] = true
		entries, err := f.exportList(a, r)
		if err != nil {
			add(name, f.damaged(err))
			continue
		}
		prefix := ""
		if strings.HasPrefix(kind, "data/constants/") {
			prefix = "constants."
		}
		for _, e := range entries {
			at := path.Join(path.Dir(name), e.Path)
			read[at] = true
			v, err := f.exportTensor(a, root+at, e)
			if err != nil {
				v = f.damaged(err)
			}
			add(prefix+e.name, v)
		}
	}
	for i := range a.records {
		r := &a.records[i]
		name := strings.TrimPrefix(r.name, root)
		if read[name] || unnamed(name) {
			continue
		}
		switch path.Ext(name) {
		case ".pt":
			v, err := f.nested(a, r)
			if err != nil {
				v = f.damaged(err)
			}
			switch name {
			case "serialized_state_dict.pt":
				if d, ok := v.(*value.Dict); ok { // weights
					out.Items = append(out.Items, d.Items...)
					continue
				}
			case "serialized_constants.pt":
				name = "constants"
			}
			add(strings.TrimSuffix(strings.TrimPrefix(name, "data/"), ".pt"), v)
		case ".json":
			add(name, f.digest(a, r, withoutMetadata))
		default:
			add(name, f.digest(a, r, func(b []byte) []byte { return b }))
		}
	}
	f.setRoot(out)
	return nil
}

// withoutMetadata is JSON without what its nodes say of the source they came from.
func withoutMetadata(b []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var tree any
	if d.Decode(&tree) != nil {
		return b
	}
	var clean func(any)
	clean = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "metadata")
			delete(v, "stack_trace")
			for _, it := range v {
				clean(it)
			}
		case []any:
			for _, it := range v {
				clean(it)
			}
		}
	}
	clean(tree)
	out, err := json.Marshal(tree)
	if err != nil {
		return b
	}
	return out
}

// An exported is an entry of a list of tensors.
type exported struct {
	name    string
	Path    string `json:"path_name"`
	Pickled bool   `json:"use_pickle"`
	Param   bool   `json:"is_param"`
	Meta    *struct {
		DType   int           `json:"dtype"`
		Sizes   []exportedInt `json:"sizes"`
		Strides []exportedInt `json:"strides"`
		Offset  exportedInt   `json:"storage_offset"`
		Grad    bool          `json:"requires_grad"`
	} `json:"tensor_meta"`
}

type exportedInt struct {
	Int *int `json:"as_int"`
}

func exportedInts(in []exportedInt) ([]int, error) {
	out := make([]int, len(in))
	for i, n := range in {
		if n.Int == nil {
			return nil, malformed("a size is no number")
		}
		out[i] = *n.Int
	}
	return out, nil
}

// exportList reads a list of tensors, in its order.
func (f *File) exportList(a *archive, r *record) ([]exported, error) {
	b, err := a.read(r, f.lim.Pickle)
	if err != nil {
		return nil, err
	}
	bad := func(err error) error { return malformed("JSON: %s", jsonError(err)).in(r.name) }
	var list struct {
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, bad(err)
	}
	d := json.NewDecoder(bytes.NewReader(list.Config))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, malformed("JSON: config is no object").in(r.name)
	}
	var out []exported
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, bad(err)
		}
		e := exported{}
		if err := d.Decode(&e); err != nil {
			return nil, bad(err)
		}
		e.name, _ = t.(string)
		if out = append(out, e); len(out) > f.lim.Records {
			return nil, malformed("more than %d tensors", f.lim.Records).in(r.name)
		}
	}
	return out, nil
}

// exportTensor reads an entry of a list from its record.
func (f *File) exportTensor(a *archive, name string, e exported) (value.Value, error) {
	r, ok := a.lookup(name)
	if !ok {
		return nil, malformed("missing record %s of %q", name, e.name)
	}
	if e.Pickled {
		return f.nested(a, r)
	}
	if e.Meta == nil {
		return f.digest(a, r, func(b []byte) []byte { return b }), nil
	}
	dt, ok := exportTypes[e.Meta.DType]
	if !ok {
		return nil, malformed("tensor %q has dtype %d, which is not known", e.name, e.Meta.DType)
	}
	shape, err := exportedInts(e.Meta.Sizes)
	if err != nil {
		return nil, err
	}
	stride, err := exportedInts(e.Meta.Strides)
	if err != nil {
		return nil, err
	}
	offset, err := exportedInts([]exportedInt{e.Meta.Offset})
	if err != nil {
		return nil, err
	}
	s := tensor.OpenStorage(r.size, func() ([]byte, error) {
		if f.src == nil {
			return nil, fs.ErrClosed
		}
		b, err := a.read(r, f.lim.Inflate)
		if err == nil && (f.verify || r.size <= CheckedStorage) && !r.intact(b) && r.crc != 0 {
			err = malformed("checksum mismatch").in(r.name)
		}
		if err != nil {
			return nil, f.named(err)
		}
		return b, nil
	})
	s.Key, s.Location = name, "cpu"
	t, err := tensor.NewView(s, tensor.View{DType: dt, Shape: shape, Stride: stride, Offset: offset[0]})
	if err != nil {
		return nil, &FormatError{Offset: -1, Record: name, Err: err}
	}
	t.Device, t.Parameter, t.RequiresGrad = "cpu", e.Param, e.Meta.Grad
	return t, nil
}

// nested reads a file of torch.save that is a record of another file.
func (f *File) nested(a *archive, r *record) (value.Value, error) {
	b, err := a.read(r, f.lim.Inflate)
	if err != nil {
		return nil, err
	}
	return f.inner(r.name, memory(b))
}

// inner reads a file of torch.save that is a part of this one.
func (f *File) inner(name string, src source) (value.Value, error) {
	g, err := read(name, src, f.lim)
	if err != nil {
		var fe *FormatError
		if asFormat(err, &fe) {
			fe.File, fe.Record = "", strings.TrimSuffix(name+": "+fe.Record, ": ")
		}
		return nil, err
	}
	g.verify = f.verify
	f.Cyclic = f.Cyclic || g.Cyclic
	f.parts = append(f.parts, g)
	return g.Root, nil
}
