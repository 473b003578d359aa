package step

import (
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
)

// in is a value as floats gives it, rounded to a dtype.
func in(dt tensor.DType, xs ...float64) *Value {
	v := floats(xs...)
	v.DType, v.content.samples = dt, nil
	for _, x := range tensor.Data[float64](tensor.New(dt, []int{len(xs)}, xs)) {
		bytes := tensor.New(dt, []int{1}, []float64{x}).AppendBytes(nil)
		v.content.samples = append(v.content.samples, bitsOf(dt, bytes))
	}
	return v
}

// TestSmallestNumbers: numbers that are too small to have all digits of their dtype differ by more than others, and
// that is rounding.
func TestSmallestNumbers(t *testing.T) {
	smallest := tensor.Float16.ULP(0)
	exact := make([]float64, 256)
	for i := range exact {
		exact[i] = float64(i%8) * smallest
		if i%3 == 1 {
			exact[i] += 0.3 * smallest
		}
	}
	rounded := func() []float64 {
		x := make([]float64, len(exact))
		for i, y := range exact {
			x[i] = tensor.Float16.Round(y)
		}
		return x
	}
	x := rounded()
	if _, n, _, ok := outliers(x, exact, exact, 1, tensor.Float16, 0.6); !ok || n > 0 {
		t.Errorf("%d of %d roundings stand out, %v", n, len(x), ok)
	}
	if !allNear(x, exact, tensor.Float16) {
		t.Errorf("the roundings are not near")
	}
	if ones := []float64{smallest, 0, smallest, 0, -smallest}; allNear(ones, ones, tensor.Float16) {
		t.Errorf("numbers of one digit are said to be the same")
	}
	now, left := in(tensor.Float16, x...), in(tensor.Float16, exact...)
	if !now.content.near(&left.content, now.DType) {
		t.Errorf("fingerprints of the roundings are not near")
	}
	for i := range x {
		x[i] = tensor.Float16.Round(1000 * exact[i])
		exact[i] *= 1000
	}
	x[3] = 0
	if first, n, _, ok := outliers(x, exact, exact, 1, tensor.Float16, 0.75); !ok || n != 1 || first != 3 {
		t.Errorf("%d elements stand out from %d on, %v; want 1 at 3", n, first, ok)
	}
}

// TestBeside: what an update reads beside a gradient is not that gradient, however many elements both have in common.
func TestBeside(t *testing.T) {
	for name, tc := range map[string]struct {
		gradientAt uint64 // where the update reads a value of the form of the gradient
		want       Source
	}{
		"momentum": {32, IsLeaf},
		"copied":   {128, IsChanged},
	} {
		g, v, now := floats(1, 2, 3, 4, 5, 6, 7, 8), floats(1, 2, 3, 4, 5, 6, 70, 80), floats(1, 1, 1, 2, 2, 3, 3, 4)
		g.Call = &Call{Entry: &capture.Entry{}}
		g.Address, v.Address, now.Address = 32, 64, tc.gradientAt
		update := &Call{Entry: &capture.Entry{}, Order: 1, Inputs: []*Value{now, v}}
		update.Step = &Step{Tail: []*Call{update}}
		v.Call, now.Call, v.From.How = update, update, IsLeaf
		like := map[form]*gradients{}
		group(like, g.form(), g)
		v.settleGradient(nil, like[v.form()])
		if v.From.How != tc.want {
			t.Errorf("%s: linked as %q, want %q", name, v.From.How, tc.want)
		}
	}
}

// TestReverses: what a reversible layer computes again by a subtraction is what the forward pass read, up to rounding.
// A value that is not computed again, and another one, are not.
func TestReverses(t *testing.T) {
	dt := tensor.BFloat16
	was, sum := in(dt, 0.1, 0.2, 0.3, -0.4), in(dt, 2, 3, 4, 5)
	near, other := in(dt, 0.11, 0.2, 0.29, -0.41), in(dt, 1, -2, 1, 2)
	loss := &Call{Order: 3}
	step := &Step{Calls: []*Call{loss}}
	for name, tc := range map[string]struct {
		now    *Value
		writes bool
		order  int
		viewed bool
		want   bool
	}{
		"subtracted":                     {now: near, order: 5, want: true},
		"subtracted in place":            {now: near, order: 5, writes: true, want: true},
		"subtracted, then viewed":        {now: near, order: 5, viewed: true, want: true},
		"another value":                  {now: other, order: 5},
		"older than the backward pass":   {now: near, order: 2},
		"a view of what is older":        {now: near, order: 2, viewed: true},
		"in place before the first loss": {now: near, order: 2, writes: true},
	} {
		call := func(order int, writes bool, reads *Value, makes Value) *Value {
			c := &Call{Order: order, Step: step, writes: writes, Inputs: []*Value{reads}}
			makes.Kind, makes.Call = outputKind, c
			c.Outputs = []*Value{&makes}
			return c.Outputs[0]
		}
		read, made := *sum, *tc.now
		read.Address, made.Address, read.content.sum, made.content.sum = 64, 128, 1, 2
		if tc.writes {
			made.Address = 64
		}
		w := call(tc.order, tc.writes, &read, made)
		if tc.viewed {
			u := *w
			u.Kind, u.From = inputKind, Link{How: ByStorage, Value: w}
			w = call(6, false, &u, *w)
		}
		v := *w
		v.Kind, v.From, v.Call = inputKind, Link{How: ByStorage, Value: w}, &Call{Order: 7, Step: step}
		step.Tail = []*Call{{Order: 4, Step: step}, v.Call}
		if got := v.reverses(was); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestCovers: a reader that lies elsewhere may be another tensor with the same elements.
func TestCovers(t *testing.T) {
	v, r := floats(1, 2, 3, 4), floats(1, 2, 3, 4)
	for _, tc := range []struct {
		v, r uint64
		want bool
	}{{64, 64, true}, {64, 72, true}, {64, 80, false}, {64, 32, false}, {0, 32, true}, {64, 0, true}} {
		if v.Address, r.Address = tc.v, tc.r; v.covers(r) != tc.want {
			t.Errorf("a reader at %d of a value at %d: %v, want %v", tc.r, tc.v, !tc.want, tc.want)
		}
	}
}

// TestUnzeroedBegins: a momentum that recorded calls made of what the update before left is no gradient that was not
// set to zero, though it is a sum where 0.9 times a number is rounded to the number. One that a backward pass added to
// is.
func TestUnzeroedBegins(t *testing.T) {
	dt := tensor.Float16
	u := dt.ULP(0)
	left, given, sum := in(dt, u, 2*u, 3*u, -u, 2*u), in(dt, u, u, 2*u, u, 0), in(dt, 2*u, 3*u, 5*u, 0, 2*u)
	left.content.sum, sum.content.sum = 1, 2
	for name, tc := range map[string]struct {
		began *Value
		want  bool
	}{"momentum": {left, false}, "gradient": {sum, true}} {
		step := &Step{}
		was, first, v := *left, *tc.began, *sum
		was.Kind, was.Address, first.Address, v.Address = outputKind, 64, 64, 64
		was.Call, first.Call = &Call{}, &Call{Order: 1, Step: step}
		v.Call = &Call{Order: 2, Step: step}
		step.tailAt = map[uint64][]*Value{64: {&first, &v}}
		x := unzeroed{v: &v, left: &was}
		all, _ := sumOf([]*Value{given})
		if got := x.addedTo(all); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
