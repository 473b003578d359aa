package capture

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Made is a call of values in memory: of the records that its files would hold, Input
// among them.
func Made(records map[Kind]*Record) *Call {
	c := &Call{Kwargs: &value.Dict{}}
	for _, k := range Kinds() {
		if r := records[k]; r != nil {
			c.set(k, r)
		}
	}
	return c
}

// Value is the dict that op_tools writes, and whether None may be a value that the
// producer does not know.
func (r *Record) Value() *value.Dict {
	kwargs := r.Kwargs
	if kwargs == nil {
		kwargs = &value.Dict{}
	}
	d := &value.Dict{Items: []value.Item{
		{Key: "name", Value: r.Name}, {Key: "args", Value: value.NewTuple(r.Args...)}, {Key: "kwargs", Value: kwargs},
		{Key: "identifier", Value: r.Identifier},
	}}
	if r.Unknown {
		d.Items = append(d.Items, value.Item{Key: "unknown", Value: true})
	}
	return d
}

// Record is what the file of kind k holds; nil if it was not read.
func (c *Call) Record(k Kind) *Record {
	if !c.read.Has(k) {
		return nil
	}
	r := &Record{Name: c.names[k], Args: c.Values(k), Kwargs: &value.Dict{}, Unknown: c.Unknown.Has(k)}
	switch k {
	case Input:
		r.Kwargs = c.Kwargs
	case After:
		r.Args, r.Kwargs = c.seen(r.Args), &value.Dict{Class: c.AfterKwargs.Class}
		for _, it := range c.AfterKwargs.Items {
			v := c.seen([]value.Value{it.Value})[0]
			r.Kwargs.Items = append(r.Kwargs.Items, value.Item{Key: it.Key, Value: v})
		}
	}
	if r.Identifier = r.Name + "/" + k.String(); c.ByOpTools {
		above := path.Dir(c.Identifier)
		if above == "." || above == "/" {
			above = "0"
		}
		r.Identifier = above + "/" + k.String()
	}
	return r
}

// seen are values after the call with None for those at which the recorder did not look.
func (c *Call) seen(after []value.Value) []value.Value {
	out := slices.Clone(after)
	for i, v := range after {
		switch v := v.(type) {
		case *tensor.Tensor:
			if c.Unseen[v] {
				out[i] = nil
			}
		case *value.Sequence:
			s := *v
			s.Items = c.seen(v.Items)
			out[i] = &s
		}
	}
	return out
}

// Write writes the files that were read to a directory, as op_tools does.
func (c *Call) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, k := range Kinds() {
		if r := c.Record(k); r != nil {
			if err := pthformat.WriteFile(filepath.Join(dir, k.String()+".pth"), r.Value()); err != nil {
				return fmt.Errorf("%s.pth: %w", k, err)
			}
		}
	}
	return nil
}
