package opdef

import (
	"math"
	"slices"

	"github.com/optool/optool/tensor/value"
)

// oftenNumbers are what eps, slopes, probabilities and scales often are.
var oftenNumbers = []float64{0, 1, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5, -1, 2, math.Inf(1)}

// oftenWords are values of arguments that are taken for each other.
var oftenWords = [][]string{
	{"none", "tanh"}, {"none", "mean", "sum", "batchmean"}, {"sum", "mean", "max"}, {"floor", "trunc"},
	{"nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"},
	{"linear", "lower", "higher", "midpoint", "nearest"},
	{"zeros", "border", "reflection"}, {"constant", "reflect", "replicate", "circular"},
	{"ij", "xy"}, {"forward", "backward", "ortho"}, // those of an argument that is None, too
}

// Mistaken lists the values that a kernel may have computed with instead. These are the default, a flag turned, and
// numbers and words that arguments of this kind often have. They are also None for a tensor that may be absent, and
// other integers in a list. Tensors have no others.
func (a Argument) Mistaken() []value.Value {
	was := a.Python()
	seen := map[string]bool{value.Repr(was): true}
	return slices.DeleteFunc(a.stead(was), func(v value.Value) bool {
		repr := value.Repr(v)
		known := seen[repr]
		seen[repr] = true
		return known
	})
}

// stead are the values that may be taken for one; it can be among them.
func (a Argument) stead(was value.Value) (vs []value.Value) {
	if !a.Required {
		vs = append(vs, python(a.absent))
	}
	switch x := was.(type) {
	case *value.Sequence:
		for _, items := range mistakenList(x.Items) {
			vs = append(vs, &value.Sequence{Kind: x.Kind, Items: items})
		}
	case bool:
		vs = append(vs, !x)
	case int64:
		vs = append(vs, x+1, x-1, -x, int64(0))
		if _, float := a.Value.(Scalar); float {
			vs = append(vs, values(oftenNumbers)...)
		}
	case float64:
		vs = append(vs, values(oftenNumbers)...)
		vs = append(vs, x*x, math.Sqrt(math.Abs(x)), -x, 2*x, x/2, 1-x)
		if x != 0 {
			vs = append(vs, 1/x)
		}
	case string:
		for _, group := range oftenWords {
			if slices.Contains(group, x) {
				vs = append(vs, values(group)...)
			}
		}
	case nil:
		switch a.Value.(type) {
		case *float64:
			vs = append(vs, values(oftenNumbers)...)
		case *bool:
			vs = append(vs, true, false)
		case *string:
			vs = append(vs, values(oftenWords[len(oftenWords)-1])...)
		}
	}
	return vs
}

func values[T any](items []T) (vs []value.Value) {
	for _, it := range items {
		vs = append(vs, it)
	}
	return vs
}

// mostVaried is how many numbers of a list are tried one by one.
const mostVaried = 8

// mistakenList are lists of numbers that are taken for another: backwards, each the number of a neighbour, all the
// first one. Lists of integers are also taken with each or one a unit less or more, and as ones and zeros.
func mistakenList(items []value.Value) (lists [][]value.Value) {
	whole := true
	for _, v := range items {
		_, is := v.(int64)
		if _, float := v.(float64); !is && !float {
			return nil
		}
		whole = whole && is
	}
	if len(items) == 0 {
		return nil
	}
	backwards := slices.Clone(items)
	slices.Reverse(backwards)
	lists = append(lists, backwards)
	if n := len(items); n > 2 && n%2 == 0 { // pairs for each dimension: in the order of dimensions, or each turned
		pairs, turned := slices.Clone(backwards), slices.Clone(items)
		for i := 0; i < n; i += 2 {
			slices.Reverse(pairs[i : i+2])
			slices.Reverse(turned[i : i+2])
		}
		lists = append(lists, pairs, turned)
	}
	if n := len(items); n > 2 {
		lists = append(lists, slices.Concat(items[1:], items[:1]), slices.Concat(items[n-1:], items[:n-1]))
	}
	if !whole {
		return append(lists, slices.Repeat(items[:1], len(items)))
	}
	for _, f := range []func(x int64) int64{
		func(int64) int64 { return 1 }, func(int64) int64 { return 0 }, func(x int64) int64 { return x - 1 },
		func(x int64) int64 { return x + 1 }, func(x int64) int64 { return -x },
	} {
		list := make([]value.Value, len(items))
		for i, v := range items {
			list[i] = f(v.(int64))
		}
		lists = append(lists, list)
	}
	for i := range items[:min(len(items), mostVaried)] { // one of them alone
		for _, by := range []int64{1, -1} {
			list := slices.Clone(items)
			list[i] = items[i].(int64) + by
			lists = append(lists, list)
		}
		list := slices.Clone(items)
		list[i] = -items[i].(int64)
		lists = append(lists, list)
	}
	return lists
}
