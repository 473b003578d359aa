package compare

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/tensor"
)

// magnitudes are S of a pair (Model.Scale) or a lower bound of S (Model.Least). They may cost as much as the reference
// or more. So they are computed piece by piece, where an element is too far off to be judged without them, or for whole
// blocks if the first spans show that most pieces are wanted. Either way gives the same verdicts.
type magnitudes struct {
	once         sync.Once
	compute      func() *tensor.Tensor
	s            *tensor.Tensor // nil if there is none
	piece        int            // elements computed at a time
	seen, loaded atomic.Int64   // elements judged, and those of the pieces computed for that
	wanted       atomic.Bool    // whole blocks, before their elements are looked at
}

// The magnitudes of a pair: what is at most S (Model.Least) and S.
const (
	least = iota
	whole
)

const (
	leastPiece = 8 // elements of a piece, at least, where one costs hardly less
	// The elements after which it is known how many pieces are wanted, where a wrong guess costs as much as
	// the reference and where it costs little, and the shares of them in wanted pieces from which whole blocks
	// are computed: a piece costs as much as some hundred elements of a function of one element, an element of
	// a product that is known as much as a hundred.
	sampled      = 4 * span
	sampledCheap = span / 2
	share        = 1. / 4
	shareSingle  = 1. / 32
	shareKnown   = 1. / 64
)

// begin says how the magnitudes of a pair are computed.
func (c *checker) begin() {
	if c.override == nil {
		c.magnitudes[least].compute, c.magnitudes[whole].compute = c.model.Least, c.model.Scale
	}
}

// scale are the magnitudes of a kind, nil if there are none.
func (c *checker) scale(kind int) *tensor.Tensor {
	m := &c.magnitudes[kind]
	m.once.Do(func() {
		m.piece = c.block
		if m.compute == nil {
			return
		}
		if t := m.compute(); t != nil && t.Numel() == c.n {
			m.s, m.piece = t, 1
			if !t.Costly() {
				m.piece = min(c.block, (leastPiece+t.Grain()-1)/t.Grain()*t.Grain())
			}
		}
	})
	return m.s
}

// A scaleBlock holds magnitudes for the elements of a block.
type scaleBlock struct {
	at     int // start of the block, -1 if none
	v      []float64
	have   []bool // pieces that are loaded
	loaded int
}

func (b *scaleBlock) begin(at, n, piece int) {
	if b.at == at {
		return
	}
	b.at, b.loaded = at, 0
	resize(&b.v, n)
	clear(resize(&b.have, (n+piece-1)/piece))
}

// scaleOf are magnitudes for a block: zero where there are none or they are not finite.
func (c *checker) scaleOf(kind, lo, n int, s *scratch) []float64 {
	t, b := c.scale(kind), &s.scale[kind]
	b.begin(lo, n, c.magnitudes[kind].piece)
	if b.loaded < len(b.have) {
		loadMagnitudes(t, lo, b.v)
		b.loaded = len(b.have)
	}
	return b.v
}

// scaleAt is the magnitude of element i of the block at lo.
func (c *checker) scaleAt(kind, lo, i int, s *scratch) float64 {
	t, b, piece := c.scale(kind), &s.scale[kind], c.magnitudes[kind].piece
	b.begin(lo, min(c.block, c.n-lo), piece)
	if k := i / piece; b.loaded < len(b.have) && !b.have[k] {
		loadMagnitudes(t, lo+k*piece, b.v[k*piece:min((k+1)*piece, len(b.v))])
		b.have[k] = true
		b.loaded++
	}
	return b.v[i]
}

// countScale takes note of how many of the magnitudes of a block were wanted.
func (c *checker) countScale(lo, n int, s *scratch) {
	if c.bound.sum == 0 {
		return
	}
	for kind := range c.magnitudes {
		m, b := &c.magnitudes[kind], &s.scale[kind]
		if m.compute == nil || m.wanted.Load() {
			continue
		}
		loaded, after, enough := 0, sampled, share
		if c.model.Single {
			after, enough = sampledCheap, shareSingle
		}
		if b.at == lo {
			loaded = min(n, b.loaded*m.piece)
			if m.piece == 1 && !m.s.Costly() {
				after, enough = sampledCheap, shareKnown
			}
		}
		seen, k := int(m.seen.Add(int64(n))), m.loaded.Add(int64(loaded))
		if seen >= after && float64(k) > enough*float64(seen) {
			m.wanted.Store(true)
		}
	}
}

// loadMagnitudes loads the magnitudes of t from element lo on, zero for those
// that are not finite and if there is no t.
func loadMagnitudes(t *tensor.Tensor, lo int, dst []float64) {
	if t == nil {
		clear(dst)
		return
	}
	tensor.Load(t, lo, dst)
	if len(dst) > leastPiece {
		vmath.Abs(dst, dst)
		if vmath.Max(dst) <= math.MaxFloat64 {
			return
		}
	}
	for i, x := range dst {
		if dst[i] = math.Abs(x); !(dst[i] <= math.MaxFloat64) {
			dst[i] = 0
		}
	}
}
