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

// findPicked finds the recorded value that the rows of each of vs, arguments of c, were picked from by a call that
// was not recorded (x[mask], x[index] in torch 1), the latest if there are several, and which rows. Where there is
// none, the argument holds other numbers. Each value that they may have been picked from is read once for all of them.
func (c *Call) findPicked(vs []*Value, opt Options) error {
	wanted, err := newPicks(vs, opt)
	if err != nil {
		return err
	}
	seen := map[*Value]bool{}
	calls := c.Process.Calls
	for i := c.Order - 1; i >= max(0, c.Order-pickedWithin) && len(wanted.open) > 0; i-- {
		err := each(slices.Concat(calls[i].Outputs, calls[i].Inputs), func(w *Value) error {
			if w.Kind == inputKind && w.From.Value != nil {
				w = w.From.Value
			}
			if seen[w] || w.after != nil || w.Numel() > pickedMost {
				return nil
			}
			seen[w] = true
			return wanted.from(w, opt)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// picks are values whose rows are looked for in others.
type picks struct {
	open []*pick // not found yet
}

type pick struct {
	v   *Value
	raw []byte // its elements
}

func newPicks(vs []*Value, opt Options) (*picks, error) {
	p := &picks{}
	return p, each(vs, func(v *Value) error {
		if v.content.plain || !v.DType.IsFloat() || v.Numel() <= few || v.Numel() > pickedMost {
			return nil
		}
		now, done, err := v.load(opt)
		if err != nil {
			return err
		}
		defer done()
		p.open = append(p.open, &pick{v, now.AppendBytes(nil)})
		return nil
	})
}

// from sets the rows of those that were picked from w.
func (p *picks) from(w *Value, opt Options) error {
	bySize := map[int][]*pick{} // bytes of a row
	for _, x := range p.open {
		if size := x.v.rowOf(w) * w.DType.Size(); size > 0 && x.v.DType == w.DType {
			bySize[size] = append(bySize[size], x)
		}
	}
	if len(bySize) == 0 {
		return nil
	}
	t, done, err := w.load(opt)
	if err != nil {
		return err
	}
	defer done()
	held := t.AppendBytes(nil)
	for size, of := range bySize {
		places := map[string][]int{}
		for _, x := range of {
			places[string(x.raw[:size])] = nil
		}
		if !slices.ContainsFunc(rowsOf(held, size), func(row []byte) bool { _, is := places[string(row)]; return is }) {
			continue // no first row of any is there
		}
		for i, row := range rowsOf(held, size) {
			places[string(row)] = append(places[string(row)], i)
		}
		for _, x := range of {
			if rows := find(x.raw, size, places); rows != nil {
				x.v.From.view, x.v.From.rows = w, rows
			}
		}
	}
	p.open = slices.DeleteFunc(p.open, func(x *pick) bool { return x.v.From.rows != nil })
	return nil
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

// rowsOf cuts elements into rows of size bytes each.
func rowsOf(b []byte, size int) [][]byte {
	return slices.Collect(slices.Chunk(b[:len(b)/size*size], size))
}

// find is the numbers of the rows, of size bytes each, that raw is made of, of those at places; nil if
// there are others in raw. Of equal rows the next one is taken, as a mask does.
func find(raw []byte, size int, places map[string][]int) []int {
	rows := make([]int, 0, len(raw)/size)
	last := -1
	for _, row := range rowsOf(raw, size) {
		at := places[string(row)]
		if len(at) == 0 {
			return nil
		}
		k, _ := slices.BinarySearch(at, last+1)
		if k == len(at) {
			k = 0
		}
		last = at[k]
		rows = append(rows, last)
	}
	return rows
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
