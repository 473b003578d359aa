package capture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Leaf is a tensor among the values of a call and where it stands in them.
type Leaf struct {
	Tensor *tensor.Tensor
	Number int    // among all leaves, tensors or not, those of keywords last
	Key    string // of a keyword, with the places in its lists: "out[0]"; "" for positional values
	Path   string // as in Addresses: "args[0][1]", "kwargs.out"; no such path in dictionaries
}

// Target names the leaf of a file as results do: "input[1]", "input.out".
func (l Leaf) Target(file string) string {
	if l.Key != "" {
		return file + "." + l.Key
	}
	return fmt.Sprintf("%s[%d]", file, l.Number)
}

// Leaves lists the tensors of the file of kind k.
func (c *Call) Leaves(k Kind) ([]Leaf, error) {
	switch k {
	case Input:
		return Leaves(c.Args, c.Kwargs)
	case After:
		return Leaves(c.After, c.AfterKwargs)
	}
	return Leaves(c.Values(k), nil)
}

// Leaves lists the tensors of positional values and keywords (nil: none). It fails with value.ErrLoop or
// value.ErrTooMany.
func Leaves(args []value.Value, kwargs *value.Dict) ([]Leaf, error) {
	if kwargs == nil {
		kwargs = &value.Dict{}
	}
	if _, err := value.Leaves(append(slices.Clone(args), kwargs)); err != nil {
		return nil, err
	}
	var out []Leaf
	n := 0
	var walk func(v value.Value, path, key string)
	walk = func(v value.Value, path, key string) {
		switch v := v.(type) {
		case *value.Sequence:
			for i, it := range v.Items {
				walk(it, path+"["+strconv.Itoa(i)+"]", key)
			}
			return
		case *value.Dict:
			for _, it := range v.Items {
				walk(it.Key, "", key)
				walk(it.Value, "", key)
			}
			return
		case *tensor.Tensor:
			if in, ok := strings.CutPrefix(path, "kwargs."); ok {
				key = in
			}
			out = append(out, Leaf{v, n, key, path})
		}
		n++
	}
	for i, v := range args {
		walk(v, "args["+strconv.Itoa(i)+"]", "")
	}
	for _, it := range kwargs.Items {
		key := value.Str(it.Key)
		walk(it.Value, "kwargs."+key, key)
	}
	return out, nil
}
