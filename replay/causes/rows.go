package causes

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/tensor"
)

// toldRows are the rows of a value that are wrong, told by a quantity of each row of an operand; or its elements, told
// by those of an operand.
type toldRows struct {
	wrong []bool
	width int    // of a row; 1: elements
	text  string // "in rows where the variance of input is below 0.1", "where abs(input) is above 1.5"
	cost  float64
}

// fewestRows is how many rows have to be wrong, and right, so that a quantity tells which.
const fewestRows = 4

// rowsOf is the place of a value's rows, along its last dimension, that are wrong, if a quantity of the rows of an
// operand is on one side of some number in all of them, and on the other in the others; nil if there is none.
func (c *Search) rowsOf(got, want *tensor.Tensor) *place {
	last := len(got.Shape) - 1
	if last < 1 || got.Shape[last] < 2 || !slices.Equal(got.Shape, want.Shape) || !got.DType.IsFloat() ||
		got.Numel() > largestOperand {
		return nil
	}
	wrong := tensor.Make[bool](got.Numel() / got.Shape[last])
	x, y := elements(got), elements(want)
	for i := range x {
		due := got.DType.Round(y[i])
		if !alike(x[i], due) && !(math.Abs(x[i]-due) <= 4*got.DType.ULP(due)) {
			wrong[i/got.Shape[last]] = true
		}
	}
	n := 0
	for _, is := range wrong {
		n += btoi(is)
	}
	if n < fewestRows || len(wrong)-n < fewestRows {
		return nil
	}
	operands := c.operands()
	cost := math.Log2(float64(2 * len(wrong) * len(operands) * len(rowQuantities)))
	for _, a := range operands {
		s := a.Tensor.Shape
		if len(s) != last+1 || s[last] == 0 || !slices.Equal(s[:last], got.Shape[:last]) {
			continue
		}
		v := elements(a.Tensor)
		c.Work.Elements(len(v) * len(rowQuantities))
		for _, q := range rowQuantities {
			if r := side(wrong, nil, func(i int) float64 { return q.of(v[i*s[last] : (i+1)*s[last]]) }); r != nil {
				text := fmt.Sprintf("in rows where %s of %s is %s", q.text, argName(a), r)
				return &place{shape: got.Shape, rows: &toldRows{wrong, s[last], text, cost}}
			}
		}
	}
	return nil
}

// side is the side of some number on which a quantity of all that are wrong is, and of no other; nil if there is none.
// Those that are skipped, nil for none, do not count.
func side(wrong, skipped []bool, of func(i int) float64) *region {
	below := region{below: true, wrong: math.Inf(-1), right: math.Inf(1)}
	above := region{wrong: math.Inf(1), right: math.Inf(-1)}
	for i, is := range wrong {
		if skipped != nil && skipped[i] {
			continue
		}
		x := of(i)
		switch {
		case math.IsNaN(x):
			return nil
		case is:
			below.wrong, above.wrong = math.Max(below.wrong, x), math.Min(above.wrong, x)
		default:
			below.right, above.right = math.Min(below.right, x), math.Max(above.right, x)
		}
	}
	switch {
	case below.wrong < below.right:
		return &below
	case above.wrong > above.right:
		return &above
	}
	return nil
}

// rowQuantities are those of a row by which kernels choose, or from which they lose bits.
var rowQuantities = []struct {
	text string
	of   func(row []float64) float64
}{
	{"the variance", func(row []float64) float64 {
		mean, squares := moments(row)
		return squares - mean*mean
	}},
	{"the mean of squares", func(row []float64) float64 { _, squares := moments(row); return squares }},
	{"the largest element", slices.Max[[]float64]},
	{"the smallest element", slices.Min[[]float64]},
	{"the largest magnitude", func(row []float64) float64 { return math.Max(slices.Max(row), -slices.Min(row)) }},
	{"the mean", func(row []float64) float64 { mean, _ := moments(row); return mean }},
	{"the magnitude of the mean", func(row []float64) float64 { mean, _ := moments(row); return math.Abs(mean) }},
}

// moments are the mean of a row, and that of its squares.
func moments(row []float64) (mean, squares float64) {
	for _, x := range row {
		mean, squares = mean+x, squares+x*x
	}
	return mean / float64(len(row)), squares / float64(len(row))
}
