package causes

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/tensor"
)

// withRival are the causes to be told, if first has one: that alone, or with a rival. A rival is a mistake of the
// same or a later kind that explains no less and is not the same in other words. One that explains more, and exactly
// where first does not, is told in its place. If there are rivals of two kinds, each
// of the three is a guess, and none is told. kinds are the later ones. At most rivalWork is spent on them.
func (c *Search) withRival(first, all []Cause, fails []Wrong, kinds []iter.Seq[Mistake],
	tried *int, explains func(m Mistake, left []Wrong) Cause) []Cause {
	if len(first) != 1 || first[0].mistake == nil || len(first[0].Targets) < len(fails) || c.Elsewhere == nil {
		return first
	}
	k := &first[0]
	var others []*Cause
	is := func(r *Cause) {
		if r.mistake == nil || r.Text == k.Text || !k.asGood(r) {
			return
		}
		if r.Exact && !k.Exact && r.mistake.Cost <= k.mistake.Cost && k.Bits <= (1-moreBits)*r.Bits {
			*k = *r
			return
		}
		if !k.rivals(r) || !c.differ(k, r) ||
			slices.ContainsFunc(others, func(o *Cause) bool { return !c.differ(o, r) }) {
			return
		}
		others = append(others, r)
	}
	for i := range all {
		is(&all[i])
	}
	done := c.Work.Aside(rivalWork)
search:
	for _, source := range kinds {
		for m := range source {
			if done() || len(others) > 1 {
				break search
			}
			*tried++
			r := explains(m, fails)
			if r.mistake = &m; len(r.Targets) == len(fails) && r.Bits >= Required(*tried+c.looked)+m.Cost {
				n := len(others)
				if m.Truly != nil {
					r.Text = m.Truly()
				}
				if is(&r); len(others) > n { // one of each kind
					continue search
				}
			}
		}
	}
	switch len(others) {
	case 0:
		return first
	case 1:
		k.Text = "either " + k.Text + ", or " + others[0].Text
		return first
	}
	return nil
}

// rivalKinds are the kinds that come after one, without those that compose a mistake of many parts.
func (c *Search) rivalKinds(fails []Wrong, kinds []iter.Seq[Mistake], at int) []iter.Seq[Mistake] {
	if onlyNumbers(fails) {
		at = max(at, ofNumbers-1)
	}
	return append(slices.Clone(kinds[min(at+1, len(kinds)):]), c.relatives(fails), c.movedFactors(), c.reduced(fails),
		c.fittedNumbers(fails, 0), c.averaged(), c.limited(fails))
}

// asGood reports whether another cause explains no less than k, and as exactly.
func (k *Cause) asGood(r *Cause) bool {
	less := asMany
	if !k.Exact && k.mistake.Argument && k.otherArgument(r) {
		less = asManyRounded
	}
	return len(r.Targets) >= len(k.Targets) && (r.Exact || !k.Exact) && r.Share >= k.Share && r.Bits >= (1-less)*k.Bits
}

// otherArgument reports whether two causes say that two arguments have other values.
func (k *Cause) otherArgument(l *Cause) bool {
	a, b := k.mistake.Of, l.mistake.Of
	return a != "" && b != "" && a != b
}

// rivals reports whether another cause may be meant in place of k: it is no more of a guess than that, and another one
// than the same with other numbers. One that takes numbers for others, of which there are many, is a guess where an
// argument or a step of the operator explains as much.
func (k *Cause) rivals(r *Cause) bool {
	a, b := k.mistake, r.mistake
	return (a.Like == "" || a.Like != b.Like) && b.Cost <= a.Cost+rivalBits && (a.Numbers || !b.Numbers)
}

// moreBits is the part by which an exact mistake explains more than one that leaves roundings, to be told in its place.
const moreBits = 0.05

// rivalBits are those that were fitted to find one mistake, and not another that is as likely.
const rivalBits = 8

// differ reports whether two mistakes make other values of a call like this one, whose operands have other numbers.
func (c *Search) differ(k, l *Cause) (is bool) {
	if k.mistake.OnlyHere || l.mistake.OnlyHere {
		return false
	}
	apart := apartAnywhere
	if k.otherArgument(l) { // which is never the same in other words
		apart = apartOften
	}
	for seed := range probes {
		c.Elsewhere(func(t *tensor.Tensor) []byte { return likeIt(t, seed) },
			func(under func(w Way, target string) *tensor.Tensor) {
				for _, target := range k.Targets {
					x, y := c.valueOf(k.mistake, target, under), c.valueOf(l.mistake, target, under)
					is = is || x != nil && y != nil && apart(x, y)
				}
			})
		if is {
			return true
		}
	}
	return false
}

// valueOf are some elements of a value under a mistake, nil if there is none.
func (c *Search) valueOf(m *Mistake, target string, under func(w Way, target string) *tensor.Tensor) (v []float64) {
	_ = c.Guard(func() error { // what cannot be run has none
		way, err := m.Make()
		if err != nil || way.Call == nil {
			return err
		}
		if t := under(way, target); t != nil && !t.DType.IsComplex() {
			v = sample(t)
		}
		return nil
	})
	return v
}

// apartAnywhere reports whether two values differ by much more than rounding in an element where both are numbers.
func apartAnywhere(x, y []float64) bool {
	if len(x) != len(y) {
		return true
	}
	near := 1e-3 * rms(x)
	for i := range x {
		if finite(x[i]) && finite(y[i]) && math.Abs(x[i]-y[i]) > near+1e-2*math.Abs(x[i]) {
			return true
		}
	}
	return false
}

// apartOften reports whether two values differ in more elements than those that lie in the middle between two numbers
// of their dtype, or are far apart in any.
func apartOften(x, y []float64) bool {
	n := 0
	for i := range min(len(x), len(y)) {
		n += btoi(!alike(x[i], y[i]))
	}
	return 50*n > len(x) || apartAnywhere(x, y)
}

// probes is on how many sets of numbers two mistakes are compared: numbers of both signs, and numbers in the recorded
// range.
const probes = 2

// likeIt are numbers of the dtype and about the size of the elements of t, for all of its memory; nil if there are
// none.
func likeIt(t *tensor.Tensor, seed int) []byte {
	size := int64(t.DType.Size())
	n := int(t.Storage().Len() / max(size, 1))
	if !t.DType.IsFloat() || t.Numel() == 0 || n > mostProbed || int64(n)*size != t.Storage().Len() {
		return nil
	}
	lo, hi, scale := math.Inf(1), math.Inf(-1), 0.0
	for _, x := range elements(t) {
		if finite(x) {
			lo, hi, scale = min(lo, x), max(hi, x), scale+x*x/float64(t.Numel())
		}
	}
	if !(lo <= hi) {
		return nil
	}
	if scale = math.Sqrt(scale); scale == 0 {
		scale = 1
	}
	v := tensor.Make[float64](n)
	random := rand.New(rand.NewPCG(uint64(seed)+1, uint64(n)))
	for i := range v {
		switch {
		case seed == 0:
			v[i] = scale * random.NormFloat64()
		case lo == hi:
			v[i] = lo * (0.5 + random.Float64())
		default:
			v[i] = lo + (hi-lo)*random.Float64()
		}
	}
	return tensor.New(t.DType, []int{n}, v).AppendBytes(nil)
}

// mostProbed is how many elements memory may have to be given other numbers.
const mostProbed = 1 << 18

// rivalWork is the work of looking for a rival of a cause.
const rivalWork = 1 << 32
