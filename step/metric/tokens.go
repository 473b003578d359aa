package metric

import (
	"fmt"
	"slices"
	"strings"

	"github.com/optool/optool/step"
	"github.com/optool/optool/step/pairs"
	"github.com/optool/optool/tensor"
)

// Find is the result that NAME means: the first floating result of the last call that has one, or of the call
// that step prints as OP/ID.
func Find(t *step.Trace, name string) (*step.Value, error) {
	var found *step.Value
	for _, p := range t.Processes {
		for _, c := range p.Calls {
			if name != "last" && !c.Named(name) {
				continue
			}
			i := slices.IndexFunc(c.Outputs, func(v *step.Value) bool { return v.DType.IsFloat() && v.Numel() > 1 })
			if i < 0 {
				if name != "last" {
					return nil, fmt.Errorf("%s has no floating result", c)
				}
				continue
			}
			found = c.Outputs[i]
			if name != "last" {
				return found, nil
			}
		}
		if found != nil {
			break
		}
	}
	switch {
	case found == nil && name == "last":
		return nil, fmt.Errorf("no call has a floating result")
	case found == nil:
		return nil, fmt.Errorf("no call is named %s", name)
	}
	return found, nil
}

// An input is tokens that an embedding reads.
type input struct {
	value *step.Value
	rows  int // of the embedding's weight
}

// inputs are the whole numbers that embeddings among calls read, in order.
func inputs(calls []*step.Call) []input {
	var out []input
	for _, c := range calls {
		var ids, weight *step.Value
		for _, v := range c.Inputs {
			switch {
			case v.DType.IsFloat() && len(v.Shape) == 2 && weight == nil:
				weight = v
			case v.DType.IsIntegral() && ids == nil:
				ids = v
			}
		}
		if ids == nil || weight == nil || len(c.Inputs) != 2 || len(c.Outputs) != 1 {
			continue
		}
		switch op := pairs.Operator(c.Op); {
		case strings.HasSuffix(op, "embedding"), strings.HasSuffix(op, "__getitem__"),
			strings.HasSuffix(op, "index_select"):
			out = append(out, input{ids, weight.Shape[0]})
		}
	}
	return out
}

// Next are the tokens that the positions of logits are to tell: those behind each in the input, whose first
// token no position tells. It is nil if the recording does not say.
func Next(of *step.Value, opt step.Options) []int64 {
	if len(of.Shape) == 0 {
		return nil
	}
	positions := of.Numel() / max(1, lastSize(of))
	best := tokensRead(step.Cone(of), of)
	if best == nil {
		return nil
	}
	ids := best.Whole(opt)
	if ids == nil {
		return nil
	}
	return shifted(ids, best.Shape, positions)
}

// tokensRead are the tokens that an embedding among calls reads, at least one for each position of logits; nil if
// there are none.
func tokensRead(calls []*step.Call, of *step.Value) (best *step.Value) {
	vocabulary := lastSize(of)
	positions := of.Numel() / max(1, vocabulary)
	for _, in := range inputs(calls) {
		n := in.value.Numel()
		if n < positions || len(in.value.Shape) == 0 || n%positions != 0 && len(in.value.Shape) == 1 {
			continue
		}
		if best == nil || in.rows == vocabulary {
			best = in.value
		}
		if in.rows == vocabulary {
			break
		}
	}
	return best
}

// shifted are the tokens that positions tell, the last ones of each row of ids.
func shifted(ids []int64, shape []int, positions int) []int64 {
	row := shape[len(shape)-1]
	rows := len(ids) / max(1, row)
	if rows == 0 || positions%rows != 0 || positions/rows > row {
		return nil
	}
	n := positions / rows // of each row
	out := make([]int64, 0, positions)
	for r := range rows {
		for t := row - n; t < row; t++ {
			if t+1 < row {
				out = append(out, ids[r*row+t+1])
			} else {
				out = append(out, none)
			}
		}
	}
	return out
}

// none is no token.
const none = -100

// float64s are the elements of a result.
func float64s(t *tensor.Tensor) []float64 { return tensor.Data[float64](t) }
