package indexing

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/runs"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// embeddingOps look rows of a table up.
var embeddingOps = []*opdef.Entry{
	opdef.Planned[*embeddingArgs, *embedding]{
		Schema: "embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float " +
			"norm_type=2.0, bool scale_grad_by_freq=False, ignored sparse=False) -> Tensor",
		Names:  "F.embedding",
		Traits: opdef.Traits{Lookup: "weight"},
		Doc: opdef.Doc{Summary: "Rows of a table by index", Formula: "out[i] = weight[input[i]]",
			Notes: "Rows whose norm exceeds max_norm are first scaled down, in weight itself. The row padding_idx " +
				"gets no gradient."},
		Error: opdef.Error{Class: opdef.Exact, Grad: embeddingGradError},
		Plan:  (*embeddingArgs).plan,
		Kernel: func(a *embedding) ([]*tensor.Tensor, error) {
			return elements.Single(a.of(a.table)), nil
		},
		Grad: func(a *embedding, g *opdef.Grad) (opdef.Grads, error) {
			return opdef.Grads{"weight": {a.grad(g.Out[0])}}, nil
		},
		Bounds: opdef.Bounds[*embedding]{GradTerms: func(a *embedding) int { return a.terms() }},
		Cases: opdef.Calls[embeddingArgs](`
			i64[2, 3]{0..4}, f32[5, 3]; i32[6]{0..4}, f64[5, 3]{fixed}, padding_idx=1
			i64[7]{0..4}, f64[5, 2]{fixed}, padding_idx=-1, scale_grad_by_freq=True; i64[]{0..4}, bf16[5, 2]
			i64[0]{0..4}, f32[5, 2]`),
	}.Entry(),
	opdef.Planned[*embeddingRowsArgs, *lookup]{
		Schema: "embedding.rows(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, " +
			"ignored sparse=False) -> Tensor",
		Names: "embedding",
		Doc: opdef.Doc{Summary: "Rows of a table by index", Formula: "out[i] = weight[indices[i]]",
			Notes: "A padding_idx of 0 or more names a row that gets no gradient."},
		Error: opdef.Error{Class: opdef.Exact, Grad: embeddingGradError},
		Plan:  (*embeddingRowsArgs).lookup,
		Kernel: func(l *lookup) ([]*tensor.Tensor, error) {
			return elements.Single(l.of(l.weight)), nil
		},
		Grad: func(l *lookup, g *opdef.Grad) (opdef.Grads, error) {
			return opdef.Grads{"weight": {l.grad(g.Out[0])}}, nil
		},
		Bounds: opdef.Bounds[*lookup]{GradTerms: (*lookup).terms},
		Cases: opdef.Calls[embeddingRowsArgs](`
			f32[5, 3], i64[2, 3]{0..4}; f64[5, 3]{fixed}, i64[6]{0..4}, padding_idx=2, scale_grad_by_freq=True`),
	}.Entry(),
	opdef.Op[oneHotArgs]{
		Schema: "one_hot(Tensor tensor, int num_classes=-1) -> Tensor",
		Names:  "F.one_hot _C._nn.one_hot",
		Doc: opdef.Doc{Summary: "1 at the index in a new last dimension, 0 elsewhere",
			Notes: "A num_classes of -1 is one more than the largest index."},
		Error:  elements.ExactError,
		Traits: opdef.Traits{NoGrad: "integers have no gradient"},
		Kernel: func(a *oneHotArgs) ([]*tensor.Tensor, error) {
			if a.Tensor.DType != tensor.Int64 {
				return nil, opdef.Refuse("tensor", "want int64, got %s", a.Tensor.DType)
			}
			n := a.NumClasses
			if n < -1 || n == 0 && a.Tensor.Numel() > 0 || n <= 0 && a.Tensor.Numel() == 0 {
				return nil, opdef.Refuse("num_classes", "%d classes for %d indices", n, a.Tensor.Numel())
			}
			if n == -1 {
				_ = EachInt(a.Tensor, func(_ int, v int64) bool {
					n = max(n, int(v)+1)
					return true
				})
			}
			if err := checkIndex("tensor", a.Tensor, 0, n); err != nil {
				return nil, err
			}
			index := a.Tensor
			return []*tensor.Tensor{opdef.Rows(tensor.Int64, append(slices.Clone(index.Shape), n), n,
				func(row int, dst []int64) {
					clear(dst)
					dst[tensor.At[int64](index, row)] = 1
				})}, nil
		},
		Cases: opdef.Calls[oneHotArgs](`
			i64[5]{0..3}, num_classes=4; i64[2, 3]{0..3}; i64[]{0..3}, num_classes=6; i64[0]{0..3}, num_classes=2`),
	}.Entry(),
	embeddingBagOp,
}

func (a *embedding) ErrorOf() opdef.Error {
	if a.MaxNorm != nil {
		return opdef.Error{Class: opdef.Elementwise, Grad: embeddingGradError}
	}
	return opdef.Error{Class: opdef.Exact, Grad: embeddingGradError}
}

func (a *embedding) After([]*tensor.Tensor) (map[string][]*tensor.Tensor, error) {
	if a.MaxNorm == nil {
		return nil, nil
	}
	return map[string][]*tensor.Tensor{"weight": {a.table}}, nil
}

func (a *embedding) GradChain(g *opdef.Grad) (opdef.Grads, error) {
	if a.byFreq || a.table.Numel() > largestChain {
		return nil, nil
	}
	return opdef.Grads{"weight": {a.partialSums(g.Out[0])}}, nil
}

func (a *embedding) Mistakes() []opdef.Mistake[any] {
	return a.mistakes(func(l *lookup) any {
		m := *a
		m.lookup = l
		return &m
	})
}

func (l *lookup) Mistakes() []opdef.Mistake[any] {
	return l.mistakes(func(l *lookup) any { return l })
}

// mistakes are those of adding gradients, each with a plan of the lookup that makes it.
func (l *lookup) mistakes(plan func(*lookup) any) []opdef.Mistake[any] {
	add := func(text string, with func(*lookup)) opdef.Mistake[any] {
		return opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			m := *l
			with(&m)
			return plan(&m), nil
		}}
	}
	all := []opdef.Mistake[any]{add(lostGradients, func(m *lookup) { m.lost = true })}
	kept := l.idx
	if l.padding >= 0 {
		kept = slices.DeleteFunc(slices.Clone(kept), func(row int64) bool { return row == int64(l.padding) })
	}
	for _, t := range lostTurns(runs.AtStarts(1, kept), "gradients of one row") {
		all = append(all, add(t.text, func(m *lookup) { m.lacks = t.lost }))
	}
	return all
}

var embeddingGradError = &opdef.Error{Class: opdef.Accumulated, ULPs: 2}

type (
	embeddingArgs struct {
		Input, Weight   *tensor.Tensor
		PaddingIdx      *int
		MaxNorm         *float64
		NormType        float64
		ScaleGradByFreq bool
	}
	embeddingRowsArgs struct {
		Weight, Indices *tensor.Tensor
		PaddingIdx      int
		ScaleGradByFreq bool
	}
	oneHotArgs struct {
		Tensor     *tensor.Tensor
		NumClasses int
	}
)

// A lookup is a table with the indices of the rows that are read.
type lookup struct {
	weight, index *tensor.Tensor
	idx           []int64
	padding       int // -1: none
	byFreq        bool
	lost          bool // a mistake: of several gradients of one row the last alone counts
	// lacks, if not nil, is a mistake: gradients of these turns at one row are lost.
	lacks func(turn int) bool
}

const lostGradients = "of several gradients of one row the last alone counts"

// terms is how many gradients at most are added to one row, and by how many they are divided.
func (l *lookup) terms() int { return runs.AtStarts(1, l.idx).Most(l.weight.Shape[0]) }

func newLookup(weight, index *tensor.Tensor, padding int, byFreq bool) (*lookup, error) {
	if weight.Dim() < 1 {
		return nil, opdef.Refuse("weight", "want a matrix, got %s", weight.Meta())
	}
	if err := checkIndex("input", index, 0, weight.Shape[0]); err != nil {
		return nil, err
	}
	return &lookup{weight: weight, index: index, idx: tensor.Data[int64](index), padding: padding, byFreq: byFreq}, nil
}

// An embedding is a lookup in a table whose rows may have been scaled down.
type embedding struct {
	*embeddingArgs
	*lookup
	table *tensor.Tensor
}

func (a *embeddingArgs) plan() (*embedding, error) {
	if a.Weight.Dim() != 2 {
		return nil, opdef.Refuse("weight", "want a matrix, got %s", a.Weight.Meta())
	}
	pad, err := paddingRow(a.PaddingIdx, a.Weight.Shape[0])
	if err != nil {
		return nil, err
	}
	l, err := newLookup(a.Weight, a.Input, pad, a.ScaleGradByFreq)
	if err != nil {
		return nil, err
	}
	table, err := l.renormed(a.MaxNorm, a.NormType)
	return &embedding{a, l, table}, err
}

// paddingRow resolves padding_idx; -1 means none.
func paddingRow(idx *int, n int) (int, error) {
	switch {
	case idx == nil:
		return -1, nil
	case *idx < -n || *idx >= n:
		return 0, opdef.Refuse("padding_idx", "row %d of %d", *idx, n)
	case *idx < 0:
		return *idx + n, nil
	}
	return *idx, nil
}

func (a *embeddingRowsArgs) lookup() (*lookup, error) {
	return newLookup(a.Weight, a.Indices, a.PaddingIdx, a.ScaleGradByFreq)
}

// of are the rows of a table of the weight's shape.
func (l *lookup) of(table *tensor.Tensor) *tensor.Tensor {
	return runs.Pick(table, append(slices.Clone(l.index.Shape), table.Shape[1:]...), l.rows())
}

func (l *lookup) rows() runs.Runs { return SlicesOf(l.weight.Shape, 0, l.idx) }

// largestChain is the number of elements of a table up to which partial sums are computed: they take 16 bytes each.
const largestChain = 1 << 27

// partialSums are what Planned.GradChain wants of grad: torch's CPU kernel adds row after row in the dtype.
func (l *lookup) partialSums(g *tensor.Tensor) *tensor.Tensor {
	inner := tensor.Numel(l.weight.Shape[1:])
	up, n := tensor.Data[float64](g), l.weight.Numel()
	sum, sums := tensor.Make[float64](n), tensor.Make[float64](n)
	for i, row := range l.idx {
		if row == int64(l.padding) && l.padding >= 0 {
			continue
		}
		for k, x := range up[i*inner : (i+1)*inner] {
			at := int(row)*inner + k
			sum[at] += x
			sums[at] += math.Abs(sum[at]) + math.Abs(x)
		}
	}
	return tensor.New(tensor.Float64, l.weight.Shape, sums)
}

// grad adds the rows of g to those of the table they were read from.
func (l *lookup) grad(g *tensor.Tensor) *tensor.Tensor {
	inner := tensor.Numel(l.weight.Shape[1:])
	g = g.Reshape(len(l.idx), inner)
	kept, from := l.idx, []int64(nil)
	if l.padding >= 0 {
		kept = nil
		for i, v := range l.idx {
			if v != int64(l.padding) {
				kept, from = append(kept, v), append(from, int64(i))
			}
		}
		g = runs.Pick(g, []int{len(kept), inner}, SlicesOf(g.Shape, 0, from))
	}
	if l.byFreq {
		count := map[int64]float64{}
		for _, v := range kept {
			count[v]++
		}
		n := make([]float64, len(kept))
		for i, v := range kept {
			n[i] = count[v]
		}
		freq := opdef.Must(tensor.New(tensor.Float64, []int{len(kept), 1}, n).Expand(len(kept), inner))
		g = opdef.Zip(g.DType, g, freq, func(x, n float64) float64 { return x / n })
	}
	at := SlicesOf(l.weight.Shape, 0, kept)
	if l.lost {
		return runs.Put(elements.Zeros(g.DType, l.weight.Shape), g, at, runs.Assign, true)
	}
	if l.lacks != nil {
		g = runs.Without(g, at, at.Turns(), l.lacks)
	}
	return runs.ScatterAdd(l.weight.Shape, g, at)
}

// renormed is the table with the rows that are read scaled down to max norm.
// Source: aten/src/ATen/native/Embedding.cpp, embedding_renorm_cpu_
func (l *lookup) renormed(maxNorm *float64, p float64) (*tensor.Tensor, error) {
	if maxNorm == nil {
		return l.weight, nil
	}
	if !l.weight.DType.IsFloat() {
		return nil, opdef.Refuse("max_norm", "not defined for dtype %s", l.weight.DType)
	}
	used := slices.Clone(l.idx)
	slices.Sort(used)
	used = slices.Compact(used)
	n := l.weight.Shape[1]
	rows := tensor.Make[float64](len(used) * n)
	for i, row := range used {
		v := rows[i*n : (i+1)*n]
		tensor.Load(l.weight, int(row)*n, v)
		if norm := l.weight.DType.Round(rowNorm(v, p)); norm > *maxNorm {
			for k := range v {
				v[k] *= *maxNorm / (norm + 1e-7)
			}
		}
		tensor.RoundBlock(l.weight.DType, v)
	}
	return runs.Put(l.weight, tensor.New(l.weight.DType, []int{len(used), n}, rows), SlicesOf(l.weight.Shape, 0, used),
		runs.Assign, true), nil
}

// rowNorm is the p-norm of v.
func rowNorm(v []float64, p float64) float64 {
	s := 0.0
	switch {
	case p == 2:
		for _, x := range v {
			s += x * x
		}
		return math.Sqrt(s)
	case math.IsInf(p, 1):
		for _, x := range v {
			s = max(s, math.Abs(x))
		}
		return s
	case p == 0:
		for _, x := range v {
			if x != 0 {
				s++
			}
		}
		return s
	}
	for _, x := range v {
		s += math.Pow(math.Abs(x), p)
	}
	return math.Pow(s, 1/p)
}
