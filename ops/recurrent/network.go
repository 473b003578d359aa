package recurrent

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A network is a call of a recurrent network, its sequences packed.
type network struct {
	cell                      kernel.Cell
	arg                       string // the argument that holds the sequences
	x                         *tensor.Tensor
	batch                     []int // sequences of each step
	hx                        []*tensor.Tensor
	params                    []*tensor.Tensor
	paramArgs                 []string // arguments of the parameters, nil: the list params
	biases                    bool
	layers                    int
	bidirectional, batchFirst bool
	dropout                   float64 // of what a layer gives to the next, 0 unless in training
	one                       bool    // one step of a cell, which returns the states alone
}

// sequence takes the sequences of equal length of the argument input.
func (n *network) sequence(x *tensor.Tensor) error {
	if x.Dim() != 3 {
		return opdef.Refuse("input", "want 3 dimensions, got %s", x.Meta())
	}
	n.x = x
	if n.batchFirst {
		n.x = x.Transpose(0, 1)
	}
	n.batch = slices.Repeat([]int{n.x.Shape[1]}, n.x.Shape[0])
	if len(n.batch) == 0 {
		return opdef.Refuse("input", "want sequences of at least one step, got %s", x.Meta())
	}
	return n.check()
}

// packed takes packed sequences.
func (n *network) packed(x, sizes *tensor.Tensor) error {
	if x.Dim() != 2 {
		return opdef.Refuse("data", "want 2 dimensions, got %s", x.Meta())
	}
	if sizes.DType != tensor.Int64 || sizes.Dim() != 1 || sizes.Numel() == 0 {
		return opdef.Refuse("batch_sizes", "want a vector of int64, got %s", sizes.Meta())
	}
	n.x = x
	total := int64(0)
	for i, b := range tensor.Data[int64](sizes) {
		if b <= 0 || i > 0 && int(b) > n.batch[i-1] || b > int64(x.Shape[0]) {
			return opdef.Refuse("batch_sizes",
				"want positive numbers in descending order that add up to %d, got %d at position %d", x.Shape[0], b, i)
		}
		n.batch = append(n.batch, int(b))
		total += b
	}
	if total != int64(x.Shape[0]) {
		return opdef.Refuse("batch_sizes", "sizes add up to %d, data has %d elements", total, x.Shape[0])
	}
	return n.check()
}

// single takes one step of a cell.
func (n *network) single(x, wih, whh, bih, bhh *tensor.Tensor) error {
	n.arg, n.one, n.layers, n.x = "input", true, 1, x
	if x.Dim() != 2 {
		return opdef.Refuse("input", "want 2 dimensions, got %s", x.Meta())
	}
	if (bih == nil) != (bhh == nil) {
		return opdef.Refuse("b_hh", "want both biases or none")
	}
	n.batch = []int{x.Shape[0]}
	n.params, n.paramArgs = []*tensor.Tensor{wih, whh}, []string{"w_ih", "w_hh"}
	if n.biases = bih != nil; n.biases {
		n.params, n.paramArgs = append(n.params, bih, bhh), append(n.paramArgs, "b_ih", "b_hh")
	}
	hx := slices.Clone(n.hx)
	for i, h := range hx {
		if h.Dim() != 2 {
			return opdef.Refuse("hx", "want 2 dimensions, got %s", h.Meta())
		}
		hx[i] = h.Unsqueeze(0)
	}
	n.hx = hx
	return n.check()
}

func (n *network) directions() int {
	if n.bidirectional {
		return 2
	}
	return 1
}

// perDirection is the number of parameters of one direction of a layer.
func (n *network) perDirection() int {
	k := 2
	if n.biases {
		k = 4
	}
	if n.projects() {
		k++
	}
	return k
}

func (n *network) projects() bool {
	return n.cell == kernel.LSTMCell && n.hx[0].Shape[2] != n.hx[1].Shape[2]
}

func (n *network) hidden() int { return n.hx[len(n.hx)-1].Shape[2] }

func (n *network) out() int { return n.hx[0].Shape[2] }

// paramArg names the argument of parameter i.
func (n *network) paramArg(i int) string {
	if n.paramArgs != nil {
		return n.paramArgs[i]
	}
	return "params"
}

// check refuses what torch refuses.
func (n *network) check() error {
	dt := n.x.DType
	if !dt.IsFloat() {
		return opdef.Refuse(n.arg, "want a floating dtype, got %s", dt)
	}
	if n.layers < 1 {
		return opdef.Refuse("num_layers", "want a positive number, got %d", n.layers)
	}
	states := 1
	if n.cell == kernel.LSTMCell {
		states = 2
	}
	if len(n.hx) != states {
		return opdef.Refuse("hx", "want %d states, got %d", states, len(n.hx))
	}
	for _, h := range n.hx {
		if h.Dim() != 3 || h.Shape[0] != n.layers*n.directions() || h.Shape[1] != n.batch[0] || h.DType != dt {
			return opdef.Refuse("hx", "want states %s[%d, %d, hidden], got %s", dt, n.layers*n.directions(),
				n.batch[0], h.Meta())
		}
	}
	per := n.perDirection()
	if len(n.params) != n.layers*n.directions()*per {
		return opdef.Refuse("params", "want %d tensors for %d layers of %d directions, got %d",
			n.layers*n.directions()*per, n.layers, n.directions(), len(n.params))
	}
	width := n.cell.Gates() * n.hidden()
	for i, p := range n.params {
		in := n.x.Shape[n.x.Dim()-1]
		if i/per >= n.directions() {
			in = n.out() * n.directions()
		}
		want := [][]int{{width, in}, {width, n.out()}, {width}, {width}, {n.out(), n.hidden()}}[n.role(i%per)]
		if !slices.Equal(p.Shape, want) || p.DType != dt {
			return opdef.Refuse(n.paramArg(i), "parameter %d: want %s%s, got %s", i, dt, tensor.ShapeString(want),
				p.Meta())
		}
	}
	return nil
}

// role says what parameter i of a direction is: W_ih, W_hh, b_ih, b_hh, W_hr.
func (n *network) role(i int) int {
	if i >= 2 && !n.biases {
		return 4
	}
	return i
}

// A pass is one direction of one layer that has run.
type pass struct {
	net kernel.Recurrent
	run *kernel.Recurrence
	x   []float64
}

// run computes the network: all passes in order, the elements of the last
// layer, the last states.
func (n *network) run() (passes []pass, y []float64, states [][]float64) {
	out, dirs, per := n.out(), n.directions(), n.perDirection()
	y = tensor.Data[float64](n.x)
	in := n.x.Shape[n.x.Dim()-1]
	for _, h := range n.hx {
		states = append(states, slices.Clone(tensor.Data[float64](h)))
	}
	rows := n.rows()
	for l := range n.layers {
		next := tensor.Make[float64](rows * out * dirs)
		for d := range dirs {
			k := l*dirs + d
			p := pass{x: y, net: kernel.Recurrent{Cell: n.cell, In: in, Hidden: n.hidden(), Out: out, Batch: n.batch,
				Reverse: d == 1}}
			for i, t := range n.params[k*per : (k+1)*per] {
				*[]*[]float64{&p.net.WIH, &p.net.WHH, &p.net.BIH, &p.net.BHH,
					&p.net.WHR}[n.role(i)] = tensor.Data[float64](t)
			}
			h, c := n.state(states, k)
			p.run = p.net.Forward(p.x, h, c)
			for row := range rows {
				copy(next[(row*dirs+d)*out:], p.run.Y[row*out:(row+1)*out])
			}
			passes = append(passes, p)
		}
		y, in = next, out*dirs
		if n.dropout == 1 && l+1 < n.layers {
			y = tensor.Make[float64](len(next))
		}
	}
	return passes, y, states
}

func (n *network) rows() int {
	rows := 0
	for _, b := range n.batch {
		rows += b
	}
	return rows
}

// state is the part of h and c that belongs to direction k of all.
func (n *network) state(states [][]float64, k int) (h, c []float64) {
	b := n.batch[0]
	h = states[0][k*b*n.out() : (k+1)*b*n.out()]
	if len(states) > 1 {
		c = states[1][k*b*n.hidden() : (k+1)*b*n.hidden()]
	}
	return h, c
}

// results are the tensors the call returns.
func (n *network) results() []*tensor.Tensor {
	_, y, states := n.run()
	dt := n.x.DType
	var outs []*tensor.Tensor
	if !n.one {
		outs = append(outs, n.laid(y, n.out()*n.directions()))
	}
	for i, s := range states {
		shape := n.hx[i].Shape
		if n.one {
			shape = shape[1:]
		}
		outs = append(outs, tensor.New(dt, shape, s))
	}
	return outs
}

// laid is the tensor of packed rows as the call holds sequences.
func (n *network) laid(rows []float64, width int) *tensor.Tensor {
	shape := append(slices.Clone(n.x.Shape[:n.x.Dim()-1]), width)
	t := tensor.New(n.x.DType, shape, rows)
	if n.batchFirst {
		return t.Transpose(0, 1)
	}
	return t
}

func (n *network) grads(g *opdef.Grad) opdef.Grads {
	gr, _ := n.backward(g, false)
	return gr
}

// sizes are the largest sums of the magnitudes of the terms of each gradient, one number for each.
func (n *network) sizes(g *opdef.Grad) map[string][]float64 {
	_, s := n.backward(g, true)
	return s
}

func (n *network) backward(g *opdef.Grad, sized bool) (opdef.Grads, map[string][]float64) {
	passes, y, _ := n.run()
	out, dirs, per := n.out(), n.directions(), n.perDirection()
	dy := make([]float64, len(y))
	up := g.Out
	if !n.one {
		if t := g.Out[0]; t != nil {
			if n.batchFirst {
				t = t.Transpose(0, 1)
			}
			copy(dy, tensor.Data[float64](t))
		}
		up = g.Out[1:]
	}
	states := make([][]float64, len(n.hx))
	for i, h := range n.hx {
		states[i] = tensor.Make[float64](h.Numel())
		if up[i] != nil {
			copy(states[i], tensor.Data[float64](up[i]))
		}
	}
	params := make([]*tensor.Tensor, len(n.params))
	var xSize float64
	hSize, paramSize := make([]float64, len(n.hx)), make([]float64, len(n.params))
	for l := n.layers - 1; l >= 0; l-- {
		var dx []float64
		for d := range dirs {
			k := l*dirs + d
			p := passes[k]
			own := tensor.Make[float64](n.rows() * out)
			for row := range n.rows() {
				copy(own[row*out:(row+1)*out], dy[(row*dirs+d)*out:])
			}
			dh, dc := n.state(states, k)
			var size *kernel.RecurrentGrads
			if sized {
				size = &kernel.RecurrentGrads{}
			}
			pg := p.net.Backward(p.run, p.x, own, dh, dc, size)
			for i := range per {
				params[k*per+i] = tensor.New(n.x.DType, n.params[k*per+i].Shape, pg.Params()[n.role(i)])
			}
			if sized {
				for i := range per {
					paramSize[k*per+i] = largest(size.Params()[n.role(i)])
				}
				for i := range hSize {
					hSize[i] = max(hSize[i], largest([][]float64{size.H, size.C}[i]))
				}
				if l == 0 {
					xSize += largest(size.X)
				}
			}
			if dx == nil {
				dx = pg.X
			} else {
				for i, v := range pg.X {
					dx[i] += v
				}
			}
		}
		if dy = dx; n.dropout == 1 && l > 0 {
			clear(dy)
		}
	}
	gr := opdef.Grads{n.arg: {n.laid(dy, n.x.Shape[n.x.Dim()-1])}}
	for i, s := range states {
		shape := n.hx[i].Shape
		if n.one {
			shape = shape[1:]
		}
		gr["hx"] = append(gr["hx"], tensor.New(n.x.DType, shape, s))
	}
	for i, t := range params {
		gr[n.paramArg(i)] = append(gr[n.paramArg(i)], t)
	}
	sizes := map[string][]float64{n.arg: {xSize}, "hx": hSize}
	for i, s := range paramSize {
		sizes[n.paramArg(i)] = append(sizes[n.paramArg(i)], s)
	}
	return gr, sizes
}

// largest is the largest of numbers that are not negative, 0 of none.
func largest(v []float64) float64 { return slices.Max(append(v, 0)) }

// reach is the largest sum of the magnitudes of the terms of a gate, in units
// that take into account that 16-bit devices round states and gates.
func (n *network) reach() float64 { return n.gateReach() * elements.HalfPrecisionFactor(n.x.DType) }

// gradReach is reach of gradients, relative to the magnitudes of their terms. In 16 bits torch rounds both products of
// a gate, their sum, the gate, 1 and what is taken from it, and each factor of the gradient. With r for what reaches
// the gate and u for half a unit in the last place, the argument of a gate is off by 2ru. This moves 1 - v*v by 1.54ru
// at most, and a factor that is another gate by 2ru. The other roundings are ten.
func (n *network) gradReach() float64 {
	r := n.gateReach()
	if !n.x.DType.IsReduced() {
		return r
	}
	return r + (1.77*r+5)*(elements.HalfPrecisionFactor(n.x.DType)-1)
}

func (n *network) gateReach() float64 {
	passes, _, _ := n.run()
	s := 1.0
	for _, p := range passes {
		s = max(s, p.net.Reach(p.run, p.x))
	}
	return s
}
