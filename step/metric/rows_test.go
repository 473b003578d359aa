package metric

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
)

func compareRows(t *testing.T, a, b string) *Rows {
	t.Helper()
	r, err := CompareRows(context.Background(), open(t, a), open(t, b), options(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRows: one row of three, by kernels that do not depend on the batch, and by such that split sums for few rows.
func TestRows(t *testing.T) {
	r := compareRows(t, "same_one", "same_three")
	if r.Compared != r.Calls || r.Calls == 0 || len(r.Differ) > 0 {
		t.Errorf("%d of %d calls compared, %d differ", r.Compared, r.Calls, len(r.Differ))
	}
	r = compareRows(t, "parts_one", "parts_three")
	d := r.First()
	if d == nil {
		t.Fatal("no call differs")
	}
	const why = "this one splits the sum in 2 parts and rounds each, the other rounds its sum once"
	if d.A.Op != "torch.nn.functional.linear" || !d.Origin || d.Within == nil || !*d.Within || d.Why != why {
		t.Errorf("first is %s: %+v", d.A, d)
	}
	if r.Logits == nil || r.Logits.KL == 0 {
		t.Errorf("the logits change by %+v", r.Logits)
	}
	if later := r.Differ[1]; later.Origin || !strings.Contains(later.Why, "differs already") {
		t.Errorf("second is %s: %+v", later.A, later)
	}
}

// TestSortedRows: tokens of all rows in one order are those of one row in another order; a kernel that depends on the
// batch is found there.
func TestSortedRows(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		compared := func(name string) *Rows {
			a, b := name+"_one", name+"_three"
			if swapped {
				a, b = b, a
			}
			return compareRows(t, a, b)
		}
		if r := compared("sorted"); len(r.Differ) > 0 || r.Calls == 0 {
			t.Errorf("%d of %d calls differ, first %+v", len(r.Differ), r.Calls, r.First())
		}
		d := compared("sorted_parts").First()
		if d == nil || d.A.Op != "torch.nn.functional.linear" || !d.Origin || d.Differing != 64 {
			t.Errorf("first is %+v", d)
		}
	}
}

// TestRowsSwapped: the larger batch first.
func TestRowsSwapped(t *testing.T) {
	if r := compareRows(t, "same_three", "same_one"); len(r.Differ) > 0 || r.Compared != r.Calls {
		t.Errorf("%d of %d calls compared, %d differ", r.Compared, r.Calls, len(r.Differ))
	}
}

// TestRowsOfOthers: other tokens are in no row.
func TestRowsOfOthers(t *testing.T) {
	r := compareRows(t, "logits", "routed")
	if r.Compared > 0 {
		t.Errorf("%d calls compared", r.Compared)
	}
}

// TestRowNumbers: the place of a row in its batch is no difference and does not say which row it is, not even before
// the tokens do; what it makes of the tokens is one.
func TestRowNumbers(t *testing.T) {
	for _, tc := range [][2]string{{"numbers_one", "numbers_three"}, {"numbers_three", "numbers_one"}} {
		r := compareRows(t, tc[0], tc[1])
		if r.Calls == 0 || r.Compared != r.Calls {
			t.Errorf("%s: %d of %d calls compared", tc[0], r.Compared, r.Calls)
		}
		var ops []string
		for _, d := range r.Differ {
			ops = append(ops, d.A.String())
			if d.Origin {
				t.Errorf("%s: %s reads the number, %+v", tc[0], d.A, d)
			}
		}
		if !slices.Equal(ops, []string{"torch.Tensor.add/13"}) { // the tokens and the number
			t.Errorf("%s: %q differ", tc[0], ops)
		}
	}
}

// TestRowFloats: the same of floating numbers that the program makes of no tensor.
func TestRowFloats(t *testing.T) {
	r := compareRows(t, "numbers_float_one", "numbers_float_three")
	if r.Calls == 0 || r.Compared != r.Calls || len(r.Differ) > 0 {
		t.Errorf("%d of %d calls compared, %d differ", r.Compared, r.Calls, len(r.Differ))
	}
}

// TestEqualRows: values whose rows are all equal, such as positions, do not say which row of a batch another batch is;
// of two rows that are equal so far, the first is taken.
func TestEqualRows(t *testing.T) {
	row := func(rows ...[]float64) *tensor.Tensor {
		return tensor.New(tensor.Float64, []int{len(rows), len(rows[0])}, slices.Concat(rows...))
	}
	p, q, r := []float64{0, 1, 2, 3}, []float64{5, 6, 7, 8}, []float64{9, 8, 7, 6}
	f := &rowFinder{begins: map[[2]int]int{}, maybe: map[[2]int][]int{}}
	for _, tc := range []struct {
		name       string
		one, batch *tensor.Tensor
		want       []float64
		at         int // -1: not known yet
	}{
		{"positions", row(p), row(p, p, p, p, p), p, -1},
		{"tokens of two equal rows", row(q), row(p, q, r, q, p), q, -1},
		{"the first of them", row([]float64{5, 6, 7, 8.5}), row(p, q, r, q, p), q, -1},
		{"the other row differs more", row(q), row(p, p, r, q, p), q, 3},
	} {
		_, b, ok := f.common(tc.one, tc.batch)
		if !ok || !slices.Equal(float64s(b), tc.want) {
			t.Errorf("%s: found %v, want %v", tc.name, ok, tc.want)
		}
		if at, known := f.begins[[2]int{1, 5}]; known != (tc.at >= 0) || known && at != tc.at {
			t.Errorf("%s: the row begins at %d (%v), want %d", tc.name, at, known, tc.at)
		}
	}
}

// TestOftener: which run rounds more often is said only of errors that clearly differ.
func TestOftener(t *testing.T) {
	for _, tc := range []struct {
		this, other float64
		want        string
	}{{2.2e-4, 2.3e-4, "by 0.00023"}, {4e-4, 2e-4, "this one rounds more often"}, {1e-4, 2e-4, "the other rounds more often"}} {
		if got := oftener(tc.this, tc.other); !strings.HasSuffix(got, tc.want) {
			t.Errorf("%g, %g: %q", tc.this, tc.other, got)
		}
	}
}
