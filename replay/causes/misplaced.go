package causes

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/tensor"
)

// misplacedResults are results of which parts along a dimension were not written, or stand
// elsewhere (heads, channels or rows in another order, or repeated), or that lie in memory in
// another order of dimensions.
func (c *Search) misplacedResults(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for i := range fails {
			got, want, ok := fails[i].floats()
			if !ok {
				if !c.misplacedComplex(&fails[i], yield) {
					return
				}
				continue
			}
			x, y, ok := c.read(got, want)
			if !ok {
				continue
			}
			m := &misplaced{shape: got.Shape, got: x, want: y, near: 16 * got.DType.Eps()}
			if got.DType.IsReduced() {
				m.near = 4 * got.DType.Eps()
			}
			for _, a := range m.arrangements() {
				if !yield(Mistake{Text: a.text, Cost: a.cost, Rounds: a.rounds,
					Make: c.resultIs(fails[i].Target, a.from)}) {
					return
				}
			}
		}
	}
}

// misplacedComplex yields complex results of which parts along a dimension were not written, or stand elsewhere; it is
// false when no more are wanted. Real and imaginary parts are a dimension more.
func (c *Search) misplacedComplex(r *Wrong, yield func(Mistake) bool) bool {
	got, want, ok := r.Pair()
	if !ok || !got.DType.IsComplex() || !want.DType.IsComplex() || !slices.Equal(got.Shape, want.Shape) ||
		got.Numel() > largestOperand {
		return true
	}
	m := &misplaced{shape: append(slices.Clone(got.Shape), 2), near: 16 * tensor.Float32.Eps()}
	if c.Guard(func() error { m.got, m.want = bothParts(got), bothParts(want); return nil }) != nil {
		return true
	}
	for d := range got.Shape {
		for _, a := range append(m.partly(d), m.inOrder(d, fmt.Sprintf("dimension %d", d))...) {
			if !yield(Mistake{Text: a.text, Cost: a.cost, Rounds: a.rounds,
				Make: c.altering(func(target string, t *tensor.Tensor) *tensor.Tensor {
					if target != r.Target || !slices.Equal(t.Shape, got.Shape) {
						return t
					}
					return gathered(t, func(i int) int {
						if from := a.from(2 * i); from >= 0 {
							return from / 2
						}
						return -1
					})
				})}) {
				return false
			}
		}
	}
	return true
}

// bothParts are the real and the imaginary part of each element.
func bothParts(t *tensor.Tensor) []float64 {
	v := tensor.Make[complex128](t.Numel())
	tensor.Load(t, 0, v)
	out := make([]float64, 0, 2*len(v))
	for _, x := range v {
		out = append(out, real(x), imag(x))
	}
	return out
}

// An arrangement is where each element of a result comes from: from is its place in what is due, -1 for 0.
type arrangement struct {
	text   string
	cost   float64
	rounds bool
	from   func(j int) int
}

// arrangements are those of what is due that give the recorded result.
func (m *misplaced) arrangements() (all []arrangement) {
	for d := range m.shape {
		all = append(all, m.partly(d)...)
		all = append(all, m.inOrder(d, fmt.Sprintf("dimension %d", d))...)
	}
	if side, of := m.triangle(); side != "" {
		all = append(all, arrangement{"elements " + side + " the diagonal are " + zeroUnwritten, 1, false, of})
	}
	if d := m.backwards(); d >= 0 {
		inner := tensor.Numel(m.shape[d:])
		all = append(all, arrangement{fmt.Sprintf("it is written backwards from dimension %d on", d), 0, true,
			func(j int) int { return j/inner*inner + inner - 1 - j%inner }})
	}
	if dims := m.dimensions(); dims != nil {
		all = append(all, arrangement{dimensionsText(m.shape, dims), 0, true, laidOut(m.shape, dims)})
	}
	if last := len(m.shape) - 1; last > 1 { // rows of all dimensions but the last
		rows := *m
		rows.shape = []int{tensor.Numel(m.shape[:last]), m.shape[last]}
		all = append(all, rows.inOrder(0, fmt.Sprintf("sequence of %d rows", rows.shape[0]))...)
	}
	return all
}

// partly is the arrangement of which parts along a dimension are not written, if there is one.
func (m *misplaced) partly(d int) []arrangement {
	n, inner := m.length(d), m.inner(d)
	if n < 2 {
		return nil
	}
	parts := m.unwritten(d)
	if parts == nil {
		return nil
	}
	text := unwrittenText(d, n, parts)
	if text == "" {
		return nil
	}
	return []arrangement{{text, 2 * math.Log2(float64(n)), false, func(j int) int {
		if slices.Contains(parts, j/inner%n) {
			return -1
		}
		return j
	}}}
}

// inOrder is the arrangement of which the parts along a dimension, that is named, stand in another order, if there is
// one.
func (m *misplaced) inOrder(d int, name string) []arrangement {
	n, inner := m.length(d), m.inner(d)
	if n < 2 {
		return nil
	}
	order := m.order(d)
	if order == nil {
		return nil
	}
	if times := m.tiled(d); times > 0 {
		return []arrangement{{fmt.Sprintf("its %s holds %d parts one after the other %d times, not each of them %d times",
			name, n/times, times, times), math.Log2(float64(n)), true, func(j int) int {
			at := j / inner % n
			return j + (at%(n/times)*times-at)*inner
		}}}
	}
	return []arrangement{{order.text(name), order.cost(), true, func(j int) int {
		at := j / inner % n
		return j + (order[at]-at)*inner
	}}}
}

// exchanged are results, or gradients, of a call of several, two of them in each other's place.
func (c *Search) exchanged(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for _, pass := range []struct{ prefix, what string }{{"output", "results"}, {"grad", "gradients"}} {
			var targets []string
			due := map[string]*tensor.Tensor{}
			for target, t := range c.Due(pass.prefix) {
				if slices.ContainsFunc(fails, func(w Wrong) bool { return w.Target == target }) {
					targets, due[target] = append(targets, target), t
				}
			}
			if len(targets) > mostResults {
				continue
			}
			for i, a := range targets {
				for _, b := range targets[i+1:] {
					if !slices.Equal(due[a].Shape, due[b].Shape) {
						continue
					}
					other := map[string]*tensor.Tensor{a: due[b], b: due[a]}
					text := fmt.Sprintf("%s %s and %s are exchanged", pass.what, number(a), number(b))
					if !yield(Mistake{Text: text, Rounds: true, Make: c.altering(
						func(target string, t *tensor.Tensor) *tensor.Tensor { return cmp.Or(other[target], t) })}) {
						return
					}
				}
			}
		}
	}
}

// number is the number in a target: "1" of "output[1]".
func number(target string) string {
	_, rest, _ := strings.Cut(target, "[")
	return strings.TrimSuffix(rest, "]")
}

// mostResults is the number of results up to which all pairs are tried.
const mostResults = 8

// passedGradients are those that a kernel passes on as they come.
func (c *Search) passedGradients() iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		yield(Mistake{Text: "the incoming gradient is passed on as it is", Make: func() (Way, error) {
			var up *tensor.Tensor // which comes before the gradients that are made of it
			return Way{Call: c.Bound, Original: c.Original,
				Alter: func(target string, t *tensor.Tensor) *tensor.Tensor {
					switch {
					case target == Incoming:
						up = t
					case up != nil && strings.HasPrefix(target, "grad[") && slices.Equal(up.Shape, t.Shape):
						return up
					}
					return t
				}}, nil
		}})
	}
}

// resultIs is the call of which one value has at place i the element at place from(i), 0
// where that is negative.
func (c *Search) resultIs(target string, from func(i int) int) func() (Way, error) {
	return c.altering(func(of string, t *tensor.Tensor) *tensor.Tensor {
		if of != target {
			return t
		}
		v := elements(t)
		out := tensor.Make[float64](len(v))
		for i := range out {
			if j := from(i); j >= 0 {
				out[i] = v[j]
			}
		}
		return tensor.New(t.DType, t.Shape, out)
	})
}

// valueHas is the call of which one value has the elements of a tensor, if that has its shape.
func (c *Search) valueHas(target string, made *tensor.Tensor) func() (Way, error) {
	return c.altering(func(of string, due *tensor.Tensor) *tensor.Tensor {
		if of != target || !slices.Equal(due.Shape, made.Shape) {
			return due
		}
		return tensor.New(due.DType, due.Shape, elements(made))
	})
}

// A misplaced is a recorded value and the one that is due, of one shape.
type misplaced struct {
	shape     []int
	got, want []float64
	near      float64 // of the largest element of a part, that rounding may change an element by
}

func (m *misplaced) length(d int) int { return m.shape[d] }

// inner is how far apart neighbours along a dimension lie.
func (m *misplaced) inner(d int) int { return tensor.Numel(m.shape[d+1:]) }

// unwritten are the parts along a dimension that hold zeros alone where other numbers are
// due, nil if there are none, or too few elements to tell that from something else. The end
// of a dimension may be one element.
func (m *misplaced) unwritten(d int) []int {
	n, inner := m.length(d), m.inner(d)
	zero, due := slices.Repeat([]bool{true}, n), tensor.Make[bool](n)
	for i, x := range m.got {
		at := i / inner % n
		zero[at] = zero[at] && x == 0
		due[at] = due[at] || m.want[i] != 0
	}
	var parts []int
	for at := range n {
		if zero[at] && due[at] {
			parts = append(parts, at)
		}
	}
	end := len(parts) > 0 && parts[0] == n-len(parts)
	if len(parts) == n || !end && len(parts)*(len(m.got)/n) < leastInPart {
		return nil
	}
	return parts
}

// triangle is the side of the diagonal of matrices on which all is 0 and something else is due, with where what is
// written comes from; empty if there is none.
func (m *misplaced) triangle() (side string, from func(j int) int) {
	d := len(m.shape) - 2
	if d < 0 || m.shape[d] < 2 || m.shape[d+1] < 2 {
		return "", nil
	}
	cols := m.shape[d+1]
	for _, side := range []string{"below", "above"} {
		hidden := func(j int) bool {
			row, col := j/cols%m.shape[d], j%cols
			return side == "below" && col < row || side == "above" && col > row
		}
		due, zero := 0, true
		for j, x := range m.got {
			if hidden(j) {
				zero = zero && x == 0
				due += btoi(m.want[j] != 0)
			} else if x == 0 && m.want[j] != 0 {
				zero = false
			}
		}
		if zero && due >= leastInPart {
			return side, func(j int) int {
				if hidden(j) {
					return -1
				}
				return j
			}
		}
	}
	return "", nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// zeroUnwritten is said of parts that are zero. That nobody wrote them is one reason.
const zeroUnwritten = "zero, " + asIfUnwritten

// unwrittenText says which of n parts are not written: the last, others that follow each
// other, or every so many; empty of parts that have no such order.
func unwrittenText(d, n int, parts []int) string {
	k, first, last := len(parts), parts[0], parts[len(parts)-1]
	if k == 1 {
		if first == n-1 {
			return fmt.Sprintf("the last of dimension %d is "+zeroUnwritten, d)
		}
		return fmt.Sprintf("index %d of dimension %d is "+zeroUnwritten, first, d)
	}
	step, ok := progression(parts)
	switch {
	case !ok:
		return ""
	case first == n-k:
		return fmt.Sprintf("the last %d of dimension %d are "+zeroUnwritten, k, d)
	case step == 1:
		return fmt.Sprintf("indices %d to %d of dimension %d are "+zeroUnwritten, first, last, d)
	case first < step && last+step >= n:
		return fmt.Sprintf("each index of dimension %d that is %d mod %d is "+zeroUnwritten, d, first, step)
	}
	return ""
}

const (
	mostPermuted  = 256 // length up to which a dimension is looked at for another order
	mostMoved     = 8   // parts of a longer one that may stand elsewhere
	leastInPart   = 4   // elements of a part that show which it is
	leastInNarrow = 16  // elements of 16 bits of which an order of dimensions is looked for
)

// order is for each recorded part along a dimension which of those due it is, nil if
// some are none of them, or all in place.
func (m *misplaced) order(d int) order {
	n := m.length(d)
	switch {
	case len(m.got)/max(n, 1) < leastInPart:
		return nil
	case n > mostPermuted:
		return m.fewMoved(d)
	}
	for by := 1; by < n; by++ { // all turned, which parts of zeros do not hide
		turned := true
		for i := 0; i < n && turned; i++ {
			turned = m.same(d, i, (i+by)%n)
		}
		if turned && slices.ContainsFunc(upTo(0, n), func(i int) bool { return !m.same(d, i, i) }) {
			order := upTo(by, n+by)
			for i := range order {
				order[i] %= n
			}
			return order
		}
	}
	order, used, moved := upTo(0, n), tensor.Make[bool](n), false
	slices.Reverse(order)
	if !slices.ContainsFunc(order, func(i int) bool { return !m.same(d, n-1-i, i) }) {
		return order // backwards, which parts of zeros do not hide either
	}
	for i := range n { // parts that are in place stay there
		if order[i] = -1; m.same(d, i, i) && !m.nearerElsewhere(d, i) {
			order[i], used[i] = i, true
		}
	}
	for i := range n {
		if order[i] == i {
			continue
		}
		nearest := math.Inf(1)
		for j := range n { // the nearest, and of those as near one that no other part is
			if !m.same(d, i, j) {
				continue
			}
			away := m.distance(d, i, j)
			if order[i] < 0 || 2*away < nearest || away <= 2*nearest && used[order[i]] && !used[j] {
				order[i], nearest = j, away
			}
		}
		if order[i] < 0 {
			return nil
		}
		used[order[i]] = true
		moved = moved || order[i] != i
	}
	for i := 1; i < n && slices.Contains(used, false); i++ { // equal parts move with the one before them
		by := order[i-1] - (i - 1)
		if j := i + by; by != 0 && j >= 0 && j < n && order[i] != j && m.same(d, i, j) &&
			m.distance(d, i, j) <= m.distance(d, i, order[i]) && (order[i] != i || i+1 < n && order[i+1] == j+1) {
			order[i] = j
		}
	}
	if !moved || slices.Contains(used, false) && m.emptied(d, order) {
		return nil
	}
	return order
}

// tiled is how many times parts are due to be repeated, each by itself, that are repeated together; 0 if it is not so.
func (m *misplaced) tiled(d int) int {
	n := m.length(d)
	for times := 2; times <= n/2; times++ {
		if n%times != 0 {
			continue
		}
		due, inner := *m, m.inner(d)
		due.got = m.want
		is := !slices.ContainsFunc(upTo(0, n), func(i int) bool {
			return !m.same(d, i, i%(n/times)*times) || !due.same(d, i, i/times*times)
		})
		if is && inner > 0 {
			return times
		}
	}
	return 0
}

// emptied reports whether a part that an order moves holds zeros: of an order that is no permutation, that is a part
// to which nothing was written.
func (m *misplaced) emptied(d int, o order) bool {
	n, inner := m.length(d), m.inner(d)
	zero := slices.Repeat([]bool{true}, n)
	for i, x := range m.got {
		at := i / inner % n
		zero[at] = zero[at] && x == 0
	}
	moved, _ := o.moved()
	return slices.ContainsFunc(moved, func(i int) bool { return zero[i] })
}

// fewMoved is order of a long dimension of which few parts are not those that are due: each is
// the nearest that it can be.
func (m *misplaced) fewMoved(d int) []int {
	n := m.length(d)
	order, moved := upTo(0, n), []int(nil)
	for i := range n {
		if !m.same(d, i, i) {
			if moved = append(moved, i); len(moved) > mostMoved {
				return nil
			}
		}
	}
	for _, i := range moved {
		for away := 1; away < n && order[i] == i; away++ {
			for _, j := range []int{i - away, i + away} {
				if j >= 0 && j < n && m.same(d, i, j) {
					order[i] = j
					break
				}
			}
		}
		if order[i] == i {
			return nil
		}
	}
	if len(moved) == 0 {
		return nil
	}
	return order
}

// backwards is the dimension from which on all elements stand in the opposite order, -1 if there
// is none: more than one dimension, since another order of one is found anyhow.
func (m *misplaced) backwards() int {
	size := 0.0
	for _, y := range m.want {
		size = math.Max(size, math.Abs(y))
	}
	for d := len(m.shape) - 2; d >= 0 && size > 0; d-- {
		inner, opposite, moved := tensor.Numel(m.shape[d:]), true, 0
		for i := 0; i < len(m.got) && opposite; i++ {
			y := m.want[i/inner*inner+inner-1-i%inner]
			opposite = math.Abs(m.got[i]-y) <= m.near*size
			if math.Abs(m.want[i]-y) > 2*m.near*size {
				moved++
			}
		}
		if opposite && moved >= leastInPart {
			return d
		}
	}
	return -1
}

// same reports whether the recorded part i along a dimension is the part j that is due, or both
// are zeros.
func (m *misplaced) same(d, i, j int) bool {
	n, inner := m.length(d), m.inner(d)
	size := 0.0 // of the part; 0 if all of it are zeros
	for base := 0; base < len(m.want); base += n * inner {
		for _, y := range m.want[base+j*inner : base+(j+1)*inner] {
			size = math.Max(size, math.Abs(y))
		}
	}
	for base := 0; base < len(m.want); base += n * inner {
		for k := range inner {
			if !(math.Abs(m.got[base+i*inner+k]-m.want[base+j*inner+k]) <= m.near*size) {
				return false
			}
		}
	}
	return true
}

// nearerElsewhere reports whether another part that is due is nearer to the recorded part i than the one that is due
// there.
func (m *misplaced) nearerElsewhere(d, i int) bool {
	own := m.distance(d, i, i)
	return own > 0 && slices.ContainsFunc(upTo(0, m.length(d)), func(j int) bool {
		return j != i && m.same(d, i, j) && 2*m.distance(d, i, j) < own
	})
}

// distance is how far the recorded part i along a dimension is from the part j that is due.
func (m *misplaced) distance(d, i, j int) (away float64) {
	n, inner := m.length(d), m.inner(d)
	for base := 0; base < len(m.want); base += n * inner {
		for k := range inner {
			away = max(away, math.Abs(m.got[base+i*inner+k]-m.want[base+j*inner+k]))
		}
	}
	return away
}

// An order are the indices at which the parts of a result are due.
type order []int

// backwards reports whether the last part comes first.
func (o order) backwards() bool {
	for i, at := range o {
		if at != len(o)-1-i {
			return false
		}
	}
	return true
}

// turn is by how much each part is moved forwards, 0 unless it is the same for all.
func (o order) turn() int {
	for i, at := range o {
		if at != (o[0]+i)%len(o) {
			return 0
		}
	}
	return len(o) - o[0]
}

// moved are the indices of the parts that are due at others, and those others.
func (o order) moved() (at, due []int) {
	for i, d := range o {
		if d != i {
			at, due = append(at, i), append(due, d)
		}
	}
	return at, due
}

// cost is how many bits say which order that is: of a turn by how much it is turned, else of each part that is
// moved which it is.
func (o order) cost() float64 {
	bits := math.Log2(float64(len(o)))
	switch {
	case o.backwards():
		return 0
	case o.turn() > 0:
		return bits
	}
	moved, _ := o.moved()
	return float64(len(moved)) * bits
}

// text says of a result, whose parts are named, which they are.
func (o order) text(name string) string {
	n, turn := len(o), o.turn()
	if turn > n/2 {
		turn -= n
	}
	moved, due := o.moved()
	first, from := moved[0], due[0]
	run := 1 // moved parts that follow each other as they are due
	for run < len(moved) && moved[run] == first+run && due[run] == from+run {
		run++
	}
	permuted := len(slices.Compact(slices.Sorted(slices.Values(o)))) == n
	switch {
	case o.backwards():
		return fmt.Sprintf("its %s is backwards", name)
	case turn != 0:
		return fmt.Sprintf("its %s is rolled by %d", name, turn)
	case permuted && first > 0:
		return fmt.Sprintf("its %s is from %d on in the order %s", name, first, beginning(o[first:])) + o.asTransposed()
	case permuted:
		return fmt.Sprintf("its %s is in the order %s", name, beginning(o)) + o.asTransposed()
	case run < len(moved) && len(moved) <= mostMoved && 2*len(moved) < n:
		return fmt.Sprintf("its %s holds at %s what is due at %s", name, beginning(moved), beginning(due))
	case run < len(moved):
		return fmt.Sprintf("its %s holds from %d on what is due at %s", name, first, beginning(o[first:]))
	case run == 1:
		return fmt.Sprintf("its %s holds at %d what is due at %d", name, first, from)
	}
	return fmt.Sprintf("its %s holds at %d to %d what is due at %d to %d", name, first, first+run-1, from, from+run-1)
}

// asTransposed says of which matrix the order is that of the columns, "" if of none.
func (o order) asTransposed() string {
	n := len(o)
	for rows := 2; rows < n; rows++ {
		columns := n / rows
		if rows*columns != n {
			continue
		}
		is := true
		for i, at := range o {
			is = is && at == i%rows*columns+i/rows
		}
		if is {
			return fmt.Sprintf(": column by column, as if it were %d by %d and transposed", rows, columns)
		}
	}
	return ""
}

// beginning are indices, of many the first.
func beginning(indices []int) string {
	const shown = 8
	s := strings.Trim(fmt.Sprint(indices[:min(len(indices), shown)]), "[]")
	if len(indices) > shown {
		s += " ..."
	}
	return s
}

// dimensions is the order of dimensions in which what is due lies in memory as the recorded value
// does, nil if there is none.
func (m *misplaced) dimensions() []int {
	if len(m.shape) < 2 || len(m.shape) > mostDimensions || len(m.got) < leastInNarrow {
		return nil
	}
	size := 0.0
	for _, y := range m.want {
		size = math.Max(size, math.Abs(y))
	}
	for _, dims := range orders(len(m.shape)) {
		from, same, moved := laidOut(m.shape, dims), true, false
		for i := 0; i < len(m.got) && same; i++ {
			j := from(i)
			same, moved = math.Abs(m.got[i]-m.want[j]) <= m.near*size, moved || i != j
		}
		if same && moved && size > 0 {
			return dims
		}
	}
	return nil
}

// mostDimensions are those of a tensor of which all orders are tried.
const mostDimensions = 5

// orders are the orders of n dimensions, but for that in which they are.
func orders(n int) [][]int {
	all := [][]int{{}}
	for len(all[0]) < n {
		var longer [][]int
		for _, o := range all {
			for d := range n {
				if !slices.Contains(o, d) {
					longer = append(longer, append(slices.Clone(o), d))
				}
			}
		}
		all = longer
	}
	return all[1:]
}

// laidOut is for each place in memory of a tensor whose dimensions lie there in another order
// the place where the element lies in row-major order.
func laidOut(shape, dims []int) func(i int) int {
	packed := tensor.Contiguous(shape)
	order, stride := make([]int, len(dims)), make([]int, len(dims))
	for k, d := range dims {
		order[k], stride[k] = shape[d], packed[d]
	}
	return placeIn(order, stride)
}

// placeIn gives the place in memory of element i of a shape, counted row by row, with some strides.
func placeIn(shape, stride []int) func(i int) int {
	return func(i int) (at int) {
		for d := len(shape) - 1; d >= 0; d-- {
			at += i % shape[d] * stride[d]
			i /= shape[d]
		}
		return at
	}
}

// dimensionsText says of a result in which order of dimensions it is written.
func dimensionsText(shape, dims []int) string {
	var moved []int
	for k, d := range dims {
		if k != d {
			moved = append(moved, k)
		}
	}
	if len(moved) == 2 && shape[moved[0]] == shape[moved[1]] {
		return fmt.Sprintf("its dimensions %d and %d are exchanged", moved[0], moved[1])
	}
	return "it is written in the order of dimensions " + beginning(dims)
}

// A permutation is an order in which kernels read parts by mistake.
type permutation struct {
	text string
	of   func(i, n int) int
}

// factored are the orders in which n parts are read that lie in groups of equal size, group by group as if those were
// the parts: as 3 x 4 in place of 4 x 3.
func factored(n int) []permutation {
	var out []permutation
	for p := 2; p < n && len(out) < mostFactored; p++ {
		if q := n / p; q*p == n {
			out = append(out, permutation{fmt.Sprintf("read as %d x %d, transposed", p, q),
				func(i, _ int) int { return i%p*q + i/p }})
		}
	}
	for k := 2; k*k < n && k <= mostBlock; k++ {
		if b := k * k; n%b == 0 {
			out = append(out, permutation{fmt.Sprintf("read as blocks of %d x %d, each transposed", k, k),
				func(i, _ int) int { return i/b*b + i%b%k*k + i%b/k }})
		}
	}
	for k := 2; 2*k <= n && k <= mostBlock; k *= 2 {
		out = append(out, permutation{fmt.Sprintf("read at the first of each %d indices", k),
			func(i, _ int) int { return i / k * k }})
	}
	return out
}

// mostFactored is in how many ways groups are taken.
const mostFactored = 12

// mostBlock is the largest side of blocks of indices that are transposed, and the most of which the first is read.
const mostBlock = 16

var permutations = []permutation{
	{"read one further", func(i, n int) int { return (i + 1) % n }},
	{"read one back", func(i, n int) int { return (i + n - 1) % n }},
	{"read with neighbours exchanged", groupsExchanged(1)},
	{"read with halves exchanged", func(i, n int) int { return (i + n/2) % n }},
	{"read backwards", func(i, n int) int { return n - 1 - i }},
	{"read in two interleaved halves", func(i, n int) int { return i%2*((n+1)/2) + i/2 }},
	{"read at the first index alone", func(int, int) int { return 0 }},
	{"read at even indices alone", func(i, n int) int { return i &^ 1 }},
	{"read at odd indices alone", func(i, n int) int { return i | 1&^(n%2) }},
	{"read in the first half, each index twice", func(i, n int) int { return i / 2 }},
	{"read in the first half, which is repeated", func(i, n int) int { return i % ((n + 1) / 2) }},
	{"read in the first quarter, each index four times", func(i, n int) int { return i / 4 }},
	{"read in the first third, which is repeated", repeated(3)},
	{"read in the first quarter, which is repeated", repeated(4)},
	{"read in the first eighth, each index eight times", func(i, n int) int { return i / 8 }},
	{"read with pairs exchanged", groupsExchanged(2)},
	{"read with fours exchanged", groupsExchanged(4)},
	{"read with eights exchanged", groupsExchanged(8)},
	{"read with sixteens exchanged", groupsExchanged(16)},
}

// groupsExchanged are the indices of which each group of a power of two is exchanged with the next one. Those stay
// whose counterpart is missing.
func groupsExchanged(group int) func(i, n int) int {
	return func(i, n int) int {
		if i^group < n {
			return i ^ group
		}
		return i
	}
}

// repeated are the indices of the first of so many equal parts, again in each of the others; all where there are none.
func repeated(parts int) func(i, n int) int {
	return func(i, n int) int {
		if n%parts != 0 {
			return i
		}
		return i % (n / parts)
	}
}
