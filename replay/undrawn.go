package replay

import (
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor/value"
)

// A Setting is a number that an argument of a call has in place of the recorded one.
type Setting struct {
	Name     string  `json:"name"`
	Place    int     `json:"place"` // among the positional arguments; -1 for a keyword
	Recorded float64 `json:"recorded"`
	Value    float64 `json:"value"`
}

// String is the argument as Python writes it: "dropout_p=0.0".
func (s *Setting) String() string { return s.Name + "=" + value.Repr(s.Value) }

// Undrawn is a call that draws random numbers, started as one that draws none: one argument is set so that nothing is
// dropped inside. The rest is as recorded. It is nil if no argument says that, as of a plain dropout.
func (c *Call) Undrawn() (*Call, Setting) {
	if c.bound == nil || c.bound.Random() == "" {
		return nil, Setting{}
	}
	for i, p := range c.bound.Entry.Schema.Params {
		none, ok := opdef.Drops[p.Name]
		if !ok {
			continue
		}
		s := Setting{Name: p.Name, Place: -1, Value: none}
		rec := *c.Record
		if kw := rec.Kwargs; kw != nil {
			k := slices.IndexFunc(kw.Items, func(it value.Item) bool { return value.Str(it.Key) == p.Name })
			if k >= 0 {
				d := *kw
				d.Items = slices.Clone(kw.Items)
				s.Recorded, ok = d.Items[k].Value.(float64)
				d.Items[k].Value = none
				rec.Kwargs, i = &d, -1
			}
		}
		if i >= 0 && i < len(rec.Args) {
			rec.Args = slices.Clone(rec.Args)
			s.Recorded, ok = rec.Args[i].(float64)
			rec.Args[i], s.Place = none, i
		}
		if !ok {
			continue
		}
		u := Of(&rec, c.opt)
		if u.err == nil {
			u.readLike(c)
		}
		if u.err == nil && u.bound.Random() == "" && u.Start() == nil {
			return u, s
		}
	}
	return nil, Setting{}
}
