package opdef

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
)

// A Mistake is a way in which kernels compute an operator wrongly.
type Mistake[P any] struct {
	Text string // "the variance is divided by n - 1, not n"
	// Rounds: values are rounded on the way, so that one that lies near the middle between
	// two may come out as the other.
	Rounds bool
	// Gradients: kernels with the mistake give results as they are due. What Plan makes of results says nothing.
	Gradients bool
	// Step: a step is left out, or done otherwise, of a formula that is right as it is.
	Step bool
	// Precision: results are rounded, or sums are kept, in the dtype of the result. A warning says so.
	Precision bool
	// Kept: gradients are not derived of the steps, but computed of what these give.
	Kept bool
	// Formula is what is computed, and what is due: "x, not x^2"; empty if that takes long to say.
	Formula string
	Plan    func() (P, error)
}

// Said is the text with the formula, which says what stays and what operands are that have no name.
func (m Mistake[P]) Said() string {
	if m.Formula == "" {
		return m.Text
	}
	text := m.Text
	if strings.HasSuffix(text, " stays") {
		text = text[:strings.LastIndex(text, ": ")]
	}
	text = strings.Replace(text, " of its first operand and its second operand", "", 1)
	prefix := ""
	if rest, is := strings.CutPrefix(text, "in the gradient, "); is {
		prefix, text = "in the gradient, ", rest
	}
	step, _, named := strings.Cut(text, " of ")
	switch unnamed := slices.ContainsFunc([]string{"its operand", "its first operand", "its second operand"},
		func(name string) bool { return strings.Contains(text, name) }); {
	case unnamed && named && strings.HasSuffix(text, " is left out"):
		text = step + " is left out"
	case unnamed:
		return prefix + "it computes " + m.Formula
	}
	return prefix + text + ": it computes " + m.Formula
}

// planAs is a mistake that is another's but for its plan.
func planAs[P, Q any](m Mistake[P], plan func() (Q, error)) Mistake[Q] {
	return Mistake[Q]{m.Text, m.Rounds, m.Gradients, m.Step, m.Precision, m.Kept, m.Formula, plan}
}

// MistakesOf are mistakes of a part of a plan as those of the plan, which of makes of the part.
func MistakesOf[P any](ms []Mistake[P], of func(P) any) []Mistake[any] {
	out := make([]Mistake[any], len(ms))
	for i, m := range ms {
		out[i] = planAs(m, func() (any, error) {
			p, err := m.Plan()
			if err != nil {
				return nil, err
			}
			return of(p), nil
		})
	}
	return out
}

// Mistakes are calls that compute what kernels with a mistake give. They have the
// arguments of c, which must have run.
func (c *Call) Mistakes() []Mistake[*Call] {
	var out []Mistake[*Call]
	for _, m := range c.sound().mistakes() {
		run := func() (*Call, error) {
			plan, err := m.Plan()
			return c.planned(plan, err)
		}
		out = append(out, planAs(m, run))
	}
	return out
}

// Variations are calls that do one step of the operator in another way. The call must have run.
func (c *Call) Variations() []Mistake[*Call] {
	plan := c.sound()
	varied, ok := plan.plan.(Varied)
	if !ok {
		return nil
	}
	var out []Mistake[*Call]
	for _, m := range varied.Variations() {
		run := func() (*Call, error) {
			p, err := plan.made(m.Plan)
			return c.planned(p, err)
		}
		out = append(out, planAs(m, run))
	}
	return out
}

// Formula is that of the first result; empty if there is none, or if it takes long to say. The call must have run.
func (c *Call) Formula() string {
	if varied, ok := c.sound().plan.(Varied); ok {
		return varied.Formula()
	}
	return ""
}

// WithTakenFor sets names of operators that kernels are known to compute in place of this
// one: of the same arguments, or of those that are required.
func (e *Entry) WithTakenFor(names ...string) *Entry {
	e.TakenFor = names
	return e
}

// Tiles are how many elements of a sum or a dimension kernels take at a time.
var Tiles = []int{1, 4, 8, 16, 32, 64, 128}

// Tails are how many of n elements lie in an incomplete tile, or in the last one of all.
func Tails(n int) []int {
	var out []int
	for _, tile := range Tiles {
		if tail := cmp.Or(n%tile, tile); tail < n && !slices.Contains(out, tail) {
			out = append(out, tail)
		}
	}
	return out
}

// Remainders are how many of n elements lie in an incomplete tile, of vectors or blocks.
func Remainders(n int) []int {
	var out []int
	for tile := 8; tile <= 128 && tile < n; tile *= 2 {
		if rest := n % tile; rest > 0 && !slices.Contains(out, rest) {
			out = append(out, rest)
		}
	}
	return out
}

// Parts are how many of n elements kernels take that lose the others: one, half of them, one tile, or all but a tail.
func Parts(n int) []int {
	var out []int
	add := func(m int) {
		if m > 0 && m < n && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	for _, tail := range Tails(n) {
		add(n - tail)
	}
	add(1)
	add(n / 2)
	for tile := 8; tile < n; tile *= 2 {
		add(tile)
	}
	return out
}

// ShortGradient says that sums of gradients lack so many of n terms.
func ShortGradient(last, n int) string {
	return fmt.Sprintf("the sum in the gradient lacks the last %d of %d terms", last, n)
}

// A Grid is a coarser set of numbers than a dtype's, to which kernels round, or by whose bits they
// cut numbers off.
type Grid struct {
	Name  string
	eps   float64
	Round func(float64) float64
	cut   bool
}

// Rounded says what is done to numbers: they are "rounded to bfloat16".
func (g Grid) Rounded() string {
	if g.cut {
		return "cut off after the bits of " + g.Name
	}
	return "rounded to " + g.Name
}

// CoarserGrids are the grids that have fewer bits than dt, from fine to coarse.
func CoarserGrids(dt tensor.DType) []Grid {
	var out []Grid
	for _, g := range []Grid{
		{"TF32", 0x1p-10, roundTF32, false},
		{tensor.Float16.String(), tensor.Float16.Eps(), tensor.Float16.Round, false},
		{tensor.BFloat16.String(), tensor.BFloat16.Eps(), tensor.BFloat16.Round, false},
	} {
		if dt.IsFloat() && dt.Eps() < g.eps {
			out = append(out, g)
		}
	}
	return out
}

// GridOf are the numbers of a dtype.
func GridOf(dt tensor.DType) Grid { return Grid{dt.String(), dt.Eps(), dt.Round, false} }

// SumGrids are the grids in which kernels keep the sums of a dtype: that of the dtype, if it has few bits, and coarser
// ones.
func SumGrids(dt tensor.DType) []Grid {
	var out []Grid
	if dt.IsReduced() {
		out = []Grid{GridOf(dt)}
	}
	return append(out, slices.DeleteFunc(CoarserGrids(dt), func(g Grid) bool { return g.Name == "TF32" })...)
}

// Keeps reports whether the grid has all numbers of a dtype.
func (g Grid) Keeps(dt tensor.DType) bool { return g.Name == dt.String() }

// FactorGrids are the grids to which kernels bring the factors of products in float32: CoarserGrids, and those
// by whose bits they are cut off, as units for TF32 do that are given float32, and copies of the upper halves.
func FactorGrids(dt tensor.DType) []Grid {
	out := CoarserGrids(dt)
	if dt == tensor.Float32 {
		out = append(out, Grid{"TF32", 0x1p-10, cutOff(13), true},
			Grid{tensor.BFloat16.String(), tensor.BFloat16.Eps(), cutOff(16), true})
	}
	return out
}

// cutOff clears the last bits of float32 numbers.
func cutOff(bits int) func(float64) float64 {
	return func(x float64) float64 {
		return float64(math.Float32frombits(math.Float32bits(float32(x)) >> bits << bits))
	}
}

// OnGrid is t with every element rounded to the grid.
func (g Grid) OnGrid(t *tensor.Tensor) *tensor.Tensor { return Map(t.DType, t, g.Round) }

// roundTF32 rounds to the ten stored bits of NVIDIA's TensorFloat-32, ties away from
// zero as its conversion (cvt.rna.tf32.f32) does.
func roundTF32(x float64) float64 {
	b := math.Float32bits(float32(x))
	return float64(math.Float32frombits((b + 0x1000) &^ 0x1fff))
}
