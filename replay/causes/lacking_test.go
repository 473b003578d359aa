package causes

import (
	"math"
	"slices"
	"testing"

	"github.com/optool/optool/tensor"
)

// TestLackingWhere: rows are zero where an index is the padding's, whatever is due there, with either sign; not if
// another row of that index is right.
func TestLackingWhere(t *testing.T) {
	index := tensor.New(tensor.Int64, []int{5}, []int64{3, 1, 3, 0, 2})
	c, outs := searched(t, "torch.nn.functional.embedding", index, rows(3, 4, 6), int64(3))
	without := func(rows ...int) *tensor.Tensor {
		v := elements(outs[0])
		for _, r := range rows {
			for i := range 6 {
				v[6*r+i] *= 0
			}
		}
		return tensor.New(tensor.Float32, outs[0].Shape, v).Rounded()
	}
	got := without(0, 2)
	text := "where input is 3, that is padding_idx, it is zero"
	same64(t, text, made(t, c.lackingWhere([]Wrong{{Target: "output[0]", Got: got, Want: outs[0]}}), text, "output[0]",
		outs[0]), elements(got))
	for m := range c.lackingWhere([]Wrong{{Target: "output[0]", Got: without(0), Want: outs[0]}}) {
		t.Error("the other row is right: ", m.Text)
	}
}

// TestNaNAtZero: a value that is NaN at all zeros of an operand and nowhere else.
func TestNaNAtZero(t *testing.T) {
	nan := math.NaN()
	x := tensor.New(tensor.Float32, []int{6}, []float64{1, 0, 2, 0, -1, 3}).Rounded()
	due := tensor.New(tensor.Float32, []int{6}, []float64{1, 5, 2, 4, 3, 3}).Rounded()
	c, _ := searched(t, "torch.exp", x)
	wrong := func(v ...float64) *Wrong {
		return &Wrong{Target: "grad[0]", Got: tensor.New(tensor.Float32, []int{6}, v).Rounded(), Want: due}
	}
	if k := c.nanAtZero(wrong(1, nan, 2, nan, 3, 3)); k == nil || k.Text != "where self is 0, it is NaN, not a number" {
		t.Error(k)
	}
	for _, w := range []*Wrong{wrong(1, nan, 2, 4, 3, 3), wrong(1, nan, 2, nan, nan, 3), wrong(1, 0, 2, 0, 3, 3)} {
		if k := c.nanAtZero(w); k != nil {
			t.Error(k.Text)
		}
	}
}

// TestUnwrittenEdges: the last row and column of matrices are zero; not if only one of them is.
func TestUnwrittenEdges(t *testing.T) {
	c, outs := searched(t, "torch.exp", rows(4, 2, 5, 6))
	edge := func(dims ...int) *tensor.Tensor {
		at, v := onEdge(outs[0].Shape, dims, false), elements(outs[0])
		for i := range v {
			if at(i) {
				v[i] = 0
			}
		}
		return tensor.New(tensor.Float32, outs[0].Shape, v).Rounded()
	}
	text := "it is zero at the last index of dimension 1 and of dimension 2, as if not written"
	same64(t, text, made(t, c.unwrittenEdges([]Wrong{{Target: "output[0]", Got: edge(1, 2), Want: outs[0]}}), text,
		"output[0]", outs[0]), elements(edge(1, 2)))
	for m := range c.unwrittenEdges([]Wrong{{Target: "output[0]", Got: edge(2), Want: outs[0]}}) {
		t.Error(m.Text)
	}
}

// TestStaysNotFinite: infinities of an operand that stay where a number is due are told, and are no overflow of
// something: they are of one magnitude.
func TestStaysNotFinite(t *testing.T) {
	inf := math.Inf(1)
	x := tensor.New(tensor.Float32, []int{7}, []float64{inf, 2, -inf, 3, -inf, inf, -4}).Rounded()
	c, outs := searched(t, "torch.nan_to_num", x)
	fails := []Wrong{{Target: "output[0]", Got: x, Want: outs[0]}}
	causes, _ := c.Plain(fails)
	if len(causes) != 1 || causes[0].Text != "where self is infinite, it stays so: a number is due there" {
		t.Error(causes)
	}
	for m := range c.overflowed(fails) {
		t.Error(m.Text)
	}
}

// TestConjugateLost: of an operand that the operator conjugates, the conjugate is not taken.
func TestConjugateLost(t *testing.T) {
	z := tensor.New(tensor.Complex64, []int{3}, []complex128{1 + 2i, 3 - 1i, -2 + 0.5i})
	w := tensor.New(tensor.Complex64, []int{3}, []complex128{2 - 2i, 1 - 1i, 4 + 0.5i})
	for op, want := range map[string][2]string{
		"torch.vdot": {"the complex conjugate of self is not taken", "the complex conjugate of other is taken"},
		"torch.dot":  {"the complex conjugate of self is taken", "the complex conjugate of tensor is taken"},
	} {
		c, _ := searched(t, op, z, w)
		all := texts(c.misread(ofElements))
		for _, text := range want {
			if !slices.Contains(all, text) {
				t.Errorf("%s: no %q in %q", op, text, all)
			}
		}
	}
}

// TestTiled: parts that are repeated together, not each by itself.
func TestTiled(t *testing.T) {
	c, outs := searched(t, "torch.repeat_interleave", rows(5, 3, 4), int64(2), int64(0))
	v := elements(outs[0])
	got := tensor.Make[float64](len(v))
	for i := range got {
		got[i] = v[i/4%3*8+i%4]
	}
	w := Wrong{Target: "output[0]", Want: outs[0], Got: tensor.New(tensor.Float32, outs[0].Shape, got).Rounded()}
	text := "its dimension 0 holds 3 parts one after the other 2 times, not each of them 2 times"
	same64(t, text, made(t, c.misplacedResults([]Wrong{w}), text, "output[0]", outs[0]), got)
}

// TestFactorsNamed: a mean over too many elements, and a number in place of an argument that may be None.
func TestFactorsNamed(t *testing.T) {
	c, _ := searched(t, "torch.mean", rows(6, 6, 10, 8), int64(1))
	want := "10/480, as if divided by the number of all elements of self, not of those of each result"
	if k, ok := c.related(1.0/48, 1e-6); !ok || k.text != want {
		t.Error(k)
	}
	q := tensor.New(tensor.Float32, []int{1, 2, 16}, elements(rows(7, 2, 16))).Rounded()
	c, _ = searched(t, "torch.nn.functional.scaled_dot_product_attention", q, q, q, nil, 0.0, false, 0.4)
	want = "1/sqrt(16) / scale, as if that were not given: dimension 2 of query has 16"
	if text, ok := c.argument(0.25/0.4, 1e-9); !ok || text != want {
		t.Error(text)
	}
}

// TestArgumentsOfScalars: of one number another argument is looked at before steps of the formula are.
func TestArgumentsOfScalars(t *testing.T) {
	c, outs := searched(t, "torch.nn.functional.triplet_margin_loss", rows(1, 4, 3), rows(2, 4, 3), rows(3, 4, 3),
		1.0, 2.0, 1e-6, true)
	fails := failing(outs[0], outs[0], func(x float64) float64 { return x + 1 })
	all, _ := c.Mistakes(fails)
	if !slices.Contains(texts(all[1]), "swap is False, not True") {
		t.Error(texts(all[1]))
	}
}

// TestQuotientWritten: the reciprocal of a quotient is the other quotient.
func TestQuotientWritten(t *testing.T) {
	of := []knownValue{{"self", nil}, {"the result", nil}}
	all := map[string]bool{}
	for e := range expressions(of, exactly, func(function) bool { return true }) {
		if all[e.text()] = true; len(all) > 2000 {
			break
		}
	}
	if all["1 / (self / the result)"] || !all["the result / self"] {
		t.Error("the quotient is written as a reciprocal")
	}
}
