package pairs

import (
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// Rules that decide where only statistics or checksums were recorded, of objects, and of
// elements that are no numbers.
const (
	ruleChecksum   = "checksum"
	ruleStatistics = "statistics"
	ruleObjects    = "class"
	ruleBits       = "bits"
)

// summaries compares two tensors of which one, or both, are only summarised. They
// pass if tensors that pass element by element could have these statistics: with
// |a-b| <= atol + rtol*|b| for each of n elements the largest and smallest differ
// by at most atol + rtol*|x|, the means by atol + rtol*rms and the norms by
// sqrt(n)*atol + rtol*norm (the triangle inequality). The statistics' own rounding
// comes on top: they were computed in the tensor's dtype.
func summaries(g, w *tensor.Tensor, tol compare.Tolerance) (res compare.Result) {
	res = compare.Result{MaxULP: math.NaN(), Numel: g.Numel(), Rule: ruleStatistics}
	if g.DType != w.DType || !slices.Equal(g.Shape, w.Shape) {
		res.Verdict, res.Reason = verdict.Fail, fmt.Sprintf("%s against %s", g.Meta(), w.Meta())
		return res
	}
	a, err := Summarise(g, w.Summary())
	if err != nil {
		res.Verdict, res.Reason = verdict.Invalid, err.Error()
		return res
	}
	b, err := Summarise(w, g.Summary())
	if err != nil {
		res.Verdict, res.Reason = verdict.Invalid, err.Error()
		return res
	}
	checked := a.Checksum != "" && b.Checksum != ""
	if checked && strings.EqualFold(a.Checksum, b.Checksum) {
		res.Verdict, res.Rule = verdict.Pass, ruleChecksum
		return res
	}
	known, beyond := statistics(a, b, g.DType, float64(g.Numel()), tol)
	switch {
	case len(beyond) > 0:
		res.Verdict, res.Reason = verdict.Fail, strings.Join(beyond, ", ")
	case checked && known == 0:
		res.Verdict, res.Rule = verdict.Fail, ruleChecksum
		res.Reason = "checksums differ: by how much was not recorded"
	case checked:
		res.Verdict, res.Rule = verdict.Mistrusted, ruleChecksum
		res.Reason = "checksums differ, statistics agree within rounding"
	case known == 0:
		res.Verdict, res.Reason = verdict.Unsupported, "neither elements nor statistics were recorded"
	default:
		res.Verdict = verdict.Pass
	}
	return res
}

// statistics compares what is known of both sides: how many that are, and those
// that rounding does not explain.
func statistics(a, b *tensor.Summary, dt tensor.DType, n float64, tol compare.Tolerance) (known int, beyond []string) {
	rms := 0.0
	if b.Norm != nil {
		rms = *b.Norm / math.Sqrt(max(n, 1))
	} else if b.Max != nil && b.Min != nil {
		rms = max(math.Abs(*b.Max), math.Abs(*b.Min))
	}
	// A sum of n terms, in pairs of blocks, rounds about log2(n) times.
	own := 0.0
	if dt.IsFloat() || dt.IsComplex() {
		own = dt.Real().Eps() * (2 + math.Log2(max(n, 1)))
	}
	for _, s := range []struct {
		name  string
		x, y  *float64
		bound func(y float64) float64
	}{
		{"max", a.Max, b.Max, func(y float64) float64 { return tol.Atol + tol.Rtol*math.Abs(y) }},
		{"min", a.Min, b.Min, func(y float64) float64 { return tol.Atol + tol.Rtol*math.Abs(y) }},
		{"mean", a.Mean, b.Mean, func(float64) float64 { return tol.Atol + (tol.Rtol+own)*rms }},
		{"norm", a.Norm, b.Norm, func(y float64) float64 { return math.Sqrt(n)*tol.Atol + (tol.Rtol+own)*math.Abs(y) }},
	} {
		if s.x == nil || s.y == nil {
			continue
		}
		known++
		x, y := *s.x, *s.y
		if x == y || x != x && y != y {
			continue
		}
		bound := 0.0
		if dt.IsFloat() || dt.IsComplex() {
			bound = s.bound(y)
		}
		if d := math.Abs(x - y); !(d <= bound) || math.IsInf(d, 0) {
			beyond = append(beyond, fmt.Sprintf("%s %.7g against %.7g (rounding explains %.2g)", s.name, x, y, bound))
		}
	}
	return known, beyond
}

// Summarise is the summary of t: recorded, or computed with what other has.
func Summarise(t *tensor.Tensor, other *tensor.Summary) (*tensor.Summary, error) {
	if s := t.Summary(); s != nil {
		return s, nil
	}
	if err := readable(t); err != nil {
		return nil, err
	}
	n, step := t.Numel(), t.Block()
	s := &tensor.Summary{}
	if other.Checksum != "" && !strings.HasPrefix(other.Checksum, "0x") {
		s.Checksum = fmt.Sprintf("%08x", crc32.ChecksumIEEE(t.AppendBytes(nil)))
	}
	if n == 0 || !t.DType.Computable() {
		return s, nil
	}
	least, most, sum, squares := math.Inf(1), math.Inf(-1), 0.0, 0.0
	v := make([]float64, min(step, n))
	var z []complex128
	for lo := 0; lo < n; lo += step {
		hi := min(lo+step, n)
		if t.DType.IsComplex() { // the recorder's largest and smallest are of magnitudes
			z = append(z[:0], make([]complex128, hi-lo)...)
			tensor.Load(t, lo, z)
			for i, c := range z {
				v[i] = math.Hypot(real(c), imag(c))
			}
		} else {
			tensor.Load(t, lo, v[:hi-lo])
		}
		for _, x := range v[:hi-lo] {
			least, most = min(least, x), max(most, x) // NaN stays
			sum += x
			squares += x * x
		}
	}
	mean, norm := sum/float64(n), math.Sqrt(squares)
	s.Max, s.Min = &most, &least
	if other.Mean != nil && !t.DType.IsComplex() {
		s.Mean = &mean
	}
	if other.Norm != nil {
		s.Norm = &norm
	}
	return s, nil
}
