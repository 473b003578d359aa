package pthformat

import (
	"errors"
	"io/fs"
	"math/big"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// The numbers a legacy file begins with.
//
// Source: torch/serialization.py, MAGIC_NUMBER and PROTOCOL_VERSION.
var legacyMagic, _ = new(big.Int).SetString("1950a86a20f9469cfc6c", 16)

const (
	legacyProtocol = 1001
	// magicWindow is more than the first two pickles take in any protocol.
	magicWindow = 64
	// pickleWindow is what is looked at first for a pickle of unknown length.
	pickleWindow = 16 << 10
)

// legacyReader goes through the pickles of a legacy file.
type legacyReader struct {
	f  *File
	at int64
}

// next decodes the pickle at r.at. Its length is not written anywhere, so the
// part of the file that is looked at grows until the pickle ends in it, up to
// limit bytes.
func (r *legacyReader) next(part string, limit int64, u *unpickler) (*program, value.Value, error) {
	left := min(r.f.Size-r.at, limit)
	for window := int64(pickleWindow); ; window *= 4 {
		window = min(window, left)
		b, err := r.f.src.view(r.at, window)
		if err != nil {
			return nil, nil, &FormatError{Record: part, Offset: 0, Msg: "cannot read", Err: err}
		}
		if window < left {
			if _, werr := walk(b, r.f.lim); werr != nil && werr.short {
				continue
			}
		}
		p, v, err := r.f.decode(b, u)
		if err != nil {
			var fe *FormatError
			if errors.As(err, &fe) && fe.Record == "" {
				fe.Record = part
				if fe.short && !strings.HasPrefix(fe.Msg, "truncated") {
					fe.Msg = "truncated pickle: " + fe.Msg
				}
			}
			return nil, nil, err
		}
		r.at += int64(p.length)
		return p, v, nil
	}
}

// readLegacy reads five pickles (magic number, protocol, system, object, keys)
// and the position of each storage behind them.
func (f *File) readLegacy() error {
	f.Format = "legacy"
	r := &legacyReader{f: f}
	if _, v, err := r.next("magic number", magicWindow, &unpickler{}); err != nil {
		return &FormatError{Offset: 0, Msg: "not a torch file: wrong magic number"}
	} else if n, ok := v.(*big.Int); !ok || n.Cmp(legacyMagic) != 0 {
		return &FormatError{Offset: 0, Msg: "not a torch file: wrong magic number"}
	}
	_, v, err := r.next("protocol version", magicWindow, &unpickler{})
	if err != nil {
		return err
	}
	if n, ok := v.(int64); !ok || n != legacyProtocol {
		return malformed("unsupported protocol version %v", v).in("protocol version")
	}
	if _, _, err = r.next("system", f.lim.Pickle, &unpickler{}); err != nil {
		return err
	}

	table := storageTable{}
	table.open = func(id storageID) (*storage, error) {
		s := &storage{class: id.class.name, dtype: id.class.dtype, count: id.count}
		if s.bytes() > f.Size {
			return nil, malformed("storage %s of %d bytes does not fit in a file of %d", id.key, s.bytes(), f.Size)
		}
		s.data = tensor.OpenStorage(s.bytes(), func() ([]byte, error) {
			if f.src == nil {
				return nil, fs.ErrClosed
			}
			b, err := f.src.view(s.at, s.bytes())
			if err != nil {
				return nil, f.named(&FormatError{Record: "storage " + s.data.Key, Offset: -1, Msg: "cannot read",
					Err: err})
			}
			return b, nil
		})
		s.data.Key, s.data.Location = id.key, id.location
		return s, nil
	}
	p, root, err := r.next("object", f.lim.Pickle, &unpickler{persistent: table.resolve})
	if err != nil {
		return err
	}
	f.Root, f.Protocol, f.Globals = root, p.protocol, p.globals
	expanded, cyclic := f.Expanded, f.Cyclic
	_, keys, err := r.next("keys", f.lim.Pickle, &unpickler{})
	if err != nil {
		return err
	}
	f.Expanded, f.Cyclic = expanded, cyclic
	return r.place(&table, keys)
}

// place gives every storage its position: in the order of the keys, an 8-byte
// count of elements and the elements.
func (r *legacyReader) place(table *storageTable, keys value.Value) error {
	list, ok := keys.(*value.Sequence)
	if !ok || list.Kind != value.List {
		return malformed("the keys are a %T, want a list", keys).in("keys")
	}
	placed := map[string]bool{}
	for _, k := range list.Items {
		key, _ := k.(string)
		s, ok := table.byKey[key]
		if !ok || placed[key] {
			return malformed("key %v names no storage, or one that was named before", k).in("keys")
		}
		placed[key] = true
		name := "storage " + key
		head, err := r.f.src.view(r.at, 8)
		if err != nil {
			return malformed("truncated: 8 bytes of its count needed, %d remain", r.f.Size-r.at).in(name)
		}
		if n := le.Uint64(head); n != uint64(s.count) {
			return malformed("count of %d elements at offset %d, %d declared", n, r.at, s.count).in(name)
		}
		r.at += 8
		if left := r.f.Size - r.at; left < s.bytes() {
			return malformed("truncated: storage needs %d bytes, %d remain", s.bytes(), left).in(name)
		}
		s.at = r.at
		r.at += s.bytes()
	}
	for _, key := range table.order {
		if !placed[key] {
			return malformed("storage %s is not among the keys", key).in("keys")
		}
	}
	if extra := r.f.Size - r.at; extra > 0 {
		r.f.warn("%d bytes follow the last storage", extra)
	}
	return nil
}
