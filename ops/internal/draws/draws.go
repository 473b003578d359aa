// Package draws judges random numbers: it checks whether they fit the distribution that
// they were drawn from. A sound generator fails a check of a tensor with a probability
// of at most 1e-9, for every number of elements. The bound for empirical distributions
// is that of Dvoretzky, Kiefer and Wolfowitz with Massart's constant. The bound for sums
// is Bernstein's.
package draws

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// falseAlarm is the probability with which one of the five tests of a tensor (its
// distribution, centre, spread, halves and pairs) may fail sound numbers.
const falseAlarm = 1e-9 / 5

// deviation is ln(2/falseAlarm). Both bounds use it.
var deviation = math.Log(2 / falseAlarm)

// largest is the number of elements that are looked at.
const largest = 1 << 24

// A Distribution is what elements are drawn from, each by itself.
type Distribution struct {
	Name string
	// Low and High are the smallest and the largest value, both possible.
	Low, High float64
	// Whole: only whole numbers.
	Whole bool
	// CDF is the probability of at most x.
	CDF func(x float64) float64
}

// Judge looks at the elements of t.
func (d Distribution) Judge(t *tensor.Tensor) opdef.Drawn {
	v := tensor.Make[float64](min(t.Numel(), largest))
	tensor.Load(t, 0, v)
	if why := d.outside(v, t.DType); why != "" {
		return wrong("%s", why)
	}
	if d.Low == d.High {
		return opdef.Drawn{Checked: fmt.Sprintf("all %d elements are %v", len(v), d.Low)}
	}
	// Ranks of numbers of another distribution seem to depend on each other.
	if why := cmp.Or(repeats(v, func(x float64) float64 { return x }, d.collision(v)),
		d.misfit(slices.Clone(v), t.DType), d.correlated(v)); why != "" {
		return wrong("%s", why)
	}
	return opdef.Drawn{Checked: fmt.Sprintf("range, distribution (%s), centre, spread, pairs and halves of %d elements",
		d.Name, len(v))}
}

// outside reports an element that is never drawn, or "".
func (d Distribution) outside(v []float64, dt tensor.DType) string {
	low, high := d.Low, d.High
	if dt.IsFloat() {
		low, high = dt.Round(low), dt.Round(high)
	}
	for i, x := range v {
		switch {
		case !(x >= low && x <= high):
			return fmt.Sprintf("element %d is %v, want values from %v to %v", i, x, d.Low, d.High)
		case d.Whole && x != math.Trunc(x):
			return fmt.Sprintf("element %d is %v, want whole numbers", i, x)
		}
	}
	return ""
}

// misfit reports that the shares of the elements up to some value, their centre or their spread are not those of d,
// or "". It sorts v.
func (d Distribution) misfit(v []float64, dt tensor.DType) string {
	slices.Sort(v)
	// A coarse dtype holds rounded numbers, and some generators round up or down. So a value
	// can come from any number between its neighbours.
	span := func(x float64) (least, most float64) {
		u := 0.0
		if ulp := dt.ULP(x); dt.IsFloat() && (!d.Whole || ulp > 1) {
			u = ulp
		}
		return d.CDF(x - u), d.CDF(x + u)
	}
	n := float64(len(v))
	allowed, coarsest := math.Sqrt(deviation/(2*n)), 0.0
	var centre, spread float64
	for i := 0; i < len(v); {
		j := i + 1
		for j < len(v) && v[j] == v[i] {
			j++
		}
		least, most := span(v[i])
		below := least
		if d.Whole {
			below, _ = span(v[i] - 1)
		}
		switch {
		case float64(j)/n < least-allowed:
			return fmt.Sprintf("a share of %.4g of the elements is at most %v, %s has %.4g: no sound generator is so far "+
				"off with %d elements", float64(j)/n, v[i], d.Name, least, len(v))
		case float64(i)/n > most+allowed || d.Whole && most == least && float64(i)/n > below+allowed:
			return fmt.Sprintf("a share of %.4g of the elements is less than %v, %s has %.4g: no sound generator is so "+
				"far off with %d elements", float64(i)/n, v[i], d.Name, most, len(v))
		}
		coarsest = math.Max(coarsest, most-least)
		u := d.CDF(v[i]) - 0.5
		centre += float64(j-i) * u
		spread += float64(j-i) * (u*u - 1.0/12)
		i = j
	}
	// The ranks of a continuous distribution are uniform on [0, 1]: mean 1/2, variance 1/12.
	if slack := n * coarsest; !d.Whole && (math.Abs(centre) > bernstein(n/12, 0.5)+slack ||
		math.Abs(spread) > bernstein(n/180, 1.0/6)+slack) {
		return fmt.Sprintf("of %s the centre is off by %.3g, the spread by %.3g: no sound generator's are with %d elements",
			d.Name, centre/n, 12*spread/n, len(v))
	}
	return ""
}

func wrong(format string, args ...any) opdef.Drawn {
	return opdef.Drawn{Wrong: fmt.Sprintf(format, args...)}
}

// collision bounds the probability that two elements are equal. It counts the equal
// neighbours among the sorted elements.
func (d Distribution) collision(v []float64) float64 {
	most, n := 1, map[float64]int{}
	for _, x := range v[:min(len(v), 1<<16)] {
		n[x]++
		most = max(most, n[x])
	}
	return math.Min(1, 2*float64(most)/float64(min(len(v), 1<<16)))
}

// repeats reports that the elements begin again after a part of them, or "". equal is
// a bound on the probability that two elements are equal.
func repeats(v []float64, key func(float64) float64, equal float64) string {
	for period := len(v) / 2; period > 0 && float64(len(v)-period)*-math.Log(equal) > deviation; period /= 2 {
		i := 0
		for i+period < len(v) && key(v[i]) == key(v[i+period]) {
			i++
		}
		if i+period == len(v) {
			return fmt.Sprintf("all elements are those %d before", period)
		}
	}
	return ""
}

// correlated reports that neighbours depend on each other, or "". In disjoint pairs of
// independent numbers, the product of the distances from the median rank is 0 on average.
func (d Distribution) correlated(v []float64) string {
	rank := func(x float64) float64 {
		if d.Whole {
			return (d.CDF(x)+d.CDF(x-1))/2 - 0.5
		}
		return d.CDF(x) - 0.5
	}
	sum, squares, n := 0.0, 0.0, len(v)/2
	for i := range n {
		p := rank(v[2*i]) * rank(v[2*i+1])
		sum += p
		squares += p * p
	}
	if excess := math.Abs(sum) - bernstein(float64(n)/144, 0.25); excess > 0 {
		return fmt.Sprintf("neighbours are correlated: %.3g over %d pairs", 12*sum/float64(n), n)
	}
	return ""
}

// bernstein bounds the distance from 0 of a sum of independent numbers of mean 0. variance
// is the sum of their variances, and none is larger than most.
func bernstein(variance, most float64) float64 { return bernsteinOf(1, variance, most) }

// bernsteinOf is bernstein for several sums: none is further away.
func bernsteinOf(sums int, variance, most float64) float64 {
	unlikely := deviation + math.Log(float64(sums))
	a := unlikely * most / 3
	return a + math.Sqrt(a*a+2*unlikely*variance)
}

// Rate judges how many of n trials of probability p came true. By Chernoff's bound, a share
// of at least (or at most) q comes true with a probability of at most exp(-n*D). D is the
// divergence of q from p.
func Rate(what string, hits, n int, p float64) string {
	if n == 0 {
		return ""
	}
	term := func(q, p float64) float64 {
		if q == 0 {
			return 0
		}
		return q * math.Log(q/p)
	}
	q := float64(hits) / float64(n)
	if float64(n)*(term(q, p)+term(1-q, 1-p)) > deviation {
		return fmt.Sprintf("%d of %d %s, want about %.0f", hits, n, what, p*float64(n))
	}
	return ""
}

// Uniform is the distribution on [low, high].
func Uniform(low, high float64) Distribution {
	return Distribution{Name: fmt.Sprintf("uniform from %v to %v", low, high), Low: low, High: high,
		CDF: func(x float64) float64 { return math.Min(1, math.Max(0, (x-low)/(high-low))) }}
}

// Normal is the normal distribution; nothing is further than 40 deviations from its mean.
func Normal(mean, std float64) Distribution {
	return Distribution{Name: fmt.Sprintf("normal of mean %v and deviation %v", mean, std), Low: mean - 40*std,
		High: mean + 40*std, CDF: func(x float64) float64 { return math.Erfc((mean-x)/(std*math.Sqrt2)) / 2 }}
}

// Integers is the uniform distribution of the whole numbers from low to high, high
// excluded.
func Integers(low, high float64) Distribution {
	return Distribution{Name: fmt.Sprintf("whole numbers from %v to %v", low, high-1), Low: low, High: high - 1,
		Whole: true, CDF: func(x float64) float64 {
			return math.Min(1, math.Max(0, (math.Floor(x)-low+1)/(high-low)))
		}}
}

// Exponential is the distribution of the density lambda*exp(-lambda*x).
func Exponential(lambda float64) Distribution {
	return Distribution{Name: fmt.Sprintf("exponential of rate %v", lambda), High: math.MaxFloat64,
		CDF: func(x float64) float64 { return -math.Expm1(-lambda * math.Max(x, 0)) }}
}

// TruncatedNormal is the normal distribution of the numbers from low to high.
func TruncatedNormal(mean, std, low, high float64) Distribution {
	normal := Normal(mean, std)
	below, above := normal.CDF(low), normal.CDF(high)
	return Distribution{Name: fmt.Sprintf("normal of mean %v and deviation %v from %v to %v", mean, std, low, high),
		Low: low, High: high, CDF: func(x float64) float64 {
			return math.Min(1, math.Max(0, (normal.CDF(x)-below)/(above-below)))
		}}
}

// Cauchy is the distribution of the density 1/(pi*sigma*(1 + ((x-median)/sigma)^2)).
func Cauchy(median, sigma float64) Distribution {
	return Distribution{Name: fmt.Sprintf("Cauchy of median %v and scale %v", median, sigma), Low: math.Inf(-1),
		High: math.Inf(1), CDF: func(x float64) float64 { return 0.5 + math.Atan((x-median)/sigma)/math.Pi }}
}

// LogNormal is the distribution of the exponential of normal numbers.
func LogNormal(mean, std float64) Distribution {
	normal := Normal(mean, std)
	return Distribution{Name: fmt.Sprintf("log-normal of mean %v and deviation %v", mean, std), High: math.Inf(1),
		CDF: func(x float64) float64 { return normal.CDF(math.Log(x)) }}
}

// Geometric is the number of trials of probability p up to the first that comes true.
func Geometric(p float64) Distribution {
	return Distribution{Name: fmt.Sprintf("geometric of probability %v", p), Low: 1, High: math.MaxFloat64, Whole: true,
		CDF: func(x float64) float64 { return -math.Expm1(math.Max(0, math.Floor(x)) * math.Log1p(-p)) }}
}

// Normals judges normal numbers that each have their own mean and deviation. It does not
// judge 16-bit numbers, whose rounding depends on their size, nor numbers whose mean is
// much larger than their deviation.
func Normals(t *tensor.Tensor, mean, std func(i int) float64) opdef.Drawn {
	if t.DType.IsReduced() {
		return opdef.Drawn{}
	}
	v := tensor.Make[float64](min(t.Numel(), largest))
	tensor.Load(t, 0, v)
	for i, x := range v {
		m, s := mean(i), std(i)
		if s == 0 && x != m {
			return wrong("element %d is %v, want its mean %v at deviation 0", i, x, m)
		}
		if !(s > 0) || !(math.Abs(m) <= 1024*s) {
			return opdef.Drawn{}
		}
		v[i] = (x - m) / s
	}
	return Normal(0, 1).Judge(tensor.New(tensor.Float32, []int{len(v)}, v).Rounded())
}

// Counts judges whole numbers that each have their own mean. They follow Poisson's
// distribution, or with trials count the trials that came true.
func Counts(t *tensor.Tensor, mean func(i int) float64, trials func(i int) float64) opdef.Drawn {
	v := tensor.Make[float64](min(t.Numel(), largest))
	tensor.Load(t, 0, v)
	var total, zeros [2]float64 // of even and odd elements
	var expected, variance, none, noneVariance [2]float64
	for i, x := range v {
		m, most := mean(i), math.Inf(1)
		zero, spread := math.Exp(-m), m
		if trials != nil {
			most = trials(i)
			zero, spread = math.Pow(1-m/math.Max(most, 1), most), m*(1-m/math.Max(most, 1))
		}
		switch {
		case !(x >= 0 && x <= most) || x != math.Trunc(x):
			return wrong("element %d is %v, want a whole number from 0 to %v", i, x, most)
		case m == 0 && x != 0:
			return wrong("element %d is %v, want 0 at mean 0", i, x)
		}
		k := i % 2
		total[k], expected[k], variance[k] = total[k]+x, expected[k]+m, variance[k]+spread
		if x == 0 {
			zeros[k]++
		}
		none[k], noneVariance[k] = none[k]+zero, noneVariance[k]+zero*(1-zero)
	}
	for k := range 2 {
		if off := math.Abs(total[k] - expected[k]); off > bernstein(variance[k], 1)+t.DType.Eps()*expected[k] {
			return wrong("they add up to %.6g, want about %.6g", total[k], expected[k])
		}
		if off := math.Abs(zeros[k] - none[k]); off > bernstein(noneVariance[k], 1) {
			return wrong("%.0f of them are 0, want about %.0f", zeros[k], none[k])
		}
	}
	return opdef.Drawn{Checked: fmt.Sprintf("whole numbers, their sum and the number of zeros, of %d elements", len(v))}
}

// Gammas judges numbers of gamma distributions with these shapes: their range and their sum.
func Gammas(t *tensor.Tensor, shape func(i int) float64) opdef.Drawn {
	v := tensor.Make[float64](min(t.Numel(), largest))
	tensor.Load(t, 0, v)
	total, expected := 0.0, 0.0
	for i, x := range v {
		if !(x >= 0) || math.IsInf(x, 1) {
			return wrong("element %d is %v, want a positive number", i, x)
		}
		total, expected = total+x, expected+shape(i)
	}
	if off := math.Abs(total - expected); off > bernstein(expected, 1)+t.DType.Eps()*expected {
		return wrong("they add up to %.6g, want about %.6g", total, expected)
	}
	return opdef.Drawn{Checked: fmt.Sprintf("range and sum of %d elements", len(v))}
}

// Shares judges rows of a Dirichlet distribution: positive numbers that add up to 1.
func Shares(t *tensor.Tensor) opdef.Drawn {
	width := 1
	if t.Dim() > 0 {
		width = max(1, t.Shape[t.Dim()-1])
	}
	v := tensor.Make[float64](min(t.Numel(), largest/width*width))
	tensor.Load(t, 0, v)
	for row := 0; row < len(v); row += width {
		total := 0.0
		for i, x := range v[row : row+width] {
			if !(x >= 0 && x <= 1) {
				return wrong("element %d is %v, want a number from 0 to 1", row+i, x)
			}
			total += x
		}
		if math.Abs(total-1) > float64(1+width)*t.DType.Eps() {
			return wrong("row %d adds up to %.6g, want 1", row/width, total)
		}
	}
	return opdef.Drawn{Checked: fmt.Sprintf("range and sums of the rows of %d elements", len(v))}
}

// Orthogonal judges a matrix whose rows, or columns if they are fewer, are to be
// orthogonal and of length gain.
func Orthogonal(t *tensor.Tensor, gain float64) opdef.Drawn {
	rows := t.Shape[0]
	cols := t.Numel() / max(rows, 1)
	v := tensor.Data[float64](t)
	at := func(i, k int) float64 { return v[i*cols+k] }
	n, m := rows, cols
	if rows > cols {
		n, m, at = cols, rows, func(i, k int) float64 { return v[k*cols+i] }
	}
	if n*n*m > largest {
		return opdef.Drawn{}
	}
	near := 16 * t.DType.Eps() * float64(m) * gain * gain
	for i := range n {
		for j := range i + 1 {
			sum, want := 0.0, 0.0
			for k := range m {
				sum += at(i, k) * at(j, k)
			}
			if i == j {
				want = gain * gain
			}
			if !(math.Abs(sum-want) <= near) {
				return wrong("the product of vectors %d and %d is %.6g, want %.6g", i, j, sum, want)
			}
		}
	}
	return opdef.Drawn{Checked: fmt.Sprintf("%d orthogonal vectors of length %v", n, gain)}
}

// Categories judges rows of categories: how often each is chosen, where row r chooses c
// with probability p(r, c).
func Categories(chosen []int, categories int, p func(r, c int) float64) string {
	for c := range categories {
		hits, expected, variance := 0.0, 0.0, 0.0
		for r, at := range chosen {
			q := p(r, c)
			expected, variance = expected+q, variance+q*(1-q)
			if at == c {
				hits++
			}
		}
		if math.Abs(hits-expected) > bernsteinOf(categories, variance, 1) {
			return fmt.Sprintf("%.0f of %d rows choose category %d, want about %.0f", hits, len(chosen), c, expected)
		}
	}
	return ""
}

// Permutation judges the numbers from 0 to n-1 in random order.
func Permutation(t *tensor.Tensor) opdef.Drawn {
	v := tensor.Data[int64](t)
	seen, fixed := make([]bool, len(v)), 0
	for i, x := range v {
		if x < 0 || x >= int64(len(v)) || seen[x] {
			return wrong("element %d is %d: not a permutation of the numbers from 0 to %d", i, x, len(v)-1)
		}
		seen[x] = true
		if x == int64(i) {
			fixed++
		}
	}
	if len(v) > 13 && fixed == len(v) { // one of more than 1e10 orders
		return wrong("the numbers are in order")
	}
	if len(v) > 13 {
		ups := 0
		for i := 0; i+1 < len(v); i += 2 { // disjoint pairs ascend independently
			if v[i] < v[i+1] {
				ups++
			}
		}
		if why := Rate("elements are larger than the one before", ups, len(v)/2, 0.5); why != "" {
			return wrong("%s", why)
		}
	}
	return opdef.Drawn{Checked: fmt.Sprintf("each of the %d numbers stands once; order of neighbours", len(v))}
}

// Bernoulli judges zeros and ones of which each has a probability of its own; p may
// broadcast.
func Bernoulli(t *tensor.Tensor, p func(i int) float64) opdef.Drawn {
	n := min(t.Numel(), largest)
	v := tensor.Make[float64](n)
	tensor.Load(t, 0, v)
	sum, variance := 0.0, 0.0
	for i, x := range v {
		q := p(i)
		if x != 0 && x != 1 {
			return wrong("element %d is %v, want 0 or 1", i, x)
		}
		if q == 0 && x == 1 || q == 1 && x == 0 {
			return wrong("element %d is %v at probability %v", i, x, q)
		}
		sum += x - q
		variance += q * (1 - q)
	}
	if math.Abs(sum) > bernstein(variance, 1) {
		return wrong("%.0f more ones than their probabilities explain, of %d elements", sum, n)
	}
	if n > 0 && constantRate(p, n) {
		q := p(0)
		if why := repeats(v, func(x float64) float64 { return x }, q*q+(1-q)*(1-q)); why != "" {
			return wrong("%s", why)
		}
		if why := pairs(v, q); why != "" {
			return wrong("%s", why)
		}
	}
	return opdef.Drawn{Checked: fmt.Sprintf("zeros and ones, their number, of %d elements", n)}
}

// A Mask is what a dropout of probability P makes of its argument x: Scale*x + Shift
// where it is kept, Dropped where not. Group neighbouring elements are kept or dropped
// together.
type Mask struct {
	P                     float64
	Scale, Shift, Dropped float64
	Group                 int
}

// Dropout is the mask of a dropout whose elements are scaled by 1/(1-p) or 0.
func Dropout(p float64) Mask { return Mask{P: p, Scale: 1 / (1 - p), Group: 1} }

// AlphaDropout is the mask of a dropout that keeps mean 0 and variance 1 (G. Klambauer
// et al., Self-normalizing neural networks, 2017): dropped elements have the value
// that selu has at minus infinity, before all are scaled and shifted.
func AlphaDropout(p float64) Mask {
	const alpha = 1.7580993408473766
	a := 1 / math.Sqrt((alpha*alpha*p+1)*(1-p))
	return Mask{P: p, Scale: a, Shift: alpha * a * p, Dropped: -alpha * a * (1 - p), Group: 1}
}

// Kept says whether x became y by being kept, by being dropped, or could be either;
// neither is wrong. Results are off by up to two units in the last place of the terms,
// for the scale's and the shift's own rounding.
func (m Mask) Kept(dt tensor.DType, x, y float64) (kept, dropped bool) {
	want := m.Scale*x + m.Shift
	if rounded := dt.Round(want); x-x != 0 || rounded-rounded != 0 { // no number, or overflows
		return true, true
	}
	if m.Shift == 0 {
		return math.Abs(y-want) <= 2*dt.ULP(want), y == 0
	}
	// Each is the sum of terms as large as Shift - Dropped, which are rounded too.
	terms := m.Shift - m.Dropped
	return math.Abs(y-want) <= 3*dt.ULP(math.Abs(m.Scale*x)+terms), math.Abs(y-m.Dropped) <= 3*dt.ULP(terms)
}

// Judge looks at what became of x. The number and order of what was dropped are judged
// by groups.
func (m Mask) Judge(x, got *tensor.Tensor) opdef.Drawn {
	group := max(m.Group, 1)
	n := min(x.Numel(), largest/group*group)
	if group > largest {
		return opdef.Drawn{}
	}
	v, y := tensor.Make[float64](n), tensor.Make[float64](n)
	tensor.Load(x, 0, v)
	tensor.Load(got, 0, y)
	drops, hits, why := m.drops(got.DType, v, y, group)
	if why != "" {
		return wrong("%s", why)
	}
	what := "elements"
	if group > 1 {
		what = fmt.Sprintf("groups of %d elements", group)
	}
	if why := Rate(what+" dropped", hits, len(drops), m.P); why != "" {
		return wrong("%s", why)
	}
	if why := repeats(drops, func(x float64) float64 { return x }, m.P*m.P+(1-m.P)*(1-m.P)); why != "" {
		return wrong("the mask: %s", why)
	}
	if why := pairs(drops, m.P); why != "" {
		return wrong("the mask: %s", why)
	}
	return opdef.Drawn{Shown: true,
		Checked: fmt.Sprintf("dropped and scaled %s, their number and order, of %d", what, n/group)}
}

// drops has 1 for each group of v that was dropped, as y shows, and 0 for each that was kept, in order; hits are those
// that were dropped. why says which element was neither. It writes to v.
func (m Mask) drops(dt tensor.DType, v, y []float64, group int) (drops []float64, hits int, why string) {
	drops = v[:0]
	for lo := 0; lo < len(v); lo += group {
		kept, dropped := true, true
		for i := lo; i < lo+group; i++ {
			k, d := m.Kept(dt, v[i], y[i])
			switch want := dt.Round(m.Scale*v[i] + m.Shift); {
			case !k && !d && want == m.Dropped:
				return nil, 0, fmt.Sprintf("element %d is %v, want %v", i, y[i], want)
			case !k && !d:
				return nil, 0, fmt.Sprintf("element %d is %v, want %v or %v", i, y[i], dt.Round(m.Dropped), want)
			case !(kept && k) && !(dropped && d):
				return nil, 0, fmt.Sprintf("elements %d to %d are to be kept or dropped together, and element %d is not",
					lo, lo+group-1, i)
			}
			kept, dropped = kept && k, dropped && d
		}
		switch {
		case kept && dropped: // it looks alike
		case dropped:
			drops, hits = append(drops, 1), hits+1
		default:
			drops = append(drops, 0)
		}
	}
	return drops, hits, ""
}

// Grad is the gradient of x where y shows what was kept and up is y's gradient. Where it does not
// show, the element was kept. A dropped element whose gradient is NaN or infinite gets NaN: torch
// multiplies by the mask.
func (m Mask) Grad(x, y, up *tensor.Tensor) *tensor.Tensor {
	return m.shown(x, y).grad(x, y, up, false, false)
}

// shown is the mask with the scale that the results show. torch rounds it to the dtype for some devices, so that each
// kept result is the nearest one to the argument times the rounded scale, and not each is that to the exact product.
func (m Mask) shown(x, y *tensor.Tensor) Mask {
	rounded := m
	if rounded.Scale = x.DType.Round(m.Scale); m.Shift != 0 || rounded.Scale == m.Scale || !y.DType.IsFloat() {
		return m
	}
	tells := false
	in, out := tensor.Data[float64](x), tensor.Data[float64](y)
	for i, v := range in {
		switch {
		case out[i] == 0 || v-v != 0:
		case out[i] != y.DType.Round(rounded.Scale*v):
			return m
		default:
			tells = tells || out[i] != y.DType.Round(m.Scale*v)
		}
	}
	if !tells {
		return m
	}
	return rounded
}

// Others are gradients that are as right as Grad: what does not show was dropped, the scale is rounded to
// the dtype, as torch does, and dropped elements are 0 whatever their gradient, as from kernels that select.
func (m Mask) Others(x, y, up *tensor.Tensor) []*tensor.Tensor {
	rounded := m
	rounded.Scale = x.DType.Round(m.Scale)
	return []*tensor.Tensor{m.grad(x, y, up, true, false), rounded.grad(x, y, up, false, false),
		m.grad(x, y, up, false, true)}
}

func (m Mask) grad(x, y, up *tensor.Tensor, other, selects bool) *tensor.Tensor {
	return opdef.ZipN(tensor.Float64, x.Shape, func(dst []float64, v [][]float64) {
		for i := range dst {
			kept, dropped := m.Kept(y.DType, v[0][i], v[1][i])
			switch g := v[2][i]; {
			case kept && !(dropped && other):
				dst[i] = m.Scale * g
			case g-g != 0 && !selects:
				dst[i] = math.NaN()
			default:
				dst[i] = 0
			}
		}
	}, x, y, up)
}

func constantRate(p func(int) float64, n int) bool {
	for i := range n {
		if p(i) != p(0) {
			return false
		}
	}
	return true
}

// pairs says that neighbours of zeros and ones of rate q depend on each other.
func pairs(v []float64, q float64) string {
	sum, n := 0.0, len(v)/2
	for i := range n {
		sum += (v[2*i] - q) * (v[2*i+1] - q)
	}
	if math.Abs(sum) > bernstein(float64(n)*q*q*(1-q)*(1-q), 1) {
		return fmt.Sprintf("neighbours are correlated: %.3g over %d pairs", sum/float64(n)/math.Max(q*(1-q), 1e-300), n)
	}
	return ""
}
