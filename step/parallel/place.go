package parallel

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A kind says how the values of the ranks along one dimension of the mesh make the whole value.
type kind byte

const (
	replicated kind = 'R' // every rank has the whole value
	sharded    kind = 'S' // each rank has a part along a dimension
	partial    kind = 'P' // the sum over the ranks is the whole value
	maximum    kind = 'M' // the largest over the ranks is the whole value
	norm       kind = 'Q' // the root of the sum of squares is the whole value
)

// A place is a kind with what belongs to it. What the ranks make together is factor times the whole value:
// the sum of the means of N parts is N times the mean of all.
type place struct {
	kind kind
	dim  int // of sharded
	// outer is how often a sharded dimension holds parts of all ranks in turn: 2 where a dimension of 2 lies before the
	// sharded one, and both were made one.
	outer  int
	factor float64
}

func (p place) String() string {
	switch p.kind {
	case replicated:
		return "replicated"
	case sharded:
		return fmt.Sprintf("sharded along dimension %d", p.dim)
	case partial:
		return "a partial sum"
	case maximum:
		return "a partial maximum"
	}
	return "a partial norm"
}

func placesText(ps []place) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.String())
	}
	return strings.Join(out, " and ")
}

// The whole of values, one of each rank: nil where they do not fit each other.
func (m *mesh) join(values map[int]*array, places []place) *array {
	now := map[int]*array{}
	for _, r := range m.ranks {
		now[r] = values[r]
	}
	for i, d := range m.dims {
		next := map[int]*array{}
		for _, g := range d.groups {
			var parts []*array
			for _, r := range g {
				if a := now[r]; a != nil {
					parts = append(parts, a)
				}
			}
			if len(parts) == 0 {
				continue // dealt with by an earlier dimension
			}
			a := combine(parts, places[i])
			if a == nil {
				return nil
			}
			next[g[0]] = a
		}
		now = next
	}
	return now[m.ranks[0]]
}

// combine makes one value of those of a group.
func combine(parts []*array, p place) *array {
	a := parts[0]
	switch p.kind {
	case sharded:
		a = concat(p.dim, p.outer, parts)
	case partial, maximum, norm:
		f := map[kind]func(x, y float64) float64{partial: func(x, y float64) float64 { return x + y },
			maximum: func(x, y float64) float64 { return max(x, y) }, norm: math.Hypot}[p.kind]
		for _, b := range parts[1:] {
			if !slices.Equal(a.shape, b.shape) {
				return nil
			}
			a = a.zip(b, f)
		}
	}
	if a != nil && p.factor != 1 {
		a = a.times(1 / p.factor)
	}
	return a
}

// equal reports whether the values of each group along dimension i of the mesh agree.
func (m *mesh) equal(i int, values map[int]*array, tolerance float64) bool {
	for _, g := range m.dims[i].groups {
		for _, r := range g[1:] {
			if !values[g[0]].near(values[r], tolerance) {
				return false
			}
		}
	}
	return true
}

// alike reports whether values of each group along dimension i of the mesh go together so closely that they were the
// same once: replicas that moved apart, and no parts of a whole.
func (m *mesh) alike(i int, values map[int]*array) bool { return m.alikeFrom(6, i, values) }

// alikeFrom is alike for values of at least some elements.
func (m *mesh) alikeFrom(least, i int, values map[int]*array) bool {
	const few, close = 16, 0.9 // parts of random numbers go together by 1/sqrt(n), a quarter of it for 16
	for _, g := range m.dims[i].groups {
		a := values[g[0]]
		if !a.dtype.IsFloat() || len(a.x) < least {
			return false
		}
		for _, r := range g[1:] {
			switch b := values[r]; {
			case len(b.x) != len(a.x), len(a.x) >= few && !(correlation(a.x, b.x) > close):
				return false
			case len(a.x) < few && !nearly(a.x, b.x, 0.05*(slices.Max(a.x)-slices.Min(a.x))):
				return false
			}
		}
	}
	return true
}

// correlation is Pearson's; NaN of constants.
func correlation(x, y []float64) float64 {
	n := float64(len(x))
	var sx, sy float64
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
	}
	var xx, yy, xy float64
	for i := range x {
		dx, dy := x[i]-sx/n, y[i]-sy/n
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
	}
	return xy / math.Sqrt(xx*yy)
}

// match finds places by which the values of the ranks make the whole; ok is false if there are none. Of several that
// fit, the first in the order of the candidates counts, unless another fits much closer: narrow dtypes allow much.
// flat compares elements and not shapes.
func (m *mesh) match(values map[int]*array, whole *array, candidates [][]place, flat bool, tolerance float64) (
	found []place, ok bool) {
	const closer = 4
	least := math.Inf(1)
	combinations(candidates, func(ps []place) bool {
		d := m.distance(values, whole, ps, flat)
		if d <= tolerance && !(d*closer >= least) {
			found, ok, least = slices.Clone(ps), true, d
		}
		return least <= tolerance/64
	})
	return found, ok
}

// distance is how far what the ranks make together is from a whole value, relative to the largest element; infinite
// where shapes do not fit.
func (m *mesh) distance(values map[int]*array, whole *array, ps []place, flat bool) (d float64) {
	scale := whole.largest()
	for _, r := range m.ranks {
		scale = max(scale, values[r].largest())
	}
	for i, p := range ps {
		if p.kind != replicated || m.loose {
			continue
		}
		for _, g := range m.dims[i].groups {
			for _, r := range g[1:] {
				if !slices.Equal(values[g[0]].shape, values[r].shape) {
					return math.Inf(1)
				}
				d = max(d, apart(values[g[0]].x, values[r].x))
			}
		}
	}
	a := m.join(values, ps)
	if a == nil || len(a.x) != len(whole.x) || !flat && !slices.Equal(a.shape, whole.shape) {
		return math.Inf(1)
	}
	if d = max(d, apart(a.x, whole.x)); d == 0 {
		return 0
	}
	return d / scale
}

// combinations calls f with one of each list until it returns true.
func combinations[T any](lists [][]T, f func([]T) bool) bool {
	chosen := make([]T, len(lists))
	var walk func(i int) bool
	walk = func(i int) bool {
		if i == len(lists) {
			return f(chosen)
		}
		for _, v := range lists[i] {
			chosen[i] = v
			if walk(i + 1) {
				return true
			}
		}
		return false
	}
	return walk(0)
}

// outcomes are the places that a result of n dimensions may have, by dimension of the mesh. factors are
// those that arguments have there; only a sum of means has another.
func (m *mesh) outcomes(n int, in [][]place) [][]place {
	out := make([][]place, len(m.dims))
	for i, d := range m.dims {
		factors, same := []float64{1}, true
		for _, ps := range in {
			if f := ps[i].factor; !slices.Contains(factors, f) {
				factors = append(factors, f)
			}
			same = same && ps[i].kind == replicated
		}
		for _, f := range factors {
			out[i] = append(out[i], place{kind: replicated, factor: f})
		}
		if same && len(in) > 0 {
			continue
		}
		outers := []int{0}
		for _, ps := range in {
			if o := ps[i].outer; o > 1 && !slices.Contains(outers, o) {
				outers = append(outers, o)
			}
		}
		for _, o := range outers {
			for k := range n {
				out[i] = append(out[i], place{sharded, k, o, 1})
			}
		}
		for _, f := range append(factors, float64(d.size)) {
			out[i] = append(out[i], sum(f))
		}
		out[i] = append(out[i], place{kind: maximum, factor: 1}, place{kind: norm, factor: 1})
	}
	return out
}

// sum is the place of values that add up to factor times the whole.
func sum(factor float64) place { return place{kind: partial, factor: factor} }

// everywhere is the place of each dimension of the mesh.
func (m *mesh) everywhere(p place) []place {
	out := make([]place, len(m.dims))
	for i := range out {
		out[i] = p
	}
	return out
}

var whole = place{kind: replicated, factor: 1}
