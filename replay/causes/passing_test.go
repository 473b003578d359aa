package causes

import (
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// gradientOf is the search for what is wrong with a gradient.
func gradientOf(c *Search, up, got, due *tensor.Tensor) []Wrong {
	c.Incoming = []*tensor.Tensor{up}
	return []Wrong{{Target: "grad[0]", Got: got, Want: due}}
}

// TestGradientsInPlace: gradients that pass elsewhere, that are cut from or read in another place of the incoming one,
// and sums that each index holds.
func TestGradientsInPlace(t *testing.T) {
	x, up := rows(1, 9, 40), rows(2, 9, 40)
	c, _ := searched(t, "torch.clamp", x, -0.5, 0.75)
	passed := func(lo, hi float64) *tensor.Tensor {
		return opdef.Zip(tensor.Float32, x, up, func(x, g float64) float64 {
			if x < lo || x > hi {
				return 0
			}
			return g
		}).Rounded()
	}
	due := passed(-0.5, 0.75)
	wide := tensor.New(tensor.Float32, []int{9, 44}, elements(rows(3, 9, 44)))
	cut := func(from int) *tensor.Tensor { return wide.Slice(1, from, 40, 1).Rounded() }
	index := tensor.New(tensor.Int64, []int{9}, []int64{3, 1, 4, 0, 5, 8, 2, 6, 7})
	selected, _ := searched(t, "torch.index_select", x, int64(0), index)
	sums := tensor.New(tensor.Float32, []int{3}, []float64{1.5, 2.25, -1})
	spread := tensor.New(tensor.Float32, []int{3}, []float64{2.75, 2.75, 2.75})
	for _, tc := range []struct {
		want string
		c    *Search
		of   func(c *Search, fails []Wrong) iter.Seq[Mistake]
		up   *tensor.Tensor
		got  *tensor.Tensor
		due  *tensor.Tensor
	}{
		{want: "passes everywhere, not only where self is from -0.5 to 0.75", c: c, of: (*Search).passing, up: up,
			got: up,
			due: due},
		{want: "passes where self is from -1 to 0.75, not from -0.5 to 0.75", c: c, of: (*Search).passing, up: up,
			got: passed(-1, 0.75), due: due},
		{want: "passes where self is below -0.5 or above 0.75, not from -0.5 to 0.75", c: c,
			of: (*Search).passing, up: up,
			got: opdef.Zip(tensor.Float32, x, up, func(x, g float64) float64 {
				if x >= -0.5 && x <= 0.75 {
					return 0
				}
				return g
			}).Rounded(), due: due},
		{want: "", c: c, of: (*Search).passing, up: up, got: rows(7, 9, 40), due: due},
		{want: "it is cut from the incoming gradient at index 0 of dimension 1", c: c, of: (*Search).croppedElsewhere,
			up: wide, got: cut(0), due: cut(2)},
		{want: "the incoming gradient is read at index along dimension 0, not written there", c: selected,
			of: (*Search).gatheredIncoming, up: up, due: x, got: reordered(up, 0, func(i, _ int) int {
				return int(whole64(index)[i])
			}).Rounded()},
		{want: "each index of dimension 0 holds the sum of what is due along it", c: c,
			of: (*Search).spreadSums, up: up,
			got: spread, due: sums},
	} {
		found := texts(tc.of(tc.c, gradientOf(tc.c, tc.up, tc.got, tc.due)))
		if tc.want == "" {
			if len(found) > 0 {
				t.Errorf("found %v of random numbers", found)
			}
			continue
		}
		if !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, tc.want) }) {
			t.Errorf("found %v, want %q", found, tc.want)
		}
	}
}

// TestNotFiniteCountFew: many elements that are NaN say no more than a few.
func TestNotFiniteCountFew(t *testing.T) {
	v := slices.Repeat([]float64{1}, 64)
	nan := slices.Clone(v)
	for i := range nan {
		nan[i] -= nan[i]
		nan[i] /= nan[i]
	}
	due, got := tensor.New(tensor.Float32, []int{64}, v), tensor.New(tensor.Float32, []int{64}, nan)
	if bits := Evidence(got, due, got); bits > mostEqual*24 {
		t.Errorf("64 NaN explain %.0f bits", bits)
	}
}

// TestPassageText: a limit that is an element passes or does not, which the text says.
func TestPassageText(t *testing.T) {
	inf := math.Inf(1)
	for _, tc := range []struct {
		want string
		p    passage
	}{
		{"at least 0", passage{lo: limit{0, -0.1}, hi: limit{2, inf}}},
		{"above 0", passage{lo: limit{0.1, 0}, hi: limit{2, inf}}},
		{"at most 0", passage{lo: limit{-2, -inf}, hi: limit{0, 0.1}}},
		{"below 0", passage{lo: limit{-2, -inf}, hi: limit{-0.1, 0}}},
		{"above 0 and at most 1", passage{lo: limit{0.5, 0}, hi: limit{1, 2}}},
		{"from 0 to 1", passage{lo: limit{0, -1}, hi: limit{1, 2}}},
		{"below 0 or above 0.5", passage{lo: limit{0, -1}, hi: limit{0.5, 1}, outside: true}},
	} {
		if got := tc.p.text(nil); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
