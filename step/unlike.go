package step

import (
	"fmt"
	"math"
	"slices"
)

// unlike are the gradients of an update that the calls do not give, though they give those of most other parameters.
type unlike struct {
	by   map[argument][]other // those that were not explained, by where they are read
	like map[argument]int     // how many were
	has  map[uint64]bool      // parameters whose gradient was explained
}

// An argument is a place among the arguments of an operator.
type argument struct{ op, target string }

type other struct {
	v        *Value
	readings []*Value
	off      string
}

func (u unlike) add(v *Value, readings []*Value, off string) {
	at := argument{v.Call.Op, v.Target}
	switch {
	case v.From.Role == "gradient" || v.From.How == IsChanged:
		u.like[at]++
		u.has[readings[0].Address] = true
	case off != "" && v.From.Value == nil && v.From.first == nil && v.From.Role != "collective" &&
		!slices.ContainsFunc(readings, func(r *Value) bool { return !r.like(v) }):
		u.by[at] = append(u.by[at], other{v, readings, off})
	}
}

// settle makes those gradients changed that are read where most others are what the calls give. If most are not, calls
// that were not recorded averaged or scaled them.
func (u unlike) settle() {
	for at, vs := range u.by {
		vs = slices.DeleteFunc(vs, func(o other) bool { return u.has[o.readings[0].Address] })
		if u.like[at] <= few || u.like[at] < 4*len(vs) {
			continue
		}
		for _, o := range vs {
			r := o.readings[0]
			o.v.From = Link{How: IsChanged, Value: r}
			o.v.reason = fmt.Sprintf("it is not the gradient that the calls give which read the parameter, first %s: %s. "+
				"Those of %d other parameters are", r.Call, o.off, u.like[at])
			r.readers = append(r.readers, o.v)
		}
	}
}

// departs says how x differs from y: by a factor, or where first.
func departs(x, y []float64, shape []int) string {
	xy, yy := 0.0, 0.0
	most := 0
	for i := range y {
		xy += x[i] * y[i]
		yy += y[i] * y[i]
		if math.Abs(x[i]-y[i]) > math.Abs(x[most]-y[most]) {
			most = i
		}
	}
	if len(x) == 0 || yy == 0 || xy-xy != 0 {
		return ""
	}
	k, rest := xy/yy, 0.0
	for i := range y {
		rest += (x[i] - k*y[i]) * (x[i] - k*y[i])
	}
	if rest < 1e-4*k*k*yy {
		return fmt.Sprintf("all elements are %.4g times as large", k)
	}
	return fmt.Sprintf("at %s %.6g instead of %.6g", index(most, shape), x[most], y[most])
}
