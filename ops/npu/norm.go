package npu

import (
	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/compose"
	"github.com/optool/optool/ops/internal/fused"
	"github.com/optool/optool/tensor"
)

type rmsNormArgs struct {
	Self, Gamma *tensor.Tensor
	Epsilon     float64
}

// rstdNotes say what norms return beside the scaled tensor.
const rstdNotes = "rstd is float32, with dimensions of size 1 where the mean was taken."

// wideSecond is why the second result does not follow the dtype of the arguments.
var wideSecond = map[string]string{"dtypes": "the second result is float32 whatever the dtype"}

var rmsNorm = compose.Declare(compose.Op[rmsNormArgs]{
	Schema: "npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-6) -> (Tensor, Tensor)",
	Names:  names("npu_rms_norm"),
	Doc: opdef.Doc{Summary: "Scaling by the root mean square over the dimensions of gamma",
		Formula: "self * rstd * gamma and rstd = 1/sqrt(mean(self^2) + epsilon)",
		Notes:   rstdNotes},
	Exempt: wideSecond,
	Cases: func(g opdef.Gen) []*rmsNormArgs {
		return append(opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *rmsNormArgs {
			return &rmsNormArgs{g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-6}
		})(g), &rmsNormArgs{g.Normal(tensor.Float32, 2, 3, 4), g.Normal(tensor.Float32, 3, 4),
			1e-3})
	},
}, compose.Fused, func(g *compose.Graph, a *rmsNormArgs) compose.Values {
	x := g.Arg("self", a.Self)
	y, rstd := fused.RMSNorm(g, x, g.Arg("gamma", a.Gamma), a.Epsilon, 0)
	return compose.Values{g.To(y, x.DType()), rstd}
})

type addNormArgs struct {
	X1, X2, Gamma *tensor.Tensor
	Epsilon       float64
}

var addRMSNorm = compose.Declare(compose.Op[addNormArgs]{
	Schema: "npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-6) -> (Tensor, Tensor, Tensor)",
	Names:  names("npu_add_rms_norm"),
	Doc: opdef.Doc{Summary: "A sum, scaled by its root mean square over the dimensions of gamma",
		Formula: "x * rstd * gamma, rstd = 1/sqrt(mean(x^2) + epsilon) and x = x1 + x2",
		Notes:   rstdNotes + " Kernels may round the sum before they scale it."},
	Exempt: wideSecond,
	Cases: func(g opdef.Gen) []*addNormArgs {
		dt := tensor.Float32
		return append(opdef.PerDType(func(g opdef.Gen, dt tensor.DType) *addNormArgs {
			return &addNormArgs{g.Normal(dt, 3, 8), g.Normal(dt, 3, 8), g.Normal(dt, 8), 1e-6}
		})(g), &addNormArgs{g.Normal(dt, 2, 3, 4), g.Normal(dt, 2, 3, 4), g.Normal(dt, 3, 4), 1e-3})
	},
}, compose.Fused, func(g *compose.Graph, a *addNormArgs) compose.Values {
	x := g.Arg("x1", a.X1)
	sum := g.To(fused.Sum(g, "x2", x, g.Arg("x2", a.X2)), x.DType())
	y, rstd := fused.RMSNorm(g, sum, g.Arg("gamma", a.Gamma), a.Epsilon, 0)
	return compose.Values{g.To(y, x.DType()), rstd, sum}
})
