package blas

import (
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// Sizes of blocks. A tile of c of tileM rows lives in registers; a panel of b is rowsK by the
// width of a tile (18 KiB with AVX2, 36 with AVX-512: level 1 cache), a block of a rowsM by rowsK
// (192 KiB, level 2). One task computes at most taskM by taskN elements of c.
const (
	tileM        = 4
	rowsK        = 192
	rowsM        = 128
	taskM, taskN = 512, 480 // whole tiles of each unit
	widest       = 3 * 8    // columns of the widest tile
)

// A tile multiplies k columns of a panel of tileM rows of a with k rows of a panel of b into
// elements of c, whose rows are ldc apart, or adds to them; k is at least 1.
type tile func(k int, a, b, c *float64, ldc int, add bool)

// A unit is a kind of vector instructions, of so many numbers. Its panels of b are three vectors
// wide, and so is the last of its tiles; the others are one and two.
type unit struct {
	lanes   int
	tiles   [3]tile
	slides  [3]slide
	line    slide // of a single row and four vectors
	gathers [3]gather
	// spread copies panels times width numbers, step apart where they go; at least one panel.
	spread func(panels int, from, to *float64, step int)
}

func (u *unit) width() int { return 3 * u.lanes }

var (
	avx2 = &unit{4, [3]tile{tile1, tile2, tile3}, [3]slide{slide1, slide2, slide3}, line,
		[3]gather{gather1, gather2, gather3}, spread}
	avx512 = &unit{8, [3]tile{tileWide1, tileWide2, tileWide3}, [3]slide{slideWide1, slideWide2, slideWide3},
		lineWide, [3]gather{gatherWide1, gatherWide2, gatherWide3}, spreadWide}
)

// vectors is what this processor has, nil where products are left to gonum.
var vectors = func() *unit {
	switch {
	case cpu.X86.HasAVX512F:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return nil
}()

//go:noescape
func spread(panels int, from, to *float64, step int)

//go:noescape
func spreadWide(panels int, from, to *float64, step int)

//go:noescape
func tile1(k int, a, b, c *float64, ldc int, add bool)

//go:noescape
func tile2(k int, a, b, c *float64, ldc int, add bool)

//go:noescape
func tile3(k int, a, b, c *float64, ldc int, add bool)

//go:noescape
func tileWide1(k int, a, b, c *float64, ldc int, add bool)

//go:noescape
func tileWide2(k int, a, b, c *float64, ldc int, add bool)

//go:noescape
func tileWide3(k int, a, b, c *float64, ldc int, add bool)

// panels are the packed operands of one task: panels of tileM rows of a and of as many columns
// of b as a tile has, k by k, zeros where the operand ends.
type panels struct {
	a [rowsM * rowsK]float64
	b [taskN * rowsK]float64
}

var pool = sync.Pool{New: func() any { return new(panels) }}

// parallelProduct is the number of multiplications from which a second core
// pays.
const parallelProduct = 1 << 19

// packed computes the product and reports true where the CPU can.
func (p *product) packed() bool {
	u := vectors
	if u == nil {
		return false
	}
	workers := 1
	if p.m*p.n*p.k >= parallelProduct {
		workers = runtime.GOMAXPROCS(0)
	}
	stepM, stepN := taskM, taskN
	// Smaller tasks, down to a block, so that every core has some.
	for workers > 1 && ceilDiv(p.m, stepM)*ceilDiv(p.n, stepN) < 2*workers && (stepM > rowsM/2 || stepN > taskN/4) {
		if stepM > rowsM/2 && (min(stepM, p.m) >= min(stepN, p.n) || stepN <= taskN/4) {
			stepM /= 2
		} else {
			stepN = ceilDiv(stepN/2, u.width()) * u.width()
		}
	}
	across := ceilDiv(p.n, stepN)
	tasks := ceilDiv(p.m, stepM) * across
	var next atomic.Int64
	work := func() {
		s := pool.Get().(*panels)
		for t := int(next.Add(1)) - 1; t < tasks; t = int(next.Add(1)) - 1 {
			i, j := t/across*stepM, t%across*stepN
			p.block(u, s, i, min(i+stepM, p.m), j, min(j+stepN, p.n))
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
func (p *product) block(u *unit, s *panels, i0, i1, j0, j1 int) {
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
		bt.pack(s.b[:], u.width(), j0, j1, l, k, 1)
		for i := i0; i < i1; i += rowsM {
			m := min(rowsM, i1-i)
			p.a.pack(s.a[:], tileM, i, i+m, l, k, p.alpha)
			for j := j0; j < j1; j += u.width() {
				b := s.b[(j-j0)*k:]
				for r := 0; r < m; r += tileM {
					p.tile(u, k, s.a[r*k:], b, i+r, min(tileM, m-r), j, min(u.width(), j1-j), add)
				}
			}
		}
		add = true
	}
}

// tile computes m by n elements of c at (i, j) from a panel of a and one of b, adding if add is
// set. The order of the sums is the same for all widths, so that no bit depends on the vector
// unit.
func (p *product) tile(u *unit, k int, a, b []float64, i, m, j, n int, add bool) {
	vectors := ceilDiv(n, u.lanes)
	compute := u.tiles[vectors-1]
	a, b = a[:k*tileM], b[:k*u.width()]
	if m == tileM && n == vectors*u.lanes {
		c := p.c[i*p.ldc+j:][:(tileM-1)*p.ldc+n]
		compute(k, &a[0], &b[0], &c[0], p.ldc, add)
		return
	}
	var t [tileM * widest]float64
	compute(k, &a[0], &b[0], &t[0], widest, false)
	for r := range m {
		c := p.c[(i+r)*p.ldc+j:][:n]
		if add {
			for q := range c {
				c[q] += t[r*widest+q]
			}
		} else {
			copy(c, t[r*widest:])
		}
	}
}

// pack stores rows [i0, i1) and columns [l, l+k) of x, times alpha, as panels of width rows,
// column by column, zeros where the last one ends; width is a multiple of 4.
func (x *matrix) pack(dst []float64, width, i0, i1, l, k int, alpha float64) {
	dst = dst[:ceilDiv(i1-i0, width)*width*k]
	if last := (i1 - i0) % width; last > 0 {
		clear(dst[len(dst)-width*k:])
	}
	if x.trans {
		x.packLines(dst, width, i0, i1, l, k)
	} else {
		x.packRows(dst, width, i0, i1, l, k)
	}
	if alpha != 1 {
		for q := range dst {
			dst[q] *= alpha
		}
	}
}

// packLines is pack of columns whose elements follow each other in memory: each is read once from
// end to end.
func (x *matrix) packLines(dst []float64, width, i0, i1, l, k int) {
	for q := range k {
		line, at := x.data[(l+q)*x.stride+i0:][:i1-i0], q*width
		if panels := len(line) / width; panels > 0 && width == vectors.width() {
			vectors.spread(panels, &line[0], &dst[at:][:(panels-1)*width*k+width][0], width*k)
			line, at = line[panels*width:], at+panels*width*k
		}
		for ; len(line) > 0; at += width * k {
			to := dst[at:][:min(width, len(line))]
			for j, v := range line[:len(to)] {
				to[j] = v
			}
			line = line[len(to):]
		}
	}
}

// packRows is pack of rows whose elements follow each other in memory.
func (x *matrix) packRows(dst []float64, width, i0, i1, l, k int) {
	for i := i0; i < i1; i += width {
		d, m, r := dst[(i-i0)*k:][:k*width], min(width, i1-i), 0
		for ; r+4 <= m; r += 4 {
			at := (i+r)*x.stride + l
			r0, r1 := x.data[at:][:k], x.data[at+x.stride:][:k]
			r2, r3 := x.data[at+2*x.stride:][:k], x.data[at+3*x.stride:][:k]
			for q, e := 0, d[r:]; q < k; q++ {
				f := (*[4]float64)(e)
				f[0], f[1], f[2], f[3] = r0[q], r1[q], r2[q], r3[q]
				if len(e) < width+4 {
					break
				}
				e = e[width:]
			}
		}
		for ; r < m; r++ {
			for q, v := range x.data[(i+r)*x.stride+l:][:k] {
				d[q*width+r] = v
			}
		}
	}
}
