package metric

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/tensor"
)

// An Effect is how far results are from the exact ones.
type Effect struct {
	// KL is the mean over the positions of KL(exact || result), of next-token distributions.
	KL, KLMax float64
	// LogProb is the mean change of the log-probability of the given tokens, result minus exact; LogProbAbs is the
	// mean of its absolute values.
	LogProb, LogProbAbs float64
	// Flips are the positions whose most likely token differs.
	Flips []int
	// MaxAbs is the largest change of a logit.
	MaxAbs float64
	// NonFinite counts positions that are in none of these numbers: either side has no distribution there.
	NonFinite int
	nonFinite map[int]bool // the positions
}

// A Distribution holds what exact logits say of each position, so that other logits are compared with it
// quickly.
type Distribution struct {
	Positions, Vocabulary int

	logits []float64
	logp   []float64 // of each token
	best   []int
	tokens []int64 // the token that each position is to tell, negative if there is none; nil if none is known
}

// NewDistribution takes logits of which the last dimension is the vocabulary. tokens are what the positions
// are to tell, in their order.
func NewDistribution(logits *tensor.Tensor, tokens []int64) (*Distribution, error) {
	if logits.Dim() == 0 || !logits.DType.IsFloat() {
		return nil, fmt.Errorf("a result of shape %s is no logits", tensor.ShapeString(logits.Shape))
	}
	d := &Distribution{Vocabulary: logits.Shape[logits.Dim()-1], tokens: tokens, logits: tensor.Data[float64](logits)}
	if d.Vocabulary < 2 {
		return nil, fmt.Errorf("a result of shape %s has no two tokens to tell from each other",
			tensor.ShapeString(logits.Shape))
	}
	d.Positions = len(d.logits) / d.Vocabulary
	if tokens != nil && len(tokens) != d.Positions {
		return nil, fmt.Errorf("%d tokens for %d positions", len(tokens), d.Positions)
	}
	d.logp = make([]float64, len(d.logits))
	for t := range d.Positions {
		row := d.row(d.logits, t)
		logSoftmax(d.row(d.logp, t), row)
		d.best = append(d.best, argmax(row))
	}
	return d, nil
}

func (d *Distribution) row(all []float64, t int) []float64 {
	return all[t*d.Vocabulary : (t+1)*d.Vocabulary]
}

// LogProbs are the exact log-probabilities of the tokens; NaN where there is none.
func (d *Distribution) LogProbs() []float64 { return d.logProbs(d.logp) }

func (d *Distribution) logProbs(logp []float64) []float64 {
	if d.tokens == nil {
		return nil
	}
	out := make([]float64, d.Positions)
	for t, id := range d.tokens {
		out[t] = math.NaN()
		if id >= 0 && int(id) < d.Vocabulary {
			out[t] = logp[t*d.Vocabulary+int(id)]
		}
	}
	return out
}

// Effect compares logits with the exact ones.
func (d *Distribution) Effect(logits []float64) Effect {
	e := Effect{nonFinite: map[int]bool{}}
	logp := make([]float64, len(logits))
	for t := range d.Positions {
		row, exact := d.row(logits, t), d.row(d.logp, t)
		now := d.row(logp, t)
		logSoftmax(now, row)
		if !tells(row) || !tells(d.row(d.logits, t)) {
			e.NonFinite++
			e.nonFinite[t] = true
			continue
		}
		kl := 0.0
		for i, l := range exact {
			if p := math.Exp(l); p > 0 {
				kl += p * divergence(now[i]-l)
			}
			if c := math.Abs(row[i] - d.logits[t*d.Vocabulary+i]); c > e.MaxAbs {
				e.MaxAbs = c
			}
		}
		e.KL += kl
		e.KLMax = max(e.KLMax, kl)
		if argmax(row) != d.best[t] {
			e.Flips = append(e.Flips, t)
		}
	}
	if e.KL /= float64(d.Positions - e.NonFinite); e.NonFinite == d.Positions {
		e.KLMax, e.MaxAbs = math.NaN(), math.NaN()
	}
	was, n := d.LogProbs(), 0.0
	for t, l := range d.logProbs(logp) {
		if c := l - was[t]; c-c == 0 {
			e.LogProb += c
			e.LogProbAbs += math.Abs(c)
			n++
		}
	}
	if n > 0 {
		e.LogProb, e.LogProbAbs = e.LogProb/n, e.LogProbAbs/n
	} else {
		e.LogProb, e.LogProbAbs = math.NaN(), math.NaN()
	}
	return e
}

// divergence is exp(d) - 1 - d. Weighed by probabilities it adds up to the KL divergence, as -d does, without the
// cancellation: the probabilities of both sides add up to one.
func divergence(d float64) float64 {
	if math.Abs(d) < 1e-4 {
		return d * d * (0.5 + d*(1.0/6+d/24))
	}
	return math.Expm1(d) - d
}

// tells reports whether logits give probabilities: none is NaN, and the largest is finite. Logits of tokens that are
// not to be drawn may be -Inf.
func tells(logits []float64) bool {
	top := slices.Max(logits)
	return top-top == 0
}

// logSoftmax writes the log-probabilities that logits give.
func logSoftmax(dst, logits []float64) {
	top := math.Inf(-1)
	for _, x := range logits {
		top = max(top, x)
	}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(x - top)
	}
	log := top + math.Log(sum)
	for i, x := range logits {
		dst[i] = x - log
	}
}

// argmax is the first of the largest elements.
func argmax(v []float64) int {
	best := 0
	for i, x := range v {
		if x > v[best] {
			best = i
		}
	}
	return best
}
