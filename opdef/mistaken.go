package opdef

import (
	"math"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/value"
)

// oftenNumbers are what eps, slopes, probabilities and scales often are.
var oftenNumbers = []float64{0, 1, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5, -1}

// oftenWords are values of arguments that stand for each other.
var oftenWords = [][]string{
	{"none", "tanh"}, {"none", "mean", "sum", "batchmean"}, {"floor", "trunc"},
	{"nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"},
	{"zeros", "border", "reflection"}, {"constant", "reflect", "replicate", "circular"},
}

// Mistaken lists the values that a kernel may have computed with instead: the default, a
// flag turned, what numbers and words of this kind often are, None for a tensor that may
// be absent. Tensors and lists have no others.
func (a Argument) Mistaken() []value.Value {
	was := a.Python()
	var vs []value.Value
	add := func(v value.Value) {
		same := func(w value.Value) bool { return value.Repr(w) == value.Repr(v) }
		if !same(was) && !slices.ContainsFunc(vs, same) {
			vs = append(vs, v)
		}
	}
	switch x := was.(type) {
	case *tensor.Tensor:
		if !a.Required {
			vs = append(vs, nil)
		}
		return vs
	case *value.Sequence:
		return nil
	case bool:
		add(!x)
	case int64:
		add(x + 1)
		add(x - 1)
		add(-x)
	case float64:
		if d, ok := a.Default.(float64); ok && !a.Required {
			add(d)
		}
		for _, f := range oftenNumbers {
			add(f)
		}
		for _, f := range []float64{x * x, math.Sqrt(math.Abs(x)), -x, 2 * x, x / 2} {
			add(f)
		}
	case string:
		for _, group := range oftenWords {
			if slices.Contains(group, x) {
				for _, w := range group {
					add(w)
				}
			}
		}
	case nil:
		if _, float := a.Value.(*float64); float {
			for _, f := range oftenNumbers {
				add(f)
			}
		}
	}
	return vs
}
