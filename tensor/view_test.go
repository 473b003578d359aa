package tensor

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// A model is a tensor as a function of the index, the slow and obvious way.
type model struct {
	shape []int
	at    func(idx []int) float64
}

func (m model) elements() []float64 {
	n := Numel(m.shape)
	out := make([]float64, n)
	idx := make([]int, len(m.shape))
	for i := range out {
		out[i] = m.at(idx)
		for d := len(idx) - 1; d >= 0; d-- {
			if idx[d]++; idx[d] < m.shape[d] {
				break
			}
			idx[d] = 0
		}
	}
	return out
}

// change applies one random view to a tensor and its model.
func change(r *rand.Rand, t *Tensor, m model) (*Tensor, model, string) {
	rank := len(m.shape)
	switch k := r.IntN(7); {
	case k == 0 && rank > 1: // permute
		perm := r.Perm(rank)
		shape := make([]int, rank)
		for i, p := range perm {
			shape[i] = m.shape[p]
		}
		return t.Permute(perm...), model{shape, func(idx []int) float64 {
			src := make([]int, rank)
			for i, p := range perm {
				src[p] = idx[i]
			}
			return m.at(src)
		}}, fmt.Sprint("permute ", perm)
	case k == 1 && rank > 0: // slice, backwards too
		d := r.IntN(rank)
		n := r.IntN(m.shape[d] + 1)
		start, step := 0, 1
		if n > 0 {
			start = r.IntN(m.shape[d] - n + 1)
			if n > 1 && (m.shape[d]-1-start)/(n-1) > 1 {
				step = 2
			}
			if r.IntN(3) == 0 {
				start, step = start+(n-1)*step, -step
			}
		}
		shape := slices.Clone(m.shape)
		shape[d] = n
		return t.Slice(d, start, n, step), model{shape, func(idx []int) float64 {
			src := slices.Clone(idx)
			src[d] = start + idx[d]*step
			return m.at(src)
		}}, fmt.Sprintf("slice dim %d start %d n %d step %d", d, start, n, step)
	case k == 2 && rank > 0 && Numel(m.shape) > 0: // select
		d := r.IntN(rank)
		i := r.IntN(m.shape[d])
		return t.Select(d, i), model{slices.Delete(slices.Clone(m.shape), d, d+1),
				func(idx []int) float64 { return m.at(slices.Insert(slices.Clone(idx), d, i)) }},
			fmt.Sprintf("select dim %d index %d", d, i)
	case k == 3 && rank < 4: // unsqueeze
		d := r.IntN(rank + 1)
		return t.Unsqueeze(d), model{slices.Insert(slices.Clone(m.shape), d, 1),
				func(idx []int) float64 { return m.at(slices.Delete(slices.Clone(idx), d, d+1)) }},
			fmt.Sprint("unsqueeze ", d)
	case k == 4 && rank < 4: // expand
		shape := slices.Insert(slices.Clone(m.shape), 0, 1+r.IntN(3))
		for i := range m.shape {
			if shape[i+1] == 1 {
				shape[i+1] = 1 + r.IntN(3)
			}
		}
		u, err := t.Expand(shape...)
		if err != nil {
			panic(err)
		}
		return u, model{shape, func(idx []int) float64 {
			src := slices.Clone(idx[1:])
			for i, n := range m.shape {
				if n == 1 {
					src[i] = 0
				}
			}
			return m.at(src)
		}}, fmt.Sprint("expand ", shape)
	case k == 5: // reshape
		all := m.elements()
		shape := []int{len(all)}
		if len(all) > 0 && len(all)%2 == 0 {
			shape = []int{2, len(all) / 2}
		}
		if len(all) == 1 {
			shape = nil
		}
		return t.Reshape(shape...), model{shape, func(idx []int) float64 {
			p := 0
			for i, n := range shape {
				p = p*n + idx[i]
			}
			return all[p]
		}}, fmt.Sprint("reshape ", shape)
	}
	return t.Dense(), m, "dense"
}

// TestViews applies random views to stored, computed and lazy tensors of every
// category and compares whole and partial loads with the model.
func TestViews(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		shape := []int{1 + r.IntN(4), r.IntN(5), 1 + r.IntN(6)}[:1+r.IntN(3)]
		value := func(i int) float64 { return float64((i*7 + 3) % 120) }
		dt := []DType{Float32, Float64, BFloat16, Int64, Uint8, Complex64}[r.IntN(6)]
		back := []string{"stored", "computed", "lazy"}[r.IntN(3)]
		base := model{shape, func(idx []int) float64 {
			p := 0
			for i, d := range shape {
				p = p*d + idx[i]
			}
			return value(p)
		}}
		var x *Tensor
		switch dt.Kind() {
		case KindFloat:
			x = build(dt, shape, back, func(i int) float64 { return value(i) })
		case KindComplex:
			x = build(dt, shape, back, func(i int) complex128 { return complex(value(i), -1) })
		default:
			x = build(dt, shape, back, func(i int) int64 { return int64(value(i)) })
		}
		m, trail := base, fmt.Sprintf("seed %d: %s %s %v", seed, back, dt, shape)
		for range 1 + r.IntN(5) {
			var what string
			x, m, what = change(r, x, m)
			trail += ", " + what
		}
		want := m.elements()
		if !slices.Equal(x.Shape, m.shape) {
			t.Fatalf("%s: shape %v, want %v", trail, x.Shape, m.shape)
		}
		if n := len(want); n > 0 {
			lo := r.IntN(n)
			part := make([]float64, r.IntN(n-lo)+1)
			if Load(x, lo, part); !slices.Equal(part, want[lo:lo+len(part)]) {
				t.Fatalf("%s: Load from %d: %v, want %v", trail, lo, part, want[lo:lo+len(part)])
			}
			ints := make([]int64, len(part))
			Load(x, lo, ints)
			cs := make([]complex128, len(part))
			Load(x, lo, cs)
			for i, w := range want[lo : lo+len(part)] {
				if float64(ints[i]) != w || real(cs[i]) != w {
					t.Fatalf("%s: element %d loads as %d and %v, want %v", trail, lo+i, ints[i], cs[i], w)
				}
			}
		}
		if got := Data[float64](x); !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", trail, got, want)
		}
		if got := Data[float64](x.Rounded()); !slices.Equal(got, want) {
			t.Fatalf("%s: rounded %v, want %v", trail, got, want)
		}
		if got := Data[float64](x.Dense()); !slices.Equal(got, want) || !x.Dense().IsContiguous() {
			t.Fatalf("%s: dense %v, want %v", trail, got, want)
		}
	}
}

func build[T Elem](dt DType, shape []int, back string, f func(i int) T) *Tensor {
	data := make([]T, Numel(shape))
	for i := range data {
		data[i] = f(i)
	}
	switch back {
	case "stored":
		return New(dt, shape, data).Rounded()
	case "lazy":
		return Lazy(dt, shape, 3, func(lo int, dst []T) { copy(dst, data[lo:]) })
	}
	return New(dt, shape, data)
}

func TestNewViewLimits(t *testing.T) {
	const big = math.MaxInt
	for _, tc := range []struct {
		name string
		v    View
		size int
		want error
	}{
		{"fits", View{Float32, []int{2, 3}, []int{3, 1}, 0}, 24, nil},
		{"one element past the end", View{Float32, []int{2, 3}, []int{3, 1}, 1}, 24, ErrExtent},
		{"one byte short", View{Float32, []int{2, 3}, []int{3, 1}, 0}, 23, ErrExtent},
		{"no dimensions", View{Float32, nil, nil, 5}, 24, nil},
		{"no dimensions past the end", View{Float32, nil, nil, 6}, 24, ErrExtent},
		{"no elements past the end", View{Float32, []int{0, 3}, []int{3, 1}, 100}, 24, nil},
		{"no elements, huge", View{Float32, []int{big, 0, big}, []int{1, 1, 1}, 0}, 0, nil},
		{"expanded", View{Float32, []int{1000, 6}, []int{0, 1}, 0}, 24, nil},
		{"expanded beyond counting", View{Float32, []int{big, big}, []int{0, 0}, 0}, 24, ErrOverflow},
		{"element count wraps to little", View{Float32, []int{1 << 32, 1 << 32}, []int{0, 0}, 0}, 24, ErrOverflow},
		{"stride overflows", View{Float32, []int{3}, []int{big}, 0}, 24, ErrExtent},
		{"offset overflows", View{Float32, []int{2}, []int{1}, big}, 24, ErrExtent},
		{"rank", View{Float32, []int{2}, []int{1, 1}, 0}, 24, ErrRank},
		{"negative offset", View{Float32, []int{2}, []int{1}, -1}, 24, ErrNegative},
		{"negative size", View{Float32, []int{-2}, []int{1}, 0}, 24, ErrNegative},
		{"negative stride", View{Float32, []int{2}, []int{-1}, 4}, 24, ErrNegative},
	} {
		_, err := NewView(NewStorage(make([]byte, tc.size)), tc.v)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestStridedLimits(t *testing.T) {
	for _, x := range []*Tensor{New(Float32, []int{6}, make([]float64, 6)), New(Int8, []int{6}, make([]int64, 6)),
		New(Complex64, []int{6}, make([]complex128, 6)), New(Float32, []int{6}, make([]float64, 6)).Rounded()} {
		if _, err := x.Strided([]int{2, 2}, []int{4, 1}, 0); err != nil {
			t.Errorf("%s: %v", x.Meta(), err)
		}
		if _, err := x.Strided([]int{2, 2}, []int{5, 1}, 0); !errors.Is(err, ErrExtent) {
			t.Errorf("%s: error %v, want %v", x.Meta(), err, ErrExtent)
		}
	}
}

func TestBroadcast(t *testing.T) {
	for _, tc := range []struct {
		in   [][]int
		want []int
		err  string
	}{
		{[][]int{{3, 1}, {4}}, []int{3, 4}, ""},
		{[][]int{{}, {2, 3}}, []int{2, 3}, ""},
		{[][]int{{0, 3}, {1, 3}}, []int{0, 3}, ""},
		{[][]int{{2}, {3}}, nil, "sizes 2 and 3 at dimension 0"},
		{[][]int{{0}, {2}}, nil, "sizes 0 and 2 at dimension 0"},
		{nil, []int{}, ""},
	} {
		got, err := Broadcast(tc.in...)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("Broadcast(%v): error %v, want %q", tc.in, err, tc.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("Broadcast(%v) = %v, %v, want %v", tc.in, got, err, tc.want)
		}
	}
	x := New(Float32, []int{2, 1}, []float64{1, 2})
	for _, shape := range [][]int{{3, 3}, {2}, {3, 1}} {
		if _, err := x.Expand(shape...); err == nil {
			t.Errorf("[2, 1] expands to %v", shape)
		}
	}
	if y, err := x.Expand(2, 2, 3); err != nil || y.IsWrittenOnce() || !x.IsWrittenOnce() {
		t.Errorf("expanded: %v, %v", y, err)
	}
}

func TestIsWrittenOnce(t *testing.T) {
	for _, tc := range []struct {
		shape []int
		want  bool
	}{{[]int{2, 3}, false}, {[]int{1, 1}, true}, {nil, true}, {[]int{0, 3}, true}} {
		if x := Full(Float32, tc.shape, 1.0); x.IsWrittenOnce() != tc.want {
			t.Errorf("one element expanded to %v: written once %v", tc.shape, !tc.want)
		}
	}
}

func TestContiguous(t *testing.T) {
	for _, tc := range []struct {
		shape, stride []int
		want          bool
	}{
		{[]int{2, 3}, []int{3, 1}, true}, {[]int{2, 3}, []int{1, 2}, false}, {[]int{1, 3}, []int{7, 1}, true},
		{nil, nil, true},
		{[]int{0, 3}, []int{9, 9}, true}, {[]int{3}, []int{2}, false}, {[]int{1}, []int{5}, true},
	} {
		x := &Tensor{Shape: tc.shape, Stride: tc.stride}
		if got := x.IsContiguous(); got != tc.want {
			t.Errorf("shape %v, stride %v: contiguous %v", tc.shape, tc.stride, got)
		}
	}
	if got := Contiguous([]int{2, 0, 3}); !slices.Equal(got, []int{3, 3, 1}) {
		t.Errorf("strides of [2, 0, 3] are %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("Numel of a shape beyond int does not panic")
		}
	}()
	Numel([]int{1 << 40, 1 << 40})
}

func TestStorage(t *testing.T) {
	opened := 0
	s := OpenStorage(8, func() ([]byte, error) { opened++; return []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}, nil })
	x, err := NewView(s, View{DType: Float32, Shape: []int{2}, Stride: []int{1}})
	if err != nil || opened != 0 {
		t.Fatalf("opened %d times before use, %v", opened, err)
	}
	if got := Data[float64](x); !slices.Equal(got, []float64{1, 2}) || x.Item() != 1 || opened != 1 {
		t.Errorf("%v after opening %d times", got, opened)
	}
	boom := errors.New("boom")
	for name, open := range map[string]func() ([]byte, error){
		"error": func() ([]byte, error) { return nil, boom },
		"short": func() ([]byte, error) { return make([]byte, 4), nil },
	} {
		s := OpenStorage(8, open)
		s.Key = "data/0"
		x, err := NewView(s, View{DType: Float32, Shape: []int{2}, Stride: []int{1}})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				var e *ReadError
				if r, _ := recover().(error); !errors.As(r, &e) || name == "error" && !errors.Is(e, boom) {
					t.Errorf("%s: panic %v, want a ReadError", name, r)
				}
			}()
			Data[float64](x)
		}()
	}
}

func TestParallel(t *testing.T) {
	for _, n := range []int{0, 1, 7, 1000, 100003} {
		seen := make([]atomic.Int32, n)
		Parallel(n, 10, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				seen[i].Add(1)
			}
		})
		for i := range seen {
			if seen[i].Load() != 1 {
				t.Fatalf("n %d: index %d visited %d times", n, i, seen[i].Load())
			}
		}
	}
	defer func() {
		if r := recover(); r != "stop" {
			t.Errorf("panic %v, want stop", r)
		}
	}()
	Parallel(1000, 1, func(lo, _ int) {
		if lo > 300 {
			panic("stop")
		}
	})
}

// TestLazyOnce computes a lazy tensor once however often it is read whole, and
// not at all for a block that nobody asks for.
func TestLazyOnce(t *testing.T) {
	var calls atomic.Int64
	x := Lazy(Float32, []int{5, blockLen}, blockLen, func(lo int, dst []float64) {
		calls.Add(int64(len(dst)))
		for i := range dst {
			dst[i] = float64((lo + i) % 1000)
		}
	})
	if x.Block()%blockLen != 0 {
		t.Errorf("a block is %d elements, the grain %d", x.Block(), blockLen)
	}
	part := make([]float64, 10)
	if Load(x, 2*blockLen, part); calls.Load() != 10 {
		t.Errorf("%d elements computed for 10", calls.Load())
	}
	a, b := Data[float64](x), Data[float64](x.Transpose(0, 1))
	if calls.Load() != int64(x.Numel()+10) {
		t.Errorf("%d elements computed, want each once", calls.Load()-10)
	}
	if a[blockLen+1] != b[5+1] {
		t.Errorf("transposed element is %v, want %v", b[6], a[blockLen+1])
	}
	if !x.IsLazy() || x.Reshape(5 * blockLen).Shape[0] != 5*blockLen {
		t.Error("reshaping a lazy tensor")
	}
}

// TestDeferred: a few elements are computed by themselves, many with all others, once.
func TestDeferred(t *testing.T) {
	const n = leastDeferred
	var all, singly int
	make := func(n int) *Tensor {
		all, singly = 0, 0
		return Deferred(n/8, Float32, []int{n}, func() []float64 {
			all++
			x := make([]float64, n)
			for i := range x {
				x[i] = float64(i)
			}
			return x
		}, func(at int) float64 {
			singly++
			return float64(at)
		})
	}
	for _, c := range []struct {
		name        string
		numel       int
		ask         []int // how many elements each time
		all, singly int
	}{
		{"few", n, []int{1, 3}, 0, 4},
		{"many", n, []int{1, 100, 1}, 1, 1},
		{"few of a small tensor", n - 1, []int{1, 1}, 1, 0},
		{"few, very often", n, slices.Repeat([]int{1}, n/4), 1, n / 8},
	} {
		x := make(c.numel)
		y := LazyOf(Float32, x.Shape, func(lo int, dst []float64) { Load(x, lo, dst) }, x)
		if !x.Costly() || !y.Costly() {
			t.Errorf("%s: Costly is %t, and %t of what is made of it; want true", c.name, x.Costly(), y.Costly())
		}
		for _, k := range c.ask {
			got := [100]float64{}
			if Load(y, 5, got[:k]); got[0] != 5 || got[k-1] != float64(4+k) {
				t.Errorf("%s: %d elements from 5 on are %v", c.name, k, got[:k])
			}
		}
		if all != c.all || singly != c.singly {
			t.Errorf("%s: all were computed %d times and %d singly, want %d and %d", c.name, all, singly, c.all,
				c.singly)
		}
		if known := c.all > 0; x.Costly() == known || y.Costly() == known {
			t.Errorf("%s: Costly is %t, and %t of what is made of it, when all were computed %d times", c.name,
				x.Costly(), y.Costly(), c.all)
		}
	}
}
