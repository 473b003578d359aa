package kernel

import (
	"math"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/internal/quota"
)

// A Cell is the kind of a recurrent network.
type Cell uint8

// Cells: h' = tanh(a), h' = max(a, 0), long short-term memory, gated recurrent
// unit.
const (
	TanhCell Cell = iota
	ReLUCell
	LSTMCell
	GRUCell
)

// Gates is the number of blocks of Hidden rows in the weights of the cell.
func (c Cell) Gates() int { return [...]int{1, 1, 4, 3}[c] }

// Recurrent is one direction of one layer of a recurrent network over packed
// sequences: the elements of step t are rows Batch[0]+..+Batch[t-1] onwards,
// Batch[t] of them, in descending order of length. Matrices are row-major.
type Recurrent struct {
	Cell       Cell
	In, Hidden int
	Out        int // length of h: Hidden, or that of the projection
	WIH, WHH   []float64
	BIH, BHH   []float64 // nil: none
	WHR        []float64 // (Out, Hidden), nil: no projection
	Batch      []int
	Reverse    bool
}

// A Recurrence is what a pass keeps for the backward pass, row by row.
type Recurrence struct {
	Y            []float64 // (rows, Out), the result
	hPrev, cPrev []float64
	gates        []float64 // after their activations
	extra        []float64 // LSTM: tanh(c'); GRU: what h adds to the new gate
	raw          []float64 // h' before the projection
}

// span is the rows of one step.
type span struct{ at, n int }

// steps lists the steps in the order they are taken.
func (r *Recurrent) steps() []span {
	s, at := make([]span, len(r.Batch)), 0
	for t, n := range r.Batch {
		s[t] = span{at, n}
		at += n
	}
	if r.Reverse {
		slices.Reverse(s)
	}
	return s
}

// Forward runs over x (rows, In), starting from the states h (sequences, Out) and, of an LSTM only, c (sequences,
// Hidden). These become the last states.
func (r *Recurrent) Forward(x, h, c []float64) *Recurrence {
	rows, width, hid, out := len(x)/max(r.In, 1), r.Cell.Gates()*r.Hidden, r.Hidden, r.Out
	if r.In == 0 {
		rows = 0
		for _, n := range r.Batch {
			rows += n
		}
	}
	k := &Recurrence{Y: quota.Make[float64](rows * out), hPrev: quota.Make[float64](rows * out),
		gates: quota.Make[float64](rows * width), raw: quota.Make[float64](rows * hid)}
	switch r.Cell {
	case LSTMCell:
		k.cPrev, k.extra = quota.Make[float64](rows*hid), quota.Make[float64](rows*hid)
	case GRUCell:
		k.extra = quota.Make[float64](rows * hid)
	}
	Gemm(Dense(rows, r.In, x), Dense(width, r.In, r.WIH).T(), 0, Dense(rows, width, k.gates))
	addRow(k.gates, r.BIH)
	for _, s := range r.steps() {
		n, a := s.n, s.at
		copy(k.hPrev[a*out:], h[:n*out])
		gh := quota.Make[float64](n * width)
		Gemm(Dense(n, out, h[:n*out]), Dense(width, out, r.WHH).T(), 0, Dense(n, width, gh))
		addRow(gh, r.BHH)
		for i := range n {
			row := a + i
			g, raw, own := k.gates[row*width:(row+1)*width], k.raw[row*hid:(row+1)*hid], gh[i*width:(i+1)*width]
			switch r.Cell {
			case LSTMCell:
				state := c[i*hid : (i+1)*hid]
				copy(k.cPrev[row*hid:], state)
				lstmForward(g, own, state, k.extra[row*hid:(row+1)*hid], raw)
			case GRUCell:
				gruForward(g, own, k.extra[row*hid:(row+1)*hid], h[i*out:(i+1)*out], raw)
			default:
				for j := range raw {
					v := g[j] + own[j]
					if r.Cell == TanhCell {
						v = math.Tanh(v)
					} else if v < 0 {
						v = 0
					}
					g[j], raw[j] = v, v
				}
			}
		}
		if r.WHR != nil {
			Gemm(Dense(n, hid, k.raw[a*hid:(a+n)*hid]), Dense(out, hid, r.WHR).T(), 0, Dense(n, out, h[:n*out]))
		} else {
			copy(h[:n*out], k.raw[a*hid:(a+n)*hid])
		}
		copy(k.Y[a*out:], h[:n*out])
	}
	return k
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// lstmForward: gates in the order input, forget, new, output.
func lstmForward(g, own, c, tanhC, h []float64) {
	n := len(h)
	for j := range n {
		i, f, o := logistic(g[j]+own[j]), logistic(g[n+j]+own[n+j]), logistic(g[3*n+j]+own[3*n+j])
		v := math.Tanh(g[2*n+j] + own[2*n+j])
		c[j] = f*c[j] + i*v
		tanhC[j] = math.Tanh(c[j])
		h[j] = o * tanhC[j]
		g[j], g[n+j], g[2*n+j], g[3*n+j] = i, f, v, o
	}
}

// gruForward: gates in the order reset, update, new.
func gruForward(g, own, fromH, hPrev, h []float64) {
	n := len(h)
	for j := range n {
		r, z := logistic(g[j]+own[j]), logistic(g[n+j]+own[n+j])
		v := math.Tanh(g[2*n+j] + r*own[2*n+j])
		fromH[j] = own[2*n+j]
		h[j] = (hPrev[j]-v)*z + v
		g[j], g[n+j], g[2*n+j] = r, z, v
	}
}

// RecurrentGrads are the gradients of the operands of a Recurrent. They are nil where there is no such operand. H and
// C, those of the first states, are nil except in sizes.
type RecurrentGrads struct{ X, WIH, WHH, BIH, BHH, WHR, H, C []float64 }

// Params are the gradients of weights and biases: W_ih, W_hh, b_ih, b_hh and W_hr.
func (g *RecurrentGrads) Params() [5][]float64 {
	return [5][]float64{g.WIH, g.WHH, g.BIH, g.BHH, g.WHR}
}

// Backward takes the gradients of Y and of the last states dh and dc, which become those of the first states. It fills
// size, unless that is nil, with the sums of the magnitudes of the terms of each gradient. Terms that cancel within one
// step count, too: the gradient of a gate near its limit is small, but it has the rounding of 1 and of the square that
// is subtracted.
func (r *Recurrent) Backward(k *Recurrence, x, dy, dh, dc []float64, size *RecurrentGrads) (g RecurrentGrads) {
	width, hid, out := r.Cell.Gates()*r.Hidden, r.Hidden, r.Out
	rows := len(k.gates) / max(width, 1)
	dgx := quota.Make[float64](rows * width)
	dgh := dgx
	if r.Cell == GRUCell {
		dgh = quota.Make[float64](rows * width)
	}
	var sx, sh []float64 // sizes of dgx and dgh
	if size != nil {
		sx = quota.Make[float64](rows * width)
		if sh = sx; r.Cell == GRUCell {
			sh = quota.Make[float64](rows * width)
		}
		size.H, size.C = make([]float64, len(dh)), make([]float64, len(dc))
	}
	if r.WHR != nil {
		g.WHR = make([]float64, len(r.WHR))
		if size != nil {
			size.WHR = make([]float64, len(r.WHR))
		}
	}
	steps := r.steps()
	slices.Reverse(steps)
	for _, s := range steps {
		n, a := s.n, s.at
		for i, v := range dy[a*out : (a+n)*out] {
			dh[i] += v
		}
		draw := dh[:n*out]
		if r.WHR != nil {
			raw := Dense(n, hid, k.raw[a*hid:(a+n)*hid])
			Gemm(Dense(n, out, draw).T(), raw, 1, Dense(out, hid, g.WHR))
			if size != nil {
				Gemm(Dense(n, out, magnitudes(draw)).T(), Dense(n, hid, magnitudes(k.raw[a*hid:(a+n)*hid])), 1,
					Dense(out, hid, size.WHR))
			}
			projected := quota.Make[float64](n * hid)
			Gemm(Dense(n, out, draw), Dense(out, hid, r.WHR), 0, Dense(n, hid, projected))
			draw = projected
		}
		direct := quota.Make[float64](n * out) // what h passes on without its weights
		for i := range n {
			row := a + i
			gates, d, up := k.gates[row*width:(row+1)*width], dgx[row*width:(row+1)*width], draw[i*hid:(i+1)*hid]
			if size != nil {
				r.sizes(k, row, up, dc[min(i*hid, len(dc)):], sx[row*width:(row+1)*width], sh[row*width:(row+1)*width],
					size.H[i*out:(i+1)*out], size.C[min(i*hid, len(dc)):])
			}
			switch r.Cell {
			case LSTMCell:
				lstmBackward(gates, k.extra[row*hid:], k.cPrev[row*hid:], up, dc[i*hid:(i+1)*hid], d)
			case GRUCell:
				gruBackward(gates, k.extra[row*hid:], k.hPrev[row*out:], up, d, dgh[row*width:(row+1)*width],
					direct[i*out:(i+1)*out])
			case TanhCell:
				for j, y := range gates {
					d[j] = up[j] * (1 - y*y)
				}
			case ReLUCell:
				for j, y := range gates {
					if y > 0 {
						d[j] = up[j]
					}
				}
			}
		}
		copy(dh, direct)
		if size != nil {
			Gemm(Dense(n, width, sh[a*width:(a+n)*width]), Dense(width, out, magnitudes(r.WHH)), 1,
				Dense(n, out, size.H[:n*out]))
		}
		Gemm(Dense(n, width, dgh[a*width:(a+n)*width]), Dense(width, out, r.WHH), 1, Dense(n, out, dh[:n*out]))
	}
	r.operands(&g, dgx, dgh, x, k.hPrev, r.WIH)
	if size != nil {
		r.operands(size, sx, sh, magnitudes(x), magnitudes(k.hPrev), magnitudes(r.WIH))
	}
	return g
}

// operands fills in the gradients of the operands of the gates.
func (r *Recurrent) operands(g *RecurrentGrads, dgx, dgh, x, hPrev, wih []float64) {
	width, out := r.Cell.Gates()*r.Hidden, r.Out
	rows := len(dgx) / max(width, 1)
	g.X, g.WIH, g.WHH = quota.Make[float64](rows*r.In), quota.Make[float64](width*r.In), quota.Make[float64](width*out)
	Gemm(Dense(rows, width, dgx), Dense(width, r.In, wih), 0, Dense(rows, r.In, g.X))
	Gemm(Dense(rows, width, dgx).T(), Dense(rows, r.In, x), 0, Dense(width, r.In, g.WIH))
	Gemm(Dense(rows, width, dgh).T(), Dense(rows, out, hPrev), 0, Dense(width, out, g.WHH))
	if r.BIH != nil {
		g.BIH, g.BHH = columnSums(dgx, width), columnSums(dgh, width)
	}
}

// sizes are the magnitudes of the terms of what a step's backward pass gives for one row: of the gates, x and h's
// side, and of the states without the weights of the cell.
func (r *Recurrent) sizes(k *Recurrence, row int, up, dc, x, h, state, cell []float64) {
	n := r.Hidden
	g := k.gates[row*r.Cell.Gates()*n:]
	for j, u := range up {
		u = math.Abs(u)
		switch r.Cell {
		case LSTMCell:
			whole := math.Abs(dc[j]) + u*g[3*n+j]
			x[j], x[n+j] = whole*math.Abs(g[2*n+j])*g[j], whole*math.Abs(k.cPrev[row*n+j])*g[n+j]
			x[2*n+j], x[3*n+j] = whole*g[j], u*math.Abs(k.extra[row*n+j])*g[3*n+j]
			cell[j] = whole * g[n+j]
		case GRUCell:
			x[2*n+j], h[2*n+j] = u, u*g[j]
			x[j] = u * math.Abs(k.extra[row*n+j]) * g[j]
			x[n+j] = u * (math.Abs(k.hPrev[row*n+j]) + math.Abs(g[2*n+j])) * g[n+j]
			h[j], h[n+j] = x[j], x[n+j]
			state[j] = u * g[n+j]
		default:
			x[j] = u
		}
	}
	if r.Cell != GRUCell {
		clear(state)
	}
}

func magnitudes(v []float64) []float64 {
	w := make([]float64, len(v))
	vmath.Abs(w, v)
	return w
}

func lstmBackward(g, tanhC, cPrev, up, dc, d []float64) {
	n := len(up)
	for j := range n {
		i, f, v, o, tc := g[j], g[n+j], g[2*n+j], g[3*n+j], tanhC[j]
		whole := dc[j] + up[j]*o*(1-tc*tc)
		d[j] = whole * v * i * (1 - i)
		d[n+j] = whole * cPrev[j] * f * (1 - f)
		d[2*n+j] = whole * i * (1 - v*v)
		d[3*n+j] = up[j] * tc * o * (1 - o)
		dc[j] = whole * f
	}
}

func gruBackward(g, fromH, hPrev, up, dx, dh, direct []float64) {
	n := len(up)
	for j := range n {
		r, z, v := g[j], g[n+j], g[2*n+j]
		inner := up[j] * (1 - z) * (1 - v*v)
		dx[2*n+j], dh[2*n+j] = inner, inner*r
		dx[j] = inner * fromH[j] * r * (1 - r)
		dx[n+j] = up[j] * (hPrev[j] - v) * z * (1 - z)
		dh[j], dh[n+j] = dx[j], dx[n+j]
		direct[j] = up[j] * z
	}
}

// Reach is the largest sum of the magnitudes of the terms of a gate.
func (r *Recurrent) Reach(k *Recurrence, x []float64) float64 {
	width := r.Cell.Gates() * r.Hidden
	rows := len(k.gates) / max(width, 1)
	s := quota.Make[float64](rows * width)
	Gemm(Dense(rows, r.In, magnitudes(x)), Dense(width, r.In, magnitudes(r.WIH)).T(), 0, Dense(rows, width, s))
	Gemm(Dense(rows, r.Out, magnitudes(k.hPrev)), Dense(width, r.Out, magnitudes(r.WHH)).T(), 1, Dense(rows, width, s))
	addRow(s, magnitudes(r.BIH))
	addRow(s, magnitudes(r.BHH))
	return slices.Max(append(s, 0))
}

// addRow adds b to every row of m, whose rows are as long; nothing if b is empty.
func addRow(m, b []float64) {
	if len(b) == 0 {
		return
	}
	for at := 0; at < len(m); at += len(b) {
		for j, v := range b {
			m[at+j] += v
		}
	}
}

func columnSums(m []float64, width int) []float64 {
	s := quota.Make[float64](width)
	for at := 0; at+width <= len(m) && width > 0; at += width {
		for j, v := range m[at : at+width] {
			s[j] += v
		}
	}
	return s
}
