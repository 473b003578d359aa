package pairs

import (
	"slices"
	"strings"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/compare/alignment"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// sameCalls pairs the calls of a process in two runs, both in order. It pairs by path and
// number. It pairs by sequence if that pairs more calls, or if the pairs by number are in
// another order: one more call shifts all numbers.
func sameCalls(as, bs []*capture.Entry) [][2]*capture.Entry {
	best := byNumber(as, bs)
	crossed := len(alignment.Increasing(best)) < len(best)
	if (crossed || len(best) < min(len(as), len(bs))) && sequential(as) && sequential(bs) {
		x, y := sequence(as), sequence(bs)
		al := alignment.Sequences(len(x), len(y), func(i, j int) int { return x[i].likeness(&y[j]) }, sameShapes, nil)
		al.Settle(func(i, j int) bool { return x[i].alike(&y[j]) })
		if crossed || len(al.Pairs) > len(best) {
			best = al.Pairs
		}
	}
	out := make([][2]*capture.Entry, len(best))
	for n, p := range best {
		out[n] = [2]*capture.Entry{as[p[0]], bs[p[1]]}
	}
	return out
}

// byNumber pairs entries of one path, then those of one operator and number, in the
// order of the first. One that was recorded several times goes with the next one.
func byNumber(as, bs []*capture.Entry) [][2]int {
	partner := map[int]int{}
	taken := map[int]bool{}
	for _, key := range []func(*capture.Entry) any{
		func(e *capture.Entry) any { return e.Rel },
		func(e *capture.Entry) any {
			switch {
			case e.Call != "":
				return e.Call
			case e.Op == "" || e.ID < 0:
				return nil
			}
			return [2]any{e.Op, e.ID}
		},
	} {
		free := map[any][]int{}
		for j, b := range bs {
			if k := key(b); k != nil && !taken[j] {
				free[k] = append(free[k], j)
			}
		}
		for i, a := range as {
			k := key(a)
			if _, has := partner[i]; !has && len(free[k]) > 0 {
				partner[i], taken[free[k][0]], free[k] = free[k][0], true, free[k][1:]
			}
		}
	}
	var out [][2]int
	for i := range as {
		if j, ok := partner[i]; ok {
			out = append(out, [2]int{i, j})
		}
	}
	return out
}

// sequential reports whether entries are calls whose order is known.
func sequential(entries []*capture.Entry) bool {
	return !slices.ContainsFunc(entries, func(e *capture.Entry) bool { return e.Op == "" || e.Position() < 0 })
}

// A placed call is what tells a call from others of a sequence.
type placed struct {
	*capture.Entry
	operator string
	shapes   []string  // of arguments and results, once they were read; never empty then
	numbers  []string  // among the arguments, such as the factor of mul
	values   []float64 // some elements of the result, once they were read; never nil then
}

func sequence(entries []*capture.Entry) []placed {
	out := make([]placed, len(entries))
	for i, e := range entries {
		out[i] = placed{Entry: e, operator: Operator(e.Op)}
	}
	return out
}

// sameShapes is the likeness from which two calls at the same end of both runs are a
// pair: of operator and shapes.
const sameShapes = 5

// likeness is how much speaks for two calls being the same one: operator, shapes, numbers,
// module and line. The shapes count more than the other three together. A call that a recorded call made inside is
// rather another one than a call of the program itself.
func (p *placed) likeness(q *placed) int {
	if p.operator != q.operator {
		return 0
	}
	n := 1
	if slices.Equal(p.metadata(), q.metadata()) {
		n += 4
	}
	if slices.Equal(p.numbers, q.numbers) {
		n++
	}
	if p.Module != "" && p.Module == q.Module {
		n++
	}
	if p.Location != "" && p.Location == q.Location {
		n++
	}
	if p.inside() != q.inside() {
		n = min(n, sameShapes-1)
	}
	return n
}

// inside reports whether a recorded call made this one.
func (p *placed) inside() bool { return p.Within >= 0 }

// metadata are the shapes of the call's arguments and results, and finds its numbers; what cannot be read
// tells nothing.
func (p *placed) metadata() []string {
	if p.shapes != nil {
		return p.shapes
	}
	rec, _ := p.Load(capture.LoadOptions{Only: capture.Of(capture.Input, capture.Output)})
	defer rec.Close()
	p.shapes = []string{""}
	for _, ts := range [][]*tensor.Tensor{rec.Inputs(), rec.Outputs()} {
		for _, t := range ts {
			p.shapes = append(p.shapes, tensor.ShapeString(t.Shape))
		}
		p.shapes = append(p.shapes, "")
	}
	leaves, _ := value.Leaves(rec.Args)
	for _, v := range leaves {
		switch v.(type) {
		case float64, int64:
			p.numbers = append(p.numbers, value.Repr(v))
		}
	}
	return p.shapes
}

// alike reports whether two calls of one operator have the same shapes and about the same
// result: they differ by no more than another precision makes them differ.
func (p *placed) alike(q *placed) bool {
	if p.operator != q.operator || p.inside() != q.inside() || !slices.Equal(p.metadata(), q.metadata()) {
		return false
	}
	a, b := p.look(), q.look()
	if len(a) != len(b) {
		return false
	}
	var apart, size float64
	for i := range a {
		if !finite(a[i]) || !finite(b[i]) { // such as -inf behind a mask
			if !same(a[i], b[i]) {
				return false
			}
			continue
		}
		apart += (a[i] - b[i]) * (a[i] - b[i])
		size += max(a[i]*a[i], b[i]*b[i])
	}
	return apart <= 0.1*size
}

// look reads at most 64 elements of the first result. It finds none in numbers that are not
// floating point, in statistics, and in files that cannot be read.
func (p *placed) look() []float64 {
	if p.values != nil {
		return p.values
	}
	p.values = []float64{}
	rec, _ := p.Load(capture.LoadOptions{Only: capture.Of(capture.Output)})
	defer rec.Close()
	ts := rec.Outputs()
	if len(ts) == 0 || !measurable(ts[0]) {
		return p.values
	}
	defer func() {
		r := recover()
		if _, unreadable := r.(*tensor.ReadError); r != nil && !unreadable {
			panic(r)
		}
	}()
	n := ts[0].Numel()
	for k := range min(n, 64) {
		p.values = append(p.values, tensor.At[float64](ts[0], k*n/min(n, 64)))
	}
	return p.values
}

// Operator is the name of an operator without what comes before it, the same for a
// function, the method and the form that writes in place.
func Operator(op string) string {
	name := op[strings.LastIndexByte(op, '.')+1:]
	if !strings.HasPrefix(name, "__") {
		name = strings.TrimSuffix(name, "_")
	}
	return name
}
