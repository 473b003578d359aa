package replay

import (
	"math"
	"slices"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/replay/causes"
	"github.com/optool/optool/tensor"
)

// A glance compares a few elements of each value of a call that runs another way, without bounds. Most mistakes leave
// one of them as wrong as it was. The rest of the value is not computed then, where the operator can be cut or computes
// elements when they are read.
type glance struct {
	rounds bool             // as Mistake.Rounds: some elements may still be wrong
	fails  map[target]fault // what is looked at
}

// A target is a value of a pass.
type target struct {
	phase Phase
	name  string
}

// A fault is how a value failed: its largest error, and where that is, in row-major order.
type fault struct {
	most  float64
	worst int
}

const (
	glancedElements = 256     // of a call that can be cut
	glancedFlops    = 1 << 16 // operations of a call that is not cut
	glancedRuns     = 16
	glancedRun      = 16 // neighbours, which cost little more than one element where rows are computed
)

// refuted reports whether a few elements show that a mistake explains no pass that failed. Gradients are not looked at
// where a result failed that has more than one element.
func (c *Call) refuted(m causes.Mistake, way causes.Way, fails []Result) bool {
	if way.Call.Plan() == nil && way.Call.Random() != "" && c.bound.Random() == "" {
		return true // it gives no certain numbers
	}
	results := slices.ContainsFunc(fails, func(r Result) bool { return r.Phase != Backward && r.numel() > 1 })
	if results && (way.OnlyIncoming || m.Gradients) {
		return true
	}
	g := &glance{rounds: m.Rounds, fails: map[target]fault{}}
	far := map[bool]bool{} // of gradients, of results
	for _, r := range fails {
		if results && r.Phase == Backward {
			continue
		}
		far[r.Phase == Backward] = false
		if r.Compared != nil && r.Compared.Loose == 0 && r.DType.IsFloat() {
			g.fails[target{r.Phase, r.Target}] = fault{r.Compared.OpTools.MaxAbs,
				max(0, tensor.Ravel(r.Compared.WorstIndex, r.Shape))}
		}
	}
	if len(g.fails) == 0 {
		return false
	}
	if way.Call == c.bound && way.Alter != nil && !changes(way, c.gradOutputs) { // what is due is known
		if Guard(func() error {
			for of, f := range g.fails {
				w := c.wrong[of.name]
				if got, want, ok := w.Pair(); ok && g.far(f, got, way.Alter(of.name, want)) {
					far[of.phase == Backward] = true
				}
			}
			return nil
		}) != nil {
			return false
		}
	} else {
		alt := c.under(way)
		alt.glance, alt.opt.Sample = g, &Sampling{Over: glancedFlops}
		alt.opt.ForwardOnly = alt.opt.ForwardOnly || results
		if alt.fwd != nil && !alt.opt.ForwardOnly && alt.bound.Axes() != nil {
			alt.fwd = nil // so that only a part of the gradients is computed
		}
		alt.guard(alt.compareCall)
		for _, r := range alt.out.Results {
			if _, ok := g.fails[target{r.Phase, r.Target}]; ok && r.Verdict == verdict.Fail && r.Compared != nil {
				far[r.Phase == Backward] = true
			}
		}
	}
	for _, is := range far {
		if !is {
			return false
		}
	}
	return true
}

// numel is the number of elements of the value.
func (r *Result) numel() int { return tensor.Numel(r.Shape) }

// changes reports whether a way changes the gradients that a backward pass starts from.
func changes(way causes.Way, incoming []*tensor.Tensor) bool {
	return slices.ContainsFunc(incoming, func(t *tensor.Tensor) bool {
		return t != nil && way.Alter(causes.Incoming, t) != t
	})
}

// look is the result of a value some of whose elements are compared.
func (g *glance) look(l label, got, want *tensor.Tensor) Result {
	res := Result{Phase: l.phase, Target: l.target, Label: l.label, DType: got.DType, Shape: got.Shape,
		Verdict: verdict.Pass, Compared: &compare.Result{Numel: got.Numel()}}
	if f, ok := g.fails[target{l.phase, l.target}]; ok && g.far(f, got, want) {
		res.Verdict = verdict.Fail
	}
	return res
}

// far reports whether elements of a value are too far from those recorded: one of them where others would have to be
// right, else many. First few are looked at, then more.
func (g *glance) far(f fault, got, want *tensor.Tensor) bool {
	if !slices.Equal(got.Shape, want.Shape) || !want.DType.IsFloat() {
		return true
	}
	if got.Numel() <= glancedRuns*glancedRun {
		return g.apart(f, got.DType, causes.Pieces(got), causes.Pieces(want), 20)
	}
	return g.apart(f, got.DType, around(got, f.worst), around(want, f.worst), 8) ||
		g.apart(f, got.DType, causes.Pieces(got), causes.Pieces(want), 20)
}

// apart reports whether elements are too far from those recorded: one, or one in few of them where a mistake may
// leave some. An error has to be as much smaller as Nearness says.
func (g *glance) apart(f fault, dt tensor.DType, x, z []float64, few int) bool {
	far, unlike := 0, !finite(f.most)
	for i := range x {
		z := dt.Round(z[i])
		switch {
		case x[i] == z || x[i] != x[i] && z != z:
		case unlike && finite(x[i]) == finite(z):
		case !(math.Abs(x[i]-z) <= max((1+1e-3)*f.most/causes.Nearness, dt.ULP(x[i]))):
			far++
		}
	}
	return far > 0 && !g.rounds && !unlike || far > len(x)/few
}

// around are elements of a t that has more: those around one, and others in runs, evenly spread.
func around(t *tensor.Tensor, at int) []float64 {
	n := t.Numel()
	out := make([]float64, glancedRuns*glancedRun)
	for k := range glancedRuns {
		from := k * ((n - glancedRun) / (glancedRuns - 1))
		if k == glancedRuns/2 {
			from = min(max(0, at-glancedRun/2), n-glancedRun)
		}
		tensor.Load(t, from, out[k*glancedRun:(k+1)*glancedRun])
	}
	return out
}

// cuts are the indices of a value that are looked at, as many along each label: the first and the last, those at edges
// of tiles, and that of the largest error.
func (g *glance) cuts(s *sampler, v *sampledValue, l label, shape []int) cuts {
	at, own := cuts{}, s.axes.Own(v.labels, shape, s.sizes)
	index := tensor.Unravel(g.fails[target{l.phase, l.target}].worst, shape)
	each := int(math.Pow(glancedElements, 1/float64(max(1, len(own)))))
	r := s.random(v)
	for _, label := range own {
		at[label] = pick(s.sizes[label], max(1, each-1), r)
		for d, i := range index {
			if v.labels[d] == label && !slices.Contains(at[label], i) {
				at[label] = append(at[label], i)
			}
		}
		slices.Sort(at[label])
	}
	return at
}
