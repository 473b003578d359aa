package ops

import (
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// FuzzEinsum computes equations of one to three operands of two or three
// dimensions. What is accepted has a shape of their sizes, whatever spaces are
// in it.
func FuzzEinsum(f *testing.F) {
	for _, eq := range []string{
		"ij,jk->ik", "ij,jk", "ii->i", "bij,bjk->bik", "...i,...j->...ij", "ij->", "->", "", ",", "i,,j", "i...j,k...->ij",
		"ij , jk -> ki", "aab,bcc->", "ij,jk,kl->il", "ij,jk->ii", "ij->k", "......", "i->i->i", "é,i", "i.j",
	} {
		for n := range uint8(3) {
			f.Add(eq, n, n%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, equation string, n uint8, flat bool) {
		shape := []int{2, 3, 2}
		if flat {
			shape = []int{3, 3}
		}
		args := []value.Value{equation}
		for i := range int(n%3) + 1 {
			args = append(args, tensor.Full(tensor.Float64, shape, float64(i+1)))
		}
		shapeOf := func(equation string) ([]int, bool) {
			args[0] = equation
			call, err := Default().Bind("torch.functional.einsum", args, nil)
			if err != nil {
				fuzzcheck.Sentence(t, err)
				return nil, false
			}
			res, err := call.Forward()
			if err != nil {
				fuzzcheck.Sentence(t, err)
				return nil, false
			}
			return res.Outs[0].Shape, true
		}
		var got []int
		var ok bool
		fuzzcheck.Bounded(t, len(equation), 1<<12, func() { got, ok = shapeOf(equation) })
		if !ok {
			return
		}
		for _, n := range got {
			if n != 2 && n != 3 {
				t.Errorf("%q of %v has shape %v", equation, shape, got)
			}
		}
		if again, ok := shapeOf(equation + " "); !ok || tensor.ShapeString(again) != tensor.ShapeString(got) {
			t.Errorf("%q has shape %v, with a space at the end %v", equation, got, again)
		}
	})
}
