package compare

import (
	"math"

	"github.com/optool/optool/tensor"
)

// An extent is how large errors are, and how large the values are that have them.
type extent struct{ err, value float64 }

func (e *extent) add(d, want float64) {
	if d > e.err || math.IsNaN(d) { // NaN stays
		e.err = d
	}
	if v := math.Abs(want); v > e.value && v <= math.MaxFloat64 {
		e.value = v
	}
}

// relativeError is Result.RelativeError of the pair, of numbers that are not integers.
func (p *pair) relativeError() float64 {
	if k := p.dt.Kind(); k != tensor.KindFloat && k != tensor.KindComplex {
		return 0
	}
	parts := make([]extent, p.spans())
	p.walk(func(k int, blocks func(func(lo, n int, s *scratch))) {
		blocks(func(lo, n int, s *scratch) { p.measureExtent(&parts[k], lo, n, s) })
	})
	var all extent
	for _, e := range parts {
		all.add(e.err, e.value)
	}
	if share := all.err / all.value; share > 0 && !math.IsInf(share, 0) {
		return share
	}
	return 0
}

func (p *pair) measureExtent(e *extent, lo, n int, s *scratch) {
	switch p.dt.Kind() {
	case tensor.KindFloat:
		g, w := s.loadGot(p, lo, n), s.loadRounded(p, lo, n)
		for i, x := range g {
			if !same(x, w[i]) {
				e.add(math.Abs(x-w[i]), w[i])
			} else if !math.IsNaN(x) {
				e.add(0, w[i])
			}
		}
	case tensor.KindComplex:
		g, w := s.loadComplex(p, lo, n)
		for i, x := range g {
			if x != w[i] {
				e.add(modulus(x-w[i]), modulus(w[i]))
			} else {
				e.add(0, modulus(w[i]))
			}
		}
	}
}
