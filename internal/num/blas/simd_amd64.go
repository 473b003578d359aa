//go:build goexperiment.simd && amd64 && !go1.27

package blas

import (
	"runtime"
	"simd/archsimd"
	"sync"
	"sync/atomic"
)

var (
	useSIMD   = archsimd.X86.AVX2() && archsimd.X86.FMA()
	useAVX512 = useSIMD && archsimd.X86.AVX512()
)

// Sizes of blocks. A tile of c lives in registers; a panel of b is rowsK by
// tileN (16 KiB, level 1 cache), a block of a rowsM by rowsK (256 KiB, level
// 2). One task computes at most taskM by taskN elements of c.
const (
	tileM, tileN = 4, 8
	rowsK        = 256
	rowsM        = 128
	taskM, taskN = 512, 512
)

// panels are the packed operands of one task: tiles of tileM rows of a and of
// tileN columns of b, k by k, zeros where the operand ends.
type panels struct {
	a [rowsM/tileM*rowsK + 3][tileM]float64
	b [taskN/tileN*rowsK + 3][tileN]float64
}

var pool = sync.Pool{New: func() any { return new(panels) }}

// parallelProduct is the number of multiplications from which a second core
// pays.
const parallelProduct = 1 << 19

// packed computes the product and reports true where the CPU can.
func (p *product) packed() bool {
	if !useSIMD {
		return false
	}
	workers := 1
	if p.m*p.n*p.k >= parallelProduct {
		workers = runtime.GOMAXPROCS(0)
	}
	stepM, stepN := taskM, taskN
	// Smaller tasks, down to a block, so that every core has some.
	for workers > 1 && ceilDiv(p.m, stepM)*ceilDiv(p.n, stepN) < 2*workers && (stepM > rowsM/2 || stepN > rowsM) {
		if stepM > rowsM/2 && (min(stepM, p.m) >= min(stepN, p.n) || stepN <= rowsM) {
			stepM /= 2
		} else {
			stepN /= 2
		}
	}
	across := ceilDiv(p.n, stepN)
	tasks := ceilDiv(p.m, stepM) * across
	var next atomic.Int64
	work := func() {
		s := pool.Get().(*panels)
		for t := int(next.Add(1)) - 1; t < tasks; t = int(next.Add(1)) - 1 {
			i, j := t/across*stepM, t%across*stepN
			p.block(s, i, min(i+stepM, p.m), j, min(j+stepN, p.n))
		}
		pool.Put(s)
	}
	var wg sync.WaitGroup
	for range min(workers, tasks) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return true
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// block computes rows [i0, i1) and columns [j0, j1) of c.
func (p *product) block(s *panels, i0, i1, j0, j1 int) {
	add := p.beta != 0
	if add && p.beta != 1 {
		for i := i0; i < i1; i++ {
			for j := range p.c[i*p.ldc+j0 : i*p.ldc+j1] {
				p.c[i*p.ldc+j0+j] *= p.beta
			}
		}
	}
	bt := matrix{p.b.data, p.b.stride, !p.b.trans}
	step := ceilDiv(p.k, ceilDiv(p.k, rowsK))
	for l := 0; l < p.k; l += step {
		k := min(step, p.k-l)
		bt.pack8(s.b[:], j0, j1, l, k)
		for i := i0; i < i1; i += rowsM {
			m := min(rowsM, i1-i)
			p.a.pack4(s.a[:], i, i+m, l, k, p.alpha)
			for j, n := j0, 0; j < j1; j += n {
				if n = min(tileN, j1-j); useAVX512 && j+2*tileN <= j1 {
					n = 2 * tileN
				}
				b := s.b[(j-j0)/tileN*k:]
				for r := 0; r < m; r += tileM {
					a := s.a[r/tileM*k:]
					p.tile(k, a, b, i+r, min(tileM, m-r), j, n, add)
				}
			}
		}
		add = true
	}
	archsimd.ClearAVXUpperBits()
}

// tile computes m by n elements of c at (i, j) from a panel of a and from one of b, or
// two if n is more than tileN, adding if add is set. The order of the sums is the same
// for all widths, so that no bit depends on the vector unit.
func (p *product) tile(k int, a [][tileM]float64, b [][tileN]float64, i, m, j, n int, add bool) {
	var t [tileM * 2 * tileN]float64
	c, ldc, whole := t[:], 2*tileN, m == tileM && n%tileN == 0
	if whole {
		c, ldc = p.c[i*p.ldc+j:], p.ldc
	}
	if n > tileN {
		tile4x16(k, a, b, b[k:], c, ldc, whole && add)
	} else {
		tile4x8(k, a, b, c, ldc, whole && add)
	}
	if whole {
		return
	}
	archsimd.ClearAVXUpperBits()
	for r := range m {
		c := p.c[(i+r)*p.ldc+j:][:n]
		if add {
			for q := range c {
				c[q] += t[r*ldc+q]
			}
		} else {
			copy(c, t[r*ldc:])
		}
	}
}

// pack4 stores rows [i0, i1) and columns [l, l+k) of x, times alpha, as panels
// of 4 rows: column by column.
func (x *matrix) pack4(dst [][4]float64, i0, i1, l, k int, alpha float64) {
	for i := i0; i < i1; i += 4 {
		d := dst[(i-i0)/4*k:][:k]
		switch m := min(4, i1-i); {
		case m < 4:
			clear(d)
			for r := range m {
				row, step := x.row(i+r, l)
				for q := range d {
					d[q][r] = row[q*step]
				}
			}
		case x.trans:
			for q := range d {
				d[q] = [4]float64(x.data[(l+q)*x.stride+i:])
			}
		default:
			r0, _ := x.row(i, l)
			r1, _ := x.row(i+1, l)
			r2, _ := x.row(i+2, l)
			r3, _ := x.row(i+3, l)
			for q := range d {
				d[q] = [4]float64{r0[q], r1[q], r2[q], r3[q]}
			}
		}
		if alpha != 1 {
			for q := range d {
				for r := range d[q] {
					d[q][r] *= alpha
				}
			}
		}
	}
}

// pack8 stores columns [j0, j1) of rows [l, l+k) of the transpose of x as
// panels of 8 columns: row by row.
func (x *matrix) pack8(dst [][8]float64, j0, j1, l, k int) {
	for j := j0; j < j1; j += 8 {
		d := dst[(j-j0)/8*k:][:k]
		switch n := min(8, j1-j); {
		case n < 8:
			clear(d)
			for r := range n {
				row, step := x.row(j+r, l)
				for q := range d {
					d[q][r] = row[q*step]
				}
			}
		case x.trans:
			for q := range d {
				d[q] = [8]float64(x.data[(l+q)*x.stride+j:])
			}
		default:
			for h := 0; h < 8; h += 4 {
				r0, _ := x.row(j+h, l)
				r1, _ := x.row(j+h+1, l)
				r2, _ := x.row(j+h+2, l)
				r3, _ := x.row(j+h+3, l)
				for q := range d {
					e := &d[q]
					e[h], e[h+1], e[h+2], e[h+3] = r0[q], r1[q], r2[q], r3[q]
				}
			}
		}
	}
}

// row is row i from column l on, its elements step apart.
func (x *matrix) row(i, l int) (row []float64, step int) {
	if x.trans {
		return x.data[l*x.stride+i:], x.stride
	}
	return x.data[i*x.stride+l:], 1
}

type (
	vec   = archsimd.Float64x4
	quad  = *[4]float64
	wide  = archsimd.Float64x8
	octet = *[8]float64
)

// tile4x8 multiplies k columns of a panel of 4 rows with k rows of a panel of 8
// columns into the 4 by 8 elements of c, whose rows are ldc apart; the panels
// go on for 3 more. Each MulAdd overwrites its first factor with the sum:
// unrolled, the sums are back in the registers they came from with few moves.
// The tests in between keep the compiler from loading the operands of all steps
// first, for want of registers.
func tile4x8(k int, a [][4]float64, b [][8]float64, c []float64, ldc int, add bool) {
	var c00, c01, c10, c11, c20, c21, c30, c31 vec
	for len(a) >= 4 && len(b) >= 4 {
		p, q := (*[4][4]float64)(a), (*[4][8]float64)(b)
		x, y := archsimd.LoadFloat64x4(quad(q[0][0:])), archsimd.LoadFloat64x4(quad(q[0][4:]))
		s := archsimd.BroadcastFloat64x4(p[0][0])
		c00, c01 = s.MulAdd(x, c00), s.MulAdd(y, c01)
		s = archsimd.BroadcastFloat64x4(p[0][1])
		c10, c11 = s.MulAdd(x, c10), s.MulAdd(y, c11)
		s = archsimd.BroadcastFloat64x4(p[0][2])
		c20, c21 = s.MulAdd(x, c20), s.MulAdd(y, c21)
		s = archsimd.BroadcastFloat64x4(p[0][3])
		c30, c31 = s.MulAdd(x, c30), s.MulAdd(y, c31)
		if k--; k == 0 {
			break
		}
		x, y = archsimd.LoadFloat64x4(quad(q[1][0:])), archsimd.LoadFloat64x4(quad(q[1][4:]))
		s = archsimd.BroadcastFloat64x4(p[1][0])
		c00, c01 = s.MulAdd(x, c00), s.MulAdd(y, c01)
		s = archsimd.BroadcastFloat64x4(p[1][1])
		c10, c11 = s.MulAdd(x, c10), s.MulAdd(y, c11)
		s = archsimd.BroadcastFloat64x4(p[1][2])
		c20, c21 = s.MulAdd(x, c20), s.MulAdd(y, c21)
		s = archsimd.BroadcastFloat64x4(p[1][3])
		c30, c31 = s.MulAdd(x, c30), s.MulAdd(y, c31)
		if k--; k == 0 {
			break
		}
		x, y = archsimd.LoadFloat64x4(quad(q[2][0:])), archsimd.LoadFloat64x4(quad(q[2][4:]))
		s = archsimd.BroadcastFloat64x4(p[2][0])
		c00, c01 = s.MulAdd(x, c00), s.MulAdd(y, c01)
		s = archsimd.BroadcastFloat64x4(p[2][1])
		c10, c11 = s.MulAdd(x, c10), s.MulAdd(y, c11)
		s = archsimd.BroadcastFloat64x4(p[2][2])
		c20, c21 = s.MulAdd(x, c20), s.MulAdd(y, c21)
		s = archsimd.BroadcastFloat64x4(p[2][3])
		c30, c31 = s.MulAdd(x, c30), s.MulAdd(y, c31)
		if k--; k == 0 {
			break
		}
		x, y = archsimd.LoadFloat64x4(quad(q[3][0:])), archsimd.LoadFloat64x4(quad(q[3][4:]))
		s = archsimd.BroadcastFloat64x4(p[3][0])
		c00, c01 = s.MulAdd(x, c00), s.MulAdd(y, c01)
		s = archsimd.BroadcastFloat64x4(p[3][1])
		c10, c11 = s.MulAdd(x, c10), s.MulAdd(y, c11)
		s = archsimd.BroadcastFloat64x4(p[3][2])
		c20, c21 = s.MulAdd(x, c20), s.MulAdd(y, c21)
		s = archsimd.BroadcastFloat64x4(p[3][3])
		c30, c31 = s.MulAdd(x, c30), s.MulAdd(y, c31)
		if k--; k == 0 {
			break
		}
		a, b = a[4:], b[4:]
	}
	put(c, c00, c01, add)
	put(c[ldc:], c10, c11, add)
	put(c[2*ldc:], c20, c21, add)
	put(c[3*ldc:], c30, c31, add)
}

// put stores 8 neighbours in c, or adds to them.
func put(c []float64, x, y vec, add bool) {
	p, q := quad(c), quad(c[4:])
	if add {
		x, y = x.Add(archsimd.LoadFloat64x4(p)), y.Add(archsimd.LoadFloat64x4(q))
	}
	x.Store(p)
	y.Store(q)
}

// tile4x16 is tile4x8 for two panels of 8 columns and vectors twice as long. Larger tiles
// are slower: the compiler keeps their sums in memory.
func tile4x16(k int, a [][4]float64, b0, b1 [][8]float64, c []float64, ldc int, add bool) {
	var c00, c01, c10, c11, c20, c21, c30, c31 wide
	for len(a) >= 4 && len(b0) >= 4 && len(b1) >= 4 {
		p, q, r := (*[4][4]float64)(a), (*[4][8]float64)(b0), (*[4][8]float64)(b1)
		x, y := archsimd.LoadFloat64x8(&q[0]), archsimd.LoadFloat64x8(&r[0])
		s := archsimd.BroadcastFloat64x8(p[0][0])
		c00, c01 = s.MulAdd(x, c00), s.MulAdd(y, c01)
		s = archsimd.BroadcastFloat64x8(p[0][1])
		c10, c11 = s.MulAdd(x, c10), s.MulAdd(y, c11)
		s = archsimd.BroadcastFloat64x8(p[0][2])
		c20, c21 = s.MulAdd(x, c20), s.MulAdd(y, c21)
		s = archsimd.BroadcastFloat64x8(p[0][3])
		c30, c31 = s.MulAdd(x, c30), s.MulAdd(y, c31)
		if k--; k == 0 {
			break
		}
		x, y = archsimd.LoadFloat64x8(&q[1]), archsimd.LoadFloat64x8(&r[1])
		s = archsimd.BroadcastFloat64x8(p[1][0])
		c00, c01 = s.MulAdd(x, c00), s.MulAdd(y, c01)
		s = archsimd.BroadcastFloat64x8(p[1][1])
		c10, c11 = s.MulAdd(x, c10), s.MulAdd(y, c11)
		s = archsimd.BroadcastFloat64x8(p[1][2])
		c20, c21 = s.MulAdd(x, c20), s.MulAdd(y, c21)
		s = archsimd.BroadcastFloat64x8(p[1][3])
		c30, c31 = s.MulAdd(x, c30), s.MulAdd(y, c31)
		if k--; k == 0 {
			break
		}
		x, y = archsimd.LoadFloat64x8(&q[2]), archsimd.LoadFloat64x8(&r[2])
		s = archsimd.BroadcastFloat64x8(p[2][0])
		c00, c01 = s.MulAdd(x, c00), s.MulAdd(y, c01)
		s = archsimd.BroadcastFloat64x8(p[2][1])
		c10, c11 = s.MulAdd(x, c10), s.MulAdd(y, c11)
		s = archsimd.BroadcastFloat64x8(p[2][2])
		c20, c21 = s.MulAdd(x, c20), s.MulAdd(y, c21)
		s = archsimd.BroadcastFloat64x8(p[2][3])
		c30, c31 = s.MulAdd(x, c30), s.MulAdd(y, c31)
		if k--; k == 0 {
			break
		}
		x, y = archsimd.LoadFloat64x8(&q[3]), archsimd.LoadFloat64x8(&r[3])
		s = archsimd.BroadcastFloat64x8(p[3][0])
		c00, c01 = s.MulAdd(x, c00), s.MulAdd(y, c01)
		s = archsimd.BroadcastFloat64x8(p[3][1])
		c10, c11 = s.MulAdd(x, c10), s.MulAdd(y, c11)
		s = archsimd.BroadcastFloat64x8(p[3][2])
		c20, c21 = s.MulAdd(x, c20), s.MulAdd(y, c21)
		s = archsimd.BroadcastFloat64x8(p[3][3])
		c30, c31 = s.MulAdd(x, c30), s.MulAdd(y, c31)
		if k--; k == 0 {
			break
		}
		a, b0, b1 = a[4:], b0[4:], b1[4:]
	}
	put16(c, c00, c01, add)
	put16(c[ldc:], c10, c11, add)
	put16(c[2*ldc:], c20, c21, add)
	put16(c[3*ldc:], c30, c31, add)
}

// put16 stores 16 neighbours in c, or adds to them.
func put16(c []float64, x, y wide, add bool) {
	p, q := octet(c), octet(c[8:])
	if add {
		x, y = x.Add(archsimd.LoadFloat64x8(p)), y.Add(archsimd.LoadFloat64x8(q))
	}
	x.Store(p)
	y.Store(q)
}
