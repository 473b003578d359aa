package recurrent_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// run computes a network in training.
func run(t *testing.T, name string, x *tensor.Tensor, hx value.Value, params []value.Value, layers int,
	dropout float64) (*opdef.Call, []*tensor.Tensor) {
	t.Helper()
	c, err := ops.Default().Bind(name, []value.Value{x, hx, value.NewList(params...), false, int64(layers), dropout,
		true, false, false}, &value.Dict{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Forward()
	if err != nil {
		t.Fatal(err)
	}
	return c, f.Outs
}

// TestDropoutBetweenLayers judges networks of two layers, the second of which sees what is kept of
// the first's results.
func TestDropoutBetweenLayers(t *testing.T) {
	const steps, batch, in, hidden, p = 5, 2, 4, 4, 0.5
	for name, gates := range map[string]int{"torch.lstm": 4, "torch.gru": 3, "torch.rnn_tanh": 1, "torch.rnn_relu": 1} {
		r := rand.New(rand.NewPCG(8, 9))
		f32 := func(shape ...int) *tensor.Tensor {
			v := make([]float64, tensor.Numel(shape))
			for i := range v {
				v[i] = tensor.Float32.Round(r.Float64()*2 - 1)
			}
			return tensor.New(tensor.Float32, shape, v).Rounded()
		}
		states := func(ts ...*tensor.Tensor) value.Value {
			if len(ts) == 1 {
				return ts[0]
			}
			return value.NewList(ts[0], ts[1])
		}
		x, hx := f32(steps, batch, in), []*tensor.Tensor{f32(2, batch, hidden)}
		if name == "torch.lstm" {
			hx = append(hx, f32(2, batch, hidden))
		}
		params := []value.Value{f32(gates*hidden, in), f32(gates*hidden, hidden), f32(gates*hidden, hidden),
			f32(gates*hidden, hidden)}
		part := func(l int) (of []*tensor.Tensor) {
			for _, h := range hx {
				of = append(of, h.Slice(0, l, 1, 1))
			}
			return of
		}
		_, first := run(t, name, x, states(part(0)...), params[:2], 1, 0)
		masked := slices.Clone(tensor.Data[float64](first[0]))
		for i := range masked {
			masked[i] *= math.Floor(r.Float64()+1-p) / (1 - p)
		}
		between := tensor.New(tensor.Float32, first[0].Shape, masked).Rounded()
		_, second := run(t, name, between, states(part(1)...), params[2:], 1, 0)
		got := []*tensor.Tensor{second[0].Rounded()}
		for i := range hx {
			both := slices.Concat(tensor.Data[float64](first[i+1]), tensor.Data[float64](second[i+1]))
			got = append(got, tensor.New(tensor.Float32, []int{2, batch, hidden}, both).Rounded())
		}
		call, _ := run(t, name, x, states(hx...), params, 2, p)
		if call.Random() == "" {
			t.Fatalf("%s draws no random numbers", name)
		}
		changed := func(k, at int, v float64) []*tensor.Tensor {
			out := slices.Clone(got)
			data := slices.Clone(tensor.Data[float64](out[k]))
			data[at] = v
			out[k] = tensor.New(tensor.Float32, out[k].Shape, data).Rounded()
			return out
		}
		for _, tc := range []struct {
			name  string
			got   []*tensor.Tensor
			sound bool
		}{
			{"sound", got, true},
			{"first layer's state", changed(1, 3, 0.123), false},
			{"last layer's state", changed(1, batch*hidden+2, 0.123), false},
			{"last result", changed(0, (steps-1)*batch*hidden, 0.123), false},
			{"infinite", changed(0, 1, math.Inf(1)), false},
			{"beyond what gates give", changed(0, 1, -1.5), false},
		} {
			if d := call.Drawn(tc.got); (d.Wrong == "") != tc.sound || d.Wrong == "" && d.Checked == "" {
				t.Errorf("%s, %s: %+v", name, tc.name, d)
			}
		}
		// Of everything nothing is left: the second layer sees zeros.
		call, all := run(t, name, x, states(hx...), params, 2, 1)
		zeros := tensor.Full(tensor.Float32, first[0].Shape, 0.0)
		_, alone := run(t, name, zeros, states(part(1)...), params[2:], 1, 0)
		if call.Random() != "" || !slices.Equal(tensor.Data[float64](all[0]), tensor.Data[float64](alone[0])) {
			t.Errorf("%s with dropout 1: %v, want %v", name, tensor.Data[float64](all[0]),
				tensor.Data[float64](alone[0]))
		}
	}
}
