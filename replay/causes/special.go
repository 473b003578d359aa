package causes

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/tensor"
)

// A valueAt says what a function of one number gives at one of them.
type valueAt struct{ x, got, due float64 }

// atOneValue is what a value is where the only operand has one value, if those are the elements that are wrong, all of
// them, and each is the same; nil if it is not so.
func atOneValue(operand, got, due *tensor.Tensor) *valueAt {
	if !slices.Equal(operand.Shape, got.Shape) || operand.DType.IsComplex() || got.DType.IsComplex() ||
		got.Numel() != due.Numel() || got.Numel() > largestOperand {
		return nil
	}
	v, x, y := elements(operand), elements(got), elements(due)
	var at *valueAt
	for i := range x {
		if got.DType.IsFloat() {
			y[i] = got.DType.Round(y[i])
		}
		switch {
		case !isOff(got.DType, x[i], y[i]):
		case at == nil:
			at = &valueAt{v[i], x[i], y[i]}
		case !alike(v[i], at.x) || !alike(x[i], at.got) || !alike(y[i], at.due):
			return nil
		}
	}
	if at == nil {
		return nil
	}
	all := 0
	for i := range x {
		if alike(v[i], at.x) {
			if all++; !alike(x[i], at.got) {
				return nil
			}
		}
	}
	if all < leastInPart || all == len(x) {
		return nil
	}
	return at
}

// isOff reports whether an element of that dtype is not what is due.
func isOff(dt tensor.DType, got, due float64) bool {
	if !dt.IsFloat() {
		return got != due
	}
	return math.Abs(got-due) > 4*dt.ULP(due) || math.IsNaN(got) != math.IsNaN(due)
}

// oneValue says that results are wrong only where the one operand has one value, and what they are there. That is all
// that such results tell: many functions give it.
func (c *Search) oneValue(r *Wrong) *Cause {
	got, want, ok := r.Pair()
	all := c.readable()
	if !ok || !r.Forward() || len(all) != 1 {
		return nil
	}
	var at *valueAt
	if c.Guard(func() error { at = atOneValue(all[0].Tensor, got, want); return nil }) != nil || at == nil {
		return nil
	}
	name := func(x float64, dt tensor.DType) string {
		switch {
		case dt == tensor.Bool:
			return cond(x != 0, "True") + cond(x == 0, "False")
		case x == 0:
			return "0"
		}
		return constant(x)
	}
	text := fmt.Sprintf("where %s is %s, it is %s, not %s", argName(all[0]), name(at.x, tensor.Float64),
		name(at.got, got.DType), name(at.due, got.DType))
	return &Cause{Text: text, Targets: []string{r.Target}, Exact: true, Share: 1, Bits: Plenty}
}

// OfOneValue is how many bits at most are explained of a value that is wrong only where the one operand has one value:
// those of one element. The bits of all others are plenty.
func OfOneValue(operand, got, due *tensor.Tensor) float64 {
	at := atOneValue(operand, got, due)
	if at == nil {
		return Plenty
	}
	return min(significant(at.got), leastBits-1)
}
