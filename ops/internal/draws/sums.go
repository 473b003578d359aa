package draws

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
)

// A Sums judges sums of terms of which each was dropped with probability P, or divided by
// 1-P: rows of weights times vectors, as the values of an attention are whose weights
// pass a dropout. Each row has a mask of its own, and all terms of a row's elements are
// dropped together.
//
// A row of no more terms than a vector has elements shows its mask, if the vectors are
// independent. Of all rows together is judged what has a bound at the rate of false
// alarms whatever the mask is: elements and means by the sub-Gaussian norm of a
// Bernoulli number (M. Kearns and L. Saul, Large deviation methods for approximate
// probabilistic inference, 1998), spreads by sums of bounded squares.
type Sums struct {
	P float64
	// Elements is the number of all elements that will be added, Named what rows are.
	Elements int
	Named    string

	rows, solved int
	offs         [][]float64 // of each part, what rows are off along the expected values, in deviations
	keyed        keyed
	masks        []mask    // of each part
	bits         []float64 // 1 where a term was dropped, of rows that show it
	along        [3]spread
	wrong        string
}

// A mask is what is known of that of some rows, so many terms each: 0 nothing, 1 kept, 2
// dropped.
type mask struct {
	terms int
	of    []int8
}

// keyed is what all rows are off along each term's vector, its variance but for P, and
// what rounding adds.
type keyed struct{ sum, square, slack []float64 }

// alongs are the directions that rows are looked at in.
var alongs = [3]string{"the expected values", "the term of most weight", "alternating signs"}

// A spread is what rows are off the expectation along one direction, in deviations.
type spread struct {
	n                  float64
	sum, slack         float64
	least, most        float64 // capped squares, of the least and the most that rounding leaves
	kurtosis, expected float64
}

// tests is the number of tests that share the rate of false alarms.
const tests = 16

// capped is the largest square that counts.
const capped = 16

// unlikely is how improbable a deviation has to be, as -ln, of one of n.
func unlikely(n float64) float64 { return math.Log(2 * tests * n / 1e-9) }

// proxy is the variance of the Gaussian number that bounds the tails of m/(1-p) - 1, m
// being 0 with probability p and 1 otherwise.
func proxy(p float64) float64 {
	if math.Abs(p-0.5) < 1e-4 {
		return 0.25 / ((1 - p) * (1 - p))
	}
	return (1 - 2*p) / (2 * math.Log((1-p)/p)) / ((1 - p) * (1 - p))
}

// Fail says what no mask gives; the first such sentence counts.
func (s *Sums) Fail(format string, args ...any) {
	if s.wrong == "" {
		s.wrong = fmt.Sprintf(format, args...)
	}
}

// Add takes rows from number first on, 0 where a part begins: got, which are weights times
// vectors with terms dropped, where rounding may have moved each element by slack. kept,
// if it holds anything, receives what each weight was multiplied by in rows that show
// it. shown reports whether all rows do.
func (s *Sums) Add(first int, got, weights, vectors, slack, kept kernel.Matrix[float64]) (shown bool) {
	n, terms, width := weights.Rows, weights.Cols, vectors.Cols
	make2 := func(cols int) kernel.Matrix[float64] { return kernel.Dense(n, cols, make([]float64, n*cols)) }
	mean, square, size := make2(width), make2(width), make2(width)
	kernel.Gemm(weights, vectors, 0, mean)
	kernel.Gemm(mapped(weights, squareOf), mapped(vectors, squareOf), 0, square)
	kernel.Gemm(mapped(weights, math.Abs), mapped(vectors, math.Abs), 0, size)
	farthest := math.Max(1, s.P/(1-s.P))
	sizes := make([]float64, terms)
	for k := range sizes {
		sizes[k] = largestOf(vectors.Data[k*width : (k+1)*width])
	}
	tail := 2 * unlikely(float64(s.Elements)) * proxy(s.P)
	for i := range n {
		s.unwritten(first+i, got.Data[i*width:(i+1)*width], weights.Data[i*terms:(i+1)*terms], sizes,
			largestOf(slack.Data[i*width:(i+1)*width]))
		for j := range width {
			at := i*width + j
			x, want := got.Data[at], mean.Data[at]
			if want-want != 0 {
				if want == want && x != want || want != want && x == x {
					s.Fail("element %d of %s %d is %v, want %v whatever was dropped", j, s.Named, first+i, x, want)
				}
				continue
			}
			off := math.Min(farthest*size.Data[at], math.Sqrt(tail*square.Data[at])) + slack.Data[at]
			if !(math.Abs(x-want) <= off) {
				s.Fail("element %d of %s %d is %.6g, want %.6g give or take %.3g, whatever was dropped", j, s.Named,
					first+i, x, want, off)
			}
		}
	}
	s.rows += n
	if s.wrong != "" {
		return false
	}
	shown = s.solve(first, got, weights, vectors, slack, kept)
	top := make2(width)
	signs := make2(width)
	for i := range n {
		k, ws := 0, weights.Data[i*terms:(i+1)*terms]
		for c, w := range ws {
			if math.Abs(w) > math.Abs(ws[k]) {
				k = c
			}
		}
		copy(top.Data[i*width:(i+1)*width], vectors.Data[k*width:(k+1)*width])
		for j := range width {
			signs.Data[i*width+j] = 1 - 2*float64((j*j+j)/2%2)
		}
	}
	for d, u := range []kernel.Matrix[float64]{mean, top, signs} {
		offs := s.look(&s.along[d], u, got, mean, weights, vectors, slack)
		if d == 0 && first == 0 {
			s.offs = append(s.offs, offs)
		} else if d == 0 {
			s.offs[len(s.offs)-1] = append(s.offs[len(s.offs)-1], offs...)
		}
	}
	s.lookAtTerms(got, mean, weights, vectors, slack)
	return shown
}

// unwritten fails a row of zeros, of which not all terms can have been dropped.
// Terms smaller than what rounding moves count for nothing.
func (s *Sums) unwritten(number int, row, weights, sizes []float64, slack float64) {
	if slices.ContainsFunc(row, func(x float64) bool { return x != 0 }) {
		return
	}
	terms := 0
	for k, w := range weights {
		if math.Abs(w)*sizes[k] > slack {
			terms++
		}
	}
	if len(row) > 0 && float64(terms)*-math.Log(s.P) > unlikely(float64(s.Elements)) {
		s.Fail("all elements of %s %d are 0: not all of %d terms are dropped at a rate of %v", s.Named, number, terms,
			s.P)
	}
}

// mostTerms is the number of terms whose vectors all rows are looked at along.
const mostTerms = 1024

// lookAtTerms adds what rows are off along the vector of each term.
func (s *Sums) lookAtTerms(got, mean, weights, vectors, slack kernel.Matrix[float64]) {
	n, terms := weights.Rows, weights.Cols
	if terms > mostTerms || slices.ContainsFunc(mean.Data, func(x float64) bool { return x-x != 0 }) {
		return
	}
	if s.keyed.sum == nil {
		s.keyed = keyed{make([]float64, terms), make([]float64, terms), make([]float64, terms)}
	}
	square := func(rows, cols int) kernel.Matrix[float64] {
		return kernel.Dense(rows, cols, make([]float64, rows*cols))
	}
	off := mapped(got, math.Abs)
	for i, x := range got.Data {
		off.Data[i] = x - mean.Data[i]
	}
	products, z, two, around := square(terms, terms), square(n, terms), square(n, terms), square(n, terms)
	kernel.Gemm(vectors, vectors.T(), 0, products)
	kernel.Gemm(off, vectors.T(), 0, z)
	kernel.Gemm(mapped(weights, squareOf), mapped(products, squareOf), 0, two)
	kernel.Gemm(mapped(slack, squareOf), mapped(vectors, squareOf).T(), 0, around)
	for i, x := range z.Data {
		k := i % terms
		s.keyed.sum[k], s.keyed.square[k] = s.keyed.sum[k]+x, s.keyed.square[k]+two.Data[i]
		s.keyed.slack[k] += rounded * math.Sqrt(around.Data[i])
	}
}

// rounded is how much of the root of the sum of squares of their bounds roundings of a row
// add up to: a bound is at least seven times what roundings are in the mean.
const rounded = 0.5

// largestOf is the largest magnitude of v.
func largestOf(v []float64) float64 {
	most := 0.0
	for _, x := range v {
		most = math.Max(most, math.Abs(x))
	}
	return most
}

func squareOf(x float64) float64 { return x * x }

func mapped(m kernel.Matrix[float64], f func(float64) float64) kernel.Matrix[float64] {
	data := make([]float64, len(m.Data))
	for i, x := range m.Data {
		data[i] = f(x)
	}
	m.Data = data
	return m
}

// look adds what rows are off along the directions u, and returns it, 0 of rows that say
// nothing.
func (s *Sums) look(d *spread, u, got, mean, weights, vectors,
	slack kernel.Matrix[float64]) (offs []float64) {
	n, terms, width := weights.Rows, weights.Cols, vectors.Cols
	c := kernel.Dense(n, terms, make([]float64, n*terms))
	kernel.Gemm(u, vectors.T(), 0, c)
	variance := s.P / (1 - s.P)
	excess := (1 - 6*s.P*(1-s.P)) / (s.P * (1 - s.P))
	offs = make([]float64, n)
	for i := range n {
		z, around, two, four := 0.0, 0.0, 0.0, 0.0
		for j := i * width; j < (i+1)*width; j++ {
			z += u.Data[j] * (got.Data[j] - mean.Data[j])
			around += squareOf(u.Data[j] * slack.Data[j])
		}
		around = rounded * math.Sqrt(around)
		for k := i * terms; k < (i+1)*terms; k++ {
			x := squareOf(c.Data[k] * weights.Data[k])
			two, four = two+x, four+x*x
		}
		deviation := math.Sqrt(variance * two)
		// Rows that rounding moves as far say nothing.
		if !(around < deviation/4) || z-z != 0 {
			continue
		}
		z, around = z/deviation, around/deviation
		kurtosis := math.Max(1, 3+excess*four/(two*two))
		offs[i] = z
		d.n++
		d.sum, d.slack = d.sum+z, d.slack+around
		d.least += math.Min(capped, squareOf(math.Abs(z)+around))
		d.most += math.Min(capped, squareOf(math.Max(0, math.Abs(z)-around)))
		d.kurtosis += kurtosis
		d.expected += 1 - kurtosis/(4*capped) // of the capped square, at least
	}
	return offs
}

// correlated says that rows depend on each other: neighbours, or those of the same number
// of neighbouring parts. The sum of n products of independent numbers of this proxy
// exceeds t with a probability of at most exp(-at)/(1-a^2 proxy^2)^(n/2), for every a.
func (s *Sums) correlated() {
	proxy := proxy(s.P) * (1 - s.P) / s.P
	judge := func(what string, sum float64, n int) {
		best := 0.0
		for i := 1; i < 64; i++ {
			a := float64(i) / 64
			best = math.Max(best, a*math.Abs(sum)/proxy+float64(n)/2*math.Log1p(-a*a))
		}
		if best > unlikely(1) {
			s.Fail("%s are dropped alike: a correlation of %.3g over %d pairs", what, sum/float64(n), n)
		}
	}
	sum, n := 0.0, 0
	for _, offs := range s.offs {
		for i := 0; i+1 < len(offs); i += 2 {
			sum, n = sum+offs[i]*offs[i+1], n+1
		}
	}
	judge("the terms of neighbouring rows", sum, n)
	sum, n = 0, 0
	for p := 0; p+1 < len(s.offs); p += 2 {
		for i := range min(len(s.offs[p]), len(s.offs[p+1])) {
			sum, n = sum+s.offs[p][i]*s.offs[p+1][i], n+1
		}
	}
	judge("the terms of heads", sum, n)
}

// Together says what all rows show that several judges of the same sums were given.
func Together(parts []*Sums) opdef.Drawn {
	if len(parts) == 0 {
		return opdef.Drawn{}
	}
	s := *parts[0]
	for _, p := range parts[1:] {
		s.rows, s.solved, s.bits = s.rows+p.rows, s.solved+p.solved, append(s.bits, p.bits...)
		s.offs, s.masks = append(s.offs, p.offs...), append(s.masks, p.masks...)
		s.keyed.add(p.keyed)
		if s.wrong == "" {
			s.wrong = p.wrong
		}
		for i, d := range p.along {
			s.along[i].add(d)
		}
	}
	return s.judge()
}

func (d *spread) add(e spread) {
	d.n, d.sum, d.slack, d.least = d.n+e.n, d.sum+e.sum, d.slack+e.slack, d.least+e.least
	d.most, d.kurtosis, d.expected = d.most+e.most, d.kurtosis+e.kurtosis, d.expected+e.expected
}

func (k *keyed) add(e keyed) {
	for i := range min(len(k.sum), len(e.sum)) {
		k.sum[i], k.square[i], k.slack[i] = k.sum[i]+e.sum[i], k.square[i]+e.square[i], k.slack[i]+e.slack[i]
	}
}

// judge says what the rows that were added show.
func (s *Sums) judge() opdef.Drawn {
	for i, d := range s.along {
		if d.n == 0 {
			continue
		}
		rare := unlikely(1)
		a := rare * capped / 3
		switch reach := math.Sqrt(2*rare*d.n*proxy(s.P)*(1-s.P)/s.P) + d.slack; {
		case math.Abs(d.sum) > reach:
			s.Fail("along %s %.0f rows are %.3g deviations off together, want at most %.3g: they are not scaled by "+
				"1/(1-p), or terms are missing", alongs[i], d.n, d.sum, reach)
		case d.expected-d.least > math.Sqrt(2*rare*d.kurtosis):
			s.Fail("along %s %.0f rows scatter %.3g times as much as rows do whose terms are dropped at a rate of %v",
				alongs[i], d.n, math.Sqrt(d.least/d.n), s.P)
		case d.most-d.n > a+math.Sqrt(a*a+2*rare*d.kurtosis):
			s.Fail("along %s %.0f rows scatter %.3g times as much as rows do whose terms are dropped at a rate of %v",
				alongs[i], d.n, math.Sqrt(d.most/d.n), s.P)
		}
	}
	for k, sum := range s.keyed.sum {
		reach := math.Sqrt(2*unlikely(float64(len(s.keyed.sum)))*proxy(s.P)*s.keyed.square[k]) + s.keyed.slack[k]
		if !(math.Abs(sum) <= reach) {
			s.Fail("along the vector of term %d all rows are %.3g off together, want at most %.3g", k, sum, reach)
		}
	}
	s.correlated()
	s.alike()
	dropped := 0
	for _, b := range s.bits {
		dropped += int(b)
	}
	for _, why := range []string{Rate("terms dropped", dropped, len(s.bits), s.P),
		repeats(s.bits, func(x float64) float64 { return x }, s.P*s.P+(1-s.P)*(1-s.P)), pairs(s.bits, s.P)} {
		if why != "" {
			s.Fail("the mask: %s", why)
		}
	}
	if s.wrong != "" {
		return wrong("%s", s.wrong)
	}
	checked := fmt.Sprintf("elements, scale and scatter of %d %s rows", s.rows, s.Named)
	if s.solved > 0 {
		checked += fmt.Sprintf("; the mask of %d of them, its rate and order, which they show", s.solved)
	}
	return opdef.Drawn{Checked: checked}
}

// largestMask is the number of weights of a part whose mask is looked for.
const largestMask = 1 << 20

// alike fails masks of neighbouring rows, or of neighbouring parts, that have too much in
// common.
func (s *Sums) alike() {
	judge := func(what string, pairs func(add func(a, b []int8))) {
		hits, n := 0, 0
		pairs(func(a, b []int8) {
			for i := range min(len(a), len(b)) {
				if a[i] != 0 && b[i] != 0 {
					n++
					if a[i] == b[i] {
						hits++
					}
				}
			}
		})
		if why := Rate("terms are dropped or kept in both", hits, n, s.P*s.P+(1-s.P)*(1-s.P)); why != "" {
			s.Fail("the masks of %s are not independent: %s", what, why)
		}
	}
	judge("neighbouring rows", func(add func(a, b []int8)) {
		for _, m := range s.masks {
			for lo := 0; m.terms > 0 && lo+2*m.terms <= len(m.of); lo += 2 * m.terms {
				add(m.of[lo:lo+m.terms], m.of[lo+m.terms:lo+2*m.terms])
			}
		}
	})
	judge("heads", func(add func(a, b []int8)) {
		for i := 0; i+1 < len(s.masks); i += 2 {
			add(s.masks[i].of, s.masks[i+1].of)
		}
	})
}

// solve finds the masks of rows that show them.
func (s *Sums) solve(first int, got, weights, vectors, slack, kept kernel.Matrix[float64]) (all bool) {
	all = true
	f := &factor{vectors: vectors}
	terms, width := weights.Cols, vectors.Cols
	a := make([]float64, terms)
	if first == 0 {
		s.masks = append(s.masks, mask{terms: terms})
	}
	m := &s.masks[len(s.masks)-1]
	known := len(m.of)
	if (first+weights.Rows)*terms > largestMask {
		return false
	}
	m.of = append(m.of, make([]int8, weights.Rows*terms)...)
	for i := range weights.Rows {
		ws, row := weights.Data[i*terms:(i+1)*terms], got.Data[i*width:(i+1)*width]
		around := slack.Data[i*width : (i+1)*width]
		if !f.take(ws) {
			all = false
			continue
		}
		noise := largestOf(around)
		f.solve(row, a)
		// Each term's weight is off by at most noise times the length of its dual vector.
		sure, at := true, len(s.bits)
		for c, k := range f.seen {
			off, own := noise*f.dual(c), math.Abs(ws[k])/(1-s.P)
			factor := 1.0
			switch {
			case largestOf(f.vector(k))*own*float64(len(f.seen))*8 <= noise: // it is lost in rounding
			case off*4 > own:
				sure = false
			default:
				factor = 1 / (1 - s.P)
				bit := 0.0
				if a[c]/ws[k] < factor/2 {
					factor, bit = 0, 1
				}
				s.bits = append(s.bits, bit)
				m.of[known+i*terms+k] = 1 + int8(bit)
			}
			a[c] = ws[k] * factor
			if kept.Data != nil {
				kept.Data[i*terms+k] = factor
			}
		}
		if !sure {
			s.bits, all = s.bits[:at], false
			clear(m.of[known+i*terms:][:terms])
			continue
		}
		s.solved++
		for j, x := range row {
			sum := 0.0
			for c, k := range f.seen {
				sum += a[c] * vectors.Data[k*width+j]
			}
			if !(math.Abs(x-sum) <= 2*around[j]) {
				s.Fail("element %d of %s %d is %.6g, and %.6g with the mask that comes nearest", j, s.Named, first+i,
					x, sum)
			}
		}
	}
	return all
}

// A factor is the Cholesky factor of the products of the vectors that a row sees.
type factor struct {
	vectors kernel.Matrix[float64]
	seen    []int
	lower   [][]float64
	duals   []float64
	failed  bool
}

func (f *factor) vector(k int) []float64 {
	return f.vectors.Data[k*f.vectors.Cols : (k+1)*f.vectors.Cols]
}

// take makes the factor that of the vectors whose weight is not 0, of which there must
// be one at least, and which must be independent. What earlier rows see is used again.
func (f *factor) take(weights []float64) bool {
	var seen []int
	for k, w := range weights {
		if w-w != 0 {
			return false
		}
		if w != 0 {
			if seen = append(seen, k); len(seen) > f.vectors.Cols {
				return false
			}
		}
	}
	if slices.Equal(seen, f.seen) {
		return !f.failed && len(seen) > 0
	}
	if len(seen) < len(f.seen) || !slices.Equal(seen[:len(f.seen)], f.seen) {
		f.lower = nil
	}
	f.seen, f.duals, f.failed = seen, nil, false
	for i := len(f.lower); i < len(seen); i++ {
		v, l := f.vector(seen[i]), make([]float64, i+1)
		left, own := 0.0, 0.0
		for j := range i {
			l[j] = (inner(v, f.vector(seen[j])) - inner(l[:j], f.lower[j])) / f.lower[j][j]
		}
		own = inner(v, v)
		if left = own - inner(l[:i], l[:i]); !(left > 1e-8*own) {
			f.failed = true
			return false
		}
		l[i] = math.Sqrt(left)
		f.lower = append(f.lower, l)
	}
	return len(seen) > 0
}

func inner(x, y []float64) float64 {
	sum := 0.0
	for i, a := range x {
		sum += a * y[i]
	}
	return sum
}

// solve finds the weights a of the seen vectors whose sum comes nearest to row.
func (f *factor) solve(row, a []float64) {
	for c, k := range f.seen {
		a[c] = inner(row, f.vector(k))
	}
	f.substitute(a[:len(f.seen)])
}

// substitute solves with the factor and its transpose.
func (f *factor) substitute(a []float64) {
	for i := range a {
		a[i] = (a[i] - inner(a[:i], f.lower[i])) / f.lower[i][i]
	}
	for i := len(a) - 1; i >= 0; i-- {
		for k := i + 1; k < len(a); k++ {
			a[i] -= f.lower[k][i] * a[k]
		}
		a[i] /= f.lower[i][i]
	}
}

// dual is the length of the dual vector of seen vector c, which errors of a row of length
// one may move its weight by.
func (f *factor) dual(c int) float64 {
	if f.duals == nil {
		f.duals = make([]float64, len(f.seen))
		a := make([]float64, len(f.seen))
		for i := range a { // the diagonal of the inverse: lengths of the columns of the inverse factor
			clear(a)
			a[i] = 1
			for j := i; j < len(a); j++ {
				a[j] = (a[j] - inner(a[i:j], f.lower[j][i:])) / f.lower[j][j]
			}
			f.duals[i] = math.Sqrt(inner(a[i:], a[i:]))
		}
	}
	return f.duals[c]
}
