package elements

import "github.com/optool/optool/tensor"

// IfElse is the number yes where cond holds, else no.
func IfElse(cond bool, yes, no float64) float64 {
	if cond {
		return yes
	}
	return no
}

// OneIf is 1 where cond holds, else 0, without a branch: of conditions that are as good as random
// one would take longer than what depends on it.
func OneIf(cond bool) float64 {
	i := 0
	if cond {
		i = 1
	}
	return float64(i)
}

// ResultOrError is the list of the one result of a kernel, or its error.
func ResultOrError(t *tensor.Tensor, err error) ([]*tensor.Tensor, error) {
	return []*tensor.Tensor{t}, err
}

// Result is the list of the one result of a kernel that did not fail.
func Result(t *tensor.Tensor) ([]*tensor.Tensor, error) { return []*tensor.Tensor{t}, nil }

// OrElse is the argument p points to, or def if it is not given.
func OrElse[T any](p *T, def T) T {
	if p != nil {
		return *p
	}
	return def
}

// Single is a list of one tensor.
func Single(t *tensor.Tensor) []*tensor.Tensor { return []*tensor.Tensor{t} }
