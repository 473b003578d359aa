package pairs

import (
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor/value"
)

// arguments compares arguments that the two calls give in different ways, such as by position and by keyword: each is
// compared under its name in the operator's schema. It reports false if both give them alike, or if the schema is not
// known. An argument that only one call gives is compared with its default.
func (c *comparison) arguments(k capture.Kind, a, b *capture.Call) bool {
	if len(a.Args) == len(b.Args) && slices.Equal(keys(a.Kwargs), keys(b.Kwargs)) {
		return false
	}
	x, y := c.bind(a), c.bind(b)
	if x == nil || y == nil || x.Entry != y.Entry {
		return false
	}
	p, errP := named(x, k, a)
	q, errQ := named(y, k, b)
	if errP != nil || errQ != nil {
		return false
	}
	if k == capture.After { // what is not given is not changed
		c.keywords("input", p, q, true)
		return true
	}
	c.keywords("input", given(x, p, q), given(y, q, p), false)
	return true
}

// bind binds a call to the schema of its operator; nil if that fails.
func (c *comparison) bind(a *capture.Call) *opdef.Call {
	if c.Registry == nil {
		return nil
	}
	bound, err := c.Registry.Bind(a.Op, a.Args, a.Kwargs)
	if err != nil {
		return nil
	}
	return bound
}

// named are the arguments of a call, before or after it, by their names in the schema.
func named(bound *opdef.Call, k capture.Kind, a *capture.Call) (*value.Dict, error) {
	if k == capture.After {
		return bound.Entry.Named(a.After, a.AfterKwargs)
	}
	return bound.Entry.Named(a.Args, a.Kwargs)
}

// given are the named arguments of a call as the schema reads them (a number for a list of numbers), and the defaults
// of those that only the other call gives.
func given(bound *opdef.Call, own, other *value.Dict) *value.Dict {
	out := &value.Dict{}
	for _, it := range slices.Concat(own.Items, other.Items) {
		name := value.Str(it.Key)
		if _, had := out.Get(name); had {
			continue
		}
		v, ok := own.Get(name)
		if a, known := bound.Argument(name); known {
			v, ok = a.Python(), true
		}
		if ok {
			out.Items = append(out.Items, value.Item{Key: name, Value: v})
		}
	}
	return out
}

func keys(d *value.Dict) []string {
	var out []string
	for _, it := range d.Items {
		out = append(out, value.Str(it.Key))
	}
	slices.Sort(out)
	return out
}
