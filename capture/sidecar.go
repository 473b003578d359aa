package capture

import (
	"encoding/json"
	"io"
	"strconv"

	"github.com/optool/optool/internal/files"
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
}

// sidecarLimit bounds what is read of a .pth.json file, in bytes.
const sidecarLimit = 1 << 20

// Memories are the addresses, and what the producer says beside them of the same tensors.
func (c *Call) Memories(k Kind) map[string]Memory {
	if c.entry.rec != nil {
		if d, err := c.described(); err == nil {
			if d, ok := d.(addressed); ok {
				return d.memories(k)
			}
		}
		return nil
	}
	out := map[string]Memory{}
	for path, at := range c.Addresses(k) {
		out[path] = Memory{Address: at, Version: -1}
	}
	return out
}

// Addresses reads the .pth.json file beside the file of kind k, where op_tools
// noted what a .pth cannot hold, or what another producer says. It is only shown,
// never relied on: a file that is missing or unusable gives no addresses.
func (c *Call) Addresses(k Kind) Addresses {
	e := c.entry
	if e.rec != nil {
		a := Addresses{}
		for path, m := range c.Memories(k) {
			a[path] = m.Address
		}
		return a
	}
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
	a := Addresses{}
	for i, v := range doc.Args {
		a.collect("args["+strconv.Itoa(i)+"]", v)
	}
	for key, v := range doc.Kwargs {
		a.collect("kwargs."+key, v)
	}
	return a
}

func (a Addresses) collect(path string, v any) {
	switch v := v.(type) {
	case []any:
		for i, it := range v {
			a.collect(path+"["+strconv.Itoa(i)+"]", it)
		}
	case map[string]any:
		for _, key := range []string{"data_ptr", "data"} { // "data" until 2024-09-14
			if n, ok := v[key].(json.Number); ok {
				a[path] = n.String()
			}
		}
	}
}
