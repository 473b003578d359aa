package step

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/optool/optool/step/pairs"
	"github.com/optool/optool/tensor"
)

// summaryFingerprint is the fingerprint of a tensor of which only a summary was
// recorded: tensors with equal summaries count as equal.
func summaryFingerprint(s *tensor.Summary) fingerprint {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteString(strings.ToLower(s.Checksum))
	known := s.Checksum != ""
	for _, x := range []*float64{s.Max, s.Min, s.Mean, s.Norm} {
		if x != nil {
			known = true
			h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(*x)))
		}
		h.WriteByte(0)
	}
	sum := h.Sum64()
	if !known {
		sum = rand.Uint64() // equal to no other
	}
	return fingerprint{sum: sum, block: sum, plain: s.Max != nil && s.Min != nil && *s.Max == *s.Min}
}

// apartBySummary is the relative distance of two values as far as their statistics
// tell: the extrema's relative to the largest magnitude, the norms' to the norm, the
// means' to the root mean square. No tensors with these are nearer to each other. It
// is infinite where only checksums say that they differ.
func (v *Value) apartBySummary(w *Value, opt Options) (float64, error) {
	if !sameShape(v.Shape, w.Shape) {
		return 1, nil
	}
	a, err := v.summarised(w.summary, opt)
	if err != nil {
		return 0, err
	}
	b, err := w.summarised(v.summary, opt)
	if err != nil {
		return 0, err
	}
	n := float64(max(1, v.Numel()))
	largest, norm := 0.0, 0.0
	for _, s := range []*tensor.Summary{a, b} {
		if s.Max != nil && s.Min != nil {
			largest = max(largest, math.Abs(*s.Max), math.Abs(*s.Min))
		}
		if s.Norm != nil {
			norm = max(norm, *s.Norm)
		}
	}
	rms := norm / math.Sqrt(n)
	if norm == 0 {
		rms = largest
	}
	// Mean and norm were added up in the tensor's dtype.
	added := max(v.DType.Eps(), w.DType.Eps()) * (2 + math.Log2(n))
	worst, known := 0.0, false
	for _, s := range []struct {
		x, y             *float64
		scale, tolerated float64
	}{
		{a.Max, b.Max, largest, 0},
		{a.Min, b.Min, largest, 0},
		{a.Mean, b.Mean, rms, added},
		{a.Norm, b.Norm, norm, added},
	} {
		if s.x == nil || s.y == nil {
			continue
		}
		known = true
		x, y := *s.x, *s.y
		if x == y || x != x && y != y {
			continue
		}
		d := math.Abs(x-y) / s.scale
		if d != d {
			return math.Inf(1), nil
		}
		if d > s.tolerated {
			worst = max(worst, d)
		}
	}
	switch {
	case known:
		return worst, nil
	case a.Checksum == "" || b.Checksum == "":
		return 0, errors.New("neither elements nor statistics were recorded")
	case v.DType == w.DType && strings.EqualFold(a.Checksum, b.Checksum):
		return 0, nil
	}
	return math.Inf(1), nil
}

// summarised is what is known of a value, or the same of its elements as other has.
func (v *Value) summarised(other *tensor.Summary, opt Options) (*tensor.Summary, error) {
	if v.summary != nil {
		return v.summary, nil
	}
	t, done, err := v.load(opt)
	if err != nil {
		return nil, err
	}
	defer done()
	return pairs.Summarise(t, other)
}
