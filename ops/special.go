package ops

import (
	"math"

	"github.com/optool/optool/opdef"
)

// specialOps are the special functions of mathematics.
var specialOps = []*opdef.Entry{
	opdef.Unary{
		Name: "erf", Names: "erf special.erf Tensor.erf", InPlace: true, Error: smooth,
		Doc: opdef.Doc{Summary: "Error function", Formula: "2/sqrt(pi) * integral of exp(-t**2) from 0 to self", Source: "torch.erf"},
		F:   math.Erf,
		DF:  func(x, _ float64) float64 { return 2 / math.SqrtPi * math.Exp(-x*x) },
	}.Entry(),
	opdef.Unary{
		Name: "erfc", Names: "erfc special.erfc Tensor.erfc", InPlace: true, Error: smooth,
		Doc: opdef.Doc{Summary: "Complementary error function", Formula: "1 - erf(self)", Source: "torch.erfc"},
		F:   math.Erfc,
		DF:  func(x, _ float64) float64 { return -2 / math.SqrtPi * math.Exp(-x*x) },
	}.Entry(),
}
