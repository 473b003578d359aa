package causes

import (
	"iter"
	"slices"

	"github.com/optool/optool/ops/opdef"
)

// inOwnBits are the variations that round in the dtype of the result on the way.
func (c *Search) inOwnBits(fails []Wrong) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		for m := range c.varied(fails) {
			if m.Precision && !yield(m) {
				return
			}
		}
	}
}

// varied are mistakes at one step of the call's formula, or of the derivation of that: another function, another
// operand, fewer bits, other dimensions. Few elements of each are looked at before one is tried.
func (c *Search) varied(fails []Wrong) iter.Seq[Mistake] { return c.variedAt(fails, false) }

// variedAt are the same, of a kernel that makes them at a place only, if part is set: what they make of the elements
// that are right says nothing.
func (c *Search) variedAt(fails []Wrong, part bool) iter.Seq[Mistake] {
	return func(yield func(Mistake) bool) {
		results := slices.ContainsFunc(fails, func(w Wrong) bool { return w.Forward() })
		of := slices.IndexFunc(fails, func(w Wrong) bool {
			_, _, ok := w.floats()
			return ok && w.Forward() == results
		})
		if of < 0 || c.Bound.Plan() != nil {
			return
		}
		for _, call := range []*opdef.Call{c.formula(), c.Bound} {
			if call == nil {
				continue
			}
			var all []opdef.Mistake[*opdef.Call]
			if c.Guard(func() error { all = call.Variations(); return nil }) != nil {
				continue
			}
			for _, m := range all {
				if m.Gradients && results {
					continue
				}
				if c.Work.Over() {
					return
				}
				text := m.Said()
				if !m.Gradients && !results {
					text = derivedText(m)
				}
				make := func() (Way, error) {
					call, err := m.Plan()
					return Way{Call: call, Original: c.Original}, err
				}
				if !c.nearerAt(make, &fails[of], part) ||
					call == c.form && c.idle(m, fails) {
					continue
				}
				if !yield(Mistake{Text: text, Rounds: true, Gradients: m.Gradients, Precision: m.Precision,
					OnlyHere: true, Make: make}) {
					return
				}
			}
		}
	}
}

// nearer reports whether few elements of a value may be what a mistake makes of them: nearly all of those that are
// wrong come near to what was recorded, and few others are farther off. It counts as one that was looked at if it
// changes any.
func (c *Search) nearer(make func() (Way, error), r *Wrong) (is bool) {
	return c.nearerAt(make, r, false)
}

// nearerAt is nearer, which does not look at elements that are right if part is set.
func (c *Search) nearerAt(make func() (Way, error), r *Wrong, part bool) (is bool) {
	_ = c.Guard(func() error { // what cannot be read is not
		x, y, z := c.few(make, r.Target)
		were, still, spoilt, moved := 0, 0, 0, len(x) == 0
		for i := range x {
			due, made := r.Got.DType.Round(y[i]), r.Got.DType.Round(z[i])
			moved = moved || !alike(due, made)
			was, now := apart(x[i], due, 0), apart(x[i], made, 0)
			switch near := r.Got.DType.ULP(x[i]); {
			case !alike(x[i], due) && (!finite(x[i]) || !(was <= near)):
				were++
				still += btoi(!alike(x[i], made) && (!finite(x[i]) || !(now <= max(was/Nearness, near))))
			case !part:
				spoilt += btoi(!alike(x[i], made) && !(now <= 16*near))
			}
		}
		c.looked += btoi(moved)
		is = were > 0 && 8*still <= were && 8*spoilt <= len(x)
		return nil
	})
	return is
}
