// Package draws judges random numbers: whether they can be of the distribution that
// they were drawn from. A sound generator fails a check of some tensor with a
// probability of at most 1e-9, for every number of elements: the bounds are those of
// Dvoretzky, Kiefer and Wolfowitz (with Massart's constant) for empirical
// distributions and of Bernstein for sums.
package draws

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/tensor"
)

// falseAlarm is the probability with which one of the five tests of a tensor (its
// distribution, centre, spread, halves and pairs) may fail sound numbers.
const falseAlarm = 1e-9 / 5

// deviation is ln(2/falseAlarm), which both bounds are made of.
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
	low, high := t.DType.Round(d.Low), t.DType.Round(d.High)
	if !t.DType.IsFloat() {
		low, high = d.Low, d.High
	}
	for i, x := range v {
		switch {
		case !(x >= low && x <= high):
			return wrong("element %d is %v, want values from %v to %v", i, x, d.Low, d.High)
		case d.Whole && x != math.Trunc(x):
			return wrong("element %d is %v, want whole numbers", i, x)
		}
	}
	if d.Low == d.High {
		return opdef.Drawn{Checked: fmt.Sprintf("all %d elements are %v", len(v), d.Low)}
	}
	n := float64(len(v))
	if why := repeats(v, func(x float64) float64 { return x }, d.collision(v)); why != "" {
		return wrong("%s", why)
	}
	if why := d.correlated(v); why != "" {
		return wrong("%s", why)
	}
	slices.Sort(v)
	// Numbers of a coarse dtype are those of the distribution rounded, some generators'
	// up or down: a value stands for those up to its neighbours.
	span := func(x float64) (least, most float64) {
		u := 0.0
		if ulp := t.DType.ULP(x); t.DType.IsFloat() && (!d.Whole || ulp > 1) {
			u = ulp
		}
		return d.CDF(x - u), d.CDF(x + u)
	}
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
			return wrong("a share of %.4g of the elements is at most %v, %s has %.4g: no sound generator is so far off "+
				"with %d elements", float64(j)/n, v[i], d.Name, least, len(v))
		case float64(i)/n > most+allowed || d.Whole && most == least && float64(i)/n > below+allowed:
			return wrong("a share of %.4g of the elements is less than %v, %s has %.4g: no sound generator is so far off "+
				"with %d elements", float64(i)/n, v[i], d.Name, most, len(v))
		}
		coarsest = math.Max(coarsest, most-least)
		u := d.CDF(v[i]) - 0.5
		centre += float64(j-i) * u
		spread += float64(j-i) * (u*u - 1.0/12)
		i = j
	}
	// Of a continuous distribution the ranks are uniform on [0, 1]: mean 1/2, variance 1/12.
	if slack := n * coarsest; !d.Whole && (math.Abs(centre) > bernstein(n/12, 0.5)+slack ||
		math.Abs(spread) > bernstein(n/180, 1.0/6)+slack) {
		return wrong("of %s the centre is off by %.3g, the spread by %.3g: no sound generator's are with %d elements",
			d.Name, centre/n, 12*spread/n, len(v))
	}
	return opdef.Drawn{Checked: fmt.Sprintf("range, distribution (%s), centre, spread, pairs and halves of %d elements",
		d.Name, len(v))}
}

func wrong(format string, args ...any) opdef.Drawn {
	return opdef.Drawn{Wrong: fmt.Sprintf(format, args...)}
}

// collision bounds the probability that two elements are equal, by what equal
// neighbours the sorted elements have.
func (d Distribution) collision(v []float64) float64 {
	most, n := 1, map[float64]int{}
	for _, x := range v[:min(len(v), 1<<16)] {
		n[x]++
		most = max(most, n[x])
	}
	return math.Min(1, 2*float64(most)/float64(min(len(v), 1<<16)))
}

// repeats says that the elements begin again after a part of them, "" if not. equal is
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

// correlated says that neighbours depend on each other, "" if not: in disjoint pairs the
// product of the distances from the median rank is 0 in the mean.
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

// bernstein is how far a sum of independent numbers of mean 0, of so much variance
// together, none larger than most, is from 0 at most.
func bernstein(variance, most float64) float64 {
	a := deviation * most / 3
	return a + math.Sqrt(a*a+2*deviation*variance)
}

// Rate judges how many of n trials of probability p came true.
func Rate(what string, hits, n int, p float64) string {
	expected := p * float64(n)
	if off := math.Abs(float64(hits) - expected); off > bernstein(expected*(1-p), 1) {
		return fmt.Sprintf("%d of %d elements are %s, want about %.0f", hits, n, what, expected)
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
		if why := Rate("larger than the one before", ups, len(v)/2, 0.5); why != "" {
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

// Dropout judges what a dropout of probability p made of x: zeros or x/(1-p), up to two
// units in the last place for the factor's own rounding. each: every element was drawn
// by itself, so that their number and order can be judged too.
func Dropout(x, got *tensor.Tensor, p float64, each bool) opdef.Drawn {
	n := min(x.Numel(), largest)
	v, y := tensor.Make[float64](n), tensor.Make[float64](n)
	tensor.Load(x, 0, v)
	tensor.Load(got, 0, y)
	dropped, hits := v[:0], 0
	for i, a := range v {
		want := a / (1 - p)
		switch rounded := got.DType.Round(want); {
		case a-a != 0 || rounded-rounded != 0: // no number, or overflows
		case rounded == 0 && math.Abs(y[i]-want) <= 2*got.DType.ULP(want): // dropped or not, it looks alike
		case y[i] == 0:
			dropped, hits = append(dropped, 1), hits+1
		case math.Abs(y[i]-want) <= 2*got.DType.ULP(want):
			dropped = append(dropped, 0)
		case rounded == 0:
			return wrong("element %d is %v, want 0", i, y[i])
		default:
			return wrong("element %d is %v, want 0 or %v", i, y[i], rounded)
		}
	}
	if !each {
		return opdef.Drawn{Checked: fmt.Sprintf("zeros and scaled elements, of %d", n)}
	}
	if why := Rate("zero", hits, len(dropped), p); why != "" {
		return wrong("%s", why)
	}
	if why := repeats(dropped, func(x float64) float64 { return x }, p*p+(1-p)*(1-p)); why != "" {
		return wrong("the mask: %s", why)
	}
	if why := pairs(dropped, p); why != "" {
		return wrong("the mask: %s", why)
	}
	return opdef.Drawn{Checked: fmt.Sprintf("zeros and scaled elements, their number and order, of %d", n)}
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
