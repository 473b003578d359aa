package blas

// slide multiplies k columns of a panel of tileM rows of a with k rows of numbers; row l starts at
// x[at[l]]. It stores the products in c, whose rows are ldc apart, or adds them to it. k is at least 1.
type slide func(k int, a, x *float64, at *int, c *float64, ldc int, add bool)

// gather multiplies tileM rows of numbers, whose element (i, l) is x[rows[i]+at[l]], with k rows of a
// panel of b in the same way.
type gather func(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)

//go:noescape
func slide1(k int, a, x *float64, at *int, c *float64, ldc int, add bool)

//go:noescape
func slide2(k int, a, x *float64, at *int, c *float64, ldc int, add bool)

//go:noescape
func slide3(k int, a, x *float64, at *int, c *float64, ldc int, add bool)

//go:noescape
func slideWide1(k int, a, x *float64, at *int, c *float64, ldc int, add bool)

//go:noescape
func slideWide2(k int, a, x *float64, at *int, c *float64, ldc int, add bool)

//go:noescape
func slideWide3(k int, a, x *float64, at *int, c *float64, ldc int, add bool)

//go:noescape
func line(k int, a, x *float64, at *int, c *float64, ldc int, add bool)

//go:noescape
func lineWide(k int, a, x *float64, at *int, c *float64, ldc int, add bool)

//go:noescape
func gather1(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)

//go:noescape
func gather2(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)

//go:noescape
func gather3(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)

//go:noescape
func gatherWide1(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)

//go:noescape
func gatherWide2(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)

//go:noescape
func gatherWide3(k int, x *float64, rows, at *int, b, c *float64, ldc int, add bool)

// Windows reports whether this processor multiplies windows of numbers, as a convolution's are, where
// they lie: Slide and Gather.
func Windows() bool { return vectors != nil }

// Beyond is how many numbers Slide may look at behind the windows, and how much longer it makes rows.
const Beyond = lineVectors*8 - 1

// lineVectors is the number of vectors that are computed at a time in a row without neighbours.
const lineVectors = 4

// SlideStep are the rows of windows that one tile takes, but for the last.
func slideStep(k int) int { return ceilDiv(k, ceilDiv(k, rowsK)) }

// Left is the size of an m by k operand that is packed for Slide.
func Left(m, k int) int { return ceilDiv(m, tileM) * tileM * k }

// PackLeft packs the m by k operand whose element (i, l) is a[at[l]+i*stride].
func PackLeft(dst []float64, m int, a []float64, at []int, stride int) {
	k := len(at)
	for l, step := 0, slideStep(k); l < k; l += step {
		cols := at[l:min(l+step, k)]
		for i := 0; i < m; i += tileM {
			d := dst[Left(m, l)+i*len(cols):][:tileM*len(cols)]
			if i+tileM > m {
				clear(d)
				for q, from := range cols {
					for r := range m - i {
						d[q*tileM+r] = a[from+(i+r)*stride]
					}
				}
				continue
			}
			r0, r1, r2, r3 := a[i*stride:], a[(i+1)*stride:], a[(i+2)*stride:], a[(i+3)*stride:]
			for q, from := range cols {
				*(*[tileM]float64)(d[q*tileM:]) = [tileM]float64{r0[from], r1[from], r2[from], r3[from]}
			}
		}
	}
}

// Slide computes rows [i0, i1) of c, where i0 is a multiple of 4. c is the product of a packed operand of m rows
// and the windows x[at[l]:][:n], one window for each column of the operand. The row i0 of c is its first, rows are
// ldc apart, and there is room for rows up to a multiple of 4. Up to Beyond more elements of each row are computed,
// as of windows that go on.
func Slide(a []float64, m, i0, i1, n int, x []float64, at []int, c []float64, ldc int) {
	u, k := vectors, len(at)
	for l, step := 0, slideStep(k); l < k; l += step {
		d := min(step, k-l)
		tiles := i1
		if (i1-i0)%tileM == 1 {
			tiles--
			p, c := &a[Left(m, l)+tiles*d], c[(tiles-i0)*ldc:]
			for j, w := 0, lineVectors*u.lanes; j < n; j += w {
				u.line(d, p, &x[j], &at[l], &c[j:][:w][0], ldc, l > 0)
			}
		}
		for j := 0; j < n && tiles > i0; j += u.width() {
			v := min(len(u.tiles), ceilDiv(n-j, u.lanes))
			for i := i0; i < tiles; i += tileM {
				to := c[(i-i0)*ldc+j:][:(tileM-1)*ldc+v*u.lanes]
				u.slides[v-1](d, &a[Left(m, l)+i*d], &x[j], &at[l], &to[0], ldc, l > 0)
			}
		}
	}
}

// GatherStep is the most columns of windows that Gather takes.
const GatherStep = rowsK

// Right is the size of a k by n operand that is packed for Gather.
func Right(k, n int) int { return ceilDiv(n, vectors.width()) * vectors.width() * k }

// PackRight packs rows [l, l+k) of an operand of n columns, which has of rows in all. They are columns of
// b, stride apart.
func PackRight(dst []float64, of, n, l, k int, b []float64, stride int) {
	u := vectors
	x := matrix{b, stride, false}
	for j := 0; j < n; j += u.width() {
		w := min(n-j, u.width())
		d := dst[j*of+l*u.width():][:k*u.width()]
		x.pack(d, u.width(), j, j+w, 0, k, 1)
	}
}

// Gather computes the product of x[rows[i]+at[l]] and a packed operand of n columns. It adds the product to c if
// add is set, and stores it otherwise. Rows of c are ldc apart.
func Gather(x []float64, rows, at []int, b []float64, n int, c []float64, ldc int, add bool) {
	u, k := vectors, len(at)
	var t [tileM * widest]float64
	for j := 0; j < n; j += u.width() {
		w := min(n-j, u.width())
		v := ceilDiv(w, u.lanes)
		compute, p := u.gathers[v-1], &b[j*k]
		for i := 0; i < len(rows); i += tileM {
			if i+tileM <= len(rows) && w == v*u.lanes {
				to := c[i*ldc+j:][:(tileM-1)*ldc+w]
				compute(k, &x[0], &rows[i], &at[0], p, &to[0], ldc, add)
				continue
			}
			some, m := [tileM]int{}, min(tileM, len(rows)-i)
			copy(some[:], rows[i:])
			compute(k, &x[0], &some[0], &at[0], p, &t[0], widest, false)
			for r := range m {
				to := c[(i+r)*ldc+j:][:w]
				if !add {
					copy(to, t[r*widest:])
					continue
				}
				for q := range to {
					to[q] += t[r*widest+q]
				}
			}
		}
	}
}
