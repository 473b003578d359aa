package draws

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/optool/optool/ops/internal/kernel"
)

// An example is rows of weighted vectors, of which each is kept as the mask says.
type example struct {
	p                        float64
	weights, vectors, masked kernel.Matrix[float64]
}

func newExample(r *rand.Rand, p float64, rows, terms, width int) example {
	draw := func(rows, cols int, f func() float64) kernel.Matrix[float64] {
		m := kernel.Dense(rows, cols, make([]float64, rows*cols))
		for i := range m.Data {
			m.Data[i] = f()
		}
		return m
	}
	kept := func() float64 {
		if r.Float64() < p {
			return 0
		}
		return 1 / (1 - p)
	}
	e := example{p, draw(rows, terms, r.ExpFloat64), draw(terms, width, r.NormFloat64), draw(rows, terms, kept)}
	for i := range rows { // as a causal attention's
		ws, sum := e.weights.Data[i*terms:(i+1)*terms], 0.0
		for k := range ws {
			if k > i%(2*terms) {
				ws[k] = 0
			}
			sum += ws[k]
		}
		for k := range ws {
			ws[k] /= sum
		}
	}
	return e
}

// rows are the sums, with a relative error of float32's size, and what bounds that.
func (e example) rows(r *rand.Rand, weights, mask kernel.Matrix[float64]) (got, slack kernel.Matrix[float64]) {
	n, width := weights.Rows, e.vectors.Cols
	got, slack = kernel.Dense(n, width, make([]float64, n*width)), kernel.Dense(n, width, make([]float64, n*width))
	thin := kernel.Dense(n, weights.Cols, make([]float64, len(weights.Data)))
	for i, w := range weights.Data {
		thin.Data[i] = w * mask.Data[i]
	}
	kernel.Gemm(thin, e.vectors, 0, got)
	for i, x := range got.Data {
		got.Data[i], slack.Data[i] = x*(1+0x1p-24*(2*r.Float64()-1)), 0x1p-21*(0.1+math.Abs(x))
	}
	return got, slack
}

func (e example) judge(parts int, got, slack kernel.Matrix[float64]) (wrong string) {
	judges := make([]*Sums, parts)
	n, width, terms := e.weights.Rows/parts, e.vectors.Cols, e.weights.Cols
	part := func(m kernel.Matrix[float64], i, cols int) kernel.Matrix[float64] {
		return kernel.Dense(n, cols, m.Data[i*n*cols:(i+1)*n*cols])
	}
	for i := range judges {
		judges[i] = &Sums{P: e.p, Elements: len(got.Data), Named: "row"}
		judges[i].Add(0, part(got, i, width), part(e.weights, i, terms), e.vectors, part(slack, i, width),
			kernel.Matrix[float64]{})
	}
	return Together(judges).Wrong
}

func TestSumsOfDroppedTerms(t *testing.T) {
	const parts = 8
	for _, c := range []struct {
		terms, width int
		p            float64
	}{{8, 16, 0.1}, {16, 16, 0.5}, {48, 16, 0.1}, {64, 24, 0.3}, {1, 4, 0.2}} {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			e := newExample(r, c.p, parts*64, c.terms, c.width)
			got, slack := e.rows(r, e.weights, e.masked)
			if why := e.judge(parts, got, slack); why != "" {
				t.Errorf("%d terms of %d, rate %v, seed %d: sound rows are wrong: %s", c.terms, c.width, c.p, seed, why)
			}
		}
	}
}

func TestSumsOfTermsDroppedWrongly(t *testing.T) {
	const parts, p = 8, 0.25
	times := func(m kernel.Matrix[float64], f func(i int, x float64) float64) kernel.Matrix[float64] {
		out := kernel.Dense(m.Rows, m.Cols, make([]float64, len(m.Data)))
		for i, x := range m.Data {
			out.Data[i] = f(i, x)
		}
		return out
	}
	for _, terms := range []int{12, 40} {
		r := rand.New(rand.NewPCG(3, 4))
		e := newExample(r, p, parts*128, terms, 16)
		for what, c := range map[string]struct {
			weights, mask func(i int, x float64) float64
			says          string
		}{
			"not scaled":     {nil, func(_ int, x float64) float64 { return x * (1 - p) }, ""},
			"never dropped":  {nil, func(int, float64) float64 { return 1 }, ""},
			"another rate":   {nil, func(_ int, x float64) float64 { return 2 * x * float64(r.IntN(2)) }, ""},
			"one for all":    {nil, func(i int, _ float64) float64 { return e.masked.Data[i%terms] }, ""},
			"one for parts":  {nil, func(i int, _ float64) float64 { return e.masked.Data[i%(128*terms)] }, ""},
			"larger weights": {func(_ int, x float64) float64 { return 1.1 * x }, nil, ""},
			"a term less": {func(i int, x float64) float64 {
				if i%terms == 1 {
					return 0
				}
				return x
			}, nil, ""},
			"a row of zeros": {func(i int, x float64) float64 {
				if i/terms == 127 {
					return 0
				}
				return x
			}, nil, "row 127 are 0"},
		} {
			weights, mask := e.weights, e.masked
			if c.weights != nil {
				weights = times(weights, c.weights)
			}
			if c.mask != nil {
				mask = times(mask, c.mask)
			}
			got, slack := e.rows(r, weights, mask)
			switch why := e.judge(parts, got, slack); {
			case why == "" && terms == 40 && what == "one for parts": // these rows do not show their masks
			case why == "" && terms == 12 && what == "a row of zeros": // which may be
			case why == "":
				t.Errorf("%s: %d terms pass", what, terms)
			case !strings.Contains(why, c.says):
				t.Errorf("%s: %d terms: %q, want %q", what, terms, why, c.says)
			}
		}
	}
}
