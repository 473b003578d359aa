package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

func tensorsOf(vs []value.Value) []*tensor.Tensor {
	var ts []*tensor.Tensor
	for _, v := range vs {
		if t, ok := v.(*tensor.Tensor); ok {
			ts = append(ts, t)
		}
	}
	return ts
}

// A label names a value in results.
type label struct {
	phase  Phase
	target string // Result.Target
	label  string // Result.Label
}

// leaf labels leaf i of n of what a phase takes or gives; op_tools numbers them
// only when there are several.
func leaf(p Phase, what string, i, n int) label {
	target := fmt.Sprintf("%s[%d]", what, i)
	if n == 1 {
		return label{p, target, what}
	}
	return label{p, target, target}
}

// keyword labels a keyword argument after the call.
func keyword(name string) label { return label{Input, "input." + name, "input " + name} }

// withoutElements reports whether a value is a tensor of a class that has no memory of its own, as stand-ins of
// compilers and tensors on several processes.
func withoutElements(v value.Value) bool {
	o, ok := v.(*value.Opaque)
	return ok && strings.HasSuffix(o.Global, "Tensor")
}

func unread(v value.Value) string { return "its elements were not recorded: it is a " + value.Str(v) }

func reference(t *tensor.Tensor) string {
	switch t.DType.Kind() {
	case tensor.KindComplex:
		return "complex128"
	case tensor.KindFloat:
		return "float64"
	case tensor.KindBool:
		return "bool"
	}
	return "int64"
}

// equalValues compares two Python values that are not tensors; NaN equals NaN.
func equalValues(a, b value.Value) bool {
	if x, ok := a.(float64); ok {
		y, ok := b.(float64)
		return ok && (x == y || x != x && y != y)
	}
	_, ta := a.(*tensor.Tensor)
	_, tb := b.(*tensor.Tensor)
	return !ta && !tb && value.Repr(a) == value.Repr(b)
}

// flatten lists the leaves of values that expandable accepted.
func flatten(vs []value.Value) []value.Value {
	leaves, _ := value.Leaves(vs)
	return leaves
}

// expandable checks that everything to be flattened can be.
func expandable(rec *capture.Call) error {
	for _, vs := range [][]value.Value{rec.Args, rec.Output, rec.GradInputs, rec.GradOutputs, rec.After} {
		if _, err := value.Leaves(vs); err != nil {
			return err
		}
	}
	return nil
}

func tensorsOfArgs(args []opdef.Arg) []*tensor.Tensor {
	ts := make([]*tensor.Tensor, len(args))
	for i, a := range args {
		ts[i] = a.Tensor
	}
	return ts
}

// zeros reports whether all elements of t are zero.
func zeros(t *tensor.Tensor) bool {
	buf := make([]complex128, min(t.Block(), t.Numel()))
	for lo := 0; lo < t.Numel(); lo += len(buf) {
		part := buf[:min(len(buf), t.Numel()-lo)]
		tensor.Load(t, lo, part)
		if slices.ContainsFunc(part, func(x complex128) bool { return x != 0 }) {
			return false
		}
	}
	return true
}

// shapesOf lists the shapes of tensors, None for those that are nil.
func shapesOf(ts []*tensor.Tensor) string {
	names := make([]string, len(ts))
	for i, t := range ts {
		if names[i] = "None"; t != nil {
			names[i] = tensor.ShapeString(t.Shape)
		}
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// shapesOfValues is shapesOf for values of which some are no tensors.
func shapesOfValues(vs []value.Value) string {
	ts := make([]*tensor.Tensor, len(vs))
	for i, v := range vs {
		ts[i], _ = v.(*tensor.Tensor)
	}
	return shapesOf(ts)
}

// computed is t, all of whose elements are computed, since a search reads them often; a large one stays as it is.
func computed(t *tensor.Tensor) *tensor.Tensor {
	if t == nil || !t.DType.IsFloat() || t.Numel() > mostComputed {
		return t
	}
	u := t
	_ = Guard(func() error { // what cannot be computed is read with the same error later
		v := tensor.Make[float64](t.Numel())
		tensor.Load(t, 0, v)
		u = tensor.New(t.DType, t.Shape, v)
		return nil
	})
	return u
}

// mostComputed is the number of elements up to which a value is kept.
const mostComputed = 1 << 22
