package compare

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/optool/optool/tensor"
)

// A Profile says how the errors of a tensor are spread: how large, and where.
type Profile struct {
	Numel    int
	Equal    int // elements that are the reference rounded to the dtype
	Infinite int // elements that are finite on one side only, or infinite with different signs
	// Octaves counts the other elements by their distance from the rounded reference in units in the last place of
	// Result.Grid: less than 1, less than 2, less than 4, ...
	Octaves []int
	// OtherSign counts, of each of Octaves, the elements that have another sign than the reference. Their distance says
	// little: it goes through all numbers near zero.
	OtherSign []int
	// Worst are the elements whose errors are largest compared with what the rule allows them, in this order: first
	// the one that a Result calls worst, then those of Infinite. Where no rule allows them anything, they are those
	// that are furthest off.
	Worst []Deviation
	// Dims say, for each dimension, how many elements of each index are off by more than
	// a few units, and more than they may be, or off at all if they may not be; nil for dimensions longer than
	// longestDim.
	Dims [][]int
	// Map is a picture of the tensor as a matrix: its rows are the last dimension but one, its columns
	// the last. A cell is the largest distance of those of its elements that are off by more than they may be, in the
	// same units.
	Map [][]float64
	// MaxAbs is the smallest absolute tolerance within which all finite elements are, MaxRel the
	// smallest relative one.
	MaxAbs, MaxRel float64
}

// A Deviation is an element and its distance.
type Deviation struct {
	Index     []int
	Got, Want float64 // Want is rounded to the dtype
	ULPs      float64 // see Distance

	score float64 // the error over what is allowed, or ULPs
}

const (
	worstKept  = 10
	fewULPs    = 4
	longestDim = 1 << 16
	mapRows    = 16
	mapCols    = 64
)

// NewProfile compares a tensor of floating numbers with its reference, which is not rounded. Both have one shape.
// r is the result of their comparison, nil if it is not known. Dims does not count elements within its limits, since
// sums that cancel may be off by many units.
//
// It panics with a *tensor.ReadError if a storage cannot be read.
func NewProfile(got, ref *tensor.Tensor, r *Result) (*Profile, error) {
	if r == nil {
		r = &Result{}
	}
	switch {
	case !slices.Equal(got.Shape, ref.Shape):
		return nil, fmt.Errorf("shape is %s, want %s", tensor.ShapeString(got.Shape), tensor.ShapeString(ref.Shape))
	case !got.DType.IsFloat():
		return nil, fmt.Errorf("dtype is %s: only errors of floating numbers are profiled", got.DType)
	}
	p := &Profile{Numel: got.Numel(), Dims: make([][]int, len(got.Shape))}
	for d, n := range got.Shape {
		if n <= longestDim {
			p.Dims[d] = make([]int, n)
		}
	}
	rows, cols := matrix(got.Shape)
	p.Map = make([][]float64, min(rows, mapRows))
	for i := range p.Map {
		p.Map[i] = make([]float64, min(cols, mapCols))
	}
	const block = 1 << 14
	x, y := make([]float64, min(block, p.Numel)), make([]float64, min(block, p.Numel))
	grid := got.DType
	if r.Grid.IsFloat() {
		grid = r.Grid
	}
	worst := -1
	if r.WorstIndex != nil {
		worst = tensor.Ravel(r.WorstIndex, got.Shape)
	}
	for lo := 0; lo < p.Numel; lo += block {
		k := min(block, p.Numel-lo)
		tensor.Load(got, lo, x[:k])
		tensor.Load(ref, lo, y[:k])
		for i := range k {
			p.add(got, grid, lo+i, x[i], y[i], rows, cols, worst, r.Limit)
		}
	}
	return p, nil
}

// matrix is the shape of the last two dimensions. A cell collects all indices of the other dimensions.
func matrix(shape []int) (rows, cols int) {
	rows, cols = 1, 1
	if n := len(shape); n > 0 {
		cols = shape[n-1]
		if n > 1 {
			rows = shape[n-2]
		}
	}
	return rows, cols
}

func (p *Profile) add(got *tensor.Tensor, grid tensor.DType, at int, x, exact float64, rows, cols, worst int,
	limit func(index []int) Limit) {
	want, ulps := Distance(grid, x, exact)
	switch {
	case ulps == 0:
		p.Equal++
		return
	case math.IsInf(ulps, 1):
		p.Infinite++
	default:
		octave := math.Ilogb(ulps) + 1
		for len(p.Octaves) <= octave {
			p.Octaves, p.OtherSign = append(p.Octaves, 0), append(p.OtherSign, 0)
		}
		p.Octaves[octave]++
		if x != 0 && want != 0 && math.Signbit(x) != math.Signbit(want) {
			p.OtherSign[octave]++
		}
		p.MaxAbs = max(p.MaxAbs, math.Abs(x-want))
		p.MaxRel = max(p.MaxRel, math.Abs(x-want)/math.Abs(want))
	}
	most := ulps // of the score
	if limit != nil {
		most *= 8 // at half a unit that the rule allows, beside a power of two
	}
	cell := &p.Map[at/cols%rows*len(p.Map)/rows][at%cols*len(p.Map[0])/cols]
	if at != worst && ulps <= max(fewULPs, *cell) && len(p.Worst) == worstKept && most <= p.Worst[worstKept-1].score {
		return
	}
	index, score := tensor.Unravel(at, got.Shape), ulps
	if limit != nil && !math.IsInf(ulps, 1) {
		score = math.Abs(x-exact) / limit(index).Allowed
	}
	if limit == nil || score > 1 {
		*cell = max(*cell, ulps)
	}
	if ulps > fewULPs && (limit == nil || score > 1) || limit != nil && score > 1 && limit(index).Allowed == 0 {
		for d, count := range p.Dims {
			if count != nil {
				count[index[d]]++
			}
		}
	}
	if at == worst {
		p.Worst = slices.Insert(p.Worst, 0, Deviation{index, x, want, ulps, math.Inf(1)})
	} else {
		first := 0
		if len(p.Worst) > 0 && tensor.Ravel(p.Worst[0].Index, got.Shape) == worst {
			first = 1
		}
		i := first + sort.Search(len(p.Worst)-first, func(i int) bool { return p.Worst[first+i].score < score })
		p.Worst = slices.Insert(p.Worst, i, Deviation{index, x, want, ulps, score})
	}
	p.Worst = p.Worst[:min(len(p.Worst), worstKept)]
}

// Distance is how far x, an element of floating dtype dt, is from the reference rounded to dt, in units in the last
// place: the number of representable values between them, as Result.Reason says it. It is infinite if only one side is
// finite.
func Distance(dt tensor.DType, x, exact float64) (want, ulp float64) {
	want = dt.Round(exact)
	switch {
	case x == want || x != x && want != want:
		return want, 0
	case math.IsNaN(x) || math.IsNaN(want) || math.IsInf(x, 0) || math.IsInf(want, 0):
		return want, math.Inf(1)
	}
	return want, ulps(dt, x, want)
}

// Percentile is the distance in units in the last place below which this share of the elements is, rounded up to a
// power of two. It is 0 if the elements are equal.
func (p *Profile) Percentile(share float64) float64 {
	need := int(math.Ceil(share * float64(p.Numel)))
	seen := p.Equal
	if seen >= need {
		return 0
	}
	for k, n := range p.Octaves {
		if seen += n; seen >= need {
			return math.Ldexp(1, k)
		}
	}
	return math.Inf(1)
}

// Concentrated names the dimensions whose errors are at few indices: at most a quarter of them, at most half if they
// are evenly spaced, as a run is, or at most three quarters if they are the last ones. Kernels that miss a tail, a lane
// or a head cause such errors.
func (p *Profile) Concentrated() []string {
	var out []string
	for d, counts := range p.Dims {
		var hit []int
		for i, n := range counts {
			if n > 0 {
				hit = append(hit, i)
			}
		}
		end := len(hit) > 0 && hit[0] == len(counts)-len(hit)
		few := 4*len(hit) <= len(counts) || end && 4*len(hit) <= 3*len(counts) ||
			2*len(hit) <= len(counts) && p.wrong() >= fewestSpaced && spaced(hit)
		if len(hit) == 0 || !few {
			continue
		}
		out = append(out, fmt.Sprintf("dimension %d: only %s of %d", d, indices(hit, len(counts)), len(counts)))
	}
	return out
}

// fewestSpaced is how many errors do not all fall on half of the indices by chance.
const fewestSpaced = 16

// wrong is the number of errors.
func (p *Profile) wrong() (n int) {
	for _, k := range p.Dims[0] {
		n += k
	}
	return n
}

// spaced reports whether several indices, which are sorted, are evenly spaced.
func spaced(hit []int) bool {
	step := hit[min(1, len(hit)-1)] - hit[0]
	for i := range hit {
		if hit[i] != hit[0]+i*step {
			return false
		}
	}
	return step > 0
}

// indices describes a sorted list of indices.
func indices(hit []int, n int) string {
	last := len(hit) - 1
	switch {
	case last == 0:
		return fmt.Sprintf("index %d", hit[0])
	case hit[last]-hit[0] == last && hit[last] == n-1:
		return fmt.Sprintf("the last %d indices", len(hit))
	case hit[last]-hit[0] == last:
		return fmt.Sprintf("indices %d to %d", hit[0], hit[last])
	}
	step := hit[1] - hit[0]
	uneven := slices.ContainsFunc(hit, func(i int) bool { return (i-hit[0])%step != 0 })
	// Two are no period, and neither are those that end before the dimension does.
	if last > 1 && !uneven && hit[last]-hit[0] == step*last && hit[0] < step && hit[last]+step >= n {
		return fmt.Sprintf("indices %d to %d in steps of %d", hit[0], hit[last], step)
	}
	if len(hit) > 8 {
		return fmt.Sprintf("%d indices from %d to %d", len(hit), hit[0], hit[last])
	}
	return fmt.Sprintf("indices %v", hit)
}
