package capture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/tensor"
)

// Addresses maps the path of a tensor in a call, "args[0][1]" or "kwargs.out",
// to the address it had while the job ran.
type Addresses map[string]string

// A Memory is what is known of a tensor beside its elements.
type Memory struct {
	Address string // as in Addresses
	// Version counts the calls that wrote the tensor, as torch does (Tensor._version); -1 if that was not recorded.
	Version int
	Name    string // in the model, "" if it has none
	// Stride is that of the tensor in the program's memory, as "[8 1]"; "" if that was not recorded.
	Stride string
}

// sidecarLimit bounds what is read of a .pth.json file, in bytes.
const sidecarLimit = 1 << 20

// Memories are the addresses, and what the producer says beside them of the same tensors.
func (c *Call) Memories(k Kind) map[string]Memory {
	if c.entry == nil { // made, not recorded
		return nil
	}
	if c.entry.rec != nil {
		if d, err := c.described(); err == nil {
			if d, ok := d.(addressed); ok {
				return d.memories(k)
			}
		}
		return nil
	}
	return c.beside(k)
}

// ParameterName is the name in the model of a tensor among the arguments, "" if it has none there or if that was not
// recorded.
func (c *Call) ParameterName(t *tensor.Tensor) string {
	return c.parameterName(func(l Leaf) bool { return l.Tensor == t })
}

// ParameterAt is ParameterName of the argument with a target: "input[1]", "input.out".
func (c *Call) ParameterAt(target string) string {
	return c.parameterName(func(l Leaf) bool { return l.Target("input") == target })
}

func (c *Call) parameterName(is func(Leaf) bool) string {
	leaves, err := c.Leaves(Input)
	if err != nil {
		return ""
	}
	if i := slices.IndexFunc(leaves, is); i >= 0 {
		return c.Memories(Input)[leaves[i].Path].Name
	}
	return ""
}

// Addresses are the addresses of Memories. A file that is missing or unusable gives none.
func (c *Call) Addresses(k Kind) Addresses {
	a := Addresses{}
	for path, m := range c.Memories(k) {
		a[path] = m.Address
	}
	return a
}

// beside reads the .pth.json file beside the file of kind k, where op_tools noted what
// a .pth cannot hold. Versions and names are there if the hook exported the call.
func (c *Call) beside(k Kind) map[string]Memory {
	e := c.entry
	f, _, err := files.Open(e.Path(c.side, k) + ".json")
	if err != nil {
		return nil
	}
	defer f.Close()
	var doc struct {
		Args   []any          `json:"args"`
		Kwargs map[string]any `json:"kwargs"`
	}
	d := json.NewDecoder(io.LimitReader(f, sidecarLimit))
	d.UseNumber()
	if d.Decode(&doc) != nil {
		return nil
	}
	if len(doc.Args) == 2 && len(doc.Kwargs) == 0 && (e.Layout == V1 || e.Layout == AutocompareV0) {
		args, isList := doc.Args[0].([]any)
		kwargs, isDict := doc.Args[1].(map[string]any)
		if isList && isDict {
			doc.Args, doc.Kwargs = args, kwargs
		}
	}
	m := memories{}
	for i, v := range doc.Args {
		m.collect("args["+strconv.Itoa(i)+"]", v)
	}
	for key, v := range doc.Kwargs {
		m.collect("kwargs."+key, v)
	}
	return m
}

// share makes arguments that lay at one address one memory, as they were in the program: torch.maximum(a, b, out=a)
// changes a. In .pth files each is a tensor of its own.
func (c *Call) share(at map[string]Memory) {
	type place struct {
		address, geometry string
		dtype             tensor.DType
	}
	first := map[place]*tensor.Tensor{}
	ls, _ := c.Leaves(Input) // none of a container that holds itself, or of too many values
	for _, l := range ls {
		m, known := at[l.Path]
		if !known || m.Address == "0" {
			continue
		}
		v := l.Tensor
		p := place{m.Address, fmt.Sprint(v.Shape, v.Stride), v.DType}
		switch was := first[p]; {
		case was == nil:
			first[p] = v
		case !was.SameMemory(v) && holdSame(was, v):
			u := *was
			u.RequiresGrad, u.Parameter = v.RequiresGrad, v.Parameter
			*v = u
		}
	}
}

// holdSame reports whether two stored tensors can be read and have the same elements.
func holdSame(t, u *tensor.Tensor) bool {
	for _, x := range []*tensor.Tensor{t, u} {
		if x.Storage() == nil {
			return false
		}
		if _, err := x.Storage().Load(); err != nil {
			return false
		}
	}
	return bytes.Equal(t.AppendBytes(nil), u.AppendBytes(nil))
}

// memories maps paths as Addresses does.
type memories map[string]Memory

func (m memories) collect(path string, v any) {
	switch v := v.(type) {
	case []any:
		for i, it := range v {
			m.collect(path+"["+strconv.Itoa(i)+"]", it)
		}
	case map[string]any:
		for _, key := range []string{"data_ptr", "data"} { // "data" until 2024-09-14
			if n, ok := v[key].(json.Number); ok {
				name, _ := v["name"].(string)
				stride := ""
				if list, ok := v["stride"].([]any); ok {
					stride = fmt.Sprint(list)
				}
				m[path] = Memory{Address: n.String(), Version: countOf(v["version"]), Name: name, Stride: stride}
			}
		}
	}
}

// countOf is a recorded count of writes, -1 if v is none.
func countOf(v any) int {
	if n, ok := v.(json.Number); ok {
		if n, err := n.Int64(); err == nil {
			return int(n)
		}
	}
	return -1
}
