package loss

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

type klDivArgs struct {
	Input, Target       *tensor.Tensor
	SizeAverage, Reduce *bool
	Reduction           string
	LogTarget           bool
}

type poissonArgs struct {
	Input, Target  *tensor.Tensor
	LogInput, Full bool
	SizeAverage    *bool
	Eps            float64
	Reduce         *bool
	Reduction      string
}

type gaussianArgs struct {
	Input, Target, Var *tensor.Tensor
	Full               bool
	Eps                float64
	Reduction          string
}

func klDiv(a *klDivArgs) (*elementLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	l := &elementLoss{operands: []*tensor.Tensor{a.Input, a.Target}, names: inputTarget, how: how, batch: 1}
	if a.Input.Dim() > 0 {
		l.batch = a.Input.Shape[0]
	}
	if a.LogTarget {
		l.f = func(v []float64) float64 { return math.Exp(v[1]) * (v[1] - v[0]) }
		l.df = func(v, d []float64) { e := math.Exp(v[1]); d[0], d[1] = -e, e*(v[1]-v[0]+1) }
		l.ds = func(v, d []float64) {
			e, x, t := math.Exp(v[1]), math.Abs(v[0]), math.Abs(v[1])
			d[0], d[1] = e*(1+t), e*(1+t)*(x+t+1)
		}
		// The node multiplies exp(target) and target - input.
		l.alone = func(l *elementLoss, up *tensor.Tensor) ([]*tensor.Tensor, error) {
			factors := *l
			factors.df = func(v, d []float64) { d[0], d[1] = math.Exp(v[1]), v[1]-v[0] }
			return factors.pair(up, 1, 0)
		}
		return l, err
	}
	l.f = func(v []float64) float64 {
		if v[1] == 0 {
			return -v[1] * v[0]
		}
		return v[1] * (math.Log(v[1]) - v[0])
	}
	l.df = func(v, d []float64) { d[0], d[1] = -v[1], math.Log(v[1])+1-v[0] }
	l.ds = func(v, d []float64) { d[0], d[1] = math.Abs(v[1]), math.Abs(math.Log(v[1]))+2+math.Abs(v[0]) }
	// The node subtracts target*input from target*log(target).
	l.alone = func(l *elementLoss, up *tensor.Tensor) ([]*tensor.Tensor, error) {
		parts := *l
		parts.df = func(_, d []float64) { d[0], d[1] = -1, 1 }
		return parts.pair(up, 1, 0)
	}
	return l, err
}

func poissonLoss(a *poissonArgs) (*elementLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	stirling := func(t float64) float64 {
		if !a.Full || t <= 1 {
			return 0
		}
		return t*math.Log(t) - t + 0.5*math.Log(2*math.Pi*t)
	}
	stirlingSlope := func(t float64) float64 {
		s := math.Log(t) + 0.5/t
		switch {
		case !a.Full:
			return 0
		case t <= 1: // masked after it was computed: nan unless t > 0
			return 0 * s
		}
		return s
	}
	l := &elementLoss{operands: []*tensor.Tensor{a.Input, a.Target}, names: inputTarget, how: how, ints: true}
	if a.LogInput {
		l.f = func(v []float64) float64 { return math.Exp(v[0]) - v[1]*v[0] + stirling(v[1]) }
		l.df = func(v, d []float64) { d[0], d[1] = math.Exp(v[0])-v[1], stirlingSlope(v[1])-v[0] }
		l.ds = func(v, d []float64) {
			d[0], d[1] = math.Exp(v[0])*(1+math.Abs(v[0]))+math.Abs(v[1]), stirlingSlope(v[1])+1+math.Abs(v[0])
		}
	} else {
		l.f = func(v []float64) float64 { return v[0] - v[1]*math.Log(v[0]+a.Eps) + stirling(v[1]) }
		l.df = func(v, d []float64) { d[0], d[1] = 1-v[1]/(v[0]+a.Eps), stirlingSlope(v[1])-math.Log(v[0]+a.Eps) }
		l.ds = func(v, d []float64) {
			d[0], d[1] = 1+2*math.Abs(v[1])/(v[0]+a.Eps), stirlingSlope(v[1])+2+math.Abs(math.Log(v[0]+a.Eps))
		}
	}
	// The node subtracts, or with full adds Stirling's term.
	l.alone = func(l *elementLoss, up *tensor.Tensor) ([]*tensor.Tensor, error) {
		parts := *l
		parts.df = func(_, d []float64) { d[0], d[1] = 1, -1 }
		if a.Full {
			parts.df = func(_, d []float64) { d[0], d[1] = 1, 1 }
		}
		first, err := parts.each(up, 0, parts.df, false)
		if err != nil || a.Full && !a.Target.RequiresGrad {
			return []*tensor.Tensor{first, nil}, err
		}
		second, err := parts.each(up, 1, parts.df, false)
		return []*tensor.Tensor{first, second}, err
	}
	return l, err
}

func gaussianLoss(a *gaussianArgs) (*elementLoss, error) {
	how, err := reductionOf(a.Reduction, nil, nil)
	if err != nil {
		return nil, err
	}
	v, size := a.Var, a.Input.Shape
	if n := len(size) - 1; !v.Wrapped && !slices.Equal(v.Shape, size) {
		switch {
		case n >= 0 && slices.Equal(v.Shape, size[:n]):
			v = v.Reshape(append(slices.Clone(v.Shape), 1)...)
		case n < 0 || v.Dim() != n+1 || v.Shape[n] != 1 || !slices.Equal(v.Shape[:n], size[:n]):
			return nil, opdef.Refuse("var", "shape %s fits no input of shape %s", tensor.ShapeString(v.Shape),
				tensor.ShapeString(size))
		}
	}
	if lo, _ := reduction.Extreme(v, nil, false, true); lo != nil && lo.Item() < 0 {
		return nil, opdef.Refuse("var", "has a negative element")
	}
	rest := 0.0
	if a.Full {
		rest = 0.5 * math.Log(2*math.Pi)
	}
	names := []string{"input", "target", "var"}
	if v.Wrapped {
		names[2] = ""
	}
	return &elementLoss{
		operands: []*tensor.Tensor{a.Input, a.Target, v}, given: []*tensor.Tensor{a.Input, a.Target, a.Var},
		names: names, how: how, through: func([]float64) float64 { return rest },
		f: func(v []float64) float64 {
			d, s := v[0]-v[1], max(v[2], a.Eps)
			return 0.5*(math.Log(s)+d*d/s) + rest
		},
		df: func(v, g []float64) {
			d, s := v[0]-v[1], max(v[2], a.Eps)
			g[0], g[1], g[2] = d/s, -d/s, 0.5*(1/s-d*d/(s*s))
		},
		ds: func(v, g []float64) {
			d, s := math.Abs(v[0])+math.Abs(v[1]), max(v[2], a.Eps)
			g[0], g[1], g[2] = 2*d/s, 2*d/s, 1/s+2*d*d/(s*s)
		},
		alone: func(l *elementLoss, up *tensor.Tensor) ([]*tensor.Tensor, error) {
			// The node multiplies by 1/2, or with full adds a number.
			half := *l
			half.df = func(_, g []float64) { g[0] = 0.5 + 0.5*kernel.Sign(rest) }
			t, err := half.each(up, 0, half.df, false)
			return []*tensor.Tensor{t, nil}, err
		},
	}, nil
}
