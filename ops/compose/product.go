package compose

import (
	"slices"

	"github.com/optool/optool/ops/internal/kernel"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// Matmul is the product of the last two dimensions of x [..., n, k] and
// y [..., k, m], whose others are broadcast.
func (g *Graph) Matmul(x, y *Value) *Value {
	if x.Dim() < 2 || y.Dim() < 2 {
		g.Refuse("", "want matrices, got shapes %s and %s", tensor.ShapeString(x.Shape()),
			tensor.ShapeString(y.Shape()))
	}
	k := x.Shape()[x.Dim()-1]
	if k != y.Shape()[y.Dim()-2] {
		g.Refuse("", "shapes %s and %s do not match", tensor.ShapeString(x.Shape()), tensor.ShapeString(y.Shape()))
	}
	dt, ts, err := opdef.Common(x.T, y.T)
	g.Check(err)
	batch, err := tensor.Broadcast(x.Shape()[:x.Dim()-2], y.Shape()[:y.Dim()-2])
	g.Check(err)
	product := func(dt tensor.DType, a, b *tensor.Tensor) *tensor.Tensor {
		switch dt.Kind() {
		case tensor.KindComplex:
			return matmul[complex128](dt, batch, a, b)
		case tensor.KindFloat:
			return matmul[float64](dt, batch, a, b)
		}
		return matmul[int64](dt, batch, a, b)
	}
	t := product(dt, ts[0], ts[1])
	f64 := tensor.Float64
	return g.value(t, func(t *tensor.Tensor) *tensor.Tensor {
		e := g.summing(t, product(f64, opdef.Abs(ts[0]), opdef.Abs(ts[1])), k)
		if x.errors != nil {
			e = plus(e, product(f64, x.bound(), g.magnitude(ts[1])))
		}
		if y.errors != nil {
			e = plus(e, product(f64, g.magnitude(ts[0]), y.bound()))
		}
		return e
	}, func(up *Value) []*Value {
		var gx, gy *Value
		if x.needs {
			gx = g.productWith(up, y, func(y *Value) *Value { return g.Matmul(up, y) })
		}
		if y.needs {
			gy = g.productWith(up, x, func(x *Value) *Value { return g.Matmul(x, up) })
		}
		return []*Value{gx, gy}
	}, x, y)
}

// productWith is the product of a gradient and an operand that is transposed, or not if the graph does that instead.
func (g *Graph) productWith(up, x *Value, product func(x *Value) *Value) *Value {
	sound := func() *Value { return product(g.H(x)) }
	n := x.Dim()
	if !g.deriving || x.Shape()[n-1] != x.Shape()[n-2] {
		return sound()
	}
	return g.varied("matrix product", func() []option {
		return []option{{text: "in the %[3]s, %[2]s is not transposed",
			of: func(*Graph, []*Value) *Value { return product(x) }}}
	}, up.Shape(), up.DType(), []*Value{up, x}, sound)
}

// matmul multiplies the matrices of a and b, batch by batch.
func matmul[T tensor.Elem](dt tensor.DType, batch []int, a, b *tensor.Tensor) *tensor.Tensor {
	n, k, m := a.Shape[a.Dim()-2], a.Shape[a.Dim()-1], b.Shape[b.Dim()-1]
	shape := append(slices.Clone(batch), n, m)
	out := tensor.Make[T](tensor.Numel(shape))
	x, y := tensor.Data[T](a), tensor.Data[T](b)
	xs, ys := matrixIndex(batch, a.Shape[:a.Dim()-2]), matrixIndex(batch, b.Shape[:b.Dim()-2])
	for i := range tensor.Numel(batch) {
		kernel.Gemm(kernel.Dense(n, k, x[xs(i)*n*k:][:n*k]), kernel.Dense(k, m, y[ys(i)*k*m:][:k*m]), 0,
			kernel.Dense(n, m, out[i*n*m:][:n*m]))
	}
	return tensor.New(dt, shape, out)
}

// matrixIndex says which matrix of an operand of batch shape own takes part in
// each product of a batch.
func matrixIndex(batch, own []int) func(i int) int {
	stride := make([]int, len(batch))
	step, lead := 1, len(batch)-len(own)
	for d := len(own) - 1; d >= 0; d-- {
		if own[d] != 1 {
			stride[lead+d] = step
		}
		step *= own[d]
	}
	return func(i int) int {
		at := 0
		for d := len(batch) - 1; d >= 0; d-- {
			at += i % batch[d] * stride[d]
			i /= batch[d]
		}
		return at
	}
}

// Addmm is bias + x*y of matrices, bias broadcast, as one primitive.
func (g *Graph) Addmm(bias, x, y *Value) *Value {
	return g.AsOne(func(in []*Value) *Value { return g.Add(in[0], g.Matmul(in[1], in[2])) }, bias, x, y)
}

// Linear is x [..., k] times the transpose of weight [m, k], plus bias [m] if it
// is not nil.
func (g *Graph) Linear(x, weight, bias *Value) *Value {
	if x.Dim() == 0 || weight.Dim() != 2 {
		g.Refuse("weight", "want a matrix, got shape %s", tensor.ShapeString(weight.Shape()))
	}
	shape := x.Shape()
	rows := g.Reshape(x, tensor.Numel(shape[:len(shape)-1]), shape[len(shape)-1])
	columns := g.Transpose(weight, 0, 1)
	var out *Value
	if bias == nil {
		out = g.Matmul(rows, columns)
	} else {
		out = g.Addmm(bias, rows, columns)
	}
	return g.Reshape(out, append(slices.Clone(shape[:len(shape)-1]), weight.Shape()[0])...)
}
