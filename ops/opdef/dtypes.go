package opdef

import (
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/tensor"
)

// DTypes lists the dtypes of the tensors in the op's cases: what it is checked
// with. Ops without cases list none.
func (e *Entry) DTypes() []string {
	names := []string{}
	var seen []tensor.DType
	for _, c := range e.op.cases(Gen{R: rand.New(rand.NewPCG(1, 1))}) {
		for _, a := range e.NewCall(c).Tensors() {
			if !slices.Contains(seen, a.Tensor.DType) {
				seen = append(seen, a.Tensor.DType)
			}
		}
	}
	slices.Sort(seen)
	for _, d := range seen {
		names = append(names, d.String())
	}
	return names
}
