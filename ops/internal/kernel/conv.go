package kernel

import "github.com/optool/optool/internal/num/vmath"

// Conv is the geometry of a cross-correlation of up to three spatial
// dimensions (unused leading ones have size 1) over tensors in the layouts
// input (Batch, InC, In...), weight (OutC, InC/Groups, Kernel...) and output
// (Batch, OutC, Out...). Output position o and kernel position k meet at input
// position o*Stride - Pad + k*Dilation; outside [0, In) the input is zero.
type Conv struct {
	Batch, Groups, InC, OutC               int
	In, Out, Kernel, Stride, Dilation, Pad [3]int
}

func volume(d [3]int) int { return d[0] * d[1] * d[2] }

// Patch is the number of input elements that make one output element.
func (c *Conv) Patch() int { return c.InC / c.Groups * volume(c.Kernel) }

// Direct reports whether plain loops beat a matrix product: with one input
// channel a group the product has an inner size of a single kernel.
func (c *Conv) Direct() bool { return c.InC == c.Groups && c.OutC/c.Groups <= 4 }

// block is the number of output positions unfolded at a time: 2 MiB of
// float64, at least a row of blocks of a matrix product.
func (c *Conv) block() int {
	return max(1, min(volume(c.Out), max(256, 1<<18/max(c.Patch(), 1))))
}

// A Crew calls f for each of so many pieces of work, on all cores, with scratch of so many numbers. Which piece
// is computed where makes no difference.
type Crew[T Number] func(pieces, scratch int, f func(u int, s []T))

func asFloats[T Number](x []T) []float64 { return any(x).([]float64) }

// scratch is the number of elements of unfolded input that pieces of work need.
func (c *Conv) scratch() int {
	if c.Direct() {
		return 0
	}
	return c.Patch() * c.block()
}

// Forward computes the output y, without bias.
func Forward[T Number](c *Conv, crew Crew[T], x, w, y []T) {
	if f, ok := any(crew).(Crew[float64]); ok && c.forwardWindows(f, asFloats(x), asFloats(w), asFloats(y)) {
		return
	}
	p, block := volume(c.Out), c.block()
	if p == 0 {
		return
	}
	blocks := (p + block - 1) / block
	crew(c.Batch*c.Groups*blocks, c.scratch(), func(u int, s []T) {
		lo := u % blocks * block
		hi := min(lo+block, p)
		x, w, y := cut(c, u/blocks/c.Groups, u/blocks%c.Groups, x, w, y)
		if c.Direct() {
			forwardDirect(c, lo, hi, x, w, y)
			return
		}
		og, patch, cols := c.OutC/c.Groups, c.Patch(), hi-lo
		col := s[:patch*cols]
		unfold(c, lo, hi, x, col)
		Gemm(Dense(og, patch, w), Dense(patch, cols, col), 0, Matrix[T]{Rows: og, Cols: cols, Data: y[lo:], Stride: p})
	})
}

// InputGrad stores the gradient of the input in dx, which is zero before, from the gradient dy of the output.
func InputGrad[T Number](c *Conv, crew Crew[T], dx, w, dy []T) {
	if f, ok := any(crew).(Crew[float64]); ok && c.inputGradWindows(f, asFloats(dx), asFloats(w), asFloats(dy)) {
		return
	}
	p, block := volume(c.Out), c.block()
	crew(c.Batch*c.Groups, c.scratch(), func(u int, s []T) {
		dx, w, dy := cut(c, u/c.Groups, u%c.Groups, dx, w, dy)
		if c.Direct() {
			inputGradDirect(c, dx, w, dy)
			return
		}
		og, patch := c.OutC/c.Groups, c.Patch()
		for lo := 0; lo < p; lo += block {
			hi := min(lo+block, p)
			col := s[:patch*(hi-lo)]
			Gemm(Dense(og, patch, w).T(), Matrix[T]{Rows: og, Cols: hi - lo, Data: dy[lo:], Stride: p}, 0,
				Dense(patch, hi-lo, col))
			fold(c, lo, hi, dx, col)
		}
	})
}

// WeightGrad stores the gradient of the weights in dw, which is zero before.
func WeightGrad[T Number](c *Conv, crew Crew[T], x, dw, dy []T) {
	if f, ok := any(crew).(Crew[float64]); ok && c.weightGradWindows(f, asFloats(x), asFloats(dw), asFloats(dy)) {
		return
	}
	p, block := volume(c.Out), c.block()
	og, patch := c.OutC/c.Groups, c.Patch()
	crew(c.Groups, c.scratch(), func(g int, s []T) {
		for n := range c.Batch {
			xs, ws, ys := cut(c, n, g, x, dw, dy)
			if c.Direct() {
				weightGradDirect(c, xs, ws, ys)
				continue
			}
			for lo := 0; lo < p; lo += block {
				hi := min(lo+block, p)
				col := s[:patch*(hi-lo)]
				unfold(c, lo, hi, xs, col)
				Gemm(Matrix[T]{Rows: og, Cols: hi - lo, Data: ys[lo:], Stride: p}, Dense(patch, hi-lo, col).T(), 1,
					Dense(og, patch, ws))
			}
		}
	})
}

// cut gives sample n, group g of input-, weight- and output-shaped data.
func cut[T Number](c *Conv, n, g int, x, w, y []T) (xs, ws, ys []T) {
	ig, og := c.InC/c.Groups, c.OutC/c.Groups
	in, out := ig*volume(c.In), og*volume(c.Out)
	at := n*c.Groups + g
	return x[at*in : (at+1)*in], w[g*og*c.Patch() : (g+1)*og*c.Patch()], y[at*out : (at+1)*out]
}

// eachRun calls f for runs of output positions [lo, hi) that lie in one row
// and, at one kernel position, inside the input: n positions that start at
// index at of [lo, hi) in output row order and at element in of a channel of
// the input, Stride[2] apart.
func (c *Conv) eachRun(lo, hi int, k [3]int, f func(at, in, n int)) {
	width, height := c.Out[2], c.Out[1]
	shift := k[2]*c.Dilation[2] - c.Pad[2]
	// Positions [first, last) of a row meet the input.
	s := c.Stride[2]
	first := max(0, ceilDiv(-shift, s))
	last := min(width, ceilDiv(c.In[2]-shift, s))
	for p := lo; p < hi; {
		row, from := p/width, p%width
		to := min(width, from+hi-p)
		a, b := max(first, from), min(last, to)
		z, y := row/height, row%height
		iz := z*c.Stride[0] - c.Pad[0] + k[0]*c.Dilation[0]
		iy := y*c.Stride[1] - c.Pad[1] + k[1]*c.Dilation[1]
		if a < b && iz >= 0 && iz < c.In[0] && iy >= 0 && iy < c.In[1] {
			f(p-lo+a-from, (iz*c.In[1]+iy)*c.In[2]+a*s+shift, b-a)
		}
		p += to - from
	}
}

// A run is n output positions from at on, and where in a channel of the input
// they lie, Stride[2] apart.
type run struct{ at, in, n int }

// eachTapRuns calls f for every position of the kernel, with its index and its
// runs of output positions [lo, hi), which are the same for all channels. Runs
// that go on in the next row are one.
func (c *Conv) eachTapRuns(lo, hi int, f func(i int, runs []run)) {
	var runs []run
	c.eachTap(func(i int, k [3]int) {
		runs = runs[:0]
		c.eachRun(lo, hi, k, func(at, in, n int) {
			if l := len(runs) - 1; l >= 0 && runs[l].at+runs[l].n == at && runs[l].in+runs[l].n*c.Stride[2] == in {
				runs[l].n += n
				return
			}
			runs = append(runs, run{at, in, n})
		})
		f(i, runs)
	})
}

func ceilDiv(a, b int) int {
	if a <= 0 {
		return -(-a / b)
	}
	return (a + b - 1) / b
}

// eachTap calls f for every position of the kernel, with its index.
func (c *Conv) eachTap(f func(i int, k [3]int)) {
	i := 0
	for z := range c.Kernel[0] {
		for y := range c.Kernel[1] {
			for x := range c.Kernel[2] {
				f(i, [3]int{z, y, x})
				i++
			}
		}
	}
}

// Unfold stores in col the elements of one sample x that meet each kernel
// position (row) at each output position (column), channel by channel.
func Unfold[T Number](c *Conv, x, col []T) { unfold(c, 0, volume(c.Out), x, col) }

// Fold is the adjoint of Unfold: it adds col to the elements it came from.
func Fold[T Number](c *Conv, x, col []T) { fold(c, 0, volume(c.Out), x, col) }

// unfold stores in col the input elements that meet each kernel position (row)
// at output positions [lo, hi) (column), channel by channel.
func unfold[T Number](c *Conv, lo, hi int, x, col []T) {
	in, kv, s := volume(c.In), volume(c.Kernel), c.Stride[2]
	c.eachTapRuns(lo, hi, func(i int, runs []run) {
		covered := 0
		for _, r := range runs {
			covered += r.n
		}
		for ch := range c.InC / c.Groups {
			src, row := x[ch*in:(ch+1)*in], col[(ch*kv+i)*(hi-lo):][:hi-lo]
			if covered < hi-lo {
				clear(row)
			}
			for _, r := range runs {
				to := row[r.at : r.at+r.n]
				if s == 1 && r.n >= 8 {
					copy(to, src[r.in:r.in+r.n])
					continue
				}
				for j, at := 0, r.in; j < len(to); j, at = j+1, at+s {
					to[j] = src[at]
				}
			}
		}
	})
}

// fold is the adjoint of unfold: it adds col to the elements it came from.
func fold[T Number](c *Conv, lo, hi int, x, col []T) {
	in, kv, s := volume(c.In), volume(c.Kernel), c.Stride[2]
	c.eachTapRuns(lo, hi, func(i int, runs []run) {
		for ch := range c.InC / c.Groups {
			dst, row := x[ch*in:(ch+1)*in], col[(ch*kv+i)*(hi-lo):]
			for _, r := range runs {
				at := r.in
				for _, v := range row[r.at : r.at+r.n] {
					dst[at] += v
					at += s
				}
			}
		}
	})
}

// Piece is the convolution of sample and group u alone, u counting groups within samples, and where its weights
// begin and end.
func (c *Conv) Piece(u int) (one *Conv, lo, hi int) {
	p := *c
	p.Batch, p.Groups, p.InC, p.OutC = 1, 1, c.InC/c.Groups, c.OutC/c.Groups
	n := p.OutC * p.Patch()
	lo = u % c.Groups * n
	return &p, lo, lo + n
}

func forwardDirect[T Number](c *Conv, lo, hi int, x, w, y []T) {
	p, kv := volume(c.Out), volume(c.Kernel)
	for o := range c.OutC / c.Groups {
		dst := y[o*p+lo : o*p+hi]
		clear(dst)
		c.eachTap(func(i int, k [3]int) {
			v := w[o*kv+i]
			c.eachRun(lo, hi, k, func(at, from, n int) { axpy(n, v, x[from:], c.Stride[2], dst[at:], 1) })
		})
	}
}

func inputGradDirect[T Number](c *Conv, dx, w, dy []T) {
	p, kv := volume(c.Out), volume(c.Kernel)
	for o := range c.OutC / c.Groups {
		src := dy[o*p : (o+1)*p]
		c.eachTap(func(i int, k [3]int) {
			v := w[o*kv+i]
			c.eachRun(0, p, k, func(at, from, n int) { axpy(n, v, src[at:], 1, dx[from:], c.Stride[2]) })
		})
	}
}

func weightGradDirect[T Number](c *Conv, x, dw, dy []T) {
	p, kv := volume(c.Out), volume(c.Kernel)
	for o := range c.OutC / c.Groups {
		src := dy[o*p : (o+1)*p]
		c.eachTap(func(i int, k [3]int) {
			c.eachRun(0, p, k, func(at, from, n int) { dw[o*kv+i] += dot(n, src[at:], x[from:], c.Stride[2]) })
		})
	}
}

// axpy adds a*x to y, n elements that are ix and iy apart.
func axpy[T Number](n int, a T, x []T, ix int, y []T, iy int) {
	if xs, ok := any(x).([]float64); ok && n >= 8 && a != 0 {
		ys, f := any(y).([]float64), any(a).(float64)
		if ix == 1 && iy == 1 {
			vmath.Axpy(ys[:n], f, xs[:n])
		} else {
			floats.Daxpy(n, f, xs, ix, ys, iy)
		}
		return
	}
	for i, p, q := 0, 0, 0; i < n; i, p, q = i+1, p+ix, q+iy {
		y[q] += a * x[p]
	}
}

// dot is the inner product of x and y, whose elements are iy apart.
func dot[T Number](n int, x, y []T, iy int) (s T) {
	if xs, ok := any(x).([]float64); ok && n >= 8 {
		return any(floats.Ddot(n, xs, 1, any(y).([]float64), iy)).(T)
	}
	for i, q := 0, 0; i < n; i, q = i+1, q+iy {
		s += x[i] * y[q]
	}
	return s
}
