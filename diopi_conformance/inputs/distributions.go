package inputs

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// draw returns an array of the distribution: numbers are drawn as float64 and
// converted once, as numpy's astype does.
func (d distribution) draw(g *generator, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	if !dt.Computable() {
		return nil, fmt.Errorf("no dtype is given")
	}
	n := tensor.Numel(shape)
	if d.name == "sym_mat" {
		return symmetric(g, dt, shape)
	}
	if d.name == "randn_complx" && dt.IsComplex() {
		c := make([]complex128, n)
		for i := range c {
			c[i] = complex(g.NormFloat64(), g.NormFloat64())
		}
		return tensor.New(dt, shape, c).Rounded(), nil
	}
	v := make([]float64, n)
	if err := d.fill(g, dt, v); err != nil {
		return nil, err
	}
	if d.sparse {
		for i := range v {
			if g.Float64() >= d.density {
				v[i] = 0
			}
		}
	}
	return astype(v, dt, shape), nil
}

// fill draws the numbers of an array.
func (d distribution) fill(g *generator, dt tensor.DType, v []float64) error {
	switch d.name {
	case "rand":
		fill(v, g.Float64)
	case "randn":
		fill(v, g.NormFloat64)
	case "randn_complx":
		fill(v, func() float64 {
			x := g.NormFloat64()
			g.NormFloat64() // the imaginary part
			return x
		})
	case "uniform":
		fill(v, func() float64 { return d.low + (d.high-d.low)*g.Float64() })
	case "randint":
		return d.integers(g, dt, v)
	case "randn_int":
		if dt == tensor.Int32 || dt == tensor.Uint32 {
			return d.integers(g, dt, v)
		}
		fill(v, g.NormFloat64)
	case "mask":
		fill(v, func() float64 { return float64(g.IntN(2)) })
	case "positive":
		fill(v, func() float64 { return math.Abs(g.NormFloat64()) })
	case "ones":
		fill(v, func() float64 { return 1 })
	case "zeros", "empty":
	default:
		return fmt.Errorf("gen_fn %q is not known", d.name)
	}
	return nil
}

func fill(v []float64, f func() float64) {
	for i := range v {
		v[i] = f()
	}
}

// integers draws from [low, high); uint8 has no negative ones.
func (d distribution) integers(g *generator, dt tensor.DType, v []float64) error {
	low := d.low
	if dt == tensor.Uint8 {
		low = 0
	}
	span := int64(d.high) - int64(low)
	if span <= 0 {
		return fmt.Errorf("gen_fn randint: high %v is not above low %v", d.high, low)
	}
	fill(v, func() float64 { return float64(int64(low) + g.Int64N(span)) })
	return nil
}

// astype is numpy's conversion of float64: towards zero for integers, which
// wrap; bool is what is not zero.
func astype(v []float64, dt tensor.DType, shape []int) *tensor.Tensor {
	if dt.IsFloat() || dt.IsComplex() {
		if dt.IsComplex() {
			c := make([]complex128, len(v))
			for i, x := range v {
				c[i] = complex(x, 0)
			}
			return tensor.New(dt, shape, c).Rounded()
		}
		return tensor.New(dt, shape, v).Rounded()
	}
	n := make([]int64, len(v))
	for i, x := range v {
		switch {
		case dt != tensor.Bool:
			n[i] = tensor.WrapInt(dt, tensor.FloatToInt(x))
		case x != 0:
			n[i] = 1
		}
	}
	return tensor.New(dt, shape, n).Rounded()
}

// symmetric returns A A^T + 1e-3 for matrices A of normal numbers in the last
// two dimensions of shape; the result is square, with as many columns as A has
// rows.
func symmetric(g *generator, dt tensor.DType, shape []int) (*tensor.Tensor, error) {
	last := len(shape) - 1
	if last < 1 {
		return nil, fmt.Errorf("gen_fn sym_mat: want matrices, got shape %s", tensor.ShapeString(shape))
	}
	n, inner := shape[last-1], shape[last]
	square := append(slices.Clone(shape[:last]), n)
	v := make([]float64, tensor.Numel(square))
	a := make([]float64, n*inner)
	for at := 0; at < len(v); at += n * n {
		for i := range a {
			a[i] = dt.Round(g.NormFloat64())
		}
		for i := range n {
			for j := range n {
				s := 0.0
				for k := range inner {
					s += a[i*inner+k] * a[j*inner+k]
				}
				v[at+i*n+j] = s + 1e-3
			}
		}
	}
	return astype(v, dt, square), nil
}

// fromValue is numpy's array of nested lists of numbers.
func fromValue(v value.Value, dt tensor.DType) (*tensor.Tensor, error) {
	if !dt.Computable() {
		return nil, fmt.Errorf("no dtype is given")
	}
	var shape []int
	for w := v; ; {
		s, ok := w.(*value.Sequence)
		if !ok {
			break
		}
		shape = append(shape, len(s.Items))
		if len(s.Items) == 0 {
			break
		}
		w = s.Items[0]
	}
	var data []float64
	var collect func(v value.Value, depth int) error
	collect = func(v value.Value, depth int) error {
		s, ok := v.(*value.Sequence)
		if ok != (depth < len(shape)) || ok && len(s.Items) != shape[depth] {
			return fmt.Errorf("value %s has no rectangular shape", value.Repr(v))
		}
		if !ok {
			x, isNumber := number(v)
			if b, isBool := v.(bool); isBool {
				isNumber = true
				if b {
					x = 1
				}
			}
			if !isNumber {
				return fmt.Errorf("value %s is not a number", value.Repr(v))
			}
			data = append(data, x)
			return nil
		}
		for _, it := range s.Items {
			if err := collect(it, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := collect(v, 0); err != nil {
		return nil, err
	}
	x := astype(data, dt, shape)
	x.Device = "numpy"
	return x, nil
}
