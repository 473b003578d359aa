package ops

import (
	"math"
	"testing"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// list is a Python list of tensors.
func list(ts ...*tensor.Tensor) *value.Sequence {
	l := value.NewList()
	for _, t := range ts {
		l.Items = append(l.Items, t)
	}
	return l
}

func vec(shape []int, v ...float64) *tensor.Tensor { return tensor.New(tensor.Float64, shape, v) }

// runOp returns the results of a call.
func runOp(t *testing.T, name string, args ...value.Value) []*tensor.Tensor {
	t.Helper()
	c, err := Default().Bind(name, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Forward()
	if err != nil {
		t.Fatal(err)
	}
	return f.Outs
}

// TestCells compares cells of one unit with the formulas in their documentation.
func TestCells(t *testing.T) {
	s := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	x, h, c := vec([]int{1, 1}, 0.5), vec([]int{1, 1}, -0.25), vec([]int{1, 1}, 2)
	w := func(n int, first float64) *tensor.Tensor {
		v := make([]float64, n)
		for i := range v {
			v[i] = first + float64(i)/4
		}
		return vec([]int{n, 1}, v...)
	}
	b := func(n int, first float64) *tensor.Tensor { return w(n, first).Reshape(n) }
	gate := func(i int, wi, wh, bi, bh float64) float64 {
		k := float64(i) / 4
		return (wi+k)*0.5 + bi + k + (wh+k)*-0.25 + bh + k
	}
	near := func(what string, got *tensor.Tensor, want float64) {
		t.Helper()
		if d := math.Abs(got.Item() - want); !(d < 1e-15) {
			t.Errorf("%s = %v, want %v", what, got.Item(), want)
		}
	}
	a := gate(0, 1, -1, 0.5, 0.1)
	near("rnn_tanh_cell", runOp(t, "torch.rnn_tanh_cell", x, h, w(1, 1), w(1, -1), b(1, 0.5), b(1, 0.1))[0],
		math.Tanh(a))
	near("rnn_relu_cell", runOp(t, "torch.rnn_relu_cell", x, h, w(1, 1), w(1, -1), b(1, 0.5), b(1, 0.1))[0], max(a, 0))
	lstm := runOp(t, "torch.lstm_cell", x, list(h, c), w(4, 1), w(4, -1), b(4, 0.5), b(4, 0.1))
	next := s(gate(1, 1, -1, 0.5, 0.1))*2 + s(a)*math.Tanh(gate(2, 1, -1, 0.5, 0.1))
	near("c of lstm_cell", lstm[1], next)
	near("h of lstm_cell", lstm[0], s(gate(3, 1, -1, 0.5, 0.1))*math.Tanh(next))
	r, z := s(a), s(gate(1, 1, -1, 0.5, 0.1))
	n := math.Tanh(1.5*0.5 + 1 + r*(-0.5*-0.25+0.6))
	near("gru_cell", runOp(t, "torch.gru_cell", x, h, w(3, 1), w(3, -1), b(3, 0.5), b(3, 0.1))[0], (1-z)*n+z*-0.25)
}

// TestPackedSequences runs sequences of different length packed and one by
// one, in both directions.
func TestPackedSequences(t *testing.T) {
	params := func() []*tensor.Tensor {
		var ps []*tensor.Tensor
		for d := range 2 {
			k := float64(d + 1)
			ps = append(ps, vec([]int{2, 1}, 0.5*k, -0.25), vec([]int{2, 2}, 0.1, 0.7*k, -0.3, 0.2),
				vec([]int{2}, 0.1, 0), vec([]int{2}, 0, -0.2*k))
		}
		return ps
	}()
	h := func(n int) *tensor.Tensor { return tensor.Full(tensor.Float64, []int{2, n, 2}, 0.125) }
	// Sequences (1, 2, 3) and (4, 5).
	sizes := tensor.New(tensor.Int64, []int{3}, []int64{2, 2, 1})
	flags := []value.Value{true, int64(1), 0.0, false, true}
	packed := runOp(t, "torch.rnn_tanh", append([]value.Value{vec([]int{5, 1}, 1, 4, 2, 5, 3), sizes, h(2),
		list(params...)}, flags...)...)
	rows := [][]int{{0, 2, 4}, {1, 3}}
	for i, seq := range []*tensor.Tensor{vec([]int{3, 1, 1}, 1, 2, 3), vec([]int{2, 1, 1}, 4, 5)} {
		alone := runOp(t, "torch.rnn_tanh", append(append([]value.Value{seq, h(1), list(params...)}, flags...),
			false)...)
		for step, row := range rows[i] {
			for k := range 4 {
				got, want := tensor.At[float64](packed[0], row*4+k), tensor.At[float64](alone[0], step*4+k)
				if math.Abs(got-want) > 1e-15 {
					t.Errorf("sequence %d, step %d, unit %d: packed %v, alone %v", i, step, k, got, want)
				}
			}
		}
		for k := range 4 {
			d, unit := k/2, k%2
			if got, want := tensor.At[float64](packed[1], (d*2+i)*2+unit), tensor.At[float64](alone[1],
				d*2+unit); math.Abs(got-want) > 1e-15 {
				t.Errorf("sequence %d, last state %d: packed %v, alone %v", i, k, got, want)
			}
		}
	}
}
