package causes

import (
	"math"
	"slices"

	"github.com/optool/optool/tensor"
)

// Nearer reports whether what a mistake makes of a value comes so much nearer to it, as a whole, as Nearness says: than
// what is due, and much nearer than zeros, to which whatever is small is near. One in twenty elements may be far,
// and each may be rounded. A right one that becomes infinite or NaN is far. Of whole numbers half of those that are
// wrong have to be right.
func Nearer(got, due, made *tensor.Tensor) bool {
	if slices.Equal(got.Shape, made.Shape) && slices.Equal(got.Shape, due.Shape) && counted(got, made, due) {
		return halfRight(got, due, made)
	}
	if !slices.Equal(got.Shape, made.Shape) || !slices.Equal(got.Shape, due.Shape) || !got.DType.IsFloat() ||
		!made.DType.IsFloat() || !due.DType.IsFloat() {
		return true
	}
	dt := got.DType
	x, y, z := Pieces(got), Pieces(due), Pieces(made)
	left := make([]float64, 0, len(x))
	size, was := 0.0, 0.0
	for i := range x {
		a, b := math.Abs(x[i]-dt.Round(z[i])), math.Abs(x[i]-dt.Round(y[i]))
		if b <= 4*dt.ULP(x[i]) && !(math.Abs(dt.Round(z[i])) <= dt.Max()) {
			left = append(left, math.Inf(1))
		}
		if math.IsNaN(a+b) || math.IsInf(a+b, 0) {
			continue
		}
		left = append(left, max(0, a-2*dt.ULP(x[i])))
		size += x[i] * x[i]
		was += b * b
	}
	slices.Sort(left)
	rest := 0.0
	for _, a := range left[:(len(left)*19+19)/20] {
		rest += a * a
	}
	return rest*Nearness*Nearness <= min(size/16, was)
}

// Strays reports whether an element that is not what a mistake makes of it is a number of another size: no rounding on
// the way does that. It is off by half of itself, or of the other, and by half of what elements are as a rule.
func Strays(got, made *tensor.Tensor) bool {
	if !slices.Equal(got.Shape, made.Shape) || !got.DType.IsFloat() || !made.DType.IsFloat() {
		return false
	}
	x, z := Pieces(got), Pieces(made)
	usual := rms(x)
	for i := range x {
		off := math.Abs(x[i] - got.DType.Round(z[i]))
		if finite(off) && off > max(usual, math.Abs(x[i]), math.Abs(z[i]))/2 {
			return true
		}
	}
	return false
}

// rms is the root of the mean square of the elements that are finite, 0 if none is.
func rms(x []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range x {
		if finite(v) {
			sum, n = sum+v*v, n+1
		}
	}
	return math.Sqrt(sum / float64(max(n, 1)))
}

// counted reports whether tensors hold whole numbers or booleans.
func counted(ts ...*tensor.Tensor) bool {
	return !slices.ContainsFunc(ts, func(t *tensor.Tensor) bool {
		return !t.DType.IsIntegral() && t.DType != tensor.Bool
	})
}

// halfRight reports whether at least half of some elements that are not those due are what a mistake makes.
func halfRight(got, due, made *tensor.Tensor) bool {
	were, are, n := 0, 0, got.Numel()
	for k := range min(n, SampleSize) {
		i := k * max(1, n/SampleSize)
		if x := tensor.At[int64](got, i); tensor.At[int64](due, i) != x {
			were++
			are += btoi(tensor.At[int64](made, i) == x)
		}
	}
	return 2*are >= were
}

// mostPicked is the number of elements of a result up to which it is looked at whether they are picked.
const mostPicked = 64

// fewestRivals is how many elements there are at least for each that is picked.
const fewestRivals = 5

// Picked is how many bits at most are explained of a result whose elements are all picked from one of the operands, as
// a median is: which one it is. Each rearrangement of an operand moves the rank of what is picked by a few, so that one
// as near to what is due as the recorded one is says no more than how far that is. The bits of all others are plenty.
func Picked(operands []*tensor.Tensor, got, due *tensor.Tensor) float64 {
	n := got.Numel()
	if n > mostPicked || n != due.Numel() || !got.DType.IsFloat() || !due.DType.IsFloat() {
		return Plenty
	}
	x, y := elements(got), elements(due)
	for _, t := range operands {
		if t.DType != got.DType || t.Numel() < fewestRivals*n || t.Numel() > largestOperand {
			continue
		}
		all := elements(t)
		slices.Sort(all)
		bits := 0.0
		for i := range x {
			at, found := slices.BinarySearch(all, x[i])
			from, due := slices.BinarySearch(all, got.DType.Round(y[i]))
			if !found || !due {
				bits = Plenty
				break
			}
			bits += math.Log2(1 + 2*math.Abs(float64(at-from))/float64(n))
		}
		if bits < Plenty {
			return bits
		}
	}
	return Plenty
}
