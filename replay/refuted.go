package replay

import (
	"slices"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
)

// refuted reports whether a few elements show that a mistake explains no pass that failed. Gradients are not looked at
// where a result failed that has more than one element. Idle: it could explain none, since it changes nothing, or makes
// what another mistake made that was refuted.
func (c *Call) refuted(m causes.Mistake, way causes.Way, fails []Result) (is, idle bool) {
	if way.Call.Plan() == nil && way.Call.Random() != "" && c.bound.Random() == "" {
		return true, false // it gives no certain numbers
	}
	results := slices.ContainsFunc(fails, func(r Result) bool { return r.Phase != Backward && r.numel() > 1 })
	if results && (way.OnlyIncoming || m.Gradients) {
		return true, true
	}
	some := slices.ContainsFunc(fails, func(r Result) bool { // see mostly
		return r.Compared != nil && r.Compared.Mismatched >= 2*m.Few()
	})
	if results {
		fails = slices.DeleteFunc(slices.Clone(fails), func(r Result) bool { return r.Phase == Backward })
	}
	g := &glance{rounds: m.Rounds && some, fails: map[target]fault{}, parts: c.soundParts}
	for _, r := range fails {
		if r.Compared != nil && r.Compared.Loose == 0 && r.DType.IsFloat() {
			g.fails[target{r.Phase, r.Target}] = c.faultOf(&r)
		}
	}
	if len(g.fails) == 0 {
		return false, false
	}
	far, err := c.farOff(way, g, results)
	if err != nil || slices.ContainsFunc(fails, func(r Result) bool { return !far[r.Phase == Backward] }) {
		return false, false
	}
	if idle = g.made != 0 && (!g.moved || c.made[g.made]); c.made == nil {
		c.made = map[uint64]bool{}
	}
	c.made[g.made] = true
	return true, idle
}

// farOff tells of results (false) and of gradients (true) whether a way gives any of those that a glance is about far
// from what was recorded; forward: only results are asked for.
func (c *Call) farOff(way causes.Way, g *glance, forward bool) (far map[bool]bool, err error) {
	far = map[bool]bool{}
	if way.Call == c.bound && way.Alter != nil && !changes(way, c.gradOutputs) { // what is due is known
		return far, Guard(func() error {
			for of, f := range g.fails {
				w := c.wrong[of.name]
				if got, want, ok := w.Pair(); ok && g.far(f, got, way.Alter(of.name, want)) {
					far[of.phase == Backward] = true
				}
			}
			return nil
		})
	}
	seen := c.glanceAt(way, g, forward)
	for of := range g.fails {
		i := slices.IndexFunc(seen, func(r Result) bool { return of == target{r.Phase, r.Target} })
		if i < 0 || seen[i].Compared == nil || seen[i].Verdict == verdict.Fail { // a call may fail as such
			far[of.phase == Backward] = true
		}
	}
	return far, nil
}

// glanceAt are the results of a call that runs another way, few elements of which are compared.
func (c *Call) glanceAt(way causes.Way, g *glance, forward bool) []Result {
	c.work.Glance()
	alt := c.under(way)
	alt.glance, alt.opt.Sample = g, &Sampling{Over: glancedFlops}
	alt.opt.ForwardOnly = alt.opt.ForwardOnly || forward
	if alt.fwd != nil && alt.bound.Axes() != nil && (!alt.opt.ForwardOnly || way.Alter == nil) {
		alt.fwd = nil // so that only a part is computed
	}
	alt.guard(alt.compareCall)
	return alt.out.Results
}

// glanceAtSound looks at the parts of the values that failed which the call as it is gives.
func (c *Call) glanceAtSound(fails []Result) {
	c.soundParts = map[target]fault{}
	g := &glance{fails: map[target]fault{}}
	for i := range fails {
		if fails[i].DType.IsFloat() {
			g.fails[target{fails[i].Phase, fails[i].Target}] = c.faultOf(&fails[i])
		}
	}
	g.seen = func(of target, got, want *tensor.Tensor) {
		if f := g.fails[of]; f.due == nil || !slices.Equal(f.due.Shape, got.Shape) {
			c.soundParts[of] = faultIn(got, want, f.most, 0)
		}
	}
	forward := !slices.ContainsFunc(fails, func(r Result) bool { return r.Phase == Backward })
	c.glanceAt(causes.Way{Call: c.bound, Original: c.original}, g, forward)
}

// few are some elements of a value that failed: as it was recorded, as it is due, and as a call gives it that runs
// another way; nil if the call gives none.
func (c *Call) few(way causes.Way, r *Result) (x, due, made []float64) {
	of := target{r.Phase, r.Target}
	g := &glance{fails: map[target]fault{of: c.faultOf(r)}}
	g.seen = func(seen target, got, want *tensor.Tensor) {
		for _, f := range []fault{g.fails[of], c.soundParts[of]} {
			if seen == of && f.due != nil && slices.Equal(f.due.Shape, got.Shape) && x == nil {
				x, due, made = f.some(got), f.some(f.due), f.some(want)
			}
		}
	}
	c.glanceAt(way, g, r.Phase != Backward)
	return x, due, made
}

// changes reports whether a way changes the gradients that a backward pass starts from.
func changes(way causes.Way, incoming []*tensor.Tensor) bool {
	return slices.ContainsFunc(incoming, func(t *tensor.Tensor) bool {
		return t != nil && way.Alter(causes.Incoming, t) != t
	})
}
