package step

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay"
)

// unlike are the gradients of an update that the calls do not give, though they give those of most other parameters.
type unlike struct {
	by   map[argument][]other // those that were not explained, by where they are read
	like map[argument]int     // how many were
	has  map[uint64]bool      // parameters whose gradient was explained
}

func newUnlike() unlike {
	return unlike{by: map[argument][]other{}, like: map[argument]int{}, has: map[uint64]bool{}}
}

// An argument is a place among the arguments of a line of the program: one argument, or a list of them.
type argument struct {
	op, target string
	list       int // where the list begins, -1 of a single argument
	site       site
}

// position is the argument that an input is, or that the list is in which it is given.
func (v *Value) position() argument {
	a := argument{op: v.Call.Op, target: v.Target, list: -1, site: v.Call.place()}
	if v.item >= 0 {
		a.target, a.list = "", v.leaf-v.item
	}
	return a
}

type other struct {
	v        *Value
	readings []*Value
	off      string
}

func (u unlike) add(v *Value, readings []*Value, off string) {
	at := v.position()
	switch {
	case v.isGradient() || v.From.How == IsChanged:
		u.like[at]++
		u.has[readings[0].Address] = true
	case v.From.Value == nil && v.From.first == nil && v.From.Role != "collective":
		u.by[at] = append(u.by[at], other{v, readings, off})
	}
}

// settle makes those gradients changed that are read where most others are what the calls give. If most are not, calls
// that were not recorded averaged or scaled them: where any is, they are not explained.
func (u unlike) settle() {
	for at, vs := range u.by {
		vs = slices.DeleteFunc(vs, func(o other) bool { return u.has[o.readings[0].Address] })
		if u.like[at] == 0 {
			continue
		}
		most := u.like[at] > few && u.like[at] >= 4*len(vs)
		for _, o := range vs {
			r := o.readings[0]
			if !most || o.off == "" || slices.ContainsFunc(o.readings, func(r *Value) bool {
				return !r.like(o.v) || r.mistrusted()
			}) {
				if o.v.From.How == IsLeaf {
					o.v.From.How = IsOutside
				}
				continue
			}
			o.v.From = Link{How: IsChanged, Value: r}
			o.v.right = gradientOf(o.readings)
			o.v.reason = fmt.Sprintf("it is not the gradient that the calls give which read the parameter, first %s: %s. "+
				"Those of %d other parameters are", r.Call, o.off, u.like[at])
			r.readers = append(r.readers, o.v)
		}
	}
}

// mistrusted reports whether the gradient of a reading agrees with the reference by chance alone: it is within rounding
// of zero, as that of the bias of keys in an attention, and so is what is made of it.
func (v *Value) mistrusted() bool {
	g := v.Call.gradientOf(v)
	return g != nil && slices.ContainsFunc(v.Call.Results, func(r Result) bool {
		return r.Phase == replay.Backward && r.Target == g.Target && r.Verdict == verdict.Mistrusted
	})
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
	if !slices.ContainsFunc(x, func(x float64) bool { return x != 0 }) {
		return "all elements are 0"
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
