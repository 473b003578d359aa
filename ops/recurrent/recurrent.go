package recurrent

import (
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
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

var lstmOp = recurrentOp(opdef.Planned[*lstmArgs, *network]{
	Schema: "lstm(Tensor input, Tensor[] hx, " + networkParams + ", bool batch_first) -> (Tensor, Tensor, Tensor)",
	Names:  "lstm", Doc: lstmDoc,
	Cases: func(g opdef.Gen) (cs []*lstmArgs) {
		networkCases(g, kernel.LSTMCell, func(c networkCase) {
			cs = append(cs, &lstmArgs{c.input, c.hx, c.params, c.biases, c.layers, 0, true, c.bidirectional,
				c.batchFirst})
		})
		return cs
	},
	Plan: func(a *lstmArgs) (*network, error) {
		n := &network{cell: kernel.LSTMCell, arg: "input", hx: a.Hx, params: a.Params, biases: a.HasBiases,
			layers: a.NumLayers, bidirectional: a.Bidirectional, batchFirst: a.BatchFirst,
			dropout: rate(a.Train, a.Dropout)}
		return n, n.sequence(a.Input)
	},
})

var lstmPackedOp = recurrentOp(opdef.Planned[*lstmPackedArgs, *network]{
	Schema: "lstm.packed(Tensor data, Tensor batch_sizes, Tensor[] hx, " + networkParams +
		") -> (Tensor, Tensor, Tensor)", Names: "lstm", Doc: lstmDoc,
	Cases: opdef.Calls[lstmPackedArgs](`
		f64[6, 3], i64[3]{= 3 2 1}, [f64[2, 3, 2]{-0.7..0.7}, f64[2, 3, 2]{-0.7..0.7}], [f64[8, 3]{-0.7..0.7},
		f64[8, 2]{-0.7..0.7}, f64[8]{-0.7..0.7}, f64[8]{-0.7..0.7}, f64[8, 3]{-0.7..0.7}, f64[8, 2]{-0.7..0.7},
		f64[8]{-0.7..0.7}, f64[8]{-0.7..0.7}], True, 1, 0.0, False, True
		f32[6, 3], i64[3]{= 3 2 1}, [f32[2, 3, 2]{-0.7..0.7}, f32[2, 3, 2]{-0.7..0.7}], [f32[8, 3]{-0.7..0.7},
		f32[8, 2]{-0.7..0.7}, f32[8]{-0.7..0.7}, f32[8]{-0.7..0.7}, f32[8, 2]{-0.7..0.7}, f32[8, 2]{-0.7..0.7},
		f32[8]{-0.7..0.7}, f32[8]{-0.7..0.7}], True, 2, 0.0, False, False`),
	Plan: func(a *lstmPackedArgs) (*network, error) {
		n := &network{cell: kernel.LSTMCell, arg: "data", hx: a.Hx, params: a.Params, biases: a.HasBiases,
			layers: a.NumLayers, bidirectional: a.Bidirectional, dropout: rate(a.Train, a.Dropout)}
		return n, n.packed(a.Data, a.BatchSizes)
	},
})

var lstmCellOp = recurrentOp(opdef.Planned[*lstmCellArgs, *network]{
	Schema: "lstm_cell(Tensor input, Tensor[] hx, " + cellParams + ") -> (Tensor, Tensor)", Names: "lstm_cell",
	Doc: lstmDoc,
	Cases: opdef.Calls[lstmCellArgs](`
		f64[2, 3], [f64[2, 4]{-0.7..0.7}, f64[2, 4]{-0.7..0.7}], f64[16, 3]{-0.7..0.7}, f64[16, 4]{-0.7..0.7},
		b_ih=f64[16]{-0.7..0.7}, b_hh=f64[16]{-0.7..0.7}
		f64[2, 3], [f64[2, 4]{-0.7..0.7}, f64[2, 4]{-0.7..0.7}], f64[16, 3]{-0.7..0.7}, f64[16, 4]{-0.7..0.7}
		for T in f32 bf16: T[2, 3], [T[2, 4]{-0.7..0.7}, T[2, 4]{-0.7..0.7}], T[16, 3]{-0.7..0.7}, T[16,
		4]{-0.7..0.7}, b_ih=T[16]{-0.7..0.7}, b_hh=T[16]{-0.7..0.7}`),
	Plan: func(a *lstmCellArgs) (*network, error) {
		n := &network{cell: kernel.LSTMCell, hx: a.Hx}
		return n, n.single(a.Input, a.WIh, a.WHh, a.BIh, a.BHh)
	},
})

// recurrentOf declares the three forms of a network whose state is one tensor.
func recurrentOf(name string, cell kernel.Cell, doc opdef.Doc) []*opdef.Entry {
	return []*opdef.Entry{
		recurrentOp(opdef.Planned[*recurrentArgs, *network]{
			Schema: name + "(Tensor input, Tensor hx, " + networkParams + ", bool batch_first) -> (Tensor, Tensor)",
			Names:  name, Doc: doc,
			Cases: func(g opdef.Gen) (cs []*recurrentArgs) {
				networkCases(g, cell, func(c networkCase) {
					cs = append(cs, &recurrentArgs{c.input, c.hx[0], c.params, c.biases, c.layers, 0, true,
						c.bidirectional, c.batchFirst})
				})
				return cs
			},
			Plan: func(a *recurrentArgs) (*network, error) {
				n := &network{cell: cell, arg: "input", hx: []*tensor.Tensor{a.Hx}, params: a.Params,
					biases: a.HasBiases, layers: a.NumLayers, bidirectional: a.Bidirectional, batchFirst: a.BatchFirst,
					dropout: rate(a.Train, a.Dropout)}
				return n, n.sequence(a.Input)
			},
		}),
		recurrentOp(opdef.Planned[*recurrentPackedArgs, *network]{
			Schema: name + ".packed(Tensor data, Tensor batch_sizes, Tensor hx, " + networkParams +
				") -> (Tensor, Tensor)", Names: name, Doc: doc,
			Cases: func(g opdef.Gen) (cs []*recurrentPackedArgs) {
				packedCases(g, cell, func(c networkCase, sizes *tensor.Tensor) {
					cs = append(cs, &recurrentPackedArgs{c.input, sizes, c.hx[0], c.params, c.biases, c.layers, 0,
						false, c.bidirectional})
				})
				return cs
			},
			Plan: func(a *recurrentPackedArgs) (*network, error) {
				n := &network{cell: cell, arg: "data", hx: []*tensor.Tensor{a.Hx}, params: a.Params,
					biases: a.HasBiases, layers: a.NumLayers, bidirectional: a.Bidirectional,
					dropout: rate(a.Train, a.Dropout)}
				return n, n.packed(a.Data, a.BatchSizes)
			},
		}),
		recurrentOp(opdef.Planned[*recurrentCellArgs, *network]{
			Schema: name + "_cell(Tensor input, Tensor hx, " + cellParams + ") -> Tensor", Names: name + "_cell",
			Doc: doc,
			Cases: func(g opdef.Gen) (cs []*recurrentCellArgs) {
				cellCases(g, cell, func(x *tensor.Tensor, hx []*tensor.Tensor, w [4]*tensor.Tensor) {
					cs = append(cs, &recurrentCellArgs{x, hx[0], w[0], w[1], w[2], w[3]})
				})
				return cs
			},
			Plan: func(a *recurrentCellArgs) (*network, error) {
				n := &network{cell: cell, hx: []*tensor.Tensor{a.Hx}}
				return n, n.single(a.Input, a.WIh, a.WHh, a.BIh, a.BHh)
			},
		}),
	}
}

// recurrentOp completes the declaration of a network. It is no composition:
// running error analysis would add up the errors of all steps at worst, which grow
// without limit along sequences, where devices are exact to a few units of the
// largest element.
func recurrentOp[A any](o opdef.Planned[*A, *network]) *opdef.Entry {
	o.Error = opdef.Error{Class: opdef.Normwise, ULPs: 4, Coarse: true, Grad: &opdef.Error{Class: opdef.Normwise,
		ULPs: 4, Coarse: true}}
	o.Autocast, o.Composite = opdef.AutocastLower, true
	o.Terms = (*network).terms
	o.GradTerms = func(n *network) int { return n.steps(n.rows() + n.cell.Gates()*n.hidden()) }
	o.Kernel = func(n *network) ([]*tensor.Tensor, error) { return n.results(), nil }
	o.Grad = func(n *network, g *opdef.Grad) (opdef.Grads, error) { return n.grads(g), nil }
	full := func(t *tensor.Tensor, s float64) *tensor.Tensor { return tensor.Full(tensor.Float64, t.Shape, s) }
	o.Scale = func(n *network, outs []*tensor.Tensor) []*tensor.Tensor {
		s, k := make([]*tensor.Tensor, len(outs)), n.reach()
		for i, t := range outs {
			s[i] = full(t, k*opdef.MaxAbs(t))
		}
		return s
	}
	o.GradScale = func(n *network, g *opdef.Grad, gr opdef.Grads) (opdef.Grads, error) {
		s, k, sizes := opdef.Grads{}, n.gradReach(), n.sizes(g)
		for name, ts := range gr {
			for i, t := range ts {
				s[name] = append(s[name], full(t, k*sizes[name][i]))
			}
		}
		return s, nil
	}
	return o.Entry()
}

func (n *network) Random() string {
	if n.dropout > 0 && n.dropout < 1 && n.layers > 1 {
		return elements.DrawsRandomNumbers
	}
	return ""
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

func networkCases(g opdef.Gen, cell kernel.Cell, add func(networkCase)) {
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

func packedCases(g opdef.Gen, cell kernel.Cell, add func(c networkCase, sizes *tensor.Tensor)) {
	for i, dt := range []tensor.DType{tensor.Float64, tensor.Float32} {
		c := newNetwork(g, dt, cell, 3, 3, 2, 2, 1+i, 2-i, true)
		c.input = g.Normal(dt, 6, 3)
		add(c, tensor.New(tensor.Int64, []int{3}, []int64{3, 2, 1}))
	}
}

func cellCases(g opdef.Gen, cell kernel.Cell, add func(x *tensor.Tensor, hx []*tensor.Tensor, w [4]*tensor.Tensor)) {
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
