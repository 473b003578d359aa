package replay

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
)

// A drawnMistake is a mistake of a kernel that keeps or drops elements at random: it multiplies each kept element by a
// wrong factor, and sets the others to 0 or keeps them, too.
type drawnMistake struct {
	text string
	k    float64
	// drops: elements may be 0, too. Which ones is part of what was recorded; anew: they are others than are due.
	drops, anew bool
}

// drawnCauses are the causes of a wrong dropout. Only the mask of a dropout is random.
func (c *Call) drawnCauses(o *Outcome) (found []causes.Cause) {
	p, ok := c.probability()
	if !ok {
		return nil
	}
	for _, r := range o.Results {
		if r.Verdict != verdict.Fail {
			continue
		}
		var got, due, of *tensor.Tensor
		var all []drawnMistake
		switch {
		case r.Phase == Forward && r.Target == "output[0]" && len(found) == 0:
			outs, operands := tensorsOf(flatten(c.values.RecordedOutput)), c.bound.Tensors()
			if len(outs) == 0 || len(operands) == 0 {
				continue
			}
			got, of = outs[0], operands[0].Tensor
			all = []drawnMistake{{"elements that are kept are not multiplied by 1/(1-p)", 1, true, false},
				{"p is taken for the probability of keeping: elements that are kept are multiplied by 1/p",
					1 / p, true, false},
				{"elements that are kept are multiplied by 1-p, not by 1/(1-p)", 1 - p, true, false},
				{"elements that are kept are multiplied by 1/(1-p) twice", 1 / (1 - p) / (1 - p), true, false},
				{"elements that are kept are multiplied by the root of 1/(1-p)", 1 / math.Sqrt(1-p), true, false},
				{"elements that are kept are multiplied by 1+p, not by 1/(1-p)", 1 + p, true, false}}
		case r.Phase == Backward:
			up := tensorsOf(flatten(c.values.RecordedGradOutputs))
			g, want, ok := c.Pair(&r)
			if !ok || len(up) == 0 || up[0] == nil {
				continue
			}
			want = c.knownMask(g, want)
			got, due, of = g, want, want
			all = []drawnMistake{{"the gradient is not multiplied by 1/(1-p)", 1 - p, false, false},
				{"the gradient is multiplied by 1/(1-p) twice", 1 / (1 - p), false, false},
				{"the gradient is multiplied by 1/p, not by 1/(1-p)", (1 - p) / p, false, false}}
			if k := c.drawn(got, due, of, all); k != "" {
				found = append(found, causes.Cause{Text: k, Targets: []string{r.Target}, Share: 1})
				continue
			}
			of = up[0]
			if k := c.otherMask(got, due, of); k != "" {
				found = append(found, causes.Cause{Text: k, Targets: []string{r.Target}, Share: 1})
				continue
			}
			all = []drawnMistake{{"the mask is not applied to the gradient, only the factor 1/(1-p)",
				1 / (1 - p), false, false},
				{"the incoming gradient is passed on as it is, without the mask and its factor", 1, false, false},
				{"the gradient has another mask than the result", 1 / (1 - p), true, true},
				{"the gradient has another mask than the result, and is not multiplied by 1/(1-p)", 1, true, true},
				{"the gradient is multiplied by 1/(1-p) where elements were kept, as in dropout",
					1 / (1 - p), true, false}}
		default:
			continue
		}
		if k := c.drawn(got, due, of, all); k != "" {
			found = append(found, causes.Cause{Text: k, Targets: []string{r.Target}, Share: 1})
		}
	}
	return found
}

// knownMask is what is due of a gradient of a dropout, whose mask its result tells. Where the operand is 0, as after a
// relu, it does not: what is recorded as dropped is due so there.
func (c *Call) knownMask(got, due *tensor.Tensor) *tensor.Tensor {
	operands := c.bound.Tensors()
	if len(operands) == 0 || !got.DType.IsFloat() || !operands[0].Tensor.DType.IsFloat() ||
		!slices.Equal(got.Shape, due.Shape) || !slices.Equal(got.Shape, operands[0].Tensor.Shape) {
		return due
	}
	return opdef.ZipN(due.DType, due.Shape, func(dst []float64, src [][]float64) {
		for i := range dst {
			if dst[i] = src[0][i]; src[1][i] == 0 && src[2][i] == 0 {
				dst[i] = 0
			}
		}
	}, due, got, operands[0].Tensor)
}

// probability is the probability of a dropout, from its argument.
func (c *Call) probability() (p float64, ok bool) {
	for _, a := range c.bound.Arguments() {
		if p, ok = a.Python().(float64); ok && (a.Name == "p" || a.Name == "dropout_p") && p > 0 && p < 1 {
			return p, true
		}
	}
	return 0, false
}

// drawn is the text of the mistake that makes elements from those of another tensor. It is empty if no mistake explains
// them by the rule of evidence. due is nil if it is not known.
func (c *Call) drawn(got, due, of *tensor.Tensor, all []drawnMistake) (text string) {
	if !got.DType.IsFloat() || !of.DType.IsFloat() || !slices.Equal(got.Shape, of.Shape) || got.Numel() > mostComputed {
		return ""
	}
	_ = Guard(func() error { // what cannot be read has no cause
		x, y := tensor.Make[float64](got.Numel()), tensor.Make[float64](of.Numel())
		tensor.Load(got, 0, x)
		tensor.Load(of, 0, y)
		p, _ := c.probability()
		for _, m := range all {
			made, dropped, other, moved := slices.Clone(y), 0, 0, 0
			for i := range made {
				if made[i] *= m.k; m.drops && x[i] == 0 {
					dropped++
					made[i] = 0
				}
				z := got.DType.Round(made[i])
				other += cmpInt(x[i] != z && !(math.Abs(x[i]-z) <= 2*got.DType.ULP(z)))
			}
			for i := range made {
				moved += cmpInt(m.drops && due != nil && (x[i] == 0) != (tensor.At[float64](due, i) == 0))
			}
			if 50*other > len(x) || m.drops && dropped == 0 ||
				due != nil && m.drops && (m.anew && 20*moved <= len(x) || !m.anew && moved > 0) {
				continue
			}
			was, cost := due, 0.0
			if was == nil { // the sound factor at the same places
				was = tensor.New(tensor.Float64, got.Shape, scaledBy(made, 1/(1-p)/m.k))
			} else if m.anew {
				cost = float64(len(x)) // each place that is dropped is a bit
			}
			bits := causes.Evidence(got, was, tensor.New(tensor.Float64, got.Shape, made))
			if bits >= causes.Required(len(all))+cost*min(1, float64(causes.SampleSize)/float64(len(x))) {
				text = m.text
				return nil
			}
		}
		return nil
	})
	return text
}

// otherMask says how the mask of a gradient differs from that of the result: it belongs to other elements, it was drawn
// anew, or one of the two misses the last elements. It is empty if it finds none of these. up is the incoming gradient.
func (c *Call) otherMask(got, due, up *tensor.Tensor) (text string) {
	n := got.Numel()
	if !got.DType.IsFloat() || !due.DType.IsFloat() || !up.DType.IsFloat() || n > mostComputed ||
		due.Numel() != n || up.Numel() != n {
		return ""
	}
	_ = Guard(func() error { // what cannot be read has no cause
		x, y, u := tensor.Make[float64](n), tensor.Make[float64](n), tensor.Make[float64](n)
		tensor.Load(got, 0, x)
		tensor.Load(due, 0, y)
		tensor.Load(up, 0, u)
		p, _ := c.probability()
		differ, inTail, tailX, tailY := 0, 0, 0, 0 // tails: where no element is dropped any more
		for i := range x {
			z := got.DType.Round(u[i] / (1 - p))
			if x[i] != 0 && !(math.Abs(x[i]-z) <= 2*got.DType.ULP(z)) || z == 0 {
				return nil // no mask
			}
			differ += cmpInt((x[i] == 0) != (y[i] == 0))
			if x[i] == 0 {
				tailX = i + 1
			}
			if y[i] == 0 {
				tailY = i + 1
			}
		}
		from := min(tailX, tailY)
		for i := from; i < n; i++ {
			inTail += cmpInt((x[i] == 0) != (y[i] == 0))
		}
		names := [2]string{"of the result", "in the gradient"}
		if tailX < tailY {
			names = [2]string{"of the gradient", "in the result"}
		}
		by := shiftOf(x, y)
		chance := 2 * p * (1 - p) * float64(n)
		switch {
		case from > 0 && differ == inTail && differ > 0 && -math.Log2(1-p)*float64(n-from) >= causes.Required(n):
			text = fmt.Sprintf("none of the last %d elements %s is dropped, but %d of them are %s: the mask is not "+
				"applied there to elements %[2]s", n-from, names[0], differ, names[1])
		case by != 0 && differ > 0:
			text = fmt.Sprintf("the gradient has the mask of the result, shifted by %d: element i uses that of "+
				"element i%+d", max(by, -by), -by)
		case tailX > 0 && n >= fewestDrawn && math.Abs(float64(differ)-chance) <= 5*math.Sqrt(chance):
			text = "the gradient has another mask than the result: it is drawn anew"
		}
		return nil
	})
	return text
}

// fewestDrawn is the number of elements from which a mask counts as drawn anew.
const fewestDrawn = 128

// shiftOf is the number of elements by which the zeros of x lie behind those of y. It is 0 if they do not match, or are
// too few to tell.
func shiftOf(x, y []float64) int {
	n := len(x)
	ofX, ofY, both := zerosBefore(x), zerosBefore(y), sharedZeros(x, y)
	for k := 1; 2*k <= n; k++ {
		for _, by := range []int{k, -k} {
			from, to := max(0, by), min(n, n+by)
			zeros := ofX[to] - ofX[from]
			off := zeros + ofY[to-by] - ofY[from-by] - 2*both(by)
			if 100*off <= n && zeros >= 16 && zeros <= n-k-16 {
				return by
			}
		}
	}
	return 0
}

// zerosBefore counts the zeros before each element. Its last number counts all.
func zerosBefore(x []float64) []int {
	out := make([]int, len(x)+1)
	for i, v := range x {
		out[i+1] = out[i] + cmpInt(v == 0)
	}
	return out
}

// sharedZeros counts, for each shift, the zeros of x that meet a zero of y. This is the cross-correlation of both, by
// fast Fourier transforms.
func sharedZeros(x, y []float64) func(by int) int {
	size := 1
	for size < 2*len(x) { // no zero meets one from the other end
		size *= 2
	}
	fft := fourier.NewFFT(size)
	of := func(v []float64) []complex128 {
		zero := make([]float64, size)
		for i := range v {
			zero[i] = float64(cmpInt(v[i] == 0))
		}
		return fft.Coefficients(nil, zero)
	}
	a, b := of(x), of(y)
	for k := range a {
		a[k] *= cmplx.Conj(b[k])
	}
	counts := fft.Sequence(nil, a)
	return func(by int) int { return int(math.Round(counts[(by+size)%size] / float64(size))) }
}

func cmpInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

func scaledBy(v []float64, k float64) []float64 {
	out := slices.Clone(v)
	for i := range out {
		out[i] *= k
	}
	return out
}
