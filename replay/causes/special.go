package causes

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A spot is where a value is wrong, told by what the operands hold: it is wrong at all those elements and at no others.
// It is one number there, and another one is due. Both are multiples of the incoming gradient if there is one. That is
// all that such values tell: many functions give it.
type spot struct {
	where    string // "self is 0"
	got, due float64
}

// A spotted is a value that may be wrong at a spot, with the incoming gradient of a gradient.
type spotted struct {
	wrong    []bool
	skipped  []bool // where the incoming gradient is 0: nothing can be told
	regions  bool   // ranges of numbers are spots, too
	got, due float64
}

// spotOf is the spot at which a value is wrong, nil if there is none.
func spotOf(operands []opdef.Arg, got, due, up *tensor.Tensor) *spot {
	if got.DType.IsComplex() || got.Numel() != due.Numel() || got.Numel() > largestOperand {
		return nil
	}
	s := spottedOf(got, due, up)
	if s == nil {
		return nil
	}
	var names []string
	var all [][]float64
	for _, a := range operands {
		if a.Tensor.DType.IsComplex() {
			continue
		}
		if x, err := a.Tensor.Expand(got.Shape...); err == nil && slices.Equal(x.Shape, got.Shape) {
			names, all = append(names, argName(a)), append(all, elements(x))
		}
	}
	for i, name := range names {
		if where := s.whereOne(name, all[i]); where != "" {
			return &spot{where, s.got, s.due}
		}
	}
	for i := range names {
		for k := i + 1; k < min(len(names), mostFit); k++ {
			if where := s.whereTwo(names[i], names[k], all[i], all[k]); where != "" {
				return &spot{where, s.got, s.due}
			}
		}
	}
	return nil
}

// spottedOf is a value some of whose elements are wrong, all in the same way; nil of others.
func spottedOf(got, due, up *tensor.Tensor) *spotted {
	x, y := elements(got), elements(due)
	dt := got.DType
	s := &spotted{wrong: make([]bool, len(x)), skipped: make([]bool, len(x)),
		regions: up != nil || dt == tensor.Bool}
	var u []float64
	near := 0.0
	if up != nil {
		if !slices.Equal(up.Shape, got.Shape) {
			return nil
		}
		u, near = elements(up), 4*dt.Eps()
	}
	n := 0
	for i := range x {
		g, d := x[i], y[i]
		if dt.IsFloat() {
			d = dt.Round(d)
		}
		off := isOff(dt, g, d)
		if u != nil {
			g, d = g/u[i], d/u[i]
			if s.skipped[i] = u[i] == 0; s.skipped[i] {
				continue
			}
		}
		if s.wrong[i] = off; !off {
			continue
		}
		if n++; n == 1 {
			s.got, s.due = g, d
		}
		same := func(a, b float64) bool { return alike(a, b) || math.Abs(a-b) <= near*math.Abs(b) }
		if !same(g, s.got) || !same(d, s.due) {
			return nil
		}
	}
	if n < leastInPart || n == len(x) {
		return nil
	}
	return s
}

// only reports whether the value is wrong at all elements that hold, and at no others.
func (s *spotted) only(holds func(i int) bool) bool {
	for i, wrong := range s.wrong {
		if !s.skipped[i] && wrong != holds(i) {
			return false
		}
	}
	return true
}

// whereOne says at which elements of an operand the value is wrong; empty if that cannot be told.
func (s *spotted) whereOne(name string, x []float64) string {
	first := x[slices.Index(s.wrong, true)]
	switch {
	case s.only(func(i int) bool { return alike(x[i], first) }):
		return fmt.Sprintf("%s is %s", name, plainValue(first))
	case s.only(func(i int) bool { return math.IsInf(x[i], 0) }):
		return name + " is infinite"
	case s.only(func(i int) bool { return math.IsInf(x[i], 0) || math.IsNaN(x[i]) }):
		return name + " is infinite or NaN"
	case !s.regions:
		return ""
	}
	if r := s.region(func(i int) float64 { return x[i] }); r != nil {
		return fmt.Sprintf("%s is %s", name, r)
	}
	if r := s.region(func(i int) float64 { return math.Abs(x[i]) }); r != nil {
		return fmt.Sprintf("the magnitude of %s is %s", name, r)
	}
	return ""
}

// whereTwo is whereOne of two operands.
func (s *spotted) whereTwo(a, b string, x, y []float64) string {
	k := slices.Index(s.wrong, true)
	if s.only(func(i int) bool { return alike(x[i], x[k]) && alike(y[i], y[k]) }) {
		return fmt.Sprintf("%s is %s and %s is %s", a, plainValue(x[k]), b, plainValue(y[k]))
	}
	if s.only(func(i int) bool { return x[i] == y[i] }) {
		return fmt.Sprintf("%s equals %s", a, b)
	}
	if s.only(func(i int) bool { return math.IsNaN(x[i]) || math.IsNaN(y[i]) }) {
		return fmt.Sprintf("%s or %s is NaN", a, b)
	}
	if !s.regions {
		return ""
	}
	apart := func(i int) float64 {
		if x[i] == y[i] {
			return math.Inf(1) // they are equal, not near
		}
		return math.Abs(x[i] - y[i])
	}
	if r := s.region(apart); r != nil && r.below {
		return fmt.Sprintf("%s and %s differ by up to %.4g", a, b, r.wrong)
	}
	return ""
}

// region is the range on one side of some number in which the value is wrong, nil if there is none.
func (s *spotted) region(of func(i int) float64) *region { return side(s.wrong, s.skipped, of) }

// isOff reports whether an element of that dtype is not what is due.
func isOff(dt tensor.DType, got, due float64) bool {
	if !dt.IsFloat() {
		return got != due
	}
	return math.Abs(got-due) > 4*dt.ULP(due) || math.IsNaN(got) != math.IsNaN(due)
}

// plainValue is the text of a number that elements are.
func plainValue(x float64) string {
	if x == 0 {
		return "0"
	}
	return constant(x)
}

// atSpot says of a value that is wrong only at a spot where that is, and what the value is there.
func (c *Search) atSpot(r *Wrong) *Cause {
	got, want, ok := r.Pair()
	if !ok {
		return nil
	}
	up := c.incomingOf(r)
	if up == nil && r.Backward() {
		return nil
	}
	var s *spot
	if c.Guard(func() error { s = spotOf(c.readable(), got, want, up); return nil }) != nil || s == nil {
		return nil
	}
	name := func(x float64) string {
		switch {
		case up != nil && math.Abs(x-1) <= 4*got.DType.Eps():
			return "the incoming gradient"
		case up != nil && x != 0:
			return "the incoming gradient times " + strconv.FormatFloat(x, 'g', 7, 32)
		case got.DType == tensor.Bool:
			return cond(x != 0, "True") + cond(x == 0, "False")
		}
		return plainValue(x)
	}
	text := fmt.Sprintf("where %s, it is %s, not %s", s.where, name(s.got), name(s.due))
	return &Cause{Text: text, Targets: []string{r.Target}, Exact: true, Share: 1, Bits: Plenty}
}

// ofOneNumber reports whether all operands have one number each where a value is wrong, so that many functions of them
// give what is recorded. There is an operand, and each is there element for element.
func (c *Search) ofOneNumber(got, due *tensor.Tensor) bool {
	if !got.DType.IsFloat() || got.Numel() != due.Numel() || got.Numel() > largestOperand {
		return false
	}
	operands := c.readable()
	if len(operands) == 0 {
		return false
	}
	x, y := elements(got), elements(due)
	for _, a := range operands {
		t, err := a.Tensor.Expand(got.Shape...)
		if err != nil || !slices.Equal(t.Shape, got.Shape) || t.DType.IsComplex() {
			return false
		}
		v, first := elements(t), -1
		for i := range v {
			if !isOff(got.DType, x[i], got.DType.Round(y[i])) {
				continue
			}
			if first < 0 {
				first = i
			}
			if !alike(v[i], v[first]) {
				return false
			}
		}
	}
	return true
}

// degrees is how many numbers an operand has, where these are so few that they limit what other numbers explain; 0 of
// others.
func (c *Search) degrees(t *tensor.Tensor) int {
	if n := t.Numel(); n <= fewDegrees {
		return n
	}
	return 0
}

// fewDegrees are so many numbers that what is fitted to them by chance is worth looking at.
const fewDegrees = 4

// Held is how many bits the numbers of a value hold at most that a mistake takes for others.
func (m Mistake) Held(dt tensor.DType) float64 {
	if m.Degrees == 0 || !dt.IsFloat() {
		return Plenty
	}
	return float64(m.Degrees) * (4 - math.Log2(dt.Eps()))
}

// incomingOf is the incoming gradient of a gradient that has its shape, nil if there is none. Operators that compute
// gradients take it as an argument.
func (c *Search) incomingOf(r *Wrong) *tensor.Tensor {
	if r.Forward() {
		for _, a := range c.operands() {
			if strings.HasPrefix(a.Name, "grad_out") && slices.Equal(a.Tensor.Shape, r.Got.Shape) {
				return a.Tensor
			}
		}
		return nil
	}
	if !r.Backward() || len(c.Incoming) == 0 || c.Incoming[0] == nil ||
		!slices.Equal(c.Incoming[0].Shape, r.Got.Shape) {
		return nil
	}
	return c.Incoming[0]
}

// AtSpot is how many bits at most are explained of a value that is wrong only at a spot, or where all operands have one
// number: those of one element. The bits of all others are plenty.
func (c *Search) AtSpot(r *Wrong) float64 {
	got, due, ok := r.Pair()
	if !ok {
		return Plenty
	}
	if c.ofOneNumber(got, due) {
		return leastBits - 1
	}
	up := c.incomingOf(r)
	if up == nil && r.Backward() {
		return Plenty
	}
	s := spotOf(c.readable(), got, due, up)
	if s == nil {
		return Plenty
	}
	return min(significant(s.got), leastBits-1)
}
