package ops

import (
	"math/rand/v2"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

// recurrentOps are recurrent networks and their cells.
var recurrentOps = slices.Concat(
	[]*opdef.Entry{lstmOp, lstmPackedOp, lstmCellOp},
	recurrentOf("gru", kernel.GRUCell, gruDoc),
	recurrentOf("rnn_tanh", kernel.TanhCell, rnnDoc("tanh(a)")),
	recurrentOf("rnn_relu", kernel.ReLUCell, rnnDoc("max(a, 0)")),
)

var (
	lstmDoc = opdef.Doc{Summary: "Long short-term memory",
		Formula: "c' = sigmoid(f)*c + sigmoid(i)*tanh(g), h' = sigmoid(o)*tanh(c'), with i, f, g, o the parts of " +
			"W_ih x + b_ih + W_hh h + b_hh",
		Notes: recurrentNotes + " Weights W_hr project h'.", Source: "torch.nn.LSTM"}
	gruDoc = opdef.Doc{Summary: "Gated recurrent unit",
		Formula: "h' = (1-z)*n + z*h, with r and z the sigmoids of the parts of W_ih x + b_ih + W_hh h + b_hh and n " +
			"= tanh(W_in x + b_in + r*(W_hn h + b_hn))",
		Notes: recurrentNotes, Source: "torch.nn.GRU"}
)

const recurrentNotes = "input is (T, N, I), or (N, T, I) if batch_first; packed data is (elements, I) with the " +
	"number of sequences of each step. States are (layers*directions, N, H). Values of a network that drops out " +
	"between layers are not compared."

func rnnDoc(h string) opdef.Doc {
	return opdef.Doc{Summary: "Elman's recurrent network", Formula: "h' = " + h +
		", with a = W_ih x + b_ih + W_hh h + b_hh", Notes: recurrentNotes, Source: "torch.nn.RNN"}
}

type (
	lstmArgs struct {
		Input                            *tensor.Tensor
		Hx, Params                       []*tensor.Tensor
		HasBiases                        bool
		NumLayers                        int
		Dropout                          float64
		Train, Bidirectional, BatchFirst bool
	}
	lstmPackedArgs struct {
		Data, BatchSizes     *tensor.Tensor
		Hx, Params           []*tensor.Tensor
		HasBiases            bool
		NumLayers            int
		Dropout              float64
		Train, Bidirectional bool
	}
	lstmCellArgs struct {
		Input              *tensor.Tensor
		Hx                 []*tensor.Tensor
		WIh, WHh, BIh, BHh *tensor.Tensor
	}
	recurrentArgs struct {
		Input, Hx                        *tensor.Tensor
		Params                           []*tensor.Tensor
		HasBiases                        bool
		NumLayers                        int
		Dropout                          float64
		Train, Bidirectional, BatchFirst bool
	}
	recurrentPackedArgs struct {
		Data, BatchSizes, Hx *tensor.Tensor
		Params               []*tensor.Tensor
		HasBiases            bool
		NumLayers            int
		Dropout              float64
		Train, Bidirectional bool
	}
	recurrentCellArgs struct {
		Input, Hx, WIh, WHh, BIh, BHh *tensor.Tensor
	}
)

const (
	networkParams = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
	cellParams    = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"
)

var lstmOp = recurrentOp(opdef.Op[lstmArgs]{
	Schema: "lstm(Tensor input, Tensor[] hx, " + networkParams + ", bool batch_first) -> (Tensor, Tensor, Tensor)",
	Names:  "lstm", Doc: lstmDoc,
	Cases: func(r *rand.Rand) (cs []*lstmArgs) {
		networkCases(r, kernel.LSTMCell, func(c networkCase) {
			cs = append(cs, &lstmArgs{c.input, c.hx, c.params, c.biases, c.layers, 0, true, c.bidirectional,
				c.batchFirst})
		})
		return cs
	},
}, func(a *lstmArgs) (*network, error) {
	n := &network{cell: kernel.LSTMCell, arg: "input", hx: a.Hx, hxList: true, params: a.Params, biases: a.HasBiases,
		layers: a.NumLayers, bidirectional: a.Bidirectional, batchFirst: a.BatchFirst, drops: a.Train &&
			a.Dropout > 0 && a.NumLayers > 1}
	return n, n.sequence(a.Input)
})

var lstmPackedOp = recurrentOp(opdef.Op[lstmPackedArgs]{
	Schema: "lstm.packed(Tensor data, Tensor batch_sizes, Tensor[] hx, " + networkParams +
		") -> (Tensor, Tensor, Tensor)", Names: "lstm", Doc: lstmDoc,
	Cases: func(r *rand.Rand) (cs []*lstmPackedArgs) {
		packedCases(r, kernel.LSTMCell, func(c networkCase, sizes *tensor.Tensor) {
			cs = append(cs, &lstmPackedArgs{c.input, sizes, c.hx, c.params, c.biases, c.layers, 0, false,
				c.bidirectional})
		})
		return cs
	},
}, func(a *lstmPackedArgs) (*network, error) {
	n := &network{cell: kernel.LSTMCell, arg: "data", hx: a.Hx, hxList: true, params: a.Params, biases: a.HasBiases,
		layers: a.NumLayers, bidirectional: a.Bidirectional, drops: a.Train && a.Dropout > 0 && a.NumLayers > 1}
	return n, n.packed(a.Data, a.BatchSizes)
})

var lstmCellOp = recurrentOp(opdef.Op[lstmCellArgs]{
	Schema: "lstm_cell(Tensor input, Tensor[] hx, " + cellParams + ") -> (Tensor, Tensor)", Names: "lstm_cell",
	Doc: lstmDoc,
	Cases: func(r *rand.Rand) (cs []*lstmCellArgs) {
		cellCases(r, kernel.LSTMCell, func(x *tensor.Tensor, hx []*tensor.Tensor, w [4]*tensor.Tensor) {
			cs = append(cs, &lstmCellArgs{x, hx, w[0], w[1], w[2], w[3]})
		})
		return cs
	},
}, func(a *lstmCellArgs) (*network, error) {
	n := &network{cell: kernel.LSTMCell, hx: a.Hx, hxList: true}
	return n, n.single(a.Input, a.WIh, a.WHh, a.BIh, a.BHh)
})

// recurrentOf declares the three forms of a network whose state is one tensor.
func recurrentOf(name string, cell kernel.Cell, doc opdef.Doc) []*opdef.Entry {
	return []*opdef.Entry{
		recurrentOp(opdef.Op[recurrentArgs]{
			Schema: name + "(Tensor input, Tensor hx, " + networkParams + ", bool batch_first) -> (Tensor, Tensor)",
			Names:  name, Doc: doc,
			Cases: func(r *rand.Rand) (cs []*recurrentArgs) {
				networkCases(r, cell, func(c networkCase) {
					cs = append(cs, &recurrentArgs{c.input, c.hx[0], c.params, c.biases, c.layers, 0, true,
						c.bidirectional, c.batchFirst})
				})
				return cs
			},
		}, func(a *recurrentArgs) (*network, error) {
			n := &network{cell: cell, arg: "input", hx: []*tensor.Tensor{a.Hx}, params: a.Params, biases: a.HasBiases,
				layers: a.NumLayers, bidirectional: a.Bidirectional, batchFirst: a.BatchFirst, drops: a.Train &&
					a.Dropout > 0 && a.NumLayers > 1}
			return n, n.sequence(a.Input)
		}),
		recurrentOp(opdef.Op[recurrentPackedArgs]{
			Schema: name + ".packed(Tensor data, Tensor batch_sizes, Tensor hx, " + networkParams +
				") -> (Tensor, Tensor)", Names: name, Doc: doc,
			Cases: func(r *rand.Rand) (cs []*recurrentPackedArgs) {
				packedCases(r, cell, func(c networkCase, sizes *tensor.Tensor) {
					cs = append(cs, &recurrentPackedArgs{c.input, sizes, c.hx[0], c.params, c.biases, c.layers, 0,
						false, c.bidirectional})
				})
				return cs
			},
		}, func(a *recurrentPackedArgs) (*network, error) {
			n := &network{cell: cell, arg: "data", hx: []*tensor.Tensor{a.Hx}, params: a.Params, biases: a.HasBiases,
				layers: a.NumLayers, bidirectional: a.Bidirectional, drops: a.Train && a.Dropout > 0 && a.NumLayers > 1}
			return n, n.packed(a.Data, a.BatchSizes)
		}),
		recurrentOp(opdef.Op[recurrentCellArgs]{
			Schema: name + "_cell(Tensor input, Tensor hx, " + cellParams + ") -> Tensor", Names: name + "_cell",
			Doc: doc,
			Cases: func(r *rand.Rand) (cs []*recurrentCellArgs) {
				cellCases(r, cell, func(x *tensor.Tensor, hx []*tensor.Tensor, w [4]*tensor.Tensor) {
					cs = append(cs, &recurrentCellArgs{x, hx[0], w[0], w[1], w[2], w[3]})
				})
				return cs
			},
		}, func(a *recurrentCellArgs) (*network, error) {
			n := &network{cell: cell, hx: []*tensor.Tensor{a.Hx}}
			return n, n.single(a.Input, a.WIh, a.WHh, a.BIh, a.BHh)
		}),
	}
}

// A network is a call of a recurrent network, its sequences packed.
type network struct {
	cell                      kernel.Cell
	arg                       string // the argument that holds the sequences
	x                         *tensor.Tensor
	batch                     []int // sequences of each step
	hx                        []*tensor.Tensor
	hxList                    bool // hx is a list
	params                    []*tensor.Tensor
	paramArgs                 []string // arguments of the parameters, nil: the list params
	biases                    bool
	layers                    int
	bidirectional, batchFirst bool
	drops                     bool
	one                       bool // one step of a cell, which returns the states alone
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
func (n *network) out() int    { return n.hx[0].Shape[2] }

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
		next := make([]float64, rows*out*dirs)
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
		states[i] = make([]float64, h.Numel())
		if up[i] != nil {
			copy(states[i], tensor.Data[float64](up[i]))
		}
	}
	params := make([]*tensor.Tensor, len(n.params))
	for l := n.layers - 1; l >= 0; l-- {
		var dx []float64
		for d := range dirs {
			k := l*dirs + d
			p := passes[k]
			own := make([]float64, n.rows()*out)
			for row := range n.rows() {
				copy(own[row*out:(row+1)*out], dy[(row*dirs+d)*out:])
			}
			dh, dc := n.state(states, k)
			pg := p.net.Backward(p.run, p.x, own, dh, dc)
			for i := range per {
				v := [][]float64{pg.WIH, pg.WHH, pg.BIH, pg.BHH, pg.WHR}[n.role(i)]
				params[k*per+i] = tensor.New(n.x.DType, n.params[k*per+i].Shape, v)
			}
			if dx == nil {
				dx = pg.X
			} else {
				for i, v := range pg.X {
					dx[i] += v
				}
			}
		}
		dy = dx
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
	return gr
}

// reach is the largest sum of the magnitudes of the terms of a gate, in units
// that take into account that 16-bit devices round states and gates.
func (n *network) reach() float64 {
	passes, _, _ := n.run()
	s := 1.0
	for _, p := range passes {
		s = max(s, p.net.Reach(p.run, p.x))
	}
	return s * coarser(n.x.DType)
}

// recurrentOp completes the declaration of a network.
func recurrentOp[A any](o opdef.Op[A], call func(*A) (*network, error)) *opdef.Entry {
	o.Error = opdef.Error{Class: opdef.Normwise, ULPs: 4, Coarse: true, Grad: &opdef.Error{Class: opdef.Normwise,
		ULPs: 4, Coarse: true}}
	o.Autocast = opdef.AutocastLower
	o.RandomIf = func(a *A) string {
		if n, err := call(a); err == nil && n.drops {
			return "draws random numbers"
		}
		return ""
	}
	// In 16 bits the rounding of states and gates at each step outweighs that of sums.
	terms := func(sum func(n *network) int) func(a *A) int {
		return func(a *A) int {
			n, err := call(a)
			if err != nil {
				return 1
			}
			steps := len(n.batch) * n.layers
			return steps + longestSum(n.x.DType, sum(n)) - 1
		}
	}
	o.Terms = terms(func(n *network) int { return n.x.Shape[n.x.Dim()-1] + n.out() })
	o.GradTerms = terms(func(n *network) int { return n.rows() + n.cell.Gates()*n.hidden() })
	o.Kernel = func(a *A) ([]*tensor.Tensor, error) {
		n, err := call(a)
		if err != nil {
			return nil, err
		}
		return n.results(), nil
	}
	o.Grad = func(a *A, g *opdef.Grad) (opdef.Grads, error) {
		n, err := call(a)
		if err != nil {
			return nil, err
		}
		return n.grads(g), nil
	}
	scaled := func(t *tensor.Tensor, s float64) *tensor.Tensor {
		return tensor.Full(tensor.Float64, t.Shape, s*opdef.MaxAbs(t))
	}
	o.Scale = func(a *A, outs []*tensor.Tensor) []*tensor.Tensor {
		s := 1.0
		if n, err := call(a); err == nil {
			s = n.reach()
		}
		ts := make([]*tensor.Tensor, len(outs))
		for i, t := range outs {
			ts[i] = scaled(t, s)
		}
		return ts
	}
	o.GradScale = func(a *A, _ *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
		n, err := call(a)
		if err != nil {
			return nil, err
		}
		s, k := opdef.Grads{}, n.reach()
		for name, ts := range gr {
			for _, t := range ts {
				s[name] = append(s[name], scaled(t, k))
			}
		}
		return s, nil
	}
	return o.Entry()
}

// A networkCase is the arguments of a network.
type networkCase struct {
	input                     *tensor.Tensor
	hx, params                []*tensor.Tensor
	biases                    bool
	layers                    int
	bidirectional, batchFirst bool
}

// newNetwork draws states and parameters of a network for n sequences.
func newNetwork(g opdef.Gen, dt tensor.DType, cell kernel.Cell, n, in, hidden, out, layers, dirs int,
	biases bool) networkCase {
	c := networkCase{biases: biases, layers: layers, bidirectional: dirs == 2}
	draw := func(shape ...int) *tensor.Tensor { return g.Uniform(dt, -0.7, 0.7, shape...) }
	c.hx = []*tensor.Tensor{draw(layers*dirs, n, out)}
	if cell == kernel.LSTMCell {
		c.hx = append(c.hx, draw(layers*dirs, n, hidden))
	}
	width := cell.Gates() * hidden
	for range layers {
		for range dirs {
			c.params = append(c.params, draw(width, in), draw(width, out))
			if biases {
				c.params = append(c.params, draw(width), draw(width))
			}
			if out != hidden {
				c.params = append(c.params, draw(out, hidden))
			}
		}
		in = out * dirs
	}
	return c
}

func networkCases(r *rand.Rand, cell kernel.Cell, add func(networkCase)) {
	g := opdef.Gen{R: r}
	for i, dt := range []tensor.DType{tensor.Float64, tensor.Float64, tensor.Float32, tensor.BFloat16} {
		c := newNetwork(g, dt, cell, 2, 3, 4, 4, 1+i%2, 1+i%2, i != 2)
		if c.batchFirst = i == 1; c.batchFirst {
			c.input = g.Normal(dt, 2, 3, 3)
		} else {
			c.input = g.Normal(dt, 3, 2, 3)
		}
		add(c)
	}
	if cell == kernel.LSTMCell {
		c := newNetwork(g, tensor.Float64, cell, 2, 3, 4, 2, 2, 1, true)
		c.input = opdef.NonContiguous(g.Normal(tensor.Float64, 3, 2, 3))
		add(c)
	}
}

func packedCases(r *rand.Rand, cell kernel.Cell, add func(c networkCase, sizes *tensor.Tensor)) {
	g := opdef.Gen{R: r}
	for i, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
		c := newNetwork(g, dt, cell, 3, 3, 2, 2, 1+i, 2-i, true)
		c.input = g.Normal(dt, 6, 3)
		add(c, tensor.New(tensor.Int64, []int{3}, []int64{3, 2, 1}))
	}
}

func cellCases(r *rand.Rand, cell kernel.Cell, add func(x *tensor.Tensor, hx []*tensor.Tensor, w [4]*tensor.Tensor)) {
	g := opdef.Gen{R: r}
	for i, dt := range []tensor.DType{tensor.Float64, tensor.Float64, tensor.Float32, tensor.BFloat16} {
		c := newNetwork(g, dt, cell, 2, 3, 4, 4, 1, 1, i != 1)
		for k := range c.hx {
			c.hx[k] = g.Uniform(dt, -0.7, 0.7, 2, 4)
		}
		var w [4]*tensor.Tensor
		copy(w[:], c.params)
		add(g.Normal(dt, 2, 3), c.hx, w)
	}
}
