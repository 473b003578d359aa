package pthformat

import (
	"fmt"
	"math"

	"github.com/nlpodyssey/gopickle/types"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A storage is what a persistent id stands for.
type storage struct {
	class string // torch.FloatStorage
	dtype tensor.DType
	count int64 // elements; bytes if untyped
	data  *tensor.Storage
	swap  bool  // the file is big-endian: bytes must be swapped by element
	at    int64 // offset in a legacy file
}

// bytes is the declared size.
func (s *storage) bytes() int64 {
	if s.dtype == untyped {
		return s.count
	}
	return s.count * int64(s.dtype.Size())
}

// opaque shows a storage that stands by itself: its class and its elements.
func (s *storage) opaque() value.Value {
	dt := s.dtype
	if dt == untyped {
		dt = tensor.Uint8
	}
	op := &value.Opaque{Global: s.class, Reason: "storage", Whole: true}
	if t, err := tensor.NewView(s.data, tensor.View{DType: dt, Shape: []int{int(s.count)},
		Stride: []int{1}}); err == nil {
		t.Device = s.data.Location
		op.Parts = []value.Part{{Name: "(0)", Value: t}}
	}
	return op
}

// A storageID is a persistent id: ('storage', class, key, location, elements)
// and, in legacy files, None or (view key, offset, elements).
type storageID struct {
	class          storageClass
	key, location  string
	count          int64
	view           string // "" if none
	viewAt, viewed int64
}

func parseID(id any) (r storageID, err error) {
	bad := malformed("unexpected persistent id")
	t, ok := id.(*types.Tuple)
	if !ok || len(*t) < 5 || len(*t) > 6 {
		return r, bad
	}
	a := *t
	if kind, ok := a[0].(string); !ok || kind != "storage" {
		return r, bad
	}
	var ok1, ok2, ok3 bool
	r.class, ok1 = a[1].(storageClass)
	r.location, ok2 = a[3].(string)
	count, ok3 := a[4].(int)
	switch key := a[2].(type) {
	case string:
		r.key = key
	case int:
		r.key = fmt.Sprint(key)
	default:
		return r, bad
	}
	if !ok1 || !ok2 || !ok3 {
		return r, bad
	}
	r.count = int64(count)
	if r.count < 0 {
		return r, malformed("storage %s: negative storage size %d", r.key, r.count)
	}
	if size := max(r.class.dtype.Size(), 1); r.count > math.MaxInt64/int64(size) {
		return r, malformed("storage %s: storage size of %d elements overflows", r.key, r.count)
	}
	if len(a) == 6 && a[5] != nil {
		err = r.setView(a[5], bad)
	}
	return r, err
}

// setView reads the part of a storage that an id is about: (key, offset, elements).
func (r *storageID) setView(view any, bad error) error {
	v, ok := view.(*types.Tuple)
	if !ok || len(*v) != 3 {
		return bad
	}
	key, ok1 := (*v)[0].(string)
	at, ok2 := (*v)[1].(int)
	n, ok3 := (*v)[2].(int)
	if !ok1 || !ok2 || !ok3 || key == "" {
		return bad
	}
	r.view, r.viewAt, r.viewed = key, int64(at), int64(n)
	if r.viewAt < 0 || r.viewed < 0 || r.viewAt > r.count || r.viewed > r.count-r.viewAt {
		return malformed("storage %s: view of %d elements at %d lies outside its %d", r.key, n, at, r.count)
	}
	return nil
}

// A storageTable keeps the storages of a file, so that tensors share them.
type storageTable struct {
	byKey map[string]*storage
	order []string
	views map[[2]string]*storage
	// open makes the storage of an id seen for the first time.
	open func(id storageID) (*storage, error)
}

// resolve answers a persistent id. In legacy files ('module', class, file, source) is a class
// of modules.
func (st *storageTable) resolve(raw any) (any, error) {
	if t, ok := raw.(*types.Tuple); ok && len(*t) == 4 && (*t)[0] == "module" {
		if c, ok := (*t)[1].(*class); ok {
			return c, nil
		}
	}
	id, err := parseID(raw)
	if err != nil {
		return nil, err
	}
	s, ok := st.byKey[id.key]
	switch {
	case ok && (s.dtype != id.class.dtype || s.count != id.count):
		return nil, malformed("storage %s declared with two types or sizes: %s of %d and %s of %d elements", id.key,
			s.class, s.count, id.class.name, id.count)
	case !ok:
		if s, err = st.open(id); err != nil {
			return nil, err
		}
		if st.byKey == nil {
			st.byKey = map[string]*storage{}
		}
		st.byKey[id.key] = s
		st.order = append(st.order, id.key)
	}
	if id.view == "" {
		return s, nil
	}
	key := [2]string{id.key, id.view}
	v, ok := st.views[key]
	if !ok {
		if st.views == nil {
			st.views = map[[2]string]*storage{}
		}
		v = s.part(id.viewAt, id.viewed)
		st.views[key] = v
	}
	return v, nil
}

// part is the storage of count elements of s from element at on.
func (s *storage) part(at, count int64) *storage {
	v := *s
	v.count = count
	size := int64(max(s.dtype.Size(), 1))
	whole := s.data
	v.data = tensor.OpenStorage(count*size, func() ([]byte, error) {
		b, err := whole.Load()
		if err != nil {
			return nil, err
		}
		return b[at*size : (at+count)*size], nil
	})
	v.data.Key, v.data.Location = whole.Key, whole.Location
	return &v
}
