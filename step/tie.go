package step

import (
	"cmp"
	"math"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Tie is a row of which a call (topk) chooses some elements, where the last chosen one and the first that is not
// chosen differ by no more than rounding.
type Tie struct {
	Call   *Call
	Row    int
	Margin float64 // the difference, relative to the larger one
}

// ties finds near ties in what a call of a rerun chooses.
func ties(c *Call, args []value.Value, outs []*tensor.Tensor) (out []Tie) {
	if !c.Decides() || len(c.Inputs) == 0 {
		return nil
	}
	from := value.Tensors(value.NewTuple(args...))
	if len(from) == 0 || from[0].Dim() == 0 || !from[0].DType.IsFloat() {
		return nil
	}
	n := from[0].Shape[from[0].Dim()-1]
	k := 0
	for _, t := range outs {
		if t == nil || t.DType.Kind() != tensor.KindInt || t.Dim() != from[0].Dim() {
			continue
		}
		if row := t.Shape[t.Dim()-1]; t.Numel()*n == from[0].Numel()*row {
			k = row
		}
	}
	if k == 0 || k >= n {
		return nil
	}
	u := roundedBy(c.Inputs[0])
	all := tensor.Data[float64](from[0])
	for row := 0; row*n < len(all); row++ {
		s := slices.Clone(all[row*n : (row+1)*n])
		slices.SortFunc(s, func(a, b float64) int { return cmp.Compare(b, a) })
		if d := (s[k-1] - s[k]) / math.Max(math.Abs(s[k-1]), math.Abs(s[k])); d <= u {
			out = append(out, Tie{c, row, d})
		}
	}
	return out
}

// roundedBy is the distance of 1 to the next number in the coarsest dtype of the last calls that made a value: what two
// scores are apart by if each is rounded otherwise.
func roundedBy(v *Value) (u float64) {
	const most = 8 // calls from a product to a choice
	for range most {
		u = max(u, v.DType.Eps())
		w := v.From.origin()
		if w == nil || w.Kind != capture.Output || len(w.Call.Inputs) == 0 {
			break
		}
		if v = w.Call.Inputs[0]; !v.DType.IsFloat() {
			break
		}
	}
	return u
}
