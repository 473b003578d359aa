package value

import (
	"strconv"
	"strings"

	"github.com/optool/optool/tensor"
)

// A Part is something inside of an object. Name is how Python reaches it: weight for an
// attribute, [0] or ['k'] for an item, (0) for an argument that the object was made with.
type Part struct {
	Name  string
	Value Value
}

// A Named is a value with the path that leads to it.
type Named struct {
	Name  string
	Value Value
}

// Join is the path of a part of what stands at path.
func Join(path, part string) string {
	if path == "" || strings.HasPrefix(part, "[") || strings.HasPrefix(part, "(") {
		return path + part
	}
	return path + "." + part
}

// Parts are what is inside of v, by name: the items of a list, tuple, set or dict, the
// parts of an object, and the attributes of a tensor.
func Parts(v Value) []Part {
	switch v := v.(type) {
	case *Sequence:
		if v.Class == "torch.Size" {
			return nil
		}
		parts := make([]Part, len(v.Items))
		for i, it := range v.Items {
			parts[i] = Part{"[" + strconv.Itoa(i) + "]", it}
		}
		return parts
	case *Dict:
		parts := make([]Part, 0, len(v.Items))
		for i, it := range v.Items {
			parts = append(parts, keyParts(i, it)...)
		}
		return parts
	case *Opaque:
		return v.Parts
	case *tensor.Tensor:
		parts, _ := v.Attrs.([]Part)
		return parts
	}
	return nil
}

// keyParts are those of entry i of a dict. A key that is a container, an object or a
// tensor has no short text: the key is a part itself, and its place names both.
func keyParts(i int, it Item) []Part {
	switch key := it.Key.(type) {
	case string:
		return []Part{{key, it.Value}}
	case *tensor.Tensor, *Opaque:
		at := strconv.Itoa(i) + "]"
		return []Part{{"[key " + at, key}, {"[value " + at, it.Value}}
	}
	return []Part{{Repr(it.Key), it.Value}}
}

// Open lists v and everything inside it by name, an object or a tensor before its parts.
// Lists, tuples, sets and dicts are not listed themselves. Where something contains itself,
// the place says what it refers to. Names are unique: a second value of one name is called
// "name #2". The error is ErrTooMany.
func Open(name string, v Value) ([]Named, error) {
	o := opener{inside: map[any]string{}, names: map[string]int{}}
	err := o.open(name, v)
	return o.out, err
}

type opener struct {
	out    []Named
	inside map[any]string // the paths of what is being opened
	names  map[string]int
	seen   int
}

func (o *opener) put(name string, v Value) {
	if name == "" {
		name = "value"
	}
	if o.names[name]++; o.names[name] > 1 {
		name += " #" + strconv.Itoa(o.names[name])
	}
	o.out = append(o.out, Named{name, v})
}

func (o *opener) open(name string, v Value) error {
	if o.seen++; o.seen > MaxItems {
		return ErrTooMany
	}
	parts := Parts(v)
	switch v := v.(type) {
	case *Sequence:
		if v.Class == "torch.Size" {
			o.put(name, v)
			return nil
		}
	case *Dict:
	default:
		if len(parts) == 0 {
			o.put(name, v)
			return nil
		}
	}
	if at, open := o.inside[v]; open {
		o.put(name, &Opaque{Global: "a reference to " + at, Whole: true})
		return nil
	}
	switch v.(type) {
	case *Opaque, *tensor.Tensor:
		o.put(name, v)
	}
	o.inside[v] = name
	if name == "" {
		o.inside[v] = "the whole"
	}
	defer delete(o.inside, v)
	for _, p := range parts {
		if err := o.open(Join(name, p.Name), p.Value); err != nil {
			return err
		}
	}
	return nil
}
