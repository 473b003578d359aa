package vec

import "math"

// scalar32 compares float32 values that lie on the grid of c.
func scalar32(a, b []float32, c *consts) Stats {
	if len(a) == 0 {
		return Stats{}
	}
	b = b[:len(a)]
	s := Stats{N: len(a), MaxAbs: math.Inf(-1), MaxRel: math.Inf(-1)}
	maxAbs, maxRel := float32(0), float32(0)
	maxULP, any := uint32(0), uint32(0)
	for i, x := range a {
		y := b[i]
		bx, by := math.Float32bits(x), math.Float32bits(y)
		any |= bx | by
		d := abs32(x - y)
		ax, ay := abs32(x), abs32(y)
		var den, allowed float32
		if c.grid == Float32Grid {
			den = ax + c.eps
			allowed = c.atol + float32(c.rtol*ay)
		} else {
			d = roundTo(d, c.grid)
			den = roundTo(ax+c.eps, c.grid)
			allowed = roundTo(c.atol+roundTo(c.rtol*ay, c.grid), c.grid)
		}
		rel := d / den
		if !(d <= math.MaxFloat32) {
			s.special(x, y, d, rel)
			if x != x || y != y {
				continue
			}
		} else {
			maxAbs, maxRel = max(maxAbs, d), max(maxRel, rel)
			if !(d <= allowed) {
				s.NotClose++
			}
		}
		ox, oy := ordered32(bx), ordered32(by)
		maxULP = max(maxULP, uint32(max(ox, oy)-min(ox, oy)))
		s.Dot += float64(x) * float64(y)
		s.AA += float64(x) * float64(x)
		s.BB += float64(y) * float64(y)
	}
	s.MaxAbs = maxNaN(float64(maxAbs), s.MaxAbs)
	s.MaxRel = float64(roundTo(float32(maxNaN(float64(maxRel), s.MaxRel)), c.grid))
	s.MaxULP = uint64(maxULP)
	if s.InfA > 0 || s.InfB > 0 || s.NaNA > 0 || s.NaNB > 0 {
		s.Dot = math.NaN()
	}
	s.NonZero = any<<1 != 0
	return s
}

// special accounts for a pair whose difference is not finite.
func (s *Stats) special(x, y, d, rel float32) {
	s.MaxAbs = maxNaN(s.MaxAbs, float64(d))
	s.MaxRel = maxNaN(s.MaxRel, float64(rel))
	if x != y && (x == x || y == y) {
		s.NotClose++
	}
	s.tally(float64(x), float64(y))
}

func (s *Stats) tally(x, y float64) {
	if x != x {
		s.NaNA++
	}
	if y != y {
		s.NaNB++
	}
	if (x != x) != (y != y) {
		s.Unlike++
	}
	if math.IsInf(x, 0) {
		s.InfA++
	}
	if math.IsInf(y, 0) {
		s.InfB++
	}
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// ordered32 maps float bits to integers in the order of the values; both
// zeros are 0.
func ordered32(b uint32) int32 {
	m := int32(b) >> 31
	return (int32(b&^(1<<31)) ^ m) - m
}

// scalar16 widens blocks of 16-bit patterns and compares them.
func scalar16(a, b []uint16, c *consts) Stats {
	const block = 256
	var x, y [block]float32
	var s Stats
	for len(a) > 0 {
		n := min(block, len(a))
		widen(x[:n], a[:n], c.grid)
		widen(y[:n], b[:n], c.grid)
		t := scalar32(x[:n], y[:n], c)
		t.MaxULP >>= 16
		if c.grid == Float16Grid {
			t.MaxULP = maxULP16(a[:n], b[:n])
		}
		s.Add(&t)
		a, b = a[n:], b[n:]
	}
	return s
}

// maxULP16 is the largest distance between float16 patterns.
func maxULP16(a, b []uint16) uint64 {
	var m int32
	for i, x := range a {
		y := b[i]
		if x&0x7fff > 0x7c00 || y&0x7fff > 0x7c00 {
			continue
		}
		ox, oy := ordered32(uint32(x)<<16)>>16, ordered32(uint32(y)<<16)>>16
		m = max(m, ox-oy, oy-ox)
	}
	return uint64(m)
}

func widen(dst []float32, src []uint16, g Grid) {
	dst = dst[:len(src)]
	if g == BFloat16Grid {
		for i, h := range src {
			dst[i] = math.Float32frombits(uint32(h) << 16)
		}
		return
	}
	for i, h := range src {
		// Placed in a float32's fields and scaled by 2^(127-15), the exponent
		// is right for normal and subnormal numbers alike.
		mag := math.Float32bits(math.Float32frombits(uint32(h&0x7fff)<<13) * 0x1p112)
		if h&0x7c00 == 0x7c00 {
			mag |= 0x7f800000
		}
		dst[i] = math.Float32frombits(mag | uint32(h>>15)<<31)
	}
}

// scalar64 compares float64 values. As op_tools does, the sums are over the
// elements converted to float32.
func scalar64(a, b []float64, r Rule) Stats {
	if len(a) == 0 {
		return Stats{}
	}
	b = b[:len(a)]
	s := Stats{N: len(a)}
	any, overflow := uint64(0), false
	for i, x := range a {
		y := b[i]
		bx, by := math.Float64bits(x), math.Float64bits(y)
		any |= bx | by
		d := math.Abs(x - y)
		rel := d / (math.Abs(x) + r.Eps)
		if !(d <= math.MaxFloat64) {
			s.MaxAbs, s.MaxRel = maxNaN(s.MaxAbs, d), maxNaN(s.MaxRel, rel)
			s.tally(x, y)
			overflow = true
			if x != y && (x == x || y == y) {
				s.NotClose++
			}
			if x != x || y != y {
				continue
			}
		} else {
			s.MaxAbs, s.MaxRel = maxNaN(s.MaxAbs, d), maxNaN(s.MaxRel, rel)
			if !(d <= r.Atol+float64(r.Rtol*math.Abs(y))) {
				s.NotClose++
			}
		}
		ox, oy := ordered64(bx), ordered64(by)
		s.MaxULP = max(s.MaxULP, uint64(max(ox, oy)-min(ox, oy)))
		fx, fy := float64(float32(x)), float64(float32(y))
		overflow = overflow || math.IsInf(fx, 0) || math.IsInf(fy, 0)
		s.Dot += fx * fy
		s.AA += fx * fx
		s.BB += fy * fy
	}
	if overflow {
		s.Dot = math.NaN()
	}
	s.NonZero = any<<1 != 0
	return s
}

// ordered64 is ordered32 for float64 bits.
func ordered64(b uint64) int64 {
	m := int64(b) >> 63
	return (int64(b&^(1<<63)) ^ m) - m
}
