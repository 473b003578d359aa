package opdef

import (
	"math"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/tensor"
)

// A Fold accumulates elements of one or several tensors of equal shape, in
// order. The zero value of A is the accumulator of no elements.
type Fold[S tensor.Elem, A any] struct {
	// Begin, if set, prepares each accumulator of a result, which row-major order numbers, before
	// anything is added to it. A result may have several that are joined.
	Begin func(acc *A, result int)
	// Add accumulates a run: v[k] holds elements at, at+1, ... (counted within
	// what is folded into one result) of tensor k.
	Add func(acc *A, at int, v [][]S)
	// Join adds to acc what was accumulated in next, from later elements.
	Join func(acc *A, next A)
	// Across, if set, is Add for neighbouring results at once: v[k] holds element at of each of
	// them, then element at+1 of each, and so on. It gives the same bits as Add.
	Across func(accs []A, at int, v [][]S)
}

// Folded holds the accumulators of a reduction, one per result.
type Folded[A any] struct {
	Shape []int // of the result
	N     int   // elements folded into each result

	accs []A // nil when there are too many to keep
	fold func(lo int, dst []A)
}

// Sizes that decide how a reduction is cut up: elements loaded at a time,
// elements accumulated by one goroutine at a time, results kept.
const (
	foldTile = 1 << 15
	foldUnit = 1 << 20
	foldKept = 1 << 22
)

// FoldDims folds ts, tensors of equal shape, over the dimensions dims; those
// are dropped from the result's shape, or have size 1 if keepdim. Long
// reductions are cut into parts that are joined in order, so results do not
// depend on the number of processors. Memory beyond the results is that of a
// tile, except that lazy tensors are computed whole unless dims are their first
// or their last dimensions.
func FoldDims[S tensor.Elem, A any](f Fold[S, A], dims []int, keepdim bool, ts ...*tensor.Tensor) *Folded[A] {
	t := ts[0]
	var kept, reduced []int
	r := &Folded[A]{N: 1}
	rows := 1
	for d, n := range t.Shape {
		switch {
		case !slices.Contains(dims, d):
			kept = append(kept, d)
			r.Shape = append(r.Shape, n)
			rows *= n
			continue
		case keepdim:
			r.Shape = append(r.Shape, 1)
		}
		reduced = append(reduced, d)
		r.N *= n
	}
	g := &folder[S, A]{Fold: f, rows: rows, n: r.N, srcs: make([]*tensor.Tensor, len(ts))}
	g.across = rows > 1 && r.N > 1 && innermost(t, kept, reduced)
	order := append(slices.Clone(kept), reduced...)
	if g.across {
		order = append(slices.Clone(reduced), kept...)
	}
	inOrder := slices.IsSorted(order)
	block := 1
	for k, t := range ts {
		g.srcs[k] = t
		if !inOrder {
			g.srcs[k] = t.Permute(order...)
		}
		if g.srcs[k].IsLazy() {
			block = max(block, g.srcs[k].Block())
		}
	}
	g.size(block)
	r.fold = g.fold
	if rows <= foldKept {
		r.accs = tensor.Make[A](rows)
		g.all(r.accs)
	}
	return r
}

// innermost reports whether the kept dimensions are nearer together in memory
// than the reduced ones.
func innermost(t *tensor.Tensor, kept, reduced []int) bool {
	if t.IsLazy() {
		return kept[0] > reduced[len(reduced)-1]
	}
	least := func(dims []int) int {
		m := math.MaxInt
		for _, d := range dims {
			if t.Shape[d] > 1 && t.Stride[d] > 0 {
				m = min(m, t.Stride[d])
			}
		}
		return m
	}
	return least(kept) < least(reduced)
}

// A folder walks rows x n elements: element c of row r is element r*n+c of each
// source, or c*rows+r if across.
type folder[S tensor.Elem, A any] struct {
	Fold[S, A]
	srcs    []*tensor.Tensor
	rows, n int
	across  bool
	tile    [2]int // rows and columns loaded at a time
	unit    int    // columns accumulated before a join
}

func (g *folder[S, A]) size(block int) {
	tile := max(foldTile, block)
	if g.across {
		g.tile[0] = min(g.rows, max(256, block))
		g.tile[1] = min(g.n, max(1, 4*tile/g.tile[0]))
	} else {
		g.tile[0] = max(1, min(g.rows, tile/max(g.n, 1)))
		g.tile[1] = min(g.n, tile)
	}
	g.unit = max(1, foldUnit/max(g.tile[0]*g.tile[1], 1)) * max(g.tile[1], 1)
}

// all computes every row, cut into units that run in parallel.
func (g *folder[S, A]) all(accs []A) {
	if g.rows == 0 {
		return
	}
	parts := max(1, (g.n+g.unit-1)/g.unit)
	height := g.tile[0]
	if parts == 1 { // several tiles of short rows make a unit
		height *= max(1, foldUnit/max(1, 4*height*g.n))
	}
	bands := (g.rows + height - 1) / max(height, 1)
	partial := tensor.Make[A]((parts - 1) * g.rows)
	tensor.Parallel(bands*parts, 1, func(a, b int) {
		for k := a; k < b; k++ {
			band, part := k/parts, k%parts
			lo, hi := band*height, min((band+1)*height, g.rows)
			dst := accs[lo:hi]
			if part > 0 {
				dst = partial[(part-1)*g.rows+lo : (part-1)*g.rows+hi]
			}
			g.part(lo, dst, part*g.unit, min((part+1)*g.unit, g.n))
		}
	})
	for p := range parts - 1 {
		for i := range accs {
			g.Join(&accs[i], partial[p*g.rows+i])
		}
	}
}

// fold computes rows lo .. lo+len(dst) on the calling goroutine.
func (g *folder[S, A]) fold(lo int, dst []A) {
	clear(dst)
	for c := 0; c < g.n; c += g.unit {
		if c == 0 {
			g.part(lo, dst, 0, min(g.unit, g.n))
			continue
		}
		next := make([]A, len(dst))
		g.part(lo, next, c, min(c+g.unit, g.n))
		for i := range dst {
			g.Join(&dst[i], next[i])
		}
	}
}

// part accumulates columns [c0, c1) of rows lo .. lo+len(dst) in dst, which is cleared.
func (g *folder[S, A]) part(lo int, dst []A, c0, c1 int) {
	if g.n == 0 {
		return
	}
	if g.Begin != nil {
		for i := range dst {
			g.Begin(&dst[i], lo+i)
		}
	}
	bufs, runs := make([]*[]S, len(g.srcs)), make([][]S, len(g.srcs))
	for k := range bufs {
		bufs[k] = Scratch[S](g.tile[0] * g.tile[1])
		defer Release(bufs[k])
	}
	for r := 0; r < len(dst); r += g.tile[0] {
		h := min(g.tile[0], len(dst)-r)
		for c := c0; c < c1; c += g.tile[1] {
			w := min(g.tile[1], c1-c)
			if g.across && g.Across != nil {
				for k, src := range g.srcs {
					runs[k] = (*bufs[k])[:h*w]
					g.lines(src, lo+r, h, c, w, runs[k])
				}
				g.Across(dst[r:r+h], c, runs)
				continue
			}
			for k, src := range g.srcs {
				g.load(src, lo+r, h, c, w, (*bufs[k])[:h*w])
			}
			for i := range h {
				for k := range runs {
					runs[k] = (*bufs[k])[i*w : (i+1)*w]
				}
				g.Add(&dst[r+i], c, runs)
			}
		}
	}
}

// load stores h rows of w columns of src, row by row, in dst.
func (g *folder[S, A]) load(src *tensor.Tensor, r, h, c, w int, dst []S) {
	switch {
	case g.across:
		// A few columns at a time, so that what is stored is next to each other.
		const few = 8
		tmp := Scratch[S](few * h)
		for j := 0; j < w; j += few {
			k := min(few, w-j)
			cols := (*tmp)[:k*h]
			g.lines(src, r, h, c+j, k, cols)
			interleave(dst[j:], w, cols, h)
		}
		Release(tmp)
	case w == g.n:
		tensor.Load(src, r*g.n, dst)
	default:
		for i := range h {
			tensor.Load(src, (r+i)*g.n+c, dst[i*w:(i+1)*w])
		}
	}
}

// lines stores w columns of h rows of src, which is across, column by column in dst.
func (g *folder[S, A]) lines(src *tensor.Tensor, r, h, c, w int, dst []S) {
	if h == g.rows {
		tensor.Load(src, c*h, dst)
		return
	}
	for i := range w {
		tensor.Load(src, (c+i)*g.rows+r, dst[i*h:(i+1)*h])
	}
}

// interleave stores element i of column k, h elements long each, at
// dst[i*stride+k].
func interleave[S tensor.Elem](dst []S, stride int, cols []S, h int) {
	if len(cols) == 8*h {
		a, b, c, d := cols[:h], cols[h:][:h], cols[2*h:][:h], cols[3*h:][:h]
		e, f, g, k := cols[4*h:][:h], cols[5*h:][:h], cols[6*h:][:h], cols[7*h:][:h]
		for i, x := range a {
			to := dst[i*stride:][:8]
			to[0], to[1], to[2], to[3], to[4], to[5], to[6], to[7] = x, b[i], c[i], d[i], e[i], f[i], g[i], k[i]
		}
		return
	}
	for k := 0; k < len(cols)/h; k++ {
		for i, x := range cols[k*h : (k+1)*h] {
			dst[i*stride+k] = x
		}
	}
}

// All returns the accumulators of all results, in row-major order of Shape.
func (f *Folded[A]) All() []A {
	if f.accs == nil {
		const chunk = 1 << 14
		f.accs = tensor.Make[A](tensor.Numel(f.Shape))
		tensor.Parallel((len(f.accs)+chunk-1)/chunk, 1, func(a, b int) {
			for k := a; k < b; k++ {
				f.fold(k*chunk, f.accs[k*chunk:min((k+1)*chunk, len(f.accs))])
			}
		})
	}
	return f.accs
}

// Collect makes the result tensor of a reduction: get takes the result out of
// an accumulator.
func Collect[T tensor.Elem, A any](f *Folded[A], dt tensor.DType, get func(acc *A) T) *tensor.Tensor {
	if f.accs != nil {
		out := make([]T, len(f.accs))
		for i := range out {
			out[i] = get(&f.accs[i])
		}
		return tensor.New(dt, f.Shape, out)
	}
	return tensor.Lazy(dt, f.Shape, 1, func(lo int, dst []T) {
		accs := make([]A, len(dst))
		f.fold(lo, accs)
		for i := range dst {
			dst[i] = get(&accs[i])
		}
	})
}

// Summing is the fold that adds the elements of one tensor: pairwise within a
// run (PairwiseSum), runs one after the other.
func Summing[T tensor.Elem]() Fold[T, T] {
	f := Fold[T, T]{
		Add:  func(acc *T, _ int, v [][]T) { *acc += PairwiseSum(v[0]) },
		Join: func(acc *T, next T) { *acc += next },
	}
	if g, ok := any(&f).(*Fold[float64, float64]); ok {
		g.Across = func(accs []float64, _ int, v [][]float64) { vmath.SumColumns(accs, v[0]) }
	}
	return f
}

func sumDims[T tensor.Elem](dt tensor.DType, t *tensor.Tensor, dims []int, keepdim bool) *tensor.Tensor {
	return Collect(FoldDims(Summing[T](), dims, keepdim, t), dt, func(acc *T) T { return *acc })
}

// Unreduce expands a reduction over dims of a tensor of the given shape, or the
// gradient of it, back to that shape; whether it was made with keepdim does not
// matter.
func Unreduce(t *tensor.Tensor, shape, dims []int) *tensor.Tensor {
	keep := slices.Clone(shape)
	for _, d := range dims {
		keep[d] = 1
	}
	u, err := t.Reshape(keep...).Expand(shape...)
	if err != nil {
		panic(err)
	}
	return u
}

// alongBlock is the number of elements, at least, of rows that AlongDim computes together: that of
// a block that Tensor.Block asks for.
const alongBlock = 8192

// AlongDim computes a tensor of t's shape whose runs along dimension dim are
// functions of those of t: fill(src, dst) gets one run of t and stores one of
// the result. A result along any but the last dimension is computed whole when
// it is first used.
func AlongDim[S, T tensor.Elem](
	dt tensor.DType, t *tensor.Tensor, dim int, fill func(src []S, dst []T),
) *tensor.Tensor {
	return AlongDimN(dt, dim, func(src [][]S, dst []T) { fill(src[0], dst) }, t)
}

// AlongDimN is AlongDim for several tensors of equal shape.
func AlongDimN[S, T tensor.Elem](
	dt tensor.DType, dim int, fill func(src [][]S, dst []T), ts ...*tensor.Tensor,
) *tensor.Tensor {
	t := ts[0]
	last := max(t.Dim()-1, 0)
	views := slices.Clone(ts)
	n := 1
	if t.Dim() > 0 {
		n = t.Shape[dim]
	}
	if dim != last {
		for k := range views {
			views[k] = ts[k].Transpose(dim, last)
		}
	}
	shape := views[0].Shape
	if t.Numel() == 0 {
		return tensor.New(dt, t.Shape, []T{})
	}
	rows := func(lo int, dst []T) {
		from, to := lo/n*n, (lo+len(dst)+n-1)/n*n
		bufs, src := make([]*[]S, len(views)), make([][]S, len(views))
		for k, v := range views {
			bufs[k] = Scratch[S](to - from)
			tensor.Load(v, from, *bufs[k])
		}
		for at := from; at < to; at += n {
			for k := range src {
				src[k] = (*bufs[k])[at-from : at-from+n]
			}
			if at >= lo && at+n <= lo+len(dst) {
				fill(src, dst[at-lo:at-lo+n])
				continue
			}
			whole := Scratch[T](n)
			fill(src, *whole)
			first := max(lo, at)
			copy(dst[first-lo:], (*whole)[first-at:])
			Release(whole)
		}
		for _, b := range bufs {
			Release(b)
		}
	}
	block := (alongBlock + n - 1) / n * n
	u := tensor.Lazy(dt, shape, n, func(lo int, dst []T) {
		for len(dst) > 0 { // operands are read in the blocks that others ask for and may have kept
			k := min(len(dst), block-lo%block)
			rows(lo, dst[:k])
			lo, dst = lo+k, dst[k:]
		}
	})
	if dim != last {
		return u.Transpose(dim, last)
	}
	return u
}
