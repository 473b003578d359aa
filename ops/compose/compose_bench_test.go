package compose_test

import (
	"math/rand/v2"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// BenchmarkComposed runs composed operators of 2^21 float32 elements, block by
// block as a comparison asks for them.
func BenchmarkComposed(b *testing.B) {
	gen := opdef.Gen{R: rand.New(rand.NewPCG(1, 2))}
	x, y := gen.Normal(tensor.Float32, 2048, 1024).Rounded(), gen.Normal(tensor.Float32, 2048, 1024).Rounded()
	x.RequiresGrad, y.RequiresGrad = true, true
	for _, c := range []struct {
		op   string
		args []value.Value
	}{
		{"torch.nn.functional.cosine_similarity", []value.Value{x, y, int64(-1)}},
		{"torch.nn.functional.pairwise_distance", []value.Value{x, y}},
		{"torch.nn.functional.normalize", []value.Value{x, 2.0, int64(1)}},
		{"torch.nn.functional.local_response_norm", []value.Value{x.Reshape(32, 64, 1024), int64(5)}},
		{"torch.nn.functional.glu", []value.Value{x}},
		{"torch.nn.functional.multilabel_soft_margin_loss", []value.Value{x, tensor.Full(x.DType, x.Shape, 1.0)}},
	} {
		forward := func(b *testing.B) (*opdef.Call, *opdef.Forward) {
			call, err := ops.Default().Bind(c.op, c.args, nil)
			if err != nil {
				b.Fatal(err)
			}
			f, err := call.Forward()
			if err != nil {
				b.Fatal(err)
			}
			return call, f
		}
		b.Run(c.op+"/forward", func(b *testing.B) {
			b.SetBytes(x.Bytes())
			for b.Loop() {
				_, f := forward(b)
				opdef.MaxAbs(f.Outs[0])
			}
		})
		b.Run(c.op+"/backward", func(b *testing.B) {
			_, f := forward(b)
			up := []*tensor.Tensor{gen.Normal(tensor.Float32, f.Outs[0].Shape...)}
			b.SetBytes(x.Bytes())
			for b.Loop() {
				call, f := forward(b) // nothing is kept of the last pass
				grads, err := call.Backward(f, up, nil)
				if err != nil {
					b.Fatal(err)
				}
				for _, ts := range grads {
					for _, t := range ts {
						if t != nil {
							opdef.MaxAbs(t)
						}
					}
				}
			}
		})
	}
}
