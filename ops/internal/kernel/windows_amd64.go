package kernel

import (
	"slices"

	"github.com/optool/optool/internal/num/blas"
)

// A convolution of floats is computed as products with windows: the input is copied once with its padding,
// strides apart in planes of their own, so that the elements which meet one position of the kernel at
// successive output positions follow each other. Between rows there are some that belong to no output
// position, whose sums are thrown away.

// A box is some output positions: n of them from lo on, by sample and dimension.
type box struct{ lo, n [4]int }

func (b *box) volume() int { return b.n[0] * b.n[1] * b.n[2] * b.n[3] }

// boxes are pieces of about so many output positions, whole rows, planes and samples if they can be. Positions
// of a sample follow each other.
type boxes struct {
	of     [4]int // output positions
	n      [4]int // of a piece
	pieces int
}

func (c *Conv) boxes(about int) boxes {
	b := boxes{of: [4]int{c.Batch, c.Out[0], c.Out[1], c.Out[2]}, n: [4]int{1, 1, 1, 1}, pieces: 1}
	for d := 3; d >= 0; d-- {
		b.n[d] = max(1, min(b.of[d], about))
		if about /= b.n[d]; b.n[d] < b.of[d] {
			break
		}
	}
	for d, n := range b.of {
		b.pieces *= ceilDiv(n, b.n[d])
	}
	return b
}

func (b *boxes) at(i int) (at box) {
	for d := 3; d >= 0; d-- {
		pieces := ceilDiv(b.of[d], b.n[d])
		at.lo[d] = i % pieces * b.n[d]
		at.n[d] = min(b.n[d], b.of[d]-at.lo[d])
		i /= pieces
	}
	return at
}

// A layout says where copies of the input lie that a box needs. Each channel has a plane for every residue of
// positions, modulo the stride, that the kernel meets.
type layout struct {
	c        *Conv
	n        [4]int
	size     [4]int // of a plane: samples and positions
	plane    int    // elements from one plane to the next
	residues [3][]int
	at       []int // where the window of each element of a patch starts
}

func (c *Conv) layout(n [4]int) *layout {
	l := &layout{c: c, n: n, size: n, plane: 1}
	for d := range 3 {
		l.size[d+1] += c.Dilation[d] * (c.Kernel[d] - 1) / c.Stride[d]
		for i := range min(c.Kernel[d], c.Stride[d]) {
			if r := i * c.Dilation[d] % c.Stride[d]; !slices.Contains(l.residues[d], r) {
				l.residues[d] = append(l.residues[d], r)
			}
		}
	}
	for _, s := range l.size {
		l.plane *= s
	}
	l.plane = (ceilDiv(l.plane, 8) | 1) * 8 // an odd number of lines, which a cache spreads over its sets
	l.at = make([]int, 0, c.Patch())
	for ch := range c.InC / c.Groups {
		c.eachTap(func(_ int, k [3]int) {
			plane, at := ch, 0
			for d := range 3 {
				i := k[d] * c.Dilation[d]
				plane = plane*len(l.residues[d]) + slices.Index(l.residues[d], i%c.Stride[d])
				at = at*l.size[d+1] + i/c.Stride[d]
			}
			l.at = append(l.at, plane*l.plane+at)
		})
	}
	return l
}

// channel is how many elements the copies of a channel have.
func (l *layout) channel() int {
	return len(l.residues[0]) * len(l.residues[1]) * len(l.residues[2]) * l.plane
}

// length is how many elements the copies have, for so many channels.
func (l *layout) length(channels int) int { return channels*l.channel() + blas.Beyond }

// span is how many elements the windows have, from the first output position to the last.
func (l *layout) span() int {
	n := 0
	for d := range l.n {
		n = n*l.size[d] + l.n[d] - 1
	}
	return n + 1
}

// copyChannel copies what b needs of channel ch of group g of x.
func (l *layout) copyChannel(b *box, g, ch int, x, to []float64) {
	c := l.c
	in := volume(c.In)
	to = to[ch*l.channel():]
	first := func(d, r int) int { return b.lo[d+1]*c.Stride[d] - c.Pad[d] + r }
	for _, rz := range l.residues[0] {
		for _, ry := range l.residues[1] {
			for _, rx := range l.residues[2] {
				row, s, x0 := to, c.Stride[2], first(2, rx)
				from := min(max(0, ceilDiv(-x0, s)), l.size[3])
				end := max(from, min(l.size[3], ceilDiv(c.In[2]-x0, s)))
				for n := range b.n[0] {
					src := x[((b.lo[0]+n)*c.InC+g*c.InC/c.Groups+ch)*in:][:in]
					for z := range l.size[1] {
						iz := first(0, rz) + z*c.Stride[0]
						for y := range l.size[2] {
							iy := first(1, ry) + y*c.Stride[1]
							line := row[:l.size[3]]
							row = row[l.size[3]:]
							if iz < 0 || iz >= c.In[0] || iy < 0 || iy >= c.In[1] || from == end {
								clear(line)
								continue
							}
							clear(line[:from])
							clear(line[end:])
							elems := src[(iz*c.In[1]+iy)*c.In[2]+x0+from*s:]
							if line = line[from:end]; s == 1 {
								copy(line, elems)
								continue
							}
							for i, at := 0, 0; i < len(line); i, at = i+1, at+s {
								line[i] = elems[at]
							}
						}
					}
				}
				to = to[l.plane:]
			}
		}
	}
}

// A lattice is where results lie: every step-th position of a plane of so many, from first on.
type lattice struct{ of, first, step [3]int }

// store copies rows [i0, i1) of channels of group g from sums, whose rows are ld apart, to y.
func (l *layout) store(b *box, g, i0, i1 int, sums []float64, ld int, y []float64, to *lattice) {
	c := l.c
	for i := i0; i < i1; i++ {
		row := sums[(i-i0)*ld:]
		for n := range b.n[0] {
			dst := y[((b.lo[0]+n)*c.OutC+g*c.OutC/c.Groups+i)*volume(to.of):][:volume(to.of)]
			for z := range b.n[1] {
				for py := range b.n[2] {
					from := row[((n*l.size[1]+z)*l.size[2]+py)*l.size[3]:][:b.n[3]]
					at := 0
					for d, p := range [3]int{b.lo[1] + z, b.lo[2] + py, b.lo[3]} {
						at = at*to.of[d] + to.first[d] + p*to.step[d]
					}
					if to.step[2] == 1 {
						copy(dst[at:], from)
						continue
					}
					for _, v := range from {
						dst[at] = v
						at += to.step[2]
					}
				}
			}
		}
	}
}

const (
	fewPositions  = 768 // of a box: what its windows and sums take stays in a cache
	someChannels  = 128 // of the result, that are computed at a time
	fewChannels   = 8   // for which tiles of weights are too wide
	wastedWindows = 3   // times as many elements in windows as output positions are not worth while
)

// windowed reports whether products with windows are worth while, of boxes of about so many positions.
func (c *Conv) windowed(about int) bool {
	if !blas.Windows() || c.Batch == 0 || volume(c.Out) == 0 || c.Patch() == 0 {
		return false
	}
	boxes := c.boxes(about)
	b := boxes.at(0)
	most := wastedWindows * b.volume()
	for d := range 3 { // apart by more already along one dimension, sizes may overflow
		if float64(c.Dilation[d])*float64(c.Kernel[d]-1)/float64(c.Stride[d]) > float64(most) {
			return false
		}
	}
	return c.layout(b.n).span() <= most
}

// forwardWindows computes Forward and reports true where that is worth while.
func (c *Conv) forwardWindows(crew Crew[float64], x, w, y []float64) bool {
	// Padding takes part in the products, but not in those of Direct ones.
	if !c.windowed(fewPositions) || c.Direct() && !allFinite(w) {
		return false
	}
	c.slide(crew, x, c.bank(w), y, &lattice{c.Out, [3]int{}, [3]int{1, 1, 1}})
	return true
}

// inputGradWindows computes InputGrad and reports true where that is worth while.
func (c *Conv) inputGradWindows(crew Crew[float64], dx, w, dy []float64) bool {
	a, _ := c.adjoint([3]int{})
	if volume(a.Kernel) == 0 || !a.windowed(fewPositions) || !allFinite(w) {
		return false
	}
	c.slideBack(crew, dx, w, dy)
	return true
}

// weightGradWindows computes WeightGrad and reports true where that is worth while.
func (c *Conv) weightGradWindows(crew Crew[float64], x, dw, dy []float64) bool {
	if c.OutC/c.Groups < fewChannels || c.Patch() < fewChannels || !c.windowed(fewPositions) {
		return false
	}
	crew(c.Groups, 0, func(g int, _ []float64) { c.gatherWeights(crew, g, x, dw, dy) })
	return true
}

// A bank is where the weights of a convolution lie: element l of the patch of channel i of a group at
// w[at[l]+i*stride], those of the next group so many elements on.
type bank struct {
	w             []float64
	at            []int
	stride, group int
}

func (c *Conv) bank(w []float64) *bank {
	b := &bank{w, make([]int, c.Patch()), c.Patch(), c.OutC / c.Groups * c.Patch()}
	for l := range b.at {
		b.at[l] = l
	}
	return b
}

// slide computes y, of which to says where it lies.
func (c *Conv) slide(crew Crew[float64], x []float64, w *bank, y []float64, to *lattice) {
	og := c.OutC / c.Groups
	size := blas.Left(og, c.Patch())
	crew(1, c.Groups*size, func(_ int, packed []float64) {
		crew(c.Groups, 0, func(g int, _ []float64) {
			blas.PackLeft(packed[g*size:], og, w.w[g*w.group:], w.at, w.stride)
		})
		c.slidePacked(crew, x, packed, y, to)
	})
}

func (c *Conv) slidePacked(crew Crew[float64], x, packed, y []float64, to *lattice) {
	og := c.OutC / c.Groups
	size := blas.Left(og, c.Patch())
	boxes := c.boxes(fewPositions)
	whole, some := c.layout(boxes.n), min(og, someChannels)
	copies, ld := whole.length(c.InC/c.Groups), whole.span()+blas.Beyond
	blocks := ceilDiv(og, some)
	crew(c.Groups*blocks*boxes.pieces, copies+(some+3)*ld, func(u int, s []float64) {
		b, l := boxes.at(u/blocks/c.Groups), whole
		if b.n != l.n {
			l = c.layout(b.n)
		}
		g, i0 := u/blocks%c.Groups, u%blocks*some
		for ch := range c.InC / c.Groups {
			l.copyChannel(&b, g, ch, x, s)
		}
		i1, sums := min(og, i0+some), s[copies:]
		blas.Slide(packed[g*size:], og, i0, i1, l.span(), s, l.at, sums, ld)
		l.store(&b, g, i0, i1, sums, ld, y, to)
	})
}

// adjoint is the convolution of the output's gradient that makes the gradient of those elements of the input
// that are residue modulo the stride, and taps, by dimension, are the positions of c's kernel that are those
// of its own; there may be none.
func (c *Conv) adjoint(residue [3]int) (a Conv, taps [3][]int) {
	a = Conv{Batch: c.Batch, Groups: c.Groups, InC: c.OutC, OutC: c.InC, In: c.Out, Stride: [3]int{1, 1, 1}}
	for d, r := range residue {
		s := c.Stride[d]
		a.Out[d] = ceilDiv(c.In[d]-r, s)
		for k := c.Kernel[d] - 1; k >= 0; k-- {
			if (r+c.Pad[d]-k*c.Dilation[d])%s == 0 {
				taps[d] = append(taps[d], k)
			}
		}
		a.Kernel[d], a.Dilation[d] = len(taps[d]), 1
		if len(taps[d]) == 0 {
			continue
		}
		a.Pad[d] = -(r + c.Pad[d] - taps[d][0]*c.Dilation[d]) / s
		if len(taps[d]) > 1 {
			a.Dilation[d] = (taps[d][0] - taps[d][1]) * c.Dilation[d] / s
		}
	}
	return a, taps
}

// slideBack computes the gradient dx of the input, which is zero before.
func (c *Conv) slideBack(crew Crew[float64], dx, w, dy []float64) {
	ig, og, kv := c.InC/c.Groups, c.OutC/c.Groups, volume(c.Kernel)
	var residues [3]int // that elements of the input have
	for d, s := range c.Stride {
		residues[d] = min(s, c.In[d])
	}
	for r := range volume(residues) {
		residue := [3]int{r / residues[2] / residues[1], r / residues[2] % residues[1], r % residues[2]}
		a, taps := c.adjoint(residue)
		if volume(a.Kernel) == 0 {
			continue
		}
		b := &bank{w: w, stride: kv, group: og * ig * kv}
		for o := range og {
			for _, z := range taps[0] {
				for _, y := range taps[1] {
					for _, x := range taps[2] {
						b.at = append(b.at, o*ig*kv+(z*c.Kernel[1]+y)*c.Kernel[2]+x)
					}
				}
			}
		}
		a.slide(crew, dy, b, dx, &lattice{c.In, residue, c.Stride})
	}
}

// gatherWeights stores in dw the gradient of the weights of group g.
func (c *Conv) gatherWeights(crew Crew[float64], g int, x, dw, dy []float64) {
	const rows = 32 // of a piece
	ig, og, patch, out := c.InC/c.Groups, c.OutC/c.Groups, c.Patch(), volume(c.Out)
	boxes := c.boxes(fewPositions)
	l := c.layout(boxes.n)
	whole := box{n: boxes.n}
	copies, right := l.length(ig), blas.Right(whole.volume(), og)
	ld := (ceilDiv(og, 8) | 1) * 8 // as layout's planes
	crew(1, copies+right+patch*ld, func(_ int, s []float64) {
		s, packed, sums := s[:copies], s[copies:copies+right], s[copies+right:]
		for i := range boxes.pieces {
			b := boxes.at(i)
			if b.n != l.n {
				l = c.layout(b.n)
			}
			at, each := l.positions(), b.n[1]*b.n[2]*b.n[3]
			first := (b.lo[1]*c.Out[1]+b.lo[2])*c.Out[2] + b.lo[3]
			steps := ceilDiv(len(at), blas.GatherStep)
			step := ceilDiv(len(at), steps)
			crew(ig+steps, 0, func(u int, _ []float64) {
				if u < ig {
					l.copyChannel(&b, g, u, x, s)
					return
				}
				lo := (u - ig) * step
				hi := min(lo+step, len(at))
				for p, n := lo, 0; p < hi; p += n {
					n = min(hi-p, each-p%each)
					y := dy[((b.lo[0]+p/each)*c.OutC+g*og)*out+first+p%each:]
					blas.PackRight(packed[blas.Right(lo, og):], hi-lo, og, p-lo, n, y, out)
				}
			})
			crew(ceilDiv(patch, rows), 0, func(u int, _ []float64) {
				windows, sums := l.at[u*rows:min(patch, (u+1)*rows)], sums[u*rows*ld:]
				for lo := 0; lo < len(at); lo += step {
					blas.Gather(s, windows, at[lo:min(lo+step, len(at))], packed[blas.Right(lo, og):], og, sums, ld,
						i+lo > 0)
				}
				if i < boxes.pieces-1 {
					return
				}
				for o := range og {
					to := dw[(g*og+o)*patch+u*rows:][:len(windows)]
					for j := range to {
						to[j] = sums[j*ld+o]
					}
				}
			})
		}
	})
}

// positions are those of the box, as distances within the windows.
func (l *layout) positions() []int {
	at := make([]int, 0, l.n[0]*l.n[1]*l.n[2]*l.n[3])
	for n := range l.n[0] {
		for z := range l.n[1] {
			for y := range l.n[2] {
				for x := range l.n[3] {
					at = append(at, ((n*l.size[1]+z)*l.size[2]+y)*l.size[3]+x)
				}
			}
		}
	}
	return at
}

// allFinite reports whether zeros beside the input add nothing.
func allFinite(w []float64) bool {
	for _, v := range w {
		if v-v != 0 {
			return false
		}
	}
	return true
}
