package linalg

import (
	"math"
	"slices"

	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A matrixCall is a checked call of an op on batches of matrices: what linear
// algebra ops have in common.
type matrixCall struct {
	args  []string // names of the tensor arguments
	ins   []*tensor.Tensor
	ranks []int // dimensions of each that are not batch: 2, or 1 for a vector, which becomes a column
	outs  []matrixOut
	run   algorithm
	// back maps inputs, results and gradients of the results (zeros where none
	// flowed) to the gradients of the inputs.
	back algorithm
	// cond tells that errors grow with the condition of the first input; amplify
	// is a further factor by which they do (0: 1).
	cond    bool
	amplify float64
	// gap gives, for one matrix of the first input, the smallest distance that
	// its gradient divides by, relative to the largest number; nil: none.
	gap   func(kernel.Mat[complex128]) float64
	drop  []int // results that are not asked for
	fixed int   // how many of the last inputs have no gradient
}

// A matrixOut is the dtype and the shape, without batch, of a result.
type matrixOut struct {
	dt    tensor.DType
	shape []int
}

// absent reports whether result k was not asked for: it is an empty tensor of
// one dimension, which takes no part in gradients.
func (m *matrixCall) absent(k int) bool { return slices.Contains(m.drop, k) }

// matrices are those of one element of the batch.
type matrices[T kernel.Field] = []kernel.Mat[T]

// A matrixFunc makes matrices of others.
type matrixFunc[T kernel.Field] = func(in matrices[T]) matrices[T]

// An algorithm works on one element of the batch, in real or complex numbers.
type algorithm struct {
	f matrixFunc[float64]
	c matrixFunc[complex128]
}

func (m *matrixCall) batch() ([]int, error) {
	shapes := make([][]int, len(m.ins))
	for i, t := range m.ins {
		shapes[i] = t.Shape[:t.Dim()-m.ranks[i]]
	}
	b, err := tensor.Broadcast(shapes...)
	if err != nil {
		return nil, opdef.Refuse("", "batch dimensions: %v", err)
	}
	return b, nil
}

func (m *matrixCall) forward() ([]*tensor.Tensor, error) {
	batch, err := m.batch()
	if err != nil {
		return nil, err
	}
	var outs []*tensor.Tensor
	if m.complex() {
		outs, err = eachMatrix(batch, m.ins, m.ranks, m.outs, m.run.c)
	} else {
		outs, err = eachMatrix(batch, m.ins, m.ranks, m.outs, m.run.f)
	}
	if err != nil {
		return nil, err
	}
	for _, k := range m.drop {
		outs[k] = tensor.Full(m.outs[k].dt, []int{0}, 0.0)
	}
	return outs, nil
}

func (m *matrixCall) complex() bool {
	return slices.ContainsFunc(m.ins, func(t *tensor.Tensor) bool { return t.DType.IsComplex() }) ||
		slices.ContainsFunc(m.outs, func(o matrixOut) bool { return o.dt.IsComplex() })
}

func (m *matrixCall) grads(g *opdef.Grad) (opdef.Grads, error) {
	batch, err := m.batch()
	if err != nil {
		return nil, err
	}
	ins, ranks := slices.Clone(m.ins), slices.Clone(m.ranks)
	for i, o := range m.outs {
		t := g.Outs[i]
		if m.absent(i) {
			t = tensor.Full(o.dt, slices.Concat(batch, o.shape), 0.0)
		}
		ins, ranks = append(ins, t), append(ranks, len(o.shape))
	}
	for i, o := range m.outs {
		t := g.Out[i]
		if t == nil || m.absent(i) {
			t = tensor.Full(o.dt, slices.Concat(batch, o.shape), 0.0)
		}
		ins, ranks = append(ins, t), append(ranks, len(o.shape))
	}
	var outs []matrixOut
	for i, t := range m.ins[:len(m.ins)-m.fixed] {
		outs = append(outs, matrixOut{t.DType, t.Shape[t.Dim()-m.ranks[i]:]})
	}
	var ts []*tensor.Tensor
	if m.complex() {
		ts, err = eachMatrix(batch, ins, ranks, outs, m.back.c)
	} else {
		ts, err = eachMatrix(batch, ins, ranks, outs, m.back.f)
	}
	if err != nil {
		return nil, err
	}
	gr := opdef.Grads{}
	for i, arg := range m.args {
		gr[arg] = append(gr[arg], opdef.SumTo(ts[i], m.ins[i].Shape))
	}
	return gr, nil
}

// eachMatrix runs f on every element of the batch; f may give more results than
// outs asks for. An iteration that does not converge is an error.
func eachMatrix[T kernel.Field](batch []int, ins []*tensor.Tensor, ranks []int, outs []matrixOut,
	f matrixFunc[T]) (ts []*tensor.Tensor, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *kernel.ConvergenceError:
			ts, err = nil, e
		default:
			panic(e)
		}
	}()
	data := make([][]T, len(ins))
	dims := make([][2]int, len(ins))
	for i, t := range ins {
		core := t.Shape[t.Dim()-ranks[i]:]
		u, err := t.Expand(slices.Concat(batch, core)...)
		if err != nil {
			return nil, opdef.Refuse("", "%v", err)
		}
		data[i] = tensor.Data[T](u)
		dims[i] = [2]int{1, 1}
		if copy(dims[i][:], core); len(core) > 2 {
			dims[i] = [2]int{tensor.Numel(core), 1}
		}
	}
	n := tensor.Numel(batch)
	res := make([][]T, len(outs))
	sizes := make([]int, len(outs))
	for k, o := range outs {
		sizes[k] = tensor.Numel(o.shape)
		res[k] = tensor.Make[T](n * sizes[k])
	}
	tensor.Parallel(n, 1, func(lo, hi int) {
		for b := lo; b < hi; b++ {
			in := make(matrices[T], len(ins))
			for i, d := range dims {
				size := d[0] * d[1]
				in[i] = kernel.Mat[T]{R: d[0], C: d[1], D: data[i][b*size : (b+1)*size]}
			}
			got := f(in)
			for k := range outs {
				copy(res[k][b*sizes[k]:(b+1)*sizes[k]], got[k].D)
			}
		}
	})
	ts = make([]*tensor.Tensor, len(outs))
	for k, o := range outs {
		t := tensor.New(kindOf[T](), slices.Concat(batch, o.shape), res[k])
		ts[k] = opdef.Cast(t, o.dt)
	}
	return ts, nil
}

// kindOf is the dtype of a compute type.
func kindOf[T kernel.Field]() tensor.DType {
	var z T
	if _, ok := any(z).(complex128); ok {
		return tensor.Complex128
	}
	return tensor.Float64
}

// A matrixDecl is the declaration of an op whose calls are matrixCalls.
type matrixDecl[A any] = opdef.Planned[*A, *matrixOpCall[A]]

// A matrixOpCall is a matrixCall with the arguments it was given.
type matrixOpCall[A any] struct {
	*matrixCall
	given *A
}

// matrixOp completes the declaration of an op whose calls are matrixCalls.
func matrixOp[A any](op matrixDecl[A], plan func(a *A) (*matrixCall, error)) *opdef.Entry {
	return completed(op, func(a *A) (*matrixOpCall[A], error) {
		m, err := plan(a)
		return &matrixOpCall[A]{m, a}, err
	})
}

// A factorDecl is the declaration of an op of which other results may be as right.
type factorDecl[A any] = opdef.Planned[*A, *factorCall[A]]

// A factorCall is a call of such an op.
type factorCall[A any] struct {
	*matrixOpCall[A]
	accept func(m *matrixOpCall[A], got, want []*tensor.Tensor) []opdef.Acceptance
}

// Accept decides on results whose product is that of the reference's.
func (f *factorCall[A]) Accept(got, want []*tensor.Tensor) []opdef.Acceptance {
	return f.accept(f.matrixOpCall, got, want)
}

// factorOp completes the declaration of an op whose calls are matrixCalls of which accept decides on other results.
func factorOp[A any](op factorDecl[A], accept func(m *matrixOpCall[A], got, want []*tensor.Tensor) []opdef.Acceptance,
	plan func(a *A) (*matrixCall, error)) *opdef.Entry {
	return completed(op, func(a *A) (*factorCall[A], error) {
		m, err := plan(a)
		return &factorCall[A]{&matrixOpCall[A]{m, a}, accept}, err
	})
}

// completed adds what all calls that matrixCalls stand behind have.
func completed[A any, P interface{ matrices() *matrixCall }](op opdef.Planned[*A, P],
	plan func(a *A) (P, error)) *opdef.Entry {
	op.Plan = plan
	op.Error = opdef.Error{Class: opdef.Normwise, ULPs: 8, Grad: &opdef.Error{Class: opdef.Normwise, ULPs: 8}}
	op.Kernel = func(p P) ([]*tensor.Tensor, error) { return p.matrices().forward() }
	if op.NoGrad == "" {
		op.Grad = func(p P, g *opdef.Grad) (opdef.Grads, error) { return p.matrices().grads(g) }
	}
	if op.NoGrad == "" && op.GradScale == nil {
		op.GradScale = func(p P, _ *opdef.Grad, grads opdef.Grads) (opdef.Grads, error) {
			k, s := p.matrices().gradCondition(), opdef.Grads{}
			for arg, ts := range grads {
				s[arg] = normwise(ts, k)
			}
			return s, nil
		}
	}
	if op.Scale == nil {
		op.Scale = func(p P, outs []*tensor.Tensor) []*tensor.Tensor {
			return normwise(outs, p.matrices().condition())
		}
	}
	op.Terms = func(p P) int {
		first := p.matrices().ins[0].Shape
		return elements.LengthOf(first, len(first)-1)
	}
	return op.Entry()
}

// matrices is the call itself.
func (m *matrixCall) matrices() *matrixCall { return m }

// normwise are tensors of k times the largest magnitude of each of ts.
func normwise(ts []*tensor.Tensor, k float64) []*tensor.Tensor {
	s := make([]*tensor.Tensor, len(ts))
	for i, t := range ts {
		if t != nil {
			s[i] = tensor.Full(tensor.Float64, t.Shape, k*opdef.MaxAbs(t))
		}
	}
	return s
}

// condition is the condition of the first input, or amplify: what factors into
// errors.
func (m *matrixCall) condition() float64 {
	worst := math.Max(m.amplify, 1)
	if !m.cond || m.ranks[0] != 2 {
		return worst
	}
	return math.Max(worst, worstCondition(m.ins[0]))
}

// gradCondition is condition for gradients.
func (m *matrixCall) gradCondition() float64 {
	k := m.condition()
	if m.gap != nil {
		k = math.Max(k, worstOfBatch(m.ins[0], func(a kernel.Mat[complex128]) float64 { return 1 / m.gap(a) }))
	}
	return k
}

// worstCondition is the largest ratio of the largest to the smallest singular
// value over a batch.
func worstCondition(t *tensor.Tensor) float64 {
	return worstOfBatch(t, func(a kernel.Mat[complex128]) float64 {
		s := kernel.SingularValues(a)
		return s[0] / s[len(s)-1]
	})
}

// worstOfBatch is the largest of the numbers by which errors of the matrices of
// a batch grow, at least 1 and at most 1e6: beyond that float32 has no digits
// left.
func worstOfBatch(t *tensor.Tensor, growth func(kernel.Mat[complex128]) float64) float64 {
	k := 1.0
	r, c := lastTwo(t)
	data := tensor.Data[complex128](t)
	for i := 0; r*c > 0 && i < len(data); i += r * c {
		g := growth(kernel.Mat[complex128]{R: r, C: c, D: data[i : i+r*c]})
		if !(g < 1e6) {
			return 1e6
		}
		k = math.Max(k, g)
	}
	return k
}

// matrixArg checks that t is a batch of matrices of a dtype LAPACK has.
func matrixArg(arg string, t *tensor.Tensor, square bool) error {
	n := t.Dim()
	switch {
	case n < 2:
		return opdef.Refuse(arg, "want at least 2 dimensions, got shape %s", tensor.ShapeString(t.Shape))
	case t.DType.Kind() < tensor.KindFloat || t.DType.Real().IsReduced():
		return opdef.Refuse(arg, "not defined for dtype %s", t.DType)
	case square && t.Shape[n-1] != t.Shape[n-2]:
		return opdef.Refuse(arg, "want square matrices, got shape %s", tensor.ShapeString(t.Shape))
	}
	return nil
}

// sameDType checks that a further argument has the dtype of the first.
func sameDType(arg string, t, first *tensor.Tensor) error {
	if t.DType != first.DType {
		return opdef.Refuse(arg, "want dtype %s as of the first argument, got %s", first.DType, t.DType)
	}
	return nil
}

// lastTwo are the sizes of the matrices of a batch.
func lastTwo(t *tensor.Tensor) (rows, cols int) {
	return t.Shape[t.Dim()-2], t.Shape[t.Dim()-1]
}

// column is a column matrix of real numbers.
func column[T kernel.Field](v []float64) kernel.Mat[T] {
	m := kernel.Zeros[T](len(v), 1)
	for i, x := range v {
		m.D[i] = kernel.From[T](x)
	}
	return m
}
