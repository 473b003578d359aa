package blas

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

func normal(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

// naive is the definition of Dgemm.
func naive(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64,
	c []float64, ldc int) {
	at := func(t blas.Transpose, x []float64, ld, i, j int) float64 {
		if t != blas.NoTrans {
			i, j = j, i
		}
		return x[i*ld+j]
	}
	for i := range m {
		for j := range n {
			var s float64
			for l := range k {
				s += at(tA, a, lda, i, l) * at(tB, b, ldb, l, j)
			}
			s *= alpha
			if beta != 0 {
				s += beta * c[i*ldc+j]
			}
			c[i*ldc+j] = s
		}
	}
}

// stored is the size and the row distance of a rows by cols operand.
func stored(t blas.Transpose, rows, cols, pad int) (n, ld int) {
	if t != blas.NoTrans {
		rows, cols = cols, rows
	}
	ld = max(cols+pad, 1)
	return max(rows-1, 0)*ld + cols, ld
}

func TestDgemm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sizes := [][3]int{
		{1, 1, 1}, {2, 3, 1}, {3, 4, 2}, {4, 8, 4}, {5, 9, 7}, {13, 17, 19}, {16, 16, 16}, {31, 33, 29}, {4, 8, 0},
		{1, 300, 70}, {300, 1, 70}, {3, 200, 300}, {200, 5, 300}, {129, 65, 257}, {67, 131, 513}, {64, 600, 100},
		{600, 40, 90}, {530, 521, 23},
	}
	for _, s := range sizes {
		m, n, k := s[0], s[1], s[2]
		for _, tA := range []blas.Transpose{blas.NoTrans, blas.Trans} {
			for _, tB := range []blas.Transpose{blas.NoTrans, blas.ConjTrans} {
				for _, f := range [][2]float64{{1, 0}, {1, 1}, {-2, 0.5}, {0, 3}} {
					pad := r.IntN(3)
					na, lda := stored(tA, m, k, pad)
					nb, ldb := stored(tB, k, n, pad)
					nc, ldc := stored(blas.NoTrans, m, n, pad)
					a, b, c := normal(r, na), normal(r, nb), normal(r, nc)
					if f[1] == 0 {
						for i := range m {
							c[i*ldc+i%n] = math.NaN()
						}
					}
					want := append([]float64(nil), c...)
					naive(tA, tB, m, n, k, f[0], a, lda, b, ldb, f[1], want, ldc)
					Implementation{}.Dgemm(tA, tB, m, n, k, f[0], a, lda, b, ldb, f[1], c, ldc)
					for i := range c {
						if d := math.Abs(c[i] - want[i]); !(d <= 1e-15*float64(k+4)*10) {
							t.Fatalf("%v %c%c alpha, beta %v: element %d is %v, want %v", s, tA, tB, f, i,
								c[i], want[i])
						}
					}
				}
			}
		}
	}
}

// Every product of a zero with NaN or an infinity is NaN, in all builds.
func TestDgemmNotFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range [][3]int{{5, 6, 3}, {33, 41, 37}, {140, 70, 300}} {
		m, n, k := s[0], s[1], s[2]
		for _, tA := range []blas.Transpose{blas.NoTrans, blas.Trans} {
			for _, tB := range []blas.Transpose{blas.NoTrans, blas.Trans} {
				na, lda := stored(tA, m, k, 0)
				nb, ldb := stored(tB, k, n, 0)
				a, b := normal(r, na), normal(r, nb)
				for range 5 {
					a[r.IntN(na)] = 0
					b[r.IntN(nb)] = 0
				}
				clear(a[:min(na, k)])
				a[r.IntN(na)], a[r.IntN(na)] = math.NaN(), math.Inf(1)
				b[r.IntN(nb)], b[r.IntN(nb)] = math.NaN(), math.Inf(-1)
				c, want := make([]float64, m*n), make([]float64, m*n)
				naive(tA, tB, m, n, k, 1, a, lda, b, ldb, 0, want, n)
				Implementation{}.Dgemm(tA, tB, m, n, k, 1, a, lda, b, ldb, 0, c, n)
				for i := range c {
					if same := math.IsNaN(c[i]) == math.IsNaN(want[i]) &&
						(!math.IsInf(want[i], 0) || c[i] == want[i]); !same {
						t.Fatalf("%v %c%c: element %d is %v, want %v", s, tA, tB, i, c[i], want[i])
					}
				}
			}
		}
	}
}

func TestUse(t *testing.T) {
	defer chosen.Store(nil)
	for _, name := range []string{"auto", "go"} {
		if err := Use(name); err != nil {
			t.Errorf("Use(%q): %v", name, err)
		}
	}
	if err := Use("/nowhere/libblas.so"); err == nil {
		t.Error("no error on a library that is not there")
	}
}

// A large product goes to the library, with the arguments of cblas_dgemm.
func TestLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const m, n, k = 128, 256, 512
	a, b, c, want := normal(r, m*k), normal(r, n*k), normal(r, m*n), make([]float64, m*n)
	copy(want, c)
	calls := 0
	f := func() dgemm {
		return func(order, tA, tB, m, n, k int, alpha float64, a *float64, lda int, b *float64, ldb int, beta float64,
			c *float64, ldc int) {
			if got := []int{order, tA, tB, m, n, k, lda, ldb, ldc}; !slices.Equal(got, []int{101, 112, 111, 128, 256,
				512, 128, 256, 256}) || alpha != 2 || beta != 1 {
				t.Errorf("called with %v, alpha %v, beta %v", got, alpha, beta)
			}
			calls++
		}
	}
	chosen.Store(&f)
	defer chosen.Store(nil)
	Implementation{}.Dgemm(blas.Trans, blas.NoTrans, m, n, k, 2, a, m, b, n, 1, c, n)
	if calls != 1 {
		t.Errorf("%d calls of the library, want 1", calls)
	}
	// What the system has, if anything, agrees with the definition.
	chosen.Store(nil)
	Implementation{}.Dgemm(blas.Trans, blas.NoTrans, m, n, k, 2, a, m, b, n, 1, c, n)
	naive(blas.Trans, blas.NoTrans, m, n, k, 2, a, m, b, n, 1, want, n)
	for i := range c {
		if d := math.Abs(c[i] - want[i]); !(d <= 1e-11) {
			t.Fatalf("element %d is %v, want %v", i, c[i], want[i])
		}
	}
}

func TestDgemmPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic on operands too short")
		}
	}()
	Implementation{}.Dgemm(blas.NoTrans, blas.NoTrans, 32, 32, 32, 1, make([]float64, 100), 32, make([]float64, 1024),
		32, 0, make([]float64, 1024), 32)
}

func TestDgemmConcurrent(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n = 120
	a, b, want := normal(r, n*n), normal(r, n*n), make([]float64, n*n)
	Implementation{}.Dgemm(blas.NoTrans, blas.Trans, n, n, n, 1, a, n, b, n, 0, want, n)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c := make([]float64, n*n)
			for range 4 {
				Implementation{}.Dgemm(blas.NoTrans, blas.Trans, n, n, n, 1, a, n, b, n, 0, c, n)
				for i := range c {
					if c[i] != want[i] {
						t.Errorf("element %d is %v in one call, %v in another", i, c[i], want[i])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkDgemm(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, e := range []struct {
		name string
		impl interface {
			Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int,
				beta float64, c []float64, ldc int)
		}
	}{{"own", Implementation{}}, {"gonum", gonum.Implementation{}}} {
		for _, s := range [][3]int{{8, 8, 8}, {12, 12, 12}, {16, 16, 16}, {32, 32, 32}, {256, 256, 64}, {64, 455, 576},
			{1024, 1024, 1024}, {2048, 2048, 2048}} {
			m, n, k := s[0], s[1], s[2]
			x, y, z := normal(r, m*k), normal(r, k*n), make([]float64, m*n)
			for _, tB := range []blas.Transpose{blas.NoTrans, blas.Trans} {
				ldb := n
				if tB == blas.Trans {
					ldb = k
				}
				b.Run(fmt.Sprintf("%s/%dx%dx%d/N%c", e.name, m, k, n, tB), func(b *testing.B) {
					b.SetBytes(int64(8 * (m*k + k*n + m*n)))
					for b.Loop() {
						e.impl.Dgemm(blas.NoTrans, tB, m, n, k, 1, x, k, y, ldb, 0, z, n)
					}
					b.ReportMetric(2*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}
