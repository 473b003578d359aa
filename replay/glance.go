package replay

import (
	"math"
	"math/bits"
	"math/rand/v2"
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
	parts  map[target]fault // the same of the parts that are cut
	moved  bool             // an element is another one than is due
	made   uint64           // tells apart what was looked at; 0: nothing
	// seen, if not nil, is handed what would be compared.
	seen func(of target, got, want *tensor.Tensor)
}

// A target is a value of a pass.
type target struct {
	phase Phase
	name  string
}

// A fault is how a value failed: its largest error, where that is, in row-major order, what is due, and where runs of
// elements begin that are looked at: most of them at elements that are wrong.
type fault struct {
	most  float64
	worst int
	due   *tensor.Tensor // nil: it is not known
	runs  []int
}

const (
	glancedElements = 256     // of a call that can be cut
	glancedFlops    = 1 << 16 // operations of a call that is not cut
	glancedRuns     = 16
	glancedRun      = 16 // neighbours, which cost little more than one element where rows are computed
)

// faultOf is how a value failed.
func (c *Call) faultOf(r *Result) fault {
	if f, ok := c.faults[r.Target]; ok {
		return f
	}
	f := fault{most: r.Compared.OpTools.MaxAbs, worst: max(0, tensor.Ravel(r.Compared.WorstIndex, r.Shape))}
	w := c.wrong[r.Target]
	if got, want, ok := w.Pair(); ok && slices.Equal(got.Shape, want.Shape) && got.DType.IsFloat() &&
		want.DType.IsFloat() && got.Numel() <= mostComputed {
		_ = Guard(func() error { f = faultIn(got, want, f.most, f.worst); return nil }) // else nothing is known
	}
	if c.faults != nil {
		c.faults[r.Target] = f
	}
	return f
}

// faultIn is how a value failed, with where to look: three of four runs at wrong elements, evenly spread among those,
// the others evenly spread among all.
func faultIn(got, want *tensor.Tensor, most float64, worst int) fault {
	f, n := fault{most: most, worst: worst, due: computed(want)}, got.Numel()
	if n <= glancedRuns*glancedRun {
		return f
	}
	x, y := tensor.Make[float64](n), tensor.Make[float64](n)
	tensor.Load(got, 0, x)
	tensor.Load(f.due, 0, y)
	var wrong []int
	for i := range x {
		if f.isWrong(got.DType, x[i], y[i]) {
			wrong = append(wrong, i)
		}
	}
	at := func(i int) int { return min(max(0, i-glancedRun/2), n-glancedRun) }
	f.runs = []int{at(worst)}
	for k := 1; k < glancedRuns; k++ {
		if k%4 == 0 || len(wrong) == 0 {
			f.runs = append(f.runs, at(k*n/glancedRuns))
			continue
		}
		f.runs = append(f.runs, at(wrong[k*len(wrong)/glancedRuns]))
	}
	return f
}

// isWrong reports whether an element is so far from what it should be that a mistake which explains it has to bring
// it nearer.
func (f *fault) isWrong(dt tensor.DType, x, y float64) bool {
	y = dt.Round(y)
	switch {
	case x == y || x != x && y != y:
		return false
	case !finite(f.most):
		return finite(x) != finite(y)
	}
	return !(math.Abs(x-y) <= max((1+1e-3)*f.most/causes.Nearness, dt.ULP(x)))
}

// numel is the number of elements of the value.
func (r *Result) numel() int { return tensor.Numel(r.Shape) }

// look is the result of a value some of whose elements are compared.
func (g *glance) look(l label, got, want *tensor.Tensor) Result {
	of := target{l.phase, l.target}
	res := Result{Phase: l.phase, Target: l.target, Label: l.label, DType: got.DType, Shape: got.Shape,
		Verdict: verdict.Pass, Compared: &compare.Result{Numel: got.Numel()}}
	f, ok := g.fails[of]
	if !ok {
		return res
	}
	if g.seen != nil {
		if slices.Equal(got.Shape, want.Shape) && want.DType.IsFloat() {
			g.seen(of, got, want)
		}
		return res
	}
	if f.due == nil || !slices.Equal(f.due.Shape, got.Shape) {
		most := f.most
		if f = g.parts[of]; f.due == nil || !slices.Equal(f.due.Shape, got.Shape) {
			f = fault{most: most}
		}
	}
	if g.far(f, got, want) {
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
		return g.apart(f, got.DType, got, want, causes.Pieces, 20)
	}
	return g.apart(f, got.DType, got, want, f.some, 8) || g.apart(f, got.DType, got, want, causes.Pieces, 20)
}

// apart reports whether some elements are too far from those recorded: one, or one in few of them where a mistake may
// leave some, or one in eight of those that were. An error has to be as much smaller as Nearness says.
func (g *glance) apart(f fault, dt tensor.DType, got, want *tensor.Tensor,
	some func(*tensor.Tensor) []float64, few int) bool {
	x, z := some(got), some(want)
	g.note(f, dt, z, some)
	far := 0
	for i := range x {
		if f.isWrong(dt, x[i], z[i]) {
			far++
		}
	}
	if far == 0 || !g.rounds && finite(f.most) || far > len(x)/few {
		return far > 0
	}
	if f.due == nil {
		return false
	}
	were, still := 0, 0
	for i, y := range some(f.due) {
		if f.isWrong(dt, x[i], y) {
			if were++; f.isWrong(dt, x[i], z[i]) {
				still++
			}
		}
	}
	return were >= fewestWrong && 8*still > were
}

// note keeps what a mistake makes of elements that are looked at: whether it changes any, and which numbers those are.
func (g *glance) note(f fault, dt tensor.DType, made []float64, some func(*tensor.Tensor) []float64) {
	var due []float64
	if f.due != nil {
		due = some(f.due)
	}
	hash := uint64(1)
	for i, z := range made {
		z = dt.Round(z)
		g.moved = g.moved || i >= len(due) || z != dt.Round(due[i]) && (z == z || due[i] == due[i])
		hash = bits.RotateLeft64((hash^math.Float64bits(z))*0x9e3779b97f4a7c15, 31)
	}
	g.made += hash // in any order of the values
}

// fewestWrong is how many elements that were wrong show that a mistake explains too few of them.
const fewestWrong = 32

// some are elements of t: all if it has few, else those around the largest error, and others in runs.
func (f *fault) some(t *tensor.Tensor) []float64 {
	n := t.Numel()
	if n <= glancedRuns*glancedRun {
		v := make([]float64, n)
		tensor.Load(t, 0, v)
		return v
	}
	out := make([]float64, glancedRuns*glancedRun)
	for k := range glancedRuns {
		from := k * ((n - glancedRun) / (glancedRuns - 1))
		if k == glancedRuns/2 {
			from = min(max(0, f.worst-glancedRun/2), n-glancedRun)
		}
		if f.runs != nil {
			from = f.runs[k]
		}
		tensor.Load(t, from, out[k*glancedRun:(k+1)*glancedRun])
	}
	return out
}

// cuts are the indices of a value that are looked at, as many along each label: the first and the last, those at edges
// of tiles, and that of the largest error.
func (g *glance) cuts(s *sampler, v *sampledValue, l label, shape []int) cuts {
	at, own := cuts{}, s.axes.Own(v.labels, shape, s.sizes)
	f := g.fails[target{l.phase, l.target}]
	wrong := [][]int{tensor.Unravel(f.worst, shape)}
	for _, i := range f.runs {
		wrong = append(wrong, tensor.Unravel(min(i+glancedRun/2, tensor.Numel(shape)-1), shape))
	}
	each := int(math.Pow(glancedElements, 1/float64(max(1, len(own)))))
	r := rand.New(rand.NewPCG(uint64(len(own)), uint64(v.node))) // so that all mistakes are looked at in one part
	for _, label := range own {
		at[label] = pick(s.sizes[label], max(1, each/2), r)
		for k, index := range wrong {
			for d, i := range index {
				if v.labels[d] == label && !slices.Contains(at[label], i) && (k == 0 || len(at[label]) < each) {
					at[label] = append(at[label], i)
				}
			}
		}
		slices.Sort(at[label])
	}
	return at
}
