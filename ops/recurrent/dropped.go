package recurrent

import (
	"fmt"
	"math"

	"github.com/optool/optool/internal/num/roundoff"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// rate is the dropout of a network: it drops in training alone.
func rate(train bool, p float64) float64 {
	if !train {
		return 0
	}
	return p
}

// steps is the number of terms that errors grow with: of sums, and of all steps. In 16 bits the
// rounding of states and gates at each step outweighs that of sums.
func (n *network) steps(sum int) int {
	return len(n.batch)*n.layers + elements.ErrorTerms(n.x.DType, sum) - 1
}

// terms is steps of the results.
func (n *network) terms() int { return n.steps(n.x.Shape[n.x.Dim()-1] + n.out()) }

// Drawn judges the results of a network that drops elements of what each layer gives to the next,
// of which no trace is left: the states of the first layer do not depend on it, the last states
// are among the results, and gates keep results within limits.
func (n *network) Drawn(got []*tensor.Tensor) opdef.Drawn {
	for _, t := range append(append([]*tensor.Tensor{n.x}, n.hx...), n.params...) {
		if !elements.Finite(t) {
			return opdef.Drawn{}
		}
	}
	for i, t := range got {
		if !elements.Finite(t) {
			return opdef.Drawn{Wrong: fmt.Sprintf("result %d is not finite, as arguments and gates are", i)}
		}
	}
	for _, wrong := range []string{n.firstLayer(got[1:]), n.lastStates(got), n.beyond(got[0])} {
		if wrong != "" {
			return opdef.Drawn{Wrong: wrong}
		}
	}
	return opdef.Drawn{Checked: fmt.Sprintf("the states of the first layer, the last of each sequence, the range of %d "+
		"elements", got[0].Numel())}
}

// firstLayer compares the states of the first layer, which no dropout reaches.
func (n *network) firstLayer(states []*tensor.Tensor) string {
	dirs := n.directions()
	first := *n
	first.layers, first.params = 1, n.params[:dirs*n.perDirection()]
	first.hx = nil
	for _, h := range n.hx {
		first.hx = append(first.hx, h.Slice(0, 0, dirs, 1))
	}
	dt, u := n.x.DType, roundoff.U32
	if dt == tensor.Float64 {
		u = roundoff.U64
	}
	_, _, want := first.run()
	growth := roundoff.Growth(first.terms()) * u * first.reach()
	for i, t := range states {
		most := 0.0
		for _, w := range want[i] {
			most = math.Max(most, math.Abs(w))
		}
		for j, x := range tensor.Data[float64](t.Slice(0, 0, dirs, 1)) {
			if w := want[i][j]; !(math.Abs(x-w) <= 4*dt.ULP(most)+growth*most) {
				return fmt.Sprintf("the first layer's state %d, which no dropout reaches, is %.6g at element %d, want %.6g",
					i, x, j, w)
			}
		}
	}
	return ""
}

// lastStates compares the last result of each sequence with the state of the last layer.
func (n *network) lastStates(got []*tensor.Tensor) string {
	y, dirs, out := got[0], n.directions(), n.out()
	if n.batchFirst {
		y = y.Transpose(0, 1)
	}
	rows, states := tensor.Data[float64](y), tensor.Data[float64](got[1])
	at := make([][2]int, n.batch[0]) // of each sequence the rows of its last and first step
	row := 0
	for _, b := range n.batch {
		for j := range b {
			if at[j][0] = row + j; row == 0 {
				at[j][1] = j
			}
		}
		row += b
	}
	for d := range dirs {
		for j, ends := range at {
			for c := range out {
				have := rows[(ends[d]*dirs+d)*out+c]
				if s := states[(((n.layers-1)*dirs+d)*n.batch[0]+j)*out+c]; have != s {
					return fmt.Sprintf("element %d of the last result of sequence %d is %.6g, the last layer's state %.6g",
						c, j, have, s)
				}
			}
		}
	}
	return ""
}

// beyond says that a result lies beyond what the gates give. A GRU's is between its state and 1.
func (n *network) beyond(y *tensor.Tensor) string {
	low, high := -1.0, 1.0
	switch n.cell {
	case kernel.GRUCell:
		high = math.Max(1, opdef.MaxAbs(n.hx[0]))
		low = -high
	case kernel.ReLUCell:
		low, high = 0, math.Inf(1) // exactly
	case kernel.LSTMCell:
		if n.projects() {
			return ""
		}
	}
	slack := 4 * n.x.DType.Eps() * math.Min(high, -low) // of what is rounded on the way
	for i, x := range tensor.Data[float64](y) {
		if x < low-slack || x > high+slack {
			return fmt.Sprintf("element %d of the results is %.6g, want %g to %g", i, x, low, high)
		}
	}
	return ""
}
