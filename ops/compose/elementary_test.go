package compose

import (
	"math"
	"testing"

	"github.com/optool/optool/ops/activation"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/pointwise"
	"github.com/optool/optool/ops/special"
)

// TestBlocksAgree: what a declaration says of single elements, which bounds ask for, is what it says of blocks, which
// results are made of.
func TestBlocksAgree(t *testing.T) {
	xs := []float64{0.01, 0.3, 0.999, 1, 2.5, 7, 40, -0.01, -0.3, -0.999, -2.5, -7, -40}
	for name, u := range map[string]opdef.Unary{
		"sqrt": pointwise.Sqrt, "exp": pointwise.Exp, "expm1": pointwise.Expm1, "log": pointwise.Log,
		"log1p": pointwise.Log1p, "sigmoid": pointwise.Sigmoid, "tanh": pointwise.Tanh, "erf": special.Erf,
		"silu": activation.SiLU, "gelu": activation.GELU, "gelu by tanh": activation.GELUTanh,
	} {
		ys, ds := make([]float64, len(xs)), make([]float64, len(xs))
		u.Block(ys, xs)
		if u.DBlock != nil {
			u.DBlock(ds, xs, ys)
		}
		for i, x := range xs {
			near := func(what string, block, single float64) {
				if d := math.Abs(block - single); d > 1e-12*math.Abs(single)+1e-18 {
					t.Errorf("%s: %s at %v is %v of a block, %v alone", name, what, x, block, single)
				}
			}
			near("the value", ys[i], u.F(x))
			if u.DBlock != nil {
				near("the derivative", ds[i], u.DF(x, ys[i]))
			}
		}
	}
}
