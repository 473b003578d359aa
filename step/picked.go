package step

import (
	"slices"

	"github.com/optool/optool/tensor"
)

// How many calls before a reader are searched for what its input was picked from, and
// the most elements that are looked at.
const (
	pickedWithin = 32
	pickedMost   = 1 << 24
)

// picked finds the recorded value that the rows of v were picked from by a call that was
// not recorded (x[mask], x[index] in torch 1), the latest if there are several, and
// which rows. It is nil if there is none: v holds other numbers.
func (v *Value) picked(opt Options) (w *Value, rows []int, err error) {
	if v.content.plain || !v.DType.IsFloat() || v.Numel() <= few || v.Numel() > pickedMost {
		return nil, nil, nil
	}
	now, done, err := v.load(opt)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	raw := now.AppendBytes(nil)
	seen := map[*Value]bool{v: true}
	calls := v.Call.Process.Calls
	for i := v.Call.Order - 1; i >= max(0, v.Call.Order-pickedWithin); i-- {
		for _, w := range slices.Concat(calls[i].Outputs, calls[i].Inputs) {
			if w.Kind == inputKind && w.From.Value != nil {
				w = w.From.Value
			}
			if seen[w] || w.DType != v.DType || w.after != nil || w.Numel() > pickedMost {
				continue
			}
			seen[w] = true
			size := v.rowOf(w) * v.DType.Size()
			if size == 0 {
				continue
			}
			if rows, err := w.find(raw, size, opt); err != nil || rows != nil {
				return w, rows, err
			}
		}
	}
	return nil, nil, nil
}

// rowOf is how many elements of v are picked from w together: those of the dimensions
// that the two end with. At least one dimension of each chooses.
func (v *Value) rowOf(w *Value) int {
	n := 1
	a, b := v.Shape, w.Shape
	for len(a) > 1 && len(b) > 1 && a[len(a)-1] == b[len(b)-1] {
		n *= a[len(a)-1]
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	return n
}

// find is the numbers of the rows, of size bytes each, of w that raw is made of; nil if
// there are others in raw. Of equal rows the next one is taken, as a mask does.
func (w *Value) find(raw []byte, size int, opt Options) ([]int, error) {
	t, done, err := w.load(opt)
	if err != nil {
		return nil, err
	}
	defer done()
	held := t.AppendBytes(nil)
	places := map[string][]int{}
	for i := 0; i+size <= len(held); i += size {
		row := string(held[i : i+size])
		places[row] = append(places[row], i/size)
	}
	rows := make([]int, 0, len(raw)/size)
	last := -1
	for i := 0; i+size <= len(raw); i += size {
		at := places[string(raw[i:i+size])]
		if len(at) == 0 {
			return nil, nil
		}
		k, _ := slices.BinarySearch(at, last+1)
		if k == len(at) {
			k = 0
		}
		last = at[k]
		rows = append(rows, last)
	}
	return rows, nil
}

// pick is rows of t in the shape of v.
func (v *Value) pick(t *tensor.Tensor, rows []int) *tensor.Tensor {
	from := tensor.Data[float64](t.Dense())
	size := v.Numel() / len(rows)
	out := make([]float64, 0, v.Numel())
	for _, r := range rows {
		out = append(out, from[r*size:(r+1)*size]...)
	}
	return tensor.New(v.DType, v.Shape, out)
}
