package overflow

import (
	"math"

	"github.com/optool/optool/tensor"
)

// stats describe the elements of a tensor: the counts of nan and inf, and what is
// known of the finite elements, in float64; std divides by n-1 and is nan for fewer
// than two. Of complex elements only the counts and the norm are known.
type stats struct {
	numel    int
	nan, inf int
	min, max float64 // nan without finite elements
	mean     float64
	std      float64
	norm     float64
}

// statsOf walks t once, block by block on all cores. A storage that cannot be
// read is an error.
func statsOf(t *tensor.Tensor) (stats, error) {
	if s := t.Storage(); s != nil {
		if _, err := s.Load(); err != nil {
			return stats{}, err
		}
	}
	short, times, err := tensor.Distinct(t)
	if err != nil {
		return stats{}, err
	}
	t = short[0]
	n, step := t.Numel(), t.Block()
	parts := tensor.Make[moments]((n + step - 1) / step) // by block, so that sums do not depend on timing
	tensor.Parallel(len(parts), 16, func(a, b int) {
		v := make([]float64, min(step, n))
		var z []complex128
		if t.DType.IsComplex() {
			z = make([]complex128, len(v))
		}
		for k := a; k < b; k++ {
			lo, hi := k*step, min((k+1)*step, n)
			if z != nil {
				tensor.Load(t, lo, z[:hi-lo])
				magnitudes(v, z[:hi-lo])
			} else {
				tensor.Load(t, lo, v[:hi-lo])
			}
			parts[k] = momentsOf(v[:hi-lo])
		}
	})
	total := moments{min: math.NaN(), max: math.NaN()}
	for _, p := range parts {
		total.merge(p)
	}
	total.repeat(times)
	st := stats{
		numel: n * times, nan: total.nan, inf: total.inf, min: total.min, max: total.max,
		mean: total.mean, std: math.NaN(), norm: math.Sqrt(total.squares),
	}
	if total.n == 0 {
		st.mean = math.NaN()
	}
	if total.n > 1 {
		st.std = math.Sqrt(total.m2 / float64(total.n-1))
	}
	if t.DType.IsComplex() {
		st.min, st.max, st.mean, st.std = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	}
	return st, nil
}

// magnitudes stores |z| in v, nan where either part is nan.
func magnitudes(v []float64, z []complex128) {
	for i, c := range z {
		v[i] = math.Hypot(real(c), imag(c))
		if math.IsNaN(real(c)) || math.IsNaN(imag(c)) {
			v[i] = math.NaN()
		}
	}
}

// moments are running statistics of finite values that can be merged (Chan,
// Golub, LeVeque 1979: Updating formulae and a pairwise algorithm for computing
// sample variances).
type moments struct {
	n, nan, inf int
	min, max    float64
	mean, m2    float64 // m2 is the sum of squared distances from the mean
	squares     float64
}

// repeat makes m the statistics of so many times the same values.
func (m *moments) repeat(times int) {
	m.n, m.nan, m.inf = m.n*times, m.nan*times, m.inf*times
	m.m2, m.squares = m.m2*float64(times), m.squares*float64(times)
}

func momentsOf(v []float64) moments {
	m := moments{min: math.NaN(), max: math.NaN()}
	sum := 0.0
	for _, x := range v {
		switch {
		case math.IsNaN(x):
			m.nan++
			continue
		case math.IsInf(x, 0):
			m.inf++
			continue
		}
		m.n++
		sum += x
		m.squares += x * x
		if !(x >= m.min) {
			m.min = x
		}
		if !(x <= m.max) {
			m.max = x
		}
	}
	if m.n == 0 {
		return m
	}
	m.mean = sum / float64(m.n)
	for _, x := range v {
		if d := x - m.mean; d-d == 0 { // finite
			m.m2 += d * d
		}
	}
	return m
}

func (m *moments) merge(o moments) {
	m.nan += o.nan
	m.inf += o.inf
	if o.n == 0 {
		return
	}
	n := float64(m.n + o.n)
	d := o.mean - m.mean
	m.m2 += o.m2 + d*d*float64(m.n)*float64(o.n)/n
	m.mean += d * float64(o.n) / n
	m.n += o.n
	m.squares += o.squares
	if !(m.min <= o.min) {
		m.min = o.min
	}
	if !(m.max >= o.max) {
		m.max = o.max
	}
}
