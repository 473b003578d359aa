package loss

import (
	"math"
	"slices"

	"github.com/optool/optool/opdef"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/tensor"
)

type multiMarginArgs struct {
	Input, Target       *tensor.Tensor
	P, Margin           opdef.Scalar
	Weight              *tensor.Tensor
	SizeAverage, Reduce *bool
	Reduction           string
}

type multilabelMarginArgs struct {
	Input, Target       *tensor.Tensor
	SizeAverage, Reduce *bool
	Reduction           string
}

type multilabelSoftArgs struct {
	Input, Target, Weight *tensor.Tensor
	SizeAverage, Reduce   *bool
	Reduction             string
}

func (a *multiMarginArgs) loss() (*rowLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	if err != nil {
		return nil, err
	}
	x, classes := a.Input, elements.LastDim(a.Input.Shape)
	if err := elements.WantFloat("input", x); err != nil {
		return nil, err
	}
	p, margin := a.P.Int64(), a.Margin.Float64()
	if p != 1 && p != 2 {
		return nil, opdef.Refuse("p", "want 1 or 2, got %v", a.P)
	}
	rows := 1
	if x.Dim() == 2 {
		rows = x.Shape[0]
	}
	if x.Dim() > 2 || classes == 0 {
		return nil, opdef.Refuse("input", "want one or two dimensions of scores, got shape %s",
			tensor.ShapeString(x.Shape))
	}
	if a.Target.DType != tensor.Int64 || a.Target.Dim() > 1 || a.Target.Numel() != rows {
		return nil, opdef.Refuse("target", "want %d int64 class numbers, got %s", rows, a.Target.Meta())
	}
	weight := make([]float64, classes)
	for i := range weight {
		weight[i] = 1
	}
	if a.Weight != nil {
		if a.Weight.Numel() != classes || a.Weight.Dim() > 1 {
			return nil, opdef.Refuse("weight", "want %d elements, one per class, got shape %s", classes,
				tensor.ShapeString(a.Weight.Shape))
		}
		weight = tensor.Data[float64](a.Weight)
	}
	target := tensor.Data[int64](a.Target)
	for _, t := range target {
		if t < 0 || t >= int64(classes) {
			return nil, opdef.Refuse("target", "class %d is out of range [0, %d)", t, classes)
		}
	}
	lead := slices.Clone(a.Target.Shape)
	each := func(k int, row []float64, f func(j int, gap, w float64)) {
		t := target[k]
		for j, x := range row {
			if gap := margin - row[t] + x; int64(j) != t && gap > 0 {
				f(j, gap, weight[t]/float64(classes))
			}
		}
	}
	return &rowLoss{
		operands: elements.Single(x), names: []string{"input"}, how: how, own: true, lead: lead,
		f: func(k int, rows [][]float64) float64 {
			s := 0.0
			each(k, rows[0], func(_ int, gap, w float64) {
				if p == 2 {
					gap *= gap
				}
				s += w * gap
			})
			return s
		},
		scale: func(k int, rows [][]float64) float64 {
			row, s := rows[0], 0.0
			each(k, row, func(j int, gap, w float64) {
				m := math.Abs(margin) + math.Abs(row[target[k]]) + math.Abs(row[j])
				if p == 2 {
					m *= 2 * gap
				}
				s += math.Abs(w) * m
			})
			return s
		},
		df: func(k int, rows, d [][]float64) {
			each(k, rows[0], func(j int, gap, w float64) {
				if p == 2 {
					w *= 2 * gap
				}
				d[0][j] += w
				d[0][target[k]] -= w
			})
		},
	}, nil
}

func (a *multilabelMarginArgs) loss() (*rowLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	if err != nil {
		return nil, err
	}
	x, classes := a.Input, elements.LastDim(a.Input.Shape)
	if err := elements.WantFloat("input", x); err != nil {
		return nil, err
	}
	if x.Dim() > 2 || classes == 0 {
		return nil, opdef.Refuse("input", "want one or two dimensions of scores, got shape %s",
			tensor.ShapeString(x.Shape))
	}
	if a.Target.DType != tensor.Int64 || !slices.Equal(a.Target.Shape, x.Shape) {
		return nil, opdef.Refuse("target", "want int64 class numbers of shape %s, got %s", tensor.ShapeString(x.Shape),
			a.Target.Meta())
	}
	target := tensor.Data[int64](a.Target)
	for _, t := range target {
		if t < -1 || t >= int64(classes) {
			return nil, opdef.Refuse("target", "class %d is out of range [-1, %d)", t, classes)
		}
	}
	lead := []int{}
	if x.Dim() == 2 {
		lead = []int{x.Shape[0]}
	}
	each := func(k int, row []float64, f func(t, j int, gap float64)) {
		labels := target[k*classes : (k+1)*classes]
		if end := slices.Index(labels, -1); end >= 0 {
			labels = labels[:end]
		}
		for _, t := range labels {
			for j, x := range row {
				if gap := 1 - row[t] + x; gap > 0 && !slices.Contains(labels, int64(j)) {
					f(int(t), j, gap)
				}
			}
		}
	}
	return &rowLoss{
		operands: elements.Single(x), names: []string{"input"}, how: how, own: true, lead: lead,
		f: func(k int, rows [][]float64) float64 {
			s := 0.0
			each(k, rows[0], func(_, _ int, gap float64) { s += gap })
			return s / float64(classes)
		},
		scale: func(k int, rows [][]float64) float64 {
			row, s := rows[0], 0.0
			each(k, row, func(t, j int, _ float64) { s += 1 + math.Abs(row[t]) + math.Abs(row[j]) })
			return s / float64(classes)
		},
		df: func(k int, rows, d [][]float64) {
			each(k, rows[0], func(t, j int, _ float64) {
				d[0][t] -= 1 / float64(classes)
				d[0][j] += 1 / float64(classes)
			})
		},
	}, nil
}

func (a *multilabelSoftArgs) loss() (*rowLoss, error) {
	how, err := reductionOf(a.Reduction, a.SizeAverage, a.Reduce)
	if err != nil {
		return nil, err
	}
	if a.Input.Dim() == 0 {
		return nil, opdef.Refuse("input", "want at least one dimension")
	}
	operands, names := []*tensor.Tensor{a.Input, a.Target}, []string{"input", "target"}
	if a.Weight != nil {
		operands, names = append(operands, a.Weight), append(names, "")
	}
	shape, err := tensor.Broadcast(a.Input.Shape, a.Target.Shape)
	if err != nil {
		return nil, opdef.Refuse("target", "%v", err)
	}
	weight := func(rows [][]float64, i int) float64 {
		w := 1 / float64(len(rows[0]))
		if len(rows) > 2 {
			w *= rows[2][i]
		}
		return w
	}
	return &rowLoss{
		operands: operands, names: names, how: how, lead: shape[:len(shape)-1],
		f: func(_ int, rows [][]float64) float64 {
			s := 0.0
			for i, x := range rows[0] {
				t := rows[1][i]
				s += weight(rows, i) * (t*kernel.Softplus(-x) + (1-t)*kernel.Softplus(x))
			}
			return s
		},
		scale: func(_ int, rows [][]float64) float64 {
			s := 0.0
			for i, x := range rows[0] {
				t := math.Abs(rows[1][i])
				s += math.Abs(weight(rows, i)) * (1 + 2*t) * (1 + kernel.Softplus(math.Abs(x)) + math.Abs(x))
			}
			return s
		},
		df: func(_ int, rows, d [][]float64) {
			for i, x := range rows[0] {
				t, w := rows[1][i], weight(rows, i)
				d[0][i] = w * ((1-t)*sigmoidOf(x) - t*sigmoidOf(-x))
				d[1][i] = -w * x
			}
		},
		alone: func(l *rowLoss, up *tensor.Tensor) ([]*tensor.Tensor, string) {
			return []*tensor.Tensor{elements.Scaled(up, 1/float64(elements.LastDim(a.Input.Shape))), nil},
				"the incoming gradient scaled"
		},
	}, nil
}
