package compare_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/tensor"
)

// TestProfile: sizes and places of errors, of which each is planted.
func TestProfile(t *testing.T) {
	const rows, cols = 6, 40
	ref := make([]float64, rows*cols)
	for i := range ref {
		ref[i] = 1 + float64(i)/1024
	}
	got := slices.Clone(ref)
	eps := tensor.Float32.Eps()
	for r := range rows { // the last three columns: 8, 16 and 32 units
		for k := range 3 {
			got[r*cols+cols-3+k] += eps * float64(int(8)<<k)
		}
	}
	got[0] += eps
	got[5] = math.NaN()
	p, err := compare.NewProfile(tensor.New(tensor.Float32, []int{rows, cols}, got),
		tensor.New(tensor.Float32, []int{rows, cols}, ref), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Numel != 240 || p.Equal != 240-20 || p.Infinite != 1 {
		t.Errorf("%d elements, %d equal, %d infinite; want 240, 220, 1", p.Numel, p.Equal, p.Infinite)
	}
	if want := []int{0, 1, 0, 0, 6, 6, 6}; !slices.Equal(p.Octaves, want) {
		t.Errorf("octaves %v, want %v", p.Octaves, want)
	}
	w := p.Worst
	if len(w) != 10 || !math.IsInf(w[0].ULPs, 1) || w[1].ULPs != 32 || w[9].ULPs != 16 ||
		!slices.Equal(w[1].Index, []int{0, 39}) {
		t.Errorf("worst %+v", w)
	}
	if got := []float64{p.Percentile(0.5), p.Percentile(0.95), p.Percentile(0.995), p.Percentile(1)}; !slices.Equal(got,
		[]float64{0, 32, 64, math.Inf(1)}) {
		t.Errorf("percentiles %v", got)
	}
	if p.MaxAbs != 32*eps || p.MaxRel >= p.MaxAbs || p.MaxRel <= 0 {
		t.Errorf("tolerances %g and %g, want %g and a little less", p.MaxAbs, p.MaxRel, 32*eps)
	}
	got[5], got[9] = ref[5], -ref[9]
	p, err = compare.NewProfile(tensor.New(tensor.Float32, []int{rows, cols}, got),
		tensor.New(tensor.Float32, []int{rows, cols}, ref), nil)
	if last := len(p.Octaves) - 1; err != nil || last < 30 || p.Octaves[last] != 1 || p.OtherSign[last] != 1 {
		t.Errorf("%v, octaves %v, of another sign %v", err, p.Octaves, p.OtherSign)
	}
	got[9] = ref[9]
	for _, tc := range []struct {
		limit func(index []int) compare.Limit
		where []string
	}{
		{nil, []string{"dimension 1: only the last 3 indices of 40"}},
		// Of these 8 units are no error.
		{func([]int) compare.Limit { return compare.Limit{Allowed: 10 * eps} },
			[]string{"dimension 1: only the last 2 indices of 40"}},
		// None may be off, not even by one unit.
		{func([]int) compare.Limit { return compare.Limit{} },
			[]string{"dimension 1: only indices [0 37 38 39] of 40"}},
	} {
		p, err = compare.NewProfile(tensor.New(tensor.Float32, []int{rows, cols}, got),
			tensor.New(tensor.Float32, []int{rows, cols}, ref), &compare.Result{Limit: tc.limit})
		if err != nil || !slices.Equal(p.Concentrated(), tc.where) {
			t.Errorf("%v, %v, want %v", p.Concentrated(), err, tc.where)
		}
	}
	for _, tc := range []struct {
		wrong []int
		where string
	}{
		{[]int{0, 10, 20, 30}, "indices 0 to 30 in steps of 10"},
		{[]int{0, 3, 6}, "indices [0 3 6]"}, // a period would go on
		{every(1), "indices 0 to 19"},       // half of them
		{every(2), "indices 0 to 38 in steps of 2"},
	} {
		x := slices.Repeat([]float64{1}, 40)
		for _, i := range tc.wrong {
			x[i] = 2
		}
		p, err := compare.NewProfile(tensor.New(tensor.Float32, []int{40}, x),
			tensor.Full(tensor.Float32, []int{40}, 1.0), nil)
		if want := []string{"dimension 0: only " + tc.where + " of 40"}; err != nil ||
			!slices.Equal(p.Concentrated(), want) {
			t.Errorf("%v, %v, want %v", p.Concentrated(), err, want)
		}
	}
	uneven := slices.Repeat([]float64{1}, 40)
	for _, i := range every(1) {
		uneven[(i*i+i)/2%40] = 2
	}
	odd, err := compare.NewProfile(tensor.New(tensor.Float32, []int{40}, uneven),
		tensor.Full(tensor.Float32, []int{40}, 1.0), nil)
	if err != nil || len(odd.Concentrated()) > 0 {
		t.Errorf("%v, %v of uneven indices", odd.Concentrated(), err)
	}
	if len(p.Map) != rows || len(p.Map[0]) != cols || p.Map[2][39] != 32 || p.Map[2][0] != 0 {
		t.Errorf("map %v", p.Map)
	}
}

// TestProfileOfLazyMagnitudes: magnitudes that are cheapest computed by rows are computed once, however many of the
// elements are off; those of a few elements are not computed of all rows.
func TestProfileOfLazyMagnitudes(t *testing.T) {
	const rows, cols = 64, 1 << 12
	ref := make([]float64, rows*cols)
	for i := range ref {
		ref[i] = 1 + float64(i%7)/8
	}
	var filled atomic.Int64
	m := compare.Model{ULPs: 1, Sum: true, Terms: 100, Scale: func() *tensor.Tensor {
		return tensor.Lazy(tensor.Float64, []int{rows, cols}, cols, func(_ int, dst []float64) {
			filled.Add(int64((len(dst) + cols - 1) / cols)) // an element costs a row
			for i := range dst {
				dst[i] = 100
			}
		})
	}}
	for _, every := range []int{1, 40 * cols} {
		got := slices.Clone(ref)
		for i := 0; i < len(got); i += every {
			got[i] += 1e-3 * float64(1+i%13)
		}
		g, r := tensor.New(tensor.Float32, []int{rows, cols}, got), tensor.New(tensor.Float64, []int{rows, cols}, ref)
		result := compare.Check(g, r, m, compare.Tolerance{}, nil)
		if result.Verdict != verdict.Fail || result.Limit == nil {
			t.Fatalf("every %d: %s", every, result.Verdict)
		}
		filled.Store(0)
		p, err := compare.NewProfile(g, r, &result)
		if err != nil || len(p.Worst) == 0 {
			t.Fatal(p, err)
		}
		if n := filled.Load(); n > rows+rows/8 || every > cols && n > 16 {
			t.Errorf("every %d: %d rows of magnitudes computed, of %d", every, n, rows)
		}
	}
}

// TestProfileRefusals: what has no profile is an error.
func TestProfileRefusals(t *testing.T) {
	ints := tensor.New(tensor.Int64, []int{2}, []int64{1, 2})
	floats := tensor.New(tensor.Float32, []int{2}, []float64{1, 2})
	one := tensor.New(tensor.Float32, []int{1}, []float64{1})
	for _, pair := range [][2]*tensor.Tensor{{ints, ints}, {floats, one}} {
		if p, err := compare.NewProfile(pair[0], pair[1], nil); err == nil {
			t.Errorf("profile %+v, want an error", p)
		}
	}
	none := tensor.New(tensor.Float32, []int{0, 3}, []float64{})
	if p, err := compare.NewProfile(none, none, nil); err != nil || p.Numel != 0 || p.Percentile(1) != 0 {
		t.Errorf("empty: %+v, %v", p, err)
	}
}

// TestProfileFarFromZero: a float64 that should be 0 is off by the number of values between them.
func TestProfileFarFromZero(t *testing.T) {
	p, err := compare.NewProfile(tensor.New(tensor.Float64, []int{1}, []float64{1e300}),
		tensor.New(tensor.Float64, []int{1}, []float64{0}), nil)
	if err != nil || p.Infinite != 0 || p.Worst[0].ULPs != float64(math.Float64bits(1e300)) || p.Octaves[63] != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestProfileWorst: the worst element is the one of the comparison, those behind it are in the order of their errors
// over what they may be; distances are those of the comparison's reason, also across a power of two.
func TestProfileWorst(t *testing.T) {
	ref := []float64{100, 4, 1, 0.5, 2}
	got := []float64{100.5, 3.96875, 1.0625, 0.75, 2} // 1, 2, 8, 64 and 0 values of bfloat16 away
	scale := []float64{100, 1e4, 1e5, 0.5, 2}
	one := func(v []float64) *tensor.Tensor { return tensor.New(tensor.BFloat16, []int{5}, v) }
	r := compare.Check(one(got), tensor.New(tensor.Float64, []int{5}, ref),
		compare.Model{ULPs: 1, Cast: true, Terms: 4, Scale: func() *tensor.Tensor {
			return tensor.New(tensor.Float64, []int{5}, scale)
		}}, compare.Tolerance{}, nil)
	p, err := compare.NewProfile(one(got), tensor.New(tensor.Float64, []int{5}, ref), &r)
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	var ulps []float64
	for _, d := range p.Worst {
		order, ulps = append(order, d.Index[0]), append(ulps, d.ULPs)
	}
	if !slices.Equal(order[:1], r.WorstIndex) || !strings.Contains(r.Reason, fmt.Sprintf("(%g ulp)", ulps[0])) ||
		!slices.Equal(order, []int{3, 0, 1, 2}) || r.MaxULP != slices.Max(ulps) {
		t.Errorf("worst %v, %v ulp; %s at %v", order, ulps, r.Reason, r.WorstIndex)
	}
}

// TestProfileUnits: a profile counts the units that the sentence of a failure counts, also where a value is precise to
// a coarser dtype than its own.
func TestProfileUnits(t *testing.T) {
	got := tensor.New(tensor.Float64, []int{4}, []float64{1, 2, 0, 4})
	ref := tensor.New(tensor.Float64, []int{4}, []float64{1, 2, 3, 4})
	model := compare.Model{ULPs: 1, Round: tensor.Float32}
	r := compare.Check(got, ref, model, compare.DefaultTolerance(tensor.Float64), nil)
	p, err := compare.NewProfile(got, ref, &r)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Worst) == 0 || p.Worst[0].ULPs != r.WorstULP || !strings.Contains(r.Reason, "(1.078e+09 ulp)") {
		t.Errorf("%+v, want %g ulp as in %q", p.Worst, r.WorstULP, r.Reason)
	}
}

// every are 20 indices from 0 on, a step apart.
func every(step int) (indices []int) {
	for i := range 20 {
		indices = append(indices, i*step)
	}
	return indices
}
